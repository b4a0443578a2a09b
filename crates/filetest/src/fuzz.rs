//! What must hold for any bytes: readers answer with a tree or a diagnostic, printing reads back, maps
//! invert.
//!
//! Fuzz targets are one call each of these; the corpus is replayed through them as ordinary tests. What a
//! check has seen, such as the complaints it was answered with, is noted: a driver keeps inputs that show
//! something new.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use tilewright_artifact::{CompiledFile, GraphPlan, LanguagePlan, Plan};
use tilewright_base::{SourceId, Sources, render};
use tilewright_ir::binary::{Section, container, tokens};
use tilewright_machine::{LoadedMachine, Tcp, builtin, load};
use tilewright_neuron_isa::{self as neuron, Chip};
use tilewright_notation::algebra::{ElementPlace, PlaceMap, RadixMap};
use tilewright_notation::problem::{Problem, Shape};
use tilewright_notation::radix;
use tilewright_notation::syntax::ast::Program;
use tilewright_notation::syntax::parser;
use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_isa::program::text;

/// What must hold for any bytes.
pub type Check = fn(&[u8]);

/// All checks by name, which is that of their folder in `fuzz/corpus`.
pub const CHECKS: &[(&str, Check)] = &[
    ("notation_program", notation_program),
    ("notation_parts", notation_parts),
    ("machine_file", machine_file),
    ("program_text", program_text),
    ("program_binary", program_binary),
    ("artifact_file", artifact_file),
    ("neuron_program", neuron_program),
    ("graph_text", graph_text),
    ("kernel_text", kernel_text),
    ("lowered_text", lowered_text),
    ("schedule_text", schedule_text),
    ("onnx_file", onnx_file),
    ("gguf_file", gguf_file),
    ("llama2c_file", llama2c_file),
    ("hugging_face_file", hugging_face_file),
    ("config_file", config_file),
    ("array_file", array_file),
    ("rows_file", rows_file),
];

thread_local! {
    /// A hash of what the check that runs has seen.
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// What was seen since the last call, as a hash.
pub fn take_seen() -> u64 {
    SEEN.take()
}

/// Notes the shape of a text: its words, without numbers and without what is quoted.
fn note(text: &str) {
    let mut quoted = false;
    let mut hash = SEEN.get() ^ 0xCBF2_9CE4_8422_2325;
    for byte in text.bytes() {
        quoted ^= byte == b'`';
        if !quoted && !byte.is_ascii_digit() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
    }
    SEEN.set(hash);
}

/// Notes how large something that was read is, by powers of two.
fn note_size(count: usize) {
    note(
        ["a", "b", "c", "d", "e", "f", "g", "h"]
            .get(count.checked_ilog2().map_or(0, |bits| bits as usize + 1))
            .copied()
            .unwrap_or("i"),
    );
}

/// Complaints about a text: they render, and are noted.
fn complained(text: &str, complaints: &[tilewright_base::Diagnostic]) {
    let mut sources = Sources::default();
    sources.add("fuzz", text);
    assert!(render::plain(&sources, complaints).contains("error["));
    for complaint in complaints.iter().take(4) {
        note(complaint.code);
        note(&complaint.message);
    }
}

/// The file form of the notation.
pub fn notation_program(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parser::program(text, SourceId(0)) {
        Ok(program) => verify_program(&program),
        Err(complaint) => complained(text, &[*complaint]),
    }
}

/// Each part of the notation on its own, as the command line reads it.
pub fn notation_parts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let source = SourceId(0);
    match parser::einsum(text, source) {
        Ok(_) => note("einsum"),
        Err(complaint) => complained(text, &[*complaint]),
    }
    if let Ok(einsum) = parser::einsum(text, source) {
        assert_eq!(parser::einsum(&einsum.to_string(), source).expect("canonical einsum reads back"), einsum);
    }
    if let Ok(shape) = parser::lowered_shape(text, source) {
        note("shape");
        assert_eq!(
            parser::lowered_shape(&shape.to_string(), source).expect("canonical shape reads back"),
            shape
        );
    }
    if let Ok(tactic) = parser::tactic(text, source) {
        note("tactic");
        assert_eq!(parser::tactic(&tactic.to_string(), source).expect("canonical tactic reads back"), tactic);
    }
    if let Ok(dims) = parser::dims(text, source) {
        note("dims");
        note_size(dims.len());
        let printed: Vec<String> = dims.iter().map(ToString::to_string).collect();
        assert_eq!(parser::dims(&printed.join(", "), source).expect("canonical dims read back"), dims);
    }
}

/// Machine files.
pub fn machine_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut sources = Sources::default();
    let id = sources.add("fuzz.toml", text);
    match load(&mut sources, id, &|name| builtin(name).map(str::to_string)) {
        Ok(loaded) => {
            note("machine");
            assert!(!tilewright_machine::show(&loaded).is_empty());
        }
        Err(complaints) => complained(text, &complaints),
    }
}

/// NeuronCore programs: what reads prints and reads back, and what was verified is scheduled and read to its
/// end.
pub fn neuron_program(bytes: &[u8]) {
    static CHIP: OnceLock<Chip> = OnceLock::new();
    let chip = CHIP.get_or_init(|| {
        let mut sources = Sources::default();
        let id = sources.add("trainium2", builtin("trainium2").expect("it comes with us"));
        let loaded = load(&mut sources, id, &|name| builtin(name).map(str::to_string)).expect("it loads");
        Chip::new("trainium2", loaded.machine.neuron().expect("a NeuronCore").clone())
    });
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut sources = Sources::default();
    let id = sources.add("fuzz", text);
    let read = match neuron::text::read(text, id) {
        Ok(read) => read,
        Err(complaints) => return complained(text, &complaints),
    };
    let printed = neuron::text::print(&read.program, &read.machine);
    let back = neuron::text::read(&printed, SourceId(0)).expect("canonical text reads back");
    assert_eq!(back.program, read.program);
    assert_eq!(neuron::text::print(&back.program, &back.machine), printed);
    let complaints = neuron::verify::verify_text(chip, &read);
    if !complaints.is_empty() {
        return complained(text, &complaints);
    }
    note("scheduled");
    note_size(read.program.instructions.len());
    let run = tilewright_neuron_sim::ScheduledProgram::of(chip, &read.program);
    let (program, timeline) = (run.program(&read.program), &run.timeline);
    assert_eq!(timeline.spans.len(), read.program.instructions.len());
    let found = tilewright_neuron_sim::findings::findings(chip, &read.program);
    found.iter().for_each(|finding| note(finding.code));
    tilewright_neuron_sim::analysis::summary::summary(chip, program, timeline);
    tilewright_neuron_sim::analysis::critical_path::critical_path(program, timeline);
    tilewright_neuron_sim::analysis::critical_path::idle_times(program, timeline);
    tilewright_neuron_sim::analysis::advice::advice(chip, program, timeline);
    tilewright_neuron_sim::trace::perfetto_bytes(chip, program, timeline).expect("a run is a record");
}

/// A program's text to the statements of its binary and back.
fn through_binary(printed: &str) -> tilewright_tcp_isa::program::Program {
    let tree = tilewright_ir::parser::parse(printed, SourceId(0), &mut tilewright_ir::Log::default());
    let text = tokens::decode(&tokens::encode(&tree)).expect("what was encoded decodes");
    text::read(&text, SourceId(0)).expect("and reads as a program")
}

/// The file of a small language model: other texts take the place of its plans.
const LANGUAGE_FILE: &[u8] = include_bytes!("../../../fuzz/corpus/artifact_file/language.twb");

/// A text as the plan of a language model, and as that of one of its programs, with checksums that are right.
fn language_plan(text: &str) {
    let sections = container::read(LANGUAGE_FILE).unwrap_or_default();
    for name in ["plan", "plan.decode"] {
        let edited: Vec<Section<'_>> = sections
            .iter()
            .map(|section| match section.name == name {
                true => Section { bytes: text.as_bytes(), ..*section },
                false => *section,
            })
            .collect();
        match CompiledFile::read(&container::write(&edited)) {
            Ok(_) => note("a file with this plan"),
            Err(error) => note(&error.to_string()),
        }
    }
}

/// Any bytes as the file of a compiled model or graph, and as the plan in it.
pub fn artifact_file(bytes: &[u8]) {
    match CompiledFile::read(bytes) {
        Ok(CompiledFile::Model(_)) => note("model"),
        Ok(CompiledFile::Language(model)) => {
            note("language");
            for graph in model.token.iter().chain(&model.prompt) {
                note_size(graph.constants.len());
            }
            note_size(usize::try_from(model.prompt_tokens()).unwrap_or(usize::MAX));
        }
        Ok(CompiledFile::Graph(graph)) => {
            note("graph");
            note_size(graph.constants.len());
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            note(&error.to_string());
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(plan) = Plan::read(text) {
        assert_eq!(Plan::read(&plan.to_string()), Ok(plan));
    }
    if ["language ", "graph "].iter().any(|first| text.starts_with(first)) {
        language_plan(text);
    }
    match LanguagePlan::read(text) {
        Ok(plan) => {
            note_size(plan.roles.len());
            assert_eq!(LanguagePlan::read(&plan.to_string()), Ok(plan));
        }
        Err(error) => note(&error.to_string()),
    }
    match GraphPlan::read(text) {
        Ok(plan) => {
            note_size(plan.interface.results.len());
            let ports = plan.interface.inputs.iter().chain(&plan.interface.results);
            ports.for_each(|port| note(&format!("{:?}", port.check(plan.interface.hbm_bytes).is_ok())));
            assert_eq!(GraphPlan::read(&plan.to_string()), Ok(plan));
        }
        Err(error) => note(&error.to_string()),
    }
}

/// Any bytes as a program binary: sections, statements, program.
pub fn program_binary(bytes: &[u8]) {
    let sections = container::read(bytes).unwrap_or_else(|error| {
        note(&error.to_string());
        Vec::new()
    });
    let programs = sections.iter().map(|section| section.bytes);
    for statements in programs.chain([bytes]) {
        match tokens::decode(statements) {
            Ok(text) => program_text(text.as_bytes()),
            Err(error) => note(&error.to_string()),
        }
    }
}

/// The text form of TCP programs.
pub fn program_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text::read(text, SourceId(0)) {
        Ok(mut program) => {
            note("program");
            note_size(program.execs.len());
            note_size(program.transfers.len());
            text::erase_spans(&mut program);
            let printed = text::print(&program);
            let mut again = text::read(&printed, SourceId(0)).expect("canonical text reads back");
            text::erase_spans(&mut again);
            assert_eq!(again, program, "{printed}");
            assert_eq!(text::print(&again), printed);
            assert_eq!(text::print(&through_binary(&printed)), printed);
        }
        Err(complaints) => complained(text, &complaints),
    }
}

/// The text form of graphs.
pub fn graph_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match tilewright_graph::text::read(text, SourceId(0)) {
        Ok(graph) => {
            note("graph");
            note_size(graph.nodes.len());
            let printed = tilewright_graph::text::print(&graph);
            let again =
                tilewright_graph::text::read(&printed, SourceId(0)).expect("canonical text reads back");
            assert_eq!(again, graph, "{printed}");
            lowers(&graph);
        }
        Err(complaints) => complained(text, &complaints),
    }
}

/// The text of kernels.
pub fn kernel_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match tilewright_compile::kernel_text::read(text, SourceId(0)) {
        Ok(kernels) => {
            note("kernels");
            note_size(kernels.kernels.len());
            let printed = kernels.print();
            let again = tilewright_compile::kernel_text::read(&printed, SourceId(0))
                .expect("canonical text reads back");
            assert_eq!(again.print(), printed);
        }
        Err(complaints) => complained(text, &complaints),
    }
}

/// Lowered texts: what is read either compiles to what it says, or is refused with a code.
pub fn lowered_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match tilewright_compile::lowered::read::read(text, SourceId(0)) {
        // A model of any size would take as long as it takes.
        Ok(read) if !is_small(&read.kernels) => {}
        Ok(read) => {
            note("lowered");
            static MACHINE: OnceLock<Tcp> = OnceLock::new();
            if let Err(complaints) = read.compile(MACHINE.get_or_init(tcp)) {
                complained(text, &complaints);
            }
        }
        Err(complaints) => complained(text, &complaints),
    }
}

fn is_small(kernels: &tilewright_compile::kernel::Kernels) -> bool {
    let mut sizes = kernels.values.iter().map(|value| value.width);
    let few = kernels.kernels.len() <= 16 && kernels.positions.max(kernels.vocabulary) <= 512;
    few && sizes.all(|size| size <= 512)
}

/// Schedules: what is read is checked, and prints as itself.
pub fn schedule_text(bytes: &[u8]) {
    use tilewright_compile::schedule_text::{checker, read};
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match read::read(text, SourceId(0)) {
        Ok(schedule) => {
            note("schedule");
            let printed = schedule.print();
            let again = read::read(&printed, SourceId(0)).expect("canonical text reads back");
            assert_eq!(again.print(), printed);
            let complaints = checker::check(&schedule);
            if !complaints.is_empty() {
                complained(text, &complaints);
            }
        }
        Err(complaints) => complained(text, &complaints),
    }
}

/// What verifies either lowers to primitives that verify, or is refused with a code.
fn lowers(graph: &tilewright_graph::Graph) {
    match tilewright_graph::primitives(graph) {
        Ok(lowered) => assert_eq!(tilewright_graph::verify(&lowered), []),
        Err(complaint) => {
            assert!(complaint.code.starts_with("graph/"));
            note(&complaint.message);
        }
    }
}

fn imported(model: tilewright_import::ImportResult<tilewright_import::Model>) {
    match model {
        Ok(model) => {
            note("model");
            note_size(model.graph.nodes.len());
            assert_eq!(tilewright_graph::verify(&model.graph), []);
            lowers(&model.graph);
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("fuzz: "));
            note(&text);
        }
    }
}

/// ONNX models.
pub fn onnx_file(bytes: &[u8]) {
    imported(tilewright_import::onnx::read("fuzz", bytes, &tilewright_import::onnx::OnnxOptions::default()));
}

/// GGUF files: models and vocabularies.
pub fn gguf_file(bytes: &[u8]) {
    let bytes = Arc::new(bytes.to_vec());
    imported(tilewright_import::gguf::read("fuzz", &bytes));
    if let Ok(tokenizer) = tilewright_import::gguf::tokenizer("fuzz", &bytes) {
        let _ = tokenizer.encode("Once upon a time, 2026").map(|tokens| tokenizer.decode(&tokens));
    }
}

/// Checkpoints and vocabularies of llama2.c.
pub fn llama2c_file(bytes: &[u8]) {
    imported(tilewright_import::llama2c::read("fuzz", &Arc::new(bytes.to_vec())));
    if let Ok(pieces) = tilewright_import::tokenizer::vocabulary::Vocabulary::llama2c("fuzz", bytes) {
        let _ = pieces.decode(&pieces.encode("Once upon a time, 2026"));
    }
}

/// A safetensors file, and as the same bytes a tokenizer.json.
pub fn hugging_face_file(bytes: &[u8]) {
    let shared = Arc::new(bytes.to_vec());
    let opened = tilewright_import::hf::safetensors::Tensors::open(&|name| {
        (name == "model.safetensors").then(|| Arc::clone(&shared))
    });
    note(&opened.map_or_else(|error| error.to_string(), |_| "tensors".to_string()));
    match tilewright_import::tokenizer::json::read("fuzz", bytes) {
        Ok(tokenizer) => {
            note("tokenizer");
            let _ = tokenizer.encode("Once upon a time, 2026").map(|tokens| tokenizer.decode(&tokens));
        }
        Err(error) => note(&error.to_string()),
    }
}

/// A `config.json` of Hugging Face, with no weights beside it: models, ends of texts and poolings.
pub fn config_file(bytes: &[u8]) {
    let shared = Arc::new(bytes.to_vec());
    let files = |name: &str| name.ends_with(".json").then(|| Arc::clone(&shared));
    if let Err(error) = tilewright_import::hf::read(&files) {
        note(&error.to_string());
    }
    match tilewright_import::hf::ends(&files) {
        Ok(ends) => note_size(ends.map_or(0, |ends| ends.len())),
        Err(error) => note(&error.to_string()),
    }
    let Ok(root) = serde_json::from_slice(bytes) else { return };
    if let Err(error) = tilewright_import::hf::llama_config(&root, "fuzz") {
        note(&error.to_string());
    }
}

/// Array files: `.npy`, and a tensor of a safetensors file.
pub fn array_file(bytes: &[u8]) {
    use tilewright_runtime::{npy, tensors};
    let rules = &tilewright_num::RuleSet::TCP;
    for dtype in [Dtype::I8, Dtype::Bf16, Dtype::F32] {
        match npy::read(bytes, dtype, rules) {
            Ok(array) => {
                note("npy");
                let written = npy::write(&array, rules);
                assert_eq!(npy::read(&written, dtype, rules).expect("what was written reads"), array);
            }
            Err(error) => note(&error.to_string()),
        }
    }
    match npy::read_ints(bytes) {
        Ok((extents, values)) => {
            note("ints");
            assert_eq!(extents.iter().product::<u64>(), values.len() as u64);
        }
        Err(error) => note(&error.to_string()),
    }
    if let Err(error) = tensors::read(bytes, "x", Dtype::F32, rules) {
        note(&error.to_string());
    }
}

/// Published rows of `bench/published.toml`.
pub fn rows_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match tilewright_study::rows::read(text) {
        Ok(rows) => note_size(rows.len()),
        Err(error) => note(&error.to_string()),
    }
}

fn verify_program(program: &Program) {
    let printed = program.to_string();
    let again = parser::program(&printed, SourceId(0)).expect("canonical text reads back");
    assert_eq!(&again, program, "{printed}");
    let Ok(problem) = Problem::new(program) else { return };
    static MACHINE: OnceLock<Tcp> = OnceLock::new();
    let machine = MACHINE.get_or_init(tcp);
    for pes in [1, 4] {
        if let Ok(setup) = Setup::new(machine, pes, Dtype::I8) {
            tilewright_tcp_cost::check(&setup, &problem);
        }
    }
    if radix::check(&problem).is_empty() {
        problem.shapes.iter().flatten().for_each(|shape| inverts(&problem, shape));
    }
}

/// Both directions of a shape's map agree on some positions, and the fast map with the plain one.
fn inverts(problem: &Problem, shape: &Shape) {
    let Ok(map) = RadixMap::of_shape(problem, shape) else { return };
    let fast = PlaceMap::new(&map).expect("sizes fit 32 bits");
    for step in 0..16_u64 {
        let at: Vec<u64> = map.from.iter().map(|extent| (step * 7919) % extent).collect();
        let to = map.apply(&at);
        assert_eq!(map.source_of(&to).expect("a live place").as_slice(), at.as_slice());
        let narrow: Vec<u32> = at.iter().map(|x| u32::try_from(*x).expect("32 bits")).collect();
        let place = fast.place(&narrow);
        assert_eq!([u64::from(place.slice), u64::from(place.offset)], [to[0], to[1]]);
        let mut back = vec![0; narrow.len()];
        assert!(fast.coordinate(place, &mut back));
        assert_eq!(back, narrow);
        let odd = ElementPlace { slice: place.slice ^ 1, offset: place.offset ^ 1 };
        let plain = map.source_of(&[u64::from(odd.slice), u64::from(odd.offset)]);
        assert_eq!(fast.coordinate(odd, &mut back), plain.is_some());
    }
}

/// The machine that programs are checked on.
pub fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("tcp comes with the project"));
    let loaded: LoadedMachine = load(&mut sources, id, &|_| None).expect("tcp loads");
    loaded.machine.tcp().expect("tcp is a tcp").clone()
}
