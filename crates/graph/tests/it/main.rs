//! All integration tests of this crate in one binary, which is linked once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod dim;
mod layout;
mod simplify;
mod text;
mod wide_floats;
