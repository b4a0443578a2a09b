//! Tensors and views of them, as kernels see them.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use tilewright_neuron_exec::{Storage, Tile};
use tilewright_neuron_isa::mx::MxFormat;
use tilewright_neuron_isa::{MemorySpace, Refusal, TensorDecl, TensorRegion, TensorView};
use tilewright_num::Dtype;

use crate::current;
use crate::dtype::{self, ElementType};
use crate::error::plain;
use crate::index::{Index, IndexShape};
use crate::key::{self, IndexBounds};
use crate::mask::Mask;
use crate::operators::{operator, references};

/// A tensor, or a view of one.
#[pyclass(frozen, module = "tilewright._core")]
pub(crate) struct Tensor {
    pub(crate) tile: Tile,
    pub(crate) bounds: Vec<IndexBounds>,
    /// The type that the kernel gave it, if its elements are held unrounded.
    pub(crate) declared: Option<Dtype>,
    /// The launch that it belongs to.
    pub(crate) launch: u64,
    result: Mutex<ResultState>,
}

/// What is known of a tensor that an instruction just wrote.
#[derive(Clone, Default)]
struct ResultState {
    /// Instruction whose result this is, if nothing else happened to it.
    fresh: Option<usize>,
    /// Where the result was computed.
    mask: Option<Mask>,
    /// It says where a comparison holds.
    compared: bool,
}

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        let result = Mutex::new(self.result().clone());
        let Tensor { tile, bounds, declared, launch, .. } = self;
        Tensor { tile: tile.clone(), bounds: bounds.clone(), declared: *declared, launch: *launch, result }
    }
}

impl Tensor {
    fn result(&self) -> MutexGuard<'_, ResultState> {
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
        let view = TensorView::whole(&storage.shape, storage.dtype, storage.blocks);
        let tile = Tile { storage, view };
        Tensor { tile, bounds: Vec::new(), declared: None, launch, result: Mutex::default() }
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

    pub(crate) fn with_view(&self, view: TensorView) -> Tensor {
        Tensor {
            tile: Tile { storage: self.tile.storage.clone(), view },
            bounds: Vec::new(),
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
        let by_values = self.tile.view.picked_by.is_some();
        let elements = self.tile.storage.shape.iter().product();
        match self.bounds.iter().find_map(|bounds| bounds.refusal(by_values, elements)) {
            Some(error) => Err(error),
            None => Ok(&self.tile),
        }
    }

    /// The elements as index values.
    pub(crate) fn as_index(&self) -> PyResult<Index> {
        let tile = self.operand()?;
        let read = tile.read_integers(&tilewright_num::RuleSet::NEURON);
        let shape: IndexShape = self.shape().iter().copied().collect();
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
        Ok(index.picked_by(TensorRegion::of(tile)))
    }

    /// The tensor seen as a change of its view makes it; what lies outside still does.
    pub(crate) fn viewed(
        &self,
        change: impl Fn(&TensorView) -> Result<TensorView, Refusal>,
    ) -> PyResult<Tensor> {
        let change = |view: &TensorView| change(view).map_err(|refusal| plain(&refusal));
        let mut out = self.with_view(change(&self.tile.view)?);
        if !self.bounds.is_empty() {
            let (shape, dtype) = (self.shape(), self.tile.view.dtype);
            let positions = change(&TensorView::whole(&shape, dtype, self.tile.view.blocks))?;
            let moved = self.bounds.iter().filter_map(|bounds| bounds.of_positions(&shape, &positions));
            out.bounds = moved.collect();
        }
        Ok(out)
    }

    /// An operator that changes its first operand in place.
    pub(crate) fn affine(&self, change: impl Fn(&mut TensorView) -> Result<(), Refusal>) -> PyResult<Tensor> {
        self.viewed(|view| {
            let mut view = view.clone();
            change(&mut view)?;
            Ok(view)
        })
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
        if let Ok(mask) = key.cast::<Mask>() {
            return self.first_of(mask.get());
        }
        let shape = self.shape();
        let mut by = key::KeyTiles::new();
        let items = key::parse(key, &shape, &mut by)?;
        let (view, on_chip) = (&self.tile.view, self.tile.storage.memory.on_chip());
        let indexed = if view.gather.is_some() || !self.bounds.is_empty() {
            key::apply_to_listed(view, &self.bounds, items, by, on_chip)?
        } else {
            key::apply(view, items, by, on_chip)?
        };
        let mut out = self.with_view(indexed.view);
        out.bounds = indexed.bounds;
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

    /// A tensor is something; what a comparison gives is known on the device only.
    fn __bool__(&self) -> PyResult<bool> {
        if !self.result().compared {
            return Ok(true);
        }
        Err(PyTypeError::new_err(
            "a comparison of tiles has no truth value for the kernel's own code: choose with nl.where or \
             nisa.tensor_copy_predicated, join with nl.logical_and, or load a register and compare that",
        ))
    }

    /// Marks it as what a comparison gave.
    fn set_compared(&self) {
        self.result().compared = true;
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
        let mask = Some(Mask::from_python(mask)?);
        let result = ResultState { fresh: part.fresh(), mask, ..ResultState::default() };
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
    fn as_initialised(&self) -> PyResult<bool> {
        Ok(self.operand()?.storage.lock().as_initialised())
    }

    /// A copy that no instruction writes to: what a rank gave to a collective.
    fn snapshot(&self) -> PyResult<Tensor> {
        let tile = self.operand()?;
        let bytes = tile.packed(&tile.storage.lock());
        let request = TensorDecl {
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
pub(crate) fn memory_of(name: &str) -> PyResult<MemorySpace> {
    match name {
        "sbuf" => Ok(MemorySpace::Sbuf),
        "psum" => Ok(MemorySpace::Psum),
        "hbm" | "private_hbm" => Ok(MemorySpace::Hbm),
        "shared_hbm" => Ok(MemorySpace::SharedHbm),
        _ => Err(PyValueError::new_err(format!("no memory is called {name}"))),
    }
}
