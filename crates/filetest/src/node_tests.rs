//! The ONNX backend node tests, where `models/fetch onnx` put them.

use std::path::PathBuf;

use crate::repository;

/// Folders of all node tests by name; `None`, and it is said, where they were not downloaded.
#[expect(clippy::print_stderr, reason = "a test that skips says so")]
pub fn folders() -> Option<Vec<PathBuf>> {
    let data = repository().join("target/models/onnx-1.22.0/onnx/backend/test/data/node");
    let Ok(entries) = std::fs::read_dir(data) else {
        eprintln!("skipped: no target/models/onnx-1.22.0; `models/fetch onnx` downloads it");
        return None;
    };
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    Some(folders)
}
