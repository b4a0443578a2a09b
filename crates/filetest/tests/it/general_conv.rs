//! Random convolutions one behind the other on the chip: every kernel against the reference, whole numbers
//! against the interpreter bit for bit, and which of them take windows where they lie.

use proptest::prelude::*;
use tilewright_compile::general::{Choice, Options, Planned, Without, plan};
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{Builder, Dim, Dtype, Graph, TensorStore, Type, ValueId, primitives};
use tilewright_reference::Tensor;
use tilewright_tcp_isa::program::transfer::MemoryInstance;

use crate::general::{interpreted, on_chip, tcp};

/// A convolution of squares.
#[derive(Clone, Copy, Debug)]
struct Conv {
    channels: i64,
    size: i64,
    stride: i64,
    pad: i64,
    /// Each channel alone, as many as come in.
    depthwise: bool,
}

/// An image and the convolutions behind each other.
#[derive(Clone, Debug)]
struct Net {
    batch: i64,
    channels: i64,
    sizes: [i64; 2],
    convs: Vec<Conv>,
}

fn fixed(sizes: &[i64]) -> Type {
    Type::new(Dtype::F32, sizes.iter().map(|size| Dim::fixed(*size)).collect::<Vec<Dim>>())
}

fn conv(b: &mut Builder, x: ValueId, at: usize, from: i64, one: Conv) -> Option<(ValueId, i64)> {
    let (to, groups) = if one.depthwise { (from, from) } else { (one.channels, 1) };
    let w = b.input(&format!("w{at}"), fixed(&[to, from / groups, one.size, one.size])).ok()?;
    let attrs =
        Attrs::default().ints("pads", &[one.pad; 4]).ints("strides", &[one.stride; 2]).int("groups", groups);
    let sums = b.rich(RichOp::Conv, &[Some(x), Some(w)], attrs).ok()?;
    let y = b.rich(RichOp::Relu, &[Some(*sums.first()?)], Attrs::default()).ok()?;
    Some((*y.first()?, to))
}

fn graph(net: &Net) -> Option<Graph> {
    let mut b = Builder::new("convolutions");
    let mut x = b.input("x", fixed(&[net.batch, net.channels, net.sizes[0], net.sizes[1]])).ok()?;
    let mut from = net.channels;
    for (at, one) in net.convs.iter().enumerate() {
        (x, from) = conv(&mut b, x, at, from, *one)?;
    }
    b.output("y", x);
    primitives(&b.finish()).ok()
}

/// Small whole numbers for every input.
fn inputs(graph: &Graph, numbers: &[i8]) -> Vec<Tensor> {
    let mut next = numbers.iter().copied().cycle();
    let inputs = graph.inputs.iter().filter_map(|id| graph.value(*id));
    inputs
        .map(|value| {
            let dims: Vec<usize> = value
                .ty
                .dims
                .iter()
                .filter_map(Dim::as_fixed)
                .filter_map(|dim| dim.try_into().ok())
                .collect();
            let count = dims.iter().product();
            let elements = (0..count).map(|_| f32::from(next.next().unwrap_or(1))).collect();
            Tensor::floats(Dtype::F32, &dims, elements)
        })
        .collect()
}

fn convs() -> impl Strategy<Value = Conv> {
    let channels = prop_oneof![1..6_i64, (1..5_i64).prop_map(|n| 4 * n), (1..3_i64).prop_map(|n| 16 * n)];
    (channels, 1..4_i64, 1..3_i64, 0..2_i64, 0..5_u8).prop_map(|(channels, size, stride, pad, kind)| Conv {
        channels,
        size,
        stride,
        pad,
        depthwise: kind == 0,
    })
}

fn nets() -> impl Strategy<Value = Net> {
    let channels = prop_oneof![1..5_i64, Just(8), Just(16)];
    (1..4_i64, channels, [3..15_i64, 3..15_i64], proptest::collection::vec(convs(), 1..4))
        .prop_map(|(batch, channels, sizes, convs)| Net { batch, channels, sizes, convs })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tilewright_testkit::draws(60, 2000)))]

    #[test]
    fn convolutions_are_those_of_the_interpreter(
        net in nets(), pes in 0..4_u32, numbers in proptest::collection::vec(-1..2_i8, 89),
    ) {
        let Some(graph) = graph(&net) else { return Ok(()) };
        let inputs = inputs(&graph, &numbers);
        let wanted = interpreted(&graph, &inputs);
        let found = on_chip(&graph, &inputs, Options { pes: 1 << pes, ..Options::default() })?;
        let all = wanted.iter().flat_map(|tensor| tensor.as_floats());
        let large = all.fold(0.0, |most: f32, value| most.max(value.abs()));
        if large <= 256.0 {
            prop_assert_eq!(found[0].as_floats(), wanted[0].as_floats());
        }
    }
}

fn planned(net: &Net, pes: u64) -> Planned {
    let graph = graph(net).expect("a graph");
    plan(&tcp(), &graph, &TensorStore::default(), &Options { pes, ..Options::default() }).expect("a plan")
}

/// A convolution of pixels and one of windows behind it, which takes its windows where they lie: no kernel
/// that writes them runs.
#[test]
fn windows_are_taken_where_they_lie() {
    let pointwise = Conv { channels: 64, size: 1, stride: 1, pad: 0, depthwise: false };
    for stride in [1, 2] {
        let windows = Conv { channels: 64, size: 3, stride, pad: 1, depthwise: false };
        let net = Net { batch: 2, channels: 16, sizes: [56, 56], convs: vec![pointwise, windows] };
        let planned = planned(&net, 8);
        assert_eq!(planned.chosen.windows.len(), 1, "stride {stride}");
        let once = planned.chosen.tiled.values().any(|one| one.to_string().contains("that come once"));
        assert!(once, "stride {stride}: slices fetch windows from one copy of lines");
        for looked in planned.chosen.windows.values() {
            assert!(
                !planned.kernel_of_exec.contains(&looked.chain)
                    && !planned.kernel_of_transfer.contains(&looked.chain)
            );
        }
        let graph = graph(&net).expect("a graph");
        let inputs = inputs(&graph, &[1, 0, -1, 1, 1, -1, 0]);
        let wanted = interpreted(&graph, &inputs);
        let found = on_chip(&graph, &inputs, Options { pes: 8, ..Options::default() }).expect("results");
        assert_eq!(found[0].as_floats(), wanted[0].as_floats(), "stride {stride}");
    }
}

/// A convolution of pixels before a depthwise one writes inside of its padding.
#[test]
fn results_are_written_inside_of_padding() {
    let pointwise = Conv { channels: 64, size: 1, stride: 1, pad: 0, depthwise: false };
    let depthwise = Conv { channels: 64, size: 3, stride: 1, pad: 1, depthwise: true };
    let net = Net { batch: 8, channels: 32, sizes: [112, 112], convs: vec![pointwise, depthwise] };
    let planned = planned(&net, 8);
    assert!(!planned.chosen.padded.is_empty(), "{:?}", planned.chosen.tiled.len());
    for inside in planned.chosen.padded.values() {
        assert!(!planned.kernel_of_transfer.contains(&inside.mover));
    }
}

/// The taps of a depthwise convolution come to each PE in one transfer, whatever the number of its shares.
#[test]
fn taps_come_once() {
    let pointwise = Conv { channels: 32, size: 1, stride: 1, pad: 0, depthwise: false };
    let depthwise = Conv { channels: 32, size: 3, stride: 1, pad: 1, depthwise: true };
    let net = Net { batch: 8, channels: 32, sizes: [112, 112], convs: vec![pointwise, depthwise] };
    let planned = planned(&net, 8);
    let taps =
        planned.kernels.values.iter().position(|value| value.name.ends_with(".taps.bf16")).expect("taps");
    let value = &planned.kernels.values[taps];
    let place = planned.places[taps];
    let range = place..place + value.count() * value.element_bytes();
    let reads = planned.program.transfers.iter().filter(|transfer| {
        transfer
            .source
            .locate()
            .is_some_and(|from| from.medium == MemoryInstance::Hbm && range.contains(&from.offset))
    });
    assert_eq!(reads.count(), 8);
}

/// Depthwise sums of whole flits of channels are added by the contraction engine, in the order of their
/// chain: `on_chip` compares each kernel with it bit for bit, and numbers here are no whole ones.
#[test]
fn the_contraction_engine_adds_depthwise_sums() {
    let whole = |channels: i64| channels % 16 == 0;
    for (channels, stride, size, pad) in
        [(16, 1, 3, 1), (48, 2, 3, 1), (64, 1, 5, 2), (32, 1, 2, 0), (32, 2, 3, 0), (24, 1, 3, 1)]
    {
        let pointwise = Conv { channels, size: 1, stride: 1, pad: 0, depthwise: false };
        let depthwise = Conv { channels, size, stride, pad, depthwise: true };
        let net = Net { batch: 2, channels: 16, sizes: [20, 12], convs: vec![pointwise, depthwise] };
        let graph = graph(&net).expect("a graph");
        let count = |without: Without| {
            let options = Options { pes: 8, without, ..Options::default() };
            let planned = plan(&tcp(), &graph, &TensorStore::default(), &options).expect("a plan");
            planned.program.execs.iter().filter(|exec| exec.name.starts_with("contract_taps")).count()
        };
        assert_eq!(count(Without::default()) > 0, whole(channels), "{net:?}");
        assert_eq!(count(Without::from(Choice::Depthwise)), 0, "{net:?}");
        let inputs: Vec<Tensor> = inputs(&graph, &[3, -7, 11, -2, 5, 0, 9, -4, 1])
            .iter()
            .map(|tensor| {
                let elements = tensor.as_floats().iter().map(|whole| whole / 7.0).collect();
                Tensor::floats(Dtype::F32, &tensor.dims, elements)
            })
            .collect();
        let wanted = interpreted(&graph, &inputs);
        for without in [Without::default(), Without::from(Choice::Depthwise)] {
            let options = Options { pes: 8, without, ..Options::default() };
            let found = on_chip(&graph, &inputs, options).expect("results");
            let pairs = found[0].as_floats().iter().zip(wanted[0].as_floats());
            let apart = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let large = wanted[0].as_floats().iter().fold(0.0, |most: f32, value| most.max(value.abs()));
            assert!(apart <= large * 0.02, "{net:?}: {apart} of {large}");
        }
    }
}
