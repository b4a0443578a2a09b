//! Graphs that take arrays, compiled to files: what runs from a file is what `run` gives, and a file that was
//! changed is refused.

use std::collections::BTreeMap;

use prost::Message as _;
use tilewright_cli::{BAD_INPUT, FAILED, GOOD};
use tilewright_compile::general::refusal::MOST_NODES;
use tilewright_filetest::host::{TestHost, good, tilewright};
use tilewright_filetest::repository;
use tilewright_import::onnx::proto;
use tilewright_ir::binary::{self, Section};
use tilewright_num::{Dtype, RuleSet};
use tilewright_runtime::{Array, npy};

fn host() -> TestHost {
    TestHost { root: repository(), ..TestHost::default() }
}

/// A small graph with a contraction and a softmax.
const GRAPH: &str = "tests/general/compiled-file.graph";

#[test]
fn a_file_gives_what_the_graph_gives() {
    for name in ["cnn", "depthwise", "encoder", "mlp", "quantise", "compiled-file"] {
        for pes in [1, 4] {
            let mut host = host();
            let graph = format!("tests/general/{name}.graph");
            let run = good(&format!("run {graph} --seed 5 --pes {pes} --json"), &mut host);
            good(&format!("compile {graph} --pes {pes} -o g.twb"), &mut host);
            let commands = good(&format!("compile {graph} --pes {pes} --emit commands"), &mut host);
            assert_eq!(good("exec g.twb --seed 5 --json", &mut host), run, "{name} on {pes} PEs");
            assert_eq!(good("run g.twb --seed 5 --json", &mut host), run, "{name} on {pes} PEs");
            assert_eq!(good("disasm g.twb", &mut host), commands, "{name} on {pes} PEs");
        }
    }
}

#[test]
fn the_same_graph_gives_the_same_file() {
    let mut host = host();
    good(&format!("compile {GRAPH} -o a.twb"), &mut host);
    good(&format!("compile {GRAPH} -o b.twb"), &mut host);
    assert_eq!(host.written["a.twb"], host.written["b.twb"]);
}

#[test]
fn outputs_and_traces_are_written_from_a_file_too() {
    let mut host = host();
    good(&format!("compile {GRAPH} -o g.twb"), &mut host);
    good(&format!("run {GRAPH} --seed 1 -o a --trace a.pftrace"), &mut host);
    good("exec g.twb --seed 1 -o b --trace b.pftrace", &mut host);
    assert_eq!(host.written["a/p.npy"], host.written["b/p.npy"]);
    assert_eq!(host.written["a.pftrace"], host.written["b.pftrace"]);
}

#[test]
fn a_graph_that_is_refused_leaves_no_file() {
    let mut host = host();
    for name in ["refused-remainder", "refused-power"] {
        let refused = tilewright(&format!("compile tests/general/{name}.graph -o g.twb"), &mut host);
        assert_ne!(refused.code, GOOD, "{name}");
        assert!(host.written.is_empty(), "{name}");
    }
}

/// An ONNX model of so many operators one behind the other, whose input has a size by name or a number.
fn long_chain(nodes: usize, batch: Option<&str>) -> Vec<u8> {
    let size = |name: Option<&str>| proto::DimensionProto {
        value: name.is_none().then_some(4),
        name: name.map(str::to_string),
    };
    let info = |name: &str| {
        let shape = proto::ShapeProto { dims: vec![size(batch), size(None)] };
        let tensor = proto::TensorTypeProto { element: 1, shape: Some(shape) };
        proto::ValueInfoProto { name: name.to_string(), ty: Some(proto::TypeProto { tensor: Some(tensor) }) }
    };
    let node = |at: usize| proto::NodeProto {
        inputs: vec![format!("v{at}")],
        outputs: vec![format!("v{}", at + 1)],
        op: "Neg".to_string(),
        ..proto::NodeProto::default()
    };
    let graph = proto::GraphProto {
        name: "long".to_string(),
        nodes: (0..nodes).map(node).collect(),
        inputs: vec![info("v0")],
        outputs: vec![info(&format!("v{nodes}"))],
        ..proto::GraphProto::default()
    };
    let opsets = vec![proto::OperatorSetId { domain: String::new(), version: 13 }];
    proto::ModelProto { graph: Some(graph), opsets }.encode_to_vec()
}

#[test]
fn more_operators_than_are_compiled_are_refused_and_leave_no_file() {
    let mut host = host();
    host.given.insert("long.onnx".into(), long_chain(MOST_NODES + 1, None));
    host.given.insert("short.onnx".into(), long_chain(50, None));
    good("compile short.onnx -o short.twb", &mut host);
    host.written.clear();
    for verb in ["compile long.onnx -o g.twb", "run long.onnx --seed 1"] {
        let refused = tilewright(verb, &mut host);
        assert_eq!(refused.code, FAILED, "{verb}");
        let said = "error: graph `long` is not lowered: it has 65537 operators; at most 65536 are compiled\n";
        assert!(refused.stderr.starts_with(said), "{verb}: {}", refused.stderr);
        assert!(host.written.is_empty());
    }
}

/// A sum of an input and of one that has elements of its own.
fn with_default() -> Vec<u8> {
    let info = |name: &str| {
        let dims = vec![proto::DimensionProto { value: Some(4), name: None }];
        let shape = Some(proto::ShapeProto { dims });
        let tensor = Some(proto::TensorTypeProto { element: 1, shape });
        proto::ValueInfoProto { name: name.to_string(), ty: Some(proto::TypeProto { tensor }) }
    };
    let node = proto::NodeProto {
        inputs: vec!["x".to_string(), "w".to_string()],
        outputs: vec!["y".to_string()],
        op: "Add".to_string(),
        ..proto::NodeProto::default()
    };
    let elements = proto::TensorProto {
        name: "w".to_string(),
        dims: vec![4],
        data_type: 1,
        float_data: vec![8.0; 4],
        ..proto::TensorProto::default()
    };
    let graph = proto::GraphProto {
        nodes: vec![node],
        initializers: vec![elements],
        inputs: vec![info("x"), info("w")],
        outputs: vec![info("y")],
        ..proto::GraphProto::default()
    };
    let opsets = vec![proto::OperatorSetId { domain: String::new(), version: 13 }];
    proto::ModelProto { graph: Some(graph), opsets }.encode_to_vec()
}

#[test]
fn an_input_with_elements_of_its_own_is_asked_for_only_if_it_is_given() {
    let mut host = host();
    host.given.insert("m.onnx".into(), with_default());
    let array = |number: f32| {
        let patterns = vec![number.to_bits(); 4];
        npy::write(&Array { dtype: Dtype::F32, extents: vec![4], patterns }, &RuleSet::TCP)
    };
    host.given.insert("one.npy".into(), array(1.0));
    host.given.insert("two.npy".into(), array(2.0));
    for interp in ["", " --interp"] {
        let own = good(&format!("run m.onnx --input x=one.npy{interp}"), &mut host);
        assert!(own.starts_with("y: f32[4] = [9, 9, 9, 9]\n"), "{own}");
        let given = good(&format!("run m.onnx --input x=one.npy --input w=two.npy{interp}"), &mut host);
        assert!(given.starts_with("y: f32[4] = [3, 3, 3, 3]\n"), "{given}");
    }
    host.given.insert("whole.npy".into(), npy::write_ints(&[4], &[1, 2, 3, 4]));
    let refused = tilewright("run m.onnx --input x=whole.npy", &mut host);
    let said = "error: input `x`: `whole.npy`: elements are int64, which do not become f32\n  \
                = allowed: floats\n  = instead: x.astype('float32') before numpy.save\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (BAD_INPUT, said));
}

#[test]
fn integers_that_a_program_could_carry_beyond_words_are_refused() {
    let mut host = host();
    let text = "graph 1\ninput x: i64[4]\nconst c: i64[] = [4]\nlet y: i64[4] = mul(x, c)\noutput y = y\n";
    host.given.insert("g.graph".into(), text.as_bytes().to_vec());
    good("compile g.graph -o g.twb", &mut host);
    let most = (1_i64 << 29) - 1;
    host.given.insert("x.npy".into(), npy::write_ints(&[4], &[most, -most, 0, -7]));
    host.given.insert("far.npy".into(), npy::write_ints(&[4], &[1, -most - 1, 0, 1]));
    for line in ["run g.graph", "exec g.twb"] {
        let said = good(&format!("{line} --input x=x.npy"), &mut host);
        assert!(said.starts_with("y: i64[4] = [2147483644, -2147483644, 0, -28]\n"), "{said}");
        let refused = tilewright(&format!("{line} --input x=far.npy"), &mut host);
        assert_eq!(refused.code, BAD_INPUT, "{line}");
        assert!(refused.stderr.contains("input `x` has -536870912"), "{}", refused.stderr);
        assert!(refused.stderr.contains("= allowed: -536870911 to 536870911"), "{}", refused.stderr);
    }
}

#[test]
fn a_size_that_is_open_is_asked_for() {
    let mut host = host();
    host.given.insert("open.onnx".into(), long_chain(2, Some("batch.0")));
    let refused = tilewright("compile open.onnx -o g.twb", &mut host);
    assert_eq!(refused.code, FAILED);
    assert!(refused.stderr.contains("= instead: --dims batch_0=N"), "{}", refused.stderr);
    good("compile open.onnx --dims batch.0=3 -o g.twb", &mut host);
    let run = good("run open.onnx --dims batch_0=3 --seed 2", &mut host);
    assert_eq!(good("exec g.twb --seed 2", &mut host), run);
}

/// The first line of what is said: the values of the first output.
fn values(said: &str) -> String {
    said.lines().next().unwrap_or_default().to_string()
}

#[test]
fn a_file_with_a_bound_runs_every_size_up_to_it() {
    let mut host = host();
    host.given.insert("open.onnx".into(), long_chain(3, Some("batch.0")));
    let said = good("compile open.onnx --dims batch.0=..6", &mut host);
    assert!(said.contains("any size    batch_0 1..6\n"), "{said}");
    good("compile open.onnx --dims batch.0=..6 -o g.twb", &mut host);
    for size in 1..=6 {
        let wanted = good(&format!("run open.onnx --dims batch_0={size} --seed 2 --interp"), &mut host);
        let found = good(&format!("exec g.twb --dims batch_0={size} --seed 2"), &mut host);
        assert_eq!(values(&found), values(&wanted), "{size}");
    }
    let run = good("run open.onnx --dims batch.0=..6 --seed 2", &mut host);
    assert_eq!(good("exec g.twb --seed 2", &mut host), run, "what is drawn has the bound");
    good("compile open.onnx --batch 6 -o h.twb", &mut host);
    assert_eq!(host.written["g.twb"], host.written["h.twb"], "--batch is a bound of the leading axis");
}

#[test]
fn bounds_that_do_not_fit_are_refused() {
    let mut host = host();
    host.given.insert("open.onnx".into(), long_chain(3, Some("batch")));
    host.given.insert("fixed.onnx".into(), long_chain(3, None));
    good("compile open.onnx --dims batch=2..6 -o g.twb", &mut host);
    for (line, said) in [
        ("exec g.twb --seed 2 --dims batch=7", "error[graph/bounds]: input `v0` has 7 along `batch`"),
        ("exec g.twb --seed 2 --dims batch=1", "error[graph/bounds]: input `v0` has 1 along `batch`"),
        ("exec g.twb --seed 2 --dims batch=0", "error[graph/bounds]: input `v0` has 0 along `batch`"),
        ("exec g.twb --seed 2 --dims length=3", "error: --dims length=3"),
        ("exec g.twb --seed 2 --dims batch=..3", "error: --dims batch=1..3"),
        ("compile open.onnx --dims batch=6..2", "error: --dims `batch=6..2` names no axis with its size"),
        ("compile open.onnx --dims batch=..4 --batch 4", "error: --batch 4 and --dims batch=..."),
        ("compile open.onnx --batch 0", "error: --batch 0"),
        ("compile fixed.onnx --batch 4", "error: --batch 4: no input begins with an open axis"),
    ] {
        let refused = tilewright(line, &mut host);
        assert_eq!(refused.code, BAD_INPUT, "{line}: {}{}", refused.stdout, refused.stderr);
        assert!(refused.stderr.starts_with(said), "{line}: {}", refused.stderr);
    }
}

/// An array file of ones.
fn ones(extents: &[u64]) -> Vec<u8> {
    let count = usize::try_from(extents.iter().product::<u64>()).expect("a small array");
    let array =
        Array { dtype: Dtype::F32, extents: extents.to_vec(), patterns: vec![1.0_f32.to_bits(); count] };
    npy::write(&array, &RuleSet::TCP)
}

#[test]
fn arrays_that_share_an_axis_must_agree() {
    let mut host = host();
    let text = "graph 1\naxis seq 1..8\ninput x: f32[seq, 4]\ninput y: f32[seq]\n\
                let z: f32[4] = einsum(x, y) spec=\"sd,s->d\"\noutput z = z\n";
    host.given.insert("two.graph".into(), text.into());
    for (name, extents) in [("x3", &[3, 4][..]), ("y3", &[3]), ("y5", &[5]), ("y9", &[9]), ("x9", &[9, 4])] {
        host.given.insert(format!("{name}.npy"), ones(extents));
    }
    good("compile two.graph -o g.twb", &mut host);
    for verb in ["exec g.twb", "run two.graph"] {
        let said = good(&format!("{verb} --input x=x3.npy --input y=y3.npy"), &mut host);
        assert_eq!(values(&said), "z: f32[4] = [3, 3, 3, 3]", "{verb}");
        for (arrays, said) in [
            (
                "--input x=x3.npy --input y=y5.npy",
                "error[graph/bounds]: input `y` has 5 along `seq`, which is 3",
            ),
            ("--input x=x9.npy --input y=y9.npy", "error[graph/bounds]: input `x` has 9 along `seq`"),
        ] {
            let refused = tilewright(&format!("{verb} {arrays}"), &mut host);
            assert_eq!(refused.code, BAD_INPUT, "{verb} {arrays}");
            assert!(refused.stderr.starts_with(said), "{verb} {arrays}: {}", refused.stderr);
        }
    }
}

#[test]
fn sizes_out_of_bounds_are_refused_whatever_computes() {
    let mut host = host();
    host.given.insert("open.onnx".into(), long_chain(3, Some("batch")));
    host.given.insert("x.npy".into(), ones(&[7, 4]));
    for how in ["", " --interp", " --dtype int8"] {
        for given in ["--dims batch=2..6 --input v0=x.npy", "--dims batch=2..6 --input v0=x.npy --seed 1"] {
            let refused = tilewright(&format!("run open.onnx {given}{how}"), &mut host);
            assert_eq!(refused.code, BAD_INPUT, "{how}: {}", refused.stderr);
            let said = "error[graph/bounds]: input `v0` has 7 along `batch`";
            assert!(refused.stderr.starts_with(said), "{how}: {}", refused.stderr);
        }
    }
}

#[test]
fn a_changed_byte_is_refused() {
    let mut host = host();
    good(&format!("compile {GRAPH} -o g.twb"), &mut host);
    let file = host.written["g.twb"].clone();
    for at in (0..file.len()).step_by(61).chain([file.len() - 1]) {
        let mut bad = file.clone();
        bad[at] ^= 1;
        host.given.insert("bad.twb".into(), bad);
        assert_eq!(tilewright("exec bad.twb --seed 1", &mut host).code, BAD_INPUT, "byte {at}");
    }
    for bytes in [0, 7, 40, 4096, file.len() - 1] {
        host.given.insert("bad.twb".into(), file[..bytes].to_vec());
        assert_eq!(tilewright("exec bad.twb --seed 1", &mut host).code, BAD_INPUT, "{bytes} bytes");
    }
}

/// A file with another plan, its checksums right.
fn replanned(file: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    let sections = binary::read(file).expect("a file");
    let plan = sections.iter().find(|section| section.name == "plan").expect("a plan");
    let changed = change(std::str::from_utf8(plan.bytes).expect("a text"));
    assert_ne!(changed.as_bytes(), plan.bytes);
    let other = |section: &Section<'_>| section.name == "plan";
    let sections: Vec<Section<'_>> = sections
        .iter()
        .map(
            |section| {
                if other(section) { Section { bytes: changed.as_bytes(), ..*section } } else { *section }
            },
        )
        .collect();
    binary::write(&sections)
}

#[test]
fn a_plan_that_asks_for_too_much_is_refused_before_memory_is_taken() {
    let mut host = host();
    good(&format!("compile {GRAPH} -o g.twb"), &mut host);
    let file = host.written["g.twb"].clone();
    let cases = [
        ("graph 1\n", "graph 5\n", "its plan begins with `graph 5`, and this release reads"),
        ("[16, 24]", "[1099511627776, 1099511627776]", "`x` lies beyond the"),
        ("[16, 24]", "[4294967296, 24]", "`x` lies beyond the"),
        ("f32[16, 8] as words at ", "f32[16, 8] as words at 9", "`p` lies beyond the"),
        ("pes 1\n", "pes one\n", "line 5 of its plan is not known: `pes one`"),
        ("pes 1\n", "pes 1\ncolour 3\n", "is not known: `colour 3`"),
        ("kernels", "kernel", "is not known"),
        ("\nhbm ", "\nhbm 99999999999999", "B of HBM, which has"),
    ];
    for (from, to, why) in cases {
        host.given.insert("bad.twb".into(), replanned(&file, |plan| plan.replacen(from, to, 1)));
        let refused = tilewright("exec bad.twb --seed 1", &mut host);
        assert_ne!(refused.code, GOOD, "{from} -> {to}");
        assert!(refused.stderr.contains(why), "{from} -> {to}: {}", refused.stderr);
    }
    host.given.insert("bad.twb".into(), replanned(&file, |plan| format!("{plan}constant 4 at 0\n")));
    let refused = tilewright("exec bad.twb --seed 1", &mut host);
    assert!(refused.stderr.contains("its constants are not those"), "{}", refused.stderr);
}

#[test]
fn a_file_is_for_the_figures_that_it_was_compiled_for() {
    let machine = |efficiency: &str| {
        let own = format!(
            "[hbm]\nefficiency = {efficiency}\n[sources]\n\"hbm.efficiency\" = \"assumption: a test\"\n"
        );
        format!("name = \"mine\"\ndescription = \"a test\"\nbase = \"tcp\"\n{own}")
    };
    let mut host = host();
    host.given = BTreeMap::from([("mine.toml".to_string(), machine("0.8").into_bytes())]);
    good(&format!("compile {GRAPH} --chip mine.toml -o g.twb"), &mut host);
    good("exec g.twb --seed 1", &mut host);
    host.given.insert("mine.toml".into(), machine("0.7").into_bytes());
    let refused = tilewright("exec g.twb --seed 1", &mut host);
    assert_eq!(refused.code, FAILED);
    assert!(refused.stderr.contains("was compiled for other figures of `mine.toml`"), "{}", refused.stderr);
}
