//! A text to its graph, verified. Complaints point at the statement that they are about.

use std::collections::BTreeMap;
use tilewright_base::invariant::OrBroken;

use tilewright_base::{Diagnostic, SourceId, Span};
use tilewright_ir::args::unknown_word;
use tilewright_ir::{Args, Bracket, Kind, Log, Node as Statement, Read, Sign, parser};

use crate::dim::{Axis, AxisId, Dim};
use crate::dtype::Dtype;
use crate::graph::{Constant, Data, Graph, GraphOutput, GraphState, Node, Type, Value, ValueId};
use crate::op::{Binary, Fold, Op, Unary};
use crate::rich::{Attr, Attrs, RichOp};
use crate::verify::{GraphPlace, verify};

const HEADS: [&str; 8] = ["graph", "name", "axis", "input", "const", "let", "output", "state"];

/// Reads a text.
///
/// # Errors
/// With every complaint about the text, or about the graph that it describes.
pub fn read(text: &str, source: SourceId) -> Result<Graph, Vec<Diagnostic>> {
    let mut log = Log::default();
    let tree = parser::parse(text, source, &mut log);
    let mut reader = Reader::default();
    let mut statements = tree.statements();
    let first = statements.next();
    if first.is_none_or(|first| first.head().text != "graph") {
        let span = first.map_or(tree.end_span(), |first| first.span());
        let complaint = Diagnostic::error("ir/field", "the text does not begin with `graph 1`").at(span, "");
        log.push(complaint.allowed("graph 1").instead("put `graph 1` into the first line"));
    }
    for statement in tree.statements() {
        if log.is_full() {
            break;
        }
        let read = reader.statement(statement);
        log.keep(read);
    }
    if !log.is_empty() {
        return Err(log.into_complaints());
    }
    let mut complaints = Vec::new();
    for (place, complaint) in verify(&reader.graph) {
        let span = reader.span(place).unwrap_or_else(|| tree.end_span());
        complaints.push(complaint.at(span, ""));
    }
    if complaints.is_empty() { Ok(crate::prune::canonical(reader.graph)) } else { Err(complaints) }
}

/// A size: a sum of products of numbers and these axes.
///
/// # Errors
/// What else is written there.
pub fn dim(args: &mut Args<'_>, axes: &[Axis]) -> Read<Dim> {
    let here = args.clone();
    let huge = || here.expected("a size of fewer terms and 64 bits");
    let mut sum = Dim::default();
    let mut sign = if args.eat(Sign::Minus) { -1 } else { 1 };
    loop {
        let mut product = Dim::fixed(sign);
        loop {
            product = product.times(&factor(args, axes)?).ok_or_else(huge)?;
            if !args.eat(Sign::Star) {
                break;
            }
        }
        sum = sum.plus(&product).ok_or_else(huge)?;
        sign = if args.eat(Sign::Plus) {
            1
        } else if args.eat(Sign::Minus) {
            -1
        } else {
            return Ok(sum);
        };
    }
}

fn factor(args: &mut Args<'_>, axes: &[Axis]) -> Read<Dim> {
    if let Some(Kind::Integer { .. }) = args.kind() {
        return Ok(Dim::fixed(args.signed("a size")?));
    }
    let name = args.name("a size: a number or the name of an axis")?;
    let found = axes.iter().position(|axis| axis.name == name.text);
    match found.and_then(|at| u32::try_from(at).ok()) {
        Some(at) => Ok(Dim::axis(AxisId(at))),
        None => {
            let word = tilewright_ir::Word { text: &name.text, span: name.span };
            Err(unknown_word(word, "axis", axes.iter().map(|axis| axis.name.as_str())))
        }
    }
}

#[derive(Default)]
struct Reader {
    graph: Graph,
    by_name: BTreeMap<String, ValueId>,
    /// Where each node, constant and input is written.
    nodes: Vec<Span>,
    values: Vec<Span>,
    outputs: Vec<Span>,
    axes: Vec<Span>,
}

impl Reader {
    fn span(&self, place: GraphPlace) -> Option<Span> {
        match place {
            GraphPlace::Node(at) => self.nodes.get(at),
            GraphPlace::Value(id) => self.values.get(id.index()),
            GraphPlace::Output(at) => self.outputs.get(at),
            GraphPlace::Axis(at) => self.axes.get(at),
        }
        .copied()
    }

    fn statement(&mut self, statement: Statement<'_>) -> Read<()> {
        statement.leaf(|args| match statement.head().text {
            "graph" => match args.unsigned("the version of the grammar")? {
                1 => Ok(()),
                _ => Err(Box::new(
                    Diagnostic::error("ir/value", "another version of the grammar")
                        .at(statement.span(), "")
                        .allowed("1"),
                )),
            },
            "name" => {
                self.graph.name = args.name("the name of the model")?.text.into_owned();
                Ok(())
            }
            "axis" => self.axis(args, statement.span()),
            "input" => {
                let id = self.define(args, statement.span())?;
                self.graph.inputs.push(id);
                Ok(())
            }
            "const" => self.constant(args, statement.span()),
            "let" => self.node(args, statement.span()),
            "output" => {
                let name = args.name("the name of an output")?.text.into_owned();
                args.sign(Sign::Equals)?;
                let value = self.value(args)?;
                self.graph.outputs.push(GraphOutput { name, value });
                self.outputs.push(statement.span());
                Ok(())
            }
            "state" => self.state(args),
            _ => Err(statement.unknown(&HEADS)),
        })
    }

    fn axis(&mut self, args: &mut Args<'_>, span: Span) -> Read<()> {
        let name = args.name("the name of an axis")?.text.into_owned();
        let least = args.unsigned("the smallest size")?;
        args.sign(Sign::Range)?;
        let most = args.unsigned("the largest size")?;
        self.graph.axes.push(Axis { name, least, most });
        self.axes.push(span);
        Ok(())
    }

    fn define(&mut self, args: &mut Args<'_>, span: Span) -> Read<ValueId> {
        let name = args.name("the name of a value")?;
        args.sign(Sign::Colon)?;
        let ty = self.ty(args)?;
        let id =
            ValueId(u32::try_from(self.graph.values.len()).or_broken("a text has fewer values than bytes"));
        self.by_name.entry(name.text.to_string()).or_insert(id);
        self.graph.values.push(Value { name: name.text.into_owned(), ty });
        self.values.push(span);
        Ok(id)
    }

    fn ty(&self, args: &mut Args<'_>) -> Read<Type> {
        let names: Vec<(&'static str, Dtype)> =
            Dtype::ALL.iter().map(|dtype| (dtype.name(), *dtype)).collect();
        let dtype = args.one_of("element type", &names)?;
        let dims = args.list("sizes in square brackets", |args| self.dim(args))?;
        Ok(Type { dtype, dims })
    }

    fn dim(&self, args: &mut Args<'_>) -> Read<Dim> {
        dim(args, &self.graph.axes)
    }

    fn value(&self, args: &mut Args<'_>) -> Read<ValueId> {
        let name = args.name("the name of a value")?;
        self.by_name.get(name.text.as_ref()).copied().ok_or_else(|| {
            let near = tilewright_base::nearest::nearest(&name.text, self.by_name.keys().map(String::as_str));
            let complaint = Diagnostic::error("graph/order", format!("`{}` is not defined above", name.text));
            Box::new(
                complaint
                    .at(name.span, "")
                    .allowed("values that are defined before they are used")
                    .instead(near),
            )
        })
    }

    fn constant(&mut self, args: &mut Args<'_>, span: Span) -> Read<()> {
        let value = self.define(args, span)?;
        args.sign(Sign::Equals)?;
        let float = self.graph.value(value).is_some_and(|value| value.ty.dtype.is_float());
        let data = if args.eat_word("stored") {
            Data::Stored(args.name("the name of a tensor")?.text.into_owned())
        } else if float {
            Data::Floats(args.list("elements", |args| args.f32_pattern("a float"))?)
        } else {
            Data::Ints(args.list("elements", |args| args.signed("a whole number"))?)
        };
        self.graph.constants.push(Constant { value, data });
        Ok(())
    }

    fn state(&mut self, args: &mut Args<'_>) -> Read<()> {
        let input = self.value(args)?;
        args.sign(Sign::Arrow)?;
        let here = args.clone();
        let name = args.name("the name of an output")?;
        let output = self.graph.output(&name.text).ok_or_else(|| here.expected("the name of an output"))?;
        self.graph.states.push(GraphState { input, output });
        Ok(())
    }

    fn node(&mut self, args: &mut Args<'_>, span: Span) -> Read<()> {
        let mut outputs = vec![self.define_later(args)?];
        while args.eat(Sign::Comma) {
            outputs.push(self.define_later(args)?);
        }
        let ty = outputs.first().map(|output| output.1.clone());
        let ty = ty.unwrap_or(Type { dtype: Dtype::F32, dims: Vec::new() });
        // What a wrong line defines is defined all the same, so that no other line is blamed.
        let read = self.operator(args, &ty);
        let mut ids = Vec::new();
        for (name, ty) in outputs {
            let id = ValueId(
                u32::try_from(self.graph.values.len()).or_broken("a text has fewer values than bytes"),
            );
            self.by_name.entry(name.clone()).or_insert(id);
            self.graph.values.push(Value { name, ty });
            self.values.push(span);
            ids.push(id);
        }
        let (op, inputs) = read?;
        self.graph.nodes.push(Node { op, inputs, outputs: ids });
        self.nodes.push(span);
        Ok(())
    }

    /// What is behind the equals sign.
    fn operator(&self, args: &mut Args<'_>, ty: &Type) -> Read<(Op, Vec<Option<ValueId>>)> {
        args.sign(Sign::Equals)?;
        let word = args.word("an operator")?;
        let mut inner = args.bracketed(Bracket::Round, "operands in round brackets")?;
        let mut inputs = Vec::new();
        while !inner.is_empty() {
            inputs.push(if inner.eat_word("_") { None } else { Some(self.value(&mut inner)?) });
            if !inner.is_empty() {
                inner.sign(Sign::Comma)?;
            }
        }
        Ok((self.op(word, ty, args)?, inputs))
    }

    /// A result; it can be used behind its statement only.
    fn define_later(&self, args: &mut Args<'_>) -> Read<(String, Type)> {
        let name = args.name("the name of a value")?.text.into_owned();
        args.sign(Sign::Colon)?;
        Ok((name, self.ty(args)?))
    }

    fn op(&self, word: tilewright_ir::Word<'_>, ty: &Type, args: &mut Args<'_>) -> Read<Op> {
        if let Some(unary) = Unary::by_name(word.text) {
            return Ok(Op::Unary(unary));
        }
        if let Some(binary) = Binary::by_name(word.text) {
            return Ok(Op::Binary(binary));
        }
        if let Some(rich) = RichOp::by_name(word.text) {
            return Ok(Op::Rich(rich, attributes(args)?));
        }
        let axis = |args: &mut Args<'_>| -> Read<usize> {
            args.named("axis")?;
            args.integer("an axis")
        };
        let numbers = |args: &mut Args<'_>, name: &str| -> Read<Vec<usize>> {
            args.named(name)?;
            args.list("axes", |args| args.integer("an axis"))
        };
        Ok(match word.text {
            "select" => Op::Select,
            "convert" => Op::Convert(ty.dtype),
            "reduce" => {
                let fold = fold(args)?;
                let axes = numbers(args, "axes")?;
                args.named("keep")?;
                Op::Reduce { fold, axes, keep: args.unsigned("0 or 1")? != 0 }
            }
            "einsum" => {
                args.named("spec")?;
                Op::Einsum(args.text("subscripts in quotes")?.text.into_owned())
            }
            "reshape" => Op::Reshape(ty.dims.clone()),
            "broadcast" => Op::Broadcast(ty.dims.clone()),
            "transpose" => Op::Transpose(numbers(args, "order")?),
            "slice" => {
                let axis = axis(args)?;
                args.named("from")?;
                let start = self.dim(args)?;
                args.named("step")?;
                let step = args.signed("a step")?;
                let size = ty.dims.get(axis).cloned().unwrap_or_default();
                Op::Slice { axis, start, size, step }
            }
            "concat" => Op::Concat { axis: axis(args)? },
            "gather" => Op::Gather { axis: axis(args)? },
            "iota" => Op::Iota { dtype: ty.dtype, dims: ty.dims.clone(), axis: axis(args)? },
            "pad" => {
                let axis = axis(args)?;
                args.named("low")?;
                let low = self.dim(args)?;
                args.named("high")?;
                Op::Pad { axis, low, high: self.dim(args)? }
            }
            "scatter" => Op::Scatter { fold: if args.is_empty() { None } else { Some(fold(args)?) } },
            "size" => {
                args.named("of")?;
                Op::Size(self.dim(args)?)
            }
            "window" => {
                let axis = axis(args)?;
                let mut number = |name: &str| -> Read<u64> {
                    args.named(name)?;
                    args.unsigned("a number")
                };
                Op::Window {
                    axis,
                    size: number("size")?,
                    stride: number("stride")?,
                    dilation: number("dilation")?,
                }
            }
            _ => return Err(unknown_word(word, "operator", names().into_iter())),
        })
    }
}

fn fold(args: &mut Args<'_>) -> Read<Fold> {
    args.named("fold")?;
    let known: Vec<(&'static str, Fold)> = Fold::ALL.iter().map(|fold| (fold.name(), *fold)).collect();
    args.one_of("fold", &known)
}

/// Every operator.
fn names() -> Vec<&'static str> {
    let others = [
        "select",
        "convert",
        "reduce",
        "einsum",
        "reshape",
        "broadcast",
        "transpose",
        "slice",
        "concat",
        "pad",
        "gather",
        "scatter",
        "iota",
        "size",
        "window",
    ];
    let unary = Unary::ALL.iter().map(|unary| unary.name());
    let binary = Binary::ALL.iter().map(|binary| binary.name());
    unary.chain(binary).chain(others).chain(RichOp::ALL.iter().map(|rich| rich.name())).collect()
}

fn attributes(args: &mut Args<'_>) -> Read<Attrs> {
    let mut attrs = Attrs::default();
    while !args.is_empty() {
        let here = args.clone();
        let name = args.word("an attribute")?.text.to_string();
        args.sign(Sign::Equals)?;
        let value = attribute(args)?;
        if attrs.0.insert(name, value).is_some() {
            return Err(here.expected("an attribute that is not given yet"));
        }
    }
    Ok(attrs)
}

fn attribute(args: &mut Args<'_>) -> Read<Attr> {
    match args.kind() {
        Some(Kind::Integer { hex: false, .. }) => Ok(Attr::Int(args.signed("a number")?)),
        Some(Kind::Integer { hex: true, .. } | Kind::Float) => Ok(Attr::Float(args.f32_pattern("a number")?)),
        Some(Kind::Text) => Ok(Attr::Word(args.text("a word")?.text.into_owned())),
        _ => {
            let mut ahead = args.clone();
            if let Ok(numbers) = ahead.list("numbers", |args| match args.kind() {
                Some(Kind::Integer { hex: true, .. }) => Err(args.expected("a whole number")),
                _ => args.signed("a whole number"),
            }) {
                *args = ahead;
                return Ok(Attr::Ints(numbers));
            }
            Ok(Attr::Floats(args.list("numbers", |args| args.f32_pattern("a number"))?))
        }
    }
}
