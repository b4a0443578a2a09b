//! Figs 14 and 15: tactics of QK^T, time against power of a slice, and where the power of six of them goes.
//!
//! The tactics are the explorer's, each priced as its search does, by the contraction alone
//! (`tilewright_explore::tcp::contractions`). The paper's rule: Opt. 1 to 3 take the least power of their
//! class of time, Ineff. 1 to 3 the most. Classes are those of the least time, twice and four times as much.
//! These six are lowered to programs and simulated: what is printed of them is what their command took.

use std::collections::BTreeMap;

use serde::Serialize;
use tilewright_base::SourceId;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_explore::cloud::Cloud;
use tilewright_explore::tcp::contractions::{ContractionCost, every_contraction};
use tilewright_explore::tcp::cost::StageCycles;
use tilewright_explore::tcp::nest::FrameContext;
use tilewright_explore::tcp::program::{LowerOptions, lowered};
use tilewright_explore::tcp::{TcpChoice, TcpTask};
use tilewright_machine::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_record::KeepLast;
use tilewright_report::chart::{ChartPlane, LogAxis, StackedBar, stacked};
use tilewright_report::columns::{Align, table};
use tilewright_report::svg::{Anchor, Svg};
use tilewright_runtime::{Array, ArrayError, ReadingOptions, read};
use tilewright_tcp_cost::Setup;
use tilewright_tcp_cost::energy::{COMPONENTS, Component, counts, energy_fj};
use tilewright_tcp_isa::program::Tensor;

use crate::measure::real;
use crate::sizes::size;

/// Classes of time, in multiples of the least.
const CLASSES: [u64; 3] = [1, 2, 4];

/// One of the six tactics.
#[derive(Clone, Debug, Serialize)]
pub struct ChosenTactic {
    /// What it is called in the figure.
    pub name: String,
    /// Its time as a multiple of the least.
    pub class: u64,
    /// As it is written.
    pub tactic: String,
    /// Cycles of the contraction, without the overhead of its command.
    pub cycles: u64,
    /// Cycles of its command in the simulated program, overhead included.
    pub simulated_cycles: u64,
    /// Slices along heads, queries, keys, and the sum.
    pub split: [u64; 4],
    /// The operand that the register files hold.
    pub holds: &'static str,
    /// How the streamed operand reaches slices that share it.
    pub supply: &'static str,
    /// Lanes that are used.
    pub lanes: u64,
    /// Elements that the adder tree sums.
    pub tree: u64,
    /// Products of a slice in one step, padding included.
    pub step_products: u64,
    /// Steps for which the feed unit holds a packet.
    pub repeats: u64,
    /// Bytes of a fetch.
    pub fetch_bytes: u64,
    /// Sums that are kept at once.
    pub accumulators: u64,
    /// Cycles of products.
    pub product_cycles: u64,
    /// Cycles of the stream.
    pub stream_cycles: u64,
    /// Cycles of the drain.
    pub drain_cycles: u64,
    /// Picojoules of the command's events in the simulated program, all slices together.
    pub simulated_pj: f64,
    /// What the explorer says of the same, clock and leakage of the slices included.
    pub explored_pj: f64,
    /// Power of one slice: the events of the simulated command, and clock and leakage meanwhile.
    pub milliwatts: f64,
    /// Power of products and contraction engine: what the paper calls DPE.
    pub dpe_milliwatts: f64,
    /// Power by component.
    pub parts: BTreeMap<&'static str, f64>,
}

/// Figs. 14 and 15.
#[derive(Clone, Debug, Serialize)]
pub struct Figure14 {
    /// Heads, queries, keys, length of the sum.
    pub sizes: [u64; 4],
    /// Slices that the tactics run on.
    pub slices: u64,
    /// Tactics that there are.
    pub tactics: u64,
    /// Tactics of each class.
    pub in_class: [u64; 3],
    /// The six tactics that are shown.
    pub chosen: Vec<ChosenTactic>,
    #[serde(skip)]
    cloud: Cloud,
}

/// The einsum of Fig. 10 as the explorer takes it; none where the machine has no such setup.
pub(crate) fn task<'m>(machine: &'m Tcp, text: &str) -> Option<TcpTask<'m>> {
    let setup = Setup::new(machine, 1, Dtype::I8).ok()?;
    let program = parser::program(text, SourceId(0)).ok()?;
    let problem = Problem::new(&program).ok()?;
    TcpTask::new(setup, &program, &problem).ok()
}

/// A tactic and what its contraction takes.
#[derive(Clone, Copy)]
struct TacticPoint {
    framed: FrameContext,
    choice: TcpChoice,
    cost: ContractionCost,
}

impl TacticPoint {
    /// Femtojoules of a cycle, all slices together.
    fn power(&self) -> f64 {
        size(self.cost.energy_fj) / size(self.cost.cycles.max(1))
    }
}

/// Tactics whose slowest stage takes as long.
struct TimeClass {
    count: u64,
    /// That of the least power, and that of the most; the first of several.
    ends: [TacticPoint; 2],
}

/// The figures on a machine.
pub(crate) fn figure14(task: &TcpTask<'_>) -> Option<Figure14> {
    let (mut tactics, mut cloud) = (0, Cloud::default());
    let mut classes: BTreeMap<u64, TimeClass> = BTreeMap::new();
    every_contraction(task, &mut |framed, choice, cost| {
        tactics += 1;
        cloud.add(cost.cycles, cost.energy_fj);
        let point = TacticPoint { framed: *framed, choice: *choice, cost: *cost };
        let class = classes.entry(cost.slowest_cycles);
        let class = class.or_insert(TimeClass { count: 0, ends: [point; 2] });
        class.count += 1;
        let [low, high] = &mut class.ends;
        if point.power() < low.power() {
            *low = point;
        }
        if point.power() > high.power() {
            *high = point;
        }
    });
    let least = *classes.keys().next()?;
    let found = CLASSES.map(|times| classes.get(&least.exact_mul(times)));
    let mut chosen = Vec::new();
    for (end, name) in ["Opt.", "Ineff."].into_iter().enumerate() {
        for (number, (class, found)) in (1..).zip(CLASSES.into_iter().zip(&found)) {
            let point = found.and_then(|found| found.ends.get(end));
            chosen.extend(point.and_then(|point| simulated(task, format!("{name} {number}"), class, point)));
        }
    }
    let extent = |index: usize| task.axes.get(index).map_or(1, |axis| axis.extent);
    Some(Figure14 {
        sizes: AXES.map(extent),
        slices: task.setup.slices(),
        tactics,
        in_class: found.map(|class| class.map_or(0, |class| class.count)),
        chosen,
        cloud,
    })
}

/// Places of heads, queries, keys and the sum among the axes, in the order in which the einsum names them.
const AXES: [usize; 4] = [0, 1, 3, 2];

/// One of the six, lowered and simulated.
fn simulated(task: &TcpTask<'_>, name: String, class: u64, point: &TacticPoint) -> Option<ChosenTactic> {
    let (machine, TacticPoint { framed, choice, cost }) = (task.setup.machine, point);
    let found = lowered(task, framed, choice, &LowerOptions::default()).ok()?;
    let reading =
        read(machine, &found.program, &mut no_files, &ReadingOptions::default(), KeepLast::new(0)).ok()?;
    let image = reading.outcome.images.iter().find(|image| &*image.name == CONTRACT)?;
    let exec = found.program.execs.iter().find(|exec| exec.name == CONTRACT)?;
    let stages: StageCycles = tilewright_explore::tcp::contractions::stages(task, framed, choice).ok()?;
    let mut parts_fj = energy_fj(machine, &counts(machine, exec)).map(|fj| real(u128::from(fj)));
    let clock_fj = size(tilewright_explore::tcp::events::cycle_fj(&task.setup)) * size(cost.cycles);
    *parts_fj.get_mut(Component::Slices as usize).or_broken("slices are a component") += clock_fj;
    let seconds = size(cost.cycles) / size(machine.chip.clock_hz);
    let milliwatts = |fj: f64| fj * 1e-12 / seconds / size(task.setup.slices());
    let parts: [f64; COMPONENTS] = parts_fj.map(milliwatts);
    let part =
        |component: Component| parts.get(component as usize).copied().or_broken("every component has a part");
    let frame = &framed.frame;
    let nest = framed.nest(choice).ok()?;
    let slices = |axis: usize| {
        let log2 = frame.slices_log2.get(axis).copied();
        1_u64 << log2.or_broken("a frame divides every axis of the figure")
    };
    Some(ChosenTactic {
        name,
        class,
        tactic: found.text.tactic.as_ref().map_or_else(String::new, ToString::to_string),
        cycles: cost.cycles,
        simulated_cycles: u64::try_from(image.busy_cycles).or_broken("cycles of one command"),
        split: AXES.map(slices),
        holds: if frame.stationary == Operand::In1 { "keys" } else { "queries" },
        supply: choice.supply.name(),
        lanes: choice.lanes,
        tree: choice.tree,
        step_products: choice.lanes * choice.columns * choice.tree,
        repeats: choice.repeats,
        fetch_bytes: choice.fetch_bytes,
        accumulators: tilewright_explore::tcp::cost::groups(&nest, choice).open
            * choice.lanes
            * choice.columns,
        product_cycles: stages.mac,
        stream_cycles: stages.stream,
        drain_cycles: stages.drain,
        simulated_pj: real(image.energy_fj) * 1e-3,
        explored_pj: size(cost.energy_fj) * 1e-3,
        milliwatts: parts.iter().sum(),
        dpe_milliwatts: part(Component::Products) + part(Component::Contraction),
        parts: Component::ALL
            .iter()
            .zip(parts)
            .filter(|(_, mw)| *mw > 0.0)
            .map(|(component, mw)| (component.name(), mw))
            .collect(),
    })
}

/// The command that contracts, in a lowered candidate.
const CONTRACT: &str = "contract";

/// Elements of these programs are drawn from seeds.
fn no_files(_: &Tensor) -> Result<Array, ArrayError> {
    Err(ArrayError::Format("no file".to_string()))
}

/// As text.
pub(crate) fn text(figure: &Figure14) -> String {
    let head = [
        "tactic",
        "time",
        "cycles",
        "simulated",
        "split HQKD",
        "holds",
        "lanes",
        "tree",
        "repeats",
        "fetch",
        "sums kept",
        "T_mac",
        "T_stream",
        "T_drain",
        "mW",
        "DPE mW",
    ];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for chosen in &figure.chosen {
        rows.push(vec![
            chosen.name.clone(),
            format!("{}x", chosen.class),
            chosen.cycles.to_string(),
            chosen.simulated_cycles.to_string(),
            chosen.split.map(|slices| slices.to_string()).join("x"),
            chosen.holds.to_string(),
            chosen.lanes.to_string(),
            chosen.tree.to_string(),
            chosen.repeats.to_string(),
            format!("{} B", chosen.fetch_bytes),
            chosen.accumulators.to_string(),
            chosen.product_cycles.to_string(),
            chosen.stream_cycles.to_string(),
            chosen.drain_cycles.to_string(),
            format!("{:.0}", chosen.milliwatts),
            format!("{:.0}", chosen.dpe_milliwatts),
        ]);
    }
    let mut aligns = [Align::Right; 16];
    aligns[0] = Align::Left;
    format!(
        "{} tactics of {} slices; {} of the least time, {} of twice, {} of four times as much\n\n{}",
        figure.tactics,
        figure.slices,
        figure.in_class[0],
        figure.in_class[1],
        figure.in_class[2],
        table(&aligns, &rows)
    )
}

const CLOUD: &str = "#b9c4d0";
const OPT: &str = "#1f5fa8";
const INEFF: &str = "#c0392b";
/// One for each component that a slice has.
const PARTS: [(Component, &str); 7] = [
    (Component::Products, "#1f5fa8"),
    (Component::Contraction, "#5b9bd5"),
    (Component::Accumulators, "#a6cee3"),
    (Component::Registers, "#33a02c"),
    (Component::DataMemory, "#b2df8a"),
    (Component::Network, "#ff7f00"),
    (Component::Slices, "#bdbdbd"),
];

/// As a picture.
pub(crate) fn picture(figure: &Figure14, hz: f64) -> String {
    let mut svg = Svg::default();
    let milliwatts = |fj_per_cycle: f64| fj_per_cycle * 1e-15 * hz * 1e3;
    let cloud: Vec<(f64, f64)> = figure.cloud.points().map(|(cycles, fj)| (cycles, milliwatts(fj))).collect();
    let plane = ChartPlane {
        left: 84.0,
        top: 60.0,
        width: 480.0,
        height: 420.0,
        x: LogAxis::around("time, cycles", cloud.iter().map(|(x, _)| *x)),
        y: LogAxis::around("power of a slice, mW", cloud.iter().map(|(_, y)| *y)),
    };
    plane.draw(&mut svg, "Fig. 14: tactics of QK^T, time against power");
    let places: Vec<(f64, f64)> = cloud.iter().map(|(x, y)| plane.place(*x, *y)).collect();
    svg.dots(&places, 1.7, CLOUD);
    for chosen in &figure.chosen {
        let (x, y) = plane.place(size(chosen.cycles), chosen.milliwatts);
        let best = chosen.name.starts_with('O');
        svg.dot(x, y, 4.5, if best { OPT } else { INEFF }, &chosen.name);
        svg.text(x, if best { y + 17.0 } else { y - 9.0 }, Anchor::Middle, "small", &chosen.name);
    }
    for (at, (colour, name)) in
        [(CLOUD, "legal tactics"), (OPT, "least power of its time"), (INEFF, "most power of its time")]
            .into_iter()
            .enumerate()
    {
        let x = 84.0 + 170.0 * size(at as u64);
        svg.dot(x + 5.0, 540.0, 4.5, colour, "");
        svg.text(x + 15.0, 544.0, Anchor::Start, "small", name);
    }
    let legend: Vec<(String, String)> =
        PARTS.iter().map(|(part, colour)| (part.name().to_string(), (*colour).to_string())).collect();
    let bars: Vec<StackedBar> = figure
        .chosen
        .iter()
        .map(|chosen| StackedBar {
            name: chosen.name.clone(),
            parts: PARTS
                .iter()
                .map(|(part, _)| chosen.parts.get(part.name()).copied().unwrap_or(0.0))
                .collect(),
        })
        .collect();
    stacked(&mut svg, (680.0, 60.0), "Fig. 15: where the power of a slice goes", "power, mW", &legend, &bars);
    svg.finish()
}
