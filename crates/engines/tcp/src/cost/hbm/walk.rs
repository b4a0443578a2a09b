//! The walk of a loop nest through the channels of off-chip memory (requests and access units: vISA book, DMA engine).
//!
//! Nests are walked packet by packet, in order, with two shortcuts that change no count: repeats (stride 0) are walked twice, and
//! whole blocks of a contiguous run touch every channel once. Beyond [`WALKED_REQUESTS`](super::WALKED_REQUESTS) only the first
//! iterations of the outer loops are walked and stand for the rest; the answer then says that it is no exact count. `budget` is
//! the number of requests that may still be walked, `weight` how many times each of them counts.

use tilewright_machine::tcp::Tcp;

use super::{Access, Channel, Channels, Direction};
use crate::cost::dma::packet_requests;

impl Channels {
    pub(super) fn nest(&mut self, machine: &Tcp, access: &Access, budget: u64, weight: u64) {
        let Some((outer, inner)) = access.loops_bytes.split_first() else {
            return self.packet(machine, access, budget, weight);
        };
        let body = Access { loops_bytes: inner, ..*access };
        if outer.stride == 0 && outer.size > 1 {
            self.nest(machine, &body, budget / 2, weight);
            return self.nest(machine, &body, budget / 2, weight.saturating_mul(outer.size - 1));
        }
        let requests = self.map.walked(packet_requests(machine, access.packet_bytes));
        let requests = inner.iter().fold(requests, |all, inner| all.saturating_mul(inner.size));
        let sample = self.sample(outer.size, budget / requests.max(1));
        let budget = budget / sample.walked.max(1);
        for step in 0..sample.walked {
            let base_bytes = access.base_bytes.wrapping_add(step.wrapping_mul(outer.stride));
            self.nest(machine, &Access { base_bytes, ..body }, budget, sample.weight(step, weight));
        }
    }

    /// Requests of one packet: whole ones as one run or, if they cross borders, as two; then the rest.
    fn packet(&mut self, machine: &Tcp, access: &Access, budget: u64, weight: u64) {
        let request_bytes = machine.tdma.request_bytes;
        let writes = access.direction == Direction::Write;
        if request_bytes != machine.hbm.access_bytes {
            return self.uneven(machine, access, budget, weight);
        }
        let (whole, rest_bytes) = (access.packet_bytes / request_bytes, access.packet_bytes % request_bytes);
        let crosses = !access.base_bytes.is_multiple_of(request_bytes);
        self.run(access.base_bytes, whole, budget, weight, writes && crosses);
        if crosses {
            let second = access.base_bytes.wrapping_add(request_bytes);
            self.run(second, whole, budget, weight, writes);
        }
        let rest = access.base_bytes.wrapping_add(whole.wrapping_mul(request_bytes));
        self.request(machine, rest, rest_bytes, weight, writes);
    }

    /// The same where requests and access units differ in size: request by request.
    fn uneven(&mut self, machine: &Tcp, access: &Access, budget: u64, weight: u64) {
        let (request_bytes, writes) = (machine.tdma.request_bytes, access.direction == Direction::Write);
        let requests = packet_requests(machine, access.packet_bytes);
        let sample = self.sample(requests, budget);
        for step in 0..sample.walked {
            let done = step.saturating_mul(request_bytes);
            let bytes = request_bytes.min(access.packet_bytes.saturating_sub(done));
            let at = access.base_bytes.wrapping_add(done);
            self.request(machine, at, bytes, sample.weight(step, weight), writes);
        }
    }

    /// The units of one request.
    fn request(&mut self, machine: &Tcp, base_bytes: u64, bytes: u64, weight: u64, writes: bool) {
        let unit_bytes = machine.hbm.access_bytes;
        let (mut at, mut left) = (base_bytes, bytes);
        while left > 0 {
            let covered = left.min(unit_bytes - at % unit_bytes);
            self.touch(at, weight, writes && covered < unit_bytes);
            at = at.wrapping_add(covered);
            left -= covered;
        }
    }

    /// Units one after the other: a head up to the border of a block, blocks that touch every channel once, the rest.
    fn run(&mut self, base_bytes: u64, units: u64, budget: u64, weight: u64, partial: bool) {
        let Some((head, blocks)) = self.map.blocks(base_bytes, units) else {
            return self.units(base_bytes, units, budget, weight, partial);
        };
        let block_units = self.map.block_units;
        let (first, last) = (head + block_units, head + (blocks - 1) * block_units);
        self.units(base_bytes, first, first, weight, partial);
        for channel in &mut self.channels {
            channel.count((blocks - 2).saturating_mul(weight), partial, false);
            channel.last_bytes = None;
        }
        let last_bytes = base_bytes.wrapping_add(last.wrapping_mul(self.map.unit_bytes));
        self.units(last_bytes, units - last, block_units * 2, weight, partial);
    }

    fn units(&mut self, base_bytes: u64, units: u64, budget: u64, weight: u64, partial: bool) {
        let sample = self.sample(units, budget);
        for step in 0..sample.walked {
            let at = base_bytes.wrapping_add(step.wrapping_mul(self.map.unit_bytes));
            self.touch(at, sample.weight(step, weight), partial);
        }
    }

    /// As many of `steps` as the budget allows, but one at least.
    fn sample(&mut self, steps: u64, budget: u64) -> Sample {
        if steps <= budget.max(1) {
            return Sample { walked: steps, each: 1, more: 0 };
        }
        self.exact = false;
        let walked = budget.max(1);
        Sample { walked, each: steps / walked, more: steps % walked }
    }

    fn touch(&mut self, at_bytes: u64, weight: u64, partial: bool) {
        let Some(channel) = self.channels.get_mut(self.map.channel(at_bytes)) else { return };
        let switches = channel.last_bytes.is_some_and(|last| self.map.switches_row(last, at_bytes));
        channel.count(weight, partial, switches);
        channel.last_bytes = Some(at_bytes);
    }
}

/// The first steps of a loop, which stand for all.
struct Sample {
    walked: u64,
    /// Steps that each stands for, and how many of them stand for one more.
    each: u64,
    more: u64,
}

impl Sample {
    fn weight(&self, step: u64, weight: u64) -> u64 {
        weight.saturating_mul(self.each + u64::from(step < self.more))
    }
}

impl Channel {
    fn count(&mut self, weight: u64, partial: bool, switches: bool) {
        self.accesses = self.accesses.saturating_add(weight);
        if partial {
            self.partial_writes = self.partial_writes.saturating_add(weight);
        } else if switches {
            self.row_switches = self.row_switches.saturating_add(weight);
        }
    }
}
