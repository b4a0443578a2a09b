//! Lowered shapes, tactics and their terms.

use tilewright_base::Diagnostic;

use super::{Parsed, Parser};
use crate::syntax::ast::{LoweredShape, MAX_TERMS, Place, SyntaxSpan, Tactic, Term};
use crate::syntax::expr::Expr;
use crate::syntax::lexer::TokenKind;

impl<'a> Parser<'a> {
    pub(super) fn lowered(&mut self) -> Parsed<LoweredShape> {
        let start = self.token.span;
        let place = if self.eat(TokenKind::At) { Some(self.place()?) } else { None };
        let inter = self.terms()?;
        self.expect(TokenKind::Bar, "`|` between the inter-slice and the intra-slice part")?;
        let intra = self.terms()?;
        Ok(LoweredShape { place, inter, intra, span: SyntaxSpan(start.to(self.previous)) })
    }

    pub(super) fn place(&mut self) -> Parsed<Place> {
        let place = match (self.token.kind, self.word()) {
            (TokenKind::Word, "dm") => Place::Dm,
            (TokenKind::Word, "trf") => Place::Trf,
            (TokenKind::Word, "vrf") => Place::Vrf,
            _ => return Err(self.unexpected("dm, trf, trf/2 or vrf")),
        };
        self.advance();
        if place == Place::Trf && self.eat(TokenKind::Slash) {
            if self.lexer.value != 2 || self.token.kind != TokenKind::Number {
                return Err(self.unexpected("`2`, for one half of the register files"));
            }
            self.advance();
            return Ok(Place::TrfHalf);
        }
        Ok(place)
    }

    pub(super) fn tactic(&mut self) -> Parsed<Tactic> {
        let start = self.token.span;
        let parallel = self.terms()?;
        self.expect(TokenKind::Bar, "`|` between the parallel loops and the slice tactic")?;
        let slice = self.terms()?;
        let roles = if self.eat(TokenKind::Bar) {
            let lanes = self.terms()?;
            self.expect(TokenKind::Bar, "`|` between lanes and packet (parallel | time | lanes | packet)")?;
            Some((lanes, self.terms()?))
        } else {
            None
        };
        Ok(Tactic { parallel, slice, roles, span: SyntaxSpan(start.to(self.previous)) })
    }

    pub(super) fn terms(&mut self) -> Parsed<Vec<Term>> {
        let mut terms = Vec::new();
        while matches!(self.token.kind, TokenKind::Word | TokenKind::Underscore | TokenKind::ParenOpen) {
            let term = self.term()?;
            if terms.len() == MAX_TERMS {
                return Err(self.too_many("terms on one side of `|`", term.span));
            }
            terms.push(term);
        }
        Ok(terms)
    }

    pub(super) fn term(&mut self) -> Parsed<Term> {
        let start = self.token.span;
        let axis = match self.token.kind {
            TokenKind::Underscore => {
                self.advance();
                None
            }
            // A name of several letters may keep the parentheses that it has in the einsum.
            TokenKind::ParenOpen => {
                self.advance();
                let name = self.axis_name()?;
                self.expect(TokenKind::ParenClose, "`)`")?;
                Some(name)
            }
            _ => Some(self.axis_name()?),
        };
        let stride = match self.token.kind {
            TokenKind::Caret => {
                self.advance();
                if self.token.kind == TokenKind::BraceOpen { self.braced()? } else { self.expr()? }
            }
            TokenKind::Superscript => self.superscript()?,
            _ => Expr::Int(1),
        };
        if axis.is_none() && stride != Expr::Int(1) {
            return Err(Box::new(
                Diagnostic::error("notation/syntax", "copies with a stride")
                    .at(start.to(self.previous), "copies count no axis")
                    .allowed("_[n]")
                    .instead("_[n] for n copies"),
            ));
        }
        self.expect(TokenKind::BracketOpen, "`[` and the size of the digit")?;
        let size = self.expr()?;
        let slots = if self.eat(TokenKind::Hash) {
            Some(if self.token.kind == TokenKind::BracketClose { size.clone() } else { self.expr()? })
        } else {
            None
        };
        self.expect(TokenKind::BracketClose, "`]`")?;
        Ok(Term { axis, stride, size, slots, span: start.to(self.previous) })
    }
}
