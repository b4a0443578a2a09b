//! Inputs that start in off-chip memory: the transfers that bring them to the data memories before the first
//! command (paper section III-D; vISA book, DMA engine).
//!
//! In HBM an input lies as slices take it: one slice's part after the other, each as it will lie there,
//! copies once. Every group of PEs has an image of its own, one behind the other, and brings it with the DMA
//! engine of its first PE. Commands wait for all transfers.

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_base::{Diagnostic, Span};
use tilewright_machine::tcp::Tcp;
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::problem::{Digit, Problem, Shape};
use tilewright_notation::syntax::ast::Operand;
use tilewright_tcp_cost::setup::Setup;
use tilewright_tcp_isa::program::control::{Command, Queue, Step, StepKind};
use tilewright_tcp_isa::program::tensor::{Tensor, TensorPlace};
use tilewright_tcp_isa::program::transfer::{
    Address, MemoryInstance, MemoryLocation, SLICE_STRIDE, Transfer, TransferLoop,
};
use tilewright_tcp_isa::program::{Count, Program, TransferId};

use super::shape_text::shape_text;
use crate::no_lowering::refuse;

/// Most digits of a slice number.
pub const MOST_DIGITS: usize = 16;

/// A digit of the slice number of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HbmImageDigit {
    /// Values whose slices get something.
    pub live: u64,
    /// Values that there are.
    pub slots: u64,
    /// All of them get the same.
    pub copies: bool,
}

/// An input on its way from off-chip memory to the slices of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HbmImage {
    /// Digits of the slice number, most significant first; those behind `count` mean nothing.
    pub digits: [HbmImageDigit; MOST_DIGITS],
    /// How many there are.
    pub count: usize,
    /// Bytes that each slice gets.
    pub slice_bytes: u64,
    /// Where they go in data memory.
    pub dm_base: u64,
    /// First slice of the group.
    pub slice: u64,
    /// Where the image lies in off-chip memory.
    pub hbm_base: u64,
}

impl HbmImage {
    /// Bytes of the image in off-chip memory.
    pub fn bytes(&self) -> u64 {
        let parts = self.digits.iter().take(self.count).filter(|digit| !digit.copies);
        parts.fold(self.slice_bytes, |all, digit| all.exact_mul(digit.live))
    }

    /// The first byte behind it on which another image may start.
    pub fn end(&self, machine: &Tcp) -> u64 {
        self.hbm_base.exact_add(self.bytes()).next_multiple_of(machine.hbm.access_bytes.max(1))
    }

    /// Loops over slices, outermost first; neighbours that continue each other on both sides are one.
    fn loops(&self) -> Vec<TransferLoop> {
        let (mut slices, mut parts) = (1_u64, self.slice_bytes);
        let mut loops: Vec<TransferLoop> = Vec::new();
        for digit in self.digits[..self.count].iter().rev() {
            let target = slices.cast_signed().exact_mul(SLICE_STRIDE);
            let source = if digit.copies { 0 } else { parts.cast_signed() };
            turn_around(&mut loops, digit.live, (source, target));
            slices = slices.exact_mul(digit.slots);
            parts = if digit.copies { parts } else { parts.exact_mul(digit.live) };
        }
        loops.reverse();
        loops
    }

    /// The transfers: one, or two where a slice's part is no whole number of good packets.
    ///
    /// # Errors
    /// More loops than the engine has: how many.
    pub fn transfers(&self, machine: &Tcp, name: &str) -> Result<Vec<Transfer>, u64> {
        let over_slices = self.loops();
        let mut transfers = Vec::with_capacity(2);
        for (from, packet, packets) in packets(machine, self.slice_bytes) {
            let suffix = if from == 0 { "" } else { "_rest" };
            let mut loops = over_slices.clone();
            if packets > 1 {
                let step = packet.cast_signed();
                loops.push(TransferLoop { size: Count::Fixed(packets), source: step, target: step });
            }
            if loops.len() as u64 > machine.tdma.loops {
                return Err(loops.len() as u64);
            }
            transfers.push(Transfer {
                name: format!("{name}{suffix}"),
                source: Address::new(MemoryLocation {
                    chip: 0,
                    medium: MemoryInstance::Hbm,
                    offset: self.hbm_base + from,
                }),
                target: Address::new(MemoryLocation {
                    chip: 0,
                    medium: MemoryInstance::Dm { slice: self.slice },
                    offset: self.dm_base + from,
                }),
                loops,
                packet,
                index: None,
                span: Span::default(),
            });
        }
        Ok(transfers)
    }
}

/// The packets of a slice's part: where they begin, their bytes, and how many there are; a rest if it is no
/// whole number of good ones.
pub(super) fn packets(machine: &Tcp, slice_bytes: u64) -> Vec<(u64, u64, u64)> {
    let packet_bytes = packet_bytes(machine, slice_bytes);
    let whole = slice_bytes / packet_bytes * packet_bytes;
    let mut packets = vec![(0, packet_bytes, whole / packet_bytes)];
    if whole < slice_bytes {
        packets.push((whole, slice_bytes - whole, 1));
    }
    packets
}

/// The longest packet of whole requests that divides a slice's part, or else the longest that there is.
fn packet_bytes(machine: &Tcp, slice_bytes: u64) -> u64 {
    let (most, request) = (machine.tdma.packet_max_bytes.max(1), machine.tdma.request_bytes.max(1));
    if slice_bytes <= most {
        return slice_bytes.max(1);
    }
    let divides = |packet: &u64| slice_bytes.is_multiple_of(*packet);
    (1..=most / request).rev().map(|requests| requests * request).find(divides).unwrap_or(most)
}

/// Puts inputs into off-chip memory, and transfers before the commands.
pub(super) fn bring(
    setup: &Setup<'_>,
    problem: &Problem,
    from_hbm: [bool; 2],
    mut program: Program,
) -> Result<Program, Box<Diagnostic>> {
    let mut next_byte = 0;
    let mut commands: Vec<Vec<TransferId>> = vec![Vec::new(); program.queues.len()];
    for (operand, _) in [Operand::In0, Operand::In1].into_iter().zip(from_hbm).filter(|(_, from)| *from) {
        let Some(shape) = problem.shape(operand) else { continue };
        // One for each group.
        let of_groups = format!("{}_pe", operand.name());
        let of_operand =
            |tensor: &&mut Tensor| tensor.name == operand.name() || tensor.name.starts_with(&of_groups);
        for (tensor, commands) in program.tensors.iter_mut().filter(of_operand).zip(&mut commands) {
            let image = image(setup, shape, tensor, next_byte).ok_or_else(|| {
                let unit = setup.machine.tdma.alignment_bytes;
                let message = format!(
                    "slices hold no whole {unit}-byte words of {}, which comes from HBM",
                    operand.name()
                );
                refuse(problem, &message, &format!("rows padded to {unit} B"))
            })?;
            next_byte = image.end(setup.machine);
            let transfers =
                image.transfers(setup.machine, &format!("bring_{}", tensor.name)).map_err(|loops| {
                    let message = format!("{} takes {loops} loops to come from HBM", operand.name());
                    refuse(problem, &message, &format!("at most {} loops", setup.machine.tdma.loops))
                })?;
            rest_in_hbm(problem, shape, &image, tensor)?;
            for transfer in transfers {
                commands.push(TransferId(
                    u32::try_from(program.transfers.len()).or_broken("transfers of a program fit their ids"),
                ));
                program.transfers.push(transfer);
            }
        }
    }
    program.queues.iter_mut().zip(&commands).for_each(|(queue, commands)| push_first(queue, commands));
    Ok(program)
}

fn image(setup: &Setup<'_>, shape: &Shape, tensor: &Tensor, hbm_base: u64) -> Option<HbmImage> {
    let TensorPlace::Dm { slice, base, .. } = tensor.place else { return None };
    let bits = tensor.map.to.get(1)?.checked_mul(setup.element_bits())?;
    let unit = setup.machine.tdma.alignment_bytes;
    if !bits.is_multiple_of(unit * 8) || !base.is_multiple_of(unit) || shape.inter.len() > MOST_DIGITS {
        return None;
    }
    let mut digits = [HbmImageDigit::default(); MOST_DIGITS];
    for (to, digit) in digits.iter_mut().zip(shape.inter.iter()) {
        *to = HbmImageDigit { live: digit.live, slots: digit.slots, copies: digit.axis.is_none() };
    }
    Some(HbmImage { digits, count: shape.inter.len(), slice_bytes: bits / 8, dm_base: base, slice, hbm_base })
}

/// The same elements in off-chip memory: digits of the slice number are outer digits of the offset, without
/// idle slices and copies.
fn rest_in_hbm(
    problem: &Problem,
    shape: &Shape,
    image: &HbmImage,
    tensor: &mut Tensor,
) -> Result<(), Box<Diagnostic>> {
    let outer = shape.inter.iter().filter(|digit| digit.axis.is_some());
    let outer = outer.map(|digit| Digit { slots: digit.live, ..*digit });
    let intra = outer.chain(shape.intra.iter().copied()).collect();
    let at_rest = Shape { inter: std::iter::empty().collect(), intra, ..shape.clone() };
    tensor.map = RadixMap::of_shape(problem, &at_rest)
        .map_err(|_| refuse(problem, "an input is too large for HBM", "a smaller one"))?;
    tensor.shape = shape_text(problem, &at_rest);
    tensor.place = TensorPlace::Hbm { chip: 0, base: image.hbm_base };
    Ok(())
}

/// Starts transfers before the first command, and lets commands wait for all of them.
fn push_first(queue: &mut Queue, transfers: &[TransferId]) {
    let at = queue.steps.iter().position(|step| matches!(step.kind, StepKind::Push(_))).unwrap_or(0);
    let ids =
        0..u8::try_from(transfers.len()).or_broken("two inputs come in fewer transfers than there are ids");
    let starts =
        transfers.iter().zip(ids.clone()).map(|(transfer, id)| Command::Dma { transfer: *transfer, id });
    let waits = ids.map(Command::WaitD);
    let steps: Vec<Step> = starts
        .chain(waits)
        .map(|command| Step { kind: StepKind::Push(command), span: Span::default() })
        .collect();
    queue.steps.splice(at..at, steps);
}

/// Puts a loop around others, which lie innermost first: one that continues the last on both sides becomes
/// part of it.
pub(super) fn turn_around(loops: &mut Vec<TransferLoop>, size: u64, (source, target): (i64, i64)) {
    let joined = loops.last_mut().filter(|inner| {
        let size = inner.size.fixed().cast_signed();
        inner.source * size == source && inner.target * size == target
    });
    match joined {
        Some(inner) => inner.size = Count::Fixed(inner.size.fixed() * size),
        None if size > 1 => loops.push(TransferLoop { size: Count::Fixed(size), source, target }),
        None => {}
    }
}
