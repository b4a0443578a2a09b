//! Which number rule set a machine computes by. The rules themselves are code of another crate.

use crate::keys::machine_keys;
use crate::value::{Figure, Value};

/// A named set of rounding, overflow and subnormal rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberRules {
    /// Subnormals flush, NaN is one word, FP8 E4M3 saturates.
    Tcp,
    /// IEEE-like FP32 with the Neuron formats.
    Neuron,
}

impl NumberRules {
    /// The words of a machine file.
    pub const NAMES: &'static [&'static str] = &["tcp", "neuron"];
}

impl Figure for NumberRules {
    fn read(value: &Value) -> Option<NumberRules> {
        match value {
            Value::Choice("tcp") => Some(NumberRules::Tcp),
            Value::Choice("neuron") => Some(NumberRules::Neuron),
            _ => None,
        }
    }
}

machine_keys! {
    /// Rules of arithmetic.
    Numerics {
        /// The rule set that values are computed by.
        rules: NumberRules,
    }
}
