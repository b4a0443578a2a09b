//! What bounds a kernel of a planned graph, and what would have to change: from its transfers and commands as
//! the queues hold them, each with what it takes alone.

use std::collections::BTreeMap;
use std::fmt;

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::{exec_cycles, transfer_cost};
use tilewright_tcp_isa::contraction::full_packet_elements;
use tilewright_tcp_isa::program::control::{Command, StepKind};
use tilewright_tcp_isa::program::exec::Context;
use tilewright_tcp_isa::program::{ExecId, TransferId};

use super::kernel::{Kernels, Packing, Work};
use super::link::Chosen;
use super::options::Weighing;
use super::plan::Planned;
use super::tactic::multiplied;
use super::text::kernel_line;
use super::tiled::ComparedTiling;

/// Transfers of a kernel that have the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferShare {
    /// How many.
    pub runs: u64,
    /// All their cycles.
    pub cycles: u64,
    /// Cycles before anything moves.
    pub startup_cycles: u64,
    /// Bytes that arrive.
    pub bytes: u64,
    /// Bytes that are read from HBM and written to it.
    pub hbm_bytes: u64,
    /// Bytes of the access units of HBM that they touch for that.
    pub unit_bytes: u64,
}

/// Commands of a kernel that have the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandShare {
    /// How many.
    pub runs: u64,
    /// All their cycles.
    pub cycles: u64,
    /// What every command takes besides.
    pub overhead_cycles: u64,
    /// The slowest stage of the longest of them.
    pub stage: &'static str,
    longest_cycles: u64,
}

/// What a kernel takes on one PE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeShare {
    /// Transfers by name.
    pub transfers: BTreeMap<String, TransferShare>,
    /// Commands by name.
    pub commands: BTreeMap<String, CommandShare>,
}

/// A kernel, what it takes, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The kernel in one line.
    pub kernel: String,
    /// PEs that have something to do for it.
    pub pes: u64,
    /// The PE that has most to do.
    pub busiest: PeShare,
    /// Multiply-accumulates, and cycles of them at the peak of these PEs.
    pub macs: (u64, u64),
    /// Bytes of the values that it reads and writes, and cycles of them at the rate of HBM.
    pub value_bytes: (u64, u64),
    /// Bytes of an access unit of HBM.
    pub access_bytes: u64,
    /// The kernel that its commands are counted with, if it has none.
    pub within: Option<usize>,
    /// What was weighed for it, the chosen one first and the others by their estimates; of contractions.
    pub candidates: Vec<WeighedCandidate>,
    /// How they were weighed.
    pub weighing: Weighing,
}

/// A way to run a contraction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeighedCandidate {
    /// Which.
    pub words: String,
    /// Estimated cycles.
    pub cycles: u64,
}

impl PeShare {
    /// Cycles of all transfers.
    pub fn transfer_cycles(&self) -> u64 {
        self.transfers.values().map(|share| share.cycles).sum()
    }

    /// Cycles of all commands.
    pub fn command_cycles(&self) -> u64 {
        self.commands.values().map(|share| share.cycles).sum()
    }

    fn transfer(&mut self, machine: &Tcp, planned: &Planned, id: TransferId) {
        let Some(transfer) = planned.program.transfers.get(id.0 as usize) else { return };
        let Some(cost) = transfer_cost(machine, transfer) else { return };
        let share = self.transfers.entry(plain(&transfer.name)).or_default();
        let sides: Vec<u64> =
            [&cost.read, &cost.written].into_iter().flatten().map(|used| used.unit_bytes).collect();
        share.runs += 1;
        share.cycles += cost.cycles.total_cycles;
        share.startup_cycles += cost.cycles.startup_cycles;
        share.bytes += cost.bytes;
        share.hbm_bytes += cost.bytes * sides.len() as u64;
        share.unit_bytes += sides.iter().sum::<u64>();
    }

    fn command(&mut self, machine: &Tcp, planned: &Planned, id: ExecId) {
        let Some(exec) = planned.program.execs.get(id.0 as usize) else { return };
        let cycles = exec_cycles(machine, exec);
        let share = self.commands.entry(plain(&exec.name)).or_default();
        share.runs += 1;
        share.cycles += cycles.total_cycles;
        share.overhead_cycles += cycles.overhead_cycles;
        if cycles.total_cycles > share.longest_cycles {
            (share.longest_cycles, share.stage) = (cycles.total_cycles, cycles.binding.name());
        }
    }
}

/// A name without the number of its kernel, and without the number behind it that tells equal names apart.
fn plain(name: &str) -> String {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let without = match name.rsplit_once('_') {
        Some((before, last)) if is_number(last) => before,
        _ => name,
    };
    match without.rsplit_once("_k") {
        Some((before, kernel)) if is_number(kernel) => before.to_string(),
        _ => name.to_string(),
    }
}

/// A kernel by its number, or by the name of a value that it gives.
pub fn find_kernel(all: &Kernels, asked: &str) -> Option<usize> {
    let number = asked.parse().ok().filter(|number| *number < all.kernels.len());
    let gives = |result: &usize| all.values.get(*result).is_some_and(|value| value.name == asked);
    number.or_else(|| all.kernels.iter().position(|kernel| kernel.results.iter().any(gives)))
}

/// What bounds a kernel, by its number; `None` if there is none.
pub fn explain(machine: &Tcp, planned: &Planned, number: usize) -> Option<Explanation> {
    let all = &planned.kernels;
    let kernel = all.kernels.get(number)?;
    let shares = shares(machine, planned, number);
    let pes = shares.len() as u64;
    let most = |share: &PeShare| share.transfer_cycles().max(share.command_cycles());
    let busiest = shares.into_iter().max_by_key(most).unwrap_or_default();
    let (macs, operands) = match &kernel.work {
        Work::Contract { sizes, .. } => {
            (sizes.batch * sizes.rows * sizes.columns * sizes.summed, sizes.operands)
        }
        _ => (0, Packing::Half),
    };
    let elements = full_packet_elements(machine, multiplied(operands));
    let peak = pes.max(1) * machine.pe.slices * machine.ce.lanes * elements;
    let bytes = value_bytes(all, number);
    let tail_of = planned.chosen.tails.iter().find(|(_, tail)| **tail == number).map(|(of, _)| *of);
    Some(Explanation {
        kernel: kernel_line(all, number, kernel),
        pes,
        busiest,
        macs: (macs, macs.div_ceil(peak.max(1))),
        value_bytes: (bytes, hbm_cycles(machine, bytes)),
        access_bytes: machine.hbm.access_bytes,
        within: tail_of,
        candidates: candidates(&planned.chosen, number),
        weighing: planned.weighing,
    })
}

/// What was weighed for a contraction, the chosen one first and the others by their estimates.
fn candidates(chosen: &Chosen, number: usize) -> Vec<WeighedCandidate> {
    let tiles = tile_candidates(chosen, number);
    let tactics = tactic_candidates(chosen, number);
    let is_tiled = chosen.tiled.contains_key(&number);
    let pick = chosen.picks.get(&number).map(|(pick, _)| *pick);
    let tactics = tactics.into_iter().map(|(place, one)| (!is_tiled && Some(place) == pick, one));
    let tiles = tiles.into_iter().enumerate().map(|(place, one)| (is_tiled && place == 0, one));
    let mut all: Vec<(bool, WeighedCandidate)> = tiles.chain(tactics).collect();
    all.sort_by_key(|(is_chosen, one)| (!is_chosen, one.cycles));
    all.into_iter().map(|(_, one)| one).collect()
}

/// Tiles that were compared for a contraction, the best first; only that they are known if another way was
/// chosen.
fn tile_candidates(chosen: &Chosen, number: usize) -> Vec<WeighedCandidate> {
    if let Some(tiled) = chosen.tiled.get(&number) {
        let of_tile =
            |one: &ComparedTiling| WeighedCandidate { words: one.words.clone(), cycles: one.cycles };
        let mut all: Vec<WeighedCandidate> = tiled.compared.iter().map(of_tile).collect();
        all.sort_by_key(|one| one.cycles);
        return all;
    }
    let cycles = chosen.weighed.get(&number).and_then(|weighed| weighed.tiled);
    let best = |cycles: u64| WeighedCandidate { words: "the best tiles".to_string(), cycles };
    cycles.map(best).into_iter().collect()
}

/// Tactics that were weighed for a contraction, each with its place among the fastest, from 1.
fn tactic_candidates(chosen: &Chosen, number: usize) -> Vec<(usize, WeighedCandidate)> {
    let Some(weighed) = chosen.weighed.get(&number) else { return Vec::new() };
    let count = weighed.tactics.len();
    let one = |place: usize, cycles: u64| WeighedCandidate {
        words: format!("tactic {place} of {count} of the explorer, with operands and result in its shapes"),
        cycles,
    };
    // A tactic whose shapes no transfer can make or leave takes forever.
    let possible = (1..).zip(&weighed.tactics).filter(|(_, cycles)| **cycles < u64::MAX);
    possible.map(|(place, cycles)| (place, one(place, *cycles))).collect()
}

/// What a kernel takes on each PE that has something to do for it.
fn shares(machine: &Tcp, planned: &Planned, number: usize) -> Vec<PeShare> {
    let is_own = |kernels: &[usize], id: u32| kernels.get(id as usize) == Some(&number);
    let mut all = Vec::new();
    for queue in &planned.program.queues {
        let mut share = PeShare::default();
        let mut loaded: Vec<(Context, ExecId)> = Vec::new();
        for step in &queue.steps {
            let StepKind::Push(command) = &step.kind else { continue };
            match command {
                Command::Dma { transfer, .. } if is_own(&planned.kernel_of_transfer, transfer.0) => {
                    share.transfer(machine, planned, *transfer);
                }
                Command::Load(id) => {
                    let context = planned.program.execs.get(id.0 as usize).map(|exec| exec.context);
                    loaded.retain(|(other, _)| Some(*other) != context);
                    loaded.extend(context.map(|context| (context, *id)));
                }
                Command::Exec { context, .. } => {
                    let id = loaded.iter().find(|(other, _)| other == context).map(|(_, id)| *id);
                    if let Some(id) = id.filter(|id| is_own(&planned.kernel_of_exec, id.0)) {
                        share.command(machine, planned, id);
                    }
                }
                Command::Dma { .. } | Command::WaitD(_) | Command::WaitE(_) => {}
            }
        }
        if share != PeShare::default() {
            all.push(share);
        }
    }
    all
}

/// Bytes of the values that a kernel reads and writes, each once.
fn value_bytes(all: &Kernels, number: usize) -> u64 {
    let Some(kernel) = all.kernels.get(number) else { return 0 };
    let mut values: Vec<usize> = kernel.reads().into_iter().chain(kernel.results.iter().copied()).collect();
    values.sort_unstable();
    values.dedup();
    let values = values.into_iter().filter_map(|value| all.values.get(value));
    values.map(|value| value.count().saturating_mul(value.element_bytes())).sum()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of cycles from a rate"
)]
fn hbm_cycles(machine: &Tcp, bytes: u64) -> u64 {
    let per_cycle = machine.hbm_bytes_per_s() / machine.chip.clock_hz as f64;
    (bytes as f64 / per_cycle).ceil() as u64
}

/// Candidates that are shown.
const SHOWN_CANDIDATES: usize = 6;

/// How much longer or shorter something takes, in percent of a first.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn difference(first: u64, other: u64) -> String {
    format!("{:+.1} %", (other as f64 / first.max(1) as f64 - 1.0) * 100.0)
}

/// A part of a whole in percent.
fn percent(part: u64, whole: u64) -> u64 {
    let hundredths = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(hundredths).or_broken("a part is no more than its whole")
}

impl Explanation {
    /// What takes longest, in a sentence.
    pub fn bound(&self) -> String {
        let (moved, computed) = (self.busiest.transfer_cycles(), self.busiest.command_cycles());
        if moved == 0 && computed == 0 {
            return match self.within {
                Some(kernel) => {
                    format!("it runs where kernel {kernel} leaves its result, and is counted there")
                }
                None => "it has no commands".to_string(),
            };
        }
        if moved >= computed {
            let longest = self.busiest.transfers.iter().max_by_key(|(_, share)| share.cycles);
            let (name, share) = longest.map_or(("", 0), |(name, share)| (name.as_str(), share.cycles));
            return format!("transfers; `{name}` takes {} % of their time", percent(share, moved));
        }
        let longest = self.busiest.commands.iter().max_by_key(|(_, share)| share.cycles);
        let (name, stage) = longest.map_or(("", ""), |(name, share)| (name.as_str(), share.stage));
        format!("commands; the slowest stage of `{name}` is {stage}")
    }

    /// What would have to change so that it takes less, with what that would save at most on the busiest PE.
    pub fn changes(&self) -> Vec<String> {
        let (moved, computed) = (self.busiest.transfer_cycles(), self.busiest.command_cycles());
        let mut all = Vec::new();
        let startup: u64 = self.busiest.transfers.values().map(|share| share.startup_cycles).sum();
        let runs: u64 = self.busiest.transfers.values().map(|share| share.runs).sum();
        let overhead: u64 = self.busiest.commands.values().map(|share| share.overhead_cycles).sum();
        if moved >= computed && moved > 0 {
            all.extend(
                self.busiest.transfers.iter().filter_map(|(name, share)| self.of_transfer(name, share)),
            );
            if 2 * startup > moved {
                all.push(format!("fewer and longer transfers: {runs} starts take {startup} cycles"));
            }
            let other = self.value_bytes.1.max(computed);
            let left = moved.saturating_sub(other);
            if left > 0 {
                all.push(format!("values that stay in data memory instead of HBM: up to {left} cycles"));
            }
        } else if computed > 0 {
            if 2 * overhead > computed {
                all.push(format!("fewer and larger commands: their overhead is {overhead} cycles of these"));
                return all;
            }
            if self.macs.0 > 0 {
                let left = computed.saturating_sub(self.macs.1);
                all.push(format!("sums and rows that fill the engine: up to {left} cycles"));
            }
            all.push(format!("more PEs: commands take {computed} cycles, transfers {moved}"));
        }
        all
    }

    /// What would make transfers of a name shorter.
    fn of_transfer(&self, name: &str, share: &TransferShare) -> Option<String> {
        let (cycles, access) = (share.cycles, self.access_bytes);
        if share.unit_bytes > 2 * share.hbm_bytes {
            return Some(format!(
                "rows in whole access units of {access} B for `{name}`: HBM moves {} B for {} B",
                share.unit_bytes, share.hbm_bytes
            ));
        }
        match name {
            "lay" => Some(format!(
                "operands that lie as the tactic takes them, so that nothing is laid: up to {cycles} cycles"
            )),
            "gather" => Some(format!(
                "results of whole access units of {access} B, so that no short rows are joined: up to \
                 {cycles} cycles"
            )),
            "move" => {
                Some(format!("strides that a reader can walk, so that nothing is moved: {cycles} cycles"))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (moved, computed) = (self.busiest.transfer_cycles(), self.busiest.command_cycles());
        writeln!(f, "kernel {}", self.kernel)?;
        if self.macs.0 > 0 {
            writeln!(
                f,
                "  needs    {} multiply-accumulates, {} cycles at the peak",
                self.macs.0, self.macs.1
            )?;
        }
        let (bytes, cycles) = self.value_bytes;
        writeln!(f, "  needs    {bytes} B read and written, {cycles} cycles at the rate of HBM")?;
        let pes = self.pes;
        writeln!(
            f,
            "  takes    transfers {moved} cycles, commands {computed}, on the busiest of its PEs ({pes})"
        )?;
        for (name, share) in &self.busiest.transfers {
            let TransferShare { runs, cycles, startup_cycles, bytes, hbm_bytes, unit_bytes } = share;
            writeln!(
                f,
                "    {name:<15} {runs} x dma, {cycles} cycles, {startup_cycles} of them start-up; {bytes} B, \
                 of HBM {hbm_bytes} B in access units of {unit_bytes} B"
            )?;
        }
        for (name, share) in &self.busiest.commands {
            let CommandShare { runs, cycles, overhead_cycles, stage, .. } = share;
            writeln!(
                f,
                "    {name:<15} {runs} x command, {cycles} cycles, {overhead_cycles} of them overhead; \
                 slowest stage {stage}"
            )?;
        }
        writeln!(f, "  bound    {}", self.bound())?;
        for change in self.changes() {
            writeln!(f, "  change   {change}")?;
        }
        let mut before = None;
        for WeighedCandidate { words, cycles } in self.candidates.iter().take(SHOWN_CANDIDATES) {
            match before {
                None => writeln!(f, "  chosen   {words}: {cycles} cycles, {}", self.weighing.words())?,
                Some(chosen) => writeln!(f, "  next     {words}: {cycles}, {}", difference(chosen, *cycles))?,
            }
            before.get_or_insert(*cycles);
        }
        let more = self.candidates.len().saturating_sub(SHOWN_CANDIDATES);
        if more > 0 {
            writeln!(f, "  and      {more} candidates more")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_lose_the_number_of_their_kernel_alone() {
        let names = [
            ("lay_k2", "lay"),
            ("lay_k2_1", "lay"),
            ("bring_rows_k13", "bring_rows"),
            ("stack_7", "stack_7"),
        ];
        names.iter().for_each(|(name, wanted)| assert_eq!(plain(name), *wanted));
        assert_eq!(plain("block_kept"), "block_kept");
    }
}
