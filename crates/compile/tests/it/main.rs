//! All integration tests of this crate in one binary, which is linked once.

mod check;
mod check_blocks;
mod explored;
mod kernel_text;
mod lowered;
mod quantise;
mod support;
