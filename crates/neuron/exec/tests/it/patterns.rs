//! Views against plain enumeration: slices, reshapes, permutations, regions and copies.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use crate::chips;

use std::sync::Arc;

use proptest::prelude::*;
use tilewright_neuron_exec::{Storage, Tile, convert};
use tilewright_neuron_isa::pattern::PatternDim;
use tilewright_neuron_isa::{MemorySpace, TensorAccess, TensorDecl, TensorRegion, TensorView};
use tilewright_num::{Dtype, RuleSet};

fn request(memory: MemorySpace, dtype: Dtype, shape: &[usize]) -> TensorDecl {
    TensorDecl { id: 7, memory, dtype, shape: shape.to_vec(), blocks: 0, name: String::new(), source: 0 }
}

/// A tensor whose element i holds the value i.
fn counted(memory: MemorySpace, shape: &[usize]) -> Tile {
    let storage = Storage::poisoned(request(memory, Dtype::F32, shape)).unwrap();
    let view = TensorView::whole(shape, Dtype::F32, 0);
    let tile = Tile { storage: Arc::new(storage), view };
    let values: Vec<f32> = (0..tile.elements()).map(|at| at as f32).collect();
    tile.write(&RuleSet::NEURON, &values);
    tile
}

fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..5, 1..5)
}

/// A view of a tensor of that shape, made of slices and a permutation.
fn views(shape: Vec<usize>) -> impl Strategy<Value = (Vec<usize>, TensorView)> {
    let rank = shape.len();
    let cuts = prop::collection::vec((0_usize..4, 1_usize..4, 1_usize..3), rank);
    let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
    (cuts, order).prop_map(move |(cuts, order)| {
        let mut view = TensorView::whole(&shape, Dtype::F32, 0);
        for (axis, (start, count, step)) in cuts.into_iter().enumerate() {
            // A slice that leaves the tensor is refused and changes nothing.
            let _ = view.slice(axis, start, count, step);
        }
        (shape.clone(), view.permute(&order).unwrap())
    })
}

/// Offsets by nested loops, one index at a time.
fn enumerate(view: &TensorView) -> Vec<i64> {
    let mut offsets = vec![view.offset as i64];
    for dim in &view.dims {
        offsets = offsets
            .iter()
            .flat_map(|&at| (0..dim.size as i64).map(move |step| at + step * dim.stride as i64))
            .collect();
    }
    offsets
}

proptest! {
    #[test]
    fn views_read_what_enumeration_names((shape, view) in shapes().prop_flat_map(views)) {
        let whole = counted(MemorySpace::Hbm, &shape);
        let tile = Tile { view: view.clone(), ..whole };
        let expected = enumerate(&view);
        prop_assert_eq!(&view.offsets(), &expected);
        let read = tile.read(&RuleSet::NEURON);
        prop_assert!(!read.uninitialised);
        let found: Vec<f32> = read.values;
        let named: Vec<f32> = expected.iter().map(|&offset| offset as f32).collect();
        prop_assert_eq!(found, named);
        prop_assert_eq!(view.extent(),
            Some((*expected.iter().min().unwrap(), *expected.iter().max().unwrap())));
        prop_assert!(tile.check_bounds().is_ok());
    }

    #[test]
    fn a_reshape_keeps_the_order_of_elements(
        (shape, view) in shapes().prop_flat_map(views),
        wanted in shapes(),
    ) {
        let _ = shape;
        if let Ok(reshaped) = view.reshape(&wanted) {
            prop_assert_eq!(reshaped.offsets(), view.offsets());
            prop_assert_eq!(&reshaped.shape()[..], &wanted[..]);
        }
        let flat = TensorView::whole(&[view.elements()], Dtype::F32, 0);
        prop_assert!(flat.reshape(&view.shape()).is_ok());
    }

    #[test]
    fn copies_write_exactly_the_target((shape, view) in shapes().prop_flat_map(views)) {
        let source = counted(MemorySpace::Hbm, &[view.elements()]);
        let storage = Arc::new(Storage::poisoned(request(MemorySpace::Hbm, Dtype::F32, &shape)).unwrap());
        let target = Tile { storage: storage.clone(), view: view.clone() };
        prop_assert!(!convert::copy(&RuleSet::NEURON, &target, &source));
        let all = Tile { storage, view: TensorView::whole(&shape, Dtype::F32, 0) }.read(&RuleSet::NEURON)
            .values;
        let places = view.offsets();
        for (at, value) in all.iter().enumerate() {
            match places.iter().rposition(|&place| place == at as i64) {
                Some(index) => prop_assert_eq!(*value, index as f32),
                None => prop_assert!(value.is_nan(), "element {} was not written", at),
            }
        }
    }

    #[test]
    fn regions_overlap_wherever_elements_do(
        ((shape, a), seed) in (shapes().prop_flat_map(views), any::<u64>()),
        on_chip in any::<bool>(),
    ) {
        let memory = if on_chip && shape.len() > 1 { MemorySpace::Sbuf } else { MemorySpace::Hbm };
        let whole = counted(memory, &shape);
        let mut b = TensorView::whole(&shape, Dtype::F32, 0);
        let _ = b.slice(0, (seed % 3) as usize, 1, 1);
        // On-chip views keep their partitions in front.
        let a = if memory == MemorySpace::Sbuf {
            let mut a = TensorView::whole(&shape, Dtype::F32, 0);
            let _ = a.slice(1, (seed % 2) as usize, 1, 1);
            a
        } else { a };
        let tile = |view: &TensorView| Tile { storage: whole.storage.clone(), view: view.clone() };
        let (first, second) = (TensorRegion::of(&tile(&a)).unwrap(), TensorRegion::of(&tile(&b)).unwrap());
        let shared = a.offsets().iter().any(|offset| b.offsets().contains(offset));
        prop_assert!(!shared || first.overlaps(&second), "{first:?} and {second:?} share an element");
        prop_assert!(shared || !first.surely_overlaps(&second), "{first:?} and {second:?} share nothing");
        prop_assert!(first.overlaps(&first) && first.covers(&first));
        let inside = b.offsets().iter().all(|offset| a.offsets().contains(offset));
        prop_assert!(inside || first.sparse || !first.covers(&second), "{first:?} is less than {second:?}");
    }

    #[test]
    fn regions_without_gaps_have_none((shape, view) in shapes().prop_flat_map(views)) {
        let whole = counted(MemorySpace::Hbm, &shape);
        let region = TensorRegion::of(&Tile { storage: whole.storage, view: view.clone() }).unwrap();
        let mut places = view.offsets();
        places.sort_unstable();
        places.dedup();
        let held = (region.rows.1 - region.rows.0) * (region.bytes.1 - region.bytes.0);
        prop_assert!(region.sparse || places.len() as u64 * 4 == held, "{region:?} of {view:?}");
    }
}

#[test]
fn columns_of_a_tile_do_not_overlap() {
    let whole = counted(MemorySpace::Sbuf, &[128, 64]);
    let column = |start: usize| {
        let mut view = whole.view.clone();
        view.slice(1, start, 16, 1).unwrap();
        TensorRegion::of(&Tile { storage: whole.storage.clone(), view }).unwrap()
    };
    assert!(!column(0).overlaps(&column(16)));
    assert!(column(0).overlaps(&column(8)));
    assert_eq!(column(16).bytes, (64, 128));
}

/// One head of two in every row of a batch, whatever the order of the loops, and every second element.
#[test]
fn runs_at_one_distance_have_no_gaps_but_those_between_them() {
    let whole = counted(MemorySpace::SharedHbm, &[4, 32, 2, 64]);
    let region = |offset: usize, dims: &[(usize, isize)]| {
        let mut view = TensorView::whole(&[1], Dtype::F32, 0);
        view.offset = offset;
        view.dims = dims.iter().map(|&(size, stride)| PatternDim { size, stride }).collect();
        TensorRegion::of(&Tile { storage: whole.storage.clone(), view }).unwrap()
    };
    let head = |at: usize| region(at * 64, &[(32, 128), (4, 4096), (64, 1)]);
    let second = |at: usize| region(at, &[(128, 128), (64, 2)]);
    for (one, other) in [(head(0), head(1)), (second(0), second(1)), (second(1), head(0))] {
        assert!(!one.sparse && !other.sparse);
        assert!(one.pitch_bytes != other.pitch_bytes || !one.overlaps(&other));
        assert!(one.surely_overlaps(&one) && other.surely_overlaps(&other));
    }
    assert_eq!((head(1).rows, head(1).bytes, head(1).pitch_bytes), ((0, 128), (256, 512), 512));
    // All of it in one run covers each of them, and none of them all.
    let all = region(0, &[(16384, 1)]);
    assert!(all.covers(&head(1)) && all.covers(&second(1)) && !head(0).covers(&all));
    assert!(!region(64, &[(16384 - 64, 1)]).covers(&head(0)));
    // Two distances: there are gaps that rows do not show.
    assert!(region(0, &[(4, 4096), (16, 128), (64, 2)]).sparse);
}

#[test]
fn memory_that_nobody_wrote_is_poisoned_and_noticed() {
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F8E4M3, Dtype::I32, Dtype::U8] {
        let storage = Storage::poisoned(request(MemorySpace::Sbuf, dtype, &[2, 3])).unwrap();
        let tile = Tile { storage: Arc::new(storage), view: TensorView::whole(&[2, 3], dtype, 0) };
        let read = tile.read(&RuleSet::NEURON);
        assert!(read.uninitialised);
        assert!(read.values.iter().all(|value| if dtype.is_float() {
            value.is_nan()
        } else {
            *value == 4.0
        }));
    }
}

#[test]
fn a_chip_says_its_generation() {
    let chip = chips::chip("trainium2");
    assert_eq!(chip.generation(), tilewright_neuron_isa::Generation::V3);
    assert!(chip.needs("range_select", tilewright_neuron_isa::Generation::V3).is_ok());
    assert_eq!(
        chip.needs("exponential", tilewright_neuron_isa::Generation::V4).unwrap_err().code,
        "neuron/generation"
    );
}
