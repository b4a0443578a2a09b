//! HBM: pages that exist once something is written to them.

use crate::run::index;

/// Log2 of the bytes of a page: large enough that the host takes memory for what is touched only.
const PAGE_SHIFT: u32 = 20;
const PAGE_BYTES: usize = 1 << PAGE_SHIFT;

/// Sparse bytes. Bounds are the caller's to check.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    pages: Vec<Option<Box<[u8]>>>,
}

impl Pages {
    /// Reads; zeros where nothing was written.
    pub(super) fn read(&self, offset: u64, mut bytes: &mut [u8]) {
        let mut at = offset;
        while !bytes.is_empty() {
            let (page, start, length) = piece(at, bytes.len());
            let (now, later) = bytes.split_at_mut(length);
            match self.pages.get(page) {
                Some(Some(page)) => now.copy_from_slice(&page[start..start + length]),
                _ => now.fill(0),
            }
            bytes = later;
            at += length as u64;
        }
    }

    /// Writes.
    pub(super) fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        let mut at = offset;
        while !bytes.is_empty() {
            let (page, start, length) = piece(at, bytes.len());
            let (now, later) = bytes.split_at(length);
            if self.pages.len() <= page {
                self.pages.resize_with(page + 1, || None);
            }
            let page = self.pages[page].get_or_insert_with(|| vec![0; PAGE_BYTES].into_boxed_slice());
            page[start..start + length].copy_from_slice(now);
            bytes = later;
            at += length as u64;
        }
    }
}

/// Page, first byte in it, and bytes that lie in it.
fn piece(at: u64, bytes: usize) -> (usize, usize, usize) {
    let start = index(at) % PAGE_BYTES;
    (index(at >> PAGE_SHIFT), start, bytes.min(PAGE_BYTES - start))
}
