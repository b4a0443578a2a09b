//! ONNX with elements in other files: in the model's folder they are read, behind links that lead out of it
//! they are not.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "writes files and links to try them")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use prost::Message as _;
use tilewright_cli::{BAD_INPUT, GOOD, Outcome};
use tilewright_filetest::host::{TestHost, run};
use tilewright_import::onnx::proto;

/// `y = x * w` with the two elements of `w` in another file.
fn model(location: &str) -> Vec<u8> {
    let info = |name: &str| {
        let dims = vec![proto::DimensionProto { value: Some(2), name: None }];
        let tensor = proto::TensorTypeProto { element: 1, shape: Some(proto::ShapeProto { dims }) };
        proto::ValueInfoProto { name: name.into(), ty: Some(proto::TypeProto { tensor: Some(tensor) }) }
    };
    let weight = proto::TensorProto {
        name: "w".into(),
        dims: vec![2],
        data_type: 1,
        data_location: 1,
        external_data: vec![
            proto::StringEntry { key: "location".into(), value: location.into() },
            proto::StringEntry { key: "length".into(), value: "8".into() },
        ],
        ..Default::default()
    };
    let node = proto::NodeProto {
        op: "Mul".into(),
        inputs: vec!["x".into(), "w".into()],
        outputs: vec!["y".into()],
        ..Default::default()
    };
    let graph = proto::GraphProto {
        nodes: vec![node],
        initializers: vec![weight],
        inputs: vec![info("x")],
        outputs: vec![info("y")],
        ..Default::default()
    };
    let opsets = vec![proto::OperatorSetId { domain: String::new(), version: 18 }];
    proto::ModelProto { graph: Some(graph), opsets }.encode_to_vec()
}

/// An empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("links").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.canonicalize().expect("a folder that is there")
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, bytes).expect("a file");
}

fn graph_of(root: &Path, model: &str) -> Outcome {
    let words = ["compile", model, "--emit", "graph"].map(String::from);
    run(&words, &mut TestHost { root: root.to_owned(), ..TestHost::default() })
}

const ELEMENTS: [u8; 8] = [0, 0, 128, 63, 0, 0, 0, 64];

#[test]
fn elements_in_the_folder_are_read() {
    let root = folder("inside");
    write(&root.join("m/data/w.bin"), &ELEMENTS);
    symlink("data/w.bin", root.join("m/near.bin")).expect("a link");
    symlink("m", root.join("other")).expect("a link");
    for (name, location) in [("own", "data/w.bin"), ("near", "near.bin")] {
        write(&root.join(format!("m/{name}.onnx")), &model(location));
        for folder in ["m", "other"] {
            let read = graph_of(&root, &format!("{folder}/{name}.onnx"));
            assert_eq!(read.code, GOOD, "{}", read.stderr);
            assert!(read.stdout.contains("= [1.0, 2.0]"), "{}", read.stdout);
        }
    }
}

/// A cache of downloads: every file of a model is a link into one folder.
#[test]
fn a_model_that_is_a_link_has_its_elements_where_it_is() {
    let root = folder("cache");
    write(&root.join("blobs/aaaa"), &model("w.bin"));
    write(&root.join("blobs/bbbb"), &ELEMENTS);
    std::fs::create_dir_all(root.join("snapshots/1")).expect("a folder");
    symlink("../../blobs/aaaa", root.join("snapshots/1/model.onnx")).expect("a link");
    symlink("../../blobs/bbbb", root.join("snapshots/1/w.bin")).expect("a link");
    let read = graph_of(&root, "snapshots/1/model.onnx");
    assert_eq!(read.code, GOOD, "{}", read.stderr);
}

#[test]
fn links_that_lead_out_of_the_folder_are_refused() {
    let root = folder("outside");
    write(&root.join("secret.bin"), &ELEMENTS);
    std::fs::create_dir_all(root.join("m")).expect("a folder");
    symlink("../secret.bin", root.join("m/link.bin")).expect("a link");
    symlink("..", root.join("m/up")).expect("a link");
    for (name, location) in [("file", "link.bin"), ("folder", "up/secret.bin")] {
        write(&root.join(format!("m/{name}.onnx")), &model(location));
        let refused = graph_of(&root, &format!("m/{name}.onnx"));
        assert_eq!(refused.code, BAD_INPUT, "{}", refused.stdout);
        let said = format!(
            "error: m/{name}.onnx: tensor `w`: its elements are in `{location}`, which leads to `{}`, \
             outside the model's folder `{}`\n",
            root.join("secret.bin").display(),
            root.join("m").display()
        );
        assert!(refused.stderr.starts_with(&said), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("= allowed: ") && refused.stderr.contains("= instead: "),
            "{}",
            refused.stderr
        );
    }
    write(&root.join("m/none.onnx"), &model("none.bin"));
    let missing = graph_of(&root, "m/none.onnx");
    assert!(
        missing.code == BAD_INPUT && missing.stderr.contains("`none.bin`, which cannot be read"),
        "{}",
        missing.stderr
    );
}
