//! All integration tests of this crate in one binary, which is linked once.

mod binary;
mod print;
mod text;
