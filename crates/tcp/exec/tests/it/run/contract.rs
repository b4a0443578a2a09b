//! The contraction engine against the definition: all products written down, then reduced and drained.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tilewright_num::{Dtype, RuleSet, decode, int_value, mul_f32, tree_sum};
use tilewright_tcp_exec::contract::{ContractionPlan, RegisterFileView, bulk, contract, literal};
use tilewright_tcp_exec::packets::Packets;
use tilewright_tcp_exec::{ExecProblem, ExecStage, MemoryState};
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{Contract, ContractOp, Drain, FlitTranspose, Loop, Memory, StepLoop};

use crate::run::images::{Dice, OUT, at, bits, commit, copy, fetch, pick_bits, read, row, run, tcp, words};

pub(crate) fn step(size: u64, summed: bool) -> StepLoop {
    StepLoop { size: Count::Fixed(size), summed }
}

pub(crate) fn contraction(dtype: Dtype, loops: Vec<Loop>, steps: Vec<StepLoop>) -> Contract {
    Contract {
        op: ContractOp::Add,
        flits: 1,
        transpose: None,
        shift: None,
        repeats: Count::Fixed(1),
        lanes: 8,
        dtype,
        base: 0,
        loops,
        tree: 256 / bits(dtype),
        steps,
        drain: Drain::Interleaved,
    }
}

/// An element with its extra bit, bit by bit.
fn value(dtype: Dtype, bytes: &[u8], extra: Option<&[u8]>, index: i64) -> u32 {
    let low = pick_bits(bytes, index * bits(dtype) as i64, bits(dtype));
    let (top, byte, bit) = match dtype {
        Dtype::I5 => (4, index / 2, index % 2),
        Dtype::I9 => (8, index, 0),
        _ => return low,
    };
    let differs = extra.map_or(0, |extra| pick_bits(extra, byte * 8 + bit, 1));
    low | ((low >> (top - 1) & 1) ^ differs) << top
}

fn each(sizes: &[u64], at: &mut Vec<u64>, visit: &mut dyn FnMut(&[u64])) {
    if at.len() == sizes.len() {
        return visit(at);
    }
    for index in 0..sizes[at.len()] {
        at.push(index);
        each(sizes, at, visit);
        at.pop();
    }
}

/// Factors of the products of each lane and column.
type Results = BTreeMap<(u64, u64), Vec<(u32, u32)>>;

/// Words that leave, by the definition.
pub(crate) fn reference(
    image: &Contract,
    dtype: Dtype,
    packets: &Packets,
    trf: &[u8],
    extra: Option<&[u8]>,
) -> Vec<u32> {
    let width = image.flits * 256 / bits(dtype);
    let mut addresses = Vec::new();
    let sizes: Vec<u64> = image.loops.iter().map(|row| row.size.fixed()).collect();
    each(&sizes, &mut Vec::new(), &mut |at| {
        addresses
            .push(at.iter().zip(&image.loops).map(|(index, row)| *index as i64 * row.stride).sum::<i64>());
    });
    let outermost = image.steps.iter().position(|step| step.summed).unwrap_or(image.steps.len());
    let columns = (width / image.tree).min(32);
    // Products of each group, slot, lane and column, in time order.
    let mut sums: BTreeMap<(Vec<u64>, Vec<u64>), Results> = BTreeMap::new();
    let sizes: Vec<u64> = image.steps.iter().map(|step| step.size.fixed()).collect();
    let mut step_number = 0;
    each(&sizes, &mut Vec::new(), &mut |at| {
        let surviving = (outermost..at.len()).filter(|number| !image.steps[*number].summed);
        let slot: Vec<u64> = surviving.map(|number| at[number]).collect();
        let results = sums.entry((at[..outermost].to_vec(), slot)).or_default();
        let packet = step_number / image.repeats.fixed();
        for lane in 0..image.lanes {
            let start = (lane * 65536 / image.lanes + image.base) as usize;
            let end = ((lane + 1) * 65536 / image.lanes) as usize;
            let file = trf.get(start..end.min(trf.len())).unwrap_or_default();
            let flags = extra.and_then(|extra| extra.get(start..end.min(extra.len())));
            for element in 0..columns * image.tree {
                let a =
                    value(dtype, &packets.bytes, packets.extra.as_deref(), (packet * width + element) as i64);
                let b = value(image.dtype, file, flags, addresses[(step_number * width + element) as usize]);
                results.entry((lane, element / image.tree)).or_default().push((a, b));
            }
        }
        step_number += 1;
    });
    let mut drained = Vec::new();
    for results in sums.values() {
        let word =
            |lane: u64, column: u64| results.get(&(lane, column)).map_or(0, |p| reduce(image, dtype, p));
        match image.drain {
            Drain::Interleaved => {
                (0..columns).for_each(|column| drained.extend((0..8).map(|lane| word(lane, column))));
            }
            Drain::Sequential => {
                for lane in 0..image.lanes {
                    drained.extend((0..columns.next_multiple_of(8)).map(|column| word(lane, column)));
                }
            }
        }
    }
    drained
}

fn reduce(image: &Contract, dtype: Dtype, pairs: &[(u32, u32)]) -> u32 {
    let rules = &RuleSet::TCP;
    if dtype.is_float() {
        let product =
            |(a, b): &(u32, u32)| mul_f32(rules, decode(rules, dtype, *a), decode(rules, image.dtype, *b));
        let products: Vec<f32> = pairs.iter().map(product).collect();
        return match image.op {
            ContractOp::Add => tree_sum(rules, 0.0, &products, image.tree as usize).to_bits(),
            ContractOp::Max => products.into_iter().max_by(f32::total_cmp).unwrap().to_bits(),
        };
    }
    let products = pairs.iter().map(|(a, b)| int_value(dtype, *a) * int_value(image.dtype, *b));
    match image.op {
        ContractOp::Add => products.sum::<i64>() as u32,
        ContractOp::Max => products.max().unwrap() as u32,
    }
}

/// Random loops that nest: each step loop moves the packet, the register file, both or none.
fn draw(dice: &mut Dice) -> (Contract, Dtype) {
    use Dtype::{Bf16, F8E4M3Fn, F8E5M2, I4, I5, I8, I9};
    let pairs = [
        (I4, I4),
        (I4, I5),
        (I5, I4),
        (I5, I5),
        (I8, I8),
        (I8, I9),
        (I9, I8),
        (I9, I9),
        (F8E4M3Fn, F8E4M3Fn),
        (F8E5M2, F8E5M2),
        (Bf16, Bf16),
    ];
    let (dtype, trf) = dice.pick(&pairs);
    let flits = dice.roll(2) + 1;
    let width = flits * 256 / bits(dtype);
    let steps: Vec<StepLoop> =
        (0..=dice.roll(4)).map(|_| step(dice.roll(3) + 1, dice.roll(2) == 0)).collect();
    let held = dice.roll(steps.len() as u64 + 1) as usize;
    let repeats: u64 = steps[held..].iter().map(|step| step.size.fixed()).product();
    let mut loops: Vec<Loop> = steps
        .iter()
        .map(|step| row(step.size.fixed(), dice.pick(&[0, 0, 1, width as i64, 3 * width as i64, 500])))
        .collect();
    match dice.roll(4) {
        0 => loops.push(row(width, 0)),
        1 => loops.extend([row(width / 4, 4), row(4, 1)]),
        2 => loops.extend([row(width / 8, 1), row(8, (width / 8) as i64)]),
        _ => loops.push(row(width, 1)),
    }
    let mut image = contraction(trf, loops, steps);
    image.flits = flits;
    image.repeats = Count::Fixed(repeats);
    image.lanes = dice.pick(&[1, 2, 4, 8]);
    image.base = 64 * dice.roll(4);
    image.tree = 1 << dice.roll(u64::from(width.ilog2()) + 1);
    image.drain = dice.pick(&[Drain::Interleaved, Drain::Sequential]);
    image.op = dice.pick(&[ContractOp::Add, ContractOp::Add, ContractOp::Max]);
    (image, dtype)
}

fn operands(dice: &mut Dice, image: &Contract, dtype: Dtype) -> (Packets, Vec<u8>, Option<Vec<u8>>) {
    let steps: u64 = image.steps.iter().map(|step| step.size.fixed()).product();
    let bytes = (steps / image.repeats.fixed() * image.flits * 32) as usize;
    let mut flags = |dtype: Dtype, size: usize| {
        let wide = matches!(dtype, Dtype::I5 | Dtype::I9) && dice.roll(4) != 0;
        let mask = if dtype == Dtype::I5 { 3 } else { 1 };
        wide.then(|| dice.bytes(size).iter().map(|byte| byte & mask).collect::<Vec<u8>>())
    };
    let (a_flags, b_flags) = (flags(dtype, bytes), flags(image.dtype, 65536));
    let mut data = |size: usize| {
        let mut data = dice.bytes(size);
        if dtype == Dtype::Bf16 && dice.roll(2) == 0 {
            // Exponents near one: sums that are neither flushed nor infinite.
            data.iter_mut().skip(1).step_by(2).for_each(|byte| *byte = *byte & 0x81 | 0x3E);
        }
        data
    };
    let packets = Packets { bytes: data(bytes), extra: a_flags, packet_bytes: 32 };
    (packets, data(65536), b_flags)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn literal_and_bulk_give_what_is_defined(seed: u64) {
        let dice = &mut Dice(seed);
        let machine = tcp();
        let (image, dtype) = draw(dice);
        let (flits, trf, extra) = operands(dice, &image, dtype);
        let file = RegisterFileView { bytes: &trf, extra: extra.as_deref() };
        let expected = reference(&image, dtype, &flits, &trf, extra.as_deref());
        let plan = ContractionPlan::new(machine, &RuleSet::TCP, &image, dtype).unwrap();
        let packets = plan.feed(flits).unwrap();
        let stepped = literal::contract(&plan, &packets, file).unwrap();
        prop_assert_eq!(&stepped, &expected, "literal, {:?}", image);
        let all_at_once = bulk::contract(&plan, &packets, file).unwrap();
        prop_assert_eq!(all_at_once.as_ref(), Some(&expected), "bulk, {:?}", image);
    }

    #[test]
    fn short_rows_of_all_lanes_are_the_same_both_ways(seed: u64) {
        let dice = &mut Dice(seed);
        let dtype = Dtype::Bf16;
        let (mut image, drawn) = draw(dice);
        image.loops.truncate(image.steps.len());
        let scale = |stride: i64| stride * i64::from(drawn.storage_bits()) / 16;
        image.loops.iter_mut().for_each(|row| row.stride = scale(row.stride));
        let active = if dice.roll(2) == 0 { 16 * image.flits } else { dice.roll(16 * image.flits) + 1 };
        image.loops.push(row(active, 1));
        (image.dtype, image.lanes, image.op) = (dtype, 8, ContractOp::Add);
        image.tree = active.next_power_of_two();
        let (mut flits, mut trf, _) = operands(dice, &image, dtype);
        // Exponents so far apart that sums are rounded, and so near that nothing is flushed.
        for data in [&mut flits.bytes, &mut trf] {
            data.iter_mut().skip(1).step_by(2).for_each(|byte| *byte = *byte & 0x8F | 0x38);
        }
        let file = RegisterFileView { bytes: &trf, extra: None };
        let plan = ContractionPlan::new(tcp(), &RuleSet::TCP, &image, dtype).unwrap();
        let packets = plan.feed(flits).unwrap();
        let stepped = literal::contract(&plan, &packets, file).unwrap();
        let all_at_once = bulk::contract(&plan, &packets, file).unwrap();
        prop_assert_eq!(all_at_once, Some(stepped), "{:?}", image);
    }

    #[test]
    fn partly_inactive_trees_are_the_same_both_ways(seed: u64) {
        let dice = &mut Dice(seed);
        let (mut image, dtype) = draw(dice);
        let active = dice.roll(image.flits * 256 / bits(dtype)) + 1;
        image.loops.truncate(image.steps.len());
        image.loops.push(row(active, 1));
        image.tree = active.next_power_of_two();
        let (flits, trf, extra) = operands(dice, &image, dtype);
        let file = RegisterFileView { bytes: &trf, extra: extra.as_deref() };
        let plan = ContractionPlan::new(tcp(), &RuleSet::TCP, &image, dtype).unwrap();
        let packets = plan.feed(flits).unwrap();
        let all_at_once = bulk::contract(&plan, &packets, file).unwrap();
        let plain = matches!(dtype, Dtype::Bf16 | Dtype::F8E4M3Fn | Dtype::F8E5M2);
        prop_assert!(all_at_once.is_some() || !plain || image.op == ContractOp::Max);
        if let Some(all_at_once) = all_at_once {
            let stepped = literal::contract(&plan, &packets, file).unwrap();
            prop_assert_eq!(all_at_once, stepped, "{:?}", image);
        }
    }
}

#[test]
fn loops_that_do_not_nest_go_the_literal_way() {
    let machine = tcp();
    let dice = &mut Dice(10);
    let mut image =
        contraction(Dtype::I8, vec![row(4, 64), row(3, 7), row(32, 1)], vec![step(3, false), step(4, true)]);
    image.tree = 8;
    let (flits, trf, _) = operands(dice, &image, Dtype::I8);
    let file = RegisterFileView { bytes: &trf, extra: None };
    let plan = ContractionPlan::new(machine, &RuleSet::TCP, &image, Dtype::I8).unwrap();
    let expected = reference(&image, Dtype::I8, &flits, &trf, None);
    let packets = plan.feed(flits.clone()).unwrap();
    assert_eq!(bulk::contract(&plan, &packets, file).unwrap(), None);
    assert_eq!(contract(&plan, flits, file).unwrap(), expected);
}

#[test]
fn a_small_product_by_hand() {
    // Two packets of ones and twos against lanes that hold their number.
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let mut data = [1_u8; 64];
    data[32..].fill(2);
    state.write_slice(at(7, Memory::Dm, 0), &data).unwrap();
    for lane in 0..8_u8 {
        let place = at(7, Memory::Trf { lanes: 8 }, u64::from(lane) * 8192);
        state.write_slice(place, &[lane.wrapping_sub(3); 32]).unwrap();
    }
    let mut stream = copy(fetch(Dtype::I8, 32, vec![row(64, 1)]), 2);
    stream.contract = Some(contraction(Dtype::I8, vec![row(2, 0), row(32, 1)], vec![step(2, false)]));
    run(machine, &mut state, stream.clone()).unwrap();
    let expected: Vec<u32> =
        [32, 64].iter().flat_map(|n| (-3..5).map(move |lane: i32| (n * lane).cast_unsigned())).collect();
    assert_eq!(words(&read(&state, 7, Memory::Dm, OUT, 64)), expected, "interleaved, packet after packet");
    let image = stream.contract.as_mut().unwrap();
    (image.drain, image.tree, image.lanes) = (Drain::Sequential, 16, 2);
    image.steps = vec![step(2, true)];
    run(machine, &mut state, stream).unwrap();
    let mut expected = [0; 16];
    (expected[0], expected[1]) = ((-3_i32 * 48).cast_unsigned(), (-3_i32 * 48).cast_unsigned());
    (expected[8], expected[9]) = (48, 48);
    assert_eq!(
        words(&read(&state, 7, Memory::Dm, OUT, 64)),
        expected,
        "lane 1 of 2 starts where lane 4 of 8 did"
    );
}

#[test]
fn zero_points_reach_both_operands() {
    let machine = tcp();
    for (dtype, wide, elements, zero) in
        [(Dtype::I8, Dtype::I9, 32_u64, (-100, 90)), (Dtype::I4, Dtype::I5, 64, (-8, 7))]
    {
        let mut state = MemoryState::new(machine, 1);
        let dice = &mut Dice(11);
        let (a, b) = (dice.bytes(32), dice.bytes(32));
        state.write_slice(at(2, Memory::Dm, 0), &a).unwrap();
        state.write_slice(at(2, Memory::Dm, 32), &b).unwrap();
        // The second operand goes to the register file of lane 0, extra bits and all.
        let mut load = copy(fetch(dtype, elements, vec![row(elements, 1)]), 1);
        load.fetch.base = 32;
        load.fetch.zero_point = Some(zero.1);
        load.commit = commit(Memory::Trf { lanes: 8 }, 0, 1);
        run(machine, &mut state, load).unwrap();
        let mut stream = copy(fetch(dtype, elements, vec![row(elements, 1)]), 1);
        stream.fetch.zero_point = Some(zero.0);
        stream.contract = Some(contraction(wide, vec![row(elements, 1)], vec![step(1, true)]));
        run(machine, &mut state, stream).unwrap();
        let element = |bytes: &[u8], at: u64| {
            int_value(dtype, pick_bits(bytes, (at * bits(dtype)) as i64, bits(dtype)))
        };
        let expected: i64 =
            (0..elements).map(|at| (element(&a, at) - zero.0) * (element(&b, at) - zero.1)).sum();
        let found = words(&read(&state, 2, Memory::Dm, OUT, 4))[0];
        assert_eq!(i64::from(found.cast_signed()), expected, "{dtype}");
    }
}

#[test]
fn flits_are_transposed_in_place() {
    let machine = tcp();
    let dice = &mut Dice(12);
    for (dtype, rows, columns) in
        [(Dtype::I4, 4, 16), (Dtype::I8, 2, 16), (Dtype::I9, 4, 8), (Dtype::I5, 4, 16), (Dtype::Bf16, 2, 8)]
    {
        let width = 256 / bits(dtype);
        let mut image = contraction(dtype, vec![row(3, 0), row(width, 1)], vec![step(3, false)]);
        let (flits, trf, extra) = operands(dice, &image, dtype);
        let mut turned = Packets { bytes: vec![0; flits.bytes.len()], ..flits.clone() };
        let flag_bits = if bits(dtype) == 4 { 2 } else { 1 };
        turned.extra.iter_mut().for_each(|plane| plane.fill(0));
        for flit in 0..3 {
            for r in 0..rows {
                for c in 0..columns {
                    let (from, to) = (flit * width + r * columns + c, flit * width + c * rows + r);
                    for bit in 0..bits(dtype) {
                        let (from, to) = (from * bits(dtype) + bit, (to * bits(dtype) + bit) as usize);
                        turned.bytes[to / 8] |= (pick_bits(&flits.bytes, from as i64, 1) as u8) << (to % 8);
                    }
                    if let (Some(plane), Some(out)) = (&flits.extra, &mut turned.extra) {
                        let flag = plane[(from / flag_bits) as usize] >> (from % flag_bits) & 1;
                        out[(to / flag_bits) as usize] |= flag << (to % flag_bits);
                    }
                }
            }
        }
        let expected = reference(&image, dtype, &turned, &trf, extra.as_deref());
        image.transpose = Some(FlitTranspose { rows, columns });
        let plan = ContractionPlan::new(machine, &RuleSet::TCP, &image, dtype).unwrap();
        let file = RegisterFileView { bytes: &trf, extra: extra.as_deref() };
        assert_eq!(contract(&plan, flits, file).unwrap(), expected, "{dtype}");
    }
}

#[test]
fn contractions_that_do_not_fit_say_what() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let good = contraction(Dtype::I8, vec![row(2, 32), row(32, 1)], vec![step(2, true)]);
    let mut faults = |image: Contract| {
        let mut stream = copy(fetch(Dtype::I8, 32, vec![row(64, 1)]), 1);
        stream.contract = Some(image);
        run(machine, &mut state, stream).map_err(|fault| (fault.stage, fault.problem))
    };
    faults(good.clone()).unwrap();
    match faults(Contract { loops: vec![row(65, 1)], ..good.clone() }) {
        Err((ExecStage::Contraction, ExecProblem::Setting(_) | ExecProblem::NotMultiple { .. })) => {}
        other => panic!("a walk longer than packets: {other:?}"),
    }
    let mut unequal = |image, what| match faults(image) {
        Err((ExecStage::Contraction, ExecProblem::Unequal { what: found, .. })) => assert_eq!(found, what),
        other => panic!("{what}: {other:?}"),
    };
    unequal(Contract { repeats: Count::Fixed(2), ..good.clone() }, "steps");
    unequal(
        Contract { transpose: Some(FlitTranspose { rows: 4, columns: 4 }), ..good.clone() },
        "elements of an in-flit transpose",
    );
    for bad in [
        Contract { dtype: Dtype::Bf16, ..good.clone() },
        Contract { tree: 3, ..good.clone() },
        Contract { tree: 64, ..good.clone() },
        Contract { flits: 3, ..good.clone() },
        Contract { flits: 0, ..good.clone() },
        Contract { lanes: 3, ..good.clone() },
        Contract { lanes: 0, ..good.clone() },
        Contract { repeats: Count::Fixed(0), ..good.clone() },
        Contract { loops: vec![row(2, i64::MIN), row(32, 1)], ..good.clone() },
        Contract { steps: vec![step(1 << 20, true); 3], ..good },
    ] {
        assert_eq!(faults(bad.clone()).unwrap_err().0, ExecStage::Contraction, "{bad:?}");
    }
}
