//! Images of whole passes: data memory through the vector engine and back, and loads of its register file.

use tilewright_base::Span;
use tilewright_base::invariant::OrBroken;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Exec, ExecBody, Fetch, Interleave, Memory, ShortLoad, Stream, Switch, Transpose,
};
use tilewright_tcp_isa::program::vector::{Vector, Word};
use tilewright_tcp_isa::vector::{FLIT_WORDS, output};

use super::builder::bytes;
use super::chain::rows;

/// Elements of a slice that lie side by side.
#[derive(Clone, Copy)]
pub struct ElementRun {
    /// Type in data memory.
    pub dtype: Dtype,
    /// First byte.
    pub base: u64,
    /// Number of elements.
    pub elements: u64,
}

/// Where elements of a type go.
#[derive(Clone, Copy)]
pub struct ElementTarget {
    /// Type in data memory.
    pub dtype: Dtype,
    /// First byte.
    pub base: u64,
}

/// An image of one PE.
pub fn exec(name: &str, context: Context, stream: Stream) -> Exec {
    let body = ExecBody::Stream(Box::new(stream));
    Exec { name: name.to_string(), context, pes: 1, body, span: Span::default() }
}

/// A fetch of elements as they are.
pub fn fetch(dtype: Dtype, base: u64, loops: &[(u64, i64)], packet: u64) -> Fetch {
    Fetch {
        dtype,
        base,
        interleave: None,
        loops: rows(loops),
        packet,
        indirect: None,
        limits: Vec::new(),
        lookup: None,
        cast: None,
        zero_point: None,
    }
}

/// A fetch of flits of words for the vector engine.
pub fn fetch_words(dtype: Dtype, base: u64, loops: &[(u64, i64)]) -> Fetch {
    let cast = match dtype {
        Dtype::F32 | Dtype::I32 => None,
        narrow if narrow.is_float() => Some(Dtype::F32),
        _ => Some(Dtype::I32),
    };
    Fetch { cast, ..fetch(dtype, base, loops, FLIT_WORDS) }
}

/// Alternate flits of two tensors with the same layout.
pub fn fetch_pairs(first: ElementRun, second_base: u64) -> Fetch {
    let flits = first.elements / FLIT_WORDS;
    let loops = [(flits, signed(FLIT_WORDS)), (2, 0), (FLIT_WORDS, 1)];
    let at_loop = usize::from(flits != 1);
    let interleave = Some(Interleave { at_loop, base: second_base });
    Fetch { interleave, ..fetch_words(first.dtype, first.base, &loops) }
}

/// A commit of one flit after the other, side by side.
pub fn commit(base: u64, flits: u64, flit_bytes: u64) -> Commit {
    Commit {
        memory: Memory::Dm,
        base,
        loops: rows(&[(flits, signed(flit_bytes))]),
        bytes: flit_bytes,
        width: flit_bytes,
        to_bf16: false,
        relu: false,
        slices: Vec::new(),
    }
}

/// A pass over flits of words: through the chain, cast, and written side by side.
pub fn pass(name: &str, fetch: Fetch, vector: Vector, flits: u64, to: ElementTarget) -> Exec {
    let word = match output(&vector) {
        Word::I32 => Dtype::I32,
        Word::F32 => Dtype::F32,
    };
    let stream = Stream {
        fetch,
        switch: Switch::default(),
        contract: None,
        vector: Some(vector),
        cast: (to.dtype != word).then_some(to.dtype),
        transpose: None,
        commit: commit(to.base, flits, bytes(to.dtype, FLIT_WORDS)),
    };
    exec(name, Context::Main, stream)
}

/// A pass element by element.
pub fn map(name: &str, from: ElementRun, vector: Vector, to: ElementTarget) -> Exec {
    let fetch = fetch_words(from.dtype, from.base, &[(from.elements, 1)]);
    pass(name, fetch, vector, from.elements / FLIT_WORDS, to)
}

/// A pass that leaves one word a row. Each comes in a flit of its own; the transpose engine joins two, so
/// that rows lie side by side in whole granules.
pub fn reduce(name: &str, from: ElementRun, vector: Vector, rows: u64, base: u64) -> Exec {
    let fetch = fetch_words(from.dtype, from.base, &[(from.elements, 1)]);
    let stream = Stream {
        fetch,
        switch: Switch::default(),
        contract: None,
        vector: Some(vector),
        cast: None,
        transpose: Some(Transpose { rows: 2, columns: FLIT_WORDS, kept: 1 }),
        commit: commit(base, rows / 2, bytes(Dtype::F32, 2)),
    };
    exec(name, Context::Main, stream)
}

/// Contiguous words of data memory into the vector register file.
pub fn load_vrf(name: &str, from: u64, words: u64, base: u64) -> Exec {
    let short = ShortLoad { from, bytes: bytes(Dtype::F32, words), memory: Memory::Vrf, base };
    Exec {
        name: name.to_string(),
        context: Context::Sub,
        pes: 1,
        body: ExecBody::Short(short),
        span: Span::default(),
    }
}

/// A stride; sizes that no register holds are refused elsewhere.
pub fn signed(stride: u64) -> i64 {
    i64::try_from(stride).or_broken("sizes and strides of a program fit 63 bits")
}
