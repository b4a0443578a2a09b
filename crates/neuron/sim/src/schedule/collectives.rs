//! Ranks side by side: a collective begins when the last of its ranks has come and its links are free, and
//! ends for all of them at once (docs/hardware-rules.md#collectives).
//!
//! The event loops of all ranks run in one order of time. What is found is written into the programs, so that
//! each of them can be read alone afterwards. Collectives that want the same link take turns, in the order in
//! which they begin.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::program::{Instruction, InstructionCost, NeuronProgram};

use super::dependences::{self, BufferReuse, DependenceEdges};
use super::event_loop::EventLoop;
use super::spill::{self, ScheduleNodes};
use super::tiles::TileTable;

/// A meeting: its core, its ranks, and how often they have met before.
type RendezvousKey = (u32, Vec<u32>, u32);

/// When meetings begin, and what they take.
pub type CollectiveStarts = BTreeMap<RendezvousKey, (u64, InstructionCost)>;

/// Who came to a meeting.
#[derive(Default)]
struct Rendezvous {
    /// Rank in the list of programs, node, and time.
    arrivals: Vec<(usize, u32, u64)>,
    cost: InstructionCost,
    links: Vec<(u32, u64)>,
}

/// When the collectives of programs begin, one program for each rank, in the order of ranks.
pub fn collective_starts(chip: &Chip, programs: &[&NeuronProgram]) -> CollectiveStarts {
    let parts: Vec<(TileTable, ScheduleNodes, DependenceEdges)> = programs
        .iter()
        .map(|program| {
            let tiles = TileTable::of(chip, program);
            let nodes = spill::nodes(chip, program, &tiles, true);
            let edges = dependences::edges(chip, program, &tiles, &nodes, BufferReuse::Waits);
            (tiles, nodes, edges)
        })
        .collect();
    let event_loops = programs.iter().zip(&parts).map(|(program, (tiles, nodes, edges))| {
        let mut event_loop = EventLoop::new(chip, program, tiles, nodes, edges, &|_, work| work);
        event_loop.arrivals = Some(Vec::new());
        event_loop.start(edges);
        event_loop
    });
    let mut simulation = RankSimulation {
        programs,
        event_loops: event_loops.collect(),
        agenda: BinaryHeap::new(),
        open: BTreeMap::new(),
        links: BTreeMap::new(),
        starts: CollectiveStarts::new(),
    };
    simulation.run();
    simulation.starts
}

/// Writes into programs, one for each rank, when their collectives begin and what they take.
pub fn schedule_ranks(chip: &Chip, programs: &mut [NeuronProgram]) {
    let starts = collective_starts(chip, &programs.iter().collect::<Vec<_>>());
    for program in programs {
        apply_collective_starts(program, &starts);
    }
}

/// Notes in a program when its collectives begin and what they take.
pub fn apply_collective_starts(program: &mut NeuronProgram, starts: &CollectiveStarts) {
    for instruction in &mut program.instructions {
        let Some(&(start_ps, cost)) = key(instruction).and_then(|key| starts.get(&key)) else { continue };
        instruction.cost = cost;
        if let Some(collective) = &mut instruction.collective {
            collective.start_ps = start_ps;
        }
    }
}

fn key(instruction: &Instruction) -> Option<RendezvousKey> {
    let collective = instruction.collective.as_ref().filter(|collective| collective.members.len() > 1)?;
    Some((instruction.program, collective.members.clone(), collective.number))
}

struct RankSimulation<'a> {
    programs: &'a [&'a NeuronProgram],
    event_loops: Vec<EventLoop<'a>>,
    /// When each machine goes on; some are out of date.
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
    open: BTreeMap<RendezvousKey, Rendezvous>,
    /// When links are free.
    links: BTreeMap<u32, u64>,
    starts: CollectiveStarts,
}

impl RankSimulation<'_> {
    fn run(&mut self) {
        for at in 0..self.event_loops.len() {
            self.enqueue(at);
        }
        loop {
            while let Some(Reverse((time_ps, at))) = self.agenda.pop() {
                if self.event_loops[at].next_ps() != Some(time_ps) {
                    continue;
                }
                self.event_loops[at].step();
                self.collect_arrivals(at);
                self.enqueue(at);
            }
            // Programs that were run together meet all; of others, those go on that came first.
            let first =
                self.open.iter().min_by_key(|(_, one)| one.arrivals.first().map(|arrivals| arrivals.2));
            let Some(key) = first.map(|(key, _)| key.clone()) else { return };
            self.begin(&key);
        }
    }

    fn enqueue(&mut self, at: usize) {
        if let Some(time_ps) = self.event_loops[at].next_ps() {
            self.agenda.push(Reverse((time_ps, at)));
        }
    }

    /// Takes the collectives that a machine came to; those begin that nobody is missing from.
    fn collect_arrivals(&mut self, at: usize) {
        let arrivals =
            self.event_loops[at].arrivals.as_mut().map(std::mem::take).or_broken("no list of arrivals");
        for (node, time_ps) in arrivals {
            let instruction = &self.programs[at].instructions[node as usize];
            let (Some(key), Some(collective)) = (key(instruction), instruction.collective.as_ref()) else {
                continue;
            };
            let members = key.1.len();
            let rendezvous = self.open.entry(key.clone()).or_default();
            rendezvous.arrivals.push((at, node, time_ps));
            rendezvous.cost.busy_ps = rendezvous.cost.busy_ps.max(instruction.cost.busy_ps);
            rendezvous.cost.latency_ps = rendezvous.cost.latency_ps.max(instruction.cost.latency_ps);
            if rendezvous.arrivals.len() == 1 || instruction.cost == rendezvous.cost {
                rendezvous.links.clone_from(&collective.links);
            }
            if rendezvous.arrivals.len() == members {
                self.begin(&key);
            }
        }
    }

    fn begin(&mut self, key: &RendezvousKey) {
        let Some(rendezvous) = self.open.remove(key) else { return };
        let last_arrival_ps =
            rendezvous.arrivals.iter().map(|arrivals| arrivals.2).max().or_broken("no rank arrived");
        let free_ps = rendezvous.links.iter().filter_map(|(link, _)| self.links.get(link)).max();
        let start_ps = free_ps.map_or(last_arrival_ps, |&free_ps| last_arrival_ps.max(free_ps));
        for (link, busy_ps) in &rendezvous.links {
            self.links.insert(*link, start_ps.exact_add(*busy_ps));
        }
        self.starts.insert(key.clone(), (start_ps, rendezvous.cost));
        for (at, node, _) in rendezvous.arrivals {
            self.event_loops[at].begin_collective(node, start_ps, rendezvous.cost);
            self.enqueue(at);
        }
    }
}
