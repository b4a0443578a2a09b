//! Norms on many PEs: slices with single rows give what slices with several give.

use tilewright_compile::general::{Options, Planned, plan, tensors};
use tilewright_graph::{Builder, Dim, Dtype, Fold, Graph, TensorStore, Type, primitives};
use tilewright_machine::Tcp;
use tilewright_record::KeepLast;
use tilewright_reference::Tensor;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::graph::GraphDevice;
use tilewright_testkit::tcp;

/// Rows less their mean, over their largest, with a weight for each column.
fn graph(rows: i64, columns: i64) -> Graph {
    let mut b = Builder::new("norm");
    let ty = |dims: &[i64]| {
        let dims: Vec<Dim> = dims.iter().map(|size| Dim::fixed(*size)).collect();
        Type::new(Dtype::F32, dims)
    };
    let x = b.input("x", ty(&[rows, columns])).expect("an input");
    let w = b.input("w", ty(&[columns])).expect("an input");
    let sum = b.reduce(Fold::Sum, x, &[1], true).expect("sums");
    let mean = b.with(tilewright_graph::Binary::Mul, sum, 1.0 / 64.0).expect("means");
    let apart = b.sub(x, mean).expect("differences");
    let most = b.reduce(Fold::Max, apart, &[1], true).expect("maxima");
    let scaled = b.div(apart, most).expect("quotients");
    let out = b.mul(scaled, w).expect("products");
    b.output("out", out);
    primitives(&b.finish()).expect("primitives")
}

fn planned(machine: &Tcp, graph: &Graph, pes: u64, keep: bool) -> Planned {
    let options = Options { pes, keep, ..Options::default() };
    plan(machine, graph, &TensorStore::default(), &options).expect("a plan")
}

fn results(machine: &Tcp, planned: Planned, [rows, columns]: [usize; 2]) -> Vec<Vec<u32>> {
    let numbers = |count: usize, step: usize| -> Vec<f32> {
        (0..count).map(|at| ((at * step) % 23) as f32 - 7.0).collect()
    };
    let x = Tensor::floats(Dtype::F32, &[rows, columns], numbers(rows * columns, 7));
    let w = Tensor::floats(Dtype::F32, &[columns], numbers(columns, 5));
    let words = [x, w].map(|tensor| tensors::words(&tensor).expect("words"));
    let mut device = GraphDevice::new(machine, planned).expect("a device");
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    let reading = device.run(&words, &wanted, KeepLast::new(0)).expect("a run");
    let wrong = reading.findings.iter().find(|finding| finding.code != "tcp/cycles-low");
    assert_eq!(wrong, None);
    device.results().expect("results")
}

/// As many rows as slices: all PEs work, and values are those of one PE, and of slices with two rows.
#[test]
fn single_rows_of_slices_give_the_same() {
    let machine = tcp();
    for [rows, columns] in [[512_u16, 768], [512, 64], [256, 128]] {
        let graph = graph(i64::from(rows), i64::from(columns));
        let sizes = [rows, columns].map(usize::from);
        let single = planned(&machine, &graph, 8, false);
        let several = planned(&machine, &graph, 8, true);
        if columns == 768 {
            assert!(single.cycles < planned(&machine, &graph, 4, false).cycles, "{rows}x{columns}");
        }
        let found = results(&machine, single, sizes);
        assert_eq!(found, results(&machine, several, sizes), "{rows}x{columns}");
        assert_eq!(found, results(&machine, planned(&machine, &graph, 1, false), sizes), "{rows}x{columns}");
    }
}
