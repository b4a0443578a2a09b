//! Numbers from a seed: SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
//! 2014).
//!
//! The generator of this repository, for drawn elements and tests; the search of the compiler's choices keeps
//! a congruence of its own, on which printed choices rest. The state is a plain word, so that a seed is a
//! state and nothing is hidden. Results of runs with drawn inputs rest on these numbers: they do not change.

/// What the state grows by.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The next number of a sequence.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GAMMA);
    mixed(*state)
}

/// The next number of a sequence, below an end; zero if the end is.
pub fn below(state: &mut u64, end: u64) -> u64 {
    next(state) % end.max(1)
}

/// A number of the sequence of a seed by its place, so that no order of drawing matters.
pub fn at(seed: u64, place: u64) -> u64 {
    mixed(seed.wrapping_add(place.wrapping_mul(GAMMA)).wrapping_add(GAMMA))
}

fn mixed(state: u64) -> u64 {
    let word = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first numbers of seed 1234567.
    #[test]
    fn numbers_are_those_of_the_published_generator() {
        let mut state = 1_234_567;
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected.map(|_| next(&mut state)), expected);
        assert_eq!([0, 1, 2].map(|place| at(1_234_567, place)), expected);
    }

    #[test]
    fn ends_are_not_reached() {
        let mut state = 1;
        assert!((0..1000).all(|_| below(&mut state, 7) < 7));
        assert_eq!(below(&mut state, 0), 0);
    }
}
