//! Run-time sizes as inputs, and the masks that are made of them.

use super::BoundingPass;
use super::layout::Digit;
use crate::dim::Dim;
use crate::dtype::Dtype;
use crate::graph::{Type, ValueId};
use crate::infer::BuildResult;
use crate::op::{Binary, Fold};

/// The element that changes no result of a fold, by the type of its elements.
pub(super) fn neutral(fold: Fold, dtype: Dtype) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "numbers of 32 bits")]
    let (least, most) = match dtype.integer_range() {
        // Integers of 64 bits are held in 32.
        Some((least, most)) if dtype != Dtype::I64 => (least as f64, most as f64),
        Some(_) => (f64::from(i32::MIN), f64::from(i32::MAX)),
        None if dtype == Dtype::Bool => (0.0, 1.0),
        None => (f64::NEG_INFINITY, f64::INFINITY),
    };
    match fold {
        Fold::Sum => 0.0,
        Fold::Prod => 1.0,
        Fold::Max => least,
        Fold::Min => most,
    }
}

impl BoundingPass<'_> {
    /// A run-time size as an i32 scalar: a constant, or an input that whoever runs the graph fills.
    pub(super) fn size(&mut self, dim: &Dim) -> BuildResult<ValueId> {
        if dim.as_fixed().is_some() {
            return self.b.number(dim.clone(), Dtype::I32);
        }
        if let Some(known) = self.sizes.get(dim) {
            return Ok(*known);
        }
        let name = format!("size.{}", dim.text(self.axes()));
        let id = self.b.input(&name, Type::new(Dtype::I32, []))?;
        self.sizes.insert(dim.clone(), id);
        Ok(id)
    }

    /// Which positions of an axis hold elements, as a vector of bools; padding of digits that are not asked
    /// for is left in.
    fn mask(&mut self, digits: &[Digit], asked: &[bool]) -> BuildResult<ValueId> {
        let key: Vec<(Dim, bool)> =
            digits.iter().zip(asked).map(|(digit, asked)| (digit.dim.clone(), *asked)).collect();
        if let Some(known) = self.masks.get(&key) {
            return Ok(*known);
        }
        let mut all: Option<ValueId> = None;
        for (at, (digit, _)) in digits.iter().zip(asked).enumerate().filter(|(_, (_, asked))| **asked) {
            let length = self.bound(&digit.dim)?;
            let (place, size) =
                (self.b.iota(Dtype::I32, std::slice::from_ref(&length), 0)?, self.size(&digit.dim)?);
            let one = self.b.binary(Binary::Lt, place, size)?;
            let behind = digits.len() - at - 1;
            let one = self.column(one, length, behind)?;
            all = Some(match all {
                None => one,
                Some(all) => self.b.binary(Binary::And, all, one)?,
            });
        }
        let truth = self.b.scalar(Dtype::Bool, 1.0)?;
        let bounds: BuildResult<Vec<Dim>> = digits.iter().map(|digit| self.bound(&digit.dim)).collect();
        let wide = self.b.broadcast(all.unwrap_or(truth), &bounds?)?;
        let mask = self.b.reshape(wide, &[self.length(digits)?])?;
        self.masks.insert(key, mask);
        Ok(mask)
    }

    /// A vector with so many axes of one element behind its own.
    pub(super) fn column(&mut self, x: ValueId, length: Dim, behind: usize) -> BuildResult<ValueId> {
        let mut dims = vec![length];
        dims.resize(behind + 1, Dim::fixed(1));
        self.b.reshape(x, &dims)
    }

    /// The value with a scalar for every padding of some axes, unless a digit is good as it is.
    pub(super) fn filled(
        &mut self,
        x: ValueId,
        axes: &[Vec<Digit>],
        chosen: &[usize],
        is_good: &dyn Fn(&Digit) -> bool,
        element: ValueId,
    ) -> BuildResult<ValueId> {
        let mut all: Option<ValueId> = None;
        for axis in chosen {
            let Some(digits) = axes.get(*axis) else { continue };
            let asked: Vec<bool> = digits.iter().map(|digit| digit.is_open() && !is_good(digit)).collect();
            if !asked.contains(&true) {
                continue;
            }
            let mask = self.mask(digits, &asked)?;
            let mask = self.column(mask, self.length(digits)?, axes.len() - axis - 1)?;
            all = Some(match all {
                None => mask,
                Some(all) => self.b.binary(Binary::And, all, mask)?,
            });
        }
        let Some(mask) = all else { return Ok(x) };
        self.b.select(mask, x, element)
    }
}
