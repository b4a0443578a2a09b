//! Whether a program can be scheduled and read at all: what it names exists, what it touches lies within its
//! tensors, its order can run, and its counters can be added up.
//!
//! A recorded program holds all of this. One that was read from a text is hostile until it was verified.
//! Whether it is right, in capacity, races or reads of memory that nobody wrote, is a matter of findings.

use tilewright_base::{Diagnostic, Span};

use crate::chip::{LONGEST_PS, ns_ps, rate_of};
use crate::engine_kind::EngineKind;
use crate::instruction::Instruction;
use crate::program::{Allocation, NeuronProgram};
use crate::refusal::{Refusal, rule};
use crate::region::TensorRegion;
use crate::tensor::MAX_TENSOR_BYTES;
use crate::text::ProgramText;
use crate::{Chip, MemorySpace};

/// Most that all times of a program, or all of its bytes or multiplications, may add up to: two weeks of
/// picoseconds.
const MAX_SUM: u64 = LONGEST_PS;

/// Most tiles of all tensors together.
const MAX_TILES: u64 = 1 << 24;

/// Complaints that are made before the rest is left out.
const MAX_FAULTS: usize = 20;

/// Codes of what is refused, and what each means; a launch on more cores than share their memory is
/// `neuron/launch`.
pub const CODES: &[(&str, &str)] = &[
    ("neuron/program-size", "times, bytes, operations or tiles that no device comes to"),
    ("neuron/program-number", "a line or tensor that does not exist, or is not numbered in order"),
    ("neuron/program-places", "a tensor with places for some of its tiles only"),
    ("neuron/program-tensor", "a tensor larger than the memory of any device"),
    ("neuron/program-region", "bytes that are not in their tensor, or none"),
    ("neuron/program-engine", "a transfer that is not on the DMA engines"),
    ("neuron/program-ranks", "a collective whose ranks do not rise"),
    ("neuron/program-barrier", "an instruction that has passed fewer barriers than one before it"),
];

/// Which statement of a program is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSite {
    /// The program as a whole.
    Program,
    /// The tensor of that place in the list.
    Tensor(usize),
    /// The instruction of that place in the list.
    Instruction(usize),
}

/// A rule that a program breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFault {
    /// Where.
    pub site: FaultSite,
    /// What was asked, what is allowed, what to write instead.
    pub refusal: Refusal,
}

/// What is wrong with a program on a chip; nothing if it can be scheduled.
pub fn verify(chip: &Chip, program: &NeuronProgram) -> Vec<ProgramFault> {
    let mut faults = Vec::new();
    let mut check = |site: FaultSite, checked: Result<(), Refusal>| {
        if let Err(refusal) = checked
            && faults.len() < MAX_FAULTS
        {
            faults.push(ProgramFault { site, refusal });
        }
    };
    check(FaultSite::Program, chip.check_launch(program.cores.max(1) as usize));
    check(FaultSite::Program, check_sums(program).and_then(|()| check_time(chip, program)));
    for (at, allocation) in program.allocations.iter().enumerate() {
        check(FaultSite::Tensor(at), check_tensor(program, at, allocation));
    }
    let mut barrier = 0;
    for (at, instruction) in program.instructions.iter().enumerate() {
        check(FaultSite::Instruction(at), check_instruction(program, instruction));
        check(FaultSite::Instruction(at), check_barrier(program, instruction, &mut barrier));
    }
    faults
}

/// What is wrong with a program that was read from a text, as complaints that point to its statements.
pub fn verify_text(chip: &Chip, text: &ProgramText) -> Vec<Diagnostic> {
    let place = |site: FaultSite| -> Span {
        let found = match site {
            FaultSite::Program => None,
            FaultSite::Tensor(at) => text.tensors.get(at),
            FaultSite::Instruction(at) => text.instructions.get(at),
        };
        found.copied().unwrap_or(text.head)
    };
    let complaint = |ProgramFault { site, refusal }: ProgramFault| {
        let complaint = Diagnostic::error(refusal.code, refusal.asked).at(place(site), "");
        complaint.allowed(refusal.allowed).instead(refusal.instead)
    };
    verify(chip, &text.program).into_iter().map(complaint).collect()
}

/// Sums that the schedule and the readings take stay far below the range of 64 bits.
fn check_sums(program: &NeuronProgram) -> Result<(), Refusal> {
    let ones = &program.instructions;
    let times = |one: &Instruction| {
        let costs = [Some(one.cost), one.on_scalar, one.on_gpsimd].into_iter().flatten();
        let costs =
            costs.fold(0_u64, |sum, cost| sum.saturating_add(cost.busy_ps).saturating_add(cost.latency_ps));
        let data = one.dma.map_or(0, |dma| dma.data_ps);
        let links = one.collective.iter().flat_map(|collective| &collective.links);
        let links = links.fold(0_u64, |sum, (_, kept_ps)| sum.saturating_add(*kept_ps));
        let start = one.collective.as_ref().map_or(0, |collective| collective.start_ps);
        [costs, data, links, start].into_iter().fold(0, u64::saturating_add)
    };
    let bytes = |one: &Instruction| {
        let moved = one.dma.map_or(0, |dma| dma.bytes.saturating_add(dma.descriptors));
        [one.hbm_read_bytes, one.hbm_written_bytes, moved].into_iter().fold(0, u64::saturating_add)
    };
    let macs = |one: &Instruction| one.macs.saturating_mul(2 * u64::from(one.passes.max(1)));
    let sum = |of: &dyn Fn(&Instruction) -> u64| ones.iter().map(of).fold(0, u64::saturating_add);
    for (what, total) in [("picoseconds", sum(&times)), ("bytes", sum(&bytes)), ("operations", sum(&macs))] {
        rule(total <= MAX_SUM, || {
            Refusal::new(
                "neuron/program-size",
                format!("a program whose {what} add up to {total} or more"),
                format!("at most {MAX_SUM}"),
                "write what the instructions really take",
            )
        })?;
    }
    let tiles = program.allocations.iter().map(|one| u64::from(one.tiles)).fold(0, u64::saturating_add);
    rule(tiles <= MAX_TILES, || {
        Refusal::new(
            "neuron/program-size",
            format!("tensors of {tiles} tiles together"),
            format!("at most {MAX_TILES}"),
            "make fewer tiles",
        )
    })
}

/// An upper bound on what a schedule takes at the rates of the chip, every instruction and every spill after
/// the other: the arithmetic of schedules is exact below.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a factor of at most a hundred")]
fn check_time(chip: &Chip, program: &NeuronProgram) -> Result<(), Refusal> {
    /// Twice the sums of times and bytes leaves room for what readings add up.
    const MAX_PS: u128 = 1 << 62;
    let (dma, hbm, tensor) = (&chip.neuron.dma, &chip.neuron.hbm, &chip.neuron.tensor);
    let (sync, scalar, vector) = (&chip.neuron.sync, &chip.neuron.scalar, &chip.neuron.vector);
    let rate = rate_of(hbm.stack_bytes_per_s, hbm.efficiency).min(dma.achieved_bytes_per_s).max(1);
    // The slowest start of the array, and a division in place of a reciprocal.
    let slower = (1.0 / tensor.ramp_start_fraction).max(vector.divide_cycles).ceil();
    let fixed_ns = [
        dma.trigger_ns.max(dma.software_descriptor_ns),
        dma.copy_ns,
        dma.fixed_ns,
        sync.semaphore_ns,
        sync.dma_to_compute_ns,
        sync.dma_round_trip_ns,
        scalar.table_load_ns,
    ];
    let fixed_ps: u128 = fixed_ns.into_iter().map(|ns| u128::from(ns_ps(ns))).sum();
    let ps = |one: &Instruction| {
        let costs = [Some(one.cost), one.on_scalar, one.on_gpsimd].into_iter().flatten();
        let costs: u128 = costs.map(|cost| u128::from(cost.busy_ps) + u128::from(cost.latency_ps)).sum();
        let data = one.dma.map_or(0, |dma| u128::from(dma.data_ps));
        let start = one.collective.as_ref().map_or(0, |collective| u128::from(collective.start_ps));
        // A tile is saved and loaded again at most once for each use.
        let tile = |region: &TensorRegion| {
            let tensor = program
                .allocations
                .get(region.storage as usize)
                .filter(|one| one.memory == MemorySpace::Sbuf);
            tensor.map_or(0, |one| u128::from(one.partition_bytes) * u128::from(one.partitions.max(1)))
        };
        let spilled = 2 * one.reads.iter().chain(&one.writes).map(tile).sum::<u128>();
        let moved = one.dma.map_or(0, |dma| u128::from(dma.bytes));
        let bytes = u128::from(one.hbm_read_bytes) + u128::from(one.hbm_written_bytes) + moved + spilled;
        costs * slower as u128 + data + start + fixed_ps + bytes * 1_000_000_000_000 / u128::from(rate)
    };
    let total = program.instructions.iter().map(ps).fold(0, u128::saturating_add);
    rule(total <= MAX_PS, || {
        Refusal::new(
            "neuron/program-size",
            format!("a program that may take {total} picoseconds on {}", chip.name),
            format!("at most {MAX_PS}"),
            "write what the instructions really take and move",
        )
    })
}

fn check_tensor(program: &NeuronProgram, at: usize, allocation: &Allocation) -> Result<(), Refusal> {
    let Allocation { storage, tiles, places, .. } = allocation;
    rule(*storage as usize == at, || {
        Refusal::new(
            "neuron/program-number",
            format!("t{storage} as the tensor of number {at}"),
            "tensors numbered from 0 in order",
            format!("write t{at}"),
        )
    })?;
    rule(places.is_empty() || places.len() == *tiles as usize, || {
        Refusal::new(
            "neuron/program-places",
            format!("{} places for {tiles} tiles of t{storage}", places.len()),
            "a place for each tile, or none",
            format!("give {tiles} places, or leave them to the compiler"),
        )
    })?;
    let rows = allocation.partition_bytes.saturating_mul(allocation.partitions.into());
    let bytes = rows.saturating_mul((*tiles).into());
    rule(bytes < MAX_TENSOR_BYTES as u64, || {
        Refusal::new(
            "neuron/program-tensor",
            format!("t{storage} of {bytes} bytes"),
            "tensors that fit into the memory of a device",
            "make it smaller",
        )
    })?;
    check_line(program, allocation.source)
}

fn check_line(program: &NeuronProgram, source: u32) -> Result<(), Refusal> {
    rule((source as usize) < program.sources.len(), || {
        Refusal::new(
            "neuron/program-number",
            format!("line {source} of {}", program.sources.len()),
            "the number of a `line` of the head",
            format!("add `line {source} \"FILE:LINE\"`"),
        )
    })
}

fn check_instruction(program: &NeuronProgram, one: &Instruction) -> Result<(), Refusal> {
    check_line(program, one.source)?;
    let offsets = one.offsets.as_deref().unwrap_or_default();
    for region in one.writes.iter().chain(&one.reads).chain(offsets) {
        check_region(program, one.opcode, region)?;
    }
    rule(one.dma.is_none() || one.engine == EngineKind::Dma, || {
        Refusal::new(
            "neuron/program-engine",
            format!("{} on the {} engine with `dma`", one.opcode, one.engine.name()),
            "transfers on the dma engine",
            "write `dma` as its engine, or leave `dma ...` out",
        )
    })?;
    let members = one.collective.iter().flat_map(|collective| collective.members.windows(2));
    rule(members.into_iter().all(|pair| pair[0] < pair[1]), || {
        Refusal::new(
            "neuron/program-ranks",
            format!("{} of ranks out of order", one.opcode),
            "ranks that rise, each once",
            "sort them",
        )
    })
}

/// A region lies in its tensor: rows are partitions on chip, and bytes of a row those of a partition.
fn check_region(program: &NeuronProgram, opcode: &str, region: &TensorRegion) -> Result<(), Refusal> {
    let TensorRegion { storage, tile, pitch_bytes, rows, bytes, sparse: _ } = *region;
    let refuse = |asked: String, allowed: String| {
        Refusal::new(
            "neuron/program-region",
            format!("{opcode} on {asked}"),
            allowed,
            "write a part of its tensor",
        )
    };
    let Some(tensor) = program.allocations.get(storage as usize) else {
        return Err(refuse(format!("t{storage}"), format!("one of {} tensors", program.allocations.len())));
    };
    rule(tile < tensor.tiles, || {
        refuse(format!("tile {tile} of t{storage}"), format!("one of its {} tiles", tensor.tiles))
    })?;
    rule(rows.0 < rows.1 && bytes.0 < bytes.1, || {
        refuse(
            format!("rows {} to {} and bytes {} to {} of t{storage}", rows.0, rows.1, bytes.0, bytes.1),
            "at least one row, and one byte".to_owned(),
        )
    })?;
    let last = (rows.1 - 1).checked_mul(pitch_bytes).and_then(|start| start.checked_add(bytes.1));
    let size = tensor.partition_bytes.saturating_mul(u64::from(tensor.partitions).max(1));
    rule(last.is_some_and(|last| last <= size), || {
        let last = last.map_or_else(|| "2^64 and beyond".to_owned(), |last| last.to_string());
        refuse(format!("bytes up to {last} of t{storage}"), format!("up to {size}, where the tile ends"))
    })
}

/// Barriers that instructions have passed never fall, and are passed by somebody.
fn check_barrier(program: &NeuronProgram, one: &Instruction, latest: &mut u32) -> Result<(), Refusal> {
    let most = u32::try_from(program.instructions.len()).unwrap_or(u32::MAX);
    rule(one.barrier >= *latest && one.barrier <= most, || {
        Refusal::new(
            "neuron/program-barrier",
            format!("{} with barrier={} behind barrier={latest}", one.opcode, one.barrier),
            format!("barriers that rise from instruction to instruction, up to {most}"),
            format!("write barrier={latest}, or move it up"),
        )
    })?;
    *latest = one.barrier;
    Ok(())
}
