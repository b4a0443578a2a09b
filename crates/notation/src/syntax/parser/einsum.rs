//! Einsums and size tables.

use tilewright_base::{Diagnostic, Name, Span};

use super::{Parsed, Parser};
use crate::syntax::ast::{Dim, Einsum, EinsumAxis, MAX_TERMS, SyntaxSpan, TensorAxes, WindowSum};
use crate::syntax::expr::Expr;
use crate::syntax::lexer::TokenKind;

impl<'a> Parser<'a> {
    pub(super) fn einsum(&mut self) -> Parsed<Einsum> {
        let start = self.token.span;
        let mut einsum = Einsum { in0: self.tensor_axes()?, ..Einsum::default() };
        if self.eat(TokenKind::Comma) {
            einsum.in1 = Some(self.tensor_axes()?);
            if self.token.kind == TokenKind::Comma {
                let many = Diagnostic::error("notation/syntax", "an einsum of three or more inputs");
                return Err(Box::new(
                    many.at(self.token.span, "a third input")
                        .allowed("one or two inputs: a contraction engine takes a stream and a register file")
                        .instead("contract two of them first, then the result with the third"),
                ));
            }
        }
        if self.eat(TokenKind::Arrow) {
            einsum.out = Some(if self.scalar() { TensorAxes::default() } else { self.tensor_axes()? });
        } else if einsum.in1.is_some() {
            return Err(self.unexpected("`->` and the axes of the output"));
        }
        if self.at_where() {
            self.advance();
            self.same_pairs(&mut einsum)?;
        }
        einsum.span = SyntaxSpan(start.to(self.previous));
        Ok(einsum)
    }

    /// Nothing behind the arrow is a scalar, as in np.einsum; so is `()`.
    fn scalar(&mut self) -> bool {
        let closed = self.text.as_bytes().get(self.token.span.end as usize) == Some(&b')');
        if self.token.kind == TokenKind::ParenOpen && closed {
            self.advance();
            self.advance();
            return true;
        }
        matches!(self.token.kind, TokenKind::End | TokenKind::LineEnd | TokenKind::Semicolon)
    }

    /// The word `where` set off by a blank; without one its letters are axes.
    fn at_where(&self) -> bool {
        self.token.kind == TokenKind::Word
            && self.word() == "where"
            && !self.touches()
            && self.previous.end > 0
    }

    pub(super) fn same_pairs(&mut self, einsum: &mut Einsum) -> Parsed<()> {
        loop {
            let one = self.axis_name()?;
            self.expect(TokenKind::Equals, "`=`")?;
            let other = self.axis_name()?;
            if einsum.same.len() == MAX_TERMS {
                return Err(self.too_many("pairs of axes after `where`", self.previous));
            }
            einsum.same.push((one, other));
            if !self.eat(TokenKind::Comma) {
                return Ok(());
            }
        }
    }

    #[inline]
    pub(super) fn axis_name(&mut self) -> Parsed<Name> {
        let token = self.token;
        if token.kind != TokenKind::Word {
            return Err(self.unexpected("the name of an axis"));
        }
        let name = match self.single_letter() {
            Some(name) => name,
            None => self.name(self.word(), token.span)?,
        };
        self.advance();
        Ok(name)
    }

    /// The name of a word of one letter, as nearly all are.
    #[inline]
    pub(super) fn single_letter(&self) -> Option<Name> {
        let span = self.token.span;
        if span.end - span.start != 1 {
            return None;
        }
        Name::letter(*self.text.as_bytes().get(span.start as usize)?)
    }

    pub(super) fn tensor_axes(&mut self) -> Parsed<TensorAxes> {
        let start = self.token.span;
        let mut tensor = TensorAxes::default();
        loop {
            match self.token.kind {
                TokenKind::Word if self.at_where() && !tensor.axes.is_empty() => break,
                TokenKind::Word => self.axis_letters(&mut tensor)?,
                TokenKind::ParenOpen => {
                    let open = self.advance().span;
                    let name = self.axis_name()?;
                    let window = if self.eat(TokenKind::Equals) { Some(self.window_sum()?) } else { None };
                    let close = self.expect(TokenKind::ParenClose, "`)`")?.span;
                    self.push_axis(&mut tensor, name, open.to(close))?;
                    if let Some(axis) = tensor.axes.last_mut() {
                        axis.window = window;
                    }
                }
                TokenKind::Underscore | TokenKind::Subscript if !tensor.axes.is_empty() => {
                    let pes = self.subscript()?;
                    if let Some(axis) = tensor.axes.last_mut() {
                        axis.pes = Some(pes);
                        axis.span = axis.span.to(self.previous);
                    }
                }
                _ => break,
            }
        }
        if tensor.axes.is_empty() {
            return Err(self.unexpected("the axes of a tensor, such as `ble`"));
        }
        tensor.span = SyntaxSpan(start.to(self.previous));
        Ok(tensor)
    }

    /// `2x+r-1`: loops with factors, then what lies before the start.
    fn window_sum(&mut self) -> Parsed<WindowSum> {
        let mut sum = WindowSum::default();
        loop {
            let factor = if self.token.kind == TokenKind::Number {
                let factor = self.lexer.value;
                self.advance();
                self.eat(TokenKind::Star);
                factor
            } else {
                1
            };
            if self.token.kind != TokenKind::Word {
                return Err(self.unexpected("a loop of the window, such as x or 2x"));
            }
            let name = self.axis_name()?;
            if sum.terms.len() == MAX_TERMS {
                return Err(self.too_many("terms of a window", self.previous));
            }
            sum.terms.push((factor, name));
            if !self.eat(TokenKind::Plus) {
                break;
            }
        }
        if self.eat(TokenKind::Minus) {
            if self.token.kind != TokenKind::Number {
                return Err(self.unexpected("the number of positions before the start"));
            }
            sum.before = self.lexer.value;
            self.advance();
        }
        Ok(sum)
    }

    pub(super) fn axis_letters(&mut self, tensor: &mut TensorAxes) -> Parsed<()> {
        let span = self.token.span;
        let word = self.word();
        self.advance();
        for (index, letter) in (0_u32..).zip(word.bytes()) {
            let at = Span { start: span.start + index, end: span.start + index + 1, ..span };
            let name = Name::letter(letter).ok_or_else(|| self.unexpected("a letter"))?;
            self.push_axis(tensor, name, at)?;
        }
        Ok(())
    }

    pub(super) fn push_axis(&self, tensor: &mut TensorAxes, name: Name, span: Span) -> Parsed<()> {
        if tensor.axes.len() == MAX_TERMS {
            return Err(self.too_many("axes of a tensor", span));
        }
        tensor.axes.push(EinsumAxis { name, pes: None, window: None, span });
        Ok(())
    }

    #[cold]
    pub(super) fn too_many(&self, what: &str, span: Span) -> Box<Diagnostic> {
        let many = Diagnostic::error("notation/too-many", format!("more than {MAX_TERMS} {what}"));
        Box::new(many.at(span, "one too many").allowed(format!("{MAX_TERMS}")).instead("merge neighbours"))
    }

    pub(super) fn subscript(&mut self) -> Parsed<Expr> {
        if self.token.kind == TokenKind::Subscript {
            let value = self.lexer.value;
            self.advance();
            return Ok(Expr::Int(value));
        }
        self.expect(TokenKind::Underscore, "`_`")?;
        match self.token.kind {
            TokenKind::BraceOpen => self.braced(),
            // As in TeX, a bare subscript is one letter or number: `L_nE` is L over n, then E.
            TokenKind::Word => self.first_letter().map(Expr::Symbol),
            _ => self.atom(),
        }
    }

    pub(super) fn dims(&mut self) -> Parsed<Vec<Dim>> {
        let mut dims = Vec::with_capacity(8);
        loop {
            let start = self.token.span;
            let name = self.axis_name()?;
            let dim = if self.eat(TokenKind::AtMost) {
                let most = self.expr()?;
                Dim { name, least: Expr::Int(1), most, dynamic: true, span: start.to(self.previous) }
            } else {
                self.expect(TokenKind::Equals, "`=`")?;
                let least = self.expr()?;
                let dynamic = self.eat(TokenKind::DotDot);
                let most = if dynamic { self.expr()? } else { least.clone() };
                Dim { name, least, most, dynamic, span: start.to(self.previous) }
            };
            dims.push(dim);
            let comma = self.eat(TokenKind::Comma);
            if !comma && self.token.kind != TokenKind::Word {
                return Ok(dims);
            }
        }
    }
}
