//! A run of a kernel: the chip, the tensors it makes and the instructions it executes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use tilewright_base::Sources;
use tilewright_machine::{builtin, load};
use tilewright_neuron_exec::engine::random::RandomLanes;
use tilewright_neuron_exec::engine::tensor::MatmulProduct;
use tilewright_neuron_exec::{Storage, Tile};
use tilewright_neuron_isa::network::Network;
use tilewright_neuron_isa::program::Allocation;
use tilewright_neuron_isa::{
    Chip, EngineKind, Generation, Instruction, MemorySpace, NeuronProgram, Refusal, TensorDecl, TensorRegion,
};
use tilewright_neuron_sim::ScheduledProgram;
use tilewright_neuron_sim::findings::NeuronFinding;

use tilewright_num::Dtype;

use crate::current::next_launch;
use crate::dtype::ElementType;
use crate::error::raise;
use crate::iteration_tiles::IterationTiles;
use crate::iteration_writes::IterationWrites;
use crate::loops::LoopTable;
use crate::register::RegisterTable;
use crate::shared_writes::SharedWrites;
use crate::tensor::{Tensor, memory_of};
use crate::{dtype, source};

/// A run.
#[pyclass(module = "tilewright._core")]
pub(crate) struct Session {
    pub(crate) chip: Arc<Chip>,
    pub(crate) program: NeuronProgram,
    precise: bool,
    /// The launch that it belongs to.
    pub(crate) launch: u64,
    pub(crate) seed: u64,
    /// Generators of random numbers, by engine.
    pub(crate) lanes: BTreeMap<EngineKind, RandomLanes>,
    /// Program of the launch grid that runs now.
    #[pyo3(get, set)]
    pub(crate) current_program: u32,
    /// How often the core that runs now has met the others.
    #[pyo3(get, set)]
    pub(crate) current_barrier: u32,
    /// Tensors have values; without, only times and shapes are followed.
    #[pyo3(get, set)]
    pub(crate) values: bool,
    /// The timeline of so many instructions.
    pub(crate) timeline: Mutex<Option<(usize, Arc<ScheduledProgram>)>>,
    /// Where the ranks of the launch are.
    pub(crate) network: Option<Arc<Network>>,
    /// How often each core has met the same ranks.
    pub(crate) collective_counts: BTreeMap<(u32, Vec<u32>), u32>,
    pub(crate) registers: RegisterTable,
    pub(crate) loops: LoopTable,
    pub(crate) shared_writes: SharedWrites,
    pub(crate) iteration_writes: IterationWrites,
    pub(crate) iteration_tiles: IterationTiles,
    /// Programs of the launch.
    #[pyo3(get, set)]
    pub(crate) programs: u32,
    /// What was found while the kernel ran.
    pub(crate) reported: Vec<NeuronFinding>,
    /// Where matmuls wrote, by tensor.
    summed: BTreeMap<u32, Vec<TensorRegion>>,
    /// Lines by code object, and by the place in its code, which is found sooner.
    lines: BTreeMap<(usize, i32), u32>,
    places: BTreeMap<(usize, i32), u32>,
    /// Code objects of lines, kept so that their addresses stay theirs.
    codes: BTreeMap<usize, Py<PyAny>>,
    /// The tensor that was made last for the result of an instruction, and the line that it was made for.
    result: Option<(u32, u32)>,
}

/// The chip of a machine file that comes with us.
pub(crate) fn chip_of(name: &str) -> PyResult<Chip> {
    let text = builtin(name).ok_or_else(|| PyValueError::new_err(format!("no chip is called {name}")))?;
    let mut sources = Sources::default();
    let id = sources.add(format!("machines/{name}.toml"), text);
    let loaded = load(&mut sources, id, &|name: &str| builtin(name).map(str::to_owned))
        .map_err(|_| PyValueError::new_err(format!("the machine file of {name} does not load")))?;
    let neuron = loaded
        .machine
        .neuron()
        .ok_or_else(|| PyValueError::new_err(format!("{name} is no Neuron device")))?;
    Ok(Chip::new(name, neuron.clone()))
}

impl Session {
    /// The line of the kernel that runs now.
    pub(crate) fn line(&mut self, py: Python<'_>) -> u32 {
        let Some(caller) = source::caller(py) else { return 0 };
        let code = &caller.code;
        let place = (code.as_ptr() as usize, caller.place());
        if let Some(&index) = self.places.get(&place) {
            return index;
        }
        let line = caller.line();
        let key = (place.0, line);
        if let Some(&index) = self.lines.get(&key) {
            self.places.insert(place, index);
            return index;
        }
        let file = code.getattr("co_filename").and_then(|name| name.extract::<String>()).unwrap_or_default();
        let index = u32::try_from(self.program.sources.len()).unwrap_or(u32::MAX);
        self.program.sources.push(format!("{file}:{line}"));
        self.codes.entry(key.0).or_insert_with(|| code.clone().unbind());
        self.places.insert(place, index);
        self.lines.insert(key, index);
        index
    }

    /// Records what was executed; raises what was refused.
    pub(crate) fn record(&mut self, py: Python<'_>, done: Result<Instruction, Refusal>) -> PyResult<usize> {
        let line = self.line(py);
        self.record_at(py, line, done)
    }

    /// The line of the kernel that asked for what is written to a tensor: that of a result was found when it
    /// was made.
    pub(crate) fn line_into(&mut self, py: Python<'_>, storage: u32) -> u32 {
        match self.result.take() {
            Some((made, line)) if made == storage => line,
            _ => self.line(py),
        }
    }

    /// Records what was executed for a line; raises what was refused.
    pub(crate) fn record_at(
        &mut self,
        py: Python<'_>,
        line: u32,
        done: Result<Instruction, Refusal>,
    ) -> PyResult<usize> {
        match done {
            Ok(mut instruction) => {
                instruction.source = line;
                instruction.program = self.current_program;
                instruction.barrier = self.current_barrier;
                self.own_registers(&instruction);
                self.follow_branch(&mut instruction);
                self.read_behind_loops(&instruction);
                self.program.instructions.push(instruction);
                let at = self.program.instructions.len() - 1;
                self.follow_loops(at, self.current_program);
                Ok(at)
            }
            Err(refusal) => Err(raise(py, &refusal, self.program.source(line))),
        }
    }

    /// Gives a product that nobody looked at yet to where it goes; false if `from` is not all of its tile.
    fn place_product(to: &Tile, from: &Tile, add: bool) -> bool {
        let whole = from.elements() * from.view.dtype.size_bytes(1) == from.storage.size_bytes();
        if !whole || from.view.gather.is_some() || to.view.gather.is_some() {
            return false;
        }
        let Some(product) = from.storage.take_deferred() else { return false };
        let adds = add && !to.unwritten();
        MatmulProduct::from(product).write(to, adds);
        true
    }

    /// What was refused, with the line of the kernel that runs now.
    pub(crate) fn refused(&mut self, py: Python<'_>, refusal: &Refusal) -> PyErr {
        let line = self.line(py);
        raise(py, refusal, self.program.source(line))
    }

    /// Whether a matmul wrote here before; from now on one has.
    pub(crate) fn adds(&mut self, tile: &Tile) -> bool {
        let Some(region) = TensorRegion::of(tile) else { return false };
        let written = self.summed.entry(region.storage).or_default();
        let adds = written.iter().any(|earlier| earlier.overlaps(&region));
        if !written.iter().any(|earlier| earlier.covers(&region)) {
            written.push(region);
        }
        adds
    }

    fn keep(
        &mut self,
        py: Python<'_>,
        storage: Result<Storage, Refusal>,
        places: Vec<(u32, u64)>,
    ) -> PyResult<Tensor> {
        let storage = storage.map_err(|refusal| {
            let line = self.line(py);
            raise(py, &refusal, self.program.source(line))
        })?;
        self.program.allocations.push(Allocation {
            storage: storage.id,
            memory: storage.memory,
            partition_bytes: storage.partition_bytes(),
            tiles: u32::try_from(storage.tiles()).unwrap_or(u32::MAX),
            name: storage.name.clone(),
            source: storage.source,
            places,
            partitions: u32::try_from(storage.partitions()).unwrap_or(u32::MAX),
            made_at: self.program.instructions.len(),
        });
        Ok(Tensor::new(Arc::new(storage), self.launch))
    }

    /// A place that stands for what is made at run time and read soon after: descriptors of one transfer,
    /// which have theirs in HBM as those that are known before, or a register.
    pub(crate) fn new_buffer(&mut self, py: Python<'_>, name: &str) -> PyResult<Tensor> {
        let bytes = ElementType { dtype: Dtype::U8, mx: None }.code();
        let mut request = self.request(py, vec![1], bytes, "private_hbm")?;
        name.clone_into(&mut request.name);
        self.keep(py, Storage::without_values(request), Vec::new())
    }

    /// A tensor that nobody wrote to, if it has no more partitions than there are.
    fn make(
        &mut self,
        py: Python<'_>,
        mut request: TensorDecl,
        code: usize,
        places: Vec<(u32, u64)>,
    ) -> PyResult<Tensor> {
        let (on_chip, most) = (request.memory.on_chip(), self.chip.partitions());
        if on_chip && request.shape.get(request.blocks).is_some_and(|&partitions| partitions > most) {
            let refusal = Refusal::new(
                "neuron/partitions",
                format!("a tile of shape {:?} in {}", request.shape, request.memory.name()),
                format!("at most {most} partitions"),
                "split the first dimension, or mark the partition dimension with nl.par_dim",
            );
            return Err(raise(py, &refusal, self.program.source(request.source)));
        }
        let narrow = request.dtype.is_float() && request.dtype.storage_bits() < 32;
        let declared = (!self.precise && on_chip && narrow).then_some(request.dtype);
        if declared.is_some() {
            request.dtype = Dtype::F32;
        }
        let made = if self.values { Storage::poisoned(request) } else { Storage::without_values(request) };
        let tensor = self.keep(py, made, places)?;
        Ok(tensor.holding(dtype::from_code(code)?.mx).declared(declared))
    }

    fn request(
        &mut self,
        py: Python<'_>,
        shape: Vec<usize>,
        code: usize,
        memory: &str,
    ) -> PyResult<TensorDecl> {
        Ok(TensorDecl {
            id: u32::try_from(self.program.allocations.len()).unwrap_or(u32::MAX),
            memory: memory_of(memory)?,
            dtype: dtype::from_code(code)?.dtype,
            shape,
            blocks: 0,
            name: String::new(),
            source: self.line(py),
        })
    }
}

/// The code of a finding that the front end makes.
fn told_code(code: &str) -> PyResult<&'static str> {
    let known = ["neuron/unset-register"];
    let found = known.into_iter().find(|known| *known == code);
    found.ok_or_else(|| PyValueError::new_err(format!("no finding is called {code}")))
}

/// Whether an engine writes to a memory: the tensor engine to PSUM alone, GpSimd and transfers never to it
/// (NKI architecture guide; docs/hardware-rules.md#tensor-access).
fn writes_to(engine: EngineKind, memory: MemorySpace) -> bool {
    match engine {
        EngineKind::Tensor => memory == MemorySpace::Psum,
        EngineKind::Gpsimd | EngineKind::Dma => memory == MemorySpace::Sbuf,
        EngineKind::Vector | EngineKind::Scalar | EngineKind::Sync => memory.on_chip(),
    }
}

#[pymethods]
impl Session {
    /// Without `precise`, tiles of narrow floats hold their values unrounded. Ranks that run together have
    /// one launch.
    #[new]
    #[pyo3(signature = (chip, precise=true, launch=None))]
    fn new(chip: &str, precise: bool, launch: Option<u64>) -> PyResult<Session> {
        Ok(Session {
            precise,
            launch: launch.unwrap_or_else(next_launch),
            chip: Arc::new(chip_of(chip)?),
            program: NeuronProgram { sources: vec!["?".to_owned()], ..NeuronProgram::default() },
            seed: 0,
            lanes: BTreeMap::new(),
            current_program: 0,
            current_barrier: 0,
            values: true,
            timeline: Mutex::new(None),
            network: None,
            collective_counts: BTreeMap::new(),
            registers: RegisterTable::default(),
            loops: LoopTable::default(),
            shared_writes: SharedWrites::default(),
            iteration_writes: IterationWrites::default(),
            iteration_tiles: IterationTiles::default(),
            programs: 1,
            reported: Vec::new(),
            summed: BTreeMap::new(),
            lines: BTreeMap::new(),
            places: BTreeMap::new(),
            codes: BTreeMap::new(),
            result: None,
        })
    }

    /// Generation of the cores.
    #[getter]
    fn generation(&self) -> u64 {
        self.chip.generation().0
    }

    /// Refuses what only later generations have.
    fn needs_generation(&mut self, py: Python<'_>, name: &str, least: u64) -> PyResult<()> {
        let done = self.chip.needs(name, Generation(least));
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    /// Refuses a launch of the second dialect on so many cores.
    fn check_launch(&mut self, py: Python<'_>, cores: usize) -> PyResult<()> {
        let done = self.chip.check_launch(cores);
        done.map_err(|refusal| self.refused(py, &refusal))
    }

    #[getter]
    fn chip(&self) -> &str {
        &self.chip.name
    }

    /// Bytes of an SBUF partition that kernels may use.
    #[getter]
    fn sbuf_usable_bytes(&self) -> u64 {
        self.chip.sbuf_usable_bytes()
    }

    /// Bytes of a PSUM bank in a partition.
    #[getter]
    fn psum_bank_bytes(&self) -> u64 {
        self.chip.neuron.psum.bank_bytes
    }

    /// The line that made a tensor, as `file:line`.
    fn made_at(&self, storage: u32) -> String {
        let made = self.program.allocations.iter().find(|allocation| allocation.storage == storage);
        made.map_or_else(String::new, |allocation| self.program.source(allocation.source).to_owned())
    }

    /// Instructions so far.
    #[getter]
    fn count(&self) -> usize {
        self.program.instructions.len()
    }

    /// A tensor that nobody wrote to.
    #[pyo3(signature = (shape, code, memory, blocks=0, name="", places=Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "a tensor has as many properties")]
    fn alloc(
        &mut self,
        py: Python<'_>,
        shape: Vec<usize>,
        code: usize,
        memory: &str,
        blocks: usize,
        name: &str,
        places: Vec<(u32, u64)>,
    ) -> PyResult<Tensor> {
        let mut request = self.request(py, shape, code, memory)?;
        request.blocks = if request.memory.on_chip() { blocks.min(request.shape.len()) } else { 0 };
        if request.memory.on_chip() {
            while request.shape.len() < request.blocks + 2 {
                request.shape.push(1);
            }
        }
        name.clone_into(&mut request.name);
        self.make(py, request, code, places)
    }

    /// A tile for the result of the instruction that comes next, with the shape of a tensor or a given one.
    fn result(
        &mut self,
        py: Python<'_>,
        like: &Bound<'_, PyAny>,
        code: usize,
        memory: &str,
    ) -> PyResult<Tensor> {
        let mut shape = match like.cast::<Tensor>() {
            Ok(tensor) => tensor.get().shape().into_vec(),
            Err(_) if like.is_instance_of::<PyList>() || like.is_instance_of::<PyTuple>() => {
                like.extract()?
            }
            Err(_) => like.getattr(intern!(py, "shape"))?.extract()?,
        };
        while shape.len() < 2 {
            shape.push(1);
        }
        let request = self.request(py, shape, code, memory)?;
        self.result = Some((request.id, request.source));
        self.make(py, request, code, Vec::new())
    }

    /// Cores that run the programs of the launch side by side, as many as the chip has.
    #[setter]
    fn set_cores(&mut self, cores: u32) {
        let most = u32::try_from(self.chip.neuron.chip.cores).unwrap_or(u32::MAX);
        self.program.cores = cores.min(most);
    }

    /// The compiler of the first dialect may change what runs.
    #[setter]
    fn set_compiled(&mut self, compiled: bool) {
        self.program.compiled = compiled;
    }

    /// The kernel asks for its own order of instructions.
    #[setter]
    fn set_in_order(&mut self, in_order: bool) {
        self.program.in_order = in_order;
    }

    /// A tensor in HBM without values.
    #[pyo3(signature = (shape, code, name=""))]
    fn placeholder(
        &mut self,
        py: Python<'_>,
        shape: Vec<usize>,
        code: usize,
        name: &str,
    ) -> PyResult<Tensor> {
        let mut request = self.request(py, shape, code, "shared_hbm")?;
        name.clone_into(&mut request.name);
        self.keep(py, Storage::without_values(request), Vec::new())
    }

    /// A tensor in HBM with the bytes of a buffer.
    #[pyo3(signature = (buffer, shape, code, name=""))]
    fn input(
        &mut self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        shape: Vec<usize>,
        code: usize,
        name: &str,
    ) -> PyResult<Tensor> {
        let buffer: PyBuffer<u8> = PyBuffer::get(buffer)?;
        let bytes = buffer.to_vec(py)?;
        let mut request = self.request(py, shape, code, "shared_hbm")?;
        name.clone_into(&mut request.name);
        let tensor = self.keep(py, Storage::filled(request, bytes), Vec::new())?;
        Ok(tensor.holding(dtype::from_code(code)?.mx))
    }

    /// As [`Session::retarget`], if that is all there is to do: a fresh result without a mask, of the same
    /// shape, in a memory that its instruction can write. False if nothing was done.
    pub(crate) fn take_over(&mut self, target: &Tensor, value: &Tensor) -> PyResult<bool> {
        if value.is_masked() || value.shape() != target.shape() || !self.reaches(value, target) {
            return Ok(false);
        }
        self.retarget(target, value, false)?;
        Ok(true)
    }

    /// The instruction that wrote `value` writes `target` instead; the values are copied. With `add`, they
    /// are added as the tensor engine adds to PSUM.
    fn retarget(&mut self, target: &Tensor, value: &Tensor, add: bool) -> PyResult<()> {
        let (to, from) = (target.operand()?, value.operand()?);
        let left = self.before_tile_write(to);
        let rules = &self.chip.rules;
        if Session::place_product(to, from, add) {
            // Done where it belongs.
        } else if add {
            tilewright_neuron_exec::convert::add(rules, to, from);
        } else {
            tilewright_neuron_exec::convert::copy(rules, to, from);
        }
        let region = TensorRegion::of(to);
        if let (Some(instruction), Some(region)) =
            (value.fresh().and_then(|at| self.program.instructions.get_mut(at)), region)
        {
            for write in instruction.writes.iter_mut().filter(|write| write.storage == from.storage.id) {
                *write = region;
            }
            if add {
                instruction.reads.push(region);
            }
        }
        if let Some(at) = value.fresh() {
            self.after_tile_write(to, at, Some(from.storage.id), left);
        }
        Ok(())
    }

    /// Whether the instruction whose result this is could have written to the target itself; false if it is
    /// not fresh.
    fn reaches(&self, value: &Tensor, target: &Tensor) -> bool {
        let producer = value.fresh().and_then(|at| self.program.instructions.get(at));
        producer.is_some_and(|producer| writes_to(producer.engine, target.tile.storage.memory))
    }

    /// Name of the instruction whose result this is; None if it is not fresh.
    fn producer(&self, value: &Tensor) -> Option<&'static str> {
        value.fresh().and_then(|at| self.program.instructions.get(at)).map(|instruction| instruction.opcode)
    }

    /// The line of the kernel that runs now, as `file:line`.
    fn here(&mut self, py: Python<'_>) -> String {
        let line = self.line(py);
        self.program.source(line).to_owned()
    }

    /// Keeps a finding of the front end at the line that runs now, once for each line.
    fn tell(
        &mut self,
        py: Python<'_>,
        code: &str,
        error: bool,
        message: String,
        allowed: String,
        instead: String,
    ) -> PyResult<()> {
        let code = told_code(code)?;
        let line = self.line(py);
        let source = self.program.source(line).to_owned();
        if !self.reported.iter().any(|one| one.code == code && one.source == source) {
            self.reported.push(NeuronFinding { code, error, source, message, allowed, instead });
        }
        Ok(())
    }

    /// Sets the generator of random numbers.
    fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Uniform random numbers into a tile.
    fn random(&mut self, dst: &Tensor) -> PyResult<()> {
        let tile = dst.operand()?;
        let values: Vec<f32> = (0..tile.elements())
            .map(|_| tilewright_neuron_exec::engine::vector::uniform(&mut self.seed))
            .collect();
        tile.write(&self.chip.rules, &values);
        Ok(())
    }

    /// Fills a tensor without an instruction: constants that the executable carries, memory zeroed lazily.
    fn preset(&mut self, dst: &Tensor, value: f64) -> PyResult<()> {
        tilewright_neuron_exec::engine::vector::fill(&self.chip, dst.operand()?, value);
        Ok(())
    }
}
