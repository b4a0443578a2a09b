//! Which shares of a group each PE takes at once: as many as it has slices, or fewer, so that they are all
//! positions of inner axes. Transfers of such a range are boxes of whole axes, and PEs have equal parts.

use tilewright_base::invariant::Exact;
use tilewright_tcp_cost::cycles::image::transfer_cost;
use tilewright_tcp_isa::program::transfer::SLICE_STRIDE;

use super::commands_group::value_boxes;
use super::cut::Cut;
use super::emit::hbm;
use super::group_plan::GroupPlan;
use super::moves::{Bytes, hbm_cycles, transfers};
use super::plan::Planner;
use super::refusal::Lowered;
use super::view::signed;

/// Times that each PE takes shares up to which ranges are compared: the more there are, the more alike they
/// are.
const MOST_TIMES: u64 = 4;
/// Part of the cycles that another range must save.
const LEAST_SAVED: u64 = 16;

/// Numbers of shares that are all positions of some inner axes and a part of the next.
fn whole_steps(cut: &Cut, slices: u64) -> Vec<u64> {
    let (mut all, mut behind) = (Vec::new(), 1);
    for digit in cut.digits.iter().rev() {
        let parts = (1..=*digit).filter(|part| digit.is_multiple_of(*part)).map(|part| part * behind);
        all.extend(parts.take_while(|step| *step <= slices));
        behind *= digit;
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Ranges of so many shares.
fn ranges(shares: u64, step: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..shares.div_ceil(step)).map(move |number| (number * step, ((number + 1) * step).min(shares)))
}

impl Planner<'_> {
    /// The shares of a group in ranges: PEs take them in turn, one at a time.
    pub(super) fn share_ranges(&self, plan: &GroupPlan) -> Vec<(u64, u64)> {
        let (slices, pes, shares) = (self.machine().pe.slices, self.emitter.pes(), plan.cut.shares());
        let times = |step: u64| shares.div_ceil(step).div_ceil(pes);
        let full = times(slices);
        if pes == 1 || shares <= slices || full > MOST_TIMES {
            return ranges(shares, slices).collect();
        }
        let steps = whole_steps(&plan.cut, slices).into_iter().rev();
        let others = steps.filter(|step| *step < slices && times(*step) == full);
        let known = others.filter_map(|step| Some((self.range_cycles(plan, step)?, step)));
        let best = known.min_by_key(|(cycles, _)| *cycles);
        let step = match (best, self.range_cycles(plan, slices)) {
            (Some((cycles, step)), Some(whole)) if cycles < whole - whole / LEAST_SAVED => step,
            _ => slices,
        };
        ranges(shares, step).collect()
    }

    /// Cycles of the PE that moves most, or of HBM, if each takes so many shares at once; `None` if a place
    /// is beyond memory.
    fn range_cycles(&self, plan: &GroupPlan, step: u64) -> Option<u64> {
        let machine = self.machine();
        let pes = self.emitter.pes();
        let mut engines = vec![0_u64; usize::try_from(pes).ok()?];
        let mut shared = 0_u64;
        for (number, range) in ranges(plan.cut.shares(), step).enumerate() {
            let engine = &mut engines[number % usize::try_from(pes).ok()?];
            for bytes in self.moved_for(plan, range).ok()? {
                for transfer in transfers(machine, "part", &bytes) {
                    let cost = transfer_cost(machine, &transfer)?;
                    *engine = engine.exact_add(cost.cycles.total_cycles);
                    shared = shared.exact_add(hbm_cycles(&cost));
                }
            }
        }
        Some(engines.into_iter().max()?.max(shared))
    }

    /// What is moved for a range of shares: hulls that differ from share to share, and results.
    fn moved_for(&self, plan: &GroupPlan, range: (u64, u64)) -> Lowered<Vec<Bytes>> {
        let mut all = Vec::new();
        for number in 0..plan.operands.len() {
            let (_, operand, _) = &plan.operands[number];
            let outer = plan.cut.outer(operand);
            if outer.iter().zip(&plan.cut.digits).any(|(stride, digit)| *stride != 0 && *digit > 1) {
                all.extend(self.hull_transfers(plan, number, range, 0)?.0);
            }
        }
        for value in plan.slots.keys().filter(|value| self.is_given(plan, **value)) {
            let element_bytes = self.value(*value).element_bytes();
            if self.value(*value).count() != plan.elements {
                continue;
            }
            if plan.cut.is_contiguous() {
                let bytes = plan.cut.share() * element_bytes;
                let target = hbm(self.places[*value] + range.0 * bytes);
                let loops = vec![(range.1 - range.0, SLICE_STRIDE, signed(bytes))];
                all.push(Bytes { source: self.emitter.dm(0), target, loops, inside: bytes });
            } else {
                let place = (self.places[*value], element_bytes);
                all.extend(value_boxes(plan, place, range, self.emitter.dm(0)));
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_whole_inner_axes() {
        let cut = |digits: &[u64]| Cut { digits: digits.to_vec(), inner: vec![1; digits.len()] };
        assert_eq!(whole_steps(&cut(&[8, 28, 2, 1]), 64), [1, 2, 4, 8, 14, 28, 56]);
        assert_eq!(whole_steps(&cut(&[100]), 64), [1, 2, 4, 5, 10, 20, 25, 50]);
        assert_eq!(ranges(448, 56).last(), Some((392, 448)));
        assert_eq!(ranges(10, 4).collect::<Vec<_>>(), [(0, 4), (4, 8), (8, 10)]);
    }
}
