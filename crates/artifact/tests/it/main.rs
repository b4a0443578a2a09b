//! All integration tests of this crate in one binary, which is linked once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
mod graph_plans;
mod language_plans;
mod plans;
