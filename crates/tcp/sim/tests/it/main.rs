//! All integration tests of this crate in one binary, which is linked once.

mod checked;
mod memory;
mod timeline;
