//! Quantities that follow from the figures, each with its formula in words.

use serde::Serialize;

/// How one quantity is derived from a machine.
pub(crate) struct DerivedRow<M> {
    /// Its name, which ends in its unit.
    pub(crate) name: &'static str,
    /// Its unit; empty for counts.
    pub(crate) unit: &'static str,
    /// The formula in words.
    pub(crate) formula: &'static str,
    /// The formula.
    pub(crate) value: fn(&M) -> f64,
}

/// A derived quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Derived {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Its unit; empty for counts.
    pub unit: &'static str,
    /// The formula in words.
    pub formula: &'static str,
}

/// Every quantity of a machine; one that comes out as zero is not offered by it.
pub(crate) fn rows<M>(rows: &[DerivedRow<M>], machine: &M) -> Vec<Derived> {
    rows.iter()
        .map(|row| Derived {
            name: row.name,
            value: (row.value)(machine),
            unit: row.unit,
            formula: row.formula,
        })
        .filter(|derived| derived.value != 0.0)
        .collect()
}

/// An integer as a number for formulas; figures stay far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "rounding beyond 53 bits is harmless in a printed quantity")]
pub(crate) fn f(value: u64) -> f64 {
    value as f64
}
