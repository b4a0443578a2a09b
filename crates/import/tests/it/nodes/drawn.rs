//! Nodes with attributes, operands and sizes that were drawn from the edges of what fields hold: each gives a
//! model that verifies before and after stage 1, or a refusal. The same draws every time.

use prost::Message as _;
use tilewright_base::random;
use tilewright_graph::{Dtype, primitives, verify};
use tilewright_import::onnx::{self, OnnxOptions, proto};

use super::{Node, Operand, floats, int, ints, list, word};

const EDGES: [i64; 16] =
    [0, 1, 2, 3, -1, -2, 16, 1 << 10, 1025, 1 << 20, 1 << 31, -1 << 31, 1 << 40, 1 << 62, i64::MAX, i64::MIN];

/// Draws of each node.
const DRAWS: usize = 200;

struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        usize::try_from(random::next(&mut self.0) % most.max(1) as u64).expect("small")
    }

    fn edge(&mut self) -> i64 {
        EDGES[self.below(EDGES.len())]
    }

    fn node(&mut self, node: &mut proto::NodeProto) {
        let (attribute, operand) = (self.below(node.attributes.len()), self.below(node.inputs.len()));
        match (self.below(6), node.attributes.get_mut(attribute)) {
            (0, Some(attribute)) => attribute.i = self.edge(),
            (1, Some(attribute)) if !attribute.ints.is_empty() => {
                let at = self.below(attribute.ints.len());
                attribute.ints[at] = self.edge();
            }
            (2, Some(attribute)) => {
                attribute.ints.push(self.edge());
                attribute.s.pop();
                attribute.strings.pop();
            }
            (3, _) => node.inputs[operand].clear(),
            (4, _) => {
                let other = self.below(node.inputs.len());
                node.inputs.swap(operand, other);
            }
            _ => node.inputs.truncate(operand.max(1)),
        }
    }

    fn graph(&mut self, graph: &mut proto::GraphProto) {
        if self.below(3) > 0 {
            return self.node(&mut graph.nodes[0]);
        }
        let number = self.below(graph.initializers.len() + graph.inputs.len());
        if let Some(constant) = graph.initializers.get_mut(number) {
            let at = self.below(constant.int64_data.len());
            let edge = self.edge();
            if let Some(element) = constant.int64_data.get_mut(at) {
                *element = edge;
            }
            return;
        }
        let input = graph.inputs.get_mut(number - graph.initializers.len());
        let tensor = input.and_then(|input| input.ty.as_mut()?.tensor.as_mut()).expect("an input");
        let dims = &mut tensor.shape.as_mut().expect("a shape").dims;
        let axis = self.below(dims.len() + 1);
        match dims.get_mut(axis) {
            Some(dim) if self.below(4) > 0 => dim.value = Some(self.edge()),
            Some(dim) => *dim = proto::DimensionProto { value: None, name: Some("open".into()) },
            None => tensor.element = [1, 2, 3, 6, 7, 9, 10][self.below(7)],
        }
    }
}

fn zeros(dims: &[usize]) -> Operand {
    floats(dims, &vec![0.0; dims.iter().product()])
}

fn sizes(elements: &[i64]) -> Operand {
    ints(Dtype::I64, &[elements.len()], elements).constant()
}

fn one(number: i64) -> Operand {
    ints(Dtype::I64, &[], &[number]).constant()
}

fn bytes(dims: &[usize]) -> Operand {
    ints(Dtype::U8, dims, &vec![0; dims.iter().product()]).constant()
}

fn layers() -> Vec<Node> {
    let layer = |op, gates: usize| {
        let lengths = ints(Dtype::I32, &[2], &[1, 3]).constant();
        let operands = [
            zeros(&[3, 2, 4]),
            zeros(&[1, gates * 5, 4]),
            zeros(&[1, gates * 5, 5]),
            zeros(&[1, 2 * gates * 5]),
            lengths,
            zeros(&[1, 2, 5]),
        ];
        Node::new(op, &operands).with(word("direction", "reverse")).with(int("hidden_size", 5))
    };
    let attention = [zeros(&[1, 3, 8]), zeros(&[1, 3, 4]), zeros(&[1, 3, 4])];
    let attention = Node::new("LinearAttention", &attention).with(word("update_rule", "linear"));
    let causal = [zeros(&[1, 2, 5]), zeros(&[2, 1, 3]), zeros(&[2]), zeros(&[1, 2, 2])];
    vec![
        layer("RNN", 1),
        layer("GRU", 3).with(int("linear_before_reset", 1)),
        layer("LSTM", 4).with(int("layout", 0)),
        attention.with(int("q_num_heads", 4)).with(int("kv_num_heads", 2)),
        Node::new("CausalConvWithState", &causal).with(word("activation", "silu")),
    ]
}

fn others() -> Vec<Node> {
    let (image, places) = (zeros(&[1, 2, 3, 5]), zeros(&[1, 4, 5, 2]));
    let quantised = [
        bytes(&[1, 2, 5]),
        zeros(&[]),
        bytes(&[]),
        bytes(&[2, 1, 3]),
        zeros(&[2]),
        bytes(&[2]),
        zeros(&[]),
        bytes(&[]),
    ];
    let offsets = [image.clone(), zeros(&[2, 1, 2, 2]), zeros(&[1, 8, 2, 4])];
    let regions = [image.clone(), zeros(&[3, 4]), ints(Dtype::I64, &[3], &[0; 3])];
    let crop = Node::new("CenterCropPad", &[image.clone(), sizes(&[4, 4])]).with(list("axes", &[2, 3]));
    let pooled = Node::new("MaxUnpool", &[image.clone(), ints(Dtype::I64, &[1, 2, 3, 5], &[0; 30])]);
    let block = Node::new("Col2Im", &[zeros(&[1, 8, 6]), sizes(&[3, 4]), sizes(&[2, 2])]);
    let region = Node::new("RoiAlign", &regions).with(int("sampling_ratio", 2));
    vec![
        Node::new("GridSample", &[image.clone(), places]).with(int("align_corners", 1)),
        Node::new("AffineGrid", &[zeros(&[1, 2, 3]), sizes(&[1, 1, 4, 4])]),
        Node::new("DeformConv", &offsets).with(int("group", 2)).with(list("strides", &[1, 1])),
        region.with(int("output_height", 3)).with(int("output_width", 3)),
        crop,
        pooled.with(list("kernel_shape", &[2, 2])).with(list("strides", &[2, 2])),
        block.with(list("strides", &[1, 1])).with(list("pads", &[0, 0, 0, 0])),
        Node::new("LpPool", &[image]).with(list("kernel_shape", &[2, 2])).with(int("p", 3)),
        Node::new("QLinearConv", &quantised).with(int("group", 1)).with(list("pads", &[1, 1])),
        Node::new("MatMulInteger", &[bytes(&[2, 3]), bytes(&[3, 4]), bytes(&[2]), bytes(&[4])]),
        Node::new("QuantizeLinear", &[zeros(&[4, 3]), zeros(&[2, 3])])
            .with(int("block_size", 2))
            .with(int("axis", 0)),
        Node::new("Einsum", &[zeros(&[2, 3, 3]), zeros(&[3, 4])]).with(word("equation", "...ii,ij->j...")),
        Node::new("DFT", &[zeros(&[1, 6, 2]), one(5), one(1)]).with(int("inverse", 1)),
        Node::new("STFT", &[zeros(&[1, 20, 1]), one(3), zeros(&[4]), one(4)]).with(int("onesided", 1)),
        Node::new("HannWindow", &[one(9)]).with(int("periodic", 0)),
        Node::new("OneHot", &[ints(Dtype::I64, &[4], &[0; 4]), one(3), zeros(&[2])]).with(int("axis", 0)),
        Node::new("ReverseSequence", &[zeros(&[3, 2, 2]), ints(Dtype::I64, &[2], &[1, 2])])
            .with(int("time_axis", 0)),
        Node::new("EyeLike", &[zeros(&[3, 4])]).with(int("k", 1)),
        Node::new("Compress", &[zeros(&[3, 4]), sizes(&[1, 0, 1])]).with(int("axis", 0)),
        Node::new("CumProd", &[zeros(&[3, 4]), one(1)]).with(int("exclusive", 1)),
        Node::new("Det", &[zeros(&[2, 3, 3])]),
        Node::new("NonZero", &[sizes(&[0, 1, 2])]),
        Node::new("BitShift", &[bytes(&[3]), bytes(&[3])]).with(word("direction", "LEFT")),
        Node::new("NegativeLogLikelihoodLoss", &[zeros(&[2, 3]), ints(Dtype::I64, &[2], &[0, 1])])
            .with(int("ignore_index", 1)),
    ]
}

#[test]
fn drawn_nodes_are_read_or_refused() {
    let mut dice = Dice(20_251_119);
    let (mut read, mut refused) = (0, 0);
    for node in layers().into_iter().chain(others()) {
        let whole = proto::ModelProto::decode(&node.model()[..]).expect("a model");
        for _ in 0..DRAWS {
            let mut model = whole.clone();
            let graph = model.graph.as_mut().expect("a graph");
            (0..=dice.below(2)).for_each(|_| dice.graph(graph));
            match onnx::read("f", &model.encode_to_vec(), &OnnxOptions::default()) {
                Ok(model) => {
                    read += 1;
                    assert_eq!(verify(&model.graph), [], "{}", node.op);
                    let lowered =
                        primitives(&model.graph).unwrap_or_else(|why| panic!("{}: {why:?}", node.op));
                    assert_eq!(verify(&lowered), [], "{}", node.op);
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(read > 1000 && refused > 1000, "{read} read, {refused} refused");
}
