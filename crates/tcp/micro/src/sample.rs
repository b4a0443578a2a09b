//! Random legal commands, drawn from a list of numbers: the same list gives the same command, and smaller
//! numbers smaller commands.

use tilewright_base::invariant::to_index;
use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::CommandStages;
use tilewright_tcp_cost::cycles::cast::CastStage;
use tilewright_tcp_cost::cycles::collect::CollectStage;
use tilewright_tcp_cost::cycles::commit::CommitStage;
use tilewright_tcp_cost::cycles::fetch::FetchStage;
use tilewright_tcp_cost::cycles::load::LoadStage;
use tilewright_tcp_cost::cycles::switch::SwitchStage;
use tilewright_tcp_cost::cycles::vector::VectorStage;
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_isa::program::exec::{Context, Drain};
use tilewright_tcp_isa::switch::{Ring, Topology};
use tilewright_tcp_isa::transpose::TransposeStage;

use crate::banks::AccessWalk;
use crate::command::MicroCommand;
use crate::register_file::RegisterReads;

/// Numbers that are enough for any command here.
pub const CHOICES: usize = 48;
/// Largest extent of a loop.
const EXTENT: u64 = 256;
/// Most steps of a contraction, or flits of another command.
const STEPS: u64 = 1 << 13;

/// A list of numbers, taken one after the other; zeros follow.
#[derive(Clone, Debug)]
pub struct SampleChoices<'list> {
    rest: &'list [u16],
}

impl<'list> SampleChoices<'list> {
    /// Choices from a list.
    pub fn new(list: &'list [u16]) -> SampleChoices<'list> {
        SampleChoices { rest: list }
    }

    fn number(&mut self) -> u64 {
        let (first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        u64::from(*first)
    }

    /// From `least` to `most`.
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.number() % (most.max(least) - least + 1)
    }

    fn chance(&mut self, of: u64) -> bool {
        self.number() % of == of - 1
    }

    fn pick<T: Copy>(&mut self, from: &[T], default: T) -> T {
        let index = to_index(self.number()) % from.len().max(1);
        from.get(index).copied().unwrap_or(default)
    }

    /// A divisor, from a list of candidates of which 1 always is one.
    fn divisor(&mut self, of: u64, candidates: &[u64]) -> u64 {
        let fitting: Vec<u64> =
            candidates.iter().copied().filter(|&c| c > 0 && of.is_multiple_of(c)).collect();
        self.pick(&fitting, 1)
    }
}

/// Numbers for a seed (SplitMix64), for programs that have no other source of them.
pub fn choices_of_seed(seed: u64) -> [u16; CHOICES] {
    let mut state = seed;
    std::array::from_fn(|_| u16::try_from(tilewright_base::random::next(&mut state) & 0xFFFF).unwrap_or(0))
}

/// A command of one slice: a contraction half of the time, otherwise a copy, a vector command, a transpose or
/// a load.
pub fn one_slice(machine: &Tcp, choices: &mut SampleChoices<'_>) -> MicroCommand {
    match choices.between(0, 7) {
        0 => copy(machine, choices),
        1 => vector(machine, choices),
        2 => transposed(machine, choices),
        3 => loaded(machine, choices),
        _ => contracted(machine, choices),
    }
}

/// Fetch, contract, then any of vector engine, cast and transpose, and commit.
pub fn contracted(machine: &Tcp, choices: &mut SampleChoices<'_>) -> MicroCommand {
    let (shape, inner_steps) = contraction(machine, choices);
    let packets = (shape.groups * shape.group_steps).div_ceil(shape.repeats);
    let flits = packets * shape.packet_bytes.div_ceil(machine.network.flit_bytes);
    let mut command = fetched(machine, choices, Context::Main, flits, false);
    command.contraction = Some(shape);
    let slot_flits = match shape.drain {
        Drain::Interleaved => shape.columns,
        Drain::Sequential => shape.lanes * shape.columns.div_ceil(machine.ce.drain_elements_per_cycle),
    };
    back_end(machine, choices, &mut command, shape.groups * shape.group_output_steps * slot_flits);
    MicroCommand {
        reads: reads(choices, shape.packet_bytes > machine.trf.row_payload_bytes),
        inner_steps,
        ..placed(choices, command)
    }
}

/// A contraction whose sums fit the accumulators, and its steps in a row that add to one slot.
pub fn contraction(machine: &Tcp, choices: &mut SampleChoices<'_>) -> (ContractionStage, u64) {
    let ce = &machine.ce;
    let drain = choices.pick(&[Drain::Interleaved, Drain::Sequential], Drain::Interleaved);
    let lanes = choices.pick(&[8, 4, 2, 1], 8);
    let columns = choices.pick(&[1, 2, 4, 8, 16, 32], 1);
    let capacity = match drain {
        Drain::Interleaved => machine.accumulators() / (ce.lanes * columns),
        Drain::Sequential => ce.outputs_per_lane / lanes,
    };
    let slots = choices.between(1, capacity.max(1));
    let passes = if slots == 1 { choices.between(1, EXTENT) } else { choices.between(2, 32) };
    let inner = choices.pick(&[1, 1, 1, 2, 4], 1);
    let group_steps = passes * slots * inner;
    let repeats = choices.divisor(group_steps, &[1, 2, 4, 8, 16, 3, 32]);
    let groups = choices.between(1, (STEPS / group_steps).clamp(1, EXTENT));
    let shape = ContractionStage {
        packet_elements: choices
            .pick(&[ce.int8_elements, ce.bf16_elements, ce.int4_elements], ce.int8_elements),
        packet_bytes: choices.pick(&[ce.packet_bytes, machine.network.flit_bytes], ce.packet_bytes),
        repeats,
        groups,
        group_steps,
        group_output_steps: slots,
        lanes,
        columns,
        drain,
    };
    (shape, inner)
}

/// Fetch and commit, in either context.
pub fn copy(machine: &Tcp, choices: &mut SampleChoices<'_>) -> MicroCommand {
    let context = choices.pick(&[Context::Main, Context::Sub], Context::Main);
    let flits = choices.between(1, 1024);
    let mut command = fetched(machine, choices, context, flits, false);
    command.commit = Some(commit(choices, machine, context, flits, false));
    placed(choices, command)
}

/// Fetch, perhaps with a cast, vector engine, perhaps a cast, commit.
fn vector(machine: &Tcp, choices: &mut SampleChoices<'_>) -> MicroCommand {
    let flits = choices.between(1, 1024);
    let cast = choices.chance(2);
    let mut command = fetched(machine, choices, Context::Main, flits, cast);
    command.vector = Some(vector_chain(choices, flits));
    back_end(machine, choices, &mut command, flits);
    placed(choices, command)
}

/// Fetch, transpose, commit.
fn transposed(machine: &Tcp, choices: &mut SampleChoices<'_>) -> MicroCommand {
    let mut tile = tile(machine, choices);
    tile.tiles = choices.between(1, 64);
    let flits = tile.tiles * tile_flits(&tile);
    let mut command = fetched(machine, choices, Context::Main, flits, false);
    command.transpose = Some(tile);
    command.commit = Some(commit(choices, machine, Context::Main, tile.tiles * tile.output_rows, false));
    placed(choices, command)
}

/// A load of register files, by either context.
pub fn loaded(machine: &Tcp, choices: &mut SampleChoices<'_>) -> MicroCommand {
    let context = choices.pick(&[Context::Main, Context::Sub], Context::Main);
    load(machine, choices, context)
}

/// A load of register files by one context.
pub fn load(machine: &Tcp, choices: &mut SampleChoices<'_>, context: Context) -> MicroCommand {
    let packet_flits = choices.pick(&[1, 2, 4, 8], 1);
    let packets = choices.between(1, 1024 / packet_flits);
    let packet_bytes = packet_flits * machine.network.flit_bytes;
    let read_bytes = choices.pick(&[32, 16, 8], 32);
    let command = CommandStages {
        fetch: Some(FetchStage { context, packets, packet_bytes, read_bytes, cast: false }),
        collect: Some(CollectStage { packets, packet_bytes }),
        load: Some(LoadStage { context, slice_bytes: packets * packet_bytes }),
        ..CommandStages::default()
    };
    placed(choices, command)
}

/// An exchange in rings of this many slices, with what follows a fetch.
pub fn ring(machine: &Tcp, choices: &mut SampleChoices<'_>, slices: u64) -> MicroCommand {
    let slice0 = 1 << choices.between(0, u64::from(slices.trailing_zeros()));
    let ring = Ring { slice1: slices / slice0, slice0 };
    let time0 = choices.pick(&[1, 2, 4, 8], 1);
    let (topology, kept) = match choices.between(0, 5) {
        0 => (Topology::Broadcast01(ring, time0), slices),
        1 => (Topology::Broadcast1(ring), ring.slice1),
        2 => (Topology::Transpose(ring), 1),
        3 => (Topology::InterTranspose(ring, time0), 1),
        4 => (Topology::TransposedBroadcast1(ring), slice0),
        _ => (Topology::Custom(slices), choices.between(1, slices)),
    };
    let exchanged = match topology {
        Topology::Broadcast01(..) => time0,
        Topology::InterTranspose(..) => ring.slice1 * time0,
        _ => 1,
    };
    let packet_flits = choices.pick(&[1, 2, 4, 8], 1);
    let most = STEPS / 2 / (slices * packet_flits * exchanged);
    let packets = exchanged * choices.between(1, most.clamp(1, EXTENT));
    let mut command = fetched(machine, choices, Context::Main, packets * packet_flits, false);
    let packet_bytes = packet_flits * machine.network.flit_bytes;
    let read_bytes = choices.pick(&[32, 16, 8, 4], 32);
    command.fetch =
        Some(FetchStage { context: Context::Main, packets, packet_bytes, read_bytes, cast: false });
    command.switch = Some(SwitchStage { topology, packets, packet_flits });
    command.collect = Some(CollectStage { packets: packets * kept, packet_bytes });
    let flits = packets * kept * packet_flits;
    match choices.between(0, 3) {
        0 => {
            command.load =
                Some(LoadStage { context: Context::Main, slice_bytes: packets * kept * packet_bytes });
        }
        1 => contract_arrived(machine, choices, &mut command, flits),
        _ => back_end(machine, choices, &mut command, flits),
    }
    placed(choices, command)
}

/// A contraction of flits that are given: one group for each of some.
fn contract_arrived(machine: &Tcp, choices: &mut SampleChoices<'_>, command: &mut CommandStages, flits: u64) {
    let (shape, _) = contraction(machine, choices);
    let packet_flits = choices.divisor(flits, &[1, 2]);
    let packets = flits / packet_flits;
    let groups = choices.divisor(packets, &[1, 2, 4, 8, 16, 64, 128]);
    let repeats = choices.pick(&[1, 2, 4], 1);
    let group_steps = packets / groups * repeats;
    let packet_bytes = packet_flits * machine.network.flit_bytes;
    let group_output_steps = if group_steps > repeats { repeats } else { 1 };
    let columns = choices.pick(&[1, 2, 4], 1);
    let shape =
        ContractionStage { packet_bytes, repeats, groups, group_steps, group_output_steps, columns, ..shape };
    let slot_flits = match shape.drain {
        Drain::Interleaved => shape.columns,
        Drain::Sequential => shape.lanes * shape.columns.div_ceil(machine.ce.drain_elements_per_cycle),
    };
    command.contraction = Some(shape);
    back_end(machine, choices, command, groups * group_output_steps * slot_flits);
}

/// Fetch and collect of so many flits, in packets of some of them.
fn fetched(
    machine: &Tcp,
    choices: &mut SampleChoices<'_>,
    context: Context,
    flits: u64,
    cast: bool,
) -> CommandStages {
    let packet_flits = choices.divisor(flits, &[1, 2, 4, 8]);
    let packets = flits / packet_flits;
    let missing = choices.pick(&[0, 0, 0, 8, 16, 24], 0);
    let packet_bytes = packet_flits * machine.network.flit_bytes - missing;
    let read_bytes = choices.divisor(packet_bytes, &[32, 16, 8, 32, 16, 8, 4, 2, 1]);
    CommandStages {
        fetch: Some(FetchStage { context, packets, packet_bytes, read_bytes, cast }),
        collect: Some(CollectStage { packets, packet_bytes }),
        ..CommandStages::default()
    }
}

/// Any of vector engine, cast and transpose, then commit.
fn back_end(machine: &Tcp, choices: &mut SampleChoices<'_>, command: &mut CommandStages, flits: u64) {
    if command.vector.is_none() && choices.chance(2) {
        command.vector = Some(vector_chain(choices, flits));
    }
    let cast = choices.chance(2);
    command.cast = cast.then_some(CastStage { flits });
    let mut committed = flits;
    let mut tile = tile(machine, choices);
    tile.tiles = flits / tile_flits(&tile);
    // Rows that leave may be many more than the flits that came: no more than the simulation takes, each a
    // whole flit.
    let few = tile.tiles.saturating_mul(tile.output_rows) <= crate::CYCLES_MAX / machine.network.flit_bytes;
    if choices.chance(4) && few && flits.is_multiple_of(tile_flits(&tile)) {
        committed = tile.tiles * tile.output_rows;
        command.transpose = Some(tile);
    }
    command.commit = Some(commit(choices, machine, Context::Main, committed, cast));
}

fn vector_chain(choices: &mut SampleChoices<'_>, flits: u64) -> VectorStage {
    VectorStage {
        flits,
        chain_flits: flits,
        narrow: choices.chance(2),
        upper_half_padding: choices.chance(4),
        units: choices.between(0, 5),
        reduced_slices: choices.pick(&[1, 1, 1, 4, 16], 1),
    }
}

fn tile(machine: &Tcp, choices: &mut SampleChoices<'_>) -> TransposeStage {
    let element_bits = choices.pick(&[8, 16, 32, 4], 8);
    let most_rows = match element_bits {
        4 => machine.transpose.rows_4bit_max,
        8 => machine.transpose.rows_8bit_max,
        16 => machine.transpose.rows_16bit_max,
        _ => machine.transpose.rows_32bit_max,
    };
    let rows = choices.between(1, most_rows);
    let columns = if element_bits == 4 { choices.pick(&[16, 32], 16) } else { choices.pick(&[8, 16, 32], 8) };
    let output_rows = choices.between(1, columns);
    TransposeStage {
        element_bits,
        rows,
        columns,
        output_rows,
        flit_elements: if element_bits == 4 { 16 } else { 8 },
        tiles: 1,
    }
}

fn tile_flits(tile: &TransposeStage) -> u64 {
    (tile.rows * tile.columns).div_ceil(tile.flit_elements)
}

fn commit(
    choices: &mut SampleChoices<'_>,
    machine: &Tcp,
    context: Context,
    flits: u64,
    cast: bool,
) -> CommitStage {
    let valid_bytes = if cast { choices.pick(&[8, 16], 8) } else { choices.pick(&[32, 24, 16, 8], 32) };
    let write_bytes = choices.divisor(valid_bytes, &machine.commit.main_widths_bytes);
    CommitStage { context, flits, valid_bytes, write_bytes }
}

fn reads(choices: &mut SampleChoices<'_>, wide: bool) -> RegisterReads {
    RegisterReads {
        wide,
        held_steps: choices.pick(&[1, 2, 4, 16], 1),
        units: choices.between(1, 64),
        stride_units: 1,
    }
}

/// A command whose fetch and commit walk data memory without a gap, from any bank on.
fn placed(choices: &mut SampleChoices<'_>, command: CommandStages) -> MicroCommand {
    let mut work = MicroCommand::new(command);
    let width = |context: Context, main: u64| if context == Context::Sub { 8 } else { main };
    let fetch_bytes = command.fetch.map_or(8, |fetch| width(fetch.context, fetch.read_bytes));
    let commit_bytes = command.commit.map_or(8, |commit| width(commit.context, commit.write_bytes));
    work.fetch = AccessWalk { base_bytes: 8 * choices.between(0, 15), stride_bytes: fetch_bytes };
    work.commit = AccessWalk { base_bytes: 8 * choices.between(0, 15), stride_bytes: commit_bytes };
    work
}
