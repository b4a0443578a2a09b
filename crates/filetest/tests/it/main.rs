//! All integration tests of this crate in one binary, which is linked once.

mod accuracy;
mod bands;
mod binaries;
mod explore;
mod figures;
mod fuzz_corpus;
mod general;
mod general_bytes;
mod general_chips;
mod general_contractions;
mod general_conv;
mod general_float8;
mod general_four_bits;
mod general_without;
mod graph_files;
mod kinds;
mod links;
mod models;
mod onnx_chip;
mod onnx_graphs;
mod open_sizes;
mod permuted;
mod stages;
mod study;
mod supply;
mod tidy;
