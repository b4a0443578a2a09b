//! What if off-chip memory were twice as fast: who waits for weights gains, who waits for products does not.

use serde::Serialize;
use tilewright_base::invariant::Exact;
use tilewright_report::columns::{Align, table};

use crate::llama::StudyRun;
use crate::measure::{MeasureError, MeasuredModel};

/// A prompt on the chip as it is, and with twice the off-chip memory.
#[derive(Clone, Debug, Serialize)]
pub struct TwiceHbm {
    /// Tokens of the prompt.
    pub tokens: u64,
    /// Milliseconds as it is.
    pub ms: f64,
    /// Milliseconds with twice the off-chip memory.
    pub ms_with_twice_hbm: f64,
    /// By how much it becomes faster.
    pub gain_percent: f64,
}

impl StudyRun<'_> {
    /// Prompts that took so many milliseconds, again on a machine whose off-chip memory is clocked twice as
    /// fast.
    pub(crate) fn twice_hbm(&self, prompts: &[(u64, f64)]) -> Result<Vec<TwiceHbm>, MeasureError> {
        let mut machine = self.setting.machine.clone();
        // The bus of a channel, and the DRAM commands that feed it.
        machine.hbm.channel_clock_hz = machine.hbm.channel_clock_hz.exact_mul(2);
        machine.hbm.timing_clock_hz = machine.hbm.timing_clock_hz.exact_mul(2);
        let model = MeasuredModel { machine: &machine, ..self.model };
        let passes: Vec<_> = std::thread::scope(|scope| {
            let measured =
                prompts.iter().map(|(tokens, _)| scope.spawn(move || model.prefill(*tokens, None)));
            let measured: Vec<_> = measured.collect();
            measured.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let mut found = Vec::new();
        for ((tokens, ms), pass) in prompts.iter().zip(passes) {
            let pass = pass.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
            let faster = self.ms(pass?.cycles);
            found.push(TwiceHbm {
                tokens: *tokens,
                ms: *ms,
                ms_with_twice_hbm: faster,
                gain_percent: (ms / faster - 1.0) * 100.0,
            });
        }
        Ok(found)
    }
}

/// As text.
pub(crate) fn text(rows: &[TwiceHbm]) -> String {
    let mut lines =
        vec![["L", "ms simulated", "ms with twice the HBM", "faster by"].map(str::to_string).to_vec()];
    for row in rows {
        lines.push(vec![
            row.tokens.to_string(),
            format!("{:.2}", row.ms),
            format!("{:.2}", row.ms_with_twice_hbm),
            format!("{:.1} %", row.gain_percent),
        ]);
    }
    table(&[Align::Right; 4], &lines)
}
