//! One program of a model: its registers, its places in data memory, and the kernels in order.
//!
//! The place of a token counts backwards from the last: place 0 is the newest. So the last token is always
//! found at the same place, and the causal mask is a sum that stays below the context: the position of a key,
//! plus the place of a query.

use tilewright_base::Span;
use tilewright_base::invariant::to_index;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::exec::{self, Context, ExecBody, Memory};
use tilewright_tcp_isa::program::transfer::Address;
use tilewright_tcp_isa::program::{Count, Exec, Program};

use super::emit::Emitter;
use super::held::{Held, tensors};
use super::image::{commit, hbm, n, packet_of, to_slices, transfer, turn};
use super::place::{Places, place};
use super::plan::{Fill, Packed, Plan};
use super::queue_state::QueueState;
use super::registers::Registers;
use super::rows::UNIT;
use crate::CompileError;
use crate::kernel::{Heads, Kernel, Kernels, Norm};

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Many tokens of one sequence: rows are dealt out over the slices.
    Prefill,
    /// One token: every slice has its row.
    Decode,
    /// One token of each of several sequences: rows are dealt out over the slices, caches are read one after
    /// the other.
    Batch,
}

/// A program in the making.
pub struct Build<'a> {
    /// Machine.
    pub machine: &'a Tcp,
    /// Model.
    pub kernels: &'a Kernels,
    /// Sizes and places in HBM.
    pub plan: &'a Plan,
    /// What for.
    pub mode: Mode,
    /// What a run is told.
    pub registers: Registers,
    /// Places in data memory.
    pub at: Places,
    /// Fills of weights in the order in which they are used, each with the slices that have some of it.
    pub fills: Vec<(Fill, u64)>,
    /// Commands.
    pub emit: Emitter<'a>,
    /// The processing element whose queue is written.
    pub home: PeId,
    /// What its queue has done so far.
    pub queue: QueueState,
    /// The rows at hand: all, or a part of them, for as long as [`Build::with_part`] says.
    pub part: Part,
}

/// Ones of bf16, and of eight-bit integers.
const BF16_ONES: u64 = 0x3F80_3F80_3F80_3F80;
const I8_ONES: u64 = 0x0101_0101_0101_0101;

/// Some of the rows: every so many-th, from one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// How many.
    pub rows: Count,
    /// The first.
    pub first: u64,
    /// From one to the next.
    pub step: u64,
}

impl Part {
    /// Rows of one of so many parts, if there are so many in all.
    pub fn rows_of(part: u64, rows: u64, parts: u64) -> u64 {
        rows.saturating_sub(part).div_ceil(parts.max(1))
    }

    /// A loop over the rows, `stride` from a row to the next of all.
    pub fn by_row(&self, stride: u64) -> (Count, u64) {
        (self.rows, stride * self.step)
    }
}

/// Compiles one program.
///
/// # Errors
/// A model whose values do not fit data memory, or whose shape no template has.
pub fn program(machine: &Tcp, kernels: &Kernels, plan: &Plan, mode: Mode) -> Result<Built, CompileError> {
    let mut build = Build::new(machine, kernels, plan, mode)?;
    let mut begins = Vec::new();
    for pe in 0..plan.options.all_pes() {
        build.turn_to(plan.options.home(pe));
        build.start();
        let mut firsts = Vec::new();
        for (index, kernel) in kernels.kernels.iter().enumerate() {
            firsts.push(build.emit.position());
            build.kernel(index, kernel)?;
        }
        begins.push(firsts);
    }
    let held = Held { dm_bytes: build.at.end, sequences: build.sequences() };
    let places = build.at;
    let mut program = build.emit.finish();
    program.tensors = tensors(machine, plan, held)?;
    Ok(Built { program, begins, places })
}

/// A program, and what is known of it besides its steps.
#[derive(Clone, Debug)]
pub struct Built {
    /// The program.
    pub program: Program,
    /// For each queue, the first step of each kernel.
    pub begins: Vec<Vec<usize>>,
    /// Places in data memory.
    pub places: Places,
}

/// Places of all programs.
fn places(machine: &Tcp, kernels: &Kernels, plan: &Plan) -> Result<Vec<Places>, CompileError> {
    let batch = (plan.options.batch > 1).then_some(Mode::Batch);
    let modes = [Mode::Prefill, Mode::Decode].into_iter().chain(batch);
    modes.map(|mode| Ok(Build::new(machine, kernels, plan, mode)?.at)).collect()
}

/// A plan that all programs have places for. Slices without weights read what their slots hold; unless all
/// bits are numbers, that must stay zero, and so all programs have as many slots.
///
/// # Errors
/// Values that do not fit data memory.
pub fn placed(machine: &Tcp, kernels: &Kernels, mut plan: Plan) -> Result<Plan, CompileError> {
    let places = places(machine, kernels, &plan)?;
    if plan.options.dtype != Dtype::I8 && plan.features.slices < machine.pe.slices {
        let fewest = places.iter().map(|places| places.slots.len() as u64).min();
        plan.choices.slots = fewest.unwrap_or(plan.choices.slots);
    }
    Ok(plan)
}

/// Fills data memory with zeros and loads constants, once: the state that other programs begin with.
///
/// # Errors
/// As [`program`].
pub fn clear(machine: &Tcp, kernels: &Kernels, plan: &Plan) -> Result<Program, CompileError> {
    let mut emit = Emitter::new(machine, plan.options.chips);
    let places = places(machine, kernels, plan)?;
    let end = places.iter().map(|places| places.end).max().unwrap_or(0);
    let constants = places.first().map_or(0, |places| places.constants);
    let flit = machine.network.flit_bytes;
    let mut commit = commit(Memory::Dm, 0, &[(n(end.div_ceil(flit)), flit)], flit);
    commit.width = machine.commit.sub_width_bytes;
    let body = ExecBody::Fill(exec::Fill { word: 0, commit });
    let (name, context) = ("clear".to_string(), Context::Sub);
    let exec = Exec { name, context, pes: 1, body, span: Span::default() };
    let (block, slices) = (plan.constants.bytes, machine.pe.slices);
    let kept = if plan.streams { plan.constants.common_bytes } else { block };
    let packet = packet_of(machine, kept);
    for pe in 0..plan.options.all_pes() {
        let home = plan.options.home(pe);
        emit.turn_to(home);
        emit.exec(exec.clone());
        let from = hbm(home.chip, plan.constants.at + home.pe * slices * block);
        let target = super::image::dm(home.chip, home.pe * slices, constants);
        let loops = vec![to_slices(slices, block), turn(n(kept / packet), packet, packet)];
        if kept > 0 {
            emit.dma(transfer("constants", from, target, loops, packet));
        }
    }
    Ok(emit.finish())
}

impl<'a> Build<'a> {
    fn new(
        machine: &'a Tcp,
        kernels: &'a Kernels,
        plan: &'a Plan,
        mode: Mode,
    ) -> Result<Build<'a>, CompileError> {
        let mut emit = Emitter::new(machine, plan.options.chips);
        emit.window = to_index(plan.choices.window);
        emit.solver = plan.choices.solver;
        let registers = Registers::new(&mut emit, kernels, plan, mode);
        let part = registers.all_rows();
        let of_packed = |packed: &'a Packed| packed.fills.iter().map(|fill| (*fill, packed.slices));
        let mut build = Build {
            machine,
            kernels,
            plan,
            mode,
            registers,
            at: Places::default(),
            fills: plan.packed.iter().flat_map(of_packed).collect(),
            emit,
            home: PeId { chip: 0, pe: 0 },
            queue: QueueState::default(),
            part,
        };
        build.at = place(&build)?;
        build.name_objects();
        Ok(build)
    }

    /// What transfers by a table touch in HBM: one of these, as a whole.
    fn name_objects(&mut self) {
        let plan = self.plan;
        for start in &plan.caches {
            for pe in 0..plan.options.pes {
                let start = start + pe * plan.cache_bytes;
                self.emit.object(start, start + plan.cache_bytes);
            }
        }
        self.emit.object(plan.embedding, plan.places);
        self.emit.object(plan.places, plan.angles);
        self.emit.object(plan.angles, plan.angles + plan.angles_row * self.kernels.positions);
    }

    /// Begins the queue of a processing element.
    fn turn_to(&mut self, home: PeId) {
        self.emit.turn_to(home);
        (self.home, self.queue) = (home, QueueState::default());
    }

    /// Sequences that a run takes tokens of.
    pub(super) fn sequences(&self) -> u64 {
        if self.mode == Mode::Batch { self.plan.options.batch } else { 1 }
    }

    /// Tokens of a row, over slices of a band.
    pub fn groups(&self) -> u64 {
        match self.mode {
            Mode::Prefill => self.machine.pe.slices / self.plan.features.bands,
            Mode::Decode => 1,
            Mode::Batch => self.machine.pe.slices,
        }
    }

    /// Tokens of a row that a processing element has the residual of if they are dealt out.
    pub fn own(&self) -> u64 {
        (self.groups() / self.pes()).max(1)
    }

    /// Processing elements of a chip.
    pub fn pes(&self) -> u64 {
        self.plan.options.pes
    }

    /// Chips.
    pub fn chips(&self) -> u64 {
        self.plan.options.chips
    }

    /// Waits for a transfer, tells the others of this chip, and waits for theirs.
    pub fn meet_chip(&mut self, transfer: u8) {
        let (PeId { chip, pe }, pes) = (self.home, self.pes());
        let other = |ahead: u64| PeId { chip, pe: (pe + ahead) % pes };
        let others: Vec<PeId> = (1..pes).map(other).collect();
        self.emit.meet(&[transfer], &others);
    }

    /// Whether tokens of the residual are dealt out over processing elements; else each has all of them.
    pub fn deals_tokens(&self) -> bool {
        self.pes() > 1 && self.mode != Mode::Decode
    }

    /// A byte of the data memory of one of this processing element's slices.
    pub fn dm(&self, slice: u64, offset: u64) -> Address {
        super::image::dm(self.home.chip, self.home.pe * self.machine.pe.slices + slice, offset)
    }

    /// A byte of the data memory of a slice of this chip, counted over all its processing elements.
    pub fn chip_dm(&self, slice: u64, offset: u64) -> Address {
        super::image::dm(self.home.chip, slice, offset)
    }

    /// A byte of this chip's HBM.
    pub fn hbm(&self, offset: u64) -> Address {
        hbm(self.home.chip, offset)
    }

    /// The most rows of a slice.
    pub fn most_rows(&self) -> u64 {
        match self.mode {
            Mode::Prefill => self.plan.prefill_rows,
            Mode::Decode => 1,
            Mode::Batch => self.plan.options.batch_rows(self.machine.pe.slices),
        }
    }

    /// The most rows of keys of a slice, in whole eights.
    pub fn most_key_rows(&self) -> u64 {
        self.plan.most_key_rows(self.machine)
    }

    /// Type in contractions.
    pub fn dtype(&self) -> Dtype {
        self.plan.options.dtype
    }

    /// Type of rows between kernels.
    pub fn between(&self) -> Dtype {
        self.plan.options.between()
    }

    /// Type of queries, keys and values.
    pub fn cache(&self) -> Dtype {
        self.plan.options.cache
    }

    /// What a unit of the integers that a kernel contracts is worth, if it was found beforehand.
    pub fn unit_into(&self, kernel: usize) -> Option<f32> {
        self.kernels.peak_into(kernel).map(|peak| peak / UNIT)
    }

    /// Where attention leaves its result: place, type, and the cast to it.
    pub fn attended(&self) -> (u64, Dtype, Option<Dtype>) {
        match self.dtype() {
            Dtype::I8 if self.queue.attended_unit.is_none() => {
                let between = self.between();
                (self.at.attended_floats, between, (between != Dtype::F32).then_some(between))
            }
            dtype => (self.at.attended, dtype, Some(dtype)),
        }
    }

    /// Elements from row to row of what attention gives.
    pub fn attended_row(&self, heads: &Heads) -> u64 {
        self.plan.options.whole_rows(self.machine, heads.query_width())
    }

    /// Type of partial sums between processing elements: short ones are exchanged exactly.
    pub fn exchanged(&self) -> Dtype {
        if self.deals_tokens() { Dtype::Bf16 } else { Dtype::F32 }
    }

    /// Tokens of a row whose residual this processing element has.
    pub fn own_of_row(&self) -> u64 {
        if self.deals_tokens() { self.own() } else { self.groups() }
    }

    /// Loops over own tokens of the rows at hand.
    pub fn by_own(&self, stride: u64) -> [(Count, u64); 2] {
        let own = self.own_of_row();
        [self.part.by_row(stride * own), (n(own), stride)]
    }

    /// What lies before the first of them.
    pub fn before_own(&self, stride: u64) -> u64 {
        self.part.first * self.own_of_row() * stride
    }

    /// Loops over tokens of a value by features, `stride` from token to token.
    pub fn by_token(&self, stride: u64) -> [(Count, u64); 2] {
        [self.part.by_row(stride * self.groups()), (n(self.groups()), stride)]
    }

    /// What lies before the first of them.
    pub fn before_token(&self, stride: u64) -> u64 {
        self.part.first * self.groups() * stride
    }

    /// Emits commands for each part of the rows, one after the other; what a part has no rows for is left
    /// out. What comes `after` a part comes in any case.
    pub fn each_part(&mut self, mut emit: impl FnMut(&mut Self, usize), mut after: impl FnMut(&mut Self)) {
        for (index, part) in self.registers.parts.clone().into_iter().enumerate() {
            self.with_part(part, |build| {
                // A first row there is always.
                if part.first > 0 {
                    build.emit.begin_if_above(build.registers.rows, part.first);
                }
                emit(build, index);
                if part.first > 0 {
                    build.emit.end_if();
                }
                after(build);
            });
        }
    }

    /// Emits commands for some rows; behind it those are at hand that were before.
    pub fn with_part<T>(&mut self, part: Part, emit: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.part, part);
        let result = emit(self);
        self.part = before;
        result
    }

    /// What every run starts with.
    fn start(&mut self) {
        self.ask_constants(0);
        if self.mode == Mode::Prefill {
            self.fill_ones(self.at.ones, self.cache());
        }
        if self.deals_tokens() {
            self.fill_ones(self.at.sum_ones, self.exchanged());
        }
        self.forget_bands();
    }

    /// Where data memory has a constant.
    pub fn constant(&self, place: u64) -> u64 {
        let constants = &self.plan.constants;
        let place = match constants.window(place).filter(|_| self.plan.streams) {
            None => place,
            Some((index, window)) => {
                let first = constants.common_bytes + index % 2 * constants.window_bytes();
                first + place - window.start
            }
        };
        self.at.constants + place
    }

    /// Asks for the constants from a norm to the next, if data memory does not keep all of them.
    pub fn ask_constants(&mut self, norm: u64) {
        let constants = &self.plan.constants;
        let window = usize::try_from(norm).ok().and_then(|norm| constants.windows.get(norm));
        let Some(window) = window.copied().filter(|window| self.plan.streams && window.bytes > 0) else {
            return;
        };
        let slices = self.machine.pe.slices;
        let from = self.hbm(constants.at + self.home.pe * slices * constants.bytes + window.start);
        let packet = packet_of(self.machine, window.bytes);
        let loops = vec![to_slices(slices, constants.bytes), turn(n(window.bytes / packet), packet, packet)];
        let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
        let target = self.dm(0, self.constant(window.start));
        self.emit.dma(transfer("constants", from, target, loops, packet));
    }

    /// A packet of ones, in all slices.
    fn fill_ones(&mut self, at: u64, dtype: Dtype) {
        let (flit, width) = (self.machine.network.flit_bytes, self.machine.commit.sub_width_bytes);
        let mut commit = commit(Memory::Dm, at, &[(n(2), flit)], flit);
        commit.width = width;
        let word = if dtype == Dtype::I8 { I8_ONES } else { BF16_ONES };
        let body = ExecBody::Fill(exec::Fill { word, commit });
        let (name, context) = ("ones".to_string(), Context::Sub);
        self.emit.exec(Exec { name, context, pes: 1, body, span: Span::default() });
    }

    /// A block for each of the first slices, one behind the other in HBM.
    pub fn to_dm(&mut self, name: &str, from: u64, to: u64, slice_bytes: u64, slices: u64) {
        let packet = packet_of(self.machine, slice_bytes);
        let target = self.dm(0, to);
        let loops = vec![to_slices(slices, slice_bytes), turn(n(slice_bytes / packet), packet, packet)];
        let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
        self.emit.dma(transfer(name, self.hbm(from), target, loops, packet));
    }

    /// The weight of a kernel.
    pub fn packed(&self, kernel: usize) -> Result<&'a Packed, CompileError> {
        self.plan.packed(kernel).ok_or(CompileError::Size {
            what: "weights of a kernel",
            found: 0,
            allowed: "at least one".to_string(),
        })
    }

    fn kernel(&mut self, index: usize, kernel: &Kernel) -> Result<(), CompileError> {
        match kernel {
            Kernel::Embed { .. } => super::ends::embed(self),
            Kernel::Norm { norm: Norm::Rms, epsilon, out, .. } => {
                super::norm::rms(self, *epsilon, self.kernels.amax.get(out).copied());
            }
            Kernel::Norm { norm: Norm::Layer, epsilon, bias, out, .. } => {
                let peak = self.kernels.amax.get(out).copied();
                super::layer_norm::layer(self, *epsilon, bias.is_some(), self.kernels.stays(*out), peak);
            }
            Kernel::Project { parts, .. } => super::project::project(self, index, parts)?,
            Kernel::Rotate { heads, tables, cache, .. } => {
                super::rotate::rotate(self, heads, tables.is_some(), *cache)?;
            }
            Kernel::Attend { heads, cache, scale, causal, out, .. } => {
                let peak = self.kernels.amax.get(out).filter(|_| self.dtype() == Dtype::I8);
                self.queue.attended_unit = peak.map(|peak| peak / UNIT);
                match self.mode {
                    Mode::Prefill => super::attend_rows::attend(self, heads, *cache, *scale, *causal)?,
                    Mode::Decode => super::attend_keys::attend(self, heads, *cache, *scale)?,
                    Mode::Batch => super::attend_keys::attend_all(self, heads, *cache, *scale)?,
                }
            }
            Kernel::Activate { activation, .. } => super::activate::activate(self, *activation, index)?,
            Kernel::Combine { input, .. } => super::combine::combine(self, index, *input)?,
            Kernel::Pool { .. } => super::pool::pool(self),
            Kernel::Head { .. } => super::ends::head(self, index)?,
        }
        Ok(())
    }
}
