//! A host that knows which files a command has read and written, and writes none of them over: whatever a
//! verb does goes through here, so that none can forget it.
//!
//! A file is what its path leads to once links are followed. Streams, pipes and devices are no files: they
//! are written through. A file that a command goes on with, such as the answers of a sweep, is read and
//! written by names of its own ([`Host::read_kept`], [`Host::rewrite`]).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::host::{Draft, Host};
use crate::mapped::Mapped;

/// What standard input is called where it is a file that a shell opened.
const STANDARD_INPUT: &str = "/dev/stdin";

/// Why a file is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// The command has read it, by this name.
    Read { path: String, read_as: String },
    /// The command has written something else into it.
    Written { path: String },
    /// Two things that the command is to write have this name.
    Twice { path: String, by: [String; 2] },
}

impl Overwrite {
    /// What is wrong, if that is why a file was not written.
    pub(crate) fn of(error: &io::Error) -> Option<&Overwrite> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for Overwrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Overwrite::Read { path, read_as } => write!(
                f,
                "`{path}` is what the command reads: `{read_as}`\n  = allowed: a file that is not read\n  \
                 = instead: another name for what is written"
            ),
            Overwrite::Written { path } => write!(
                f,
                "`{path}` is what the command has just written\n  = allowed: a file for each thing that is \
                 written\n  = instead: another name for one of the two"
            ),
            Overwrite::Twice { path, by: [one, other] } => write!(
                f,
                "`{path}` is what {one} and {other} both write\n  = allowed: a file for each thing that is \
                 written\n  = instead: another name for one of the two"
            ),
        }
    }
}

impl std::error::Error for Overwrite {}

/// Files of a command by where their paths lead, with the names that they were read or written by.
#[derive(Debug, Default)]
struct Touched {
    read: BTreeMap<PathBuf, PathBuf>,
    written: BTreeMap<PathBuf, PathBuf>,
}

/// What is shared with files that are on their way.
#[derive(Clone, Debug, Default)]
struct Ledger(Arc<Mutex<Touched>>);

impl Ledger {
    fn with<T>(&self, look: impl FnOnce(&mut Touched) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note_read(&self, file: Option<PathBuf>, path: &Path) {
        let Some(file) = file else { return };
        self.with(|touched| {
            touched.read.entry(file).or_insert_with(|| path.to_owned());
        });
    }

    fn note_written(&self, file: Option<PathBuf>, path: &Path) {
        let Some(file) = file else { return };
        self.with(|touched| {
            touched.written.insert(file, path.to_owned());
        });
    }

    /// Refuses a file that was read, or one that was written where that counts.
    fn check(&self, file: Option<&PathBuf>, path: &Path, again: bool) -> io::Result<()> {
        let Some(file) = file else { return Ok(()) };
        let name = || path.display().to_string();
        let why = self.with(|touched| {
            if let Some(read) = touched.read.get(file) {
                return Some(Overwrite::Read { path: name(), read_as: read.display().to_string() });
            }
            let written = !again && touched.written.contains_key(file);
            written.then(|| Overwrite::Written { path: name() })
        });
        why.map_or(Ok(()), |why| Err(io::Error::other(why)))
    }
}

/// A host for one command.
pub(crate) struct GuardedHost<'h> {
    host: &'h mut dyn Host,
    ledger: Ledger,
}

impl<'h> GuardedHost<'h> {
    pub(crate) fn new(host: &'h mut dyn Host) -> GuardedHost<'h> {
        GuardedHost { host, ledger: Ledger::default() }
    }
}

impl Host for GuardedHost<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let bytes = self.host.read(path)?;
        self.ledger.note_read(self.host.file_at(path), path);
        Ok(bytes)
    }

    fn read_kept(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.host.read_kept(path)
    }

    fn map(&self, path: &Path, most_bytes: u64) -> io::Result<Mapped> {
        let bytes = self.host.map(path, most_bytes)?;
        self.ledger.note_read(self.host.file_at(path), path);
        Ok(bytes)
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.host.real_path(path)
    }

    fn file_at(&self, path: &Path) -> Option<PathBuf> {
        self.host.file_at(path)
    }

    fn may_write(&self, path: &Path) -> io::Result<()> {
        self.ledger.check(self.host.file_at(path).as_ref(), path, false)
    }

    fn create_folder(&mut self, path: &Path) -> io::Result<()> {
        self.host.create_folder(path)
    }

    fn scratch_folder(&mut self, name: &str) -> io::Result<PathBuf> {
        self.host.scratch_folder(name)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let file = self.host.file_at(path);
        self.ledger.check(file.as_ref(), path, false)?;
        self.host.write(path, bytes)?;
        self.ledger.note_written(file, path);
        Ok(())
    }

    fn rewrite(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let file = self.host.file_at(path);
        self.ledger.check(file.as_ref(), path, true)?;
        self.host.rewrite(path, bytes)?;
        self.ledger.note_written(file, path);
        Ok(())
    }

    fn draft(&mut self, path: &Path) -> io::Result<Box<dyn Draft>> {
        let file = self.host.file_at(path);
        self.ledger.check(file.as_ref(), path, false)?;
        let draft = self.host.draft(path)?;
        Ok(Box::new(GuardedDraft { draft, file, path: path.to_owned(), ledger: self.ledger.clone() }))
    }

    fn read_standard_input(&mut self, most_bytes: u64) -> io::Result<Vec<u8>> {
        let bytes = self.host.read_standard_input(most_bytes)?;
        let path = Path::new(STANDARD_INPUT);
        self.ledger.note_read(self.host.file_at(path), path);
        Ok(bytes)
    }

    fn colour(&self) -> bool {
        self.host.colour()
    }

    fn seconds(&self) -> f64 {
        self.host.seconds()
    }

    fn interrupted(&self) -> bool {
        self.host.interrupted()
    }

    fn progress(&mut self, phase: &str, part: Option<f64>) {
        self.host.progress(phase, part);
    }

    fn say(&mut self, text: &str) -> bool {
        self.host.say(text)
    }

    fn serve(&mut self, page: &str, port: u16) -> io::Result<()> {
        self.host.serve(page, port)
    }

    fn has_program(&self, name: &str) -> bool {
        self.host.has_program(name)
    }

    fn python(&mut self, arguments: &[OsString]) -> io::Result<u8> {
        self.host.python(arguments)
    }
}

/// A file on its way: what was read while it was written is not written over either.
struct GuardedDraft {
    draft: Box<dyn Draft>,
    file: Option<PathBuf>,
    path: PathBuf,
    ledger: Ledger,
}

impl Write for GuardedDraft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.draft.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.draft.flush()
    }
}

impl Draft for GuardedDraft {
    fn keep(self: Box<Self>, host: &mut dyn Host) -> io::Result<()> {
        self.ledger.check(self.file.as_ref(), &self.path, false)?;
        self.draft.keep(host)?;
        self.ledger.note_written(self.file, &self.path);
        Ok(())
    }
}
