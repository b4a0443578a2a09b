//! Source text, spans and diagnostics.
