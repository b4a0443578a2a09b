//! Accumulators of either kind.

use tilewright_tcp_isa::program::exec::ContractOp;

use super::Plan;
use crate::values::Sums;

pub(super) enum AllSums {
    Ints(Vec<i32>, i32),
    Floats(Vec<f32>, f32),
}

impl AllSums {
    pub(super) fn new(plan: &Plan<'_>, count: usize) -> AllSums {
        let max = plan.image.op == ContractOp::Max;
        if plan.dtype.is_float() {
            AllSums::Floats(vec![0.0; count], if max { f32::NEG_INFINITY } else { 0.0 })
        } else {
            AllSums::Ints(vec![0; count], if max { i32::MIN } else { 0 })
        }
    }

    pub(super) fn reset(&mut self) {
        match self {
            AllSums::Ints(sums, start) => sums.fill(*start),
            AllSums::Floats(sums, start) => sums.fill(*start),
        }
    }

    pub(super) fn borrow(&mut self) -> Sums<'_> {
        match self {
            AllSums::Ints(sums, _) => Sums::I32(sums),
            AllSums::Floats(sums, _) => Sums::F32(sums),
        }
    }

    pub(super) fn word(&self, at: usize) -> u32 {
        match self {
            AllSums::Ints(sums, _) => sums[at].cast_unsigned(),
            AllSums::Floats(sums, _) => sums[at].to_bits(),
        }
    }
}
