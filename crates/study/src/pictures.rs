//! Lines on logarithmic axes, as several figures have them.

use tilewright_report::chart::{ChartPlane, LogAxis};
use tilewright_report::svg::{Anchor, Svg};

use crate::sizes::size;

/// Colours of lines.
pub(crate) const COLOURS: [&str; 4] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd"];

/// One line of a chart.
pub(crate) struct ChartLine<'p> {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) colour: &'p str,
}

/// Lines over tokens, with a legend below.
pub(crate) fn chart(svg: &mut Svg, (left, top): (f64, f64), title: &str, y: &str, lines: &[ChartLine<'_>]) {
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let plane = ChartPlane {
        left,
        top,
        width: 420.0,
        height: 300.0,
        x: LogAxis::around("tokens, L", all().map(|(x, _)| *x)),
        y: LogAxis::around(y, all().map(|(_, y)| *y)),
    };
    plane.draw(svg, title);
    for (index, line) in lines.iter().enumerate() {
        let places: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| plane.place(*x, *y)).collect();
        svg.path(&places, line.colour, false);
        for ((x, y), (tokens, value)) in places.iter().zip(&line.points) {
            svg.dot(*x, *y, 3.0, line.colour, &format!("{}: L={tokens}, {value:.3}", line.name));
        }
        // Below the axis, where no line is.
        let (at, below) = (left + 105.0 * size(index as u64), top + 300.0 + 60.0);
        svg.dot(at + 5.0, below - 4.0, 4.0, line.colour, "");
        svg.text(at + 15.0, below, Anchor::Start, "small", &line.name);
    }
}

/// Text in HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
