//! All integration tests of this crate in one binary, which is linked once.

mod arith;
mod bulk;
mod decode;
mod encode;
mod functions;
mod fxp;
mod ints;
mod names;
