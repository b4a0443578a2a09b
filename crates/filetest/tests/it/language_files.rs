//! Language models of any shape, compiled to files: what generates from a file is what `run` of the model
//! generates, and a file that was changed is refused.

use prost::Message as _;
use tilewright_cli::{BAD_INPUT, FAILED, GOOD};
use tilewright_filetest::host::{TestHost, good, tilewright};
use tilewright_filetest::repository;
use tilewright_import::onnx::proto;
use tilewright_ir::binary::{self, Section, SectionKind};

/// Tokens of the models below.
const WORDS: usize = 6;
const WIDTH: usize = 8;

/// Numbers that look random, each time the same, as a list.
fn drawn(count: usize) -> String {
    let mut state = 3_u64;
    let mut next = || {
        let high = u16::try_from(tilewright_base::random::next(&mut state) >> 48).expect("sixteen bits");
        format!("{:?}", f64::from(high / 1024) / 32.0 - 1.0)
    };
    (0..count).map(|_| next()).collect::<Vec<_>>().join(", ")
}

/// A model of sums over all tokens so far, which are its state, with positions and a mask if they are asked
/// for: of so many tokens a run (an axis `seq`, or a number), behind up to so many.
fn model(seq: &str, past: u64, (has_positions, has_mask): (bool, bool)) -> String {
    let table = drawn(WORDS * WIDTH);
    let axis = if seq == "seq" { format!("axis seq 1..{}\n", past + 1) } else { String::new() };
    let mut text = format!("graph 1\nname recurrent\n{axis}axis past 0..{past}\n");
    text += &format!("input tokens: i64[1, {seq}]\n");
    if has_positions {
        text += &format!("input positions: i64[1, {seq}]\n");
    }
    let all = if seq == "seq" { "past+seq".to_string() } else { format!("past+{seq}") };
    if has_mask {
        text += &format!("input attention_mask: i64[1, {all}]\n");
    }
    text += &format!("input past_x: f32[1, past, {WIDTH}]\nconst table: f32[{WORDS}, {WIDTH}] = [{table}]\n");
    text += &format!("let e: f32[1, {seq}, {WIDTH}] = gather(table, tokens) axis=0\n");
    let mut x = "e".to_string();
    if has_positions {
        text += &format!("const places: f32[{}, {WIDTH}] = [{}]\n", past + 1, drawn(WIDTH * positions(past)));
        text += &format!("let place: f32[1, {seq}, {WIDTH}] = gather(places, positions) axis=0\n");
        text += &format!("let placed: f32[1, {seq}, {WIDTH}] = add(e, place)\n");
        x = "placed".to_string();
    }
    text += &format!("let present_x: f32[1, {all}, {WIDTH}] = concat(past_x, {x}) axis=1\n");
    let mut sums = "present_x".to_string();
    if has_mask {
        text += &format!("let looked: f32[1, {all}] = convert(attention_mask)\n");
        text += &format!("let column: f32[1, {all}, 1] = reshape(looked)\n");
        text += &format!("let kept: f32[1, {all}, {WIDTH}] = mul(present_x, column)\n");
        sums = "kept".to_string();
    }
    text += &format!("let sums: f32[1, {WIDTH}] = reduce({sums}) fold=sum axes=[1] keep=0\n");
    text += &format!("let mixed: f32[1, 1, {WIDTH}] = reshape(sums)\n");
    text += &format!("let y: f32[1, {seq}, {WIDTH}] = mul({x}, mixed)\n");
    text += &format!("let logits: f32[1, {seq}, {WORDS}] = einsum(y, table) spec=\"bse,ve->bsv\"\n");
    text + "output logits = logits\noutput present_x = present_x\nstate past_x -> present_x\n"
}

fn positions(past: u64) -> usize {
    usize::try_from(past).expect("few positions") + 1
}

/// A model that is given the whole text for every token.
fn without_state() -> String {
    let table = drawn(WORDS * WIDTH);
    format!(
        "graph 1\nname whole\naxis seq 1..16\ninput tokens: i64[1, seq]\n\
         const table: f32[{WORDS}, {WIDTH}] = [{table}]\n\
         let x: f32[1, seq, {WIDTH}] = gather(table, tokens) axis=0\n\
         let sums: f32[1, {WIDTH}] = reduce(x) fold=sum axes=[1] keep=0\n\
         let mixed: f32[1, 1, {WIDTH}] = reshape(sums)\n\
         let y: f32[1, seq, {WIDTH}] = mul(x, mixed)\n\
         let logits: f32[1, seq, {WORDS}] = einsum(y, table) spec=\"bse,ve->bsv\"\noutput logits = logits\n"
    )
}

/// An input or output of an ONNX model, with axes by name or number.
fn onnx_value(name: &str, element: i32, axes: &[&str]) -> proto::ValueInfoProto {
    let size = |axis: &&str| match axis.parse() {
        Ok(size) => proto::DimensionProto { value: Some(size), name: None },
        Err(_) => proto::DimensionProto { value: None, name: Some((*axis).to_string()) },
    };
    let shape = Some(proto::ShapeProto { dims: axes.iter().map(size).collect() });
    let tensor = Some(proto::TensorTypeProto { element, shape });
    proto::ValueInfoProto { name: name.to_string(), ty: Some(proto::TypeProto { tensor }) }
}

fn onnx_node(op: &str, inputs: &[&str], output: &str, ints: Option<(&str, i64)>) -> proto::NodeProto {
    let attribute = |(name, number): (&str, i64)| proto::AttributeProto {
        name: name.to_string(),
        i: number,
        ints: vec![number],
        ..proto::AttributeProto::default()
    };
    proto::NodeProto {
        inputs: inputs.iter().map(|name| (*name).to_string()).collect(),
        outputs: vec![output.to_string()],
        op: op.to_string(),
        attributes: ints.map(attribute).into_iter().collect(),
        ..proto::NodeProto::default()
    }
}

/// A model as exporters write them: axes without bounds, an attention mask whose axis is its own, and state
/// by the names of its inputs and outputs.
fn onnx_model() -> Vec<u8> {
    let weights = |name: &str, dims: [usize; 2]| {
        let numbers = drawn(dims[0] * dims[1]);
        proto::TensorProto {
            name: name.to_string(),
            dims: dims.map(|size| i64::try_from(size).expect("small")).to_vec(),
            data_type: 1,
            float_data: numbers.split(", ").map(|number| number.parse().expect("a number")).collect(),
            ..proto::TensorProto::default()
        }
    };
    let nodes = vec![
        onnx_node("Gather", &["table", "input_ids"], "x", Some(("axis", 0))),
        onnx_node("Concat", &["past_key_values.0.key", "x"], "present.0.key", Some(("axis", 1))),
        onnx_node("ReduceMean", &["present.0.key"], "means", Some(("axes", 1))),
        onnx_node("Cast", &["attention_mask"], "looked", Some(("to", 1))),
        onnx_node("ReduceMax", &["looked"], "most", None),
        onnx_node("Mul", &["means", "most"], "kept", None),
        onnx_node("Mul", &["x", "kept"], "y", None),
        onnx_node("MatMul", &["y", "head"], "logits", None),
    ];
    let graph = proto::GraphProto {
        name: "exported".to_string(),
        nodes,
        initializers: vec![weights("table", [WORDS, WIDTH]), weights("head", [WIDTH, WORDS])],
        inputs: vec![
            onnx_value("input_ids", 7, &["batch", "seq"]),
            onnx_value("attention_mask", 7, &["batch", "total"]),
            onnx_value("past_key_values.0.key", 1, &["batch", "past", "8"]),
        ],
        outputs: vec![
            onnx_value("logits", 1, &["batch", "seq", "6"]),
            onnx_value("present.0.key", 1, &["batch", "all", "8"]),
        ],
        ..proto::GraphProto::default()
    };
    let opsets = vec![proto::OperatorSetId { domain: String::new(), version: 13 }];
    proto::ModelProto { graph: Some(graph), opsets }.encode_to_vec()
}

/// A token for each of a few letters.
fn tokenizer() -> Vec<u8> {
    let mut bytes = 8_u32.to_le_bytes().to_vec();
    for piece in ["<unk>", "\n<s>\n", "\n</s>\n", " ", "a", "b"] {
        bytes.extend(0_f32.to_le_bytes());
        bytes.extend(u32::try_from(piece.len()).expect("short").to_le_bytes());
        bytes.extend(piece.as_bytes());
    }
    bytes
}

fn host() -> TestHost {
    let mut host = TestHost { root: repository(), ..TestHost::default() };
    let models = [
        ("plain", model("seq", 15, (false, false))),
        ("full", model("seq", 15, (true, true))),
        ("long", model("seq", 299, (false, false))),
        ("single", model("1", 15, (true, false))),
        ("whole", without_state()),
    ];
    for (name, text) in models {
        host.given.insert(format!("{name}.graph"), text.into_bytes());
    }
    host.given.insert("tokenizer.bin".into(), tokenizer());
    host
}

fn json(line: &str, host: &mut TestHost) -> serde_json::Value {
    serde_json::from_str(&good(line, host)).expect("JSON")
}

/// Programs for prompts are others where `run` knows the prompt; those of single tokens are the same.
#[test]
fn a_file_generates_what_the_model_generates() {
    let mut host = host();
    let asked = "--prompt abba --max-tokens 5 --tokenizer tokenizer.bin --json";
    for (name, pes) in [("plain", 1), ("plain", 2), ("full", 1), ("single", 1), ("whole", 4)] {
        let target = format!("--context 16 --pes {pes}");
        let run = json(&format!("run {name}.graph {target} {asked}"), &mut host);
        good(&format!("compile {name}.graph {target} --tokenizer tokenizer.bin -o m.twb"), &mut host);
        for line in ["exec m.twb", "run m.twb"] {
            let exec = json(&format!("{line} {asked}"), &mut host);
            for key in ["prompt_tokens", "tokens", "text", "stop", "context", "pes", "model", "dtype"] {
                assert_eq!(exec[key], run[key], "{key} of {name} on {pes} PEs");
            }
            for key in ["ms_per_token", "decode"] {
                assert!(!run[key].is_null(), "{key}");
                assert_eq!(exec[key], run[key], "{key} of {name} on {pes} PEs");
            }
            let is_same = ["single", "whole"].contains(&name);
            assert!(!is_same || exec == run, "no program of {name} depends on the prompt");
            let own = good("exec m.twb --prompt abba --max-tokens 5", &mut host);
            assert!(own.contains("\nprograms    kernel by kernel, without templates; "), "{own}");
        }
    }
}

#[test]
fn prompts_longer_than_a_run_go_in_parts() {
    let mut host = host();
    let asked = format!("--prompt {} --max-tokens 4 --json", "ab".repeat(131));
    let run = json(&format!("run long.graph --context 300 --tokenizer tokenizer.bin {asked}"), &mut host);
    good("compile long.graph --context 300 --tokenizer tokenizer.bin -o m.twb", &mut host);
    assert_eq!(json(&format!("exec m.twb {asked}"), &mut host), run);
    assert_eq!(run["prefill"]["runs"], 2, "{run}");
    let long = tilewright(&format!("exec m.twb --prompt {}", "ab".repeat(160)), &mut host);
    assert_eq!(long.code, BAD_INPUT);
    assert!(long.stderr.contains("= allowed: 1 to 300, the positions of the model"), "{}", long.stderr);
}

#[test]
fn a_model_that_templates_could_write_is_kept_without_them() {
    let mut host = host();
    let asked = "--prompt The --max-tokens 4 --json";
    let with = "--without templates --context 16";
    good(&format!("compile fables {with} -o m.twb"), &mut host);
    let (run, exec) = (
        json(&format!("run fables {with} {asked}"), &mut host),
        json(&format!("exec m.twb {asked}"), &mut host),
    );
    for key in ["prompt_tokens", "tokens", "text", "stop", "decode", "ms_per_token"] {
        assert_eq!(exec[key], run[key], "{key}");
    }
    for program in ["decode", "prefill"] {
        let commands = format!("compile fables {with} --program {program} --emit commands");
        let commands = good(&commands, &mut host);
        assert_eq!(good(&format!("disasm m.twb --program {program}"), &mut host), commands, "{program}");
        assert!(program != "decode" || good("disasm m.twb", &mut host) == commands);
    }
}

#[test]
fn a_model_whose_axes_have_no_bound_is_kept_for_a_context() {
    let mut host = host();
    host.given.insert("m.onnx".into(), onnx_model());
    good("compile m.onnx --context 24 -o m.twb", &mut host);
    let mut most = 0;
    for prompt in ["a", "b", "ab", "abba", "bbb"] {
        let asked = format!("--prompt {prompt} --max-tokens 5 --json");
        let run = json(&format!("run m.onnx --context 24 {asked}"), &mut host);
        let exec = json(&format!("exec m.twb {asked}"), &mut host);
        for key in ["prompt_tokens", "tokens", "text", "stop", "decode", "ms_per_token", "context"] {
            assert_eq!(exec[key], run[key], "{key} behind {prompt}");
        }
        most = run["tokens"].as_array().map_or(0, Vec::len).max(most);
    }
    assert!(most > 1, "single tokens are never fed");
    good("compile m.onnx -o m.twb", &mut host);
    assert_eq!(json("exec m.twb --prompt a --json", &mut host)["context"], 256);
}

/// Scales that a line of text gives are those of a run with the line as its prompt.
#[test]
fn scales_are_found_on_a_text() {
    let mut host = host();
    host.given.insert("text".into(), b"abba\n\n".to_vec());
    let asked = "--prompt abba --max-tokens 5 --json";
    let with = "--dtype int8 --context 16 --tokenizer tokenizer.bin";
    good(&format!("compile plain.graph {with} --calibrate text -o m.twb"), &mut host);
    let exec = json(&format!("exec m.twb {asked}"), &mut host);
    let run = json(&format!("run plain.graph {with} {asked}"), &mut host);
    let by_text = json(&format!("run plain.graph {with} --calibrate text {asked}"), &mut host);
    assert_eq!(run, by_text);
    for key in ["tokens", "decode", "dtype", "ms_per_token"] {
        assert_eq!(exec[key], run[key], "{key}");
    }
    host.written.clear();
    let refused = tilewright(&format!("compile plain.graph {with} -o m.twb"), &mut host);
    assert_eq!(refused.code, BAD_INPUT);
    let said = "error: --dtype int8 without --calibrate: scales of computed values are found on texts\n";
    assert!(refused.stderr.starts_with(said), "{}", refused.stderr);
    host.given.insert("text".into(), "ab".repeat(20).into_bytes());
    let refused = tilewright(&format!("compile plain.graph {with} --calibrate text -o m.twb"), &mut host);
    assert!(refused.stderr.starts_with("error: a line of `text` has 4"), "{}", refused.stderr);
    host.given.insert("text".into(), b"\n\n".to_vec());
    let refused = tilewright(&format!("run plain.graph {with} --calibrate text --prompt a"), &mut host);
    assert!(refused.stderr.starts_with("error: `text` has no line\n"), "{}", refused.stderr);
    assert!(host.written.is_empty());
}

#[test]
fn options_that_mean_nothing_are_refused_and_leave_no_file() {
    let mut host = host();
    for (options, said) in [
        ("--chips 2", "error: --chips with a language model whose programs templates do not write\n"),
        ("--cache int8", "error: --cache with a language model"),
        ("--solver cbc", "error: --solver with a language model"),
        ("--batch 2", "error: --batch with a language model"),
        ("--program decode", "error: --program beside -o with a language model"),
        ("--context 0", "error: --context 0\n"),
        ("--context 17", "error: --context 17\n  = allowed: 1 to 16, the positions of the model\n"),
        ("--pes 3", "error: --pes 3\n"),
        ("--calibrate text", "error: --calibrate with --dtype bf16"),
        ("--tokenizer none.bin", "error: "),
    ] {
        let refused = tilewright(&format!("compile plain.graph {options} -o m.twb"), &mut host);
        assert_eq!(refused.code, BAD_INPUT, "{options}: {}", refused.stderr);
        assert!(refused.stderr.starts_with(said), "{options}: {}", refused.stderr);
        assert!(host.written.is_empty(), "{options}");
    }
    let tokenizer = host.given.remove("tokenizer.bin").expect("a tokenizer");
    good("compile plain.graph -o m.twb", &mut host);
    host.given.insert("letters.bin".into(), tokenizer);
    for (line, said) in [
        ("exec m.twb --prompt a", "error: `m.twb` holds no tokenizer\n"),
        ("exec m.twb --seed 1", "error: --seed with `m.twb`, a model that takes text\n"),
        ("exec m.twb --prompt a --prompt b", "error: a second --prompt with a language model"),
        ("run m.twb --prompt a --pes 2", "error: --pes with `m.twb`, which is compiled\n"),
        (
            "disasm m.twb --program clear",
            "error: `m.twb` has no program `clear`\n  = allowed: decode, prefill\n",
        ),
        (
            "exec m.twb --prompt ababababababababab --tokenizer letters.bin",
            "error: the prompt has 20 tokens\n",
        ),
    ] {
        let refused = tilewright(line, &mut host);
        assert_eq!(refused.code, BAD_INPUT, "{line}: {}", refused.stderr);
        assert!(refused.stderr.starts_with(said), "{line}: {}", refused.stderr);
    }
}

/// A graph whose axes have bounds is one that takes arrays, unless it has state or a context is asked for.
#[test]
fn a_graph_with_bounds_of_its_own_can_still_take_arrays() {
    let mut host = host();
    good("compile whole.graph -o m.twb", &mut host);
    // Tokens that are drawn are none of the model.
    let drawn = tilewright("exec m.twb --seed 1", &mut host);
    assert!(drawn.stdout.starts_with("logits: f32[1, 16, 6]"), "{}", drawn.stdout);
    good("compile plain.graph --context 1 -o m.twb", &mut host);
    let one = json("exec m.twb --prompt  --tokenizer tokenizer.bin --json", &mut host);
    assert_eq!((&one["prefill"]["runs"], &one["prefill"]["tokens"]), (&1.into(), &1.into()), "{one}");
}

#[test]
fn the_same_model_gives_the_same_file() {
    let mut host = host();
    good("compile full.graph -o a.twb", &mut host);
    good("compile full.graph -o b.twb", &mut host);
    assert_eq!(host.written["a.twb"], host.written["b.twb"]);
    let said = good("compile full.graph -o a.twb", &mut host);
    assert!(!said.contains(", 0 B less than its programs have"), "{said}");
}

#[test]
fn a_changed_byte_is_refused() {
    let mut host = host();
    good("compile full.graph --tokenizer tokenizer.bin -o m.twb", &mut host);
    let file = host.written["m.twb"].clone();
    let sections = binary::read(&file).expect("a file");
    let inside = |at: usize| {
        sections.iter().any(|section| {
            let start = section.bytes.as_ptr().addr() - file.as_ptr().addr();
            (start..start + section.bytes.len()).contains(&at)
        })
    };
    for at in (0..file.len()).step_by(61).filter(|at| *at < 400 || inside(*at)) {
        let mut bad = file.clone();
        bad[at] ^= 1;
        host.given.insert("bad.twb".into(), bad);
        assert_eq!(tilewright("exec bad.twb --prompt a", &mut host).code, BAD_INPUT, "byte {at}");
    }
    for bytes in [0, 7, 40, 4096, file.len() - 1] {
        host.given.insert("bad.twb".into(), file[..bytes].to_vec());
        assert_eq!(tilewright("exec bad.twb --prompt a", &mut host).code, BAD_INPUT, "{bytes} bytes");
    }
}

/// A file with another text in a section, its checksums right.
fn edited(file: &[u8], name: &str, from: &str, to: &str) -> Vec<u8> {
    let sections = binary::read(file).expect("a file");
    let is_text = |section: &&Section<'_>| section.name == name && section.kind == SectionKind::Text;
    let text = sections.iter().find(is_text).expect("a section");
    let text = std::str::from_utf8(text.bytes).expect("a text");
    assert!(text.contains(from), "{from} is not in {text}");
    let changed = text.replacen(from, to, 1);
    let sections: Vec<Section<'_>> = sections
        .iter()
        .map(|section| {
            let is_other = section.name == name && section.kind == SectionKind::Text;
            if is_other { Section { bytes: changed.as_bytes(), ..*section } } else { *section }
        })
        .collect();
    binary::write(&sections)
}

/// A file without a section.
fn without(file: &[u8], name: &str) -> Vec<u8> {
    let sections = binary::read(file).expect("a file");
    let left: Vec<Section<'_>> = sections.into_iter().filter(|section| section.name != name).collect();
    binary::write(&left)
}

#[test]
fn roles_that_inputs_and_results_cannot_have_are_refused() {
    let mut host = host();
    good("compile full.graph --tokenizer tokenizer.bin -o m.twb", &mut host);
    let file = host.written["m.twb"].clone();
    let swapped = "input \"tokens\" positions\ninput \"positions\" tokens\n";
    let state = "input \"past_x\" state of \"present_x\"\n";
    let cases = [
        ("plan", "language 1\n", "language 2\n", "its plan begins with `language 2`, and this release reads"),
        (
            "plan",
            "input \"tokens\" tokens\ninput \"positions\" positions\n",
            swapped,
            "its name says otherwise",
        ),
        ("plan", "\"tokens\" tokens", "\"tokens\" mask", "number of inputs with tokens is 0"),
        (
            "plan",
            "\"attention_mask\" mask",
            "\"attention_mask\" positions",
            "last axis is not that of tokens",
        ),
        ("plan", state, "input \"past_x\" tokens\n", "cannot be a mask: its last axis is not that of all"),
        ("plan", "of \"present_x\"", "of \"logits\"", "the result that it is of has other axes"),
        ("plan", "of \"present_x\"", "of \"future_x\"", "has no result `future_x`"),
        ("plan", "logits \"logits\"", "logits \"past_x\"", "has no result `past_x`"),
        ("plan", state, "", "has no input `past_x` with one role"),
        (
            "plan",
            "input \"tokens\" tokens\n",
            "input \"tokens\" tokens\ninput \"x\" mask\n",
            "no input `x` with one",
        ),
        (
            "plan",
            "input \"tokens\" tokens\n",
            "input \"tokens\" tokens\ninput \"tokens\" tokens\n",
            "`tokens` with one",
        ),
        ("plan", "context 16\n", "context 0\n", "its context is 0"),
        ("plan", "context 16\n", "context 17\n", "its context is 17"),
        ("plan", "pes 1\n", "pes 18446744073709551615\n", "its number of PEs is 18446744073709551615"),
        ("plan", "blocks decode [0, ", "blocks decode [1, ", "its constants are not those"),
        ("plan", "blocks decode [", "blocks decode [0, ", "its constants are not those"),
        ("plan", "blocks decode", "blocks prefill", "its plan is not that of the programs"),
        ("plan.decode", "graph 2\n", "graph 5\n", "its plan begins with `graph 5`"),
        ("plan.decode", "f32[1, 15, 8]", "f32[1, 1099511627776, 8]", "the loops of `past_x`"),
        ("plan.decode", "\"past_x\" f32", "\"past_x\" i32", "has another type"),
        ("plan.decode", "\"tokens\" i64", "\"tokens\" f32", "its elements are no whole numbers"),
        ("plan.decode", "\"logits\" f32", "\"logits\" i32", "its elements are no floats"),
        ("plan.decode", "\"positions\" i64", "\"positions\" i32", "their inputs, logits or states differ"),
        ("plan.decode", "chip \"tcp\"", "chip \"mine\"", "their machines differ"),
        ("plan.decode", "axis \"past\" 0..15", "axis \"past\" 0..14", "open sizes of `attention_mask`"),
        ("plan.decode", "\nhbm ", "\nhbm 99999999999999", "B of HBM, which has"),
    ];
    for (section, from, to, why) in cases {
        host.given.insert("bad.twb".into(), edited(&file, section, from, to));
        let refused = tilewright("exec bad.twb --prompt ab", &mut host);
        assert_ne!(refused.code, GOOD, "{from} -> {to}");
        assert!(refused.stderr.contains(why), "{from} -> {to}: {}", refused.stderr);
    }
    for (section, why) in [
        ("constants", "it has no constants"),
        ("plan.decode", "its plan is not that of the programs"),
        ("tcp/prefill", "its plan is not that of the programs"),
        ("tokenizer.bin", "holds no tokenizer"),
    ] {
        host.given.insert("bad.twb".into(), without(&file, section));
        let refused = tilewright("exec bad.twb --prompt ab", &mut host);
        assert_eq!(refused.code, BAD_INPUT, "{section}");
        assert!(refused.stderr.contains(why), "{section}: {}", refused.stderr);
    }
}

#[test]
fn a_file_is_for_the_figures_that_it_was_compiled_for() {
    let mut host = host();
    good("compile plain.graph --tokenizer tokenizer.bin -o m.twb", &mut host);
    let file = host.written["m.twb"].clone();
    let sections = binary::read(&file).expect("a file");
    let plan = sections.iter().find(|section| section.name == "plan.decode").expect("a plan");
    let plan = std::str::from_utf8(plan.bytes).expect("a text");
    let machine = plan.lines().find(|line| line.starts_with("machine ")).expect("a fingerprint");
    let other = edited(&file, "plan.decode", machine, "machine 0x1");
    host.given.insert("bad.twb".into(), edited(&other, "plan.prefill", machine, "machine 0x1"));
    let refused = tilewright("exec bad.twb --prompt a", &mut host);
    assert_eq!(refused.code, FAILED);
    assert!(refused.stderr.contains("was compiled for other figures of `tcp`"), "{}", refused.stderr);
}
