//! What whoever runs a bounded graph must know: which sizes are open, how arrays of smaller sizes are padded,
//! which sizes are inputs, and where the elements of results lie.

use tilewright_base::Diagnostic;

use crate::dim::{Axis, Dim};
use crate::infer::BuildResult;

/// The open sizes of a bounded graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenSizes {
    /// Axes with their bounds.
    pub axes: Vec<Axis>,
    /// Arrays that a run is given, in the order of the graph's first inputs.
    pub inputs: Vec<OpenTensor>,
    /// Inputs behind them, each a run-time size as an i32 scalar.
    pub sizes: Vec<SizeInput>,
    /// Results, in the order of the graph.
    pub outputs: Vec<OpenTensor>,
}

/// A tensor with open sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTensor {
    /// Its name.
    pub name: String,
    /// Parts of each axis, outermost first, each with padding up to its bound behind it. The size of an axis
    /// is their product; an axis without parts has one element.
    pub axes: Vec<Vec<Dim>>,
}

/// A run-time size that a graph is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeInput {
    /// Name of the input.
    pub name: String,
    /// Which size.
    pub size: Dim,
}

/// Sizes of the axes in one run, in their order; of those that no input has, none.
pub type AxisSizes = Vec<Option<u64>>;

/// What is said of an input whose size along an axis is out of the bounds of that; `None` if it is within.
pub fn out_of_bounds(input: &str, axis: &Axis, size: u64) -> Option<Diagnostic> {
    let Axis { name, least, most } = axis;
    if (*least..=*most).contains(&size) {
        return None;
    }
    let what = format!("input `{input}` has {size} along `{name}`");
    let complaint = Diagnostic::error("graph/bounds", what).allowed(format!("{least} to {most}"));
    Some(match size > *most {
        true => complaint.instead(format!("a graph compiled with a larger bound of `{name}`")),
        false => complaint.instead(format!("an array with {least} or more along `{name}`")),
    })
}

impl OpenSizes {
    /// Whether every size is a number.
    pub fn is_empty(&self) -> bool {
        self.axes.is_empty()
    }

    /// Sizes of the axes where all are at their bounds.
    pub fn most(&self) -> AxisSizes {
        self.axes.iter().map(|axis| Some(axis.most)).collect()
    }

    /// Sizes of the axes in a run with arrays of these shapes, in the order of the inputs.
    ///
    /// # Errors
    /// `graph/bounds`: a shape that does not fit, a size out of bounds, or two sizes of one axis.
    pub fn axis_sizes(&self, shapes: &[&[u64]]) -> BuildResult<AxisSizes> {
        let mut found: Vec<Option<(u64, &str)>> = vec![None; self.axes.len()];
        for (input, shape) in self.inputs.iter().zip(shapes) {
            if input.axes.len() != shape.len() {
                return Err(self.misfit(input, shape));
            }
            for (parts, size) in input.axes.iter().zip(*shape) {
                let [dim] = parts.as_slice() else { continue };
                let Some(axis) = dim.as_axis().map(|axis| axis.0 as usize) else { continue };
                self.meet(&mut found, axis, *size, &input.name)?;
            }
        }
        let sizes: AxisSizes = found.iter().map(|found| found.map(|(size, _)| size)).collect();
        for (input, shape) in self.inputs.iter().zip(shapes) {
            let wanted = self.shape(input, &sizes);
            if wanted.as_deref() != Some(shape) {
                return Err(self.misfit(input, shape));
            }
        }
        Ok(sizes)
    }

    /// Notes the size that an input gives to an axis.
    fn meet<'i>(
        &self,
        found: &mut [Option<(u64, &'i str)>],
        axis: usize,
        size: u64,
        input: &'i str,
    ) -> BuildResult<()> {
        let (Some(slot), Some(bounded)) = (found.get_mut(axis), self.axes.get(axis)) else {
            return Ok(());
        };
        if let Some(complaint) = out_of_bounds(input, bounded, size) {
            return Err(Box::new(complaint));
        }
        let name = &bounded.name;
        let complaint = match slot {
            Some((known, first)) if *known != size => {
                let what = format!("input `{input}` has {size} along `{name}`, and input `{first}` {known}");
                Diagnostic::error("graph/bounds", what)
                    .allowed(format!("one size of `{name}` in all inputs"))
                    .instead("arrays that agree")
            }
            _ => {
                *slot = Some((size, input));
                return Ok(());
            }
        };
        Err(Box::new(complaint))
    }

    fn misfit(&self, input: &OpenTensor, shape: &[u64]) -> Box<Diagnostic> {
        let axis = |parts: &Vec<Dim>| {
            let size = Dim::product(parts).unwrap_or_default();
            size.text(&self.axes)
        };
        let wanted: Vec<String> = input.axes.iter().map(axis).collect();
        let what = format!("input `{}` has sizes {shape:?}", input.name);
        Box::new(Diagnostic::error("graph/bounds", what).allowed(format!("[{}]", wanted.join(", "))))
    }

    /// The shape of a tensor in a run; `None` if the size of an axis is missing.
    pub fn shape(&self, tensor: &OpenTensor, sizes: &[Option<u64>]) -> Option<Vec<u64>> {
        let size = |parts: &Vec<Dim>| {
            let mut sizes = parts.iter().map(|part| u64::try_from(part.value(sizes)?).ok());
            sizes.try_fold(1_u64, |product, size| product.checked_mul(size?))
        };
        tensor.axes.iter().map(size).collect()
    }

    /// The value of a size input in a run.
    pub fn size(&self, input: &SizeInput, sizes: &[Option<u64>]) -> Option<i64> {
        input.size.value(sizes)
    }

    /// Loops over all parts of a tensor, outermost first: bound and run-time size of each.
    fn loops(&self, tensor: &OpenTensor, sizes: &[Option<u64>]) -> Option<Vec<(usize, usize)>> {
        let most = self.most();
        let value = |dim: &Dim, sizes: &[Option<u64>]| usize::try_from(dim.value(sizes)?).ok();
        tensor.axes.iter().flatten().map(|dim| Some((value(dim, &most)?, value(dim, sizes)?))).collect()
    }

    /// The elements of a tensor at its bound, with something behind those that a run has.
    pub fn padded<T: Copy>(
        &self,
        tensor: &OpenTensor,
        sizes: &[Option<u64>],
        elements: &[T],
        fill: T,
    ) -> Option<Vec<T>> {
        let loops = self.loops(tensor, sizes)?;
        let mut all = vec![fill; loops.iter().map(|(most, _)| most).product()];
        let mut given = elements.iter();
        each(&loops, 0, &mut |place| {
            let (Some(slot), Some(element)) = (all.get_mut(place), given.next()) else { return };
            *slot = *element;
        });
        given.next().is_none().then_some(all)
    }

    /// The elements of a tensor that a run has, of those at its bound.
    pub fn cropped<T: Copy>(
        &self,
        tensor: &OpenTensor,
        sizes: &[Option<u64>],
        elements: &[T],
    ) -> Option<Vec<T>> {
        let mut all = Vec::new();
        each(&self.loops(tensor, sizes)?, 0, &mut |place| all.extend(elements.get(place)));
        Some(all)
    }
}

/// Calls a function with the place of every element that a run has, in row-major order.
fn each(loops: &[(usize, usize)], place: usize, take: &mut impl FnMut(usize)) {
    match loops.split_first() {
        None => take(place),
        Some(((most, now), inner)) => (0..*now).for_each(|at| each(inner, place * most + at, take)),
    }
}
