//! Sizes with named axes: their arithmetic is that of values, and they read as people write them.

use proptest::prelude::*;
use tilewright_graph::dim::{Axis, AxisId, Dim, same_count};

fn axes() -> Vec<Axis> {
    ["a", "b", "c"].map(|name| Axis { name: name.into(), least: 1, most: 9 }).into()
}

fn dim() -> impl Strategy<Value = Dim> {
    let term = (-4_i64..5, proptest::collection::vec(0_u32..3, 0..3));
    proptest::collection::vec(term, 0..4).prop_map(|terms| {
        terms.into_iter().fold(Dim::default(), |sum, (number, factors)| {
            let product = factors
                .into_iter()
                .fold(Dim::fixed(number), |product, axis| product.times(&Dim::axis(AxisId(axis))).unwrap());
            sum.plus(&product).unwrap()
        })
    })
}

proptest! {
    #[test]
    fn arithmetic_is_that_of_values(
        x in dim(),
        y in dim(),
        sizes in proptest::array::uniform3(1_u64..10),
    ) {
        let sizes = sizes.map(Some);
        let value = |dim: &Dim| dim.value(&sizes).unwrap();
        prop_assert_eq!(value(&x.plus(&y).unwrap()), value(&x) + value(&y));
        prop_assert_eq!(value(&x.minus(&y).unwrap()), value(&x) - value(&y));
        prop_assert_eq!(value(&x.times(&y).unwrap()), value(&x) * value(&y));
        let (least, most) = x.range(&axes());
        prop_assert!((least..=most).contains(&i128::from(value(&x))));
        prop_assert_eq!(&x.plus(&y).unwrap().minus(&y).unwrap(), &x);
        let product = x.times(&y).unwrap();
        if let Some(quotient) = x.divided(&y) {
            prop_assert!(quotient.times(&y).unwrap() == x);
        }
        if y.terms().len() == 1 || x.terms().len() == 1 && !y.terms().is_empty() {
            prop_assert_eq!(product.divided(&y), Some(x));
        }
    }
}

#[test]
fn sizes_read_as_people_write_them() {
    let axes = axes();
    let (a, b) = (Dim::axis(AxisId(0)), Dim::axis(AxisId(1)));
    let dim =
        a.times(&b).unwrap().times(&Dim::fixed(4)).unwrap().plus(&a).unwrap().minus(&Dim::fixed(1)).unwrap();
    assert_eq!(dim.text(&axes), "4*a*b+a-1");
    assert_eq!(Dim::fixed(0).text(&axes), "0");
    assert!(same_count(&[a.clone(), b.clone(), 6.into()], &[b.times(&Dim::fixed(2)).unwrap(), a, 3.into()]));
    assert!(!same_count(&[b], &[Dim::axis(AxisId(2))]));
}
