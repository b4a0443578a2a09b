//! Loops whose parts lie further apart than any memory is large.

use tilewright_tcp_isa::footprint::walk::{TouchedOffsets, WalkLimit, WalkLoop};

#[test]
fn parts_that_lie_too_far_apart_are_a_range_that_no_memory_has() {
    let far = WalkLoop { size: 8, stride: 1 << 62 };
    let limit = WalkLimit { extent: 100, weights: vec![1, 1] };
    let walked = TouchedOffsets::of_limited(&[far, WalkLoop { size: 9, stride: 1 }], 1, &[limit]);
    assert!(!walked.offsets.is_exact());
    assert!(walked.placed(0, 1, 1 << 40).outside.is_some_and(|(_, end)| end > 1 << 61));
}
