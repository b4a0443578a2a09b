//! Every file under `tests/` is one test.

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Trial};
use tilewright_filetest::{golden, program_text, repository};

/// What names of goldens end in.
const KINDS: [&str; 9] = ["tw", "toml", "cli", "tcp", "neuron", "graph", "kernels", "lowered", "schedule"];

fn main() {
    let arguments = Arguments::from_args();
    let root = repository().join("tests");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let trials = files.into_iter().map(|path| {
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        let check = if program_text::is_only_read(&path) { program_text::check } else { golden::check };
        let left_out = golden::is_deep(&path) && !tilewright_testkit::is_deep();
        Trial::test(name, move || check(&path).map_err(Into::into)).with_ignored_flag(left_out)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| KINDS.iter().any(|known| e == *known)) {
            files.push(path);
        }
    }
}
