//! All integration tests of this crate in one binary, which is linked once.

mod bounded;
mod definitions;
mod fast_paths;
mod float8;
mod not_a_number;
mod outside;
