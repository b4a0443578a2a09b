//! What memories hold before a run of a model's program, as tensors: weights, tables, caches, and data memory
//! as runs before left it.
//!
//! Their elements come from the device. Run from its text alone, a program finds zeros there.

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Tensor;
use tilewright_tcp_isa::program::tensor::{TensorData, TensorPlace, TensorRole};
use tilewright_tcp_isa::program::text::lowered_shape;

use super::plan::Plan;
use crate::CompileError;

/// Words of a tensor of weights at most: sizes of the notation end there.
const PIECE_WORDS: u64 = 1 << 31;

/// What differs between programs of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Data memory that values take.
    pub(super) dm_bytes: u64,
    /// Sequences that get logits.
    pub(super) sequences: u64,
}

/// Tensors of a program.
pub(super) fn tensors(machine: &Tcp, plan: &Plan, held: Held) -> Result<Vec<Tensor>, CompileError> {
    let mut all = Vec::new();
    for chip in 0..plan.options.chips {
        of_chip(machine, plan, held, chip, &mut all)?;
    }
    Ok(all)
}

/// Those of one chip; the first alone has logits.
fn of_chip(
    machine: &Tcp,
    plan: &Plan,
    held: Held,
    chip: u64,
    all: &mut Vec<Tensor>,
) -> Result<(), CompileError> {
    let named = |name: &str| if chip == 0 { name.to_string() } else { format!("{name}_of_{chip}") };
    let mut hbm = |name: &str, base: u64, count: u64, role: TensorRole| -> Result<(), CompileError> {
        all.push(words(&named(name), TensorPlace::Hbm { chip, base }, &[("B", count)], "| B^1[%]", role)?);
        Ok(())
    };
    let weights = plan.caches_start() / 4;
    for piece in 0..weights.div_ceil(PIECE_WORDS) {
        let name = if piece == 0 { "weights".to_string() } else { format!("weights{piece}") };
        let first = piece * PIECE_WORDS;
        hbm(&name, 4 * first, PIECE_WORDS.min(weights - first), TensorRole::Input)?;
    }
    hbm("tables", plan.token_table, (plan.logits - plan.token_table) / 4, TensorRole::Input)?;
    for (layer, start) in plan.caches.iter().enumerate() {
        for pe in 0..plan.options.pes {
            let base = start + pe * plan.cache_bytes;
            hbm(&format!("cache{layer}_{pe}"), base, plan.cache_bytes / 4, TensorRole::InOut)?;
        }
    }
    if chip == 0 {
        hbm("logits", plan.logits, plan.logit_words * held.sequences, TensorRole::Output)?;
    }
    let slices = machine.pe.slices * plan.options.pes;
    let place = TensorPlace::Dm { chip, slice: 0, base: 0 };
    let axes = [("S", slices), ("B", held.dm_bytes.div_ceil(4))];
    all.push(words(&named("memory"), place, &axes, &format!("S^1[{slices}] | B^1[%]"), TensorRole::InOut)?);
    Ok(())
}

/// Words of a memory; `%` in the shape stands for the last extent.
fn words(
    name: &str,
    place: TensorPlace,
    axes: &[(&str, u64)],
    shape: &str,
    role: TensorRole,
) -> Result<Tensor, CompileError> {
    let axes: Vec<(String, u64)> =
        axes.iter().map(|(name, extent)| ((*name).to_string(), (*extent).max(1))).collect();
    let last = axes.last().map_or(1, |(_, extent)| *extent);
    let text = shape.replace('%', &last.to_string());
    let (shape, map) = lowered_shape(&axes, &text).map_err(|_| CompileError::Size {
        what: "words of a memory",
        found: last,
        allowed: "as many as a shape can have".to_string(),
    })?;
    let data = if role == TensorRole::Output { TensorData::None } else { TensorData::Zeros };
    let (name, dtype) = (name.to_string(), Dtype::I32);
    Ok(Tensor { name, dtype, axes, role, place, shape, map, data, span: Span::default() })
}
