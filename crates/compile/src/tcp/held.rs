//! What memories hold before a run of a model's program, as tensors: weights, tables, caches, and data memory as runs before left it.
//!
//! Their elements come from the device. Run from its text alone, a program finds zeros there.

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp::program::Tensor;
use tilewright_tcp::program::tensor::{Data, Place, Role};
use tilewright_tcp::program::text::lowered_shape;

use super::plan::Plan;
use crate::CompileError;

/// Tensors of a program whose values take so many bytes of data memory.
pub(super) fn tensors(machine: &Tcp, plan: &Plan, dm_bytes: u64) -> Result<Vec<Tensor>, CompileError> {
    let slices = machine.pe.slices * plan.options.pes;
    let hbm = |base: u64| Place::Hbm { chip: 0, base };
    let mut all = vec![
        words("weights", hbm(0), &[("B", plan.caches_start() / 4)], "| B^1[%]", Role::Input)?,
        words(
            "tables",
            hbm(plan.token_table),
            &[("B", (plan.logits - plan.token_table) / 4)],
            "| B^1[%]",
            Role::Input,
        )?,
    ];
    for (layer, start) in plan.caches.iter().enumerate() {
        for pe in 0..plan.options.pes {
            let (name, base) = (format!("cache{layer}_{pe}"), start + pe * plan.cache_bytes);
            all.push(words(&name, hbm(base), &[("B", plan.cache_bytes / 4)], "| B^1[%]", Role::Both)?);
        }
    }
    let logits = plan.logit_words * plan.options.batch.max(1);
    all.push(words("logits", hbm(plan.logits), &[("B", logits)], "| B^1[%]", Role::Output)?);
    let held = Place::Dm { chip: 0, slice: 0, base: 0 };
    let axes = [("S", slices), ("B", dm_bytes.div_ceil(4))];
    all.push(words("memory", held, &axes, &format!("S^1[{slices}] | B^1[%]"), Role::Both)?);
    Ok(all)
}

/// Words of a memory; `%` in the shape stands for the last extent.
fn words(
    name: &str,
    place: Place,
    axes: &[(&str, u64)],
    shape: &str,
    role: Role,
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
    let data = if role == Role::Output { Data::None } else { Data::Zeros };
    let (name, dtype) = (name.to_string(), Dtype::I32);
    Ok(Tensor { name, dtype, axes, role, place, shape, map, data, span: Span::default() })
}
