//! Weights on their way from HBM through data memory and the register files to products: bytes that are met
//! where they lie give what bytes that were copied give, whatever is written meanwhile.

use proptest::prelude::*;
use tilewright_machine::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_exec::{MemoryState, exec, exec_literally, transfer};
use tilewright_tcp_isa::program::exec::{ExecBody, Fill, Memory, Stream};
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};
use tilewright_tcp_isa::program::{Count, Exec};

use crate::run::contract::{contraction, step};
use crate::run::images::{Dice, PE, at, commit, copy, fetch, image, read, row, span, tcp};

const SLICES: u64 = 8;
/// Places of weights in data memory, and their bytes.
const SLOTS: [u64; 2] = [0x1000, 0x3000];
const SLOT_BYTES: u64 = 0x2000;
const OUT: u64 = 0x8000;
const OUT_BYTES: u64 = 0x8000;
const HBM_BYTES: usize = 1 << 16;
const LANES: u64 = 8;

fn small() -> Tcp {
    let mut machine = tcp().clone();
    machine.pe.slices = SLICES;
    machine.dm.capacity_bytes = OUT + OUT_BYTES;
    machine
}

fn hbm(offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset })
}

/// Numbers of bf16, now and then one that kernels leave to others.
fn numbers(dice: &mut Dice, count: usize) -> Vec<u8> {
    let wild = dice.roll(6) == 0;
    let mut number = || match dice.roll(16) {
        0 if wild => dice.next() as u16,
        0 => 0,
        _ => (0x3E80 + dice.roll(512) as u16) | ((dice.roll(2) as u16) << 15),
    };
    (0..count / 2).flat_map(|_| number().to_le_bytes()).collect()
}

fn stream(stream: Stream) -> Exec {
    image(ExecBody::Stream(Box::new(stream)))
}

/// What may happen to weights.
enum Event {
    Transfer(Transfer),
    Exec(Exec),
    Host { slice: u64, memory: Memory, offset: u64, bytes: Vec<u8> },
    Hbm { offset: u64, bytes: Vec<u8> },
}

/// A load of rows of so many elements from a slot, and the product with them.
fn load(dice: &mut Dice, joined: bool) -> (Exec, Exec) {
    let dtype = dice.pick(&[Dtype::Bf16, Dtype::Bf16, Dtype::I8]);
    let bytes = dice.pick(&[16, 32]);
    let elements = if dtype == Dtype::I8 { bytes } else { bytes / 2 };
    let rows = 1 + dice.roll(SLOT_BYTES / LANES / bytes);
    let mut from = fetch(dtype, elements, vec![row(rows * LANES * elements, 1)]);
    from.base = dice.pick(&SLOTS);
    let start = dice.pick(&[0, 0, 0, 64]);
    let lane = tcp().trf_lane_payload_bytes() as i64;
    let mut to = commit(Memory::Trf { lanes: LANES }, start, 1);
    to.loops = match joined {
        true => vec![row(rows, bytes as i64), row(LANES, lane)],
        false => vec![row(LANES, lane), row(rows, bytes as i64)],
    };
    (to.bytes, to.width) = (bytes, bytes);
    let loads = stream(Stream { commit: to, ..copy(from, 1) });
    let asked = if dice.roll(4) == 0 { 1 + dice.roll(rows) } else { rows };
    let mut contract =
        contraction(dtype, vec![row(asked, elements as i64), row(elements, 1)], vec![step(asked, false)]);
    (contract.repeats, contract.tree, contract.base) = (Count::Fixed(asked), elements, start);
    let one = fetch(dtype, elements, vec![row(elements, 1)]);
    let mut product = Stream { contract: Some(contract), ..copy(one, asked) };
    product.commit.base = OUT;
    (loads, stream(product))
}

fn event(dice: &mut Dice) -> Vec<Event> {
    let slot = dice.pick(&SLOTS);
    match dice.roll(9) {
        0..=2 => {
            let (count, bytes) = (1 + dice.roll(SLICES), dice.pick(&[SLOT_BYTES, SLOT_BYTES / 2]));
            let offset = dice.roll((HBM_BYTES as u64 - count * bytes) / 64 + 1) * 64;
            let loops =
                vec![TransferLoop { size: Count::Fixed(count), source: bytes as i64, target: SLICE_STRIDE }];
            let target = Address::new(MemoryLocation {
                chip: 0,
                medium: MemoryInstance::Dm { slice: 0 },
                offset: slot,
            });
            let name = "weights".to_string();
            vec![Event::Transfer(Transfer {
                name,
                source: hbm(offset),
                target,
                loops,
                packet: bytes,
                index: None,
                span: span(),
            })]
        }
        3..=5 => {
            let joined = dice.roll(2) == 0;
            let (loads, product) = load(dice, joined);
            let both = dice.roll(3) > 0;
            [Some(loads), both.then_some(product)].into_iter().flatten().map(Event::Exec).collect()
        }
        6 => {
            let memory = dice.pick(&[Memory::Dm, Memory::Dm, Memory::Trf { lanes: LANES }]);
            let offset =
                if memory == Memory::Dm { slot + dice.roll(SLOT_BYTES - 64) } else { dice.roll(9000) };
            vec![Event::Host { slice: dice.roll(SLICES), memory, offset, bytes: numbers(dice, 32) }]
        }
        7 => vec![Event::Hbm { offset: dice.roll(HBM_BYTES as u64 - 64), bytes: numbers(dice, 32) }],
        _ => {
            let mut zeros = commit(Memory::Dm, slot, SLOT_BYTES / 32);
            zeros.base = slot;
            vec![Event::Exec(image(ExecBody::Fill(Fill { word: dice.pick(&[0, 0, 7]), commit: zeros })))]
        }
    }
}

fn happen(machine: &Tcp, state: &mut MemoryState, event: &Event, literally: bool) {
    match event {
        Event::Transfer(image) => transfer(machine, state, image).unwrap(),
        Event::Exec(image) if literally => exec_literally(machine, state, PE, image).unwrap(),
        Event::Exec(image) => exec(machine, state, PE, image).unwrap(),
        Event::Host { slice, memory, offset, bytes } => {
            state.write_slice(at(*slice, *memory, *offset), bytes).unwrap();
        }
        Event::Hbm { offset, bytes } => state.write(hbm(*offset), bytes).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn weights_that_are_not_copied_give_what_copies_give(seed: u64) {
        let dice = &mut Dice(seed);
        let machine = small();
        let mut kept = MemoryState::new(&machine, 1);
        kept.write(hbm(0), &numbers(dice, HBM_BYTES)).unwrap();
        for slice in 0..SLICES / 2 {
            kept.write_slice(at(slice, Memory::Dm, 0), &numbers(dice, 64)).unwrap();
        }
        let mut literal = kept.clone();
        let events: Vec<Event> = (0..24).flat_map(|_| event(dice)).collect();
        for event in &events {
            happen(&machine, &mut kept, event, false);
            happen(&machine, &mut literal, event, true);
            let slice = dice.roll(SLICES);
            for (memory, bytes) in [(Memory::Dm, OUT + OUT_BYTES), (Memory::Trf { lanes: LANES }, 4096)] {
                let [one, other] = [&kept, &literal].map(|state| read(state, slice, memory, 0, bytes));
                prop_assert_eq!(one, other);
            }
        }
    }
}
