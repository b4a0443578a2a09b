//! Sections with names and checksums in one file.

use xxhash_rust::xxh3::xxh3_64;

use super::BinaryError;
use tilewright_base::invariant::{OrBroken, to_index};

/// Sections begin at multiples of this: a page, so that arrays can be mapped.
pub const ALIGN_BYTES: u64 = 4096;

const MARK: &[u8; 8] = b"TILEWRT\x1a";
const VERSION: u32 = 1;
const HEAD_BYTES: u64 = 40;
const ROW_BYTES: u64 = 40;
const MOST_SECTIONS: u64 = 1 << 20;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionKind {
    /// The statements of a program.
    Program,
    /// The elements of an array.
    Array,
    /// What whoever runs the programs is told besides, as UTF-8 text.
    Text,
}

impl SectionKind {
    fn number(self) -> u32 {
        match self {
            SectionKind::Program => 1,
            SectionKind::Array => 2,
            SectionKind::Text => 3,
        }
    }

    fn of_number(number: u32) -> Option<SectionKind> {
        let all = [SectionKind::Program, SectionKind::Array, SectionKind::Text];
        all.into_iter().find(|kind| kind.number() == number)
    }
}

/// A named run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// What it holds.
    pub kind: SectionKind,
    /// Its name.
    pub name: &'a str,
    /// All of it.
    pub bytes: &'a [u8],
}

/// Whether bytes begin as a binary does.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes.starts_with(MARK)
}

/// Puts sections into a file.
pub fn write(sections: &[Section<'_>]) -> Vec<u8> {
    let rows = ROW_BYTES * sections.len() as u64;
    let names: u64 = sections.iter().map(|section| section.name.len() as u64).sum();
    let head_bytes = HEAD_BYTES + rows + names;
    let mut table = Vec::new();
    let (mut name_at, mut at) = (HEAD_BYTES + rows, head_bytes.next_multiple_of(ALIGN_BYTES));
    for section in sections {
        let (name_bytes, bytes) = (section.name.len() as u64, section.bytes.len() as u64);
        table.extend(section.kind.number().to_le_bytes());
        table.extend(
            u32::try_from(name_bytes).or_broken("a section with a name of more than 4 GiB").to_le_bytes(),
        );
        for number in [name_at, at, bytes, xxh3_64(section.bytes)] {
            table.extend(number.to_le_bytes());
        }
        name_at += name_bytes;
        at = (at + bytes).next_multiple_of(ALIGN_BYTES);
    }
    sections.iter().for_each(|section| table.extend(section.name.as_bytes()));
    assemble(sections, head_bytes, &table)
}

fn assemble(sections: &[Section<'_>], head_bytes: u64, table: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(MARK);
    file.extend(VERSION.to_le_bytes());
    file.extend(u32::try_from(sections.len()).or_broken("more sections than are numbered").to_le_bytes());
    file.extend([0; 8]);
    file.extend(head_bytes.to_le_bytes());
    file.extend(xxh3_64(table).to_le_bytes());
    file.extend(table);
    let page = to_index(ALIGN_BYTES);
    for section in sections {
        file.resize(file.len().next_multiple_of(page), 0);
        file.extend(section.bytes);
    }
    let bytes = file.len() as u64;
    if let Some(place) = file.get_mut(16..24) {
        place.copy_from_slice(&bytes.to_le_bytes());
    }
    file
}

/// Takes a file apart; every byte that is given back agrees with its checksum.
///
/// # Errors
/// Another file, another version, a file that was cut off or changed.
pub fn read(file: &[u8]) -> Result<Vec<Section<'_>>, BinaryError> {
    if !is_binary(file) {
        return Err(BinaryError::NotOurs);
    }
    let version = short(file, 8)?;
    if version != VERSION {
        return Err(BinaryError::Version { found: version, known: VERSION });
    }
    let count = u64::from(short(file, 12)?);
    if count > MOST_SECTIONS {
        return Err(BinaryError::Limit { what: "sections", found: count, most: MOST_SECTIONS });
    }
    let (bytes, head_bytes) = (long(file, 16)?, long(file, 24)?);
    part(file, "the file", 0, bytes)?;
    if bytes != file.len() as u64 {
        return Err(BinaryError::Bounds { what: "the file", from: 0, to: bytes, bytes: file.len() as u64 });
    }
    let head = part(file, "the head", HEAD_BYTES, head_bytes.saturating_sub(HEAD_BYTES))?;
    checked("the head", head, long(file, 32)?)?;
    part(file, "the section table", HEAD_BYTES, ROW_BYTES * count)?;
    let sections: Result<Vec<_>, _> =
        (0..count).map(|index| section(file, HEAD_BYTES + ROW_BYTES * index, head_bytes)).collect();
    let sections = sections?;
    padding(file, head_bytes, &sections)?;
    Ok(sections)
}

/// What lies between the sections is zero, so that no byte of a file is without a meaning.
fn padding(file: &[u8], head_bytes: u64, sections: &[Section<'_>]) -> Result<(), BinaryError> {
    let begins = |section: &Section<'_>| section.bytes.as_ptr() as usize - file.as_ptr() as usize;
    let mut used: Vec<(usize, usize)> =
        sections.iter().map(|section| (begins(section), begins(section) + section.bytes.len())).collect();
    used.sort_unstable();
    let mut at = usize::try_from(head_bytes).unwrap_or(usize::MAX);
    for (start, end) in used.into_iter().chain([(file.len(), file.len())]) {
        let between = file.get(at..start).unwrap_or_default();
        if let Some(byte) = between.iter().find(|byte| **byte != 0) {
            return Err(BinaryError::Meaning {
                what: "a byte between sections that is",
                found: u64::from(*byte),
                at,
            });
        }
        at = at.max(end);
    }
    Ok(())
}

fn section(file: &[u8], row: u64, head_bytes: u64) -> Result<Section<'_>, BinaryError> {
    let number = short(file, row)?;
    let kind = SectionKind::of_number(number).ok_or(BinaryError::Meaning {
        what: "section kind",
        found: u64::from(number),
        at: usize::try_from(row).unwrap_or(usize::MAX),
    })?;
    let (name_bytes, name_at) = (u64::from(short(file, row + 4)?), long(file, row + 8)?);
    if name_at.saturating_add(name_bytes) > head_bytes {
        return Err(BinaryError::Bounds {
            what: "a name",
            from: name_at,
            to: name_at.saturating_add(name_bytes),
            bytes: head_bytes,
        });
    }
    let name = std::str::from_utf8(part(file, "a name", name_at, name_bytes)?).map_err(|error| {
        BinaryError::Meaning {
            what: "a name that is not UTF-8, good bytes:",
            found: error.valid_up_to() as u64,
            at: 0,
        }
    })?;
    let bytes = part(file, "a section", long(file, row + 16)?, long(file, row + 24)?)?;
    checked(name, bytes, long(file, row + 32)?)?;
    Ok(Section { kind, name, bytes })
}

fn checked(what: &str, bytes: &[u8], wanted: u64) -> Result<(), BinaryError> {
    let found = xxh3_64(bytes);
    if found == wanted {
        Ok(())
    } else {
        Err(BinaryError::Checksum { what: what.to_string(), found, wanted })
    }
}

fn part<'a>(file: &'a [u8], what: &'static str, at: u64, bytes: u64) -> Result<&'a [u8], BinaryError> {
    let to = at.saturating_add(bytes);
    let range = usize::try_from(at).ok().zip(usize::try_from(to).ok());
    let found = range.and_then(|(from, to)| file.get(from..to));
    found.ok_or(BinaryError::Bounds { what, from: at, to, bytes: file.len() as u64 })
}

fn short(file: &[u8], at: u64) -> Result<u32, BinaryError> {
    let bytes = part(file, "a number", at, 4)?;
    Ok(bytes.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte)))
}

fn long(file: &[u8], at: u64) -> Result<u64, BinaryError> {
    let bytes = part(file, "a number", at, 8)?;
    Ok(bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
}
