//! Ranks side by side: a collective begins when the last of its ranks has come and its links are free, and
//! ends for all of them at once (docs/hardware-rules.md#collectives).
//!
//! The event loops of all ranks run in one order of time. What is found is written into the programs, so that each of
//! them can be read alone afterwards. Collectives that want the same link take turns, in the order in which they begin.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::program::{Cost, Instruction, Program};

use super::depend::{self, Edges};
use super::run::Machine;
use super::spill::{self, Nodes};
use super::tiles::Tiles;

/// A meeting: its core, its ranks, and how often they have met before.
type Key = (u32, Vec<u32>, u32);

/// When meetings begin, and what they take.
pub type Met = BTreeMap<Key, (u64, Cost)>;

/// Who came to a meeting.
#[derive(Default)]
struct Gathering {
    /// Rank in the list of programs, node, and time.
    came: Vec<(usize, u32, u64)>,
    cost: Cost,
    links: Vec<(u32, u64)>,
}

/// When the collectives of programs begin, one program for each rank, in the order of ranks.
pub fn meet(chip: &Chip, programs: &[&Program]) -> Met {
    let parts: Vec<(Tiles, Nodes, Edges)> = programs
        .iter()
        .map(|program| {
            let tiles = Tiles::of(chip, program);
            let nodes = spill::nodes(chip, program, &tiles, true);
            let edges = depend::edges(chip, program, &tiles, &nodes);
            (tiles, nodes, edges)
        })
        .collect();
    let machines = programs.iter().zip(&parts).map(|(program, (tiles, nodes, edges))| {
        let mut machine = Machine::new(chip, program, tiles, nodes, edges, &|_, work| work);
        machine.came = Some(Vec::new());
        machine.start(edges);
        machine
    });
    let mut hall = Hall {
        programs,
        machines: machines.collect(),
        turns: BinaryHeap::new(),
        open: BTreeMap::new(),
        links: BTreeMap::new(),
        met: Met::new(),
    };
    hall.run();
    hall.met
}

/// Writes into programs, one for each rank, when their collectives begin and what they take.
pub fn together(chip: &Chip, programs: &mut [Program]) {
    let met = meet(chip, &programs.iter().collect::<Vec<_>>());
    for program in programs {
        keep(program, &met);
    }
}

/// Notes in a program when its collectives begin and what they take.
pub fn keep(program: &mut Program, met: &Met) {
    for instruction in &mut program.instructions {
        let Some(&(start_ps, cost)) = key(instruction).and_then(|key| met.get(&key)) else { continue };
        instruction.cost = cost;
        if let Some(exchange) = &mut instruction.exchange {
            exchange.start_ps = start_ps;
        }
    }
}

fn key(instruction: &Instruction) -> Option<Key> {
    let exchange = instruction.exchange.as_ref().filter(|exchange| exchange.members.len() > 1)?;
    Some((instruction.program, exchange.members.clone(), exchange.number))
}

struct Hall<'a> {
    programs: &'a [&'a Program],
    machines: Vec<Machine<'a>>,
    /// When each machine goes on; some are out of date.
    turns: BinaryHeap<Reverse<(u64, usize)>>,
    open: BTreeMap<Key, Gathering>,
    /// When links are free.
    links: BTreeMap<u32, u64>,
    met: Met,
}

impl Hall<'_> {
    fn run(&mut self) {
        for at in 0..self.machines.len() {
            self.enqueue(at);
        }
        loop {
            while let Some(Reverse((time_ps, at))) = self.turns.pop() {
                if self.machines[at].next_ps() != Some(time_ps) {
                    continue;
                }
                self.machines[at].step();
                self.gather(at);
                self.enqueue(at);
            }
            // Programs that were run together meet all; of others, those go on that came first.
            let first = self.open.iter().min_by_key(|(_, one)| one.came.first().map(|came| came.2));
            let Some(key) = first.map(|(key, _)| key.clone()) else { return };
            self.begin(&key);
        }
    }

    fn enqueue(&mut self, at: usize) {
        if let Some(time_ps) = self.machines[at].next_ps() {
            self.turns.push(Reverse((time_ps, at)));
        }
    }

    /// Takes the collectives that a machine came to; those begin that nobody is missing from.
    fn gather(&mut self, at: usize) {
        let came = self.machines[at].came.as_mut().map(std::mem::take).unwrap_or_default();
        for (node, time_ps) in came {
            let Some(instruction) = self.programs[at].instructions.get(node as usize) else { continue };
            let (Some(key), Some(exchange)) = (key(instruction), instruction.exchange.as_ref()) else {
                continue;
            };
            let members = key.1.len();
            let gathering = self.open.entry(key.clone()).or_default();
            gathering.came.push((at, node, time_ps));
            gathering.cost.busy_ps = gathering.cost.busy_ps.max(instruction.cost.busy_ps);
            gathering.cost.latency_ps = gathering.cost.latency_ps.max(instruction.cost.latency_ps);
            if gathering.came.len() == 1 || instruction.cost == gathering.cost {
                gathering.links.clone_from(&exchange.links);
            }
            if gathering.came.len() == members {
                self.begin(&key);
            }
        }
    }

    fn begin(&mut self, key: &Key) {
        let Some(gathering) = self.open.remove(key) else { return };
        let last_ps = gathering.came.iter().map(|came| came.2).max().unwrap_or(0);
        let free_ps = gathering.links.iter().filter_map(|(link, _)| self.links.get(link)).max();
        let start_ps = last_ps.max(free_ps.copied().unwrap_or(0));
        for (link, kept_ps) in &gathering.links {
            self.links.insert(*link, start_ps.saturating_add(*kept_ps));
        }
        self.met.insert(key.clone(), (start_ps, gathering.cost));
        for (at, node, _) in gathering.came {
            self.machines[at].meet(node, start_ps, gathering.cost);
            self.enqueue(at);
        }
    }
}
