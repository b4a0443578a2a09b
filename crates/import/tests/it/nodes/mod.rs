//! Single nodes with operands of any type, run by the interpreter, against what their rules give.

mod control;
mod drawn;
mod einsum;
mod grid;
mod place;
mod quantized;
mod recurrent;
mod signal;
mod small;
mod state;

use prost::Message as _;
use tilewright_graph::{Dtype, StoredTensor, primitives};
use tilewright_import::onnx::{self, OnnxOptions, proto};
use tilewright_reference::{Interpreter, Tensor};

/// An operand: its elements, and whether it is a constant of the file.
#[derive(Clone)]
pub(super) struct Operand {
    tensor: Tensor,
    is_constant: bool,
}

pub(super) fn floats(dims: &[usize], elements: &[f32]) -> Operand {
    Operand { tensor: Tensor::floats(Dtype::F32, dims, elements.to_vec()), is_constant: false }
}

pub(super) fn ints(dtype: Dtype, dims: &[usize], elements: &[i64]) -> Operand {
    Operand { tensor: Tensor::ints(dtype, dims, elements.to_vec()), is_constant: false }
}

impl Operand {
    pub(super) fn constant(mut self) -> Operand {
        self.is_constant = true;
        self
    }

    fn element(&self) -> i32 {
        match self.tensor.dtype {
            Dtype::F32 => 1,
            Dtype::U8 => 2,
            Dtype::I8 => 3,
            Dtype::I32 => 6,
            Dtype::I64 => 7,
            Dtype::Bool => 9,
            other => panic!("{other}"),
        }
    }

    fn dims(&self) -> Vec<i64> {
        self.tensor.dims.iter().map(|dim| i64::try_from(*dim).expect("small")).collect()
    }

    fn initializer(&self, name: &str) -> proto::TensorProto {
        let narrow = || self.tensor.as_ints().iter().map(|x| i32::try_from(*x).expect("narrow")).collect();
        let mut tensor = proto::TensorProto {
            dims: self.dims(),
            data_type: self.element(),
            name: name.into(),
            ..Default::default()
        };
        match self.tensor.dtype {
            Dtype::F32 => tensor.float_data = self.tensor.as_floats().to_vec(),
            Dtype::I64 => tensor.int64_data = self.tensor.as_ints().to_vec(),
            _ => tensor.int32_data = narrow(),
        }
        tensor
    }

    fn input(&self, name: &str) -> proto::ValueInfoProto {
        let dims = self.dims();
        let dims = dims.iter().map(|dim| proto::DimensionProto { value: Some(*dim), name: None }).collect();
        let tensor =
            proto::TensorTypeProto { element: self.element(), shape: Some(proto::ShapeProto { dims }) };
        proto::ValueInfoProto { name: name.into(), ty: Some(proto::TypeProto { tensor: Some(tensor) }) }
    }
}

/// A model of one node.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) op: &'static str,
    pub(super) opset: i64,
    pub(super) attributes: Vec<proto::AttributeProto>,
    pub(super) operands: Vec<Option<Operand>>,
    pub(super) results: usize,
    /// Operands at the end that only bodies see, by their names.
    pub(super) seen: usize,
}

impl Node {
    pub(super) fn new(op: &'static str, operands: &[Operand]) -> Node {
        let operands = operands.iter().cloned().map(Some).collect();
        Node { op, opset: 22, attributes: Vec::new(), operands, results: 1, seen: 0 }
    }

    pub(super) fn with(mut self, attribute: proto::AttributeProto) -> Node {
        self.attributes.push(attribute);
        self
    }

    fn model(&self) -> Vec<u8> {
        let operands = self.operands.iter().enumerate();
        let name = |at: usize, operand: &Option<Operand>| match operand {
            Some(_) => format!("x{at}"),
            None => String::new(),
        };
        let some = || operands.clone().filter_map(|(at, x)| Some((format!("x{at}"), x.as_ref()?)));
        let results: Vec<String> = (0..self.results).map(|at| format!("y{at}")).collect();
        let node = proto::NodeProto {
            name: "n".into(),
            op: self.op.into(),
            inputs: operands
                .clone()
                .take(self.operands.len() - self.seen)
                .map(|(at, x)| name(at, x))
                .collect(),
            outputs: results.clone(),
            attributes: self.attributes.clone(),
            ..Default::default()
        };
        let graph = proto::GraphProto {
            nodes: vec![node],
            initializers: some().filter(|(_, x)| x.is_constant).map(|(at, x)| x.initializer(&at)).collect(),
            inputs: some().filter(|(_, x)| !x.is_constant).map(|(at, x)| x.input(&at)).collect(),
            outputs: results.into_iter().map(|name| proto::ValueInfoProto { name, ty: None }).collect(),
            ..Default::default()
        };
        let opsets = vec![proto::OperatorSetId { domain: String::new(), version: self.opset }];
        proto::ModelProto { graph: Some(graph), opsets }.encode_to_vec()
    }

    /// What it gives.
    pub(super) fn run(&self) -> Vec<Tensor> {
        let model = onnx::read("f", &self.model(), &OnnxOptions::default());
        let model = model.unwrap_or_else(|error| panic!("{error}"));
        let graph = primitives(&model.graph).unwrap_or_else(|complaint| panic!("{complaint:?}"));
        if let Some((_, complaint)) = tilewright_graph::verify(&graph).first() {
            panic!("{complaint:?}");
        }
        let interpreter = Interpreter::new(graph, &model.store).unwrap_or_else(|error| panic!("{error}"));
        let given: Vec<Tensor> =
            self.operands.iter().flatten().filter(|x| !x.is_constant).map(|x| x.tensor.clone()).collect();
        interpreter.run(&given).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn floats(&self) -> Vec<f32> {
        self.run()[0].as_floats().to_vec()
    }

    pub(super) fn ints(&self) -> Vec<i64> {
        self.run()[0].as_ints().to_vec()
    }

    /// Why it is refused.
    pub(super) fn refused(&self) -> String {
        let read = onnx::read("f", &self.model(), &OnnxOptions::default());
        read.map(|_| ()).expect_err("it is refused").to_string()
    }
}

pub(super) fn int(name: &str, i: i64) -> proto::AttributeProto {
    proto::AttributeProto { name: name.into(), i, ..Default::default() }
}

pub(super) fn float(name: &str, f: f32) -> proto::AttributeProto {
    proto::AttributeProto { name: name.into(), f, ..Default::default() }
}

pub(super) fn list(name: &str, ints: &[i64]) -> proto::AttributeProto {
    proto::AttributeProto { name: name.into(), ints: ints.to_vec(), ..Default::default() }
}

pub(super) fn word(name: &str, value: &str) -> proto::AttributeProto {
    proto::AttributeProto { name: name.into(), s: value.as_bytes().to_vec(), ..Default::default() }
}

pub(super) fn words(name: &str, values: &[&str]) -> proto::AttributeProto {
    let strings = values.iter().map(|value| value.as_bytes().to_vec()).collect();
    proto::AttributeProto { name: name.into(), strings, ..Default::default() }
}

/// Whether all elements are nearly equal.
pub(super) fn assert_near(found: &[f32], wanted: &[f32]) {
    let is_near = |(x, y): (&f32, &f32)| (x - y).abs() <= 2e-6 * y.abs().max(1.0);
    let are_near = found.len() == wanted.len() && found.iter().zip(wanted).all(is_near);
    assert!(are_near, "{found:?}\ninstead of\n{wanted:?}");
}

/// Floats between -1 and 1 that no two tests see alike.
pub(super) fn drawn(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_769).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        #[expect(clippy::cast_precision_loss, reason = "16 bits")]
        let x = (state >> 16) as f32;
        x / 32768.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Whole numbers of a range.
pub(super) fn counted(seed: u32, count: usize, (least, most): (i64, i64)) -> Vec<i64> {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "small numbers")]
    let whole = |x: f32| least + ((x + 1.0) / 2.0 * (most - least + 1) as f32) as i64;
    drawn(seed, count).into_iter().map(|x| whole(x).clamp(least, most)).collect()
}

/// The tensor of a file that holds one, for the types that files write as bytes.
#[test]
fn operands_are_read_as_they_are_written() {
    let bytes = ints(Dtype::I8, &[2], &[-3, 7]).initializer("x").encode_to_vec();
    let read: StoredTensor = onnx::tensor::read("f", &bytes).expect("a tensor");
    assert_eq!((read.dtype, read.bytes()), (Dtype::I8, &[253, 7][..]));
}

/// The book's table of operators names each of them, and no other.
#[test]
#[expect(clippy::disallowed_methods, reason = "reads the book")]
fn the_book_names_every_operator() {
    let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/graph-level.md");
    let book = std::fs::read_to_string(book).expect("the book");
    let table = book.split("## Operators of ONNX").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = table.expect("the table").lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = rows.filter_map(|row| row.split(" | ").nth(1)).collect::<String>();
    let mut named: Vec<&str> = cells.split('`').skip(1).step_by(2).collect();
    let mut known = onnx::operators().to_vec();
    named.sort_unstable();
    known.sort_unstable();
    assert_eq!(named, known);
}
