//! All integration tests of this crate in one binary, which is linked once.

mod binaries;
mod explore;
mod figures;
mod fuzz_corpus;
mod general;
mod links;
mod models;
mod onnx_chip;
mod onnx_graphs;
mod permuted;
mod stages;
mod study;
mod supply;
mod tidy;
