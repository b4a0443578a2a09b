//! `cargo +nightly fuzz run llama2c_file`: see the check for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tilewright_filetest::fuzz::llama2c_file(bytes));
