//! Broken invariants end the run loudly: what cannot be, if the code is right, is never turned into a number.
//!
//! Input is checked where it is read, with diagnostics; nothing here is for input. A failure is a fault of
//! the program, in release builds too: it panics, and the command line answers with exit code 3 and a report.

use std::fmt;

/// Begins the message of every failure that [`broken`] reports.
pub const BROKEN: &str = "broken invariant: ";

/// Ends the run: something holds that cannot.
#[cold]
#[inline(never)]
#[track_caller]
#[expect(clippy::panic, reason = "the one place where a broken invariant ends the run")]
pub fn broken(what: fmt::Arguments<'_>) -> ! {
    panic!("{BROKEN}{what}")
}

/// Arithmetic on sizes, addresses, cycles and counts whose results fit if the code is right.
pub trait Exact: Sized {
    /// The sum; ends the run if it does not fit.
    #[track_caller]
    #[must_use]
    fn exact_add(self, other: Self) -> Self;
    /// The difference; ends the run if it does not fit.
    #[track_caller]
    #[must_use]
    fn exact_sub(self, other: Self) -> Self;
    /// The product; ends the run if it does not fit.
    #[track_caller]
    #[must_use]
    fn exact_mul(self, other: Self) -> Self;
}

macro_rules! exact {
    ($($number:ty),*) => {$(
        impl Exact for $number {
            #[inline]
            fn exact_add(self, other: Self) -> Self {
                self.checked_add(other).unwrap_or_else(|| broken(format_args!("{self} + {other} overflows")))
            }
            #[inline]
            fn exact_sub(self, other: Self) -> Self {
                self.checked_sub(other).unwrap_or_else(|| broken(format_args!("{self} - {other} overflows")))
            }
            #[inline]
            fn exact_mul(self, other: Self) -> Self {
                self.checked_mul(other).unwrap_or_else(|| broken(format_args!("{self} * {other} overflows")))
            }
        }
    )*};
}

exact!(u32, u64, i64, usize, u128);

/// A count as an index of this host; ends the run if it does not fit.
#[inline]
#[track_caller]
#[must_use]
pub fn to_index(count: u64) -> usize {
    usize::try_from(count).unwrap_or_else(|_| broken(format_args!("{count} is no index of this host")))
}

/// What must be there.
pub trait OrBroken<T> {
    /// The value; ends the run with `what` if there is none.
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
    use super::*;

    fn message(work: fn()) -> String {
        let ended = std::panic::catch_unwind(work).expect_err("it ends the run");
        ended.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn what_fits_is_exact() {
        assert_eq!(3u64.exact_add(4).exact_mul(5).exact_sub(35), 0);
        assert_eq!((-3i64).exact_sub(4), -7);
        assert_eq!(to_index(9), 9);
        assert_eq!(Some(1).or_broken("none"), 1);
        assert_eq!(Ok::<u8, ()>(1).or_broken("none"), 1);
    }

    #[test]
    fn what_does_not_fit_ends_the_run_and_says_why() {
        assert_eq!(message(|| _ = u64::MAX.exact_add(1)), format!("{BROKEN}{} + 1 overflows", u64::MAX));
        assert_eq!(message(|| _ = 0usize.exact_sub(1)), format!("{BROKEN}0 - 1 overflows"));
        assert_eq!(message(|| None.or_broken("no kernel 7")), format!("{BROKEN}no kernel 7"));
    }
}
