//! What a run counts a second way, for the checks alone: from the loops of its commands, without the formulas
//! of costs and energy.

use std::sync::Arc;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::memory::payload_bits;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{Commit, Exec, ExecBody, Loop, Memory, Switch};
use tilewright_tcp_isa::program::transfer::{MemoryInstance, Transfer};
use tilewright_tcp_isa::switch::Topology;

use crate::plan::{ExecPlan, TransferPlan};
use crate::touched::TouchedMemory;

/// What a run counted a second way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Bytes of transfers from and to off-chip memory.
    pub(crate) moved_bytes: [u64; 2],
    /// Distinct bytes that the largest transfer reads from off-chip memory.
    pub(crate) needed_bytes: u64,
    /// Products of all contractions.
    pub(crate) products: u128,
    /// Bytes of all elements that fetch units read.
    pub(crate) fetched_bytes: u128,
    /// The same in whole flits for each packet.
    pub(crate) packet_bytes: u128,
    /// Bytes that slices keep of what rings send: those sent, times receivers.
    pub(crate) received_bytes: u128,
    /// Bytes that commit units write to data memory.
    pub(crate) committed_bytes: u128,
    /// Bytes written to register files of contraction engines.
    pub(crate) loaded_bytes: u128,
    /// Bytes of transfers into data memory.
    pub(crate) brought_bytes: u128,
    /// Bytes of transfers out of data memory.
    pub(crate) taken_bytes: u128,
    /// Energy of commands one by one.
    pub(crate) commands_fj: u128,
    /// The first command that was quicker than one of its parts: how long it took, and that part.
    pub(crate) hurried: Option<(Arc<str>, u64, u64)>,
    /// The busiest context or DMA engine.
    pub(crate) longest_cycles: u64,
    /// The first PE with a memory that holds more than it can, and when.
    pub(crate) full: Option<(PeId, u64)>,
}

impl Ledger {
    /// An execution ended after so many cycles.
    pub(crate) fn exec(&mut self, plan: &ExecPlan, lasted: u64) {
        let work = &plan.work;
        self.products = self.products.exact_add(work.products);
        self.fetched_bytes = self.fetched_bytes.exact_add(work.fetched_bytes);
        self.packet_bytes = self.packet_bytes.exact_add(work.packet_bytes);
        self.committed_bytes = self.committed_bytes.exact_add(work.committed_bytes);
        self.loaded_bytes = self.loaded_bytes.exact_add(work.loaded_bytes);
        let (receivers, of) = work.receivers;
        let received = u128::from(plan.counts.sent_bytes).exact_mul(u128::from(receivers));
        self.received_bytes = self.received_bytes.exact_add(received / u128::from(of.max(1)));
        self.commands_fj = self.commands_fj.exact_add(u128::from(plan.all_fj()));
        let stages = plan.cycles.stream_cycles.iter().copied().max().unwrap_or(0);
        self.lasted(&plan.name, lasted, plan.cycles.total_cycles.max(stages));
    }

    /// A transfer ended after so many cycles.
    pub(crate) fn transfer(&mut self, plan: &TransferPlan, lasted: u64) {
        let loops = plan.transfer.loops.iter();
        let ends = [&plan.cost.read, &plan.cost.written];
        let whole =
            moved_bytes(&plan.transfer).or_broken("a transfer with a plan moves bytes that can be counted");
        for (moved, _) in self.moved_bytes.iter_mut().zip(ends).filter(|(_, end)| end.is_some()) {
            *moved = moved.exact_add(whole);
        }
        let in_dm = |medium: MemoryInstance| matches!(medium, MemoryInstance::Dm { .. });
        if in_dm(plan.cost.target.medium) {
            self.brought_bytes = self.brought_bytes.exact_add(u128::from(whole));
        }
        if in_dm(plan.cost.source.medium) {
            self.taken_bytes = self.taken_bytes.exact_add(u128::from(whole));
        }
        if plan.cost.source.medium == MemoryInstance::Hbm {
            // Loops that stay or overlap read the same bytes again.
            let apart =
                loops.filter(|row| row.source.unsigned_abs() >= plan.transfer.packet && row.source != 0);
            let rows = apart.map(|row| row.size.fixed()).max().unwrap_or(1);
            let distinct = if whole == 0 { 0 } else { plan.transfer.packet.exact_mul(rows) };
            self.needed_bytes = self.needed_bytes.max(distinct);
        }
        self.commands_fj = self.commands_fj.exact_add(u128::from(plan.all_fj()));
        let least = plan.cost.cycles.startup_cycles.exact_add(plan.cost.moved_cycles);
        self.lasted(&plan.name, lasted, least.max(plan.cost.link_cycles));
    }

    /// What the memories of a PE hold when a command ends.
    pub(crate) fn holds(&mut self, machine: &Tcp, pe: PeId, touched: &TouchedMemory, at_cycles: u64) {
        let full = |(parts, capacity): (crate::touched::TouchedParts, u64)| {
            parts.beyond || parts.bytes(capacity) > capacity
        };
        if self.full.is_none() && touched.memories(machine).into_iter().any(full) {
            self.full = Some((pe, at_cycles));
        }
    }

    pub(crate) fn lasted(&mut self, name: &Arc<str>, lasted: u64, least: u64) {
        if lasted < least && self.hurried.is_none() {
            self.hurried = Some((name.clone(), lasted, least));
        }
    }
}

/// Work of one image from which on a run cannot sum it up; what a machine can do in its lifetime is far
/// below.
const MOST_WORK: u128 = 1 << 96;

/// Work of an image on all of its slices, from its loops alone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ImageWork {
    products: u128,
    fetched_bytes: u128,
    packet_bytes: u128,
    committed_bytes: u128,
    loaded_bytes: u128,
    /// Slices that keep a byte which the network sends, as a fraction.
    receivers: (u64, u64),
}

impl ImageWork {
    /// `None` if it is more than can be counted.
    pub(crate) fn of(machine: &Tcp, exec: &Exec) -> Option<ImageWork> {
        ImageWork::counted(machine, exec).filter(ImageWork::is_summable)
    }

    fn counted(machine: &Tcp, exec: &Exec) -> Option<ImageWork> {
        let slices = exec.pes.checked_mul(machine.pe.slices)?;
        let everywhere = u128::from(slices);
        match &exec.body {
            ExecBody::Stream(stream) => {
                let (elements, packet) = (all(&stream.fetch.loops)?, u128::from(stream.fetch.packet));
                let bits = u128::from(payload_bits(stream.fetch.dtype));
                let flit = u128::from(machine.network.flit_bytes.max(1));
                let packet_bytes = packet.checked_mul(bits)?.div_ceil(8).div_ceil(flit).checked_mul(flit)?;
                let packets = elements.checked_div(packet).unwrap_or(0);
                // Every register file address is met once on every lane.
                let products = match &stream.contract {
                    Some(contract) => all(&contract.loops)?.checked_mul(u128::from(contract.lanes))?,
                    None => 0,
                };
                Some(ImageWork {
                    products: products.checked_mul(everywhere)?,
                    fetched_bytes: (elements.checked_mul(bits)? / 8).checked_mul(everywhere)?,
                    packet_bytes: packets.checked_mul(packet_bytes)?.checked_mul(everywhere)?,
                    receivers: receivers(&stream.switch)?,
                    ..written(&stream.commit, slices)?
                })
            }
            ExecBody::Short(short) => {
                let bytes = u128::from(short.bytes).checked_mul(everywhere)?;
                let loaded_bytes = if short.memory == Memory::Vrf { 0 } else { bytes };
                Some(ImageWork {
                    fetched_bytes: bytes,
                    packet_bytes: bytes,
                    loaded_bytes,
                    ..ImageWork::default()
                })
            }
            ExecBody::Fill(fill) => written(&fill.commit, slices),
        }
    }

    /// Whether all commands that a run can issue sum to less than the largest number.
    fn is_summable(&self) -> bool {
        let parts =
            [self.products, self.fetched_bytes, self.packet_bytes, self.committed_bytes, self.loaded_bytes];
        parts.into_iter().all(|part| part < MOST_WORK)
    }
}

/// Bytes that a transfer moves; `None` if they are more than can be counted.
pub(crate) fn moved_bytes(transfer: &Transfer) -> Option<u64> {
    transfer.loops.iter().try_fold(transfer.packet, |all, row| all.checked_mul(row.size.fixed()))
}

/// Iterations of all loops together; `None` if they are more than can be counted.
fn all(rows: &[Loop]) -> Option<u128> {
    rows.iter().try_fold(1_u128, |all, row| all.checked_mul(u128::from(row.size.fixed())))
}

/// What commit units write, on the slices that the mask lets write.
fn written(commit: &Commit, slices: u64) -> Option<ImageWork> {
    let within = |slice: u64| commit.slices.iter().any(|(first, end)| (*first..*end).contains(&slice));
    let writing = (0..slices).filter(|slice| commit.slices.is_empty() || within(*slice)).count();
    let bytes = all(&commit.loops)?.checked_mul(u128::from(commit.bytes))?.checked_mul(writing as u128)?;
    Some(match commit.memory {
        Memory::Dm => ImageWork { committed_bytes: bytes, ..ImageWork::default() },
        Memory::Trf { .. } => ImageWork { loaded_bytes: bytes, ..ImageWork::default() },
        Memory::Vrf => ImageWork::default(),
    })
}

/// Slices that keep each byte sent, by what a topology makes of slices and steps (vISA book, switch engine).
fn receivers(switch: &Switch) -> Option<(u64, u64)> {
    Some(match switch.topology {
        // Nothing is sent.
        Topology::Forwarding => (0, 1),
        Topology::Transpose(_) | Topology::InterTranspose(..) => (1, 1),
        Topology::Broadcast01(ring, _) => (ring.slice1.checked_mul(ring.slice0)?, 1),
        Topology::Broadcast1(ring) => (ring.slice1, 1),
        Topology::TransposedBroadcast1(ring) => (ring.slice0, 1),
        Topology::Custom(slices) => (switch.sources.iter().map(|kept| kept.len() as u64).sum(), slices),
    })
}
