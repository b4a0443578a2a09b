//! The contraction as matrix products of [`crate::values`]: wherever the loops nest, rows of the stream meet rows of the register
//! files, and the bulk kernels give the bits of the literal way.
//!
//! A surviving digit during which a packet is held numbers rows of the register files, one during which the register files stand
//! still rows of the stream, any other a product of its own. Summed digits, in their order, and the neighbours of the tree are k.

use std::borrow::Cow;

use tilewright_num::{Dtype, RuleSet, int_value};

use super::RegisterFile;
use super::digits::{Digit, Digits, digits};
use super::plan::Plan;
use crate::program::exec::ContractOp;
use crate::run::fault::Problem;
use crate::run::index;
use crate::run::packets::{Packets, flight_elements, load_element};
use crate::values::{Path, Reduce, Rows, Shape, Stationary, Sums};

/// Most bytes of an operand that is laid out anew; larger ones go the literal way.
const MAX_OPERAND_BYTES: usize = 1 << 28;
/// Most steps of one sum, and most rows of an operand.
const MAX_PLACES: usize = 1 << 22;

/// Words of the flits that leave, for packets from [`Plan::feed`]; `None` if the loops do not nest.
///
/// # Errors
/// What the kernels refuse.
pub fn contract(
    plan: &Plan<'_>,
    packets: &Packets,
    trf: RegisterFile<'_>,
) -> Result<Option<Vec<u32>>, Problem> {
    if plan.steps == 0 {
        return Ok(Some(Vec::new()));
    }
    // A tree that is partly inactive would meet zeros instead of nothing.
    let whole = plan.active.is_multiple_of(plan.tree);
    let Some(digits) = digits(plan).filter(|_| whole && plan.rules == &RuleSet::TCP) else { return Ok(None) };
    match Product::new(plan, &digits, packets, trf) {
        Some(product) => product.run().map(Some),
        None => Ok(None),
    }
}

/// One slice's contraction.
struct Product<'a> {
    plan: &'a Plan<'a>,
    elements: &'a [i64],
    /// Digits by what they number.
    batch: Vec<Digit>,
    stream_rows: Vec<Digit>,
    trf_rows: Vec<Digit>,
    summed: Vec<Digit>,
    /// The stream as kernels read it, and its type.
    stream: Cow<'a, [u8]>,
    stream_type: Dtype,
    packet_bytes: usize,
    /// Bytes of the stream elements that one column's tree takes.
    unit: usize,
    trf: RegisterFile<'a>,
    trf_type: Dtype,
    /// Every column meets the same register file elements, so columns are further rows of the stream.
    same_elements: bool,
}

impl<'a> Product<'a> {
    fn new(
        plan: &'a Plan<'a>,
        digits: &'a Digits,
        packets: &'a Packets,
        trf: RegisterFile<'a>,
    ) -> Option<Product<'a>> {
        let select = |which: &dyn Fn(&Digit) -> bool| -> Vec<Digit> {
            digits.steps.iter().filter(|digit| which(digit)).copied().collect()
        };
        let (stream, stream_type) = stream_bytes(plan, packets);
        let trf_type = match plan.image.dtype {
            Dtype::I4 if whole_bytes(plan, digits) => Dtype::I4,
            Dtype::I5 if trf.extra.is_none() && whole_bytes(plan, digits) => Dtype::I4,
            Dtype::I4 | Dtype::I5 => Dtype::I5,
            Dtype::I9 if trf.extra.is_none() => Dtype::I8,
            other => other,
        };
        let mut units = digits.elements.chunks_exact(plan.tree).take(plan.columns);
        let first = units.next()?;
        let product = Product {
            plan,
            elements: &digits.elements,
            batch: select(&|digit| !digit.summed && digit.packet != 0 && digit.trf != 0),
            stream_rows: select(&|digit| !digit.summed && digit.packet != 0 && digit.trf == 0),
            trf_rows: select(&|digit| !digit.summed && digit.packet == 0),
            summed: select(&|digit| digit.summed),
            packet_bytes: stream_type.size_bytes(plan.width),
            unit: stream_type.size_bytes(plan.tree),
            stream,
            stream_type,
            trf,
            trf_type,
            same_elements: units.all(|unit| unit == first),
        };
        let groups = [&product.batch, &product.stream_rows, &product.trf_rows, &product.summed];
        if groups.into_iter().any(|digits| count(digits) > MAX_PLACES) {
            return None;
        }
        let k = count(&product.summed) * plan.tree;
        let stream_bytes = product.rows_a().checked_mul(stream_type.size_bytes(k))?;
        let trf_bytes = product.rows_b().checked_mul(trf_type.size_bytes(k))?;
        (stream_bytes.max(trf_bytes) <= MAX_OPERAND_BYTES).then_some(product)
    }

    /// Columns that one matrix product has, and how many products there are for them.
    fn columns(&self) -> (usize, usize) {
        if self.same_elements { (self.plan.columns, 1) } else { (1, self.plan.columns) }
    }

    fn rows_a(&self) -> usize {
        count(&self.stream_rows) * self.columns().0
    }

    fn rows_b(&self) -> usize {
        count(&self.trf_rows) * self.plan.lanes
    }

    fn run(&self) -> Result<Vec<u32>, Problem> {
        let mut words = vec![0; index(self.plan.words())];
        let shape = Shape {
            rows_a: self.rows_a(),
            rows_b: self.rows_b(),
            k: count(&self.summed) * self.plan.tree,
            tree_elements: self.plan.tree,
            reduce: match self.plan.image.op {
                ContractOp::Add => Reduce::Add,
                ContractOp::Max => Reduce::Max,
            },
        };
        let mut sums = AllSums::new(self.plan, shape.rows_a * shape.rows_b);
        let summed = places(&self.summed);
        for batch in places(&self.batch) {
            for column in 0..self.columns().1 {
                let b = self.trf_operand(&batch, &summed, column);
                let rows = Rows { dtype: self.trf_type, bytes: &b };
                let packed = Stationary::pack(Path::best(), &shape, self.stream_type, rows)?;
                let a = self.stream_operand(&batch, &summed, column);
                sums.reset();
                packed.contract_rows(shape.rows_a, &a, sums.borrow())?;
                self.drain(&batch, column, &sums, &mut words);
            }
        }
        Ok(words)
    }

    /// Rows of the stream: for each row digit and joined column, the tree's elements of every summed step.
    fn stream_operand(&self, batch: &Place, summed: &[Place], column: usize) -> Cow<'_, [u8]> {
        let joined = self.columns().0;
        let row_bytes = summed.len() * self.unit;
        if let Some(rows) = self.lies_in_order(batch) {
            return Cow::Borrowed(rows);
        }
        let mut rows = Vec::with_capacity(self.rows_a() * row_bytes);
        for row in places(&self.stream_rows) {
            for column in column..column + joined {
                for step in summed {
                    let packet = batch.packet + row.packet + step.packet;
                    let first = packet * self.packet_bytes + column * self.unit;
                    rows.extend_from_slice(&self.stream[first..first + self.unit]);
                }
            }
        }
        Cow::Owned(rows)
    }

    /// The rows where they are, if every row is made of whole packets and follows the one before.
    fn lies_in_order(&self, batch: &Place) -> Option<&[u8]> {
        if self.plan.columns != 1 || self.unit != self.packet_bytes {
            return None;
        }
        let mut expected = 1;
        for digit in self.stream_rows.iter().chain(&self.summed).rev() {
            if digit.packet != expected {
                return None;
            }
            expected *= digit.size;
        }
        let first = batch.packet * self.packet_bytes;
        self.stream.get(first..first + expected * self.packet_bytes)
    }

    /// Rows of the register files: lane after lane, for each row digit.
    fn trf_operand(&self, batch: &Place, summed: &[Place], column: usize) -> Vec<u8> {
        let tree = self.plan.tree;
        let elements = &self.elements[column * tree..(column + 1) * tree];
        let contiguous = elements.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let mut rows = Vec::with_capacity(self.rows_b() * self.trf_type.size_bytes(summed.len() * tree));
        for lane in 0..self.plan.lanes {
            let bytes = self.plan.lane(self.trf.bytes, lane);
            let extra = self.trf.extra.map(|extra| self.plan.lane(extra, lane));
            for row in places(&self.trf_rows) {
                for step in summed {
                    let first = batch.trf + row.trf + step.trf;
                    if !contiguous || !self.push_run(&mut rows, bytes, first + elements[0]) {
                        elements.iter().for_each(|more| self.push(&mut rows, bytes, extra, first + more));
                    }
                }
            }
        }
        rows
    }

    /// Appends the tree's neighbours as one run of bytes, if they lie in the register file as kernels read them.
    fn push_run(&self, rows: &mut Vec<u8>, bytes: &[u8], first: i64) -> bool {
        if matches!(self.trf_type, Dtype::I5 | Dtype::I9) {
            return false;
        }
        let length = self.trf_type.size_bytes(self.plan.tree);
        let start = first * i64::from(self.trf_type.storage_bits()) / 8;
        let inside =
            usize::try_from(start).ok().and_then(|start| bytes.get(start..start.checked_add(length)?));
        match inside {
            Some(run) => rows.extend_from_slice(run),
            None => rows.extend((0..length as u64).map(|at| {
                let at = usize::try_from(start + at.cast_signed()).ok();
                at.and_then(|at| bytes.get(at)).copied().unwrap_or(0)
            })),
        }
        true
    }

    fn push(&self, rows: &mut Vec<u8>, bytes: &[u8], extra: Option<&[u8]>, at: i64) {
        let dtype = self.plan.image.dtype;
        let pattern = usize::try_from(at).map_or(0, |at| load_element(dtype, bytes, extra, at));
        push_element(rows, dtype, self.trf_type, pattern);
    }

    /// Puts sums where they leave.
    fn drain(&self, batch: &Place, column: usize, sums: &AllSums, words: &mut [u32]) {
        let joined = self.columns().0;
        let rows_b = self.rows_b();
        let trf_rows = places(&self.trf_rows);
        for (row, stream_row) in places(&self.stream_rows).iter().enumerate() {
            for more in 0..joined {
                let first = (row * joined + more) * rows_b;
                for lane in 0..self.plan.lanes {
                    let word = self.plan.word_of(lane, column + more);
                    for (at, trf_row) in trf_rows.iter().enumerate() {
                        let result = batch.result + stream_row.result + trf_row.result;
                        let sum = sums.word(first + lane * trf_rows.len() + at);
                        words[result * self.plan.block_words() + word] = sum;
                    }
                }
            }
        }
    }
}

/// Whether every tree's 4-bit elements are whole bytes of the register file, one after the other.
fn whole_bytes(plan: &Plan<'_>, digits: &Digits) -> bool {
    let run = |unit: &[i64]| unit[0] % 2 == 0 && unit.windows(2).all(|pair| pair[1] == pair[0] + 1);
    plan.tree > 1
        && digits.steps.iter().all(|digit| digit.trf % 2 == 0)
        && digits.elements.chunks_exact(plan.tree).take(plan.columns).all(run)
}

/// The stream as kernels read it: 4-bit elements stay packed while the tree takes whole bytes.
fn stream_bytes<'a>(plan: &Plan<'_>, packets: &'a Packets) -> (Cow<'a, [u8]>, Dtype) {
    let plain = packets.extra.is_none();
    let to = match plan.dtype {
        Dtype::I4 | Dtype::I5 if plain && plan.tree > 1 => Dtype::I4,
        Dtype::I4 | Dtype::I5 => Dtype::I5,
        Dtype::I9 if plain => Dtype::I8,
        other => other,
    };
    if !matches!(to, Dtype::I5 | Dtype::I9) {
        return (Cow::Borrowed(&packets.bytes), to);
    }
    let elements = flight_elements(plan.dtype, packets.bytes.len());
    let mut bytes = Vec::with_capacity(to.size_bytes(elements));
    for at in 0..elements {
        let pattern = load_element(plan.dtype, &packets.bytes, packets.extra.as_deref(), at);
        push_element(&mut bytes, plan.dtype, to, pattern);
    }
    (Cow::Owned(bytes), to)
}

/// Appends an element of a type as whole bytes of another that holds its values.
fn push_element(bytes: &mut Vec<u8>, from: Dtype, to: Dtype, pattern: u32) {
    let word = if from.is_float() { i64::from(pattern) } else { int_value(from, pattern) };
    bytes.extend_from_slice(&word.to_le_bytes()[..to.size_bytes(1)]);
}

/// Where some iterations of digits are, for everyone.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    packet: usize,
    trf: i64,
    result: usize,
}

fn count(digits: &[Digit]) -> usize {
    digits.iter().map(|digit| digit.size).product()
}

/// All iterations of digits, outermost first.
fn places(digits: &[Digit]) -> Vec<Place> {
    let mut all = vec![Place::default()];
    for digit in digits {
        let step = |place: &Place, at: usize| Place {
            packet: place.packet + at * digit.packet,
            trf: place.trf + (at as u64).cast_signed() * digit.trf,
            result: place.result + at * digit.result,
        };
        all = all.iter().flat_map(|place| (0..digit.size).map(move |at| step(place, at))).collect();
    }
    all
}

/// Accumulators of either kind.
enum AllSums {
    Ints(Vec<i32>, i32),
    Floats(Vec<f32>, f32),
}

impl AllSums {
    fn new(plan: &Plan<'_>, count: usize) -> AllSums {
        let max = plan.image.op == ContractOp::Max;
        if plan.dtype.is_float() {
            AllSums::Floats(vec![0.0; count], if max { f32::NEG_INFINITY } else { 0.0 })
        } else {
            AllSums::Ints(vec![0; count], if max { i32::MIN } else { 0 })
        }
    }

    fn reset(&mut self) {
        match self {
            AllSums::Ints(sums, start) => sums.fill(*start),
            AllSums::Floats(sums, start) => sums.fill(*start),
        }
    }

    fn borrow(&mut self) -> Sums<'_> {
        match self {
            AllSums::Ints(sums, _) => Sums::I32(sums),
            AllSums::Floats(sums, _) => Sums::F32(sums),
        }
    }

    fn word(&self, at: usize) -> u32 {
        match self {
            AllSums::Ints(sums, _) => sums[at].cast_unsigned(),
            AllSums::Floats(sums, _) => sums[at].to_bits(),
        }
    }
}
