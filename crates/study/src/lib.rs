//! Studies: the models beside what others measured.
//!
//! - [`llama`]: the case study of the TCP paper's section VI. [`study()`] compiles and simulates what its
//!   tables and figures need; [`text`], [`page`] and [`files()`] show the result;
//! - [`published`]: rows of `bench/published.toml` ([`rows`]) beside what our models give for them, errors by
//!   what a row was used for ([`kinds`]).
//!
//! No file is read here: whoever calls has read the model, the machine and the rows.

pub mod accuracy;
pub mod bands;
mod bands_text;
mod block;
mod closed_form;
pub mod collectives;
pub mod curves;
pub mod figure10;
pub mod figure13;
pub mod figure14;
pub mod files;
pub mod kinds;
pub mod layout;
pub mod llama;
pub mod measure;
pub mod operators;
pub mod page;
pub mod parts;
mod pictures;
pub mod power;
pub mod published;
pub mod question;
pub mod rows;
mod sizes;
mod spans;
pub mod table2;
pub mod text;
pub mod whatif;

pub use files::files;
pub use llama::{
    AppliedLatency, PUBLISHED_SETTING, PublishedSetting, Scales, Study, StudySetup, applied_latency, study,
};
pub use measure::MeasureError;
