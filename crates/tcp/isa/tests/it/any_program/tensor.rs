//! Random tensors: axes cut into digits, digits dealt to slices and offsets. The notation itself gives text
//! and map.

use proptest::collection::vec;
use proptest::prelude::*;
use tilewright_base::{SourceId, Span};
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::syntax::parser;
use tilewright_tcp_isa::program::tensor::{Tensor, TensorData, TensorPlace, TensorRole};

use super::{any_dtype, any_name, any_number};

/// One axis: the sizes of its digits from the innermost, and how much of the outermost is padding.
type Cut = (Vec<u64>, bool);

/// A tensor whose shape covers its axes.
pub(crate) fn any_tensor() -> impl Strategy<Value = Tensor> {
    let cut = (vec(1..5_u64, 1..4), any::<bool>());
    let shape = vec(cut, 1..4).prop_flat_map(|cuts| {
        let digits: usize = cuts.iter().map(|(sizes, _)| sizes.len()).sum();
        let order = Just((0..digits).collect::<Vec<_>>()).prop_shuffle();
        (Just(cuts), order, 0..=digits, 0..3_u64)
    });
    let place = (0..3_u64, any_number(), any_number(), any::<bool>()).prop_map(|(chip, slice, base, hbm)| {
        if hbm { TensorPlace::Hbm { chip, base } } else { TensorPlace::Dm { chip, slice, base } }
    });
    let role = prop_oneof![Just(TensorRole::Input), Just(TensorRole::Output), Just(TensorRole::InOut)];
    (any_name(), any_dtype(), role, place, shape, any_data()).prop_map(
        |(name, dtype, role, place, (cuts, order, inter, copies), data)| {
            let (axes, shape, map) = lowered(&cuts, &order, inter, copies);
            Tensor { name, dtype, axes, role, place, shape, map, data, span: Span::default() }
        },
    )
}

fn any_data() -> impl Strategy<Value = TensorData> {
    prop_oneof![
        Just(TensorData::None),
        Just(TensorData::Zeros),
        any_number().prop_map(TensorData::Random),
        vec(any::<u32>(), 0..40).prop_map(TensorData::Patterns),
        any_name().prop_map(TensorData::File),
    ]
}

fn lowered(
    cuts: &[Cut],
    order: &[usize],
    inter: usize,
    copies: u64,
) -> (Vec<(String, u64)>, String, RadixMap) {
    const NAMES: [&str; 3] = ["H", "q", "headDim"];
    let (mut axes, mut digits) = (Vec::new(), Vec::new());
    for (name, (sizes, padded)) in NAMES.iter().zip(cuts) {
        let mut stride = 1;
        for (index, size) in sizes.iter().enumerate() {
            let places =
                if index + 1 == sizes.len() && *padded { format!("#{}", size + 1) } else { String::new() };
            digits.push(format!("{name}^{{{stride}}}[{size}{places}]"));
            stride *= size;
        }
        axes.push(((*name).to_string(), stride));
    }
    let mut sides: [Vec<String>; 2] = Default::default();
    for (place, digit) in order.iter().enumerate() {
        sides[usize::from(place >= inter)].push(digits[*digit].clone());
    }
    if copies > 0 {
        sides[0].push(format!("_[{copies}]"));
    }
    let einsum: String = axes.iter().map(|(name, _)| format!("({name})")).collect();
    let dims: Vec<String> = axes.iter().map(|(name, extent)| format!("{name}={extent}")).collect();
    let shape = format!("{} | {}", sides[0].join(" "), sides[1].join(" "));
    let text = format!("{einsum}; dims {}; in0 = {shape}", dims.join(", "));
    let program = parser::program(&text, SourceId(0)).unwrap_or_else(|why| panic!("{text}: {why:?}"));
    let problem = Problem::new(&program).unwrap_or_else(|why| panic!("{text}: {why:?}"));
    let map = RadixMap::of_shape(&problem, problem.shape(Operand::In0).expect("a shape")).expect("small");
    (axes, program.in0.expect("a shape").to_string(), map)
}
