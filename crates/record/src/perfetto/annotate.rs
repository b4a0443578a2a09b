//! Debug annotations of slices: counts and texts, with interned strings.

use super::intern::Interner;
use super::message::{DebugAnnotation, InternedData};

/// Strings of debug annotations.
#[derive(Debug, Default)]
pub(super) struct Annotations {
    names: Interner,
    strings: Interner,
}

impl Annotations {
    /// A named count.
    pub(super) fn count(&mut self, interned: &mut InternedData, name: &str, count: u64) -> DebugAnnotation {
        DebugAnnotation { uint_value: Some(count), ..self.named(interned, name) }
    }

    /// A named text.
    pub(super) fn text(&mut self, interned: &mut InternedData, name: &str, text: &str) -> DebugAnnotation {
        let named = self.named(interned, name);
        match self.strings.iid(text, &mut interned.debug_annotation_string_values) {
            Some(iid) => DebugAnnotation { string_value_iid: Some(iid), ..named },
            None => DebugAnnotation { string_value: Some(text.to_string()), ..named },
        }
    }

    fn named(&mut self, interned: &mut InternedData, name: &str) -> DebugAnnotation {
        match self.names.iid(name, &mut interned.debug_annotation_names) {
            Some(iid) => DebugAnnotation { name_iid: Some(iid), ..DebugAnnotation::default() },
            None => DebugAnnotation { name: Some(name.to_string()), ..DebugAnnotation::default() },
        }
    }
}
