//! Broken invariants end the run: what cannot be absent, out of range or too large for its type is said aloud instead of
//! becoming a wrong number. Input is checked before, and refused with a diagnostic; what arrives here is an error of this
//! program. The command line turns the panic into its exit code for internal errors, with a report.

use std::fmt;

/// Ends the run: something that cannot be is.
///
/// # Panics
/// Always, with a text that begins with `broken invariant: `.
#[cold]
#[inline(never)]
#[track_caller]
pub fn broken(what: fmt::Arguments<'_>) -> ! {
    panic!("broken invariant: {what}")
}

/// Integer arithmetic whose result must fit its type: overflow ends the run, in release builds too.
pub trait Exact: Sized {
    /// The sum.
    #[track_caller]
    fn exact_add(self, other: Self) -> Self;
    /// The difference.
    #[track_caller]
    fn exact_sub(self, other: Self) -> Self;
    /// The product.
    #[track_caller]
    fn exact_mul(self, other: Self) -> Self;
}

macro_rules! exact {
    ($($integer:ty),*) => {$(
        impl Exact for $integer {
            #[inline]
            fn exact_add(self, other: Self) -> Self {
                match self.checked_add(other) {
                    Some(sum) => sum,
                    None => broken(format_args!("{self} + {other} does not fit {}", stringify!($integer))),
                }
            }

            #[inline]
            fn exact_sub(self, other: Self) -> Self {
                match self.checked_sub(other) {
                    Some(difference) => difference,
                    None => broken(format_args!("{self} - {other} does not fit {}", stringify!($integer))),
                }
            }

            #[inline]
            fn exact_mul(self, other: Self) -> Self {
                match self.checked_mul(other) {
                    Some(product) => product,
                    None => broken(format_args!("{self} * {other} does not fit {}", stringify!($integer))),
                }
            }
        }
    )*};
}

exact!(u64, i64, usize, u128);

/// A count as an index of this host.
#[inline]
#[track_caller]
pub fn to_index(count: u64) -> usize {
    match usize::try_from(count) {
        Ok(index) => index,
        Err(_) => broken(format_args!("{count} does not fit an index")),
    }
}

/// A value that is there, unless the program is wrong.
pub trait OrBroken<T> {
    /// The value; without one the run ends, and `what` says which value was missing.
    #[track_caller]
    fn or_broken(self, what: &str) -> T;
}

impl<T> OrBroken<T> for Option<T> {
    #[inline]
    fn or_broken(self, what: &str) -> T {
        match self {
            Some(value) => value,
            None => broken(format_args!("{what}")),
        }
    }
}

impl<T, E: fmt::Debug> OrBroken<T> for Result<T, E> {
    #[inline]
    fn or_broken(self, what: &str) -> T {
        match self {
            Ok(value) => value,
            Err(error) => broken(format_args!("{what}: {error:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Exact, OrBroken, to_index};

    #[test]
    fn what_fits_is_given_back() {
        assert_eq!(3_u64.exact_add(4), 7);
        assert_eq!(3_i64.exact_sub(4), -1);
        assert_eq!(to_index(5), 5);
        assert_eq!(Some(1).or_broken("one"), 1);
    }

    #[test]
    #[should_panic(expected = "broken invariant: 18446744073709551615 * 2 does not fit u64")]
    fn what_does_not_fit_ends_the_run() {
        let _ = u64::MAX.exact_mul(2);
    }

    #[test]
    #[should_panic(expected = "broken invariant: no such plan entry")]
    fn what_is_missing_ends_the_run() {
        let _: u64 = None.or_broken("no such plan entry");
    }
}
