//! Files as the system maps them: bytes that come into memory when they are looked at, and that no one
//! copies.
//!
//! This is the one file of the command line with `unsafe`. A mapping is sound as long as nobody changes the
//! file below it: bytes that a slice shows must not change, and pages that were cut off end the process.
//! Binaries of ours are written under another name and renamed when they are whole (`Host::draft`), so that
//! writing one again leaves the mapped file as it is; whoever edits a binary in place while it runs is told
//! by the book not to. Everything in a file is checked against its length and its checksums before it is
//! used, whether it was mapped or read; [`Mapped::Read`] is the same without a mapping, and hosts without
//! files use it.

use std::io::{Error, ErrorKind};
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

/// Bytes of a file.
#[derive(Debug)]
pub enum Mapped {
    /// Copied from it.
    Read(Vec<u8>),
    /// Pages of it.
    Pages(Mmap),
}

impl Mapped {
    /// Maps a file, or reads what cannot be mapped: streams, and files without bytes.
    ///
    /// # Errors
    /// What opening and reading give; more bytes than are allowed.
    #[expect(clippy::disallowed_methods, reason = "the command line is where files are read")]
    pub fn open(path: &Path, most_bytes: u64) -> std::io::Result<Mapped> {
        let file = std::fs::File::open(path)?;
        let about = file.metadata()?;
        if about.len() > most_bytes {
            let why = format!("it has {} bytes; at most {most_bytes} are read", about.len());
            return Err(Error::new(ErrorKind::FileTooLarge, why));
        }
        if !about.is_file() || about.len() == 0 {
            return std::fs::read(path).map(Mapped::Read);
        }
        #[expect(
            unsafe_code,
            reason = "mapping is up to the system; what must hold is at the head of this file"
        )]
        // SAFETY: the mapping is private to this process and read only; the file below it is not changed
        // while it runs.
        let pages = unsafe { Mmap::map(&file) }?;
        Ok(Mapped::Pages(pages))
    }

    /// A copy of the bytes, unless they are one.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        match self {
            Mapped::Read(bytes) => bytes,
            Mapped::Pages(pages) => pages.to_vec(),
        }
    }

    /// Where in the file some of its bytes are; `None` if they are others.
    pub(crate) fn range(&self, part: &[u8]) -> Option<std::ops::Range<usize>> {
        let start = part.as_ptr().addr().checked_sub(self.as_ptr().addr())?;
        let end = start.checked_add(part.len())?;
        (end <= self.len()).then_some(start..end)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Mapped::Read(bytes) => bytes,
            Mapped::Pages(pages) => pages,
        }
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files")]
mod tests {
    use super::*;

    /// A file of this test alone, gone when it ends.
    struct TempFile(std::path::PathBuf);

    impl TempFile {
        fn new(name: &str, bytes: &[u8]) -> TempFile {
            let path = std::env::temp_dir().join(format!("tilewright-mapped-{}-{name}", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            TempFile(path)
        }
    }

    impl Drop for TempFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_mapped_file_is_the_file_that_is_read() {
        for (name, count) in [("empty", 0), ("one", 1), ("page", 4096), ("more", 100_003)] {
            let bytes: Vec<u8> =
                (0..count).map(|at: u32| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
            let file = TempFile::new(name, &bytes);
            let mapped = Mapped::open(&file.0, 1 << 20).unwrap();
            let read = Mapped::Read(std::fs::read(&file.0).unwrap());
            assert_eq!(*mapped, *read, "{name}");
            assert_eq!(matches!(mapped, Mapped::Pages(_)), count > 0);
        }
    }

    #[test]
    fn what_is_too_long_missing_or_a_folder_is_refused() {
        let file = TempFile::new("long", &[0; 100]);
        assert!(Mapped::open(&file.0, 100).is_ok());
        assert_eq!(Mapped::open(&file.0, 99).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(Mapped::open(&file.0.join("below"), 100).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert!(Mapped::open(Path::new("/"), u64::MAX).is_err());
    }

    #[test]
    fn a_file_that_is_written_again_leaves_what_is_mapped() {
        let (file, next) = (TempFile::new("again", b"first bytes"), TempFile::new("next", b"others"));
        let mapped = Mapped::open(&file.0, 100).unwrap();
        std::fs::rename(&next.0, &file.0).unwrap();
        assert_eq!(*mapped, *b"first bytes");
        assert_eq!(*Mapped::open(&file.0, 100).unwrap(), *b"others");
    }

    #[test]
    fn parts_are_found_and_others_are_not() {
        let mapped = Mapped::Read((0..100).collect());
        assert_eq!(mapped.range(&mapped[10..20]), Some(10..20));
        assert_eq!(mapped.range(&mapped), Some(0..100));
        assert_eq!(mapped.range(&[1, 2, 3]), None);
    }
}
