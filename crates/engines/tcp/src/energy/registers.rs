//! Reads of the contraction engine's register file: which the read cache answers (vISA book, tensor register file).
//!
//! The cache holds a few rows of each bank, direct mapped on the row number (an assumption). Rows are followed through the loops
//! up to a number of steps; after that the rest is taken to hit and miss in the same proportion.

use tilewright_machine::tcp::Tcp;

use crate::contraction::active_elements;
use crate::cost::image::{flight_bits, packet_width};
use crate::program::Count;
use crate::program::exec::{Contract, Loop, Stream};

/// Steps that are followed one by one.
const FOLLOWED: u64 = 1 << 14;

/// Bytes of all lanes of a slice.
pub(super) struct Reads {
    pub(super) array_bytes: u64,
    pub(super) cached_bytes: u64,
}

/// Rows that the steps of a contraction read on every lane.
pub(super) fn reads(machine: &Tcp, stream: &Stream, contract: &Contract, steps: u64) -> Reads {
    let bits = flight_bits(stream.fetch.leaves()).max(1);
    let whole = packet_width(machine, stream.fetch.leaves(), contract);
    let (step_loops, packet_loops) = split(contract, active_elements(contract).unwrap_or(whole));
    let row_bytes = machine.trf.row_payload_bytes.max(1);
    let runs = runs(&packet_loops, bits);
    let rows = machine.trf.banks.max(1).saturating_mul(machine.trf.cache_rows.max(1));
    let mut cache = vec![u64::MAX; usize::try_from(rows.min(1 << 16)).unwrap_or(1)];
    let (mut hits, mut misses) = (0_u64, 0_u64);
    let mut walk = Walk::new(&step_loops, bits);
    let followed = steps.min(FOLLOWED);
    for _ in 0..followed {
        let at = contract.base.wrapping_add(walk.next_bytes());
        for (first, bytes) in &runs {
            let from = at.wrapping_add(*first) / row_bytes;
            let to = at.wrapping_add(*first).wrapping_add(bytes.saturating_sub(1)) / row_bytes;
            // Neighbouring rows lie in different banks, so the place in the cache is the number modulo all of them.
            for row in from..=to.max(from).min(from.saturating_add(16)) {
                let slot = usize::try_from(row % cache.len() as u64).unwrap_or(0);
                if cache[slot] == row {
                    hits += 1;
                } else {
                    misses += 1;
                }
                cache[slot] = row;
            }
        }
    }
    let scale = |rows: u64| {
        let all = u128::from(rows) * u128::from(steps) / u128::from(followed.max(1));
        let bytes = all.saturating_mul(u128::from(row_bytes)).saturating_mul(u128::from(contract.lanes));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    };
    Reads { array_bytes: scale(misses), cached_bytes: scale(hits) }
}

/// Loops over steps and loops within a packet: the innermost that make its active elements. A loop that goes on past the packet is
/// cut in two.
fn split(contract: &Contract, active: u64) -> (Vec<Loop>, Vec<Loop>) {
    let (mut outer, mut inner) = (contract.loops.clone(), Vec::new());
    let mut missing = active;
    while missing > 1
        && let Some(row) = outer.pop()
    {
        let size = row.size.fixed().max(1);
        if size > missing {
            let stride = row.stride.saturating_mul(i64::try_from(missing).unwrap_or(i64::MAX));
            outer.push(Loop { size: Count::Fixed(size.div_ceil(missing)), stride });
        }
        inner.insert(0, Loop { size: Count::Fixed(size.min(missing)), ..row });
        missing = missing.div_ceil(size);
    }
    (outer, inner)
}

/// The bytes of a packet as runs without gaps: first byte and length, in ascending order.
fn runs(loops: &[Loop], bits: u64) -> Vec<(u64, u64)> {
    /// Elements of a packet that are looked at; no packet has more.
    const MOST: usize = 1024;
    let mut offsets = vec![0_i64];
    for row in loops {
        let size = row.size.fixed().min(MOST as u64).cast_signed();
        let steps = |at: i64| (0..size).map(move |i| at.saturating_add(i.saturating_mul(row.stride)));
        offsets = offsets.iter().flat_map(|at| steps(*at)).take(MOST).collect();
    }
    let mut bytes: Vec<u64> =
        offsets.iter().map(|at| (at.saturating_mul(bits.cast_signed()) / 8).cast_unsigned()).collect();
    bytes.sort_unstable();
    bytes.dedup();
    let element = bits.div_ceil(8);
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for at in bytes {
        match runs.last_mut() {
            Some((first, length)) if first.wrapping_add(*length) == at => *length += element,
            _ => runs.push((at, element)),
        }
    }
    runs
}

/// Walks a nest of loops without forming all of its addresses.
struct Walk<'a> {
    loops: &'a [Loop],
    index: Vec<u64>,
    at: u64,
    bits: u64,
}

impl<'a> Walk<'a> {
    fn new(loops: &'a [Loop], bits: u64) -> Walk<'a> {
        Walk { loops, index: vec![0; loops.len()], at: 0, bits }
    }

    /// The byte of this step; then goes to the next.
    fn next_bytes(&mut self) -> u64 {
        let at = (self.at.cast_signed().wrapping_mul(self.bits.cast_signed()) / 8).cast_unsigned();
        for (row, index) in self.loops.iter().zip(&mut self.index).rev() {
            *index += 1;
            self.at = self.at.wrapping_add(row.stride.cast_unsigned());
            if *index < row.size.fixed() {
                return at;
            }
            self.at = self.at.wrapping_sub(row.stride.cast_unsigned().wrapping_mul(*index));
            *index = 0;
        }
        at
    }
}
