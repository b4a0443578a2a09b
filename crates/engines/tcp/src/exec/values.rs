//! The values of a contraction: the loop table followed step by step over the memories of the slices.
//!
//! Order as in the paper's section IV-C and the vISA book: products of a packet, the tree over neighbours, sums in time, then parts of
//! a sum from slice to slice in ring order (which starts at the lowest slice: an assumption). Plain and slow on purpose: it is what
//! faster paths are compared with.

use smallvec::SmallVec;
use tilewright_num::{RuleSet, add_f32, mul_f32, tree_add};

use super::table::{Row, Step, Table};

/// The memory of all slices for one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory<T> {
    /// Elements on each slice.
    pub elements_per_slice: u64,
    /// Slice after slice.
    pub cells: Vec<T>,
}

impl<T: Copy + Default> Memory<T> {
    /// Empty memory.
    pub fn new(slices: u64, elements_per_slice: u64) -> Option<Memory<T>> {
        let cells = usize::try_from(slices.checked_mul(elements_per_slice)?).ok()?;
        Some(Memory { elements_per_slice, cells: vec![T::default(); cells] })
    }

    fn index(&self, slice: u64, offset: u64) -> usize {
        usize::try_from(slice * self.elements_per_slice + offset).unwrap_or(usize::MAX)
    }

    /// What is there; reads past the end give zero, as a masked fetch does.
    pub fn get(&self, slice: u64, offset: u64) -> T {
        self.cells.get(self.index(slice, offset)).copied().unwrap_or_default()
    }

    /// The cell, if it exists.
    pub fn cell(&mut self, slice: u64, offset: u64) -> Option<&mut T> {
        let index = self.index(slice, offset);
        self.cells.get_mut(index)
    }
}

/// How a type multiplies and adds.
pub trait Arithmetic {
    /// Elements as the contraction engine sees them.
    type Element: Copy + Default;
    /// Sums.
    type Sum: Copy + Default;
    /// The tree over the products of neighbours.
    fn tree(&self, pairs: &[(Self::Element, Self::Element)]) -> Self::Sum;
    /// Adds a later part to a sum.
    fn add(&self, sum: Self::Sum, part: Self::Sum) -> Self::Sum;
}

/// i4, i5, i8 and i9: exact products, sums that wrap at 32 bits.
#[derive(Clone, Copy, Debug)]
pub struct Integers;

impl Arithmetic for Integers {
    type Element = i32;
    type Sum = i32;

    fn tree(&self, pairs: &[(i32, i32)]) -> i32 {
        pairs.iter().fold(0, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(*b)))
    }

    fn add(&self, sum: i32, part: i32) -> i32 {
        sum.wrapping_add(part)
    }
}

/// bf16 and 8-bit floats, widened to f32.
#[derive(Clone, Copy, Debug)]
pub struct Floats<'a>(pub &'a RuleSet);

impl Arithmetic for Floats<'_> {
    type Element = f32;
    type Sum = f32;

    fn tree(&self, pairs: &[(f32, f32)]) -> f32 {
        let mut products: Vec<f32> = pairs.iter().map(|(a, b)| mul_f32(self.0, *a, *b)).collect();
        tree_add(self.0, &mut products)
    }

    fn add(&self, sum: f32, part: f32) -> f32 {
        add_f32(self.0, sum, part)
    }
}

/// Runs a table: `stream` and `trf` are read, `out` is written where the table commits.
pub fn run<A: Arithmetic>(
    arithmetic: &A,
    table: &Table,
    stream: &Memory<A::Element>,
    trf: &Memory<A::Element>,
    out: &mut Memory<A::Sum>,
) {
    let mut written = vec![false; out.cells.len()];
    for slice in 0..table.slice_count() {
        let Some(origin) = table.origin(slice) else { continue };
        let mut local: Memory<A::Sum> =
            Memory { elements_per_slice: out.elements_per_slice, cells: out.cells.clone() };
        local.cells.fill(A::Sum::default());
        let mut touched = vec![false; local.cells.len()];
        let run = SliceRun { arithmetic, table, stream, trf, slice, origin: &origin };
        run.run(&mut local, &mut touched);
        for index in touched.iter().enumerate().filter(|(_, touched)| **touched).map(|(index, _)| index) {
            let part = local.cells[index];
            out.cells[index] = if written[index] { arithmetic.add(out.cells[index], part) } else { part };
            written[index] = true;
        }
    }
}

struct SliceRun<'a, A: Arithmetic> {
    arithmetic: &'a A,
    table: &'a Table,
    stream: &'a Memory<A::Element>,
    trf: &'a Memory<A::Element>,
    slice: u64,
    origin: &'a [u64],
}

/// Where the units stand after some loops.
#[derive(Clone, Debug)]
struct At {
    position: SmallVec<[u64; 8]>,
    stream: (u64, u64),
    trf: u64,
    out: (u64, u64),
}

impl At {
    fn step(&self, row: &Row, count: u64) -> At {
        let mut at = self.clone();
        at.position[usize::from(row.axis.0)] += count * row.weight;
        let go = |place: &mut (u64, u64), step: Option<Step>| match step {
            Some(Step::Offset(stride)) => place.1 += count * stride,
            Some(Step::Slice(stride)) => place.0 += count * stride,
            None => {}
        };
        go(&mut at.stream, row.stream);
        go(&mut at.out, row.out);
        at.trf += count * row.trf.unwrap_or(0);
        at
    }
}

impl<A: Arithmetic> SliceRun<'_, A> {
    fn run(&self, local: &mut Memory<A::Sum>, touched: &mut [bool]) {
        let start = At {
            position: self.origin.iter().copied().collect(),
            stream: (self.slice & self.table.stream_kept, 0),
            trf: 0,
            out: (self.slice & self.table.out_kept, 0),
        };
        let (columns, tree) = self.table.packet.split_at(self.table.packet.len() - self.table.tree_rows);
        each(&self.table.time, &start, &mut |time| {
            each(&self.table.lanes, time, &mut |lane| {
                each(columns, lane, &mut |column| self.sum(column, tree, local, touched));
            });
        });
    }

    /// One output of one lane in one cycle.
    fn sum(&self, at: &At, tree: &[Row], local: &mut Memory<A::Sum>, touched: &mut [bool]) {
        let mut pairs: SmallVec<[_; 64]> = SmallVec::new();
        each(tree, at, &mut |element| {
            let live = self.live(element);
            let zero = A::Element::default();
            let a = if live { self.stream.get(element.stream.0, element.stream.1) } else { zero };
            let b = if live { self.trf.get(self.slice, element.trf) } else { zero };
            pairs.push((a, b));
        });
        let surviving = |at: &At| {
            let rows = self.table.time.iter().chain(&self.table.lanes).chain(&self.table.packet);
            let out_axes = rows.filter(|row| row.out.is_some()).map(|row| usize::from(row.axis.0));
            out_axes.into_iter().all(|axis| at.position[axis] < self.table.extents[axis])
        };
        let index = local.index(at.out.0, at.out.1);
        if !surviving(at) || index >= touched.len() {
            return;
        }
        let part = self.arithmetic.tree(&pairs);
        local.cells[index] = self.arithmetic.add(local.cells[index], part);
        touched[index] = true;
    }

    fn live(&self, at: &At) -> bool {
        at.position.iter().zip(&self.table.extents).all(|(position, extent)| position < extent)
    }
}

/// Calls `visit` for every step of nested loops, outermost first.
fn each(rows: &[Row], at: &At, visit: &mut dyn FnMut(&At)) {
    match rows.split_first() {
        None => visit(at),
        Some((row, inner)) => (0..row.size).for_each(|count| each(inner, &at.step(row, count), visit)),
    }
}
