//! Pictures of a low-level einsum: what each slice holds of every shape, and where the loops of its tactic
//! run.

use tilewright_notation::algebra::RadixMap;
use tilewright_notation::problem::{Digit, Problem};
use tilewright_notation::syntax::ast::{Operand, Program};

use crate::shape::ShapeGrid;
use crate::svg::Svg;
use crate::tactic::{self, LoopPlacement, LoopRow};

/// Where an engine runs the loops of a contraction, outermost first.
#[derive(Clone, Copy, Debug)]
pub struct PlacedLoops<'d> {
    /// Loops over slices.
    pub slices: &'d [Digit],
    /// Loops in time.
    pub time: &'d [Digit],
    /// How many of the innermost loops in time run while the feed unit holds a packet.
    pub repeats: usize,
    /// Loops over the lanes of a slice.
    pub lanes: &'d [Digit],
    /// Loops within a packet.
    pub packet: &'d [Digit],
}

/// The grids of an einsum's shapes, and the loops of its tactic.
#[derive(Clone, Debug)]
pub struct Pictures {
    grids: Vec<ShapeGrid>,
    tactic: Option<(String, Vec<LoopRow>)>,
}

impl Pictures {
    /// Works out all pictures of an einsum; `None` if a shape is too large to number its places. A tactic
    /// whose loops no engine placed is drawn as it is written.
    pub fn new(program: &Program, problem: &Problem, placed: Option<PlacedLoops<'_>>) -> Option<Pictures> {
        let mut grids = Vec::new();
        for operand in Operand::ALL {
            let (Some(shape), Some(written)) = (problem.shape(operand), program.shape(operand)) else {
                continue;
            };
            let map = RadixMap::of_shape(problem, shape).ok()?;
            grids.push(ShapeGrid::new(problem, shape, &map, &written.to_string()));
        }
        let tactic = problem.tactic.as_ref().zip(program.tactic.as_ref()).map(|(loops, written)| {
            let as_written = PlacedLoops {
                slices: &loops.parallel,
                time: &loops.slice,
                repeats: 0,
                lanes: &[],
                packet: &[],
            };
            (written.to_string(), rows(problem, placed.unwrap_or(as_written)))
        });
        Some(Pictures { grids, tactic })
    }

    /// For terminals.
    pub fn text(&self) -> String {
        let mut parts: Vec<String> = self.grids.iter().map(ShapeGrid::text).collect();
        if let Some((written, rows)) = &self.tactic {
            parts.push(format!("tactic   {written}\n{}", tactic::text(rows)));
        }
        parts.join("\n")
    }

    /// As an SVG file.
    pub fn svg(&self) -> String {
        let mut svg = Svg::default();
        self.draw(&mut svg);
        svg.finish()
    }

    /// Shapes below each other, the tactic below them.
    pub fn draw(&self, svg: &mut Svg) {
        let mut top = 8.0;
        for grid in &self.grids {
            grid.draw(svg, top);
            top = svg.bottom() + 20.0;
        }
        if let Some((written, rows)) = &self.tactic {
            tactic::draw(svg, top, "tactic", written, rows);
        }
    }
}

/// One row for each loop.
fn rows(problem: &Problem, placed: PlacedLoops<'_>) -> Vec<LoopRow> {
    let (time, repeats) = placed.time.split_at(placed.time.len().saturating_sub(placed.repeats));
    let by_role = [
        (LoopPlacement::Slices, placed.slices),
        (LoopPlacement::Time, time),
        (LoopPlacement::Repeat, repeats),
        (LoopPlacement::Lanes, placed.lanes),
        (LoopPlacement::Packet, placed.packet),
    ];
    let of = |(role, digits): (LoopPlacement, &[Digit])| {
        digits.iter().map(|digit| LoopRow::new(problem, role, digit)).collect::<Vec<_>>()
    };
    by_role.into_iter().flat_map(of).collect()
}
