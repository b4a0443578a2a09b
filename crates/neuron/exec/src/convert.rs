//! Operands as FP32 values or raw integers, and results rounded to the type of their tile.
//!
//! Vector, Scalar and GpSimd compute in FP32 whatever the storage type; casts in and out are free (NKI
//! architecture guide). Elements come and go in the order of the view's loops.

use rayon::prelude::*;
use tilewright_base::invariant::OrBroken;
use tilewright_neuron_isa::TensorView;
use tilewright_num::{Dtype, RuleSet, decode_slice, encode_slice, load, store};

use crate::Tile;
use crate::buffer_pool::{floats_to_overwrite, recycle, recycle_floats, to_overwrite, with_capacity, zeros};
use crate::deferred_copy::DeferredCopy;
use crate::storage::Content;

/// What reading an operand gave.
#[derive(Clone, Debug, Default)]
pub struct ReadValues<T> {
    /// Elements in order; those that were skipped are zero.
    pub values: Vec<T>,
    /// True if bytes were read that nobody wrote.
    pub uninitialised: bool,
}

impl Tile {
    /// Elements.
    pub fn elements(&self) -> usize {
        self.view.elements()
    }

    /// The elements as FP32.
    pub fn read(&self, rules: &RuleSet) -> ReadValues<f32> {
        if self.storage.valueless {
            return ReadValues { values: vec![0.0; self.elements()], uninitialised: false };
        }
        let mut values = floats_to_overwrite(self.elements());
        let content = self.storage.lock();
        if let Some(bytes) = self.contiguous(&content) {
            decode_slice(rules, self.view.dtype, bytes, &mut values);
        } else {
            decode_slice(rules, self.view.dtype, &self.packed(&content), &mut values);
        }
        ReadValues { values, uninitialised: self.reads_unwritten(&content) }
    }

    /// Writes FP32 values, rounded to the type of the view. Skipped elements keep what they have.
    pub fn write(&self, rules: &RuleSet, values: &[f32]) {
        let (dtype, size) = (self.view.dtype, self.view.dtype.size_bytes(1));
        if values.len() != self.elements() || self.storage.valueless {
            return;
        }
        if let Some(range) = self.whole_run() {
            let all = range == (0..self.storage.size_bytes());
            let mut content = if all { self.storage.lock_to_overwrite() } else { self.storage.lock() };
            content.changed();
            if let Some(bytes) = content.bytes.to_mut().get_mut(range.clone()) {
                // Only i5 and i9 can refuse a value, and no tile has them.
                let _ = encode_slice(rules, dtype, values, bytes);
            }
            content.mark(range.start, range.len());
            return;
        }
        let mut bytes = to_overwrite(values.len() * size);
        let _ = encode_slice(rules, dtype, values, &mut bytes);
        self.storage.lock().unpack(&self.view, &bytes);
        recycle(bytes);
    }

    /// As [`Tile::write`], of values that nobody needs any more: their memory is used again.
    pub(crate) fn write_last(&self, rules: &RuleSet, values: Vec<f32>) {
        self.write(rules, &values);
        recycle_floats(values);
    }

    /// True if it has a byte that nobody wrote.
    pub fn unwritten(&self) -> bool {
        let deferred = self.storage.valueless || self.storage.has_deferred();
        !deferred && self.reads_unwritten(&self.storage.lock())
    }

    /// True if it is all of its tensor, in order.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole_run().is_some_and(|run| run == (0..self.storage.size_bytes()))
    }

    /// Changes the elements' bytes where they lie, if they lie one after the other, or in a copy. Without
    /// `keep` the bytes need not be those that are there.
    pub(crate) fn update(&self, content: &mut Content, keep: bool, change: impl FnOnce(&mut [u8])) {
        if let Some(range) = self.whole_run() {
            content.changed();
            if let Some(bytes) = content.bytes.to_mut().get_mut(range.clone()) {
                change(bytes);
            }
            content.mark(range.start, range.len());
            return;
        }
        let count = self.elements() * self.view.dtype.size_bytes(1);
        let mut bytes = if keep { self.packed(content) } else { vec![0; count] };
        change(&mut bytes);
        content.unpack(&self.view, &bytes);
    }

    /// The byte range of a view that is one run.
    fn whole_run(&self) -> Option<std::ops::Range<usize>> {
        if self.view.gather.is_some() {
            return None;
        }
        let (mut runs, mut range) = (0, 0..0);
        let size = self.view.dtype.size_bytes(1);
        if self.view.dims.iter().filter(|dim| dim.size > 1 && dim.stride != 1).count() > 4 {
            return None;
        }
        let elements = self.elements();
        self.view.for_first_run(|start, steps, stride| {
            if stride == 1 && steps == elements {
                runs = 1;
                range = start * size..(start + steps) * size;
            }
        });
        (runs == 1).then_some(range)
    }

    /// Its bytes where they lie, if they lie one after the other.
    pub fn contiguous<'a>(&self, content: &'a Content) -> Option<&'a [u8]> {
        content.bytes.get(self.whole_run()?)
    }

    /// The elements' bytes one after the other; those of skipped elements are zero.
    pub fn packed(&self, content: &Content) -> Vec<u8> {
        let size = self.view.dtype.size_bytes(1);
        let mut packed = with_capacity(self.elements() * size);
        self.view.visit(|start, steps, stride| {
            let Some(start) = start else {
                packed.resize(packed.len() + steps * size, 0);
                return;
            };
            if stride == 1 {
                let run = content.bytes.get(start * size..(start + steps) * size);
                packed.extend_from_slice(run.unwrap_or_default());
                return;
            }
            match size {
                1 => pack::<1>(&mut packed, &content.bytes, start, steps, stride),
                2 => pack::<2>(&mut packed, &content.bytes, start, steps, stride),
                _ => pack::<4>(&mut packed, &content.bytes, start, steps, stride),
            }
        });
        packed.resize(self.elements() * size, 0);
        packed
    }

    /// Makes it all zero, of which the bytes are zero in every type, if it is all of its tensor.
    pub(crate) fn clear(&self) -> bool {
        let whole = self.is_whole() && !self.storage.valueless;
        if whole {
            self.storage.replace(zeros(self.storage.size_bytes()));
        }
        whole
    }

    /// Takes packed elements for its own, or spreads them to their places.
    fn put(&self, packed: Vec<u8>) {
        if self.is_whole() && packed.len() == self.storage.size_bytes() {
            self.storage.replace(packed);
        } else {
            self.storage.lock().unpack(&self.view, &packed);
            recycle(packed);
        }
    }

    /// True if a byte of it was never written.
    fn reads_unwritten(&self, content: &Content) -> bool {
        if content.all_written() {
            return false;
        }
        let size = self.view.dtype.size_bytes(1);
        let mut missing = false;
        self.view.visit(|start, steps, stride| {
            let Some(start) = start.filter(|_| !missing) else { return };
            if stride == 1 {
                missing = !content.is_written(start * size, steps * size);
                return;
            }
            missing = (0..steps).any(|step| {
                let element =
                    start.wrapping_add_signed(stride * tilewright_neuron_isa::pattern::signed(step));
                !content.is_written(element * size, size)
            });
        });
        missing
    }

    /// The stored words, in the low bits.
    pub fn read_words(&self) -> ReadValues<u32> {
        if self.storage.valueless {
            return ReadValues { values: vec![0; self.elements()], uninitialised: false };
        }
        let content = self.storage.lock();
        let packed = self.packed(&content);
        let values = match self.view.dtype.storage_bits() {
            8 => packed.iter().map(|&byte| u32::from(byte)).collect(),
            16 => packed.as_chunks().0.iter().map(|word| u32::from(u16::from_le_bytes(*word))).collect(),
            32 => packed.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect(),
            _ => (0..self.elements()).map(|at| load(self.view.dtype, &packed, at)).collect(),
        };
        recycle(packed);
        ReadValues { values, uninitialised: self.reads_unwritten(&content) }
    }

    /// The elements as stored words of a type: as they are if it is their own, through integers between
    /// integer types, through FP32 otherwise.
    pub(crate) fn read_words_as(&self, rules: &RuleSet, dtype: Dtype) -> ReadValues<u32> {
        if self.view.dtype == dtype {
            return self.read_words();
        }
        if !self.view.dtype.is_float() && !dtype.is_float() {
            let read = self.read_integers(rules);
            let values = read.values.iter().map(|&value| integer_word(rules, dtype, value)).collect();
            return ReadValues { values, uninitialised: read.uninitialised };
        }
        let read = self.read(rules);
        ReadValues { values: words_of(rules, dtype, &read.values), uninitialised: read.uninitialised }
    }

    /// Writes stored words as they are.
    pub fn write_words(&self, words: &[u32]) {
        if words.len() != self.elements() || self.storage.valueless {
            return;
        }
        let dtype = self.view.dtype;
        let mut packed = zeros(dtype.size_bytes(words.len()));
        if dtype.storage_bits() == 32 {
            for (bytes, word) in packed.as_chunks_mut().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
        } else {
            for (at, &word) in words.iter().enumerate() {
                store(dtype, &mut packed, at, word);
            }
        }
        self.put(packed);
    }

    /// The elements as integers; floats are rounded to the nearest.
    #[expect(clippy::cast_possible_truncation, reason = "floats saturate")]
    pub fn read_integers(&self, rules: &RuleSet) -> ReadValues<i64> {
        if self.view.dtype.is_float() {
            let read = self.read(rules);
            let values = read.values.iter().map(|value| value.round_ties_even() as i64).collect();
            return ReadValues { values, uninitialised: read.uninitialised };
        }
        let words = self.read_words();
        let dtype = self.view.dtype;
        let values = match dtype {
            Dtype::I32 => words.values.iter().map(|&word| i64::from(word.cast_signed())).collect(),
            _ => words.values.iter().map(|&word| tilewright_num::int_value(dtype, word)).collect(),
        };
        ReadValues { values, uninitialised: words.uninitialised }
    }

    /// Writes integers, saturated to an integer type or rounded to a float.
    pub fn write_integers(&self, rules: &RuleSet, values: &[i64]) {
        let dtype = self.view.dtype;
        if dtype.is_float() {
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            return self.write(rules, &values);
        }
        let words: Vec<u32> = match dtype {
            Dtype::I32 => values.iter().map(|&value| saturated(value).cast_unsigned()).collect(),
            _ => values.iter().map(|&value| integer_word(rules, dtype, value)).collect(),
        };
        self.write_words(&words);
    }
}

impl Content {
    /// Spreads packed elements to their places.
    pub(crate) fn unpack(&mut self, view: &TensorView, packed: &[u8]) {
        let content = self;
        content.changed();
        let size = view.dtype.size_bytes(1);
        let mut at = 0;
        view.visit(|start, steps, stride| {
            let Some(source) = packed.get(at..at + steps * size) else { return };
            at += steps * size;
            let Some(start) = start else { return };
            if stride == 1 {
                if let Some(run) = content.bytes.to_mut().get_mut(start * size..(start + steps) * size) {
                    run.copy_from_slice(source);
                }
                content.mark(start * size, steps * size);
                return;
            }
            let element =
                |step| start.wrapping_add_signed(stride * tilewright_neuron_isa::pattern::signed(step));
            let bytes = content.bytes.to_mut();
            for (step, source) in source.chunks_exact(size).enumerate() {
                if let Some(to) = bytes.get_mut(element(step) * size..(element(step) + 1) * size) {
                    to.copy_from_slice(source);
                }
            }
            for step in 0..if content.all_written() { 0 } else { steps } {
                content.mark(element(step) * size, size);
            }
        });
    }
}

/// The nearest integer of 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "clamped to what the type has")]
fn saturated(value: i64) -> i32 {
    value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

/// FP32 values as stored words of a type.
fn words_of(rules: &RuleSet, dtype: Dtype, values: &[f32]) -> Vec<u32> {
    let mut bytes = vec![0; dtype.size_bytes(values.len())];
    // Only i5 and i9 can refuse a value, and no tile has them.
    let _ = encode_slice(rules, dtype, values, &mut bytes);
    (0..values.len()).map(|at| load(dtype, &bytes, at)).collect()
}

/// A constant as a stored word: exact in integer types, through FP32 in others.
#[expect(clippy::cast_possible_truncation, reason = "constants are FP32, or integers of at most 32 bits")]
pub(crate) fn word_of(rules: &RuleSet, dtype: Dtype, value: f64) -> u32 {
    if dtype.is_float() {
        return words_of(rules, dtype, &[value as f32])[0];
    }
    integer_word(rules, dtype, value.round_ties_even() as i64)
}

/// An integer as a stored word of an integer type, saturated.
fn integer_word(rules: &RuleSet, dtype: Dtype, value: i64) -> u32 {
    let narrowed = tilewright_num::narrow_int(rules, dtype, value).or_broken("a tile of i5 or i9");
    tilewright_num::int_pattern(dtype, narrowed)
}

/// Moves elements of one type with rows and columns swapped, bit for bit; both tiles have the type. True if
/// bytes were read that nobody wrote.
pub(crate) fn transpose(dst: &Tile, src: &Tile) -> bool {
    let (rows, columns) = (src.view.partitions(), src.view.free_elements());
    let (packed, uninitialised) = {
        let content = src.storage.lock();
        (src.packed(&content), src.reads_unwritten(&content))
    };
    let mut transposed = to_overwrite(packed.len());
    match src.view.dtype.size_bytes(1) {
        1 => transpose_elements::<1>(&packed, &mut transposed, rows, columns),
        2 => transpose_elements::<2>(&packed, &mut transposed, rows, columns),
        _ => transpose_elements::<4>(&packed, &mut transposed, rows, columns),
    }
    recycle(packed);
    dst.put(transposed);
    uninitialised
}

/// Rows and columns of a block that is transposed at a time: its lines fit into the nearest cache.
const TRANSPOSE_BLOCK: usize = 16;

/// Writes elements of `N` bytes column by column.
fn transpose_elements<const N: usize>(packed: &[u8], transposed: &mut [u8], rows: usize, columns: usize) {
    let (elements, out) = (packed.as_chunks::<N>().0, transposed.as_chunks_mut::<N>().0);
    for first_row in (0..rows).step_by(TRANSPOSE_BLOCK) {
        let block_rows = first_row..rows.min(first_row + TRANSPOSE_BLOCK);
        for column in 0..columns {
            let Some(line) = out.get_mut(column * rows..(column + 1) * rows) else { return };
            for (row, to) in block_rows.clone().zip(&mut line[block_rows.clone()]) {
                if let Some(element) = elements.get(row * columns + column) {
                    *to = *element;
                }
            }
        }
    }
}

/// Copies elements from one tile to another: bit for bit between equal types, through FP32 otherwise, through
/// integers between integer types. True if bytes were read that nobody wrote.
pub fn copy(rules: &RuleSet, dst: &Tile, src: &Tile) -> bool {
    let (from, to) = (src.view.dtype, dst.view.dtype);
    if src.storage.valueless || dst.storage.valueless {
        return false;
    }
    if defer_copy(rules, dst, src) {
        return false;
    }
    if from == to {
        let (packed, uninitialised) = {
            let content = src.storage.lock();
            (src.packed(&content), src.reads_unwritten(&content))
        };
        dst.put(packed);
        return uninitialised;
    }
    if !from.is_float() && !to.is_float() {
        let read = src.read_integers(rules);
        dst.write_integers(rules, &read.values);
        return read.uninitialised;
    }
    if src.elements() != dst.elements() {
        return false;
    }
    let (bytes, uninitialised) = {
        let content = src.storage.lock();
        let bytes = src.contiguous(&content).map(|bytes| change_type(rules, (from, bytes), to, true));
        let bytes = bytes.unwrap_or_else(|| change_type(rules, (from, &src.packed(&content)), to, true));
        (bytes, src.reads_unwritten(&content))
    };
    dst.put(bytes);
    uninitialised
}

/// Copies a sum that is still being added up when somebody looks at the copy. False if it is none.
fn defer_copy(rules: &RuleSet, dst: &Tile, src: &Tile) -> bool {
    let same = src.elements() == dst.elements() && src.view.dtype == src.storage.dtype;
    if !same || dst.view.gather.is_some() || src.storage.id == dst.storage.id || !src.is_whole() {
        return false;
    }
    let Some(sum) = src.storage.sum() else { return false };
    dst.storage.defer_copy(DeferredCopy {
        view: dst.view.clone(),
        whole: dst.is_whole(),
        sum,
        rules: *rules,
    });
    true
}

/// Elements that one thread converts at a time.
const CONVERTED_AT_ONCE: usize = 1 << 12;

/// Elements of one type as elements of another, through FP32; many of them by several threads, if they may be
/// `shared`.
pub(crate) fn change_type(
    rules: &RuleSet,
    (from, bytes): (Dtype, &[u8]),
    to: Dtype,
    shared: bool,
) -> Vec<u8> {
    let (from_size, to_size) = (from.size_bytes(1), to.size_bytes(1));
    let mut changed = to_overwrite(bytes.len() / from_size * to_size);
    let convert = |(out, bytes): (&mut [u8], &[u8])| {
        let mut values = [0.0; CONVERTED_AT_ONCE];
        let values = &mut values[..bytes.len() / from_size];
        decode_slice(rules, from, bytes, values);
        // Only i5 and i9 can refuse a value, and no tile has them.
        let _ = encode_slice(rules, to, values, out);
    };
    let (out, bytes) = (CONVERTED_AT_ONCE * to_size, bytes.chunks(CONVERTED_AT_ONCE * from_size));
    if bytes.len() < 8 || !shared {
        changed.chunks_mut(out).zip(bytes).for_each(convert);
    } else {
        let bytes: Vec<&[u8]> = bytes.collect();
        changed.par_chunks_mut(out).zip(bytes).for_each(convert);
    }
    changed
}

/// Adds elements as the tensor engine adds to PSUM; what nobody wrote counts as nothing.
pub fn add(rules: &RuleSet, to: &Tile, from: &Tile) {
    if to.storage.valueless {
        return;
    }
    if to.unwritten() {
        copy(rules, to, from);
        return;
    }
    if (to.view.dtype, from.view.dtype) != (Dtype::F32, Dtype::F32) || to.storage.id == from.storage.id {
        let mut sums = from.read(rules).values;
        sums.iter_mut().zip(to.read(rules).values).for_each(|(sum, value)| *sum += value);
        return to.write(rules, &sums);
    }
    let source = from.storage.lock();
    let packed;
    let values = match from.contiguous(&source) {
        Some(bytes) => bytes,
        None => {
            packed = from.packed(&source);
            &packed
        }
    };
    to.update(&mut to.storage.lock(), true, |bytes| {
        for (word, value) in bytes.as_chunks_mut().0.iter_mut().zip(values.as_chunks().0) {
            *word = (f32::from_le_bytes(*value) + f32::from_le_bytes(*word)).to_le_bytes();
        }
    });
}

/// Appends elements of `N` bytes that lie a stride apart.
fn pack<const N: usize>(packed: &mut Vec<u8>, bytes: &[u8], start: usize, steps: usize, stride: isize) {
    if stride == 0 {
        if let Some(element) = bytes.get(start * N..(start + 1) * N).and_then(|run| run.first_chunk::<N>()) {
            for _ in 0..steps {
                packed.extend_from_slice(element);
            }
        }
        return;
    }
    let mut element = start;
    for _ in 0..steps {
        if let Some(word) = bytes.get(element * N..).and_then(|run| run.first_chunk::<N>()) {
            packed.extend_from_slice(word);
        }
        element = element.wrapping_add_signed(stride);
    }
}

/// The type that an instruction's result has when the kernel names none: floats win over integers, the wider
/// of two floats over the other, F16 with BF16 give F32, two 8-bit floats BF16; integers widen (NKI 0.1, type
/// promotion).
pub fn promote(a: Dtype, b: Dtype) -> Dtype {
    if a == b {
        return a;
    }
    match (a.is_float(), b.is_float()) {
        (true, false) => a,
        (false, true) => b,
        (true, true) => {
            let (wide, narrow) = if a.bits() >= b.bits() { (a, b) } else { (b, a) };
            match (wide.bits(), narrow.bits()) {
                (16, 16) => Dtype::F32,
                (8, 8) => Dtype::Bf16,
                _ => wide,
            }
        }
        (false, false) => promote_integers(a, b),
    }
}

fn promote_integers(a: Dtype, b: Dtype) -> Dtype {
    let signed = |dtype: Dtype| dtype.int_range().is_some_and(|(least, _)| least < 0);
    let (wide, narrow) = if a.bits() >= b.bits() { (a, b) } else { (b, a) };
    if signed(a) == signed(b) || (signed(wide) && wide.bits() > narrow.bits()) {
        return wide;
    }
    match wide.bits().max(narrow.bits()) {
        8 => Dtype::I16,
        16 => Dtype::I32,
        _ => Dtype::F32,
    }
}
