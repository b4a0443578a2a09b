//! Strings written once and named by a number after that, in bounded memory.

use std::collections::BTreeMap;

use super::message::InternedString;

/// Most strings of one kind, and longest of them: the rest are written where they stand.
const MAX_STRINGS: u64 = 4096;
const MAX_STRING_BYTES: usize = 256;

/// Strings of one kind that the trace knows.
#[derive(Debug, Default)]
pub(super) struct Interner {
    iids: BTreeMap<Box<str>, u64>,
}

impl Interner {
    /// The number of a string, from 1. A new one is added to `interned`, the strings of this kind that the
    /// packet in hand brings. None if it has to be written where it stands.
    pub(super) fn iid(&mut self, text: &str, interned: &mut Vec<InternedString>) -> Option<u64> {
        if let Some(iid) = self.iids.get(text) {
            return Some(*iid);
        }
        let iid = self.iids.len() as u64 + 1;
        if iid > MAX_STRINGS || text.len() > MAX_STRING_BYTES {
            return None;
        }
        self.iids.insert(text.into(), iid);
        interned.push(InternedString { iid: Some(iid), text: Some(text.to_string()) });
        Some(iid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_written_once_and_memory_is_bounded() {
        let (mut interner, mut interned) = (Interner::default(), Vec::new());
        assert_eq!(interner.iid("exec", &mut interned), Some(1));
        let written = interned.len();
        assert_eq!(interner.iid("exec", &mut interned), Some(1));
        assert_eq!(interned.len(), written);
        for serial in 1..MAX_STRINGS {
            assert_eq!(interner.iid(&serial.to_string(), &mut interned), Some(serial + 1));
        }
        assert_eq!(interner.iid("one more", &mut interned), None);
        assert_eq!(interner.iid("exec", &mut interned), Some(1));
        assert_eq!(interner.iids.len() as u64, MAX_STRINGS);
    }

    #[test]
    fn long_strings_are_written_where_they_stand() {
        let (mut interner, mut interned) = (Interner::default(), Vec::new());
        assert_eq!(interner.iid(&"x".repeat(MAX_STRING_BYTES + 1), &mut interned), None);
        assert!(interned.is_empty());
    }
}
