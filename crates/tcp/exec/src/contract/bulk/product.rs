//! One slice's contraction as matrix products.

use std::borrow::Cow;

use tilewright_num::{Dtype, int_value};
use tilewright_tcp_isa::program::exec::ContractOp;

use super::accumulators::AccumulatorValues;
use super::{DigitOffsets, MAX_OPERAND_BYTES, ProductLayout, RegisterFileView};
use crate::contract::plan::ContractionPlan;
use crate::fault::ExecProblem;
use crate::limits::index;
use crate::packets::{Packets, flight_elements, load_element};
use crate::values::{ContractionShape, OperandRows, SimdPath, StationaryOperand, TreeReduce, dot_i8};

/// Rows of the stream that meet rows of i8 one by one; more are worth packing the register files.
const DOT_ROWS: usize = 16;

pub(super) struct SliceProduct<'a> {
    pub(super) layout: &'a ProductLayout<'a>,
    /// The stream as kernels read it, and its type.
    pub(super) stream: Cow<'a, [u8]>,
    pub(super) stream_type: Dtype,
    packet_bytes: usize,
    /// Bytes of the stream elements that one column's tree takes.
    unit: usize,
    /// Those of them that are active.
    active: usize,
    pub(super) trf: RegisterFileView<'a>,
    pub(super) trf_type: Dtype,
}

impl<'a> SliceProduct<'a> {
    /// `None` if an operand would be too large.
    pub(super) fn new(
        layout: &'a ProductLayout<'a>,
        packets: &'a Packets,
        trf: RegisterFileView<'a>,
    ) -> Option<SliceProduct<'a>> {
        let plan = &layout.plan;
        let (stream, stream_type) = stream_bytes(plan, packets);
        let trf_type = match plan.image.dtype {
            Dtype::I4 if layout.whole_bytes => Dtype::I4,
            Dtype::I5 if trf.extra.is_none() && layout.whole_bytes => Dtype::I4,
            Dtype::I4 | Dtype::I5 => Dtype::I5,
            Dtype::I9 if trf.extra.is_none() => Dtype::I8,
            other => other,
        };
        let stream_bytes = layout.rows_a().checked_mul(stream_type.size_bytes(layout.k()))?;
        let trf_bytes = layout.rows_b().checked_mul(trf_type.size_bytes(layout.k()))?;
        (stream_bytes.max(trf_bytes) <= MAX_OPERAND_BYTES).then(|| SliceProduct {
            layout,
            packet_bytes: stream_type.size_bytes(plan.width),
            unit: stream_type.size_bytes(plan.tree),
            active: stream_type.size_bytes(plan.tree.min(plan.active)),
            stream,
            stream_type,
            trf,
            trf_type,
        })
    }

    pub(super) fn run(&self) -> Result<Vec<u32>, ExecProblem> {
        let (layout, plan) = (self.layout, &self.layout.plan);
        let mut words = vec![0; index(plan.words())];
        let shape = ContractionShape {
            rows_a: layout.rows_a(),
            rows_b: layout.rows_b(),
            k: layout.k(),
            tree_elements: plan.tree,
            reduce: match plan.image.op {
                ContractOp::Add => TreeReduce::Add,
                ContractOp::Max => TreeReduce::Max,
            },
        };
        let bytes = self.stream_type == Dtype::I8 && self.trf_type == Dtype::I8;
        let dots = bytes && shape.reduce == TreeReduce::Add && shape.rows_a <= DOT_ROWS;
        let mut sums = AccumulatorValues::new(plan, shape.rows_a * shape.rows_b);
        for batch in &layout.batch {
            for column in 0..layout.columns().1 {
                let a = self.stream_operand(batch, column);
                if self.few(batch, column, &a, &mut words) {
                    continue;
                }
                sums.reset();
                match &mut sums {
                    AccumulatorValues::Ints(sums, _) if dots => self.dots(batch, column, &a, sums),
                    sums => {
                        let b = self.trf_operand(batch, column);
                        let rows = OperandRows { dtype: self.trf_type, bytes: &b };
                        let packed =
                            StationaryOperand::pack(SimdPath::best(), &shape, self.stream_type, rows)?;
                        packed.contract_rows(shape.rows_a, &a, sums.borrow())?;
                    }
                }
                self.drain(batch, column, &sums, &mut words);
            }
        }
        Ok(words)
    }

    /// Rows of the stream: for each row digit and joined column, the tree's elements of every summed step.
    pub(super) fn stream_operand(&self, batch: &DigitOffsets, column: usize) -> Cow<'_, [u8]> {
        let (layout, joined) = (self.layout, self.layout.columns().0);
        let first = batch.packet * self.packet_bytes;
        let in_order = layout.packets_in_order.map(|packets| first..first + packets * self.packet_bytes);
        if let Some(rows) = in_order.and_then(|range| self.stream.get(range)) {
            return Cow::Borrowed(rows);
        }
        let mut rows = Vec::with_capacity(layout.rows_a() * layout.summed.len() * self.unit);
        for row in &layout.stream_rows {
            for column in column..column + joined {
                for step in &layout.summed {
                    let packet = batch.packet + row.packet + step.packet;
                    let first = packet * self.packet_bytes + column * self.unit;
                    rows.extend_from_slice(&self.stream[first..first + self.active]);
                    rows.resize(rows.len() + self.unit - self.active, 0);
                }
            }
        }
        Cow::Owned(rows)
    }

    /// Every row of the stream with every row of the register files.
    fn dots(&self, batch: &DigitOffsets, column: usize, a: &[u8], sums: &mut [i32]) {
        let path = SimdPath::best();
        let (rows_a, rows_b) = (self.layout.rows_a(), self.layout.rows_b());
        let mut own = vec![0_i32; rows_a];
        let mut gathered = Vec::new();
        let mut at = 0;
        for lane in 0..self.layout.plan.lanes {
            for row in &self.layout.trf_rows {
                own.fill(0);
                dot_i8(path, a, self.trf_row(batch, row, column, lane, &mut gathered), &mut own);
                for (row_a, sum) in own.iter().enumerate() {
                    sums[row_a * rows_b + at] = *sum;
                }
                at += 1;
            }
        }
    }

    /// A row of bytes of the register file: where it is, if it is one run.
    fn trf_row<'b>(
        &'b self,
        batch: &DigitOffsets,
        row: &DigitOffsets,
        column: usize,
        lane: usize,
        gathered: &'b mut Vec<u8>,
    ) -> &'b [u8] {
        let elements = self.layout.unit(column);
        if self.layout.trf_in_order && is_run(elements) {
            let bytes = self.layout.plan.lane(self.trf.bytes, lane);
            let start = usize::try_from(batch.trf + row.trf + elements[0]).ok();
            if let Some(run) = start.and_then(|start| bytes.get(start..start + self.layout.k())) {
                return run;
            }
        }
        gathered.clear();
        self.push_row(gathered, batch, row, column, lane);
        gathered
    }

    /// Rows of the register files: lane after lane, for each row digit.
    pub(super) fn trf_operand(&self, batch: &DigitOffsets, column: usize) -> Vec<u8> {
        let layout = self.layout;
        if let Some(rows) = self.trf_runs(batch, column) {
            return rows;
        }
        let mut rows = Vec::with_capacity(layout.rows_b() * self.trf_type.size_bytes(layout.k()));
        for lane in 0..layout.plan.lanes {
            for row in &layout.trf_rows {
                self.push_row(&mut rows, batch, row, column, lane);
            }
        }
        rows
    }

    /// [`Self::trf_operand`] where what each step meets is one run of bytes inside the register file.
    fn trf_runs(&self, batch: &DigitOffsets, column: usize) -> Option<Vec<u8>> {
        let (layout, elements) = (self.layout, self.layout.unit(column));
        if !matches!(self.trf_type, Dtype::I8 | Dtype::Bf16) || !is_run(elements) {
            return None;
        }
        let size = self.trf_type.size_bytes(1);
        let (first, whole) = (batch.trf + elements.first()?, [DigitOffsets::default()]);
        let (steps, run, place_bytes) = match layout.trf_in_order {
            true => (whole.as_slice(), layout.k() * size, layout.k() * size),
            false => (layout.summed.as_slice(), elements.len() * size, layout.plan.tree * size),
        };
        let mut rows = vec![0; layout.rows_b() * steps.len() * place_bytes];
        let mut places = rows.chunks_exact_mut(place_bytes.max(1));
        for lane in 0..layout.plan.lanes {
            let bytes = layout.plan.lane(self.trf.bytes, lane);
            for row in &layout.trf_rows {
                for step in steps {
                    let start = usize::try_from(first + row.trf + step.trf).ok()?.checked_mul(size)?;
                    let found = bytes.get(start..start.checked_add(run)?)?;
                    copy(found, places.next()?.get_mut(..run)?);
                }
            }
        }
        Some(rows)
    }

    fn push_row(
        &self,
        rows: &mut Vec<u8>,
        batch: &DigitOffsets,
        row: &DigitOffsets,
        column: usize,
        lane: usize,
    ) {
        let plan = &self.layout.plan;
        let elements = self.layout.unit(column);
        let contiguous = is_run(elements);
        let bytes = plan.lane(self.trf.bytes, lane);
        let extra = self.trf.extra.map(|extra| plan.lane(extra, lane));
        if contiguous && self.layout.trf_in_order {
            let first = batch.trf + row.trf + elements[0];
            if self.push_run(rows, bytes, first, self.layout.k()) {
                return;
            }
        }
        for step in &self.layout.summed {
            let first = batch.trf + row.trf + step.trf;
            if !contiguous || !self.push_run(rows, bytes, first + elements[0], elements.len()) {
                elements.iter().for_each(|more| self.push(rows, bytes, extra, first + more));
            }
            let inactive = plan.tree - elements.len();
            if inactive > 0 {
                rows.resize(rows.len() + self.trf_type.size_bytes(inactive), 0);
            }
        }
    }

    /// Appends neighbours as one run of bytes, if they lie in the register file as kernels read them.
    fn push_run(&self, rows: &mut Vec<u8>, bytes: &[u8], first: i64, elements: usize) -> bool {
        if matches!(self.trf_type, Dtype::I5 | Dtype::I9) {
            return false;
        }
        let length = self.trf_type.size_bytes(elements);
        let start = first * i64::from(self.trf_type.storage_bits()) / 8;
        let inside =
            usize::try_from(start).ok().and_then(|start| bytes.get(start..start.checked_add(length)?));
        match inside {
            Some(run) => rows.extend_from_slice(run),
            None => rows.extend((0..length as u64).map(|at| {
                let at = usize::try_from(start + at.cast_signed()).ok();
                // Outside the register file there are zeros.
                at.and_then(|at| bytes.get(at)).map_or(0, |byte| *byte)
            })),
        }
        true
    }

    fn push(&self, rows: &mut Vec<u8>, bytes: &[u8], extra: Option<&[u8]>, at: i64) {
        let dtype = self.layout.plan.image.dtype;
        let pattern = usize::try_from(at).map_or(0, |at| load_element(dtype, bytes, extra, at));
        push_element(rows, dtype, self.trf_type, pattern);
    }

    /// Puts sums where they leave.
    fn drain(&self, batch: &DigitOffsets, column: usize, sums: &AccumulatorValues, words: &mut [u32]) {
        let (layout, plan) = (self.layout, &self.layout.plan);
        let (joined, rows_b) = (layout.columns().0, layout.rows_b());
        for (row, stream_row) in layout.stream_rows.iter().enumerate() {
            for more in 0..joined {
                let first = (row * joined + more) * rows_b;
                for lane in 0..plan.lanes {
                    let word = plan.word_of(lane, column + more);
                    for (at, trf_row) in layout.trf_rows.iter().enumerate() {
                        let result = batch.result + stream_row.result + trf_row.result;
                        let sum = sums.word(first + lane * layout.trf_rows.len() + at);
                        words[result * plan.block_words() + word] = sum;
                    }
                }
            }
        }
    }
}

/// Copies a run; those of usual sizes without a call.
fn copy(from: &[u8], to: &mut [u8]) {
    if let (Ok(from), Ok(to)) = (<&[u8; 64]>::try_from(from), <&mut [u8; 64]>::try_from(&mut *to)) {
        *to = *from;
    } else if let (Ok(from), Ok(to)) = (<&[u8; 48]>::try_from(from), <&mut [u8; 48]>::try_from(&mut *to)) {
        *to = *from;
    } else {
        to.copy_from_slice(from);
    }
}

pub(super) fn is_run(elements: &[i64]) -> bool {
    elements.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

/// The stream as kernels read it: 4-bit elements stay packed while the tree takes whole bytes.
fn stream_bytes<'a>(plan: &ContractionPlan<'_>, packets: &'a Packets) -> (Cow<'a, [u8]>, Dtype) {
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
