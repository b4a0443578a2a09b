//! The values that a machine file may hold, and how they are printed.
//!
//! Integers print with `_` between groups of three digits, as TOML lets people write them.

use std::fmt;

use serde::Serialize;

/// A list of integers, such as the access widths of a port.
pub type List = Vec<u64>;

/// One value of a machine file, after its type and range have been checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A count, a size, a latency.
    Integer(u64),
    /// A fraction or an energy.
    Number(f64),
    /// Whether the machine has a feature.
    Flag(bool),
    /// One of a closed set of words.
    Choice(&'static str),
    /// Several integers.
    List(List),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(value) => f.write_str(&grouped(*value)),
            Value::Number(value) => write!(f, "{value}"),
            Value::Flag(value) => write!(f, "{value}"),
            Value::Choice(word) => f.write_str(word),
            Value::List(values) => {
                let words: Vec<String> = values.iter().map(|&value| grouped(value)).collect();
                write!(f, "[{}]", words.join(", "))
            }
        }
    }
}

impl Value {
    /// An integer or a number as a number; nothing of words and lists.
    #[expect(clippy::cast_precision_loss, reason = "figures of machines have few digits")]
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Integer(value) => Some(*value as f64),
            Value::Number(value) => Some(*value),
            _ => None,
        }
    }
}

/// Digits in groups of three: `1_048_576`. Four digits stay together.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    if digits.len() <= 4 {
        return digits;
    }
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

/// A Rust type that a struct field of a section may have.
pub(crate) trait Figure: Sized {
    /// The field's value, if the checked value is of this type.
    fn read(value: &Value) -> Option<Self>;
}

impl Figure for u64 {
    fn read(value: &Value) -> Option<u64> {
        if let Value::Integer(value) = value { Some(*value) } else { None }
    }
}

impl Figure for f64 {
    fn read(value: &Value) -> Option<f64> {
        if let Value::Number(value) = value { Some(*value) } else { None }
    }
}

impl Figure for bool {
    fn read(value: &Value) -> Option<bool> {
        if let Value::Flag(value) = value { Some(*value) } else { None }
    }
}

impl Figure for List {
    fn read(value: &Value) -> Option<List> {
        if let Value::List(values) = value { Some(values.clone()) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_five_on() {
        assert_eq!(grouped(4096), "4096");
        assert_eq!(grouped(65536), "65_536");
        assert_eq!(grouped(1_000_000_000), "1_000_000_000");
    }
}
