//! One program of a model: its registers, its places in data memory, and the kernels in order.
//!
//! The place of a token counts backwards from the last: place 0 is the newest. So the last token is always found at the same place, and
//! the causal mask is a sum that stays below the context: the position of a key, plus the place of a query.

use tilewright_base::Span;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp::cost::Context;
use tilewright_tcp::program::event::PeId;
use tilewright_tcp::program::exec::{self, Body, Memory};
use tilewright_tcp::program::transfer::Address;
use tilewright_tcp::program::{Count, Exec, Program};

use super::emit::Emitter;
use super::held::tensors;
use super::image::{commit, hbm, n, packet_of, to_slices, transfer, turn};
use super::place::{Places, place};
use super::plan::{Fill, Packed, Plan};
use super::sizes::whole_packets;
use crate::CompileError;
use crate::kernel::{Heads, Kernel, Kernels};

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Many tokens of one sequence: rows are dealt out over the slices.
    Prefill,
    /// One token: every slice has its row.
    Decode,
    /// One token of each of several sequences: rows are dealt out over the slices, caches are read one after the other.
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
    /// Which processing element.
    pub pe: u64,
    /// Parts of the rows that are combined one after the other, so that one part's sums are on their way while the next are made: rows
    /// of a part, and the first.
    pub parts: Vec<(Count, u64)>,
    /// Places of a row of tokens whose residual this processing element has.
    pub own: u64,
    /// Commands.
    pub emit: Emitter<'a>,
    /// Rows of a slice.
    pub rows: Count,
    /// Tokens of a row, over slices.
    pub groups: u64,
    /// Tokens whose residual this processing element has, padding included.
    pub own_tokens: Count,
    /// Rows of cached keys of a slice.
    pub key_rows: Count,
    /// Eights of them.
    pub key_rounds: Count,
    /// Keys that there are.
    pub context: Count,
    /// Places in data memory.
    pub at: Places,
    /// Fills in the order in which they are used; how many were asked for, and used.
    pub fills: Vec<(Fill, u64)>,
    asked: usize,
    used: usize,
    /// Norms so far.
    pub norms: u64,
    /// Exchanges of sums so far.
    pub exchanges: u64,
}

/// Compiles one program.
///
/// # Errors
/// A model whose values do not fit data memory, or whose shape no template has.
pub fn program(machine: &Tcp, kernels: &Kernels, plan: &Plan, mode: Mode) -> Result<Built, CompileError> {
    let mut build = Build::new(machine, kernels, plan, mode)?;
    let mut begins = Vec::new();
    for pe in 0..plan.options.pes {
        build.turn_to(pe);
        build.start();
        let mut firsts = Vec::new();
        for (index, kernel) in kernels.kernels.iter().enumerate() {
            firsts.push(build.emit.position());
            build.kernel(index, kernel)?;
        }
        begins.push(firsts);
    }
    let places = build.at;
    let mut program = build.emit.finish();
    program.tensors = tensors(machine, plan, places.end)?;
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

/// Fills data memory with zeros and loads constants, once: the state that other programs begin with.
///
/// # Errors
/// As [`program`].
pub fn clear(machine: &Tcp, kernels: &Kernels, plan: &Plan) -> Result<Program, CompileError> {
    let mut emit = Emitter::new(machine, PeId { chip: 0, pe: 0 });
    let (mut end, mut constants) = (0, 0);
    let batch = (plan.options.batch > 1).then_some(Mode::Batch);
    for mode in [Mode::Prefill, Mode::Decode].into_iter().chain(batch) {
        let places = Build::new(machine, kernels, plan, mode)?.at;
        (end, constants) = (places.end.max(end), places.constants);
    }
    let flit = machine.network.flit_bytes;
    let mut commit = commit(Memory::Dm, 0, &[(n(end.div_ceil(flit)), flit)], flit);
    commit.width = machine.commit.sub_width_bytes;
    let body = Body::Fill(exec::Fill { word: 0, commit });
    let (name, context) = ("clear".to_string(), Context::Sub);
    let exec = Exec { name, context, pes: 1, body, span: Span::default() };
    let (block, slices) = (plan.constants.bytes, machine.pe.slices);
    let packet = packet_of(machine, block);
    for pe in 0..plan.options.pes {
        emit.turn_to(PeId { chip: 0, pe });
        emit.exec(exec.clone());
        let from = hbm(0, plan.constants.at + pe * slices * block);
        let target = super::image::dm(0, pe * slices, constants);
        let loops = vec![to_slices(slices, block), turn(n(block / packet), packet, packet)];
        emit.dma(transfer("constants", from, target, loops, packet));
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
        let mut emit = Emitter::new(machine, PeId { chip: 0, pe: 0 });
        let slices = machine.pe.slices;
        let most = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let key_rows = plan.options.context.div_ceil(slices);
        let rounds = key_rows.div_ceil(machine.ce.lanes);
        let keys = emit.register("key_rows", 1, most(key_rows));
        let context = emit.register("context", 1, most(plan.options.context));
        let (rows, groups, tokens, key_rounds) = match mode {
            Mode::Prefill => {
                let rows = emit.register("rows", 1, most(plan.prefill_rows));
                let own = slices / plan.options.pes;
                let tokens = emit.register("own_tokens", most(own), most(plan.prefill_rows * own));
                (rows, slices, tokens, n(rounds))
            }
            Mode::Decode => (n(1), 1, n(1), emit.register("key_rounds", 1, most(rounds))),
            Mode::Batch => {
                let own = (slices / plan.options.pes).max(1);
                (n(1), slices, n(own), emit.register("key_rounds", 1, most(rounds)))
            }
        };
        let parts = match mode {
            Mode::Prefill if plan.options.pes > 1 => (0..plan.prefill_rows.div_ceil(plan.choices.part_rows))
                .map(|part| {
                    let part_rows = plan.choices.part_rows;
                    let most_rows = most(part_rows.min(plan.prefill_rows));
                    (emit.register(&format!("rows{part}"), 1, most_rows), part * part_rows)
                })
                .collect(),
            _ => vec![(rows, 0)],
        };
        let mut build = Build {
            parts,
            machine,
            kernels,
            plan,
            mode,
            pe: 0,
            own: (groups / plan.options.pes).max(1),
            emit,
            rows,
            groups,
            own_tokens: tokens,
            key_rows: keys,
            key_rounds,
            context,
            at: Places::default(),
            fills: Vec::new(),
            asked: 0,
            used: 0,
            norms: 0,
            exchanges: 0,
        };
        build.at = place(&build)?;
        for start in &plan.caches {
            for pe in 0..plan.options.pes {
                let start = start + pe * plan.cache_bytes;
                build.emit.object(start, start + plan.cache_bytes);
            }
        }
        build.emit.object(plan.embedding, plan.angles);
        build.emit.object(plan.angles, plan.angles + plan.angles_row * kernels.positions);
        for packed in &plan.packed {
            build.fills.extend(packed.fills.iter().map(|fill| (*fill, packed.slices)));
        }
        Ok(build)
    }

    /// Begins the queue of a processing element.
    fn turn_to(&mut self, pe: u64) {
        self.emit.turn_to(PeId { chip: 0, pe });
        self.pe = pe;
        (self.asked, self.used, self.norms, self.exchanges) = (0, 0, 0, 0);
    }

    /// Processing elements.
    pub fn pes(&self) -> u64 {
        self.plan.options.pes
    }

    /// Whether tokens of the residual are dealt out over processing elements; else each has all of them.
    pub fn deals_tokens(&self) -> bool {
        self.pes() > 1 && self.mode != Mode::Decode
    }

    /// A byte of the data memory of one of this processing element's slices.
    pub fn dm(&self, slice: u64, offset: u64) -> Address {
        super::image::dm(0, self.pe * self.machine.pe.slices + slice, offset)
    }

    /// The most rows of a slice.
    pub fn most_rows(&self) -> u64 {
        match self.mode {
            Mode::Prefill => self.plan.prefill_rows,
            Mode::Decode | Mode::Batch => 1,
        }
    }

    /// The most rows of keys of a slice, in whole eights.
    pub fn most_key_rows(&self) -> u64 {
        self.plan.options.context.div_ceil(self.machine.pe.slices).next_multiple_of(self.machine.ce.lanes)
    }

    /// Type in contractions.
    pub fn dtype(&self) -> Dtype {
        self.plan.options.dtype
    }

    /// Type of rows between kernels: as wide as what is made of them.
    pub fn between(&self) -> Dtype {
        if self.dtype() == Dtype::I8 { Dtype::Bf16 } else { Dtype::F32 }
    }

    /// Type of queries, keys and values.
    pub fn cache(&self) -> Dtype {
        self.plan.options.cache
    }

    /// Where attention leaves its result: place, type, and the cast to it.
    pub fn attended(&self) -> (u64, Dtype, Option<Dtype>) {
        match self.dtype() {
            Dtype::I8 => (self.at.attended_floats, Dtype::F32, None),
            dtype => (self.at.attended, dtype, Some(dtype)),
        }
    }

    /// Elements from row to row of what attention gives.
    pub fn attended_row(&self, heads: &Heads) -> u64 {
        whole_packets(self.machine, self.dtype(), heads.query_width())
    }

    /// Type of partial sums between processing elements: short ones are exchanged exactly.
    pub fn exchanged(&self) -> Dtype {
        if self.deals_tokens() { Dtype::Bf16 } else { Dtype::F32 }
    }

    /// Loops over own tokens.
    pub fn by_own(&self, stride: u64) -> [(Count, u64); 2] {
        let own = if self.deals_tokens() { self.own } else { self.groups };
        [(self.rows, stride * own), (n(own), stride)]
    }

    /// Loops over tokens of a value by features, `stride` from token to token.
    pub fn by_token(&self, stride: u64) -> [(Count, u64); 2] {
        [(self.rows, stride * self.groups), (n(self.groups), stride)]
    }

    /// What every run starts with.
    fn start(&mut self) {
        if self.plan.angles_row > 0 {
            super::rotate::angles(self);
        }
    }

    /// A block for each of the first slices, one behind the other in HBM.
    pub fn to_dm(&mut self, name: &str, from: u64, to: u64, slice_bytes: u64, slices: u64) {
        let packet = packet_of(self.machine, slice_bytes);
        let target = self.dm(0, to);
        let loops = vec![to_slices(slices, slice_bytes), turn(n(slice_bytes / packet), packet, packet)];
        let loops = loops.into_iter().filter(|row| row.size != n(1)).collect();
        self.emit.dma(transfer(name, hbm(0, from), target, loops, packet));
    }

    /// Makes sure that the next fill is on its way, and those behind it as far as there are slots; gives its place.
    pub fn next_fill(&mut self) -> u64 {
        let slots = self.at.slots.len();
        while self.asked < self.fills.len() && self.asked < self.used + slots {
            let (fill, slices) = self.fills[self.asked];
            let place = self.at.slots[self.asked % slots];
            self.to_dm("weights", fill.at + self.pe * fill.pe_bytes, place, fill.slice_bytes, slices);
            self.asked += 1;
        }
        let place = self.at.slots[self.used % slots];
        self.used += 1;
        place
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
            Kernel::Norm { epsilon, .. } => super::norm::rms(self, *epsilon),
            Kernel::Project { parts, .. } => super::project::project(self, index, parts)?,
            Kernel::Rotate { heads, tables, cache, .. } => {
                super::rotate::rotate(self, heads, tables.is_some(), *cache)?;
            }
            Kernel::Attend { heads, cache, scale, .. } => match self.mode {
                Mode::Prefill => super::attend_rows::attend(self, heads, *cache, *scale)?,
                Mode::Decode => super::attend_keys::attend(self, heads, *cache, *scale)?,
                Mode::Batch => super::attend_keys::attend_all(self, heads, *cache, *scale)?,
            },
            Kernel::Activate { activation, .. } => super::activate::activate(self, *activation, index)?,
            Kernel::Combine { input, .. } => super::combine::combine(self, index, *input)?,
            Kernel::Head { .. } => super::ends::head(self, index)?,
        }
        Ok(())
    }
}
