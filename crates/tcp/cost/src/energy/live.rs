//! How much of a stream is data and how much padding: the elements below every limit of the fetch unit.
//!
//! Exact for one limit of up to 65,536 positions, and for several that concern different loops; longer limits
//! count as even.

use tilewright_tcp_isa::capped::Capped;
use tilewright_tcp_isa::program::exec::{Fetch, Limit};

/// Positions of one limit that are looked at one by one.
const WALKED: u128 = 1 << 16;

/// Live elements of all elements of all slices, as a fraction.
pub(super) fn fraction(fetch: &Fetch, slices: u64) -> (u128, u128) {
    fetch.limits.iter().fold((1, 1), |(live, of), limit| {
        let (part, whole) = limit_fraction(fetch, limit, slices);
        match (live.checked_mul(part), of.checked_mul(whole)) {
            (Some(live), Some(of)) => reduced(live, of),
            _ => (live, of),
        }
    })
}

fn limit_fraction(fetch: &Fetch, limit: &Limit, slices: u64) -> (u128, u128) {
    let loops = fetch.loops.iter().zip(&limit.weights).map(|(row, weight)| (row.size.fixed(), *weight));
    let digits = limit.slices.iter().map(|digit| (digit.size.min(slices.max(1)), digit.weight));
    let mut parts: Vec<(u64, u64)> = loops.chain(digits).filter(|(_, weight)| *weight > 0).collect();
    parts.sort_unstable_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let whole = parts.iter().fold(1_u128, |all, (size, _)| all.capped_mul(u128::from(*size)));
    let extent = u128::from(limit.extent.fixed());
    if whole == 0 {
        return (0, 1);
    }
    if whole <= WALKED {
        return (below(&parts, extent), whole);
    }
    let span = parts.iter().fold(1_u128, |span, (size, weight)| {
        span.capped_add(u128::from(size.saturating_sub(1)) * u128::from(*weight))
    });
    (extent.min(span), span)
}

/// Positions of a nest, heaviest part first, whose weighted sum is below an extent.
fn below(parts: &[(u64, u64)], extent: u128) -> u128 {
    let Some(((size, weight), rest)) = parts.split_first() else { return u128::from(extent > 0) };
    let all = rest.iter().fold(1_u128, |all, (size, _)| all.capped_mul(u128::from(*size)));
    let most = rest.iter().fold(0_u128, |most, (size, weight)| {
        most.capped_add(u128::from(size.saturating_sub(1)) * u128::from(*weight))
    });
    let mut live = 0_u128;
    for index in 0..*size {
        let Some(left) = extent.checked_sub(u128::from(index) * u128::from(*weight)) else { break };
        live += if most < left { all } else { below(rest, left) };
    }
    live
}

fn reduced(live: u128, of: u128) -> (u128, u128) {
    let (mut a, mut b) = (live, of);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (live / a.max(1), of / a.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_below_an_extent_are_counted_as_a_walk_counts_them() {
        for extent in 0..200_u128 {
            let parts = [(3, 40), (5, 8), (7, 1)];
            let mut walked = 0;
            for (a, b, c) in (0..3).flat_map(|a| (0..5).flat_map(move |b| (0..7).map(move |c| (a, b, c)))) {
                walked += u128::from(a * 40 + b * 8 + c < extent);
            }
            assert_eq!(below(&parts, extent), walked, "{extent}");
        }
    }
}
