//! The binary form of TCP programs: the statements of the text form in a file of checked sections, with the arrays that the program
//! names (`tilewright_ir::binary` gives the layout).

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
pub struct Unpacked {
    /// The program as a text, a statement a line: [`text::read`] makes a program of it.
    pub text: String,
    /// What came with it.
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

/// Takes a file apart.
///
/// # Errors
/// A file that was cut off or changed, or that holds no program of this chip family.
pub fn unpack(file: &[u8]) -> Result<Unpacked, UnpackError> {
    let sections = binary::read(file)?;
    let program = sections.iter().find(|section| section.kind == SectionKind::Program);
    let program = program.ok_or(UnpackError::NoProgram)?;
    if program.name != FAMILY {
        return Err(UnpackError::Family(program.name.to_string()));
    }
    let arrays = sections.iter().filter(|section| section.kind == SectionKind::Array);
    Ok(Unpacked {
        text: tokens::decode(program.bytes)?,
        arrays: arrays.map(|array| (array.name.to_string(), array.bytes.to_vec())).collect(),
    })
}
