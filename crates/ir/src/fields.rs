//! The statements of a block by name, and the log that complaints go to.

use tilewright_base::{Diagnostic, Span};

use crate::args::{Args, Read, shortened, unknown_word};
use crate::tree::{Node, Nodes, Tree};

/// Complaints of one reading. Readers stop when it is full.
#[derive(Debug, Default)]
pub struct Log {
    complaints: Vec<Diagnostic>,
}

impl Log {
    /// Complaints that are kept.
    pub const MOST: usize = 20;

    /// Adds a complaint, unless the log is full.
    pub fn push(&mut self, complaint: Diagnostic) {
        if !self.is_full() {
            self.complaints.push(complaint);
        }
    }

    /// Keeps the complaint, or gives what was read.
    pub fn keep<T>(&mut self, read: Read<T>) -> Option<T> {
        read.map_err(|complaint| self.push(*complaint)).ok()
    }

    /// Whether further complaints are dropped.
    pub fn is_full(&self) -> bool {
        self.complaints.len() >= Log::MOST
    }

    /// Whether nothing was complained about.
    pub fn is_empty(&self) -> bool {
        self.complaints.is_empty()
    }

    /// The complaints, in the order in which they were made.
    pub fn into_complaints(self) -> Vec<Diagnostic> {
        self.complaints
    }
}

impl<'t> Node<'t> {
    /// Its values, all of which `read` must take; a block is refused.
    pub fn leaf<T>(&self, read: impl FnOnce(&mut Args<'t>) -> Read<T>) -> Read<T> {
        let value = self.line(read)?;
        self.no_block()?;
        Ok(value)
    }

    /// Complains if there is a block.
    pub fn no_block(&self) -> Read<()> {
        if !self.has_block() {
            return Ok(());
        }
        let what = format!("`{}` has a block", shortened(self.head().text));
        let complaint = Diagnostic::error("ir/field", what).at(self.span(), "");
        Err(Box::new(complaint.allowed("a line without { }").instead("leave the block out")))
    }

    /// Its values, all of which `read` must take.
    pub fn line<T>(&self, read: impl FnOnce(&mut Args<'t>) -> Read<T>) -> Read<T> {
        let mut args = self.args();
        let value = read(&mut args)?;
        args.done()?;
        Ok(value)
    }

    /// Complains if there is no block.
    pub fn needs_block(&self) -> Read<()> {
        if self.has_block() {
            return Ok(());
        }
        let what = format!("`{}` has no block", shortened(self.head().text));
        let complaint = Diagnostic::error("ir/field", what).at(self.span(), "no { behind it");
        Err(Box::new(complaint.allowed("a block in braces").instead("open it on the same line: { ... }")))
    }

    /// A complaint that its first word is not one of those known here.
    pub fn unknown(&self, known: &[&str]) -> Box<Diagnostic> {
        let complaint = unknown_word(self.head(), "statement of this block", known.iter().copied());
        Box::new(Diagnostic { code: "ir/field", ..*complaint })
    }
}

/// The statements of a block, found by name.
#[derive(Clone)]
pub struct Fields<'t> {
    /// What the block is called in complaints, and where they point.
    owner: (&'t str, Span),
    statements: Nodes<'t>,
}

impl<'t> Fields<'t> {
    /// Complains about fields that are not known. A field that may come several times is asked for with
    /// [`Fields::many`].
    pub fn new(owner: Node<'t>, known: &[&str], log: &mut Log) -> Fields<'t> {
        for field in owner.children() {
            if log.is_full() {
                break;
            }
            if !known.contains(&field.head().text) {
                log.push(*field.unknown(known));
            }
        }
        Fields::trusted(owner)
    }

    /// The fields of a block whose names the caller checks.
    pub fn trusted(owner: Node<'t>) -> Fields<'t> {
        Fields { owner: (owner.head().text, owner.span()), statements: owner.children() }
    }

    /// The outermost statements, whose names the caller checks.
    pub fn top(tree: &'t Tree<'t>) -> Fields<'t> {
        Fields { owner: ("the text", tree.end_span()), statements: tree.statements() }
    }

    fn all(&self, name: &'static str) -> impl Iterator<Item = Node<'t>> + use<'t> {
        self.statements.clone().filter(move |field| field.head().text == name)
    }

    /// The field of this name; a second one is complained about.
    pub fn node(&self, name: &'static str, log: &mut Log) -> Option<Node<'t>> {
        let mut found = self.all(name);
        let first = found.next()?;
        if let Some(second) = found.next() {
            log.push(
                Diagnostic::error("ir/field", format!("`{name}` is given twice"))
                    .at(second.span(), "second time")
                    .also(first.span(), "first time")
                    .allowed("once")
                    .instead("delete one of them"),
            );
        }
        Some(first)
    }

    /// The field of this name, which must be there.
    pub fn required(&self, name: &'static str, log: &mut Log) -> Option<Node<'t>> {
        let found = self.node(name, log);
        if found.is_none() {
            let (owner, span) = self.owner;
            log.push(
                Diagnostic::error("ir/field", format!("{owner} lacks `{name}`"))
                    .at(span, "")
                    .allowed(format!("a line `{name} ...` in its block"))
                    .instead(format!("add `{name}`")),
            );
        }
        found
    }

    /// The values of a field that must be there; `None` after a complaint.
    pub fn one<T>(
        &self,
        name: &'static str,
        log: &mut Log,
        read: impl FnOnce(&mut Args<'t>) -> Read<T>,
    ) -> Option<T> {
        let node = self.required(name, log)?;
        log.keep(node.leaf(read))
    }

    /// The values of a field, or what stands for it when it is left out; `None` after a complaint.
    pub fn maybe<T>(
        &self,
        name: &'static str,
        default: T,
        log: &mut Log,
        read: impl FnOnce(&mut Args<'t>) -> Read<T>,
    ) -> Option<T> {
        match self.node(name, log) {
            Some(node) => log.keep(node.leaf(read)),
            None => Some(default),
        }
    }

    /// Whether a field without values is there.
    pub fn flag(&self, name: &'static str, log: &mut Log) -> Option<bool> {
        self.maybe(name, false, log, |_| Ok(true))
    }

    /// Every field of this name; `None` after a complaint.
    pub fn many<T>(
        &self,
        name: &'static str,
        log: &mut Log,
        mut read: impl FnMut(&mut Args<'t>) -> Read<T>,
    ) -> Option<Vec<T>> {
        let mut values = Some(Vec::new());
        for field in self.all(name) {
            if log.is_full() {
                return None;
            }
            match (log.keep(field.leaf(&mut read)), &mut values) {
                (Some(value), Some(values)) => values.push(value),
                _ => values = None,
            }
        }
        values
    }
}
