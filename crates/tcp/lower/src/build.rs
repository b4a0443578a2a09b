//! The commands of a contraction, one after the other.

use tilewright_base::invariant::Exact;
use tilewright_base::{Diagnostic, Span};
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Operand;
use tilewright_num::Dtype;
use tilewright_tcp_cost::legality::Verdict;
use tilewright_tcp_cost::placed_tactic::PlacedTactic;
use tilewright_tcp_cost::setup::Setup;
use tilewright_tcp_isa::program::control::{Command, Queue, Step, StepKind};
use tilewright_tcp_isa::program::exec::{Exec, ExecBody, Memory, Switch};
use tilewright_tcp_isa::program::tensor::{Tensor, TensorData, TensorPlace, TensorRole};
use tilewright_tcp_isa::program::{ExecId, Program, Transfer, TransferId};

use super::commands::{self, copy};
use super::dynamic::DynamicAxes;
use super::loops::SequencerLoop;
use super::no_lowering::refuse;
use super::packet::PaddedPacket;
use super::registers::{RegisterLayout, RegisterLayoutInput};
use super::shape_text::shape_text;
use super::shift::ShiftedStream;
use super::supply::OperandSupply;
use super::view::{CutMismatch, DigitValues, LoopPiece, SliceView, cut, ragged, steps};
use super::write_widths::{WORD_BYTES, whole_part};
use crate::options::LowerOptions;

pub(super) struct ContractionBuilder<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) problem: &'a Problem,
    pub(super) placed: &'a PlacedTactic,
    pub(super) options: &'a LowerOptions,
    maps: [RadixMap; 3],
    bases: [u64; 3],
    next_byte: u64,
    pub(super) execs: Vec<Exec>,
    /// Transfers, each with the number of commands before it.
    pub(super) transfers: Vec<(usize, Transfer)>,
    pub(super) dynamic: DynamicAxes,
    /// The output is filled with zeros first.
    pub(super) clears_out: bool,
    /// Bytes of each tensor that lie before where the commands find it.
    pub(super) before_bytes: [u64; 3],
}

/// The loops of a contraction once every view agrees on them.
pub(super) struct ContractionNest {
    pub(super) stream: SliceView,
    pub(super) stationary: SliceView,
    pub(super) switch: Switch,
    /// Steps that bring a new packet.
    pub(super) fetch_steps: Vec<LoopPiece>,
    /// Steps that hold it.
    pub(super) reuse_steps: Vec<LoopPiece>,
    pub(super) lanes: Vec<LoopPiece>,
    pub(super) packet: PaddedPacket,
    pub(super) registers: RegisterLayout,
    /// Packets are shifts of what is fetched.
    pub(super) shift: Option<ShiftedStream>,
}

impl ContractionNest {
    pub(super) fn time(&self) -> Vec<LoopPiece> {
        self.fetch_steps.iter().chain(&self.reuse_steps).copied().collect()
    }
}

impl<'a> ContractionBuilder<'a> {
    pub(super) fn new(
        setup: &'a Setup<'a>,
        problem: &'a Problem,
        verdict: &'a Verdict,
        options: &'a LowerOptions,
    ) -> Result<ContractionBuilder<'a>, Box<Diagnostic>> {
        let no_tactic =
            || refuse(problem, "there is no tactic", "tactic = ..., or one that a search finds: `explore`");
        let placed = verdict.placed.as_ref().ok_or_else(no_tactic)?;
        let map = |operand: Operand| -> Result<RadixMap, Box<Diagnostic>> {
            let shape = problem.shape(operand).ok_or_else(|| {
                let name = operand.name();
                refuse(problem, &format!("{name} has no shape"), &format!("{name} = ... | ..."))
            })?;
            RadixMap::of_shape(problem, shape)
                .map_err(|_| refuse(problem, "a shape is too large", "a smaller one"))
        };
        let maps = [map(Operand::In0)?, map(Operand::In1)?, map(Operand::Out)?];
        let dynamic = DynamicAxes::new(problem, placed)?;
        let (bases, execs) = ([0; 3], Vec::new());
        Ok(ContractionBuilder {
            setup,
            problem,
            placed,
            options,
            maps,
            bases,
            next_byte: 0,
            execs,
            transfers: Vec::new(),
            dynamic,
            clears_out: false,
            before_bytes: [0; 3],
        })
    }

    /// The program of one group, and the first byte of data memory that it leaves free.
    pub(super) fn program(mut self) -> Result<(Program, u64), Box<Diagnostic>> {
        for operand in Operand::ALL {
            let bits = self.bits(operand);
            let elements = self.map(operand).to[1];
            // A bridge to the output may write one more row, to end on a whole word.
            let slack = if operand == Operand::Out && elements % 2 == 1 { elements } else { 0 };
            self.room(self.before_bytes[operand as usize])?;
            self.bases[operand as usize] = self.room(((elements + slack) * bits).div_ceil(8))?;
        }
        if self.clears_out {
            let base = self.base(Operand::Out);
            self.fill("clear_out".to_string(), base, self.next_byte - base, 0, Vec::new());
        }
        let nest = self.nest()?;
        self.load(&nest);
        self.contract(&nest)?;
        self.check_loops()?;
        let free_byte = self.next_byte;
        Ok((self.finish(), free_byte))
    }

    /// Padding, masks and loops that registers count join with nothing, so a walk may need more entries than
    /// its pattern alone.
    fn check_loops(&self) -> Result<(), Box<Diagnostic>> {
        let most = self.setup.machine.sequencer.entries;
        for exec in &self.execs {
            let ExecBody::Stream(stream) = &exec.body else { continue };
            let walk = stream.contract.as_ref().map_or(0, |contract| contract.loops.len());
            let loops = stream.fetch.loops.len().max(stream.commit.loops.len()).max(walk);
            if loops as u64 > most {
                let message = format!("`{}` walks {loops} loops, masks and padding among them", exec.name);
                return Err(refuse(
                    self.problem,
                    &message,
                    "digits that shapes and tactic cut alike, or fewer",
                ));
            }
            let masks = self.setup.machine.fetch.mask_chunks;
            if stream.fetch.limits.len() as u64 > masks {
                let message = format!("`{}` masks {} axes or digits", exec.name, stream.fetch.limits.len());
                return Err(refuse(self.problem, &message, "fewer padded digits"));
            }
        }
        Ok(())
    }

    pub(super) fn map(&self, operand: Operand) -> &RadixMap {
        &self.maps[operand as usize]
    }

    pub(super) fn base(&self, operand: Operand) -> u64 {
        self.bases[operand as usize]
    }

    pub(super) fn bits(&self, operand: Operand) -> u64 {
        if operand == Operand::Out { WORD_BYTES * 8 } else { self.setup.element_bits() }
    }

    /// Takes data memory of every slice, in whole flits.
    pub(super) fn room(&mut self, bytes: u64) -> Result<u64, Box<Diagnostic>> {
        let base = self.next_byte;
        let capacity = self.setup.machine.dm.capacity_bytes;
        let end = bytes.checked_next_multiple_of(self.setup.machine.network.flit_bytes);
        let end = end.and_then(|bytes| base.checked_add(bytes)).filter(|end| *end <= capacity);
        self.next_byte = end.ok_or_else(|| {
            let message = format!("tensors and copies take more than {capacity} B of data memory");
            refuse(self.problem, &message, "smaller tiles, or shapes that need no copies")
        })?;
        Ok(base)
    }

    /// Makes both operands reachable and settles the loops.
    fn nest(&mut self) -> Result<ContractionNest, Box<Diagnostic>> {
        let (problem, placed) = (self.problem, self.placed);
        let (operand, stationary_operand) = (problem.streamed(), problem.stationary);
        let stationary = self.view(stationary_operand);
        let stationary = self.bring_local(stationary_operand, stationary)?;
        let mut stationary = self.with_margins(stationary_operand, stationary)?;
        if self.uneven(&[&stationary]) {
            stationary = self.straightened(stationary_operand, &stationary, self.live_slices())?;
        }
        let out = self.view(Operand::Out);
        let first = &placed.time[..placed.time.len() - placed.repeat_terms];
        let mut stream = self.view(operand);
        if self.has_margins(operand)
            && let Some(nest) = self.over_margins(&stream, &stationary)
        {
            return Ok(nest);
        }
        let mut switch = None;
        if !self.uneven(&[&stream, &stationary]) && !self.has_margins(operand) {
            let views = self.agreeing([&stream, &stationary, &out]);
            let packet = cut(&placed.packet, &views, DigitValues::Places);
            let fetch_steps = cut(first, &views, DigitValues::Live);
            self.dynamic.settle(problem, &fetch_steps);
            switch = self.straight(operand, &stream, &fetch_steps, &packet);
        }
        if switch.is_none() {
            stream = self.bring_local(operand, stream)?;
            stream = self.with_margins(operand, stream)?;
            if self.uneven(&[&stream, &stationary]) {
                stream = self.straightened(operand, &stream, self.live_slices())?;
            }
            if self.uneven(&[&stream, &stationary]) {
                stationary = self.straightened(stationary_operand, &stationary, self.live_slices())?;
            }
        }
        self.settled(stream, stationary, switch.unwrap_or_default())
    }

    /// Shifts that show zeros before the start of a window, if they serve and the stream lies in each slice's
    /// own memory.
    fn over_margins(&mut self, stream: &SliceView, stationary: &SliceView) -> Option<ContractionNest> {
        let operand = self.problem.streamed();
        let fixed = self.problem.axes.iter().all(|axis| !axis.dynamic);
        let together = self.problem.windows_of(operand).all(|window| !self.spreads(window));
        if !fixed
            || !together
            || !self.supply(operand, stream).is_local()
            || self.uneven(&[stream, stationary])
        {
            return None;
        }
        let nest = self.settled(stream.clone(), stationary.clone(), Switch::default()).ok()?;
        nest.shift.is_some().then_some(nest)
    }

    /// The loops over two views that agree.
    fn settled(
        &mut self,
        stream: SliceView,
        stationary: SliceView,
        switch: Switch,
    ) -> Result<ContractionNest, Box<Diagnostic>> {
        let (problem, placed) = (self.problem, self.placed);
        let out = self.view(Operand::Out);
        let (first, last) = placed.time.split_at(placed.time.len() - placed.repeat_terms);
        let views = self.agreeing([&stream, &stationary, &out]);
        let fetch_steps = cut(first, &views, DigitValues::Live);
        let packet = cut(&placed.packet, &views, DigitValues::Places);
        let lanes = cut(&placed.lanes, &views, DigitValues::Places);
        let reuse_steps = cut(last, &views, DigitValues::Live);
        let packet = PaddedPacket::new(self.setup, problem, &packet).map_err(|_| {
            refuse(
                problem,
                "the packet cannot be padded to whole 8-byte words",
                "a power of two in the packet",
            )
        })?;
        let time: Vec<LoopPiece> = fetch_steps.iter().chain(&reuse_steps).copied().collect();
        self.dynamic.settle(problem, &time);
        let registers = self.registers(&stationary, &lanes, &time, &packet)?;
        let mut nest = ContractionNest {
            stream,
            stationary,
            switch,
            fetch_steps,
            reuse_steps,
            lanes,
            packet,
            registers,
            shift: None,
        };
        nest.shift = self.shifted(&nest);
        Ok(nest)
    }

    /// Whether views cut the tactic where it cannot be cut.
    fn uneven(&self, views: &[&SliceView]) -> bool {
        let placed = self.placed;
        ragged(self.problem, &placed.time, views, DigitValues::Live)
            || ragged(self.problem, &placed.lanes, views, DigitValues::Places)
            || ragged(self.problem, &placed.packet, views, DigitValues::Places)
    }

    /// Views to cut by: the output's too, if it fits with the others.
    fn agreeing<'v>(&self, views: [&'v SliceView; 3]) -> Vec<&'v SliceView> {
        let views = views.to_vec();
        if self.uneven(&views) { views[..2].to_vec() } else { views }
    }

    fn registers(
        &self,
        view: &SliceView,
        lanes: &[LoopPiece],
        time: &[LoopPiece],
        packet: &PaddedPacket,
    ) -> Result<RegisterLayout, Box<Diagnostic>> {
        let machine = self.setup.machine;
        let lane_room = machine.ce.lanes * machine.trf_lane_payload_bytes() / steps(lanes);
        let input = RegisterLayoutInput {
            view,
            lanes,
            time,
            packet,
            dynamic: &self.dynamic,
            bits: self.setup.element_bits(),
            flit_bytes: machine.network.flit_bytes,
            word_bytes: machine.dm.write_granule_bytes,
            lane_room,
            wide_bytes: machine.ce.packet_bytes,
        };
        let registers = RegisterLayout::new(&input).map_err(|clash| self.clash(clash))?;
        if registers.lane_bytes > lane_room {
            let message =
                format!("a lane's part of the register file takes {} of {lane_room} B", registers.lane_bytes);
            return Err(refuse(self.problem, &message, "a smaller stationary tile"));
        }
        Ok(registers)
    }

    /// The view of an operand as it lies in data memory.
    pub(super) fn view(&self, operand: Operand) -> SliceView {
        SliceView::of_map(self.problem, operand, self.map(operand), self.base(operand))
    }

    fn supply(&self, operand: Operand, view: &SliceView) -> OperandSupply {
        OperandSupply::new(self.problem, operand, self.map(operand), view, &self.placed.parallel)
    }

    /// The switch that delivers the stream as the loops want it, if packets lie on one slice each.
    fn straight(
        &self,
        operand: Operand,
        view: &SliceView,
        fetch_steps: &[LoopPiece],
        packet: &[LoopPiece],
    ) -> Option<Switch> {
        if packet.iter().any(|piece| view.stride(piece).is_err()) {
            return None;
        }
        let steps: Result<Vec<_>, CutMismatch> =
            fetch_steps.iter().map(|piece| Ok((*piece, view.step(piece)?))).collect();
        self.supply(operand, view).in_order(&steps.ok()?, &self.dynamic)
    }

    /// A view in which every slice has what it needs: as it is, or after a copy through the switch.
    fn bring_local(&mut self, operand: Operand, view: SliceView) -> Result<SliceView, Box<Diagnostic>> {
        let supply = self.supply(operand, &view);
        if supply.is_local() {
            return Ok(view);
        }
        let machine = self.setup.machine;
        let bits = self.bits(operand);
        let bytes =
            (self.map(operand).to[1] * bits).div_ceil(8).next_multiple_of(machine.dm.write_granule_bytes);
        let packet = whole_part(bytes, machine.network.flit_bytes);
        let sources = supply.sources(0).len() as u64;
        let base = self.room(bytes.exact_mul(sources))?;
        let fetch = commands::fetch_linear(self.setup, Dtype::I8, view.base, bytes, packet);
        let loops = [SequencerLoop::of(bytes / packet, packet), SequencerLoop::of(sources, bytes)];
        let live = self.live_slices();
        let commit = commands::commit(self.setup, Memory::Dm, base, &loops, packet, live);
        let name = format!("bring_{}", operand.name());
        self.execs.push(copy(self.setup, &name, fetch, supply.gathering(), commit));
        Ok(supply.gathered(&view, base, bytes * 8 / bits))
    }

    /// Slices of the group that work, as ranges; empty if all do.
    pub(super) fn live_slices(&self) -> Vec<(u64, u64)> {
        self.slices(|_| true)
    }

    /// Working slices of which something holds.
    pub(super) fn slices(&self, holds: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
        let group = self.setup.slices();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for slice in (0..group).filter(|slice| self.works(*slice) && holds(*slice)) {
            match ranges.last_mut() {
                Some(range) if range.1 == slice => range.1 += 1,
                _ => ranges.push((slice, slice + 1)),
            }
        }
        if ranges == [(0, group)] { Vec::new() } else { ranges }
    }

    pub(super) fn works(&self, slice: u64) -> bool {
        let mut rest = slice;
        for digit in self.placed.parallel.iter().rev() {
            if rest % digit.slots >= digit.live {
                return false;
            }
            rest /= digit.slots;
        }
        rest == 0
    }

    pub(super) fn clash(&self, clash: CutMismatch) -> Box<Diagnostic> {
        let name = self.problem.axis(clash.axis).name;
        let message = format!("axis `{name}` is cut at {} by one operand and not by another", clash.weight);
        refuse(self.problem, &message, "digits that refine each other")
    }

    fn finish(self) -> Program {
        let tensors = Operand::ALL.map(|operand| self.tensor(operand)).into_iter().flatten().collect();
        let mut steps = self.dynamic.steps_before();
        let step = |command| Step { kind: StepKind::Push(command), span: Span::default() };
        let mut transfers = self.transfers.iter().zip(0..).peekable();
        for (at, (exec, id)) in self.execs.iter().zip(0..).enumerate() {
            while let Some((_, transfer)) = transfers.next_if(|((before, _), _)| *before == at) {
                let transfer = TransferId(transfer);
                steps.extend([Command::Dma { transfer, id: 0 }, Command::WaitD(0)].map(step));
            }
            let run = Command::Exec { context: exec.context, id: 0 };
            steps.extend([Command::Load(ExecId(id)), run, Command::WaitE(0)].map(step));
        }
        let queue = Queue { chip: 0, pe: 0, steps, span: Span::default() };
        Program {
            machine: self.options.machine.clone(),
            chips: 1,
            registers: self.dynamic.registers,
            tensors,
            execs: self.execs,
            transfers: self.transfers.into_iter().map(|(_, transfer)| transfer).collect(),
            queues: vec![queue],
            ..Program::default()
        }
    }

    fn tensor(&self, operand: Operand) -> Option<Tensor> {
        let shape = self.problem.shape(operand)?;
        let is_output = operand == Operand::Out;
        let axes = self.problem.tensor(operand).iter().map(|id| {
            let axis = self.problem.axis(*id);
            (axis.name.to_string(), axis.extent_in[operand as usize])
        });
        let stored = match self.setup.dtype {
            Dtype::I5 => Dtype::I4,
            Dtype::I9 => Dtype::I8,
            other => other,
        };
        Some(Tensor {
            name: operand.name().to_string(),
            dtype: if is_output { self.setup.accumulator_dtype() } else { stored },
            axes: axes.collect(),
            role: if is_output { TensorRole::Output } else { TensorRole::Input },
            place: TensorPlace::Dm { chip: 0, slice: 0, base: self.base(operand) },
            shape: shape_text(self.problem, shape),
            map: self.map(operand).clone(),
            data: if is_output { TensorData::None } else { self.options.data[operand as usize].clone() },
            span: Span::default(),
        })
    }
}
