//! What every other crate stands on: source texts, spans into them, and coded
//! diagnostics with one renderer.
//!
//! ```
//! use tilewright_base::{Diagnostic, Sources};
//!
//! let mut sources = Sources::default();
//! let id = sources.add("--in0", "e^2[4] | b[4]");
//! let diagnostic = Diagnostic::error("notation/radix", "axis `e` has no digit of stride 1")
//!     .at(sources.span(id, 0..6), "the smallest stride of `e` here is 2")
//!     .allowed("the smallest stride of every axis is 1")
//!     .instead("e^1[4]");
//! let text = tilewright_base::render::plain(&sources, &[diagnostic]);
//! assert!(text.contains("error[notation/radix]"));
//! assert!(text.contains("--> --in0:1:1"));
//! ```

pub mod diagnostic;
pub mod invariant;
pub mod json;
pub mod name;
pub mod nearest;
pub mod random;
pub mod render;
pub mod source;

pub use diagnostic::{Diagnostic, Label, Severity};
pub use name::Name;
pub use source::{SourceId, Sources, Span};
