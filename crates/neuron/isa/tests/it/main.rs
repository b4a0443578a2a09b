//! All integration tests of this crate in one binary, which is linked once.

mod text;
mod verify;
mod written_elements;
