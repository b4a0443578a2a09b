//! Speed of the commands that a model's tokens are made of, values only: DMA of weights, register file loads,
//! contractions with few rows, vector passes; each on the 64 slices of a PE.
//!
//! `cargo bench -p tilewright-bench --bench decode`; `RAYON_NUM_THREADS=1` for one core.

use tilewright_base::{SourceId, Sources};
use tilewright_bench::{Bench, measure};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_record::KeepLast;
use tilewright_runtime::{Device, Prepared, ReadingOptions};
use tilewright_tcp_exec::state::SliceAddress;
use tilewright_tcp_exec::{MemoryState, exec, transfer};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::Memory;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, MemoryLocation};
use tilewright_tcp_isa::program::{Program, text};

const SLICES: u64 = 64;

/// Images: rows of `k` = 2048 go over a ring of 64 slices, 32 bytes on each.
const TEXT: &str = include_str!("decode.tcp");

fn main() {
    let machine = tcp();
    let program = text::read(TEXT, SourceId(0)).unwrap_or_else(|complaints| panic!("{complaints:#?}"));
    let mut state = filled(&machine);
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    device(&machine, &program, only.as_deref());
    for (name, items, unit, goal_per_s) in ROWS {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let bench = Bench { name: &format!("{name}, {unit}"), goal_per_s: *goal_per_s, items: *items };
        measure(&bench, || run(&machine, &program, &mut state, name));
    }
}

/// Small commands of a kept device, 300 a run: with values, and the timeline alone.
fn device(machine: &Tcp, program: &Program, only: Option<&str>) {
    if only.is_some_and(|only| !"device".contains(only)) {
        return;
    }
    let prepared = Prepared::new(machine, program.clone()).unwrap_or_else(|error| panic!("{error:#?}"));
    let mut device = Device::new(machine, 1);
    for (name, values) in [("device, small commands with values", true), ("device, timeline alone", false)] {
        let wanted = ReadingOptions { values, ..ReadingOptions::default() };
        let bench = Bench { name, goal_per_s: 0.0, items: 300 };
        measure(&bench, || {
            let reading = device.run(&prepared, &[], &wanted, KeepLast::new(0));
            let reading = reading.unwrap_or_else(|error| panic!("{error}"));
            assert!(reading.findings.is_empty(), "{:?}", reading.findings);
        });
    }
}

/// Image, what it does, in which unit, and how much a second it should reach.
const ROWS: &[(&str, u64, &str, f64)] = &[
    ("dma_4k", SLICES * 16 * 4096, "B", 3e9),
    ("dma_256", SLICES * 16 * 256, "B", 3e9),
    ("dma_copy", SLICES * 16 * 1024, "B", 3e9),
    ("dma_loops", SLICES * 2 * 4 * 8 * 64, "B", 3e9),
    ("dma_gather", 64 * 1024, "B", 3e9),
    ("load_trf", SLICES * 65536, "B", 3e9),
    ("load_bf16", SLICES * 65536, "B", 3e9),
    ("load_shared", SLICES * 16384, "B", 3e9),
    ("load_small", SLICES * 2048, "B", 3e9),
    ("multiply_1", SLICES * 2048 * 16, "MAC", 1.5e9),
    ("multiply_8", SLICES * 2048 * 16 * 8, "MAC", 1.5e9),
    ("multiply_64", SLICES * 2048 * 16 * 64, "MAC", 1.5e9),
    ("small_1", SLICES * 256 * 8, "MAC", 0.0),
    ("floats_1", SLICES * 1024 * 16, "MAC", 0.0),
    ("floats_8", SLICES * 1024 * 16 * 8, "MAC", 0.0),
    ("depth0", SLICES * 64 * 8 * 64, "MAC", 0.0),
    ("scale", SLICES * 4096, "elements", 200e6),
    ("scale_small", SLICES * 64, "elements", 0.0),
    ("squares", SLICES * 4096, "elements", 200e6),
    ("softmax", SLICES * 4096, "elements", 0.0),
    ("silu", SLICES * 4096, "elements", 0.0),
    ("quantise", SLICES * 4096, "elements", 200e6),
    ("add", SLICES * 4096, "elements", 200e6),
    ("short", SLICES * 4096, "B", 0.0),
];

fn run(machine: &Tcp, program: &Program, state: &mut MemoryState, name: &str) {
    let pe = PeId { chip: 0, pe: 0 };
    for image in program.execs.iter().filter(|exec| exec.name == name) {
        exec(machine, state, pe, image).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
    for image in program.transfers.iter().filter(|transfer| transfer.name == name) {
        transfer(machine, state, image).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
}

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("a known machine"));
    let loaded = load(&mut sources, id, &|_| None).expect("a valid machine");
    loaded.machine.tcp().expect("a tensor contraction processor").clone()
}

/// Memories full of small numbers, whatever type they are read as.
fn filled(machine: &Tcp) -> MemoryState {
    let mut state = MemoryState::new(machine, 1);
    let mut seed = 1_u64;
    let mut content = |bytes: u64| -> Vec<u8> {
        let next = |at: u64| {
            // As bf16 and f32: exponents around 0.
            let byte = tilewright_base::random::next(&mut seed).to_be_bytes()[0];
            if at % 2 == 1 { 0x3F | byte & 0x80 } else { byte }
        };
        (0..bytes).map(next).collect()
    };
    for slice in 0..SLICES {
        for (memory, bytes) in
            [(Memory::Dm, 0x40000), (Memory::Trf { lanes: 8 }, 0x10000), (Memory::Vrf, 8192)]
        {
            state
                .write_slice(SliceAddress { chip: 0, slice, memory, offset: 0 }, &content(bytes))
                .expect("it fits");
        }
    }
    let hbm = |offset| Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset });
    for part in 0..8 {
        state.write(hbm(part << 20), &content(1 << 20)).expect("it fits");
    }
    // Byte offsets of the gather.
    let table: Vec<u8> = (0..64_u32).flat_map(|row| (row * 37 % 64 * 4096).to_le_bytes()).collect();
    state.write(hbm(0x80_0000), &table).expect("it fits");
    state
}
