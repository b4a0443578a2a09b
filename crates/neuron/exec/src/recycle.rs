//! Memory of the host that is used again: tiles come and go by the thousand, and an allocator that gives their pages back
//! to the system has them cleared each time.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Smaller buffers are left to the allocator.
const LEAST_BYTES: usize = 8 << 10;
/// Larger ones too: they are few.
const MOST_BYTES: usize = 8 << 20;
/// Bytes that one shelf keeps.
const MOST_KEPT_BYTES: usize = 64 << 20;

/// Buffers that nobody uses now.
#[derive(Debug)]
pub struct Shelf<T> {
    kept: Mutex<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    buffers: Vec<Vec<T>>,
    bytes: usize,
}

fn size_bytes<T>(buffer: &Vec<T>) -> usize {
    buffer.capacity() * size_of::<T>()
}

impl<T: Clone> Shelf<T> {
    /// An empty one.
    pub const fn empty() -> Shelf<T> {
        Shelf { kept: Mutex::new(Kept { buffers: Vec::new(), bytes: 0 }) }
    }

    /// A buffer without elements that has room for so many.
    pub fn with_room(&self, count: usize) -> Vec<T> {
        let mut buffer = self.take(count);
        buffer.clear();
        buffer
    }

    /// A buffer that has room for so many, with what it held when it was used before.
    fn take(&self, count: usize) -> Vec<T> {
        if (LEAST_BYTES..=MOST_BYTES).contains(&(count * size_of::<T>())) {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |buffer: &Vec<T>| (count..=count + count / 4).contains(&buffer.capacity());
            if let Some(at) = kept.buffers.iter().rposition(fits) {
                let buffer = kept.buffers.swap_remove(at);
                kept.bytes -= size_bytes(&buffer);
                return buffer;
            }
        }
        Vec::with_capacity(count)
    }

    /// A buffer of so many equal elements.
    pub fn filled(&self, count: usize, value: T) -> Vec<T> {
        let mut buffer = self.with_room(count);
        buffer.resize(count, value);
        buffer
    }

    /// A buffer of so many elements, for one who writes all of them: they are what they were, or the value.
    pub fn to_overwrite(&self, count: usize, value: T) -> Vec<T> {
        let mut buffer = self.take(count);
        buffer.resize(count, value);
        buffer
    }

    /// Keeps a buffer for the next.
    pub fn give(&self, buffer: Vec<T>) {
        let bytes = size_bytes(&buffer);
        if !(LEAST_BYTES..=MOST_BYTES).contains(&bytes) {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + bytes <= MOST_KEPT_BYTES {
            kept.bytes += bytes;
            kept.buffers.push(buffer);
        }
    }
}

static SHELF: Shelf<u8> = Shelf::empty();

/// A buffer of bytes without any, with room for so many.
pub(crate) fn room(count: usize) -> Vec<u8> {
    SHELF.with_room(count)
}

/// A buffer of zeros.
pub(crate) fn zeros(count: usize) -> Vec<u8> {
    SHELF.filled(count, 0)
}

/// A buffer of bytes for one who writes all of them.
pub(crate) fn to_overwrite(count: usize) -> Vec<u8> {
    SHELF.to_overwrite(count, 0)
}

/// Keeps a buffer for the next.
pub(crate) fn give_back(bytes: Vec<u8>) {
    SHELF.give(bytes);
}

/// Bytes that several may look at; who changes them while others look gets a copy.
#[derive(Clone, Debug, Default)]
pub struct Bytes(Arc<Vec<u8>>);

impl Bytes {
    /// The bytes, to be changed.
    pub fn to_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.0).as_mut_slice()
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Arc::new(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Some(bytes) = Arc::get_mut(&mut self.0) {
            SHELF.give(std::mem::take(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_only_for_its_size() {
        static SHELF: Shelf<u32> = Shelf::empty();
        SHELF.give(vec![7; 10_000]);
        assert_ne!(SHELF.with_room(20_000).capacity(), 10_000);
        assert_eq!(SHELF.filled(9_000, 3), vec![3; 9_000]);
        assert!(SHELF.with_room(9_000).is_empty());
        SHELF.give(vec![7; 10_000]);
        assert_eq!(SHELF.to_overwrite(9_000, 3).len(), 9_000);
    }

    #[test]
    fn who_writes_does_not_change_what_others_see() {
        let mut mine = Bytes::from(vec![1, 2]);
        let yours = mine.clone();
        mine.to_mut()[0] = 9;
        assert_eq!((mine[0], yours[0]), (9, 1));
    }
}
