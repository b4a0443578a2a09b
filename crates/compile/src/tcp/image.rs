//! Register images as templates need them: loops whose sizes may be control registers, plain streams,
//! transfers between memories.

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Contract, ContractOp, Drain, Exec, Fetch, Interleave, Loop, Memory, StepLoop, Stream,
    Switch,
};
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, TransferIndex, TransferLoop,
};
use tilewright_tcp_isa::program::vector::{
    GuardedSource, Op, OpKind, OperandChoice, OperandSource, Reduce, ReduceLimit, ReduceOp, Vector, Word,
};
use tilewright_tcp_isa::program::{Count, Transfer};
use tilewright_tcp_isa::vector::{FLIT_WORDS, HALF_WORDS};

use tilewright_tcp_lower::kernels::pass;
use tilewright_tcp_lower::kernels::pass::signed;

/// A known size.
pub fn n(size: u64) -> Count {
    Count::Fixed(size)
}

/// Loops of a sequencer, without those that run once.
pub fn nest(loops: &[(Count, u64)]) -> Vec<Loop> {
    let turning = loops.iter().filter(|(size, _)| *size != Count::Fixed(1));
    turning.map(|(size, stride)| Loop { size: *size, stride: signed(*stride) }).collect()
}

/// Step loops, without those that run once.
pub fn steps(loops: &[(Count, bool)]) -> Vec<StepLoop> {
    let turning = loops.iter().filter(|(size, _)| *size != Count::Fixed(1));
    turning.map(|(size, summed)| StepLoop { size: *size, summed: *summed }).collect()
}

/// A fetch of elements as they are.
pub fn fetch(dtype: Dtype, base: u64, loops: &[(Count, u64)], packet: u64) -> Fetch {
    Fetch { loops: nest(loops), ..pass::fetch(dtype, base, &[], packet) }
}

/// A fetch of words for the vector engine, a flit at a time.
pub fn fetch_words(dtype: Dtype, base: u64, loops: &[(Count, u64)]) -> Fetch {
    Fetch { loops: nest(loops), ..pass::fetch_words(dtype, base, &[]) }
}

/// Words of two tensors in turns: `second` is the other's base; the loop of size 2 stands before the last.
pub fn fetch_pairs(dtype: Dtype, base: u64, second: u64, loops: &[(Count, u64)]) -> Fetch {
    let mut fetch = fetch_words(dtype, base, loops);
    let at_loop = fetch.loops.len().saturating_sub(2);
    fetch.interleave = Some(Interleave { at_loop, base: second });
    fetch
}

/// A commit into a memory, `bytes` of each flit.
pub fn commit(memory: Memory, base: u64, loops: &[(Count, u64)], bytes: u64) -> Commit {
    Commit { memory, loops: nest(loops), ..pass::commit(base, 1, bytes) }
}

/// A stream without engines: fetch to commit.
pub fn copy(fetch: Fetch, commit: Commit) -> Stream {
    Stream {
        fetch,
        switch: Switch::default(),
        contract: None,
        vector: None,
        cast: None,
        transpose: None,
        commit,
    }
}

/// A stream through the vector engine.
pub fn through(fetch: Fetch, vector: Vector, cast: Option<Dtype>, commit: Commit) -> Stream {
    Stream { vector: Some(vector), cast, ..copy(fetch, commit) }
}

/// An image of the main context.
pub fn main(name: &str, stream: Stream) -> Exec {
    pass::exec(name, Context::Main, stream)
}

/// An image of the sub context, which writes at its one width.
pub fn sub(machine: &Tcp, name: &str, mut stream: Stream) -> Exec {
    stream.commit.width = machine.commit.sub_width_bytes;
    pass::exec(name, Context::Sub, stream)
}

/// A contraction without in-flit transpose or shift, to be completed.
pub fn contraction(dtype: Dtype, lanes: u64, drain: Drain) -> Contract {
    Contract {
        op: ContractOp::Add,
        flits: 1,
        transpose: None,
        shift: None,
        repeats: n(1),
        lanes,
        dtype,
        base: 0,
        loops: Vec::new(),
        tree: 1,
        steps: Vec::new(),
        drain,
    }
}

/// Words of the vector register file, byte offset and loops in words.
pub fn vrf(base: u64, loops: &[(Count, u64)]) -> OperandSource {
    OperandSource::Vrf { base, loops: nest(loops) }
}

/// A unit with one operand.
pub fn with(kind: OpKind, source: OperandSource) -> Op {
    let choice = OperandChoice { sources: vec![GuardedSource { mask: 0, value: 0, source }] };
    Op { kind, operands: vec![choice], reversed: false, stash: false }
}

/// A reduction within slices.
pub fn reduce(op: ReduceOp, tree: bool, loops: &[(Count, bool)], limits: Vec<ReduceLimit>) -> Op {
    let kind = OpKind::Reduce(Reduce { op, tree, steps: steps(loops), limits });
    Op { kind, operands: Vec::new(), reversed: false, stash: false }
}

/// A chain that takes words of a type.
pub fn chain(input: Word, ops: Vec<Op>) -> Vector {
    tilewright_tcp_lower::kernels::chain::chain(input, ops)
}

/// Bytes of so many elements.
pub fn bytes(dtype: Dtype, elements: u64) -> u64 {
    elements.saturating_mul(u64::from(dtype.storage_bits())).div_ceil(8)
}

/// A byte of HBM.
pub fn hbm(chip: u64, offset: u64) -> Address {
    Address::new(MemoryLocation { chip, medium: MemoryInstance::Hbm, offset })
}

/// A byte of a slice's data memory.
pub fn dm(chip: u64, slice: u64, offset: u64) -> Address {
    Address::new(MemoryLocation { chip, medium: MemoryInstance::Dm { slice }, offset })
}

/// One loop of a transfer: iterations, bytes between them at the source and at the target.
pub fn turn(size: Count, source: u64, target: u64) -> TransferLoop {
    TransferLoop { size, source: signed(source), target: signed(target) }
}

/// A loop over slices at the target.
pub fn to_slices(slices: u64, source: u64) -> TransferLoop {
    TransferLoop { size: n(slices), source: signed(source), target: SLICE_STRIDE }
}

/// A loop over slices at the source.
pub fn from_slices(slices: u64, target: u64) -> TransferLoop {
    TransferLoop { size: n(slices), source: SLICE_STRIDE, target: signed(target) }
}

/// A transfer.
pub fn transfer(
    name: &str,
    source: Address,
    target: Address,
    loops: Vec<TransferLoop>,
    packet: u64,
) -> Transfer {
    Transfer { name: name.to_string(), source, target, loops, packet, index: None, span: Span::default() }
}

/// Makes a transfer indirect: its outermost loop gathers or scatters by a table of u32.
pub fn indexed(transfer: Transfer, table: Address, scatter: bool) -> Transfer {
    Transfer { index: Some(TransferIndex { table, dtype: Dtype::U32, scatter }), ..transfer }
}

/// The longest packet of whole granules that divides so many bytes.
pub fn packet_of(machine: &Tcp, bytes: u64) -> u64 {
    let (most, unit) = (machine.tdma.packet_max_bytes, machine.tdma.alignment_bytes.max(1));
    let fits = |packet: &u64| bytes.is_multiple_of(*packet);
    (1..=most / unit).rev().map(|count| count * unit).find(fits).unwrap_or(unit)
}

/// Flits of so many words.
pub fn flits(words: u64) -> u64 {
    words / FLIT_WORDS
}

/// Halves of flits of so many words.
pub fn halves(words: u64) -> u64 {
    words / HALF_WORDS
}
