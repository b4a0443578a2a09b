//! Cast, transpose and commit; fills and short loads.

use proptest::prelude::*;
use tilewright_num::Dtype;
use tilewright_tcp_exec::{ExecStage, MemoryState, exec};
use tilewright_tcp_isa::program::exec::{ExecBody, Fill, Memory, ShortLoad, Transpose};

use crate::run::images::{
    Dice, OUT, PE, at, bits, commit, copy, fetch, image, pack, pick_bits, read, row, run, tcp,
};

#[test]
fn casts_narrow_to_the_front_of_the_flit() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let words: Vec<u32> =
        [1_i32, -1, 127, 128, -129, 300, 70000, -8].iter().map(|w| w.cast_unsigned()).collect();
    state.write_slice(at(0, Memory::Dm, 0), &pack(&words, 32)).unwrap();
    for (to, expected) in [
        (Dtype::I8, vec![1_i64, -1, 127, -128, 127, 44, 112, -8]),
        (Dtype::I16, vec![1, -1, 127, 128, -129, 300, 4464, -8]),
        (Dtype::I4, vec![1, -1, -1, 0, -1, -4, 0, -8]),
    ] {
        let mut stream = copy(fetch(Dtype::I32, 8, vec![row(8, 1)]), 1);
        stream.cast = Some(to);
        run(machine, &mut state, stream).unwrap();
        let patterns: Vec<u32> = expected.iter().map(|value| value.cast_unsigned() as u32).collect();
        let mut flit = pack(&patterns, bits(to));
        flit.resize(32, 0);
        assert_eq!(read(&state, 0, Memory::Dm, OUT, 32), flit, "{to}");
    }
    let floats = [1.0_f32, 448.0, 500.0, -0.0, 1e-40, 2.5, f32::NAN, -1000.0].map(f32::to_bits);
    state.write_slice(at(0, Memory::Dm, 0), &pack(&floats, 32)).unwrap();
    let mut stream = copy(fetch(Dtype::F32, 8, vec![row(8, 1)]), 1);
    stream.cast = Some(Dtype::F8E4M3Fn);
    run(machine, &mut state, stream).unwrap();
    let out = read(&state, 0, Memory::Dm, OUT, 8);
    assert_eq!(out, [0x38, 0x7E, 0x7E, 0x80, 0, 0x42, 0x7F, 0xFE]);
    let mut stream = copy(fetch(Dtype::I8, 32, vec![row(32, 1)]), 1);
    stream.cast = Some(Dtype::I4);
    assert_eq!(run(machine, &mut state, stream).unwrap_err().stage, ExecStage::Cast, "bytes are no words");
}

#[test]
fn tiles_leave_as_columns() {
    let machine = tcp();
    let dice = &mut Dice(4);
    for (dtype, rows, columns, kept) in [
        (Dtype::I8, 8_u64, 16_u64, 16_u64),
        (Dtype::I8, 4, 32, 29),
        (Dtype::Bf16, 4, 8, 8),
        (Dtype::I32, 2, 16, 10),
        (Dtype::I4, 16, 32, 32),
    ] {
        let mut state = MemoryState::new(machine, 1);
        let (width, taken) = (bits(dtype), if bits(dtype) == 4 { 16 } else { 8 });
        let (tiles, tile_flits) = (2, rows * columns / taken);
        let content = dice.bytes((tiles * tile_flits * 32) as usize);
        state.write_slice(at(63, Memory::Dm, 0), &content).unwrap();
        let elements = tiles * tile_flits * 32 * 8 / width;
        let mut stream = copy(fetch(dtype, 256 / width, vec![row(elements, 1)]), tiles * kept);
        stream.transpose = Some(Transpose { rows, columns, kept });
        run(machine, &mut state, stream).unwrap();
        // Element (row, column) of a tile, found flit by flit.
        let element = |tile: u64, row: u64, column: u64| {
            let index = row * columns + column;
            let flit = tile * tile_flits + index / taken;
            pick_bits(&content, (flit * 256 + index % taken * width) as i64, width)
        };
        for tile in 0..tiles {
            for column in 0..kept {
                let expected: Vec<u32> = (0..rows).map(|row| element(tile, row, column)).collect();
                let mut expected = pack(&expected, width);
                expected.resize(32, 0);
                let offset = OUT + (tile * kept + column) * 32;
                assert_eq!(read(&state, 63, Memory::Dm, offset, 32), expected, "{dtype} {rows}x{columns}");
            }
        }
    }
}

#[test]
fn commit_trims_converts_and_masks() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let floats = [1.5_f32, -2.0, f32::NAN, -f32::NAN, -0.0, 3.140_625, -1e30, 1e-41].map(f32::to_bits);
    for slice in 0..64 {
        state.write_slice(at(slice, Memory::Dm, 0), &pack(&floats, 32)).unwrap();
    }
    let mut stream = copy(fetch(Dtype::F32, 8, vec![row(8, 1)]), 1);
    stream.commit.to_bf16 = true;
    stream.commit.bytes = 16;
    stream.commit.slices = vec![(3, 5), (60, 61)];
    run(machine, &mut state, stream.clone()).unwrap();
    let expected = pack(&[0x3FC0, 0xC000, 0x7FC0, 0x7FC0, 0x8000, 0x4049, 0xF14A, 0], 16);
    for slice in 0..64 {
        let mut flit = if [3, 4, 60].contains(&slice) { expected.clone() } else { vec![0; 16] };
        flit.resize(32, 0);
        assert_eq!(read(&state, slice, Memory::Dm, OUT, 32), flit, "slice {slice}");
    }
    stream.commit.relu = true;
    run(machine, &mut state, stream.clone()).unwrap();
    let expected = pack(&[0x3FC0, 0, 0x7FC0, 0x7FC0, 0, 0x4049, 0, 0], 16);
    assert_eq!(read(&state, 4, Memory::Dm, OUT, 16), expected);
    stream.commit.to_bf16 = false;
    assert_eq!(run(machine, &mut state, stream.clone()).unwrap_err().stage, ExecStage::Commit, "ReLU alone");
    stream.commit.relu = false;
    stream.commit.base = machine.dm.capacity_bytes - 8;
    let fault = run(machine, &mut state, stream.clone()).unwrap_err();
    assert_eq!(fault.stage, ExecStage::Commit, "{fault}");
    stream.commit.base = 64;
    stream.commit.loops = vec![row(1, 1), row(1, -80)];
    run(machine, &mut state, stream.clone()).unwrap();
    stream.commit.loops = vec![row(2, -80)];
    assert_eq!(run(machine, &mut state, stream).unwrap_err().stage, ExecStage::Commit, "before the start");
}

#[test]
fn fills_and_short_loads_reach_register_files() {
    let machine = tcp();
    let mut state = MemoryState::new(machine, 1);
    let content = Dice(5).bytes(512);
    state.write_slice(at(9, Memory::Dm, 100), &content).unwrap();
    let short = ShortLoad { from: 100, bytes: 512, memory: Memory::Vrf, base: 64 };
    exec(machine, &mut state, PE, &image(ExecBody::Short(short))).unwrap();
    assert_eq!(read(&state, 9, Memory::Vrf, 64, 512), content);
    assert_eq!(read(&state, 8, Memory::Vrf, 64, 512), [0; 512]);
    let mut fill = Fill { word: 0x0807_0605_0403_0201, commit: commit(Memory::Trf { lanes: 8 }, 16, 2) };
    fill.commit.bytes = 24;
    fill.commit.slices = vec![(9, 10)];
    exec(machine, &mut state, PE, &image(ExecBody::Fill(fill))).unwrap();
    let mut expected = vec![0; 16];
    expected.extend((0..24).map(|at| at % 8 + 1));
    expected.extend([0; 8]);
    expected.extend((0..24).map(|at| at % 8 + 1));
    assert_eq!(read(&state, 9, Memory::Trf { lanes: 8 }, 0, 72), expected);
    let short = ShortLoad { from: 100, bytes: 8193, memory: Memory::Vrf, base: 0 };
    let fault = exec(machine, &mut state, PE, &image(ExecBody::Short(short))).unwrap_err();
    assert_eq!(fault.stage, ExecStage::Commit);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A tensor of flits is read in one order of its axes and written in another.
    #[test]
    fn fetch_and_commit_permute(seed: u64) {
        let dice = &mut Dice(seed);
        let machine = tcp();
        let mut state = MemoryState::new(machine, 1);
        let sizes: Vec<u64> = (0..3).map(|_| dice.roll(4) + 1).collect();
        let total: u64 = sizes.iter().product();
        let strides = |order: [usize; 3]| {
            let mut strides = [0; 3];
            let mut stride = 1;
            for axis in order {
                (strides[axis], stride) = (stride, stride * sizes[axis]);
            }
            strides
        };
        let mut order = [0, 1, 2];
        dice.shuffle(&mut order);
        let from = strides(order);
        dice.shuffle(&mut order);
        let to = strides(order);
        let bytes = dice.pick(&[8, 16, 24, 32]);
        let content = dice.bytes((total * 32) as usize);
        state.write_slice(at(1, Memory::Dm, 0), &content).unwrap();
        let mut loops: Vec<_> = (0..3).map(|axis| row(sizes[axis], from[axis] as i64 * 32)).collect();
        loops.push(row(32, 1));
        let mut stream = copy(fetch(Dtype::I8, 32, loops), total);
        stream.commit.loops = (0..3).map(|axis| row(sizes[axis], (to[axis] * bytes) as i64)).collect();
        stream.commit.bytes = bytes;
        run(machine, &mut state, stream).unwrap();
        for x in 0..sizes[0] {
            for y in 0..sizes[1] {
                for z in 0..sizes[2] {
                    let flit = |strides: [u64; 3]| x * strides[0] + y * strides[1] + z * strides[2];
                    let expected = &content[flit(from) as usize * 32..][..bytes as usize];
                    let found = read(&state, 1, Memory::Dm, OUT + flit(to) * bytes, bytes);
                    prop_assert_eq!(&found, expected);
                }
            }
        }
    }
}
