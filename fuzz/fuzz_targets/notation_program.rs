//! `cargo +nightly fuzz run notation_program`: see the check for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tilewright_filetest::fuzz::notation_program(bytes));
