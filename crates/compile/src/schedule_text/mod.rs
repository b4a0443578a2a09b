//! The text of a schedule (stage 5): a report, what lies where, and when each command ran. It reads back
//! ([`read`]), and a checker that knows nothing of whoever timed the commands says whether the times can be,
//! and whether the report follows from them ([`checker`]).
//!
//! ```text
//! schedule 2
//! program decode
//! cycles 17574, of them 2600 for launch and finish
//! ...
//! placement: memory first..end, live from..to, by whom, for whom, where (slice 0 of pe 0.0)
//!   dm         26496..26528            9026..9647      by 31 for 32, sums
//! commands: number issued start end, pe unit name, after
//!     31      9026      9026      9379  0.0 main sums after 30
//! ```

pub mod checker;
pub mod read;

use std::fmt::Write as _;

use tilewright_base::Span;
use tilewright_tcp_isa::footprint::MemoryKind;
use tilewright_tcp_isa::program::event::{ExecUnit, PeId, Ticket};

/// Above this much of the bound a report says why.
pub const EXPLAINED_PERCENT: u64 = 115;
/// Units whose time is told, in this order.
pub const UNITS: [ExecUnit; 3] = [ExecUnit::Main, ExecUnit::Sub, ExecUnit::Dma];

/// A command of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledCommand {
    /// What it is called by others.
    pub ticket: Ticket,
    /// When the queue issued it.
    pub issued: u64,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Whose.
    pub pe: PeId,
    /// Who ran it.
    pub unit: ExecUnit,
    /// Its image.
    pub name: String,
    /// What its queue or its control core waited for before it.
    pub after: Vec<Ticket>,
    /// Its line.
    pub span: Span,
}

/// Bytes that are written once and then read: until they are written again they are one area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveArea {
    /// The memory.
    pub memory: MemoryKind,
    /// First byte and one past the last.
    pub bytes: (u64, u64),
    /// More pieces as long as that, and how far they are apart.
    pub more: (u64, u64),
    /// From the start of who writes it, or the launch, to the last end of who touches it.
    pub live: (u64, u64),
    /// Who writes it; `None` if it was there before.
    pub by: Option<Ticket>,
    /// Who reads it.
    pub readers: Vec<Ticket>,
    /// What the place is called; several names share one place.
    pub name: String,
    /// Its line.
    pub span: Span,
}

/// Time that the main context of the first PE stalled before one kind of command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StallReason {
    /// Cycles of all together.
    pub cycles: u64,
    /// The same in percent of all.
    pub percent: u64,
    /// The kind of command that waited.
    pub before: String,
    /// How often.
    pub count: u64,
    /// What was waited for.
    pub on: String,
}

/// How early weights are fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetch {
    /// Weights that are fetched and loaded.
    pub fills: u64,
    /// Most that were under way or ready when another was loaded.
    pub most: u64,
    /// Cycles that they lay ready, on average.
    pub ready_cycles: u64,
    /// Those that did not.
    pub late: u64,
}

/// A schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleText {
    /// The program.
    pub program: String,
    /// From launch to finish.
    pub cycles: u64,
    /// Launch and finish, which no schedule changes.
    pub fixed_cycles: u64,
    /// Of each unit, the busiest PE.
    pub busy: [u64; UNITS.len()],
    /// The time of the busiest unit.
    pub bound: u64,
    /// Time over bound, launch and finish not counted.
    pub ratio_thousandths: u64,
    /// Time of the first PE in percent: tensor unit and DMA engine, either alone, neither.
    pub split: [u64; 4],
    /// What forces more than the bound.
    pub reasons: Vec<StallReason>,
    /// Of the first PE.
    pub prefetch: Prefetch,
    /// Slice 0 of the first PE, its register files, and HBM.
    pub areas: Vec<LiveArea>,
    /// In the order in which they were issued.
    pub commands: Vec<ScheduledCommand>,
    /// Lines of the report by their first words, if it was read.
    pub spans: Vec<(&'static str, Span)>,
}

impl LiveArea {
    /// One past the last byte of the last piece.
    pub fn end(&self) -> u64 {
        self.bytes.1.saturating_add(self.more.0.saturating_mul(self.more.1))
    }

    /// Whether two areas of a memory share a byte.
    pub fn meets(&self, other: &LiveArea) -> bool {
        if self.bytes.0 >= other.end() || other.bytes.0 >= self.end() {
            return false;
        }
        let (few, many) = if self.more.0 <= other.more.0 { (self, other) } else { (other, self) };
        (0..=few.more.0).any(|at| {
            let step = at.saturating_mul(few.more.1);
            many.holds_any(few.bytes.0.saturating_add(step), few.bytes.1.saturating_add(step))
        })
    }

    /// Whether a piece has a byte of a range: the last one that begins before its end ends behind its start.
    fn holds_any(&self, start: u64, end: u64) -> bool {
        let (first, last) = self.bytes;
        if end <= first {
            return false;
        }
        let at = (end - 1 - first).checked_div(self.more.1).unwrap_or(0).min(self.more.0);
        last.saturating_add(at.saturating_mul(self.more.1)) > start
    }
}

/// A part of a whole in percent.
pub fn percent(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 100 / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// The kind of a command: its name without the number that tells it from others.
pub fn kind(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((kind, number)) if number.bytes().all(|digit| digit.is_ascii_digit()) => kind,
        _ => name,
    }
}

fn numbers(word: &str, tickets: &[Ticket]) -> String {
    let mut text = if tickets.is_empty() { String::new() } else { format!(" {word}") };
    for Ticket(number) in tickets {
        let _ = write!(text, " {number}");
    }
    text
}

impl ScheduleText {
    /// Whether the report must say what forces so much.
    pub fn is_explained(&self) -> bool {
        u128::from(self.ratio_thousandths) * 100 > u128::from(EXPLAINED_PERCENT) * 1000
    }

    /// As text: the bound, what forces more, prefetch, placement, and every command.
    pub fn print(&self) -> String {
        let mut text = format!("schedule 2\nprogram {}\n", self.program);
        self.print_bound(&mut text);
        let Prefetch { fills, most, ready_cycles, late } = self.prefetch;
        let _ = writeln!(
            text,
            "\nprefetch: {fills} fills, at most {most} more under way when one is loaded; ready \
             {ready_cycles} cycles before on average, {late} not before"
        );
        let _ = writeln!(text, "\n{PLACEMENT}");
        for area in &self.areas {
            let ((from, to), (start, end), memory) = (area.live, area.bytes, area.memory.name());
            let by = area.by.map_or(String::new(), |Ticket(number)| format!(" by {number}"));
            let readers = numbers("for", &area.readers);
            let more = match area.more {
                (0, _) => String::new(),
                (count, stride) => format!(" and {count} more every {stride},"),
            };
            let _ = writeln!(
                text,
                "  {memory:<4} {start:>11}..{end:<11}{more} {from:>9}..{to:<9}{by}{readers}, {}",
                area.name
            );
        }
        let _ = writeln!(text, "\n{COMMANDS}");
        for command in &self.commands {
            let ScheduledCommand {
                ticket: Ticket(number), issued, start, end, pe, unit, name, after, ..
            } = command;
            let (PeId { chip, pe }, unit) = (pe, unit.name());
            let after = numbers("after", after);
            let _ = writeln!(
                text,
                "  {number:>5} {issued:>9} {start:>9} {end:>9}  {chip}.{pe} {unit:<4} {name}{after}"
            );
        }
        text
    }

    /// The bound alone.
    pub fn print_bound(&self, text: &mut String) {
        let _ = writeln!(text, "cycles {}, of them {} for launch and finish", self.cycles, self.fixed_cycles);
        let busy: Vec<String> =
            UNITS.iter().zip(self.busy).map(|(unit, cycles)| format!("{} {cycles}", unit.name())).collect();
        let _ = writeln!(text, "busy {}", busy.join(", "));
        let (whole, parts) = (self.ratio_thousandths / 1000, self.ratio_thousandths % 1000);
        let _ = writeln!(text, "bound {}, time / bound = {whole}.{parts:03}", self.bound);
        let [both, tensor_unit, dma, neither] = self.split;
        let _ = writeln!(
            text,
            "time of pe 0: tensor unit and dma {both} %, tensor unit alone {tensor_unit} %, dma alone {dma} \
             %, neither {neither} %"
        );
        if self.is_explained() {
            let _ = writeln!(text, "{WHY}");
            for StallReason { cycles, percent, before, count, on } in &self.reasons {
                let _ =
                    writeln!(text, "  {cycles:>9} cycles ({percent} %) before {before} x {count}, for {on}");
            }
        }
    }
}

const WHY: &str = "more than the bound because the main context of pe 0 stalls:";
const PLACEMENT: &str =
    "placement: memory first..end, live from..to, by whom, for whom, where (slice 0 of pe 0.0)";
const COMMANDS: &str = "commands: number issued start end, pe unit name, after";
