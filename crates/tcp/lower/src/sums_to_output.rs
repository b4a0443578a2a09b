//! From sums that leave the engine to the output in its shape: straight, through the reducer, or by way of a
//! bridge.

use tilewright_base::Diagnostic;
use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_isa::program::exec::{Commit, Context, Drain, Memory, StepLoop, Stream, Switch};
use tilewright_tcp_isa::program::vector::{Op, OpKind, Reduce, ReduceOp, ReduceOutput};
use tilewright_tcp_isa::switch::Topology;

use super::build::{ContractionBuilder, ContractionNest};
use super::commands::{self, exec, fixed};
use super::dense::DenseCopy;
use super::direct::{DirectCommit, direct};
use super::drain::{DrainLayout, DrainSums, FlitLoop};
use super::inter_slice::PartialSums;
use super::limits::FetchLoop;
use super::loops::SequencerLoop;
use super::view::{CutMismatch, DigitStep, DigitValues, LoopPiece, SliceView, ViewDigit, cut, ragged, steps};
use crate::kernels::chain::chain;
use crate::no_lowering::refuse;
use crate::write_widths::WORD_BYTES;

/// What happens to sums.
pub(super) struct SumsToOutput {
    pub(super) leaving: DrainLayout,
    parts: Option<PartialSums>,
    /// What the reducer gives, if it works in the contraction's command.
    pub(super) gives: Option<ReduceOutput>,
    scattered: Vec<usize>,
    direct: Option<DirectCommit>,
    /// Where sums go first if they do not go straight.
    scratch: Option<SliceView>,
    out: SliceView,
}

impl SumsToOutput {
    pub(super) fn new(
        builder: &mut ContractionBuilder<'_>,
        nest: &ContractionNest,
    ) -> Result<SumsToOutput, Box<Diagnostic>> {
        let problem = builder.problem;
        let out = builder.view(Operand::Out);
        let parts = PartialSums::new(problem, &builder.placed.parallel, builder.map(Operand::Out));
        let time: Vec<LoopPiece> = nest
            .time()
            .into_iter()
            .filter(|piece| !problem.contracted(piece.axis) && piece.size > 1)
            .collect();
        let columns = nest.packet.surviving();
        let flit_elements = builder.flit_words();
        let sums = DrainSums { time: &time, lanes: &nest.lanes, columns: &columns, flit_elements };
        let orders = [Drain::Interleaved, Drain::Sequential].into_iter();
        let fitting =
            orders.filter(|drain| builder.holds(nest, *drain)).map(|drain| DrainLayout::new(&sums, drain));
        let mut endings: Vec<SumsToOutput> =
            fitting.map(|leaving| SumsToOutput::of(builder, leaving, parts, out.clone())).collect();
        let best = endings.iter().position(|ending| ending.direct.is_some()).unwrap_or(0);
        if endings.is_empty() {
            return Err(refuse(
                problem,
                "the accumulators hold these sums in no drain order",
                "fewer surviving loops inside a sum",
            ));
        }
        let mut ending = endings.swap_remove(best);
        if ending.direct.is_none() {
            ending.take_scratch(builder)?;
        }
        Ok(ending)
    }

    fn of(
        builder: &ContractionBuilder<'_>,
        leaving: DrainLayout,
        parts: Option<PartialSums>,
        out: SliceView,
    ) -> SumsToOutput {
        let reduced = parts.filter(|parts| parts.adjacent());
        let granule = builder.setup.machine.dm.write_granule_bytes;
        let (gives, scattered) = match reduced.map(|parts| parts.gives(&leaving, &out, &builder.dynamic)) {
            None => (None, Vec::new()),
            Some(Some((gives, scattered))) => (Some(gives), scattered),
            Some(None) => (Some(ReduceOutput::Broadcast), Vec::new()),
        };
        let straight = parts.is_none() || gives.is_some();
        let direct = if straight {
            direct(&leaving, &out, WORD_BYTES, granule, &scattered, &builder.dynamic)
        } else {
            None
        };
        SumsToOutput { leaving, parts, gives, scattered, direct, scratch: None, out }
    }

    /// Slices that hold parts of one sum.
    pub(super) fn group_slices(&self) -> u64 {
        self.parts.map_or(1, PartialSums::slices)
    }

    /// Flits that each slice commits.
    fn flits(&self) -> u64 {
        let scattered: u64 = self.scattered.iter().map(|index| self.leaving.flits[*index].1).product();
        self.leaving.count() / scattered
    }

    fn take_scratch(&mut self, builder: &mut ContractionBuilder<'_>) -> Result<(), Box<Diagnostic>> {
        let base = builder.room(self.flits().exact_mul(builder.setup.machine.network.flit_bytes))?;
        let mut slices = builder.surviving_slices();
        for index in &self.scattered {
            if let (FlitLoop::Piece(piece), size) = self.leaving.flits[*index]
                && let Ok(Some(at)) = self.out.step(&piece)
            {
                slices.push(ViewDigit { axis: piece.axis, weight: piece.weight, size, at });
            }
        }
        self.scratch = Some(self.leaving.view(base, builder.flit_words(), &slices, &self.scattered));
        Ok(())
    }

    /// The commit of the contraction's command.
    pub(super) fn commit(&self, builder: &ContractionBuilder<'_>) -> Result<Commit, Box<Diagnostic>> {
        let slices = match (self.gives, self.parts) {
            (Some(ReduceOutput::First), Some(parts)) => builder.slices(|slice| slice & parts.bits == 0),
            // All slices of a group take part in its sums, idle ones with zeros.
            (_, Some(parts)) => builder.slices_of_groups(parts.bits),
            _ => builder.live_slices(),
        };
        let setup = builder.setup;
        if let Some(direct) = &self.direct {
            return Ok(commands::commit(
                setup,
                Memory::Dm,
                self.out.base,
                &direct.loops,
                direct.bytes,
                slices,
            ));
        }
        let base = self.scratch.as_ref().map_or(0, |view| view.base);
        let flit_bytes = setup.machine.network.flit_bytes;
        let valid = (self.leaving.valid * WORD_BYTES).next_multiple_of(setup.machine.dm.write_granule_bytes);
        // Parts are added flit by flit.
        let whole = self.parts.is_some() && self.gives.is_none();
        let bytes = if whole { flit_bytes } else { valid };
        let loops = self.leaving.loops(flit_bytes, &self.scattered, &builder.dynamic);
        Ok(commands::commit(setup, Memory::Dm, base, &loops, bytes, slices))
    }

    /// The commands after the contraction, if it did not commit straight.
    pub(super) fn bridge(&self, builder: &mut ContractionBuilder<'_>) -> Result<(), Box<Diagnostic>> {
        let Some(scratch) = &self.scratch else { return Ok(()) };
        let mut from = scratch.clone();
        let mut spread = self.gives == Some(ReduceOutput::Broadcast);
        if let (Some(parts), None) = (self.parts, self.gives) {
            from.base = self.add_parts(builder, parts, scratch.base)?;
            spread = true;
        }
        let Some(parts) = self.parts.filter(|_| spread) else {
            let bits =
                self.parts.filter(|_| self.gives == Some(ReduceOutput::First)).map_or(0, |parts| parts.bits);
            let slices = builder.slices(|slice| slice & bits == 0);
            let slices = if self.scattered.is_empty() {
                slices
            } else {
                builder.slices_of_groups(self.parts.map_or(0, |p| p.bits))
            };
            let from = self.evened(builder, from, &slices)?;
            return self.copy_out(builder, &from, &[], slices);
        };
        // All slices of a group have all sums: each takes its part.
        let from = self.evened(builder, from, &builder.slices_of_groups(parts.bits))?;
        let digits: Vec<ViewDigit> =
            self.out.digits.iter().copied().filter(|digit| on_freed(digit, parts)).collect();
        let all: u64 = digits.iter().map(|digit| digit.size).product();
        for number in 0..all {
            let mut rest = number;
            let values: Vec<u64> = digits
                .iter()
                .map(|digit| {
                    let value = rest % digit.size;
                    rest /= digit.size;
                    value
                })
                .collect();
            let offset = offset(&from, &digits, &values);
            let mine = |slice: u64| {
                digits.iter().zip(&values).all(|(digit, value)| match digit.at {
                    DigitStep::Slice(stride) => slice / stride % digit.size.next_power_of_two() == *value,
                    DigitStep::Offset(_) => true,
                })
            };
            let slices = builder.group_slices(parts.bits, mine);
            let part = SliceView { base: from.base + offset * WORD_BYTES, ..from.clone() };
            self.copy_out(builder, &part, &digits, slices)?;
        }
        Ok(())
    }

    /// Adds parts that do not lie on neighbouring slices: the switch brings them to every slice of the group,
    /// one after the other, and the vector engine adds them in time.
    fn add_parts(
        &self,
        builder: &mut ContractionBuilder<'_>,
        parts: PartialSums,
        from: u64,
    ) -> Result<u64, Box<Diagnostic>> {
        let setup = builder.setup;
        let flit_bytes = setup.machine.network.flit_bytes;
        let base = builder.room(self.flits().exact_mul(flit_bytes))?;
        let words = builder.flit_words();
        let dtype = setup.accumulator_dtype();
        let mut loops = self.leaving.loops(words, &self.scattered, &builder.dynamic);
        loops.push(SequencerLoop::of(words, 1));
        let fetch = commands::fetch_loops(setup, dtype, from, &loops, words);
        let ring = (parts.bits + 1).next_power_of_two();
        let kept = |slice: u64| (0..ring).filter(move |source| source & !parts.bits == slice & !parts.bits);
        let sources = (0..ring).map(|slice| {
            kept(slice)
                .map(|source| {
                    u16::try_from(source).or_broken("a ring is small enough for a bitmap of sources")
                })
                .collect()
        });
        let switch = Switch { topology: Topology::Custom(ring), sources: sources.collect() };
        let halves = setup.machine.ve.int_ways / setup.machine.ve.float_ways;
        let writes = self.leaving.loops(flit_bytes, &self.scattered, &builder.dynamic);
        let flits = builder.dynamic.product(writes.iter().map(|row| (row.size, row.by)));
        let loops = [(flits, false), (fixed(parts.slices()), true), (fixed(halves), false)];
        let steps = loops.map(|(size, summed)| StepLoop { size, summed }).to_vec();
        let reduce = Reduce { op: ReduceOp::Add, tree: false, steps, limits: Vec::new() };
        let op = Op { kind: OpKind::Reduce(reduce), operands: Vec::new(), reversed: false, stash: false };
        let vector = chain(builder.word(), vec![op]);
        let slices = builder.slices_of_groups(parts.bits);
        let commit = commands::commit(setup, Memory::Dm, base, &writes, flit_bytes, slices);
        let stream = Stream {
            fetch,
            switch,
            contract: None,
            vector: Some(vector),
            cast: None,
            transpose: None,
            commit,
        };
        builder.execs.push(exec(setup, "add_parts", Context::Main, stream));
        Ok(base)
    }

    /// Sums as they are, or a copy in which no axis is cut if they lie across the output's digits. A digit
    /// that does not divide the one above is joined with those below it first, so that the next copy can
    /// leave out what runs past.
    fn evened(
        &self,
        builder: &mut ContractionBuilder<'_>,
        mut from: SliceView,
        slices: &[(u64, u64)],
    ) -> Result<SliceView, Box<Diagnostic>> {
        let problem = builder.problem;
        let Some(shape) = problem.shape(Operand::Out) else { return Ok(from) };
        let mut digits = from.digits.len() + 1;
        while ragged(problem, &shape.intra, &[&from], DigitValues::Places) && from.digits.len() < digits {
            digits = from.digits.len();
            from = builder.straightened(Operand::Out, &from, slices.to_vec())?;
        }
        Ok(from)
    }

    /// Fetches sums in the order of the output's shape and commits them one after the other.
    fn copy_out(
        &self,
        builder: &mut ContractionBuilder<'_>,
        from: &SliceView,
        over_slices: &[ViewDigit],
        slices: Vec<(u64, u64)>,
    ) -> Result<(), Box<Diagnostic>> {
        let Some(shape) = builder.problem.shape(Operand::Out) else { return Ok(()) };
        let pieces = cut(&shape.intra, &[from], DigitValues::Places);
        let rows = pieces.iter().map(|piece| Ok(FetchLoop::of(*piece, from.stride(piece)?.unwrap_or(0))));
        let rows: Result<Vec<FetchLoop>, CutMismatch> = rows.collect();
        let rows = rows.map_err(|clash| builder.clash(clash))?;
        let dtype = builder.setup.accumulator_dtype();
        let name = "bridge_out".to_string();
        let over_slices = over_slices.to_vec();
        let mut copy = DenseCopy { name, operand: Operand::Out, from, rows, dtype, over_slices, slices };
        let word_bits = builder.setup.machine.dm.write_granule_bytes * 8;
        let bytes = copy.fill_up(word_bits, WORD_BYTES * 8);
        builder.copy_densely(copy, self.out.base, bytes);
        Ok(())
    }
}

/// Elements from the start of a view to where digits have given values.
fn offset(view: &SliceView, digits: &[ViewDigit], values: &[u64]) -> u64 {
    let mut total = 0;
    for part in &view.digits {
        let of_axis = digits.iter().zip(values).filter(|(digit, _)| digit.axis == part.axis);
        let position: u64 = of_axis.map(|(digit, value)| digit.weight * value).sum();
        // Places past the values that the digit above leaves are padding.
        let above = view.digits.iter().filter(|other| other.axis == part.axis).map(|other| other.weight);
        let above = above.filter(|weight| *weight > part.weight).min();
        let values = above.map_or(part.size, |above| part.size.min(above / part.weight)).max(1);
        if let DigitStep::Offset(stride) = part.at {
            total += position / part.weight % values * stride;
        }
    }
    total
}

/// Whether a digit of the output lies on slices that sums have left free.
fn on_freed(digit: &ViewDigit, parts: PartialSums) -> bool {
    matches!(digit.at, DigitStep::Slice(stride) if parts.bits & stride != 0)
}

impl ContractionBuilder<'_> {
    /// Whether the accumulators hold the open sums in a drain order.
    fn holds(&self, nest: &ContractionNest, drain: Drain) -> bool {
        let time = nest.time();
        let summed = |piece: &LoopPiece| self.problem.contracted(piece.axis) && piece.size > 1;
        let Some(outermost) = time.iter().position(summed) else { return true };
        let open =
            time[outermost..].iter().filter(|piece| !summed(piece)).map(|piece| piece.size).product::<u64>();
        open <= tilewright_tcp_isa::contraction::drain_capacity(
            self.setup.machine,
            drain,
            steps(&nest.lanes),
            nest.packet.columns,
        )
    }

    /// Digits of surviving axes over slices.
    fn surviving_slices(&self) -> Vec<ViewDigit> {
        let mut stride = 1;
        let mut digits = Vec::new();
        for digit in self.placed.parallel.iter().rev() {
            if let Some(axis) = digit.axis.filter(|axis| !self.problem.contracted(*axis)) {
                digits.push(ViewDigit {
                    axis,
                    weight: digit.stride,
                    size: digit.live,
                    at: DigitStep::Slice(stride),
                });
            }
            stride *= digit.slots;
        }
        digits
    }

    /// Slices of groups that hold parts of sums, whether they worked on them or not.
    pub(super) fn slices_of_groups(&self, bits: u64) -> Vec<(u64, u64)> {
        self.group_slices(bits, |_| true)
    }

    /// The same, where something holds.
    fn group_slices(&self, bits: u64, holds: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
        let group = self.setup.slices();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for slice in (0..group).filter(|slice| self.works(slice & !bits) && holds(*slice)) {
            match ranges.last_mut() {
                Some(range) if range.1 == slice => range.1 += 1,
                _ => ranges.push((slice, slice + 1)),
            }
        }
        if ranges == [(0, group)] { Vec::new() } else { ranges }
    }
}
