//! Debug annotations of slices: counts and texts, with interned strings.

use super::field;
use super::intern::Interner;
use super::wire::Wire;

/// Strings of debug annotations.
#[derive(Debug)]
pub(super) struct Annotations {
    names: Interner,
    strings: Interner,
}

impl Annotations {
    pub(super) fn new() -> Annotations {
        Annotations {
            names: Interner::new(field::INTERNED_ANNOTATION_NAMES),
            strings: Interner::new(field::INTERNED_ANNOTATION_STRINGS),
        }
    }

    pub(super) fn count(&mut self, event: &mut Wire, interned: &mut Wire, name: &str, count: u64) {
        let iid = self.names.iid(name, interned);
        event.message(field::EVENT_ANNOTATIONS, |annotation| {
            annotation_name(annotation, iid, name);
            annotation.varint(field::ANNOTATION_UINT, count);
        });
    }

    pub(super) fn text(&mut self, event: &mut Wire, interned: &mut Wire, name: &str, text: &str) {
        let iid = self.names.iid(name, interned);
        let text_iid = self.strings.iid(text, interned);
        event.message(field::EVENT_ANNOTATIONS, |annotation| {
            annotation_name(annotation, iid, name);
            match text_iid {
                Some(iid) => annotation.varint(field::ANNOTATION_STRING_IID, iid),
                None => annotation.bytes(field::ANNOTATION_STRING, text.as_bytes()),
            }
        });
    }
}

fn annotation_name(annotation: &mut Wire, iid: Option<u64>, name: &str) {
    match iid {
        Some(iid) => annotation.varint(field::ANNOTATION_NAME_IID, iid),
        None => annotation.bytes(field::ANNOTATION_NAME, name.as_bytes()),
    }
}
