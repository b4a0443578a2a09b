//! The TCP as a target of the search: the choices of a frame, from lanes and packets inwards, each level with a bound or a rule.

use tilewright_tcp::Setup;
use tilewright_tcp::cost::{CommandCycles, command_cycles, command_cycles_with_widths};
use tilewright_tcp::energy::{Counts, energy_fj};

use crate::refusal::{Refusal, Refusals};
use crate::search::Seen;
use crate::target::{Bound, Pick, Target};
use crate::tcp::bound::{Settled, bound};
use crate::tcp::brought::{Memo, brought};
use crate::tcp::cost::{Commands, load};
use crate::tcp::events::{counts, cycle_fj, energy, recommitted};
use crate::tcp::legality::{check_banks, check_loading, check_sizes};
use crate::tcp::nest::Framed;
use crate::tcp::point::{Choice, Frame, Loading, Nest, ORDERS};
use crate::tcp::space;
use crate::tcp::task::Task;

impl Pick for Choice {
    fn code(&self) -> u64 {
        Choice::code(self)
    }

    /// Ties are told apart by what differs more than how results are written.
    fn rank(&self) -> u64 {
        let narrow = u64::from(self.commit_bytes.max(1).leading_zeros());
        narrow * 2 + self.drain as u64
    }
}

impl Target for Task<'_> {
    type Frame = Frame;
    type Choice = Choice;

    fn ticks_per_s(&self) -> u64 {
        self.setup.machine.chip.clock_hz
    }

    fn frames(&self, refused: &mut Refusals) -> Vec<Frame> {
        space::frames_and_misses(self, refused)
    }

    fn bound(&self, frame: &Frame) -> Bound {
        let open = Settled { lanes: self.setup.machine.ce.lanes, packet: None };
        bound(self, &Framed::new(self, frame), open)
    }

    fn walk(&self, frame: &Frame, seen: &mut Seen<'_, Choice>) {
        let framed = Framed::new(self, frame);
        let (cycle_fj, memo) = (cycle_fj(&self.setup), Memo::new());
        Walk { task: self, framed: &framed, cycle_fj, memo, seen }.packets();
    }
}

/// The choices of one frame, one after the other.
struct Walk<'a, 'b> {
    task: &'a Task<'a>,
    framed: &'a Framed,
    cycle_fj: u64,
    /// Transfers that were asked about.
    memo: Memo,
    seen: &'a mut Seen<'b, Choice>,
}

impl Walk<'_, '_> {
    fn excluded(&mut self, settled: Settled) -> bool {
        self.seen.prunes() && self.seen.excludes(bound(self.task, self.framed, settled))
    }

    /// Lanes and packets, widest first.
    fn packets(&mut self) {
        let setup = &self.task.setup;
        // Widest first: they are the ones that exclude others.
        let mut all_lanes: Vec<u64> = space::lanes(setup).collect();
        all_lanes.reverse();
        for lanes in all_lanes {
            if self.excluded(Settled { lanes, packet: None }) {
                continue;
            }
            for columns in space::columns(setup, self.framed) {
                let mut trees: Vec<u64> = space::trees(setup, self.framed, columns).collect();
                trees.reverse();
                for tree in trees {
                    if self.seen.enough() {
                        return;
                    }
                    if !self.excluded(Settled { lanes, packet: Some((columns, tree)) }) {
                        self.nests(lanes, columns, tree);
                    }
                }
            }
        }
    }

    /// Repeats and supplies.
    fn nests(&mut self, lanes: u64, columns: u64, tree: u64) {
        // Most first: what a budget cuts off are those that fetch more often.
        let mut all_repeats: Vec<u64> = space::repeats(self.framed, lanes).collect();
        all_repeats.reverse();
        for repeats in all_repeats {
            for supply in space::supplies(self.framed) {
                if self.seen.enough() {
                    return;
                }
                let choice = Choice { lanes, columns, tree, repeats, supply: *supply, ..Choice::open() };
                let nest = self.framed.nest(&choice);
                let checked =
                    nest.and_then(|nest| check_sizes(&self.task.setup, &nest, *supply).map(|()| nest));
                let checked = checked.and_then(|nest| Ok((nest, self.brought(&nest)?)));
                match checked {
                    Ok((nest, waits)) => self.orders(&nest, choice, waits),
                    Err(refusal) => self.seen.refuse(refusal),
                }
            }
        }
    }

    /// Cycles and energy of transfers from off-chip memory, of all parts.
    fn brought(&mut self, nest: &Nest) -> Result<Waits, Refusal> {
        let frame = &self.framed.frame;
        let brought = brought(self.task, self.framed, nest, &mut self.memo)?;
        let events = energy_fj(self.task.setup.machine, &brought.all_counts(self.task, frame));
        let events_fj = events.iter().fold(0, |all: u64, part| all.saturating_add(*part));
        Ok(Waits { cycles: brought.all_cycles(self.task, frame), events_fj })
    }

    /// Orders of loops and of sums that leave, widths of fetches and writes, contexts of loads. What does not change is computed outside.
    fn orders(&mut self, nest: &Nest, choice: Choice, waits: Waits) {
        let setup = &self.task.setup;
        let loads = LOADINGS.map(|loading| load_cycles(setup, nest, loading));
        for order in 0..u8::try_from(ORDERS.len()).unwrap_or(0) {
            if !space::is_canonical(nest, order, choice.supply) {
                continue;
            }
            let mut known = None;
            for drain in space::drains(nest) {
                let choice = Choice { order, drain, ..choice };
                match ordered(self.task, &self.framed.frame, nest, &choice, &mut known) {
                    Ok(mut ordered) => {
                        ordered.events_fj = ordered.events_fj.saturating_add(waits.events_fj);
                        self.fetches(nest, choice, &ordered, (loads, waits.cycles));
                    }
                    Err(refusal) => self.seen.refuse(refusal),
                }
            }
        }
    }

    fn fetches(&mut self, nest: &Nest, choice: Choice, ordered: &Ordered, (loads, waits): ([u64; 2], u64)) {
        let setup = &self.task.setup;
        for fetch_bytes in space::fetch_widths(setup, nest) {
            let choice = Choice { fetch_bytes, ..choice };
            if let Err(refusal) = check_banks(setup, nest, &choice) {
                self.seen.refuse(refusal);
                continue;
            }
            let mut contract = ordered.commands.contract;
            if let Some(fetch) = &mut contract.fetch {
                fetch.read_bytes = fetch_bytes;
            }
            for commit_bytes in space::commit_widths(setup, nest, choice.drain) {
                if let Some(commit) = &mut contract.commit {
                    commit.write_bytes = commit_bytes;
                }
                let contract = command_cycles_with_widths(setup.machine, &contract, &ordered.contract_cycles)
                    .total_cycles;
                let others = contract.saturating_add(ordered.bridge_cycles);
                let choice = Choice { commit_bytes, ..choice };
                for (loading, load) in LOADINGS.into_iter().zip(loads) {
                    let each = others.saturating_add(load);
                    let cycles = each.saturating_mul(ordered.parts).saturating_add(waits);
                    let energy_fj = ordered.events_fj.saturating_add(self.cycle_fj.saturating_mul(cycles));
                    match check_loading(nest, loading) {
                        Ok(()) => self.seen.add(cycles, energy_fj, Choice { loading, ..choice }),
                        Err(refusal) => self.seen.refuse(refusal),
                    }
                }
            }
        }
    }
}

/// Who may load.
const LOADINGS: [Loading; 2] = [Loading::Main, Loading::Sub];

fn load_cycles(setup: &Setup<'_>, nest: &Nest, loading: Loading) -> u64 {
    command_cycles(setup.machine, &load(setup, nest, loading)).total_cycles
}

/// What transfers take.
#[derive(Clone, Copy)]
struct Waits {
    cycles: u64,
    events_fj: u64,
}

/// A candidate as far as the order of its loops decides.
struct Ordered {
    commands: Commands,
    /// The contraction with some width of reads and writes.
    contract_cycles: CommandCycles,
    bridge_cycles: u64,
    /// Energy of all events of all parts.
    events_fj: u64,
    parts: u64,
}

/// Times a candidate, where its events are known of another order in which sums leave.
fn ordered(
    task: &Task<'_>,
    frame: &Frame,
    nest: &Nest,
    choice: &Choice,
    known: &mut Option<Counts>,
) -> Result<Ordered, Refusal> {
    let setup = &task.setup;
    let commands = Commands::new(setup, nest, choice)?;
    let parts = frame.commands();
    let counts = match known {
        // What adds parts of sums takes them in the order in which they leave. Single sums, which go through a copy, leave in one order only.
        Some(known) if nest.summed_slices == 1 => recommitted(nest, &commands, known),
        _ => *known.insert(counts(setup, nest, choice, &commands)),
    };
    let events_fj =
        energy(setup, &counts, 0, parts).iter().fold(0, |all: u64, part| all.saturating_add(*part));
    let bridge = commands.bridge.as_ref();
    let bridge_cycles = bridge.map_or(0, |bridge| command_cycles(setup.machine, bridge).total_cycles);
    let contract_cycles = command_cycles(setup.machine, &commands.contract);
    Ok(Ordered { commands, contract_cycles, bridge_cycles, events_fj, parts })
}
