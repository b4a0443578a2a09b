//! Files of this machine on their way: a reader sees the whole file or none, and what is no file stays what
//! it is.
//!
//! A regular file is written under another name beside it, `FILE.partial-PROCESS`, and gets its own name once
//! it is whole; links are followed, so that what they lead to is replaced and not the link. Standard streams,
//! pipes and devices are written through. What processes that were killed left behind is removed when the
//! same file is written again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::host::{Draft, Host};

/// Between the name of a file and the number of the process that writes it.
const PARTIAL: &str = ".partial-";
/// Links that are followed one after the other.
const MAX_LINKS: usize = 40;

/// Begins to write what a path names.
pub(crate) fn begin(path: &Path) -> io::Result<Box<dyn Draft>> {
    if let Some(stream) = standard_stream(path) {
        return Ok(Box::new(StreamDraft(stream)));
    }
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(about) if !about.is_file() => {
            let file = OpenOptions::new().write(true).open(path)?;
            Ok(Box::new(StreamDraft(Box::new(BufWriter::new(file)))))
        }
        about => FileDraft::begin(&followed(path), about.ok().map(|about| about.permissions())),
    }
}

/// The regular file that a path leads to or would make; streams, pipes, devices and folders are none.
pub(crate) fn file_at(path: &Path) -> Option<PathBuf> {
    if standard_stream(path).is_some() {
        return None;
    }
    match fs::metadata(path) {
        Ok(about) if about.is_file() => fs::canonicalize(path).ok(),
        Ok(_) => None,
        Err(_) => {
            let path = followed(path);
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?.join(path.file_name()?))
        }
    }
}

/// The stream that a path names, if it is one of the process's own.
fn standard_stream(path: &Path) -> Option<Box<dyn Write + Send>> {
    let is = |names: [&str; 3]| names.iter().any(|name| path == Path::new(name));
    if is(["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]) {
        return Some(Box::new(io::stdout()));
    }
    is(["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"])
        .then(|| Box::new(io::stderr()) as Box<dyn Write + Send>)
}

/// Where the links of a path lead, whether or not anything is there yet.
fn followed(path: &Path) -> PathBuf {
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&at) else { break };
        at = at.parent().map_or(next.clone(), |folder| folder.join(&next));
    }
    at
}

/// A stream, pipe or device: what was written stays written.
struct StreamDraft(Box<dyn Write + Send>);

impl Write for StreamDraft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Draft for StreamDraft {
    fn keep(mut self: Box<Self>, _: &mut dyn Host) -> io::Result<()> {
        self.0.flush()
    }
}

/// A regular file under another name.
struct FileDraft {
    file: BufWriter<File>,
    partial: PathBuf,
    path: PathBuf,
    kept: bool,
}

impl FileDraft {
    fn begin(path: &Path, permissions: Option<fs::Permissions>) -> io::Result<Box<dyn Draft>> {
        remove_abandoned(path);
        let mut partial = path.as_os_str().to_owned();
        partial.push(format!("{PARTIAL}{}", std::process::id()));
        let partial = PathBuf::from(partial);
        let draft = FileDraft {
            file: BufWriter::new(File::create(&partial)?),
            partial,
            path: path.to_owned(),
            kept: false,
        };
        if let Some(permissions) = permissions {
            fs::set_permissions(&draft.partial, permissions)?;
        }
        Ok(Box::new(draft))
    }
}

impl Write for FileDraft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Draft for FileDraft {
    fn keep(mut self: Box<Self>, _: &mut dyn Host) -> io::Result<()> {
        self.file.flush()?;
        fs::rename(&self.partial, &self.path)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for FileDraft {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Removes drafts of a file whose processes are gone. Where the system does not tell which processes there
/// are, everything stays.
fn remove_abandoned(path: &Path) {
    let (Some(name), true) = (path.file_name(), Path::new("/proc/self").exists()) else { return };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return };
    let before = format!("{}{PARTIAL}", name.to_string_lossy());
    for entry in entries.flatten() {
        let entry_name = entry.file_name();
        let Some(process) = entry_name.to_str().and_then(|entry| entry.strip_prefix(&before)) else {
            continue;
        };
        let is_gone = process.parse::<u32>().is_ok_and(|id| !Path::new(&format!("/proc/{id}")).exists());
        if is_gone {
            let _ = fs::remove_file(entry.path());
        }
    }
}
