//! `cargo +nightly fuzz run program_binary`: see the check for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tilewright_filetest::fuzz::program_binary(bytes));
