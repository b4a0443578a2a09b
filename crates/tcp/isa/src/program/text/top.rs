//! The whole text: its first line, its declarations in any order, and their canonical order.

use tilewright_base::{Diagnostic, SourceId};
use tilewright_ir::{Args, Fields, Item, Log, Node, Read, Sign, Tree, parser, print as ir};

use super::control::{print_queue, read_queue};
use super::exec::{print_exec, read_exec};
use super::grant::{print_grant, read_grant};
use super::names::{NameSpelling, ProgramNames};
use super::tensor::{print_tensor, read_tensor};
use super::transfer::{print_transfer, read_transfer};
use crate::program::transfer::MOST_CHIPS;
use crate::program::{Program, Register};

/// Version of the grammar, as the first line states it.
pub const VERSION: u64 = 1;

const STATEMENTS: &[&str] =
    &["program", "machine", "chips", "register", "tensor", "grant", "transfer", "exec", "queue"];

/// Reads a program. All complaints that were found are given, up to a limit.
pub fn read(text: &str, source: SourceId) -> Result<Program, Vec<Diagnostic>> {
    let mut log = Log::default();
    let tree = parser::parse(text, source, &mut log);
    // What the grammar refused is missing in the tree: that would be complained about a second time.
    let program = if log.is_empty() { read_tree(&tree, &mut log) } else { None };
    match program {
        Some(program) if log.is_empty() => Ok(program),
        _ => Err(log.into_complaints()),
    }
}

/// Prints a program. Names must be unique among their kind and ids must have a declaration, or the text is
/// refused by [`read`].
pub fn print(program: &Program) -> String {
    let spell = NameSpelling { program };
    let mut text = ir::print(&head(program));
    let mut section = |items: &mut dyn Iterator<Item = Item>, apart: bool| {
        for (index, item) in items.enumerate() {
            if index == 0 || apart {
                text.push('\n');
            }
            ir::print_into(&mut text, &item, 0);
        }
    };
    section(&mut program.registers.iter().map(print_register), false);
    section(&mut program.tensors.iter().map(print_tensor), false);
    section(&mut program.grants.iter().map(print_grant), false);
    section(&mut program.transfers.iter().map(|transfer| print_transfer(transfer, spell)), false);
    section(&mut program.execs.iter().map(|exec| print_exec(exec, spell)), true);
    section(&mut program.queues.iter().map(|queue| print_queue(queue, spell)), true);
    text
}

fn head(program: &Program) -> Vec<Item> {
    let mut items = vec![
        Item::line(format!("program tcp {VERSION}")),
        Item::line(format!("machine {}", ir::name(&program.machine))),
    ];
    if program.chips != 1 {
        items.push(Item::line(format!("chips {}", program.chips)));
    }
    items
}

fn read_tree(tree: &Tree<'_>, log: &mut Log) -> Option<Program> {
    read_version(tree, log)?;
    let names = ProgramNames::of(tree, log);
    let fields = Fields::top(tree);
    let machine = fields.one("machine", log, |args| args.name("the name of a machine"));
    let chips = fields.maybe("chips", 1, log, read_chips);
    fields.node("program", log);
    let mut program = Program::default();
    for statement in tree.statements() {
        if log.is_full() {
            return None;
        }
        declaration(&mut program, statement, &names, log);
    }
    program.machine = machine?.text.into_owned();
    program.chips = chips?;
    Some(program)
}

fn read_chips(args: &mut Args<'_>) -> Read<u64> {
    let span = args.here();
    let chips = args.unsigned("a number of chips")?;
    if (1..=MOST_CHIPS).contains(&chips) {
        return Ok(chips);
    }
    let complaint = Diagnostic::error("tcp/program-chips", format!("a program for {chips} chips"));
    let complaint =
        complaint.at(span, "").allowed(format!("1 to {MOST_CHIPS}: as many as an address can name"));
    Err(Box::new(complaint.instead("chips 1, or no such line")))
}

/// Adds one declaration; what cannot be read is missing in a program that is not given out.
fn declaration(program: &mut Program, node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) {
    match node.head().text {
        "program" | "machine" | "chips" => {}
        "register" => program.registers.extend(read_register(node, log)),
        "tensor" => program.tensors.extend(read_tensor(node, log)),
        "grant" => program.grants.extend(read_grant(node, log)),
        "transfer" => program.transfers.extend(read_transfer(node, names, log)),
        "exec" => program.execs.extend(read_exec(node, names, log)),
        "queue" => program.queues.extend(read_queue(node, names, log)),
        _ => log.push(*node.unknown(STATEMENTS)),
    }
}

fn read_version(tree: &Tree<'_>, log: &mut Log) -> Option<()> {
    let first = tree.statements().next();
    let Some(first) = first.filter(|first| first.head().text == "program") else {
        let span = first.map_or(tree.end_span(), |first| first.head().span);
        let complaint = Diagnostic::error("program/version", "the text does not say what it is");
        let complaint = complaint.at(span, "expected `program tcp 1`");
        log.push(complaint.allowed("`program tcp 1` in the first line").instead("program tcp 1"));
        return None;
    };
    let family = first.leaf(|args| Ok((args.word("tcp")?, args.unsigned("a version")?)));
    let (family, version) = log.keep(family)?;
    if family.text == "tcp" && version == VERSION {
        return Some(());
    }
    let what = format!("this reader does not know programs of `{} {version}`", family.text);
    let complaint = Diagnostic::error("program/version", what).at(first.span(), "");
    log.push(complaint.allowed(format!("tcp {VERSION}")).instead(format!("program tcp {VERSION}")));
    None
}

fn read_register(node: Node<'_>, log: &mut Log) -> Option<Register> {
    log.keep(node.leaf(|args| {
        let name = args.name("the name of the register")?.text.into_owned();
        args.sign(Sign::Equals)?;
        let initial = args.signed("the value at the start")?;
        let (mut least, mut most) = (i64::MIN, i64::MAX);
        if args.eat_word("in") {
            least = args.signed("the least value")?;
            args.sign(Sign::Range)?;
            most = args.signed("the largest value")?;
        }
        Ok(Register { name, initial, least, most, span: node.span() })
    }))
}

fn print_register(register: &Register) -> Item {
    let Register { name, initial, least, most, .. } = register;
    let range =
        if (*least, *most) == (i64::MIN, i64::MAX) { String::new() } else { format!(" in {least}..{most}") };
    Item::line(format!("register {} = {initial}{range}", ir::name(name)))
}
