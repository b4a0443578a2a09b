//! The contraction step by step: every lane multiplies its packet, the tree combines neighbours level by
//! level, accumulators take the result in. The definition that faster ways are compared with.

use tilewright_base::invariant::OrBroken;
use tilewright_num::{Dtype, RuleSet, add_f32, decode, int_value, mul_f32, tree_add};
use tilewright_tcp_isa::program::exec::ContractOp;

use super::plan::ContractionPlan;
use crate::contract::register_file::RegisterFileView;
use crate::fault::ExecProblem;
use crate::limits::index;
use crate::packets::{Packets, load_element};
use crate::walk::{OffsetWalk, pairs};

/// Words of the flits that leave, for packets from [`ContractionPlan::feed`].
///
/// # Errors
/// More steps than can be followed one by one.
pub fn contract(
    plan: &ContractionPlan<'_>,
    packets: &Packets,
    trf: RegisterFileView<'_>,
) -> Result<Vec<u32>, ExecProblem> {
    if plan.dtype.is_float() {
        run(plan, packets, trf, &FloatArithmetic(plan.rules))
    } else {
        run(plan, packets, trf, &IntegerArithmetic)
    }
}

fn run<A: LaneArithmetic>(
    plan: &ContractionPlan<'_>,
    packets: &Packets,
    trf: RegisterFileView<'_>,
    arithmetic: &A,
) -> Result<Vec<u32>, ExecProblem> {
    let mut words = vec![0; index(plan.words())];
    let op = plan.image.op;
    let mut sums = vec![A::start(op); index(plan.survivors) * plan.lanes * plan.columns];
    let mut walk = OffsetWalk::new(pairs(&plan.image.loops))?;
    let mut addresses = vec![0_i64; plan.active];
    // Inactive elements add nothing.
    let mut products = vec![A::start(op); plan.columns * plan.tree];
    let mut at = vec![0_u64; plan.image.steps.len()];
    for step in 0..plan.steps {
        addresses.fill_with(|| walk.next().or_broken("steps meet as many elements as loops walk"));
        let first = index(step / plan.repeats) * plan.width;
        let survivor = index(survivor(plan, &at));
        for lane in 0..plan.lanes {
            products.fill(A::start(op));
            let (bytes, extra) = (plan.lane(trf.bytes, lane), trf.extra.map(|extra| plan.lane(extra, lane)));
            for (element, (product, address)) in products.iter_mut().zip(&addresses).enumerate() {
                let a = load_element(plan.dtype, &packets.bytes, packets.extra.as_deref(), first + element);
                let b = usize::try_from(*address)
                    .map_or(0, |address| load_element(plan.image.dtype, bytes, extra, address));
                *product = arithmetic.product(plan.dtype, a, plan.image.dtype, b);
            }
            let sums = &mut sums[(survivor * plan.lanes + lane) * plan.columns..][..plan.columns];
            for (sum, neighbours) in sums.iter_mut().zip(products.chunks_exact_mut(plan.tree)) {
                *sum = arithmetic.combine(op, *sum, arithmetic.tree(op, neighbours));
            }
        }
        advance(plan, &mut at);
    }
    let blocks = words.chunks_exact_mut(plan.block_words());
    for (block, sums) in blocks.zip(sums.chunks_exact(plan.lanes * plan.columns)) {
        for (at, sum) in sums.iter().enumerate() {
            block[plan.word_of(at / plan.columns, at % plan.columns)] = A::word(*sum);
        }
    }
    Ok(words)
}

/// Which result a step goes into: its iterations of the surviving loops.
fn survivor(plan: &ContractionPlan<'_>, at: &[u64]) -> u64 {
    let loops = plan.image.steps.iter().zip(at).filter(|(step, _)| !step.summed);
    loops.fold(0, |result, (step, iteration)| result * step.size.fixed() + iteration)
}

fn advance(plan: &ContractionPlan<'_>, at: &mut [u64]) {
    for (iteration, step) in at.iter_mut().zip(&plan.image.steps).rev() {
        *iteration += 1;
        if *iteration < step.size.fixed() {
            return;
        }
        *iteration = 0;
    }
}

/// How a type multiplies and combines.
trait LaneArithmetic {
    type Sum: Copy;
    /// What accumulators start from.
    fn start(op: ContractOp) -> Self::Sum;
    fn product(&self, a_type: Dtype, a: u32, b_type: Dtype, b: u32) -> Self::Sum;
    fn combine(&self, op: ContractOp, left: Self::Sum, right: Self::Sum) -> Self::Sum;
    /// Combines neighbours in pairs, level by level.
    fn tree(&self, op: ContractOp, neighbours: &mut [Self::Sum]) -> Self::Sum;
    fn word(sum: Self::Sum) -> u32;
}

/// i4, i5, i8, i9: exact products, sums that wrap at 32 bits.
struct IntegerArithmetic;

impl LaneArithmetic for IntegerArithmetic {
    type Sum = i32;

    fn start(op: ContractOp) -> i32 {
        match op {
            ContractOp::Add => 0,
            ContractOp::Max => i32::MIN,
        }
    }

    fn product(&self, a_type: Dtype, a: u32, b_type: Dtype, b: u32) -> i32 {
        i32::try_from(int_value(a_type, a) * int_value(b_type, b)).or_broken("a product of two i9")
    }

    fn combine(&self, op: ContractOp, left: i32, right: i32) -> i32 {
        match op {
            ContractOp::Add => left.wrapping_add(right),
            ContractOp::Max => left.max(right),
        }
    }

    fn tree(&self, op: ContractOp, neighbours: &mut [i32]) -> i32 {
        neighbours.iter().fold(Self::start(op), |all, one| self.combine(op, all, *one))
    }

    fn word(sum: i32) -> u32 {
        sum.cast_unsigned()
    }
}

/// bf16 and 8-bit floats: products and sums in f32. In a maximum NaN wins over numbers and +0 over -0.
struct FloatArithmetic<'a>(&'a RuleSet);

impl LaneArithmetic for FloatArithmetic<'_> {
    type Sum = f32;

    fn start(op: ContractOp) -> f32 {
        match op {
            ContractOp::Add => 0.0,
            ContractOp::Max => f32::NEG_INFINITY,
        }
    }

    fn product(&self, a_type: Dtype, a: u32, b_type: Dtype, b: u32) -> f32 {
        mul_f32(self.0, decode(self.0, a_type, a), decode(self.0, b_type, b))
    }

    fn combine(&self, op: ContractOp, left: f32, right: f32) -> f32 {
        match op {
            ContractOp::Add => add_f32(self.0, left, right),
            // total_cmp puts -0 below +0 and the one NaN word, whose sign is clear, above everything.
            ContractOp::Max if left.total_cmp(&right).is_lt() => right,
            ContractOp::Max => left,
        }
    }

    fn tree(&self, op: ContractOp, neighbours: &mut [f32]) -> f32 {
        match op {
            ContractOp::Add => tree_add(self.0, neighbours),
            ContractOp::Max => {
                neighbours.iter().fold(Self::start(op), |all, one| self.combine(op, all, *one))
            }
        }
    }

    fn word(sum: f32) -> u32 {
        sum.to_bits()
    }
}
