//! A planned graph from outside: what it takes and gives, where that lies in HBM, and the constants that must
//! lie there. With its program this is all that a device needs; kernels and choices are not part of it.

use thiserror::Error;
use tilewright_base::invariant::Exact;
pub use tilewright_graph::OpenSizes;
use tilewright_graph::{Dim, Dtype, Graph, OpenTensor};
use tilewright_machine::tcp::Tcp;

use super::bound::roofline_cycles;
use super::kernel::{HostBox, Origin, Packing, Part};
use super::plan::{Laid, Planned};
use super::view::strides;
use crate::divide::DividedGraph;

/// What whoever runs a planned graph must know besides its program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphInterface {
    /// What the graph is called.
    pub name: String,
    /// PEs that the program may use.
    pub pes: u64,
    /// Kernels that it was made of.
    pub kernels: u64,
    /// Bytes of HBM that it takes.
    pub hbm_bytes: u64,
    /// Cycles below which no program of these kernels ends on so many PEs.
    pub roofline_cycles: u64,
    /// Inputs, in the order of the graph.
    pub inputs: Vec<Port>,
    /// Results, in the order of the graph.
    pub results: Vec<Port>,
    /// How far from zero elements of inputs of 32 and 64 bits are at most, if the program needs that: what it
    /// computes of them fits words then.
    pub most_integer: Option<u64>,
    /// Sizes that a run may have below those of inputs and results; none if all are fixed.
    pub open: OpenSizes,
}

impl GraphInterface {
    /// Chips that the graph is divided over.
    pub fn chips(&self) -> u64 {
        let ports = self.inputs.iter().chain(&self.results);
        ports.filter_map(|port| port.division).map(|division| division.chips).max().unwrap_or(1)
    }

    /// How chips share the inputs and results, one after the other.
    ///
    /// # Errors
    /// The first that is not divided over as many chips as others, or over too many.
    pub fn check_division(&self) -> Result<(), PortError> {
        let chips = self.chips();
        let fits = |port: &Port| match port.division {
            None => true,
            Some(division) => division.chips == chips && port.part_dims().is_some(),
        };
        let wrong = |port: &Port| PortError::Division { name: port.name.clone() };
        let mut ports = self.inputs.iter().chain(&self.results);
        match ports.find(|port| !fits(port) || chips > MOST_CHIPS) {
            Some(port) => Err(wrong(port)),
            None => Ok(()),
        }
    }

    /// The same for a graph of which this is one part: inputs and results are those of all chips.
    #[must_use]
    pub fn of_division(mut self, divided: &DividedGraph) -> GraphInterface {
        let chips = divided.parts;
        let whole = |port: &mut Port, axis: Option<usize>| {
            if let Some(size) = axis.and_then(|axis| port.dims.get_mut(axis)) {
                *size = size.exact_mul(chips);
                port.division = axis.map(|axis| PortDivision { axis, chips });
            }
        };
        for port in &mut self.inputs {
            let axis = divided.inputs.iter().find(|(name, _)| *name == port.name).and_then(|(_, axis)| *axis);
            whole(port, axis);
        }
        self.results.iter_mut().zip(&divided.outputs).for_each(|(port, axis)| whole(port, *axis));
        self
    }

    /// The first element of an input that the program does not take, as a number.
    pub fn integer_beyond(&self, port: &Port, words: &[u32]) -> Option<i32> {
        let most = self.most_integer.filter(|_| matches!(port.dtype, Dtype::I32 | Dtype::I64))?;
        words.iter().map(|word| word.cast_signed()).find(|word| u64::from(word.unsigned_abs()) > most)
    }

    /// Whether open sizes are those of the inputs and results.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check_open(&self) -> Result<(), PortError> {
        let open = &self.open;
        if open.is_empty() {
            return Ok(());
        }
        let wrong = |name: &str| PortError::Open { name: name.to_string() };
        let most = open.most();
        let fits = |tensor: &OpenTensor, port: &Port| {
            let parts = tensor.axes.iter().map(Vec::len).sum::<usize>();
            let shape = open.shape(tensor, &most);
            tensor.name == port.name && parts <= MOST_PARTS && shape.as_ref() == Some(&port.dims)
        };
        let mut ports = self.inputs.iter();
        for input in &open.inputs {
            ports.next().filter(|port| fits(input, port)).ok_or_else(|| wrong(&input.name))?;
        }
        for size in &open.sizes {
            let is_size =
                |port: &&Port| port.name == size.name && port.dims.is_empty() && port.dtype == Dtype::I32;
            ports.next().filter(is_size).ok_or_else(|| wrong(&size.name))?;
        }
        let mut results = self.results.iter();
        for output in &open.outputs {
            results.next().filter(|port| fits(output, port)).ok_or_else(|| wrong(&output.name))?;
        }
        match ports.chain(results).next() {
            Some(port) => Err(wrong(&port.name)),
            None => Ok(()),
        }
    }

    /// The same with the inputs of a graph that have no elements, which plans leave out: whoever runs it is
    /// asked for all inputs of the graph, in its order.
    #[must_use]
    pub fn with_empty_inputs(mut self, graph: &Graph) -> GraphInterface {
        for (at, value) in graph.inputs.iter().filter_map(|id| graph.value(*id)).enumerate() {
            let size = |dim: &Dim| dim.as_fixed().and_then(|size| u64::try_from(size).ok());
            let dims: Option<Vec<u64>> = value.ty.dims.iter().map(size).collect();
            let Some(dims) = dims.filter(|dims| dims.contains(&0)) else { continue };
            let (name, dtype) = (value.name.clone(), value.ty.dtype);
            let (packing, loops) = (Packing::Words, Vec::new());
            let port = Port { name, dtype, dims, packing, base: 0, loops, division: None };
            self.inputs.insert(at.min(self.inputs.len()), port);
        }
        self
    }
}

/// Parts of all axes of a tensor with open sizes, at most.
const MOST_PARTS: usize = 64;

/// An input or a result, and where its elements lie in HBM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Type as the graph has it.
    pub dtype: Dtype,
    /// Sizes as the graph has them.
    pub dims: Vec<u64>,
    /// How elements lie there.
    pub packing: Packing,
    /// First byte.
    pub base: u64,
    /// Where elements lie behind it; none if they follow each other in row-major order.
    pub loops: Vec<ElementLoops>,
    /// How chips share it; none if every chip has all of it. Base and loops are those of one chip.
    pub division: Option<PortDivision>,
}

/// Equal parts of an axis, one for each chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortDivision {
    /// The axis.
    pub axis: usize,
    /// Chips.
    pub chips: u64,
}

/// Chips that a graph is divided over, at most.
pub const MOST_CHIPS: u64 = 64;

/// Loops over some elements of a value, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementLoops {
    /// Number of the first element in row-major order.
    pub first_element: u64,
    /// Its place behind the base, in elements.
    pub first_place: u64,
    /// Size of each loop, and how far one step of it goes among elements and among places.
    pub loops: Vec<(u64, u64, u64)>,
}

/// Why a port cannot be what it says.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PortError {
    /// Bytes that the program does not have.
    #[error("`{name}` lies beyond the {hbm_bytes} B of HBM that the program takes")]
    Outside {
        /// The port.
        name: String,
        /// Bytes that there are.
        hbm_bytes: u64,
    },
    /// Open sizes that are not its own.
    #[error("the open sizes of `{name}` are not those of an input or result")]
    Open {
        /// The port.
        name: String,
    },
    /// Parts that are none.
    #[error("`{name}` is not divided over chips in equal parts of one of its axes, as others are")]
    Division {
        /// The port.
        name: String,
    },
    /// Loops that do not go over its elements.
    #[error("the loops of `{name}` do not go over its elements, each of them once")]
    Loops {
        /// The port.
        name: String,
    },
}

impl Port {
    /// Bytes of an element in HBM.
    pub fn element_bytes(&self) -> u64 {
        self.packing.element_bytes()
    }

    /// The number of elements; the greatest number if there are more.
    pub fn count(&self) -> u64 {
        super::view::count(&self.dims)
    }

    /// Sizes of what one chip has; `None` if its axis has no such parts.
    pub fn part_dims(&self) -> Option<Vec<u64>> {
        let mut dims = self.dims.clone();
        if let Some(PortDivision { axis, chips }) = self.division {
            let size = dims.get_mut(axis)?;
            if chips == 0 || !size.is_multiple_of(chips) {
                return None;
            }
            *size /= chips;
        }
        Some(dims)
    }

    /// The number of elements that one chip has.
    pub fn part_count(&self) -> u64 {
        self.part_dims().map_or(0, |dims| super::view::count(&dims))
    }

    /// Elements before the axis that is divided, and those of one of them that a chip has: parts of chips
    /// take turns.
    fn turns(&self) -> (usize, usize) {
        let dims = self.part_dims().unwrap_or_default();
        let axis = self.division.map_or(0, |division| division.axis).min(dims.len());
        let count = |dims: &[u64]| usize::try_from(super::view::count(dims)).unwrap_or(usize::MAX);
        (count(&dims[..axis]), count(&dims[axis..]))
    }

    /// What a chip has of all elements.
    pub fn part(&self, words: &[u32], chip: u64) -> Vec<u32> {
        let Some(PortDivision { chips, .. }) = self.division else { return words.to_vec() };
        let (_, each) = self.turns();
        let own = |(at, _): &(u64, &[u32])| at % chips == chip;
        let turns = (0..).zip(words.chunks(each.max(1)));
        turns.filter(own).flat_map(|(_, turn)| turn.iter().copied()).collect()
    }

    /// All elements, of those that each chip has.
    pub fn joined(&self, parts: &[Vec<u32>]) -> Vec<u32> {
        if self.division.is_none() {
            return parts.first().cloned().unwrap_or_default();
        }
        let (outside, each) = self.turns();
        let mut all = Vec::with_capacity(parts.iter().map(Vec::len).sum());
        for at in 0..outside {
            for part in parts {
                all.extend(part.iter().skip(at * each).take(each));
            }
        }
        all
    }

    /// Elements from the base to the last place; `None` if that is beyond all numbers.
    pub fn block_elements(&self) -> Option<u64> {
        if self.loops.is_empty() {
            return Some(self.part_count());
        }
        let ends: Option<Vec<u64>> = self.loops.iter().map(|loops| loops.last()?.1.checked_add(1)).collect();
        ends?.into_iter().max()
    }

    /// Whether it lies within so many bytes, and its loops go over its elements.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self, hbm_bytes: u64) -> Result<(), PortError> {
        let bytes = self.block_elements().and_then(|all| all.checked_mul(self.element_bytes()));
        let end = bytes.and_then(|bytes| bytes.checked_add(self.base));
        if end.is_none_or(|end| end > hbm_bytes) {
            return Err(PortError::Outside { name: self.name.clone(), hbm_bytes });
        }
        if self.part_dims().is_none() {
            return Err(PortError::Division { name: self.name.clone() });
        }
        let wrong = || PortError::Loops { name: self.name.clone() };
        let mut covered = 0_u64;
        for loops in &self.loops {
            let (last, _) = loops.last().ok_or_else(wrong)?;
            let count = loops.count().ok_or_else(wrong)?;
            covered = covered.checked_add(count).filter(|_| last < self.part_count()).ok_or_else(wrong)?;
        }
        if self.loops.is_empty() || covered == self.part_count() { Ok(()) } else { Err(wrong()) }
    }
}

impl ElementLoops {
    fn of(part: &Part) -> Option<ElementLoops> {
        let natural = |number: i64| u64::try_from(number).ok();
        let loops = part.loops.iter().map(|(size, from, to)| Some((*size, natural(*from)?, natural(*to)?)));
        Some(ElementLoops {
            first_element: natural(part.from_first)?,
            first_place: natural(part.to_first)?,
            loops: loops.collect::<Option<_>>()?,
        })
    }

    /// How many elements it goes over.
    fn count(&self) -> Option<u64> {
        self.loops.iter().try_fold(1_u64, |all, (size, ..)| all.checked_mul(*size))
    }

    /// The largest element and the largest place; `None` for a loop without a step, or beyond all numbers.
    fn last(&self) -> Option<(u64, u64)> {
        self.loops.iter().try_fold((self.first_element, self.first_place), |(element, place), loops| {
            let (size, by_element, by_place) = *loops;
            let steps = size.checked_sub(1)?;
            let reach = |from: u64, by: u64| from.checked_add(steps.checked_mul(by)?);
            Some((reach(element, by_element)?, reach(place, by_place)?))
        })
    }

    /// Calls a function with the number and the place of every element, without room for all of them.
    pub fn each(&self, take: &mut impl FnMut(u64, u64)) {
        walk(&self.loops, (self.first_element, self.first_place), take);
    }
}

fn walk(loops: &[(u64, u64, u64)], (element, place): (u64, u64), take: &mut impl FnMut(u64, u64)) {
    match loops.split_first() {
        None => take(element, place),
        Some(((size, by_element, by_place), inner)) => {
            for step in 0..*size {
                walk(inner, (element + step * by_element, place + step * by_place), take);
            }
        }
    }
}

/// A planned graph from outside, for as many PEs as it was planned for; `None` if a result never leaves data
/// memory, which no plan of [`super::plan()`] has.
pub fn interface(machine: &Tcp, planned: &Planned, pes: u64) -> Option<GraphInterface> {
    let kernels = &planned.kernels;
    let results = kernels.results.iter().map(|result| {
        let (name, dims, dtype) = (result.name.clone(), result.dims.clone(), result.dtype);
        Some(Port { name, dims, dtype, ..host_port(planned, result.value)? })
    });
    Some(GraphInterface {
        name: kernels.name.clone(),
        pes,
        kernels: kernels.kernels.len() as u64,
        hbm_bytes: planned.hbm_bytes,
        roofline_cycles: roofline_cycles(machine, &planned.least, pes),
        inputs: kernels.inputs.iter().map(|input| host_port(planned, *input)).collect::<Option<_>>()?,
        results: results.collect::<Option<_>>()?,
        most_integer: planned.most_integer,
        open: OpenSizes::default(),
    })
}

/// Where a value of a planned graph lies, by its number; `None` if it never leaves data memory.
pub fn port(planned: &Planned, number: usize) -> Option<Port> {
    let value = planned.kernels.values.get(number)?;
    let (base, loops) = match planned.laid.get(&number) {
        None => (*planned.places.get(number)?, Vec::new()),
        Some(laid) => as_laid(number, laid.as_ref()?)?,
    };
    let (name, dims) = (value.name.clone(), value.dims.clone());
    let (dtype, packing) = (value.dtype, value.packing);
    Some(Port { name, dtype, dims, packing, base, loops, division: None })
}

/// Where the elements of a value lie that the host gives or takes.
fn host_port(planned: &Planned, number: usize) -> Option<Port> {
    let whole = port(planned, number)?;
    let Some(HostBox { first, axes }) = &planned.kernels.values.get(number)?.host else { return Some(whole) };
    let dims: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
    let steps = strides(&dims).into_iter().map(|step| u64::try_from(step).ok());
    let loops = axes.iter().zip(steps).map(|((size, place), element)| Some((*size, element?, *place)));
    let loops = ElementLoops { first_element: 0, first_place: *first, loops: loops.collect::<Option<_>>()? };
    // A value that lies as a tactic leaves it is given whole.
    whole.loops.is_empty().then(|| Port { dims, loops: vec![loops], ..whole })
}

/// The first byte of a value in the shape of a contraction's result, and the loops over its elements.
fn as_laid(number: usize, laid: &Laid) -> Option<(u64, Vec<ElementLoops>)> {
    let parts = laid.placed.image.parts(number, &laid.axes, false)?;
    Some((laid.base, parts.iter().map(ElementLoops::of).collect::<Option<_>>()?))
}

/// Constants of a planned graph: the first byte of each in HBM, and its bytes.
pub fn constants(planned: &Planned) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let values = planned.kernels.values.iter().zip(&planned.places);
    let values = values.filter_map(|(value, place)| match &value.origin {
        Origin::Constant(patterns) => Some((*place, pattern_bytes(patterns, value.packing))),
        Origin::Input | Origin::Parts(_) | Origin::Kernel | Origin::Filled(_) => None,
    });
    let blocks =
        planned.blocks.iter().map(|block| (block.base, pattern_bytes(&block.patterns, block.packing)));
    values.chain(blocks)
}

/// Patterns as they lie in HBM.
pub fn pattern_bytes(patterns: &[u32], packing: Packing) -> Vec<u8> {
    let kept = usize::try_from(packing.element_bytes()).unwrap_or(4);
    let mut bytes = Vec::with_capacity(patterns.len() * kept);
    for word in patterns {
        bytes.extend_from_slice(&word.to_le_bytes()[..kept]);
    }
    bytes
}
