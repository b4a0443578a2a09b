//! All integration tests of this crate in one binary, which is linked once.

mod any_program;
mod judged;
mod program_text;
