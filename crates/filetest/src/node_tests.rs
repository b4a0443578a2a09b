//! The ONNX backend node tests, where `models/fetch onnx` put them.

use std::path::PathBuf;

/// Folders of all node tests by name; `None`, and it is said, where they were not downloaded.
pub fn folders() -> Option<Vec<PathBuf>> {
    let data = tilewright_testkit::fetched_model("onnx-1.22.0/onnx/backend/test/data/node")?;
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(data).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    Some(folders)
}
