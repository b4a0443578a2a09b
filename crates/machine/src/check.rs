//! One stated value against what its key accepts.

use tilewright_base::{Diagnostic, Span};

use crate::document::RawValue;
use crate::keys::{Allowed, KeySpec};
use crate::value::{Value, grouped};

/// The checked value of `path`, or why it is refused.
pub(crate) fn value(
    path: &str,
    key: &'static KeySpec,
    raw: &RawValue,
    span: Span,
) -> Result<Value, Box<Diagnostic>> {
    match (key.allowed, raw) {
        (Allowed::Integer { low, high }, RawValue::Integer(given)) => integer(*given, low, high)
            .map(Value::Integer)
            .ok_or_else(|| range(path, key, &given.to_string(), span)),
        (Allowed::Number { low, high }, RawValue::Integer(_) | RawValue::Number(_)) => {
            let given = number(raw);
            let inside = given >= low && given <= high;
            inside.then_some(Value::Number(given)).ok_or_else(|| range(path, key, &written(given), span))
        }
        (Allowed::Flag, RawValue::Flag(given)) => Ok(Value::Flag(*given)),
        (Allowed::Choice(words), RawValue::Text(given)) => words
            .iter()
            .find(|word| *word == given)
            .map(|word| Value::Choice(word))
            .ok_or_else(|| range(path, key, &format!("{given:?}"), span)),
        (Allowed::List { low, high }, RawValue::List(given)) => list(path, key, given, (low, high), span),
        _ => Err(wrong_type(path, key, raw, span)),
    }
}

fn integer(given: i128, low: u64, high: u64) -> Option<u64> {
    u64::try_from(given).ok().filter(|given| (low..=high).contains(given))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "ranges of numbers end far below the integers that f64 rounds"
)]
fn number(raw: &RawValue) -> f64 {
    match raw {
        RawValue::Integer(given) => *given as f64,
        RawValue::Number(given) => *given,
        _ => f64::NAN,
    }
}

/// A number with few digits, however large or small it is.
fn written(number: f64) -> String {
    let plain = number == 0.0 || !number.is_finite() || (1e-6..1e16).contains(&number.abs());
    if plain { number.to_string() } else { format!("{number:e}") }
}

fn list(
    path: &str,
    key: &'static KeySpec,
    given: &[RawValue],
    (low, high): (u64, u64),
    span: Span,
) -> Result<Value, Box<Diagnostic>> {
    let mut values: Vec<u64> = Vec::new();
    for raw in given {
        let RawValue::Integer(given) = raw else { return Err(wrong_type(path, key, raw, span)) };
        let Some(value) = integer(*given, low, high) else {
            return Err(range(path, key, &given.to_string(), span));
        };
        if let Some(&last) = values.last().filter(|&&last| last >= value) {
            let order = format!("{} after {}", grouped(value), grouped(last));
            return Err(range(path, key, &order, span));
        }
        values.push(value);
    }
    if values.is_empty() {
        return Err(range(path, key, "an empty list", span));
    }
    Ok(Value::List(values))
}

fn range(path: &str, key: &'static KeySpec, given: &str, span: Span) -> Box<Diagnostic> {
    let diagnostic = Diagnostic::error("machine/range", format!("`{path}` may not be {given}"))
        .at(span, format!("given {given}"))
        .allowed(key.accepts())
        .with_note(key.doc.trim());
    Box::new(diagnostic)
}

fn wrong_type(path: &str, key: &'static KeySpec, raw: &RawValue, span: Span) -> Box<Diagnostic> {
    let given = raw.describe();
    let diagnostic = Diagnostic::error("machine/type", format!("`{path}` is given {given}"))
        .at(span, "of another type")
        .allowed(key.accepts())
        .with_note(key.doc.trim());
    Box::new(match (key.allowed, raw) {
        (Allowed::Integer { .. }, RawValue::Number(given)) if given.fract() == 0.0 && given.abs() < 1e18 => {
            diagnostic.instead(format!("{path} = {given:.0}"))
        }
        _ => diagnostic,
    })
}
