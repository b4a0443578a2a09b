//! Keys of `config.json`: absent and null ones have a default, and one of another type is refused, never
//! passed over.

use serde_json::Value;

use crate::error::{ImportError, ImportResult};

const FILE: &str = "config.json";

/// A table of the configuration, with what stands before its keys in complaints.
#[derive(Clone, Copy)]
pub(super) struct Keys<'k> {
    table: &'k Value,
    prefix: &'k str,
}

impl<'k> Keys<'k> {
    /// The whole file.
    pub(super) fn root(table: &'k Value) -> Keys<'k> {
        Keys { table, prefix: "" }
    }

    /// A table in the file; `None` if it is absent.
    pub(super) fn table(&self, key: &'k str) -> ImportResult<Option<Keys<'k>>> {
        match self.value(key) {
            None => Ok(None),
            Some(table) if table.is_object() => Ok(Some(Keys { table, prefix: key })),
            Some(other) => Err(self.refuse(key, other, "a table, or null")),
        }
    }

    /// Keys that hold something besides these, in order.
    pub(super) fn others(&self, known: &[&str]) -> Vec<&'k str> {
        let table = self.table.as_object().into_iter().flatten();
        let held = table.filter(|(key, value)| !value.is_null() && !known.contains(&key.as_str()));
        held.map(|(key, _)| key.as_str()).collect()
    }

    fn value(&self, key: &str) -> Option<&'k Value> {
        self.table.get(key).filter(|value| !value.is_null())
    }

    /// What a key is called in complaints.
    pub(super) fn named(&self, key: &str) -> String {
        if self.prefix.is_empty() { key.to_string() } else { format!("{}.{key}", self.prefix) }
    }

    fn refuse(&self, key: &str, found: &Value, allowed: &str) -> Box<ImportError> {
        ImportError::about(FILE, self.named(key), format!("is {}", shortened(found))).allowed(allowed)
    }

    fn missing(&self, key: &str, allowed: &str) -> Box<ImportError> {
        ImportError::about(FILE, self.named(key), "is missing").allowed(allowed)
    }

    /// A whole number, if there is one.
    pub(super) fn maybe_whole(&self, key: &str) -> ImportResult<Option<u64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| self.refuse(key, value, WHOLE))
    }

    /// A whole number.
    pub(super) fn whole(&self, key: &str) -> ImportResult<u64> {
        self.maybe_whole(key)?.ok_or_else(|| self.missing(key, WHOLE))
    }

    /// A number above zero, if there is one.
    pub(super) fn maybe_positive(&self, key: &str) -> ImportResult<Option<f64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = value.as_f64().filter(|number| number.is_finite() && *number > 0.0);
        number.map(Some).ok_or_else(|| self.refuse(key, value, POSITIVE))
    }

    /// A number above zero.
    pub(super) fn positive(&self, key: &str) -> ImportResult<f64> {
        self.maybe_positive(key)?.ok_or_else(|| self.missing(key, POSITIVE))
    }

    /// What is added under the root of a norm.
    pub(super) fn norm_eps(&self, key: &str, default: f64) -> ImportResult<f32> {
        let eps = self.maybe_positive(key)?.unwrap_or(default);
        #[expect(clippy::cast_possible_truncation, reason = "used as f32")]
        let rounded = eps as f32;
        if rounded.is_finite() {
            return Ok(rounded);
        }
        Err(ImportError::about(FILE, self.named(key), format!("is {eps}")).allowed("numbers of float32"))
    }

    /// True or false; false if it is absent.
    pub(super) fn flag(&self, key: &str) -> ImportResult<bool> {
        let Some(value) = self.value(key) else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.refuse(key, value, "true or false"))
    }

    /// A word, if there is one.
    pub(super) fn word(&self, key: &str) -> ImportResult<Option<&'k str>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.refuse(key, value, "a word in quotes"))
    }
}

const WHOLE: &str = "a whole number from 0";
const POSITIVE: &str = "a number above 0";

/// A value as it is written, cut off where it is long.
pub(super) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { format!("`{short}...`") } else { format!("`{short}`") }
}
