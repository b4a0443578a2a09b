//! Operands in the order in which blocks of results read them: taken as they are, packed when the product is
//! computed.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tilewright_num::{Dtype, RuleSet};

use super::block::{BlockRow, COLUMNS, ROWS};
use super::upcast;
use crate::buffer_pool::{BufferPool, SharedBytes};

/// Rows of elements, one for each step of the contraction, `pitch` elements apart.
#[derive(Clone, Debug)]
pub struct OperandRows {
    /// Where they lie.
    pub bytes: SharedBytes,
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

impl OperandRows {
    /// Decodes a row; what lies outside stays as it is.
    fn decode(&self, rules: &RuleSet, row: usize, out: &mut [f32]) {
        let size = self.dtype.size_bytes(1);
        let first = (self.offset + row * self.pitch) * size;
        if let Some(bytes) = self.bytes.get(first..first + out.len() * size) {
            upcast(rules, self.dtype, bytes, out);
        }
    }
}

/// Elements side by side of which `T` holds so many.
pub trait PackGroup: Copy + Send + 'static {
    /// How many.
    const WIDTH: usize;
    /// None of them.
    const ZERO: Self;
    /// The pool of buffers of this group that are free again.
    fn pool() -> &'static BufferPool<Self>;
    /// The elements.
    fn elements(&mut self) -> &mut [f32];
}

impl PackGroup for [f32; ROWS] {
    const WIDTH: usize = ROWS;
    const ZERO: Self = [0.0; ROWS];

    fn pool() -> &'static BufferPool<Self> {
        static POOL: BufferPool<[f32; ROWS]> = BufferPool::empty();
        &POOL
    }

    fn elements(&mut self) -> &mut [f32] {
        self
    }
}

impl PackGroup for BlockRow {
    const WIDTH: usize = COLUMNS;
    const ZERO: Self = BlockRow::ZERO;

    fn pool() -> &'static BufferPool<Self> {
        static POOL: BufferPool<BlockRow> = BufferPool::empty();
        &POOL
    }

    fn elements(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

/// An operand whose rows are cut into groups; groups at the same place of all rows lie one after the other.
#[derive(Debug)]
pub struct PackedOperand<T: PackGroup> {
    /// Steps of the contraction.
    pub(super) steps: usize,
    /// Elements of a row.
    pub(super) length: usize,
    rules: RuleSet,
    rows: Mutex<Option<OperandRows>>,
    groups: OnceLock<Vec<T>>,
}

/// The stationary operand.
pub type PackedRows = PackedOperand<[f32; ROWS]>;

/// The moving operand.
pub type PackedColumns = PackedOperand<BlockRow>;

impl<T: PackGroup> PackedOperand<T> {
    /// What `rows` holds now, to be packed when it is needed.
    pub fn new(rules: &RuleSet, rows: OperandRows) -> PackedOperand<T> {
        let (steps, length) = (rows.steps, rows.length);
        PackedOperand { steps, length, rules: *rules, rows: Mutex::new(Some(rows)), groups: OnceLock::new() }
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

impl<T: PackGroup> Drop for PackedOperand<T> {
    fn drop(&mut self) {
        if let Some(groups) = self.groups.take() {
            T::pool().recycle(groups);
        }
    }
}

fn pack<T: PackGroup>(rules: &RuleSet, rows: &OperandRows) -> Vec<T> {
    let (steps, length) = (rows.steps, rows.length);
    let count = length.div_ceil(T::WIDTH);
    let mut groups = T::pool().to_overwrite(count * steps, T::ZERO);
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
pub enum CachedPack {
    /// As the stationary one.
    Rows(Arc<PackedRows>),
    /// As the moving one.
    Columns(Arc<PackedColumns>),
}
