//! The study as pictures and as a page: Figs 11 and 12 on logarithmic axes, utilisation below, Table II as HTML.

use tilewright_report::chart::{Axis, Plane};
use tilewright_report::svg::{Anchor, Svg};

use super::llama::{Point, Study};

const COLOURS: [&str; 4] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd"];

/// One line of a chart.
struct Line<'p> {
    name: String,
    points: Vec<(f64, f64)>,
    colour: &'p str,
}

fn real(count: u64) -> f64 {
    super::measure::real(u128::from(count))
}

fn chart(svg: &mut Svg, (left, top): (f64, f64), title: &str, y: &str, lines: &[Line<'_>]) {
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let plane = Plane {
        left,
        top,
        width: 420.0,
        height: 300.0,
        x: Axis::around("tokens, L", all().map(|(x, _)| *x)),
        y: Axis::around(y, all().map(|(_, y)| *y)),
    };
    plane.draw(svg, title);
    for (index, line) in lines.iter().enumerate() {
        let places: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| plane.place(*x, *y)).collect();
        svg.path(&places, line.colour, false);
        for ((x, y), (tokens, value)) in places.iter().zip(&line.points) {
            svg.dot(*x, *y, 3.0, line.colour, &format!("{}: L={tokens}, {value:.3}", line.name));
        }
        // Below the axis, where no line is.
        let (at, below) = (left + 105.0 * real(index as u64), top + 300.0 + 60.0);
        svg.dot(at + 5.0, below - 4.0, 4.0, line.colour, "");
        svg.text(at + 15.0, below, Anchor::Start, "small", &line.name);
    }
}

fn uses(points: &[&Point], prefix: &str, colours: [&'static str; 2]) -> Vec<Line<'static>> {
    let line = |name: String, colour, of: fn(&Point) -> f64| Line {
        name,
        points: points.iter().map(|point| (real(point.tokens), of(point) * 100.0)).collect(),
        colour,
    };
    vec![
        line(format!("{prefix}MAC"), colours[0], |point| point.mac_use),
        line(format!("{prefix}HBM"), colours[1], |point| point.hbm_use),
    ]
}

/// Figs 11 and 12.
pub(super) fn figures(study: &Study) -> String {
    let mut svg = Svg::default();
    let first: Vec<&Point> = study.figure11.iter().collect();
    let line = Line {
        name: "B=1".to_string(),
        points: first.iter().map(|point| (real(point.tokens), point.ms)).collect(),
        colour: COLOURS[0],
    };
    chart(&mut svg, (80.0, 50.0), "Fig. 11a: first token", "latency, ms", &[line]);
    let lines = uses(&first, "", [COLOURS[0], COLOURS[1]]);
    chart(&mut svg, (620.0, 50.0), "Fig. 11b: utilisation, first token", "of the peak, %", &lines);
    if !study.figure12.is_empty() {
        let mut batches: Vec<u64> = study.figure12.iter().map(|point| point.batch).collect();
        batches.dedup();
        let of = |batch: u64| study.figure12.iter().filter(move |point| point.batch == batch);
        let lines: Vec<Line<'_>> = batches
            .iter()
            .zip(COLOURS)
            .map(|(batch, colour)| Line {
                name: format!("B={batch}"),
                points: of(*batch).map(|point| (real(point.tokens), point.ms)).collect(),
                colour,
            })
            .collect();
        chart(&mut svg, (80.0, 490.0), "Fig. 12a: next token", "latency, ms", &lines);
        let ends = [batches.first(), batches.last()];
        let lines: Vec<Line<'_>> = ends
            .into_iter()
            .flatten()
            .zip([[COLOURS[0], COLOURS[1]], [COLOURS[2], COLOURS[3]]])
            .flat_map(|(batch, colours)| {
                let points: Vec<&Point> = of(*batch).collect();
                uses(&points, &format!("B={batch} "), colours)
            })
            .collect();
        chart(&mut svg, (620.0, 490.0), "Fig. 12b: utilisation, next token", "of the peak, %", &lines);
    }
    svg.finish()
}

/// One page with the table and the figures.
pub(super) fn page(study: &Study) -> String {
    let cell = |value: Option<f64>| value.map_or("–".to_string(), |value| format!("{value:.2}"));
    let mut rows = String::new();
    for row in &study.table2 {
        rows += &format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2}</td><td>{}</td><td>{:.2}</td><td>{:.2}</td></tr>\n",
            row.row,
            row.unit,
            cell(row.l40s),
            cell(row.h100),
            cell(row.published),
            row.ours,
            row.error_percent.map_or("–".to_string(), |error| format!("{error:+.1} %")),
            row.without_latency,
            row.bound
        );
    }
    let missing: String =
        study.missing.iter().map(|why| format!("<p>Not measured: {}</p>\n", escape(why))).collect();
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{model}</title>\n<style>body{{font:15px sans-serif;margin:2em;max-width:1150px}}table{{border-collapse:collapse}}\
         td,th{{border:1px solid #ccc;padding:.3em .6em;text-align:right}}td:first-child,td:nth-child(2){{text-align:left}}</style>\n\
         <h1>{model} on {chip}</h1>\n<p>{dtype}, {pes} PEs. Every time is that of a simulated program. The calibrated sum of latencies is {latency:.2} ms.</p>\n\
         <table><tr><th>row</th><th>unit</th><th>L40S</th><th>H100</th><th>TCP, published</th><th>ours</th><th>error</th><th>ours, sum = 0</th><th>bound</th></tr>\n{rows}</table>\n{missing}{figures}\n",
        model = escape(&study.model),
        chip = escape(&study.chip),
        dtype = study.dtype,
        pes = study.pes,
        latency = study.latency_ms,
        figures = figures(study),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
