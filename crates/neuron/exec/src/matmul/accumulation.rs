//! The sum of several products: columns are shared out, and each share is a chain of its own, added to in the
//! order of the products by whichever thread is free. Workers begin while the kernel still runs; who wants
//! the sum waits for the rest.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rayon::prelude::*;
use tilewright_num::{Dtype, RuleSet};

use super::block::{BlockOperands, BlockRow, COLUMNS, ROWS, ResultBlock, fastest};
use super::{MatmulOperands, ResultRows, downcast, upcast};
use crate::buffer_pool::{BufferPool, SharedBytes, to_overwrite};

/// Multiplications of a product below which a second thread costs more than it gives.
const MIN_SHARED: usize = 1 << 20;
/// Panels of columns that a share has: few, so that a thread that is held up leaves most of them to others.
const SHARD_PANELS: usize = 4;

static POOL: BufferPool<ResultBlock> = BufferPool::empty();

/// A sum that grows.
#[derive(Debug)]
pub struct AccumulationChain {
    rules: RuleSet,
    /// Rows and columns of the result.
    size: (usize, usize),
    /// Its type.
    dtype: Dtype,
    /// What is to be added, in order.
    factors: Mutex<Vec<MatmulOperands>>,
    shards: Vec<Mutex<ColumnShard>>,
    /// The sum, once somebody asked for it.
    result: OnceLock<SharedBytes>,
}

/// Some columns of the sum.
#[derive(Debug, Default)]
struct ColumnShard {
    /// Products that were added.
    done: usize,
    /// Panel by panel, each from its first row on; empty before the first product.
    sums: Vec<ResultBlock>,
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AccumulationChain {
    /// A sum of products like `first`, which is not among them yet; it begins with nothing, or with what is
    /// given.
    pub fn new(
        rules: &RuleSet,
        first: &MatmulOperands,
        dtype: Dtype,
        begin: Option<&[u8]>,
    ) -> AccumulationChain {
        let (m, n) = (first.rows.length, first.columns.length);
        let panels = n.div_ceil(COLUMNS);
        let each = if first.rows.steps * m * n < MIN_SHARED { panels } else { SHARD_PANELS };
        let shards = (0..panels.div_ceil(each.max(1))).map(|_| Mutex::default()).collect();
        let (factors, result) = (Mutex::default(), OnceLock::new());
        let chain = AccumulationChain { rules: *rules, size: (m, n), dtype, factors, shards, result };
        if let Some(bytes) = begin.filter(|bytes| bytes.len() == dtype.size_bytes(m * n)) {
            chain.begin(bytes);
        }
        chain
    }

    /// The type of the sum.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// True if several threads may add to it.
    pub fn is_shared(&self) -> bool {
        self.shards.len() > 1
    }

    fn shard_columns(&self) -> usize {
        let panels = self.size.1.div_ceil(COLUMNS);
        panels.div_ceil(self.shards.len().max(1)) * COLUMNS
    }

    /// Blocks of rows in a panel.
    fn blocks(&self) -> usize {
        self.size.0.div_ceil(ROWS)
    }

    /// Columns that a share has.
    fn columns_of(&self, shard: usize) -> usize {
        self.shard_columns().min(self.size.1 - shard * self.shard_columns())
    }

    fn zeros(&self, shard: usize) -> Vec<ResultBlock> {
        POOL.filled(self.columns_of(shard).div_ceil(COLUMNS) * self.blocks(), [BlockRow::ZERO; ROWS])
    }

    fn begin(&self, bytes: &[u8]) {
        let (n, size) = (self.size.1, self.dtype.size_bytes(1));
        for (index, shard) in self.shards.iter().enumerate() {
            let (first, columns) = (index * self.shard_columns(), self.columns_of(index));
            let mut sums = self.zeros(index);
            let mut line = vec![0.0; columns.next_multiple_of(COLUMNS)];
            for (at, row) in bytes.chunks_exact(n * size).enumerate() {
                upcast(&self.rules, self.dtype, &row[first * size..][..columns * size], &mut line[..columns]);
                for (panel, piece) in line.as_chunks().0.iter().enumerate() {
                    sums[panel * self.blocks() + at / ROWS][at % ROWS].0 = *piece;
                }
            }
            locked(shard).sums = sums;
        }
    }

    /// Takes one more product; one whose sizes do not fit is left out.
    pub fn push(&self, factors: MatmulOperands) {
        let (rows, columns) = (&factors.rows, &factors.columns);
        if (rows.length, columns.length) == self.size && rows.steps == columns.steps && rows.steps > 0 {
            locked(&self.factors).push(factors);
        }
    }

    /// Products so far.
    pub fn products(&self) -> usize {
        locked(&self.factors).len()
    }

    /// Lets a worker add what is there while the caller goes on, if that is worth one.
    pub fn advance(self: &Arc<Self>) {
        if self.is_shared() {
            let chain = Arc::clone(self);
            rayon::spawn(move || {
                for index in 0..chain.shards.len() {
                    // What another holds, another adds.
                    if let Ok(mut shard) = chain.shards[index].try_lock() {
                        chain.drain(index, &mut shard);
                    }
                }
            });
        }
    }

    /// Adds to a share all that it lacks: product by product, so that one stationary operand, one panel and
    /// the sums stay close.
    fn drain(&self, index: usize, shard: &mut ColumnShard) {
        let missing: Vec<MatmulOperands> =
            locked(&self.factors).get(shard.done..).unwrap_or_default().to_vec();
        if missing.is_empty() {
            return;
        }
        if shard.sums.is_empty() {
            shard.sums = self.zeros(index);
        }
        let (add_block, blocks) = (fastest(), self.blocks());
        let (first, count) = (index * self.shard_columns() / COLUMNS, shard.sums.len() / blocks);
        let panels = missing.iter().flat_map(|MatmulOperands { rows, columns }| {
            let panels = columns.groups().chunks_exact(rows.steps).skip(first).take(count);
            panels.enumerate().map(move |(at, panel)| (rows, at * blocks, panel))
        });
        let mut panels = panels.peekable();
        while let Some((rows, at, panel)) = panels.next() {
            // What comes next is fetched meanwhile, a part of it with each block.
            let next: &[BlockRow] = panels.peek().map_or(&[], |(_, _, panel)| panel);
            let mut next = next.chunks(next.len().div_ceil(blocks).max(1));
            let blocks = rows.groups().chunks_exact(rows.steps).zip(&mut shard.sums[at..at + blocks]);
            for (block, (a, sums)) in blocks.enumerate() {
                let (used, next) = (self.size.0 - block * ROWS, next.next().unwrap_or_default());
                add_block(BlockOperands { a, used, panel, next }, sums);
            }
        }
        shard.done += missing.len();
    }

    /// Adds the rest and gives the sum, which nothing may be added to any more. Threads that add already go
    /// on with it, the caller with what they left.
    pub fn result(&self) -> SharedBytes {
        let finished = self.result.get_or_init(|| {
            // Workers begin with the first share.
            for (index, shard) in self.shards.iter().enumerate().rev() {
                if let Ok(mut shard) = shard.try_lock() {
                    self.drain(index, &mut shard);
                }
            }
            let mut bytes = to_overwrite(self.dtype.size_bytes(self.size.0 * self.size.1));
            self.parts(&mut bytes).into_iter().enumerate().for_each(|part| self.finish_part(part));
            locked(&self.factors).clear();
            bytes.into()
        });
        finished.clone()
    }

    /// Adds the rest and gives the sum; a result of another size, or a sum of nothing, is left undone.
    pub fn finish(&self, bytes: &mut [u8]) {
        let (m, n) = self.size;
        if m == 0 || n == 0 || bytes.len() != self.dtype.size_bytes(m * n) || self.products() == 0 {
            return;
        }
        let parts = self.parts(bytes);
        if !self.is_shared() {
            parts.into_iter().enumerate().for_each(|part| self.finish_part(part));
            return;
        }
        let factors = locked(&self.factors).clone();
        factors.par_iter().for_each(MatmulOperands::pack);
        parts.into_par_iter().enumerate().for_each(|part| self.finish_part(part));
    }

    /// For each share the rows of its columns.
    fn parts<'a>(&self, bytes: &'a mut [u8]) -> Vec<Vec<&'a mut [u8]>> {
        let ((m, n), size) = (self.size, self.dtype.size_bytes(1));
        let mut parts: Vec<Vec<&mut [u8]>> = self.shards.iter().map(|_| Vec::with_capacity(m)).collect();
        for row in bytes.chunks_exact_mut(n * size) {
            for (part, columns) in parts.iter_mut().zip(row.chunks_mut(self.shard_columns() * size)) {
                part.push(columns);
            }
        }
        parts
    }

    fn finish_part(&self, (index, rows): (usize, Vec<&mut [u8]>)) {
        let mut shard = locked(&self.shards[index]);
        self.drain(index, &mut shard);
        self.recycle(index, &mut shard, rows);
    }

    /// Rounds the sums of a share to where they go.
    fn recycle(&self, index: usize, shard: &mut ColumnShard, rows: Vec<&mut [u8]>) {
        let columns = self.columns_of(index);
        let sums = std::mem::take(&mut shard.sums);
        let mut line = vec![0.0; columns.next_multiple_of(COLUMNS)];
        for (at, row) in rows.into_iter().enumerate() {
            for (panel, piece) in line.as_chunks_mut().0.iter_mut().enumerate() {
                *piece = sums[panel * self.blocks() + at / ROWS][at % ROWS].0;
            }
            downcast(&self.rules, self.dtype, &line[..columns], row);
        }
        POOL.recycle(sums);
    }
}

/// The sum of several products, one after the other. Those whose sizes do not fit are left out.
pub fn multiply_packed(rules: &RuleSet, factors: &[MatmulOperands], out: ResultRows<'_>) {
    let ResultRows { bytes, dtype, accumulate } = out;
    let Some(first) = factors.first() else { return };
    let chain = AccumulationChain::new(rules, first, dtype, accumulate.then_some(&*bytes));
    for one in factors {
        chain.push(one.clone());
    }
    chain.finish(bytes);
}
