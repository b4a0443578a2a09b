//! Tensors with real bytes: SBUF, PSUM and HBM, and which of their bytes were ever written.
//!
//! Every tensor has bytes of its own, whatever address it is given later: values never alias by accident.
//! Memory that nobody wrote holds NaN, or 4 in integers, as in the vendor's own simulator.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{TensorDecl, TensorView};
use tilewright_num::{Dtype, RuleSet, encode_slice};

use crate::buffer_pool::{SharedBytes, to_overwrite, zeros};
use crate::deferred_copy::{DeferredCopy, defer_finish};
use crate::matmul::{AccumulationChain, CachedPack, MatmulOperands};

/// A tensor with its bytes.
#[derive(Debug)]
pub struct Storage {
    /// What it was declared as.
    pub tensor: TensorDecl,
    /// It has no values: reads give zeros, writes leave nothing. For runs of which only the times are wanted.
    pub valueless: bool,
    content: Mutex<Content>,
}

/// Bytes and what is known of them.
#[derive(Debug, Default)]
pub struct Content {
    /// The bytes.
    pub bytes: SharedBytes,
    /// A bit for each byte ever written; none if all were.
    written: Option<Vec<u64>>,
    unwritten_bytes: usize,
    /// It holds what it was made with.
    as_initialised: bool,
    /// Nobody looked at it yet: it has no bytes so far.
    untouched: bool,
    /// Products that are added to all of it when somebody looks.
    deferred: Vec<(RuleSet, MatmulOperands)>,
    /// The running sum of earlier products, which workers add up already.
    chain: Option<Arc<AccumulationChain>>,
    /// Others copy that sum: nothing is added to it any more.
    chain_closed: bool,
    /// Their sum begins with nothing rather than with what is there.
    from_nothing: bool,
    /// Sums that are copied to it when somebody looks, after all products.
    copies: VecDeque<DeferredCopy>,
    /// Parts of it that matmuls packed.
    packs: Vec<(TensorView, CachedPack)>,
}

/// Parts of one tensor that are kept packed.
const MAX_PACKS: usize = 16;

/// Products of one tensor that are held until they are added.
const MAX_DEFERRED_PRODUCTS: usize = 64;

/// Copies of one tensor that are held until they are made.
const MOST_COPIES: usize = 16;

/// Products that wait before a worker begins with them.
const LEAST_TO_BEGIN: usize = 4;

impl Storage {
    /// A tensor that nobody wrote to.
    ///
    /// # Errors
    /// If it is larger than any device.
    pub fn poisoned(tensor: TensorDecl) -> Result<Storage, Refusal> {
        let unwritten_bytes = tensor.dtype.size_bytes(tensor.checked_elements()?);
        Ok(Storage::with(tensor, Content { unwritten_bytes, untouched: true, ..Content::default() }))
    }

    /// A tensor without values, which takes no memory of the host.
    ///
    /// # Errors
    /// If it is larger than any device.
    pub fn without_values(tensor: TensorDecl) -> Result<Storage, Refusal> {
        let mut storage = Storage::poisoned(tensor)?;
        storage.valueless = true;
        Ok(storage)
    }

    /// A tensor with given bytes.
    ///
    /// # Errors
    /// If there are not as many bytes as the shape says.
    pub fn filled(tensor: TensorDecl, bytes: Vec<u8>) -> Result<Storage, Refusal> {
        let elements = tensor.checked_elements()?;
        rule(bytes.len() == tensor.dtype.size_bytes(elements), || {
            Refusal::new(
                "neuron/shape",
                format!("{} bytes for a tensor of shape {:?}", bytes.len(), tensor.shape),
                "as many bytes as the shape and type have",
                "pass a contiguous array",
            )
        })?;
        Ok(Storage::with(tensor, Content { bytes: bytes.into(), as_initialised: true, ..Content::default() }))
    }

    fn with(tensor: TensorDecl, content: Content) -> Storage {
        Storage { tensor, valueless: false, content: Mutex::new(content) }
    }

    /// The bytes. A panic elsewhere while they were held leaves them as they are.
    pub fn lock(&self) -> MutexGuard<'_, Content> {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        content.settle(self.dtype);
        while content.make_copy(self.dtype) {}
        content.poison(self.dtype);
        content
    }

    /// The bytes, for one who writes all of them at once: those of a new tensor are anything and count as
    /// written.
    pub(crate) fn lock_to_overwrite(&self) -> MutexGuard<'_, Content> {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        content.discard_deferred();
        content.as_initialised = false;
        if content.untouched {
            content.untouched = false;
            content.bytes = to_overwrite(content.unwritten_bytes).into();
            content.unwritten_bytes = 0;
        }
        content
    }

    /// Gives it other bytes, as many as it has.
    pub(crate) fn replace(&self, bytes: Vec<u8>) {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        *content = Content { bytes: bytes.into(), ..Content::default() };
    }

    /// Adds a product to the whole tensor when somebody looks at it; without `accumulate` it is all that is
    /// there.
    pub(crate) fn defer_product(&self, rules: RuleSet, factors: MatmulOperands, accumulate: bool) {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        content.packs.clear();
        if !accumulate {
            content.discard_deferred();
            content.from_nothing = true;
        } else if !content.has_deferred() || content.chain_closed {
            drop(content);
            // What is there already is what the sum begins with.
            content = self.lock();
            content.from_nothing = false;
        }
        content.deferred.push((rules, factors));
        if content.deferred.len() >= LEAST_TO_BEGIN {
            let chain = content.hand_over(self.dtype);
            if chain.as_ref().is_some_and(|chain| chain.products() >= MAX_DEFERRED_PRODUCTS) {
                content.settle(self.dtype);
            } else if let Some(chain) = chain {
                chain.advance();
            }
        }
    }

    /// The sum that all of it is, if that is still being added up and worth to be copied later.
    pub(crate) fn sum(&self) -> Option<Arc<AccumulationChain>> {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(only) = content.copies.front().filter(|_| content.copies.len() == 1) {
            return only.unchanged(self.dtype).cloned();
        }
        let chain = content.hand_over(self.dtype).filter(|chain| chain.is_shared())?;
        if !content.chain_closed {
            content.chain_closed = true;
            defer_finish(&chain);
        }
        Some(chain)
    }

    /// Copies a sum when somebody looks.
    pub(crate) fn defer_copy(&self, copy: DeferredCopy) {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        if copy.whole {
            content.discard_deferred();
        } else {
            content.settle(self.dtype);
        }
        content.changed();
        content.copies.push_back(copy);
        if content.copies.len() > MOST_COPIES {
            content.make_copy(self.dtype);
        }
    }

    /// Takes back the product that would have been all of a new tensor, if nobody looked yet.
    pub fn take_deferred(&self) -> Option<(RuleSet, MatmulOperands)> {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        let alone = content.deferred.len() == 1 && content.chain.is_none() && content.from_nothing;
        if alone { content.deferred.pop() } else { None }
    }

    /// True if products are still to be added to all of it.
    pub(crate) fn has_deferred(&self) -> bool {
        self.content.lock().unwrap_or_else(PoisonError::into_inner).has_deferred()
    }
}

impl Deref for Storage {
    type Target = TensorDecl;

    fn deref(&self) -> &TensorDecl {
        &self.tensor
    }
}

impl Content {
    fn has_deferred(&self) -> bool {
        self.chain.is_some() || !self.deferred.is_empty()
    }

    fn discard_deferred(&mut self) {
        self.deferred.clear();
        self.copies.clear();
        (self.chain, self.chain_closed) = (None, false);
    }

    /// Gives the products that wait to the sum that workers may add to.
    fn hand_over(&mut self, dtype: Dtype) -> Option<Arc<AccumulationChain>> {
        if let (None, Some((rules, first))) = (&self.chain, self.deferred.first()) {
            let begin = (!self.from_nothing).then_some(&*self.bytes);
            self.chain = Some(Arc::new(AccumulationChain::new(rules, first, dtype, begin)));
        }
        let deferred = std::mem::take(&mut self.deferred);
        let chain = self.chain.clone()?;
        deferred.into_iter().for_each(|(_, factors)| chain.push(factors));
        Some(chain)
    }

    /// Adds the products that wait.
    fn settle(&mut self, dtype: Dtype) {
        let Some(chain) = self.hand_over(dtype) else { return };
        if self.chain_closed {
            self.bytes = chain.result();
        } else {
            if self.untouched {
                self.bytes = zeros(self.unwritten_bytes).into();
            }
            chain.finish(self.bytes.to_mut());
        }
        self.all_at_once();
        (self.chain, self.chain_closed) = (None, false);
    }

    /// All of it has values now.
    fn all_at_once(&mut self) {
        (self.untouched, self.written, self.unwritten_bytes, self.as_initialised) = (false, None, 0, false);
    }

    /// Makes the oldest copy that waits; false if none does.
    fn make_copy(&mut self, dtype: Dtype) -> bool {
        let Some(copy) = self.copies.pop_front() else { return false };
        let bytes = copy.bytes();
        if copy.whole {
            self.bytes = bytes;
            self.all_at_once();
        } else {
            self.poison(dtype);
            self.unpack(&copy.view, &bytes);
        }
        true
    }

    /// Fills what nobody touched yet.
    fn poison(&mut self, dtype: Dtype) {
        if self.untouched {
            self.untouched = false;
            let word = poison_word(dtype);
            self.bytes = word.repeat(self.unwritten_bytes / word.len().max(1)).into();
            self.written = (self.unwritten_bytes > 0).then(|| vec![0; self.bytes.len().div_ceil(64)]);
        }
    }

    /// A part that was packed before, as long as nobody wrote to the tensor.
    pub(crate) fn pack(&self, view: &TensorView, wanted: impl Fn(&CachedPack) -> bool) -> Option<CachedPack> {
        let same = |(part, pack): &&(TensorView, CachedPack)| part == view && wanted(pack);
        self.packs.iter().find(same).map(|(_, pack)| pack.clone())
    }

    /// Keeps a part packed.
    pub(crate) fn keep_pack(&mut self, view: &TensorView, pack: CachedPack) {
        if self.packs.len() < MAX_PACKS {
            self.packs.push((view.clone(), pack));
        }
    }

    /// The bytes change: what was packed no longer holds.
    pub(crate) fn changed(&mut self) {
        self.packs.clear();
        self.as_initialised = false;
    }

    /// True if nobody wrote to a tensor that was made with values.
    pub fn as_initialised(&self) -> bool {
        self.as_initialised
    }

    /// Marks bytes as written.
    pub fn mark(&mut self, start: usize, count: usize) {
        let Some(words) = &mut self.written else { return };
        let mut added = 0;
        for_words(start, count, |word, mask| {
            if let Some(word) = words.get_mut(word) {
                added += (mask & !*word).count_ones() as usize;
                *word |= mask;
            }
        });
        self.unwritten_bytes = self.unwritten_bytes.exact_sub(added);
        if self.unwritten_bytes == 0 {
            self.written = None;
        }
    }

    /// True if all of these bytes were written.
    pub fn is_written(&self, start: usize, count: usize) -> bool {
        let Some(words) = &self.written else { return true };
        let mut all = true;
        for_words(start, count, |word, mask| {
            all &= words.get(word).is_some_and(|word| word & mask == mask);
        });
        all
    }

    /// True if every byte was written.
    pub fn all_written(&self) -> bool {
        self.written.is_none()
    }

    /// Bytes that nobody wrote.
    pub fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes
    }
}

/// Calls `visit(word, mask)` for each word of bits that the range touches.
fn for_words(start: usize, count: usize, mut visit: impl FnMut(usize, u64)) {
    let end = start + count;
    let mut at = start;
    while at < end {
        let (word, low) = (at / 64, at % 64);
        let bits = (64 - low).min(end - at);
        let ones = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        visit(word, ones << low);
        at += bits;
    }
}

/// The bytes of an element that nobody wrote.
fn poison_word(dtype: Dtype) -> Vec<u8> {
    let mut word = vec![0; dtype.size_bytes(1)];
    let value = if dtype.is_float() { f32::NAN } else { 4.0 };
    // Only i5 and i9 can refuse a value, and four fits both.
    let _ = encode_slice(&RuleSet::NEURON, dtype, &[value], &mut word);
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_neuron_isa::MemorySpace;

    fn tensor(shape: &[usize]) -> TensorDecl {
        TensorDecl {
            id: 0,
            memory: MemorySpace::Sbuf,
            dtype: Dtype::F32,
            shape: shape.to_vec(),
            blocks: 0,
            name: String::new(),
            source: 0,
        }
    }

    #[test]
    fn written_bytes_are_counted_once() {
        let storage = Storage::poisoned(tensor(&[4, 40])).unwrap();
        let mut content = storage.lock();
        assert!(!content.is_written(0, 1));
        content.mark(100, 300);
        content.mark(150, 100);
        assert!(content.is_written(100, 300) && !content.is_written(99, 2) && !content.is_written(399, 2));
        assert_eq!(content.unwritten_bytes(), 340);
        content.mark(0, 640);
        assert!(content.all_written());
    }

    #[test]
    fn a_tensor_larger_than_any_device_is_refused() {
        let refusal = Storage::poisoned(tensor(&[1 << 40, 1 << 40])).unwrap_err();
        assert_eq!(refusal.code, "neuron/capacity");
    }
}
