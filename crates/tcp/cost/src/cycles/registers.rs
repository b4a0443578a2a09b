//! Reads of the contraction engine's register file: which the read cache answers (vISA book, tensor register
//! file).
//!
//! The cache holds a few rows of each bank, direct mapped on the row number (an assumption). Rows are
//! followed through the loops up to a number of steps; after that the rest is taken to hit and miss in the
//! same proportion.

use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::contraction::{active_elements, packet_elements};
use tilewright_tcp_isa::memory::payload_bits;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{Contract, Loop, Stream};

use super::contention::ContractionReads;
use tilewright_tcp_isa::capped::{Capped, capped};

/// Steps that are followed one by one.
const FOLLOWED: u64 = 1 << 14;

/// What the steps of a contraction read on every lane of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterReads {
    /// Bytes of all lanes that come from the arrays.
    pub array_bytes: u64,
    /// Bytes of all lanes that the caches answer.
    pub cached_bytes: u64,
    /// Which steps take the ports of the banks.
    pub ports: ContractionReads,
}

/// Reads that were followed.
#[derive(Debug)]
struct CacheTally {
    hits: u64,
    misses: u64,
    /// Steps that missed in some bank, and in each bank.
    missed_steps: u64,
    missed_in: Vec<u64>,
}

/// Follows the rows that the steps of a contraction read on every lane.
pub fn reads(machine: &Tcp, stream: &Stream, contract: &Contract, steps: u64) -> RegisterReads {
    let followed = steps.min(FOLLOWED);
    let seen = follow(machine, stream, contract, followed);
    let all = |seen: u64| u128::from(seen) * u128::from(steps) / u128::from(followed.max(1));
    let bytes = |rows: u64| {
        let row_bytes = u128::from(machine.trf.row_payload_bytes.max(1));
        let bytes = all(rows).capped_mul(row_bytes).capped_mul(u128::from(contract.lanes));
        capped(bytes)
    };
    // Reads that keep to one bank, or always take all of them, leave a store to the fullest bank nothing.
    let fullest = seen.missed_in.iter().copied().max().or_broken("a register file has banks");
    let missed_steps = capped(all(seen.missed_steps));
    RegisterReads {
        array_bytes: bytes(seen.misses),
        cached_bytes: bytes(seen.hits),
        ports: ContractionReads { wide: fullest == seen.missed_steps, missed_steps },
    }
}

fn follow(machine: &Tcp, stream: &Stream, contract: &Contract, steps: u64) -> CacheTally {
    let bits = payload_bits(stream.fetch.leaves()).max(1);
    let whole = packet_elements(machine, stream.fetch.leaves(), contract);
    let (step_loops, packet_loops) = split(contract, active_elements(contract).unwrap_or(whole));
    let (row_bytes, banks) = (machine.trf.row_payload_bytes.max(1), machine.trf.banks.max(1));
    let runs = runs(&packet_loops, bits);
    let rows = banks.capped_mul(machine.trf.cache_rows.max(1));
    let mut cache = vec![u64::MAX; to_index(rows.min(1 << 16))];
    let missed_in = vec![0_u64; to_index(banks.min(1 << 16))];
    let mut seen = CacheTally { hits: 0, misses: 0, missed_steps: 0, missed_in };
    let mut walk = LoopNestWalk::new(&step_loops, bits);
    // The step in which each bank was last missed, counted from 1.
    let mut missed_at = vec![0_u64; seen.missed_in.len()];
    for step in 1..=steps {
        let at = contract.base.wrapping_add(walk.next_bytes());
        let before = seen.misses;
        for (first, bytes) in &runs {
            let from = at.wrapping_add(*first) / row_bytes;
            let to = at.wrapping_add(*first).wrapping_add(bytes.saturating_sub(1)) / row_bytes;
            // Neighbouring rows lie in different banks, so the place in the cache is the number modulo all of
            // them.
            for row in from..=to.max(from).min(from.capped_add(16)) {
                let slot = to_index(row % cache.len() as u64);
                if cache[slot] == row {
                    seen.hits += 1;
                    continue;
                }
                cache[slot] = row;
                seen.misses += 1;
                let bank = to_index(row % missed_at.len() as u64);
                seen.missed_in[bank] += u64::from(std::mem::replace(&mut missed_at[bank], step) != step);
            }
        }
        seen.missed_steps += u64::from(seen.misses > before);
    }
    seen
}

/// Loops over steps and loops within a packet: the innermost that make its active elements. A loop that goes
/// on past the packet is cut in two.
fn split(contract: &Contract, active: u64) -> (Vec<Loop>, Vec<Loop>) {
    let (mut outer, mut inner) = (contract.loops.clone(), Vec::new());
    let mut missing = active;
    while missing > 1
        && let Some(row) = outer.pop()
    {
        let size = row.size.fixed().max(1);
        if size > missing {
            let stride = row.stride.capped_mul(missing.min(i64::MAX.unsigned_abs()).cast_signed());
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
        let steps = |at: i64| (0..size).map(move |i| at.capped_add(i.capped_mul(row.stride)));
        offsets = offsets.iter().flat_map(|at| steps(*at)).take(MOST).collect();
    }
    let mut bytes: Vec<u64> =
        offsets.iter().map(|at| (at.capped_mul(bits.cast_signed()) / 8).cast_unsigned()).collect();
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
struct LoopNestWalk<'a> {
    loops: &'a [Loop],
    index: Vec<u64>,
    at: u64,
    bits: u64,
}

impl<'a> LoopNestWalk<'a> {
    fn new(loops: &'a [Loop], bits: u64) -> LoopNestWalk<'a> {
        LoopNestWalk { loops, index: vec![0; loops.len()], at: 0, bits }
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
