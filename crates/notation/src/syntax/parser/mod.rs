//! Tokens to trees. Every reader returns a tree or a complaint with its place; nothing panics.
//!
//! Grammar (after the paper's section II and VI, one language for both cases of its letters):
//!
//! ```text
//! file      := einsum (';' | line end) statement*
//! statement := 'dims' dim (',' dim)*  |  ('in0'|'in1'|'out') '=' lowered  |  'tactic' '=' tactic
//!            | 'dtype' '=' word       |  'stationary' '=' ('in0'|'in1')
//! einsum    := axes [',' axes] ['->' [axes | '()']] ['where' axis '=' axis (',' axis '=' axis)*]
//! axes      := (letter | '(' letter+ ['=' sum] ')') ['_' expr] ...
//! sum       := [number ['*']] letter+ ('+' [number ['*']] letter+)* ['-' number]
//! dim       := word ('=' expr ['..' expr] | '<=' expr)
//! lowered   := ['@' memory] terms '|' terms
//! tactic    := terms '|' terms  |  terms '|' terms '|' terms '|' terms
//! term      := (letter+ | '(' letter+ ')' | '_') ['^' expr] '[' expr ['#' [expr]] ']'
//! expr      := + - * / over numbers, symbols, parentheses, ceil(a/b), \frac{a}{b}
//! ```

mod einsum;
mod expr;
mod file;
mod shape;

use tilewright_base::{Diagnostic, Name, SourceId, Span};

use super::ast::{Dim, Einsum, LoweredShape, Program, Tactic};
use super::lexer::{Lexer, Token, TokenKind};

/// A tree, or why there is none.
pub type Parsed<T> = Result<T, Box<Diagnostic>>;

/// Reads `ble, ef -> blf`.
pub fn einsum(text: &str, source: SourceId) -> Parsed<Einsum> {
    whole(text, source, "ble, ef -> blf", Parser::einsum)
}

/// Reads `b=4,l=1..128`.
pub fn dims(text: &str, source: SourceId) -> Parsed<Vec<Dim>> {
    whole(text, source, "b=4,l=1..128,e=64", Parser::dims)
}

/// Reads `e^{E/4}[4] | b[B] l[L] e[E/4]`.
pub fn lowered_shape(text: &str, source: SourceId) -> Parsed<LoweredShape> {
    whole(text, source, "e^{E/4}[4] | b^1[B] e^1[E/4]", Parser::lowered)
}

/// Reads a tactic of two or four sections.
pub fn tactic(text: &str, source: SourceId) -> Parsed<Tactic> {
    whole(text, source, "e^{E/4}[4] | b^1[B] f^1[F] e^1[E/4]", Parser::tactic)
}

/// Reads the file form.
pub fn program(text: &str, source: SourceId) -> Parsed<Program> {
    whole(text, source, "an einsum, then lines such as dims b=4, in0 = ..., tactic = ...", Parser::program)
}

fn whole<'a, T>(
    text: &'a str,
    source: SourceId,
    example: &'static str,
    read: impl Fn(&mut Parser<'a>) -> Parsed<T>,
) -> Parsed<T> {
    let mut parser = Parser::new(text, source, example);
    parser.skip_line_ends();
    let tree = read(&mut parser)?;
    parser.skip_line_ends();
    match parser.token.kind {
        TokenKind::End => Ok(tree),
        _ => Err(parser.unexpected("the end of the text")),
    }
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    token: Token,
    previous: Span,
    nesting: usize,
    /// The last atom was a number, so that a word right behind it is multiplied.
    after_number: bool,
    /// What the whole text should look like.
    example: &'static str,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, source: SourceId, example: &'static str) -> Parser<'a> {
        let mut lexer = Lexer::new(text, source);
        let token = lexer.next();
        let start = Span { source, start: 0, end: 0 };
        Parser { text, lexer, token, previous: start, nesting: 0, after_number: false, example }
    }

    #[inline]
    fn advance(&mut self) -> Token {
        let token = self.token;
        self.previous = token.span;
        self.token = self.lexer.next();
        token
    }

    /// The first letter of a word; the rest of the word is read again as a token of its own.
    fn first_letter(&mut self) -> Parsed<Name> {
        let start = self.token.span;
        let letter = self.text.as_bytes().get(start.start as usize).copied().and_then(Name::letter);
        let name = letter.ok_or_else(|| self.unexpected("a letter"))?;
        self.previous = Span { end: start.start + 1, ..start };
        self.lexer.go_back_to(self.previous.end);
        self.token = self.lexer.next();
        Ok(name)
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.token.kind == kind;
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, kind: TokenKind, what: &str) -> Parsed<Token> {
        if self.token.kind == kind { Ok(self.advance()) } else { Err(self.unexpected(what)) }
    }

    fn skip_line_ends(&mut self) {
        while self.eat(TokenKind::LineEnd) {}
    }

    fn word(&self) -> &'a str {
        self.text.get(self.token.span.range()).unwrap_or("")
    }

    #[inline]
    fn name(&self, text: &str, span: Span) -> Parsed<Name> {
        Name::new(text).ok_or_else(|| {
            let long =
                Diagnostic::error("notation/name", format!("the name `{text}` has {} letters", text.len()));
            Box::new(
                long.at(span, "").allowed(format!("at most {} letters", Name::MAX_LETTERS)).instead(
                    "a shorter name; separate the axes of an einsum with nothing, terms with spaces",
                ),
            )
        })
    }

    #[cold]
    fn unexpected(&self, wanted: &str) -> Box<Diagnostic> {
        let found = match self.token.kind {
            TokenKind::End => "the text ends".to_string(),
            TokenKind::LineEnd => "the line ends".to_string(),
            _ => format!("found `{}`", self.word()),
        };
        let complaint = Diagnostic::error("notation/syntax", format!("{found} where {wanted} should stand"))
            .at(self.token.span, format!("expected {wanted}"))
            .allowed(wanted)
            .instead(self.example);
        let stray_comment = self.token.kind == TokenKind::Hash;
        Box::new(if stray_comment {
            complaint.with_note("a comment begins with //; # is for padding")
        } else {
            complaint
        })
    }
}
