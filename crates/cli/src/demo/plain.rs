//! Attention by plain loops in 64-bit floats, and how many of a run's results agree with it.
//!
//! Knows no engine: it checks what the commands gave.

/// The inputs and outputs of a head group, each as numbers in the order of its axes.
pub(super) struct HeadGroup {
    pub(super) heads: usize,
    /// Queries, and as many keys.
    pub(super) length: usize,
    pub(super) depth: usize,
    pub(super) queries: Vec<f64>,
    pub(super) keys: Vec<f64>,
    pub(super) values: Vec<f64>,
    pub(super) scores: Vec<f64>,
    pub(super) weights: Vec<f64>,
    pub(super) out: Vec<f64>,
}

/// A weight of one is this integer.
const ONE: f64 = 127.0;

/// What queries times keys are multiplied by: a power of two, so that products stay exact.
const SCALE: f64 = 1.0 / 16384.0;

/// How many of how many results agree.
pub(super) struct Agreement {
    pub(super) what: &'static str,
    pub(super) with: &'static str,
    pub(super) equal: u64,
    pub(super) results: u64,
}

impl HeadGroup {
    /// Whether all arrays have the sizes that the extents say.
    pub(super) fn is_whole(&self) -> bool {
        let rows = self.heads * self.length;
        let rows_of_depth = [&self.queries, &self.keys, &self.values, &self.out];
        rows > 0
            && self.depth > 0
            && rows_of_depth.iter().all(|array| array.len() == rows * self.depth)
            && [&self.scores, &self.weights].iter().all(|array| array.len() == rows * self.length)
    }

    /// Each step from what the step before it gave.
    pub(super) fn agreement(&self) -> [Agreement; 3] {
        let exact: Vec<f64> = self.products();
        let scores = agreement("scores", "equal plain einsum", &self.scores, &exact, 0.0);
        let exact: Vec<f64> = self.scores.chunks(self.length).flat_map(softmax).map(|p| p * ONE).collect();
        let weights =
            agreement("softmax", "are exact softmax rounded to 1/127", &self.weights, &exact, 0.5 + 1e-3);
        let exact = self.weighted();
        // The sum is rounded to 1/64, then to an integer.
        let out =
            agreement("out", "are the weighted sum of values, rounded", &self.out, &exact, 0.5 + 1.0 / 64.0);
        [scores, weights, out]
    }

    fn products(&self) -> Vec<f64> {
        let head = self.length * self.depth;
        let mut sums = Vec::with_capacity(self.scores.len());
        for (queries, keys) in self.queries.chunks(head).zip(self.keys.chunks(head)) {
            for query in queries.chunks(self.depth) {
                sums.extend(keys.chunks(self.depth).map(|key| SCALE * dot(query, key)));
            }
        }
        sums
    }

    fn weighted(&self) -> Vec<f64> {
        let mut sums = Vec::with_capacity(self.out.len());
        let heads = self.values.chunks(self.length * self.depth);
        for (values, weights) in heads.zip(self.weights.chunks(self.length * self.length)) {
            for row in weights.chunks(self.length) {
                let mut sum = vec![0.0; self.depth];
                for (weight, value) in row.iter().zip(values.chunks(self.depth)) {
                    sum.iter_mut().zip(value).for_each(|(sum, value)| *sum += weight * value);
                }
                sums.extend(sum.iter().map(|sum| (sum / ONE).clamp(-128.0, 127.0)));
            }
        }
        sums
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = row.iter().map(|score| (score - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

fn agreement(what: &'static str, with: &'static str, found: &[f64], exact: &[f64], within: f64) -> Agreement {
    let equal = found.iter().zip(exact).filter(|(found, exact)| (*found - *exact).abs() <= within).count();
    Agreement { what, with, equal: equal as u64, results: found.len().max(exact.len()) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> HeadGroup {
        HeadGroup {
            heads: 1,
            length: 1,
            depth: 1,
            queries: vec![2.0],
            keys: vec![3.0],
            values: vec![-5.0],
            scores: vec![6.0 * SCALE],
            weights: vec![ONE],
            out: vec![-5.0],
        }
    }

    #[test]
    fn a_wrong_result_is_counted() {
        let right = group();
        assert!(right.is_whole());
        assert!(right.agreement().iter().all(|agreement| agreement.equal == agreement.results));
        let wrong = HeadGroup { out: vec![-4.0], ..group() };
        assert_eq!(wrong.agreement().map(|agreement| agreement.equal), [1, 1, 0]);
        assert!(!HeadGroup { scores: Vec::new(), ..group() }.is_whole());
    }
}
