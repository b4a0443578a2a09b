//! The loops of a tactic and where each runs, as a table and as SVG.

use tilewright_notation::problem::{Digit, Problem};
use tilewright_notation::radix::superscript;
use tilewright_notation::syntax::ast::Operand;

use crate::columns::{Align, table, thousands};
use crate::svg::{Anchor, Svg};

/// Where a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopPlacement {
    /// On different slices at once.
    Slices,
    /// One step after the other.
    Time,
    /// In time, while the feed unit holds the packet.
    Repeat,
    /// On the lanes of a slice at once.
    Lanes,
    /// Within a packet.
    Packet,
}

impl LoopPlacement {
    /// The word in tables.
    pub fn name(self) -> &'static str {
        match self {
            LoopPlacement::Slices => "slices",
            LoopPlacement::Time => "time",
            LoopPlacement::Repeat => "repeat",
            LoopPlacement::Lanes => "lanes",
            LoopPlacement::Packet => "packet",
        }
    }

    fn fill(self) -> &'static str {
        match self {
            LoopPlacement::Slices => "#9ec9e8",
            LoopPlacement::Time => "#e4e4e4",
            LoopPlacement::Repeat => "#f6e3a1",
            LoopPlacement::Lanes => "#b7dfb0",
            LoopPlacement::Packet => "#f2b8a6",
        }
    }
}

/// One loop of a tactic.
#[derive(Clone, Debug)]
pub struct LoopRow {
    /// Where it runs.
    pub role: LoopPlacement,
    /// `K^8[2]`.
    pub term: String,
    /// Steps.
    pub size: u64,
    /// Places, if more than the steps.
    pub slots: u64,
    /// Tensors that change with it.
    pub uses: [bool; 3],
    /// Summed over.
    pub contracted: bool,
}

impl LoopRow {
    /// A row for a digit.
    pub fn new(problem: &Problem, role: LoopPlacement, digit: &Digit) -> LoopRow {
        let name = digit.axis.map_or("_".to_string(), |axis| problem.axis(axis).name.to_string());
        LoopRow {
            role,
            term: format!("{name}^{}[{}]", superscript(digit.stride), digit.live),
            size: digit.live,
            slots: digit.slots,
            uses: Operand::ALL.map(|operand| digit.axis.is_some_and(|axis| problem.has(operand, axis))),
            contracted: digit.axis.is_some_and(|axis| problem.contracted(axis)),
        }
    }

    fn uses_text(&self) -> Vec<String> {
        let word = |(operand, used): (Operand, &bool)| {
            if *used { operand.name().to_string() } else { "-".to_string() }
        };
        Operand::ALL.into_iter().zip(&self.uses).map(word).collect()
    }

    fn meaning(&self) -> String {
        let what = match (self.role, self.contracted) {
            (LoopPlacement::Slices, true) => "partial sums, added across slices",
            (LoopPlacement::Slices, false) => "side by side",
            (LoopPlacement::Time, true) => "added up in the accumulators",
            (LoopPlacement::Time, false) => "one after the other",
            (LoopPlacement::Repeat, _) => "the fetched packet is used again",
            (LoopPlacement::Lanes, _) => "the packet is broadcast",
            (LoopPlacement::Packet, true) => "summed by the tree",
            (LoopPlacement::Packet, false) => "a column of every lane",
        };
        if self.slots > self.size { format!("{what}; {} places", self.slots) } else { what.to_string() }
    }
}

/// The loops as a table.
pub fn text(loops: &[LoopRow]) -> String {
    let head = ["runs in", "loop", "steps", "in0", "in1", "out", ""];
    let mut rows = vec![head.iter().map(ToString::to_string).collect::<Vec<_>>()];
    for row in loops {
        let mut cells = vec![row.role.name().to_string(), row.term.clone(), thousands(row.size)];
        cells.extend(row.uses_text());
        cells.push(row.meaning());
        rows.push(cells);
    }
    let (left, right) = (Align::Left, Align::Right);
    let body = table(&[left, left, right, left, left, left, left], &rows);
    body.lines().map(|line| format!("  {line}\n")).collect()
}

/// The loops as nested bars, from `top` downwards.
pub fn draw(svg: &mut Svg, top: f64, title: &str, tactic: &str, loops: &[LoopRow]) {
    let left = 24.0;
    svg.text(left, top + 20.0, Anchor::Start, "title", title);
    svg.text(left, top + 42.0, Anchor::Start, "code", tactic);
    let mut y = top + 58.0;
    let mut x = left;
    const WIDTH: f64 = 620.0;
    for row in loops {
        svg.rect(x, y, WIDTH - (x - left), 26.0, row.role.fill());
        svg.text(x + 8.0, y + 17.0, Anchor::Start, "code", &format!("{} {}", row.role.name(), row.term));
        let used: Vec<String> = row.uses_text().into_iter().filter(|word| word != "-").collect();
        let note = format!("{}; {}", used.join(" "), row.meaning());
        svg.text(left + WIDTH - 8.0, y + 17.0, Anchor::End, "small", &note);
        y += 28.0;
        x += 14.0;
    }
    y += 8.0;
    let mut legend = left;
    for role in [
        LoopPlacement::Slices,
        LoopPlacement::Time,
        LoopPlacement::Repeat,
        LoopPlacement::Lanes,
        LoopPlacement::Packet,
    ] {
        svg.rect(legend, y, 14.0, 14.0, role.fill());
        svg.text(legend + 20.0, y + 11.5, Anchor::Start, "small", role.name());
        legend += 84.0;
    }
}
