//! The section `plan` of a compiled graph's file: what the graph takes and gives, where that lies, and what
//! it was compiled for, a statement each.
//!
//! ```text
//! graph 1
//! name "mlp"
//! chip "tcp"
//! set "hbm.efficiency=0.9"
//! machine 0x8c0cbd4f9a0e1c52
//! pes 2
//! kernels 3
//! hbm 141312
//! bound 2048
//! input "x" bf16[64, 32] as bf16 at 0
//! output "y" f32[64, 32] as words at 4096 { loops 0 at 0 (16, 128, 64)(128, 1, 1) }
//! constant 1024 at 16384
//! index "rows" 4096 of "y" "gather"
//! ```
//!
//! A graph with open sizes begins with `graph 2` and has besides:
//!
//! ```text
//! axis "seq" 1..128
//! takes "x" [[seq], [64]]
//! size "size.seq" seq
//! gives "y" [[seq], [64]]
//! ```
//!
//! A graph that is divided over chips begins with `graph 3`, may have open sizes, and says behind the place
//! of an input or output which axis has a part for each of how many chips (`at 4096 axis 0 over 2`); sizes
//! are those of all parts, places and loops those of one.
//!
//! A graph that computes with integers of its inputs may need a limit of them. It begins with `graph 4`, may
//! have open sizes or be divided, and says how far from zero elements of inputs of i32 and i64 are at most:
//! `integers 65535`.
//!
//! `takes` and `gives` have the parts of each axis of an input and of a result, `size` an input that is a
//! run-time size; they are as many as inputs and outputs, in the same order.
//!
//! `set`, `input`, `output`, `constant` and `index` are there as often as there are some. `index` is an input
//! whose elements choose from an axis of so many elements, for which result of which operator. `machine` is
//! the fingerprint of the machine's figures. Behind `as` stands how elements lie in HBM: `words` of 32 bits,
//! or `bf16`; `at` says where, in bytes. Where elements do not follow each other in row-major order there are
//! loops: the first element, its place, and for each loop its size and its strides among elements and among
//! places.
//! Constants follow each other in the section `constants`, each so many bytes long.

use std::fmt;

use tilewright_base::SourceId;
use tilewright_compile::general::interface::{ElementLoops, GraphInterface, Port, PortDivision};
use tilewright_compile::general::kernel::Packing;
use tilewright_graph::text::dim;
use tilewright_graph::{Axis, Dim, Dtype, IndexInput, OpenSizes, OpenTensor, SizeInput};
use tilewright_ir::print::{list, quoted};
use tilewright_ir::{Args, Bracket, Fields, Log, Node, Read, Sign, Tree, parser};

use crate::plan::PlanError;

/// The first line: the form of the statements behind it.
pub(crate) const VERSION: &str = "graph 1";
/// The first line of a graph with open sizes.
pub(crate) const OPEN_VERSION: &str = "graph 2";

/// The first line of a graph that is divided over chips.
pub(crate) const DIVIDED_VERSION: &str = "graph 3";

/// The first line of a graph whose inputs have a limit.
pub(crate) const LIMITED_VERSION: &str = "graph 4";

/// What a compiled graph is run with, beside its program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphPlan {
    /// Name or file of the machine.
    pub chip: String,
    /// Figures of the machine that were changed, as `key=value`.
    pub set: Vec<String>,
    /// Fingerprint of the machine's figures.
    pub machine: u64,
    /// What the graph takes and gives.
    pub interface: GraphInterface,
    /// First byte of each constant in HBM, and its bytes.
    pub constants: Vec<(u64, u64)>,
    /// Inputs that choose from axes.
    pub indices: Vec<IndexInput>,
}

/// Statements that may be there once.
const SINGLE: [&str; 8] = ["graph", "name", "chip", "machine", "pes", "kernels", "hbm", "bound"];
/// Statements that may be there several times.
const MANY: [&str; 5] = ["set", "input", "output", "constant", "index"];
/// The statement of a limit.
const LIMITED: &str = "integers";
/// Statements of open sizes.
const OPEN: [&str; 4] = ["axis", "takes", "size", "gives"];

impl GraphPlan {
    /// Reads a plan.
    ///
    /// # Errors
    /// Another version; statements that this one does not know.
    pub fn read(text: &str) -> Result<GraphPlan, PlanError> {
        let first = text.lines().next().unwrap_or_default();
        let more: Vec<&str> = match first {
            VERSION => Vec::new(),
            OPEN_VERSION | DIVIDED_VERSION => OPEN.to_vec(),
            LIMITED_VERSION => OPEN.into_iter().chain([LIMITED]).collect(),
            other => return Err(PlanError::version(other)),
        };
        let mut log = Log::default();
        let tree = parser::parse(text, SourceId(0), &mut log);
        let known: Vec<&str> = SINGLE.iter().chain(&MANY).chain(&more).copied().collect();
        for node in tree.statements().filter(|node| !known.contains(&node.head().text)) {
            log.push(*node.unknown(&known));
        }
        let plan = statements(&tree, &mut log);
        // Each form has what the others have not.
        let plan = plan.filter(|plan| {
            let is_divided = plan.interface.chips() > 1;
            let is_limited = plan.interface.most_integer.is_some();
            is_limited == (first == LIMITED_VERSION)
                && (is_limited || is_divided == (first == DIVIDED_VERSION))
        });
        match plan {
            Some(plan) if log.is_empty() => Ok(plan),
            _ => Err(unknown(text, log)),
        }
    }
}

/// The first complaint, with the line that it is about.
pub(crate) fn unknown(text: &str, log: Log) -> PlanError {
    let complaints = log.into_complaints();
    let place = complaints.iter().find_map(|complaint| complaint.primary.as_ref());
    let at = place.map_or(0, |label| label.span.start as usize).min(text.len());
    let number = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
    PlanError::line(number, text.lines().nth(number - 1).unwrap_or_default())
}

fn statements(tree: &Tree<'_>, log: &mut Log) -> Option<GraphPlan> {
    let fields = Fields::top(tree);
    let number = |args: &mut Args<'_>| args.unsigned("a number");
    let name = |args: &mut Args<'_>| Ok(args.text("a name in quotes")?.text.into_owned());
    // All are read before any is missed, so that every complaint is in the log.
    let texts = (fields.one("name", log, name), fields.one("chip", log, name));
    let counts = ["machine", "pes", "kernels", "hbm", "bound"].map(|word| fields.one(word, log, number));
    let set = fields.many("set", log, name);
    let inputs = ports(tree, "input", log);
    let results = ports(tree, "output", log);
    let constants = fields.many("constant", log, constant);
    let indices = fields.many("index", log, index);
    let most_integer = fields.many(LIMITED, log, number);
    let open = open_sizes(&fields, log);
    let [machine, pes, kernels, hbm_bytes, roofline_cycles] = counts;
    let interface = GraphInterface {
        name: texts.0?,
        pes: pes?,
        kernels: kernels?,
        hbm_bytes: hbm_bytes?,
        roofline_cycles: roofline_cycles?,
        inputs: inputs?,
        results: results?,
        most_integer: most_integer?.first().copied(),
        open: open?,
    };
    let (chip, set, machine) = (texts.1?, set?, machine?);
    Some(GraphPlan { chip, set, machine, interface, constants: constants?, indices: indices? })
}

/// Which sizes are open.
fn open_sizes(fields: &Fields<'_>, log: &mut Log) -> Option<OpenSizes> {
    let axes = fields.many("axis", log, |args| {
        let name = args.text("a name in quotes")?.text.into_owned();
        let least = args.unsigned("the smallest size")?;
        args.sign(Sign::Range)?;
        Ok(Axis { name, least, most: args.unsigned("the largest size")? })
    })?;
    let tensor = |args: &mut Args<'_>| {
        let name = args.text("a name in quotes")?.text.into_owned();
        let axes = args.list("axes", |args| args.list("parts", |args| dim(args, &axes)))?;
        Ok(OpenTensor { name, axes })
    };
    let inputs = fields.many("takes", log, tensor);
    let outputs = fields.many("gives", log, tensor);
    let sizes = fields.many("size", log, |args| {
        let name = args.text("a name in quotes")?.text.into_owned();
        Ok(SizeInput { name, size: dim(args, &axes)? })
    });
    Some(OpenSizes { inputs: inputs?, sizes: sizes?, outputs: outputs?, axes })
}

/// Every port of a kind.
fn ports(tree: &Tree<'_>, word: &str, log: &mut Log) -> Option<Vec<Port>> {
    let own = tree.statements().filter(|node| node.head().text == word);
    let all: Vec<Option<Port>> = own.map(|node| log.keep(port(node))).collect();
    all.into_iter().collect()
}

/// `1024 at 16384`
fn constant(args: &mut Args<'_>) -> Read<(u64, u64)> {
    let bytes = args.unsigned("bytes")?;
    args.keyword("at")?;
    Ok((args.unsigned("its first byte")?, bytes))
}

/// `"rows" 4096 of "y" "gather"`
fn index(args: &mut Args<'_>) -> Read<IndexInput> {
    let text = |args: &mut Args<'_>, what| Read::Ok(args.text(what)?.text.into_owned());
    let input = text(args, "a name in quotes")?;
    let size = args.unsigned("elements of the axis")?;
    args.keyword("of")?;
    Ok(IndexInput { input, size, result: text(args, "a name in quotes")?, op: text(args, "an operator")? })
}

/// `"x" f32[64, 32] as words at 4096`, and loops if it has some.
fn port(node: Node<'_>) -> Read<Port> {
    let types = Dtype::ALL.map(|dtype| (dtype.name(), dtype));
    let mut port = node.line(|args| {
        let name = args.text("a name in quotes")?.text.into_owned();
        let dtype = args.one_of("a type", &types)?;
        let dims = args.list("sizes", |args| args.unsigned("a size"))?;
        args.keyword("as")?;
        let packings = Packing::ALL.map(|packing| (packing.name(), packing));
        let packing = args.one_of("how it lies", &packings)?;
        args.keyword("at")?;
        let base = args.unsigned("its first byte")?;
        let division = if args.kind().is_some() { Some(division(args)?) } else { None };
        Ok(Port { name, dtype, dims, packing, base, loops: Vec::new(), division })
    })?;
    for inner in node.children() {
        if inner.head().text != "loops" {
            return Err(inner.unknown(&["loops"]));
        }
        port.loops.push(inner.leaf(element_loops)?);
    }
    Ok(port)
}

/// `axis 0 over 2`
fn division(args: &mut Args<'_>) -> Read<PortDivision> {
    args.keyword("axis")?;
    let axis = args.unsigned("an axis")?;
    args.keyword("over")?;
    let chips = args.unsigned("chips")?;
    Ok(PortDivision { axis: usize::try_from(axis).unwrap_or(usize::MAX), chips })
}

/// `0 at 0 (16, 128, 64)(128, 1, 1)`
fn element_loops(args: &mut Args<'_>) -> Read<ElementLoops> {
    let first_element = args.unsigned("the first element")?;
    args.keyword("at")?;
    let first_place = args.unsigned("its place")?;
    let mut loops = Vec::new();
    while args.kind().is_some() {
        let mut inner = args.bracketed(Bracket::Round, "a loop")?;
        let size = inner.unsigned("a size")?;
        inner.sign(Sign::Comma)?;
        let by_element = inner.unsigned("a stride among elements")?;
        inner.sign(Sign::Comma)?;
        let by_place = inner.unsigned("a stride among places")?;
        inner.done()?;
        loops.push((size, by_element, by_place));
    }
    Ok(ElementLoops { first_element, first_place, loops })
}

impl fmt::Display for GraphPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GraphPlan { chip, set, machine, interface, constants, indices } = self;
        let version = match (interface.chips() > 1, interface.open.is_empty()) {
            _ if interface.most_integer.is_some() => LIMITED_VERSION,
            (true, _) => DIVIDED_VERSION,
            (false, true) => VERSION,
            (false, false) => OPEN_VERSION,
        };
        writeln!(f, "{version}\nname {}\nchip {}", quoted(&interface.name), quoted(chip))?;
        for setting in set {
            writeln!(f, "set {}", quoted(setting))?;
        }
        writeln!(f, "machine {machine:#018x}\npes {}\nkernels {}", interface.pes, interface.kernels)?;
        writeln!(f, "hbm {}\nbound {}", interface.hbm_bytes, interface.roofline_cycles)?;
        if let Some(most) = interface.most_integer {
            writeln!(f, "{LIMITED} {most}")?;
        }
        for input in &interface.inputs {
            write_port(f, "input", input)?;
        }
        for result in &interface.results {
            write_port(f, "output", result)?;
        }
        for (base, bytes) in constants {
            writeln!(f, "constant {bytes} at {base}")?;
        }
        for IndexInput { input, size, result, op } in indices {
            writeln!(f, "index {} {size} of {} {}", quoted(input), quoted(result), quoted(op))?;
        }
        write_open(f, &interface.open)
    }
}

fn write_open(f: &mut fmt::Formatter<'_>, open: &OpenSizes) -> fmt::Result {
    let OpenSizes { axes, inputs, sizes, outputs } = open;
    for Axis { name, least, most } in axes {
        writeln!(f, "axis {} {least}..{most}", quoted(name))?;
    }
    let parts =
        |tensor: &OpenTensor| list(&tensor.axes, |parts: &Vec<Dim>| list(parts, |dim: &Dim| dim.text(axes)));
    for tensor in inputs {
        writeln!(f, "takes {} {}", quoted(&tensor.name), parts(tensor))?;
    }
    for SizeInput { name, size } in sizes {
        writeln!(f, "size {} {}", quoted(name), size.text(axes))?;
    }
    for tensor in outputs {
        writeln!(f, "gives {} {}", quoted(&tensor.name), parts(tensor))?;
    }
    Ok(())
}

fn write_port(f: &mut fmt::Formatter<'_>, word: &str, port: &Port) -> fmt::Result {
    let (name, dims) = (quoted(&port.name), list(&port.dims, u64::to_string));
    let lies = port.packing.name();
    write!(f, "{word} {name} {}{dims} as {lies} at {}", port.dtype.name(), port.base)?;
    if let Some(PortDivision { axis, chips }) = port.division {
        write!(f, " axis {axis} over {chips}")?;
    }
    if port.loops.is_empty() {
        return writeln!(f);
    }
    writeln!(f, " {{")?;
    for loops in &port.loops {
        let each: String = loops.loops.iter().map(|(size, by, to)| format!("({size}, {by}, {to})")).collect();
        writeln!(f, "  loops {} at {} {each}", loops.first_element, loops.first_place)?;
    }
    writeln!(f, "}}")
}
