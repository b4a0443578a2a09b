//! Machines, images and numbers for the tests.

use std::sync::LazyLock;

use tilewright_base::{SourceId, Sources, Span};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_num::Dtype;
use tilewright_tcp_exec::state::SliceAddress;
use tilewright_tcp_exec::{ExecFault, MemoryState, exec};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{Commit, Context, ExecBody, Fetch, Loop, Memory, Stream, Switch};
use tilewright_tcp_isa::program::{Count, Exec};

/// Where commands of these tests write.
pub(crate) const OUT: u64 = 0x40000;
pub(crate) const PE: PeId = PeId { chip: 0, pe: 0 };

pub(crate) fn tcp() -> &'static Tcp {
    static LOADED: LazyLock<Tcp> = LazyLock::new(|| {
        let mut sources = Sources::default();
        let id = sources.add("tcp", builtin("tcp").unwrap());
        load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
    });
    &LOADED
}

pub(crate) fn span() -> Span {
    Span { source: SourceId(0), start: 0, end: 0 }
}

/// Numbers from a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        tilewright_base::random::next(&mut self.0)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.roll(items.len() as u64) as usize]
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.roll(last as u64 + 1) as usize);
        }
    }
}

pub(crate) fn row(size: u64, stride: i64) -> Loop {
    Loop { size: Count::Fixed(size), stride }
}

pub(crate) fn fetch(dtype: Dtype, packet: u64, loops: Vec<Loop>) -> Fetch {
    Fetch {
        dtype,
        base: 0,
        interleave: None,
        loops,
        packet,
        indirect: None,
        limits: Vec::new(),
        lookup: None,
        cast: None,
        zero_point: None,
    }
}

/// Flits one after the other.
pub(crate) fn commit(memory: Memory, base: u64, flits: u64) -> Commit {
    Commit {
        memory,
        base,
        loops: vec![row(flits, 32)],
        bytes: 32,
        width: 32,
        to_bf16: false,
        relu: false,
        slices: Vec::new(),
    }
}

/// From a fetch straight to [`OUT`].
pub(crate) fn copy(fetch: Fetch, flits: u64) -> Stream {
    Stream {
        fetch,
        switch: Switch::default(),
        contract: None,
        vector: None,
        cast: None,
        transpose: None,
        commit: commit(Memory::Dm, OUT, flits),
    }
}

pub(crate) fn image(body: ExecBody) -> Exec {
    Exec { name: "test".to_owned(), context: Context::Main, pes: 1, body, span: span() }
}

pub(crate) fn run(machine: &Tcp, state: &mut MemoryState, stream: Stream) -> Result<(), ExecFault> {
    exec(machine, state, PE, &image(ExecBody::Stream(Box::new(stream))))
}

pub(crate) fn at(slice: u64, memory: Memory, offset: u64) -> SliceAddress {
    SliceAddress { chip: 0, slice, memory, offset }
}

pub(crate) fn read(state: &MemoryState, slice: u64, memory: Memory, offset: u64, bytes: u64) -> Vec<u8> {
    let mut found = vec![0xEE; bytes as usize];
    state.read_slice(at(slice, memory, offset), &mut found).unwrap();
    found
}

pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Bits of an element in memory and in flight.
pub(crate) fn bits(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::I4 | Dtype::I5 | Dtype::F4E2M1 => 4,
        Dtype::Bf16 | Dtype::I16 => 16,
        Dtype::I32 | Dtype::F32 => 32,
        _ => 8,
    }
}

/// Bits of a little-endian sequence of bytes, one by one; missing bytes are zero.
pub(crate) fn pick_bits(bytes: &[u8], first: i64, count: u64) -> u32 {
    let bit = |at: i64| {
        let byte = if at < 0 { 0 } else { bytes.get((at / 8) as usize).copied().unwrap_or(0) };
        u32::from(byte >> at.rem_euclid(8) & 1)
    };
    (0..count as i64).fold(0, |all, at| all | bit(first + at) << at)
}

/// Appends elements to bytes bit by bit.
pub(crate) fn pack(patterns: &[u32], bits: u64) -> Vec<u8> {
    let mut bytes = vec![0; (patterns.len() * bits as usize).div_ceil(8)];
    for (index, pattern) in patterns.iter().enumerate() {
        for bit in 0..bits as usize {
            let at = index * bits as usize + bit;
            bytes[at / 8] |= ((pattern >> bit & 1) as u8) << (at % 8);
        }
    }
    bytes
}
