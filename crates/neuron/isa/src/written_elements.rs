//! Which elements of a place earlier writes of the same tensor put there, element by element: two patterns
//! with gaps may lie in each other's gaps, and rows that a tile picks or a mask leaves out follow no loops.

use tilewright_neuron_isa::TensorView;
use tilewright_neuron_isa::pattern::as_u64;

/// For each element of a view the number of the last of `writes` that touches one of its bytes.
pub(crate) fn last_writes<'w>(
    view: &TensorView,
    writes: impl Iterator<Item = &'w TensorView>,
) -> Vec<Option<usize>> {
    let size = as_u64(view.dtype.size_bytes(1)).max(1);
    let offsets = view.offsets();
    // Elements that are left out have a negative offset.
    let mut places: Vec<(u64, usize)> = offsets
        .iter()
        .enumerate()
        .filter_map(|(at, &offset)| Some((u64::try_from(offset).ok()?.checked_mul(size)?, at)))
        .collect();
    places.sort_unstable();
    let mut last = vec![None; offsets.len()];
    for (number, write) in writes.enumerate() {
        let step_bytes = as_u64(write.dtype.size_bytes(1)).max(1);
        let mut mark = |first: u64, end: u64| {
            let from = places.partition_point(|place| place.0.saturating_add(size) <= first);
            for &(_, at) in places[from..].iter().take_while(|place| place.0 < end) {
                last[at] = Some(number);
            }
        };
        write.visit(|start, steps, stride| {
            let Some(start) = start else { return };
            if stride == 1 {
                let first = as_u64(start).saturating_mul(step_bytes);
                mark(first, first.saturating_add(as_u64(steps).saturating_mul(step_bytes)));
                return;
            }
            let mut at = start;
            for _ in 0..if stride == 0 { 1 } else { steps } {
                let first = as_u64(at).saturating_mul(step_bytes);
                mark(first, first.saturating_add(step_bytes));
                at = at.wrapping_add_signed(stride);
            }
        });
    }
    last
}

/// Whether an element that is marked differs between two copies of a view's bytes.
pub(crate) fn differs(marked: &[bool], before: &[u8], after: &[u8]) -> bool {
    let size = before.len().checked_div(marked.len()).unwrap_or(0).max(1);
    let pairs = before.chunks(size).zip(after.chunks(size));
    marked.iter().zip(pairs).any(|(&marked, (was, is))| marked && was != is)
}

#[cfg(test)]
mod tests {
    use tilewright_neuron_isa::pattern::{PatternDim, SKIP};
    use tilewright_num::Dtype;

    use super::*;

    fn strided(offset: usize, size: usize, stride: isize) -> TensorView {
        let mut view = TensorView::whole(&[size], Dtype::F32, 0);
        view.offset = offset;
        view.dims = [PatternDim { size, stride }].into_iter().collect();
        view
    }

    #[test]
    fn the_last_write_of_each_element_is_found() {
        let view = strided(2, 4, 1);
        let all = [strided(0, 3, 1), strided(3, 3, 2), strided(5, 1, 0)];
        assert_eq!(last_writes(&view, all.iter()), [Some(0), Some(1), None, Some(2)]);
        // Into the gaps of one another.
        assert_eq!(last_writes(&strided(0, 4, 2), [strided(1, 4, 2)].iter()), [None; 4]);
        // What is left out is touched by nobody and touches nothing.
        let mut skips = strided(0, 4, 1);
        skips.gather = Some([2, SKIP, 4, 5].into());
        assert_eq!(last_writes(&view, [skips.clone()].iter()), [Some(0), None, Some(0), Some(0)]);
        assert_eq!(last_writes(&skips, [view].iter()), [Some(0), None, Some(0), Some(0)]);
    }

    #[test]
    fn other_types_over_the_same_bytes_are_seen() {
        let mut bytes = strided(5, 2, 1);
        bytes.dtype = Dtype::U8;
        assert_eq!(last_writes(&strided(0, 3, 1), [bytes].iter()), [None, Some(0), None]);
        assert!(differs(&[false, true], &[0, 0, 1, 1], &[9, 0, 1, 2]));
        assert!(!differs(&[false, true], &[0, 0, 1, 1], &[9, 0, 1, 1]) && !differs(&[], &[], &[]));
    }
}
