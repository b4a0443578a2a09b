//! The load of the register files and the contraction itself.

use tilewright_base::Diagnostic;
use tilewright_base::invariant::Exact;
use tilewright_notation::syntax::ast::Operand;
use tilewright_num::Dtype;
use tilewright_tcp_isa::program::Count;
use tilewright_tcp_isa::program::exec::{
    Context, Contract, ContractOp, Loop, Memory, StepLoop, Stream, Switch,
};
use tilewright_tcp_isa::program::vector::{InterSliceReduce, ReduceOp, ReduceOutput, Vector, Word};
use tilewright_tcp_isa::sequencer::innermost_run;

use super::build::{ContractionBuilder, ContractionNest};
use super::commands::{self, exec};
use super::inter_slice::PartialSums;
use super::limits::FetchLoop;
use super::loops::{SequencerLoop, entries};
use super::sums_to_output::SumsToOutput;
use super::view::{DigitStep, LoopPiece, steps};
use crate::limits::MaskedFetch;
use crate::write_widths::WORD_BYTES;

impl ContractionBuilder<'_> {
    /// Data memory to register files, through the sub context if it has the stages.
    pub(super) fn load(&mut self, nest: &ContractionNest) {
        let operand = self.problem.stationary;
        let fetched = MaskedFetch {
            operand,
            view: &nest.stationary,
            rows: &nest.registers.rows,
            over_slices: &self.apart(operand),
            packet: nest.registers.packet,
            dtype: self.stored(),
            zero_point: self.zero_point(operand),
        };
        let fetch = commands::fetch(self.setup, self.problem, &self.dynamic, &self.placed.parallel, &fetched);
        // The sub context has one stage of the adapter and one width.
        let adapted = !fetch.limits.is_empty() || fetch.zero_point.is_some();
        let run = innermost_run(&fetch.loops);
        let run_bits = run.exact_mul(self.setup.element_bits());
        let divides = run.is_multiple_of(fetch.packet) || fetch.packet.is_multiple_of(run);
        let narrow = !divides || !run_bits.is_multiple_of(self.setup.machine.fetch.sub_width_bytes * 8);
        let memory = Memory::Trf { lanes: steps(&nest.lanes) };
        let registers = &nest.registers;
        // Idle slices of a group that adds its parts multiply too: with zeros.
        let parts = PartialSums::new(self.problem, &self.placed.parallel, self.map(Operand::Out));
        let live = self.slices_of_groups(parts.map_or(0, |parts| parts.bits));
        let mut commit =
            commands::commit(self.setup, memory, 0, &registers.commit, registers.commit_bytes, live);
        let context = if adapted || narrow { Context::Main } else { Context::Sub };
        if context == Context::Sub {
            commit.width = self.setup.machine.commit.sub_width_bytes;
        }
        let stream = Stream {
            fetch,
            switch: Switch::default(),
            contract: None,
            vector: None,
            cast: None,
            transpose: None,
            commit,
        };
        self.execs.push(exec(self.setup, "load_registers", context, stream));
    }

    /// The contraction, what adds its parts, and what brings its sums to their places.
    pub(super) fn contract(&mut self, nest: &ContractionNest) -> Result<(), Box<Diagnostic>> {
        let ending = SumsToOutput::new(self, nest)?;
        let operand = self.problem.streamed();
        let rows = self.stream_rows(nest)?;
        let fetched = MaskedFetch {
            operand,
            view: &nest.stream,
            rows: &rows,
            over_slices: &self.apart(operand),
            packet: nest.shift.as_ref().map_or(nest.packet.elements(), |shifted| shifted.buffer),
            dtype: self.stored(),
            zero_point: self.zero_point(operand),
        };
        let fetch = commands::fetch(self.setup, self.problem, &self.dynamic, &self.placed.parallel, &fetched);
        let reused = nest.reuse_steps.iter().map(|piece| (piece.size, self.dynamic.steps(piece)));
        let repeats = self.dynamic.product(reused.collect::<Vec<_>>());
        let vector = ending.gives.map(|gives| self.adder(gives, ending.group_slices()));
        let commit = ending.commit(self)?;
        let stream = Stream {
            fetch,
            switch: nest.switch.clone(),
            contract: Some(self.engine(nest, &ending, repeats)?),
            vector,
            cast: None,
            transpose: None,
            commit,
        };
        self.execs.push(exec(self.setup, "contract", Context::Main, stream));
        ending.bridge(self)
    }

    /// The loops of the streamed operand: what the switch does not bring, then the packet.
    fn stream_rows(&self, nest: &ContractionNest) -> Result<Vec<FetchLoop>, Box<Diagnostic>> {
        let mut rows = Vec::new();
        let shifts = usize::from(nest.shift.is_some());
        for piece in &nest.fetch_steps[..nest.fetch_steps.len() - shifts] {
            match nest.stream.step(piece).map_err(|clash| self.clash(clash))? {
                Some(DigitStep::Slice(_)) => {}
                Some(DigitStep::Offset(stride)) => rows.push(self.counted(piece, stride)),
                None => rows.push(self.counted(piece, 0)),
            }
        }
        match &nest.shift {
            Some(shifted) => rows.push(shifted.row()),
            None => rows.extend(nest.packet.rows(&nest.stream).map_err(|clash| self.clash(clash))?),
        }
        Ok(rows)
    }

    fn counted(&self, piece: &LoopPiece, stride: u64) -> FetchLoop {
        FetchLoop { by: self.dynamic.steps(piece), ..FetchLoop::of(*piece, stride) }
    }

    fn engine(
        &self,
        nest: &ContractionNest,
        ending: &SumsToOutput,
        repeats: Count,
    ) -> Result<Contract, Box<Diagnostic>> {
        let time = nest.time();
        Ok(Contract {
            op: ContractOp::Add,
            flits: nest.packet.flits,
            transpose: None,
            shift: nest.shift.as_ref().map(|shifted| shifted.shift),
            repeats,
            lanes: steps(&nest.lanes),
            dtype: self.setup.dtype,
            base: 0,
            loops: self.register_loops(nest, &time)?,
            tree: nest.packet.tree,
            steps: self.step_loops(&time),
            drain: ending.leaving.drain,
        })
    }

    /// The register file walk: steps, then the elements of a packet.
    fn register_loops(
        &self,
        nest: &ContractionNest,
        time: &[LoopPiece],
    ) -> Result<Vec<Loop>, Box<Diagnostic>> {
        let view = &nest.registers.view;
        let met = nest.packet.met();
        let pieces = time.iter().map(|piece| (*piece, piece.size)).chain(met);
        let mut loops = Vec::new();
        for (piece, size) in pieces {
            let stride = view.stride(&piece).map_err(|clash| self.clash(clash))?.unwrap_or(0);
            loops.push(SequencerLoop { size, by: self.dynamic.steps(&piece), stride });
        }
        Ok(entries(self.setup.machine, &loops))
    }

    fn step_loops(&self, time: &[LoopPiece]) -> Vec<StepLoop> {
        let most = self.setup.machine.sequencer.entry_size_max;
        let mut loops: Vec<StepLoop> = Vec::new();
        for piece in time.iter().filter(|piece| piece.size > 1) {
            let summed = self.problem.contracted(piece.axis);
            let by = self.dynamic.steps(piece);
            match loops.last_mut() {
                Some(StepLoop { size: Count::Fixed(size), summed: same })
                    if *same == summed && by.is_none() && *size * piece.size <= most =>
                {
                    *size *= piece.size;
                }
                _ => loops.push(StepLoop {
                    size: SequencerLoop { size: piece.size, by, stride: 0 }.count(),
                    summed,
                }),
            }
        }
        loops
    }

    /// Adds partial sums of neighbouring slices.
    fn adder(&self, gives: ReduceOutput, slices: u64) -> Vector {
        let input = self.word();
        let op = if input == Word::F32 { ReduceOp::Add } else { ReduceOp::AddWrap };
        Vector {
            input,
            trim: false,
            pair: false,
            tags: Vec::new(),
            ops: Vec::new(),
            between: Some(InterSliceReduce { op, slices, gives }),
            between_first: false,
        }
    }

    pub(super) fn word(&self) -> Word {
        if self.setup.dtype.is_float() { Word::F32 } else { Word::I32 }
    }

    /// Elements of a flit of sums.
    pub(super) fn flit_words(&self) -> u64 {
        self.setup.machine.network.flit_bytes / WORD_BYTES
    }

    /// The type of the operands in data memory.
    pub(super) fn stored(&self) -> Dtype {
        match self.setup.dtype {
            Dtype::I5 => Dtype::I4,
            Dtype::I9 => Dtype::I8,
            other => other,
        }
    }

    pub(super) fn zero_point(&self, operand: Operand) -> Option<i64> {
        let widened = matches!(self.setup.dtype, Dtype::I5 | Dtype::I9);
        widened.then(|| self.options.zero_points[operand as usize])
    }
}
