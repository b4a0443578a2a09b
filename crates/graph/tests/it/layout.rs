//! Axes at their bounds as digits: what splits and merges, and what is refused.

use tilewright_graph::bounded::layout::{Digit, Padding, aligned, plain, reshaped};
use tilewright_graph::dim::{AxisId, Dim};

fn axis(number: u32) -> Dim {
    Dim::axis(AxisId(number))
}

fn times(dim: &Dim, number: i64) -> Dim {
    dim.times(&Dim::fixed(number)).unwrap()
}

fn axes(dims: &[Dim]) -> Vec<Vec<Digit>> {
    dims.iter().map(|dim| plain(dim, Padding::Zero)).collect()
}

fn sizes(axes: &[Vec<Digit>]) -> Vec<Vec<Dim>> {
    axes.iter().map(|axis| axis.iter().map(|digit| digit.dim.clone()).collect()).collect()
}

#[test]
fn heads_split_and_merge_around_open_sizes() {
    let (b, s) = (axis(0), axis(1));
    let rows = axes(&[b.clone(), s.clone(), 96.into()]);
    let heads = reshaped(&rows, &[b.clone(), s.clone(), 12.into(), 8.into()]).unwrap();
    assert_eq!(sizes(&heads), [vec![b.clone()], vec![s.clone()], vec![12.into()], vec![8.into()]]);
    let flat = reshaped(&rows, &[b.times(&s).unwrap(), 96.into()]).unwrap();
    assert_eq!(sizes(&flat), [vec![b.clone(), s.clone()], vec![96.into()]]);
    assert_eq!(reshaped(&flat, &[b.clone(), s.clone(), 96.into()]).unwrap().len(), 3);
    let more = s.plus(&1.into()).unwrap();
    let rows = axes(&[b.clone(), more.clone(), 96.into()]);
    assert!(reshaped(&rows, &[b, more, 4.into(), 24.into()]).is_some());
}

#[test]
fn an_axis_that_begins_inside_of_padding_is_refused() {
    let (b, s) = (axis(0), axis(1));
    let product = b.times(&s).unwrap();
    assert!(reshaped(&axes(&[product]), &[b.clone(), s]).is_none());
    assert!(reshaped(&axes(&[b.clone(), 4.into()]), &[2.into(), times(&b, 2)]).is_none());
    assert!(reshaped(&axes(&[4.into(), b.clone()]), &[2.into(), times(&b, 2)]).is_some());
}

#[test]
fn what_is_the_same_everywhere_lies_as_anything_does() {
    let (b, s) = (axis(0), axis(1));
    let product = b.times(&s).unwrap();
    let pair = [Digit::new(b.clone(), Padding::Zero), Digit::new(s, Padding::Zero)];
    let same = [Digit::new(product.clone(), Padding::Same)];
    assert_eq!(aligned(&pair, &same).unwrap().len(), 2);
    assert!(aligned(&pair, &plain(&product, Padding::Zero)).is_none());
    let prefix = plain(&times(&b, 4), Padding::Zero);
    let apart = [Digit::new(b, Padding::Same), Digit::new(4.into(), Padding::Unknown)];
    assert_eq!(aligned(&prefix, &apart).unwrap().len(), 2);
}
