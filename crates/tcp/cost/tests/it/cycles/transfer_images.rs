//! The DMA examples again, from transfers, and what only transfers have: two chips, scratchpads, rows by
//! index.

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_cost::cycles::dma::DmaBound;
use tilewright_tcp_cost::cycles::image::{TransferCost, transfer_cost};
use tilewright_tcp_cost::energy::counts_transfer;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferIndex, TransferLoop,
};

use crate::cycles::tcp;

/// The book's machine: a start-up of 500 cycles.
fn book() -> Tcp {
    let mut machine = tcp();
    machine.tdma.startup_cycles = 500;
    machine
}

fn hbm(chip: u64, offset: u64) -> Address {
    Address::new(MemoryLocation { chip, medium: MemoryInstance::Hbm, offset })
}

fn dm(chip: u64, slice: u64, offset: u64) -> Address {
    Address::new(MemoryLocation { chip, medium: MemoryInstance::Dm { slice }, offset })
}

fn transfer(source: Address, target: Address, rows: &[(u64, i64, i64)], packet: u64) -> Transfer {
    let row =
        |&(size, source, target): &(u64, i64, i64)| TransferLoop { size: Count::Fixed(size), source, target };
    let loops = rows.iter().map(row).collect();
    Transfer { name: "t".into(), source, target, loops, packet, index: None, span: Span::default() }
}

fn cost(machine: &Tcp, transfer: &Transfer) -> TransferCost {
    transfer_cost(machine, transfer).expect("memory at both ends")
}

#[test]
fn the_books_examples_take_628_66036_131572() {
    let machine = book();
    let permute = transfer(hbm(0, 0), hbm(0, 16_384), &[(8, 2048, 256), (8, 256, 2048)], 256);
    let found = cost(&machine, &permute);
    assert_eq!((found.cycles.total_cycles, found.cycles.binding), (628, DmaBound::ReadEngine));
    let rows = [(4, 1 << 24, 1 << 15), (64, 1 << 16, SLICE_STRIDE), (256, 256, 256)];
    let read = transfer(hbm(0, 0), dm(0, 0, 0), &rows, 256);
    assert_eq!(cost(&machine, &read).cycles.total_cycles, 66_036);
    let rows = [(4, 1 << 16, 1 << 16), (64, SLICE_STRIDE, SLICE_STRIDE), (256, 256, 256)];
    let copy = transfer(dm(0, 0, 0), dm(0, 64, 0), &rows, 256);
    assert_eq!(cost(&machine, &copy).cycles.total_cycles, 131_572);
    let elsewhere = transfer(dm(0, 0, 0), dm(0, 256, 0), &rows, 256);
    assert_eq!(cost(&machine, &elsewhere).cycles.total_cycles, 66_036, "clusters overlap");
}

#[test]
fn bars_of_the_schedule_take_447_and_3577() {
    let machine = tcp();
    let load = transfer(hbm(0, 0), dm(0, 0, 0), &[], 32);
    assert_eq!(cost(&machine, &load).cycles.total_cycles, 447);
    let store = transfer(dm(0, 0, 0), hbm(0, 0), &[(16, SLICE_STRIDE, 2)], 2);
    let found = cost(&machine, &store);
    assert_eq!((found.cycles.total_cycles, found.cycles.binding), (3577, DmaBound::WriteMemory));
}

#[test]
fn misaligned_writes_of_data_memory_take_three_times_as_long() {
    let machine = tcp();
    let write = |offset| {
        let load = transfer(hbm(0, 0), dm(0, 0, offset), &[(100, 4096, 512)], 256);
        cost(&machine, &load).moved_cycles
    };
    assert_eq!((write(0), write(4)), (200, 600));
}

#[test]
fn other_chips_are_reached_over_a_link() {
    let machine = tcp();
    let near = transfer(dm(0, 0, 0), dm(0, 256, 0), &[(100, 256, 256)], 256);
    let far = Transfer { target: dm(1, 256, 0), ..near.clone() };
    let (near, far) = (cost(&machine, &near), cost(&machine, &far));
    // 25,600 B at 50 GB/s, after a microsecond.
    assert_eq!((far.link_cycles, far.moved_cycles, far.cycles.binding), (512, 512, DmaBound::Link));
    assert_eq!(far.cycles.startup_cycles, near.cycles.startup_cycles + 1000);
    assert_eq!(counts_transfer(&machine, &far).link_bytes, 25_600);
}

#[test]
fn rows_by_index_are_taken_to_be_spread() {
    let machine = tcp();
    let mut gather = transfer(hbm(0, 0), dm(0, 0, 0), &[(64, 256, SLICE_STRIDE)], 256);
    gather.index = Some(TransferIndex { table: dm(0, 0, 0), dtype: Dtype::I32, scatter: false });
    let found = cost(&machine, &gather);
    assert_eq!(found.read.as_ref().map(|side| side.busiest_q32 >> 32), Some(10));
    assert_eq!(found.read.map(|side| side.unit_bytes), Some(64 * 256));
}

#[test]
fn counts_follow_the_ends() {
    let machine = tcp();
    let load = cost(&machine, &transfer(hbm(0, 8), dm(0, 0, 0), &[(4, 256, 256)], 256));
    let counted = counts_transfer(&machine, &load);
    assert_eq!((counted.hbm_read_bytes, counted.dm_written_bytes, counted.noc_bits), (1024, 1024, 8192));
    assert_eq!(counted.hbm_bits, 8 * 256 * 8, "each unaligned request touches two units");
    let inside = cost(&machine, &transfer(dm(0, 0, 0), dm(0, 1, 0), &[], 256));
    let inside = counts_transfer(&machine, &inside);
    assert_eq!((inside.noc_bits, inside.dm_read_bytes, inside.dm_written_bytes), (0, 256, 256));
}

#[test]
fn an_address_without_memory_has_no_cost() {
    let nowhere = transfer(Address(5 << 40), dm(0, 0, 0), &[], 256);
    assert_eq!(transfer_cost(&tcp(), &nowhere), None);
}
