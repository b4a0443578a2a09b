//! The program of a general graph on a device, or on one for each chip that it is divided over: constants lie
//! in their memories, every run takes inputs and gives results as words. It knows no kernels, so that a
//! compiled file runs as its plan does.

use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_compile::general::interface::{GraphInterface, OpenSizes, Port, pattern_bytes};
use tilewright_compile::general::kernel::Packing;
use tilewright_machine::tcp::Tcp;
use tilewright_num::RuleSet;
use tilewright_record::{KeepLast, Sink};
use tilewright_tcp_exec::ExecFault;
use tilewright_tcp_exec::state::SharedBytes;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, MemoryLocation};

use crate::Device;
use crate::chips::add_chip;
use crate::prepared::Prepared;
use crate::readings::{Reading, ReadingError, ReadingOptions};

/// A graph that is ready to run.
#[derive(Debug)]
pub struct ExecutableGraph {
    /// One for each chip: chips of a graph have nothing to say to each other.
    devices: Vec<Device>,
    prepared: Prepared,
    interface: GraphInterface,
}

impl ExecutableGraph {
    /// Verifies the program; constants are still to be written.
    ///
    /// # Errors
    /// A program that is refused, more bytes than HBM has or PEs than the chip has, inputs and results
    /// outside of what it takes.
    pub fn new(
        machine: &Tcp,
        interface: GraphInterface,
        program: Program,
    ) -> Result<ExecutableGraph, ReadingError> {
        let (asked, there) = (interface.hbm_bytes, machine.hbm_capacity_bytes());
        if asked > there {
            return Err(ReadingError::Unfit(format!("{asked} B of HBM, which has {there} B")));
        }
        let (asked_pes, pes) = (interface.pes, machine.pes());
        if asked_pes > pes {
            return Err(ReadingError::Unfit(format!("{asked_pes} PEs of a chip that has {pes}")));
        }
        for port in interface.inputs.iter().chain(&interface.results) {
            port.check(asked).map_err(|why| ReadingError::Unfit(why.to_string()))?;
        }
        interface.check_division().map_err(|why| ReadingError::Unfit(why.to_string()))?;
        let prepared = Prepared::new(machine, program)?;
        let devices = (0..interface.chips()).map(|_| Device::new(machine, 1)).collect();
        Ok(ExecutableGraph { devices, prepared, interface })
    }

    /// The same with sizes that a run may have below those of its inputs and results.
    #[must_use]
    pub fn with_open(mut self, open: OpenSizes) -> ExecutableGraph {
        self.interface.open = open;
        self
    }

    /// What it takes and gives.
    pub fn interface(&self) -> &GraphInterface {
        &self.interface
    }

    /// Writes a constant to its first byte in HBM.
    ///
    /// # Errors
    /// Bytes past the end of HBM.
    pub fn write_constant(&mut self, base: u64, bytes: &[u8]) -> Result<(), ReadingError> {
        let mut written = self.devices.iter_mut().map(|device| device.write(hbm(base), bytes));
        written.try_for_each(|one| one.map_err(|fault| faulted("constants", fault)))
    }

    /// Puts a constant that is held elsewhere to its first byte in HBM, without a copy.
    ///
    /// # Errors
    /// Bytes past the end of HBM.
    pub fn lend_constant(&mut self, base: u64, bytes: &SharedBytes) -> Result<(), ReadingError> {
        let mut shared = self.devices.iter_mut().map(|device| device.lend(hbm(base), bytes));
        shared.try_for_each(|one| one.map_err(|fault| faulted("constants", fault)))
    }

    /// Runs once. Inputs are words in the order of the interface; those behind the last that is given keep
    /// what they had, zeros at first. Of several chips the sink hears the first; cycles are those of the
    /// slowest, and counts, energy and findings those of all.
    ///
    /// # Errors
    /// More inputs than the graph has, inputs of another length, a run that cannot go on.
    pub fn run<S: Sink + Send>(
        &mut self,
        inputs: &[Vec<u32>],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<Reading, ReadingError> {
        if inputs.len() > self.interface.inputs.len() {
            let wanted = self.interface.inputs.len();
            return Err(ReadingError::Unfit(format!("{} inputs for a graph of {wanted}", inputs.len())));
        }
        for (port, words) in self.interface.inputs.iter().zip(inputs) {
            if port.count() != words.len() as u64 {
                let found = format!("{} words for input `{}` of {}", words.len(), port.name, port.count());
                return Err(ReadingError::Unfit(found));
            }
            for (chip, device) in (0..).zip(&mut self.devices) {
                let bytes = input_bytes(&placed(port, port.part(words, chip))?, port.packing);
                device.write(hbm(port.base), &bytes).map_err(|fault| faulted(&port.name, fault))?;
            }
        }
        let (first, others) = self.devices.split_first_mut().or_broken("a graph has a chip");
        let mut reading = first.run(&self.prepared, &[], wanted, sink)?;
        let quiet = ReadingOptions { trace: false, ..wanted.clone() };
        for device in others {
            let other = device.run(&self.prepared, &[], &quiet, KeepLast::new(0))?;
            add_chip(&mut reading.outcome, other.outcome);
            reading.findings.extend(other.findings);
        }
        Ok(reading)
    }

    /// The elements of a value in row-major order, as they lie in HBM: words, or patterns that are narrower.
    ///
    /// # Errors
    /// A place outside of HBM, more elements than the host has memory for.
    pub fn patterns(&self, port: &Port) -> Result<Vec<u32>, ReadingError> {
        let parts = self.devices.iter().map(|device| part_patterns(device, port));
        Ok(port.joined(&parts.collect::<Result<Vec<_>, _>>()?))
    }

    /// Results of the last run as words, in the order of the interface.
    ///
    /// # Errors
    /// As [`ExecutableGraph::patterns`].
    pub fn results(&self) -> Result<Vec<Vec<u32>>, ReadingError> {
        let words = |port: &Port| {
            let mut words = self.patterns(port)?;
            if port.packing.is_narrow() {
                let wide = |word: &mut u32| *word = port.packing.widened(&RuleSet::TCP, *word);
                words.iter_mut().for_each(wide);
            }
            Ok(words)
        };
        self.interface.results.iter().map(words).collect()
    }
}

/// What a chip has of a value, in row-major order, as it lies in HBM.
fn part_patterns(device: &Device, port: &Port) -> Result<Vec<u32>, ReadingError> {
    let too_large = || ReadingError::Unfit(format!("`{}` has {} elements", port.name, port.count()));
    let block = block(device, port, port.block_elements().ok_or_else(too_large)?)?;
    if port.loops.is_empty() {
        return Ok(block);
    }
    let mut all = room(port, port.part_count())?;
    for loops in &port.loops {
        loops.each(&mut |element, place| {
            let slot = all.get_mut(to_index(element)).or_broken("loops go over elements of their value");
            *slot = *block.get(to_index(place)).or_broken("loops stay within the block of their value");
        });
    }
    Ok(all)
}

/// Elements of an input as they follow each other in HBM, zeros between them.
fn placed(port: &Port, words: Vec<u32>) -> Result<Vec<u32>, ReadingError> {
    if port.loops.is_empty() {
        return Ok(words);
    }
    let mut all = room(port, port.block_elements().or_broken("a port was checked"))?;
    for loops in &port.loops {
        loops.each(&mut |element, place| {
            let word = words.get(to_index(element)).or_broken("loops go over elements of their value");
            *all.get_mut(to_index(place)).or_broken("loops stay within the block of their value") = *word;
        });
    }
    Ok(all)
}

/// Elements from the base of a value on, in the order in which they lie.
fn block(device: &Device, port: &Port, elements: u64) -> Result<Vec<u32>, ReadingError> {
    let mut words = room(port, elements)?;
    let each = to_index(port.element_bytes());
    let mut bytes = vec![0; CHUNK_ELEMENTS * each];
    for (chunk, at) in words.chunks_mut(CHUNK_ELEMENTS).zip((port.base..).step_by(CHUNK_ELEMENTS * each)) {
        let bytes = bytes.get_mut(..chunk.len() * each).or_broken("a chunk has room for its elements");
        device.read(hbm(at), bytes).map_err(|fault| faulted(&port.name, fault))?;
        for (word, bytes) in chunk.iter_mut().zip(bytes.chunks(each)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
    }
    Ok(words)
}

/// Elements that are read from a device at a time.
const CHUNK_ELEMENTS: usize = 1 << 16;

/// Words of a value, all zero, if the host has so much memory.
fn room(port: &Port, elements: u64) -> Result<Vec<u32>, ReadingError> {
    let mut words = Vec::new();
    let count = usize::try_from(elements).unwrap_or(usize::MAX);
    let full = |_| ReadingError::Unfit(format!("`{}` takes {elements} words of memory here", port.name));
    words.try_reserve_exact(count).map_err(full)?;
    words.resize(count, 0);
    Ok(words)
}

/// Words of an input as they lie in HBM.
fn input_bytes(words: &[u32], packing: Packing) -> Vec<u8> {
    if !packing.is_narrow() {
        return pattern_bytes(words, packing);
    }
    let narrow = |word: &u32| packing.narrowed(&RuleSet::TCP, *word);
    pattern_bytes(&words.iter().map(narrow).collect::<Vec<u32>>(), packing)
}

fn hbm(offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset })
}

fn faulted(name: &str, fault: ExecFault) -> ReadingError {
    ReadingError::Fault { name: name.to_string(), fault }
}
