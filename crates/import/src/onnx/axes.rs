//! Names of axes: those of a file may have any letters, those of a graph are words, and two that differ in
//! the file differ in the graph.

use std::collections::{BTreeMap, BTreeSet};

use super::proto;

/// An axis of a file: by its name, or one without a name by its input and place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FileAxis {
    Named(String),
    Unnamed(String, usize),
}

/// The names that the axes of a file have in the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AxisNames {
    words: BTreeMap<FileAxis, String>,
}

/// The axis that a size of an input is, if it is one.
fn file_axis(input: &str, at: usize, dim: &proto::DimensionProto) -> Option<FileAxis> {
    let has_word = |name: &&str| name.contains(|letter: char| letter.is_ascii_alphanumeric());
    match dim.name.as_deref().filter(has_word) {
        Some(name) => Some(FileAxis::Named(name.to_string())),
        None if dim.value.is_some_and(|size| size >= 0) => None,
        None => Some(FileAxis::Unnamed(input.to_string(), at)),
    }
}

impl AxisNames {
    /// Names for all axes of some inputs. A name that is a word stays as it is; another becomes the word that
    /// is nearest, with a number behind it if that is taken.
    pub(super) fn of<'i>(inputs: impl Iterator<Item = &'i proto::ValueInfoProto>) -> AxisNames {
        let mut all = BTreeSet::new();
        for input in inputs {
            let shape = input.ty.as_ref().and_then(|ty| ty.tensor.as_ref()?.shape.as_ref());
            let dims = shape.iter().flat_map(|shape| &shape.dims).enumerate();
            all.extend(dims.filter_map(|(at, dim)| file_axis(&input.name, at, dim)));
        }
        let is_word = |axis: &FileAxis| matches!(axis, FileAxis::Named(name) if word(name) == *name);
        let (words, others): (Vec<FileAxis>, Vec<FileAxis>) = all.into_iter().partition(is_word);
        let mut names = AxisNames::default();
        let mut taken = BTreeSet::new();
        for axis in words.into_iter().chain(others) {
            let plain = match &axis {
                FileAxis::Named(name) => word(name),
                FileAxis::Unnamed(input, at) => word(&format!("{input}_{at}")),
            };
            let numbered = (2_u64..).map(|number| format!("{plain}_{number}"));
            let mut free = std::iter::once(plain.clone()).chain(numbered);
            let Some(free) = free.find(|name| !taken.contains(name)) else { continue };
            taken.insert(free.clone());
            names.words.insert(axis, free);
        }
        names
    }

    /// The name in the graph of a size of an input; `None` if it is a number.
    pub(super) fn of_size(&self, input: &str, at: usize, dim: &proto::DimensionProto) -> Option<&str> {
        self.words.get(&file_axis(input, at, dim)?).map(String::as_str)
    }

    /// The name in the graph of an axis that is spelled as in the file, as in the graph, or nearly so, if
    /// only one is.
    pub fn find(&self, asked: &str) -> Option<&str> {
        if let Some(name) = self.words.get(&FileAxis::Named(asked.to_string())) {
            return Some(name);
        }
        if let Some(name) = self.words.values().find(|name| *name == asked) {
            return Some(name);
        }
        let mut near = self.words.values().filter(|name| **name == word(asked));
        near.next().filter(|_| near.next().is_none()).map(String::as_str)
    }

    /// All names in the graph.
    pub(super) fn all(&self) -> BTreeSet<&str> {
        self.words.values().map(String::as_str).collect()
    }
}

/// A name as a word.
fn word(name: &str) -> String {
    let plain: String =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    if plain.starts_with(|letter: char| letter.is_ascii_digit()) { format!("_{plain}") } else { plain }
}
