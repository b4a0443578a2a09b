//! A planned graph on a device, with its kernels: every value can be looked at, so that kernels can be
//! compared one by one. What runs it is [`ExecutableGraph`].

use tilewright_base::invariant::broken;
use tilewright_compile::check::plan_fault;
use tilewright_compile::divide::DividedGraph;
use tilewright_compile::general::Planned;
use tilewright_compile::general::interface::{constants, interface, port};
use tilewright_machine::tcp::Tcp;
use tilewright_record::Sink;

use crate::executable::ExecutableGraph;
use crate::readings::{Reading, ReadingError, ReadingOptions};

/// A graph whose constants are in the memory of a chip.
#[derive(Debug)]
pub struct GraphDevice {
    graph: ExecutableGraph,
    planned: Planned,
}

impl GraphDevice {
    /// Verifies the program and writes constants.
    ///
    /// # Errors
    /// A program that is refused, more bytes than HBM has.
    pub fn new(machine: &Tcp, planned: Planned) -> Result<GraphDevice, ReadingError> {
        let graph = executable(machine, &planned, 1)?;
        Ok(GraphDevice { graph, planned })
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
        self.graph.run(inputs, wanted, sink)
    }

    /// The elements of a value in row-major order, by its number: words, or patterns of bf16.
    ///
    /// # Errors
    /// A place outside of HBM, a value that never leaves data memory.
    pub fn value(&self, number: usize) -> Result<Vec<u32>, ReadingError> {
        let found = port(&self.planned, number);
        let found = found.ok_or_else(|| {
            let name = self.planned.kernels.values.get(number).map_or("", |value| &value.name);
            ReadingError::Unfit(format!("`{name}` never leaves data memory"))
        })?;
        self.graph.patterns(&found)
    }

    /// Results of the last run as words, in the order of the graph's outputs.
    ///
    /// # Errors
    /// As [`GraphDevice::value`].
    pub fn results(&self) -> Result<Vec<Vec<u32>>, ReadingError> {
        self.graph.results()
    }
}

/// A planned graph for so many PEs with its constants on a device.
///
/// # Errors
/// A program that is refused, more bytes than HBM has.
pub fn executable(machine: &Tcp, planned: &Planned, pes: u64) -> Result<ExecutableGraph, ReadingError> {
    executable_over_chips(machine, planned, pes, None)
}

/// The same for a graph that may be divided over chips, of which the plan is that of one part: each chip has
/// all constants.
///
/// # Errors
/// As [`executable`].
pub fn executable_over_chips(
    machine: &Tcp,
    planned: &Planned,
    pes: u64,
    divided: Option<&DividedGraph>,
) -> Result<ExecutableGraph, ReadingError> {
    if let Some(fault) = plan_fault(machine, planned) {
        broken(format_args!("the plan of `{}`: {fault}", planned.kernels.name));
    }
    let outside = interface(machine, planned, pes)
        .ok_or_else(|| ReadingError::Unfit("a result never leaves data memory".to_string()))?;
    let outside = match divided {
        Some(divided) => outside.of_division(divided),
        None => outside,
    };
    let mut graph = ExecutableGraph::new(machine, outside, planned.program.clone())?;
    for (base, bytes) in constants(planned) {
        graph.write_constant(base, &bytes)?;
    }
    Ok(graph)
}
