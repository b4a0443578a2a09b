//! Convolution mode: the feed unit's windows give a direct 1-D convolution.

use tilewright_num::{Dtype, RuleSet};
use tilewright_tcp_exec::MemoryState;
use tilewright_tcp_exec::contract::{ContractionPlan, RegisterFileView, contract};
use tilewright_tcp_exec::packets::Packets;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{Memory, Shift};

use crate::run::contract::{contraction, step};
use crate::run::images::{Dice, OUT, at, copy, fetch, read, row, run, tcp, words};

/// Rows of 96 values, kernels of 5 taps with padding of 2: one window of 32 outputs for each tap.
///
/// The tree is off: column c of the step of tap t takes in `x[c + t - 2] * w[t]`, and taps are summed in
/// time.
#[test]
fn windows_shift_over_a_row() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let dice = &mut Dice(20);
    let rows = 3_u64;
    let x = dice.bytes((rows * 96) as usize);
    let w = dice.bytes(8 * 5);
    state.write_slice(at(11, Memory::Dm, 0), &x).unwrap();
    for lane in 0..8 {
        state
            .write_slice(at(11, Memory::Trf { lanes: 8 }, lane * 8192), &w[lane as usize * 5..][..5])
            .unwrap();
    }
    let mut image = contraction(
        Dtype::I8,
        vec![row(rows, 0), row(5, 1), row(32, 0)],
        vec![step(rows, false), step(5, true)],
    );
    image.tree = 1;
    image.shift = Some(Shift { initial: -2, stride: 1, shifts: 5, pop: 3 });
    let mut stream = copy(fetch(Dtype::I8, 96, vec![row(rows * 96, 1)]), rows * 32);
    stream.contract = Some(image);
    run(machine, &mut state, stream).unwrap();
    let found = words(&read(&state, 11, Memory::Dm, OUT, rows * 32 * 32));
    for r in 0..rows as usize {
        for column in 0..32 {
            for lane in 0..8 {
                let tap = |t: usize| {
                    let x = (column + t).checked_sub(2).map_or(0, |at| x[r * 96 + at].cast_signed());
                    i32::from(x) * i32::from(w[lane * 5 + t].cast_signed())
                };
                let expected: i32 = (0..5).map(tap).sum();
                assert_eq!(
                    found[(r * 32 + column) * 8 + lane].cast_signed(),
                    expected,
                    "{r} {column} {lane}"
                );
            }
        }
    }
}

/// A long row: the buffer moves on flit by flit, so that a whole row is convolved without its being fetched
/// twice.
#[test]
fn the_buffer_moves_along_a_row() {
    let machine = tcp();
    let dice = &mut Dice(21);
    let flits = 6_u64;
    let x = dice.bytes((flits * 32) as usize);
    let w = dice.bytes(8192 * 8);
    for (places, needs_zeros) in [(flits - 2, false), (flits, true)] {
        let loops = vec![row(places, 0), row(3, 1), row(32, 0)];
        let mut image = contraction(Dtype::I8, loops, vec![step(places, false), step(3, true)]);
        image.tree = 1;
        image.shift = Some(Shift { initial: 1, stride: 2, shifts: 3, pop: 1 });
        let plan = ContractionPlan::new(machine, &RuleSet::TCP, &image, Dtype::I8).unwrap();
        let packets = Packets { bytes: x.clone(), extra: None, packet_bytes: 32 };
        let found = contract(&plan, packets, RegisterFileView { bytes: &w, extra: None }).unwrap();
        for column in 0..places as usize * 32 {
            for lane in 0..8 {
                let tap = |t: usize| {
                    let x = x.get(column + 1 + 2 * t).map_or(0, |x| x.cast_signed());
                    i32::from(x) * i32::from(w[lane * 8192 + t].cast_signed())
                };
                let expected: i32 = (0..3).map(tap).sum();
                assert_eq!(found[column * 8 + lane].cast_signed(), expected, "{column} {needs_zeros}");
            }
        }
    }
}

#[test]
fn windows_must_take_in_the_whole_stream() {
    let machine = tcp();
    let loops = vec![row(2, 0), row(32, 0)];
    let mut image = contraction(Dtype::I8, loops, vec![step(2, false)]);
    let mut fits = |shift: Shift, flits: usize, repeats: u64| {
        image.shift = Some(shift);
        image.repeats = Count::Fixed(repeats);
        let plan = ContractionPlan::new(machine, &RuleSet::TCP, &image, Dtype::I8).unwrap();
        let packets = Packets { bytes: vec![1; 32 * flits], extra: None, packet_bytes: 32 };
        plan.feed(packets).is_ok()
    };
    let shift = Shift { initial: 0, stride: 1, shifts: 1, pop: 1 };
    assert!(fits(shift, 4, 1));
    assert!(!fits(shift, 5, 1), "the last flit never enters");
    assert!(!fits(shift, 1, 1), "the second place shows nothing");
    assert!(!fits(Shift { shifts: 4, ..shift }, 4, 1), "two steps are no whole place");
    assert!(!fits(Shift { shifts: 0, ..shift }, 4, 1));
    assert!(!fits(Shift { shifts: 2, stride: u64::MAX, ..shift }, 3, 1));
    assert!(fits(Shift { shifts: 1, pop: 0, ..shift }, 3, 2));
}
