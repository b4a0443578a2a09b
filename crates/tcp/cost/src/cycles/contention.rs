//! How the two contexts of a slice slow each other: ports of the register file and banks of data memory (vISA
//! book, tensor register file and data memory). The main context always wins, so only the sub context gets
//! longer.
//!
//! Each rule is held to a simulation by the cycle (`crates/tcp/micro/tests/proof/contexts.rs`), which states
//! how close it is.

use tilewright_machine::tcp::Tcp;

use super::load::{self, LoadStage};
use tilewright_tcp_isa::capped::{Capped, capped};

/// What a contraction reads from the register file while another command stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractionReads {
    /// A step reads a row of every bank. Narrow reads that stay in one bank count as wide.
    pub wide: bool,
    /// Steps whose read misses the cache and takes the port; the others leave it free.
    pub missed_steps: u64,
}

/// Cycles for which a load that starts together with a contraction of `contraction_cycles` runs on after it.
///
/// A read that misses takes the port of its banks for a cycle and beats a store. Wide reads take all banks,
/// so that stores proceed only in the cycles that are left; narrow reads go from bank to bank, and a store
/// waits only for those of its own. For wide reads this is within 64 cycles of the simulation; for narrow
/// reads that all miss within a fourteenth of them, and if some hit it is the mean: by how stores and reads
/// fall together a store waits for none of them or for all.
pub fn exposed_load_cycles(
    machine: &Tcp,
    reads: &ContractionReads,
    load: &LoadStage,
    contraction_cycles: u64,
) -> u64 {
    let free = contraction_cycles.saturating_sub(blocked_cycles(machine, reads));
    load::stream_cycles(machine, load).saturating_sub(free)
}

/// Cycles of a contraction in which no store proceeds: see [`exposed_load_cycles`].
pub fn blocked_cycles(machine: &Tcp, reads: &ContractionReads) -> u64 {
    if reads.wide { reads.missed_steps } else { reads.missed_steps / machine.trf.banks.max(1) }
}

/// Accesses to data memory, one a cycle: access `i` is at `base_bytes + i * stride_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankWalk {
    /// First address.
    pub base_bytes: u64,
    /// Distance of neighbouring accesses.
    pub stride_bytes: u64,
    /// Bytes of an access.
    pub width_bytes: u64,
}

impl BankWalk {
    /// Whether access `at` of this walk and access `other_at` of another meet in a bank.
    fn meets(&self, machine: &Tcp, at: u64, other: &BankWalk, other_at: u64) -> bool {
        let (first, count) = self.banks(machine, at);
        let (other_first, other_count) = other.banks(machine, other_at);
        let banks = machine.dm.banks;
        let ahead = (other_first + banks - first) % banks;
        ahead < count || ahead + other_count > banks
    }

    /// First bank of an access, and how many it touches.
    pub(super) fn banks(&self, machine: &Tcp, at: u64) -> (u64, u64) {
        let (banks, bank_bytes) = (machine.dm.banks, machine.dm.bank_access_bytes);
        let sweep = banks.capped_mul(bank_bytes);
        let address =
            (self.base_bytes % sweep).capped_add((at % sweep).capped_mul(self.stride_bytes % sweep));
        let offset = address % bank_bytes;
        let touched = offset.capped_add(self.width_bytes.clamp(1, sweep)).div_ceil(bank_bytes);
        (address / bank_bytes % banks, touched.min(banks))
    }
}

/// Accesses of the sub context that are served in so many cycles of a main context that never pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankSlowdown {
    /// Accesses.
    pub served: u64,
    /// Cycles.
    pub cycles: u64,
}

/// At which rate a walk of the sub context proceeds while one of the main context runs, in the long run.
///
/// Addresses repeat modulo one sweep over all banks, so the two walks are followed until they stand to each
/// other as before.
pub fn bank_slowdown(machine: &Tcp, main: &BankWalk, sub: &BankWalk) -> BankSlowdown {
    let period = machine.dm.banks.capped_mul(machine.dm.bank_access_bytes).max(1);
    let mut at = 0;
    // After one period of the main walk for each place of the sub walk, the two repeat.
    let settle =
        |from: u64| (0..period).fold(from, |sub_at, main_at| step(machine, main, main_at, sub, sub_at));
    for _ in 0..period {
        at = settle(at);
        if at >= period {
            break;
        }
    }
    let (start, mut periods) = (at % period, 0);
    let mut served = start;
    loop {
        served = settle(served);
        periods += 1;
        if served % period == start || periods == period {
            break;
        }
    }
    BankSlowdown { served: served - start, cycles: periods * period }
}

/// Cycles until a fetch unit and the commit unit of the same context are both done, where they meet in banks:
/// at best the longer of the two, at worst their sum. `read_cycles` and `written_cycles` are their accesses,
/// one a cycle. By simulation it takes no longer, but for a cycle for each access of the unit that has fewer.
pub fn meeting_cycles(
    machine: &Tcp,
    reads: &BankWalk,
    read_cycles: u64,
    writes: &BankWalk,
    written_cycles: u64,
) -> u64 {
    let slowdown = bank_slowdown(machine, reads, writes);
    let both = read_cycles.capped_add(written_cycles);
    contended_cycles(&slowdown, read_cycles, written_cycles).clamp(read_cycles.max(written_cycles), both)
}

fn step(machine: &Tcp, main: &BankWalk, main_at: u64, sub: &BankWalk, sub_at: u64) -> u64 {
    sub_at + u64::from(!main.meets(machine, main_at, sub, sub_at))
}

/// Cycles until `sub_accesses` are served while a main context runs that is busy for `main_cycles`: at best
/// the longer of the two, at worst their sum.
pub fn contended_cycles(slowdown: &BankSlowdown, main_cycles: u64, sub_accesses: u64) -> u64 {
    let meanwhile =
        u128::from(main_cycles) * u128::from(slowdown.served) / u128::from(slowdown.cycles.max(1));
    let meanwhile = capped(meanwhile);
    if sub_accesses > meanwhile {
        return main_cycles.capped_add(sub_accesses - meanwhile);
    }
    let cycles =
        (u128::from(sub_accesses) * u128::from(slowdown.cycles)).div_ceil(u128::from(slowdown.served.max(1)));
    capped(cycles)
}
