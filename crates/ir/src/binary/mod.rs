//! The binary form of programs, below any one chip family: a file of checked sections ([`container`]), in
//! which the statements of a program stand as numbered words ([`tokens`]) and arrays as they lie in memory.
//!
//! All numbers are little-endian. `varint` is seven bits a byte, the lowest first, the top bit set on all but
//! the last.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `TILEWRT` and 0x1A |
//! | 8..12 | version of this format: 1 |
//! | 12..16 | number of sections |
//! | 16..24 | bytes of the file |
//! | 24..32 | bytes of the head: up to the end of the names |
//! | 32..40 | XXH3-64 of bytes 40 to the end of the head |
//! | 40.. | a row of 40 bytes for each section: kind (4), bytes of its name (4), offset of its name (8), offset (8), bytes (8), XXH3-64 of them (8) |
//! | then | the names, one behind the other |
//!
//! Sections begin at multiples of [`container::ALIGN_BYTES`], so that arrays can be mapped as they are.
//! Kinds: 1 a program, named by its chip family, and behind a `/` by its own name if the file has several; 2
//! an array's elements, named as the program's `file` says; 3 a text.
//!
//! | in a program | what |
//! |---|---|
//! | words | varint count; of each varint bytes, then UTF-8 |
//! | block | varint count of statements |
//! | statement | varint word; varint count of values; values; 1 and a block, or 0 |
//! | value | a byte: 0 word, 1 float, 2 text as written (each with a varint word); 4 to 7 an integer (+1 negative, +2 hexadecimal) with its varint magnitude; 8 `(`, 9 `)`, 10 `[`, 11 `]`; 16 and on the signs in the order of [`crate::Sign::ALL`] |

pub mod container;
pub mod tokens;

use thiserror::Error;

pub use container::{Section, SectionKind, is_binary, read, write};

/// Why bytes are no program.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BinaryError {
    /// Another file.
    #[error("the file does not begin with the mark of a program binary")]
    NotOurs,
    /// Written by something newer or older.
    #[error(
        "the file has version {found} of the format; this reads version {known}: write it again with this \
         release"
    )]
    Version {
        /// In the file.
        found: u32,
        /// Here.
        known: u32,
    },
    /// It ends too early, or goes on.
    #[error("{what} needs bytes {from} to {to}, and the file has {bytes}: it was cut off or changed")]
    Bounds {
        /// What.
        what: &'static str,
        /// First byte.
        from: u64,
        /// Behind the last byte.
        to: u64,
        /// Of the file.
        bytes: u64,
    },
    /// Bytes changed.
    #[error("the checksum of {what} is {found:016x} and should be {wanted:016x}: bytes were changed")]
    Checksum {
        /// What.
        what: String,
        /// Of the bytes.
        found: u64,
        /// In the file.
        wanted: u64,
    },
    /// A number without a meaning.
    #[error("{what} {found} at byte {at} of its section: it was written by something else")]
    Meaning {
        /// What.
        what: &'static str,
        /// In the file.
        found: u64,
        /// Where.
        at: usize,
    },
    /// More than is read.
    #[error("{what}: {found}, and at most {most} are read")]
    Limit {
        /// What.
        what: &'static str,
        /// In the file.
        found: u64,
        /// Allowed.
        most: u64,
    },
}
