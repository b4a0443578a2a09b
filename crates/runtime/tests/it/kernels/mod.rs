//! The layers of `tilewright_tcp_lower::kernels`: texts that are kept, values against plain arithmetic in
//! f64, cycles against closed forms.
//!
//! `BLESS=1` writes the texts of `kernels/`; the difference is then reviewed like code.

#![expect(clippy::disallowed_methods, reason = "the tests read and write kernel texts")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::cast_precision_loss, reason = "references count in f64")]
#![expect(clippy::cast_possible_truncation, reason = "small numbers")]

mod attention;
mod chains;
mod cycles;
mod schedule;
mod texts;

use std::collections::BTreeMap;
use std::path::PathBuf;

use tilewright_num::{Dtype, convert, int_value};
use tilewright_record::KeepLast;
use tilewright_runtime::{Array, ArrayError, Reading, ReadingOptions, read, readings};
use tilewright_tcp_exec::rules;
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::tensor::TensorRole;
use tilewright_tcp_sim::RunEnd;
use tilewright_testkit::shared_tcp as tcp;

/// Runs a program that must be legal, finish, and leave nothing to complain about.
fn run(program: &Program) -> Reading {
    let wanted = ReadingOptions { values: true, findings: true, trace: false, ..ReadingOptions::default() };
    let mut none = |_: &tilewright_tcp_isa::program::Tensor| Err(ArrayError::Format("no file".into()));
    let reading =
        read(tcp(), program, &mut none, &wanted, KeepLast::new(0)).unwrap_or_else(|why| panic!("{why:#?}"));
    assert_eq!(reading.outcome.ended, RunEnd::Finished);
    assert!(reading.findings.is_empty(), "{:#?}", reading.findings);
    assert!(reading.outcome.violations.is_empty(), "{:?}", reading.outcome.violations);
    reading
}

/// Numbers of all tensors by name: inputs as they were, outputs as they came out.
fn tensors(program: &Program, reading: &Reading) -> BTreeMap<String, Vec<f64>> {
    let mut none = |_: &tilewright_tcp_isa::program::Tensor| Err(ArrayError::Format("no file".into()));
    let inputs = program.tensors.iter().filter(|tensor| tensor.role == TensorRole::Input).map(|tensor| {
        let array = readings::input(tcp(), tensor, &mut none).unwrap().unwrap();
        (tensor.name.clone(), numbers(&array))
    });
    let outputs = reading.outputs.iter().map(|(name, array)| (name.clone(), numbers(array)));
    inputs.chain(outputs).collect()
}

fn numbers(array: &Array) -> Vec<f64> {
    let number = |pattern: &u32| {
        if array.dtype.is_float() {
            let word = convert(rules(tcp()), array.dtype, Dtype::F32, *pattern).unwrap_or(*pattern);
            f64::from(f32::from_bits(word))
        } else {
            int_value(array.dtype, *pattern) as f64
        }
    };
    array.patterns.iter().map(number).collect()
}

/// Compares a text with what is kept of it in the repository, or keeps it if that is asked for.
fn assert_kept(path: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var("BLESS").is_ok_and(|value| !value.is_empty() && value != "0") {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let path = path.display();
    assert!(kept == text, "{path}: BLESS=1 cargo test -p tilewright-runtime keeps this instead:\n{text}");
}

/// Every number within a share of what it should be, plus a little.
fn assert_close(found: &[f64], wanted: &[f64], relative: f64, absolute: f64) {
    assert_eq!(found.len(), wanted.len());
    for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let allowed = wanted.abs() * relative + absolute;
        assert!((found - wanted).abs() <= allowed, "element {index}: {found}, not {wanted}");
    }
}
