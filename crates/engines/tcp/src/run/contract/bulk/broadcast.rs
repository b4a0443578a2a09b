//! Contractions without depth: the register file loop of a packet stands still, so that one element meets the whole packet, and the
//! tree sums nothing. Products are scaled packets, added step after step.

use tilewright_num::{decode, decode_slice, int_value};

use super::{Layout, RegisterFile};
use crate::run::index;
use crate::run::packets::{Packets, flight_elements, load_element};
use crate::values::{Path, add_scaled, sum_word};

/// Words of the flits that leave.
pub(super) fn words(layout: &Layout<'_>, packets: &Packets, trf: RegisterFile<'_>) -> Vec<u32> {
    let plan = &layout.plan;
    let elements = flight_elements(plan.dtype, packets.bytes.len());
    if plan.dtype.is_float() {
        let mut stream = vec![0.0; elements];
        decode_slice(plan.rules, plan.dtype, &packets.bytes, &mut stream);
        let read = |pattern: u32| decode(plan.rules, plan.image.dtype, pattern);
        // Only the chip's rules come here.
        let path = Path::best();
        // Zero times what is finite changes no sum: sums begin with plus zero, and none of them becomes minus zero.
        let finite = stream.iter().all(|value| value.is_finite());
        let take = |sums: &mut [f32], a: &[f32], b: f32| {
            if b != 0.0 || !finite {
                add_scaled(path, sums, a, b);
            }
        };
        run(layout, &stream, trf, read, take, sum_word)
    } else {
        let extra = packets.extra.as_deref();
        let value = |at| narrow(int_value(plan.dtype, load_element(plan.dtype, &packets.bytes, extra, at)));
        let stream: Vec<i32> = (0..elements).map(value).collect();
        let read = |pattern: u32| narrow(int_value(plan.image.dtype, pattern));
        let take = |sums: &mut [i32], a: &[i32], b: i32| {
            sums.iter_mut().zip(a).for_each(|(sum, a)| *sum = sum.wrapping_add(a.wrapping_mul(b)));
        };
        run(layout, &stream, trf, read, take, i32::cast_unsigned)
    }
}

/// A value of at most 9 bits.
fn narrow(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(0)
}

fn run<T: Copy + Default>(
    layout: &Layout<'_>,
    stream: &[T],
    trf: RegisterFile<'_>,
    read: impl Fn(u32) -> T,
    take: impl Fn(&mut [T], &[T], T),
    word: impl Fn(T) -> u32,
) -> Vec<u32> {
    let plan = &layout.plan;
    let mut words = vec![0; index(plan.words())];
    let first = layout.elements.first().copied().unwrap_or(0);
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
                        take(&mut sums, &stream[packet * plan.width..][..plan.columns * joined], b);
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

impl Layout<'_> {
    /// Rows of the stream that are taken together: all, if they are neighbouring packets in whole.
    fn joined_rows(&self) -> usize {
        let neighbours = self.stream_rows.iter().enumerate().all(|(at, row)| row.packet == at);
        let whole = self.plan.columns == self.plan.width;
        if neighbours && whole { self.stream_rows.len().max(1) } else { 1 }
    }
}
