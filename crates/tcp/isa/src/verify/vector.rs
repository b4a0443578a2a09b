//! Vector engine, as far as other engines depend on it: what enters, what it reads of its register file, how
//! many flits leave (vISA book, vector engine).

use super::context::VerifyContext;
use super::{sequencer, types};
use crate::footprint::MemoryKind;
use crate::footprint::exec::in_units;
use crate::footprint::walk::TouchedOffsets;
use crate::program::exec::Stream;
use crate::program::vector::{OperandSource, Vector};

pub(super) fn check(cx: &mut VerifyContext<'_>, stream: &Stream, vector: &Vector) {
    for fault in crate::vector::check(cx.machine, vector) {
        let at = fault.to_string();
        let allowed = "stages in order, each unit once, operands as the engine's table says".to_string();
        cx.refuse("tcp/vector-chain", at, allowed, "a second command for what does not fit".into());
    }
    let wanted = types::dtype_of(vector.input);
    let enters = types::leaves_contract(stream);
    if enters != wanted {
        cx.refuse(
            "tcp/vector-input",
            format!("{enters} enters a vector engine set to {wanted}"),
            "i32 or f32, as its first stage is set".into(),
            "a cast while fetching, or the other word".into(),
        );
    }
    for source in sources(vector) {
        let OperandSource::Vrf { base, loops } = source else { continue };
        sequencer::check(cx, "the vector register file walk", loops, None);
        let capacity = MemoryKind::Vrf.capacity_bytes(cx.machine);
        let walked = TouchedOffsets::of_loops(&in_units(loops, 4), 4);
        if let Some((start, end)) = walked.placed((*base).into(), 1, capacity).outside {
            cx.refuse(
                "tcp/vector-bounds",
                format!("an operand reads bytes {start}..{end} of the vector register file"),
                format!("0..{capacity}"),
                "a base, sizes and strides that stay inside".into(),
            );
        }
    }
}

fn sources(vector: &Vector) -> impl Iterator<Item = &OperandSource> {
    let operands = vector.ops.iter().flat_map(|op| &op.operands);
    operands.flat_map(|choice| &choice.sources).map(|guarded| &guarded.source)
}
