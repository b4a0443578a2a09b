//! The bank rule: DMA needs all banks of a slice at once and comes last, so no bank may be held for 64
//! accesses in a row.
//!
//! From the vISA book: a DMA request that waits longer than the network's time-out resets the cluster; the
//! machine derives the 64 from its time-out (`starvation_accesses`). Computed exactly here: accesses are
//! followed through the loop nest from every phase of the banks at once, and loops fold by powers of two, so
//! that the cost depends on their sizes by a logarithm.

use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::access::AccessLoop;
use tilewright_tcp_isa::capped::Capped;

/// The longest run of consecutive accesses that touch one bank, for loops in bytes, outermost first, and
/// accesses of `width_bytes`.
pub fn longest_hold(machine: &Tcp, loops_bytes: &[AccessLoop], width_bytes: u64) -> u64 {
    let (banks, bank_bytes) = (machine.dm.banks, machine.dm.bank_access_bytes);
    let sweep = banks * bank_bytes;
    let accesses = loops_bytes.iter().fold(1_u64, |all, access| all.capped_mul(access.size));
    if sweeps_all_banks(loops_bytes, width_bytes, sweep) {
        // A sweep passes each bank at most once, and meets the next sweep at most in one bank.
        return accesses.min(2 * bank_bytes.div_ceil(width_bytes));
    }
    if accesses < machine.starvation_accesses() {
        return walked_hold(loops_bytes, width_bytes, banks, bank_bytes, accesses);
    }
    let held = runs_by_phase(loops_bytes, width_bytes, bank_bytes, sweep);
    let banks = held.iter().step_by(to_index(bank_bytes));
    banks.map(|runs| runs.best).max().or_broken("data memory has banks")
}

/// Few accesses, one by one.
fn walked_hold(
    loops_bytes: &[AccessLoop],
    width_bytes: u64,
    banks: u64,
    bank_bytes: u64,
    accesses: u64,
) -> u64 {
    let mut held = vec![0_u64; to_index(banks)];
    let mut best = 0;
    for access in 0..accesses {
        let (mut rest, mut address) = (access, 0_u64);
        for row in loops_bytes.iter().rev() {
            address = address.wrapping_add((rest % row.size).wrapping_mul(row.stride));
            rest /= row.size;
        }
        let (first, last) = (address / bank_bytes, address.capped_add(width_bytes - 1) / bank_bytes);
        for (bank, run) in (0..).zip(&mut held) {
            let ahead = (bank + banks - first % banks) % banks;
            *run = if ahead <= last - first { *run + 1 } else { 0 };
            best = best.max(*run);
        }
    }
    best
}

/// The innermost loop reads on without a gap past every bank.
fn sweeps_all_banks(loops_bytes: &[AccessLoop], width_bytes: u64, sweep: u64) -> bool {
    loops_bytes.last().is_some_and(|inner| inner.stride == width_bytes && inner.size * width_bytes >= sweep)
}

/// Summary of a sequence of accesses with respect to one bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BankRuns {
    accesses: u64,
    /// Held from the start.
    prefix: u64,
    /// Held until the end.
    suffix: u64,
    best: u64,
}

impl BankRuns {
    const NONE: BankRuns = BankRuns { accesses: 0, prefix: 0, suffix: 0, best: 0 };

    fn one(touches: bool) -> BankRuns {
        let run = u64::from(touches);
        BankRuns { accesses: 1, prefix: run, suffix: run, best: run }
    }

    fn then(self, next: BankRuns) -> BankRuns {
        let all = |held: BankRuns| held.prefix == held.accesses;
        BankRuns {
            accesses: self.accesses.capped_add(next.accesses),
            prefix: if all(self) { self.accesses.capped_add(next.prefix) } else { self.prefix },
            suffix: if all(next) { next.accesses.capped_add(self.suffix) } else { next.suffix },
            best: self.best.max(next.best).max(self.suffix.capped_add(next.prefix)),
        }
    }
}

/// What accesses of loops hold of the first bank, by the phase of the address that they start at, modulo one
/// sweep. Another bank is held as the first is from so many bytes earlier on.
fn runs_by_phase(loops_bytes: &[AccessLoop], width_bytes: u64, bank_bytes: u64, sweep: u64) -> Vec<BankRuns> {
    let touches = |phase: u64| phase < bank_bytes || phase + width_bytes > sweep;
    let single = (0..sweep).map(|phase| BankRuns::one(touches(phase))).collect();
    loops_bytes.iter().rev().fold(single, |held, access| {
        let step = to_index(access.stride % sweep);
        repeated(held, step, access.size)
    })
}

/// `count` runs of a body that starts `step` later each time, modulo the number of phases: by powers of two.
fn repeated(held: Vec<BankRuns>, step: usize, count: u64) -> Vec<BankRuns> {
    let size = held.len();
    let (mut power, mut covered) = (held, step);
    let (mut all, mut done) = (vec![BankRuns::NONE; size], 0);
    let mut left = count;
    loop {
        if left & 1 == 1 {
            all = (0..size).map(|phase| all[phase].then(power[(phase + done) % size])).collect();
            done = (done + covered) % size;
        }
        left >>= 1;
        if left == 0 {
            return all;
        }
        power = (0..size).map(|phase| power[phase].then(power[(phase + covered) % size])).collect();
        covered = 2 * covered % size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks every access: the reference of the folded computation.
    fn walk(loops: &[AccessLoop], width: u64, banks: u64, bank_bytes: u64) -> u64 {
        let mut addresses = vec![0_u64];
        for access in loops {
            addresses =
                addresses.iter().flat_map(|a| (0..access.size).map(move |i| a + i * access.stride)).collect();
        }
        (0..banks)
            .map(|bank| {
                let (mut run, mut best) = (0, 0);
                for address in &addresses {
                    let touched = (address / bank_bytes..=(address + width - 1) / bank_bytes)
                        .any(|touched| touched % banks == bank);
                    run = if touched { run + 1 } else { 0 };
                    best = best.max(run);
                }
                best
            })
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn folding_equals_walking() {
        let sizes = [1, 2, 3, 5, 16, 40];
        let strides = [0, 1, 8, 24, 32, 100, 128, 136, 384];
        for (i, &outer) in strides.iter().enumerate() {
            for (j, &inner) in strides.iter().enumerate() {
                for width in [1, 8, 32] {
                    let loops = [
                        AccessLoop::new(sizes[i % sizes.len()], outer),
                        AccessLoop::new(7, 64),
                        AccessLoop::new(sizes[j % sizes.len()], inner),
                    ];
                    let held = runs_by_phase(&loops, width, 8, 128);
                    let folded = held.iter().step_by(8).map(|runs| runs.best).max();
                    let walked = walk(&loops, width, 16, 8);
                    assert_eq!(folded, Some(walked), "{loops:?} width {width}");
                    let accesses = loops.iter().map(|row| row.size).product();
                    assert_eq!(
                        walked_hold(&loops, width, 16, 8, accesses),
                        walked,
                        "{loops:?} width {width}"
                    );
                }
            }
        }
    }
}
