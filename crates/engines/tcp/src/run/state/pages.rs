//! HBM: pages that exist once something is written to them, or that are read where somebody else holds them.

use std::sync::Arc;

use super::lent::Lent;
use crate::run::index;

/// Log2 of the bytes of a page: the host takes memory for what is touched only, and few transfers reach across the end of one.
const PAGE_SHIFT: u32 = 22;
const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Fewer bytes are copied sooner than they are held.
const LEAST_HELD_BYTES: usize = 1 << 10;

/// Sparse bytes. Bounds are the caller's to check.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    pages: Vec<Option<Page>>,
}

/// All bytes of a page.
#[derive(Clone, Debug)]
struct Page {
    bytes: Bytes,
    /// It was written while others held it: it is not lent again.
    changes: bool,
}

#[derive(Clone, Debug)]
enum Bytes {
    Own(Arc<Vec<u8>>),
    /// Until they are written to.
    Lent(Lent),
}

impl Page {
    fn new() -> Page {
        Page { bytes: Bytes::Own(Arc::new(vec![0; PAGE_BYTES])), changes: false }
    }

    fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Own(bytes) => bytes,
            Bytes::Lent(lent) => lent.bytes(),
        }
    }

    /// A part, which stays as it is for whoever holds it; `None` of a page that changes.
    fn held(&self, first: usize, length: usize) -> Option<Lent> {
        match &self.bytes {
            _ if self.changes => None,
            Bytes::Own(bytes) => Lent::new(Arc::<Vec<u8>>::clone(bytes), first..first.checked_add(length)?),
            Bytes::Lent(lent) => lent.part(first, length),
        }
    }

    /// The bytes to be changed, copied first if others have them.
    fn own(&mut self) -> &mut [u8] {
        if let Bytes::Lent(lent) = &self.bytes {
            let mut bytes = vec![0; PAGE_BYTES];
            bytes.iter_mut().zip(lent.bytes()).for_each(|(own, lent)| *own = *lent);
            self.bytes = Bytes::Own(Arc::new(bytes));
        }
        match &mut self.bytes {
            Bytes::Own(bytes) => {
                self.changes |= Arc::get_mut(bytes).is_none();
                Arc::make_mut(bytes).as_mut_slice()
            }
            Bytes::Lent(_) => &mut [],
        }
    }
}

impl Pages {
    /// Reads; zeros where nothing was written.
    pub(super) fn read(&self, offset: u64, mut bytes: &mut [u8]) {
        let mut at = offset;
        while !bytes.is_empty() {
            let (page, start, length) = piece(at, bytes.len());
            let (now, later) = bytes.split_at_mut(length);
            match self
                .pages
                .get(page)
                .and_then(Option::as_ref)
                .map(|page| page.bytes().get(start..start + length))
            {
                Some(Some(held)) => now.copy_from_slice(held),
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
            let page = self.place(page).get_or_insert_with(Page::new);
            if let Some(place) = page.own().get_mut(start..start + length) {
                place.copy_from_slice(now);
            }
            bytes = later;
            at += length as u64;
        }
    }

    /// Lets whole pages be read where they are held; the ends are copied.
    pub(super) fn lend(&mut self, offset: u64, lent: &Lent) {
        let (mut at, mut done) = (offset, 0);
        while done < lent.bytes().len() {
            let (page, _, length) = piece(at, lent.bytes().len() - done);
            match lent.part(done, length).filter(|_| length == PAGE_BYTES) {
                Some(part) => *self.place(page) = Some(Page { bytes: Bytes::Lent(part), changes: false }),
                None => self.write(at, lent.bytes().get(done..done + length).unwrap_or_default()),
            }
            at += length as u64;
            done += length;
        }
    }

    /// Bytes that stay as they are for whoever holds them; `None` where they are few, cross the end of a page, or change.
    pub(super) fn held(&self, offset: u64, bytes: usize) -> Option<Lent> {
        let (page, start, length) = piece(offset, bytes);
        let page = self.pages.get(page).and_then(Option::as_ref)?;
        (bytes >= LEAST_HELD_BYTES && length == bytes).then(|| page.held(start, bytes)).flatten()
    }

    fn place(&mut self, page: usize) -> &mut Option<Page> {
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        &mut self.pages[page]
    }
}

/// Page, first byte in it, and bytes that lie in it.
fn piece(at: u64, bytes: usize) -> (usize, usize, usize) {
    let start = index(at) % PAGE_BYTES;
    (index(at >> PAGE_SHIFT), start, bytes.min(PAGE_BYTES - start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that differ from page to page.
    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at / PAGE_BYTES + at % 251).to_le_bytes()[0]).collect()
    }

    #[test]
    fn lent_pages_read_as_copies_do_and_keep_what_is_written() {
        for (offset, count) in
            [(0, 3 * PAGE_BYTES + 5), (7, 2 * PAGE_BYTES), (PAGE_BYTES as u64, PAGE_BYTES), (3, 4)]
        {
            let held = Arc::new(bytes(count + 9));
            let lent = Lent::new(held.clone(), 9..count + 9).expect("a part");
            let (mut shared, mut copied) = (Pages::default(), Pages::default());
            shared.lend(offset, &lent);
            copied.write(offset, lent.bytes());
            let same = |shared: &Pages, copied: &Pages| {
                let (mut one, mut other) = (vec![1; count + 64], vec![2; count + 64]);
                shared.read(offset.saturating_sub(3), &mut one);
                copied.read(offset.saturating_sub(3), &mut other);
                one == other
            };
            assert!(same(&shared, &copied));
            for at in [offset, offset + count as u64 / 2, offset + count as u64 - 2] {
                shared.write(at, &[0xA5, 0x5A, 0xFF]);
                copied.write(at, &[0xA5, 0x5A, 0xFF]);
            }
            assert!(same(&shared, &copied));
            assert_eq!(*held, bytes(count + 9), "the holder's bytes stay");
        }
    }

    #[test]
    fn what_is_held_stays_while_pages_change() {
        let mut pages = Pages::default();
        pages.write(0, &bytes(PAGE_BYTES));
        let held = pages.held(16, 4096).expect("a part");
        pages.write(20, &[1, 2, 3]);
        assert_eq!(held.bytes(), &bytes(PAGE_BYTES)[16..16 + 4096]);
        let mut read = [0; 3];
        pages.read(20, &mut read);
        assert_eq!(read, [1, 2, 3]);
        assert!(pages.held(16, 4096).is_none(), "a page that changes is copied");
        assert!(pages.held(0, 8).is_none() && pages.held(PAGE_BYTES as u64 - 8, 4096).is_none());
    }

    #[test]
    fn no_more_is_lent_than_is_held() {
        let held = Arc::new(bytes(16));
        assert!(Lent::new(held.clone(), 0..17).is_none());
        assert!(Lent::new(held.clone(), 9..usize::MAX).is_none());
        let lent = Lent::new(held, 4..16).expect("a part");
        assert_eq!(lent.bytes().len(), 12);
        assert!(lent.part(4, 8).is_some() && lent.part(4, 9).is_none() && lent.part(usize::MAX, 2).is_none());
    }
}
