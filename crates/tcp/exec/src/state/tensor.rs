//! Tensors at rest: row-major elements to the places that a lowered shape gives them, and back (paper section
//! II).

use smallvec::SmallVec;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_notation::algebra::map::{Copies, MapDigit, OFFSET, RadixMap, SLICE};
use tilewright_num::{Dtype, load, store};
use tilewright_tcp_isa::program::Tensor;
use tilewright_tcp_isa::program::tensor::TensorPlace;

use super::{ExecFault, ExecProblem, ExecStage, MemoryInstance, MemoryLocation, MemoryState};
use crate::fault::{equal, product};
use crate::limits::{base as check_base, index};

/// Farthest place that a digit may reach: sums of all digits then never overflow.
const MAX_REACH: u64 = 1 << 56;
/// Most copies of a tensor.
const MAX_COPIES: u64 = 1 << 20;

/// Neighbours in the tensor that are neighbours in memory.
#[derive(Clone, Copy, Debug)]
struct ElementRun {
    /// First element, row-major.
    first: u64,
    slice: u64,
    /// Element within the slice.
    offset: u64,
    elements: u64,
}

impl MemoryState {
    /// Writes a tensor's elements, given as row-major patterns, to all their copies; padding is left as it
    /// is.
    ///
    /// # Errors
    /// Patterns that are not as many as the elements, a shape that does not fit the tensor, places outside
    /// the memory.
    pub fn put(&mut self, tensor: &Tensor, patterns: &[u32]) -> Result<(), ExecFault> {
        let elements = self.check_tensor(tensor).map_err(|problem| problem.at(ExecStage::Tensor))?;
        equal("patterns", patterns.len() as u64, "elements", elements)
            .map_err(|problem| problem.at(ExecStage::Tensor))?;
        let copies = copies(&tensor.map);
        each_run(&tensor.map, elements, |run| {
            let part = patterns.get(index(run.first)..index(run.first + run.elements));
            let part = part.or_broken("a pattern for each element");
            for (slice, offset) in &copies {
                let (slice, offset) = (run.slice.exact_add(*slice), run.offset.exact_add(*offset));
                let copy = ElementRun { slice, offset, ..run };
                self.put_run(tensor, copy, part)?;
            }
            Ok(())
        })
    }

    /// A tensor's elements as row-major patterns; of copies the first is read.
    ///
    /// # Errors
    /// A shape that does not fit the tensor, places outside the memory.
    pub fn get(&self, tensor: &Tensor) -> Result<Vec<u32>, ExecFault> {
        let elements = self.check_tensor(tensor).map_err(|problem| problem.at(ExecStage::Tensor))?;
        let mut patterns = Vec::with_capacity(index(elements));
        each_run(&tensor.map, elements, |run| {
            let (place, shift, mut bytes) = covering(tensor, run)?;
            self.read_at(place, &mut bytes)?;
            patterns.extend((0..index(run.elements)).map(|at| load(tensor.dtype, &bytes, at + shift)));
            Ok(())
        })?;
        Ok(patterns)
    }

    fn put_run(&mut self, tensor: &Tensor, run: ElementRun, patterns: &[u32]) -> Result<(), ExecFault> {
        let (place, shift, mut bytes) = covering(tensor, run)?;
        if tensor.dtype.storage_bits() < 8 {
            self.read_at(place, &mut bytes)?;
        }
        for (at, pattern) in patterns.iter().enumerate() {
            store(tensor.dtype, &mut bytes, at + shift, *pattern);
        }
        self.write_at(place, &bytes)
    }

    /// Elements of the tensor, if they can be placed at all.
    fn check_tensor(&self, tensor: &Tensor) -> Result<u64, ExecProblem> {
        if matches!(tensor.dtype, Dtype::I5 | Dtype::I9) {
            return Err(ExecProblem::Dtype(tensor.dtype));
        }
        let map = &tensor.map;
        let sound = |digit: &MapDigit| {
            let reach = map.from.get(usize::from(digit.from_axis))?.checked_div(digit.from_stride)?;
            reach.checked_mul(digit.to_stride).filter(|reach| *reach <= MAX_REACH && digit.to_axis <= OFFSET)
        };
        let far = |copies: &Copies| {
            copies.count.checked_mul(copies.to_stride).is_none_or(|reach| reach > MAX_REACH)
        };
        if map.digits.iter().any(|digit| sound(digit).is_none())
            || map.copies.iter().any(|copies| copies.to_axis > OFFSET || far(copies))
            || map.to.len() != 2
            || !map.from.iter().eq(tensor.axes.iter().map(|axis| &axis.1))
        {
            return Err(ExecProblem::Setting("the tensor's map is not over its axes; lower its shape again"));
        }
        let capacity = match tensor.place {
            TensorPlace::Hbm { .. } => self.sizes.hbm,
            TensorPlace::Dm { .. } => self.sizes.dm * self.sizes.slices * self.sizes.pes,
        };
        let most = capacity.exact_mul(8) / u64::from(tensor.dtype.storage_bits());
        let copied = map.copies.iter().map(|copies| copies.count);
        product("copies", copied, MAX_COPIES)?;
        product("elements", map.from.iter().copied(), most)
    }
}

/// The bytes that hold a run: where they begin, elements before the run in the first, and room for them.
fn covering(tensor: &Tensor, run: ElementRun) -> Result<(MemoryLocation, usize, Vec<u8>), ExecFault> {
    let fail = |problem: ExecProblem| problem.at(ExecStage::Tensor);
    let bits = u64::from(tensor.dtype.storage_bits());
    let first_bit = run.offset.exact_mul(bits);
    let (first, shift) = (first_bit / 8, first_bit % 8 / bits);
    let bytes = shift.exact_add(run.elements).exact_mul(bits).div_ceil(8);
    let (chip, medium, base) = match tensor.place {
        TensorPlace::Hbm { chip, base } if run.slice == 0 => (chip, MemoryInstance::Hbm, base),
        TensorPlace::Hbm { .. } => {
            return Err(fail(ExecProblem::Setting(
                "a tensor in HBM has one slice; give its shape no slice digits",
            )));
        }
        TensorPlace::Dm { chip, slice, base } => {
            check_base("the first slice of a tensor", slice).map_err(fail)?;
            (chip, MemoryInstance::Dm { slice: slice.exact_add(run.slice) }, base)
        }
    };
    check_base("the base of a tensor", base).map_err(fail)?;
    let located = MemoryLocation { chip, medium, offset: base.exact_add(first) };
    Ok((located, index(shift), vec![0; index(bytes)]))
}

/// What every copy adds to slice and offset.
fn copies(map: &RadixMap) -> Vec<(u64, u64)> {
    let mut all = vec![(0_u64, 0_u64)];
    for copies in &map.copies {
        let add = |(slice, offset): (u64, u64), step: u64| {
            let more = step.exact_mul(copies.to_stride);
            match copies.to_axis {
                SLICE => (slice.exact_add(more), offset),
                _ => (slice, offset.exact_add(more)),
            }
        };
        all = all.iter().flat_map(|place| (0..copies.count).map(move |step| add(*place, step))).collect();
    }
    all
}

/// Calls `visit` with all runs of a tensor, in row-major order.
fn each_run(
    map: &RadixMap,
    elements: u64,
    mut visit: impl FnMut(ElementRun) -> Result<(), ExecFault>,
) -> Result<(), ExecFault> {
    if elements == 0 {
        return Ok(());
    }
    let mut position: SmallVec<[u64; 8]> = map.from.iter().map(|_| 0).collect();
    let length = run_length(map);
    let mut first = 0;
    while first < elements {
        let left = match (position.last(), map.from.last()) {
            (Some(at), Some(extent)) => extent - at,
            _ => 1,
        };
        let to = map.apply(&position);
        let elements = left.min(length);
        visit(ElementRun {
            first,
            slice: to[usize::from(SLICE)],
            offset: to[usize::from(OFFSET)],
            elements,
        })?;
        first += elements;
        let mut carry = elements;
        for (at, extent) in position.iter_mut().zip(&map.from).rev() {
            *at += carry;
            if *at < *extent {
                break;
            }
            *at = 0;
            carry = 1;
        }
    }
    Ok(())
}

/// Neighbours on the last axis that stay neighbours in memory.
fn run_length(map: &RadixMap) -> u64 {
    let last = map.from.len().wrapping_sub(1);
    let on_last = || map.digits.iter().filter(|digit| usize::from(digit.from_axis) == last);
    let unit = on_last().find(|d| (d.from_stride, d.to_axis, d.to_stride) == (1, OFFSET, 1));
    let above = on_last().map(|digit| digit.from_stride).filter(|stride| *stride > 1).min();
    match unit {
        Some(_) => above.or(map.from.last().copied()).or_broken("a digit is of an axis"),
        None => 1,
    }
}
