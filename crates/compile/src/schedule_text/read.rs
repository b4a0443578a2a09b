//! The reader of schedules.

use tilewright_base::{Diagnostic, SourceId, Span};
use tilewright_tcp_isa::footprint::MemoryKind;
use tilewright_tcp_isa::program::event::{PeId, Ticket};

use super::{
    COMMANDS, LiveArea, PLACEMENT, Prefetch, ScheduleText, ScheduledCommand, StallReason, UNITS, WHY,
};
use crate::kernel_text::MOST_COMPLAINTS;
use crate::scan::{self, ScanResult, TextLine};

const SYNTAX: &str = "schedule/syntax";
/// Memories that areas may be in.
const MEMORIES: [MemoryKind; 5] =
    [MemoryKind::Hbm, MemoryKind::Dm, MemoryKind::Trf, MemoryKind::Vrf, MemoryKind::Spm];
/// Lines that every text has, by their first words.
const REPORTED: [&str; 8] =
    ["program", "cycles", "busy", "bound", "time", "prefetch", "placement", "commands"];
/// Pieces of an area besides the first.
const MOST_PIECES: u64 = 1 << 20;
/// Commands and areas of a text, and numbers that they name.
const MOST: usize = 1 << 22;

/// Reads a text.
///
/// # Errors
/// With every complaint about it.
pub fn read(text: &str, source: SourceId) -> Result<ScheduleText, Vec<Diagnostic>> {
    let mut complaints: Vec<Diagnostic> = Vec::new();
    let mut reader = ScheduleReader::default();
    let mut lines = scan::lines(text, source, SYNTAX);
    match lines.next() {
        Some(line) => complaints.extend(head(line).err().map(|complaint| *complaint)),
        None => complaints.push(Diagnostic::error(SYNTAX, "the text is empty").allowed("schedule 2")),
    }
    for line in lines {
        complaints.extend(reader.line(line).err().map(|complaint| *complaint));
        if complaints.len() >= MOST_COMPLAINTS {
            break;
        }
    }
    let said = |word: &str| reader.out.spans.iter().any(|(known, _)| *known == word);
    for missing in REPORTED.iter().filter(|word| !said(word)) {
        let complaint = Diagnostic::error(SYNTAX, format!("no line begins with `{missing}`"));
        complaints.push(complaint.allowed(format!("a line for each of {}", REPORTED.join(", "))));
    }
    if complaints.is_empty() { Ok(reader.out) } else { Err(complaints) }
}

fn head(mut line: TextLine<'_>) -> ScanResult<()> {
    line.version("schedule")
}

/// What indented lines are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Report,
    Reasons,
    Placement,
    Commands,
}

#[derive(Default)]
struct ScheduleReader {
    out: ScheduleText,
    section: Section,
    numbers: usize,
}

impl ScheduleReader {
    fn line(&mut self, line: TextLine<'_>) -> ScanResult<()> {
        let span = line.span();
        if !line.is_indented() {
            return self.report(line);
        }
        match self.section {
            Section::Report => refuse(span, "an indented line in the report", "reasons, areas and commands"),
            Section::Reasons => {
                self.out.reasons.push(reason(line)?);
                Ok(())
            }
            Section::Placement => {
                let area = self.area(line, span)?;
                self.out.areas.push(area);
                Ok(())
            }
            Section::Commands => {
                let command = self.command(line, span)?;
                self.out.commands.push(command);
                Ok(())
            }
        }
    }

    /// A line that begins with a word of its own.
    fn report(&mut self, mut line: TextLine<'_>) -> ScanResult<()> {
        let (whole, span) = (line, line.span());
        let word = line.name()?;
        if word == "more" {
            self.section = Section::Reasons;
            self.out.spans.push(("more", span));
            let mut line = whole;
            return line.expect(WHY).and_then(|()| line.ends());
        }
        let Some(word) = REPORTED.into_iter().find(|known| *known == word) else {
            return refuse(span, &format!("`{word}` is no part of a schedule"), &REPORTED.join(", "));
        };
        if self.out.spans.iter().any(|(known, _)| *known == word) {
            return refuse(span, &format!("`{word}` is said twice"), "one line");
        }
        self.out.spans.push((word, span));
        self.section = match word {
            "placement" => Section::Placement,
            "commands" => Section::Commands,
            _ => Section::Report,
        };
        let out = &mut self.out;
        match word {
            "program" => out.program = line.name()?.to_string(),
            "cycles" => {
                out.cycles = line.number()?;
                line.expect(", of them")?;
                out.fixed_cycles = line.number()?;
                line.expect("for launch and finish")?;
            }
            "busy" => {
                for (at, (unit, busy)) in UNITS.iter().zip(&mut out.busy).enumerate() {
                    if at > 0 {
                        line.expect(",")?;
                    }
                    line.expect(unit.name())?;
                    *busy = line.number()?;
                }
            }
            "bound" => {
                out.bound = line.number()?;
                line.expect(", time / bound =")?;
                out.ratio_thousandths = thousandths(&mut line)?;
            }
            "time" => out.split = split(&mut line)?,
            "prefetch" => out.prefetch = prefetch(&mut line)?,
            // Titles of what follows.
            _ => {
                line = whole;
                line.expect(if word == "placement" { PLACEMENT } else { COMMANDS })?;
            }
        }
        line.ends()
    }

    fn area(&mut self, mut line: TextLine<'_>, span: Span) -> ScanResult<LiveArea> {
        let word = line.name()?;
        let Some(memory) = MEMORIES.into_iter().find(|memory| memory.name() == word) else {
            let names = MEMORIES.map(MemoryKind::name).join(", ");
            return refuse(span, &format!("`{word}` is no memory"), &names);
        };
        let bytes = range(&mut line)?;
        let more = if line.has("and ") { pieces(&mut line, bytes, span)? } else { (0, 0) };
        let live = range(&mut line)?;
        let by = if line.has("by") { Some(Ticket(line.number()?)) } else { None };
        let readers = if line.has("for") { self.tickets(&mut line, span)? } else { Vec::new() };
        line.expect(",")?;
        let name = line.words();
        Ok(LiveArea { memory, bytes, more, live, by, readers, name, span })
    }

    fn command(&mut self, mut line: TextLine<'_>, span: Span) -> ScanResult<ScheduledCommand> {
        let [ticket, issued, start, end, chip] =
            [line.number()?, line.number()?, line.number()?, line.number()?, line.number()?];
        line.expect(".")?;
        let pe = PeId { chip, pe: line.number()? };
        let word = line.name()?;
        let Some(unit) = UNITS.into_iter().find(|unit| unit.name() == word) else {
            let names = UNITS.map(tilewright_tcp_isa::program::event::ExecUnit::name).join(", ");
            return refuse(span, &format!("`{word}` is no unit"), &names);
        };
        let name = line.name()?.to_string();
        let after = if line.has("after ") { self.tickets(&mut line, span)? } else { Vec::new() };
        line.ends()?;
        Ok(ScheduledCommand { ticket: Ticket(ticket), issued, start, end, pe, unit, name, after, span })
    }

    /// Numbers of commands, one at least.
    fn tickets(&mut self, line: &mut TextLine<'_>, span: Span) -> ScanResult<Vec<Ticket>> {
        let mut all = vec![Ticket(line.number()?)];
        while line.is_at_digit() {
            all.push(Ticket(line.number()?));
        }
        self.numbers += all.len();
        if self.numbers + self.out.commands.len() + self.out.areas.len() > MOST {
            return refuse(span, "commands name too many others", &format!("{MOST} numbers"));
        }
        Ok(all)
    }
}

fn range(line: &mut TextLine<'_>) -> ScanResult<(u64, u64)> {
    let first = line.number()?;
    line.expect("..")?;
    Ok((first, line.number()?))
}

/// `and 3 more every 16,`: pieces that do not touch each other.
fn pieces(line: &mut TextLine<'_>, (start, end): (u64, u64), span: Span) -> ScanResult<(u64, u64)> {
    let count = line.number()?;
    line.expect("more every")?;
    let stride = line.number()?;
    line.expect(",")?;
    let fits = count.checked_mul(stride).and_then(|far| far.checked_add(end)).is_some();
    if !(1..=MOST_PIECES).contains(&count) || stride <= end.saturating_sub(start) || !fits {
        let allowed = format!("1 to {MOST_PIECES} pieces, further apart than they are long");
        return refuse(span, &format!("{count} more pieces every {stride} bytes"), &allowed);
    }
    Ok((count, stride))
}

/// `1.401`.
fn thousandths(line: &mut TextLine<'_>) -> ScanResult<u64> {
    let whole = line.number()?;
    line.expect(".")?;
    let (before, span) = (line.words().len(), line.span());
    let parts = line.number()?;
    if before - line.words().len() != 3 {
        return refuse(span, "a ratio without thousandths", "three digits behind the point");
    }
    Ok(whole.saturating_mul(1000).saturating_add(parts))
}

fn split(line: &mut TextLine<'_>) -> ScanResult<[u64; 4]> {
    let mut all = [0; 4];
    let titles = ["of pe 0: tensor unit and dma", "%, tensor unit alone", "%, dma alone", "%, neither"];
    for (slot, title) in all.iter_mut().zip(titles) {
        line.expect(title)?;
        *slot = line.number()?;
    }
    line.expect("%")?;
    Ok(all)
}

fn prefetch(line: &mut TextLine<'_>) -> ScanResult<Prefetch> {
    line.expect(":")?;
    let fills = line.number()?;
    line.expect("fills, at most")?;
    let most = line.number()?;
    line.expect("more under way when one is loaded; ready")?;
    let ready_cycles = line.number()?;
    line.expect("cycles before on average,")?;
    let late = line.number()?;
    line.expect("not before")?;
    Ok(Prefetch { fills, most, ready_cycles, late })
}

fn reason(mut line: TextLine<'_>) -> ScanResult<StallReason> {
    let cycles = line.number()?;
    line.expect("cycles (")?;
    let percent = line.number()?;
    line.expect("%) before")?;
    let before = line.name()?.to_string();
    line.expect("x")?;
    let count = line.number()?;
    line.expect(", for")?;
    Ok(StallReason { cycles, percent, before, count, on: line.words() })
}

fn refuse<T>(span: Span, message: &str, allowed: &str) -> ScanResult<T> {
    let complaint = Diagnostic::error(SYNTAX, message.to_string());
    Err(Box::new(complaint.at(span, "").allowed(allowed.to_string())))
}
