//! The best candidates of the explorer, run: values against the definition of the einsum, time against the
//! estimate.
//!
//! The explorer estimates and knows no simulator; here its candidates become programs that the simulators of
//! their chips run ([`tcp`], [`neuron`]). How many are run, up to which size values are compared, and when to
//! stop is up to whoever asks ([`VerifyLimits`]).

pub mod neuron;
pub mod tcp;

use thiserror::Error;
use tilewright_base::Diagnostic;
use tilewright_runtime::ReadingError;
use tilewright_runtime::einsum::ValueComparison;

/// Part of the estimate by which a simulation may differ from it.
const MOST_ERROR: f64 = 0.03;

/// How much is verified.
#[derive(Clone, Copy, Debug)]
pub struct VerifyLimits {
    /// Candidates that are run, best first.
    pub candidates: usize,
    /// Products of an einsum up to which values are computed.
    pub products: u128,
}

/// Why a candidate has no simulated time.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// It cannot be lowered to a program.
    #[error("{}", messages(.0))]
    Lower(Vec<Diagnostic>),
    /// Its program cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] ReadingError),
    /// An engine of the NeuronCore refuses an instruction.
    #[error(transparent)]
    Engine(#[from] tilewright_neuron_isa::Refusal),
    /// It has more instructions than are built and timed in a moment; that is no fault of the candidate.
    #[error("{matmuls} matmuls are more than {most}")]
    Large {
        /// Matmuls of the candidate.
        matmuls: u64,
        /// Matmuls up to which it would be run.
        most: u64,
    },
}

fn messages(complaints: &[Diagnostic]) -> String {
    let words: Vec<&str> = complaints.iter().map(|complaint| complaint.message.as_str()).collect();
    words.join("; ")
}

/// A candidate beside its simulation.
#[derive(Debug)]
pub struct CandidateCheck {
    /// Ticks of its program as estimated.
    pub estimated: u64,
    /// Ticks of its program as simulated, or why there are none.
    pub simulated: Result<u64, VerifyError>,
    /// Results that were computed again, where values were compared.
    pub values: Option<ValueComparison>,
    /// Findings of the run.
    pub findings: usize,
}

impl CandidateCheck {
    /// A candidate that did not run.
    fn not_run(estimated: u64, why: VerifyError) -> CandidateCheck {
        CandidateCheck { estimated, simulated: Err(why), values: None, findings: 0 }
    }

    /// Part by which the simulation differs from the estimate.
    pub fn error(&self) -> Option<f64> {
        let simulated = *self.simulated.as_ref().ok()?;
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        Some((simulated as f64 - self.estimated as f64) / (self.estimated.max(1) as f64))
    }

    /// It ran, near its estimate, and all that was compared is equal; or it is too large to run.
    pub fn good(&self) -> bool {
        if matches!(self.simulated, Err(VerifyError::Large { .. })) {
            return true;
        }
        let values = self.values.is_none_or(|values| values.different == 0);
        self.error().is_some_and(|error| error.abs() <= MOST_ERROR) && values && self.findings == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(simulated: u64, different: u64, findings: usize) -> CandidateCheck {
        let values = Some(ValueComparison { compared: 4, results: 4, different });
        CandidateCheck { estimated: 1000, simulated: Ok(simulated), values, findings }
    }

    #[test]
    fn a_check_is_good_near_its_estimate_with_equal_values_and_no_findings() {
        assert!(ran(1000, 0, 0).good() && ran(1030, 0, 0).good() && ran(970, 0, 0).good());
        assert!(!ran(1031, 0, 0).good() && !ran(969, 0, 0).good());
        assert!(!ran(1000, 1, 0).good());
        assert!(!ran(1000, 0, 1).good());
    }

    #[test]
    fn only_what_is_too_large_may_stay_unsimulated() {
        assert!(CandidateCheck::not_run(1000, VerifyError::Large { matmuls: 9, most: 8 }).good());
        assert!(!CandidateCheck::not_run(1000, VerifyError::Lower(Vec::new())).good());
    }
}
