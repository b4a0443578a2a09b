//! Accumulators of either kind.

use tilewright_tcp_isa::program::exec::ContractOp;

use super::ContractionPlan;
use crate::values::AccumulatorRows;

pub(super) enum AccumulatorValues {
    Ints(Vec<i32>, i32),
    Floats(Vec<f32>, f32),
}

impl AccumulatorValues {
    pub(super) fn new(plan: &ContractionPlan<'_>, count: usize) -> AccumulatorValues {
        let max = plan.image.op == ContractOp::Max;
        if plan.dtype.is_float() {
            AccumulatorValues::Floats(vec![0.0; count], if max { f32::NEG_INFINITY } else { 0.0 })
        } else {
            AccumulatorValues::Ints(vec![0; count], if max { i32::MIN } else { 0 })
        }
    }

    pub(super) fn reset(&mut self) {
        match self {
            AccumulatorValues::Ints(sums, start) => sums.fill(*start),
            AccumulatorValues::Floats(sums, start) => sums.fill(*start),
        }
    }

    pub(super) fn borrow(&mut self) -> AccumulatorRows<'_> {
        match self {
            AccumulatorValues::Ints(sums, _) => AccumulatorRows::I32(sums),
            AccumulatorValues::Floats(sums, _) => AccumulatorRows::F32(sums),
        }
    }

    pub(super) fn word(&self, at: usize) -> u32 {
        match self {
            AccumulatorValues::Ints(sums, _) => sums[at].cast_unsigned(),
            AccumulatorValues::Floats(sums, _) => sums[at].to_bits(),
        }
    }
}
