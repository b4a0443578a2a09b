//! The graph level: a model as tensor operators over fixed and named axes.
//!
//! A [`Graph`] is data: values defined once, constants by reference to a [`TensorStore`] of tensors, key and
//! value caches as explicit state. It may hold rich operators ([`rich`]); [`primitives()`] is stage 1 of the
//! compiler and leaves only those of [`op`].
//!
//! ```
//! use tilewright_graph::{Builder, Dtype, Type, primitives};
//! use tilewright_graph::rich::{Attrs, RichOp};
//!
//! let mut b = Builder::new("example");
//! let seq = b.axis("seq", 1, 512);
//! let x = b.input("x", Type::new(Dtype::F32, [seq, 64.into()]))?;
//! let y = b.rich_one(RichOp::Softmax, &[x], Attrs::default().int("axis", -1))?;
//! b.output("y", y);
//! let graph = b.finish();
//! assert_eq!(graph.nodes.len(), 1);
//! let names: Vec<&str> = primitives(&graph)?.nodes.iter().map(|node| node.op.name()).collect();
//! assert_eq!(names, ["reduce", "sub", "exp", "reduce", "div"]);
//! # Ok::<(), Box<tilewright_base::Diagnostic>>(())
//! ```

pub mod bounded;
pub mod build;
pub mod dim;
pub mod dtype;
pub mod graph;
pub mod index_input;
pub mod infer;
pub mod known;
pub mod language;
pub mod op;
pub mod padded_axes;
pub mod primitives;
pub mod prune;
pub mod rich;
pub mod simplify;
pub mod sized;
pub mod text;
pub mod verify;
mod wide_floats;

pub use bounded::{AxisSizes, BoundedGraph, OpenSizes, OpenTensor, SizeInput, bounded, out_of_bounds};
pub use build::Builder;
pub use dim::{Axis, AxisId, Dim};
pub use dtype::Dtype;
pub use graph::{
    Constant, Data, Graph, GraphOutput, GraphState, Node, StoredTensor, TensorStore, Type, Value, ValueId,
};
pub use index_input::IndexInput;
pub use infer::{BuildResult, Subscripts};
pub use known::KnownElements;
pub use language::{InputRole, LanguageGraph, NoLanguage};
pub use op::{Binary, Fold, Op, Unary};
pub use padded_axes::{AxisUnits, padded_axes};
pub use primitives::{multiply_accumulates, primitives};
pub use simplify::simplified;
pub use sized::{AxisChoice, sized};
pub use verify::verify;
pub use wide_floats::wide_floats;
