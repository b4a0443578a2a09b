//! HBM: pages that exist once something is written to them, or that are read where somebody else holds them.

use std::sync::Arc;

use super::shared_bytes::SharedBytes;
use crate::limits::index;

/// Log2 of the bytes of a page: the host takes memory for what is touched only, and few transfers reach
/// across the end of one.
const PAGE_SHIFT: u32 = 22;
/// Bytes of a page.
pub const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
/// Fewer bytes are copied sooner than they are held.
const LEAST_HELD_BYTES: usize = 1 << 10;

/// Sparse bytes. Bounds are the caller's to check.
#[derive(Clone, Debug, Default)]
pub struct HbmPages {
    pages: Vec<Option<HbmPage>>,
}

/// A page: in front what may be lent, behind it what was written while others held it. So weights are lent
/// although caches, which change, begin on the page where they end.
#[derive(Clone, Debug)]
struct HbmPage {
    /// All bytes of the page, of which those before `behind` count.
    front: PageBytes,
    /// Bytes that change, up to the end of the page.
    behind: Vec<u8>,
    /// Bytes in front of them were written while others held them: nothing is lent again.
    changes: bool,
}

#[derive(Clone, Debug)]
enum PageBytes {
    Own(Arc<Vec<u8>>),
    /// Until they are written to.
    Shared(SharedBytes),
}

impl PageBytes {
    fn get(&self) -> &[u8] {
        match self {
            PageBytes::Own(bytes) => bytes,
            PageBytes::Shared(shared) => shared.bytes(),
        }
    }
}

impl HbmPage {
    fn new() -> HbmPage {
        HbmPage::of(PageBytes::Own(Arc::new(vec![0; PAGE_BYTES])))
    }

    fn of(front: PageBytes) -> HbmPage {
        HbmPage { front, behind: Vec::new(), changes: false }
    }

    /// Where bytes that change begin.
    fn border(&self) -> usize {
        PAGE_BYTES - self.behind.len()
    }

    /// Reads bytes that are inside.
    fn read(&self, start: usize, bytes: &mut [u8]) {
        let (border, end) = (self.border(), start + bytes.len());
        let (front, behind) = bytes.split_at_mut(border.clamp(start, end) - start);
        if !front.is_empty() {
            front.copy_from_slice(&self.front.get()[start..start + front.len()]);
        }
        let first = start.max(border) - border;
        if !behind.is_empty() {
            behind.copy_from_slice(&self.behind[first..first + behind.len()]);
        }
    }

    /// A part, which stays as it is for whoever holds it; `None` of bytes that change.
    fn held(&self, first: usize, length: usize) -> Option<SharedBytes> {
        let end = first.checked_add(length)?;
        match &self.front {
            _ if self.changes || end > self.border() => None,
            PageBytes::Own(bytes) => SharedBytes::new(Arc::<Vec<u8>>::clone(bytes), first..end),
            PageBytes::Shared(shared) => shared.part(first, length),
        }
    }

    /// Writes bytes that are inside; what others hold stays as it is for them.
    fn write(&mut self, start: usize, bytes: &[u8]) {
        let alone = match &mut self.front {
            PageBytes::Own(own) => Arc::get_mut(own).is_some(),
            PageBytes::Shared(_) => false,
        };
        if start < self.border() && !alone {
            self.part(start);
        }
        let (border, end) = (self.border(), start + bytes.len());
        let (front, behind) = bytes.split_at(border.clamp(start, end) - start);
        if let (PageBytes::Own(own), false) = (&mut self.front, front.is_empty()) {
            Arc::make_mut(own)[start..start + front.len()].copy_from_slice(front);
        }
        let first = start.max(border) - border;
        if !behind.is_empty() {
            self.behind[first..first + behind.len()].copy_from_slice(behind);
        }
    }

    /// Before bytes that others hold are written: what follows them is parted the first time, all of the page
    /// is copied the second time.
    fn part(&mut self, start: usize) {
        let all = self.front.get();
        if self.behind.is_empty() && !self.changes {
            self.behind = all[start..PAGE_BYTES].to_vec();
            return;
        }
        let mut own = vec![0; PAGE_BYTES];
        own.iter_mut().zip(all).for_each(|(own, byte)| *own = *byte);
        let border = self.border();
        own[border..].copy_from_slice(&self.behind);
        *self = HbmPage { front: PageBytes::Own(Arc::new(own)), behind: Vec::new(), changes: true };
    }
}

impl HbmPages {
    /// Reads; zeros where nothing was written.
    pub fn read(&self, offset: u64, mut bytes: &mut [u8]) {
        let mut at = offset;
        while !bytes.is_empty() {
            let (page, start, length) = piece(at, bytes.len());
            let (now, later) = bytes.split_at_mut(length);
            match self.pages.get(page).and_then(Option::as_ref) {
                Some(page) => page.read(start, now),
                None => now.fill(0),
            }
            bytes = later;
            at += length as u64;
        }
    }

    /// Writes.
    pub fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        let mut at = offset;
        while !bytes.is_empty() {
            let (page, start, length) = piece(at, bytes.len());
            let (now, later) = bytes.split_at(length);
            self.place(page).get_or_insert_with(HbmPage::new).write(start, now);
            bytes = later;
            at += length as u64;
        }
    }

    /// Lets whole pages be read where they are held; the ends are copied.
    pub fn lend(&mut self, offset: u64, shared: &SharedBytes) {
        let (mut at, mut done) = (offset, 0);
        while done < shared.bytes().len() {
            let (page, _, length) = piece(at, shared.bytes().len() - done);
            match shared.part(done, length).filter(|_| length == PAGE_BYTES) {
                Some(part) => *self.place(page) = Some(HbmPage::of(PageBytes::Shared(part))),
                None => self.write(at, &shared.bytes()[done..done + length]),
            }
            at += length as u64;
            done += length;
        }
    }

    /// Bytes that stay as they are for whoever holds them; `None` where they are few, cross the end of a
    /// page, or change.
    pub fn held(&self, offset: u64, bytes: usize) -> Option<SharedBytes> {
        let (page, start, length) = piece(offset, bytes);
        let page = self.pages.get(page).and_then(Option::as_ref)?;
        (bytes >= LEAST_HELD_BYTES && length == bytes).then(|| page.held(start, bytes)).flatten()
    }

    fn place(&mut self, page: usize) -> &mut Option<HbmPage> {
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
