//! Everything there is to say about one candidate: its columns, energy by component, traffic, reuse, use of
//! the multipliers.

use tilewright_notation::syntax::ast::Program;
use tilewright_tcp_cost::energy::{COMPONENTS, EnergyCounts, energy_fj};

use crate::cost_math::CostMath;
use crate::goal::milliwatts;
use crate::tcp::cost::{CandidateCommands, StageCycles, columns};
use crate::tcp::events::{counts, energy};
use crate::tcp::legality::data_memory_bytes;
use crate::tcp::nest::FrameContext;
use crate::tcp::operand_transfers::{TransferMemo, brought};
use crate::tcp::point::LoopNest;
use crate::tcp::spell::spell;
use crate::tcp::task::TcpTask;
use crate::tcp::{TcpCandidate, TcpSearchResult};

/// A candidate in full.
#[derive(Clone, Debug)]
pub struct TcpReport {
    /// The candidate.
    pub candidate: TcpCandidate,
    /// Its frame.
    pub framed: FrameContext,
    /// Sizes of its loops.
    pub nest: LoopNest,
    /// The stages of its commands.
    pub commands: CandidateCommands,
    /// Cycles by stage.
    pub columns: StageCycles,
    /// Energy of all commands by component, in fJ.
    pub energy_fj: [u64; COMPONENTS],
    /// Events of one command.
    pub counts: EnergyCounts,
    /// Events of all transfers of all parts.
    pub transferred: EnergyCounts,
    /// Bytes that slices get of in0 and in1 from off-chip memory, copies included, once.
    pub brought_bytes: [u64; 2],
    /// Average power of the group's slices, in mW.
    pub milliwatts: u64,
    /// Part of the products that the group could do in this time which the einsum asks for.
    pub utilisation: f64,
    /// Times that an element fetched from data memory is multiplied: by slices of a ring, lanes and repeats.
    pub stream_reuse: u64,
    /// Times that an element in the register files is multiplied after one load.
    pub held_reuse: u64,
    /// Bytes of data memory that a command's tensors take on each slice.
    pub data_memory_bytes: u64,
    /// Shapes and tactic.
    pub program: Program,
}

impl TcpReport {
    /// Says all about a candidate of a search; `None` if it is none.
    pub fn new(task: &TcpTask<'_>, found: &TcpSearchResult, candidate: &TcpCandidate) -> Option<TcpReport> {
        let frame = found.frame(candidate)?;
        let framed = FrameContext::new(task, frame);
        let nest = framed.nest(&candidate.choice).ok()?;
        let setup = &task.setup;
        let commands = CandidateCommands::new(setup, &nest, &candidate.choice).ok()?;
        let brought = brought(task, &framed, &nest, &mut TransferMemo::new()).ok()?;
        let waited = (&brought, brought.all_cycles(task, frame));
        let columns = columns(setup, &commands, frame.commands(), waited);
        let counts = counts(setup, &nest, &candidate.choice, &commands);
        let transferred = brought.all_counts(task, frame);
        let mut parts_fj = energy(setup, &counts, columns.cycles, frame.commands());
        for (part, fj) in parts_fj.iter_mut().zip(energy_fj(setup.machine, &transferred)) {
            *part = part.plus_cost(fj);
        }
        let each = [candidate.ticks, setup.slices(), setup.machine.ce.lanes, setup.packet_elements()];
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let could = each.iter().map(|factor| *factor as f64).product::<f64>();
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let asked = task.macs() as f64;
        Some(TcpReport {
            candidate: *candidate,
            energy_fj: parts_fj,
            milliwatts: milliwatts(setup.machine.chip.clock_hz, candidate.ticks, candidate.energy_fj),
            utilisation: asked / could.max(1.0),
            stream_reuse: nest.ring * nest.lanes * nest.repeats,
            held_reuse: nest.rows * nest.ring * nest.columns,
            data_memory_bytes: data_memory_bytes(setup, &nest),
            program: spell(task, &framed, &candidate.choice)?,
            framed,
            nest,
            commands,
            columns,
            counts,
            transferred,
            brought_bytes: brought.counts.map(|counts| counts.hbm_read_bytes),
        })
    }
}
