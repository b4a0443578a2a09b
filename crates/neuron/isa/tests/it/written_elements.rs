//! Last writes of elements, through gaps, skipped elements and other types.

use tilewright_neuron_isa::TensorView;
use tilewright_neuron_isa::pattern::{PatternDim, SKIP};
use tilewright_neuron_isa::written_elements::{differs, last_writes};
use tilewright_num::Dtype;

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
