//! Whether the loop sizes of a candidate fit the machine: the rules of `tilewright_tcp_cost::legality`, asked
//! of numbers alone so that millions of candidates can be asked about. What is called legal here is legal for
//! `tilewright_tcp_cost::check` and can be lowered.

use tilewright_tcp_cost::Setup;

use crate::cost_math::{CostMath, INFINITE};
use crate::refusal::{CandidateRefusal, RefusalReason};
use crate::tcp::cost::{access_bytes, bridges, row_bytes};
use crate::tcp::point::{LoadContext, LoopNest, ORDERS, StreamSupply, TcpChoice, TimeLoop};

/// Bytes of a sum.
const WORD_BYTES: u64 = 4;

fn refuse(reason: RefusalReason, need: u64, have: u64) -> Result<(), CandidateRefusal> {
    if need > have { Err(CandidateRefusal { reason, need, have }) } else { Ok(()) }
}

/// Rules that do not ask for the order of loops.
///
/// # Errors
/// The first rule that is broken.
pub fn check_sizes(setup: &Setup<'_>, nest: &LoopNest, supply: StreamSupply) -> Result<(), CandidateRefusal> {
    let machine = setup.machine;
    refuse(RefusalReason::Packet, nest.columns.times_cost(nest.tree), setup.packet_elements())?;
    // A flit of results has a word for each lane.
    refuse(RefusalReason::Lanes, nest.lanes, machine.network.flit_bytes / WORD_BYTES)?;
    if supply == StreamSupply::RingOuter {
        refuse(RefusalReason::Ring, nest.summed_slices, 1)?;
    }
    let result_bytes = nest.results().times_cost(WORD_BYTES);
    let granule = machine.dm.write_granule_bytes;
    if bridges(nest) && !result_bytes.is_multiple_of(granule) {
        let need = result_bytes.next_multiple_of(granule);
        return Err(CandidateRefusal { reason: RefusalReason::Words, need, have: result_bytes });
    }
    let (stride, _) = row_bytes(setup, nest.tree);
    let rows = nest.held_elements() / (nest.tree * nest.lanes).max(1);
    let room = machine.ce.lanes * machine.trf_lane_payload_bytes();
    let lane_bytes = rows.times_cost(stride);
    refuse(RefusalReason::Registers, lane_bytes.times_cost(nest.lanes), room)?;
    refuse(RefusalReason::DataMemory, data_memory_bytes(setup, nest), machine.dm.capacity_bytes)
}

/// Bytes of data memory that a command's tensors take on each slice.
pub fn data_memory_bytes(setup: &Setup<'_>, nest: &LoopNest) -> u64 {
    let flit_bytes = setup.machine.network.flit_bytes;
    let whole = |bytes: u64| bytes.checked_next_multiple_of(flit_bytes).unwrap_or(INFINITE);
    let input = |elements: u64| whole(elements.times_cost(setup.element_bits()).div_ceil(8));
    let results = nest.results();
    // A copy to an output of an odd number of words may write one more row.
    let slack = if results % 2 == 1 { results } else { 0 };
    let output = whole(results.plus_cost(slack).times_cost(WORD_BYTES));
    let copy = if bridges(nest) { results.times_cost(flit_bytes) } else { 0 };
    [input(nest.held_elements()), input(nest.streamed_elements()), output, copy]
        .into_iter()
        .fold(0, u64::plus_cost)
}

/// The sub context has no masks.
///
/// # Errors
/// A padded operand that it should load.
pub fn check_loading(nest: &LoopNest, loading: LoadContext) -> Result<(), CandidateRefusal> {
    refuse(RefusalReason::Loading, u64::from(nest.held_padded && loading == LoadContext::Sub), 0)
}

/// No bank is held for too long by the fetch.
///
/// # Errors
/// Streams so short that they stay in a few banks.
pub fn check_banks(setup: &Setup<'_>, nest: &LoopNest, choice: &TcpChoice) -> Result<(), CandidateRefusal> {
    BankPattern::new(setup, nest, choice.fetch_bytes).check(nest, choice)
}

/// How fetches of one width meet the banks, as far as the order of loops does not matter.
#[derive(Clone, Copy, Debug)]
pub struct BankPattern {
    /// Parts of a packet that lie apart: more than one where fetches are narrower than they could be.
    parts: u64,
    /// Bytes of one of them.
    part_bytes: u64,
    /// Parts lie whole sweeps over the banks apart, or nearly.
    in_step: bool,
    limit: u64,
}

impl BankPattern {
    /// Fetches of so many bytes.
    pub fn new(setup: &Setup<'_>, nest: &LoopNest, fetch_bytes: u64) -> BankPattern {
        let machine = setup.machine;
        let parts = packet_parts(setup, nest, fetch_bytes);
        let sweep = machine.dm_bytes_per_cycle().max(1);
        let apart = nest.streamed_elements().times_cost(setup.element_bits()) / 8 / parts % sweep;
        let apart = apart.min(sweep - apart);
        let packet = (nest.columns * nest.tree).times_cost(setup.element_bits()) / 8;
        BankPattern {
            parts,
            part_bytes: packet / parts.max(1),
            in_step: (parts - 1).times_cost(apart) < fetch_bytes,
            limit: machine.starvation_accesses().saturating_sub(1),
        }
    }

    /// The rule for one order of loops.
    ///
    /// # Errors
    /// Streams so short that they stay in a few banks.
    pub fn check(&self, nest: &LoopNest, choice: &TcpChoice) -> Result<(), CandidateRefusal> {
        // Accesses leave a bank at once; a packet in parts meets it once for each, and for those of the next
        // packet.
        let mut held = self.parts.times_cost(2);
        if nest.passes > 1 && self.in_step {
            // One access for each part, again and again, stays in one bank.
            let accesses = swept_bytes(nest, choice, self.part_bytes) / choice.fetch_bytes.max(1);
            if accesses <= 1 {
                held = self.parts.times_cost(nest.passes);
            }
        }
        refuse(RefusalReason::Banks, held, self.limit)
    }
}

fn packet_parts(setup: &Setup<'_>, nest: &LoopNest, fetch_bytes: u64) -> u64 {
    if fetch_bytes >= setup.machine.network.flit_bytes {
        return 1;
    }
    let bits = setup.element_bits();
    let (packet, tree) = (nest.columns * nest.tree * bits / 8, nest.tree * bits / 8);
    if fetch_bytes < access_bytes(setup, packet, packet) { (tree / fetch_bytes.max(1)).max(1) } else { 1 }
}

/// Bytes that lie side by side and are read one after the other inside the loop that passes over rows again.
fn swept_bytes(nest: &LoopNest, choice: &TcpChoice, part_bytes: u64) -> u64 {
    let turns =
        ORDERS[usize::from(choice.order)].into_iter().rev().take_while(|turn| *turn != TimeLoop::Passes);
    let size = |turn: TimeLoop| match turn {
        TimeLoop::Rows => nest.rows,
        other => nest.turn(other, choice.supply),
    };
    turns.fold(part_bytes, |all, turn| all.times_cost(size(turn)))
}
