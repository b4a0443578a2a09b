//! Transfers over several engines, between chips, and to scratchpads.

use tilewright_base::Span;
use tilewright_tcp_cost::energy::Component;
use tilewright_tcp_isa::program::control::{ControlExpr, ControlOperand, StepKind};
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};
use tilewright_tcp_isa::program::{Count, Program};
use tilewright_tcp_sim::SimOutcome;

use crate::timeline::build::{ENDS, PUSH, START, dm, dma, hbm, program, queue, run, spans, step, weights};
use crate::timeline::tcp;

fn rows(source: Address, target: Address, loops: &[(u64, i64, i64)], packet: u64) -> Transfer {
    let loop_of =
        |&(size, source, target): &(u64, i64, i64)| TransferLoop { size: Count::Fixed(size), source, target };
    let (name, loops) = ("rows".into(), loops.iter().map(loop_of).collect());
    Transfer { name, source, target, loops, packet, index: None, span: Span::default() }
}

/// Each transfer on a queue of its own; cycles from the first start to the last end.
fn at_once(transfers: Vec<Transfer>) -> u64 {
    let queues =
        (0..).zip(&transfers).map(|(pe, _)| queue(0, pe, vec![dma(u32::try_from(pe).expect("few"), 0)]));
    let queues = queues.collect();
    run(&tcp(), &program(vec![], transfers, queues)).cycles - ENDS - PUSH
}

/// The bars of the published schedule (vISA book) that four engines of a cluster share, in cycles of the
/// model beside what is published. The model has the book's start-up and channels, and nothing that was
/// fitted to these bars, so it is short of the two longer ones.
#[test]
fn published_moves_of_a_cluster() {
    // 32 slices of 16 B, from 512 B in a row: published 612.
    let few = rows(hbm(0, 0), dm(0, 0, 0), &[(32, 16, SLICE_STRIDE)], 16);
    assert_eq!(at_once(vec![few]), 616);
    // 256 slices of 1,600 B each, all different: published 1,660, 41 % more.
    let quarter = |engine: u64, stride: i64| {
        let first = if stride == 0 { 0 } else { engine * 64 * 1600 };
        rows(hbm(0, first), dm(0, engine * 64, 0), &[(64, stride, SLICE_STRIDE)], 1600)
    };
    let different = at_once((0..4).map(|engine| quarter(engine, 1600)).collect());
    assert_eq!(different, 1177);
    // All the same 1,600 B, so that 7 channels answer, from one bank group each: published 5,498, two thirds
    // more.
    let same = at_once((0..4).map(|engine| quarter(engine, 0)).collect());
    assert_eq!(same, 3293);
}

fn far(requests: u64, back: bool) -> Transfer {
    let (from, to) = if back { (1, 0) } else { (0, 1) };
    Transfer { source: dm(from, 0, 0), target: dm(to, 0, 0x4_0000), ..weights(0, requests) }.with_dm_strides()
}

trait WithStrides {
    fn with_dm_strides(self) -> Transfer;
}

impl WithStrides for Transfer {
    /// Rows of a slice on both sides.
    fn with_dm_strides(mut self) -> Transfer {
        self.loops.iter_mut().for_each(|row| row.source = row.target);
        self
    }
}

fn chips(transfers: Vec<Transfer>, queues: Vec<tilewright_tcp_isa::program::control::Queue>) -> SimOutcome {
    run(&tcp(), &Program { chips: 2, ..program(vec![], transfers, queues) })
}

#[test]
fn between_chips_data_takes_the_link_and_its_energy() {
    let one = chips(vec![far(640, false)], vec![queue(0, 0, vec![dma(0, 0)])]);
    let bytes = 640 * 256;
    // 50 GB/s after a microsecond.
    assert_eq!(one.cycles - ENDS - PUSH, START + 1000 + bytes / 50 + 1);
    assert_eq!(one.counts.link_bytes, bytes);
    let bits = u128::from(bytes) * 8;
    assert_eq!(one.energy_fj[Component::Noc as usize], bits * 1200);
    assert_eq!(one.energy_fj[Component::Links as usize], bits * 10_000);
    assert_eq!(one.energy_fj[Component::OffChip as usize], 0);
    assert_eq!(one.energy_fj[Component::DataMemory as usize], u128::from(bytes) * (750 + 850));
}

#[test]
fn the_two_directions_of_a_link_do_not_share() {
    let one = chips(vec![far(640, false)], vec![queue(0, 0, vec![dma(0, 0)])]);
    let both = chips(
        vec![far(640, false), far(640, true)],
        vec![queue(0, 0, vec![dma(0, 0)]), queue(1, 0, vec![dma(1, 0)])],
    );
    assert_eq!(one.cycles, both.cycles);
}

#[test]
fn a_doorbell_takes_longer_to_another_chip() {
    let number = |value| ControlExpr::Operand(ControlOperand::Number(value));
    let arrival = |chip: u64, pe: u64| {
        let send = vec![step(StepKind::Post { chip, pe, value: number(7) })];
        let take = vec![step(StepKind::Receive { chip: 0, pe: 0, register: None }), dma(0, 0)];
        let mut load = weights(0, 64);
        load.source = hbm(chip, 0);
        load.target = dm(chip, pe * 64, 0);
        let outcome = chips(vec![load], vec![queue(0, 0, send), queue(chip, pe, take)]);
        spans(&outcome, &format!("chip{chip}/pe{pe}/dma"))[0].0
    };
    let machine = tcp();
    assert_eq!(arrival(0, 1), 2000 + PUSH + machine.noc.doorbell_ns + PUSH);
    assert_eq!(arrival(1, 0), 2000 + PUSH + machine.pcie.doorbell_ns + PUSH);
}

#[test]
fn a_scratchpad_takes_its_own_rate() {
    let machine = tcp();
    let spm = Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Spm { pe: 0 }, offset: 0 });
    let into = rows(hbm(0, 0), spm, &[(64, 256, 256)], 256);
    let request = 256_u64.div_ceil(machine.cpu.spm_bytes_per_cycle);
    assert_eq!(at_once(vec![into]), START + 64 * request);
}
