//! The texts in `kernels/`: what the builders print, and programs that run without a complaint.

use tilewright_base::SourceId;
use tilewright_tcp_isa::program::text;
use tilewright_tcp_isa::verify;
use tilewright_tcp_lower::kernels::all;

use crate::kernels::{assert_kept, run, tcp};

#[test]
fn texts_are_what_the_builders_print() {
    for (name, program) in all(tcp()).unwrap() {
        let printed = text::print(&program);
        assert_kept(&format!("kernels/{name}.tcp"), &printed);
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
