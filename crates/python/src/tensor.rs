//! Tensors and views of them, as kernels see them.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use tilewright_neuron::mx::MxFormat;
use tilewright_neuron::pattern::SKIP;
use tilewright_neuron::storage::Request;
use tilewright_neuron::{Memory, Region, Storage, Tile, View};
use tilewright_num::Dtype;

use crate::current;
use crate::dtype::{self, ElementType};
use crate::error::{out_of_bounds, plain};
use crate::index::{Extent, Index, Mask, Shape};
use crate::key::{self, Bounds};
use crate::operators::{operator, references};

/// A tensor, or a view of one.
#[pyclass(frozen, module = "tilewright._core")]
pub(crate) struct Tensor {
    pub(crate) tile: Tile,
    pub(crate) bounds: Vec<Bounds>,
    pub(crate) base: i64,
    /// The type that the kernel gave it, if its elements are held unrounded.
    pub(crate) declared: Option<Dtype>,
    /// The launch that it belongs to.
    pub(crate) launch: u64,
    result: Mutex<ResultOf>,
}

/// What is known of a tensor that an instruction just wrote.
#[derive(Clone, Default)]
struct ResultOf {
    /// Instruction whose result this is, if nothing else happened to it.
    fresh: Option<usize>,
    /// Where the result was computed.
    mask: Option<Mask>,
}

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        let result = Mutex::new(self.result().clone());
        let Tensor { tile, bounds, base, declared, launch, .. } = self;
        Tensor {
            tile: tile.clone(),
            bounds: bounds.clone(),
            base: *base,
            declared: *declared,
            launch: *launch,
            result,
        }
    }
}

impl Tensor {
    fn result(&self) -> MutexGuard<'_, ResultOf> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instruction whose result this is.
    pub(crate) fn fresh(&self) -> Option<usize> {
        self.result().fresh
    }

    /// Whether it was computed in part only.
    pub(crate) fn is_masked(&self) -> bool {
        self.result().mask.is_some()
    }

    /// Marks it as the result of an instruction.
    pub(crate) fn set_fresh(&self, at: usize) {
        self.result().fresh = Some(at);
    }

    pub(crate) fn new(storage: Arc<Storage>, launch: u64) -> Tensor {
        let view = View::whole(&storage.shape, storage.dtype, storage.blocks);
        let tile = Tile { storage, view };
        Tensor { tile, bounds: Vec::new(), base: 0, declared: None, launch, result: Mutex::default() }
    }

    /// The same tensor, for the kernel of another type than its elements are held in.
    pub(crate) fn declared(mut self, dtype: Option<Dtype>) -> Tensor {
        self.declared = dtype;
        self
    }

    /// The type that the kernel sees.
    fn element_type(&self) -> ElementType {
        self.declared.map_or(ElementType::of(&self.tile.view), |dtype| ElementType { dtype, mx: None })
    }

    /// The same tensor, whose words are those of a block-scaled operand.
    pub(crate) fn holding(mut self, mx: Option<MxFormat>) -> Tensor {
        self.tile.view.mx = mx;
        self
    }

    pub(crate) fn with_view(&self, view: View) -> Tensor {
        Tensor {
            tile: Tile { storage: self.tile.storage.clone(), view },
            bounds: Vec::new(),
            base: 0,
            declared: self.declared,
            launch: self.launch,
            result: Mutex::default(),
        }
    }

    pub(crate) fn shape(&self) -> SmallVec<[usize; 5]> {
        self.tile.view.shape()
    }

    /// The tile as an operand, if it lies inside its tensor and is of the launch that runs.
    pub(crate) fn operand(&self) -> PyResult<&Tile> {
        current::check(self.launch)?;
        for bounds in &self.bounds {
            let size = i64::try_from(bounds.size).unwrap_or(i64::MAX);
            let bad = bounds.index.evaluate().into_iter().find(|&at| at < 0 || at >= size);
            if let Some(bad) = bad {
                let total: usize = self.tile.storage.shape.iter().product();
                return Err(out_of_bounds(self.base + bad.saturating_mul(bounds.stride), total));
            }
        }
        Ok(&self.tile)
    }

    /// What the mask leaves of the view; elements outside the tensor must be among what it takes away.
    pub(crate) fn masked(&self, mask: &Mask) -> PyResult<Option<Tensor>> {
        let shape = self.shape();
        let full: Shape = fit(&mask.shape, &shape)?;
        match mask.extent(&full) {
            Extent::Everything => Ok(Some(self.clone())),
            Extent::Nothing => Ok(None),
            Extent::Box(ranges) => {
                let mut view = self.tile.view.clone();
                if let (Some(offsets), true) = (&view.gather, shape[..] == full[..]) {
                    view.gather = Some(boxed(offsets, &shape, &ranges));
                    for (dim, &(_, count)) in view.dims.iter_mut().zip(&ranges) {
                        dim.size = count;
                    }
                    let mut out = self.with_view(view);
                    out.bounds = self.bounds.iter().filter_map(|bounds| shrink(bounds, &ranges)).collect();
                    out.base = self.base;
                    return Ok(Some(out));
                }
                if view.gather.is_some() {
                    return self.flagged(&mask.over(&full)).map(Some);
                }
                let bounds = self.bounds.iter().filter_map(|bounds| shrink(bounds, &ranges)).collect();
                for (axis, &(start, count)) in ranges.iter().enumerate() {
                    if shape[axis] == full[axis] && (start, count) != (0, shape[axis]) {
                        view.slice(axis, start, count, 1).map_err(|refusal| plain(&refusal))?;
                    }
                }
                let mut out = self.with_view(view);
                out.bounds = bounds;
                out.base = self.base;
                Ok(Some(out))
            }
            Extent::Flags(flags) => self.flagged(&flags).map(Some),
        }
    }

    /// Only the elements whose flag is set; the others are skipped.
    pub(crate) fn flagged(&self, flags: &[bool]) -> PyResult<Tensor> {
        let offsets = self.tile.view.offsets();
        if offsets.len() != flags.len() {
            return Err(PyValueError::new_err(format!(
                "a mask of {} elements for {}",
                flags.len(),
                offsets.len()
            )));
        }
        let kept: Vec<i64> =
            offsets.iter().zip(flags).map(|(&offset, &flag)| if flag { offset } else { SKIP }).collect();
        let mut view = self.tile.view.clone();
        view.gather = Some(kept.into());
        view.offset = 0;
        let mut out = self.with_view(view);
        for bounds in &self.bounds {
            let mut values = bounds.index.broadcast(&self.shape()).evaluate();
            for (value, flag) in values.iter_mut().zip(flags) {
                if !flag {
                    *value = 0;
                }
            }
            let index = Index::explicit(self.shape().iter().copied().collect(), values);
            out.bounds.push(Bounds { index, ..bounds.clone() });
        }
        out.base = self.base;
        Ok(out)
    }

    /// The view without what lies outside the tensor.
    pub(crate) fn skipping(&self) -> PyResult<Tensor> {
        if self.bounds.is_empty() {
            return Ok(self.clone());
        }
        let shape = self.shape();
        let mut flags = vec![true; self.tile.elements()];
        for bounds in &self.bounds {
            let size = i64::try_from(bounds.size).unwrap_or(i64::MAX);
            for (flag, at) in flags.iter_mut().zip(bounds.index.broadcast(&shape).evaluate()) {
                *flag &= (0..size).contains(&at);
            }
        }
        let mut out = self.flagged(&flags)?;
        out.bounds.clear();
        Ok(out)
    }

    /// The elements as index values.
    pub(crate) fn as_index(&self) -> PyResult<Index> {
        let tile = self.operand()?;
        let read = tile.read_integers(&tilewright_num::RuleSet::NEURON);
        let shape: Shape = self.shape().iter().copied().collect();
        // One element is a constant, and what is indexed with it stays an access pattern.
        let index = match read.values[..] {
            [constant] => Index {
                constant,
                coefficients: SmallVec::from_elem(0, shape.len()),
                shape,
                ..Index::constant(0)
            },
            _ => Index::explicit(shape, read.values),
        };
        Ok(index.picked_by(Region::of(tile)))
    }

    pub(crate) fn affine(
        &self,
        change: impl FnOnce(&mut View) -> Result<(), tilewright_neuron::Refusal>,
    ) -> PyResult<Tensor> {
        let mut view = self.tile.view.clone();
        change(&mut view).map_err(|refusal| plain(&refusal))?;
        Ok(self.with_view(view))
    }

    pub(crate) fn axis(&self, axis: isize) -> PyResult<usize> {
        let rank = self.tile.view.dims.len();
        let at = if axis < 0 { axis + isize::try_from(rank).unwrap_or(isize::MAX) } else { axis };
        usize::try_from(at)
            .ok()
            .filter(|&at| at <= rank)
            .ok_or_else(|| PyValueError::new_err(format!("dimension {axis} of a tensor of {rank}")))
    }
}

/// The mask's shape over the axes of a tile.
fn fit(mask: &[usize], shape: &[usize]) -> PyResult<Shape> {
    let missing = shape.len().checked_sub(mask.len());
    let Some(missing) = missing else {
        return Err(PyValueError::new_err(format!("a mask of shape {mask:?} for a tile of shape {shape:?}")));
    };
    let mut full: Shape = shape.iter().copied().collect();
    for (axis, &size) in mask.iter().enumerate() {
        let tile = &mut full[missing + axis];
        if *tile == 1 || size == *tile {
            *tile = size;
        } else if size != 1 {
            return Err(PyValueError::new_err(format!(
                "a mask of shape {mask:?} for a tile of shape {shape:?}"
            )));
        }
    }
    Ok(full)
}

/// The offsets of a box of a gathered tile, in its order.
fn boxed(offsets: &[i64], shape: &[usize], ranges: &[(usize, usize)]) -> Arc<[i64]> {
    let mut kept = Vec::with_capacity(ranges.iter().map(|&(_, count)| count).product());
    let counts: Vec<usize> = ranges.iter().map(|&(_, count)| count).collect();
    crate::index::for_each_position(&counts, |position| {
        let place = position.iter().zip(ranges).zip(shape);
        let at = place.fold(0, |at, ((&step, &(start, _)), &size)| at * size + start + step);
        kept.push(offsets.get(at).copied().unwrap_or(SKIP));
    });
    kept.into()
}

/// An index after each axis was cut; `None` if it lies inside its dimension now.
fn shrink(bounds: &Bounds, ranges: &[(usize, usize)]) -> Option<Bounds> {
    let mut index = bounds.index.clone();
    if let Some(values) = &index.values {
        let skip = ranges.len().checked_sub(index.shape.len())?;
        let own = index.shape.iter().zip(&ranges[skip..]);
        let ranges: Vec<(usize, usize)> =
            own.map(|(&size, &range)| if size > 1 { range } else { (0, 1) }).collect();
        let kept = boxed(values, &index.shape, &ranges).to_vec();
        index = Index::explicit(ranges.iter().map(|&(_, count)| count).collect(), kept);
        let (least, most) = index.range()?;
        let inside = least >= 0 && usize::try_from(most).is_ok_and(|most| most < bounds.size);
        return (!inside).then(|| Bounds { index, ..bounds.clone() });
    }
    let skip = ranges.len().saturating_sub(index.shape.len());
    for (axis, &(start, count)) in ranges.iter().skip(skip).enumerate() {
        if index.shape[axis] > 1 {
            index.shape[axis] = count;
            index.constant += index.coefficients[axis] * start as i64;
        }
    }
    let (least, most) = index.range()?;
    let inside = least >= 0 && usize::try_from(most).is_ok_and(|most| most < bounds.size);
    (!inside).then(|| Bounds { index, ..bounds.clone() })
}

#[pymethods]
impl Tensor {
    #[getter(shape)]
    fn py_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tile.view.dims.iter().map(|dim| dim.size))
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.tile.view.dims.len()
    }

    #[getter]
    fn size(&self) -> usize {
        self.tile.elements()
    }

    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tile.view.dims.iter().map(|dim| dim.stride))
    }

    #[getter]
    fn offset(&self) -> usize {
        self.tile.view.offset
    }

    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        dtype::object(py, self.element_type())
    }

    #[getter]
    fn itemsize(&self) -> usize {
        self.element_type().dtype.size_bytes(1)
    }

    /// Number of the element type.
    #[getter]
    fn code(&self) -> usize {
        self.element_type().code()
    }

    /// Number of the type that its elements are held in.
    #[getter]
    fn held_code(&self) -> usize {
        ElementType::of(&self.tile.view).code()
    }

    /// Where it lives.
    #[getter]
    fn memory(&self) -> &'static str {
        self.tile.storage.memory.name()
    }

    #[getter]
    fn on_chip(&self) -> bool {
        self.tile.storage.memory.on_chip()
    }

    #[getter]
    fn blocks(&self) -> usize {
        self.tile.view.blocks
    }

    #[getter]
    fn name(&self) -> &str {
        &self.tile.storage.name
    }

    /// Number of the tensor behind the view.
    #[getter]
    fn storage_id(&self) -> u32 {
        self.tile.storage.id
    }

    /// Elements of the tensor behind the view, counted in the view's type.
    #[getter]
    fn storage_elements(&self) -> usize {
        self.tile.storage.size_bytes() / self.tile.view.dtype.size_bytes(1).max(1)
    }

    /// True if it is the result of the last instruction that touched it.
    #[getter]
    fn is_fresh(&self) -> bool {
        self.fresh().is_some()
    }

    #[getter]
    fn has_mask(&self) -> bool {
        self.is_masked()
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let shape = self.shape();
        let mut by = key::Tiles::new();
        let items = key::parse(key, &shape, &mut by)?;
        let indexed = key::apply(&self.tile.view, items, by, self.tile.storage.memory.on_chip())?;
        let mut out = self.with_view(indexed.view);
        out.bounds = indexed.bounds;
        out.base = indexed.base;
        Ok(out)
    }

    fn __setitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let target = slf.get().__getitem__(key)?;
        if let Ok(value) = value.cast::<Tensor>() {
            let value = value.get();
            let same =
                Arc::ptr_eq(&value.tile.storage, &target.tile.storage) && value.tile.view == target.tile.view;
            if same && value.result().mask.is_none() {
                return Ok(());
            }
        }
        // A result that has no name yet can still be written elsewhere.
        let temporary = references(value) <= 1;
        if temporary
            && let (Ok(value), Some(session)) = (value.cast::<Tensor>(), current::session(slf.py()))
            && session.try_borrow_mut()?.take_over(&target, value.get())?
        {
            return Ok(());
        }
        operator(slf.py(), "assign", (Py::new(slf.py(), target)?, value.clone(), temporary))?;
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.tile.view.partitions()
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        slf.as_ptr() as isize
    }

    fn __iter__(&self) -> PyResult<Py<PyAny>> {
        Err(PyTypeError::new_err("a tensor is not iterable: index it"))
    }

    fn __repr__(&self) -> String {
        format!("<tensor {:?} {} in {}>", self.shape(), self.tile.view.dtype, self.tile.storage.memory.name())
    }

    /// What a mask leaves of it; None if nothing.
    #[pyo3(name = "masked")]
    fn py_masked(&self, mask: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
        self.masked(&Mask::from_python(mask)?)
    }

    /// Without what lies outside the tensor.
    #[pyo3(name = "skipping")]
    fn py_skipping(&self) -> PyResult<Tensor> {
        self.skipping()
    }

    /// Remembers where a result was computed.
    fn set_mask(&self, mask: &Bound<'_, PyAny>) -> PyResult<()> {
        self.result().mask = Some(Mask::from_python(mask)?);
        Ok(())
    }

    /// Where the result was computed.
    #[getter]
    fn mask(&self) -> Option<Mask> {
        self.result().mask.clone()
    }

    /// Takes over what is known of a part of it: which instruction wrote it, and where it was computed.
    fn adopt(&self, part: &Tensor, mask: &Bound<'_, PyAny>) -> PyResult<()> {
        let result = ResultOf { fresh: part.fresh(), mask: Some(Mask::from_python(mask)?) };
        *self.result() = result;
        Ok(())
    }

    /// Forgets that it is a fresh result.
    fn settle(&self) {
        self.result().fresh = None;
    }

    /// Copies the elements into a writable buffer of as many bytes, in order.
    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let buffer: PyBuffer<u8> = PyBuffer::get(buffer)?;
        let tile = self.operand()?;
        if tile.storage.valueless {
            return Err(PyBufferError::new_err("a run without values has no outputs"));
        }
        let content = tile.storage.lock();
        let bytes = tile.contiguous(&content).map_or_else(|| tile.packed(&content).into(), Cow::Borrowed);
        if buffer.item_count() != bytes.len() {
            return Err(PyBufferError::new_err(format!(
                "a buffer of {} bytes for {}",
                buffer.item_count(),
                bytes.len()
            )));
        }
        buffer.copy_from_slice(py, &bytes)
    }

    /// True if nobody wrote to a tensor that was made with values.
    #[getter]
    fn as_given(&self) -> PyResult<bool> {
        Ok(self.operand()?.storage.lock().as_given())
    }

    /// A copy that no instruction writes to: what a rank gave to a collective.
    fn snapshot(&self) -> PyResult<Tensor> {
        let tile = self.operand()?;
        let bytes = tile.packed(&tile.storage.lock());
        let request = Request {
            id: u32::MAX,
            memory: tile.storage.memory,
            dtype: tile.view.dtype,
            shape: self.shape().to_vec(),
            blocks: 0,
            name: String::new(),
            source: 0,
        };
        let storage = Storage::filled(request, bytes).map_err(|refusal| plain(&refusal))?;
        Ok(Tensor::new(Arc::new(storage), self.launch).holding(tile.view.mx))
    }

    /// True if every byte of the tensor was written.
    #[getter]
    fn all_written(&self) -> bool {
        self.tile.storage.valueless || self.tile.storage.lock().all_written()
    }

    /// Bytes of the tensor that nobody wrote.
    #[getter]
    fn unwritten_bytes(&self) -> usize {
        self.tile.storage.lock().unwritten_bytes()
    }

    /// One element as a number.
    fn item(&self) -> PyResult<f64> {
        let read = self.operand()?.read(&tilewright_num::RuleSet::NEURON);
        match read.values[..] {
            [value] => Ok(f64::from(value)),
            _ => {
                Err(PyValueError::new_err(format!("a tensor of shape {:?} is not one number", self.shape())))
            }
        }
    }

    /// One element as an integer.
    pub(crate) fn integer(&self) -> PyResult<i64> {
        let read = self.operand()?.read_integers(&tilewright_num::RuleSet::NEURON);
        match read.values[..] {
            [value] => Ok(value),
            _ => {
                Err(PyValueError::new_err(format!("a tensor of shape {:?} is not one number", self.shape())))
            }
        }
    }
}

/// True for memory that a launch shares.
pub(crate) fn memory_of(name: &str) -> PyResult<Memory> {
    match name {
        "sbuf" => Ok(Memory::Sbuf),
        "psum" => Ok(Memory::Psum),
        "hbm" | "private_hbm" => Ok(Memory::Hbm),
        "shared_hbm" => Ok(Memory::SharedHbm),
        _ => Err(PyValueError::new_err(format!("no memory is called {name}"))),
    }
}
