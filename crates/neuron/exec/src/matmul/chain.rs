//! The sum of several products: columns are shared out, and each share is a chain of its own, added to in the order of the
//! products by whichever thread is free. Workers begin while the kernel still runs; who wants the sum waits for the rest.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rayon::prelude::*;
use tilewright_num::{Dtype, RuleSet};

use super::block::{Block, COLUMNS, Line, Operands, ROWS, fastest};
use super::{Factors, Results, narrow, widen};
use crate::recycle::{Bytes, Shelf, to_overwrite};

/// Multiplications of a product below which a second thread costs more than it gives.
const LEAST_SHARED: usize = 1 << 20;
/// Panels of columns that a share has: few, so that a thread that is held up leaves most of them to others.
const SHARE_PANELS: usize = 4;

static SHELF: Shelf<Block> = Shelf::empty();

/// A sum that grows.
#[derive(Debug)]
pub struct Chain {
    rules: RuleSet,
    /// Rows and columns of the result.
    size: (usize, usize),
    /// Its type.
    dtype: Dtype,
    /// What is to be added, in order.
    factors: Mutex<Vec<Factors>>,
    shares: Vec<Mutex<Share>>,
    /// The sum, once somebody asked for it.
    result: OnceLock<Bytes>,
}

/// Some columns of the sum.
#[derive(Debug, Default)]
struct Share {
    /// Products that were added.
    done: usize,
    /// Panel by panel, each from its first row on; empty before the first product.
    sums: Vec<Block>,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Chain {
    /// A sum of products like `first`, which is not among them yet; it begins with nothing, or with what is given.
    pub fn new(rules: &RuleSet, first: &Factors, dtype: Dtype, begin: Option<&[u8]>) -> Chain {
        let (m, n) = (first.rows.length, first.columns.length);
        let panels = n.div_ceil(COLUMNS);
        let each = if first.rows.steps * m * n < LEAST_SHARED { panels } else { SHARE_PANELS };
        let shares = (0..panels.div_ceil(each.max(1))).map(|_| Mutex::default()).collect();
        let (factors, result) = (Mutex::default(), OnceLock::new());
        let chain = Chain { rules: *rules, size: (m, n), dtype, factors, shares, result };
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
        self.shares.len() > 1
    }

    fn share_columns(&self) -> usize {
        let panels = self.size.1.div_ceil(COLUMNS);
        panels.div_ceil(self.shares.len().max(1)) * COLUMNS
    }

    /// Blocks of rows in a panel.
    fn blocks(&self) -> usize {
        self.size.0.div_ceil(ROWS)
    }

    /// Columns that a share has.
    fn columns_of(&self, share: usize) -> usize {
        self.share_columns().min(self.size.1 - share * self.share_columns())
    }

    fn zeros(&self, share: usize) -> Vec<Block> {
        SHELF.filled(self.columns_of(share).div_ceil(COLUMNS) * self.blocks(), [Line::ZERO; ROWS])
    }

    fn begin(&self, bytes: &[u8]) {
        let (n, size) = (self.size.1, self.dtype.size_bytes(1));
        for (index, share) in self.shares.iter().enumerate() {
            let (first, columns) = (index * self.share_columns(), self.columns_of(index));
            let mut sums = self.zeros(index);
            let mut line = vec![0.0; columns.next_multiple_of(COLUMNS)];
            for (at, row) in bytes.chunks_exact(n * size).enumerate() {
                widen(&self.rules, self.dtype, &row[first * size..][..columns * size], &mut line[..columns]);
                for (panel, piece) in line.as_chunks().0.iter().enumerate() {
                    sums[panel * self.blocks() + at / ROWS][at % ROWS].0 = *piece;
                }
            }
            held(share).sums = sums;
        }
    }

    /// Takes one more product; one whose sizes do not fit is left out.
    pub fn push(&self, factors: Factors) {
        let (rows, columns) = (&factors.rows, &factors.columns);
        if (rows.length, columns.length) == self.size && rows.steps == columns.steps && rows.steps > 0 {
            held(&self.factors).push(factors);
        }
    }

    /// Products so far.
    pub fn products(&self) -> usize {
        held(&self.factors).len()
    }

    /// Lets a worker add what is there while the caller goes on, if that is worth one.
    pub fn work_on(self: &Arc<Self>) {
        if self.is_shared() {
            let chain = Arc::clone(self);
            rayon::spawn(move || {
                for index in 0..chain.shares.len() {
                    // What another holds, another adds.
                    if let Ok(mut share) = chain.shares[index].try_lock() {
                        chain.drain(index, &mut share);
                    }
                }
            });
        }
    }

    /// Adds to a share all that it lacks: product by product, so that one stationary operand, one panel and the sums
    /// stay close.
    fn drain(&self, index: usize, share: &mut Share) {
        let missing: Vec<Factors> = held(&self.factors).get(share.done..).unwrap_or_default().to_vec();
        if missing.is_empty() {
            return;
        }
        if share.sums.is_empty() {
            share.sums = self.zeros(index);
        }
        let (add_block, blocks) = (fastest(), self.blocks());
        let (first, count) = (index * self.share_columns() / COLUMNS, share.sums.len() / blocks);
        let panels = missing.iter().flat_map(|Factors { rows, columns }| {
            let panels = columns.groups().chunks_exact(rows.steps).skip(first).take(count);
            panels.enumerate().map(move |(at, panel)| (rows, at * blocks, panel))
        });
        let mut panels = panels.peekable();
        while let Some((rows, at, panel)) = panels.next() {
            // What comes next is fetched meanwhile, a part of it with each block.
            let next: &[Line] = panels.peek().map_or(&[], |(_, _, panel)| panel);
            let mut next = next.chunks(next.len().div_ceil(blocks).max(1));
            let blocks = rows.groups().chunks_exact(rows.steps).zip(&mut share.sums[at..at + blocks]);
            for (block, (a, sums)) in blocks.enumerate() {
                let (used, next) = (self.size.0 - block * ROWS, next.next().unwrap_or_default());
                add_block(Operands { a, used, panel, next }, sums);
            }
        }
        share.done += missing.len();
    }

    /// Adds the rest and gives the sum, which nothing may be added to any more. Threads that add already go on with it,
    /// the caller with what they left.
    pub fn result(&self) -> Bytes {
        let finished = self.result.get_or_init(|| {
            // Workers begin with the first share.
            for (index, share) in self.shares.iter().enumerate().rev() {
                if let Ok(mut share) = share.try_lock() {
                    self.drain(index, &mut share);
                }
            }
            let mut bytes = to_overwrite(self.dtype.size_bytes(self.size.0 * self.size.1));
            self.parts(&mut bytes).into_iter().enumerate().for_each(|part| self.finish_part(part));
            held(&self.factors).clear();
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
        let factors = held(&self.factors).clone();
        factors.par_iter().for_each(Factors::pack);
        parts.into_par_iter().enumerate().for_each(|part| self.finish_part(part));
    }

    /// For each share the rows of its columns.
    fn parts<'a>(&self, bytes: &'a mut [u8]) -> Vec<Vec<&'a mut [u8]>> {
        let ((m, n), size) = (self.size, self.dtype.size_bytes(1));
        let mut parts: Vec<Vec<&mut [u8]>> = self.shares.iter().map(|_| Vec::with_capacity(m)).collect();
        for row in bytes.chunks_exact_mut(n * size) {
            for (part, columns) in parts.iter_mut().zip(row.chunks_mut(self.share_columns() * size)) {
                part.push(columns);
            }
        }
        parts
    }

    fn finish_part(&self, (index, rows): (usize, Vec<&mut [u8]>)) {
        let mut share = held(&self.shares[index]);
        self.drain(index, &mut share);
        self.give(index, &mut share, rows);
    }

    /// Rounds the sums of a share to where they go.
    fn give(&self, index: usize, share: &mut Share, rows: Vec<&mut [u8]>) {
        let columns = self.columns_of(index);
        let sums = std::mem::take(&mut share.sums);
        let mut line = vec![0.0; columns.next_multiple_of(COLUMNS)];
        for (at, row) in rows.into_iter().enumerate() {
            for (panel, piece) in line.as_chunks_mut().0.iter_mut().enumerate() {
                *piece = sums[panel * self.blocks() + at / ROWS][at % ROWS].0;
            }
            narrow(&self.rules, self.dtype, &line[..columns], row);
        }
        SHELF.give(sums);
    }
}

/// The sum of several products, one after the other. Those whose sizes do not fit are left out.
pub fn multiply_packed(rules: &RuleSet, factors: &[Factors], out: Results<'_>) {
    let Results { bytes, dtype, accumulate } = out;
    let Some(first) = factors.first() else { return };
    let chain = Chain::new(rules, first, dtype, accumulate.then_some(&*bytes));
    for one in factors {
        chain.push(one.clone());
    }
    chain.finish(bytes);
}
