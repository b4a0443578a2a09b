//! The systolic array in time: parts of it run side by side (NKI instruction pages, nc_matmul, tiling mode),
//! and after a rest it comes back to its full rate over some microseconds
//! (docs/hardware-rules.md#tensor-engine; between the two figures given there the rate is taken to grow
//! linearly, which is an assumption). A rest is a whole such time without work, or one in which less than a
//! documented part of it was busy. Published times of attention are further away with the latter, and the
//! rule stays: `tensor.ramp_busy_fraction` says how much must be busy, and 0 leaves it out.

use tilewright_base::invariant::{Exact, OrBroken, to_index};
use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::chip::{cycles_ps, ns_ps};
use tilewright_neuron_isa::cost::tensor::{Cells, SIDE};

/// The array of one core.
#[derive(Clone, Debug, Default)]
pub struct SystolicArray {
    /// Until when each cell is busy.
    busy_ps: [u64; Cells::BITS as usize],
    ramp: ClockRamp,
}

/// Parts of the window in which busy time is counted.
const WINDOW_PARTS: usize = 16;

/// The rate that the array has come to. Parts that run side by side may start before it was last busy: then
/// no time has passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockRamp {
    /// When it last began to come back from a rest.
    since_ps: Option<u64>,
    /// Until when it was busy.
    end_ps: u64,
    /// Busy time of the last parts of the window, by their number modulo as many.
    busy_ps: [u64; WINDOW_PARTS],
    /// Number of the newest part.
    newest: u64,
}

/// When an instruction runs on the array, and when the next may be issued.
pub struct ArraySpan {
    /// When it begins.
    pub start_ps: u64,
    /// When it ends.
    pub end_ps: u64,
    /// When the next may be issued.
    pub next_ps: u64,
}

impl SystolicArray {
    /// Places an instruction that may start from `from_ps` on and takes `busy_ps` at full rate.
    pub fn place(&mut self, chip: &Chip, cells: Cells, from_ps: u64, busy_ps: u64) -> ArraySpan {
        let all = if cells == 0 { Cells::MAX } else { cells };
        let used = |at: usize| all & (1 << at) != 0;
        let free = self.busy_ps.iter().enumerate().filter(|(at, _)| used(*at)).map(|(_, &time_ps)| time_ps);
        let start_ps = free.max().or_broken("an instruction without cells").max(from_ps);
        let end_ps = start_ps.exact_add(self.ramp.ramped_ps(chip, start_ps, busy_ps));
        for (_, time_ps) in self.busy_ps.iter_mut().enumerate().filter(|(at, _)| used(*at)) {
            *time_ps = end_ps;
        }
        // The next part's weights can be loaded at once, several columns in a cycle.
        let widest = (0..SIDE)
            .map(|row| (all >> (row * SIDE) & 0xf).count_ones())
            .max()
            .or_broken("an array without rows");
        let tensor = &chip.neuron.tensor;
        let columns = u64::from(widest) * tensor.stationary_free_max / SIDE;
        let load_ps = cycles_ps(columns.div_ceil(tensor.load_speedup), tensor.clock_hz);
        let next_ps = if cells == 0 { end_ps } else { start_ps.exact_add(load_ps).min(end_ps) };
        ArraySpan { start_ps, end_ps, next_ps }
    }
}

impl ClockRamp {
    /// A time at full rate as it is at the rate of now.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time over a rate of at least a hundredth"
    )]
    pub fn ramped_ps(&mut self, chip: &Chip, start_ps: u64, busy_ps: u64) -> u64 {
        let (ramp_ps, begin) = (ns_ps(chip.neuron.tensor.ramp_ns), chip.neuron.tensor.ramp_start_fraction);
        // At full rate many instructions without a pause are as one.
        if ramp_ps == 0 {
            return busy_ps;
        }
        let rested = self.has_rested(chip, start_ps);
        let since = self.since_ps.filter(|_| !rested).unwrap_or(start_ps);
        self.since_ps = Some(since);
        let part = (start_ps.saturating_sub(since) as f64 / ramp_ps as f64).min(1.0);
        let taken_ps = (busy_ps as f64 / (begin + (1.0 - begin) * part)) as u64;
        self.record(ramp_ps, start_ps, taken_ps);
        self.end_ps = self.end_ps.max(start_ps.exact_add(taken_ps));
        taken_ps
    }

    /// Whether work that starts now goes at full rate.
    pub fn is_full(&self, chip: &Chip, start_ps: u64) -> bool {
        let ramp_ps = ns_ps(chip.neuron.tensor.ramp_ns);
        let rested = self.has_rested(chip, start_ps);
        ramp_ps == 0
            || self.since_ps.is_some_and(|since| !rested && start_ps.saturating_sub(since) >= ramp_ps)
    }

    /// Whether work that starts now finds the limit returned: after a window without work, or with less than
    /// it takes to keep the rate, once it had come back.
    fn has_rested(&self, chip: &Chip, start_ps: u64) -> bool {
        let tensor = &chip.neuron.tensor;
        let window_ps = ns_ps(tensor.ramp_ns);
        if start_ps.saturating_sub(self.end_ps) >= window_ps {
            return true;
        }
        let full = self.since_ps.is_some_and(|since| start_ps.saturating_sub(since) >= 2 * window_ps);
        full && (self.window_busy_ps(window_ps, start_ps) as f64)
            < tensor.ramp_busy_fraction * window_ps as f64
    }

    /// Busy time of the window that ends at a time, to a part of it.
    fn window_busy_ps(&self, window_ps: u64, at_ps: u64) -> u64 {
        let part_ps = part_ps(window_ps);
        let now = at_ps / part_ps;
        let within = |number: u64| number + WINDOW_PARTS as u64 > now && number <= self.newest;
        let first = (now + 1).saturating_sub(WINDOW_PARTS as u64);
        let numbers = (first..=now).filter(|&number| within(number) && self.holds(number));
        numbers.map(|number| self.busy_ps[slot(number)]).fold(0, u64::exact_add)
    }

    /// Whether a part is one of those that are counted.
    fn holds(&self, number: u64) -> bool {
        number <= self.newest && number + WINDOW_PARTS as u64 > self.newest
    }

    /// Counts a time as busy; what is older than the window is forgotten.
    fn record(&mut self, window_ps: u64, start_ps: u64, taken_ps: u64) {
        let part_ps = part_ps(window_ps);
        let end_ps = start_ps.exact_add(taken_ps);
        let last = end_ps / part_ps;
        let cleared = self.newest + 1;
        for number in cleared.max(last.saturating_sub(WINDOW_PARTS as u64 - 1))..=last {
            self.busy_ps[slot(number)] = 0;
        }
        self.newest = self.newest.max(last);
        let first = (start_ps / part_ps).max((self.newest + 1).saturating_sub(WINDOW_PARTS as u64));
        for number in first..=last {
            let (from, to) = (number * part_ps, (number + 1) * part_ps);
            let busy = end_ps.min(to).saturating_sub(start_ps.max(from));
            let counted = &mut self.busy_ps[slot(number)];
            // Parts of the array that run side by side are busy once.
            *counted = counted.exact_add(busy).min(part_ps);
        }
    }
}

fn part_ps(window_ps: u64) -> u64 {
    (window_ps / WINDOW_PARTS as u64).max(1)
}

fn slot(number: u64) -> usize {
    to_index(number % WINDOW_PARTS as u64)
}
