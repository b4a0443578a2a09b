//! Contractions without depth: the register file loop of a packet has stride 0, so that one element meets the
//! whole packet, and the tree sums nothing. Products are scaled packets, added step after step.

use std::ops::Range;

use tilewright_base::invariant::OrBroken;
use tilewright_num::{Dtype, RuleSet, decode, decode_slice, int_value};

use super::{ContractionPlan, ProductLayout, RegisterFileView};
use crate::limits::index;
use crate::packets::{Packets, flight_elements, load_element};
use crate::values::{SimdPath, add_scaled, sum_word};

/// Words of the flits that leave.
pub(super) fn words(layout: &ProductLayout<'_>, packets: &Packets, trf: RegisterFileView<'_>) -> Vec<u32> {
    let plan = &layout.plan;
    if plan.dtype.is_float() {
        let mut stream = FloatStream::new(plan, packets);
        let read = |pattern: u32| decode(plan.rules, plan.image.dtype, pattern);
        run(layout, trf, read, |sums: &mut [f32], part, b| stream.add(sums, part, b), sum_word)
    } else {
        let extra = packets.extra.as_deref();
        let value = |at| narrow(int_value(plan.dtype, load_element(plan.dtype, &packets.bytes, extra, at)));
        let elements = flight_elements(plan.dtype, packets.bytes.len());
        let stream: Vec<i32> = (0..elements).map(value).collect();
        let read = |pattern: u32| narrow(int_value(plan.image.dtype, pattern));
        let take = |sums: &mut [i32], part: Range<usize>, b: i32| {
            let row = &stream[part];
            sums.iter_mut().zip(row).for_each(|(sum, a)| *sum = sum.wrapping_add(a.wrapping_mul(b)));
        };
        run(layout, trf, read, take, i32::cast_unsigned)
    }
}

/// Floats of the stream; those of bf16 are decoded when they first meet something.
struct FloatStream<'p> {
    rules: &'p RuleSet,
    path: SimdPath,
    /// What is not decoded yet, none of it if this is empty.
    bytes: &'p [u8],
    values: Vec<f32>,
    /// Elements of a packet, and whether each packet is decoded.
    width: usize,
    decoded: Vec<bool>,
    finite: bool,
}

impl<'p> FloatStream<'p> {
    fn new(plan: &ContractionPlan<'p>, packets: &'p Packets) -> FloatStream<'p> {
        // Only the chip's rules come here.
        let (rules, path, width) = (plan.rules, SimdPath::best(), plan.width.max(1));
        let mut values = vec![0.0; flight_elements(plan.dtype, packets.bytes.len())];
        if plan.dtype != Dtype::Bf16 {
            decode_slice(rules, plan.dtype, &packets.bytes, &mut values);
            let finite = values.iter().all(|value| value.is_finite());
            return FloatStream { rules, path, bytes: &[], values, width, decoded: Vec::new(), finite };
        }
        let bytes = packets.bytes.as_slice();
        let decoded = vec![false; values.len().div_ceil(width)];
        FloatStream { rules, path, bytes, values, width, decoded, finite: bf16_finite(bytes) }
    }

    /// Adds some elements times a factor to sums.
    fn add(&mut self, sums: &mut [f32], part: Range<usize>, factor: f32) {
        // Zero times what is finite changes no sum: sums begin with plus zero, and none of them becomes minus
        // zero.
        if factor == 0.0 && self.finite {
            return;
        }
        if !self.bytes.is_empty() {
            (part.start / self.width..part.end.div_ceil(self.width)).for_each(|packet| self.decode(packet));
        }
        add_scaled(self.path, sums, &self.values[part], factor);
    }

    fn decode(&mut self, packet: usize) {
        let Some(decoded) = self.decoded.get_mut(packet) else { return };
        if !std::mem::replace(decoded, true) {
            let part = packet * self.width..self.values.len().min((packet + 1) * self.width);
            let bytes = &self.bytes[2 * part.start..2 * part.end];
            decode_slice(self.rules, Dtype::Bf16, bytes, &mut self.values[part]);
        }
    }
}

/// Whether none of the elements is infinite or NaN.
fn bf16_finite(bytes: &[u8]) -> bool {
    let magnitude = |half: &[u8; 2]| (u16::from_le_bytes(*half) & 0x7FFF).cast_signed();
    bytes.as_chunks().0.iter().map(magnitude).fold(0, i16::max) < 0x7F80
}

/// A value of at most 9 bits.
fn narrow(value: i64) -> i32 {
    i32::try_from(value).or_broken("an integer of at most 9 bits")
}

fn run<T: Copy + Default>(
    layout: &ProductLayout<'_>,
    trf: RegisterFileView<'_>,
    read: impl Fn(u32) -> T,
    mut take: impl FnMut(&mut [T], Range<usize>, T),
    word: impl Fn(T) -> u32,
) -> Vec<u32> {
    let plan = &layout.plan;
    let mut words = vec![0; index(plan.words())];
    let first = *layout.elements.first().or_broken("a step meets a register file element");
    let joined = layout.joined_rows();
    let mut sums = vec![T::default(); plan.columns * joined];
    for lane in 0..plan.lanes {
        let bytes = plan.lane(trf.bytes, lane);
        let extra = trf.extra.map(|extra| plan.lane(extra, lane));
        let element = |at: i64| {
            let pattern = |at| load_element(plan.image.dtype, bytes, extra, at);
            read(usize::try_from(at).map_or(0, pattern))
        };
        for batch in &layout.batch {
            for stream_rows in layout.stream_rows.chunks(joined) {
                for trf_row in &layout.trf_rows {
                    let Some(start) = stream_rows.first() else { continue };
                    sums.fill(T::default());
                    for step in &layout.summed {
                        let packet = batch.packet + start.packet + step.packet;
                        let b = element(batch.trf + trf_row.trf + step.trf + first);
                        let first = packet * plan.width;
                        take(&mut sums, first..first + plan.columns * joined, b);
                    }
                    for (sums, stream_row) in sums.chunks(plan.columns).zip(stream_rows) {
                        let result = batch.result + stream_row.result + trf_row.result;
                        let block = &mut words[result * plan.block_words()..][..plan.block_words()];
                        for (column, sum) in sums.iter().enumerate() {
                            block[plan.word_of(lane, column)] = word(*sum);
                        }
                    }
                }
            }
        }
    }
    words
}

impl ProductLayout<'_> {
    /// Rows of the stream that are taken together: all, if they are neighbouring packets in whole.
    fn joined_rows(&self) -> usize {
        let neighbours = self.stream_rows.iter().enumerate().all(|(at, row)| row.packet == at);
        let whole = self.plan.columns == self.plan.width;
        if neighbours && whole { self.stream_rows.len().max(1) } else { 1 }
    }
}
