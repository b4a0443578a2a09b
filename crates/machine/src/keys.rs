//! How a figure is declared: once, as a field of a section's struct.
//!
//! [`machine_keys!`] turns each declaration into the struct that other crates read, the table
//! that the checker and the printer walk, and the reader that fills the struct. A declaration is
//! `key: type [lowest, highest]` below its documentation; the unit is the end of the key.

use std::fmt;

use crate::resolve::Figures;
use crate::value::grouped;

/// What a key accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// An integer from `low` to `high`.
    Integer {
        /// Smallest.
        low: u64,
        /// Largest.
        high: u64,
    },
    /// A number from `low` to `high`; an integer will do.
    Number {
        /// Smallest.
        low: f64,
        /// Largest.
        high: f64,
    },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One or more integers, rising, each from `low` to `high`.
    List {
        /// Smallest.
        low: u64,
        /// Largest.
        high: u64,
    },
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Integer { low, high } => {
                write!(f, "an integer from {} to {}", grouped(*low), grouped(*high))
            }
            Allowed::Number { low, high } => write!(f, "a number from {low} to {high}"),
            Allowed::Flag => f.write_str("true or false"),
            Allowed::Choice(words) => write!(f, "one of \"{}\"", words.join("\", \"")),
            Allowed::List { low, high } => {
                write!(f, "a list of rising integers, each from {} to {}", grouped(*low), grouped(*high))
            }
        }
    }
}

/// One key of a section.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// The key, which ends in its unit.
    pub name: &'static str,
    /// What it accepts.
    pub allowed: Allowed,
    /// What it is, in a sentence.
    pub doc: &'static str,
}

impl KeySpec {
    /// The unit that the key's last words name; empty for counts.
    pub fn unit(&self) -> &'static str {
        unit_of(self.name)
    }

    /// What the key accepts, with its unit.
    pub fn accepts(&self) -> String {
        let unit = self.unit();
        if unit.is_empty() { self.allowed.to_string() } else { format!("{} {unit}", self.allowed) }
    }
}

/// One section: a table of the file.
#[derive(Clone, Copy, Debug)]
pub struct SectionSpec {
    /// The table's name.
    pub name: &'static str,
    /// What the section describes.
    pub doc: &'static str,
    /// Its keys in the order in which they are printed.
    pub keys: &'static [KeySpec],
}

impl SectionSpec {
    /// The key of that name.
    pub fn key(&self, name: &str) -> Option<&'static KeySpec> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// Ends of keys and the units they stand for; the first that fits is taken.
const UNITS: &[(&str, &str)] = &[
    ("_bytes_per_cycle", "B/cycle"),
    ("_bytes_per_s", "B/s"),
    ("_transfers_per_s", "transfers/s"),
    ("_elements_per_cycle", "elements/cycle"),
    ("_pj_per_byte", "pJ/B"),
    ("_pj_per_bit", "pJ/bit"),
    ("_cycles_per_slice", "cycles/slice"),
    ("_bytes", "B"),
    ("_bits", "bits"),
    ("_cycles", "cycles"),
    ("_hz", "Hz"),
    ("_ns", "ns"),
    ("_pj", "pJ"),
    ("_nm", "nm"),
    ("_mm", "mm"),
    ("_w", "W"),
];

/// The unit that a key's last words name; empty for counts, fractions and words.
pub(crate) fn unit_of(key: &str) -> &'static str {
    UNITS.iter().find(|(end, _)| key.ends_with(end)).map_or("", |(_, unit)| unit)
}

/// A struct whose fields are the keys of one section.
pub(crate) trait Section: Sized {
    /// Its keys.
    const KEYS: &'static [KeySpec];
    /// What it describes.
    const DOC: &'static str;
    /// The struct, if every key is there.
    fn read(section: &str, figures: &Figures) -> Option<Self>;
}

/// A struct whose fields are the sections of one architecture.
pub(crate) trait Sections: Sized {
    /// Its sections.
    const SECTIONS: &'static [SectionSpec];
    /// The struct, if every key is there.
    fn read(figures: &Figures) -> Option<Self>;
}

/// Declares sections; see the head of this file.
macro_rules! machine_keys {
    ($(
        $(#[doc = $section_doc:literal])+
        $section:ident {
            $( $(#[doc = $doc:literal])+ $key:ident: $ty:tt $([$low:expr, $high:expr])?, )+
        }
    )+) => { $(
        $(#[doc = $section_doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $section {
            $( $(#[doc = $doc])+ pub $key: $ty, )+
        }

        impl $crate::keys::Section for $section {
            const KEYS: &'static [$crate::keys::KeySpec] = &[ $(
                $crate::keys::KeySpec {
                    name: stringify!($key),
                    allowed: $crate::keys::allowed!($ty $($low, $high)?),
                    doc: concat!($($doc),+),
                },
            )+ ];
            const DOC: &'static str = concat!($($section_doc),+);

            fn read(section: &str, figures: &$crate::resolve::Figures) -> Option<Self> {
                Some($section { $(
                    $key: $crate::value::Figure::read(&figures.get(section, stringify!($key))?.value)?,
                )+ })
            }
        }
    )+ };
}

/// Declares an architecture as a struct of sections.
macro_rules! machine_sections {
    ($(#[doc = $doc:literal])+ $machine:ident {
        $( $(#[doc = $field_doc:literal])+ $section:ident: $ty:ident, )+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $machine {
            $( $(#[doc = $field_doc])+ pub $section: $ty, )+
        }

        impl $crate::keys::Sections for $machine {
            const SECTIONS: &'static [$crate::keys::SectionSpec] = &[ $(
                $crate::keys::SectionSpec {
                    name: stringify!($section),
                    doc: <$ty as $crate::keys::Section>::DOC,
                    keys: <$ty as $crate::keys::Section>::KEYS,
                },
            )+ ];

            fn read(figures: &$crate::resolve::Figures) -> Option<Self> {
                Some($machine { $(
                    $section: $crate::keys::Section::read(stringify!($section), figures)?,
                )+ })
            }
        }
    };
}

/// The [`Allowed`] of a declaration.
macro_rules! allowed {
    (u64 $low:expr, $high:expr) => {
        $crate::keys::Allowed::Integer { low: $low, high: $high }
    };
    (f64 $low:expr, $high:expr) => {
        $crate::keys::Allowed::Number { low: $low, high: $high }
    };
    (List $low:expr, $high:expr) => {
        $crate::keys::Allowed::List { low: $low, high: $high }
    };
    (bool) => {
        $crate::keys::Allowed::Flag
    };
    ($choice:ident) => {
        $crate::keys::Allowed::Choice($choice::NAMES)
    };
}

pub(crate) use {allowed, machine_keys, machine_sections};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_the_end_of_the_key() {
        assert_eq!(unit_of("bandwidth_bytes_per_cycle"), "B/cycle");
        assert_eq!(unit_of("capacity_bytes"), "B");
        assert_eq!(unit_of("noc_pj_per_bit"), "pJ/bit");
        assert_eq!(unit_of("banks"), "");
    }

    #[test]
    fn what_is_allowed_is_said_with_both_ends_and_the_unit() {
        let key =
            KeySpec { name: "capacity_bytes", allowed: Allowed::Integer { low: 64, high: 1 << 20 }, doc: "" };
        assert_eq!(key.accepts(), "an integer from 64 to 1_048_576 B");
    }
}
