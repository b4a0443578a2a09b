//! One set of accumulators for all groups, instead of a copy that drains: what the closed forms do not
//! assume.

use proptest::prelude::*;
use tilewright_tcp_cost::cycles::contraction::shared_group_cycles;
use tilewright_tcp_cost::cycles::{PipelineStage, command_cycles};
use tilewright_tcp_isa::contraction::ContractionStage;
use tilewright_tcp_micro::sample::{self, SampleChoices};
use tilewright_tcp_micro::{Accumulators, MicroCommand};

use crate::{choices, gap, tcp};

/// Cycles of a group before its sums, on the drain bus and behind its sums, by the slowest stage of each
/// part.
fn group_cycles(work: &MicroCommand, shape: &ContractionStage) -> [u64; 3] {
    let cost = command_cycles(tcp(), &work.command);
    let slowest = |stages: &[PipelineStage]| stages.iter().map(|&s| cost.stage_cycles(s)).max().unwrap_or(0);
    let before = slowest(&[PipelineStage::Fetch, PipelineStage::Collect, PipelineStage::Contraction]);
    let behind =
        slowest(&[PipelineStage::Drain, PipelineStage::Vector, PipelineStage::Cast, PipelineStage::Commit]);
    [before, cost.stage_cycles(PipelineStage::Drain), behind].map(|cycles| cycles / shape.groups)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Queues make up for a part of it: those before the products for slow operands, those behind the drain
    /// bus for slow engines.
    #[test]
    fn groups_that_share_cells_wait_for_their_slots(list in choices()) {
        let mut work = sample::contracted(tcp(), &mut SampleChoices::new(&list));
        prop_assume!(work.command.transpose.is_none());
        let shape = work.command.contraction.expect("a contraction");
        let copied = gap(&work);
        work.accumulators = Accumulators::Shared;
        let shared = gap(&work).simulated_cycles;
        let [before, drain, behind] = group_cycles(&work, &shape);
        let slowest = before.max(behind);
        let closed = |steps: u64, pace: u64| {
            let period = shared_group_cycles(tcp(), &shape, work.inner_steps, steps, pace).max(slowest);
            copied.closed_cycles + (shape.groups - 1) * (period - slowest)
        };
        let (least, most) = (closed(shape.group_steps, drain), closed(before, behind));
        prop_assert!(shared * 103 / 100 + 64 >= least, "{least} {shared} {copied:?} {work:?}");
        let above = copied.fill_cycles + 64 + most * 3 / 100;
        prop_assert!(shared <= most + above, "{most} {shared} {copied:?} {work:?}");
    }
}
