//! Values as others look at them: transposed, cut, stretched and windowed without being moved.
//!
//! A view is a first element and a size and stride for each axis, in elements of a value that lies in
//! row-major order. What no strides describe is moved first.

use tilewright_base::invariant::OrBroken;

/// Strided access to a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    /// The value, by number.
    pub value: usize,
    /// Its first element.
    pub first: i64,
    /// Size and stride of each axis, outermost first.
    pub axes: Vec<(u64, i64)>,
}

/// Row-major strides of sizes.
pub fn strides(dims: &[u64]) -> Vec<i64> {
    let mut all = vec![1; dims.len()];
    for at in (1..dims.len()).rev() {
        all[at - 1] = all[at] * signed(dims[at].max(1));
    }
    all
}

/// The number of elements.
pub fn count(dims: &[u64]) -> u64 {
    dims.iter().fold(1, |all, dim| all.saturating_mul(*dim))
}

/// As a stride.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).or_broken("sizes and strides are below 2^63")
}

impl View {
    /// All of a value.
    pub fn whole(value: usize, dims: &[u64]) -> View {
        View { value, first: 0, axes: dims.iter().copied().zip(strides(dims)).collect() }
    }

    /// Where its elements lie, in its order.
    pub fn places(&self) -> Vec<i64> {
        let mut all = vec![self.first];
        for (size, stride) in &self.axes {
            let step = |from: i64| (0..signed(*size)).map(move |at| from + at * stride);
            all = all.into_iter().flat_map(step).collect();
        }
        all
    }

    /// Sizes.
    pub fn dims(&self) -> Vec<u64> {
        self.axes.iter().map(|(size, _)| *size).collect()
    }

    /// Whether elements come one after the other from the first on.
    pub fn is_plain(&self) -> bool {
        let dims = self.dims();
        let own = strides(&dims);
        self.first == 0 && self.axes.iter().zip(own).all(|((size, stride), own)| *size == 1 || *stride == own)
    }

    /// Axes in another order.
    pub fn transposed(&self, order: &[usize]) -> Option<View> {
        let axes = order.iter().map(|axis| self.axes.get(*axis).copied()).collect::<Option<_>>()?;
        Some(View { axes, ..self.clone() })
    }

    /// Elements `start + i * step` of an axis.
    pub fn sliced(&self, axis: usize, start: i64, size: u64, step: i64) -> Option<View> {
        let mut view = self.clone();
        let (own, stride) = view.axes.get_mut(axis)?;
        view.first += start * *stride;
        *own = size;
        *stride *= step;
        Some(view)
    }

    /// Sizes of 1 stretched, new axes in front.
    pub fn stretched(&self, dims: &[u64]) -> Option<View> {
        let new = dims.len().checked_sub(self.axes.len())?;
        let mut axes: Vec<(u64, i64)> = dims[..new].iter().map(|size| (*size, 0)).collect();
        for ((size, stride), wanted) in self.axes.iter().zip(&dims[new..]) {
            match (size, wanted) {
                (a, b) if a == b => axes.push((*size, *stride)),
                (1, _) => axes.push((*wanted, 0)),
                _ => return None,
            }
        }
        Some(View { axes, ..self.clone() })
    }

    /// An axis as places and elements of windows.
    pub fn windowed(&self, axis: usize, size: u64, stride: u64, dilation: u64) -> Option<View> {
        let (length, step) = *self.axes.get(axis)?;
        let reach = (size.checked_sub(1)?).checked_mul(dilation)?.checked_add(1)?;
        let places = length.checked_sub(reach)? / stride.max(1) + 1;
        let mut axes = self.axes.clone();
        let pair = [(places, step * signed(stride)), (size, step * signed(dilation))];
        axes.splice(axis..=axis, pair);
        Some(View { axes, ..self.clone() })
    }

    /// The same elements under other sizes, if strides can say so.
    pub fn reshaped(&self, dims: &[u64]) -> Option<View> {
        if count(dims) != count(&self.dims()) {
            return None;
        }
        let mut old = joined(&self.axes);
        let mut axes = Vec::with_capacity(dims.len());
        // From the innermost on, each size is taken off the innermost axis that is left.
        for size in dims.iter().rev() {
            if *size == 1 {
                axes.push((1, 0));
                continue;
            }
            let (left, stride) = old.last_mut()?;
            if !left.is_multiple_of(*size) {
                return None;
            }
            axes.push((*size, *stride));
            *left /= size;
            *stride *= signed(*size);
            if *left == 1 {
                old.pop();
            }
        }
        axes.reverse();
        Some(View { axes, ..self.clone() })
    }
}

/// Axes without those of size 1, neighbours that continue each other as one.
pub fn joined(axes: &[(u64, i64)]) -> Vec<(u64, i64)> {
    let mut all: Vec<(u64, i64)> = Vec::new();
    for (size, stride) in axes.iter().copied().filter(|(size, _)| *size != 1) {
        match all.last_mut() {
            Some((outer, step)) if *step == stride.saturating_mul(signed(size)) => {
                *outer *= size;
                *step = stride;
            }
            _ => all.push((size, stride)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(view: &View) -> Vec<i64> {
        view.places()
    }

    fn dims() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(1..5_u64, 1..4)
    }

    proptest! {
        #[test]
        fn other_sizes_keep_the_order(
            dims in dims(),
            turn in 0..3_usize,
            cut in 0..3_u64,
            parts in 1..4_u64,
        ) {
            let whole = View::whole(0, &dims);
            let mut order: Vec<usize> = (0..dims.len()).collect();
            order.rotate_left(turn % dims.len());
            let mut view = whole.transposed(&order).unwrap();
            let size = view.axes[0].0;
            view = view.sliced(0, signed(cut % size), size - cut % size, 1).unwrap();
            let all = count(&view.dims());
            let even = all.is_multiple_of(parts);
            let wanted: Vec<u64> = if even { vec![parts, 1, all / parts] } else { vec![all] };
            if let Some(reshaped) = view.reshaped(&wanted) {
                prop_assert_eq!(reshaped.dims(), wanted);
                prop_assert_eq!(listed(&reshaped), listed(&view));
            } else {
                prop_assert!(!whole.is_plain() || view != whole);
            }
            prop_assert_eq!(whole.reshaped(&[count(&dims)]).map(|flat| listed(&flat)), Some(listed(&whole)));
        }
    }

    #[test]
    fn windows_are_strides() {
        let rows = View::whole(3, &[2, 7]);
        let seen = rows.windowed(1, 3, 2, 1).unwrap();
        assert_eq!(seen.dims(), [2, 3, 3]);
        assert_eq!(listed(&seen)[..9], [0, 1, 2, 2, 3, 4, 4, 5, 6]);
        assert!(rows.windowed(1, 8, 1, 1).is_none());
    }
}
