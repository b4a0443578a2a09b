//! The page that shows runs: timeline, memory, findings, roofline, energy, and the difference of two runs.
//!
//! - [`run_view`]: what the page knows of a run, as data; [`graph_view`]: of the model's graph;
//! - [`from_record`]: that from what a simulator recorded; [`trace`]: that from a Perfetto trace of ours;
//! - [`page`]: one self-contained file with the data of any number of runs, which opens without a network.
//!
//! The page itself is TypeScript under `web/`; what Vite makes of it lies in `web/dist` and is part of this
//! crate, so that building it needs no Node.
//!
//! ```
//! use tilewright_view::{PageRuns, page};
//!
//! let page = page(&PageRuns::default());
//! assert!(page.starts_with("<!doctype html>") && page.contains("Content-Security-Policy"));
//! ```

mod columns;
pub mod from_record;
pub mod graph_view;
mod page;
mod rows;
pub mod run_view;
pub mod trace;

pub use from_record::{view_of_record, view_with_kernels};
pub use page::{ExplorationView, PageRuns, page};
pub use run_view::RunView;
pub use trace::{TraceError, view_of_trace};
