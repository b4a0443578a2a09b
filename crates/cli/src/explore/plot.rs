//! Pictures of a search: performance against power with the front marked (after Fig. 14 of the paper), energy of the front by component
//! (after Fig. 15), and the roofline of the stream.

use tilewright_explore::tcp::{Found, Task, Told};
use tilewright_report::chart::{Axis, Bar, Plane, short, stacked};
use tilewright_report::svg::{Anchor, Svg};
use tilewright_tcp::energy::Component;

const CLOUD: &str = "#b9c4d0";
const FRONT: &str = "#c0392b";
const BEST: &str = "#1f5fa8";
/// One for each component, in order.
const PARTS: [&str; 11] = [
    "#1f5fa8", "#5b9bd5", "#a6cee3", "#33a02c", "#b2df8a", "#ff7f00", "#fdbf6f", "#6a3d9a", "#cab2d6",
    "#bdbdbd", "#8c8c8c",
];
/// Bars of the energy chart.
const BARS: usize = 10;

/// The pictures as one file: SVG, or HTML around it with the front as a table.
pub(crate) fn file(task: &Task<'_>, found: &Found, html: bool) -> String {
    let front: Vec<Told> =
        found.kept.front().iter().filter_map(|candidate| Told::new(task, found, candidate)).collect();
    let best = found.kept.best().first().and_then(|candidate| Told::new(task, found, candidate));
    let mut svg = Svg::default();
    svg.text(24.0, 28.0, Anchor::Start, "title", &title(task));
    power(task, found, &front, best.as_ref(), &mut svg);
    energy(&front, best.as_ref(), &mut svg);
    roofline(task, &front, best.as_ref(), &mut svg);
    let drawing = svg.finish();
    if html { page(task, &front, &drawing) } else { drawing }
}

fn title(task: &Task<'_>) -> String {
    let sizes: Vec<String> = task.axes.iter().map(|axis| format!("{}={}", axis.name, axis.extent)).collect();
    format!(
        "{}   {}   {} slices, {}",
        task.program.einsum,
        sizes.join(" "),
        task.setup.slices(),
        task.setup.dtype.name()
    )
}

#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
fn real(value: u64) -> f64 {
    value as f64
}

/// Products asked for in so many cycles, in tera operations a second.
fn tops(task: &Task<'_>, cycles: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    let operations = 2.0 * task.macs() as f64;
    operations / cycles.max(1.0) * real(task.setup.machine.chip.clock_hz) / 1e12
}

fn power(task: &Task<'_>, found: &Found, front: &[Told], best: Option<&Told>, svg: &mut Svg) {
    let hz = real(task.setup.machine.chip.clock_hz);
    let watts = |fj_per_cycle: f64| fj_per_cycle * 1e-15 * hz;
    let of = |told: &Told| (real(told.milliwatts) / 1000.0, tops(task, real(told.candidate.ticks)));
    let cloud: Vec<(f64, f64)> =
        found.cloud.points().map(|(cycles, fj)| (watts(fj), tops(task, cycles))).collect();
    let all: Vec<(f64, f64)> = cloud.iter().copied().chain(front.iter().map(of)).collect();
    let plane = Plane {
        left: 84.0,
        top: 76.0,
        width: 520.0,
        height: 520.0,
        x: Axis::around("average power of the slices, W", all.iter().map(|(x, _)| *x)),
        y: Axis::around("performance, tera operations a second", all.iter().map(|(_, y)| *y)),
    };
    plane.draw(svg, "Performance against power");
    let places: Vec<(f64, f64)> = cloud.iter().map(|(x, y)| plane.place(*x, *y)).collect();
    svg.dots(&places, 1.7, CLOUD);
    let marks: Vec<(f64, f64)> = front.iter().map(of).map(|(x, y)| plane.place(x, y)).collect();
    svg.path(&marks, FRONT, false);
    for (number, ((x, y), told)) in marks.iter().zip(front).enumerate() {
        svg.dot(*x, *y, 3.4, FRONT, &says(number + 1, told));
    }
    if let Some(told) = best {
        let (x, y) = of(told);
        let (x, y) = plane.place(x, y);
        svg.dot(x, y, 5.0, BEST, &format!("best: {}", says(1, told)));
    }
    legend(
        svg,
        84.0,
        660.0,
        &[(CLOUD, "legal tactics"), (FRONT, "front: none is faster and takes less energy"), (BEST, "best")],
    );
}

fn says(number: usize, told: &Told) -> String {
    let tactic = told.program.tactic.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("#{number}: {} cycles, {} mW, {tactic}", told.candidate.ticks, told.milliwatts)
}

fn legend(svg: &mut Svg, left: f64, y: f64, entries: &[(&str, &str)]) {
    let mut x = left;
    for (colour, name) in entries {
        svg.dot(x + 5.0, y - 4.0, 5.0, colour, "");
        svg.text(x + 15.0, y, Anchor::Start, "small", name);
        #[expect(clippy::cast_precision_loss, reason = "short texts")]
        let width = name.len() as f64 * 6.0 + 34.0;
        x += width;
    }
}

fn energy(front: &[Told], best: Option<&Told>, svg: &mut Svg) {
    let used = |at: usize| front.iter().chain(best).any(|told| told.energy_fj[at] > 0);
    let parts: Vec<usize> = (0..Component::ALL.len()).filter(|at| used(*at)).collect();
    let legend: Vec<(String, String)> = parts
        .iter()
        .map(|at| {
            (Component::ALL[*at].name().to_string(), PARTS.get(*at).copied().unwrap_or("#444").to_string())
        })
        .collect();
    let bar = |name: String, told: &Told| Bar {
        name,
        parts: parts.iter().map(|at| real(told.energy_fj[*at]) * 1e-9).collect(),
    };
    let every = front.len().div_ceil(BARS).max(1);
    let mut bars: Vec<Bar> = best.map(|told| bar("best".to_string(), told)).into_iter().collect();
    bars.extend(front.iter().enumerate().step_by(every).map(|(at, told)| bar(format!("#{}", at + 1), told)));
    stacked(
        svg,
        (720.0, 76.0),
        "Energy of the best and of the front, fastest first",
        "energy, µJ",
        &legend,
        &bars,
    );
}

/// Products a cycle of a slice against products for each byte that the stream brings.
fn roofline(task: &Task<'_>, front: &[Told], best: Option<&Told>, svg: &mut Svg) {
    let setup = &task.setup;
    let peak = real(setup.machine.ce.lanes * setup.packet_elements());
    let flit = real(setup.machine.network.flit_bytes);
    let of = |told: &Told| {
        let nest = &told.nest;
        let bytes = real((nest.columns * nest.tree * setup.element_bits()).div_ceil(8));
        let intensity = real(nest.lanes * nest.repeats * nest.columns * nest.tree) / bytes.max(1.0);
        let commands = real(told.framed.frame.commands());
        let products = real(nest.steps() * nest.lanes * nest.columns * nest.tree) * commands;
        (intensity, products / real(told.candidate.ticks).max(1.0))
    };
    let points: Vec<(f64, f64)> = front.iter().chain(best).map(of).collect();
    let knee = peak / flit;
    let xs = points.iter().map(|(x, _)| *x).chain([knee / 8.0, knee * 16.0]);
    let ys = points.iter().map(|(_, y)| *y).chain([peak / 16.0, peak]);
    let plane = Plane {
        left: 720.0,
        top: 430.0,
        width: 470.0,
        height: 210.0,
        x: Axis::around("products for each byte of the stream", xs),
        y: Axis::around("products a cycle on each slice", ys),
    };
    plane.draw(svg, "Roofline of the stream");
    let (least, most) = (plane.x.least, plane.x.most);
    let start = (least, (least * flit).max(plane.y.least));
    let roof = [start, (knee, peak), (most, peak)].map(|(x, y)| plane.place(x, y));
    svg.path(&roof, "#444", true);
    let (x, y) = plane.place(knee * 1.1, peak);
    svg.text(x, y + 16.0, Anchor::Start, "small", &format!("all lanes: {} a cycle", short(peak)));
    for (number, told) in front.iter().enumerate() {
        let (x, y) = of(told);
        let (x, y) = plane.place(x, y);
        svg.dot(x, y, 3.4, FRONT, &says(number + 1, told));
    }
    if let Some(told) = best {
        let (x, y) = of(told);
        let (x, y) = plane.place(x, y);
        svg.dot(x, y, 5.0, BEST, "best");
    }
    legend(
        svg,
        720.0,
        704.0,
        &[("#444", "roof: one flit a cycle, then all lanes"), (FRONT, "front"), (BEST, "best")],
    );
}

fn page(task: &Task<'_>, front: &[Told], drawing: &str) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let rows: String = front
        .iter()
        .enumerate()
        .map(|(number, told)| {
            let tactic = told.program.tactic.as_ref().map(ToString::to_string).unwrap_or_default();
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>\n",
                number + 1,
                told.candidate.ticks,
                told.candidate.energy_fj / 1000,
                told.milliwatts,
                escape(&tactic)
            )
        })
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>body {{ font: 14px system-ui, \
         sans-serif; margin: 24px }} td, th {{ padding: 2px 10px; text-align: right }} td:last-child, th:last-child {{ \
         text-align: left }}</style></head>\n<body>\n{drawing}\n<h2>The front</h2>\n<table><tr><th>#</th><th>cycles</th>\
         <th>pJ</th><th>mW</th><th>tactic</th></tr>\n{rows}</table>\n</body></html>\n",
        escape(&title(task))
    )
}
