//! Operands in the order in which blocks of results read them: taken as they are, packed when the product is computed.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tilewright_num::{Dtype, RuleSet};

use super::block::{COLUMNS, Line, ROWS};
use super::widen;
use crate::recycle::{Bytes, Shelf};

/// Rows of elements, one for each step of the contraction, `pitch` elements apart.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Where they lie.
    pub bytes: Bytes,
    /// Their type.
    pub dtype: Dtype,
    /// First element of the first row.
    pub offset: usize,
    /// Elements from row to row.
    pub pitch: usize,
    /// Elements of a row.
    pub length: usize,
    /// Rows.
    pub steps: usize,
}

impl Rows {
    /// Decodes a row; what lies outside stays as it is.
    fn decode(&self, rules: &RuleSet, row: usize, out: &mut [f32]) {
        let size = self.dtype.size_bytes(1);
        let first = (self.offset + row * self.pitch) * size;
        if let Some(bytes) = self.bytes.get(first..first + out.len() * size) {
            widen(rules, self.dtype, bytes, out);
        }
    }
}

/// Elements side by side of which `T` holds so many.
pub trait Group: Copy + Send + 'static {
    /// How many.
    const WIDTH: usize;
    /// None of them.
    const ZERO: Self;
    /// Those that were used before and are free again.
    fn shelf() -> &'static Shelf<Self>;
    /// The elements.
    fn elements(&mut self) -> &mut [f32];
}

impl Group for [f32; ROWS] {
    const WIDTH: usize = ROWS;
    const ZERO: Self = [0.0; ROWS];

    fn shelf() -> &'static Shelf<Self> {
        static SHELF: Shelf<[f32; ROWS]> = Shelf::empty();
        &SHELF
    }

    fn elements(&mut self) -> &mut [f32] {
        self
    }
}

impl Group for Line {
    const WIDTH: usize = COLUMNS;
    const ZERO: Self = Line::ZERO;

    fn shelf() -> &'static Shelf<Self> {
        static SHELF: Shelf<Line> = Shelf::empty();
        &SHELF
    }

    fn elements(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

/// An operand whose rows are cut into groups; groups at the same place of all rows lie one after the other.
#[derive(Debug)]
pub struct Packed<T: Group> {
    /// Steps of the contraction.
    pub(super) steps: usize,
    /// Elements of a row.
    pub(super) length: usize,
    rules: RuleSet,
    rows: Mutex<Option<Rows>>,
    groups: OnceLock<Vec<T>>,
}

/// The stationary operand.
pub type PackedRows = Packed<[f32; ROWS]>;

/// The moving operand.
pub type PackedColumns = Packed<Line>;

impl<T: Group> Packed<T> {
    /// What `rows` holds now, to be packed when it is needed.
    pub fn new(rules: &RuleSet, rows: Rows) -> Packed<T> {
        let (steps, length) = (rows.steps, rows.length);
        Packed { steps, length, rules: *rules, rows: Mutex::new(Some(rows)), groups: OnceLock::new() }
    }

    /// Its groups; those of missing elements are zero.
    pub(super) fn groups(&self) -> &[T] {
        self.groups.get_or_init(|| {
            // Packed once: the bytes are let go.
            let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
            rows.map_or_else(Vec::new, |rows| pack(&self.rules, &rows))
        })
    }
}

impl<T: Group> Drop for Packed<T> {
    fn drop(&mut self) {
        if let Some(groups) = self.groups.take() {
            T::shelf().give(groups);
        }
    }
}

fn pack<T: Group>(rules: &RuleSet, rows: &Rows) -> Vec<T> {
    let (steps, length) = (rows.steps, rows.length);
    let count = length.div_ceil(T::WIDTH);
    let mut groups = T::shelf().to_overwrite(count * steps, T::ZERO);
    let mut row = vec![0.0; count * T::WIDTH];
    for step in 0..steps {
        rows.decode(rules, step, &mut row[..length]);
        for (group, values) in groups.iter_mut().skip(step).step_by(steps).zip(row.chunks_exact(T::WIDTH)) {
            group.elements().copy_from_slice(values);
        }
    }
    groups
}

/// An operand that was packed before.
#[derive(Clone, Debug)]
pub enum Pack {
    /// As the stationary one.
    Rows(Arc<PackedRows>),
    /// As the moving one.
    Columns(Arc<PackedColumns>),
}
