//! `cargo +nightly fuzz run config_file`: see the check for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tilewright_filetest::fuzz::config_file(bytes));
