//! Operands as FP32 values or raw integers, and results rounded to the type of their tile.
//!
//! Vector, Scalar and GpSimd compute in FP32 whatever the storage type; casts in and out are free (NKI architecture
//! guide). Elements come and go in the order of the view's loops.

use tilewright_num::{Dtype, RuleSet, decode_slice, encode_slice, load, store};

use crate::Tile;
use crate::pattern::SKIP;
use crate::refusal::{Refusal, rule};

/// What reading an operand gave.
#[derive(Clone, Debug, Default)]
pub struct Values<T> {
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

    /// Refuses a view that leaves its tensor.
    ///
    /// # Errors
    /// If an element lies outside.
    pub fn check_bounds(&self) -> Result<(), Refusal> {
        let size = self.storage.lock().bytes.len() / self.view.dtype.size_bytes(1).max(1);
        let inside =
            |(least, most): (i64, i64)| least >= 0 && usize::try_from(most).is_ok_and(|most| most < size);
        rule(self.view.extent().is_none_or(inside), || {
            let (least, most) = self.view.extent().unwrap_or_default();
            Refusal::new(
                "neuron/bounds",
                format!("elements {least} to {most} of a tensor of {size}"),
                "an access pattern inside its tensor",
                "check offset, strides and counts, or mask what lies outside",
            )
        })
    }

    /// The elements as FP32.
    pub fn read(&self, rules: &RuleSet) -> Values<f32> {
        let mut values = Values { values: vec![0.0; self.elements()], uninitialised: false };
        let (dtype, size) = (self.view.dtype, self.view.dtype.size_bytes(1));
        let content = self.storage.lock();
        let mut at = 0;
        self.visit(|start, steps, stride| {
            let Some(out) = values.values.get_mut(at..at + steps) else { return };
            at += steps;
            let Some(start) = start else { return };
            if stride == 1 {
                let Some(bytes) = content.bytes.get(start * size..(start + steps) * size) else { return };
                values.uninitialised |= !content.is_written(start * size, steps * size);
                decode_slice(rules, dtype, bytes, out);
            } else if stride == 0 {
                let Some(bytes) = content.bytes.get(start * size..(start + 1) * size) else { return };
                values.uninitialised |= !content.is_written(start * size, size);
                let mut one = [0.0];
                decode_slice(rules, dtype, bytes, &mut one);
                out.fill(one[0]);
            } else {
                for (step, out) in out.iter_mut().enumerate() {
                    let element = start.wrapping_add_signed(stride * crate::pattern::signed(step));
                    let Some(bytes) = content.bytes.get(element * size..(element + 1) * size) else {
                        continue;
                    };
                    values.uninitialised |= !content.is_written(element * size, size);
                    decode_slice(rules, dtype, bytes, std::slice::from_mut(out));
                }
            }
        });
        values
    }

    /// Writes FP32 values, rounded to the type of the view. Skipped elements keep what they have.
    pub fn write(&self, rules: &RuleSet, values: &[f32]) {
        let (dtype, size) = (self.view.dtype, self.view.dtype.size_bytes(1));
        let mut content = self.storage.lock();
        let mut at = 0;
        self.visit(|start, steps, stride| {
            let Some(values) = values.get(at..at + steps) else { return };
            at += steps;
            let Some(start) = start else { return };
            if stride == 1 {
                let Some(bytes) = content.bytes.get_mut(start * size..(start + steps) * size) else { return };
                let _ = encode_slice(rules, dtype, values, bytes);
                content.mark(start * size, steps * size);
                return;
            }
            for (step, value) in values.iter().enumerate() {
                let element = start.wrapping_add_signed(stride * crate::pattern::signed(step));
                let Some(bytes) = content.bytes.get_mut(element * size..(element + 1) * size) else {
                    continue;
                };
                let _ = encode_slice(rules, dtype, std::slice::from_ref(value), bytes);
                content.mark(element * size, size);
            }
        });
    }

    /// The stored words, in the low bits.
    pub fn read_words(&self) -> Values<u32> {
        let mut values = Values { values: Vec::with_capacity(self.elements()), uninitialised: false };
        let (dtype, size) = (self.view.dtype, self.view.dtype.size_bytes(1));
        let content = self.storage.lock();
        let count = content.bytes.len() / size;
        self.visit(|start, steps, stride| {
            for step in 0..steps {
                let element =
                    start.map(|start| start.wrapping_add_signed(stride * crate::pattern::signed(step)));
                let Some(element) = element.filter(|&element| element < count) else {
                    values.values.push(0);
                    continue;
                };
                values.uninitialised |= !content.is_written(element * size, size);
                values.values.push(load(dtype, &content.bytes, element));
            }
        });
        values
    }

    /// Writes stored words as they are.
    pub fn write_words(&self, words: &[u32]) {
        let (dtype, size) = (self.view.dtype, self.view.dtype.size_bytes(1));
        let mut content = self.storage.lock();
        let count = content.bytes.len() / size;
        let mut words = words.iter();
        self.visit(|start, steps, stride| {
            for step in 0..steps {
                let Some(&word) = words.next() else { return };
                let element =
                    start.map(|start| start.wrapping_add_signed(stride * crate::pattern::signed(step)));
                let Some(element) = element.filter(|&element| element < count) else { continue };
                store(dtype, &mut content.bytes, element, word);
                content.mark(element * size, size);
            }
        });
    }

    /// The elements as integers; floats are rounded to the nearest.
    #[expect(clippy::cast_possible_truncation, reason = "floats saturate")]
    pub fn read_integers(&self, rules: &RuleSet) -> Values<i64> {
        if self.view.dtype.is_float() {
            let read = self.read(rules);
            let values = read.values.iter().map(|value| value.round_ties_even() as i64).collect();
            return Values { values, uninitialised: read.uninitialised };
        }
        let words = self.read_words();
        let values =
            words.values.iter().map(|&word| tilewright_num::int_value(self.view.dtype, word)).collect();
        Values { values, uninitialised: words.uninitialised }
    }

    /// Writes integers, saturated to an integer type or rounded to a float.
    pub fn write_integers(&self, rules: &RuleSet, values: &[i64]) {
        let dtype = self.view.dtype;
        if dtype.is_float() {
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            return self.write(rules, &values);
        }
        let words: Vec<u32> = values
            .iter()
            .map(|&value| {
                let narrowed = tilewright_num::narrow_int(rules, dtype, value).unwrap_or_default();
                tilewright_num::int_pattern(dtype, narrowed)
            })
            .collect();
        self.write_words(&words);
    }

    /// Calls `run(start, steps, stride)` for each innermost loop; `None` where elements are skipped.
    fn visit(&self, mut run: impl FnMut(Option<usize>, usize, isize)) {
        let Some(offsets) = &self.view.gather else {
            return self.view.for_each_run(|start, steps, stride| run(Some(start), steps, stride));
        };
        let mut rest = &offsets[..];
        while let Some(&first) = rest.first() {
            let mut steps = 1;
            if first == SKIP {
                while rest.get(steps) == Some(&SKIP) {
                    steps += 1;
                }
                run(None, steps, 1);
            } else {
                while rest.get(steps) == Some(&(first + steps as i64)) {
                    steps += 1;
                }
                run(usize::try_from(first).ok(), steps, 1);
            }
            rest = &rest[steps..];
        }
    }
}

/// Copies elements from one tile to another: bit for bit between equal types, through FP32 otherwise, through
/// integers between integer types. True if bytes were read that nobody wrote.
pub fn copy(rules: &RuleSet, dst: &Tile, src: &Tile) -> bool {
    let (from, to) = (src.view.dtype, dst.view.dtype);
    if from == to && copy_bytes(dst, src).is_some() {
        // Done without decoding; uninitialised bytes were looked for on the way.
        return copy_bytes_uninitialised(src);
    }
    if from == to {
        let read = src.read_words();
        dst.write_words(&read.values);
        return read.uninitialised;
    }
    if !from.is_float() && !to.is_float() {
        let read = src.read_integers(rules);
        dst.write_integers(rules, &read.values);
        return read.uninitialised;
    }
    let read = src.read(rules);
    dst.write(rules, &read.values);
    read.uninitialised
}

/// The elements' bytes one run after the other, if every run is contiguous.
fn bytes_of(tile: &Tile) -> Option<Vec<u8>> {
    let size = tile.view.dtype.size_bytes(1);
    let content = tile.storage.lock();
    let mut bytes = Vec::with_capacity(tile.elements() * size);
    let mut plain = true;
    tile.visit(|start, steps, stride| match start {
        Some(start) if stride == 1 || steps == 1 => {
            bytes.extend_from_slice(
                content.bytes.get(start * size..(start + steps) * size).unwrap_or_default(),
            );
        }
        _ => plain = false,
    });
    (plain && bytes.len() == tile.elements() * size).then_some(bytes)
}

fn copy_bytes(dst: &Tile, src: &Tile) -> Option<()> {
    let bytes = bytes_of(src)?;
    let size = dst.view.dtype.size_bytes(1);
    let mut content = dst.storage.lock();
    let mut at = 0;
    dst.visit(|start, steps, stride| {
        let Some(start) = start else {
            at += steps;
            return;
        };
        if stride == 1 || steps == 1 {
            let source = bytes.get(at * size..(at + steps) * size);
            if let (Some(to), Some(from)) =
                (content.bytes.get_mut(start * size..(start + steps) * size), source)
            {
                to.copy_from_slice(from);
            }
            content.mark(start * size, steps * size);
        } else {
            for step in 0..steps {
                let element = start.wrapping_add_signed(stride * crate::pattern::signed(step));
                let source = bytes.get((at + step) * size..(at + step + 1) * size);
                if let (Some(to), Some(from)) =
                    (content.bytes.get_mut(element * size..(element + 1) * size), source)
                {
                    to.copy_from_slice(from);
                }
                content.mark(element * size, size);
            }
        }
        at += steps;
    });
    Some(())
}

fn copy_bytes_uninitialised(src: &Tile) -> bool {
    let size = src.view.dtype.size_bytes(1);
    let content = src.storage.lock();
    if content.all_written() {
        return false;
    }
    let mut missing = false;
    src.visit(|start, steps, _| {
        if let Some(start) = start {
            missing |= !content.is_written(start * size, steps * size);
        }
    });
    missing
}

/// The type that an instruction's result has when the kernel names none: floats win over integers, the wider of two
/// floats over the other, F16 with BF16 give F32, two 8-bit floats BF16; integers widen (NKI 0.1, type promotion).
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
