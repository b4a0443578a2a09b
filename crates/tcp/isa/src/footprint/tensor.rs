//! Where a tensor lies: the box of memory that its shape takes, and the bytes of its elements without
//! padding.

use std::sync::Arc;
use tilewright_base::invariant::{Exact, OrBroken};

use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::map::{MapDigit, OFFSET, SLICE};

use super::exec::units;
use super::walk::{TouchedOffsets, WalkLimit, WalkLoop};
use super::{ByteSet, MemoryAccess, MemoryKind};
use crate::capped::Capped;
use crate::program::tensor::{Tensor, TensorPlace};

/// Memory, chip, first slice, first byte.
fn place(tensor: &Tensor) -> (MemoryKind, u64, u64, u64) {
    match tensor.place {
        TensorPlace::Hbm { chip, base } => (MemoryKind::Hbm, chip, 0, base),
        TensorPlace::Dm { chip, slice, base } => (MemoryKind::Dm, chip, slice, base),
    }
}

/// All of the memory that the shape takes, padding included; `None` if no memory has it.
pub fn whole(machine: &Tcp, tensor: &Tensor) -> Option<MemoryAccess> {
    let (memory, chip, first, base) = place(tensor);
    let (element, per_byte) = units(tensor.dtype);
    let slots =
        |axis: u8| tensor.map.to.get(usize::from(axis)).copied().or_broken("a shape has slices and offsets");
    let bytes = slots(OFFSET).checked_mul(element)?.div_ceil(per_byte);
    let end = base.checked_add(bytes)?;
    let slices = (first, first.checked_add(slots(SLICE))?);
    let most = if memory == MemoryKind::Hbm { 1 } else { machine.slices() };
    if end > memory.capacity_bytes(machine) || slices.1 > most {
        return None;
    }
    let bytes = Arc::new(ByteSet::range(base, end));
    Some(MemoryAccess { memory, chip, slices, write: false, lanes: 0, bytes })
}

/// The bytes of the elements, one access for each slice that has any; of copies the first.
pub fn elements(machine: &Tcp, tensor: &Tensor) -> Vec<MemoryAccess> {
    let (memory, chip, first, base) = place(tensor);
    let (element, per_byte) = units(tensor.dtype);
    let capacity = memory.capacity_bytes(machine);
    let side = |axis: u8| tensor.map.digits.iter().filter(move |digit| digit.to_axis == axis);
    let inner: Vec<&MapDigit> = side(OFFSET).collect();
    let loops: Vec<WalkLoop> = inner
        .iter()
        .map(|digit| WalkLoop {
            size: digit.size,
            stride: i64::try_from(digit.to_stride.exact_mul(element)).or_broken("a stride inside a memory"),
        })
        .collect();
    let slices: Vec<&MapDigit> = side(SLICE).collect();
    let mut accesses: Vec<MemoryAccess> = Vec::new();
    for (slice, shares) in slice_shares(&slices, tensor.map.from.len(), machine.slices()) {
        let limits: Vec<WalkLimit> = tensor
            .map
            .from
            .iter()
            .enumerate()
            .map(|(axis, extent)| WalkLimit {
                extent: extent
                    .saturating_sub(shares.get(axis).copied().or_broken("a slice has a share of every axis")),
                weights: inner
                    .iter()
                    .map(|digit| if usize::from(digit.from_axis) == axis { digit.from_stride } else { 0 })
                    .collect(),
            })
            .collect();
        let walked = TouchedOffsets::of_limited(&loops, element, &limits);
        let placed = walked.placed(i128::from(base) * i128::from(per_byte), per_byte, capacity);
        let at = first.exact_add(slice);
        match accesses.last_mut() {
            Some(last) if last.slices.1 == at && *last.bytes == placed.bytes => {
                last.slices.1 = at.exact_add(1);
            }
            _ if placed.bytes.is_empty() => {}
            _ => accesses.push(MemoryAccess {
                memory,
                chip,
                slices: (at, at.exact_add(1)),
                write: false,
                lanes: 0,
                bytes: Arc::new(placed.bytes),
            }),
        }
    }
    accesses
}

/// Every slice that the digits name, with the weight it has on each axis.
fn slice_shares(digits: &[&MapDigit], axes: usize, most: u64) -> Vec<(u64, Vec<u64>)> {
    let mut shares = vec![(0_u64, vec![0_u64; axes])];
    for digit in digits {
        let places = shares.len() as u64;
        if places.capped_mul(digit.size) > most {
            return Vec::new();
        }
        shares = (0..digit.size)
            .flat_map(|value| {
                shares.iter().map(move |(slice, share)| {
                    let mut share = share.clone();
                    if let Some(axis) = share.get_mut(usize::from(digit.from_axis)) {
                        *axis = axis.exact_add(value.exact_mul(digit.from_stride));
                    }
                    (slice.exact_add(value.exact_mul(digit.to_stride)), share)
                })
            })
            .collect();
    }
    shares.sort_unstable();
    shares
}
