//! Collectives on instances: bounds that hold for every size and placement, and ranks that meet in time.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use crate::chips;

use std::sync::Arc;

use chips::chip;
use proptest::prelude::*;
use tilewright_neuron_exec::engine::collective::{RankGroup, ReceivedChunk, collective};
use tilewright_neuron_exec::engine::vector;
use tilewright_neuron_exec::{Storage, Tile};
use tilewright_neuron_isa::cost::collective::{CollectiveKind, CollectiveRequest, collective_cost};
use tilewright_neuron_isa::network::Network;
use tilewright_neuron_isa::{Chip, MemorySpace, NeuronProgram, TensorDecl, TensorView};
use tilewright_neuron_sim::schedule::{schedule, schedule_ranks};
use tilewright_num::Dtype;

/// Chips with an instance and its ranks.
const PLACES: &[(&str, &str, u32)] = &[
    ("inferentia2", "inf2.48xlarge", 24),
    ("trainium1", "trn1.32xlarge", 32),
    ("trainium2", "trn2.48xlarge", 128),
    ("trainium3", "trn3-ultraserver-gen1", 512),
];

const KINDS: &[CollectiveKind] = &[
    CollectiveKind::AllReduce,
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllToAll,
    CollectiveKind::Permute,
];

fn network(place: usize) -> (Chip, Network, u32) {
    let (name, instance, ranks) = PLACES[place];
    let chip = chip(name);
    let network = Network::new(&chip, Some(instance), u64::from(ranks), 1).unwrap();
    (chip, network, ranks)
}

fn total_ps(
    chip: &Chip,
    network: &Network,
    kind: CollectiveKind,
    ranks: &[u32],
    pairs: &[(u32, u32)],
    bytes: u64,
) -> u64 {
    let question = CollectiveRequest { kind, ranks: ranks.to_vec(), pairs: pairs.to_vec(), bytes };
    let cost = collective_cost(chip, network, question).cost;
    cost.busy_ps + cost.latency_ps
}

/// Sizes on all sides of where algorithms change.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![1..100_000_u64, 900_000..1_100_000_u64, 50_000_000..60_000_000_u64, 1..1_000_000_000_u64]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn more_bytes_are_never_faster(
        place in 0..4_usize, kind in 0..5_usize, few in 2..24_u32, bytes in sizes(), more in sizes()
    ) {
        let (chip, network, _) = network(place);
        let ranks: Vec<u32> = (0..few).collect();
        let pairs = [(0, few - 1), (1, 0)];
        let time = |bytes| total_ps(&chip, &network, KINDS[kind], &ranks, &pairs, bytes);
        prop_assert!(time(bytes + more) >= time(bytes));
    }

    #[test]
    fn a_farther_device_is_never_faster(
        place in 0..4_usize,
        a in 1..512_u32,
        b in 1..512_u32,
        bytes in sizes(),
    ) {
        let (chip, network, ranks) = network(place);
        let (a, b) = (a % ranks, b % ranks);
        let hops = |to| network.route(network.device(0), network.device(to)).len();
        let (near, far) = if hops(a) <= hops(b) { (a, b) } else { (b, a) };
        let time = |to| total_ps(&chip, &network, CollectiveKind::Permute, &[0, to], &[(0, to)], bytes);
        prop_assume!(near > 0);
        prop_assert!(time(far) >= time(near), "{far} and {near}");
    }

    #[test]
    fn an_all_reduce_takes_what_its_links_need(place in 0..3_usize, devices in 2..12_u64, bytes in sizes()) {
        let (chip, network, all) = network(place);
        let cores = chip.neuron.chip.cores;
        let ranks: Vec<u32> = (0..all).filter(|&rank| network.device(rank) < devices).collect();
        let count = ranks.len() as u64;
        prop_assert_eq!(count, devices * cores);
        let time = total_ps(&chip, &network, CollectiveKind::AllReduce, &ranks, &[], bytes);
        let rate = u128::from(network.instance.link_bytes_per_s);
        let ps = |bytes: u128, rate: u128| u64::try_from(bytes * 1_000_000_000_000 / rate).unwrap();
        // However it is done, a device sends all but its own part of the sums, and its sums to the others.
        let outside = u128::from(bytes) * u128::from(devices - 1) / u128::from(devices);
        let links = if place == 0 { 2 } else { 4 };
        prop_assert!(time >= ps(2 * outside, rate * links), "links of a device");
        if bytes > chip.neuron.collectives.doubling_max_bytes {
            let around = 2 * u128::from(bytes) * u128::from(count - 1) / u128::from(count);
            prop_assert!(time >= ps(around, rate), "one link of the ring");
            prop_assert!(time >= 2 * (count - 1) * chip.neuron.sync.dma_round_trip_ns * 1000, "steps of the \
                ring");
        }
    }
}

#[test]
fn pairs_that_share_a_link_share_its_rate() {
    let (chip, network, _) = network(0);
    let bytes = 100_000_000;
    let cost = |pairs: &[(u32, u32)]| {
        let ranks: Vec<u32> = (0..24).collect();
        let question =
            CollectiveRequest { kind: CollectiveKind::Permute, ranks, pairs: pairs.to_vec(), bytes };
        collective_cost(&chip, &network, question)
    };
    // Two cores to a device: 0 and 1 send over the same link, 0 and 2 over links of their own.
    let (alone, shared) = (cost(&[(0, 2)]), cost(&[(0, 2), (1, 3)]));
    let (&[(_, once)], &[(_, twice)]) = (&alone.links[..], &shared.links[..]) else {
        panic!("one link each")
    };
    assert!(twice.abs_diff(2 * once) <= 1, "twice, but for rounding");
    // Alone a rank sends no faster than its CC-cores do; two of them are bound by the link.
    assert_eq!(shared.cost.busy_ps, twice);
    assert!(once < alone.cost.busy_ps && alone.cost.busy_ps < twice);
    assert_eq!(cost(&[(0, 2), (2, 4)]).cost.busy_ps, alone.cost.busy_ps);
}

#[test]
fn cores_of_one_device_need_no_link() {
    let (chip, network, _) = network(1);
    let answer = |ranks: Vec<u32>| {
        collective_cost(
            &chip,
            &network,
            CollectiveRequest { kind: CollectiveKind::AllReduce, ranks, pairs: Vec::new(), bytes: 1 << 20 },
        )
    };
    assert!(answer(vec![0, 1]).links.is_empty());
    assert!(!answer(vec![0, 2]).links.is_empty());
    let time_ps = |ranks: Vec<u32>| {
        let cost = answer(ranks).cost;
        cost.busy_ps + cost.latency_ps
    };
    assert!(time_ps(vec![0, 2]) > time_ps(vec![0, 1]));
}

fn tensor(id: u32, memory: MemorySpace) -> Tile {
    let shape = vec![128, 64];
    let view = TensorView::whole(&shape, Dtype::F32, 0);
    let request =
        TensorDecl { id, memory, dtype: Dtype::F32, shape, blocks: 0, name: String::new(), source: 0 };
    Tile { storage: Arc::new(Storage::without_values(request).unwrap()), view }
}

/// Copies of a tile, an all-reduce of it, and so on; `work` is how many copies come before each.
fn program(chip: &Chip, network: &Network, ranks: &[u32], work: &[usize]) -> NeuronProgram {
    let tiles: Vec<Tile> = (0..3).map(|id| tensor(id, MemorySpace::Sbuf)).collect();
    let group = RankGroup { network, ranks, pairs: &[] };
    let mut instructions = Vec::new();
    for (number, &copies) in (0_u32..).zip(work) {
        for _ in 0..copies {
            instructions.push(vector::tensor_copy(chip, &tiles[1], &tiles[0], None).unwrap());
            instructions.push(vector::tensor_copy(chip, &tiles[0], &tiles[1], None).unwrap());
        }
        let part = ReceivedChunk { dst: tiles[2].clone(), sources: Vec::new() };
        let mut done =
            collective(chip, CollectiveKind::AllReduce, &group, &tiles[..1], &[part], None).unwrap();
        done.collective.as_mut().unwrap().number = number;
        instructions.push(done);
    }
    let allocations = tiles.iter().map(chips::allocation).collect();
    NeuronProgram { instructions, allocations, sources: vec!["?".to_owned()], ..NeuronProgram::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn ranks_meet_when_the_last_one_comes(
        work in prop::collection::vec(prop::collection::vec(0..20_usize, 3), 2..5),
    ) {
        let chip = chip("trainium1");
        let ranks: Vec<u32> = (0_u32..).take(work.len()).collect();
        let network = Network::new(&chip, Some("trn1.32xlarge"), ranks.len() as u64, 1).unwrap();
        let mut programs: Vec<NeuronProgram> =
            work.iter().map(|work| program(&chip, &network, &ranks, work)).collect();
        let alone: Vec<u64> = programs.iter().map(|program| schedule(&chip, program).total_ps).collect();
        schedule_ranks(&chip, &mut programs);
        let met: Vec<Vec<(u64, u64)>> = programs
            .iter()
            .map(|program| {
                let spans = schedule(&chip, program).spans;
                let of = program.instructions.iter().zip(spans);
                of.filter(|(one, _)| one.collective.is_some()).map(|(_, span)| (span.start_ps, span.done_ps))
                    .collect()
            })
            .collect();
        for one in &met {
            prop_assert_eq!(one, &met[0], "all begin and end together");
        }
        for (program, alone) in programs.iter().zip(alone) {
            prop_assert!(schedule(&chip, program).total_ps >= alone, "waiting saves nothing");
        }
        // Each rank's own work bounds when it can come.
        let copy_ps = programs[0].instructions.iter().find(|one| one.collective.is_none())
            .map_or(0, |one| one.cost.busy_ps);
        let most = work.iter().map(|work| work[0]).max().unwrap_or(0) as u64;
        prop_assert!(met[0][0].0 >= 2 * most * copy_ps);
    }
}

#[test]
fn collectives_of_one_core_are_as_many_at_once_as_it_has_cc_cores() {
    let chip = chip("trainium2");
    let network = Network::new(&chip, None, 2, 1).unwrap();
    let ranks = [0, 1];
    let tiles: Vec<Tile> = (0..8).map(|id| tensor(id, MemorySpace::Hbm)).collect();
    let group = RankGroup { network: &network, ranks: &ranks, pairs: &[] };
    let instructions = (0..4).map(|at| {
        let part = ReceivedChunk { dst: tiles[at + 4].clone(), sources: Vec::new() };
        let mut done =
            collective(&chip, CollectiveKind::AllReduce, &group, &tiles[at..=at], &[part], None).unwrap();
        done.collective.as_mut().unwrap().number = u32::try_from(at).unwrap();
        done
    });
    let allocations = tiles.iter().map(chips::allocation).collect();
    let sources = vec!["?".to_owned()];
    let one = NeuronProgram {
        instructions: instructions.collect(),
        allocations,
        sources,
        ..NeuronProgram::default()
    };
    let mut programs = [one.clone(), one];
    schedule_ranks(&chip, &mut programs);
    let spans = schedule(&chip, &programs[0]).spans;
    assert_eq!((spans[0].start_ps, spans[1].start_ps), (0, 0), "two at once");
    assert_eq!(spans[2].start_ps, spans[0].done_ps, "the third behind the first");
    assert_eq!(spans[3].start_ps, spans[1].done_ps);
}
