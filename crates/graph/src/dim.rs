//! Sizes of tensors: whole numbers, named axes whose size is known only when a graph runs, and sums and
//! products of both.
//!
//! A [`Dim`] is a polynomial with whole coefficients over axes in one normal form, so equal sizes are equal
//! values. `past+seq` is the length of a key cache after a step, `4*batch` a flattened pair of axes.

use std::fmt::Write as _;

/// Index of an axis in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AxisId(pub u32);

/// A named axis whose size is given when a graph runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its name, a word.
    pub name: String,
    /// Smallest size.
    pub least: u64,
    /// Largest size.
    pub most: u64,
}

/// A size.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dim {
    /// Products of axes (sorted) with their coefficient, which is not zero; sorted, longest products first.
    terms: Vec<(Vec<AxisId>, i64)>,
}

/// Terms of a size, at most.
const MOST_TERMS: usize = 32;
/// Factors of a term, at most.
const MOST_FACTORS: usize = 8;

impl Dim {
    /// A number.
    pub fn fixed(number: i64) -> Dim {
        Dim { terms: if number == 0 { Vec::new() } else { vec![(Vec::new(), number)] } }
    }

    /// The size of an axis.
    pub fn axis(axis: AxisId) -> Dim {
        Dim { terms: vec![(vec![axis], 1)] }
    }

    /// The number, if no axis is in it.
    pub fn as_fixed(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [(factors, number)] if factors.is_empty() => Some(*number),
            _ => None,
        }
    }

    /// The axis, if it is just that.
    pub fn as_axis(&self) -> Option<AxisId> {
        match self.terms.as_slice() {
            [(factors, 1)] if factors.len() == 1 => factors.first().copied(),
            _ => None,
        }
    }

    /// Whether it is this number.
    pub fn is(&self, number: i64) -> bool {
        self.as_fixed() == Some(number)
    }

    /// Products of axes with their coefficients.
    pub fn terms(&self) -> &[(Vec<AxisId>, i64)] {
        &self.terms
    }

    fn normal(mut terms: Vec<(Vec<AxisId>, i64)>) -> Option<Dim> {
        terms.sort_by(|a, b| (b.0.len(), &a.0).cmp(&(a.0.len(), &b.0)));
        let mut merged: Vec<(Vec<AxisId>, i64)> = Vec::with_capacity(terms.len());
        for (factors, number) in terms {
            match merged.last_mut() {
                Some(last) if last.0 == factors => last.1 = last.1.checked_add(number)?,
                _ => merged.push((factors, number)),
            }
        }
        merged.retain(|(_, number)| *number != 0);
        let fits = merged.len() <= MOST_TERMS && merged.iter().all(|(f, _)| f.len() <= MOST_FACTORS);
        fits.then_some(Dim { terms: merged })
    }

    /// The sum; `None` if numbers or terms become too many.
    pub fn plus(&self, other: &Dim) -> Option<Dim> {
        Dim::normal(self.terms.iter().chain(&other.terms).cloned().collect())
    }

    /// The difference.
    pub fn minus(&self, other: &Dim) -> Option<Dim> {
        self.plus(&other.times(&Dim::fixed(-1))?)
    }

    /// The product.
    pub fn times(&self, other: &Dim) -> Option<Dim> {
        let mut terms = Vec::new();
        for (factors, number) in &self.terms {
            for (others, by) in &other.terms {
                let mut product = factors.clone();
                product.extend(others);
                product.sort_unstable();
                terms.push((product, number.checked_mul(*by)?));
            }
        }
        Dim::normal(terms)
    }

    /// The product of several.
    pub fn product<'d>(dims: impl IntoIterator<Item = &'d Dim>) -> Option<Dim> {
        dims.into_iter().try_fold(Dim::fixed(1), |product, dim| product.times(dim))
    }

    /// The quotient, if there is no rest and it or the divisor is a single product.
    pub fn divided(&self, by: &Dim) -> Option<Dim> {
        let [(divisor, number)] = by.terms.as_slice() else { return self.single_quotient(by) };
        let mut terms = Vec::new();
        for (factors, coefficient) in &self.terms {
            terms.push(term_quotient((factors, *coefficient), (divisor, *number))?);
        }
        Dim::normal(terms)
    }

    /// The quotient by a sum, if it is a single product: that of the longest terms.
    fn single_quotient(&self, by: &Dim) -> Option<Dim> {
        let ((factors, number), (divisor, by_number)) = (self.terms.first()?, by.terms.first()?);
        let quotient = Dim { terms: vec![term_quotient((factors, *number), (divisor, *by_number))?] };
        (quotient.times(by)? == *self).then_some(quotient)
    }

    /// How fast it grows with an axis: the derivative.
    pub fn growth(&self, axis: AxisId) -> Option<Dim> {
        let mut terms = Vec::new();
        for (factors, number) in &self.terms {
            let times = factors.iter().filter(|factor| **factor == axis).count();
            let Some(at) = factors.iter().position(|factor| *factor == axis) else { continue };
            let mut rest = factors.clone();
            rest.remove(at);
            terms.push((rest, number.checked_mul(i64::try_from(times).ok()?)?));
        }
        Dim::normal(terms)
    }

    /// Axes that are in it, each once.
    pub fn axes(&self) -> Vec<AxisId> {
        let mut axes: Vec<AxisId> = self.terms.iter().flat_map(|(factors, _)| factors.clone()).collect();
        axes.sort_unstable();
        axes.dedup();
        axes
    }

    /// Smallest and largest value that it may have.
    pub fn range(&self, axes: &[Axis]) -> (i128, i128) {
        let (mut least, mut most) = (0_i128, 0_i128);
        for (factors, number) in &self.terms {
            let number = i128::from(*number);
            let bound = |of: fn(&Axis) -> u64| {
                factors.iter().fold(number, |product, axis| {
                    let size = axes.get(axis.0 as usize).map_or(0, of);
                    product.saturating_mul(i128::from(size))
                })
            };
            let (small, large) = (bound(|axis| axis.least), bound(|axis| axis.most));
            least = least.saturating_add(small.min(large));
            most = most.saturating_add(small.max(large));
        }
        (least, most)
    }

    /// Its value with these sizes of the axes; `None` if one is missing or numbers become too large.
    pub fn value(&self, sizes: &[Option<u64>]) -> Option<i64> {
        let mut sum = 0_i64;
        for (factors, number) in &self.terms {
            let mut product = *number;
            for axis in factors {
                let size = (*sizes.get(axis.0 as usize)?)?;
                product = product.checked_mul(i64::try_from(size).ok()?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// The same with a size in the place of each axis; `None` if one has none, or numbers become too large.
    pub fn substituted(&self, to: &[Dim]) -> Option<Dim> {
        let mut sum = Dim::fixed(0);
        for (factors, number) in &self.terms {
            let term = factors
                .iter()
                .try_fold(Dim::fixed(*number), |product, axis| product.times(to.get(axis.0 as usize)?));
            sum = sum.plus(&term?)?;
        }
        Some(sum)
    }

    /// The same with other indices of axes; `None` if one has no counterpart.
    pub fn renamed(&self, to: &[AxisId]) -> Option<Dim> {
        let rename = |factors: &Vec<AxisId>| -> Option<Vec<AxisId>> {
            let mut new: Vec<AxisId> =
                factors.iter().map(|axis| to.get(axis.0 as usize).copied()).collect::<Option<_>>()?;
            new.sort_unstable();
            Some(new)
        };
        let terms: Option<Vec<_>> =
            self.terms.iter().map(|(factors, number)| Some((rename(factors)?, *number))).collect();
        Dim::normal(terms?)
    }

    /// As written, with the names of the axes.
    pub fn text(&self, axes: &[Axis]) -> String {
        let mut text = String::new();
        for (factors, number) in &self.terms {
            let sign = if *number < 0 { "-" } else { "+" };
            if !text.is_empty() || *number < 0 {
                text.push_str(sign);
            }
            let size = number.unsigned_abs();
            if size != 1 || factors.is_empty() {
                let _ = write!(text, "{size}");
            }
            for (place, axis) in factors.iter().enumerate() {
                if place > 0 || size != 1 {
                    text.push('*');
                }
                let name = axes.get(axis.0 as usize).map_or("?", |axis| axis.name.as_str());
                text.push_str(&tilewright_ir::print::name(name));
            }
        }
        if text.is_empty() { "0".to_string() } else { text }
    }
}

/// The quotient of two products without a rest.
fn term_quotient(
    (factors, number): (&[AxisId], i64),
    (divisor, by): (&[AxisId], i64),
) -> Option<(Vec<AxisId>, i64)> {
    let mut rest = factors.to_vec();
    for axis in divisor {
        let at = rest.iter().position(|factor| factor == axis)?;
        rest.remove(at);
    }
    (number.checked_rem(by)? == 0).then_some((rest, number.checked_div(by)?))
}

impl From<i64> for Dim {
    fn from(number: i64) -> Dim {
        Dim::fixed(number)
    }
}

/// Takes equal sizes out of both lists: what is left must multiply to the same, if both hold as many
/// elements.
pub fn cancelled(left: &[Dim], right: &[Dim]) -> (Vec<Dim>, Vec<Dim>) {
    let mut rest: Vec<Dim> = right.to_vec();
    let mut kept = Vec::new();
    for dim in left {
        match rest.iter().position(|other| other == dim) {
            Some(at) => {
                rest.remove(at);
            }
            None => kept.push(dim.clone()),
        }
    }
    (kept, rest)
}

/// Whether two shapes hold the same number of elements, whatever the axes are.
pub fn same_count(left: &[Dim], right: &[Dim]) -> bool {
    let zero = |dims: &[Dim]| dims.iter().any(|dim| dim.is(0));
    if zero(left) || zero(right) {
        return zero(left) && zero(right);
    }
    let (left, right) = cancelled(left, right);
    match (Dim::product(&left), Dim::product(&right)) {
        (Some(left), Some(right)) => left == right,
        _ => false,
    }
}
