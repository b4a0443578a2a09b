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
        let take = |sums: &mut [f32], a: &[f32], b: f32| add_scaled(path, sums, a, b);
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
    let mut sums = vec![T::default(); plan.columns];
    for lane in 0..plan.lanes {
        let bytes = plan.lane(trf.bytes, lane);
        let extra = trf.extra.map(|extra| plan.lane(extra, lane));
        let element = |at: i64| {
            let pattern = |at| load_element(plan.image.dtype, bytes, extra, at);
            read(usize::try_from(at).map_or(0, pattern))
        };
        for batch in &layout.batch {
            for stream_row in &layout.stream_rows {
                for trf_row in &layout.trf_rows {
                    sums.fill(T::default());
                    for step in &layout.summed {
                        let packet = batch.packet + stream_row.packet + step.packet;
                        let b = element(batch.trf + trf_row.trf + step.trf + first);
                        take(&mut sums, &stream[packet * plan.width..][..plan.columns], b);
                    }
                    let result = batch.result + stream_row.result + trf_row.result;
                    let block = &mut words[result * plan.block_words()..][..plan.block_words()];
                    for (column, sum) in sums.iter().enumerate() {
                        block[plan.word_of(lane, column)] = word(*sum);
                    }
                }
            }
        }
    }
    words
}
