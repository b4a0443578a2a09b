//! Ranges as text, and which figures make them as a picture (a tornado chart).

use tilewright_report::columns::{Align, table};
use tilewright_report::svg::{Anchor, Svg};

use crate::bands::{Bands, FigureEffect, MEASURES, PASSES};
use crate::pictures::COLOURS;
use crate::table2::number;

/// Everything as text.
pub(crate) fn text(bands: &Bands) -> String {
    let mut text = String::new();
    if !bands.table2.is_empty() {
        text += &format!(
            "\nTable II over the band of HBM's efficiency, with both scalings and both accountings; the \
             paper says neither which scaling nor which accounting it has\n\n{}",
            table2(bands)
        );
    }
    if !bands.results.is_empty() {
        text += &format!("\nRanges: every figure at its ends, effects added up\n\n{}", results(bands));
        text += &format!(
            "\nAverage power by component, W; the TDP is {} W\n\n{}",
            number(bands.tdp_w),
            components(bands)
        );
        text += &format!(
            "\nWhat makes the ranges: each figure at both ends, as percent of the result\n\n{}",
            figures(bands)
        );
    }
    text
}

fn table2(bands: &Bands) -> String {
    let head = ["row", "scales of activations", "unit", "TCP", "low", "as stated", "high", "errors"];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    for band in &bands.table2 {
        let errors = band
            .error_percent
            .map_or("-".to_string(), |errors| errors.map(|error| format!("{error:+.1} %")).join(", "));
        let [low, stated, high] = band.ours.map(number);
        rows.push(vec![
            band.row.clone(),
            band.scales.to_string(),
            band.unit.to_string(),
            band.published.map_or("-".to_string(), number),
            low,
            stated,
            high,
            errors,
        ]);
    }
    let mut aligns = [Align::Right; 8];
    aligns[..3].fill(Align::Left);
    aligns[7] = Align::Left;
    table(&aligns, &rows)
}

fn results(bands: &Bands) -> String {
    let mut rows = vec![["pass", "", "low", "as stated", "high"].map(str::to_string).to_vec()];
    for range in &bands.results {
        let cells = [range.low, range.stated, range.high].map(number);
        rows.push([range.pass.to_string(), range.measure.to_string()].into_iter().chain(cells).collect());
    }
    table(&[Align::Left, Align::Left, Align::Right, Align::Right, Align::Right], &rows)
}

fn components(bands: &Bands) -> String {
    let mut rows = vec![[""].iter().chain(&PASSES).map(|head| (*head).to_string()).collect::<Vec<_>>()];
    for found in &bands.components {
        let cell = |[low, stated, high]: &[f64; 3]| format!("{stated:.1} ({low:.1} to {high:.1})");
        rows.push([found.component.to_string()].into_iter().chain(found.watts.iter().map(cell)).collect());
    }
    let mut aligns = [Align::Right; 5];
    aligns[0] = Align::Left;
    table(&aligns, &rows)
}

/// Results that the table of figures has: the time of both prompts and the rate for each watt of 32
/// sequences, and the time and power of these.
const SHOWN: [(usize, usize); 5] = [(0, 0), (1, 0), (3, 0), (3, 1), (3, 3)];

/// Effects below this are printed as none.
const LEAST_PERCENT: f64 = 0.05;

/// By how many percent the ends of a figure move a result.
fn percents(bands: &Bands, effect: &FigureEffect, (pass, measure): (usize, usize)) -> [f64; 2] {
    let index = pass * MEASURES.len() + measure;
    let stated = bands.results.get(index).map_or(1.0, |range| range.stated);
    effect.at.each_ref().map(|at| (at.get(index).copied().unwrap_or(stated) / stated - 1.0) * 100.0)
}

fn figures(bands: &Bands) -> String {
    let title = |(pass, measure): &(usize, usize)| format!("{}, {}", PASSES[*pass], MEASURES[*measure]);
    let mut rows = vec![
        ["figure".to_string(), "from".to_string(), "to".to_string()]
            .into_iter()
            .chain(SHOWN.iter().map(title))
            .chain(["why these ends".to_string()])
            .collect::<Vec<_>>(),
    ];
    let mut idle = Vec::new();
    for effect in &bands.figures {
        let most = |shown: &(usize, usize)| {
            let [low, high] = percents(bands, effect, *shown);
            low.abs().max(high.abs())
        };
        if SHOWN.iter().all(|shown| most(shown) < LEAST_PERCENT) {
            idle.push(effect.figure.as_str());
            continue;
        }
        let cell = |shown: &(usize, usize)| {
            let [low, high] = percents(bands, effect, *shown);
            if most(shown) < LEAST_PERCENT { "-".to_string() } else { format!("{low:+.1}, {high:+.1}") }
        };
        let [low, high] = effect.ends.clone();
        rows.push(
            [effect.figure.clone(), low, high]
                .into_iter()
                .chain(SHOWN.iter().map(cell))
                .chain([effect.reason.clone()])
                .collect(),
        );
    }
    let mut aligns = [Align::Right; 9];
    (aligns[0], aligns[8]) = (Align::Left, Align::Left);
    let none =
        if idle.is_empty() { String::new() } else { format!("\nnone of these: {}\n", idle.join(", ")) };
    format!("{}{none}", table(&aligns, &rows))
}

/// Figures that the picture shows.
const BARS: usize = 12;

/// The figures that move tokens a second for each watt of 32 sequences most: a bar for both ends.
pub(crate) fn tornado(bands: &Bands) -> String {
    let (left, middle, half, row) = (20.0, 520.0, 240.0, 24.0);
    let mut svg = Svg::default();
    svg.text(left, 28.0, Anchor::Start, "title", "What moves tokens/s/W of 32 sequences, percent");
    let shown: Vec<(&FigureEffect, [f64; 2])> =
        bands.figures.iter().take(BARS).map(|effect| (effect, percents(bands, effect, (3, 3)))).collect();
    let widest = shown.iter().flat_map(|(_, ends)| ends.iter().map(|end| end.abs())).fold(0.1, f64::max);
    let mut top = 50.0;
    for (effect, percents) in &shown {
        svg.text(left, top + 14.0, Anchor::Start, "label", &effect.figure);
        for ((percent, colour), end) in percents.iter().zip([COLOURS[0], COLOURS[1]]).zip(&effect.ends) {
            let width = percent.abs() / widest * half;
            let start = if *percent < 0.0 { middle - width } else { middle };
            svg.block(start, top, width.max(0.5), row - 6.0, colour);
            let (at, anchor) = if *percent < 0.0 {
                (start - 6.0, Anchor::End)
            } else {
                (start + width + 6.0, Anchor::Start)
            };
            svg.text(at, top + 14.0, anchor, "small", &format!("{end}: {percent:+.1}"));
        }
        top += row;
    }
    svg.line(middle, 44.0, middle, top);
    svg.finish()
}
