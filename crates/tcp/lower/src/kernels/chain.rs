//! Chains of the vector engine, written as they read: units in order with their operands.

use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{Loop, StepLoop};
use tilewright_tcp_isa::program::vector::{
    GuardedSource, Op, OpKind, OperandChoice, OperandSource, Reduce, ReduceOp, Vector, Word,
};

/// A chain that takes words of a type.
pub fn chain(input: Word, ops: Vec<Op>) -> Vector {
    Vector { input, trim: false, pair: false, tags: Vec::new(), ops, between: None, between_first: false }
}

/// A unit without operands.
pub fn op(kind: OpKind) -> Op {
    Op { kind, operands: Vec::new(), reversed: false, stash: false }
}

/// A unit with one operand.
pub fn with(kind: OpKind, source: OperandSource) -> Op {
    Op { operands: vec![always(source)], ..op(kind) }
}

/// A fused multiply-add by constants.
pub fn fma(factor: f32, addend: f32) -> Op {
    Op { operands: vec![always(float(factor)), always(float(addend))], ..op(OpKind::Fma) }
}

/// A unit whose operand is for elements with certain tags; the others pass.
pub fn guarded(kind: OpKind, mask: u8, value: u8, source: OperandSource) -> Op {
    Op { operands: vec![OperandChoice { sources: vec![GuardedSource { mask, value, source }] }], ..op(kind) }
}

fn always(source: OperandSource) -> OperandChoice {
    OperandChoice { sources: vec![GuardedSource { mask: 0, value: 0, source }] }
}

/// A constant.
pub fn float(value: f32) -> OperandSource {
    OperandSource::Immediate(value.to_bits())
}

/// A constant.
pub fn int(value: i32) -> OperandSource {
    OperandSource::Immediate(value.cast_unsigned())
}

/// Words of the register file: byte offset, then sizes and strides in words.
pub fn vrf(base: u64, loops: &[(u64, i64)]) -> OperandSource {
    OperandSource::Vrf { base, loops: rows(loops) }
}

/// Loops from sizes and strides, without those that run once.
pub fn rows(loops: &[(u64, i64)]) -> Vec<Loop> {
    let turning = loops.iter().filter(|(size, _)| *size != 1);
    turning.map(|(size, stride)| Loop { size: Count::Fixed(*size), stride: *stride }).collect()
}

/// One result a row from halves of flits: `rows` rows of `halves`.
pub fn reduce_rows(op: ReduceOp, rows: u64, halves: u64) -> Op {
    let step = |size, summed| StepLoop { size: Count::Fixed(size), summed };
    let steps = vec![step(rows, false), step(halves, true)];
    Op {
        kind: OpKind::Reduce(Reduce { op, tree: true, steps, limits: Vec::new() }),
        operands: Vec::new(),
        reversed: false,
        stash: false,
    }
}

/// f32 to whole numbers within those of i8.
pub fn to_i8() -> [Op; 3] {
    let [low, high] = clip_i8();
    [op(OpKind::ToFixed { int_width: 31 }), low, high]
}

/// i32 within the numbers of i8.
pub fn clip_i8() -> [Op; 2] {
    [with(OpKind::ClipMax, int(i8::MIN.into())), with(OpKind::ClipMin, int(i8::MAX.into()))]
}
