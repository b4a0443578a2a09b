//! The programs of a compiled model under check: what each kernel may read, and runs that are looked at one
//! by one.

use std::sync::Arc;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::footprint::{ByteSet, MemoryAccess, MemoryKind};
use tilewright_tcp_isa::program::transfer::MemoryInstance;
use tilewright_tcp_isa::program::{Program, RegisterId, TransferId};

use super::{CheckReport, Intent, RegisterFacts, RegisterTie, check, images, regions};
use crate::compiled::{Compiled, Inputs, PARTS, ProgramOutline};
use crate::kernel::Kernel;
use crate::tcp::build::Mode;
use crate::tcp::image::bytes;

impl Compiled {
    /// Checks all programs of the model, by name.
    pub fn check(&self, machine: &Tcp) -> Vec<(&'static str, CheckReport)> {
        let bytes = Arc::new(ByteSet::range(0, self.plan.end));
        let weights = |chip: u64| {
            let bytes = Arc::clone(&bytes);
            MemoryAccess { memory: MemoryKind::Hbm, chip, slices: (0, 1), write: false, lanes: 0, bytes }
        };
        let held = (0..self.plan.options.chips).map(weights).collect();
        let intent = Intent { held, keeps_all: true, ..Intent::default() };
        let mut all = vec![("clear", check(machine, &self.clear, &intent, &RegisterFacts::default()))];
        for outline in &self.outlines {
            let Some(program) = self.program(outline.name) else { continue };
            let intent = Intent { reads_all: true, ..self.intent(program, outline) };
            all.push((outline.name, check(machine, program, &intent, &self.register_facts(program))));
        }
        for (name, report) in &mut all {
            let Some(program) = self.program(name) else { continue };
            report.faults.extend(images::unpaired(program));
            let outline = self.outlines.iter().find(|outline| outline.name == *name);
            let places = outline.map(|outline| &outline.places);
            report.faults.extend(regions::misplaced(machine, &self.plan, program, places));
        }
        all
    }

    /// A program by its name.
    pub fn program(&self, name: &str) -> Option<&Program> {
        match name {
            "clear" => Some(&self.clear),
            "prefill" => Some(&self.prefill),
            "decode" => Some(&self.decode),
            "batch" => self.batch.as_ref(),
            _ => None,
        }
    }

    /// What a program's commands are meant to read.
    pub fn intent(&self, program: &Program, outline: &ProgramOutline) -> Intent {
        let mut intent = Intent::of(&self.kernels);
        intent.begins.clone_from(&outline.begins);
        intent.kept_bytes = Some(outline.places.kept_end);
        // All lanes get a row of queries, whether there are as many rows or not.
        let queries = self.kernels.kernels.iter().find_map(|kernel| match kernel {
            Kernel::Attend { heads, .. } => Some(bytes(self.plan.options.cache, heads.query_width())),
            _ => None,
        });
        let unused = outline.places.queries + self.plan.prefill_rows * queries.unwrap_or(0);
        intent.spare = match outline.mode {
            Mode::Prefill => Some((unused, outline.places.fresh)),
            Mode::Decode => None,
            Mode::Batch => outline.places.idle,
        };
        intent.busy_slices = (outline.mode == Mode::Batch).then_some(self.plan.options.batch);
        for (index, transfer) in (0_u32..).zip(&program.transfers) {
            let from = transfer.source.locate().filter(|located| located.medium == MemoryInstance::Hbm);
            let reader = |offset: u64| self.reader_of(offset).or_else(|| self.window_of(offset));
            if let Some(kernel) = from.and_then(|located| reader(located.offset)) {
                intent.ahead.insert(TransferId(index), kernel);
            }
        }
        self.read_constants(&mut intent);
        self.read_angles(program, &mut intent);
        intent
    }

    /// Angles come once for all rotations: they belong to something of their own.
    fn read_angles(&self, program: &Program, intent: &mut Intent) {
        let (plan, own) = (&self.plan, intent.names.len());
        let table = plan.angles..plan.angles + plan.angles_row * self.kernels.positions;
        for (index, transfer) in (0_u32..).zip(&program.transfers) {
            let from = transfer.source.locate().filter(|located| located.medium == MemoryInstance::Hbm);
            if from.is_some_and(|located| table.contains(&located.offset)) {
                intent.ahead.insert(TransferId(index), own);
            }
        }
        intent.names.push("angles".to_string());
        let rotates = self.kernels.kernels.iter().zip(&mut intent.reads);
        let rotates = rotates.filter(|(kernel, _)| matches!(kernel, Kernel::Rotate { .. }));
        rotates.for_each(|(_, reads)| reads.push(own));
    }

    /// Constants that come window by window belong to something of their own, behind the kernels, which those
    /// of a window read, and the norm behind them, which adds the bias of the last.
    fn read_constants(&self, intent: &mut Intent) {
        let windows = self.plan.constants.windows.len();
        if !self.plan.streams {
            return;
        }
        let (count, mut norms) = (self.kernels.kernels.len(), 0_usize);
        for (kernel, reads) in self.kernels.kernels.iter().zip(&mut intent.reads) {
            let norm = matches!(kernel, Kernel::Norm { .. });
            norms += usize::from(norm);
            let window = norms.saturating_sub(1);
            reads.push(count + window);
            reads.extend((count + window).checked_sub(1).filter(|_| norm && window > 0));
        }
        intent.names.extend((0..windows).map(|window| format!("constants {window}")));
    }

    /// The window of constants at a place in HBM, counted behind the kernels.
    fn window_of(&self, offset: u64) -> Option<usize> {
        let constants = &self.plan.constants;
        let place = offset.checked_sub(constants.at).filter(|_| self.plan.streams)?;
        if place >= constants.bytes * self.slices * self.plan.options.pes {
            return None;
        }
        let (window, _) = constants.window(place % constants.bytes.max(1))?;
        Some(self.kernels.kernels.len() + usize::try_from(window).ok()?)
    }

    /// The kernel that a weight or a cache at a place in HBM is for.
    fn reader_of(&self, offset: u64) -> Option<usize> {
        let plan = &self.plan;
        let of_fill = plan.packed.iter().find(|packed| {
            let mut fills = packed.fills.iter();
            fills.any(|fill| (fill.at..fill.at + fill.pe_bytes * plan.options.pes).contains(&offset))
        });
        let of_cache = || {
            let bytes = plan.cache_bytes * plan.options.pes;
            let cache = plan.caches.iter().position(|start| (*start..start + bytes).contains(&offset))?;
            self.kernels
                .kernels
                .iter()
                .position(|kernel| matches!(kernel, Kernel::Attend { cache: of, .. } if *of == cache))
        };
        of_fill.map(|packed| packed.kernel).or_else(of_cache)
    }

    /// What is known of a program's registers: values at its start, and which the host sets together.
    pub fn register_facts(&self, program: &Program) -> RegisterFacts {
        let id = |name: &str| {
            let index = program.registers.iter().position(|register| register.name == name)?;
            u32::try_from(index).ok().map(RegisterId)
        };
        let values = |inputs: &Inputs| -> Vec<(RegisterId, i64)> {
            inputs.registers.iter().filter_map(|(name, value)| Some((id(name)?, *value))).collect()
        };
        // A single token at the start.
        let runs = self.inputs(0, &[0]).map(|inputs| vec![values(&inputs)]).unwrap_or_default();
        // Parts of the rows follow from all rows.
        let ties = PARTS.into_iter().zip(0..).filter_map(|(name, part)| {
            let tied = |rows: u64| {
                Some((i64::try_from(rows).ok()?, i64::try_from(self.part_rows(part, rows)).ok()?))
            };
            Some(RegisterTie {
                of: id(name)?,
                by: id("rows")?,
                values: (1..=self.plan.prefill_rows).filter_map(tied).collect(),
            })
        });
        RegisterFacts { runs, ties: ties.collect() }
    }
}
