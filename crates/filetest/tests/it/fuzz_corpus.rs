//! The corpus of every fuzz target, replayed.

use std::path::Path;

use tilewright_filetest::{fuzz, repository};

/// What must hold for any bytes.
type Check = fn(&[u8]);

fn replay(target: &str, check: Check) {
    let folder = repository().join("fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).expect("the corpus is part of the repository");
    let mut count = 0;
    for file in files {
        let path = file.expect("a readable folder").path();
        check(&read(&path));
        count += 1;
    }
    assert!(count > 0, "no corpus for {target}");
}

#[expect(clippy::disallowed_methods, reason = "the harness reads the corpus")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a readable file")
}

#[test]
fn notation_program() {
    replay("notation_program", fuzz::notation_program);
}

#[test]
fn notation_parts() {
    replay("notation_parts", fuzz::notation_parts);
}

#[test]
fn machine_file() {
    replay("machine_file", fuzz::machine_file);
}

#[test]
fn program_text() {
    replay("program_text", fuzz::program_text);
}

#[test]
fn neuron_program() {
    replay("neuron_program", fuzz::neuron_program);
    let goldens = std::fs::read_dir(repository().join("tests/neuron")).expect("goldens of programs");
    for file in goldens {
        fuzz::neuron_program(&read(&file.expect("a readable folder").path()));
    }
}

#[test]
fn program_binary() {
    replay("program_binary", fuzz::program_binary);
}

#[test]
fn artifact_file() {
    replay("artifact_file", fuzz::artifact_file);
}

#[test]
fn graph_text() {
    replay("graph_text", fuzz::graph_text);
}

#[test]
fn onnx_file() {
    replay("onnx_file", fuzz::onnx_file);
}

#[test]
fn gguf_file() {
    replay("gguf_file", fuzz::gguf_file);
}

#[test]
fn llama2c_file() {
    replay("llama2c_file", fuzz::llama2c_file);
}

#[test]
fn hugging_face_file() {
    replay("hugging_face_file", fuzz::hugging_face_file);
}

#[test]
fn kernel_text() {
    replay("kernel_text", fuzz::kernel_text);
}

#[test]
fn lowered_text() {
    replay("lowered_text", fuzz::lowered_text);
}

#[test]
fn schedule_text() {
    replay("schedule_text", fuzz::schedule_text);
}

/// Texts of stages with lines and bytes changed, each time the same: nothing panics.
#[test]
fn changed_texts_of_stages() {
    let targets: [(&str, Check); 3] = [
        ("kernel_text", fuzz::kernel_text),
        ("lowered_text", fuzz::lowered_text),
        ("schedule_text", fuzz::schedule_text),
    ];
    let mut state = 1_u64;
    let mut below = |most: usize| {
        usize::try_from(tilewright_base::random::below(&mut state, most as u64)).expect("below a size")
    };
    for (target, check) in targets {
        let text = read(&repository().join("fuzz/corpus").join(target).join("canonical"));
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        for _ in 0..400 {
            let mut changed = lines.clone();
            match below(3) {
                0 => drop(changed.remove(below(lines.len()))),
                1 => changed.swap(below(lines.len()), below(lines.len())),
                _ => changed.insert(below(lines.len()), lines[below(lines.len())]),
            }
            let mut bytes = changed.concat();
            let at = below(bytes.len());
            bytes[at] = b"0123456789 .,x=\n-[]|"[below(20)];
            check(&bytes);
        }
    }
}
