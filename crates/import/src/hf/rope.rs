//! Rotary positions of `config.json`: `rope_theta` and `rope_scaling` side by side, or both in one table
//! `rope_parameters`, as transformers writes them from version 5 on. Where a file has both, they must say the
//! same.

use serde_json::Value;

use super::keys::Keys;
use crate::error::{ImportError, ImportResult};
use crate::llama::{Rope, Scaling};

const FILE: &str = "config.json";
const THETA: &str = "rope_theta";

pub(super) fn read(root: &Value) -> ImportResult<Rope> {
    let keys = Keys::root(root);
    whole_heads(&keys)?;
    let own =
        RopeFields { theta: keys.maybe_positive(THETA)?, scaling: scaling_of(keys.table("rope_scaling")?)? };
    let mut stated = own;
    if let Some(table) = keys.table("rope_parameters")? {
        whole_heads(&table)?;
        let theirs = RopeFields { theta: table.maybe_positive(THETA)?, scaling: scaling_of(Some(table))? };
        stated.theta = agreed(THETA, stated.theta, theirs.theta)?;
        stated.scaling = agreed("rope_scaling", stated.scaling, theirs.scaling)?;
    }
    Ok(Rope {
        theta: stated.theta.unwrap_or(10000.0),
        interleaved: false,
        scaling: stated.scaling.unwrap_or(Scaling::None),
    })
}

/// What one of the two places says.
struct RopeFields {
    theta: Option<f64>,
    scaling: Option<Scaling>,
}

/// What is said in one place, or in two the same.
fn agreed<T: PartialEq + std::fmt::Debug>(
    key: &str,
    own: Option<T>,
    table: Option<T>,
) -> ImportResult<Option<T>> {
    match (own, table) {
        (Some(own), Some(table)) if own != table => {
            let what = format!("is {own:?}, and `rope_parameters` says {table:?}");
            Err(ImportError::about(FILE, key, what)
                .allowed("the same in both places")
                .instead(format!("`rope_parameters` alone, without `{key}`")))
        }
        (own, table) => Ok(own.or(table)),
    }
}

/// All of a head is rotated, not a part of it.
fn whole_heads(keys: &Keys<'_>) -> ImportResult<()> {
    const KEY: &str = "partial_rotary_factor";
    match keys.maybe_positive(KEY)? {
        Some(factor) if factor.to_bits() != 1.0_f64.to_bits() => {
            Err(ImportError::about(FILE, keys.named(KEY), format!("is {factor}")).allowed("1"))
        }
        _ => Ok(()),
    }
}

fn scaling_of(table: Option<Keys<'_>>) -> ImportResult<Option<Scaling>> {
    let Some(table) = table else { return Ok(None) };
    for layers in ["full_attention", "sliding_attention"] {
        if table.table(layers)?.is_some() {
            return Err(ImportError::about(
                FILE,
                table.named(layers),
                "is a table of its own kind of layers",
            )
            .allowed(
                "the same positions in all layers: rope_type and rope_theta in `rope_parameters` itself",
            ));
        }
    }
    let kind = table.word("rope_type")?;
    let Some(kind) = (if kind.is_none() { table.word("type")? } else { kind }) else {
        return untyped(&table);
    };
    match kind {
        "default" => Ok(Some(Scaling::None)),
        "linear" => Ok(Some(Scaling::Linear(table.positive("factor")?))),
        "llama3" => llama3(&table).map(Some),
        other => Err(ImportError::about(FILE, table.named("rope_type"), format!("`{other}` is not known"))
            .allowed("default, linear, llama3")),
    }
}

/// A table without a type may say the base of the frequencies; whatever else it says would be passed over.
fn untyped(table: &Keys<'_>) -> ImportResult<Option<Scaling>> {
    let Some(key) = table.others(&[THETA, "partial_rotary_factor"]).first().copied() else { return Ok(None) };
    Err(ImportError::about(FILE, table.named("rope_type"), format!("is missing beside `{key}`"))
        .allowed("default, linear, llama3")
        .instead("the type that the model was trained with, or null in place of the table"))
}

fn llama3(table: &Keys<'_>) -> ImportResult<Scaling> {
    let (low, high) = (table.positive("low_freq_factor")?, table.positive("high_freq_factor")?);
    if high <= low {
        let what = format!("is {high}, and `low_freq_factor` {low}");
        return Err(ImportError::about(FILE, table.named("high_freq_factor"), what)
            .allowed("more than low_freq_factor"));
    }
    Ok(Scaling::Llama3 {
        factor: table.positive("factor")?,
        low,
        high,
        original: table.positive("original_max_position_embeddings")?,
    })
}
