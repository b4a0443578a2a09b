//! Which elements of a place earlier writes of the same tensor put there, element by element: two patterns
//! with gaps may lie in each other's gaps, and rows that a tile picks or a mask leaves out follow no loops.

use crate::TensorView;
use crate::pattern::as_u64;

/// For each element of a view the number of the last of `writes` that touches one of its bytes.
pub fn last_writes<'w>(
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
pub fn differs(marked: &[bool], before: &[u8], after: &[u8]) -> bool {
    let size = before.len().checked_div(marked.len()).unwrap_or(0).max(1);
    let pairs = before.chunks(size).zip(after.chunks(size));
    marked.iter().zip(pairs).any(|(&marked, (was, is))| marked && was != is)
}
