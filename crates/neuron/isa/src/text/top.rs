//! The whole text: its first line, its head, and tensors and instructions in the order of execution.

use tilewright_base::{Diagnostic, SourceId, Span};
use tilewright_ir::{Fields, Item, Log, Node, Tree, parser, print as ir};

use super::instruction::{print_instruction, read_instruction};
use super::tensor::{print_allocation, read_allocation};
use crate::opcode::OPCODES;
use crate::program::NeuronProgram;

/// Version of the grammar, as the first line states it.
pub const VERSION: u64 = 1;

const HEAD: &[&str] = &["program", "machine", "cores", "in_order", "compiled", "line", "tensor"];

/// A program as a text has it, with the places that complaints about it point to.
#[derive(Clone, Debug)]
pub struct ProgramText {
    /// The chip it was recorded for.
    pub machine: String,
    /// The program.
    pub program: NeuronProgram,
    /// The statement of each tensor.
    pub tensors: Vec<Span>,
    /// The statement of each instruction.
    pub instructions: Vec<Span>,
    /// The first statement.
    pub head: Span,
}

/// Whether a text says that it is a NeuronCore program, of whatever version.
pub fn is_neuron(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
    let first = lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
    let mut words = first.split_whitespace();
    words.next() == Some("program") && words.next() == Some("neuron")
}

/// Reads a program. All complaints that were found are given, up to a limit.
///
/// # Errors
/// If the text is no such program.
pub fn read(text: &str, source: SourceId) -> Result<ProgramText, Vec<Diagnostic>> {
    let mut log = Log::default();
    let tree = parser::parse(text, source, &mut log);
    // What the grammar refused is missing in the tree: that would be complained about a second time.
    let program = if log.is_empty() { read_tree(&tree, &mut log) } else { None };
    match program {
        Some(program) if log.is_empty() => Ok(program),
        _ => Err(log.into_complaints()),
    }
}

/// Prints a program that was recorded for a chip of that name.
pub fn print(program: &NeuronProgram, machine: &str) -> String {
    let mut text = ir::print(&head(program, machine));
    if !program.allocations.is_empty() || !program.instructions.is_empty() {
        text.push('\n');
    }
    let mut allocations = program.allocations.iter().peekable();
    for (at, instruction) in program.instructions.iter().enumerate() {
        while let Some(allocation) = allocations.next_if(|allocation| allocation.made_at <= at) {
            ir::print_into(&mut text, &print_allocation(allocation), 0);
        }
        ir::print_into(&mut text, &print_instruction(instruction), 0);
    }
    allocations.for_each(|allocation| ir::print_into(&mut text, &print_allocation(allocation), 0));
    text
}

fn head(program: &NeuronProgram, machine: &str) -> Vec<Item> {
    let mut items = vec![
        Item::line(format!("program neuron {VERSION}")),
        Item::line(format!("machine {}", ir::name(machine))),
    ];
    if program.cores != 0 {
        items.push(Item::line(format!("cores {}", program.cores)));
    }
    if program.in_order {
        items.push(Item::line("in_order"));
    }
    if program.compiled {
        items.push(Item::line("compiled"));
    }
    let line = |(number, line): (usize, &String)| Item::line(format!("line {number} {}", ir::quoted(line)));
    items.extend(program.sources.iter().enumerate().map(line));
    items
}

fn read_tree(tree: &Tree<'_>, log: &mut Log) -> Option<ProgramText> {
    let head = read_version(tree, log)?;
    let fields = Fields::top(tree);
    let machine = fields.one("machine", log, |args| args.name("the name of a chip"));
    let cores = fields.maybe("cores", 0, log, |args| args.integer("a number of cores"));
    let (in_order, compiled) = (fields.flag("in_order", log), fields.flag("compiled", log));
    fields.node("program", log);
    let (mut tensors, mut instructions) = (Vec::new(), Vec::new());
    let mut program = NeuronProgram::default();
    for node in tree.statements() {
        if log.is_full() {
            return None;
        }
        match node.head().text {
            "program" | "machine" | "cores" | "in_order" | "compiled" => {}
            "line" => program.sources.extend(read_line(node, program.sources.len(), log)),
            "tensor" => {
                tensors.push(node.span());
                let made_at = program.instructions.len();
                program.allocations.extend(read_allocation(node, made_at, log));
            }
            name => {
                let Some(opcode) = crate::opcode::opcode(name) else {
                    let known: Vec<&str> = HEAD.iter().chain(OPCODES).copied().collect();
                    log.push(*node.unknown(&known));
                    continue;
                };
                instructions.push(node.span());
                program.instructions.extend(read_instruction(node, opcode, log));
            }
        }
    }
    (program.cores, program.in_order, program.compiled) = (cores?, in_order?, compiled?);
    Some(ProgramText { machine: machine?.text.into_owned(), program, tensors, instructions, head })
}

/// `line 3 "kernel.py:12"`; lines are numbered in order.
fn read_line(node: Node<'_>, place: usize, log: &mut Log) -> Option<String> {
    let read = node.leaf(|args| {
        let number = args.unsigned("the number of the line")?;
        Ok((number, args.text("a line as \"FILE:LINE\"")?.text.into_owned()))
    });
    let (number, text) = log.keep(read)?;
    if usize::try_from(number).is_ok_and(|number| number == place) {
        return Some(text);
    }
    let complaint =
        Diagnostic::error("neuron/program-number", format!("line {number} is the one of number {place}"));
    let complaint = complaint.at(node.span(), "").allowed("lines numbered from 0 in order");
    log.push(complaint.instead(format!("line {place}")));
    None
}

/// The place of the first statement, if it says what is read here.
fn read_version(tree: &Tree<'_>, log: &mut Log) -> Option<Span> {
    let first = tree.statements().next();
    let Some(first) = first.filter(|first| first.head().text == "program") else {
        let span = first.map_or(tree.end_span(), |first| first.head().span);
        let complaint = Diagnostic::error("program/version", "the text does not say what it is");
        let complaint = complaint.at(span, format!("expected `program neuron {VERSION}`"));
        let complaint = complaint.allowed(format!("`program neuron {VERSION}` in the first line"));
        log.push(complaint.instead(format!("program neuron {VERSION}")));
        return None;
    };
    let family = first.leaf(|args| Ok((args.word("neuron")?, args.unsigned("a version")?)));
    let (family, version) = log.keep(family)?;
    if family.text == "neuron" && version == VERSION {
        return Some(first.span());
    }
    let what = format!("this reader does not know programs of `{} {version}`", family.text);
    let complaint = Diagnostic::error("program/version", what).at(first.span(), "");
    log.push(complaint.allowed(format!("neuron {VERSION}")).instead(format!("program neuron {VERSION}")));
    None
}
