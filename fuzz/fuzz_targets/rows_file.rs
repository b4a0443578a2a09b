//! `cargo +nightly fuzz run rows_file`: see the check for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tilewright_filetest::fuzz::rows_file(bytes));
