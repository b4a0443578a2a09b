//! Files of models, read for the user who names them.

use std::path::{Path, PathBuf};

use tilewright_workbench::model::files::ModelFiles;

/// The files of this machine.
pub(crate) struct DiskFiles;

#[expect(
    clippy::disallowed_methods,
    reason = "what the user names is read for the user, as the command does"
)]
impl ModelFiles for DiskFiles {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn real_path(&self, path: &Path) -> std::io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }
}
