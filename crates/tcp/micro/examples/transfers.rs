//! Prints transfers of the vISA book and a few more, request by request and in closed form.

use std::io::Write;

use tilewright_base::{Sources, Span};
use tilewright_machine::{builtin, load};
use tilewright_tcp_cost::cycles::image::transfer_cost;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};
use tilewright_tcp_micro::dma::{RowSwitches, run_transfers};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut sources = Sources::default();
    let id = sources.add("machines/tcp.toml", builtin("tcp").ok_or("no machine `tcp`")?);
    let loaded = load(&mut sources, id, &|name: &str| builtin(name).map(str::to_owned))
        .map_err(|_| "the machine is refused")?;
    let machine = loaded.machine.tcp().ok_or("no tensor contraction processor")?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:34} {:>8} {:>8} {:>8} {:>8}", "transfer", "closed", "serial", "banks", "switches")?;
    for (name, transfers) in cases() {
        let closed = transfers.iter().filter_map(|t| transfer_cost(machine, t)).map(|c| c.moved_cycles).max();
        let serial = run_transfers(machine, &transfers, RowSwitches::OneAtATime)?;
        let banks = run_transfers(machine, &transfers, RowSwitches::EachBank)?;
        writeln!(
            out,
            "{name:34} {:>8} {:>8} {:>8} {:>8}",
            closed.unwrap_or(0),
            serial.cycles,
            banks.cycles,
            serial.row_switches
        )?;
    }
    Ok(())
}

fn hbm(offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset })
}

fn dm(slice: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Dm { slice }, offset: 0 })
}

fn transfer(source: Address, target: Address, rows: &[(u64, i64, i64)], packet: u64) -> Transfer {
    let row =
        |&(size, source, target): &(u64, i64, i64)| TransferLoop { size: Count::Fixed(size), source, target };
    let loops = rows.iter().map(row).collect();
    Transfer { name: "t".into(), source, target, loops, packet, index: None, span: Span::default() }
}

/// One transfer for each engine.
fn cases() -> Vec<(&'static str, Vec<Transfer>)> {
    let network = 32 * SLICE_STRIDE;
    let stream = |engine: u64| {
        let rows = [(32, 8192, 4096), (16, 512, 0), (2, 256, network)];
        transfer(hbm(engine << 24), dm(64 * engine), &rows, 256)
    };
    let conflict = |engine: u64| {
        let rows = [(16, 1024, 1024), (4, 256, 256), (32, 1 << 21, SLICE_STRIDE), (2, 1 << 26, network)];
        transfer(hbm(engine << 18), dm(64 * engine), &rows, 256)
    };
    let stackless = |engine: u64| {
        let rows = [(8, 512, 256), (32, 4096, SLICE_STRIDE), (2, 131_072, network)];
        transfer(hbm(engine << 18), dm(64 * engine), &rows, 256)
    };
    vec![
        (
            "permutation, 64 requests",
            vec![transfer(hbm(0), hbm(16_384), &[(8, 2048, 256), (8, 256, 2048)], 256)],
        ),
        ("stream, 1 engine", vec![stream(0)]),
        ("stream, 8 engines", (0..8).map(stream).collect()),
        ("conflicts, 1 engine", vec![conflict(0)]),
        ("conflicts, 8 engines", (0..8).map(conflict).collect()),
        ("no stack bit, 8 engines", (0..8).map(stackless).collect()),
        ("one slice, 32 B", vec![transfer(hbm(0), dm(0), &[], 32)]),
        ("32 slices of 16 B", vec![transfer(hbm(0), dm(0), &[(32, 16, SLICE_STRIDE)], 16)]),
        ("64 slices of 1600 B", vec![transfer(hbm(0), dm(0), &[(64, 1600, SLICE_STRIDE)], 1600)]),
        ("64 slices of the same 1600 B", vec![transfer(hbm(0), dm(0), &[(64, 0, SLICE_STRIDE)], 1600)]),
        ("16 partial writes", vec![transfer(dm(0), hbm(0), &[(16, SLICE_STRIDE, 2)], 2)]),
        ("rows of 256 B, 2 MiB apart", vec![transfer(hbm(0), dm(0), &[(1024, 1 << 21, 256)], 256)]),
        ("rows of 512 B, 8 KiB apart", vec![transfer(hbm(0), dm(0), &[(512, 8192, 512)], 512)]),
        ("rows of 128 B, 4 KiB apart", vec![transfer(hbm(0), dm(0), &[(1024, 4096, 128)], 128)]),
        ("rows of 256 B, 64 KiB apart", vec![transfer(hbm(0), dm(0), &[(1024, 65_536, 256)], 256)]),
        ("rows of 200 B, 200 B apart", vec![transfer(hbm(0), dm(0), &[(1024, 200, 200)], 200)]),
    ]
}
