//! All integration tests of this crate in one binary, which is linked once.

mod any_program;
mod footprint_walk;
mod oracle;
mod program_text;
