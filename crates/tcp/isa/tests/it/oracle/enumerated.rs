//! What a command touches, enumerated address by address.

use std::collections::BTreeSet;

use tilewright_tcp_isa::footprint::MemoryKind;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{Commit, Exec, ExecBody, Fetch, Memory, SliceDigit};
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, Transfer};

use super::tcp;

/// A byte of a memory, read or written.
pub(crate) type Byte = (MemoryKind, u64, u64, u64, bool);

fn signed(value: u64) -> i64 {
    i64::try_from(value).expect("small numbers")
}

/// Every combination of indices, outermost slowest.
fn indices(sizes: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for size in sizes {
        all = all
            .iter()
            .flat_map(|index: &Vec<u64>| (0..*size).map(move |value| [index.clone(), vec![value]].concat()))
            .collect();
    }
    all
}

fn fetched(fetch: &Fetch, slice: u64) -> Vec<u64> {
    let sizes: Vec<u64> = fetch.loops.iter().map(|row| row.size.fixed()).collect();
    let bits = i64::from(fetch.dtype.storage_bits());
    let mut bytes = Vec::new();
    for index in indices(&sizes) {
        let dead = fetch.limits.iter().any(|limit| {
            let own: u64 = index.iter().zip(&limit.weights).map(|(index, weight)| index * weight).sum();
            let digit = |d: &SliceDigit| slice / d.stride % d.size * d.weight;
            own + limit.slices.iter().map(digit).sum::<u64>() >= limit.extent.fixed()
        });
        if dead {
            continue;
        }
        let mut base = signed(fetch.base) * 8;
        for (at, (row, index)) in fetch.loops.iter().zip(&index).enumerate() {
            match fetch.interleave {
                Some(pair) if pair.at_loop == at && *index == 1 => {
                    base += (signed(pair.base) - signed(fetch.base)) * 8;
                }
                Some(pair) if pair.at_loop == at => {}
                _ => base += signed(*index) * row.stride * bits,
            }
        }
        for bit in base..base + bits {
            bytes.push(bit.div_euclid(8));
        }
    }
    bytes.iter().filter_map(|byte| u64::try_from(*byte).ok()).filter(|byte| *byte < 524_288).collect()
}

fn committed(commit: &Commit) -> Vec<u64> {
    let sizes: Vec<u64> = commit.loops.iter().map(|row| row.size.fixed()).collect();
    let mut bytes = Vec::new();
    for index in indices(&sizes) {
        let offset: i64 =
            commit.loops.iter().zip(&index).map(|(row, index)| row.stride * signed(*index)).sum();
        let first = signed(commit.base) + offset;
        bytes.extend((first..first + signed(commit.bytes)).filter_map(|at| u64::try_from(at).ok()));
    }
    bytes
}

/// What a stream of copies touches, address by address.
pub(crate) fn enumerate_exec(exec: &Exec, pe: PeId) -> BTreeSet<Byte> {
    let ExecBody::Stream(stream) = &exec.body else { panic!("a stream") };
    let mut bytes = BTreeSet::new();
    let store = match stream.commit.memory {
        Memory::Dm => MemoryKind::Dm,
        Memory::Trf { .. } => MemoryKind::Trf,
        Memory::Vrf => MemoryKind::Vrf,
    };
    let capacity = store.capacity_bytes(tcp());
    for slice in 0..exec.pes * 64 {
        let at = pe.pe * 64 + slice;
        // Drawn streams stay on their slice: what a slice reads and does not commit goes nowhere.
        let mask = &stream.commit.slices;
        if mask.is_empty() || mask.iter().any(|(first, end)| (*first..*end).contains(&slice)) {
            let read = fetched(&stream.fetch, slice);
            bytes.extend(read.iter().map(|byte| (MemoryKind::Dm, pe.chip, at, *byte, false)));
            let inside = committed(&stream.commit).into_iter().filter(|byte| *byte < capacity);
            bytes.extend(inside.map(|byte| (store, pe.chip, at, byte, true)));
        }
    }
    bytes
}

/// What a transfer touches, address by address, as far as memories are there.
pub(crate) fn enumerate_transfer(transfer: &Transfer) -> BTreeSet<Byte> {
    let sizes: Vec<u64> = transfer.loops.iter().map(|row| row.size.fixed()).collect();
    let mut bytes = BTreeSet::new();
    for index in indices(&sizes) {
        for write in [false, true] {
            let base = if write { transfer.target } else { transfer.source };
            let strides = transfer.loops.iter().map(|row| if write { row.target } else { row.source });
            let offset: i64 = strides.zip(&index).map(|(stride, index)| stride * signed(*index)).sum();
            for at in 0..transfer.packet {
                let Some(located) =
                    base.step(offset).and_then(|address| address.step(signed(at))).and_then(Address::locate)
                else {
                    continue;
                };
                let (store, slice, there) = match located.medium {
                    MemoryInstance::Hbm => (MemoryKind::Hbm, 0, true),
                    MemoryInstance::Dm { slice } => (MemoryKind::Dm, slice, slice < 512),
                    MemoryInstance::Spm { pe } => (MemoryKind::Spm, pe, pe < 8),
                };
                if there && located.offset < store.capacity_bytes(tcp()) {
                    bytes.insert((store, located.chip, slice, located.offset, write));
                }
            }
        }
    }
    bytes
}
