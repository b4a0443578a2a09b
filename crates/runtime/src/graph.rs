//! A general graph on a device: constants are written once, every run takes inputs and gives results as
//! words.

use tilewright_base::invariant::{OrBroken, to_index};
use tilewright_compile::general::Planned;
use tilewright_compile::general::kernel::Origin;
use tilewright_machine::tcp::Tcp;
use tilewright_num::{Dtype, RuleSet, convert};
use tilewright_record::Sink;
use tilewright_tcp_exec::ExecFault;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, MemoryLocation};

use crate::Device;
use crate::prepared::Prepared;
use crate::readings::{Reading, ReadingError, ReadingOptions};

/// A graph whose constants are in the memory of a chip.
#[derive(Debug)]
pub struct GraphDevice {
    device: Device,
    prepared: Prepared,
    planned: Planned,
}

impl GraphDevice {
    /// Verifies the program and writes constants.
    ///
    /// # Errors
    /// A program that is refused, more bytes than HBM has.
    pub fn new(machine: &Tcp, planned: Planned) -> Result<GraphDevice, ReadingError> {
        let prepared = Prepared::new(machine, planned.program.clone())?;
        let mut device = Device::new(machine, 1);
        for (number, value) in planned.kernels.values.iter().enumerate() {
            if let Origin::Constant(patterns) = &value.origin {
                let written = device.write(place(&planned, number), &bytes(patterns, value.half));
                written.map_err(|fault| faulted(&value.name, fault))?;
            }
        }
        for block in &planned.blocks {
            let written = device.write(hbm(block.base), &bytes(&block.patterns, block.half));
            written.map_err(|fault| faulted("constants", fault))?;
        }
        Ok(GraphDevice { device, prepared, planned })
    }

    /// What it runs.
    pub fn planned(&self) -> &Planned {
        &self.planned
    }

    /// Runs once. Inputs are words in the order of the graph's inputs; results are found with
    /// [`GraphDevice::value`].
    ///
    /// # Errors
    /// Inputs of another length, a run that cannot go on.
    pub fn run<S: Sink + Send>(
        &mut self,
        inputs: &[Vec<u32>],
        wanted: &ReadingOptions,
        sink: S,
    ) -> Result<Reading, ReadingError> {
        for (number, words) in self.planned.kernels.inputs.iter().zip(inputs) {
            let value = &self.planned.kernels.values[*number];
            if value.count() != words.len() as u64 {
                let found = format!("{} words for input `{}` of {}", words.len(), value.name, value.count());
                return Err(ReadingError::Unfit(found));
            }
            let bytes = if value.half {
                let narrow = |word: &u32| convert(&RuleSet::TCP, Dtype::F32, Dtype::Bf16, *word).unwrap_or(0);
                bytes(&words.iter().map(narrow).collect::<Vec<u32>>(), true)
            } else {
                bytes(words, false)
            };
            let written = self.device.write(place(&self.planned, *number), &bytes);
            written.map_err(|fault| faulted(&value.name, fault))?;
        }
        self.device.run(&self.prepared, &[], wanted, sink)
    }

    /// The elements of a value in row-major order, by its number: words, or patterns of bf16.
    ///
    /// # Errors
    /// A place outside of HBM, a value that never leaves data memory.
    pub fn value(&self, number: usize) -> Result<Vec<u32>, ReadingError> {
        let value = &self.planned.kernels.values[number];
        let each = to_index(value.element_bytes());
        let count = to_index(value.count());
        let words = |from: Address, count: usize| {
            let mut bytes = vec![0; count * each];
            let read = self.device.read(from, &mut bytes);
            read.map_err(|fault| faulted(&value.name, fault))?;
            let word =
                |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
            Ok(bytes.chunks(each).map(word).collect::<Vec<u32>>())
        };
        let laid = match self.planned.laid.get(&number) {
            None => return words(place(&self.planned, number), count),
            Some(None) => {
                return Err(ReadingError::Unfit(format!("`{}` never leaves data memory", value.name)));
            }
            Some(Some(laid)) => laid,
        };
        let image = &laid.placed.image;
        let block = words(hbm(laid.base), to_index(image.elements()))?;
        let mut all = vec![0; count];
        for part in image.parts(number, &laid.axes, false).or_broken("a value that was placed has its parts")
        {
            part.each(|row_major, place| {
                if let (Some(slot), Some(word)) = (all.get_mut(row_major), block.get(place)) {
                    *slot = *word;
                }
            });
        }
        Ok(all)
    }

    /// Results of the last run as words, in the order of the graph's outputs.
    ///
    /// # Errors
    /// As [`GraphDevice::value`].
    pub fn results(&self) -> Result<Vec<Vec<u32>>, ReadingError> {
        self.planned.kernels.results.iter().map(|result| self.value(result.value)).collect()
    }
}

fn bytes(patterns: &[u32], half: bool) -> Vec<u8> {
    if half {
        return patterns.iter().flat_map(|word| word.to_le_bytes()[..2].to_vec()).collect();
    }
    patterns.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn hbm(offset: u64) -> Address {
    Address::new(MemoryLocation { chip: 0, medium: MemoryInstance::Hbm, offset })
}

fn place(planned: &Planned, number: usize) -> Address {
    hbm(planned.places[number])
}

fn faulted(name: &str, fault: ExecFault) -> ReadingError {
    ReadingError::Fault { name: name.to_string(), fault }
}
