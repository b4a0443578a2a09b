//! Speed of whole tensor unit commands: fetch, contraction and commit on the 64 slices of a PE.
//!
//! `cargo bench -p tilewright-bench --bench command`; `RAYON_NUM_THREADS=1` for one core.

use tilewright_base::{SourceId, Sources, Span};
use tilewright_bench::{Bench, measure};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_num::Dtype;
use tilewright_tcp_exec::state::SliceAddress;
use tilewright_tcp_exec::{MemoryState, exec};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{
    Commit, Context, Contract, ContractOp, Drain, ExecBody, Fetch, Loop, Memory, StepLoop, Stream, Switch,
};
use tilewright_tcp_isa::program::{Count, Exec};

const SLICES: u64 = 64;
/// Rows streamed, rows in the register files, elements of a row.
const ROWS: u64 = 256;
const COLUMNS: u64 = 16;
const K: u64 = 1024;
const LANES: u64 = 8;
/// Where results go, behind the streamed rows.
const OUT: u64 = 0x60000;

fn main() {
    let machine = tcp();
    for (name, dtype, goal_per_s) in
        [("i8", Dtype::I8, 20e9), ("i4", Dtype::I4, 20e9), ("f8e4m3fn", Dtype::F8E4M3Fn, 5e9)]
    {
        let mut state = filled(&machine);
        let image = command(dtype);
        let items = SLICES * ROWS * COLUMNS * K;
        let bench = Bench { name: &format!("command, {name}, 64 x 256x16x1024, MAC"), goal_per_s, items };
        measure(&bench, || {
            exec(&machine, &mut state, PeId { chip: 0, pe: 0 }, &image).expect("the command fits");
        });
    }
}

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("a known machine"));
    let loaded = load(&mut sources, id, &|_| None).expect("a valid machine");
    loaded.machine.tcp().expect("a tensor contraction processor").clone()
}

fn filled(machine: &Tcp) -> MemoryState {
    let mut state = MemoryState::new(machine, 1);
    let mut seed = 1_u64;
    for slice in 0..SLICES {
        for (memory, bytes) in [(Memory::Dm, ROWS * K), (Memory::Trf { lanes: LANES }, 0x10000)] {
            let content: Vec<u8> = (0..bytes)
                .map(|_| tilewright_base::random::next(&mut seed).to_be_bytes()[0] & 0xBF)
                .collect();
            state.write_slice(SliceAddress { chip: 0, slice, memory, offset: 0 }, &content).expect("it fits");
        }
    }
    state
}

/// Each streamed row meets 8 lanes of two rows each.
fn command(dtype: Dtype) -> Exec {
    let row = |size: u64, stride: u64| Loop { size: Count::Fixed(size), stride: stride.cast_signed() };
    let step = |size: u64, summed: bool| StepLoop { size: Count::Fixed(size), summed };
    let width = if dtype == Dtype::I4 { 128 } else { 64 };
    let (packets, held) = (K / width, COLUMNS / LANES);
    let stream = Stream {
        fetch: Fetch {
            dtype,
            base: 0,
            interleave: None,
            loops: vec![row(ROWS, K), row(K, 1)],
            packet: width,
            indirect: None,
            limits: Vec::new(),
            lookup: None,
            cast: None,
            zero_point: None,
        },
        switch: Switch::default(),
        contract: Some(Contract {
            op: ContractOp::Add,
            flits: 2,
            transpose: None,
            shift: None,
            repeats: Count::Fixed(held),
            lanes: LANES,
            dtype,
            base: 0,
            loops: vec![row(ROWS, 0), row(packets, width), row(held, K), row(width, 1)],
            tree: width,
            steps: vec![step(ROWS, false), step(packets, true), step(held, false)],
            drain: Drain::Interleaved,
        }),
        vector: None,
        cast: None,
        transpose: None,
        commit: Commit {
            memory: Memory::Dm,
            base: OUT,
            loops: vec![row(ROWS * held, 32)],
            bytes: 32,
            width: 32,
            to_bf16: false,
            relu: false,
            slices: Vec::new(),
        },
    };
    Exec {
        name: "contract".to_owned(),
        context: Context::Main,
        pes: 1,
        body: ExecBody::Stream(Box::new(stream)),
        span: Span { source: SourceId(0), start: 0, end: 0 },
    }
}
