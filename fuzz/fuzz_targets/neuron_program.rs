//! `cargo +nightly fuzz run neuron_program`: see the check for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tilewright_filetest::fuzz::neuron_program(bytes));
