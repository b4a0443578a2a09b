//! Statements and values in two flat lists, in the order of the text, and the views of them that readers use.

use tilewright_base::{SourceId, Span};

use crate::args::{Args, Word};

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bare word.
    Word,
    /// A whole number.
    Integer {
        /// Written with a minus.
        negative: bool,
        /// Written with `0x`.
        hex: bool,
    },
    /// A number with a point or an exponent.
    Float,
    /// A quoted text.
    Text,
    /// One of the signs.
    Sign(Sign),
    /// The opening bracket of a group.
    Open(Bracket),
    /// The closing bracket of a group.
    Close(Bracket),
}

/// Brackets that group values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bracket {
    /// `(` and `)`
    Round,
    /// `[` and `]`
    Square,
}

impl Bracket {
    /// How it opens.
    pub fn open(self) -> &'static str {
        match self {
            Bracket::Round => "(",
            Bracket::Square => "[",
        }
    }

    /// How it closes.
    pub fn close(self) -> &'static str {
        match self {
            Bracket::Round => ")",
            Bracket::Square => "]",
        }
    }
}

macro_rules! signs {
    ($($name:ident $text:literal),* $(,)?) => {
        /// Signs that stand between values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Sign { $(#[doc = concat!("`", $text, "`")] $name),* }

        impl Sign {
            /// Every sign.
            pub const ALL: &[Sign] = &[$(Sign::$name),*];

            /// As written.
            pub const fn text(self) -> &'static str {
                match self { $(Sign::$name => $text),* }
            }
        }
    };
}

signs! {
    Equals "=", EqualTo "==", NotEqualTo "!=", Colon ":", Comma ",", Plus "+", Minus "-", Star "*", Slash "/",
        Percent "%",
    Less "<", AtMost "<=", Greater ">", AtLeast ">=", Arrow "->", Range "..",
}

impl Sign {
    pub(crate) fn of_two(first: u8, second: u8) -> Option<Sign> {
        Sign::ALL.iter().copied().find(|sign| sign.text().as_bytes() == [first, second])
    }

    pub(crate) fn of_one(first: u8) -> Option<Sign> {
        Sign::ALL.iter().copied().find(|sign| sign.text().as_bytes() == [first])
    }
}

/// One value of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The magnitude of an integer; of an opening bracket, the index of its closing one.
    pub(crate) data: u64,
}

/// One statement; its block is what follows it up to `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement {
    pub(crate) head_start: u32,
    pub(crate) head_end: u32,
    pub(crate) first_value: u32,
    pub(crate) end_value: u32,
    /// Index one past the last statement of its block.
    pub(crate) end: u32,
    /// Last byte of its own line: block and closing brace left out.
    pub(crate) end_byte: u32,
    pub(crate) block: bool,
}

/// A text taken apart.
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    pub(crate) text: &'a str,
    pub(crate) source: SourceId,
    pub(crate) statements: Vec<Statement>,
    pub(crate) values: Vec<Value>,
}

impl<'a> Tree<'a> {
    /// The outermost statements in order.
    pub fn statements(&self) -> Nodes<'_> {
        Nodes { tree: self, at: 0, end: self.statements.len() }
    }

    /// How many statements there are in all blocks together.
    pub fn len(&self) -> usize {
        self.statements.len()
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// The point behind the last character.
    pub fn end_span(&self) -> Span {
        let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        self.span(end, end)
    }

    pub(crate) fn span(&self, start: u32, end: u32) -> Span {
        Span { source: self.source, start, end }
    }

    pub(crate) fn slice(&self, start: u32, end: u32) -> &'a str {
        self.text.get(start as usize..end as usize).unwrap_or("")
    }
}

/// Statements of one block, in order.
#[derive(Clone)]
pub struct Nodes<'t> {
    tree: &'t Tree<'t>,
    at: usize,
    end: usize,
}

impl<'t> Iterator for Nodes<'t> {
    type Item = Node<'t>;

    fn next(&mut self) -> Option<Node<'t>> {
        if self.at >= self.end {
            return None;
        }
        let statement = self.tree.statements.get(self.at)?;
        let node = Node { tree: self.tree, index: self.at };
        self.at = (statement.end as usize).max(self.at + 1);
        Some(node)
    }
}

/// A statement of a tree.
#[derive(Clone, Copy)]
pub struct Node<'t> {
    tree: &'t Tree<'t>,
    index: usize,
}

impl<'t> Node<'t> {
    fn statement(&self) -> &'t Statement {
        &self.tree.statements[self.index]
    }

    /// Its first word.
    pub fn head(&self) -> Word<'t> {
        let statement = self.statement();
        let (start, end) = (statement.head_start, statement.head_end);
        Word { text: self.tree.slice(start, end), span: self.tree.span(start, end) }
    }

    /// From its first word to its last value; the block is not part of it.
    pub fn span(&self) -> Span {
        let statement = self.statement();
        self.tree.span(statement.head_start, statement.end_byte)
    }

    /// The values behind the first word.
    pub fn args(&self) -> Args<'t> {
        let statement = self.statement();
        Args {
            tree: self.tree,
            at: statement.first_value as usize,
            end: statement.end_value as usize,
            end_byte: statement.end_byte,
        }
    }

    pub(crate) fn values(&self) -> &'t [Value] {
        let statement = self.statement();
        let range = statement.first_value as usize..statement.end_value as usize;
        self.tree.values.get(range).unwrap_or_default()
    }

    /// Whether it has a block, be it empty.
    pub fn has_block(&self) -> bool {
        self.statement().block
    }

    /// The statements of its block; none if it has no block.
    pub fn children(&self) -> Nodes<'t> {
        Nodes { tree: self.tree, at: self.index + 1, end: self.statement().end as usize }
    }
}
