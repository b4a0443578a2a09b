//! The file form: an einsum and statements, one to a line or separated by `;`.

use tilewright_base::Diagnostic;

use super::{Parsed, Parser};
use crate::syntax::ast::{Operand, Program, SyntaxSpan};
use crate::syntax::lexer::TokenKind;

impl<'a> Parser<'a> {
    pub(super) fn program(&mut self) -> Parsed<Program> {
        let mut program = Program { einsum: self.einsum()?, ..Program::default() };
        loop {
            if self.token.kind == TokenKind::End {
                return Ok(program);
            }
            if self.token.kind != TokenKind::Semicolon && self.token.kind != TokenKind::LineEnd {
                return Err(self.unexpected("`;` or a new line"));
            }
            while matches!(self.token.kind, TokenKind::Semicolon | TokenKind::LineEnd) {
                self.advance();
            }
            if self.token.kind != TokenKind::End {
                self.statement(&mut program)?;
            }
        }
    }

    pub(super) fn statement(&mut self, program: &mut Program) -> Parsed<()> {
        let keyword = self.token;
        let word = self.keyword();
        match word {
            "dims" => {
                let more = self.dims()?;
                program.dims.extend(more);
                return Ok(());
            }
            "in0" | "in1" | "out" | "tactic" | "dtype" | "stationary" => {}
            _ => {
                self.token = keyword;
                return Err(self.unexpected("dims, in0, in1, out, tactic, dtype or stationary"));
            }
        }
        self.expect(TokenKind::Equals, "`=`")?;
        let repeated = match word {
            "in0" => program.in0.replace(self.lowered()?).is_some(),
            "in1" => program.in1.replace(self.lowered()?).is_some(),
            "out" => program.out.replace(self.lowered()?).is_some(),
            "tactic" => program.tactic.replace(self.tactic()?).is_some(),
            "dtype" => program.dtype.replace(self.dtype()?).is_some(),
            _ => program.stationary.replace(self.stationary()?).is_some(),
        };
        if repeated {
            let twice = Diagnostic::error("notation/repeated", format!("`{word}` is given twice"));
            return Err(Box::new(
                twice.at(keyword.span, "second time").allowed("once").instead("delete one of them"),
            ));
        }
        Ok(())
    }

    /// A word that may end in a digit, such as `in0`; empty if there is none.
    pub(super) fn keyword(&mut self) -> &'a str {
        let start = self.token.span.start as usize;
        if self.token.kind != TokenKind::Word {
            return "";
        }
        self.advance();
        if self.token.kind == TokenKind::Number && self.token.span.start == self.previous.end {
            self.advance();
        }
        self.text.get(start..self.previous.end as usize).unwrap_or("")
    }

    /// A type name such as `int8` or `f8e4m3`: words and numbers that touch.
    pub(super) fn dtype(&mut self) -> Parsed<(String, SyntaxSpan)> {
        if self.token.kind != TokenKind::Word {
            return Err(self.unexpected("an element type such as int8 or bf16"));
        }
        let mut span = self.token.span;
        while matches!(self.token.kind, TokenKind::Word | TokenKind::Number | TokenKind::Underscore)
            && (self.token.span.start == span.end || self.token.span == span)
        {
            span = span.to(self.token.span);
            self.advance();
        }
        Ok((self.text.get(span.range()).unwrap_or("").to_string(), SyntaxSpan(span)))
    }

    pub(super) fn stationary(&mut self) -> Parsed<(Operand, SyntaxSpan)> {
        let start = self.token;
        let operand = match self.keyword() {
            "in0" => Operand::In0,
            "in1" => Operand::In1,
            _ => {
                self.token = start;
                return Err(self.unexpected("in0 or in1"));
            }
        };
        Ok((operand, SyntaxSpan(start.span.to(self.previous))))
    }
}
