//! Tokens to trees. Every reader returns what it understood and a list of complaints; nothing panics.
//!
//! Grammar (after the paper's section II and VI, one language for both cases of its letters):
//!
//! ```text
//! file      := einsum (';' | line end) statement*
//! statement := 'dims' dim (',' dim)*  |  ('in0'|'in1'|'out') '=' lowered  |  'tactic' '=' tactic
//!            | 'dtype' '=' word       |  'stationary' '=' ('in0'|'in1')
//! einsum    := axes [',' axes] ['->' axes] ['where' axis '=' axis (',' axis '=' axis)*]
//! axes      := (letter | '(' letter+ ')') ['_' expr] ...
//! dim       := word ('=' expr ['..' expr] | '<=' expr)
//! lowered   := ['@' memory] terms '|' terms
//! tactic    := terms '|' terms  |  terms '|' terms '|' terms '|' terms
//! term      := (letter+ | '(' letter+ ')' | '_') ['^' expr] '[' expr ['#' [expr]] ']'
//! expr      := + - * / over numbers, symbols, parentheses, ceil(a/b), \frac{a}{b}
//! ```

use tilewright_base::{Diagnostic, Name, SourceId, Span};

use super::ast::{
    Dim, Einsum, EinsumAxis, LoweredShape, MAX_TERMS, Operand, Place, Program, SpanOf, Tactic, TensorAxes,
    Term,
};
use super::expr::{Expr, Operator};
use super::lexer::{Kind, Lexer, Token, plain_of_superscript};

/// A tree and the complaints; the tree is meaningful only without errors.
pub type Parsed<T> = Result<T, Box<Diagnostic>>;

/// Most nested parentheses of an expression.
const MAX_NESTING: usize = 32;

/// Most operators of an expression between parentheses, so that no tree is deep enough to exhaust a stack.
const MAX_CHAIN: usize = 32;

/// Reads `ble, ef -> blf`.
pub fn einsum(text: &str, source: SourceId) -> Parsed<Einsum> {
    whole(text, source, Parser::einsum)
}

/// Reads `b=4,l=1..128`.
pub fn dims(text: &str, source: SourceId) -> Parsed<Vec<Dim>> {
    whole(text, source, Parser::dims)
}

/// Reads `e^{E/4}[4] | b[B] l[L] e[E/4]`.
pub fn lowered_shape(text: &str, source: SourceId) -> Parsed<LoweredShape> {
    whole(text, source, Parser::lowered)
}

/// Reads a tactic of two or four sections.
pub fn tactic(text: &str, source: SourceId) -> Parsed<Tactic> {
    whole(text, source, Parser::tactic)
}

/// Reads the file form.
pub fn program(text: &str, source: SourceId) -> Parsed<Program> {
    whole(text, source, Parser::program)
}

fn whole<'a, T>(text: &'a str, source: SourceId, read: impl Fn(&mut Parser<'a>) -> Parsed<T>) -> Parsed<T> {
    let mut parser = Parser::new(text, source);
    parser.skip_line_ends();
    let tree = read(&mut parser)?;
    parser.skip_line_ends();
    match parser.token.kind {
        Kind::End => Ok(tree),
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
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, source: SourceId) -> Parser<'a> {
        let mut lexer = Lexer::new(text, source);
        let token = lexer.next();
        let start = Span { source, start: 0, end: 0 };
        Parser { text, lexer, token, previous: start, nesting: 0, after_number: false }
    }

    // ---- tokens

    #[inline]
    fn advance(&mut self) -> Token {
        let token = self.token;
        self.previous = token.span;
        self.token = self.lexer.next();
        token
    }

    fn eat(&mut self, kind: Kind) -> bool {
        let found = self.token.kind == kind;
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, kind: Kind, what: &str) -> Parsed<Token> {
        if self.token.kind == kind { Ok(self.advance()) } else { Err(self.unexpected(what)) }
    }

    fn skip_line_ends(&mut self) {
        while self.eat(Kind::LineEnd) {}
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
            Kind::End => "the text ends".to_string(),
            Kind::LineEnd => "the line ends".to_string(),
            _ => format!("found `{}`", self.word()),
        };
        Box::new(
            Diagnostic::error("notation/syntax", format!("{found} where {wanted} should stand"))
                .at(self.token.span, format!("expected {wanted}"))
                .allowed("einsum `ble, ef -> blf`; shape `e^{E/4}[4] | b^1[B] e^1[E/4]`; tactic likewise")
                .instead(format!("put {wanted} here")),
        )
    }

    // ---- the file form

    fn program(&mut self) -> Parsed<Program> {
        let mut program = Program { einsum: self.einsum()?, ..Program::default() };
        loop {
            if self.token.kind == Kind::End {
                return Ok(program);
            }
            if self.token.kind != Kind::Semicolon && self.token.kind != Kind::LineEnd {
                return Err(self.unexpected("`;` or a new line"));
            }
            while matches!(self.token.kind, Kind::Semicolon | Kind::LineEnd) {
                self.advance();
            }
            if self.token.kind != Kind::End {
                self.statement(&mut program)?;
            }
        }
    }

    fn statement(&mut self, program: &mut Program) -> Parsed<()> {
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
        self.expect(Kind::Equals, "`=`")?;
        let repeated = match word {
            "in0" => program.in0.replace(self.lowered()?).is_some(),
            "in1" => program.in1.replace(self.lowered()?).is_some(),
            "out" => program.out.replace(self.lowered()?).is_some(),
            "tactic" => program.tactic.replace(self.tactic()?).is_some(),
            "dtype" => program.dtype.replace(self.dtype()).is_some(),
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
    fn keyword(&mut self) -> &'a str {
        let start = self.token.span.start as usize;
        if self.token.kind != Kind::Word {
            return "";
        }
        self.advance();
        if self.token.kind == Kind::Number && self.token.span.start == self.previous.end {
            self.advance();
        }
        self.text.get(start..self.previous.end as usize).unwrap_or("")
    }

    /// A type name such as `int8` or `f8e4m3`: words and numbers that touch.
    fn dtype(&mut self) -> (String, SpanOf) {
        let mut span = self.token.span;
        while matches!(self.token.kind, Kind::Word | Kind::Number | Kind::Underscore)
            && (self.token.span.start == span.end || self.token.span == span)
        {
            span = span.to(self.token.span);
            self.advance();
        }
        (self.text.get(span.range()).unwrap_or("").to_string(), SpanOf(span))
    }

    fn stationary(&mut self) -> Parsed<(Operand, SpanOf)> {
        let start = self.token;
        let operand = match self.keyword() {
            "in0" => Operand::In0,
            "in1" => Operand::In1,
            _ => {
                self.token = start;
                return Err(self.unexpected("in0 or in1"));
            }
        };
        Ok((operand, SpanOf(start.span.to(self.previous))))
    }

    // ---- einsum and size table

    fn einsum(&mut self) -> Parsed<Einsum> {
        let start = self.token.span;
        let mut einsum = Einsum { in0: self.tensor_axes()?, ..Einsum::default() };
        if self.eat(Kind::Comma) {
            einsum.in1 = Some(self.tensor_axes()?);
            if self.token.kind == Kind::Comma {
                let many = Diagnostic::error("notation/syntax", "an einsum of three or more inputs");
                return Err(Box::new(
                    many.at(self.token.span, "a third input")
                        .allowed("one or two inputs: a contraction engine takes a stream and a register file")
                        .instead("contract two of them first, then the result with the third"),
                ));
            }
        }
        if self.eat(Kind::Arrow) {
            einsum.out = Some(self.tensor_axes()?);
        } else if einsum.in1.is_some() {
            return Err(self.unexpected("`->` and the axes of the output"));
        }
        if self.token.kind == Kind::Word && self.word() == "where" {
            self.advance();
            self.same_pairs(&mut einsum)?;
        }
        einsum.span = SpanOf(start.to(self.previous));
        Ok(einsum)
    }

    fn same_pairs(&mut self, einsum: &mut Einsum) -> Parsed<()> {
        loop {
            let one = self.axis_name()?;
            self.expect(Kind::Equals, "`=`")?;
            let other = self.axis_name()?;
            if einsum.same.len() == MAX_TERMS {
                return Err(self.too_many("pairs of axes after `where`", self.previous));
            }
            einsum.same.push((one, other));
            if !self.eat(Kind::Comma) {
                return Ok(());
            }
        }
    }

    #[inline]
    fn axis_name(&mut self) -> Parsed<Name> {
        let token = self.token;
        if token.kind != Kind::Word {
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
    fn single_letter(&self) -> Option<Name> {
        let span = self.token.span;
        if span.end - span.start != 1 {
            return None;
        }
        Name::letter(*self.text.as_bytes().get(span.start as usize)?)
    }

    fn tensor_axes(&mut self) -> Parsed<TensorAxes> {
        let start = self.token.span;
        let mut tensor = TensorAxes::default();
        loop {
            match self.token.kind {
                Kind::Word if self.word() == "where" && !tensor.axes.is_empty() => break,
                Kind::Word => self.axis_letters(&mut tensor)?,
                Kind::ParenOpen => {
                    let open = self.advance().span;
                    let name = self.axis_name()?;
                    let close = self.expect(Kind::ParenClose, "`)`")?.span;
                    self.push_axis(&mut tensor, name, open.to(close))?;
                }
                Kind::Underscore | Kind::Subscript if !tensor.axes.is_empty() => {
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
        tensor.span = SpanOf(start.to(self.previous));
        Ok(tensor)
    }

    fn axis_letters(&mut self, tensor: &mut TensorAxes) -> Parsed<()> {
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

    fn push_axis(&self, tensor: &mut TensorAxes, name: Name, span: Span) -> Parsed<()> {
        if tensor.axes.len() == MAX_TERMS {
            return Err(self.too_many("axes of a tensor", span));
        }
        tensor.axes.push(EinsumAxis { name, pes: None, span });
        Ok(())
    }

    #[cold]
    fn too_many(&self, what: &str, span: Span) -> Box<Diagnostic> {
        let many = Diagnostic::error("notation/too-many", format!("more than {MAX_TERMS} {what}"));
        Box::new(many.at(span, "one too many").allowed(format!("{MAX_TERMS}")).instead("merge neighbours"))
    }

    fn subscript(&mut self) -> Parsed<Expr> {
        if self.token.kind == Kind::Subscript {
            let value = self.lexer.value;
            self.advance();
            return Ok(Expr::Int(value));
        }
        self.expect(Kind::Underscore, "`_`")?;
        if self.token.kind == Kind::BraceOpen {
            return self.braced();
        }
        self.atom()
    }

    fn dims(&mut self) -> Parsed<Vec<Dim>> {
        let mut dims = Vec::with_capacity(8);
        loop {
            let start = self.token.span;
            let name = self.axis_name()?;
            let dim = if self.eat(Kind::AtMost) {
                let most = self.expr()?;
                Dim { name, least: Expr::Int(1), most, dynamic: true, span: start.to(self.previous) }
            } else {
                self.expect(Kind::Equals, "`=`")?;
                let least = self.expr()?;
                let dynamic = self.eat(Kind::DotDot);
                let most = if dynamic { self.expr()? } else { least.clone() };
                Dim { name, least, most, dynamic, span: start.to(self.previous) }
            };
            dims.push(dim);
            let comma = self.eat(Kind::Comma);
            if !comma && self.token.kind != Kind::Word {
                return Ok(dims);
            }
        }
    }

    // ---- shapes and tactics

    fn lowered(&mut self) -> Parsed<LoweredShape> {
        let start = self.token.span;
        let place = if self.eat(Kind::At) { Some(self.place()?) } else { None };
        let inter = self.terms()?;
        self.expect(Kind::Bar, "`|` between the inter-slice and the intra-slice part")?;
        let intra = self.terms()?;
        Ok(LoweredShape { place, inter, intra, span: SpanOf(start.to(self.previous)) })
    }

    fn place(&mut self) -> Parsed<Place> {
        let place = match (self.token.kind, self.word()) {
            (Kind::Word, "dm") => Place::Dm,
            (Kind::Word, "trf") => Place::Trf,
            (Kind::Word, "vrf") => Place::Vrf,
            _ => return Err(self.unexpected("dm, trf, trf/2 or vrf")),
        };
        self.advance();
        if place == Place::Trf && self.eat(Kind::Slash) {
            if self.lexer.value != 2 || self.token.kind != Kind::Number {
                return Err(self.unexpected("`2`, for one half of the register files"));
            }
            self.advance();
            return Ok(Place::TrfHalf);
        }
        Ok(place)
    }

    fn tactic(&mut self) -> Parsed<Tactic> {
        let start = self.token.span;
        let parallel = self.terms()?;
        self.expect(Kind::Bar, "`|` between the parallel loops and the slice tactic")?;
        let slice = self.terms()?;
        let roles = if self.eat(Kind::Bar) {
            let lanes = self.terms()?;
            self.expect(Kind::Bar, "`|` between lanes and packet (parallel | time | lanes | packet)")?;
            Some((lanes, self.terms()?))
        } else {
            None
        };
        Ok(Tactic { parallel, slice, roles, span: SpanOf(start.to(self.previous)) })
    }

    fn terms(&mut self) -> Parsed<Vec<Term>> {
        let mut terms = Vec::new();
        while matches!(self.token.kind, Kind::Word | Kind::Underscore | Kind::ParenOpen) {
            let term = self.term()?;
            if terms.len() == MAX_TERMS {
                return Err(self.too_many("terms on one side of `|`", term.span));
            }
            terms.push(term);
        }
        Ok(terms)
    }

    fn term(&mut self) -> Parsed<Term> {
        let start = self.token.span;
        let axis = match self.token.kind {
            Kind::Underscore => {
                self.advance();
                None
            }
            // A name of several letters may keep the parentheses that it has in the einsum.
            Kind::ParenOpen => {
                self.advance();
                let name = self.axis_name()?;
                self.expect(Kind::ParenClose, "`)`")?;
                Some(name)
            }
            _ => Some(self.axis_name()?),
        };
        let stride = match self.token.kind {
            Kind::Caret => {
                self.advance();
                if self.token.kind == Kind::BraceOpen { self.braced()? } else { self.expr()? }
            }
            Kind::Superscript => self.superscript()?,
            _ => Expr::Int(1),
        };
        self.expect(Kind::BracketOpen, "`[` and the size of the digit")?;
        let size = self.expr()?;
        let slots = if self.eat(Kind::Hash) {
            Some(if self.token.kind == Kind::BracketClose { size.clone() } else { self.expr()? })
        } else {
            None
        };
        self.expect(Kind::BracketClose, "`]`")?;
        Ok(Term { axis, stride, size, slots, span: start.to(self.previous) })
    }

    // ---- expressions

    /// An expression within an expression.
    fn nested(&mut self) -> Parsed<Expr> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(
                self.unexpected(&format!("at most {MAX_NESTING} nested parentheses, so something simpler"))
            );
        }
        let expr = self.expr()?;
        self.nesting -= 1;
        self.after_number = false;
        Ok(expr)
    }

    fn braced(&mut self) -> Parsed<Expr> {
        self.expect(Kind::BraceOpen, "`{`")?;
        let expr = self.nested()?;
        self.expect(Kind::BraceClose, "`}`")?;
        Ok(expr)
    }

    /// A run of superscripts holds an expression of its own, read from its plain spelling.
    fn superscript(&mut self) -> Parsed<Expr> {
        let run = self.advance().span;
        let plain: String = self
            .text
            .get(run.range())
            .unwrap_or("")
            .chars()
            .map(|c| plain_of_superscript(c).unwrap_or('/'))
            .collect();
        let mut inner = Parser::new(&plain, run.source);
        let expr = inner.expr();
        match expr {
            Ok(expr) if inner.token.kind == Kind::End => Ok(expr),
            _ => Err(Box::new(
                Diagnostic::error("notation/syntax", format!("the superscript `{plain}` is not a size"))
                    .at(run, "read as this")
                    .allowed("digits, letters and / as superscripts")
                    .instead("^{...} with the size between the braces"),
            )),
        }
    }

    fn expr(&mut self) -> Parsed<Expr> {
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
    fn operator(&self) -> Option<Operator> {
        match self.token.kind {
            Kind::Plus => Some(Operator::Add),
            Kind::Minus => Some(Operator::Subtract),
            Kind::Star => Some(Operator::Multiply),
            Kind::Slash => Some(Operator::Divide),
            Kind::Word | Kind::ParenOpen if self.after_number && self.touches() => Some(Operator::Multiply),
            _ => None,
        }
    }

    fn sum(&mut self, mut left: Expr, links: &mut usize) -> Parsed<Expr> {
        while let Some(operator @ (Operator::Add | Operator::Subtract)) = self.operator() {
            self.link(links)?;
            self.advance();
            let right = self.atom()?;
            let right = self.product(right, links)?;
            left = Expr::binary(operator, left, right);
        }
        Ok(left)
    }

    fn product(&mut self, mut left: Expr, links: &mut usize) -> Parsed<Expr> {
        while let Some(operator @ (Operator::Multiply | Operator::Divide)) = self.operator() {
            self.link(links)?;
            if matches!(self.token.kind, Kind::Star | Kind::Slash) {
                self.advance();
            }
            left = Expr::binary(operator, left, self.atom()?);
        }
        Ok(left)
    }

    fn link(&self, links: &mut usize) -> Parsed<()> {
        *links += 1;
        if *links > MAX_CHAIN { Err(self.unexpected("a shorter expression")) } else { Ok(()) }
    }

    fn touches(&self) -> bool {
        self.token.span.start == self.previous.end
    }

    fn atom(&mut self) -> Parsed<Expr> {
        self.after_number = false;
        match self.token.kind {
            Kind::Number => {
                let value = self.lexer.value;
                self.advance();
                self.after_number = true;
                Ok(Expr::Int(value))
            }
            Kind::Word if self.single_letter().is_none() && self.word() == "ceil" => {
                self.advance();
                self.expect(Kind::ParenOpen, "`(` after ceil")?;
                self.ceil(Kind::ParenClose)
            }
            Kind::Word => Ok(Expr::Symbol(self.axis_name()?)),
            Kind::CeilOpen => {
                self.advance();
                self.ceil(Kind::CeilClose)
            }
            Kind::ParenOpen => {
                self.advance();
                let expr = self.nested()?;
                self.expect(Kind::ParenClose, "`)`")?;
                Ok(expr)
            }
            Kind::Fraction => {
                self.advance();
                let over = self.braced()?;
                Ok(Expr::binary(Operator::Divide, over, self.braced()?))
            }
            Kind::HugeNumber => Err(Box::new(
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

    fn ceil(&mut self, close: Kind) -> Parsed<Expr> {
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
