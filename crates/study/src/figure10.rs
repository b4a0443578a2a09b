//! Fig. 10: QK^T of four heads on the slices of one PE: what each slice holds, the tactic, and how often a
//! fetched query is used.
//!
//! Everything follows from the text of the tactic (`kernels/qk-fig10.tw`): shapes and loops from the
//! notation, reuse and cycles from the rules of the engine.

use serde::Serialize;
use tilewright_base::SourceId;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::Tcp;
use tilewright_notation::problem::{Digit, Problem};
use tilewright_notation::syntax::ast::{Operand, Program};
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_report::einsum::{Pictures, PlacedLoops};
use tilewright_report::svg::{Anchor, Svg};
use tilewright_tcp_cost::legality::Verdict;
use tilewright_tcp_cost::{PlacedTactic, Setup};

/// The paper's example.
pub(crate) const TACTIC: &str = include_str!("../../../kernels/qk-fig10.tw");

/// A tensor of the figure, and where it lies.
#[derive(Clone, Debug, Serialize)]
pub struct PlacedTensor {
    /// The operand.
    pub tensor: &'static str,
    /// Its lowered shape.
    pub shape: String,
    /// Slices that hold it.
    pub slices: u64,
    /// Bytes of each slice.
    pub bytes_per_slice: u64,
    /// The memory.
    pub place: &'static str,
}

/// What Fig. 10 says.
#[derive(Clone, Debug, Serialize)]
pub struct Figure10 {
    /// The einsum.
    pub einsum: String,
    /// The tactic.
    pub tactic: String,
    /// Slices that it runs on.
    pub slices: u64,
    /// Its tensors.
    pub held: Vec<PlacedTensor>,
    /// Slices that a fetched query passes.
    pub reuse_slices: u64,
    /// Lanes that use it on each slice.
    pub reuse_lanes: u64,
    /// Steps for which the feed unit holds it.
    pub reuse_repeats: u64,
    /// Uses of a fetched query, all together.
    pub reuse: u64,
    /// Cycles of products on each slice.
    pub product_cycles: u64,
    /// Cycles of the stream of queries on each slice.
    pub stream_cycles: u64,
    /// Part of the multipliers that work in the cycles of products.
    pub multiplier_use: f64,
}

struct Example<'m> {
    setup: Setup<'m>,
    program: Program,
    problem: Problem,
    verdict: Verdict,
}

fn example(machine: &Tcp) -> Option<Example<'_>> {
    let setup = Setup::new(machine, 1, Dtype::I8).ok()?;
    let program = parser::program(TACTIC, SourceId(0)).ok()?;
    let problem = Problem::new(&program).ok()?;
    let verdict = tilewright_tcp_cost::check(&setup, &problem);
    verdict.legal().then_some(Example { setup, program, problem, verdict })
}

fn product(digits: &[Digit]) -> u64 {
    digits.iter().fold(1, |all, digit| all.exact_mul(digit.live))
}

/// The figure on a machine; `None` if the tactic is not legal there.
pub(crate) fn figure10(machine: &Tcp) -> Option<Figure10> {
    let Example { setup, program, problem, verdict } = example(machine)?;
    let reuse = verdict.reuse.as_ref()?;
    let placed: &PlacedTactic = verdict.placed.as_ref()?;
    let packet_bytes = (placed.packet_elements() * setup.element_bits()).div_ceil(8);
    let held = Operand::ALL.into_iter().filter_map(|operand| {
        let found = verdict.footprints.iter().find(|footprint| footprint.operand == operand)?;
        Some(PlacedTensor {
            tensor: operand.name(),
            shape: program.shape(operand)?.to_string(),
            slices: found.slices,
            bytes_per_slice: found.bytes_per_slice,
            place: found.place.name(),
        })
    });
    Some(Figure10 {
        einsum: program.einsum.to_string(),
        tactic: program.tactic.as_ref()?.to_string(),
        slices: setup.slices(),
        held: held.collect(),
        reuse_slices: product(&reuse.across_slices),
        reuse_lanes: product(&reuse.lanes),
        reuse_repeats: product(&reuse.repeats),
        reuse: reuse.count(),
        product_cycles: placed.engine_cycles(),
        stream_cycles: placed.packets() * packet_bytes.div_ceil(machine.network.flit_bytes),
        multiplier_use: placed.multiplier_use(&setup, &problem),
    })
}

/// As text.
pub(crate) fn text(figure: &Figure10) -> String {
    let mut text = format!("{}   tactic {}\n", figure.einsum, figure.tactic);
    for held in &figure.held {
        text += &format!(
            "  {:<4} {}: {} B of {} on each of {} slices\n",
            held.tensor, held.shape, held.bytes_per_slice, held.place, held.slices
        );
    }
    text += &format!(
        "  a fetched query is used {} times: {} slices x {} lanes x {} repeats; {} cycles of products, {} of \
         stream, {:.0} % of the multipliers\n",
        figure.reuse,
        figure.reuse_slices,
        figure.reuse_lanes,
        figure.reuse_repeats,
        figure.product_cycles,
        figure.stream_cycles,
        figure.multiplier_use * 100.0
    );
    text
}

/// As a picture: the shapes, the tactic, and the way of one query.
pub(crate) fn picture(machine: &Tcp, figure: &Figure10) -> String {
    let mut svg = Svg::default();
    if let Some(Example { program, problem, verdict, .. }) = example(machine)
        && let Some(pictures) = Pictures::new(&program, &problem, verdict.placed.as_ref().map(loops))
    {
        pictures.draw(&mut svg);
    }
    let top = svg.bottom() + 40.0;
    way(&mut svg, top, figure);
    svg.finish()
}

/// Where the engine runs the loops, as pictures take them.
fn loops(placed: &PlacedTactic) -> PlacedLoops<'_> {
    PlacedLoops {
        slices: &placed.parallel,
        time: &placed.time,
        repeats: placed.repeat_terms,
        lanes: &placed.lanes,
        packet: &placed.packet,
    }
}

const LEFT: f64 = 24.0;
const SLICE: f64 = 42.0;
const GAP: f64 = 6.0;

/// The slices that a query passes, the lanes of each, and the product of it all.
fn way(svg: &mut Svg, top: f64, figure: &Figure10) {
    let title = format!("the way of one query: {} uses for one fetch", figure.reuse);
    svg.text(LEFT, top, Anchor::Start, "title", &title);
    let (y, lane) = (top + 16.0, 9.0);
    let lanes = f64::from(u32::try_from(figure.reuse_lanes).or_broken("a picture has few lines"));
    let height = 24.0 + lanes * lane;
    let mut x = LEFT;
    for slice in 0..figure.reuse_slices {
        svg.rect(x, y, SLICE, height, if slice == 0 { "#9ec9e8" } else { "#eef3f8" });
        svg.text(x + SLICE / 2.0, y + 15.0, Anchor::Middle, "small", &slice.to_string());
        for index in 0..figure.reuse_lanes {
            let at = y + 20.0 + lane * f64::from(u32::try_from(index).or_broken("a picture has few lines"));
            svg.block(x + 5.0, at, SLICE - 10.0, lane - 2.0, "#b8dfb0");
        }
        if slice + 1 < figure.reuse_slices {
            svg.line(x + SLICE, y + height / 2.0, x + SLICE + GAP, y + height / 2.0);
        }
        x += SLICE + GAP;
    }
    let notes = [
        format!(
            "fetched once from data memory of its slice, then from slice to slice over the fetch network: {} \
             slices",
            figure.reuse_slices
        ),
        format!(
            "on each slice broadcast to {} lanes and held by the feed unit for {} steps, one for each key of \
             a lane",
            figure.reuse_lanes, figure.reuse_repeats
        ),
        format!(
            "{} x {} x {} = {} uses; {} cycles of products beside {} cycles of stream, {:.0} % of the \
             multipliers at work",
            figure.reuse_slices,
            figure.reuse_lanes,
            figure.reuse_repeats,
            figure.reuse,
            figure.product_cycles,
            figure.stream_cycles,
            figure.multiplier_use * 100.0
        ),
    ];
    for (at, note) in notes.iter().enumerate() {
        let line = f64::from(u32::try_from(at).or_broken("a picture has few lines")) * Svg::LINE;
        svg.text(LEFT, y + height + 22.0 + line, Anchor::Start, "small", note);
    }
}
