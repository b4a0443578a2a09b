//! Which kernels of a plan run together, and how each group and each chain that reads by strides is cut,
//! before values have their places: shares may run over the end of a value.

use std::collections::{BTreeMap, BTreeSet};

use super::depthwise::sums;
use super::emit::dm_bytes;
use super::group::{Group, groups};
use super::group_plan::{GroupPlan, RowResults, is_copy, plan_group};
use super::kernel::{Kernels, Origin, Part, Work};
use super::legal::{is_turned, moved};
use super::link;
use super::plan::Planner;
use super::refusal::Lowered;
use super::spread::spread;

/// Elements of each value from its first on that groups touch.
pub(super) fn reach<'p>(kernels: &Kernels, plans: impl Iterator<Item = &'p GroupPlan>) -> Vec<u64> {
    let mut reach = vec![0; kernels.values.len()];
    for (value, last) in plans.flat_map(|plan| &plan.reach) {
        reach[*value] = reach[*value].max(*last);
    }
    for (number, value) in kernels.values.iter().enumerate() {
        let Origin::Parts(parts) = &value.origin else { continue };
        let mut first = 0;
        for part in parts {
            reach[number] = reach[number].max(first + reach[*part]);
            first += kernels.values[*part].count();
        }
    }
    reach
}

/// Elements before the first of each value that groups touch.
pub(super) fn ahead<'p>(kernels: &Kernels, plans: impl Iterator<Item = &'p GroupPlan>) -> Vec<u64> {
    let mut ahead = vec![0; kernels.values.len()];
    for (value, before) in plans.flat_map(|plan| &plan.ahead) {
        ahead[*value] = ahead[*value].max(*before);
    }
    for (number, value) in kernels.values.iter().enumerate() {
        let Origin::Parts(parts) = &value.origin else { continue };
        ahead[number] = parts.iter().map(|part| ahead[*part]).fold(ahead[number], u64::max);
    }
    ahead
}

impl Planner<'_> {
    /// Groups by their first kernel, with the kernel behind them.
    pub(super) fn groups(&self) -> BTreeMap<usize, (usize, GroupPlan)> {
        let chains = self.chosen.tails.values().chain(self.chosen.epilogues.values().flatten());
        let tails: BTreeSet<usize> = chains.chain(&self.chosen.unwritten).copied().collect();
        let plan = |group: Group| {
            let whole = self.planned(&group, Some(self.row_results(&group)));
            let (group, plan) = match self.behind_turned(&group, whole.as_ref()) {
                Some(rest) => rest?,
                None => (group, whole?),
            };
            Some((group.kernels.start, (group.kernels.end, plan)))
        };
        let mut found: BTreeMap<usize, (usize, GroupPlan)> =
            groups(self.kernels, &tails).into_iter().filter_map(plan).collect();
        self.depthwise_groups(&tails, &mut found);
        found
    }

    /// The plan of a group by itself.
    fn planned(&self, group: &Group, results: Option<RowResults>) -> Option<GroupPlan> {
        let room = (self.emitter.pes(), dm_bytes(self.emitter.machine) / 2);
        plan_group(self.emitter.machine, self.kernels, group, room, results)
    }

    /// A group without the copy in another order that it begins with, where that alone and the rest take less
    /// than both together: rows of a slice may lie far apart where they come from. The rest has no plan if it
    /// is one kernel.
    fn behind_turned(&self, group: &Group, whole: Option<&GroupPlan>) -> Option<Option<(Group, GroupPlan)>> {
        let first = group.kernels.start;
        let Work::Chain { inputs, .. } = &self.kernels.kernels[first].work else { return None };
        if group.kernels.len() < 2 || !is_copy(self.kernels, first) || !inputs.iter().any(is_turned) {
            return None;
        }
        let copy = Group { kernels: first..first + 1, rows: 1, columns: 1 };
        let rest = Group { kernels: first + 1..group.kernels.end, ..group.clone() };
        let copy = self.planned(&copy, None)?;
        let plan = self.planned(&rest, Some(self.row_results(&rest)))?;
        let apart = copy.cycles + plan.cycles;
        let is_less = whole.is_none_or(|whole| apart < whole.cycles);
        is_less.then(|| (rest.kernels.len() > 1).then_some((rest, plan)))
    }

    /// Depthwise sums with the chain that alone reads them, which then stay in data memory.
    fn depthwise_groups(&self, tails: &BTreeSet<usize>, found: &mut BTreeMap<usize, (usize, GroupPlan)>) {
        let mut next = 0;
        for number in sums(self.kernels, &(0..self.kernels.kernels.len()).collect::<Vec<usize>>()).into_keys()
        {
            let sum = self.kernels.kernels[number].results[0];
            let behind = number + 1;
            let grouped = found.range(..=behind).any(|(start, (end, _))| (*start..*end).contains(&behind));
            let chain = self.kernels.kernels.get(behind).filter(|_| !grouped && !tails.contains(&behind));
            let joins = chain.is_some_and(|kernel| {
                let Work::Chain { inputs, .. } = &kernel.work else { return false };
                let reads = inputs.iter().filter(|view| view.value == sum);
                reads.clone().count() > 0 && reads.into_iter().all(|view| self.kernels.is_whole(view))
            });
            if number < next || !joins || self.keep || self.readers[sum] != [behind] {
                continue;
            }
            let group = Group { kernels: number..behind + 1, rows: 1, columns: 1 };
            let room = (self.emitter.pes(), dm_bytes(self.emitter.machine) / 2);
            let plan = plan_group(self.emitter.machine, self.kernels, &group, room, None);
            if let Some(plan) = plan.filter(|plan| !plan.sums.is_empty()) {
                next = behind + 1;
                found.insert(number, (next, plan));
            }
        }
    }

    /// Whether others read values of a group with one element a row.
    fn row_results(&self, group: &Group) -> RowResults {
        let made = self.kernels.kernels[group.kernels.clone()].iter().flat_map(|kernel| &kernel.results);
        let mut narrow = made.filter(|value| self.value(**value).count() == group.rows);
        let outside = |reader: &usize| !group.kernels.contains(reader);
        let given = narrow.any(|value| self.keep || self.readers[*value].iter().any(outside));
        if given { RowResults::Given } else { RowResults::Stay }
    }

    /// Chains that read values by strides, outside of groups.
    pub(super) fn strided_chains(
        &self,
        groups: &BTreeMap<usize, (usize, GroupPlan)>,
    ) -> BTreeMap<usize, GroupPlan> {
        let room = (self.emitter.pes(), dm_bytes(self.emitter.machine) / 2);
        let alone = |number: &usize| {
            let group = groups.range(..=number).next_back();
            let Work::Chain { inputs, .. } = &self.kernels.kernels[*number].work else { return false };
            group.is_none_or(|(_, (end, _))| end <= number)
                && !self.chosen.is_tail(*number)
                && (self.keep || !self.chosen.unwritten.contains(number))
                && self.kernels.whole_inputs(inputs).is_none()
        };
        let machine = self.emitter.machine;
        let plan = |number: usize| {
            let group = Group { kernels: number..number + 1, rows: 1, columns: 1 };
            let plan = plan_group(machine, self.kernels, &group, room, None)?;
            let kernel = &self.kernels.kernels[number];
            let bytes = self.value(*kernel.results.first()?).element_bytes();
            let Work::Chain { inputs, .. } = &kernel.work else { return None };
            let part = moved(self.kernels, kernel).filter(|_| !self.kernels.runs_over(inputs));
            let moves =
                part.is_some_and(|part| link::shared_cycles(machine, &[part], bytes, room.0) < plan.cycles);
            (!moves).then_some((number, plan))
        };
        (0..self.kernels.kernels.len()).filter(alone).filter_map(plan).collect()
    }

    /// A chain that reads values by strides, or a move that does the same in less.
    pub(super) fn strided_chain(&mut self, number: usize, to: usize) -> Lowered<()> {
        if let Some(plan) = self.strided.remove(&number) {
            return self.group(&plan);
        }
        let part = moved(self.kernels, &self.kernels.kernels[number]);
        self.move_parts(&[part.ok_or("strides that no transfer walks")?], to);
        Ok(())
    }

    pub(super) fn move_parts(&mut self, parts: &[Part], to: usize) {
        let bytes = self.value(to).element_bytes();
        let machine = self.emitter.machine;
        for (part, goes_on) in parts.iter().flat_map(|part| spread(machine, part, bytes)) {
            let from = if goes_on { to } else { part.from };
            self.emitter.part("move", &part, bytes, [self.places[from], self.places[to]]);
        }
    }
}
