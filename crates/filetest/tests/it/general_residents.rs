//! Residual networks whose sums stay in data memory between contractions: values against the interpreter bit
//! for bit, with and without, and programs that read such a sum elsewhere are refused.

use proptest::prelude::*;
use tilewright_compile::check::check_plan;
use tilewright_compile::general::{Choice, Options, Planned, Without, plan};
use tilewright_graph::{Binary, Builder, Dtype, Graph, TensorStore, Type, ValueId, primitives};
use tilewright_reference::Tensor;
use tilewright_tcp_isa::program::exec::{ExecBody, Memory};
use tilewright_testkit::{draws, tcp};

use crate::general_contractions::{agrees, fixed};

/// A residual network: rows, features of its input and of what stays, and what each block does.
#[derive(Clone, Debug)]
struct Net {
    rows: i64,
    from: i64,
    width: i64,
    blocks: Vec<Block>,
}

/// A block: `x + bias + clamp(x) w`.
#[derive(Clone, Copy, Debug)]
struct Block {
    bias: bool,
    /// What the block gives leaves the graph, so that HBM has it too.
    given: bool,
    /// Two contractions instead of one.
    twice: bool,
    /// The sum of the block before is added again.
    again: bool,
}

fn clamped(b: &mut Builder, x: ValueId) -> Option<ValueId> {
    let x = b.with(Binary::Max, x, -8.0).ok()?;
    b.with(Binary::Min, x, 8.0).ok()
}

fn graph(net: &Net) -> Option<Graph> {
    let mut b = Builder::new("residual");
    let floats = |sizes: &[i64]| Type::new(Dtype::F32, fixed(sizes));
    let x = b.input("x", floats(&[net.rows, net.from])).ok()?;
    let w = b.input("w", floats(&[net.width, net.from])).ok()?;
    let mut sum = b.einsum("mk,nk->mn", &[x, w]).ok()?;
    let mut before = sum;
    for (number, block) in net.blocks.iter().enumerate() {
        let mut inner = clamped(&mut b, sum)?;
        for part in 0..=usize::from(block.twice) {
            let w = b.input(&format!("w{number}.{part}"), floats(&[net.width, net.width])).ok()?;
            inner = b.einsum("mk,nk->mn", &[inner, w]).ok()?;
            if part == 0 && block.twice {
                inner = clamped(&mut b, inner)?;
            }
        }
        if block.bias {
            let bias = b.input(&format!("b{number}"), floats(&[net.width])).ok()?;
            inner = b.add(inner, bias).ok()?;
        }
        let mut next = b.add(sum, inner).ok()?;
        if block.again {
            next = b.add(next, before).ok()?;
        }
        (before, sum) = (sum, next);
        if block.given {
            b.output(&format!("y{number}"), sum);
        }
    }
    b.output("y", sum);
    primitives(&b.finish()).ok()
}

/// Whole numbers: of weights, two in each column are not zero, so that all sums are exact in bf16.
fn inputs(graph: &Graph, seed: usize) -> Vec<Tensor> {
    let tensor = |(number, id): (usize, &ValueId)| {
        let value = graph.value(*id).expect("an input");
        let size =
            |at: usize| usize::try_from(value.ty.dims[at].as_fixed().expect("a size")).expect("a size");
        let sizes: Vec<usize> = (0..value.ty.dims.len()).map(size).collect();
        let is_weight = value.name.starts_with('w');
        let columns = *sizes.last().expect("an axis");
        let element = |at: usize| {
            let (row, column) = (at / columns, at % columns);
            let drawn = (at * 31 + number * 7 + seed * 13) % 5;
            let live =
                !is_weight || column % columns == row * 3 % columns || column == (row * 5 + 1) % columns;
            if live { drawn as f32 - 2.0 } else { 0.0 }
        };
        let count = sizes.iter().product::<usize>();
        Tensor::floats(Dtype::F32, &sizes, (0..count).map(element).collect())
    };
    graph.inputs.iter().enumerate().map(tensor).collect()
}

fn net() -> impl Strategy<Value = Net> {
    let block = any::<[bool; 4]>().prop_map(|[bias, given, twice, again]| Block {
        bias,
        given: given && bias,
        twice,
        again,
    });
    let sizes = [1..9_i64, 1..4_i64, 1..4_i64];
    (sizes, proptest::collection::vec(block, 1..4), 0..16_i64).prop_map(
        |([rows, from, width], blocks, odd)| Net {
            rows: 32 * rows + if odd < 4 { odd } else { 0 },
            from: 32 * from,
            width: 64 * width,
            blocks,
        },
    )
}

fn planned(graph: &Graph, options: &Options) -> Planned {
    plan(&tcp(), graph, &TensorStore::default(), options).expect("a plan")
}

/// A network whose sums stay.
fn staying() -> Net {
    let block = Block { bias: true, given: false, twice: false, again: false };
    Net { rows: 512, from: 128, width: 256, blocks: vec![block; 3] }
}

#[test]
fn sums_stay_where_tiles_are_the_same() {
    let graph = graph(&staying()).expect("a graph");
    let options = Options { pes: 4, ..Options::default() };
    let found = planned(&graph, &options);
    assert!(!found.residents.is_empty());
    assert!(found.residents.iter().all(|one| !one.is_stored && !one.readers.is_empty()));
    let without = Options { without: Without::from(Choice::Resident), ..options };
    assert!(planned(&graph, &without).residents.is_empty());
    for options in [options, without] {
        agrees(&graph, &inputs(&graph, 1), options).expect("the values of the interpreter");
    }
}

/// A command that takes what stays from a place beside it is found by who looks at bytes alone.
#[test]
fn sums_that_are_read_elsewhere_are_refused() {
    let graph = graph(&staying()).expect("a graph");
    let mut found = planned(&graph, &Options { pes: 4, ..Options::default() });
    let one = found.residents.first().expect("a value that stays").clone();
    let (machine, range) = (tcp(), one.base..one.base + one.bytes());
    assert_eq!(check_plan(&machine, &found).errors().count(), 0);
    let mut moved = 0;
    for exec in &mut found.program.execs {
        let ExecBody::Stream(stream) = &mut exec.body else { continue };
        let writes = stream.commit.memory == Memory::Dm && range.contains(&stream.commit.base);
        if writes && moved == 0 {
            stream.commit.base -= one.bytes();
            moved += 1;
        }
    }
    assert_eq!(moved, 1, "a command that leaves the value");
    assert!(check_plan(&machine, &found).errors().count() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(draws(40, 400)))]

    #[test]
    fn residual_networks_are_what_they_say(net in net(), pes in 0..4_u32, seed in 0..5_usize) {
        let graph = graph(&net).expect("a graph");
        let options = Options { pes: 1 << pes, ..Options::default() };
        agrees(&graph, &inputs(&graph, seed), options)?;
    }
}
