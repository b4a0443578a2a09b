//! What single ONNX nodes give, where a rule of theirs is easy to miss; and nodes that contradict themselves.

#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes are small")]

use prost::Message as _;
use tilewright_graph::{Dtype, primitives};
use tilewright_import::onnx::{self, OnnxOptions, proto};
use tilewright_reference::{Interpreter, Tensor};

fn info(name: &str, element: i32, dims: &[i64]) -> proto::ValueInfoProto {
    let dims = dims.iter().map(|dim| proto::DimensionProto { value: Some(*dim), name: None }).collect();
    let tensor = proto::TensorTypeProto { element, shape: Some(proto::ShapeProto { dims }) };
    proto::ValueInfoProto { name: name.into(), ty: Some(proto::TypeProto { tensor: Some(tensor) }) }
}

fn int(name: &str, i: i64) -> proto::AttributeProto {
    proto::AttributeProto { name: name.into(), i, ..Default::default() }
}

fn ints(name: &str, ints: &[i64]) -> proto::AttributeProto {
    proto::AttributeProto { name: name.into(), ints: ints.to_vec(), ..Default::default() }
}

fn word(name: &str, value: &str) -> proto::AttributeProto {
    proto::AttributeProto { name: name.into(), s: value.as_bytes().to_vec(), ..Default::default() }
}

/// A model of one node, `y` of `x` and constants.
struct OneNode {
    opset: i64,
    op: &'static str,
    attributes: Vec<proto::AttributeProto>,
    x: Vec<i64>,
    /// Integers behind `x`.
    integers: Vec<Vec<i64>>,
    /// Sizes of weights behind these, all ones.
    weights: Vec<Vec<i64>>,
    /// The element type and sizes that the model declares of `y`.
    y: (i32, Vec<i64>),
}

impl OneNode {
    fn new(op: &'static str, x: &[i64]) -> OneNode {
        let (integers, weights) = (Vec::new(), Vec::new());
        OneNode {
            opset: 18,
            op,
            attributes: Vec::new(),
            x: x.to_vec(),
            integers,
            weights,
            y: (1, x.to_vec()),
        }
    }

    fn model(&self) -> proto::ModelProto {
        let mut names = vec!["x".to_string()];
        let mut initializers = Vec::new();
        for (at, numbers) in self.integers.iter().enumerate() {
            initializers.push(proto::TensorProto {
                dims: vec![numbers.len() as i64],
                data_type: 7,
                name: format!("i{at}"),
                int64_data: numbers.clone(),
                ..Default::default()
            });
        }
        for (at, dims) in self.weights.iter().enumerate() {
            let count = dims.iter().product::<i64>() as usize;
            initializers.push(proto::TensorProto {
                dims: dims.clone(),
                data_type: 1,
                name: format!("w{at}"),
                float_data: vec![1.0; count],
                ..Default::default()
            });
        }
        names.extend(initializers.iter().map(|tensor| tensor.name.clone()));
        let node = proto::NodeProto {
            op: self.op.into(),
            inputs: names,
            outputs: vec!["y".into()],
            attributes: self.attributes.clone(),
            ..Default::default()
        };
        let graph = proto::GraphProto {
            nodes: vec![node],
            initializers,
            inputs: vec![info("x", 1, &self.x)],
            outputs: vec![info("y", self.y.0, &self.y.1)],
            ..Default::default()
        };
        let opsets = vec![proto::OperatorSetId { domain: String::new(), version: self.opset }];
        proto::ModelProto { graph: Some(graph), opsets }
    }

    fn refused(&self) -> String {
        let read = onnx::read("f", &self.model().encode_to_vec(), &OnnxOptions::default());
        read.map(|_| ()).expect_err("it contradicts itself").to_string()
    }

    fn values(&self, x: &[f32]) -> Vec<f32> {
        let model = onnx::read("f", &self.model().encode_to_vec(), &OnnxOptions::default());
        let model = model.unwrap_or_else(|error| panic!("{error}"));
        let graph = primitives(&model.graph).unwrap_or_else(|complaint| panic!("{complaint:?}"));
        let interpreter = Interpreter::new(graph, &model.store).unwrap_or_else(|error| panic!("{error}"));
        let dims: Vec<usize> = self.x.iter().map(|dim| *dim as usize).collect();
        let y = interpreter.run(&[Tensor::floats(Dtype::F32, &dims, x.to_vec())]);
        let y = y.unwrap_or_else(|error| panic!("{error}"));
        y[0].as_floats().to_vec()
    }
}

/// What one element becomes.
type Rule = fn(f32) -> f32;

#[test]
fn reductions_over_no_axes_are_element_by_element() {
    let x = [-2.0_f32, 0.5, 3.0];
    let rules: [(&str, Rule); 9] = [
        ("ReduceL2", |x| (x * x).sqrt()),
        ("ReduceL1", f32::abs),
        ("ReduceSumSquare", |x| x * x),
        ("ReduceLogSum", f32::ln),
        ("ReduceLogSumExp", |x| x),
        ("ReduceSum", |x| x),
        ("ReduceMean", |x| x),
        ("ReduceMax", |x| x),
        ("ReduceProd", |x| x),
    ];
    for (op, rule) in rules {
        let node = OneNode { attributes: vec![int("noop_with_empty_axes", 1)], ..OneNode::new(op, &[3]) };
        for (found, x) in node.values(&x).into_iter().zip(x) {
            let wanted = rule(x);
            assert!(found == wanted || (found.is_nan() && wanted.is_nan()), "{op} of {x}: {found}, {wanted}");
        }
    }
}

#[test]
fn negative_pads_take_away_before_the_rest_is_wrapped() {
    let x: Vec<f32> = (0..20_u8).map(f32::from).collect();
    let pad = |mode: &str, pads: &[i64], y: &[i64]| {
        let node = OneNode {
            opset: 19,
            attributes: vec![word("mode", mode)],
            integers: vec![pads.to_vec()],
            y: (1, y.to_vec()),
            ..OneNode::new("Pad", &[4, 5])
        };
        node.values(&x)
    };
    // Rows 1 to 3 and row 1 again; columns 0 to 2 with column 2 in front.
    let wanted = [7, 5, 6, 7, 12, 10, 11, 12, 17, 15, 16, 17, 7, 5, 6, 7].map(|number: u8| f32::from(number));
    assert_eq!(pad("wrap", &[-1, 1, 1, -2], &[4, 4]), wanted);
    let rows = pad("wrap", &[-1, 0, 1, -2], &[4, 3]);
    assert_eq!(rows[9..], [5.0, 6.0, 7.0]);
    // What is left of a row is 1 2 3 4; it is mirrored at 4.
    assert_eq!(pad("reflect", &[0, -1, 0, 3], &[4, 7])[..7], [1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0]);
    assert_eq!(pad("edge", &[0, -3, 0, 2], &[4, 4])[..4], [3.0, 4.0, 4.0, 4.0]);
}

#[test]
fn nodes_that_contradict_themselves_are_refused() {
    let conv = |attributes: Vec<proto::AttributeProto>, y: &[i64]| OneNode {
        attributes,
        weights: vec![vec![1, 1, 3, 3]],
        y: (1, y.to_vec()),
        ..OneNode::new("Conv", &[1, 1, 4, 4])
    };
    let ones = [1.0; 16];
    let same = || word("auto_pad", "SAME_UPPER");
    assert_eq!(conv(vec![same(), ints("pads", &[0; 4])], &[1, 1, 4, 4]).values(&ones)[0], 4.0);
    assert_eq!(conv(vec![ints("kernel_shape", &[3, 3])], &[1, 1, 2, 2]).values(&ones), [9.0; 4]);
    let text = conv(vec![same(), ints("pads", &[1; 4])], &[1, 1, 4, 4]).refused();
    let said = "f: node `y` (Conv): `auto_pad` is SAME_UPPER, and `pads` is [1, 1, 1, 1]\n  = allowed: one";
    assert!(text.starts_with(said) && text.contains("= instead: `auto_pad` NOTSET"), "{text}");
    let text = conv(vec![word("auto_pad", "SAME")], &[1, 1, 4, 4]).refused();
    assert!(text.starts_with("f: node `y` (Conv): `auto_pad` is `SAME`\n  = allowed: NOTSET, "), "{text}");
    let text = conv(vec![ints("kernel_shape", &[2, 2])], &[1, 1, 2, 2]).refused();
    let said = "f: node `y` (Conv): `kernel_shape` is [2, 2], and its weights have windows of [3, 3]\n";
    assert!(text.starts_with(said) && text.contains("= instead: `kernel_shape` [3, 3], or none"), "{text}");
    let pool = OneNode {
        attributes: vec![word("auto_pad", "VALID"), ints("kernel_shape", &[2]), ints("pads", &[1, 0])],
        ..OneNode::new("MaxPool", &[1, 1, 4])
    };
    assert!(pool.refused().starts_with("f: node `y` (MaxPool): `auto_pad` is VALID, and `pads` is [1, 0]\n"));
}

#[test]
fn outputs_of_another_type_than_declared_are_refused() {
    let node = |element: i32| OneNode { y: (element, vec![3]), ..OneNode::new("Neg", &[3]) };
    assert_eq!(node(1).values(&[1.0, 2.0, 3.0]), [-1.0, -2.0, -3.0]);
    let text = node(7).refused();
    assert!(text.starts_with("f: output `y`: is declared as i64, and its node gives f32\n"), "{text}");
    assert!(text.contains("= allowed: ") && text.contains("= instead: `Cast` to i64"), "{text}");
}

#[test]
fn sizes_that_contradict_what_is_declared_are_refused() {
    let node = |y: &[i64]| OneNode { y: (1, y.to_vec()), ..OneNode::new("Transpose", &[2, 3]) };
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    for y in [[3, 2], [0, 2], [3, -1], [0, 0]] {
        assert_eq!(node(&y).values(&x), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0], "{y:?}");
    }
    let text = node(&[2, 3]).refused();
    let said = "f: output `y`: is declared with sizes [2, 3], and its node gives [3, 2]\n  = allowed: ";
    assert!(text.starts_with(said) && text.contains("= instead: [3, 2] declared"), "{text}");
    let text = node(&[3, 2, 1]).refused();
    assert!(text.contains("is declared with sizes [3, 2, 1], and its node gives [3, 2]"), "{text}");
    let text = node(&[0, 3]).refused();
    assert!(text.contains("is declared with sizes [?, 3], and its node gives [3, 2]"), "{text}");
}

#[test]
fn sizes_that_a_request_fixes_are_not_those_of_the_export() {
    let mut model = OneNode::new("Neg", &[1, 2]).model();
    let input = model.graph.as_mut().and_then(|graph| graph.inputs.first_mut()).expect("an input");
    let shape = input.ty.as_mut().and_then(|ty| ty.tensor.as_mut()?.shape.as_mut()).expect("a shape");
    shape.dims[0] = proto::DimensionProto { name: Some("batch".into()), ..Default::default() };
    let bytes = model.encode_to_vec();
    let read = |least: u64, most: u64| {
        let axes = [("batch".to_string(), (least, most))].into();
        let read = onnx::read("f", &bytes, &OnnxOptions { axes, ..OnnxOptions::default() });
        read.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!((read(1, 8), read(3, 3)), (Ok(()), Ok(())));
    let text = read(2, 8).expect_err("no size that is allowed is 1");
    assert!(text.contains("is declared with sizes [1, 2], and its node gives [batch, 2]"), "{text}");
}

#[test]
fn values_between_nodes_are_held_against_what_is_declared_of_them() {
    let with = |value: proto::ValueInfoProto| {
        let mut model = OneNode::new("Neg", &[3]).model();
        let graph = model.graph.as_mut().expect("a graph");
        graph.nodes.push(proto::NodeProto {
            op: "Abs".into(),
            inputs: vec!["y".into()],
            outputs: vec!["z".into()],
            ..Default::default()
        });
        graph.outputs = vec![info("z", 1, &[3])];
        graph.values = vec![value];
        let read = onnx::read("f", &model.encode_to_vec(), &OnnxOptions::default());
        read.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(with(info("y", 1, &[3])), Ok(()));
    assert_eq!(with(info("other", 7, &[9])), Ok(()), "no value of the graph");
    assert_eq!(with(info("y", 0, &[0])), Ok(()), "nothing is declared");
    let text = with(info("y", 1, &[4])).expect_err("another size");
    assert!(text.starts_with("f: value `y`: is declared with sizes [4], and its node gives [3]\n"), "{text}");
    let text = with(info("y", 7, &[3])).expect_err("another type");
    assert!(text.starts_with("f: value `y`: is declared as i64, and its node gives f32\n"), "{text}");
}

#[test]
fn scales_of_a_group_norm_are_those_of_groups_before_opset_21() {
    let norm = |opset: i64, scales: i64| OneNode {
        opset,
        attributes: vec![int("num_groups", 2)],
        weights: vec![vec![scales], vec![scales]],
        ..OneNode::new("GroupNormalization", &[1, 4, 2])
    };
    let x = [1.0, 3.0, 1.0, 3.0, 5.0, 7.0, 5.0, 7.0];
    let each = norm(21, 4).values(&x);
    assert!(each[0].abs() < 1e-2 && (each[1] - 2.0).abs() < 1e-2, "{each:?}");
    assert_eq!(norm(18, 2).values(&x), each);
    let text = norm(18, 3).refused();
    let said = "f: node `y` (GroupNormalization): operand 1 has sizes [3], for 2 groups of 4 channels\n";
    assert!(text.starts_with(said), "{text}");
}

#[test]
fn operands_that_were_attributes_are_read_as_such() {
    let mut topk = OneNode { opset: 9, attributes: vec![int("k", 2)], ..OneNode::new("TopK", &[4]) };
    topk.y = (1, vec![2]);
    assert_eq!(topk.values(&[1.0, 4.0, 2.0, 3.0]), [4.0, 3.0]);
    let scales =
        proto::AttributeProto { name: "scales".into(), floats: vec![1.0, 1.0, 2.0], ..Default::default() };
    let upsample = OneNode {
        opset: 7,
        attributes: vec![scales],
        y: (1, vec![1, 1, 4]),
        ..OneNode::new("Upsample", &[1, 1, 2])
    };
    assert_eq!(upsample.values(&[1.0, 2.0]), [1.0, 1.0, 2.0, 2.0]);
}

#[test]
fn steps_over_an_open_axis_are_refused_with_what_helps() {
    let mut slice =
        OneNode { integers: vec![vec![0], vec![i64::MAX], vec![0], vec![2]], ..OneNode::new("Slice", &[8]) };
    slice.y = (1, vec![4]);
    assert_eq!(slice.values(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), [0.0, 2.0, 4.0, 6.0]);
    let mut model = slice.model();
    let input = model.graph.as_mut().and_then(|graph| graph.inputs.first_mut()).expect("an input");
    let shape = input.ty.as_mut().and_then(|ty| ty.tensor.as_mut()?.shape.as_mut()).expect("a shape");
    shape.dims[0] = proto::DimensionProto { name: Some("seq".into()), ..Default::default() };
    let options = OnnxOptions { most: 64, ..OnnxOptions::default() };
    let text = onnx::read("f", &model.encode_to_vec(), &options).map(|_| ()).expect_err("open").to_string();
    let said =
        "f: node `y` (Slice): a step of 2 over an axis of size seq, which is open\n  = allowed: steps of 1";
    assert!(
        text.starts_with(said) && text.contains("= instead: a fixed size, such as --dims seq=64"),
        "{text}"
    );
}

#[test]
fn an_input_with_elements_of_its_own_may_be_given_all_the_same() {
    let mut model = OneNode { weights: vec![vec![3]], ..OneNode::new("Add", &[3]) }.model();
    model.graph.as_mut().expect("a graph").inputs.push(info("w0", 1, &[3]));
    let read = |given: &[&str]| {
        let given = given.iter().map(|name| (*name).to_string()).collect();
        let bytes = model.encode_to_vec();
        let (inputs, _) = onnx::inputs("f", &bytes, &given).expect("inputs");
        let model =
            onnx::read("f", &bytes, &OnnxOptions { given, ..OnnxOptions::default() }).expect("a model");
        assert_eq!(inputs.len(), model.graph.inputs.len());
        model.graph.inputs.len()
    };
    assert_eq!((read(&[]), read(&["w0"]), read(&["i0"])), (1, 2, 1));
}

#[test]
fn attributes_that_are_there_twice_are_refused() {
    let softmax = |attributes| OneNode { attributes, ..OneNode::new("Softmax", &[3]) };
    let text = softmax(vec![int("axis", 0), int("axis", 0)]).refused();
    assert!(text.contains("attribute `axis` is there more than once"), "{text}");
    softmax(vec![int("axis", 0)]).values(&[1.0, 2.0, 3.0]);
}

#[test]
fn attributes_that_an_operator_does_not_have_are_refused() {
    let of = |op, name: &str| OneNode { attributes: vec![int(name, 0)], ..OneNode::new(op, &[3]) }.refused();
    let text = of("Softmax", "axes");
    let said = "f: node `y` (Softmax): attribute `axes` is none of the operator's\n  = allowed: axis\n  \
                = instead: axis";
    assert_eq!(text, said);
    let text = of("Neg", "beta");
    assert!(text.contains("attribute `beta`") && text.contains("= instead: the node without it"), "{text}");
}

#[test]
fn an_old_resize_is_refused_with_its_opset() {
    let resize = OneNode { opset: 10, weights: vec![vec![1]], ..OneNode::new("Resize", &[3]) };
    let said = "f: node `y` (Resize): is of opset 10, whose Resize has other operands\n  \
                = allowed: Resize of opset 11 to 27\n  = instead: the model converted to opset 13 to 23";
    assert_eq!(resize.refused(), said);
}
