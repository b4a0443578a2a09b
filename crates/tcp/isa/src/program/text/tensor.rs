//! Tensors: element type, axes, memory, lowered shape in the notation, and the data of inputs.

use std::fmt::Write as _;

use tilewright_base::{Diagnostic, Name, Span};
use tilewright_ir::args::shortened;
use tilewright_ir::{Args, Fields, Item, Kind, Log, Node, Quoted, Read, Sign, print};
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::problem::Problem;
use tilewright_notation::radix;
use tilewright_notation::syntax::ast::{Dim, Einsum, EinsumAxis, Operand, SyntaxSpan, TensorAxes};
use tilewright_notation::syntax::{ast, expr::Expr, parser};

use super::address::{print_place, read_place};
use super::names::read_dtype;
use crate::program::tensor::{Tensor, TensorData, TensorRole};

const SHAPE: &str = "a lowered shape in quotes";
const ROLES: [(&str, TensorRole); 3] =
    [("input", TensorRole::Input), ("output", TensorRole::Output), ("both", TensorRole::InOut)];

struct AxisDeclaration {
    name: Name,
    extent: u64,
    span: Span,
}

pub(super) fn read_tensor(node: Node<'_>, log: &mut Log) -> Option<Tensor> {
    let (tensor, axes, shape) = if node.has_block() {
        let (tensor, axes) = log.keep(node.line(|args| read_head(args, node.span())))?;
        let (shape, data) = read_fields(node, log)?;
        (Tensor { data, ..tensor }, axes, shape)
    } else {
        log.keep(node.line(|args| {
            let (tensor, axes) = read_head(args, node.span())?;
            args.sign(Sign::Equals)?;
            let shape = args.text(SHAPE)?;
            Ok((Tensor { data: read_data(args)?, ..tensor }, axes, shape))
        }))?
    };
    match lowered(&axes, &shape) {
        Ok((shape, map)) => Some(Tensor { shape, map, ..tensor }),
        Err(complaints) => {
            complaints.into_iter().for_each(|complaint| log.push(complaint));
            None
        }
    }
}

fn read_head(args: &mut Args<'_>, span: Span) -> Read<(Tensor, Vec<AxisDeclaration>)> {
    let name = args.name("the name of the tensor")?.text.into_owned();
    args.sign(Sign::Colon)?;
    let dtype = read_dtype(args)?;
    let axes = args.list("[AXIS=N, ..]", read_axis)?;
    let role = args.one_of("role", &ROLES)?;
    args.keyword("at")?;
    let place = read_place(args)?;
    let named = axes.iter().map(|axis| (axis.name.to_string(), axis.extent)).collect();
    let (shape, map, data) = (String::new(), RadixMap::default(), TensorData::None);
    Ok((Tensor { name, dtype, axes: named, role, place, shape, map, data, span }, axes))
}

/// `{ shape "..."; data ... }`
fn read_fields<'t>(node: Node<'t>, log: &mut Log) -> Option<(Quoted<'t>, TensorData)> {
    let fields = Fields::new(node, &["shape", "data"], log);
    let shape = fields.one("shape", log, |args| args.text(SHAPE));
    let data = fields.maybe("data", TensorData::None, log, |args| {
        if args.is_empty() { Err(args.expected("zeros, random, patterns or file")) } else { read_data(args) }
    });
    Some((shape?, data?))
}

/// One line if it fits, otherwise a block for shape and data.
pub(super) fn print_tensor(tensor: &Tensor) -> Item {
    let mut text = format!("tensor {}: {}", print::name(&tensor.name), tensor.dtype);
    text.push_str(&print::list(&tensor.axes, |(name, extent)| format!("{}={extent}", print::name(name))));
    let role = ROLES.iter().find(|(_, known)| *known == tensor.role).map_or("", |(name, _)| name);
    let _ = write!(text, " {role} at {}", print_place(tensor.place));
    let (shape, data) = (print::quoted(&tensor.shape), print_data(&tensor.data));
    if text.len() + shape.len() + data.len() + 3 <= print::WIDTH {
        return Item::line(format!("{text} = {shape}{data}"));
    }
    let mut fields = vec![Item::line(format!("shape {shape}"))];
    if tensor.data != TensorData::None {
        fields.push(Item::line(format!("data{data}")));
    }
    Item::lines(text, fields)
}

fn read_axis(args: &mut Args<'_>) -> Read<AxisDeclaration> {
    let word = args.word("the name of an axis")?;
    let name = Name::new(word.text).ok_or_else(|| {
        let what = format!("`{}` is no axis", shortened(word.text));
        let allowed = format!("1 to {} letters", Name::MAX_LETTERS);
        let complaint = Diagnostic::error("program/tensor", what).at(word.span, "").allowed(allowed);
        Box::new(complaint.instead("a shorter name without digits"))
    })?;
    args.sign(Sign::Equals)?;
    let end = args.here();
    Ok(AxisDeclaration { name, extent: args.unsigned("the extent of the axis")?, span: word.span.to(end) })
}

fn read_data(args: &mut Args<'_>) -> Read<TensorData> {
    const KINDS: [(&str, u8); 4] = [("zeros", 0), ("random", 1), ("patterns", 2), ("file", 3)];
    if args.is_empty() {
        return Ok(TensorData::None);
    }
    Ok(match args.one_of("kind of data", &KINDS)? {
        0 => TensorData::Zeros,
        1 => TensorData::Random(args.unsigned("a seed")?),
        2 => TensorData::Patterns(args.list("a list of patterns", |item| item.integer("a pattern"))?),
        _ if args.kind() == Some(Kind::Text) => TensorData::File(args.text("a file")?.text.into_owned()),
        _ => return Err(args.expected("the name of a file in quotes")),
    })
}

fn print_data(data: &TensorData) -> String {
    match data {
        TensorData::None => String::new(),
        TensorData::Zeros => " zeros".to_string(),
        TensorData::Random(seed) => format!(" random {seed}"),
        TensorData::Patterns(patterns) => {
            format!(" patterns {}", print::list(patterns, |pattern| format!("{pattern:#x}")))
        }
        TensorData::File(name) => format!(" file {}", print::quoted(name)),
    }
}

/// The canonical text of a shape and its map, for axes with extents.
///
/// # Errors
/// What the notation has against the shape.
pub fn lowered_shape(axes: &[(String, u64)], shape: &str) -> Result<(String, RadixMap), Vec<Diagnostic>> {
    let named = |(name, extent): &(String, u64)| -> Result<AxisDeclaration, Vec<Diagnostic>> {
        let refused = || vec![Diagnostic::error("program/tensor", format!("`{name}` is no axis"))];
        Ok(AxisDeclaration {
            name: Name::new(name).ok_or_else(refused)?,
            extent: *extent,
            span: Span::default(),
        })
    };
    let axes = axes.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    lowered(&axes, &Quoted { text: shape.into(), span: Span::default(), literal_at: None })
}

/// The canonical text of a shape and its map, as the notation has them for a lone tensor.
fn lowered(axes: &[AxisDeclaration], shape: &Quoted<'_>) -> Result<(String, RadixMap), Vec<Diagnostic>> {
    let place = |complaints: Vec<Diagnostic>| -> Vec<Diagnostic> {
        complaints.into_iter().map(|complaint| moved(complaint, shape)).collect()
    };
    // Until they are moved, spans of the shape count from its own start in this source, those of axes from
    // that of the text.
    let mut lowered = parser::lowered_shape(&shape.text, shape.span.source).map_err(|c| place(vec![*c]))?;
    let text = lowered.to_string();
    move_shape(&mut lowered, shape);
    let problem = Problem::new(&lone_tensor(axes, lowered, shape.span))?;
    let complaints = radix::check(&problem);
    if !complaints.is_empty() {
        return Err(complaints);
    }
    let found = problem.shape(Operand::In0).and_then(|shape| RadixMap::of_shape(&problem, shape).ok());
    found.map(|map| (text, map)).ok_or_else(|| {
        let what = "the shape needs more places than 32 bits count";
        let complaint = Diagnostic::error("program/tensor", what).at(shape.span, "");
        let complaint = complaint.allowed("at most 4294967295 slices, and as many elements of each");
        vec![complaint.instead("several smaller tensors")]
    })
}

fn lone_tensor(axes: &[AxisDeclaration], shape: ast::LoweredShape, span: Span) -> ast::Program {
    let written = axes
        .iter()
        .map(|axis| EinsumAxis { name: axis.name, pes: None, window: None, span: axis.span })
        .collect();
    let dims = axes.iter().map(|axis| Dim {
        name: axis.name,
        least: Expr::Int(axis.extent),
        most: Expr::Int(axis.extent),
        dynamic: false,
        span: axis.span,
    });
    ast::Program {
        einsum: Einsum {
            in0: TensorAxes { axes: written, span: SyntaxSpan(span) },
            span: SyntaxSpan(span),
            ..Einsum::default()
        },
        dims: dims.collect(),
        in0: Some(shape),
        ..ast::Program::default()
    }
}

/// A span of the shape as one of the program's text; all of the shape where escapes stand between.
fn moved_span(span: Span, shape: &Quoted<'_>) -> Span {
    match shape.literal_at {
        Some(at) => {
            Span { start: span.start.saturating_add(at), end: span.end.saturating_add(at), ..shape.span }
        }
        None => shape.span,
    }
}

fn move_shape(lowered: &mut ast::LoweredShape, shape: &Quoted<'_>) {
    lowered.span = SyntaxSpan(moved_span(lowered.span.0, shape));
    for term in lowered.inter.iter_mut().chain(&mut lowered.intra) {
        term.span = moved_span(term.span, shape);
    }
}

fn moved(mut complaint: Diagnostic, shape: &Quoted<'_>) -> Diagnostic {
    for label in complaint.primary.iter_mut().chain(&mut complaint.others) {
        label.span = moved_span(label.span, shape);
    }
    complaint
}
