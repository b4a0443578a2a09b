//! Planes and columns whose sizes make up no whole granules, windows of many elements, and elements by
//! number: they give what the interpreter gives, and take no transfer for each element.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Builder, Dtype, Graph};
use tilewright_reference::Tensor;

use super::odd_sizes::{cycles, near_cycles, numbers, ty};

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap()
}

/// A convolution in groups over images of any height and width.
fn grouped([channels, height, width, features, window]: [u64; 5], groups: u64, pes: u64) -> u64 {
    let mut b = Builder::new("groups");
    let (image, filters) = ([1, channels, height, width], [features, channels / groups, window, window]);
    let x = b.input("x", ty(&image)).unwrap();
    let w = b.input("w", ty(&filters)).unwrap();
    let attrs = Attrs::default().int("groups", whole(groups)).ints("pads", &[whole(window / 2); 4]);
    let y = b.rich_one(RichOp::Conv, &[x, w], attrs).unwrap();
    b.output("y", y);
    cycles(&b.finish(), &[numbers(&image, 17), numbers(&filters, 5)], pes)
}

/// Maxima and means of windows.
fn windowed([channels, height, width, window, stride]: [u64; 5], pes: u64) -> u64 {
    let mut b = Builder::new("windows");
    let image = [1, channels, height, width];
    let x = b.input("x", ty(&image)).unwrap();
    let attrs = || {
        let sizes = Attrs::default().ints("kernel", &[whole(window); 2]).ints("strides", &[whole(stride); 2]);
        sizes.ints("pads", &[whole(window / 2); 4])
    };
    let most = b.rich(RichOp::MaxPool, &[Some(x)], attrs()).unwrap()[0];
    b.output("most", most);
    let mean = b.rich_one(RichOp::AvgPool, &[x], attrs()).unwrap();
    b.output("mean", mean);
    near_cycles(&b.finish(), &[numbers(&image, 17)], pes, 1e-5)
}

/// Sums up to each element, along one of two axes.
fn summed_up([rows, columns]: [u64; 2], axis: i64, pes: u64) -> u64 {
    let mut b = Builder::new("sums");
    let x = b.input("x", ty(&[rows, columns])).unwrap();
    let y = b.rich_one(RichOp::CumSum, &[x], Attrs::default().int("axis", axis)).unwrap();
    b.output("y", y);
    cycles(&b.finish(), &[numbers(&[rows, columns], 11)], pes)
}

/// Elements of each row by numbers of their own, and rows by number.
fn by_number([rows, columns, taken, width]: [u64; 4], pes: u64) -> u64 {
    let mut b = Builder::new("numbers");
    let (elements, table) = ([rows, columns], [columns, width]);
    let x = b.input("x", ty(&elements)).unwrap();
    let t = b.input("t", ty(&table)).unwrap();
    let mut integers = ty(&[rows, taken]);
    integers.dtype = Dtype::I32;
    let at = b.input("at", integers).unwrap();
    let y = b.rich_one(RichOp::GatherElements, &[x, at], Attrs::default().int("axis", 1)).unwrap();
    b.output("y", y);
    let z = b.gather(t, 0, at).unwrap();
    b.output("z", z);
    let sizes = [rows, taken].map(|size| usize::try_from(size).unwrap());
    let places = (0..rows * taken).map(|at| whole(at * 31 % columns)).collect();
    let places = Tensor::ints(Dtype::I32, &sizes, places);
    let graph: Graph = b.finish();
    cycles(&graph, &[numbers(&elements, 13), numbers(&table, 7), places], pes)
}

/// Few channels of windows make up no whole granules, nor do rows of planes: both are filled up, in runs.
#[test]
fn groups_over_odd_planes_are_not_written_word_by_word() {
    for pes in [1, 8] {
        let cycles = grouped([24, 17, 17, 16, 3], 8, pes);
        assert!(cycles < 150_000, "{cycles} cycles of groups of three channels");
        let cycles = grouped([32, 14, 14, 32, 3], 8, pes);
        assert!(cycles < 150_000, "{cycles} cycles of groups of four features");
    }
}

/// Every channel by itself, with planes that many of together make up whole flits.
#[test]
fn channels_of_odd_planes_take_few_times_what_those_of_even_ones_take() {
    let (odd, even) = (grouped([33, 33, 33, 33, 3], 33, 8), grouped([33, 32, 32, 33, 3], 33, 8));
    assert!(odd < 6 * even, "{odd} cycles of planes of 33 x 33, {even} of 32 x 32");
}

/// Windows that share most of what they look at are folded along one axis, then along the other.
#[test]
fn large_windows_are_folded_in_turns() {
    for size in [13, 14] {
        let (eight, one) = (windowed([32, size, size, 13, 1], 8), windowed([32, size, size, 13, 1], 1));
        assert!(one < 200_000, "{one} cycles of windows of 13 x 13 over {size} x {size}");
        assert!(eight < 2 * one, "{eight} cycles on eight PEs, {one} on one");
    }
}

/// An odd number of columns is moved apart before columns become rows.
#[test]
fn sums_down_odd_columns_take_few_times_those_down_even_ones() {
    let (odd, even) = (summed_up([150, 65], 0, 8), summed_up([150, 64], 0, 8));
    assert!(odd < 8 * even, "{odd} cycles of 65 columns, {even} of 64");
}

/// Elements by number come through data memory, in pairs; HBM would write a unit again for each.
#[test]
fn elements_by_number_are_not_written_one_by_one() {
    let (one, eight) = (by_number([32, 101, 60, 3], 1), by_number([32, 101, 60, 3], 8));
    assert!(one < 60_000, "{one} cycles of 1,920 elements and rows");
    assert!(eight < one, "{eight} cycles on eight PEs, {one} on one");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(tilewright_testkit::draws(8, 400)).unwrap(),
        ..ProptestConfig::default()
    })]

    #[test]
    fn groups_of_any_size_are_right(
        (own, groups, more) in (1_u64..6, 2_u64..9, 1_u64..6),
        (height, width, window) in (5_u64..35, 5_u64..35, prop_oneof![Just(1_u64), Just(3), Just(5)]),
        pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        grouped([own * groups, height, width, more * groups, window], groups, pes);
    }

    #[test]
    fn windows_of_any_size_are_right(
        (channels, height, width) in (1_u64..40, 13_u64..30, 13_u64..30),
        (window, stride) in (2_u64..12, 1_u64..4), pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        windowed([channels, height, width, window, stride], pes);
    }

    #[test]
    fn sums_up_to_elements_are_right(
        sizes in (1_u64..300, 1_u64..150), axis in 0_i64..2, pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        summed_up([sizes.0, sizes.1], axis, pes);
    }

    #[test]
    fn elements_by_number_are_right(
        sizes in (1_u64..40, 2_u64..200, 1_u64..100, 1_u64..40), pes in prop_oneof![Just(1_u64), Just(8)],
    ) {
        by_number([sizes.0, sizes.1, sizes.2, sizes.3], pes);
    }
}
