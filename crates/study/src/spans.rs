//! Stretches of time: their union, their length, what two of them have in common.

/// From a cycle to before another.
pub(crate) type CycleSpan = (u64, u64);

/// The same cycles as stretches in order with gaps between them.
pub(crate) fn union(spans: impl IntoIterator<Item = CycleSpan>) -> Vec<CycleSpan> {
    let mut spans: Vec<CycleSpan> = spans.into_iter().filter(|(start, end)| start < end).collect();
    spans.sort_unstable();
    let mut joined: Vec<CycleSpan> = Vec::new();
    for (start, end) in spans {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Cycles of a union.
pub(crate) fn length(union: &[CycleSpan]) -> u64 {
    union.iter().map(|(start, end)| end - start).sum()
}

/// What two unions have in common.
pub(crate) fn common(a: &[CycleSpan], b: &[CycleSpan]) -> Vec<CycleSpan> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
        let (start, end) = (left.0.max(right.0), left.1.min(right.1));
        if start < end {
            both.push((start, end));
        }
        if left.1 < right.1 {
            a.next();
        } else {
            b.next();
        }
    }
    both
}

/// What a union leaves of a stretch.
pub(crate) fn gaps(union: &[CycleSpan], (start, end): CycleSpan) -> Vec<CycleSpan> {
    let mut left = Vec::new();
    let mut from = start;
    for (busy, free) in union {
        if *busy > from && from < end {
            left.push((from, (*busy).min(end)));
        }
        from = from.max(*free);
    }
    if from < end {
        left.push((from, end));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles that a set of stretches covers, one by one.
    fn covered(spans: &[CycleSpan]) -> Vec<bool> {
        (0..100).map(|cycle| spans.iter().any(|(start, end)| *start <= cycle && cycle < *end)).collect()
    }

    #[test]
    fn stretches_are_sets_of_cycles() {
        let mut state = 1_u64;
        let mut next = |most: u64| tilewright_base::random::below(&mut state, most);
        for _ in 0..500 {
            let mut some = || -> Vec<CycleSpan> {
                let count = next(6);
                (0..count).map(|_| (next(90), next(100))).collect()
            };
            let (a, b) = (some(), some());
            let (left, right) = (union(a.clone()), union(b.clone()));
            assert_eq!(covered(&left), covered(&a));
            assert!(left.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let set = covered(&left);
            assert_eq!(length(&left), set.iter().filter(|held| **held).count() as u64);
            let both: Vec<bool> = covered(&a).iter().zip(covered(&b)).map(|(a, b)| *a && b).collect();
            assert_eq!(covered(&common(&left, &right)), both);
            let free: Vec<bool> =
                covered(&a).iter().zip(0..).map(|(held, cycle)| !held && (20..70).contains(&cycle)).collect();
            assert_eq!(covered(&gaps(&left, (20, 70))), free);
        }
    }
}
