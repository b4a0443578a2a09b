//! All integration tests of this crate in one binary, which is linked once.

mod chips;
mod collective;
mod collective_streams;
mod costs;
mod faults;
mod occupancy;
mod programs;
mod schedule;
mod systolic_array;
