//! Whether a schedule can be: from its text alone, without a machine and without whoever timed it.
//!
//! - `schedule/time`: a command ends before it begins, begins before it is issued, or ends behind the run;
//! - `schedule/queue`: a queue issues commands in another order than that of their numbers;
//! - `schedule/unit`: a unit runs two commands at once;
//! - `schedule/wait`: a command is issued before one that it waits for has ended;
//! - `schedule/order`: a command reads what another one has not written yet;
//! - `schedule/area`: an area is not live when those are at work who touch it;
//! - `schedule/overlap`: two areas are in the same bytes at the same time;
//! - `schedule/sum`: the report does not follow from the commands.

use std::collections::BTreeMap;

use tilewright_base::{Diagnostic, Span};
use tilewright_tcp_isa::program::event::{ExecUnit, PeId, Ticket};

use super::{LiveArea, Prefetch, ScheduleText, ScheduledCommand, UNITS, kind, percent};
use crate::kernel_text::MOST_COMPLAINTS;

/// Codes that a schedule is refused with.
pub const CODES: [(&str, &str); 9] = [
    ("schedule/syntax", "a line is none of a schedule, or something is missing in it"),
    ("schedule/time", "a command ends before it begins, begins before it is issued, or ends behind the run"),
    ("schedule/queue", "a queue issues commands in another order than that of their numbers"),
    ("schedule/unit", "a unit runs two commands at once"),
    ("schedule/wait", "a command is issued before one that it waits for has ended"),
    ("schedule/order", "a command reads what another one has not written yet"),
    ("schedule/area", "an area is not live when those are at work who touch it"),
    ("schedule/overlap", "two areas are in the same bytes at the same time"),
    ("schedule/sum", "the report does not follow from the commands"),
];

/// Everything that cannot be, at most twenty complaints.
pub fn check(text: &ScheduleText) -> Vec<Diagnostic> {
    let mut checker = ScheduleChecker { text, known: BTreeMap::new(), found: Vec::new() };
    checker.commands();
    checker.areas();
    if checker.found.is_empty() {
        checker.overlaps();
        checker.sums();
    }
    checker.found.truncate(MOST_COMPLAINTS);
    checker.found
}

struct ScheduleChecker<'t> {
    text: &'t ScheduleText,
    known: BTreeMap<Ticket, &'t ScheduledCommand>,
    found: Vec<Diagnostic>,
}

impl<'t> ScheduleChecker<'t> {
    fn refuse(&mut self, code: &'static str, span: Span, message: String, allowed: String) {
        self.found.push(Diagnostic::error(code, message).at(span, "").allowed(allowed));
    }

    /// Times of single commands, queues, units and waits.
    fn commands(&mut self) {
        let text = self.text;
        let mut queues: BTreeMap<PeId, &ScheduledCommand> = BTreeMap::new();
        let mut units: BTreeMap<(PeId, ExecUnit), &ScheduledCommand> = BTreeMap::new();
        for command in &text.commands {
            let ScheduledCommand { ticket: Ticket(number), issued, start, end, pe, unit, span, .. } = command;
            if self.known.insert(command.ticket, command).is_some() {
                let message = format!("two commands have the number {number}");
                self.refuse("schedule/queue", *span, message, "each number once".to_string());
            }
            if issued > start || start > end || *end > text.cycles {
                let message =
                    format!("command {number} is issued at {issued}, begins at {start} and ends at {end}");
                let allowed = format!("one after the other, up to {}", text.cycles);
                self.refuse("schedule/time", *span, message, allowed);
            }
            if let Some(before) = queues.insert(*pe, command)
                && (before.ticket > command.ticket || before.issued > *issued)
            {
                let ScheduledCommand { ticket: Ticket(other), issued: at, .. } = before;
                let message = format!("command {number} is issued at {issued}, {other} before it at {at}");
                self.refuse("schedule/queue", *span, message, format!("{at} or later: a queue is in order"));
            }
            if let Some(before) = units.insert((*pe, *unit), command)
                && before.end > *start
            {
                let (Ticket(other), free) = (before.ticket, before.end);
                let unit = unit.name();
                let message =
                    format!("command {number} begins at {start}, {other} runs in {unit} until {free}");
                self.refuse(
                    "schedule/unit",
                    *span,
                    message,
                    format!("{free} or later: a unit runs one command"),
                );
            }
        }
        for command in &text.commands {
            for ticket in &command.after {
                let (Ticket(number), Ticket(other), issued) = (command.ticket, *ticket, command.issued);
                let (message, allowed) = match self.known.get(ticket) {
                    None => {
                        (format!("command {number} waits for {other}"), "commands of the text".to_string())
                    }
                    Some(before) if before.end > issued => (
                        format!(
                            "command {number} is issued at {issued}, {other} that it waits for ends at {}",
                            before.end
                        ),
                        format!("{} or later", before.end),
                    ),
                    Some(_) => continue,
                };
                self.refuse("schedule/wait", command.span, message, allowed);
            }
        }
    }

    /// Who touches areas, and when.
    fn areas(&mut self) {
        for area in &self.text.areas {
            let touched = area.by.iter().chain(&area.readers);
            if let Some(Ticket(other)) = touched.clone().find(|ticket| !self.known.contains_key(ticket)) {
                let message = format!("command {other} touches {}", place(area));
                self.refuse("schedule/area", area.span, message, "commands of the text".to_string());
                continue;
            }
            let (from, to) = area.live;
            let writer = area.by.and_then(|by| self.known.get(&by)).copied();
            let start = writer.map_or(0, |writer| writer.start);
            let ends = touched.filter_map(|ticket| self.known.get(ticket)).map(|command| command.end);
            let end = ends.max().unwrap_or(start);
            if area.bytes.0 >= area.bytes.1 || (from, to) != (start, end) {
                let message = format!("{} is live from {from} to {to}", place(area));
                self.refuse("schedule/area", area.span, message, format!("{start}..{end}, by its commands"));
            }
            let Some(writer) = writer else { continue };
            let readers = area.readers.iter().filter_map(|ticket| self.known.get(ticket)).copied();
            if let Some(early) = readers.filter(|reader| reader.start < writer.end).min_by_key(|r| r.start) {
                let (Ticket(number), Ticket(other)) = (early.ticket, writer.ticket);
                let (at, end) = (early.start, writer.end);
                let message =
                    format!("command {number} begins at {at} and reads what {other} writes until {end}");
                let complaint = Diagnostic::error("schedule/order", message).at(early.span, "");
                self.found.push(complaint.also(area.span, place(area)).allowed(format!("{end} or later")));
            }
        }
    }

    /// Areas that share bytes follow each other: the next one begins when all are done with the one before,
    /// or by who reads that last.
    fn overlaps(&mut self) {
        let mut order: Vec<&'t LiveArea> = self.text.areas.iter().collect();
        order.sort_by_key(|area| (area.memory, area.live));
        let mut alive: Vec<&'t LiveArea> = Vec::new();
        for area in order {
            alive.retain(|other| other.memory == area.memory && other.live.1 > area.live.0);
            let shared = alive.iter().filter(|other| other.meets(area));
            let clash = shared.copied().find(|other| !self.in_place(other, area));
            if let Some(other) = clash {
                let (from, to) = other.live;
                let message = format!("{} is live from {}, while another is", place(area), area.live.0);
                let complaint = Diagnostic::error("schedule/overlap", message).at(area.span, "");
                let complaint = complaint.also(other.span, format!("{} from {from} to {to}", place(other)));
                self.found.push(complaint.allowed(format!("from {to} on, or other bytes")));
            }
            alive.push(area);
        }
    }

    /// Whoever writes the next area reads this one, and all others were done with it before.
    fn in_place(&self, area: &LiveArea, next: &LiveArea) -> bool {
        let Some(writer) = next.by.and_then(|by| self.known.get(&by)) else { return false };
        let done = |ticket: &Ticket| {
            *ticket == writer.ticket || self.known.get(ticket).is_some_and(|other| other.end <= writer.start)
        };
        area.readers.contains(&writer.ticket) && area.by.iter().chain(&area.readers).all(done)
    }

    fn sum(&mut self, line: &'static str, found: String, wanted: String) {
        if found != wanted {
            let span = self.text.spans.iter().find(|(known, _)| *known == line).map(|(_, span)| *span);
            self.refuse("schedule/sum", span.unwrap_or_default(), found, wanted);
        }
    }

    /// The report.
    fn sums(&mut self) {
        let text = self.text;
        let busy = busy(&text.commands);
        let spelled = |busy: [u64; UNITS.len()]| {
            let [main, sub, dma] = busy;
            format!("busy main {main}, sub {sub}, dma {dma}")
        };
        self.sum("busy", spelled(text.busy), spelled(busy));
        let bound = busy.into_iter().max().unwrap_or(0);
        let spent = u128::from(text.cycles.saturating_sub(text.fixed_cycles)) * 1000;
        let ratio = spent.checked_div(u128::from(bound)).unwrap_or(0);
        let spelled = |bound: u64, ratio: u128| format!("bound {bound}, {ratio} thousandths of it");
        self.sum("bound", spelled(text.bound, text.ratio_thousandths.into()), spelled(bound, ratio));
        let first = text.commands.iter().map(|command| command.pe).min().unwrap_or(PeId { chip: 0, pe: 0 });
        let spelled = |split: [u64; 4]| format!("time {split:?} % both, tensor unit, dma, neither");
        self.sum("time", spelled(text.split), spelled(split(&text.commands, first)));
        let spelled = |ahead: Prefetch| format!("{ahead:?}");
        self.sum("prefetch", spelled(text.prefetch), spelled(prefetch(&text.commands, &text.areas, first)));
        self.reasons(first);
    }

    /// Reasons are told above a ratio, and together they are no more than the time without work.
    fn reasons(&mut self, first: PeId) {
        let text = self.text;
        if !text.is_explained() {
            let count = text.reasons.len();
            return self.sum("more", format!("{count} reasons"), "0 reasons".to_string());
        }
        let main = || text.commands.iter().filter(|c| c.pe == first && c.unit == ExecUnit::Main);
        let (start, end) = (main().next().map_or(0, |c| c.start), main().next_back().map_or(0, |c| c.end));
        let worked: u64 = main().map(|command| command.end - command.start).sum();
        let idle = (end - start).saturating_sub(worked);
        let stated: u64 = text.reasons.iter().fold(0, |all, reason| all.saturating_add(reason.cycles));
        if stated > idle {
            self.sum(
                "more",
                format!("reasons for {stated} cycles"),
                format!("reasons for {idle} cycles at most"),
            );
        }
        for reason in &text.reasons {
            let share = percent(reason.cycles, text.cycles);
            let waited = main().filter(|command| kind(&command.name) == reason.before).count() as u64;
            if reason.percent != share || reason.count > waited {
                let spelled = |percent, count| format!("{percent} % before {} x {count}", reason.before);
                self.sum(
                    "more",
                    spelled(reason.percent, reason.count),
                    spelled(share, reason.count.min(waited)),
                );
            }
        }
    }
}

fn place(area: &LiveArea) -> String {
    format!("{} {}..{} ({})", area.memory.name(), area.bytes.0, area.bytes.1, area.name)
}

/// Of each unit the time of the PE whose unit works longest.
pub fn busy(commands: &[ScheduledCommand]) -> [u64; UNITS.len()] {
    UNITS.map(|unit| {
        let mut by_pe: BTreeMap<PeId, u64> = BTreeMap::new();
        for command in commands.iter().filter(|command| command.unit == unit) {
            let all = by_pe.entry(command.pe).or_default();
            *all = all.saturating_add(command.end.saturating_sub(command.start));
        }
        by_pe.into_values().max().unwrap_or(0)
    })
}

/// Cycles that are in any of some intervals.
fn covered(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut all, mut until) = (0, 0);
    for (start, end) in intervals {
        all += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    all
}

/// Percent of a PE's time: tensor unit and DMA engine, either alone, neither.
fn split(commands: &[ScheduledCommand], pe: PeId) -> [u64; 4] {
    let of = |wanted: &dyn Fn(ExecUnit) -> bool| -> Vec<(u64, u64)> {
        let own = commands.iter().filter(|command| command.pe == pe && wanted(command.unit));
        own.map(|command| (command.start, command.end)).collect()
    };
    let every = of(&|_| true);
    let start = every.iter().map(|(start, _)| *start).min().unwrap_or(0);
    let whole = every.iter().map(|(_, end)| *end).max().unwrap_or(0).saturating_sub(start);
    let any = covered(every);
    let (dma, unit) =
        (covered(of(&|unit| unit == ExecUnit::Dma)), covered(of(&|unit| unit != ExecUnit::Dma)));
    [dma - (any - unit), any - dma, any - unit, whole - any].map(|part| percent(part, whole))
}

/// How early the weights of a PE are there: transfers called `weights` that write what a load of them reads.
pub fn prefetch(commands: &[ScheduledCommand], areas: &[LiveArea], pe: PeId) -> Prefetch {
    let known: BTreeMap<Ticket, &ScheduledCommand> =
        commands.iter().map(|command| (command.ticket, command)).collect();
    // Of each load, when its first piece was asked for and when the last one was there.
    let mut loads: BTreeMap<Ticket, (u64, u64)> = BTreeMap::new();
    for area in areas {
        let Some(fetch) =
            area.by.and_then(|by| known.get(&by)).filter(|fetch| kind(&fetch.name) == "weights")
        else {
            continue;
        };
        let readers = area.readers.iter().filter_map(|reader| known.get(reader));
        let loaded = readers
            .filter(|load| load.pe == pe && ["load_weights", "widen_weights"].contains(&kind(&load.name)));
        for load in loaded {
            let (asked, there) = loads.entry(load.ticket).or_insert((u64::MAX, 0));
            (*asked, *there) = ((*asked).min(fetch.issued), (*there).max(fetch.end));
        }
    }
    let mut asked: Vec<u64> = loads.values().map(|(asked, _)| *asked).collect();
    asked.sort_unstable();
    let mut found = Prefetch { fills: loads.len() as u64, ..Prefetch::default() };
    for (load, (own, there)) in &loads {
        let start = known.get(load).map_or(0, |load| load.start);
        let ready = start.saturating_sub(*there);
        found.ready_cycles = found.ready_cycles.saturating_add(ready);
        found.late += u64::from(ready == 0);
        let until = asked.partition_point(|at| *at <= start);
        let behind = until.saturating_sub(asked.partition_point(|at| *at <= *own)) as u64;
        found.most = found.most.max(behind);
    }
    found.ready_cycles /= found.fills.max(1);
    found
}
