//! What units do over time: a lane for each, bars from start to end, a linear axis below.

use crate::svg::{Anchor, Svg};

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneBar {
    /// Where it begins, in the unit of the axis.
    pub start: f64,
    /// Where it ends.
    pub end: f64,
    /// Its colour.
    pub colour: String,
}

/// A lane with its name and bars.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartLane {
    /// To the left of it.
    pub name: String,
    /// In any order.
    pub bars: Vec<LaneBar>,
}

/// Where lanes lie and how long they are.
#[derive(Clone, Copy, Debug)]
pub struct LaneFrame<'f> {
    /// Left edge of the bars.
    pub left: f64,
    /// Top edge of the first lane.
    pub top: f64,
    /// Width of the bars.
    pub width: f64,
    /// What the axis counts, and in which unit.
    pub label: &'f str,
    /// Its largest value; the least is 0.
    pub most: f64,
    /// Height of a lane.
    pub lane: f64,
}

/// Height of a lane where there are few.
pub const WIDE_LANE: f64 = 30.0;
/// Part of a lane's height that is left free below it.
const GAP: f64 = 4.0 / 15.0;
/// Bars that would be narrower are drawn this wide.
const MIN_WIDTH: f64 = 0.3;

/// Top edge of a lane, by its number.
pub fn lane_top(frame: &LaneFrame<'_>, number: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a picture has few lanes")]
    let number = number as f64;
    frame.top + number * frame.lane * (1.0 + GAP)
}

/// Draws lanes below each other; gives the y of what may follow.
pub fn draw(svg: &mut Svg, frame: &LaneFrame<'_>, title: &str, lanes: &[ChartLane]) -> f64 {
    let LaneFrame { left, top, width, label, most, lane: height } = *frame;
    let gap = height * GAP;
    let x = |value: f64| left + (value / most.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0) * width;
    svg.text(left, top - 14.0, Anchor::Start, "title", title);
    let mut y = top;
    for lane in lanes {
        svg.text(left - 8.0, y + height / 2.0 + 4.0, Anchor::End, "label", &lane.name);
        svg.rect(left, y, width, height, "#fafafa");
        for bar in &lane.bars {
            let (from, to) = (x(bar.start), x(bar.end));
            svg.block(from, y, (to - from).max(MIN_WIDTH), height, &bar.colour);
        }
        y += height + gap;
    }
    let bottom = y - gap;
    for tick in ticks(most) {
        svg.line(x(tick), bottom, x(tick), bottom + 4.0);
        svg.text(x(tick), bottom + 17.0, Anchor::Middle, "small", &crate::chart::short(tick));
    }
    svg.text(left + width / 2.0, bottom + 34.0, Anchor::Middle, "label", label);
    bottom + 50.0
}

/// Round values from 0 to at most the largest, five to ten of them.
fn ticks(most: f64) -> Vec<f64> {
    if !(most.is_finite() && most > 0.0) {
        return vec![0.0];
    }
    let rough = most / 10.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * decade).find(|step| *step >= rough);
    let step = step.unwrap_or(most);
    std::iter::successors(Some(0.0), |tick| Some(tick + step))
        .take_while(|tick| *tick <= most * 1.0001)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(245.0), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(ticks(0.0), [0.0]);
        for most in [1.0, 3.0, 9.9, 1234.0] {
            assert!((5..=11).contains(&ticks(most).len()), "{most}");
        }
    }

    #[test]
    fn bars_stay_within_their_lane() {
        let bar = LaneBar { start: -5.0, end: 500.0, colour: "red".to_string() };
        let lanes = [ChartLane { name: "TU".to_string(), bars: vec![bar] }];
        let mut svg = Svg::default();
        let frame =
            LaneFrame { left: 100.0, top: 40.0, width: 200.0, label: "time, us", most: 100.0, lane: 30.0 };
        let below = draw(&mut svg, &frame, "t", &lanes);
        assert!(below > 70.0);
        assert!(svg.finish().contains(r#"x="100" y="40" width="200" height="30" fill="red""#));
    }
}
