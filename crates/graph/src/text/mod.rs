//! The text form of graphs: every graph prints to one text, and that text reads back as an equal graph.
//!
//! Statements and values are those of `tilewright_ir`. Names that are no plain words stand in quotes.
//!
//! | statement | says |
//! |---|---|
//! | `graph 1` | what this text is, first; the number is the version of this grammar |
//! | `name NAME` | what the model is called |
//! | `axis NAME LEAST..MOST` | an axis whose size is given when the graph runs |
//! | `input NAME: TYPE` | a tensor that a run is given |
//! | `const NAME: TYPE = stored NAME` | a tensor of the model, by its name in the store |
//! | `const NAME: TYPE = [..]` | its elements; one stands for all; floats that no decimal gives are patterns in hexadecimal |
//! | `let NAME: TYPE, .. = OP(NAME, ..) ATTRIBUTE=VALUE ..` | an operator; `_` stands for an operand that is left out |
//! | `output NAME = NAME` | a result under its outside name |
//! | `state NAME -> NAME` | an input and the output that enters the next run in its place |
//!
//! A type is `f32[batch, 4, past+seq]`: element type, then sizes, which are sums of products of numbers and
//! axes. Attributes of primitives that the type of the result says (sizes of `reshape`, `broadcast`, `iota`
//! and `slice`, the type of `convert`) are not repeated.

mod print;
mod read;

pub use print::print;
pub use read::{dim, read};
