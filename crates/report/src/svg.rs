//! A small SVG writer: rectangles, lines and text in one style sheet that works on light and dark pages.

use std::fmt::Write as _;

/// A drawing under construction; lengths are CSS pixels.
#[derive(Clone, Debug, Default)]
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// How text is set against its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Starts there.
    Start,
    /// Is centred there.
    Middle,
    /// Ends there.
    End,
}

impl Svg {
    /// Height of a line of text.
    pub const LINE: f64 = 18.0;

    /// A filled rectangle with a thin border.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        let _ = writeln!(
            self.body,
            r#"<rect x="{}" y="{}" width="{}" height="{}" fill="{fill}"/>"#,
            px(x),
            px(y),
            px(width),
            px(height)
        );
        self.grow(x + width, y + height);
    }

    /// A filled rectangle without a border, for things that may be very narrow.
    pub fn block(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        let _ = writeln!(
            self.body,
            r#"<rect x="{}" y="{}" width="{}" height="{}" fill="{fill}" style="stroke: none"/>"#,
            px(x),
            px(y),
            px(width),
            px(height)
        );
        self.grow(x + width, y + height);
    }

    /// A line of text; `class` is one of the style sheet: title, code, label, small, cell.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor_name = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            r#"<text x="{}" y="{}" text-anchor="{anchor_name}" class="{class}">{}</text>"#,
            px(x),
            px(y),
            escape(text)
        );
        #[expect(clippy::cast_precision_loss, reason = "text lengths are small")]
        let length = text.chars().count() as f64
            * match class {
                "small" | "cell" => 6.0,
                "title" => 8.6,
                _ => 7.9,
            };
        if anchor == Anchor::Start {
            self.grow(x + length, y);
        }
        self.grow(x, y + 4.0);
    }

    /// A straight line.
    pub fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        let _ =
            writeln!(self.body, r#"<line x1="{}" y1="{}" x2="{}" y2="{}"/>"#, px(x1), px(y1), px(x2), px(y2));
        self.grow(x1.max(x2), y1.max(y2));
    }

    /// A dot; what `says` is shown when a pointer rests on it.
    pub fn dot(&mut self, x: f64, y: f64, radius: f64, fill: &str, says: &str) {
        let title = if says.is_empty() { String::new() } else { format!("<title>{}</title>", escape(says)) };
        let _ = writeln!(
            self.body,
            r#"<circle cx="{}" cy="{}" r="{}" fill="{fill}">{title}</circle>"#,
            px(x),
            px(y),
            px(radius)
        );
        self.grow(x + radius, y + radius);
    }

    /// Many dots of one size and colour, in one element.
    pub fn dots(&mut self, points: &[(f64, f64)], radius: f64, colour: &str) {
        let marks: Vec<String> = points.iter().map(|(x, y)| format!("M{} {}h0", px(*x), px(*y))).collect();
        let _ = writeln!(
            self.body,
            r#"<path d="{}" fill="none" stroke="{colour}" stroke-width="{}" stroke-linecap="round"/>"#,
            marks.concat(),
            px(radius * 2.0)
        );
    }

    /// Straight lines from point to point, in a colour.
    pub fn path(&mut self, points: &[(f64, f64)], colour: &str, dashed: bool) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
        let dash = if dashed { r#" stroke-dasharray="5 4""# } else { "" };
        let _ = writeln!(
            self.body,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>"#,
            points.join(" ")
        );
    }

    /// Text that runs upwards.
    pub fn text_upwards(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let _ = writeln!(
            self.body,
            "<text transform=\"translate({} {}) rotate(-90)\" text-anchor=\"middle\" \
             class=\"{class}\">{}</text>",
            px(x),
            px(y),
            escape(text)
        );
    }

    fn grow(&mut self, x: f64, y: f64) {
        self.width = self.width.max(x);
        self.height = self.height.max(y);
    }

    /// Lowest point drawn so far.
    pub fn bottom(&self) -> f64 {
        self.height
    }

    /// The whole file.
    pub fn finish(&self) -> String {
        let (width, height) = (px(self.width + 16.0), px(self.height + 16.0));
        format!(
            concat!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}">"#,
                "\n<style>\n",
                "rect {{ stroke: #444; stroke-width: 0.8 }}\n",
                "line {{ stroke: #444; stroke-width: 1 }}\n",
                "text {{ font: 13px system-ui, sans-serif; fill: #222 }}\n",
                ".title {{ font-weight: 600; font-size: 15px }}\n",
                ".code {{ font-family: ui-monospace, 'DejaVu Sans Mono', monospace }}\n",
                ".small {{ font-size: 11px; fill: #555 }}\n",
                ".cell {{ font-size: 12px }}\n",
                "</style>\n",
                r#"<rect x="0" y="0" width="{w}" height="{h}" fill="white" style="stroke: none"/>"#,
                "\n{body}</svg>\n"
            ),
            w = width,
            h = height,
            body = self.body
        )
    }
}

/// A soft colour for the `index`-th of `count` things, hues evenly spread.
pub fn colour(index: u64, count: u64) -> String {
    let hue = (index * 360 / count.max(1) + 200) % 360;
    let light = if (index / 8).is_multiple_of(2) { 80 } else { 72 };
    format!("hsl({hue} 60% {light}%)")
}

/// Coordinates with at most one decimal, so that files are the same everywhere.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_string)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_the_canvas_grows() {
        let mut svg = Svg::default();
        svg.rect(0.0, 0.0, 100.0, 50.0, "none");
        svg.text(5.0, 80.0, Anchor::Start, "code", "a<b & c");
        let file = svg.finish();
        assert!(file.contains("a&lt;b &amp; c"));
        assert!(file.starts_with(r#"<svg xmlns="http://www.w3.org/2000/svg" width="116" height="100""#));
    }
}
