//! Copies from or to a place that is known only at run time (instruction pages of `tensor_copy_dynamic_src`
//! and `_dst`; docs/hardware-rules.md#vector-instructions).

use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::chip::cycles_ps;
use tilewright_neuron_isa::cost::vector::{VectorRate, cost, is_fast};
use tilewright_neuron_isa::limits::{self, same_shape};
use tilewright_neuron_isa::pattern::as_u64;
use tilewright_neuron_isa::program::{EngineKind, Instruction};
use tilewright_neuron_isa::refusal::Refusal;

use crate::Tile;
use crate::convert;

/// dst = src, one of which lies where an element of a tile says.
///
/// # Errors
/// If an operand breaks a rule of the engine.
pub fn tensor_copy_dynamic(
    chip: &Chip,
    name: &'static str,
    dst: &Tile,
    src: &Tile,
    engine: Option<EngineKind>,
) -> Result<Instruction, Refusal> {
    let engine = engine.unwrap_or(EngineKind::Vector);
    limits::engine_of(name, engine, &[EngineKind::Vector, EngineKind::Scalar, EngineKind::Gpsimd])?;
    limits::operand(chip, engine, name, "the source", src)?;
    limits::operand(chip, engine, name, "the result", dst)?;
    same_shape(name, dst, src)?;
    limits::same_words(name, dst, src)?;
    let uninitialised = convert::copy(&chip.rules, dst, src);
    let neuron = &chip.neuron;
    let clock_hz = match engine {
        EngineKind::Scalar => neuron.scalar.clock_hz,
        EngineKind::Gpsimd => neuron.gpsimd.clock_hz,
        _ => neuron.vector.clock_hz,
    };
    let mut cost = cost(chip, engine, as_u64(src.view.free_elements()), &[src, dst], VectorRate::Fast);
    cost.busy_ps = cost.busy_ps.max(cycles_ps(chip.neuron.vector.dynamic_copy_cycles, clock_hz));
    let mut done = Instruction::new(name, engine, cost, &[dst], &[src]).reading(uninitialised);
    done.borrows_port = is_fast(chip, engine, &[src, dst], VectorRate::Fast);
    Ok(done)
}
