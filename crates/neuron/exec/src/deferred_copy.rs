//! Copies of sums that are still being added up: the kernel goes on, and whoever looks at the copy first
//! waits for the sum. Values are those of a copy made at once; only the time at which the host computes them
//! differs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tilewright_neuron_isa::TensorView;
use tilewright_num::{Dtype, RuleSet};

use crate::buffer_pool::SharedBytes;
use crate::convert::change_type;
use crate::matmul::AccumulationChain;

/// Sums that may be unfinished at once: enough that no thread of the host runs out of them, few enough that
/// their operands are no burden.
const MAX_UNFINISHED: usize = 8;

static UNFINISHED: Mutex<VecDeque<Weak<AccumulationChain>>> = Mutex::new(VecDeque::new());

/// Lets a sum be finished later; waits for the oldest one if there are many.
pub(crate) fn defer_finish(chain: &Arc<AccumulationChain>) {
    let oldest = {
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.push_back(Arc::downgrade(chain));
        if unfinished.len() > MAX_UNFINISHED { unfinished.pop_front() } else { None }
    };
    chain.advance();
    if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
        oldest.result();
    }
}

/// A copy that is still to be made.
#[derive(Debug)]
pub(crate) struct DeferredCopy {
    /// Where the elements go.
    pub(crate) view: TensorView,
    /// The view is all of its tensor, in order.
    pub(crate) whole: bool,
    /// What is copied.
    pub(crate) sum: Arc<AccumulationChain>,
    /// How numbers change their type.
    pub(crate) rules: RuleSet,
}

impl DeferredCopy {
    /// The sum, if a tensor of that type holds it unchanged.
    pub(crate) fn unchanged(&self, dtype: Dtype) -> Option<&Arc<AccumulationChain>> {
        let same = self.whole && self.sum.dtype() == dtype && self.view.dtype == dtype;
        same.then_some(&self.sum)
    }

    /// Its elements, in order.
    pub(crate) fn bytes(&self) -> SharedBytes {
        let (from, to) = (self.sum.dtype(), self.view.dtype);
        let sums = self.sum.result();
        if from == to { sums } else { change_type(&self.rules, (from, &sums), to, false).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::copy;
    use crate::matmul::{
        MatmulOperands, OperandRows, PackedColumns, PackedRows, ResultRows, multiply_packed,
    };
    use crate::{Storage, Tile};
    use tilewright_neuron_isa::MemorySpace;
    use tilewright_neuron_isa::TensorDecl;

    const RULES: RuleSet = RuleSet::NEURON;
    const SIZE: (usize, usize, usize) = (128, 128, 256);

    fn tile(id: u32, memory: MemorySpace, dtype: Dtype, shape: &[usize]) -> Tile {
        let shape = shape.to_vec();
        let view = TensorView::whole(&shape, dtype, 0);
        let request = TensorDecl { id, memory, dtype, shape, blocks: 0, name: String::new(), source: 0 };
        Tile { storage: Arc::new(Storage::poisoned(request).unwrap()), view }
    }

    fn factors(seed: usize) -> MatmulOperands {
        let (steps, m, n) = SIZE;
        let rows = |length: usize| {
            let value = |at: usize| (((at + seed) * 7919 % 1009) as f32 / 331.0 - 1.5).to_le_bytes();
            let bytes = (0..steps * length).flat_map(value).collect::<Vec<u8>>().into();
            OperandRows { bytes, dtype: Dtype::F32, offset: 0, pitch: length, length, steps }
        };
        let (rows, columns) = (PackedRows::new(&RULES, rows(m)), PackedColumns::new(&RULES, rows(n)));
        MatmulOperands { rows: Arc::new(rows), columns: Arc::new(columns) }
    }

    /// The sum of products, added at once.
    fn expected(seeds: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; SIZE.1 * SIZE.2 * 4];
        let factors: Vec<MatmulOperands> = seeds.map(factors).collect();
        let out = ResultRows { bytes: &mut bytes, dtype: Dtype::F32, accumulate: false };
        multiply_packed(&RULES, &factors, out);
        bytes
    }

    fn add(psum: &Tile, seeds: std::ops::Range<usize>, accumulate: bool) {
        for seed in seeds.clone() {
            psum.storage.defer_product(RULES, factors(seed), accumulate || seed > seeds.start);
        }
    }

    fn bytes(tile: &Tile) -> Vec<u8> {
        tile.packed(&tile.storage.lock())
    }

    #[test]
    fn a_copy_holds_the_sum_of_its_time_whatever_is_added_later() {
        let psum = tile(0, MemorySpace::Psum, Dtype::F32, &[SIZE.1, SIZE.2]);
        let copies: Vec<Tile> =
            (1..6).map(|id| tile(id, MemorySpace::Sbuf, Dtype::F32, &[SIZE.1, SIZE.2])).collect();
        add(&psum, 0..6, false);
        assert!(!copy(&RULES, &copies[0], &psum));
        // A copy of the copy, further products, and a sum that begins anew.
        assert!(!copy(&RULES, &copies[1], &copies[0]));
        add(&psum, 6..9, true);
        assert!(!copy(&RULES, &copies[2], &psum));
        add(&psum, 9..11, false);
        assert!(!copy(&RULES, &copies[3], &psum));
        assert!(!copy(&RULES, &copies[4], &psum));
        add(&copies[4], 11..13, true);
        for (copy, seeds) in copies.iter().zip([0..6, 0..6, 0..9, 9..11, 9..13]) {
            assert!(bytes(copy) == expected(seeds.clone()), "{seeds:?}");
        }
        assert!(bytes(&psum) == expected(9..11));
    }

    #[test]
    fn many_copies_fill_their_places_and_no_others() {
        const ROWS: usize = 20;
        let (_, m, n) = SIZE;
        let out = tile(0, MemorySpace::Hbm, Dtype::Bf16, &[ROWS * m, n + 32]);
        let part = |row: usize| {
            let mut part = out.clone();
            part.view.slice(0, row * m, m, 1).unwrap();
            part.view.slice(1, 32, n, 1).unwrap();
            part
        };
        for row in 0..ROWS {
            let psum = tile(1, MemorySpace::Psum, Dtype::F32, &[m, n]);
            add(&psum, row..row + 2, false);
            assert!(!copy(&RULES, &part(row), &psum));
        }
        assert_eq!(out.storage.lock().unwritten_bytes(), ROWS * m * 32 * 2);
        for row in 0..ROWS {
            let sums = expected(row..row + 2);
            assert!(
                bytes(&part(row)) == change_type(&RULES, (Dtype::F32, &sums), Dtype::Bf16, true),
                "{row}"
            );
        }
    }
}
