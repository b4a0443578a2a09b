//! What the tests of contractions in narrow types share: shapes of two contractions one behind the other,
//! sizes, and the interpreter beside the chip.

use proptest::prelude::*;
use tilewright_compile::general::Options;
use tilewright_graph::{Dim, Graph};
use tilewright_reference::Tensor;

use crate::general::{interpreted, on_chip};

/// Sizes of two contractions, one behind the other: `[batch, rows, summed]` with `[batch, columns, summed]`,
/// and what comes of it with as many columns again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) batch: i64,
    pub(crate) rows: i64,
    pub(crate) columns: i64,
    pub(crate) summed: i64,
}

/// Fixed sizes of a type.
pub(crate) fn fixed(sizes: &[i64]) -> Vec<Dim> {
    sizes.iter().map(|size| Dim::fixed(*size)).collect()
}

/// Shapes of any sizes, of whole granules, and of whole tiles.
pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    let whole = |[batch, rows, columns, summed]: [i64; 4]| Shape { batch, rows, columns, summed };
    prop_oneof![
        [1..3_i64, 1..20_i64, 1..20_i64, 1..40_i64].prop_map(whole),
        [1..3_i64, 1..20_i64, 1..12_i64, 1..12_i64].prop_map(move |[b, m, n, k]| whole([b, m, 8 * n, 8 * k])),
        [1..2_i64, 1..6_i64, 1..5_i64, 1..5_i64].prop_map(move |[b, m, n, k]| whole([
            b,
            32 * m,
            64 * n,
            64 * k
        ])),
    ]
}

/// The chip gives what the interpreter gives, bit for bit.
pub(crate) fn agrees(graph: &Graph, inputs: &[Tensor], options: Options) -> Result<(), TestCaseError> {
    let (found, wanted) = (on_chip(graph, inputs, options)?, interpreted(graph, inputs));
    prop_assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(&wanted) {
        prop_assert_eq!(&found.elements, &wanted.elements);
    }
    Ok(())
}
