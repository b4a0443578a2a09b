//! Fetch unit and collect: a reference that enumerates loops naively.

use proptest::prelude::*;
use tilewright_num::{Dtype, RuleSet, convert};
use tilewright_tcp_exec::{ExecProblem, ExecStage, MemoryState};
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{Fetch, Indirect, Interleave, Limit, Lookup, Memory, SliceDigit};

use crate::run::images::{Dice, at, bits, copy, fetch, pack, pick_bits, read, row, run, tcp};

/// What a slice's fetch gives, as flits: loops by recursion, addresses in bits.
fn reference(image: &Fetch, dm: &[u8], slice: u64) -> Vec<u8> {
    let mut patterns = Vec::new();
    walk(image, dm, slice, &mut Vec::new(), &mut patterns);
    let leaves = bits(image.cast.unwrap_or(image.lookup.as_ref().map_or(image.dtype, |lookup| lookup.dtype)));
    let mut flits = Vec::new();
    for packet in patterns.chunks(image.packet as usize) {
        flits.extend(pack(packet, leaves));
        flits.resize(flits.len().next_multiple_of(32), 0);
    }
    flits
}

fn walk(image: &Fetch, dm: &[u8], slice: u64, indices: &mut Vec<u64>, patterns: &mut Vec<u32>) {
    if indices.len() < image.loops.len() {
        for index in 0..image.loops[indices.len()].size.fixed() {
            indices.push(index);
            walk(image, dm, slice, indices, patterns);
            indices.pop();
        }
        return;
    }
    let mut base = image.base as i64;
    let mut offset = 0;
    for (number, (index, row)) in indices.iter().zip(&image.loops).enumerate() {
        match (image.interleave, image.indirect) {
            (Some(interleave), _) if interleave.at_loop == number => {
                base = if *index == 1 { interleave.base as i64 } else { base };
            }
            (_, Some(indirect)) if indirect.at_loop == number => {
                let entry = pick_bits(dm, (indirect.table as i64 + 4 * *index as i64) * 8, 32);
                offset += i64::from(entry.cast_signed()) * row.stride;
            }
            _ => offset += *index as i64 * row.stride,
        }
    }
    let live = image.limits.iter().all(|limit| {
        let of_slice = limit.slices.iter().map(|digit| slice / digit.stride % digit.size * digit.weight);
        let of_loops = indices.iter().zip(&limit.weights).map(|(index, weight)| index * weight);
        of_slice.sum::<u64>() + of_loops.sum::<u64>() < limit.extent.fixed()
    });
    let width = bits(image.dtype);
    let mut pattern = if live { pick_bits(dm, base * 8 + offset * width as i64, width) } else { 0 };
    let mut dtype = image.dtype;
    if let Some(lookup) = &image.lookup {
        (pattern, dtype) = (lookup.patterns[pattern as usize], lookup.dtype);
    }
    if let Some(cast) = image.cast {
        pattern = convert(&RuleSet::TCP, dtype, cast, pattern).unwrap();
    }
    patterns.push(pattern);
}

/// Runs an image on two slices with different content and compares.
fn compare(image: &Fetch, dice: &mut Dice) {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let contents = [dice.bytes(4096), dice.bytes(4096)];
    for (slice, content) in [0, 37].into_iter().zip(&contents) {
        state.write_slice(at(slice, Memory::Dm, 0), content).unwrap();
    }
    let flits = reference(image, &contents[0], 0).len() as u64 / 32;
    run(machine, &mut state, copy(image.clone(), flits)).unwrap();
    for (slice, content) in [0, 37].into_iter().zip(&contents) {
        let out = read(&state, slice, Memory::Dm, crate::run::images::OUT, flits * 32);
        assert_eq!(out, reference(image, content, slice), "slice {slice} of {image:?}");
    }
}

fn draw(dice: &mut Dice) -> Fetch {
    let dtype = dice.pick(&[Dtype::I4, Dtype::I8, Dtype::Bf16, Dtype::I32, Dtype::F8E5M2, Dtype::I16]);
    let count = dice.roll(4) + 1;
    let mut loops: Vec<_> = (0..count).map(|_| row(dice.roll(4) + 1, dice.roll(41) as i64 - 8)).collect();
    if dice.roll(2) == 0 {
        // A contiguous nest, cut into several loops: what the copying path takes.
        let (inner, outer) = (2 << dice.roll(4), dice.roll(3) + 1);
        loops.push(row(outer, inner));
        loops.push(row(inner as u64, 1));
    }
    let total: u64 = loops.iter().map(|row| row.size.fixed()).product();
    let divisors: Vec<u64> = (1..=total).filter(|size| total.is_multiple_of(*size)).collect();
    let mut image = fetch(dtype, dice.pick(&divisors), loops);
    image.base = dice.roll(300) + 200;
    if dice.roll(3) == 0 {
        let weights = image.loops.iter().map(|_| dice.roll(4)).collect();
        let slices = vec![SliceDigit { stride: 1 << dice.roll(3), size: 4, weight: dice.roll(3) }];
        image.limits.push(Limit { extent: Count::Fixed(dice.roll(12)), slices, weights });
    }
    image
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn fetches_what_naive_loops_do(seed: u64) {
        let dice = &mut Dice(seed);
        let image = draw(dice);
        compare(&image, dice);
    }
}

#[test]
fn an_interleaved_fetch_alternates_between_two_tensors() {
    let mut image = fetch(Dtype::I8, 32, vec![row(3, 32), row(2, 77), row(32, 1)]);
    image.interleave = Some(Interleave { at_loop: 1, base: 1000 });
    compare(&image, &mut Dice(1));
}

#[test]
fn indirect_rows_come_from_a_table() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let mut content = Dice(2).bytes(2048);
    for (index, entry) in [3_i32, 0, -1, 2].into_iter().enumerate() {
        content[1024 + 4 * index..][..4].copy_from_slice(&entry.to_le_bytes());
    }
    state.write_slice(at(5, Memory::Dm, 0), &content).unwrap();
    let mut image = fetch(Dtype::Bf16, 16, vec![row(4, 16), row(16, 1)]);
    image.base = 128;
    image.indirect = Some(Indirect { at_loop: 0, table: 1024 });
    run(machine, &mut state, copy(image.clone(), 4)).unwrap();
    let out = read(&state, 5, Memory::Dm, crate::run::images::OUT, 128);
    assert_eq!(out, reference(&image, &content, 5));
    assert_eq!(out[..32], content[128 + 3 * 32..][..32], "row 3 is first");
    assert_eq!(out[64..96], content[96..128], "row -1 lies before the base");
}

#[test]
fn lookups_and_casts_follow_each_other() {
    let dice = &mut Dice(3);
    let patterns: Vec<u32> = (0..256).map(|_| dice.roll(1 << 16) as u32).collect();
    let mut image = fetch(Dtype::F8E4M3Fn, 16, vec![row(3, 100), row(16, 1)]);
    image.lookup = Some(Lookup { dtype: Dtype::Bf16, patterns });
    compare(&image, dice);
    image.cast = Some(Dtype::F32);
    compare(&image, dice);
    let nibbles: Vec<u32> = (0..16).map(|_| dice.roll(256) as u32).collect();
    let mut image = fetch(Dtype::F4E2M1, 32, vec![row(2, 64), row(32, 1)]);
    image.lookup = Some(Lookup { dtype: Dtype::F8E5M2, patterns: nibbles });
    compare(&image, dice);
    for (from, to) in [
        (Dtype::I4, Dtype::I32),
        (Dtype::I8, Dtype::I32),
        (Dtype::I16, Dtype::I32),
        (Dtype::F8E4M3Fn, Dtype::F32),
        (Dtype::Bf16, Dtype::F32),
        (Dtype::F32, Dtype::Bf16),
    ] {
        let mut image = fetch(from, 8, vec![row(5, 8), row(8, 1)]);
        image.cast = Some(to);
        compare(&image, dice);
    }
}

#[test]
fn reads_past_the_end_are_zero() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let end = machine.dm.capacity_bytes;
    state.write_slice(at(0, Memory::Dm, end - 16), &[7; 16]).unwrap();
    let mut image = fetch(Dtype::I8, 32, vec![row(32, 1)]);
    image.base = end - 16;
    run(machine, &mut state, copy(image, 1)).unwrap();
    let mut expected = [7; 32];
    expected[16..].fill(0);
    assert_eq!(read(&state, 0, Memory::Dm, crate::run::images::OUT, 32), expected);
}

#[test]
fn a_fetch_that_does_not_fit_says_what() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let mut faults = |image: Fetch, flits| run(machine, &mut state, copy(image, flits)).unwrap_err();
    let fault = faults(fetch(Dtype::I8, 5, vec![row(32, 1)]), 1);
    assert_eq!(fault.stage, ExecStage::Fetch);
    assert_eq!(fault.problem, ExecProblem::NotMultiple { what: "fetched elements", count: 32, of: 5 });
    let fault = faults(fetch(Dtype::I8, 32, vec![row(12, 32), row(32, 1)]), 10);
    let steps = ExecProblem::Unequal { what: "commit steps", count: 10, other: "flits", of_other: 12 };
    assert_eq!((fault.stage, fault.slice, fault.problem), (ExecStage::Commit, Some(0), steps));
    let mut image = fetch(Dtype::I8, 32, vec![row(32, 1)]);
    image.zero_point = Some(200);
    assert_eq!(faults(image.clone(), 1).stage, ExecStage::Fetch, "200 is no i8");
    image.zero_point = Some(1);
    state.write_slice(at(0, Memory::Dm, 0), &[0x80; 32]).unwrap();
    let fault = run(machine, &mut state, copy(image, 1)).unwrap_err();
    assert_eq!(fault.stage, ExecStage::Commit, "data memory holds no i9: {fault}");
    let huge = fetch(Dtype::I8, 32, vec![row(1 << 20, 1), row(1 << 20, 1)]);
    let fault = run(machine, &mut state, copy(huge, 1)).unwrap_err();
    assert!(matches!(fault.problem, ExecProblem::TooLarge { .. }), "{fault}");
    let far = fetch(Dtype::I8, 1, vec![row(4, i64::MAX)]);
    let fault = run(machine, &mut state, copy(far, 4)).unwrap_err();
    assert!(matches!(fault.problem, ExecProblem::TooLarge { .. }), "{fault}");
}

/// Each of these gave zeros, or what lies elsewhere, without a word.
#[test]
fn registers_that_no_address_can_be_counted_from_are_refused() {
    let machine = tcp();
    let plain = fetch(Dtype::I8, 32, vec![row(1, 32), row(32, 1)]);
    let problem =
        |image: Fetch| run(machine, &mut MemoryState::new(machine, 1), copy(image, 1)).unwrap_err().problem;
    let far = |what| ExecProblem::TooFar { what, first: u64::MAX, most: 1 << 60 };
    assert_eq!(problem(Fetch { base: u64::MAX, ..plain.clone() }), far("the base of a fetch"));
    let indirect = |table, stride| {
        let mut image = fetch(Dtype::I8, 32, vec![row(1, stride), row(32, 1)]);
        image.indirect = Some(Indirect { at_loop: 0, table });
        image
    };
    assert_eq!(problem(indirect(u64::MAX, 32)), far("the base of a fetch's table"));
    let apart = ExecProblem::TooLarge { what: "addresses apart", most: 1 << 60 };
    assert_eq!(problem(indirect(1024, 1 << 40)), apart, "an entry of 32 bits leads too far");
    let limited = |weights: Vec<u64>, size| {
        let digit = SliceDigit { stride: 1, size, weight: 1 };
        let limits = vec![Limit { extent: Count::Fixed(8), slices: vec![digit], weights }];
        problem(Fetch { limits, ..plain.clone() })
    };
    let unfit = "a limit has a weight for each fetch loop, and slice digits with stride and size";
    assert_eq!(limited(vec![1], 4), ExecProblem::Setting(unfit), "one weight for two loops");
    assert_eq!(limited(vec![1, 1], 0), ExecProblem::Setting(unfit), "a digit without values");
}
