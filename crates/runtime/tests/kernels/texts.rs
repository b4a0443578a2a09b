//! The texts in `kernels/`: what the builders print, and programs that run without a complaint.

use std::path::PathBuf;

use tilewright_base::SourceId;
use tilewright_tcp::kernels::all;
use tilewright_tcp::program::text;
use tilewright_tcp::verify;

use crate::{run, tcp};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../kernels").join(format!("{name}.tcp"))
}

#[test]
fn texts_are_what_the_builders_print() {
    let blessing = std::env::var("BLESS").is_ok_and(|value| !value.is_empty() && value != "0");
    for (name, program) in all(tcp()).unwrap() {
        let printed = text::print(&program);
        if blessing {
            std::fs::write(path(name), &printed).unwrap();
        }
        let kept = std::fs::read_to_string(path(name)).unwrap_or_default();
        assert!(kept == printed, "kernels/{name}.tcp: BLESS=1 cargo test -p tilewright-runtime writes it");
        let mut back = text::read(&printed, SourceId(0)).unwrap();
        text::erase_spans(&mut back);
        assert_eq!(back, program, "{name}");
    }
}

#[test]
fn programs_are_legal_and_run_without_findings() {
    for (name, program) in all(tcp()).unwrap() {
        let complaints = verify(tcp(), &program);
        assert!(complaints.is_empty(), "{name}: {complaints:#?}");
        run(&program);
    }
}
