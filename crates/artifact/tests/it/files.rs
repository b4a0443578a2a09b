//! Whole files: what was written is read, and a file that was cut off, changed or put together otherwise is
//! refused.

use tilewright_artifact::{Artifact, ArtifactError, Contents, Plan, pack_hbm, programs, write};
use tilewright_base::SourceId;
use tilewright_compile::weights::Matrix;
use tilewright_compile::{CompileError, Compiled, Mixed, Options, compile_kernels, kernel_text};
use tilewright_graph::Graph;
use tilewright_ir::binary::{self, Section, SectionKind};
use tilewright_num::Dtype;
use tilewright_testkit::tcp;

fn compiled(batch: u64) -> Compiled {
    let text = include_str!("../../../../tests/kernels/canonical.kernels");
    let kernels = kernel_text::read(text, SourceId(0)).unwrap();
    let options = Options {
        dtype: Dtype::Bf16,
        mixed: Mixed::default(),
        cache: Dtype::Bf16,
        context: 64,
        pes: 1,
        chips: 1,
        batch,
    };
    compile_kernels(&tcp(), &kernels, options).unwrap()
}

fn graph() -> Graph {
    let text = "graph 1\ninput x: f32[4]\nlet y: f32[4] = silu(x)\noutput y = y\n";
    tilewright_graph::text::read(text, SourceId(0)).unwrap()
}

fn file(compiled: &Compiled) -> Vec<u8> {
    let plan = Plan::of(compiled, "tcp", &["hbm.efficiency=0.9".to_string()], Some(vec![2, 5]));
    let contents = Contents {
        compiled,
        plan: &plan,
        graph: &graph(),
        hbm: &[vec![7; 5000]],
        tokenizer: Some(("tokenizer.bin", b"words")),
    };
    write(&contents)
}

#[test]
fn what_was_written_is_read() {
    for batch in [1, 2] {
        let compiled = compiled(batch);
        let bytes = file(&compiled);
        let artifact = Artifact::read(&bytes).unwrap();
        assert_eq!((artifact.plan.batch, artifact.plan.context), (batch, Some(64)));
        assert_eq!(artifact.plan.set, ["hbm.efficiency=0.9"]);
        assert_eq!(artifact.plan.ends.as_deref(), Some(&[2, 5][..]));
        assert_eq!(artifact.graph, graph());
        assert_eq!(artifact.hbm, [&[7; 5000][..]]);
        assert_eq!(artifact.tokenizer, Some(("tokenizer.bin", &b"words"[..])));
        artifact.check_programs(&compiled).unwrap();
    }
}

#[test]
fn programs_of_another_plan_are_refused() {
    let (one, two) = (compiled(1), compiled(2));
    let bytes = file(&one);
    let refused = Artifact::read(&bytes).unwrap().check_programs(&two).unwrap_err();
    let ArtifactError::Program { program } = refused else { panic!("{refused}") };
    assert!(programs(&two).any(|(name, _)| name == program));
    assert_eq!((programs(&one).count(), programs(&two).count()), (3, 4));
}

#[test]
fn a_file_that_was_cut_off_or_changed_is_refused() {
    let bytes = file(&compiled(1));
    for length in (0..bytes.len()).step_by(bytes.len() / 50) {
        assert!(Artifact::read(&bytes[..length]).is_err(), "{length} bytes");
    }
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(bytes.len() / 200) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        // Bytes between sections belong to none.
        refused += usize::from(Artifact::read(&changed).is_err());
    }
    assert!(refused > 100, "{refused}");
}

/// Sections with their checksums right, one of them left out or with other bytes.
fn edited(bytes: &[u8], name: &str, other: Option<&[u8]>) -> Vec<u8> {
    let sections = binary::read(bytes).unwrap();
    let kept: Vec<Section<'_>> = sections
        .into_iter()
        .filter(|section| section.name != name || other.is_some())
        .map(|section| match other {
            Some(bytes) if section.name == name => Section { bytes, ..section },
            _ => section,
        })
        .collect();
    assert!(kept.iter().any(|section| section.kind == SectionKind::Program));
    binary::write(&kept)
}

#[test]
fn a_section_that_is_missing_or_wrong_is_named() {
    let bytes = file(&compiled(1));
    for (section, what) in [("plan", "plan"), ("graph", "graph"), ("hbm", "weights")] {
        let refused = Artifact::read(&edited(&bytes, section, None)).map(|_| ()).unwrap_err();
        assert_eq!(refused, ArtifactError::Missing(what));
    }
    let refused = |section: &str, text: &str| {
        Artifact::read(&edited(&bytes, section, Some(text.as_bytes()))).map(|_| ()).unwrap_err()
    };
    assert_eq!(refused("graph", "graph 1\nlet y"), ArtifactError::Missing("graph that reads"));
    assert!(matches!(refused("plan", "model 1\ncolour red\n"), ArtifactError::Plan(_)));
    // No chip has so many; the first that is missing ends it.
    assert_eq!(refused("plan", "model 1\nchips 18446744073709551615\n"), ArtifactError::Missing("weights"));
}

#[test]
fn a_weight_that_cannot_be_had_is_named() {
    let compiled = compiled(1);
    let constant = |name: &str| -> Result<Matrix, CompileError> {
        Err(CompileError::Weight { name: name.to_string(), why: "there is none".to_string() })
    };
    assert!(pack_hbm(&compiled, &constant).unwrap_err().to_string().contains("there is none"));
}
