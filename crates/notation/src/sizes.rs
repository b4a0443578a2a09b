//! The size table: what `E`, `l` or `s` stand for.
//!
//! The paper writes axes small and sizes large in section II and the other way round in section VI, so a
//! symbol is looked up as written and then without regard to case. An axis given as a range is dynamic: its
//! size is known only at run time, shapes are laid out for its largest size.

use tilewright_base::{Diagnostic, Name, Span};

use crate::syntax::ast::Dim;
use crate::syntax::expr::{Expr, NoValue};

/// Largest size of an axis; coordinates and offsets are then 32-bit numbers.
pub const MAX_EXTENT: u64 = u32::MAX as u64;

/// One symbol with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The symbol.
    pub name: Name,
    /// Least value; below `most` only for dynamic axes.
    pub least: u64,
    /// Largest value, the one that expressions use.
    pub most: u64,
    /// Given as a range.
    pub dynamic: bool,
    /// Where it was given.
    pub span: Span,
}

/// Symbols with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    sizes: Vec<Size>,
}

impl Sizes {
    /// Evaluates the table; later entries may use earlier ones.
    pub fn new(dims: &[Dim]) -> Result<Sizes, Vec<Diagnostic>> {
        let mut table = Sizes { sizes: Vec::with_capacity(dims.len()) };
        let mut complaints = Vec::new();
        for dim in dims {
            match table.entry(dim) {
                Ok(size) => table.sizes.push(size),
                Err(complaint) => complaints.push(*complaint),
            }
        }
        if complaints.is_empty() { Ok(table) } else { Err(complaints) }
    }

    /// A table of one symbol whose size is settled later.
    pub(crate) fn one(name: Name, span: Span) -> Sizes {
        Sizes { sizes: vec![Size { name, least: 1, most: 1, dynamic: false, span }] }
    }

    fn entry(&self, dim: &Dim) -> Result<Size, Box<Diagnostic>> {
        if let Some(before) = self.sizes.iter().find(|size| size.name.same_letters(&dim.name)) {
            let what = format!("`{}` and `{}` are one symbol, given twice", before.name, dim.name);
            return Err(Box::new(
                Diagnostic::error("notation/repeated", what)
                    .at(dim.span, "second time")
                    .also(before.span, "first time")
                    .allowed("one entry for each letter, whatever its case")
                    .instead("delete one, or use another letter"),
            ));
        }
        let (least, most) = (self.value(&dim.least, dim.span)?, self.value(&dim.most, dim.span)?);
        if least == 0 || least > most || most > MAX_EXTENT {
            return Err(Box::new(
                Diagnostic::error(
                    "notation/size",
                    format!(
                        "`{}` has size {}",
                        dim.name,
                        if dim.dynamic { format!("{least}..{most}") } else { most.to_string() }
                    ),
                )
                .at(dim.span, "")
                .allowed(format!("1 to {MAX_EXTENT}, and a range from small to large"))
                .instead(if dim.dynamic {
                    let ends = [least, most].map(|end| end.clamp(1, MAX_EXTENT));
                    format!("{}={}..{}", dim.name, ends[0].min(ends[1]), ends[0].max(ends[1]))
                } else {
                    format!("{}={}", dim.name, most.clamp(1, MAX_EXTENT))
                }),
            ));
        }
        Ok(Size { name: dim.name, least, most, dynamic: dim.dynamic, span: dim.span })
    }

    /// The entry of a symbol, in either case.
    pub fn get(&self, name: Name) -> Option<&Size> {
        self.sizes.iter().find(|size| size.name.same_letters(&name))
    }

    /// The value of an expression, or a complaint that points at `span`.
    pub fn value(&self, expr: &Expr, span: Span) -> Result<u64, Box<Diagnostic>> {
        self.value_with(expr, span, &|name| self.get(name).map(|size| size.most))
    }

    /// The value of an expression under another table of symbols.
    #[inline]
    pub(crate) fn value_with(
        &self,
        expr: &Expr,
        span: Span,
        lookup: &impl Fn(Name) -> Option<u64>,
    ) -> Result<u64, Box<Diagnostic>> {
        match expr {
            Expr::Int(value) => Ok(*value),
            _ => expr.value(lookup).map_err(|why| Box::new(self.complain(expr, span, why))),
        }
    }

    #[cold]
    fn complain(&self, expr: &Expr, span: Span, why: NoValue) -> Diagnostic {
        match why {
            NoValue::Unbound(name) => {
                let known: Vec<String> = self.sizes.iter().map(|size| size.name.to_string()).collect();
                let known = if known.is_empty() { "none yet".to_string() } else { known.join(", ") };
                Diagnostic::error("notation/unbound", format!("`{name}` has no value"))
                    .at(span, format!("`{name}` is not in the size table"))
                    .allowed(format!("symbols of the size table, in either case: {known}"))
                    .instead(format!("add {name}=... to the dims, or write a number"))
            }
            NoValue::NotWhole(over, under) => Diagnostic::error(
                "notation/not-whole",
                format!("{expr} = {over}/{under} is not a whole number"),
            )
            .at(span, format!("leaves a remainder of {}", over % under))
            .allowed(format!("divisors of {over}, or padding"))
            .instead(format!("ceil({expr}) with # for the padding, or a divisor of {over}")),
            NoValue::ByZero => Diagnostic::error("notation/not-whole", format!("{expr} divides by zero"))
                .at(span, "")
                .allowed("a divisor of at least 1")
                .instead("another divisor"),
            NoValue::Overflow => {
                Diagnostic::error("notation/number", format!("{expr} leaves the range of sizes"))
                    .at(span, "")
                    .allowed(format!("0 to {}", u64::MAX))
                    .instead("a smaller size")
            }
        }
    }

    /// All entries in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Size> {
        self.sizes.iter()
    }
}
