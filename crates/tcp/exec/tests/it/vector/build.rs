//! Short ways to write chains.

use std::sync::LazyLock;

use tilewright_base::{Sources, render};
use tilewright_machine::tcp::Tcp;
use tilewright_machine::{builtin, load};
use tilewright_num::RuleSet;
use tilewright_tcp_exec::vector::{VectorError, apply};
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{Loop, StepLoop};
use tilewright_tcp_isa::program::vector::{
    GuardedSource, Op, OpKind, OperandChoice, OperandSource, Reduce, ReduceOp, Vector, Word,
};

pub(crate) const RULES: &RuleSet = &RuleSet::TCP;

/// The paper's chip.
pub(crate) fn machine() -> &'static Tcp {
    static LOADED: LazyLock<Tcp> = LazyLock::new(|| {
        let mut sources = Sources::default();
        let id = sources.add("machines/tcp.toml", builtin("tcp").expect("a known machine"));
        let loaded = load(&mut sources, id, &|name: &str| builtin(name).map(str::to_owned))
            .unwrap_or_else(|diagnostics| panic!("{}", render::plain(&sources, &diagnostics)));
        loaded.machine.tcp().expect("a tensor contraction processor").clone()
    });
    &LOADED
}

pub(crate) fn chain(input: Word, ops: Vec<Op>) -> Vector {
    Vector { input, trim: false, pair: false, tags: vec![], ops, between: None, between_first: false }
}

pub(crate) fn op(kind: OpKind) -> Op {
    Op { kind, operands: vec![], reversed: false, stash: false }
}

pub(crate) fn with(kind: OpKind, sources: Vec<OperandSource>) -> Op {
    let operands = sources.into_iter().map(|source| choice(vec![(0, 0, source)])).collect();
    Op { operands, ..op(kind) }
}

pub(crate) fn choice(sources: Vec<(u8, u8, OperandSource)>) -> OperandChoice {
    let guarded = |(mask, value, source)| GuardedSource { mask, value, source };
    OperandChoice { sources: sources.into_iter().map(guarded).collect() }
}

pub(crate) fn stash(op: Op) -> Op {
    Op { stash: true, ..op }
}

pub(crate) fn reversed(op: Op) -> Op {
    Op { reversed: true, ..op }
}

pub(crate) fn float(value: f32) -> OperandSource {
    OperandSource::Immediate(value.to_bits())
}

pub(crate) fn int(value: i32) -> OperandSource {
    OperandSource::Immediate(value.cast_unsigned())
}

pub(crate) fn vrf(base: u64, loops: &[(u64, i64)]) -> OperandSource {
    let loops = loops.iter().map(|(size, stride)| Loop { size: Count::Fixed(*size), stride: *stride });
    OperandSource::Vrf { base, loops: loops.collect() }
}

pub(crate) fn reduce(op: ReduceOp, tree: bool, steps: &[(u64, bool)]) -> Reduce {
    let steps = steps.iter().map(|(size, summed)| StepLoop { size: Count::Fixed(*size), summed: *summed });
    Reduce { op, tree, steps: steps.collect(), limits: vec![] }
}

pub(crate) fn words(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

pub(crate) fn floats(words: &[u32]) -> Vec<f32> {
    words.iter().map(|word| f32::from_bits(*word)).collect()
}

pub(crate) fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// One slice without a register file.
pub(crate) fn run(vector: &Vector, words: Vec<u32>) -> Result<Vec<u32>, VectorError> {
    apply(RULES, vector, vec![words], &[]).map(|mut slices| slices.remove(0))
}
