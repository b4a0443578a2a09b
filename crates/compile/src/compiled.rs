//! A compiled model: all stages in order, and what its programs take and give.

use std::borrow::Cow;
use tilewright_base::invariant::{Exact, OrBroken, to_index};

use tilewright_graph::Graph;
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::{Program, RegisterId};

use crate::CompileError;
use crate::cluster::cluster;
use crate::kernel::Kernels;
use crate::tcp::bands::bands;
use crate::tcp::build::{Built, Mode, Part, clear, placed, program};
use crate::tcp::choices::Choices;
use crate::tcp::pack::{Constants, pack};
use crate::tcp::place::Places;
use crate::tcp::plan::{Fill, Options, Plan};
use crate::tcp::registers::told_halves;

/// A model as programs: one for prompts, one for single tokens; both use the same weights and caches.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Stage 2.
    pub kernels: Kernels,
    /// Sizes, and places in HBM.
    pub plan: Plan,
    /// Runs once, before all others.
    pub clear: Program,
    /// Takes up to [`Compiled::most_tokens`] tokens.
    pub prefill: Program,
    /// Takes one.
    pub decode: Program,
    /// Takes one of each sequence, if there are several.
    pub batch: Option<Program>,
    /// What is known of `prefill`, `decode` and `batch` besides their steps.
    pub outlines: Vec<ProgramOutline>,
    pub(crate) slices: u64,
    lanes: u64,
    parts: Vec<Vec<u64>>,
}

/// Where kernels begin in a program's queues, and what lies where.
#[derive(Clone, Debug)]
pub struct ProgramOutline {
    /// The program's name.
    pub name: &'static str,
    /// What it is for.
    pub mode: Mode,
    /// For each queue, the first step of each kernel.
    pub begins: Vec<Vec<usize>>,
    /// Places in data memory.
    pub places: Places,
}

/// What a run is told: tables in HBM, and control registers by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Addresses in HBM and bytes.
    pub tables: Vec<(u64, Vec<u8>)>,
    /// Registers by name.
    pub registers: Vec<(Cow<'static, str>, i64)>,
}

impl Inputs {
    /// Inputs of a chunk of a prompt that is not the last: no logits are computed.
    #[must_use]
    pub fn without_logits(mut self) -> Inputs {
        let logits = self.registers.iter_mut().filter(|(name, _)| *name == "logits");
        logits.for_each(|(_, wanted)| *wanted = 0);
        self
    }

    /// Values of those registers that a program has, by their ids in it.
    pub fn register_values(&self, program: &Program) -> Vec<(RegisterId, i64)> {
        let named = |name: &str| {
            let index = program.registers.iter().position(|register| register.name == name)?;
            u32::try_from(index).ok().map(RegisterId)
        };
        self.registers.iter().filter_map(|(name, value)| Some((named(name)?, *value))).collect()
    }
}

/// Registers of the parts of a prefill program's rows.
pub(crate) const PARTS: [&str; 8] = ["rows0", "rows1", "rows2", "rows3", "rows4", "rows5", "rows6", "rows7"];

/// Registers of the tokens from each processing element's first on.
const COUNTED: [&str; 8] =
    ["counted0", "counted1", "counted2", "counted3", "counted4", "counted5", "counted6", "counted7"];

/// Chips that a model is sharded over at most: those of one server (paper section III, peer to peer).
const MOST_CHIPS: u64 = 8;

/// Compiles a model.
///
/// # Errors
/// A graph that no kernels cover, or that does not fit the machine.
pub fn compile(machine: &Tcp, graph: &Graph, options: Options) -> Result<Compiled, CompileError> {
    compile_kernels(machine, &cluster(graph)?, options)
}

/// Compiles a model from its kernels: stages 3 to 5.
///
/// # Errors
/// Kernels that do not fit the machine.
pub fn compile_kernels(machine: &Tcp, kernels: &Kernels, options: Options) -> Result<Compiled, CompileError> {
    compile_chosen(machine, kernels, options, &Choices::default())
}

/// Compiles a model from its kernels with other choices than the rule's.
///
/// # Errors
/// As [`compile_kernels`]; choices that data memory has no room for.
pub fn compile_chosen(
    machine: &Tcp,
    kernels: &Kernels,
    options: Options,
    choices: &Choices,
) -> Result<Compiled, CompileError> {
    let (pes, chips) = (options.pes, options.chips);
    if chips == 0 || chips > MOST_CHIPS || !chips.is_power_of_two() {
        let allowed = format!("a power of two up to {MOST_CHIPS}");
        return Err(CompileError::Size { what: "the number of chips", found: chips, allowed });
    }
    if !pes.is_power_of_two() || pes > machine.pes() {
        let allowed = format!("a power of two up to {}", machine.pes());
        return Err(CompileError::Size { what: "the number of PEs", found: pes, allowed });
    }
    check_lanes(machine)?;
    check_batch(machine, kernels, options.batch)?;
    if choices.window > 0 && !choices.solver.is_built() {
        return Err(CompileError::Solver(choices.solver.name()));
    }
    let kernels = kernels.sharded(options.all_pes());
    // Caches are read in whole rows of slices.
    let context = options.context.min(kernels.positions).max(1).next_multiple_of(machine.pe.slices);
    let options = Options { context, ..options };
    let choices = &Choices { bands: bands(machine, &kernels, &options, choices.bands), ..choices.clone() };
    // As many rows as there are lanes, or as data memory holds, or as a context has; it keeps constants only
    // if they do not cost rows.
    let most = machine.ce.lanes.min(options.context.div_ceil(machine.pe.slices).next_power_of_two());
    let mut kept = (choices.rows.unwrap_or(most).clamp(1, most), false);
    let plan = loop {
        let plan = Plan::new(machine, &kernels, options, choices, kept)?;
        match (placed(machine, &kernels, plan), kept) {
            (Err(CompileError::Dm { .. }), (rows, false)) => kept = (rows, true),
            (Err(CompileError::Dm { .. }), (rows, true)) if rows > 1 => kept = (rows / 2, false),
            (plan, _) => break plan?,
        }
    };
    let clear = clear(machine, &kernels, &plan)?;
    let prefill = program(machine, &kernels, &plan, Mode::Prefill)?;
    let decode = program(machine, &kernels, &plan, Mode::Decode)?;
    let mut outlines = Vec::new();
    let mut outlined = |name, mode, built: Built| {
        outlines.push(ProgramOutline { name, mode, begins: built.begins, places: built.places });
        built.program
    };
    let prefill = outlined("prefill", Mode::Prefill, prefill);
    let decode = outlined("decode", Mode::Decode, decode);
    let batch = if options.batch > 1 {
        Some(outlined("batch", Mode::Batch, program(machine, &kernels, &plan, Mode::Batch)?))
    } else {
        None
    };
    let firsts = plan.packed.iter().map(|packed| {
        let weights = kernels.kernels.get(packed.kernel).and_then(crate::tcp::plan::weights_of);
        plan.parts(machine, &weights.or_broken("packed weights belong to a kernel that has weights")).first
    });
    let parts = firsts.collect();
    Ok(Compiled {
        kernels,
        plan,
        clear,
        prefill,
        decode,
        batch,
        outlines,
        slices: machine.pe.slices,
        lanes: machine.ce.lanes,
        parts,
    })
}

/// Sums of all lanes leave as the words of one flit: that is how kernels are written.
fn check_lanes(machine: &Tcp) -> Result<(), CompileError> {
    let (found, words) =
        (machine.ce.lanes, machine.network.flit_bytes * 8 / u64::from(Dtype::F32.storage_bits()));
    if found == words {
        return Ok(());
    }
    let allowed = format!("{words}, as many as a flit has words: kernels of models are written for that");
    Err(CompileError::Size { what: "the number of lanes of a contraction engine", found, allowed })
}

/// Sequences that a model is compiled for: an encoder has one, and a run takes a token of each in a row of a
/// slice, as many rows as a run of a prompt has.
fn check_batch(machine: &Tcp, kernels: &Kernels, found: u64) -> Result<(), CompileError> {
    let (slices, lanes) = (machine.pe.slices, machine.ce.lanes);
    let allowed = match (kernels.pools(), slices * lanes) {
        (true, _) if found != 1 => "1 for an encoder".to_string(),
        (false, most) if found == 0 || found > most => {
            format!("1 to {most}, a row of a slice of a PE for each: {slices} slices of {lanes} rows")
        }
        _ => return Ok(()),
    };
    Err(CompileError::Size { what: "the batch", found, allowed })
}

impl Compiled {
    /// Choices as they were taken: rows and slots that there was room for. With them the same programs are
    /// made.
    pub fn settled(&self) -> Choices {
        let slots = self.outlines.iter().map(|outline| outline.places.slots.len() as u64).max();
        let choices = self.plan.choices.clone();
        Choices { rows: Some(self.plan.prefill_rows), slots: slots.unwrap_or(choices.slots), ..choices }
    }

    /// Tokens that one run of the prefill program takes.
    pub fn most_tokens(&self) -> u64 {
        self.plan.prefill_rows * self.slices
    }

    /// Bytes of HBM from its first to the last that [`Self::pack`] writes, on every chip.
    pub fn packed_bytes(&self) -> u64 {
        let (plan, pes) = (&self.plan, self.plan.options.pes);
        let constants = plan.constants.bytes.exact_mul(self.slices).exact_mul(pes);
        if constants > 0 {
            return plan.constants.at.exact_add(constants);
        }
        let ends = plan.packed.iter().flat_map(|packed| {
            let end = |fill: &Fill| fill.at + (pes - 1) * fill.pe_bytes + packed.slices * fill.slice_bytes;
            packed.fills.iter().map(end)
        });
        ends.max().or_broken("a model has weights")
    }

    /// The bytes of weights and tables, to their chips and addresses in HBM.
    ///
    /// # Errors
    /// A constant that cannot be had.
    pub fn pack(
        &self,
        constants: &Constants<'_>,
        write: &mut dyn FnMut(u64, u64, &[u8]),
    ) -> Result<(), CompileError> {
        pack(&self.kernels, &self.plan, self.lanes, self.slices, &self.parts, constants, write)
    }

    /// What a run of the batch program is told: for each sequence a token and how many are behind it, or
    /// nothing if it is idle. Sequences that are not named are idle.
    ///
    /// # Errors
    /// A token outside the vocabulary, more sequences than the program has, none that has a token, or no
    /// position left.
    pub fn batch_inputs(&self, sequences: &[Option<(u64, u64)>]) -> Result<Inputs, CompileError> {
        let plan = &self.plan;
        let found = sequences.iter().flatten().count() as u64;
        if sequences.len() as u64 > plan.options.batch || found == 0 {
            let allowed = format!("1 to {}, one of each sequence", plan.options.batch);
            return Err(CompileError::Size { what: "the number of tokens", found, allowed });
        }
        let mut inputs = Inputs::default();
        let rows = plan.options.batch_rows(self.slices);
        let mut ids = vec![0; to_index(plan.most_rows(self.slices) * self.slices)];
        let (mut angles, mut cache) = (Vec::new(), Vec::new());
        let own = (self.slices / plan.options.pes).max(1);
        for place in 0..rows * self.slices {
            let named = sequences.get(to_index(place)).copied().flatten();
            let (past, token) = named.unwrap_or((0, 0));
            // One token alone says what is refused, and what a context needs.
            let alone = self.inputs(past, &[token])?;
            if place < plan.options.batch {
                let of = |name: &str| alone.registers.iter().find(|(own, _)| own == name);
                for name in ["key_rows", "key_rounds", "context"] {
                    let value = of(name).map_or(1, |(_, value)| *value);
                    inputs.registers.push((format!("{name}{place}").into(), value));
                }
            }
            // Places of a row are sharded over processing elements, whose tables follow each other.
            let (row, within) = (place / self.slices, place % self.slices);
            let at = within / own * rows * own + row * own + within % own;
            if let Some(entry) = ids.get_mut(to_index(at)) {
                *entry = token * plan.embedding_row;
            }
            angles.push(past * plan.angles_row);
            let sequence = place.min(plan.options.batch - 1) * plan.sequence_bytes;
            let position = if named.is_some() { past } else { plan.options.context };
            cache.push(sequence + position * plan.cache_row);
        }
        let tables = [(plan.token_table, ids), (plan.angle_table, angles), (plan.cache_table, cache)];
        inputs.tables = tables.into_iter().map(|(at, table)| (at, bytes(&table))).collect();
        Ok(inputs)
    }

    /// Rows of a part, of so many in all, as its register is told: a part without rows is jumped over.
    pub(crate) fn part_rows(&self, part: u64, rows: u64) -> u64 {
        Part::rows_of(part, rows, self.plan.choices.parts).max(1)
    }

    /// What a run is told for tokens that follow `past` others.
    ///
    /// # Errors
    /// A token outside the vocabulary, or more tokens than positions.
    pub fn inputs(&self, past: u64, tokens: &[u64]) -> Result<Inputs, CompileError> {
        self.sequence_inputs(0, past, tokens)
    }

    /// [`Self::inputs`] for a sequence of a batch. One token of another sequence than the first is for the
    /// batch program.
    ///
    /// # Errors
    /// As there; a sequence that there is not.
    pub fn sequence_inputs(&self, sequence: u64, past: u64, tokens: &[u64]) -> Result<Inputs, CompileError> {
        let sequences = self.plan.options.batch.max(1);
        if sequence >= sequences {
            let allowed = format!("below {sequences}");
            return Err(CompileError::Size { what: "a sequence", found: sequence, allowed });
        }
        let begin = sequence * self.plan.sequence_bytes;
        let count = tokens.len() as u64;
        let context = past.saturating_add(count);
        let most = self.plan.options.context.min(self.kernels.positions);
        if count == 0 || count > self.most_tokens() || context > most {
            let allowed = format!("1 to {} at once, {most} in all", self.most_tokens());
            return Err(CompileError::Size { what: "the number of tokens", found: context, allowed });
        }
        if let Some(token) = tokens.iter().find(|token| **token >= self.kernels.vocabulary) {
            let allowed = format!("below {}", self.kernels.vocabulary);
            return Err(CompileError::Size { what: "a token", found: *token, allowed });
        }
        let rows = count.div_ceil(self.slices);
        let places = if count == 1 { 1 } else { self.most_tokens() };
        let (mut ids, mut angles, mut cache) = (vec![0; to_index(places)], Vec::new(), Vec::new());
        let mut positions = ids.clone();
        let own = (self.slices / self.plan.options.pes / self.plan.features.bands).max(1);
        for place in 0..places {
            // The newest comes first; places without a token use the first row of tables and the spare row of
            // caches.
            let token = count.checked_sub(place + 1);
            let id = token.and_then(|at| tokens.get(usize::try_from(at).ok()?)).copied().unwrap_or(0);
            // Places of a row are sharded over processing elements, or over bands of slices, whose tables
            // follow each other.
            let (row, within) = (place / self.slices, place % self.slices);
            let at = within / own * self.plan.prefill_rows * own + row * own + within % own;
            let at = to_index(if places == 1 { 0 } else { at });
            if let (Some(entry), Some(position)) = (ids.get_mut(at), positions.get_mut(at)) {
                *entry = id * self.plan.embedding_row;
                *position = token.map_or(0, |at| past + at) * self.plan.embedding_row;
            }
            angles.push(token.map_or(0, |at| past + at) * self.plan.angles_row);
            let position = token.map_or(self.plan.options.context, |at| past + at);
            cache.push(begin + position * self.plan.cache_row);
        }
        let plan = &self.plan;
        let is_whole = count.is_multiple_of(self.slices);
        let first = |row: u64| begin + context.saturating_sub((row + 1) * self.slices) * plan.cache_row;
        let firsts = (0..plan.prefill_rows).map(first);
        let tables = [
            (Some(plan.token_table), ids),
            (plan.place_table, positions),
            (Some(plan.angle_table), angles),
            (Some(plan.cache_table), cache),
            (Some(plan.row_table), firsts.collect()),
            (plan.sequence_table, vec![begin]),
        ];
        let tables = tables.into_iter().filter_map(|(at, table)| Some((at?, bytes(&table))));
        let whole = |value: u64| i64::try_from(value).or_broken("what a register is told fits 63 bits");
        let key_rows = context.div_ceil(self.slices);
        let parts = (0..).zip(PARTS).map(|(part, name)| (name, whole(self.part_rows(part, rows))));
        let counted = (0..).zip(COUNTED).map(|(pe, name)| (name, whole(count.saturating_sub(pe * own))));
        Ok(Inputs {
            tables: tables.collect(),
            registers: parts
                .chain(counted)
                .chain(told_halves(plan, self.slices, context).map(|(name, value)| (name, whole(value))))
                .chain([
                    ("rows", whole(rows)),
                    ("own_tokens", whole(rows * own)),
                    ("context", whole(context)),
                    ("whole", i64::from(is_whole)),
                    ("ragged", i64::from(!is_whole)),
                    ("logits", 1),
                    ("key_rows", whole(key_rows)),
                    ("key_rounds", whole(key_rows.div_ceil(self.lanes))),
                ])
                .map(|(name, value)| (name.into(), value))
                .collect(),
        })
    }
}

fn bytes(table: &[u64]) -> Vec<u8> {
    table
        .iter()
        .flat_map(|offset| u32::try_from(*offset).or_broken("offsets of tables fit 32 bits").to_le_bytes())
        .collect()
}
