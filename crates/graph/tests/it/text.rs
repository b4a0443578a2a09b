//! Texts of random graphs read back, stage 1 keeps types, and no edit of a text makes the reader panic.

use proptest::prelude::*;
use tilewright_base::{SourceId, Sources, render};
use tilewright_graph::rich::{Attrs, RichOp};
use tilewright_graph::{
    Binary, BuildResult, Builder, Dtype, Fold, Graph, Op, Type, Unary, ValueId, primitives, text, verify,
};

/// One random step: an operator and which values it takes.
fn step(b: &mut Builder, values: &[ValueId], kind: u8, first: usize, second: usize) -> BuildResult<ValueId> {
    let (x, y) = (values[first % values.len()], values[second % values.len()]);
    let rank = b.rank(x);
    let axis = second % rank.max(1);
    let attrs = || Attrs::default().int("axis", -1);
    match kind % 16 {
        0 => b.unary(Unary::ALL[second % Unary::ALL.len()], x),
        1 => b.binary(Binary::ALL[second % Binary::ALL.len()], x, y),
        2 => b.reduce(Fold::ALL[second % 4], x, &[axis], second.is_multiple_of(2)),
        3 => b.einsum("se,te->st", &[x, y]),
        4 => b.convert(x, Dtype::ALL[second % Dtype::ALL.len()]),
        5 => b.unsqueeze(x, axis),
        6 => b.transpose(x, &(0..rank).rev().collect::<Vec<_>>()),
        7 => b.slice(x, axis, 0.into(), 1.into(), 1),
        8 => b.concat(axis, &[x, y]),
        9 => {
            let zero = b.scalar(b.dtype(x), 0.0)?;
            b.pad(x, axis, 1.into(), 2.into(), zero)
        }
        10 => b.gather(x, axis, y),
        11 => b.emit(Op::Window { axis, size: 2, stride: 1, dilation: 1 }, &[x]),
        12 => b.rich_one(RichOp::Softmax, &[x], attrs()),
        13 => b.rich_one(RichOp::RmsNorm, &[x, y], attrs().float("eps", 1e-5)),
        14 => b.rich_one(RichOp::Gelu, &[x], Attrs::default().word("approximate", "tanh")),
        _ => b.mean(x, &[axis], true),
    }
}

fn graphs() -> impl Strategy<Value = Graph> {
    proptest::collection::vec((any::<u8>(), 0..64_usize, 0..64_usize), 1..24).prop_map(|steps| {
        let mut b = Builder::new("random graph");
        let seq = b.axis("odd axis", 1, 64);
        let mut values = vec![
            b.input("x", Type::new(Dtype::F32, [seq.clone(), 4.into()])).expect("a good type"),
            b.input("scale", Type::new(Dtype::F32, [4.into()])).expect("a good type"),
            b.input("1 odd name", Type::new(Dtype::I64, [seq])).expect("a good type"),
        ];
        for (kind, first, second) in steps {
            // A step that does not fit the values is left out.
            if let Ok(value) = step(&mut b, &values, kind, first, second) {
                values.push(value);
            }
        }
        for (at, value) in values.iter().enumerate().skip(3) {
            b.output(&format!("out{at}"), *value);
        }
        b.finish()
    })
}

proptest! {
    #[test]
    fn texts_read_back(graph in graphs()) {
        prop_assert_eq!(verify(&graph), []);
        let printed = text::print(&graph);
        let again = text::read(&printed, SourceId(0))
            .unwrap_or_else(|complaints| panic!("{complaints:?}\n{printed}"));
        prop_assert_eq!(&again, &graph);
        prop_assert_eq!(text::print(&again), printed);
    }

    #[test]
    fn stage_1_leaves_primitives_of_the_same_types(graph in graphs()) {
        let lowered = primitives(&graph).unwrap();
        prop_assert_eq!(verify(&lowered), []);
        prop_assert!(lowered.nodes.iter().all(|node| node.op.is_primitive()));
        for (before, after) in graph.outputs.iter().zip(&lowered.outputs) {
            let ty = |graph: &Graph, id: ValueId| graph.value(id).map(|value| value.ty.clone());
            prop_assert_eq!(ty(&graph, before.value), ty(&lowered, after.value));
        }
        prop_assert_eq!(&primitives(&lowered).unwrap(), &lowered, "stage 1 of its own result changes \
            nothing");
    }

    #[test]
    fn no_edit_is_too_odd(
        graph in graphs(),
        at in any::<prop::sample::Index>(),
        with in "\\PC{0,6}",
        cut in 0..30_usize,
    ) {
        let printed = text::print(&graph);
        let letters: Vec<char> = printed.chars().collect();
        let at = at.index(letters.len());
        let edited: String =
            letters[..at].iter().copied().chain(with.chars())
                .chain(letters[(at + cut).min(letters.len())..].iter().copied()).collect();
        if let Err(complaints) = text::read(&edited, SourceId(0)) {
            let mut sources = Sources::default();
            sources.add("edited", edited);
            prop_assert!(render::plain(&sources, &complaints).starts_with("error["));
        }
    }
}
