//! All integration tests of this crate in one binary, which is linked once.

mod decode;
mod perfetto;
mod properties;
mod summary;
mod tiny;
