//! Charts: points on two logarithmic axes, and stacked bars, with ticks, units and a legend.

use crate::svg::{Anchor, Svg};

/// A logarithmic axis: what it counts, in which unit, and its ends.
#[derive(Clone, Debug, PartialEq)]
pub struct LogAxis {
    /// Name and unit.
    pub label: String,
    /// Least value that is drawn.
    pub least: f64,
    /// Greatest.
    pub most: f64,
}

impl LogAxis {
    /// An axis on which all values have room, with some to spare.
    pub fn around(label: &str, values: impl Iterator<Item = f64>) -> LogAxis {
        let (least, most) = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| (least.min(value), most.max(value)));
        if least > most {
            return LogAxis { label: label.to_string(), least: 1.0, most: 10.0 };
        }
        LogAxis { label: label.to_string(), least: least / 1.3, most: most * 1.3 }
    }

    /// Part of the axis at which a value lies.
    fn place(&self, value: f64) -> f64 {
        let span = (self.most / self.least).ln().max(1e-9);
        ((value.max(f64::MIN_POSITIVE) / self.least).ln() / span).clamp(0.0, 1.0)
    }

    /// One, two and five times powers of ten within the axis; only powers if there are many, steps between
    /// them if there are few.
    fn ticks(&self) -> Vec<f64> {
        const FEW: usize = 4;
        const MANY: usize = 12;
        let ticks = self.multiples(&[1.0, 2.0, 5.0]);
        match ticks.len() {
            count if count > MANY => self.multiples(&[1.0]),
            count if count < FEW => self.multiples(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
            _ => ticks,
        }
    }

    /// So many times powers of ten, within the axis.
    fn multiples(&self, steps: &[f64]) -> Vec<f64> {
        let mut ticks = Vec::new();
        let mut decade = 10_f64.powf(self.least.log10().floor());
        while decade <= self.most {
            ticks.extend(steps.iter().map(|step| step * decade));
            decade *= 10.0;
        }
        ticks.retain(|tick| *tick >= self.least && *tick <= self.most);
        ticks
    }
}

/// Where a chart with two axes lies.
#[derive(Clone, Debug)]
pub struct ChartPlane {
    /// Left edge of the area between the axes.
    pub left: f64,
    /// Top edge.
    pub top: f64,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// Horizontal axis.
    pub x: LogAxis,
    /// Vertical axis.
    pub y: LogAxis,
}

impl ChartPlane {
    /// Title, frame, ticks and labels.
    pub fn draw(&self, svg: &mut Svg, title: &str) {
        svg.text(self.left, self.top - 14.0, Anchor::Start, "title", title);
        svg.rect(self.left, self.top, self.width, self.height, "#fafafa");
        let bottom = self.top + self.height;
        for tick in self.x.ticks() {
            let (x, _) = self.place(tick, self.y.least);
            svg.line(x, bottom, x, bottom + 4.0);
            svg.text(x, bottom + 17.0, Anchor::Middle, "small", &short(tick));
        }
        for tick in self.y.ticks() {
            let (_, y) = self.place(self.x.least, tick);
            svg.line(self.left - 4.0, y, self.left, y);
            svg.text(self.left - 7.0, y + 4.0, Anchor::End, "small", &short(tick));
        }
        svg.text(self.left + self.width / 2.0, bottom + 36.0, Anchor::Middle, "label", &self.x.label);
        svg.text_upwards(self.left - 48.0, self.top + self.height / 2.0, "label", &self.y.label);
    }

    /// The point of a pair of values.
    pub fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (self.left + self.x.place(x) * self.width, self.top + (1.0 - self.y.place(y)) * self.height)
    }
}

/// A number with as few digits as say it.
pub fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = if scaled.abs() >= 100.0 {
        format!("{scaled:.0}")
    } else if scaled.abs() >= 10.0 {
        format!("{scaled:.1}")
    } else {
        format!("{scaled:.3}")
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{suffix}")
}

/// The next number that reads well.
fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0].into_iter().map(|step| step * decade);
    steps.into_iter().find(|step| *step >= value).unwrap_or(value)
}

/// A bar: its name and the parts it is made of.
#[derive(Clone, Debug)]
pub struct StackedBar {
    /// Under the bar.
    pub name: String,
    /// One for each entry of the legend.
    pub parts: Vec<f64>,
}

/// Bars side by side from `left`, `top`, with a linear axis from 0 and a legend to the right.
pub fn stacked(
    svg: &mut Svg,
    (left, top): (f64, f64),
    title: &str,
    unit: &str,
    legend: &[(String, String)],
    bars: &[StackedBar],
) {
    const HEIGHT: f64 = 240.0;
    const STEP: f64 = 46.0;
    svg.text(left, top - 14.0, Anchor::Start, "title", title);
    let total = |bar: &StackedBar| bar.parts.iter().sum::<f64>();
    let most = round_up(bars.iter().map(total).fold(0.0, f64::max).max(f64::MIN_POSITIVE) / 4.0) * 4.0;
    #[expect(clippy::cast_precision_loss, reason = "few bars")]
    let width = bars.len() as f64 * STEP + 16.0;
    let bottom = top + HEIGHT;
    svg.line(left, top, left, bottom);
    svg.line(left, bottom, left + width, bottom);
    for part in 0..=4_u8 {
        let value = most * f64::from(part) / 4.0;
        let y = bottom - HEIGHT * f64::from(part) / 4.0;
        svg.line(left - 4.0, y, left, y);
        svg.text(left - 7.0, y + 4.0, Anchor::End, "small", &short(value));
    }
    svg.text_upwards(left - 48.0, top + HEIGHT / 2.0, "label", unit);
    let mut x = left + 12.0;
    for bar in bars {
        let mut y = bottom;
        for (value, (_, colour)) in bar.parts.iter().zip(legend) {
            let height = HEIGHT * value / most;
            y -= height;
            if height > 0.05 {
                svg.rect(x, y, STEP - 14.0, height, colour);
            }
        }
        svg.text(x + (STEP - 14.0) / 2.0, bottom + 17.0, Anchor::Middle, "small", &bar.name);
        x += STEP;
    }
    let mut y = top + 8.0;
    for (name, colour) in legend {
        svg.rect(left + width + 20.0, y - 9.0, 12.0, 12.0, colour);
        svg.text(left + width + 38.0, y + 1.0, Anchor::Start, "small", name);
        y += Svg::LINE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_lie_on_the_axis_and_values_in_order() {
        let axis = LogAxis::around("W", [3.0, 40.0].into_iter());
        assert_eq!(axis.ticks(), [5.0, 10.0, 20.0, 50.0]);
        assert!(axis.place(3.0) < axis.place(10.0) && axis.place(10.0) < axis.place(40.0));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.25, 5.0, 12.5, 1234.0, 45_000.0, 2e6].map(short),
            ["0.25", "5", "12.5", "1234", "45k", "2M"]
        );
    }
}
