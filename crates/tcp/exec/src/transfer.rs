//! DMA: paired loops over source and target, packet by packet in loop order, with rows by index (vISA book,
//! DMA engine).
//!
//! Any medium to any medium. A packet is read whole before it is written. Inner loops that step through
//! neighbours on both sides become part of the packet; a transfer whose source and target overlap that
//! closely races with itself.

use std::collections::BTreeSet;

use tilewright_base::invariant::Exact;
use tilewright_machine::tcp::Tcp;
use tilewright_num::{Dtype, int_value};
use tilewright_tcp_isa::address_space::AddressSpace;
use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::Transfer;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, TransferIndex};

use super::fault::{ExecFault, ExecProblem, ExecStage, product};
use super::packets::load_bits;
use super::state::MemoryState;
use crate::limits::{MAX_SLICE, index};

/// Most bytes that are read before they are written when packets are joined.
const JOINED_BYTES: u64 = 1 << 16;

/// Most bytes of a packet.
const MAX_PACKET_BYTES: u64 = 1 << 26;

/// One loop: size, strides at source and target.
type PairedLoop = (u64, i64, i64);

/// Runs one transfer of a program whose PEs share everything. Every size in it is a number.
///
/// # Errors
/// Bytes where no memory is, more bytes than a command may move. Packets before the one at fault are written.
pub fn transfer(machine: &Tcp, state: &mut MemoryState, transfer: &Transfer) -> Result<(), ExecFault> {
    transfer_within(machine, state, transfer, None)
}

/// Runs one transfer of a PE that may touch a part of the memories: each packet, and each entry of a table of
/// rows, is checked when it moves.
///
/// # Errors
/// As [`transfer`], and bytes that are not granted.
pub fn transfer_within(
    machine: &Tcp,
    state: &mut MemoryState,
    transfer: &Transfer,
    space: Option<&AddressSpace>,
) -> Result<(), ExecFault> {
    let fail = |problem: ExecProblem| problem.at(ExecStage::Dma);
    let mut rows: Vec<PairedLoop> =
        transfer.loops.iter().map(|row| (row.size.fixed(), row.source, row.target)).collect();
    let most = machine.hbm_capacity_bytes().max(MAX_SLICE);
    product("bytes", rows.iter().map(|row| row.0).chain([transfer.packet]), most).map_err(fail)?;
    if transfer.packet == 0 {
        return Ok(());
    }
    if transfer.packet > MAX_PACKET_BYTES {
        return Err(fail(ExecProblem::TooLarge { what: "bytes of a packet", most: MAX_PACKET_BYTES }));
    }
    let outer = transfer.index.and(rows.first().copied());
    let mut first = transfer.index.is_some();
    rows.retain(|row| row.0 != 1 || std::mem::take(&mut first));
    if transfer.index.is_some() && outer.is_none() {
        return Err(fail(ExecProblem::Setting("a gather or scatter needs a loop over its rows")));
    }
    let mut packet = transfer.packet;
    while let Some((size, source, target)) = rows.last().copied() {
        let joined = packet.capped_mul(size);
        let neighbours = source == target && u64::try_from(source) == Ok(packet);
        let indexed = transfer.index.is_some() && rows.len() == 1;
        if indexed || size == 0 || joined > JOINED_BYTES || !(neighbours || size == 1) {
            break;
        }
        packet = joined;
        rows.pop();
    }
    let (source, target) = (transfer.source, transfer.target);
    let side = |address: Address| address.locate().map(|at| (at.chip, at.medium));
    let tracks = transfer.index.is_some() && side(source) == side(target);
    let written = tracks.then(BTreeSet::new);
    let mut mover = DmaMover { state, buffer: vec![0; index(packet)], space, written };
    match (transfer.index, outer) {
        (Some(by), Some(first)) => {
            for row in 0..first.0 {
                let (source, target) = mover.row(&by, first, row, source, target)?;
                mover.run(&rows[1..], source, target)?;
            }
            Ok(())
        }
        _ if space.is_none() && mover.state.copy_to_slices(source, target, &rows, index(packet)) => Ok(()),
        _ => mover.run(&rows, source, target),
    }
}

struct DmaMover<'a> {
    state: &'a mut MemoryState,
    buffer: Vec<u8>,
    /// What may be touched, unless it is everything.
    space: Option<&'a AddressSpace>,
    /// First bytes of packets that were written, where a table may lead back to them.
    written: Option<BTreeSet<u64>>,
}

/// Packets of one command that are remembered.
const MAX_TRACKED: usize = 1 << 20;

impl DmaMover<'_> {
    fn run(&mut self, rows: &[PairedLoop], source: Address, target: Address) -> Result<(), ExecFault> {
        match rows.split_first() {
            None => {
                let bytes = self.buffer.len() as u64;
                self.may_touch(source, bytes, false)?;
                self.may_touch(target, bytes, true)?;
                self.reads_its_own(source, target, bytes)?;
                self.state.copy(source, target, &mut self.buffer).map_err(dma)
            }
            Some((row, []))
                if self.space.is_none()
                    && self.written.is_none()
                    && self.state.copy_all(source, target, *row, self.buffer.len()) =>
            {
                Ok(())
            }
            Some(((size, from, to), inner)) => {
                let (mut source, mut target) = (source, target);
                for left in (0..*size).rev() {
                    self.run(inner, source, target)?;
                    if left > 0 {
                        (source, target) = (step(source, *from)?, step(target, *to)?);
                    }
                }
                Ok(())
            }
        }
    }

    /// Refuses a packet that an earlier one of the same command has written over: engines read ahead, and
    /// what it would find there depends on how far.
    fn reads_its_own(&mut self, source: Address, target: Address, bytes: u64) -> Result<(), ExecFault> {
        let Some(written) = self.written.as_mut().filter(|written| written.len() < MAX_TRACKED) else {
            return Ok(());
        };
        let near = source.0.max(bytes - 1) - (bytes - 1)..source.0.capped_add(bytes);
        if let Some(earlier) = written.range(near).next() {
            let (read, written) = ((source, bytes), (Address(*earlier), bytes));
            return Err(ExecProblem::SelfOverlap { read, written }.at(ExecStage::Dma));
        }
        written.insert(target.0);
        Ok(())
    }

    fn may_touch(&self, first: Address, bytes: u64, write: bool) -> Result<(), ExecFault> {
        let Some(space) = self.space else { return Ok(()) };
        let Some(address) = space.first_denied((first.0, first.0.capped_add(bytes)), write) else {
            return Ok(());
        };
        let (pe, owner) = (space.pe(), space.owner(address));
        Err(ExecProblem::NotGranted { pe, address, write, owner }.at(ExecStage::Dma))
    }

    /// Where a row of a gather or scatter lies on both sides.
    fn row(
        &self,
        by: &TransferIndex,
        (_, from, to): PairedLoop,
        row: u64,
        source: Address,
        target: Address,
    ) -> Result<(Address, Address), ExecFault> {
        if !matches!(by.dtype, Dtype::I32 | Dtype::U32) {
            return Err(ExecProblem::Dtype(by.dtype).at(ExecStage::Dma));
        }
        let row = row.cast_signed();
        let mut entry = [0; 4];
        let at = step(by.table, row.exact_mul(4))?;
        self.may_touch(at, 4, false)?;
        self.state.read(at, &mut entry).map_err(dma)?;
        let entry = int_value(by.dtype, load_bits(&entry, 32, 0));
        let offsets = matches!(by.table.locate().map(|at| at.medium), Some(MemoryInstance::Hbm));
        let named = |side: Address, stride: i64| match offsets {
            true => step(side, entry),
            false => step_times(side, stride, entry),
        };
        match by.scatter {
            false => Ok((named(source, from)?, step_times(target, to, row)?)),
            true => Ok((step_times(source, from, row)?, named(target, to)?)),
        }
    }
}

fn step(address: Address, bytes: i64) -> Result<Address, ExecFault> {
    address.step(bytes).ok_or_else(|| ExecProblem::Stepped(address, bytes).at(ExecStage::Dma))
}

/// So many steps from an address; a distance that 64 bits do not hold leaves every address space.
fn step_times(address: Address, bytes: i64, times: i64) -> Result<Address, ExecFault> {
    let distance = bytes.checked_mul(times);
    step(address, distance.ok_or_else(|| ExecProblem::Stepped(address, bytes).at(ExecStage::Dma))?)
}

fn dma(fault: ExecFault) -> ExecFault {
    ExecFault { stage: ExecStage::Dma, ..fault }
}
