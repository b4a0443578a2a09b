//! Memory of the host that is used again: tiles come and go by the thousand, and an allocator that gives
//! their pages back to the system has them cleared each time.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Smaller buffers are left to the allocator.
const MIN_BUFFER_BYTES: usize = 8 << 10;
/// Larger buffers are left to the allocator too: they are few.
const MAX_BUFFER_BYTES: usize = 8 << 20;
/// Bytes that one pool keeps for reuse.
const MAX_POOLED_BYTES: usize = 64 << 20;

/// Buffers that nobody uses now.
#[derive(Debug)]
pub struct BufferPool<T> {
    free: Mutex<FreeBuffers<T>>,
}

#[derive(Debug)]
struct FreeBuffers<T> {
    buffers: Vec<Vec<T>>,
    bytes: usize,
}

fn size_bytes<T>(buffer: &Vec<T>) -> usize {
    buffer.capacity() * size_of::<T>()
}

impl<T: Clone> BufferPool<T> {
    /// An empty pool.
    pub const fn empty() -> BufferPool<T> {
        BufferPool { free: Mutex::new(FreeBuffers { buffers: Vec::new(), bytes: 0 }) }
    }

    /// A buffer without elements that has room for so many.
    pub fn with_capacity(&self, count: usize) -> Vec<T> {
        let mut buffer = self.take(count);
        buffer.clear();
        buffer
    }

    /// A buffer that has room for so many, with what it held when it was used before.
    fn take(&self, count: usize) -> Vec<T> {
        if (MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES).contains(&(count * size_of::<T>())) {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |buffer: &Vec<T>| (count..=count + count / 4).contains(&buffer.capacity());
            if let Some(at) = free.buffers.iter().rposition(fits) {
                let buffer = free.buffers.swap_remove(at);
                free.bytes -= size_bytes(&buffer);
                return buffer;
            }
        }
        Vec::with_capacity(count)
    }

    /// A buffer of so many equal elements.
    pub fn filled(&self, count: usize, value: T) -> Vec<T> {
        let mut buffer = self.with_capacity(count);
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
    pub fn recycle(&self, buffer: Vec<T>) {
        let bytes = size_bytes(&buffer);
        if !(MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES).contains(&bytes) {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + bytes <= MAX_POOLED_BYTES {
            free.bytes += bytes;
            free.buffers.push(buffer);
        }
    }
}

static POOL: BufferPool<u8> = BufferPool::empty();
static FLOATS: BufferPool<f32> = BufferPool::empty();

/// A buffer of FP32 values for one who writes all of them.
pub(crate) fn floats_to_overwrite(count: usize) -> Vec<f32> {
    FLOATS.to_overwrite(count, 0.0)
}

/// Keeps a buffer of FP32 values for the next.
pub(crate) fn recycle_floats(values: Vec<f32>) {
    FLOATS.recycle(values);
}

/// A buffer of bytes without any, with room for so many.
pub(crate) fn with_capacity(count: usize) -> Vec<u8> {
    POOL.with_capacity(count)
}

/// A buffer of zeros.
pub(crate) fn zeros(count: usize) -> Vec<u8> {
    POOL.filled(count, 0)
}

/// A buffer of bytes for one who writes all of them.
pub(crate) fn to_overwrite(count: usize) -> Vec<u8> {
    POOL.to_overwrite(count, 0)
}

/// Keeps a buffer for the next.
pub(crate) fn recycle(bytes: Vec<u8>) {
    POOL.recycle(bytes);
}

/// Bytes that several may look at; who changes them while others look gets a copy.
#[derive(Clone, Debug, Default)]
pub struct SharedBytes(Arc<Vec<u8>>);

impl SharedBytes {
    /// The bytes, to be changed.
    pub fn to_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.0).as_mut_slice()
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> SharedBytes {
        SharedBytes(Arc::new(bytes))
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        if let Some(bytes) = Arc::get_mut(&mut self.0) {
            POOL.recycle(std::mem::take(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_only_for_its_size() {
        static POOL: BufferPool<u32> = BufferPool::empty();
        POOL.recycle(vec![7; 10_000]);
        assert_ne!(POOL.with_capacity(20_000).capacity(), 10_000);
        assert_eq!(POOL.filled(9_000, 3), vec![3; 9_000]);
        assert!(POOL.with_capacity(9_000).is_empty());
        POOL.recycle(vec![7; 10_000]);
        assert_eq!(POOL.to_overwrite(9_000, 3).len(), 9_000);
    }

    #[test]
    fn who_writes_does_not_change_what_others_see() {
        let mut mine = SharedBytes::from(vec![1, 2]);
        let yours = mine.clone();
        mine.to_mut()[0] = 9;
        assert_eq!((mine[0], yours[0]), (9, 1));
    }
}
