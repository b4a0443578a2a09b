//! The binary form of TCP programs: the statements of the text form in a file of checked sections, with the
//! arrays that the program names (`tilewright_ir::binary` gives the layout).

use std::collections::BTreeMap;

use thiserror::Error;
use tilewright_base::SourceId;
use tilewright_ir::binary::{self, BinaryError, Section, SectionKind, tokens};
use tilewright_ir::{Log, parser};

use super::{Program, text};

pub use tilewright_ir::binary::is_binary;

/// Names the chip family of a program section.
const FAMILY: &str = "tcp";

/// Elements of arrays as they lie in memory, by the name that a tensor's `file` says.
pub type Arrays = BTreeMap<String, Vec<u8>>;

/// A file taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackedProgram {
    /// The program as a text, a statement a line: [`text::read`] makes a program of it.
    pub text: String,
    /// Arrays of the file, by name.
    pub arrays: Arrays,
}

/// Why a file has no program for this chip.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnpackError {
    /// The file itself.
    #[error(transparent)]
    Binary(#[from] BinaryError),
    /// Arrays alone.
    #[error("there is no program in it, only arrays")]
    NoProgram,
    /// Of another chip family.
    #[error("it is a program of `{0}`; here those of `{FAMILY}` run")]
    Family(String),
}

/// A program and its arrays as the bytes of a file.
pub fn pack(program: &Program, arrays: &Arrays) -> Vec<u8> {
    let text = text::print(program);
    let program = tokens::encode(&parser::parse(&text, SourceId(0), &mut Log::default()));
    let mut sections = vec![Section { kind: SectionKind::Program, name: FAMILY, bytes: &program }];
    sections.extend(arrays.iter().map(|(name, bytes)| Section { kind: SectionKind::Array, name, bytes }));
    binary::write(&sections)
}

/// A file of several programs that belong together, as a compiled model is: nothing of it is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle<'f> {
    /// Programs by name, as texts of a statement a line.
    pub programs: Vec<(&'f str, String)>,
    /// Elements of arrays, by name.
    pub arrays: Vec<(&'f str, &'f [u8])>,
    /// Texts by name.
    pub texts: Vec<(&'f str, &'f str)>,
}

impl<'f> Bundle<'f> {
    /// The array of a name.
    pub fn array(&self, name: &str) -> Option<&'f [u8]> {
        self.arrays.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
    }

    /// The text of a name.
    pub fn text(&self, name: &str) -> Option<&'f str> {
        self.texts.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// The program of a name.
    pub fn program(&self, name: &str) -> Option<&str> {
        self.programs.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }
}

/// Programs with their names, arrays and texts as the bytes of a file. The first program is the one that
/// [`unpack`] gives.
pub fn pack_bundle(
    programs: &[(&str, &Program)],
    arrays: &[(&str, &[u8])],
    texts: &[(&str, &str)],
) -> Vec<u8> {
    let named = |(name, program): &(&str, &Program)| {
        let text = text::print(program);
        let bytes = tokens::encode(&parser::parse(&text, SourceId(0), &mut Log::default()));
        (format!("{FAMILY}/{name}"), bytes)
    };
    let encoded: Vec<(String, Vec<u8>)> = programs.iter().map(named).collect();
    let programs = encoded.iter().map(|(name, bytes)| Section { kind: SectionKind::Program, name, bytes });
    let arrays = arrays.iter().map(|(name, bytes)| Section { kind: SectionKind::Array, name, bytes });
    let texts =
        texts.iter().map(|(name, text)| Section { kind: SectionKind::Text, name, bytes: text.as_bytes() });
    binary::write(&programs.chain(texts).chain(arrays).collect::<Vec<_>>())
}

/// Takes a file of several programs apart.
///
/// # Errors
/// As [`unpack`]; a text that is no UTF-8.
pub fn unpack_bundle(file: &[u8]) -> Result<Bundle<'_>, UnpackError> {
    let mut bundle = Bundle::default();
    for section in binary::read(file)? {
        match section.kind {
            SectionKind::Program => {
                bundle.programs.push((program_name(section.name)?, tokens::decode(section.bytes)?));
            }
            SectionKind::Array => bundle.arrays.push((section.name, section.bytes)),
            SectionKind::Text => {
                let text = std::str::from_utf8(section.bytes).map_err(|error| BinaryError::Meaning {
                    what: "a text that is not UTF-8, good bytes:",
                    found: error.valid_up_to() as u64,
                    at: error.valid_up_to(),
                })?;
                bundle.texts.push((section.name, text));
            }
        }
    }
    if bundle.programs.is_empty() {
        return Err(UnpackError::NoProgram);
    }
    Ok(bundle)
}

/// What a program of this family is called; nothing if it is alone.
fn program_name(section: &str) -> Result<&str, UnpackError> {
    let other = || UnpackError::Family(section.to_string());
    match section.strip_prefix(FAMILY) {
        Some("") => Ok(""),
        Some(rest) => rest.strip_prefix('/').ok_or_else(other),
        None => Err(other()),
    }
}

/// Takes a file apart; of several programs the first is given.
///
/// # Errors
/// A file that was cut off or changed, or that holds no program of this chip family.
pub fn unpack(file: &[u8]) -> Result<UnpackedProgram, UnpackError> {
    let sections = binary::read(file)?;
    let program = sections.iter().find(|section| section.kind == SectionKind::Program);
    let program = program.ok_or(UnpackError::NoProgram)?;
    program_name(program.name)?;
    let arrays = sections.iter().filter(|section| section.kind == SectionKind::Array);
    Ok(UnpackedProgram {
        text: tokens::decode(program.bytes)?,
        arrays: arrays.map(|array| (array.name.to_string(), array.bytes.to_vec())).collect(),
    })
}
