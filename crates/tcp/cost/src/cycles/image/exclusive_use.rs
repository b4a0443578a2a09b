//! What a command keeps others from while it runs: the vector engine, halves of the register file, DMA (vISA
//! book, contexts and the bank rule).

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::memory::payload_bits;
use tilewright_tcp_isa::program::exec::{Commit, Contract, Exec, ExecBody, Loop, Memory, Stream};

use super::held_accesses;
use crate::cycles::switch::bitmap_cycles;
use tilewright_tcp_isa::capped::Capped;

/// What an execution needs for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExclusiveUse {
    /// The vector engine, with the cast engine behind it.
    pub vector: bool,
    /// Halves of the contraction engine's register file that are read: bit 0 the lower, bit 1 the upper.
    pub trf_read: u8,
    /// Halves that are written.
    pub trf_written: u8,
    /// Accesses in a row for which a bank of data memory may be held: DMA must stall while those of all
    /// commands together reach [`Tcp::starvation_accesses`].
    pub bank_accesses: u64,
    /// Cycles at the start in which a switch bitmap is written, while the sub context and DMA stall.
    pub bitmap_cycles: u64,
}

impl ExclusiveUse {
    /// Two commands cannot run side by side: both need the vector engine, or one writes a half that the other
    /// uses.
    pub fn clashes(&self, other: &ExclusiveUse) -> bool {
        let written = self.trf_written & (other.trf_read | other.trf_written);
        let read = self.trf_read & other.trf_written;
        (self.vector && other.vector) || written != 0 || read != 0
    }
}

/// What an execution needs for itself.
pub fn exclusive_use(machine: &Tcp, exec: &Exec) -> ExclusiveUse {
    match &exec.body {
        ExecBody::Stream(stream) => ExclusiveUse {
            vector: stream.vector.is_some() || stream.cast.is_some(),
            trf_read: stream.contract.as_ref().map_or(0, |contract| halves_read(machine, stream, contract)),
            trf_written: halves_written(machine, &stream.commit),
            bank_accesses: held_accesses(machine, exec),
            bitmap_cycles: bitmap_cycles(machine, stream.switch.topology),
        },
        ExecBody::Fill(fill) => ExclusiveUse {
            trf_written: halves_written(machine, &fill.commit),
            bank_accesses: held_accesses(machine, exec),
            ..ExclusiveUse::default()
        },
        ExecBody::Short(short) => {
            let trf_written = match short.memory {
                Memory::Trf { lanes } => {
                    halves(part_bytes(machine, lanes), short.base, short.bytes.saturating_sub(1))
                }
                _ => 0,
            };
            ExclusiveUse {
                trf_written,
                bank_accesses: held_accesses(machine, exec),
                ..ExclusiveUse::default()
            }
        }
    }
}

/// Bytes that a lane has of the register file.
fn part_bytes(machine: &Tcp, lanes: u64) -> u64 {
    machine.trf_lane_payload_bytes().capped_mul(machine.ce.lanes) / lanes.max(1)
}

fn halves_read(machine: &Tcp, stream: &Stream, contract: &Contract) -> u8 {
    let bits = payload_bits(stream.fetch.leaves()).max(1);
    let strides = contract.loops.iter().map(|row| (row.size.fixed(), row.stride));
    let read = reach(strides, bits, bits);
    halves(part_bytes(machine, contract.lanes), contract.base.saturating_sub(read.below), read.more)
}

fn halves_written(machine: &Tcp, commit: &Commit) -> u8 {
    let Memory::Trf { lanes } = commit.memory else { return 0 };
    let part = part_bytes(machine, lanes).max(1);
    let within = commit.loops.iter().filter(|row| !row.stride.unsigned_abs().is_multiple_of(part));
    let strides = within.map(|row: &Loop| (row.size.fixed(), row.stride));
    let written = reach(strides, 8, commit.bytes.capped_mul(8));
    halves(part, commit.base.saturating_sub(written.below), written.more)
}

/// Bytes that a nest touches.
struct ByteReach {
    /// Bytes before the first address.
    below: u64,
    /// Bytes after the lowest one.
    more: u64,
}

/// How far a nest goes, whose strides count units of so many bits and whose steps touch `run_bits`.
fn reach(loops: impl Iterator<Item = (u64, i64)>, unit_bits: u64, run_bits: u64) -> ByteReach {
    let (below, above) = loops.fold((0, 0), |(below, above): (u64, u64), (size, stride)| {
        let steps = size.saturating_sub(1);
        let bits = stride.unsigned_abs().capped_mul(unit_bits).capped_mul(steps);
        if stride < 0 { (below.capped_add(bits), above) } else { (below, above.capped_add(bits)) }
    });
    let below_bytes = below.div_ceil(8);
    let last_bits = above.capped_add(run_bits.max(1) - 1);
    ByteReach { below: below_bytes, more: below_bytes.capped_add(last_bits / 8) }
}

/// The halves of a lane's part that a byte and those `more` after it touch.
fn halves(part_bytes: u64, first: u64, more: u64) -> u8 {
    let half = (part_bytes / 2).max(1);
    let at = first % part_bytes.max(1);
    if more >= half {
        return 0b11;
    }
    (1 << (at / half).min(1)) | (1 << (at.capped_add(more) / half % 2))
}
