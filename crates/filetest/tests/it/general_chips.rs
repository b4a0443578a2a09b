//! Random graphs divided over chips: parts by the interpreter against the whole graph, and runs on several
//! chips against the interpreter.

use proptest::prelude::*;
use tilewright_compile::divide::{DividedGraph, divided};
use tilewright_compile::general::{Options, plan, tensors};
use tilewright_graph::{Binary, Builder, Data, Dim, Dtype, Fold, Graph, TensorStore, Type, primitives};
use tilewright_record::KeepLast;
use tilewright_reference::Tensor;
use tilewright_runtime::ReadingOptions;
use tilewright_runtime::graph::executable_over_chips;

use tilewright_filetest::host::{TestHost, good};

use crate::general::{graph, inputs, interpreted, largest, steps, tcp};

/// What a part takes of a tensor.
fn part(tensor: &Tensor, axis: Option<usize>, parts: usize, at: usize) -> Tensor {
    let Some(axis) = axis else { return tensor.clone() };
    let mut dims = tensor.dims.clone();
    dims[axis] /= parts;
    let each: usize = dims[axis..].iter().product();
    let all = tensor.as_floats().chunks(each.max(1)).enumerate();
    let own = all.filter(|(number, _)| number % parts == at).flat_map(|(_, turn)| turn.iter().copied());
    Tensor::floats(Dtype::F32, &dims, own.collect())
}

/// Every part of every result is what its part of the graph gives.
fn parts_agree(whole: &Graph, divided: &DividedGraph, inputs: &[Tensor]) -> Result<(), TestCaseError> {
    let parts = usize::try_from(divided.parts).expect("a number of parts");
    let wanted = interpreted(whole, inputs);
    for at in 0..parts {
        let own = inputs.iter().zip(&divided.inputs);
        let own: Vec<Tensor> = own.map(|(tensor, (_, axis))| part(tensor, *axis, parts, at)).collect();
        for ((found, wanted), axis) in
            interpreted(&divided.graph, &own).iter().zip(&wanted).zip(&divided.outputs)
        {
            let wanted = part(wanted, *axis, parts, at);
            prop_assert_eq!(&found.dims, &wanted.dims);
            prop_assert_eq!(found.as_floats(), wanted.as_floats());
        }
    }
    Ok(())
}

/// The results of a graph on so many chips, as words, and the cycles of the slowest.
fn on_chips(divided: &DividedGraph, inputs: &[Tensor], pes: u64) -> Result<Vec<Vec<u32>>, TestCaseError> {
    let machine = tcp();
    let options = Options { pes, ..Options::default() };
    let planned = plan(&machine, &divided.graph, &TensorStore::default(), &options);
    let planned = planned.map_err(|refusal| TestCaseError::reject(refusal.to_string()))?;
    let mut device = executable_over_chips(&machine, &planned, pes, Some(divided)).expect("a device");
    prop_assert_eq!(device.interface().chips(), divided.parts);
    let words: Vec<Vec<u32>> = inputs.iter().filter_map(tensors::words).collect();
    let wanted = ReadingOptions { values: true, findings: true, ..ReadingOptions::default() };
    let reading = device.run(&words, &wanted, KeepLast::new(0)).expect("a run");
    let wrong = reading.findings.iter().find(|finding| finding.code != "tcp/cycles-low");
    prop_assert!(wrong.is_none(), "{wrong:?}");
    Ok(device.results().expect("results"))
}

/// Sizes whose first axis has parts.
fn sizes() -> impl Strategy<Value = [i64; 2]> {
    [1..4_i64, 1..20_i64].prop_map(|[rows, columns]| [4 * rows, columns])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: tilewright_testkit::draws(1000, 20_000), ..ProptestConfig::default()
    })]

    #[test]
    fn parts_of_a_graph_give_parts_of_its_results(
        [rows, columns] in sizes(), parts in 1..3_u32, drawn in steps(),
        values in proptest::collection::vec(-2.0..2.0_f32, 97),
    ) {
        let Some(graph) = graph(rows, columns, &drawn, false) else { return Ok(()) };
        if let Ok(divided) = divided(&graph, 1 << parts) {
            parts_agree(&graph, &divided, &inputs([rows, columns], &values))?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: tilewright_testkit::draws(60, 2000), ..ProptestConfig::default()
    })]

    #[test]
    fn several_chips_give_what_the_interpreter_says(
        [rows, columns] in sizes(), parts in 1..3_u32, pes in 0..3_u32, drawn in steps(),
        values in proptest::collection::vec(-3..4_i8, 97),
    ) {
        let Some(graph) = graph(rows, columns, &drawn, true) else { return Ok(()) };
        let Ok(divided) = divided(&graph, 1 << parts) else { return Ok(()) };
        let floats: Vec<f32> = values.iter().map(|value| f32::from(*value)).collect();
        let inputs = inputs([rows, columns], &floats);
        let found = on_chips(&divided, &inputs, 1 << pes)?;
        // bf16 has eight bits: larger whole numbers are rounded before they are multiplied.
        if largest(&graph, &inputs) <= 256.0 {
            for (found, wanted) in found.iter().zip(interpreted(&graph, &inputs)) {
                let found: Vec<f32> = found.iter().map(|word| f32::from_bits(*word)).collect();
                prop_assert_eq!(&found[..], wanted.as_floats());
            }
        }
    }
}

fn sizes_of(dims: &[i64]) -> Vec<Dim> {
    dims.iter().map(|size| Dim::fixed(*size)).collect()
}

/// A builder with one input of some sizes.
fn with_input(dims: &[i64]) -> (Builder, tilewright_graph::ValueId) {
    let mut b = Builder::new("batch");
    let x = b.input("x", Type::new(Dtype::F32, sizes_of(dims))).expect("an input");
    (b, x)
}

/// Rows of all positions as one axis, a contraction, heads, a softmax of each: a block of a transformer.
#[test]
fn a_block_of_a_transformer_is_divided_by_its_batch() {
    let (mut b, x) = with_input(&[4, 6, 8]);
    let data = (0..64_u8).map(|at| (f32::from(at % 7) - 3.0).to_bits()).collect();
    let w = b.constant(Type::new(Dtype::F32, sizes_of(&[8, 8])), Data::Floats(data)).expect("a weight");
    let rows = b.reshape(x, &sizes_of(&[24, 8])).expect("rows");
    let y = b.einsum("mk,nk->mn", &[rows, w]).expect("products");
    let heads = b.reshape(y, &sizes_of(&[4, 6, 2, 4])).expect("heads");
    let heads = b.transpose(heads, &[0, 2, 1, 3]).expect("heads first");
    let scores = b.einsum("bhmk,bhnk->bhmn", &[heads, heads]).expect("scores");
    let most = b.reduce(Fold::Max, scores, &[3], true).expect("maxima");
    let out = b.sub(scores, most).expect("differences");
    b.output("out", out);
    let graph = primitives(&b.finish()).expect("primitives");
    let divided = divided(&graph, 2).expect("parts");
    assert_eq!((divided.positions, &divided.outputs[..]), (4, &[Some(0)][..]));
    let x = (0..192_u8).map(|at| f32::from(at % 5) - 2.0).collect();
    let inputs = [Tensor::floats(Dtype::F32, &[4, 6, 8], x)];
    parts_agree(&graph, &divided, &inputs).expect("the same");
    let found = on_chips(&divided, &inputs, 2).expect("a run");
    let found: Vec<f32> = found[0].iter().map(|word| f32::from_bits(*word)).collect();
    let scores_are_small = largest(&graph, &inputs) <= 256.0;
    assert!(!scores_are_small || found == interpreted(&graph, &inputs)[0].as_floats());
}

/// What mixes positions is refused with the node that does.
#[test]
fn nodes_that_mix_positions_are_named() {
    let refused = |build: &dyn Fn(&mut Builder, tilewright_graph::ValueId) -> tilewright_graph::ValueId| {
        let (mut b, x) = with_input(&[4]);
        let y = build(&mut b, x);
        b.rename(y, "mixed");
        b.output("y", y);
        divided(&b.finish(), 2).expect_err("a graph that is not divided").message
    };
    assert_eq!(
        refused(&|b, x| b.reduce(Fold::Sum, x, &[0], true).expect("a sum")),
        "node `mixed` (reduce) folds positions of the batch"
    );
    assert_eq!(
        refused(&|b, x| b.einsum("a,b->ab", &[x, x]).expect("products")),
        "node `mixed` (einsum) multiplies positions of the batch with each other"
    );
    assert_eq!(
        refused(&|b, x| b.slice(x, 0, 0.into(), 2.into(), 1).expect("a slice")),
        "node `mixed` (slice) takes some positions of the batch"
    );
    assert_eq!(
        refused(&|b, x| b.slice(x, 0, 3.into(), 4.into(), -1).expect("a reversal")),
        "node `mixed` (slice) takes some positions of the batch"
    );
    let counted = refused(&|b, x| {
        let numbers = b.iota(Dtype::F32, &sizes_of(&[4]), 0).expect("numbers");
        b.binary(Binary::Add, x, numbers).expect("a sum")
    });
    assert!(counted.contains("differs from position to position"), "{counted}");
}

/// A file that was compiled for two chips runs on them as `run` does.
#[test]
fn files_record_their_chips() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut host = TestHost { root, ..TestHost::default() };
    let graph = "tests/general/chips.graph";
    let run = good(&format!("run {graph} --seed 3 --chips 2"), &mut host);
    assert!(run.contains("2 chips, each with 4 of 8 positions of axis 0 of `x`"), "{run}");
    let json = good(&format!("run {graph} --seed 3 --chips 2 --json"), &mut host);
    assert!(json.contains("\"chips\": 2"), "{json}");
    good(&format!("compile {graph} --chips 2 -o g.twb"), &mut host);
    let compiled = good(&format!("compile {graph} --chips 2"), &mut host);
    assert!(compiled.contains("2, each with 4 of 8 positions"), "{compiled}");
    assert_eq!(good("exec g.twb --seed 3", &mut host), run);
    assert_eq!(good("run g.twb --seed 3", &mut host), run);
}
