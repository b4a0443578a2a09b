//! Sequencer entries from nested loops: neighbours joined, sizes cut to what an entry counts (vISA book,
//! sequencer).

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;

use tilewright_tcp_isa::program::exec::{Limit, Loop};
use tilewright_tcp_isa::program::{Count, RegisterId};

/// A loop of a sequencer that is being made.
#[derive(Clone, Copy, Debug)]
pub(super) struct SequencerLoop {
    /// Iterations, the most of them if a register counts.
    pub(super) size: u64,
    /// The register that counts.
    pub(super) by: Option<RegisterId>,
    /// Between iterations.
    pub(super) stride: u64,
}

impl SequencerLoop {
    /// A loop whose size is known.
    pub(super) fn of(size: u64, stride: u64) -> SequencerLoop {
        SequencerLoop { size, by: None, stride }
    }

    /// Its size as the registers hold it.
    pub(super) fn count(self) -> Count {
        self.by.map_or(Count::Fixed(self.size), Count::Register)
    }
}

/// Entries as the registers take them: merged, and long loops cut in two or more.
pub(super) fn entries(machine: &Tcp, loops: &[SequencerLoop]) -> Vec<Loop> {
    masked_entries(machine, loops, &mut [])
}

/// The same for a fetch with limits, whose weights follow the loops.
pub(super) fn masked_entries(machine: &Tcp, loops: &[SequencerLoop], limits: &mut [Limit]) -> Vec<Loop> {
    let mut nest = LoopNest { rows: Vec::new() };
    for (index, row) in loops.iter().enumerate() {
        let weights = limits
            .iter()
            .map(|limit| limit.weights.get(index).copied().or_broken("a limit weighs every loop"))
            .collect();
        nest.push(WeightedLoop { size: row.size, by: row.by, stride: signed(row.stride), weights });
    }
    nest.cut(machine.sequencer.entry_size_max);
    for (at, limit) in limits.iter_mut().enumerate() {
        limit.weights = nest.rows.iter().map(|row| row.weights[at]).collect();
    }
    let count = |row: &WeightedLoop| row.by.map_or(Count::Fixed(row.size), Count::Register);
    nest.rows.iter().map(|row| Loop { size: count(row), stride: row.stride }).collect()
}

#[derive(Clone)]
struct WeightedLoop {
    size: u64,
    by: Option<RegisterId>,
    stride: i64,
    weights: Vec<u64>,
}

struct LoopNest {
    rows: Vec<WeightedLoop>,
}

impl LoopNest {
    /// Joins what runs like one loop, for addresses and limits alike; leaves out loops of one iteration.
    fn push(&mut self, inner: WeightedLoop) {
        match self.rows.last_mut() {
            _ if inner.size == 1 && inner.by.is_none() => {}
            Some(outer) if joins(outer, &inner) => {
                outer.size *= inner.size;
                outer.stride = inner.stride;
                outer.weights = inner.weights;
            }
            _ => self.rows.push(inner),
        }
    }

    /// Cuts loops into factors that entries can count; a prime too large stays whole and is refused by
    /// `verify`.
    fn cut(&mut self, most: u64) {
        let mut rows = Vec::new();
        for row in self.rows.drain(..) {
            let mut inner = Vec::new();
            let mut rest = row;
            while rest.size > most && rest.by.is_none() {
                let Some(factor) = (2..=most).rev().find(|factor| rest.size.is_multiple_of(*factor)) else {
                    break;
                };
                inner.push(WeightedLoop { size: factor, ..rest.clone() });
                rest.size /= factor;
                rest.stride = rest.stride.exact_mul(signed(factor));
                rest.weights.iter_mut().for_each(|weight| *weight = weight.exact_mul(factor));
            }
            rows.push(rest);
            rows.extend(inner.into_iter().rev());
        }
        self.rows = rows;
    }
}

fn joins(outer: &WeightedLoop, inner: &WeightedLoop) -> bool {
    let times = |stride: i64| signed(inner.size).checked_mul(stride);
    let weights = outer.weights.iter().zip(&inner.weights);
    let counted = outer.by.or(inner.by).is_some();
    !counted
        && times(inner.stride) == Some(outer.stride)
        && weights.into_iter().all(|(a, b)| b.checked_mul(inner.size) == Some(*a))
}

/// A stride as registers hold it.
pub(super) fn signed(stride: u64) -> i64 {
    i64::try_from(stride).or_broken("a stride inside a memory fits 63 bits")
}
