//! What a verified program promises the schedule, each rule with a text that breaks it.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use tilewright_base::{SourceId, Sources};
use tilewright_neuron_isa::Chip;
use tilewright_neuron_isa::text::read;
use tilewright_neuron_isa::verify::verify_text;

const LEGAL: &str = "program neuron 1
machine trainium2
line 0 \"k.py:1\"
tensor t0 shared_hbm bytes=1024 line=0
tensor t1 sbuf partitions=4 bytes=256 tiles=2 line=0 { places (0: 0)(0: 256) }
dma_copy dma line=0 {
  latency_ps 2000
  write t1 tile=1 rows=0 to 4 pitch=256 bytes=0 to 256
  read t0 rows=0 to 4 pitch=256 bytes=0 to 256
  dma engines=1 data_ps=1000 bytes=1024 descriptors=4
}
tensor_copy vector line=0 { busy_ps 10; write t1 bytes=0 to 4; read t1 tile=1 bytes=0 to 4 }
";

fn chip(name: &str) -> Chip {
    let mut sources = Sources::default();
    let id = sources.add(name, tilewright_machine::builtin(name).unwrap());
    let bases = |name: &str| tilewright_machine::builtin(name).map(str::to_owned);
    let loaded = tilewright_machine::load(&mut sources, id, &bases).unwrap();
    Chip::new(name, loaded.machine.neuron().unwrap().clone())
}

fn codes(text: &str) -> Vec<&'static str> {
    let read = read(text, SourceId(0)).unwrap();
    verify_text(&chip("trainium2"), &read).iter().map(|complaint| complaint.code).collect()
}

#[test]
fn a_recorded_program_is_in_order() {
    assert_eq!(codes(LEGAL), Vec::<&str>::new());
}

#[test]
fn each_rule_has_a_program_that_breaks_it() {
    for (from, to, code) in [
        ("machine trainium2\n", "machine trainium2\ncores 3\n", "neuron/launch"),
        ("latency_ps 2000", "latency_ps 18446744073709551615", "neuron/program-size"),
        ("busy_ps 10;", "macs 18446744073709551615;", "neuron/program-size"),
        ("bytes=1024 descriptors", "bytes=18446744073709551615 descriptors", "neuron/program-size"),
        ("tiles=2 line=0 { places (0: 0)(0: 256) }", "tiles=20000000 line=0", "neuron/program-size"),
        ("tensor t1", "tensor t2", "neuron/program-number"),
        ("tensor_copy vector line=0", "tensor_copy vector line=7", "neuron/program-number"),
        (
            "tensor t0 shared_hbm bytes=1024 line=0",
            "tensor t0 shared_hbm bytes=1024 line=1",
            "neuron/program-number",
        ),
        ("(0: 0)(0: 256)", "(0: 0)", "neuron/program-places"),
        ("shared_hbm bytes=1024", "shared_hbm bytes=99999999999999", "neuron/program-tensor"),
        ("read t1 tile=1 bytes=0 to 4", "read t9 bytes=0 to 4", "neuron/program-region"),
        ("read t1 tile=1 bytes=0 to 4", "read t1 tile=2 bytes=0 to 4", "neuron/program-region"),
        ("read t1 tile=1 bytes=0 to 4", "read t1 bytes=4 to 4", "neuron/program-region"),
        ("read t0 rows=0 to 4", "read t0 rows=1 to 5", "neuron/program-region"),
        (
            "read t0 rows=0 to 4 pitch=256",
            "read t0 rows=0 to 18446744073709551615 pitch=256",
            "neuron/program-region",
        ),
        ("dma_copy dma", "dma_copy sync", "neuron/program-engine"),
        ("dma_copy dma line=0 {", "dma_copy dma line=0 barrier=1 {", "neuron/program-barrier"),
        (
            "tensor_copy vector line=0",
            "tensor_copy vector line=0 barrier=4000000000",
            "neuron/program-barrier",
        ),
        ("busy_ps 10;", "collective ranks=[1, 0] number=0 start_ps=0 links=[];", "neuron/program-ranks"),
    ] {
        let text = LEGAL.replacen(from, to, 1);
        assert_ne!(text, LEGAL, "`{from}` is not in the program");
        assert_eq!(codes(&text), [code], "{to}");
    }
}

#[test]
fn faults_point_to_their_statement() {
    let text = LEGAL.replace("read t1 tile=1", "read t9 tile=1");
    let program = read(&text, SourceId(0)).unwrap();
    let complaints = verify_text(&chip("trainium2"), &program);
    let span = complaints[0].primary.as_ref().unwrap().span;
    assert!(text[span.start as usize..span.end as usize].starts_with("tensor_copy vector"));
}
