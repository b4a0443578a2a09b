//! The messages of ONNX that an importer needs, by hand. Field numbers are those of onnx.proto.

use prost::Message;

/// A model file.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Its graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Versions of the operators.
    #[prost(message, repeated, tag = "8")]
    pub opsets: Vec<OperatorSetId>,
}

/// A version of a domain's operators.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetId {
    /// Empty for ONNX itself.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// The version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A graph.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// Operators, in order.
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<NodeProto>,
    /// What it is called.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Weights.
    #[prost(message, repeated, tag = "5")]
    pub initializers: Vec<TensorProto>,
    /// What it takes.
    #[prost(message, repeated, tag = "11")]
    pub inputs: Vec<ValueInfoProto>,
    /// What it gives.
    #[prost(message, repeated, tag = "12")]
    pub outputs: Vec<ValueInfoProto>,
    /// Types and sizes that are declared of what lies between.
    #[prost(message, repeated, tag = "13")]
    pub values: Vec<ValueInfoProto>,
}

/// An operator.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Operands by name; empty if left out.
    #[prost(string, repeated, tag = "1")]
    pub inputs: Vec<String>,
    /// Results by name.
    #[prost(string, repeated, tag = "2")]
    pub outputs: Vec<String>,
    /// What it is called.
    #[prost(string, tag = "3")]
    pub name: String,
    /// What it does.
    #[prost(string, tag = "4")]
    pub op: String,
    /// Its attributes.
    #[prost(message, repeated, tag = "5")]
    pub attributes: Vec<AttributeProto>,
    /// Whose operator it is.
    #[prost(string, tag = "7")]
    pub domain: String,
}

/// An attribute; which field holds depends on the operator.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// A float.
    #[prost(float, tag = "2")]
    pub f: f32,
    /// An integer.
    #[prost(int64, tag = "3")]
    pub i: i64,
    /// Bytes of a text.
    #[prost(bytes = "vec", tag = "4")]
    pub s: Vec<u8>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A graph.
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<GraphProto>>,
    /// Floats.
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    /// Bytes of texts.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
}

/// A tensor with its elements.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// Sizes.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// Number of the element type.
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// Elements as floats.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Elements of narrow integers, bool and float16.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Elements as integers.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// What it is called.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Elements as bytes.
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
    /// Where the elements are, if in another file.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringEntry>,
    /// 1 if they are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// A pair of texts.
#[derive(Clone, PartialEq, Message)]
pub struct StringEntry {
    /// Left.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Right.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A name with its type.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The type.
    #[prost(message, optional, tag = "2")]
    pub ty: Option<TypeProto>,
}

/// A type; only tensors are read.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// A tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor: Option<TensorTypeProto>,
}

/// A type of tensors.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// Number of the element type.
    #[prost(int32, tag = "1")]
    pub element: i32,
    /// Sizes.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<ShapeProto>,
}

/// Sizes.
#[derive(Clone, PartialEq, Message)]
pub struct ShapeProto {
    /// One an axis.
    #[prost(message, repeated, tag = "1")]
    pub dims: Vec<DimensionProto>,
}

/// A size: a number or a name.
#[derive(Clone, PartialEq, Message)]
pub struct DimensionProto {
    /// The number.
    #[prost(int64, optional, tag = "1")]
    pub value: Option<i64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}
