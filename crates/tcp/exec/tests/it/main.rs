//! All integration tests of this crate in one binary, which is linked once.

mod contraction_values;
mod inside;
mod run;
mod vector;
