//! `cargo +nightly fuzz run schedule_text`: see the check for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tilewright_filetest::fuzz::schedule_text(bytes));
