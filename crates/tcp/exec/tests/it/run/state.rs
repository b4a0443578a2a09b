//! Memories and the placement of tensors.

use proptest::prelude::*;
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::algebra::map::{Copies, MapDigit, OFFSET, SLICE};
use tilewright_num::Dtype;
use tilewright_tcp_exec::{ExecFault, MemoryState};
use tilewright_tcp_isa::program::Tensor;
use tilewright_tcp_isa::program::exec::Memory;
use tilewright_tcp_isa::program::tensor::{TensorData, TensorPlace, TensorRole};
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, MemoryLocation};

use crate::run::images::{Dice, at, bits, pick_bits, read, span, tcp};

pub(crate) fn tensor(dtype: Dtype, place: TensorPlace, map: RadixMap) -> Tensor {
    let axes = map.from.iter().enumerate().map(|(axis, extent)| (format!("A{axis}"), *extent));
    Tensor {
        name: "t".to_owned(),
        dtype,
        axes: axes.collect(),
        role: TensorRole::InOut,
        place,
        shape: String::new(),
        map,
        data: TensorData::None,
        span: span(),
    }
}

/// Axes of 12 x 8 cut into digits that go to slices and offsets in random order, some padded, some copied.
fn draw(dice: &mut Dice, slices: bool) -> RadixMap {
    let mut digits = vec![(0_u8, 6_u64, 2_u64), (0, 2, 3), (0, 1, 2), (1, 4, 2), (1, 1, 4)];
    dice.shuffle(&mut digits);
    let mut map = RadixMap { from: [12, 8].into_iter().collect(), ..RadixMap::default() };
    let mut weights = [1_u64, 1];
    for (from_axis, from_stride, size) in digits {
        let to_axis = if slices && weights[0] < 20 && dice.roll(3) == 0 { SLICE } else { OFFSET };
        let weight = &mut weights[usize::from(to_axis)];
        map.digits.push(MapDigit { to_axis, to_stride: *weight, from_axis, from_stride, size });
        *weight *= size + dice.roll(2);
    }
    if slices {
        let to_axis = dice.pick(&[SLICE, OFFSET]);
        let weight = &mut weights[usize::from(to_axis)];
        map.copies.push(Copies { to_axis, to_stride: *weight, count: 3 });
        *weight *= 3;
    }
    map.to = weights.into_iter().collect();
    map
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tensors_lie_where_their_shape_says(seed: u64) {
        let dice = &mut Dice(seed);
        let machine = tcp();
        let mut state = MemoryState::new(machine, 1);
        let dtype = dice.pick(&[Dtype::I4, Dtype::I8, Dtype::Bf16, Dtype::F32]);
        let in_dm = dice.roll(2) == 0;
        let map = draw(dice, in_dm);
        let place = match in_dm {
            true => TensorPlace::Dm { chip: 0, slice: 70, base: 8 },
            false => TensorPlace::Hbm { chip: 0, base: (1 << 20) - 40 },
        };
        let tensor = tensor(dtype, place, map.clone());
        let width = bits(dtype);
        let mask = (u64::MAX >> (64 - width)) as u32;
        let patterns: Vec<u32> = (0..96).map(|_| dice.next() as u32 & mask).collect();
        // Everything starts as ones, so that padding can be told.
        let (slices, bytes) = (map.to[0], (map.to[1] * width).div_ceil(8));
        let locate = |slice: u64| match place {
            TensorPlace::Dm { .. } =>
                MemoryLocation { chip: 0, medium: MemoryInstance::Dm { slice: 70 + slice }, offset: 8 },
            TensorPlace::Hbm { base, .. } =>
                MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset: base },
        };
        for slice in 0..slices {
            state.write(Address::new(locate(slice)), &vec![0xFF; bytes as usize]).unwrap();
        }
        state.put(&tensor, &patterns).unwrap();
        prop_assert_eq!(&state.get(&tensor).unwrap(), &patterns);
        for slice in 0..slices {
            let mut found = vec![0; bytes as usize];
            state.read(Address::new(locate(slice)), &mut found).unwrap();
            for offset in 0..map.to[1] {
                let expected = map.source_of(&[slice, offset])
                    .map_or(mask, |c| patterns[(c[0] * 8 + c[1]) as usize]);
                prop_assert_eq!(pick_bits(&found, (offset * width) as i64, width), expected);
            }
        }
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() -> Result<(), ExecFault> {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let map = draw(&mut Dice(8), false);
    let good = tensor(Dtype::I8, TensorPlace::Hbm { chip: 0, base: 0 }, map);
    state.put(&good, &[1; 96])?;
    assert!(state.put(&good, &[1; 95]).is_err(), "one is missing");
    let mut bad = good.clone();
    bad.map.digits[0].from_axis = 9;
    assert!(state.get(&bad).is_err(), "no axis 9");
    bad = good.clone();
    bad.map.digits[0].from_stride = 0;
    assert!(state.get(&bad).is_err(), "a stride of 0");
    bad = good.clone();
    bad.map.digits[0].to_stride = u64::MAX;
    assert!(state.get(&bad).is_err(), "a place far away");
    bad = good.clone();
    bad.map.to.clear();
    assert!(state.get(&bad).is_err(), "no target");
    bad = good.clone();
    bad.axes[0].1 = 1 << 60;
    bad.map.from[0] = 1 << 60;
    assert!(state.get(&bad).is_err(), "more elements than memory");
    bad = good.clone();
    bad.place = TensorPlace::Hbm { chip: 7, base: 0 };
    assert!(state.get(&bad).is_err(), "no chip 7");
    bad = good;
    bad.place = TensorPlace::Dm { chip: 0, slice: u64::MAX, base: 0 };
    assert!(state.get(&bad).is_err(), "no such slice");
    Ok(())
}

#[test]
fn a_spare_slice_answers_to_the_number_of_a_faulty_one() -> Result<(), ExecFault> {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    state.write_slice(at(67, Memory::Dm, 0), &[1; 8])?;
    state.replace_slice(0, 1, 3)?;
    assert_eq!(read(&state, 67, Memory::Dm, 0, 8), [0; 8], "what the faulty slice held is lost");
    state.write_slice(at(67, Memory::Dm, 0), &[2; 8])?;
    let mut found = [0; 8];
    let address =
        Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Dm { slice: 67 }, offset: 0 });
    state.read(address, &mut found)?;
    assert_eq!(found, [2; 8], "DMA sees the spare under the same address");
    assert_eq!(read(&state, 66, Memory::Dm, 0, 8), [0; 8]);
    assert!(state.replace_slice(0, 1, 4).is_err(), "there is one spare");
    assert!(state.replace_slice(0, 0, 64).is_err(), "slices are numbered from 0 to 63");
    Ok(())
}
