//! Single contractions from HBM on one to eight PEs: values against sums in f64, findings, and cycles against
//! the bound.

#![expect(clippy::print_stdout, reason = "the table of cycles and bounds is what `--nocapture` is for")]

use tilewright_compile::general::kernel::{Sizes, Work};
use tilewright_compile::general::reference::expected;
use tilewright_compile::general::view::View;
use tilewright_compile::general::{Choice, Options, Parts, Planned, plan, tensors};
use tilewright_graph::{Binary, Builder, Dim, Dtype, Graph, TensorStore, Type, primitives};
use tilewright_machine::Tcp;
use tilewright_num::RuleSet;
use tilewright_record::KeepLast;
use tilewright_reference::Tensor;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::graph::GraphDevice;
use tilewright_tcp_sim::findings::Finding;
use tilewright_testkit::tcp;

/// Batch, rows, columns and summed.
type Shape = [u64; 4];

fn graph([batch, rows, columns, summed]: Shape) -> Graph {
    let mut b = Builder::new("contraction");
    let ty = |dims: [u64; 3]| {
        let dims = dims.map(|size| Dim::fixed(i64::try_from(size).expect("a size")));
        Type::new(Dtype::F32, dims.to_vec())
    };
    let x = b.input("x", ty([batch, rows, summed])).expect("an input");
    let y = b.input("y", ty([batch, columns, summed])).expect("an input");
    let product = b.einsum("bmk,bnk->bmn", &[x, y]).expect("an einsum");
    b.output("out", product);
    primitives(&b.finish()).expect("primitives")
}

fn planned(machine: &Tcp, shape: Shape, pes: u64, fused: Option<u64>) -> Planned {
    let options = Options { pes, fused, ..Options::default() };
    plan(machine, &graph(shape), &TensorStore::default(), &options).expect("a plan")
}

/// Whole numbers that repeat.
fn numbers(count: u64, period: u64) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + at / period) % 9) as f32 - 4.0).collect()
}

/// The first finding that is not about a price: exchanges of a ring may take longer than they are priced at.
fn wrong(findings: &[Finding]) -> Option<&Finding> {
    findings.iter().find(|finding| finding.code != "tcp/cycles-low")
}

/// Runs with values and findings; gives whether tiles were used.
fn right(machine: &Tcp, shape: Shape, pes: u64, fused: Option<u64>) -> bool {
    let planned = planned(machine, shape, pes, fused);
    let tiled = !planned.chosen.tiled.is_empty();
    let [batch, rows, columns, summed] = shape;
    runs(machine, planned, [&[batch, rows, summed], &[batch, columns, summed]]);
    tiled
}

/// Every kernel gives what the reference says, and nothing is found.
fn runs(machine: &Tcp, planned: Planned, sizes: [&[u64]; 2]) {
    let input = |(dims, period): (&[u64], u64)| {
        let own: Vec<usize> = dims.iter().map(|size| usize::try_from(*size).expect("a size")).collect();
        let tensor = Tensor::floats(Dtype::F32, &own, numbers(dims.iter().product(), period));
        tensors::words(&tensor).expect("words")
    };
    let words = [(sizes[0], 13), (sizes[1], 29)].map(input);
    let mut device = GraphDevice::new(machine, planned).expect("a device");
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    let reading = device.run(&words, &wanted, KeepLast::new(0)).expect("a run");
    assert_eq!(wrong(&reading.findings), None, "{sizes:?}");
    let kernels = &device.planned().kernels;
    let read = |value: usize| device.value(value).expect("a value");
    for (number, kernel) in kernels.kernels.iter().enumerate() {
        for (value, wanted) in kernel.results.iter().zip(expected(&RuleSet::TCP, kernels, number, &read)) {
            assert_eq!(wanted.differs(&read(*value)), None, "{sizes:?}: kernel {number}");
        }
    }
}

/// Sizes of contractions, with how their operands lie.
fn sizes_of(planned: &Planned) -> Vec<Sizes> {
    let works = planned.kernels.kernels.iter().map(|kernel| &kernel.work);
    works
        .filter_map(|work| if let Work::Contract { sizes, .. } = work { Some(*sizes) } else { None })
        .collect()
}

/// Sums of a tile in blocks, the last as long as the others or shorter, of bf16 and of integers, with a chain
/// behind them that needs all of a sum.
#[test]
fn sums_in_blocks() {
    let machine = tcp();
    for (shape, pes, dtype, blocks) in [
        ([1, 256, 256, 1168], 2, Dtype::F32, "in 2 blocks of 640"),
        ([1, 128, 512, 1536], 4, Dtype::F32, "in 2 blocks of 768"),
        ([1, 128, 256, 2304], 1, Dtype::F32, "in 3 blocks of 768"),
        ([1, 128, 512, 2336], 2, Dtype::I8, "in 2 blocks of 1280"),
    ] {
        let [batch, rows, columns, summed] = shape;
        let without = Choice::Parts.into();
        let options = Options { pes, keep: true, without, ..Options::default() };
        let graph = doubled(shape, dtype);
        let planned = plan(&machine, &graph, &TensorStore::default(), &options).expect("a plan");
        let tilings: Vec<String> = planned.chosen.tiled.values().map(ToString::to_string).collect();
        assert!(tilings.iter().any(|words| words.contains(blocks)), "{shape:?}: {tilings:?}");
        runs(&machine, planned, [&[batch, rows, summed], &[batch, columns, summed]]);
    }
}

/// A contraction whose operands are narrowed first, with its sums doubled and a number added.
fn doubled([batch, rows, columns, summed]: Shape, dtype: Dtype) -> Graph {
    let mut b = Builder::new("doubled");
    let ty = |dims: [u64; 3]| {
        let dims = dims.map(|size| Dim::fixed(i64::try_from(size).expect("a size")));
        Type::new(Dtype::F32, dims.to_vec())
    };
    let mut operands = Vec::new();
    for (name, own) in [("x", rows), ("y", columns)] {
        let input = b.input(name, ty([batch, own, summed])).expect("an input");
        let narrow =
            (dtype != Dtype::F32).then(|| b.convert(input, dtype).and_then(|x| b.convert(x, Dtype::I32)));
        operands.push(narrow.unwrap_or(Ok(input)).expect("numbers of the type"));
    }
    let product = b.einsum("bmk,bnk->bmn", &operands).expect("an einsum");
    let product = b.convert(product, Dtype::F32).expect("sums");
    let twice = b.binary(Binary::Add, product, product).expect("a sum");
    b.output("out", twice);
    primitives(&b.finish()).expect("primitives")
}

/// Heads lie inside of rows, and their products are added to more: no copy lays them one behind the other.
#[test]
fn heads_are_read_by_strides() {
    let machine = tcp();
    let dims = [256, 4, 64];
    let mut b = Builder::new("heads");
    let ty = Type::new(Dtype::F32, dims.map(|size: u64| Dim::fixed(size.cast_signed())).to_vec());
    let x = b.input("x", ty.clone()).expect("an input");
    let y = b.input("y", ty).expect("an input");
    let [x, y] = [x, y].map(|value| b.binary(Binary::Add, value, value).expect("a sum"));
    let product = b.einsum("mhk,nhk->hmn", &[x, y]).expect("an einsum");
    b.output("out", product);
    let graph = primitives(&b.finish()).expect("primitives");
    let plan = |least_products: u64| {
        let options = Options { pes: 8, least_products, keep: true, ..Options::default() };
        plan(&machine, &graph, &TensorStore::default(), &options).expect("a plan")
    };
    let (strided, copied) = (plan(0), plan(u64::MAX));
    assert!(sizes_of(&strided).iter().all(|sizes| !sizes.is_dense()), "{:?}", sizes_of(&strided));
    assert!(sizes_of(&copied).iter().all(Sizes::is_dense), "{:?}", sizes_of(&copied));
    assert!(strided.kernels.kernels.len() < copied.kernels.kernels.len());
    runs(&machine, strided, [&dims, &dims]);
}

/// Parts of a sum are contractions of their own; what they give is added.
#[test]
fn long_sums_may_come_in_parts() {
    let machine = tcp();
    for (shape, parts) in [([1, 64, 96, 512], 2), ([2, 40, 64, 256], 4), ([1, 128, 64, 384], 3)] {
        let options = Options { pes: 4, parts: Some(Parts::InTurn(parts)), keep: true, ..Options::default() };
        let planned = plan(&machine, &graph(shape), &TensorStore::default(), &options).expect("a plan");
        let sizes = sizes_of(&planned);
        assert_eq!(sizes.len() as u64, parts, "{sizes:?}");
        assert!(sizes.iter().all(|one| one.summed * parts == shape[3]), "{sizes:?}");
        let [batch, rows, columns, summed] = shape;
        runs(&machine, planned, [&[batch, rows, summed], &[batch, columns, summed]]);
    }
}

/// Parts of a sum beside each other are positions of one batch; what they give is added.
#[test]
fn long_sums_may_come_in_parts_beside_each_other() {
    let machine = tcp();
    for (shape, parts, pes) in [([1, 64, 96, 512], 2, 4), ([1, 40, 64, 256], 4, 8), ([1, 128, 64, 384], 3, 2)]
    {
        let parts_of = Some(Parts::Beside(parts));
        let options = Options { pes, parts: parts_of, keep: true, ..Options::default() };
        let planned = plan(&machine, &graph(shape), &TensorStore::default(), &options).expect("a plan");
        let sizes = sizes_of(&planned);
        assert!(sizes.len() == 1 && sizes[0].batch == parts, "{sizes:?}");
        assert_eq!(sizes[0].summed * parts, shape[3]);
        let [batch, rows, columns, summed] = shape;
        runs(&machine, planned, [&[batch, rows, summed], &[batch, columns, summed]]);
    }
    // A contraction that has a batch stays whole.
    let options = Options { pes: 4, parts: Some(Parts::Beside(2)), ..Options::default() };
    let planned =
        plan(&machine, &graph([2, 40, 64, 256]), &TensorStore::default(), &options).expect("a plan");
    assert!(sizes_of(&planned).iter().all(Sizes::is_dense));
}

/// What is only read columns first is computed so: no copy turns it.
#[test]
fn results_lie_as_their_readers_take_them() {
    let machine = tcp();
    let mut b = Builder::new("turned");
    let ty =
        |dims: [u64; 2]| Type::new(Dtype::F32, dims.map(|size: u64| Dim::fixed(size.cast_signed())).to_vec());
    let x = b.input("x", ty([64, 96])).expect("an input");
    let w = b.input("w", ty([48, 96])).expect("an input");
    let values = b.einsum("tk,dk->td", &[x, w]).expect("an einsum");
    let scores = b.einsum("tk,sk->ts", &[x, x]).expect("an einsum");
    let product = b.einsum("ts,sd->td", &[scores, values]).expect("an einsum");
    b.output("out", product);
    let graph = primitives(&b.finish()).expect("primitives");
    let options = Options { pes: 2, keep: true, ..Options::default() };
    let planned = plan(&machine, &graph, &TensorStore::default(), &options).expect("a plan");
    let sizes = sizes_of(&planned);
    assert!(sizes.iter().any(|one| (one.rows, one.columns, one.summed) == (48, 64, 96)), "{sizes:?}");
    let turns = |view: &View| !view.is_plain();
    let turned = planned
        .kernels
        .kernels
        .iter()
        .any(|kernel| matches!(&kernel.work, Work::Chain { inputs, .. } if inputs.iter().any(turns)));
    assert!(!turned, "{:?}", planned.kernels.kernels);
    runs(&machine, planned, [&[64, 96], &[48, 96]]);
}

#[test]
fn values_are_right_on_any_number_of_pes() {
    let machine = tcp();
    for (shape, pes) in [
        ([1, 128, 256, 256], 1),
        ([1, 256, 512, 512], 8),
        ([4, 64, 128, 128], 4),
        ([24, 32, 48, 64], 2),
        ([64, 64, 64, 32], 8),
    ] {
        assert!(right(&machine, shape, pes, None), "{shape:?} on {pes} PEs is not tiled");
    }
    for (shape, pes) in
        [([1, 100, 300, 150], 2), ([3, 65, 130, 36], 8), ([1, 1, 640, 96], 4), ([2, 33, 7, 64], 2)]
    {
        right(&machine, shape, pes, None);
    }
}

/// Several positions of a batch are computed at once where each is small.
#[test]
fn small_positions_of_a_batch_share_a_tile() {
    let planned = planned(&tcp(), [64, 64, 64, 32], 8, None);
    let planes: Vec<u64> = planned.chosen.tiled.values().map(|one| one.tiling.planes).collect();
    assert!(planes.iter().any(|planes| *planes > 1), "{planes:?}");
}

/// One queue has the executions of two or four PEs, and all of them move what lies in their slices.
#[test]
fn fused_pes_give_the_same() {
    let machine = tcp();
    for (shape, pes, fused) in [
        ([1, 128, 256, 256], 2, 2),
        ([1, 256, 512, 512], 8, 4),
        ([4, 64, 128, 128], 4, 2),
        ([1, 100, 300, 152], 4, 4),
        ([3, 65, 130, 36], 8, 2),
        ([1, 33, 640, 96], 8, 4),
    ] {
        assert!(right(&machine, shape, pes, Some(fused)), "{shape:?} on {pes} PEs is not tiled");
    }
}

/// MACs at the peak of all PEs, or bytes at the peak of HBM.
fn bound(machine: &Tcp, [batch, rows, columns, summed]: Shape) -> f64 {
    let peak = machine.pes() * machine.pe.slices * machine.ce.lanes * machine.ce.bf16_elements;
    let macs = (batch * rows * columns * summed) as f64 / peak as f64;
    let bytes = batch * (2 * (rows + columns) * summed + 4 * rows * columns);
    let per_cycle = machine.hbm_bytes_per_s() / machine.chip.clock_hz as f64;
    macs.max(bytes as f64 / per_cycle)
}

#[test]
fn cycles_stay_near_the_bound() {
    let machine = tcp();
    let shapes: [Shape; 9] = [
        [1, 512, 2048, 2048],
        [1, 2048, 2048, 512],
        [1, 4096, 4096, 4096],
        [1, 1024, 1024, 4096],
        [1, 8192, 256, 1024],
        [16, 512, 512, 512],
        [1, 128, 1024, 16384],
        [1, 1000, 1500, 3000],
        [1, 1024, 1024, 1024],
    ];
    for shape in shapes {
        let planned = planned(&machine, shape, 8, None);
        let how = planned.chosen.tiled.values().next().map_or("not tiled".to_string(), ToString::to_string);
        let mut device = GraphDevice::new(&machine, planned).expect("a device");
        let wanted = ReadingOptions { values: false, findings: true, ..ReadingOptions::default() };
        let reading = device.run(&[], &wanted, KeepLast::new(0)).expect("a run");
        let (cycles, bound) = (reading.outcome.cycles, bound(&machine, shape));
        assert_eq!(wrong(&reading.findings), None, "{shape:?}");
        println!(
            "{shape:?} {cycles} {bound:.0} {:.3} {} {how}",
            cycles as f64 / bound,
            reading.findings.len()
        );
    }
}
