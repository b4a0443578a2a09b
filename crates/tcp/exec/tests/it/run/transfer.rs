//! DMA against a byte-by-byte reference.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tilewright_num::Dtype;
use tilewright_tcp_exec::{ExecStage, MemoryState, transfer};
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferIndex, TransferLoop,
};

use crate::run::images::{Dice, span, tcp};

fn address(chip: u64, medium: MemoryInstance, offset: u64) -> Address {
    Address::new(MemoryLocation { chip, medium, offset })
}

fn image(source: Address, target: Address, loops: &[(u64, i64, i64)], packet: u64) -> Transfer {
    let loops =
        loops.iter().map(|&(size, source, target)| TransferLoop { size: Count::Fixed(size), source, target });
    Transfer {
        name: "test".to_owned(),
        source,
        target,
        loops: loops.collect(),
        packet,
        index: None,
        span: span(),
    }
}

/// Addresses of all bytes in order, for one side.
fn bytes(first: Address, loops: &[(u64, i64)], packet: u64, found: &mut Vec<Address>) {
    match loops.split_first() {
        None => found.extend((0..packet).map(|at| first.step(at as i64).unwrap())),
        Some(((size, stride), inner)) => {
            (0..*size).for_each(|at| bytes(first.step(at as i64 * stride).unwrap(), inner, packet, found));
        }
    }
}

fn byte(state: &MemoryState, at: Address) -> u8 {
    let mut byte = [0];
    state.read(at, &mut byte).unwrap();
    byte[0]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn moves_what_naive_loops_move(seed: u64) {
        let dice = &mut Dice(seed);
        let machine = tcp();
        let mut state = MemoryState::new(machine, 2);
        let mut medium = |low: u64| {
            let slice = dice.roll(500);
            let pe = dice.roll(8);
            let medium = dice.pick(&[MemoryInstance::Hbm, MemoryInstance::Dm { slice },
                MemoryInstance::Spm { pe }]);
            address(dice.roll(2), medium, low + (1 << 20) * u64::from(medium == MemoryInstance::Hbm) - 64)
        };
        let (source, target) = (medium(0x1000), medium(0x20000));
        let packet = dice.roll(20) + 1;
        let mut stride = packet as i64;
        let mut loops: Vec<(u64, i64, i64)> = Vec::new();
        for _ in 0..dice.roll(4) {
            // Writes do not overlap, reads may.
            let size = dice.roll(4) + 1;
            let from = if dice.roll(2) == 0 { stride } else { dice.roll(60) as i64 - 20 };
            loops.insert(0, (size, from, stride));
            stride *= size as i64;
            stride += if dice.roll(2) == 0 { 0 } else { dice.roll(9) as i64 };
        }
        let data = dice.bytes(4096);
        state.write(source.step(-1024).unwrap(), &data).unwrap();
        let sides = |side: fn(&(u64, i64, i64)) -> (u64, i64), first| {
            let mut found = Vec::new();
            bytes(first, &loops.iter().map(side).collect::<Vec<_>>(), packet, &mut found);
            found
        };
        let (from, to) = (sides(|l| (l.0, l.1), source), sides(|l| (l.0, l.2), target));
        let moved = from.iter().map(|at| byte(&state, *at));
        let expected: BTreeMap<Address, u8> = to.iter().copied().zip(moved).collect();
        transfer(machine, &mut state, &image(source, target, &loops, packet)).unwrap();
        for (at, value) in expected {
            prop_assert_eq!(byte(&state, at), value);
        }
        prop_assert_eq!(byte(&state, target.step(-1).unwrap()), 0);
        prop_assert_eq!(byte(&state, target.step(stride + 80).unwrap()), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// From HBM to slices, which several threads may share, also where spares answer and steps leave slices
    /// out.
    #[test]
    fn slices_get_what_naive_loops_give_them(seed: u64) {
        let dice = &mut Dice(seed);
        let machine = tcp();
        let mut state = MemoryState::new(machine, 1);
        if dice.roll(2) == 0 {
            state.replace_slice(0, 1, dice.roll(8)).unwrap();
        }
        let source = address(0, MemoryInstance::Hbm, (1 << 20) - 3000);
        state.write(source, &dice.bytes(1 << 16)).unwrap();
        let target = address(0, MemoryInstance::Dm { slice: 60 + dice.roll(4) }, 0x400);
        let (packet, apart) = (dice.roll(64) + 1, dice.roll(40));
        let (rows, inner) = (dice.roll(5) + 1, (packet + apart) as i64);
        let step = SLICE_STRIDE * (dice.roll(2) as i64 + 1);
        let loops = [(dice.roll(24) + 1, dice.roll(900) as i64, step), (rows, dice.roll(99) as i64, inner),
            (2, 7, 0x1000)];
        let sides = |side: fn(&(u64, i64, i64)) -> (u64, i64), first| {
            let mut found = Vec::new();
            bytes(first, &loops.iter().map(side).collect::<Vec<_>>(), packet, &mut found);
            found
        };
        let (from, to) = (sides(|l| (l.0, l.1), source), sides(|l| (l.0, l.2), target));
        transfer(machine, &mut state, &image(source, target, &loops, packet)).unwrap();
        for (from, to) in from.into_iter().zip(to) {
            prop_assert_eq!(byte(&state, to), byte(&state, from));
        }
    }
}

#[test]
fn a_slice_that_is_not_there_stops_the_slices_behind_it() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let (source, first) = (address(0, MemoryInstance::Hbm, 0), 510);
    state.write(source, &[7; 256]).unwrap();
    let target = address(0, MemoryInstance::Dm { slice: first }, 0);
    let fault =
        transfer(machine, &mut state, &image(source, target, &[(4, 64, SLICE_STRIDE)], 64)).unwrap_err();
    assert_eq!(fault.stage, ExecStage::Dma, "{fault}");
    assert_eq!(byte(&state, address(0, MemoryInstance::Dm { slice: 511 }, 63)), 7);
}

#[test]
fn slices_follow_each_other_at_the_virtual_stride() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let data = Dice(6).bytes(64 * 256);
    state.write(address(0, MemoryInstance::Hbm, 4096), &data).unwrap();
    let stride = SLICE_STRIDE;
    let target = address(0, MemoryInstance::Dm { slice: 64 }, 512);
    transfer(
        machine,
        &mut state,
        &image(address(0, MemoryInstance::Hbm, 4096), target, &[(64, 256, stride)], 256),
    )
    .unwrap();
    for slice in 0..64 {
        let mut found = [0; 256];
        state.read(address(0, MemoryInstance::Dm { slice: 64 + slice }, 512), &mut found).unwrap();
        assert_eq!(found[..], data[slice as usize * 256..][..256]);
    }
}

#[test]
fn rows_are_gathered_and_scattered_by_index() {
    let machine = tcp();
    let rows = [5_u64, 0, 7, 7, 2];
    let data = Dice(7).bytes(8 * 48);
    for (table_medium, scale) in [(MemoryInstance::Hbm, 48), (MemoryInstance::Dm { slice: 3 }, 1)] {
        for scatter in [false, true] {
            let mut state = MemoryState::new(machine, 1);
            let (source, target) =
                (address(0, MemoryInstance::Hbm, 0x1000), address(0, MemoryInstance::Spm { pe: 1 }, 0x2000));
            let table = address(0, table_medium, 0x100);
            state.write(source, &data).unwrap();
            for (at, row) in rows.iter().enumerate() {
                let entry = ((row * scale) as u32).to_le_bytes();
                state.write(table.step(4 * at as i64).unwrap(), &entry).unwrap();
            }
            let mut image = image(source, target, &[(5, 48, 48), (2, 24, 24)], 24);
            image.index = Some(TransferIndex { table, dtype: Dtype::I32, scatter });
            transfer(machine, &mut state, &image).unwrap();
            let mut found = vec![0; 8 * 48];
            state.read(target, &mut found).unwrap();
            let mut expected = vec![0; 8 * 48];
            for (at, row) in rows.into_iter().enumerate() {
                let (from, to) = if scatter { (at, row as usize) } else { (row as usize, at) };
                expected[to * 48..][..48].copy_from_slice(&data[from * 48..][..48]);
            }
            assert_eq!(found, expected, "{table_medium:?}, scatter {scatter}");
        }
    }
}

#[test]
fn unmapped_bytes_are_refused() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let good = address(0, MemoryInstance::Hbm, 0);
    let dm_end = address(0, MemoryInstance::Dm { slice: 0 }, machine.dm.capacity_bytes - 4);
    let bad = [
        dm_end,
        address(0, MemoryInstance::Dm { slice: 512 }, 0),
        address(1, MemoryInstance::Hbm, 0),
        address(0, MemoryInstance::Hbm, machine.hbm_capacity_bytes()),
        Address(3 << 40),
    ];
    for bad in bad {
        for (source, target) in [(bad, good), (good, bad)] {
            let fault = transfer(machine, &mut state, &image(source, target, &[], 8)).unwrap_err();
            assert_eq!(fault.stage, ExecStage::Dma, "{fault}");
        }
    }
    let loops = vec![(1 << 30, 0, 0); 3];
    assert!(transfer(machine, &mut state, &image(good, good, &loops, 8)).is_err());
    transfer(machine, &mut state, &image(good, good, &vec![(1, 5, 9); 100_000], 8)).unwrap();
}
