//! The loop sequencer shared by fetch, commit and register-file walks: at most eight merged entries, each of
//! bounded size, and the widest access that an address pattern allows (vISA book).

use tilewright_base::invariant::OrBroken;
use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::access::AccessPattern;

use crate::capped::Capped;
use crate::program::Count;
use crate::program::exec::Loop;

/// Why a pattern does not fit a sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequencerError {
    /// More loops than entries.
    Entries(usize),
    /// A loop longer than an entry counts.
    Size(u64),
}

/// Entries that the merged pattern takes; a loop too long for one entry is cut into several.
pub fn entries(machine: &Tcp, merged: &AccessPattern) -> Result<usize, SequencerError> {
    let mut entries = 0;
    for access in &merged.loops {
        entries += entries_of(access.size, machine.sequencer.entry_size_max)
            .ok_or(SequencerError::Size(access.size))?;
    }
    if entries as u64 > machine.sequencer.entries {
        Err(SequencerError::Entries(entries))
    } else {
        Ok(entries)
    }
}

/// As few factors as may be, each small enough for an entry; `None` if a prime factor is too large.
fn entries_of(size: u64, most: u64) -> Option<usize> {
    let (mut rest, mut entries) = (size, 1);
    while rest > most {
        let factor = (2..=most).rev().find(|factor| rest.is_multiple_of(*factor))?;
        rest /= factor;
        entries += 1;
    }
    Some(entries)
}

/// Bytes of one access of the main fetch unit: the widest that divides the contiguous run and the packet.
pub fn read_bytes(machine: &Tcp, merged: &AccessPattern, packet_elements: u64, element_bits: u64) -> u64 {
    let run = match merged.loops.last() {
        Some(inner) if inner.stride == 1 => inner.size,
        _ => 1,
    };
    let access_bits = gcd(packet_elements, run).capped_mul(element_bits);
    let widths = machine.fetch.main_widths_bytes.iter().copied();
    let widest = widths.clone().filter(|width| access_bits.is_multiple_of(width * 8)).max();
    widest.or(widths.min()).or_broken("a machine has widths of fetches")
}

/// Elements that the innermost loops read side by side; 1 if they do not.
pub fn innermost_run(loops: &[Loop]) -> u64 {
    let mut run = 1_u64;
    for row in loops.iter().rev().filter(|row| row.size != Count::Fixed(1)) {
        // How often a loop runs that a register counts is not known.
        if u64::try_from(row.stride) != Ok(run) || matches!(row.size, Count::Register(_)) {
            break;
        }
        run = run.capped_mul(row.size.fixed());
    }
    run
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}
