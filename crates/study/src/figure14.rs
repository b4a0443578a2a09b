//! Figs 14 and 15: tactics of QK^T, time against power of a slice, and where the power of six of them goes.
//!
//! The space and its closed forms are those of `tilewright_explore::tcp::section`. The paper's rule: Opt. 1
//! to 3 take the least power of their class of time, Ineff. 1 to 3 the most. Classes are those of the least
//! time, twice and four times as much.

use std::collections::BTreeMap;
use tilewright_base::invariant::OrBroken;

use serde::Serialize;
use tilewright_explore::cloud::Cloud;
use tilewright_explore::tcp::section::{SectionProduct, SectionTactic, every_tactic, slice_parts, stages};
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_report::chart::{ChartPlane, LogAxis, StackedBar, stacked};
use tilewright_report::columns::{Align, table};
use tilewright_report::svg::{Anchor, Svg};
use tilewright_tcp_cost::Setup;
use tilewright_tcp_cost::energy::{COMPONENTS, Component};

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
    /// Cycles.
    pub cycles: u64,
    /// Slices along heads, queries, keys, and the sum.
    pub split: [u64; 4],
    /// The operand that the register files hold.
    pub holds: &'static str,
    /// Lanes that are used.
    pub lanes: u64,
    /// Depth of the adder tree.
    pub tree_depth: u32,
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
    /// Power of one slice.
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

/// A tactic with its power, by component.
type TacticPower = (SectionTactic, [f64; COMPONENTS]);

fn power((_, parts): &TacticPower) -> f64 {
    parts.iter().sum()
}

/// The figures on a machine.
pub(crate) fn figure14(machine: &Tcp, product: SectionProduct) -> Option<Figure14> {
    let setup = Setup::new(machine, 1, Dtype::I8).ok()?;
    let slowest = |tactic: &SectionTactic| {
        let stages = stages(&setup, &product, tactic);
        stages.mac.max(stages.stream).max(stages.drain)
    };
    let mut least = u64::MAX;
    every_tactic(&setup, &product, &mut |tactic| least = least.min(slowest(tactic)));
    let (mut tactics, mut in_class, mut cloud) = (0, [0; 3], Cloud::default());
    let mut ends: [[Option<TacticPower>; 2]; 3] = [[None; 2]; 3];
    every_tactic(&setup, &product, &mut |tactic| {
        tactics += 1;
        let found = (*tactic, slice_parts(&setup, &product, tactic));
        let cycles = stages(&setup, &product, tactic).cycles;
        cloud.add(cycles, femtojoules(power(&found) * size(cycles)));
        let class = CLASSES.iter().position(|times| slowest(tactic) == least.saturating_mul(*times));
        let Some((count, [low, high])) = class.and_then(|at| in_class.get_mut(at).zip(ends.get_mut(at)))
        else {
            return;
        };
        *count += 1;
        if low.as_ref().is_none_or(|best| power(&found) < power(best)) {
            *low = Some(found);
        }
        if high.as_ref().is_none_or(|worst| power(&found) > power(worst)) {
            *high = Some(found);
        }
    });
    let mut chosen = Vec::new();
    for (end, name) in ["Opt.", "Ineff."].into_iter().enumerate() {
        for (number, (class, found)) in (1..).zip(CLASSES.into_iter().zip(&ends)) {
            let found = found.get(end).copied().flatten();
            chosen
                .extend(found.map(|found| row(&setup, &product, format!("{name} {number}"), class, &found)));
        }
    }
    let SectionProduct { batch, rows0, rows1, sum } = product;
    let sizes = [batch, rows0, rows1, sum];
    Some(Figure14 { sizes, slices: setup.slices(), tactics, in_class, chosen, cloud })
}

/// Picojoules as whole femtojoules.
fn femtojoules(picojoules: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a picture")]
    let whole = (picojoules * 1000.0).clamp(0.0, 1e18) as u64;
    whole
}

fn row(
    setup: &Setup<'_>,
    product: &SectionProduct,
    name: String,
    class: u64,
    found: &TacticPower,
) -> ChosenTactic {
    let (tactic, parts) = found;
    let stages = stages(setup, product, tactic);
    let columns = setup.packet_elements() >> tactic.depth;
    let part = |component: Component| {
        parts.get(component as usize).copied().or_broken("every component has its part")
    };
    let named = Component::ALL.iter().zip(parts).filter(|(_, mw)| **mw > 0.0);
    ChosenTactic {
        name,
        class,
        cycles: stages.cycles,
        split: tactic.split,
        holds: if tactic.holds_in1 { "keys" } else { "queries" },
        lanes: tactic.lanes,
        tree_depth: tactic.depth,
        repeats: tactic.repeats,
        fetch_bytes: tactic.fetch_bytes,
        accumulators: tactic.repeats * tactic.lanes * columns,
        product_cycles: stages.mac,
        stream_cycles: stages.stream,
        drain_cycles: stages.drain,
        milliwatts: power(found),
        dpe_milliwatts: part(Component::Products) + part(Component::Contraction),
        parts: named.map(|(component, mw)| (component.name(), *mw)).collect(),
    }
}

/// As text.
pub(crate) fn text(figure: &Figure14) -> String {
    let head = [
        "tactic",
        "time",
        "cycles",
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
            chosen.split.map(|slices| slices.to_string()).join("x"),
            chosen.holds.to_string(),
            chosen.lanes.to_string(),
            chosen.tree_depth.to_string(),
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
    let mut aligns = [Align::Right; 15];
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
