//! `cargo +nightly fuzz run array_file`: see the check for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tilewright_filetest::fuzz::array_file(bytes));
