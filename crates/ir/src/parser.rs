//! Tokens to the tree. A statement that makes no sense is complained about and left out; reading goes on
//! behind it.
//!
//! Open blocks and groups are kept on a stack of bounded depth, so no text can exhaust the machine's stack.

use tilewright_base::{Diagnostic, SourceId, Sources, Span};

use crate::args::shortened;
use crate::fields::Log;
use crate::lexer::{BadToken, Lexer, Token, TokenKind};
use crate::tree::{Bracket, Kind, Statement, Tree};

/// Blocks within blocks, at most.
pub const MAX_BLOCKS: usize = 64;
/// Groups within groups, at most.
pub const MAX_GROUPS: usize = 8;

/// Reads a text. Complaints go to the log; the tree then lacks what they are about.
pub fn parse<'a>(text: &'a str, source: SourceId, log: &mut Log) -> Tree<'a> {
    let tree = Tree { text, source, statements: Vec::new(), values: Vec::new() };
    if text.len() > Sources::MAX_TEXT_BYTES {
        log.push(
            Diagnostic::error("ir/limit", format!("the text has {} bytes", text.len()))
                .at(Span { source, start: 0, end: 0 }, "")
                .allowed(format!("at most {} bytes", Sources::MAX_TEXT_BYTES))
                .instead("a shorter text: loops of the control core instead of repeated steps"),
        );
        return tree;
    }
    let mut lexer = Lexer::new(text);
    let token = lexer.next();
    let mut parser = Parser { lexer, token, tree, blocks: Vec::new(), groups: Vec::new() };
    while !log.is_full() && parser.step(log) {}
    parser.close_all(log);
    parser.tree
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    tree: Tree<'a>,
    /// Indices of statements whose block is open.
    blocks: Vec<usize>,
    /// Indices of opening brackets of the statement at hand.
    groups: Vec<(Bracket, usize)>,
}

impl Parser<'_> {
    fn advance(&mut self) -> Token {
        std::mem::replace(&mut self.token, self.lexer.next())
    }

    fn span(&self, token: Token) -> Span {
        self.tree.span(token.start, token.end)
    }

    /// Reads one statement up to its block, or one sign between statements; false at the end.
    fn step(&mut self, log: &mut Log) -> bool {
        match self.token.kind {
            TokenKind::End => return false,
            TokenKind::LineEnd | TokenKind::Semicolon => {
                self.advance();
            }
            TokenKind::BraceClose => self.close_block(log),
            TokenKind::Value(Kind::Word) => self.statement(log),
            _ => {
                let complaint = self
                    .unexpected("the first word of a statement", "begin with a word, such as `packet 64`");
                log.push(complaint);
                self.skip_statement();
            }
        }
        true
    }

    fn statement(&mut self, log: &mut Log) {
        let head = self.advance();
        let first_value = self.tree.values.len();
        self.groups.clear();
        if let Err(complaint) = self.values() {
            log.push(*complaint);
            self.tree.values.truncate(first_value);
            self.skip_statement();
            return;
        }
        let end_byte = self.tree.values.last().filter(|_| self.tree.values.len() > first_value);
        let end_byte = end_byte.map_or(head.end, |value| value.end);
        let block = self.token.kind == TokenKind::BraceOpen;
        let index = self.tree.statements.len();
        self.tree.statements.push(Statement {
            head_start: head.start,
            head_end: head.end,
            first_value: count(first_value),
            end_value: count(self.tree.values.len()),
            end: count(index + 1),
            end_byte,
            block,
        });
        if block {
            self.open_block(index, log);
        }
    }

    /// Values up to the end of the statement or its block.
    fn values(&mut self) -> Result<(), Box<Diagnostic>> {
        loop {
            match self.token.kind {
                TokenKind::Value(Kind::Open(bracket)) => self.open_group(bracket)?,
                TokenKind::Value(Kind::Close(bracket)) => self.close_group(bracket)?,
                TokenKind::Value(kind) => {
                    let token = self.advance();
                    self.tree.values.push(token.value(kind));
                }
                TokenKind::LineEnd if !self.groups.is_empty() => {
                    self.advance();
                }
                TokenKind::Bad(_) => return Err(Box::new(self.unexpected("a value", "a word or a number"))),
                _ => break,
            }
        }
        match self.groups.last() {
            Some((bracket, _)) => {
                let close = bracket.close();
                Err(Box::new(self.unexpected(&format!("`{close}`"), "close the bracket")))
            }
            None => Ok(()),
        }
    }

    fn open_group(&mut self, bracket: Bracket) -> Result<(), Box<Diagnostic>> {
        if self.groups.len() == MAX_GROUPS {
            return Err(Box::new(self.too_deep("brackets", MAX_GROUPS)));
        }
        let token = self.advance();
        self.groups.push((bracket, self.tree.values.len()));
        self.tree.values.push(token.value(Kind::Open(bracket)));
        Ok(())
    }

    fn close_group(&mut self, bracket: Bracket) -> Result<(), Box<Diagnostic>> {
        let open = match self.groups.last() {
            Some((open, index)) if *open == bracket => *index,
            Some((open, _)) => {
                let close = open.close();
                return Err(Box::new(
                    self.unexpected(&format!("`{close}`"), "close the inner bracket first"),
                ));
            }
            None => return Err(Box::new(self.unexpected("a value", "leave the bracket out"))),
        };
        self.groups.pop();
        let token = self.advance();
        let close = self.tree.values.len();
        self.tree.values.push(token.value(Kind::Close(bracket)));
        if let Some(value) = self.tree.values.get_mut(open) {
            value.data = close as u64;
        }
        Ok(())
    }

    fn open_block(&mut self, index: usize, log: &mut Log) {
        if self.blocks.len() == MAX_BLOCKS {
            let complaint = self.too_deep("blocks", MAX_BLOCKS);
            log.push(complaint);
            self.tree.statements.truncate(index);
            self.skip_statement();
            return;
        }
        self.advance();
        self.blocks.push(index);
    }

    fn close_block(&mut self, log: &mut Log) {
        let Some(index) = self.blocks.pop() else {
            let complaint = self.unexpected("a statement", "leave the `}` out, or open a block before it");
            log.push(complaint);
            self.advance();
            return;
        };
        self.advance();
        self.end_block(index);
    }

    fn end_block(&mut self, index: usize) {
        let end = count(self.tree.statements.len());
        if let Some(statement) = self.tree.statements.get_mut(index) {
            statement.end = end;
        }
    }

    fn close_all(&mut self, log: &mut Log) {
        if let (Some(&index), false) = (self.blocks.last(), log.is_full()) {
            let opened = self.tree.statements.get(index).map(|s| self.tree.span(s.head_start, s.end_byte));
            let complaint = self.unexpected("`}`", "close the block");
            log.push(match opened {
                Some(span) => complaint.also(span, "this block is open"),
                None => complaint,
            });
        }
        while let Some(index) = self.blocks.pop() {
            self.end_block(index);
        }
    }

    /// Leaves out the rest of a statement, its block included.
    fn skip_statement(&mut self) {
        let mut open = 0_usize;
        loop {
            match self.token.kind {
                TokenKind::End => return,
                TokenKind::LineEnd | TokenKind::Semicolon if open == 0 => return,
                TokenKind::BraceClose if open == 0 => return,
                TokenKind::BraceOpen => open += 1,
                TokenKind::BraceClose => open -= 1,
                _ => {}
            }
            self.advance();
        }
    }

    #[cold]
    fn too_deep(&self, what: &str, most: usize) -> Diagnostic {
        Diagnostic::error("ir/limit", format!("more than {most} {what} within one another"))
            .at(self.span(self.token), "")
            .allowed(format!("at most {most}"))
            .instead("a flatter program")
    }

    #[cold]
    fn unexpected(&self, wanted: &str, instead: &str) -> Diagnostic {
        let word = shortened(self.tree.slice(self.token.start, self.token.end));
        let found = match self.token.kind {
            TokenKind::Bad(bad) => return self.bad_token(bad, &word),
            TokenKind::End => "the text ends".to_string(),
            TokenKind::LineEnd => "the line ends".to_string(),
            _ => format!("found `{word}`"),
        };
        Diagnostic::error("ir/syntax", format!("{found} where {wanted} should stand"))
            .at(self.span(self.token), format!("expected {wanted}"))
            .allowed(wanted)
            .instead(instead)
    }

    #[cold]
    fn bad_token(&self, bad: BadToken, word: &str) -> Diagnostic {
        let (what, allowed, instead) = match bad {
            BadToken::Character => (
                format!("no value begins with `{word}`"),
                "words, numbers, \"texts\", brackets and = : , + - * / % < > -> ..",
                "a quoted text, if it is a name",
            ),
            BadToken::OpenText => {
                ("a quoted text does not end".to_string(), "\"...\" on one line", "a quote at its end")
            }
            BadToken::Number => (
                format!("`{word}` is no number"),
                "128, -5, 65_536, 0x1f, 0.125, 1e-3",
                "a blank behind the number, or a quoted text, if it is a name",
            ),
            BadToken::Huge => (
                format!("the number {word} is too large"),
                "at most 18446744073709551615",
                "a number of at most 64 bits",
            ),
        };
        Diagnostic::error("ir/syntax", what).at(self.span(self.token), "").allowed(allowed).instead(instead)
    }
}

/// Texts are shorter than 32 bits count, and so is whatever has a token each.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
