//! What is computed twice and what is known beforehand.

use tilewright_graph::simplify::simplified;
use tilewright_graph::{Builder, Data, Dim, Dtype, Graph, Type, Unary};

fn names(graph: &Graph) -> Vec<&'static str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

#[test]
fn what_is_computed_twice_is_computed_once() {
    let mut b = Builder::new("twice");
    let x = b.input("x", Type::new(Dtype::F32, [Dim::fixed(4)])).unwrap();
    let one = b.unary(Unary::Exp, x).unwrap();
    let other = b.unary(Unary::Exp, x).unwrap();
    let sum = b.add(one, other).unwrap();
    b.output("y", sum);
    b.output("same", other);
    let graph = simplified(&b.finish()).unwrap();
    assert_eq!(names(&graph), ["exp", "add"]);
    assert_eq!(graph.outputs.len(), 2);
}

#[test]
fn rows_by_known_numbers_are_a_slice() {
    for (rows, found) in [
        (vec![2], vec!["slice", "reshape"]),
        (vec![-1], vec!["slice", "reshape"]),
        (vec![0, 2, 4], vec!["slice"]),
        (vec![3, 2, 1], vec!["slice"]),
        (vec![0, 1, 3], vec!["gather"]),
        (vec![1, 1], vec!["gather"]),
        (vec![7], vec!["gather"]),
    ] {
        let mut b = Builder::new("rows");
        let x = b.input("x", Type::new(Dtype::F32, [Dim::fixed(5), Dim::fixed(3)])).unwrap();
        let single = rows.len() == 1;
        let dims = if single { vec![] } else { vec![Dim::fixed(i64::try_from(rows.len()).unwrap())] };
        let table = b.constant(Type::new(Dtype::I64, dims), Data::Ints(rows.clone())).unwrap();
        let taken = b.gather(x, 0, table).unwrap();
        b.output("y", taken);
        let graph = simplified(&b.finish()).unwrap();
        assert_eq!(names(&graph), found, "{rows:?}");
    }
}
