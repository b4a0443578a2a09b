//! What is wrong with a recorded run though it could be executed: capacity, reads of memory that nobody
//! wrote.

mod accumulation;
mod hbm_capacity;
pub mod hbm_races;
mod out_of_bounds;
pub mod placement;

use std::collections::{BTreeMap, BTreeSet};

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::limits::start_grain;
use tilewright_neuron_isa::program::{EngineKind, Instruction, NeuronProgram};
use tilewright_neuron_isa::{Chip, MemorySpace};

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeuronFinding {
    /// Stable code, `neuron/rule`.
    pub code: &'static str,
    /// True if the device would refuse the program or give wrong values.
    pub error: bool,
    /// Line, as `file:line`.
    pub source: String,
    /// What is wrong.
    pub message: String,
    /// What the machine allows.
    pub allowed: String,
    /// What to do instead.
    pub instead: String,
}

/// Most bytes of a partition that are live at once, and what holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes of a partition.
    pub bytes: u64,
    /// Instruction at which they are live.
    pub at: usize,
    /// Tensors that hold them: number of the allocation and bytes, largest first.
    pub holders: Vec<(u32, u64)>,
}

/// First and last instruction that touch each tile of each tensor.
pub type Lifetimes = BTreeMap<(u32, u32), (usize, usize)>;

/// When each tile is live.
pub fn lifetimes(program: &NeuronProgram) -> Lifetimes {
    let mut lives = Lifetimes::new();
    for (at, instruction) in program.instructions.iter().enumerate() {
        for region in instruction.reads.iter().chain(&instruction.writes) {
            let life = lives.entry((region.storage, region.tile)).or_insert((at, at));
            life.1 = at;
        }
    }
    lives
}

/// The peak of live bytes of one memory, in order of execution: of the core that has most, as each has a
/// memory of its own.
pub fn peak(program: &NeuronProgram, lives: &Lifetimes, memory: MemorySpace) -> Peak {
    let mut cores: BTreeMap<u32, Lifetimes> = BTreeMap::new();
    for (&tile, &life) in lives {
        let core = program.instructions.get(life.0).map_or(0, |first| program.core(first));
        cores.entry(core).or_default().insert(tile, life);
    }
    let peaks = cores.values().map(|lives| core_peak(program, lives, memory));
    peaks.reduce(|most, other| if other.bytes > most.bytes { other } else { most }).unwrap_or_default()
}

fn core_peak(program: &NeuronProgram, lives: &Lifetimes, memory: MemorySpace) -> Peak {
    let sizes: BTreeMap<u32, u64> = program
        .allocations
        .iter()
        .filter(|allocation| allocation.memory == memory)
        .map(|allocation| (allocation.storage, allocation.partition_bytes))
        .collect();
    let mut changes: Vec<(usize, bool, u64)> = Vec::new();
    for ((storage, _), (first, last)) in lives {
        if let Some(&bytes) = sizes.get(storage) {
            changes.push((*first, true, bytes));
            changes.push((*last + 1, false, bytes));
        }
    }
    // What ends before an instruction is free for it.
    changes.sort_unstable_by_key(|&(at, begins, _)| (at, begins));
    let (mut live, mut best, mut best_at) = (0_u64, 0_u64, 0_usize);
    for (at, begins, bytes) in changes {
        live = if begins { live.exact_add(bytes) } else { live.exact_sub(bytes) };
        if live > best {
            (best, best_at) = (live, at);
        }
    }
    let mut held: BTreeMap<u32, u64> = BTreeMap::new();
    for ((storage, _), (first, last)) in lives {
        if let Some(bytes) = sizes.get(storage).filter(|_| (*first..=*last).contains(&best_at)) {
            *held.entry(*storage).or_default() += bytes;
        }
    }
    let mut holders: Vec<(u32, u64)> = held.into_iter().collect();
    holders.sort_by_key(|&(storage, bytes)| (std::cmp::Reverse(bytes), storage));
    Peak { bytes: best, at: best_at, holders }
}

/// Everything that can be seen without timing in a program that was just recorded.
pub fn findings(chip: &Chip, program: &NeuronProgram) -> Vec<NeuronFinding> {
    found_in(chip, program, uninitialised(program, &BTreeSet::new()))
}

/// Everything that can be seen without timing in a program that was read from a text. Somebody may have
/// edited it, so that it has reads whose writer is gone, which no recorded run marks.
pub fn findings_of_text(chip: &Chip, program: &NeuronProgram) -> Vec<NeuronFinding> {
    let on_chip = program.allocations.iter().filter(|of| of.memory.on_chip()).map(|of| of.storage);
    found_in(chip, program, uninitialised(program, &on_chip.collect()))
}

fn found_in(chip: &Chip, program: &NeuronProgram, uninitialised: Vec<NeuronFinding>) -> Vec<NeuronFinding> {
    let mut found = uninitialised;
    found.extend(outside_tables(program));
    found.extend(start_partitions(chip, program));
    let lives = lifetimes(program);
    let memories =
        [(MemorySpace::Sbuf, chip.sbuf_usable_bytes()), (MemorySpace::Psum, chip.psum_partition_bytes())];
    for (memory, capacity) in memories {
        let peak = peak(program, &lives, memory);
        if peak.bytes > capacity {
            found.push(over_capacity(program, memory, capacity, &peak));
        }
    }
    found.extend(hbm_capacity::finding(chip, program));
    found.extend(accumulation::findings(chip, program));
    found.extend(out_of_bounds::findings(chip, program));
    found.extend(placement::findings(program, &lives));
    found.extend(hbm_races::findings(program));
    found.extend(crate::analysis::advice::slow_transfers(chip, program));
    found
}

fn over_capacity(program: &NeuronProgram, memory: MemorySpace, capacity: u64, peak: &Peak) -> NeuronFinding {
    let of = |storage: u32| program.allocations.iter().find(|allocation| allocation.storage == storage);
    let mut places: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for &(storage, bytes) in &peak.holders {
        let Some(allocation) = of(storage) else { continue };
        let place = places.entry((&allocation.name, program.source(allocation.source))).or_default();
        place.0 = place.0.exact_add(bytes);
        place.1 = place.1.exact_add(bytes.checked_div(allocation.partition_bytes).unwrap_or(1));
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
    let holder = |((name, line), (bytes, tiles)): ((&str, &str), (u64, u64))| {
        let many = if tiles > 1 { format!(" in {tiles} tiles") } else { String::new() };
        let name = if name.is_empty() { String::new() } else { format!("`{name}` ") };
        format!("{name}{bytes} B{many} from {line}")
    };
    let holders: Vec<String> = places.into_iter().take(5).map(holder).collect();
    let line = program.instructions[peak.at].source;
    let spills = memory == MemorySpace::Sbuf && can_spill(program, capacity);
    // The compiler of the first dialect fuses loops, so that a block of PSUM tiles is no longer live as a
    // whole.
    let fuses = memory == MemorySpace::Psum && program.compiled && !is_placed(program);
    let instead = if spills {
        "use smaller tiles, or end the use of some earlier: until then the compiler spills them to HBM"
    } else if fuses {
        "use a tile in the loop that wrote it: the compiler fits it only if it can fuse the loops"
    } else {
        "use smaller tiles, or end the use of some earlier: these cannot be spilled"
    };
    NeuronFinding {
        code: if memory == MemorySpace::Sbuf { "neuron/sbuf-capacity" } else { "neuron/psum-capacity" },
        error: !spills && !fuses,
        source: program.source(line).to_owned(),
        message: format!(
            "{} bytes of each {} partition are live at once: {}",
            peak.bytes,
            memory.name(),
            holders.join(", ")
        ),
        allowed: format!("{capacity} bytes"),
        instead: instead.to_owned(),
    }
}

/// Whether the kernel says itself where tiles lie.
fn is_placed(program: &NeuronProgram) -> bool {
    program.allocations.iter().any(|allocation| !allocation.places.is_empty())
}

/// Whether the compiler makes room in SBUF by moving tiles to HBM and back: it places them itself, and what
/// each instruction needs at once fits.
fn can_spill(program: &NeuronProgram, capacity: u64) -> bool {
    let sbuf: BTreeMap<u32, u64> = program
        .allocations
        .iter()
        .filter(|allocation| allocation.memory == MemorySpace::Sbuf)
        .map(|allocation| (allocation.storage, allocation.partition_bytes))
        .collect();
    !is_placed(program)
        && program.instructions.iter().all(|instruction| {
            let touched = instruction.reads.iter().chain(&instruction.writes);
            let tiles: BTreeSet<(u32, u32)> = touched.map(|region| (region.storage, region.tile)).collect();
            let bytes = tiles.iter().filter_map(|(storage, _)| sbuf.get(storage));
            bytes.fold(0_u64, |sum, bytes| sum.exact_add(*bytes)) <= capacity
        })
}

/// Tiles of compute engines that start at a partition where their size may not.
fn start_partitions(chip: &Chip, program: &NeuronProgram) -> Vec<NeuronFinding> {
    let on_chip: BTreeMap<u32, u64> = program
        .allocations
        .iter()
        .filter(|allocation| allocation.memory.on_chip())
        .map(|allocation| {
            (allocation.storage, u64::from(allocation.places.first().map_or(0, |(partition, _)| *partition)))
        })
        .collect();
    let mut lines: BTreeMap<(u32, &str), (u64, u64)> = BTreeMap::new();
    for instruction in &program.instructions {
        if matches!(instruction.engine, EngineKind::Dma | EngineKind::Sync) {
            continue;
        }
        let offsets = instruction.offsets.as_deref().unwrap_or_default();
        let operands = instruction.reads.iter().filter(|region| !offsets.contains(region));
        for region in operands.chain(&instruction.writes) {
            let Some(base) = on_chip.get(&region.storage) else { continue };
            let (start, count) = (base + region.rows.0, region.rows.1 - region.rows.0);
            if start % start_grain(chip, count) != 0 {
                lines.entry((instruction.source, instruction.opcode)).or_insert((start, count));
            }
        }
    }
    lines
        .into_iter()
        .map(|((source, opcode), (start, count))| NeuronFinding {
            code: "neuron/start-partition",
            error: true,
            source: program.source(source).to_owned(),
            message: format!("{opcode} on {count} partitions from partition {start}"),
            allowed: format!("{count} partitions start at a multiple of {}", start_grain(chip, count)),
            instead: "place the tile so that it starts there, or move the data with a DMA".to_owned(),
        })
        .collect()
}

/// Reads of memory that nobody wrote, one finding for each line and instruction: those that the run marked,
/// and those of tensors that must be written before they are read.
fn uninitialised(program: &NeuronProgram, must_be_written: &BTreeSet<u32>) -> Vec<NeuronFinding> {
    let mut lines: BTreeMap<(u32, &str), usize> = BTreeMap::new();
    let mut unwritten = must_be_written.clone();
    for one in &program.instructions {
        let reads_nothing = one.reads.iter().any(|read| unwritten.contains(&read.storage));
        one.writes.iter().for_each(|write| _ = unwritten.remove(&write.storage));
        if one.uninitialised || reads_nothing {
            *lines.entry((one.source, one.opcode)).or_default() += 1;
        }
    }
    lines
        .into_iter()
        .map(|((source, opcode), count)| NeuronFinding {
            code: "neuron/uninitialised",
            error: false,
            source: program.source(source).to_owned(),
            message: format!("{opcode} reads memory that nobody wrote ({count} times)"),
            allowed: "reads of what an instruction wrote before".to_owned(),
            instead: "write the whole tile first, or mask the read".to_owned(),
        })
        .collect()
}

/// Values that a function's table does not reach, one finding for each line (NKI, `nisa.activation`: sine
/// from -pi to pi).
fn outside_tables(program: &NeuronProgram) -> Vec<NeuronFinding> {
    let mut lines: BTreeMap<(u32, &str), usize> = BTreeMap::new();
    for Instruction { source, opcode, .. } in program.instructions.iter().filter(|one| one.outside_table) {
        *lines.entry((*source, opcode)).or_default() += 1;
    }
    lines
        .into_iter()
        .map(|((source, opcode), count)| NeuronFinding {
            code: "neuron/domain",
            error: false,
            source: program.source(source).to_owned(),
            message: format!("{opcode} with the sine of values beyond pi ({count} times)"),
            allowed: "-pi to pi: outside, the table of the Scalar engine gives no sine".to_owned(),
            instead: "write nl.sin, which reduces its argument, or subtract multiples of 2 pi first"
                .to_owned(),
        })
        .collect()
}
