//! How long a candidate takes, from its loop sizes: the stages of its commands for the closed forms of the
//! engine (the rules are `tilewright_tcp_cost::cycles`; nothing here allocates).

use tilewright_base::invariant::Exact;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_cost::cycles::collect::CollectStage;
use tilewright_tcp_cost::cycles::commit::CommitStage;
use tilewright_tcp_cost::cycles::fetch::FetchStage;
use tilewright_tcp_cost::cycles::load::LoadStage;
use tilewright_tcp_cost::cycles::switch::SwitchStage;
use tilewright_tcp_cost::cycles::vector::VectorStage;
use tilewright_tcp_cost::cycles::{CommandCycles, CommandStages, PipelineStage, command_cycles};
use tilewright_tcp_isa::contraction::{ContractionStage, drain_capacity};
use tilewright_tcp_isa::flow::packet_flits;
use tilewright_tcp_isa::program::exec::{Context, Drain};
use tilewright_tcp_isa::switch::{Ring, Topology};

use crate::cost_math::CostMath;
use crate::refusal::{CandidateRefusal, RefusalReason};
use crate::tcp::operand_transfers::OperandTransfers;
use crate::tcp::point::{LoadContext, LoopNest, ORDERS, StreamSupply, TcpChoice, TimeLoop};

/// Bytes of a sum.
pub(crate) const WORD_BYTES: u64 = 4;

/// Sums that must be kept at once for each output of a lane, and how they are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumGroups {
    /// Groups that are summed one after the other.
    pub groups: u64,
    /// Steps of one.
    pub steps: u64,
    /// Steps of them that survive.
    pub open: u64,
}

/// Splits the loops in time at the outermost sum.
pub fn groups(nest: &LoopNest, choice: &TcpChoice) -> SumGroups {
    if nest.chunks == 1 {
        return SumGroups { groups: nest.steps(), steps: 1, open: 1 };
    }
    let mut outside = 1_u64;
    for turn in ORDERS[usize::from(choice.order)] {
        if turn == TimeLoop::Chunks {
            break;
        }
        outside = outside.times_cost(nest.turn(turn, choice.supply));
    }
    let steps = nest.steps() / outside.max(1);
    SumGroups { groups: outside, steps, open: steps / nest.chunks }
}

/// Whether the accumulators hold all open sums if they leave in the candidate's order.
///
/// # Errors
/// More open sums than it holds.
pub fn check_drain(
    setup: &Setup<'_>,
    nest: &LoopNest,
    drain: Drain,
    open: u64,
) -> Result<(), CandidateRefusal> {
    let have = drain_capacity(setup.machine, drain, nest.lanes, nest.columns);
    if open > have {
        Err(CandidateRefusal { reason: RefusalReason::Accumulators, need: open, have })
    } else {
        Ok(())
    }
}

/// Bytes of results that leave in a cycle, in whole words of data memory.
pub fn valid_bytes(setup: &Setup<'_>, nest: &LoopNest, drain: Drain) -> u64 {
    let valid = match drain {
        Drain::Interleaved => nest.lanes,
        Drain::Sequential => nest.columns.min(setup.machine.ce.drain_elements_per_cycle),
    };
    (valid * WORD_BYTES).next_multiple_of(setup.machine.dm.write_granule_bytes)
}

/// Bytes of register file that a row of the held operand takes, and the part of them that is read.
pub fn row_bytes(setup: &Setup<'_>, tree: u64) -> (u64, u64) {
    let machine = setup.machine;
    let read = bytes(setup, tree);
    let aligned = read.next_multiple_of(machine.ce.packet_bytes);
    let stride =
        if read > machine.network.flit_bytes { aligned } else { read.next_power_of_two().min(aligned) };
    (stride, read)
}

/// Bytes of so many input elements.
pub(crate) fn bytes(setup: &Setup<'_>, elements: u64) -> u64 {
    elements.times_cost(setup.element_bits()).div_ceil(8)
}

/// Bytes of one access to a run that is `run_bytes` long, of packets of `packet_bytes`.
pub fn access_bytes(setup: &Setup<'_>, packet_bytes: u64, run_bytes: u64) -> u64 {
    let widths = setup.machine.fetch.main_widths_bytes.iter().copied();
    let fits = |width: &u64| packet_bytes.is_multiple_of(*width) && run_bytes.is_multiple_of(*width);
    widths.filter(fits).max().unwrap_or(1)
}

/// The commands of a candidate, ready for the closed forms.
#[derive(Clone, Copy, Debug)]
pub struct CandidateCommands {
    /// Data memory to register files.
    pub load: CommandStages,
    /// The contraction.
    pub contract: CommandStages,
    /// From sums that cannot be written where they belong to where they do.
    pub bridge: Option<CommandStages>,
    groups: SumGroups,
    drain: Drain,
}

impl CandidateCommands {
    /// The stages of a candidate.
    ///
    /// # Errors
    /// More open sums than the accumulators hold in the order in which they leave.
    pub fn new(
        setup: &Setup<'_>,
        nest: &LoopNest,
        choice: &TcpChoice,
    ) -> Result<CandidateCommands, CandidateRefusal> {
        check_drain(setup, nest, choice.drain, groups(nest, choice).open)?;
        Ok(CandidateCommands::unchecked(setup, nest, choice))
    }

    /// The stages of a candidate, whether the accumulators hold its sums or not.
    pub fn unchecked(setup: &Setup<'_>, nest: &LoopNest, choice: &TcpChoice) -> CandidateCommands {
        let (groups, drain) = (groups(nest, choice), choice.drain);
        let contract = contract(setup, nest, choice, groups);
        let bridge = bridges(nest).then(|| bridge(setup, nest));
        CandidateCommands { load: load(setup, nest, choice.loading), contract, bridge, groups, drain }
    }

    /// Which order sums leave in.
    pub fn drain(&self) -> Drain {
        self.drain
    }

    /// How sums are grouped.
    pub fn groups(&self) -> SumGroups {
        self.groups
    }
}

/// Single sums are less than the commit unit writes: they go through a copy.
pub fn bridges(nest: &LoopNest) -> bool {
    nest.lanes == 1 && nest.columns == 1
}

/// The stages of a load.
pub fn load(setup: &Setup<'_>, nest: &LoopNest, loading: LoadContext) -> CommandStages {
    let context = if loading == LoadContext::Main { Context::Main } else { Context::Sub };
    let (_, read) = row_bytes(setup, nest.tree);
    let rows = nest.held_elements() / nest.tree.max(1);
    let flits = packet_flits(setup.machine, read);
    let row = if flits == 1 { read } else { flits * setup.machine.network.flit_bytes };
    let run_bytes = read;
    CommandStages {
        fetch: Some(FetchStage {
            context,
            packets: rows,
            packet_bytes: read,
            read_bytes: access_bytes(setup, read, run_bytes),
            cast: false,
        }),
        collect: Some(CollectStage { packets: rows, packet_bytes: read }),
        load: Some(LoadStage { context, slice_bytes: rows.times_cost(row) }),
        ..CommandStages::default()
    }
}

/// The ring of a candidate.
pub fn topology(nest: &LoopNest, choice: &TcpChoice) -> Topology {
    let ring = Ring { slice1: nest.ring, slice0: nest.summed_slices };
    match choice.supply {
        StreamSupply::Own => Topology::Forwarding,
        _ if nest.ring == 1 => Topology::Forwarding,
        StreamSupply::RingInner => Topology::Broadcast1(ring),
        StreamSupply::RingOuter => {
            let turns = ORDERS[usize::from(choice.order)];
            let inside = turns.iter().rev().take_while(|turn| **turn != TimeLoop::Rows);
            let inside = inside.fold(nest.rows, |all, turn| all.times_cost(nest.turn(*turn, choice.supply)));
            Topology::Broadcast01(Ring { slice1: nest.ring, slice0: 1 }, inside)
        }
    }
}

fn contract(setup: &Setup<'_>, nest: &LoopNest, choice: &TcpChoice, groups: SumGroups) -> CommandStages {
    let machine = setup.machine;
    let packet_bytes = bytes(setup, nest.columns * nest.tree);
    let own_packets = nest.packets() / nest.ring;
    let flits = packet_flits(machine, packet_bytes);
    let topology = topology(nest, choice);
    let contraction = ContractionStage {
        packet_elements: setup.packet_elements(),
        packet_bytes: flits * machine.network.flit_bytes,
        repeats: nest.repeats,
        groups: groups.groups,
        group_steps: groups.steps,
        group_output_steps: groups.open,
        lanes: nest.lanes,
        columns: nest.columns,
        drain: choice.drain,
    };
    let drained = tilewright_tcp_cost::cycles::contraction::drain_cycles(machine, &contraction);
    let valid_bytes = valid_bytes(setup, nest, choice.drain);
    CommandStages {
        fetch: Some(FetchStage {
            context: Context::Main,
            packets: own_packets,
            packet_bytes,
            read_bytes: access_bytes(setup, packet_bytes, choice.fetch_bytes),
            cast: false,
        }),
        switch: (topology != Topology::Forwarding).then_some(SwitchStage {
            topology,
            packets: own_packets,
            packet_flits: flits,
        }),
        collect: Some(CollectStage { packets: nest.packets(), packet_bytes }),
        contraction: Some(contraction),
        vector: (nest.summed_slices > 1).then_some(VectorStage {
            flits: drained,
            chain_flits: drained,
            narrow: false,
            upper_half_padding: false,
            units: 0,
            reduced_slices: nest.summed_slices,
        }),
        commit: Some(CommitStage {
            context: Context::Main,
            flits: drained,
            valid_bytes,
            write_bytes: choice.commit_bytes,
        }),
        ..CommandStages::default()
    }
}

/// Single words, a flit apart, fetched one by one and written densely.
fn bridge(setup: &Setup<'_>, nest: &LoopNest) -> CommandStages {
    let machine = setup.machine;
    let granule = machine.dm.write_granule_bytes;
    let all = nest.results().times_cost(WORD_BYTES).next_multiple_of(granule);
    let mut packet_bytes = machine.network.flit_bytes;
    while !all.is_multiple_of(packet_bytes) {
        packet_bytes /= 2;
    }
    let packets = all / packet_bytes;
    CommandStages {
        fetch: Some(FetchStage {
            context: Context::Main,
            packets,
            packet_bytes,
            read_bytes: WORD_BYTES,
            cast: false,
        }),
        collect: Some(CollectStage { packets, packet_bytes }),
        commit: Some(CommitStage {
            context: Context::Main,
            flits: packets,
            valid_bytes: packet_bytes,
            write_bytes: packet_bytes,
        }),
        ..CommandStages::default()
    }
}

/// Cycles of a candidate, stage by stage, for one command and for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageCycles {
    /// Steps of the lanes.
    pub mac: u64,
    /// Fetch, network and feed.
    pub stream: u64,
    /// Sums that leave.
    pub drain: u64,
    /// Vector engine.
    pub vector: u64,
    /// Commit unit.
    pub commit: u64,
    /// Register file loads, without the overhead of a command.
    pub load: u64,
    /// What does not overlap in the contraction: network, tree, first or last group.
    pub fill: u64,
    /// The stage of the contraction that takes longest.
    pub binding: PipelineStage,
    /// Loading, with overhead.
    pub load_cycles: u64,
    /// Contracting, with overhead.
    pub contract_cycles: u64,
    /// Copying to the output, with overhead; 0 if there is no copy.
    pub bridge_cycles: u64,
    /// Bringing in0 and in1 from off-chip memory, once each.
    pub bring_cycles: [u64; 2],
    /// One part alone: transfers and commands.
    pub part_cycles: u64,
    /// All commands and transfers of all parts.
    pub cycles: u64,
}

/// Times a candidate that is repeated for so many parts, where all parts together wait so long for transfers.
pub fn columns(
    setup: &Setup<'_>,
    commands: &CandidateCommands,
    parts: u64,
    (brought, all_brought_cycles): (&OperandTransfers, u64),
) -> StageCycles {
    let machine = setup.machine;
    let load = command_cycles(machine, &commands.load);
    let contract = command_cycles(machine, &commands.contract);
    let bridge = commands.bridge.as_ref().map_or(0, |bridge| command_cycles(machine, bridge).total_cycles);
    let steps = commands.groups.groups.times_cost(commands.groups.steps);
    let of = |cycles: &CommandCycles, stage: PipelineStage| cycles.stream_cycles[stage as usize];
    let feed = commands.contract.contraction.as_ref();
    let feed = feed.map_or(0, |shape| tilewright_tcp_cost::cycles::contraction::feed_cycles(machine, shape));
    let stream = of(&contract, PipelineStage::Fetch)
        .max(of(&contract, PipelineStage::Switch))
        .max(of(&contract, PipelineStage::Collect));
    let binding = of(&contract, contract.binding);
    let each = load.total_cycles.plus_cost(contract.total_cycles).plus_cost(bridge);
    StageCycles {
        mac: steps,
        stream: stream.max(feed),
        drain: of(&contract, PipelineStage::Drain),
        vector: of(&contract, PipelineStage::Vector),
        commit: of(&contract, PipelineStage::Commit),
        load: load.total_cycles.exact_sub(load.overhead_cycles),
        fill: contract.total_cycles.exact_sub(contract.overhead_cycles).exact_sub(binding),
        binding: contract.binding,
        load_cycles: load.total_cycles,
        contract_cycles: contract.total_cycles,
        bridge_cycles: bridge,
        bring_cycles: brought.cycles,
        part_cycles: each.plus_cost(brought.part_cycles()),
        cycles: each.times_cost(parts).plus_cost(all_brought_cycles),
    }
}
