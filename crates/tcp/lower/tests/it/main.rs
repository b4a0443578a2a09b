//! All integration tests of this crate in one binary, which is linked once.

mod drawn;
mod lower_groups;
mod lower_values;
mod plain;
