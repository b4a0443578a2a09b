//! A tactic with every digit placed: over slices, in time, on lanes, or in the packet (paper sections II-B
//! and IV-C).
//!
//! A tactic of two sections leaves lanes and packet open. They are then placed by the paper's reading: the
//! innermost digits of the streamed operand fill the packet, contracted ones innermost, as far as the width
//! goes; the innermost digit that only the stationary operand has goes to the lanes; the rest runs in time. A
//! contracted digit that overflows the packet leaves a chunk loop, which runs outside the repeats of the feed
//! unit when the accumulators can hold them all (so that a fetched packet is used for every repeat), and
//! innermost otherwise.

use tilewright_notation::problem::{Digit, Loops, Problem, Roles};
use tilewright_notation::reuse::held_terms;
use tilewright_notation::syntax::ast::{Operand, Terms};
use tilewright_tcp_isa::contraction::{slot_capacity, tree_depth};

use crate::setup::Setup;
use tilewright_tcp_isa::capped::Capped;

/// Where every digit of a tactic runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedTactic {
    /// Over slices.
    pub parallel: Terms<Digit>,
    /// In time, outermost first.
    pub time: Terms<Digit>,
    /// On lanes.
    pub lanes: Terms<Digit>,
    /// In the packet, innermost last.
    pub packet: Terms<Digit>,
    /// Packet elements that the tree sums.
    pub tree_elements: u64,
    /// Packet elements that survive, as columns of each lane.
    pub columns: u64,
    /// Innermost time digits during which the feed unit holds a packet.
    pub repeat_terms: usize,
    /// Roles were written rather than inferred.
    pub stated: bool,
}

impl PlacedTactic {
    /// Places the digits of a two-input tactic.
    pub fn new(setup: &Setup<'_>, problem: &Problem, tactic: &Loops) -> PlacedTactic {
        let mut placed = match &tactic.roles {
            Some(roles) => stated(tactic, roles),
            None => infer(setup, problem, tactic),
        };
        placed.count(problem);
        placed
    }

    fn count(&mut self, problem: &Problem) {
        let contracted = |digit: &&Digit| digit.axis.is_some_and(|axis| problem.contracted(axis));
        self.tree_elements = product(self.packet.iter().filter(contracted));
        self.columns = product(self.packet.iter().filter(|digit| !contracted(digit)));
        self.repeat_terms = held_terms(problem, problem.streamed(), &self.time);
    }

    /// Levels of the adder tree in use.
    pub fn tree_depth(&self) -> u32 {
        tree_depth(self.tree_elements)
    }

    /// Elements of the packet in use, padding included.
    pub fn packet_elements(&self) -> u64 {
        product(self.packet.iter())
    }

    /// Lanes in use, idle places included.
    pub fn lane_count(&self) -> u64 {
        product(self.lanes.iter())
    }

    /// Cycles for which the feed unit holds each packet.
    pub fn repeats(&self) -> u64 {
        live_product(&self.time[self.time.len() - self.repeat_terms..])
    }

    /// Cycles of the contraction engine: one for each step in time.
    pub fn engine_cycles(&self) -> u64 {
        live_product(&self.time)
    }

    /// Sums that must be kept at once: surviving loops inside the outermost reduced one.
    pub fn sums_kept(&self, problem: &Problem) -> u64 {
        let contracted = |digit: &Digit| digit.axis.is_some_and(|axis| problem.contracted(axis));
        let Some(outermost) = self.time.iter().position(|digit| contracted(digit) && digit.live > 1) else {
            return 1;
        };
        self.time[outermost..]
            .iter()
            .filter(|digit| !contracted(digit))
            .fold(1, |all: u64, digit| all.capped_mul(digit.live))
    }

    /// Part of the multiplications that the slices in use could do which are useful; padding counts as idle.
    pub fn multiplier_use(&self, setup: &Setup<'_>, problem: &Problem) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let product =
            |factors: &mut dyn Iterator<Item = u64>| factors.map(|factor| factor as f64).product::<f64>();
        let loops = problem.axis_ids().filter(|axis| problem.window(*axis).is_none());
        let asked = product(&mut loops.map(|axis| problem.axis(axis).extent));
        let slices = product(&mut self.parallel.iter().map(|digit| digit.live));
        let each = [self.engine_cycles(), setup.packet_elements(), setup.machine.ce.lanes];
        asked / (slices * product(&mut each.into_iter()))
    }

    /// Packets that a slice receives.
    pub fn packets(&self) -> u64 {
        live_product(&self.time[..self.time.len() - self.repeat_terms])
    }
}

/// Product of places.
pub fn product<'a>(digits: impl Iterator<Item = &'a Digit>) -> u64 {
    digits.fold(1, |all: u64, digit| all.capped_mul(digit.slots))
}

fn live_product(digits: &[Digit]) -> u64 {
    digits.iter().fold(1, |all: u64, digit| all.capped_mul(digit.live))
}

fn stated(tactic: &Loops, roles: &Roles) -> PlacedTactic {
    PlacedTactic {
        parallel: tactic.parallel.clone(),
        time: tactic.slice.clone(),
        lanes: roles.lanes.clone(),
        packet: roles.packet.clone(),
        tree_elements: 1,
        columns: 1,
        repeat_terms: 0,
        stated: true,
    }
}

fn infer(setup: &Setup<'_>, problem: &Problem, tactic: &Loops) -> PlacedTactic {
    let packet = infer_packet(setup, problem, &tactic.slice);
    let mut time: Terms<Digit> = tactic.slice[..tactic.slice.len() - packet.terms].iter().copied().collect();
    let lanes = infer_lanes(setup, problem, &mut time);
    if let Some(chunks) = packet.chunks {
        let at = chunk_place(setup, problem, &time, &lanes, &packet.digits, &chunks);
        time.insert(at, chunks);
    }
    PlacedTactic {
        parallel: tactic.parallel.clone(),
        time,
        lanes,
        packet: packet.digits,
        tree_elements: 1,
        columns: 1,
        repeat_terms: 0,
        stated: false,
    }
}

struct InferredPacket {
    digits: Terms<Digit>,
    /// Terms of the slice tactic taken, wholly or in part.
    terms: usize,
    /// What is left of the outermost of them.
    chunks: Option<Digit>,
}

fn infer_packet(setup: &Setup<'_>, problem: &Problem, slice: &[Digit]) -> InferredPacket {
    let stream = problem.streamed();
    let mut packet = InferredPacket { digits: Terms::new(), terms: 0, chunks: None };
    let (mut filled, mut columns) = (1_u64, 1_u64);
    for digit in slice.iter().rev() {
        let Some(axis) = digit.axis.filter(|axis| problem.has(stream, *axis)) else { break };
        let survives = !problem.contracted(axis);
        if (columns > 1 && !survives) || !filled.is_power_of_two() {
            break;
        }
        let mut room = setup.packet_elements() / filled;
        if survives {
            room = room.min(setup.machine.ce.outputs_per_lane / columns);
        }
        if room <= 1 {
            break;
        }
        let (inner, rest) = split(digit, room);
        packet.terms += 1;
        packet.digits.insert(0, inner);
        filled = filled.capped_mul(inner.slots);
        if survives {
            columns = columns.capped_mul(inner.slots);
        }
        packet.chunks = rest;
        if rest.is_some() {
            break;
        }
    }
    packet
}

/// Takes the innermost digits that only the stationary operand has, up to the number of lanes.
fn infer_lanes(setup: &Setup<'_>, problem: &Problem, time: &mut Terms<Digit>) -> Terms<Digit> {
    let only_stationary = |digit: &Digit| {
        digit.axis.is_some_and(|axis| {
            problem.has(problem.stationary, axis)
                && !problem.has(problem.streamed(), axis)
                && problem.has(Operand::Out, axis)
        })
    };
    let mut lanes: Terms<Digit> = Terms::new();
    let mut room = setup.machine.ce.lanes;
    let Some(mut at) = time.iter().rposition(|digit| only_stationary(digit) && digit.live > 1) else {
        return lanes;
    };
    loop {
        let digit = time[at];
        if !only_stationary(&digit) || room <= 1 {
            return lanes;
        }
        let (mut inner, rest) = split(&digit, room);
        inner.slots = inner.slots.next_power_of_two().min(room);
        room /= inner.slots;
        lanes.insert(0, inner);
        match rest {
            Some(rest) => {
                time[at] = rest;
                return lanes;
            }
            None => {
                time.remove(at);
            }
        }
        if at == 0 {
            return lanes;
        }
        at -= 1;
    }
}

/// Cuts a digit into an inner part of at most `room` places and what is left of it.
fn split(digit: &Digit, room: u64) -> (Digit, Option<Digit>) {
    if digit.slots <= room {
        return (*digit, None);
    }
    if digit.live <= room {
        return (Digit { slots: room, ..*digit }, None);
    }
    let inner = Digit { live: room, slots: room, padded: false, ..*digit };
    let steps = digit.live.div_ceil(room);
    let padded = digit.padded || steps * room != digit.live;
    (inner, Some(Digit { stride: digit.stride * room, live: steps, slots: steps, padded, ..*digit }))
}

/// Where the chunk loop of a packet goes among the time digits.
fn chunk_place(
    setup: &Setup<'_>,
    problem: &Problem,
    time: &[Digit],
    lanes: &[Digit],
    packet: &[Digit],
    chunks: &Digit,
) -> usize {
    let stream = problem.streamed();
    let held = time
        .iter()
        .rev()
        .take_while(|digit| !digit.axis.is_some_and(|axis| problem.has(stream, axis)))
        .count();
    let outside = time.len() - held;
    let contracted = chunks.axis.is_some_and(|axis| problem.contracted(axis));
    let survives = |digit: &&Digit| digit.axis.is_some_and(|axis| !problem.contracted(axis));
    // A reduced loop further out already keeps its own sums.
    let first_reduced = time.iter().position(|digit| !survives(&digit) && digit.live > 1).unwrap_or(outside);
    let kept = time[first_reduced.min(outside)..]
        .iter()
        .filter(survives)
        .fold(1_u64, |all, digit| all.capped_mul(digit.live));
    let columns = product(packet.iter().filter(survives));
    if contracted && kept <= slot_capacity(setup.machine, product(lanes.iter()), columns) {
        outside
    } else {
        time.len()
    }
}
