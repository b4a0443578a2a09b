//! Size expressions, with the usual precedence and bounded depth.

use tilewright_base::Diagnostic;

use super::{Parsed, Parser};
use crate::syntax::expr::{Expr, Operator};
use crate::syntax::lexer::{TokenKind, plain_of_superscript};

/// Most nested parentheses of an expression.
const MAX_NESTING: usize = 32;

/// Most operators of an expression between parentheses, so that no tree is deep enough to exhaust a stack.
const MAX_CHAIN: usize = 32;

impl<'a> Parser<'a> {
    /// An expression within an expression.
    pub(super) fn nested(&mut self) -> Parsed<Expr> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(
                self.unexpected(&format!("something simpler (at most {MAX_NESTING} nested parentheses)"))
            );
        }
        let expr = self.expr()?;
        self.nesting -= 1;
        self.after_number = false;
        Ok(expr)
    }

    pub(super) fn braced(&mut self) -> Parsed<Expr> {
        self.expect(TokenKind::BraceOpen, "`{`")?;
        let expr = self.nested()?;
        self.expect(TokenKind::BraceClose, "`}`")?;
        Ok(expr)
    }

    /// A run of superscripts holds an expression of its own, read from its plain spelling.
    pub(super) fn superscript(&mut self) -> Parsed<Expr> {
        let run = self.advance().span;
        let plain: String = self
            .text
            .get(run.range())
            .unwrap_or("")
            .chars()
            .map(|c| plain_of_superscript(c).unwrap_or('/'))
            .collect();
        let mut inner = Parser::new(&plain, run.source, self.example);
        let expr = inner.expr();
        match expr {
            Ok(expr) if inner.token.kind == TokenKind::End => Ok(expr),
            _ => Err(Box::new(
                Diagnostic::error("notation/syntax", format!("the superscript `{plain}` is not a size"))
                    .at(run, "read as this")
                    .allowed("digits, letters and / as superscripts")
                    .instead("^{...} with the size between the braces"),
            )),
        }
    }

    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        let left = self.atom()?;
        if self.operator().is_none() {
            return Ok(left);
        }
        let mut links = 0;
        let product = self.product(left, &mut links)?;
        self.sum(product, &mut links)
    }

    /// The operator that comes next; `2E` means 2*E and has none of its own.
    #[inline]
    pub(super) fn operator(&self) -> Option<Operator> {
        match self.token.kind {
            TokenKind::Plus => Some(Operator::Add),
            TokenKind::Minus => Some(Operator::Subtract),
            TokenKind::Star => Some(Operator::Multiply),
            TokenKind::Slash => Some(Operator::Divide),
            TokenKind::Word | TokenKind::ParenOpen if self.after_number && self.touches() => {
                Some(Operator::Multiply)
            }
            _ => None,
        }
    }

    pub(super) fn sum(&mut self, mut left: Expr, links: &mut usize) -> Parsed<Expr> {
        while let Some(operator @ (Operator::Add | Operator::Subtract)) = self.operator() {
            self.link(links)?;
            self.advance();
            let right = self.atom()?;
            let right = self.product(right, links)?;
            left = Expr::binary(operator, left, right);
        }
        Ok(left)
    }

    pub(super) fn product(&mut self, mut left: Expr, links: &mut usize) -> Parsed<Expr> {
        while let Some(operator @ (Operator::Multiply | Operator::Divide)) = self.operator() {
            self.link(links)?;
            if matches!(self.token.kind, TokenKind::Star | TokenKind::Slash) {
                self.advance();
            }
            left = Expr::binary(operator, left, self.atom()?);
        }
        Ok(left)
    }

    pub(super) fn link(&self, links: &mut usize) -> Parsed<()> {
        *links += 1;
        if *links > MAX_CHAIN { Err(self.unexpected("a shorter expression")) } else { Ok(()) }
    }

    pub(super) fn touches(&self) -> bool {
        self.token.span.start == self.previous.end
    }

    pub(super) fn atom(&mut self) -> Parsed<Expr> {
        self.after_number = false;
        match self.token.kind {
            TokenKind::Number => {
                let value = self.lexer.value;
                self.advance();
                self.after_number = true;
                Ok(Expr::Int(value))
            }
            TokenKind::Word if self.single_letter().is_none() && self.word() == "ceil" => {
                self.advance();
                self.expect(TokenKind::ParenOpen, "`(` after ceil")?;
                self.ceil(TokenKind::ParenClose)
            }
            TokenKind::Word => Ok(Expr::Symbol(self.axis_name()?)),
            TokenKind::CeilOpen => {
                self.advance();
                self.ceil(TokenKind::CeilClose)
            }
            TokenKind::ParenOpen => {
                self.advance();
                let expr = self.nested()?;
                self.expect(TokenKind::ParenClose, "`)`")?;
                Ok(expr)
            }
            TokenKind::Fraction => {
                self.advance();
                let over = self.braced()?;
                Ok(Expr::binary(Operator::Divide, over, self.braced()?))
            }
            TokenKind::HugeNumber => Err(Box::new(
                Diagnostic::error(
                    "notation/number",
                    format!("the number {} does not fit 64 bits", self.word()),
                )
                .at(self.token.span, "")
                .allowed(format!("0 to {}", u64::MAX))
                .instead("a smaller number"),
            )),
            _ => Err(self.unexpected("a size: a number, a symbol, or an expression such as E/4")),
        }
    }

    pub(super) fn ceil(&mut self, close: TokenKind) -> Parsed<Expr> {
        let inner = self.nested()?;
        let Expr::Binary(parts) = inner else {
            return Err(self.unexpected("a division such as E/s inside ceil"));
        };
        if parts.0 != Operator::Divide {
            return Err(self.unexpected("a division such as E/s inside ceil"));
        }
        self.expect(close, "the end of ceil")?;
        Ok(Expr::binary(Operator::CeilDivide, parts.1, parts.2))
    }
}
