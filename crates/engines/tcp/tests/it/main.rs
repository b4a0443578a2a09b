//! All integration tests of this crate in one binary, which is linked once.

mod any_program;
mod contraction_values;
mod cost;
mod drawn;
mod judged;
mod lower_groups;
mod lower_values;
mod plain;
mod program_text;
mod run;
mod vector;
