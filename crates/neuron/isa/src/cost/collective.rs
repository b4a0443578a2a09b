//! What collectives cost on the links of an instance (docs/hardware-rules.md#collectives and
//! #what-is-assumed).
//!
//! Documented: time is steps times the latency of a step, plus bytes over the rate of the links; up to 1 MB
//! messages may go straight to every rank (mesh), up to 56 MB pairs may exchange halves (recursive doubling
//! and halving), and any size may go round a ring. Assumed, since no page says it: of those that a size
//! allows the fastest is taken, so that more bytes never take less; the ring follows the torus and uses one
//! link of a device each way; steps do not overlap; what each phase takes to start (`collectives.fixed_ns`,
//! `collectives.device_start_ns`).
//!
//! Cores of one device exchange through HBM, without links: the DMA engines of a core, its share of HBM and
//! its CC-cores (`collectives.rank_bytes_per_s`, calibrated on published runs) bound every rank, and a step
//! takes as long as a semaphore through a transfer. Sums take
//! `dma.accumulate_factor` as long.

use crate::Chip;
use crate::chip::{bytes_ps, hbm_ps, ns_ps};
use crate::network::Network;
use crate::program::InstructionCost;
use tilewright_base::invariant::Exact;

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CollectiveKind {
    /// Everyone has the combination of all.
    AllReduce,
    /// Everyone has what all gave.
    AllGather,
    /// Everyone has a part of the combination.
    ReduceScatter,
    /// Everyone gives each a part.
    AllToAll,
    /// One message from neighbour to neighbour.
    Permute,
}

impl CollectiveKind {
    /// Its name in kernels.
    pub const fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllReduce => "all_reduce",
            CollectiveKind::AllGather => "all_gather",
            CollectiveKind::ReduceScatter => "reduce_scatter",
            CollectiveKind::AllToAll => "all_to_all",
            CollectiveKind::Permute => "collective_permute",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<CollectiveKind> {
        [
            CollectiveKind::AllReduce,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::AllToAll,
            CollectiveKind::Permute,
        ]
        .into_iter()
        .find(|kind| kind.name() == name)
    }
}

/// A collective whose cost is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CollectiveRequest {
    /// Which way messages go.
    pub kind: CollectiveKind,
    /// The ranks, in the order of the group.
    pub ranks: Vec<u32>,
    /// From whom to whom, if it is a permutation.
    pub pairs: Vec<(u32, u32)>,
    /// Bytes that all ranks together contribute to, or that one message of a permutation has.
    pub bytes: u64,
}

/// What it costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectiveCost {
    /// Time of the data and of the steps.
    pub cost: InstructionCost,
    /// Links that it uses, and how long it keeps each of them.
    pub links: Vec<(u32, u64)>,
}

/// Messages that go at the same time.
struct CollectiveStep {
    /// From whom to whom, and bytes.
    messages: Vec<(u32, u32, u64)>,
    /// Receivers combine what comes with what they have.
    reduces: bool,
    /// How often it is repeated.
    times: u64,
}

/// What a collective costs on a network.
pub fn collective_cost(chip: &Chip, network: &Network, request: CollectiveRequest) -> CollectiveCost {
    network.cached_cost(request, |request| {
        let algorithms = algorithms(chip, network, request);
        let starts_ps = starts_ps(chip, network, request);
        let costs = algorithms.iter().map(|steps| sum_steps(chip, network, steps, starts_ps));
        costs
            .min_by_key(|one| one.cost.busy_ps.exact_add(one.cost.latency_ps))
            .unwrap_or_else(|| sum_steps(chip, network, &[], starts_ps))
    })
}

/// What the phases of a collective take to start, whatever they move.
fn starts_ps(chip: &Chip, network: &Network, request: &CollectiveRequest) -> u64 {
    let figures = &chip.neuron.collectives;
    let mut devices = request.ranks.iter().map(|&rank| network.device(rank));
    let first = devices.next();
    let leaves = devices.any(|device| Some(device) != first);
    let start_ns = figures.fixed_ns.exact_add(if leaves { figures.device_start_ns } else { 0 });
    let phases = if request.kind == CollectiveKind::AllReduce { 2 } else { 1 };
    ns_ps(start_ns.exact_mul(phases))
}

/// The algorithms that a collective of this size may take.
fn algorithms(chip: &Chip, network: &Network, request: &CollectiveRequest) -> Vec<Vec<CollectiveStep>> {
    let figures = &chip.neuron.collectives;
    let mut ranks = request.ranks.clone();
    ranks.sort_by_key(|&rank| (network.place_on_ring(network.device(rank)), rank));
    ranks.dedup();
    if ranks.len() < 2 {
        return Vec::new();
    }
    let part = request.bytes.div_ceil(ranks.len() as u64);
    if request.kind == CollectiveKind::Permute {
        let messages = request.pairs.iter().map(|&(from, to)| (from, to, request.bytes)).collect();
        return vec![vec![CollectiveStep { messages, reduces: false, times: 1 }]];
    }
    if request.kind == CollectiveKind::AllToAll {
        return vec![vec![mesh(&ranks, part, false)]];
    }
    let mut found = vec![phases(request.kind, |reduces| vec![ring(&ranks, part, reduces)])];
    if request.bytes <= figures.doubling_max_bytes && ranks.len().is_power_of_two() {
        found.push(phases(request.kind, |reduces| doubling(&ranks, part, reduces)));
    }
    if request.bytes <= figures.mesh_max_bytes {
        found.push(phases(request.kind, |reduces| vec![mesh(&ranks, part, reduces)]));
    }
    found
}

/// An all-reduce scatters sums, then gathers them.
fn phases(kind: CollectiveKind, steps: impl Fn(bool) -> Vec<CollectiveStep>) -> Vec<CollectiveStep> {
    match kind {
        CollectiveKind::ReduceScatter => steps(true),
        CollectiveKind::AllReduce => steps(true).into_iter().chain(steps(false)).collect(),
        CollectiveKind::AllGather | CollectiveKind::AllToAll | CollectiveKind::Permute => steps(false),
    }
}

/// Everyone sends a part to everyone else.
fn mesh(ranks: &[u32], part: u64, reduces: bool) -> CollectiveStep {
    let pairs = ranks.iter().flat_map(|&from| ranks.iter().map(move |&to| (from, to)));
    let messages = pairs.filter(|(from, to)| from != to).map(|(from, to)| (from, to, part)).collect();
    CollectiveStep { messages, reduces, times: 1 }
}

/// Everyone sends a part to the next, until every part has been everywhere.
fn ring(ranks: &[u32], part: u64, reduces: bool) -> CollectiveStep {
    let next = ranks.iter().cycle().skip(1);
    let messages = ranks.iter().zip(next).map(|(&from, &to)| (from, to, part)).collect();
    CollectiveStep { messages, reduces, times: ranks.len() as u64 - 1 }
}

/// Pairs that are twice as far apart from step to step exchange what they have; for sums the other way round.
fn doubling(ranks: &[u32], part: u64, reduces: bool) -> Vec<CollectiveStep> {
    let mut steps: Vec<CollectiveStep> = (0..ranks.len().ilog2())
        .map(|step| {
            let messages = ranks.iter().enumerate().filter_map(|(at, &from)| {
                let to = *ranks.get(at ^ (1 << step))?;
                Some((from, to, part.exact_mul(1 << step)))
            });
            CollectiveStep { messages: messages.collect(), reduces, times: 1 }
        })
        .collect();
    if reduces {
        steps.reverse();
    }
    steps
}

/// Steps one after the other.
fn sum_steps(chip: &Chip, network: &Network, steps: &[CollectiveStep], starts_ps: u64) -> CollectiveCost {
    let mut links: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
    let (mut busy_ps, mut latency_ps) = (0_u64, starts_ps);
    for step in steps {
        let once = step_cost(chip, network, step);
        busy_ps = busy_ps.exact_add(once.cost.busy_ps.exact_mul(step.times));
        latency_ps = latency_ps.exact_add(once.cost.latency_ps.exact_mul(step.times));
        for (link, busy_ps) in once.links {
            let sum = links.entry(link).or_default();
            *sum = sum.exact_add(busy_ps.exact_mul(step.times));
        }
    }
    CollectiveCost { cost: InstructionCost { busy_ps, latency_ps }, links: links.into_iter().collect() }
}

/// The busiest link or rank, and the longest way.
fn step_cost(chip: &Chip, network: &Network, step: &CollectiveStep) -> CollectiveCost {
    let mut loads: std::collections::BTreeMap<u32, (u64, u64)> = std::collections::BTreeMap::new();
    let mut ends: std::collections::BTreeMap<u32, (u64, u64)> = std::collections::BTreeMap::new();
    let mut latency_ns = 0;
    for &(from, to, bytes) in &step.messages {
        let route = network.route(network.device(from), network.device(to));
        let hops_ns: u64 = route.iter().map(|hop| hop.latency_ns).sum();
        let step_ns = if route.is_empty() { chip.neuron.sync.dma_round_trip_ns } else { hops_ns };
        latency_ns = latency_ns.max(step_ns);
        for hop in route {
            let load = loads.entry(hop.link).or_insert((0, hop.bytes_per_s));
            load.0 = load.0.exact_add(bytes);
        }
        let sent = &mut ends.entry(from).or_default().0;
        *sent = sent.exact_add(bytes);
        let received = &mut ends.entry(to).or_default().1;
        *received = received.exact_add(bytes);
    }
    let links: Vec<(u32, u64)> =
        loads.into_iter().map(|(link, (bytes, rate))| (link, bytes_ps(bytes, rate))).collect();
    let ranks = ends.into_values().map(|(sent, received)| local_ps(chip, sent, received, step.reduces));
    let busy_ps = links.iter().map(|&(_, busy_ps)| busy_ps).chain(ranks).max().unwrap_or(0);
    CollectiveCost { cost: InstructionCost { busy_ps, latency_ps: ns_ps(latency_ns) }, links }
}

/// Time of a core's DMA engines and of its share of HBM for what its rank sends and receives.
fn local_ps(chip: &Chip, sent: u64, received: u64, reduces: bool) -> u64 {
    let (dma, hbm) = (&chip.neuron.dma, &chip.neuron.hbm);
    let rate = dma.engines_per_core.exact_mul(dma.achieved_bytes_per_s);
    let combined = if reduces { received.exact_mul(dma.accumulate_factor) } else { received };
    let engines_ps = bytes_ps(sent.max(combined), rate);
    // A sum is read before it is written.
    let touched = sent.exact_add(if reduces { received.exact_mul(2) } else { received });
    let stacks_ps = hbm_ps(chip, touched);
    let share = chip.neuron.chip.cores.div_ceil(hbm.stacks.max(1)).max(1);
    let streams_ps = bytes_ps(sent.max(received), chip.neuron.collectives.rank_bytes_per_s);
    engines_ps.max(stacks_ps.exact_mul(share)).max(streams_ps)
}
