//! What an illegal instruction is answered with: a stable code, what was asked, what is allowed, what to do
//! instead.

use std::fmt;
use std::panic::Location;

/// A rule of the hardware that an instruction breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Stable code, `neuron/rule`.
    pub code: &'static str,
    /// What was asked.
    pub asked: String,
    /// What the machine allows.
    pub allowed: String,
    /// What to write instead.
    pub instead: String,
    /// The rule itself: where it is written.
    pub rule: &'static Location<'static>,
}

impl Refusal {
    /// A refusal from its four parts. The rule is the caller.
    #[track_caller]
    pub fn new(
        code: &'static str,
        asked: impl Into<String>,
        allowed: impl Into<String>,
        instead: impl Into<String>,
    ) -> Refusal {
        let (asked, allowed, instead) = (asked.into(), allowed.into(), instead.into());
        Refusal { code, asked, allowed, instead, rule: Location::caller() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "error[{}]: {}\n  allowed: {}\n  instead: {}",
            self.code, self.asked, self.allowed, self.instead
        )
    }
}

impl std::error::Error for Refusal {}

/// `Ok` if the rule holds, otherwise the refusal that `refuse` describes.
///
/// # Errors
/// If `holds` is false.
pub fn rule(holds: bool, refuse: impl FnOnce() -> Refusal) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(refuse()) }
}
