//! All integration tests of this crate in one binary, which is linked once.

mod chips;
mod collective;
mod costs;
mod faults;
mod programs;
mod schedule;
