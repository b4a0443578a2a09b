//! How far a long command is, on standard error: a bar with the time that is left for people at a terminal, a
//! line from time to time where nobody watches. Commands that print JSON show nothing and do not call this.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Steps of a bar.
const STEPS: u64 = 1000;
/// Seconds between two lines where nobody watches; commands that are done before the first say nothing.
const LINE_SECONDS: f64 = 10.0;

/// Columns from which on a bar with the time that is left has room.
const WIDE: u16 = 60;
/// Between two turns of the sign that something goes on.
const TICK: Duration = Duration::from_millis(200);

/// Which part of all steps is done.
#[expect(clippy::cast_precision_loss, reason = "a part for people")]
pub(crate) fn part(done: u64, of: u64) -> f64 {
    done as f64 / of.max(1) as f64
}

/// What is shown now.
#[derive(Debug, Default)]
pub(crate) struct ProgressState {
    bar: Option<ProgressBar>,
    /// When the last line was written, or the first call came.
    line_seconds: Option<f64>,
}

impl ProgressState {
    /// Shows a phase and which part of it is done, if that is known. An empty phase ends it. `seconds` is the
    /// clock's time.
    pub(crate) fn show(&mut self, phase: &str, part: Option<f64>, seconds: f64) {
        if phase.is_empty() {
            if let Some(bar) = self.bar.take() {
                bar.finish_and_clear();
            }
            self.line_seconds = None;
        } else if std::io::stderr().is_terminal() {
            self.bar(phase, part);
        } else if self.is_due(seconds) {
            let _ = std::io::stderr().write_all(line(phase, part).as_bytes());
        }
    }

    fn bar(&mut self, phase: &str, part: Option<f64>) {
        let bar = self
            .bar
            .get_or_insert_with(|| ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr()));
        if let Ok(style) = ProgressStyle::with_template(template(part.is_some(), columns())) {
            bar.set_style(style.progress_chars("=> "));
        }
        match part {
            // Nobody says how far it is: at least it is seen to go on.
            None => bar.enable_steady_tick(TICK),
            Some(_) => bar.disable_steady_tick(),
        }
        bar.set_message(phase.to_string());
        bar.set_position(position(part.unwrap_or(0.0)));
    }

    /// Whether enough time went by since the last line; the first call begins to count.
    fn is_due(&mut self, seconds: f64) -> bool {
        let last = *self.line_seconds.get_or_insert(seconds);
        let due = seconds - last >= LINE_SECONDS;
        if due {
            self.line_seconds = Some(seconds);
        }
        due
    }
}

/// Columns of the terminal behind standard error.
fn columns() -> u16 {
    terminal_size::terminal_size_of(std::io::stderr()).map_or(WIDE, |(width, _)| width.0)
}

/// What is drawn: less in a terminal that would break the line.
fn template(has_part: bool, columns: u16) -> &'static str {
    match (has_part, columns >= WIDE) {
        (true, true) => "[{bar:24}] {percent:>3} %, {eta} left  {wide_msg}",
        (true, false) => "{percent:>3} % {wide_msg}",
        (false, true) => "{spinner} {elapsed}  {wide_msg}",
        (false, false) => "{spinner} {wide_msg}",
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
fn position(part: f64) -> u64 {
    (part.clamp(0.0, 1.0) * STEPS as f64) as u64
}

fn line(phase: &str, part: Option<f64>) -> String {
    match part {
        Some(part) => format!("{:>3.0} %  {phase}\n", 100.0 * part),
        None => format!("{phase}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_from_time_to_time() {
        let mut shown = ProgressState::default();
        let due = [0.0, 9.0, 10.0, 11.0, 19.9, 20.0].map(|seconds| shown.is_due(seconds));
        assert_eq!(due, [false, false, true, false, false, true]);
    }

    #[test]
    fn a_narrow_terminal_has_no_bar() {
        assert!(template(true, 80).contains("{bar"));
        for columns in [1, 20, 59] {
            assert!(!template(true, columns).contains("{bar") && !template(true, columns).contains("{eta"));
            assert!(!template(false, columns).contains("{elapsed"));
        }
    }

    #[test]
    fn parts_are_shown_in_percent() {
        assert_eq!(line("frames", Some(0.256)), " 26 %  frames\n");
        assert_eq!(line("prefill", None), "prefill\n");
        assert_eq!((position(0.5), position(7.0)), (500, 1000));
    }
}
