//! The contraction as matrix products of [`crate::values`]: wherever the loops nest, rows of the stream meet
//! rows of the register files, and the bulk kernels give the bits of the literal way.
//!
//! A surviving digit during which a packet is held numbers rows of the register files, one during which the
//! register files stand still rows of the stream, any other a product of its own. Summed digits, in their
//! order, and the neighbours of the tree are k.
//!
//! - `layout` (here): what follows from the registers, found once for all slices;
//! - `product`: one slice's operands and results;
//! - `few_rows`: one slice's operands where the stream has few rows;
//! - `deferred_rows`: the same with register file loads that were not carried out;
//! - `broadcast`: one register file element for a whole packet, where products are too small for kernels;
//! - `accumulators`: accumulators.

mod accumulators;
mod broadcast;
mod deferred_rows;
mod few_rows;
mod product;

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_num::{Dtype, RuleSet};

use super::digits::{LoopDigit, LoopDigits, digits};
use super::plan::ContractionPlan;
use crate::contract::register_file::RegisterFileView;
use crate::fault::ExecProblem;
use crate::packets::Packets;
use crate::state::SliceLoads;
use product::SliceProduct;
use tilewright_tcp_isa::program::exec::ContractOp;

/// Most bytes of an operand that is laid out anew; larger ones go the literal way.
const MAX_OPERAND_BYTES: usize = 1 << 28;
/// Most steps of one sum, and most rows of an operand.
const MAX_PLACES: usize = 1 << 22;
/// Results of a product that are worth a kernel where the tree has no depth.
const KERNEL_RESULTS: usize = 256;
/// Steps of a sum that are.
const KERNEL_STEPS: usize = 32;

/// Words of the flits that leave, for packets from [`ContractionPlan::feed`]; `None` if the loops do not
/// nest.
///
/// # Errors
/// What the kernels refuse.
pub fn contract(
    plan: &ContractionPlan<'_>,
    packets: &Packets,
    trf: RegisterFileView<'_>,
) -> Result<Option<Vec<u32>>, ExecProblem> {
    ProductLayout::new(*plan).map_or(Ok(None), |layout| layout.contract(packets, trf))
}

/// What the registers of a contraction ask for.
pub(super) struct ProductLayout<'a> {
    plan: ContractionPlan<'a>,
    /// Register file element of each packet element, from the first.
    elements: Vec<i64>,
    /// Steps by what they number.
    batch: Vec<DigitOffsets>,
    stream_rows: Vec<DigitOffsets>,
    trf_rows: Vec<DigitOffsets>,
    summed: Vec<DigitOffsets>,
    /// Every column meets the same register file elements, so columns are further rows of the stream.
    same_elements: bool,
    /// Packets of all rows, if rows are whole packets and follow each other.
    packets_in_order: Option<usize>,
    /// Rows of the register files are runs of elements.
    trf_in_order: bool,
    /// And follow each other in every lane.
    trf_rows_in_order: bool,
    /// The tree's 4-bit elements are whole bytes of the register file.
    whole_bytes: bool,
}

impl<'a> ProductLayout<'a> {
    /// `None` if the loops do not nest.
    pub(super) fn new(plan: ContractionPlan<'a>) -> Option<ProductLayout<'a>> {
        let whole = plan.active.is_multiple_of(plan.tree);
        if !(whole || adds_zeros(&plan)) || plan.rules != &RuleSet::TCP {
            return None;
        }
        let digits = if plan.steps == 0 { nothing() } else { digits(&plan)? };
        let select = |which: &dyn Fn(&LoopDigit) -> bool| -> Vec<LoopDigit> {
            digits.steps.iter().filter(|digit| which(digit)).copied().collect()
        };
        let batch = select(&|digit| !digit.summed && digit.packet != 0 && digit.trf != 0);
        let stream_rows = select(&|digit| !digit.summed && digit.packet != 0 && digit.trf == 0);
        let trf_rows = select(&|digit| !digit.summed && digit.packet == 0);
        let summed = select(&|digit| digit.summed);
        if [&batch, &stream_rows, &trf_rows, &summed].into_iter().any(|digits| count(digits) > MAX_PLACES) {
            return None;
        }
        let whole_bytes = plan.steps > 0 && whole_bytes(&plan, &digits);
        let mut units = digits.elements.chunks_exact(plan.tree).take(plan.columns);
        let first = units.next();
        let same_elements = units.all(|unit| Some(unit) == first);
        let packets_in_order = packets_in_order(&plan, stream_rows.iter().chain(&summed)).filter(|_| whole);
        let (summed, trf_rows) = (places(&summed), places(&trf_rows));
        let apart = |places: &[DigitOffsets], elements: usize| {
            let elements = (elements as u64).cast_signed();
            (0..).zip(places).all(|(at, place): (i64, _)| place.trf == at * elements)
        };
        let trf_in_order = whole && apart(&summed, plan.tree);
        let trf_rows_in_order = trf_in_order && apart(&trf_rows, summed.len() * plan.tree);
        Some(ProductLayout {
            plan,
            batch: places(&batch),
            stream_rows: places(&stream_rows),
            trf_rows,
            summed,
            same_elements,
            packets_in_order,
            trf_in_order,
            trf_rows_in_order,
            whole_bytes,
            elements: digits.elements,
        })
    }

    /// Words of the flits that leave; `None` if an operand would be too large.
    pub(super) fn contract(
        &self,
        packets: &Packets,
        trf: RegisterFileView<'_>,
    ) -> Result<Option<Vec<u32>>, ExecProblem> {
        if self.plan.steps == 0 {
            return Ok(Some(Vec::new()));
        }
        if self.is_broadcast() {
            return Ok(Some(broadcast::words(self, packets, trf)));
        }
        let Some(product) = SliceProduct::new(self, packets, trf) else { return Ok(None) };
        product.run().map(Some)
    }

    /// Whether register file loads may be met where their bytes lie: few rows of the stream, and rows of
    /// lanes one after the other.
    pub(super) fn takes_loads(&self) -> bool {
        let plan = &self.plan;
        let paired =
            matches!((plan.dtype, plan.image.dtype), (Dtype::Bf16, Dtype::Bf16) | (Dtype::I8, Dtype::I8));
        paired && plan.steps > 0 && self.trf_rows_in_order && !self.is_broadcast() && self.is_few()
    }

    /// [`Self::contract`] with loads that were not carried out; `None` where the register file has to be
    /// looked at.
    pub(super) fn contract_loads(&self, packets: &Packets, loads: SliceLoads<'_>) -> Option<Vec<u32>> {
        let unread = RegisterFileView { bytes: &[], extra: None };
        let product = self.takes_loads().then(|| SliceProduct::new(self, packets, unread))??;
        product.run_loads(loads)
    }

    /// One register file element meets all elements of a packet, and products are small.
    fn is_broadcast(&self) -> bool {
        let small = self.batch.len() > 1
            || self.summed.len() < KERNEL_STEPS
            || self.rows_a() * self.rows_b() <= KERNEL_RESULTS;
        self.plan.tree == 1 && self.same_elements && small && self.plan.image.op == ContractOp::Add
    }

    /// Columns that one matrix product has, and how many products there are for them.
    fn columns(&self) -> (usize, usize) {
        if self.same_elements { (self.plan.columns, 1) } else { (1, self.plan.columns) }
    }

    fn rows_a(&self) -> usize {
        self.stream_rows.len() * self.columns().0
    }

    fn rows_b(&self) -> usize {
        self.trf_rows.len() * self.plan.lanes
    }

    /// Register file elements that a column's tree meets; fewer than it takes where it is partly inactive.
    fn unit(&self, column: usize) -> &[i64] {
        let first = column * self.plan.tree;
        let end = self.elements.len().min(first + self.plan.tree);
        self.elements.get(first..end).or_broken("a column has elements")
    }

    fn k(&self) -> usize {
        self.summed.len() * self.plan.tree
    }
}

/// Whether elements that a partly inactive tree lacks may be zeros on both sides: their products are what
/// sums start from.
fn adds_zeros(plan: &ContractionPlan<'_>) -> bool {
    plan.active < plan.tree
        && plan.image.op == ContractOp::Add
        && plan.dtype == plan.image.dtype
        && matches!(plan.dtype, Dtype::Bf16 | Dtype::F8E4M3Fn | Dtype::F8E5M2 | Dtype::I8)
}

/// Loops without steps.
fn nothing() -> LoopDigits {
    LoopDigits { steps: smallvec::SmallVec::new(), elements: Vec::new() }
}

/// Packets that these digits number, if they number them one after the other and each is one tree's.
fn packets_in_order<'d>(
    plan: &ContractionPlan<'_>,
    digits: impl DoubleEndedIterator<Item = &'d LoopDigit>,
) -> Option<usize> {
    if plan.columns != 1 || plan.tree != plan.width {
        return None;
    }
    digits.rev().try_fold(1_usize, |expected, digit| {
        (digit.packet == expected).then(|| expected.exact_mul(digit.size))
    })
}

/// Whether every tree's 4-bit elements are whole bytes of the register file, one after the other.
fn whole_bytes(plan: &ContractionPlan<'_>, digits: &LoopDigits) -> bool {
    let run = |unit: &[i64]| unit[0] % 2 == 0 && unit.windows(2).all(|pair| pair[1] == pair[0] + 1);
    plan.tree > 1
        && digits.steps.iter().all(|digit| digit.trf % 2 == 0)
        && digits.elements.chunks_exact(plan.tree).take(plan.columns).all(run)
}

/// Where some iterations of digits are, for everyone.
#[derive(Clone, Copy, Debug, Default)]
struct DigitOffsets {
    packet: usize,
    trf: i64,
    result: usize,
}

fn count(digits: &[LoopDigit]) -> usize {
    digits.iter().map(|digit| digit.size).fold(1, usize::exact_mul)
}

/// All iterations of digits, outermost first.
fn places(digits: &[LoopDigit]) -> Vec<DigitOffsets> {
    let mut all = vec![DigitOffsets::default()];
    for digit in digits {
        let step = |place: &DigitOffsets, at: usize| DigitOffsets {
            packet: place.packet + at * digit.packet,
            trf: place.trf + (at as u64).cast_signed() * digit.trf,
            result: place.result + at * digit.result,
        };
        all = all.iter().flat_map(|place| (0..digit.size).map(move |at| step(place, at))).collect();
    }
    all
}
