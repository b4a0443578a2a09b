//! `cargo +nightly fuzz run hugging_face_file`: see the check for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tilewright_filetest::fuzz::hugging_face_file(bytes));
