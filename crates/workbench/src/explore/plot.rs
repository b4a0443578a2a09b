//! Pictures of a search: performance against power with the front marked (after Fig. 14 of the paper), energy
//! of the front by component (after Fig. 15), and a roofline.

use tilewright_base::invariant::OrBroken;
use tilewright_explore::SearchTarget;
use tilewright_explore::search::SearchResultOf;
use tilewright_report::chart::{ChartPlane, LogAxis, StackedBar, short, stacked};
use tilewright_report::svg::{Anchor, Svg};

use super::display::{CandidateDisplay, CandidateOf, CandidateView, Roofline};

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
pub fn file<S: CandidateDisplay>(shown: &S, found: &SearchResultOf<S::Target>, html: bool) -> String {
    let look = |candidate: &CandidateOf<S::Target>| shown.look(found, candidate, 0);
    let front: Vec<CandidateView> = found.kept.front().iter().filter_map(look).collect();
    let best = found.kept.best().first().and_then(look);
    let mut svg = Svg::default();
    svg.text(24.0, 28.0, Anchor::Start, "title", &title(shown));
    power(shown, found, &front, best.as_ref(), &mut svg);
    energy(shown, &front, best.as_ref(), &mut svg);
    roofline(shown, &front, best.as_ref(), &mut svg);
    let drawing = svg.finish();
    if html { page(shown, &front, &drawing) } else { drawing }
}

fn title<S: CandidateDisplay>(shown: &S) -> String {
    let sizes: Vec<String> = shown.sizes().iter().map(|(name, size)| format!("{name}={size}")).collect();
    format!("{}   {}   {}", shown.einsum(), sizes.join(" "), shown.place())
}

#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
pub(crate) fn real(value: u64) -> f64 {
    value as f64
}

/// Products asked for in so many ticks, in tera operations a second.
fn tops<S: CandidateDisplay>(shown: &S, ticks: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    let operations = 2.0 * shown.macs() as f64;
    operations / ticks.max(1.0) * real(shown.target().ticks_per_s()) / 1e12
}

fn power<S: CandidateDisplay>(
    shown: &S,
    found: &SearchResultOf<S::Target>,
    front: &[CandidateView],
    best: Option<&CandidateView>,
    svg: &mut Svg,
) {
    let hz = real(shown.target().ticks_per_s());
    let watts = |fj_per_tick: f64| fj_per_tick * 1e-15 * hz;
    let of = |look: &CandidateView| (real(look.milliwatts) / 1000.0, tops(shown, real(look.ticks)));
    let cloud: Vec<(f64, f64)> =
        found.cloud.points().map(|(ticks, fj)| (watts(fj), tops(shown, ticks))).collect();
    let all: Vec<(f64, f64)> = cloud.iter().copied().chain(front.iter().map(of)).collect();
    let plane = ChartPlane {
        left: 84.0,
        top: 76.0,
        width: 520.0,
        height: 520.0,
        x: LogAxis::around(&format!("average power of {}, W", shown.power_of()), all.iter().map(|(x, _)| *x)),
        y: LogAxis::around("performance, tera operations a second", all.iter().map(|(_, y)| *y)),
    };
    plane.draw(svg, "Performance against power");
    let places: Vec<(f64, f64)> = cloud.iter().map(|(x, y)| plane.place(*x, *y)).collect();
    svg.dots(&places, 1.7, CLOUD);
    let marks: Vec<(f64, f64)> = front.iter().map(of).map(|(x, y)| plane.place(x, y)).collect();
    svg.path(&marks, FRONT, false);
    for (number, ((x, y), report)) in marks.iter().zip(front).enumerate() {
        svg.dot(*x, *y, 3.4, FRONT, &says(shown, number + 1, report));
    }
    if let Some(report) = best {
        let (x, y) = of(report);
        let (x, y) = plane.place(x, y);
        svg.dot(x, y, 5.0, BEST, &format!("best: {}", says(shown, 1, report)));
    }
    legend(
        svg,
        84.0,
        660.0,
        &[
            (CLOUD, &format!("legal {}s", shown.called())),
            (FRONT, "front: none is faster and takes less energy"),
            (BEST, "best"),
        ],
    );
}

fn says<S: CandidateDisplay>(shown: &S, number: usize, look: &CandidateView) -> String {
    format!("#{number}: {}, {} mW, {}", shown.time(look.ticks), look.milliwatts, look.brief)
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

fn energy<S: CandidateDisplay>(
    shown: &S,
    front: &[CandidateView],
    best: Option<&CandidateView>,
    svg: &mut Svg,
) {
    let names = shown.parts();
    let of = |look: &CandidateView, at: usize| *look.parts_fj.get(at).or_broken("a candidate has every part");
    let used = |at: usize| front.iter().chain(best).any(|look| of(look, at) > 0.0);
    let parts: Vec<usize> = (0..names.len()).filter(|at| used(*at)).collect();
    let colour = |at: usize| PARTS.get(at).copied().unwrap_or("#444").to_string();
    let legend: Vec<(String, String)> =
        parts.iter().map(|at| (names.get(*at).copied().unwrap_or("").to_string(), colour(*at))).collect();
    let bar = |name: String, look: &CandidateView| StackedBar {
        name,
        parts: parts.iter().map(|at| of(look, *at) * 1e-9).collect(),
    };
    let every = front.len().div_ceil(BARS).max(1);
    let mut bars: Vec<StackedBar> = best.map(|look| bar("best".to_string(), look)).into_iter().collect();
    bars.extend(front.iter().enumerate().step_by(every).map(|(at, look)| bar(format!("#{}", at + 1), look)));
    stacked(
        svg,
        (720.0, 76.0),
        "Energy of the best and of the front, fastest first",
        "energy, µJ",
        &legend,
        &bars,
    );
}

/// Products in a time against products for each byte.
fn roofline<S: CandidateDisplay>(
    shown: &S,
    front: &[CandidateView],
    best: Option<&CandidateView>,
    svg: &mut Svg,
) {
    let Roofline { title, x, y, peak, slope, peak_name, legend: roof_legend } = shown.roof();
    let of = |look: &CandidateView| look.roof;
    let points: Vec<(f64, f64)> = front.iter().chain(best).map(of).collect();
    let knee = peak / slope;
    let xs = points.iter().map(|(x, _)| *x).chain([knee / 8.0, knee * 16.0]);
    let ys = points.iter().map(|(_, y)| *y).chain([peak / 16.0, peak]);
    let plane = ChartPlane {
        left: 720.0,
        top: 430.0,
        width: 470.0,
        height: 210.0,
        x: LogAxis::around(x, xs),
        y: LogAxis::around(y, ys),
    };
    plane.draw(svg, title);
    let (least, most) = (plane.x.least, plane.x.most);
    let start = (least, (least * slope).max(plane.y.least));
    let roof = [start, (knee, peak), (most, peak)].map(|(x, y)| plane.place(x, y));
    svg.path(&roof, "#444", true);
    let (x, y) = plane.place(knee * 1.1, peak);
    svg.text(x, y + 16.0, Anchor::Start, "small", &format!("{peak_name}: {}", short(peak)));
    for (number, report) in front.iter().enumerate() {
        let (x, y) = of(report);
        let (x, y) = plane.place(x, y);
        svg.dot(x, y, 3.4, FRONT, &says(shown, number + 1, report));
    }
    if let Some(report) = best {
        let (x, y) = of(report);
        let (x, y) = plane.place(x, y);
        svg.dot(x, y, 5.0, BEST, "best");
    }
    legend(svg, 720.0, 704.0, &[("#444", roof_legend), (FRONT, "front"), (BEST, "best")]);
}

fn page<S: CandidateDisplay>(shown: &S, front: &[CandidateView], drawing: &str) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let rows: String = front
        .iter()
        .enumerate()
        .map(|(number, report)| {
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>\n",
                number + 1,
                shown.time(report.ticks),
                report.energy_fj / 1000,
                report.milliwatts,
                escape(&report.brief)
            )
        })
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>body {{ \
         font: 14px system-ui, \
         sans-serif; margin: 24px }} td, th {{ padding: 2px 10px; text-align: right }} td:last-child, \
         th:last-child {{ \
         text-align: left }}</style></head>\n<body>\n{drawing}\n<h2>The \
         front</h2>\n<table><tr><th>#</th><th>time</th>\
         <th>pJ</th><th>mW</th><th>{1}</th></tr>\n{rows}</table>\n</body></html>\n",
        escape(&title(shown)),
        shown.called()
    )
}
