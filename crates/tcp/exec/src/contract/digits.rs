//! The loops of a contraction cut until each has one meaning for everyone: for the step loops, the feed unit
//! and the register file.
//!
//! All of them count the same sequence, the elements of all steps. Their borders, seen from the innermost
//! element outwards, must divide one another; then every piece between two borders lies within one loop of
//! each.

use smallvec::SmallVec;

use super::plan::ContractionPlan;

/// A piece of the step loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoopDigit {
    pub(super) size: usize,
    pub(super) summed: bool,
    /// Packets between iterations; 0 while a packet is held.
    pub(super) packet: usize,
    /// Register file elements between iterations.
    pub(super) trf: i64,
    /// Results between iterations; 0 if summed.
    pub(super) result: usize,
}

/// All pieces, outermost first, and what the register file does within a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoopDigits {
    pub(super) steps: SmallVec<[LoopDigit; 8]>,
    /// Register file element of each packet element, from the first.
    pub(super) elements: Vec<i64>,
}

/// A loop as part of the whole sequence: what one iteration counts, and up to where.
#[derive(Clone, Copy)]
struct LoopSpan<T> {
    low: u64,
    high: u64,
    value: T,
}

/// Cuts the loops; `None` if their borders do not divide one another.
pub(super) fn digits(plan: &ContractionPlan<'_>) -> Option<LoopDigits> {
    let width = plan.active as u64;
    let step_loops = plan.image.steps.iter().map(|step| (step.size.fixed(), step.summed));
    let steps = spans(width, step_loops)?;
    let walk = spans(1, plan.image.loops.iter().map(|row| (row.size.fixed(), row.stride)))?;
    let all = width.checked_mul(plan.steps)?;
    let held = width.checked_mul(plan.repeats)?;
    let mut borders: SmallVec<[u64; 24]> = [1, width, held, all].into_iter().collect();
    borders.extend(steps.iter().map(|span| span.low));
    borders.extend(walk.iter().map(|span| span.low));
    borders.sort_unstable();
    borders.dedup();
    let mut found = LoopDigits { steps: SmallVec::new(), elements: vec![0] };
    let mut results = 1_usize;
    for pair in borders.windows(2) {
        let (low, high) = (pair[0], pair[1]);
        if !high.is_multiple_of(low) {
            return None;
        }
        let size = usize::try_from(high / low).ok()?;
        let row = within(&walk, low)?;
        let stride = row.value.checked_mul((low / row.low).cast_signed())?;
        if low < width {
            found.elements = repeated(&found.elements, size, stride)?;
            continue;
        }
        let summed = within(&steps, low)?.value;
        let packet = if low < held { 0 } else { usize::try_from(low / held).ok()? };
        let result = if summed { 0 } else { results };
        found.steps.push(LoopDigit { size, summed, packet, trf: stride, result });
        results *= if summed { 1 } else { size };
    }
    found.steps.reverse();
    Some(found)
}

/// Loops, outermost first, as spans of a sequence whose innermost iteration counts `unit`; loops of one
/// iteration are left out.
fn spans<T: Copy>(
    unit: u64,
    loops: impl DoubleEndedIterator<Item = (u64, T)>,
) -> Option<SmallVec<[LoopSpan<T>; 8]>> {
    let mut low = unit;
    let mut spans = SmallVec::new();
    for (size, value) in loops.rev().filter(|(size, _)| *size != 1) {
        let high = low.checked_mul(size)?;
        spans.push(LoopSpan { low, high, value });
        low = high;
    }
    Some(spans)
}

fn within<T: Copy>(spans: &[LoopSpan<T>], at: u64) -> Option<LoopSpan<T>> {
    spans.iter().find(|span| (span.low..span.high).contains(&at)).copied()
}

/// The offsets again and again, each time further on.
fn repeated(offsets: &[i64], times: usize, stride: i64) -> Option<Vec<i64>> {
    let mut all = Vec::with_capacity(offsets.len() * times);
    for time in 0..times as u64 {
        let more = stride.checked_mul(time.cast_signed())?;
        for offset in offsets {
            all.push(offset.checked_add(more)?);
        }
    }
    Some(all)
}
