//! What the command line asks of the machine it runs on; tests hand in one that lives in memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::builtin;
use crate::guard::Overwrite;
use crate::mapped::Mapped;
use crate::outcome::Outcome;

/// Files, standard input and colour.
pub trait Host {
    /// Reads a file.
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>>;
    /// Bytes of a file of at most so many, mapped where the host has files.
    ///
    /// # Errors
    /// As reading; a longer file.
    fn map(&self, path: &Path, most_bytes: u64) -> std::io::Result<Mapped> {
        let bytes = self.read(path)?;
        if bytes.len() as u64 > most_bytes {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        Ok(Mapped::Read(bytes))
    }
    /// Where a path leads once links are followed; the path itself where there are none.
    ///
    /// # Errors
    /// If nothing is there.
    fn real_path(&self, path: &Path) -> std::io::Result<PathBuf> {
        Ok(path.to_owned())
    }
    /// The file that a path leads to, there already or not, by a name that is its own; `None` for streams,
    /// pipes, devices and folders.
    fn file_at(&self, path: &Path) -> Option<PathBuf> {
        Some(self.real_path(path).unwrap_or_else(|_| path.to_owned()))
    }
    /// Reads a file that the command goes on with and writes again ([`Host::rewrite`]).
    ///
    /// # Errors
    /// As reading.
    fn read_kept(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        self.read(path)
    }
    /// Whether a file may be written: not what the command has read, nor what it has written already.
    ///
    /// # Errors
    /// If it may not.
    fn may_write(&self, _path: &Path) -> std::io::Result<()> {
        Ok(())
    }
    /// Makes a folder and those it is in, unless they are there.
    ///
    /// # Errors
    /// Where it may not.
    fn create_folder(&mut self, _path: &Path) -> std::io::Result<()> {
        Ok(())
    }
    /// A folder for files that other programs read, by a name that is the same every time.
    ///
    /// # Errors
    /// Where there is none.
    fn scratch_folder(&mut self, _name: &str) -> std::io::Result<PathBuf> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    /// Writes a file, all of it or nothing; its folder must be there.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> std::io::Result<()>;
    /// Writes a file that the command goes on with, as often as it has more of it.
    ///
    /// # Errors
    /// As writing.
    fn rewrite(&mut self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        self.write(path, bytes)
    }
    /// Begins a file that is written piece by piece; it has its name once it is kept, and is gone if it is
    /// not.
    ///
    /// # Errors
    /// A place that cannot be written to.
    fn draft(&mut self, path: &Path) -> std::io::Result<Box<dyn Draft>> {
        Ok(Box::new(MemoryDraft { path: path.to_owned(), bytes: Vec::new() }))
    }
    /// Reads standard input up to a limit.
    fn read_standard_input(&mut self, most_bytes: u64) -> std::io::Result<Vec<u8>>;
    /// Whether messages may be coloured.
    fn colour(&self) -> bool;
    /// Seconds of a clock that only goes forward; 0 where nobody looks at it.
    fn seconds(&self) -> f64 {
        0.0
    }
    /// Whether the user asked to stop.
    fn interrupted(&self) -> bool {
        false
    }
    /// Shows what goes on and which part of it is done (0 to 1, if known), in place of what was shown before.
    /// An empty phase ends it.
    fn progress(&mut self, _phase: &str, _part: Option<f64>) {}
    /// Shows a piece of the answer at once if somebody sits before standard output; whether it was shown.
    fn say(&mut self, _text: &str) -> bool {
        false
    }
    /// Serves a page on a loopback port until the user asks to stop, and says where; 0 is any port.
    ///
    /// # Errors
    /// A port that cannot be had; hosts that serve nothing.
    fn serve(&mut self, _page: &str, _port: u16) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    /// Whether the shell finds a program of this name.
    fn has_program(&self, _name: &str) -> bool {
        false
    }
    /// Runs `python3` with these arguments on our own streams, and gives its exit code.
    ///
    /// # Errors
    /// If there is none.
    fn python(&mut self, _arguments: &[OsString]) -> std::io::Result<u8> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// A file on its way.
pub trait Draft: std::io::Write + Send {
    /// Gives it its name.
    ///
    /// # Errors
    /// What was not written, or a name that cannot be given.
    fn keep(self: Box<Self>, host: &mut dyn Host) -> std::io::Result<()>;
}

/// A draft of hosts that write files whole.
struct MemoryDraft {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl std::io::Write for MemoryDraft {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Draft for MemoryDraft {
    fn keep(self: Box<Self>, host: &mut dyn Host) -> std::io::Result<()> {
        host.write(&self.path, &self.bytes)
    }
}

/// Refuses, before long work, to write a file over one that the command has read.
pub(crate) fn refuse_overwrite(host: &dyn Host, output: Option<&str>) -> Result<(), Outcome> {
    let Some(output) = output else { return Ok(()) };
    host.may_write(Path::new(output)).map_err(|error| Outcome::unwritten(output, &error))
}

/// A file that a command is to write, and what writes it: an option or an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputFile {
    /// Its name.
    pub(crate) path: String,
    /// What writes it, for messages.
    pub(crate) by: String,
}

impl OutputFile {
    /// The file of an option, if that is given.
    pub(crate) fn of_option(option: &str, path: Option<&str>) -> Option<OutputFile> {
        path.map(|path| OutputFile { path: path.to_string(), by: option.to_string() })
    }
}

/// Refuses, before anything runs or is written, files that the command has read and two that are one.
pub(crate) fn refuse_collisions(
    host: &dyn Host,
    files: impl IntoIterator<Item = OutputFile>,
) -> Result<(), Outcome> {
    let mut taken: BTreeMap<PathBuf, String> = BTreeMap::new();
    for OutputFile { path, by } in files {
        refuse_overwrite(host, Some(&path))?;
        // A folder that is not there yet has no file that could be meant twice but by the same name.
        let Some(file) = host.file_at(Path::new(&path)) else { continue };
        if let Some(other) = taken.insert(file, by.clone()) {
            let why = Overwrite::Twice { path, by: [other, by] };
            return Err(Outcome::usage(&why.to_string()).coded("cli/overwrite"));
        }
    }
    Ok(())
}

/// Refuses names of pictures that say another format than the one that is written.
pub(crate) fn refuse_other_pictures(output: Option<&str>) -> Result<(), Outcome> {
    let Some(extension) = output.and_then(|path| Path::new(path).extension()) else { return Ok(()) };
    if extension.eq_ignore_ascii_case("svg") {
        return Ok(());
    }
    let path = output.unwrap_or_default();
    let svg = Path::new(path).with_extension("svg");
    Err(Outcome::usage(&format!(
        "`{path}` is no name of an SVG picture\n  = allowed: FILE.svg\n  = instead: {}",
        svg.display()
    )))
}

/// Longest text file that is read.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// Longest binary that is read.
const MAX_BINARY_BYTES: usize = 16 << 30;

/// Reads a file, or standard input for `-`; the error is a sentence.
pub(crate) fn read_bytes(host: &mut dyn Host, path: &str) -> Result<Vec<u8>, String> {
    if let Some(text) = builtin::text(path) {
        return text.map(|text| text.as_bytes().to_vec());
    }
    let bytes = if path == "-" {
        host.read_standard_input(MAX_BINARY_BYTES as u64 + 1)
    } else {
        host.read(Path::new(path))
    };
    bytes.map_err(|error| format!("cannot read `{path}`: {error}"))
}

/// Maps a file, or reads standard input for `-`; the error is a sentence.
pub(crate) fn map_bytes(host: &mut dyn Host, path: &str) -> Result<Mapped, String> {
    if let Some(text) = builtin::text(path) {
        return text.map(|text| Mapped::Read(text.as_bytes().to_vec()));
    }
    let most_bytes = MAX_BINARY_BYTES as u64;
    let bytes = match path {
        "-" => host.read_standard_input(most_bytes + 1).map(Mapped::Read),
        _ => host.map(Path::new(path), most_bytes),
    };
    bytes.map_err(|error| format!("cannot read `{path}`: {error}"))
}

/// Reads a text file, or standard input for `-`; the error is a sentence.
pub(crate) fn read_text(host: &mut dyn Host, path: &str) -> Result<String, String> {
    if let Some(text) = builtin::text(path) {
        return text.map(str::to_string);
    }
    let bytes = if path == "-" {
        host.read_standard_input(MAX_TEXT_BYTES as u64 + 1)
    } else {
        host.read(Path::new(path))
    };
    read_text_of(bytes.map_err(|error| format!("cannot read `{path}`: {error}"))?, path)
}

/// Bytes as text, if they are not too many.
pub(crate) fn read_text_of(bytes: Vec<u8>, path: &str) -> Result<String, String> {
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(format!("`{path}` has {} bytes; at most {MAX_TEXT_BYTES} are read", bytes.len()));
    }
    String::from_utf8(bytes).map_err(|error| {
        format!("`{path}` is not UTF-8 text: byte {} is wrong", error.utf8_error().valid_up_to())
    })
}
