//! A tensor's elements: patterns of one type in row-major order.

use thiserror::Error;
use tilewright_base::invariant::OrBroken;
use tilewright_num::{Dtype, RuleSet, convert, int_pattern, int_value, load, store};

/// Most elements of an array.
pub const MAX_ELEMENTS: u64 = 1 << 31;

/// Elements in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Element type.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub extents: Vec<u64>,
    /// One pattern an element.
    pub patterns: Vec<u32>,
}

/// Why bytes are not the array that was asked for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ArrayError {
    /// The file is not what its name says.
    #[error("{0}")]
    Format(String),
    /// The shape differs.
    #[error("the array has extents {found:?}, the tensor {wanted:?}")]
    Extents {
        /// In the file.
        found: Vec<u64>,
        /// Asked for.
        wanted: Vec<u64>,
    },
    /// The type cannot become the one asked for.
    #[error("elements are {found}, which do not become {wanted}")]
    Type {
        /// In the file.
        found: String,
        /// Asked for.
        wanted: &'static str,
    },
    /// A number does not fit.
    #[error("element {index} is {value}, which is outside {wanted}")]
    Range {
        /// Which.
        index: usize,
        /// What it is.
        value: i64,
        /// Asked for.
        wanted: &'static str,
    },
}

impl Array {
    /// Elements as they lie in memory.
    ///
    /// # Errors
    /// Too many elements, or another number of bytes.
    pub fn from_bytes(dtype: Dtype, extents: &[u64], bytes: &[u8]) -> Result<Array, ArrayError> {
        let count = Array::count(extents)
            .ok_or_else(|| ArrayError::Format("it has too many elements".to_string()))?;
        let wanted = dtype.size_bytes(count);
        if bytes.len() != wanted {
            return Err(ArrayError::Format(format!("{} bytes for {wanted} of {dtype}", bytes.len())));
        }
        let patterns = (0..count).map(|index| load(dtype, bytes, index)).collect();
        Ok(Array { dtype, extents: extents.to_vec(), patterns })
    }

    /// The number of elements, if it is within bounds.
    pub fn count(extents: &[u64]) -> Option<usize> {
        let count = extents.iter().try_fold(1_u64, |all, extent| all.checked_mul(*extent))?;
        usize::try_from(count).ok().filter(|_| count <= MAX_ELEMENTS)
    }

    /// Elements drawn from a seed: integers over the whole range of their type (32-bit ones within a
    /// million), floats evenly between -1 and 1.
    pub fn random(rules: &RuleSet, dtype: Dtype, extents: &[u64], seed: u64) -> Option<Array> {
        let count = Array::count(extents)?;
        let patterns = (0..count).map(|index| draw(rules, dtype, seed, index as u64)).collect();
        Some(Array { dtype, extents: extents.to_vec(), patterns })
    }

    /// Zeros.
    pub fn zeros(dtype: Dtype, extents: &[u64]) -> Option<Array> {
        let count = Array::count(extents)?;
        Some(Array { dtype, extents: extents.to_vec(), patterns: vec![0; count] })
    }

    /// The bytes as they would lie in memory, densely.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.dtype.size_bytes(self.patterns.len())];
        for (index, pattern) in self.patterns.iter().enumerate() {
            store(self.dtype, &mut bytes, index, *pattern);
        }
        bytes
    }

    /// A checksum of type, extents and bytes: 64-bit FNV-1a.
    pub fn checksum(&self) -> u64 {
        let mut hash = 0xCBF2_9CE4_8422_2325_u64;
        let mut take = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        self.dtype.name().bytes().for_each(&mut take);
        self.extents.iter().flat_map(|extent| extent.to_le_bytes()).for_each(&mut take);
        self.bytes().into_iter().for_each(&mut take);
        hash
    }

    /// The same numbers in another type, by a chip's rules; integers must fit.
    pub fn converted(&self, rules: &RuleSet, wanted: Dtype) -> Result<Array, ArrayError> {
        if self.dtype == wanted {
            return Ok(self.clone());
        }
        let refused = || ArrayError::Type { found: self.dtype.name().to_string(), wanted: wanted.name() };
        if self.dtype.is_float() && !wanted.is_float() {
            return Err(refused());
        }
        let mut patterns = Vec::with_capacity(self.patterns.len());
        for (index, pattern) in self.patterns.iter().enumerate() {
            patterns.push(if wanted.is_float() {
                convert(rules, self.dtype, wanted, *pattern).map_err(|_| refused())?
            } else {
                let value = int_value(self.dtype, *pattern);
                let inside = wanted.int_range().is_some_and(|(least, most)| (least..=most).contains(&value));
                if !inside {
                    return Err(ArrayError::Range { index, value, wanted: wanted.name() });
                }
                int_pattern(wanted, value)
            });
        }
        Ok(Array { dtype: wanted, extents: self.extents.clone(), patterns })
    }

    /// The array, if it has these extents; extents of one may be left out or added.
    pub fn shaped(mut self, wanted: &[u64]) -> Result<Array, ArrayError> {
        let squeezed =
            |extents: &[u64]| extents.iter().copied().filter(|extent| *extent != 1).collect::<Vec<_>>();
        if squeezed(&self.extents) != squeezed(wanted) {
            return Err(ArrayError::Extents { found: self.extents, wanted: wanted.to_vec() });
        }
        self.extents = wanted.to_vec();
        Ok(self)
    }
}

/// One element from a seed and its place, so that no order of drawing matters.
fn draw(rules: &RuleSet, dtype: Dtype, seed: u64, index: u64) -> u32 {
    let mixed = tilewright_base::random::at(seed, index);
    if dtype.is_float() {
        // 24 bits: every value is an f32 between -1 and 1.
        #[expect(clippy::cast_precision_loss, reason = "24 bits fit a mantissa")]
        let value = (mixed >> 40) as f32 / 8_388_608.0 - 1.0;
        return convert(rules, Dtype::F32, dtype, value.to_bits())
            .or_broken("floats are converted to floats");
    }
    let (least, most) = dtype.int_range().or_broken("a type is a float or an integer");
    let (least, most) = (least.max(-1_000_000), most.min(1_000_000));
    let span = (most - least).cast_unsigned() + 1;
    let drawn = (u128::from(mixed) * u128::from(span)) >> 64;
    int_pattern(dtype, least + i64::try_from(drawn).or_broken("a draw lies in its span"))
}
