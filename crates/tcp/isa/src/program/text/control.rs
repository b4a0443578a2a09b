//! Queues and the steps of the control core.

use tilewright_base::Diagnostic;
use tilewright_ir::{Args, Item, Kind, Log, Node, Read, Sign};

use super::address::{print_address, print_pe, read_address, read_pe};
use super::exec::{print_context, read_context};
use super::names::{NameSpelling, ProgramNames, read_dtype};
use super::operand::{print_relation, read_relation};
use crate::program::control::{
    Command, Condition, ControlExpr, ControlOp, ControlOperand, Queue, Step, StepKind,
};

const COMMANDS: [&str; 5] = ["dma", "load", "exec", "wait_d", "wait_e"];
const STEPS: [&str; 17] = [
    "dma", "load", "exec", "wait_d", "wait_e", "push!", "set", "read", "for", "if", "else", "while", "sync",
    "await_d", "await_e", "post", "receive",
];
const SIGNS: [(Sign, ControlOp); 5] = [
    (Sign::Plus, ControlOp::Add),
    (Sign::Minus, ControlOp::Sub),
    (Sign::Star, ControlOp::Mul),
    (Sign::Slash, ControlOp::Div),
    (Sign::Percent, ControlOp::Rem),
];

pub(super) fn read_queue(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<Queue> {
    let head = log.keep(node.line(read_pe));
    log.keep(node.needs_block())?;
    let steps = read_steps(node, names, log);
    let (chip, pe) = head?;
    Some(Queue { chip, pe, steps: steps?, span: node.span() })
}

pub(super) fn print_queue(queue: &Queue, spell: NameSpelling<'_>) -> Item {
    Item::lines(format!("queue {}", print_pe(queue.chip, queue.pe)), print_steps(&queue.steps, spell))
}

/// The steps of a block; `else` joins the `if` before it. Blocks are nested no deeper than the parser allows.
fn read_steps(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<Vec<Step>> {
    let (mut steps, mut complete) = (Vec::new(), true);
    let mut after_if = false;
    for statement in node.children() {
        if log.is_full() {
            return None;
        }
        if statement.head().text == "else" {
            let Some(body) = read_else(statement, after_if, names, log) else {
                complete = false;
                continue;
            };
            if let Some(Step { kind: StepKind::If { otherwise, .. }, .. }) = steps.last_mut() {
                *otherwise = body;
            }
            after_if = false;
            continue;
        }
        after_if = statement.head().text == "if";
        match read_step(statement, names, log) {
            Some(kind) => steps.push(Step { kind, span: statement.span() }),
            None => complete = false,
        }
    }
    complete.then_some(steps)
}

fn read_else(node: Node<'_>, after_if: bool, names: &ProgramNames<'_>, log: &mut Log) -> Option<Vec<Step>> {
    if !after_if {
        log.push(
            Diagnostic::error("program/else", "`else` without `if`")
                .at(node.span(), "")
                .allowed("right behind the block of an `if`, once")
                .instead("if a < b { .. } else { .. }"),
        );
        return None;
    }
    log.keep(node.line(|_| Ok(())))?;
    read_body(node, names, log)
}

fn read_body(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<Vec<Step>> {
    log.keep(node.needs_block())?;
    read_steps(node, names, log)
}

fn read_step(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<StepKind> {
    match node.head().text {
        "for" => {
            let head = log.keep(node.line(|args| read_for(args, names)));
            let body = read_body(node, names, log);
            let (register, from, to) = head?;
            Some(StepKind::For { register, from, to, body: body? })
        }
        "if" => {
            let condition = log.keep(node.line(|args| read_condition(args, names)));
            let then = read_body(node, names, log);
            Some(StepKind::If { condition: condition?, then: then?, otherwise: Vec::new() })
        }
        "while" => {
            let condition = log.keep(node.line(|args| read_condition(args, names)));
            let body = read_body(node, names, log);
            Some(StepKind::While { condition: condition?, body: body? })
        }
        _ => log.keep(read_leaf(node, names)),
    }
}

fn read_leaf(node: Node<'_>, names: &ProgramNames<'_>) -> Read<StepKind> {
    let head = node.head();
    match head.text {
        word if COMMANDS.contains(&word) => {
            node.leaf(|args| read_command(word, args, names)).map(StepKind::Push)
        }
        "push!" => node.leaf(|args| {
            let before = args.clone();
            let word = args.word("a command")?;
            if !COMMANDS.contains(&word.text) {
                return Err(before.expected("dma, load, exec, wait_d or wait_e"));
            }
            read_command(word.text, args, names).map(StepKind::PushUnchecked)
        }),
        "set" => node.leaf(|args| {
            let register = names.register(args)?;
            args.sign(Sign::Equals)?;
            Ok(StepKind::Set(register, read_value(args, names)?))
        }),
        "read" => node.leaf(|args| {
            let register = names.register(args)?;
            args.sign(Sign::Equals)?;
            let address = read_address(args)?;
            args.keyword("as")?;
            Ok(StepKind::Read { register, address, dtype: read_dtype(args)? })
        }),
        "sync" => node.leaf(|_| Ok(StepKind::Sync)),
        "await_d" => node.leaf(|args| Ok(StepKind::Await { transfer: true, id: args.integer("an id")? })),
        "await_e" => node.leaf(|args| Ok(StepKind::Await { transfer: false, id: args.integer("an id")? })),
        "post" => node.leaf(|args| {
            let (chip, pe) = read_pe(args)?;
            Ok(StepKind::Post { chip, pe, value: read_value(args, names)? })
        }),
        "receive" => node.leaf(|args| {
            let (chip, pe) = read_pe(args)?;
            let register = if args.eat(Sign::Arrow) { Some(names.register(args)?) } else { None };
            Ok(StepKind::Receive { chip, pe, register })
        }),
        _ => Err(node.unknown(&STEPS)),
    }
}

fn read_command(word: &str, args: &mut Args<'_>, names: &ProgramNames<'_>) -> Read<Command> {
    const ID: &str = "an id";
    Ok(match word {
        "dma" => Command::Dma { transfer: names.transfer(args)?, id: args.integer(ID)? },
        "load" => Command::Load(names.exec(args)?),
        "exec" => Command::Exec { context: read_context(args)?, id: args.integer(ID)? },
        "wait_d" => Command::WaitD(args.integer(ID)?),
        _ => Command::WaitE(args.integer(ID)?),
    })
}

fn print_command(command: Command, spell: NameSpelling<'_>) -> String {
    match command {
        Command::Dma { transfer, id } => format!("dma {} {id}", spell.transfer(transfer)),
        Command::Load(exec) => format!("load {}", spell.exec(exec)),
        Command::Exec { context, id } => format!("exec {} {id}", print_context(context)),
        Command::WaitD(id) => format!("wait_d {id}"),
        Command::WaitE(id) => format!("wait_e {id}"),
    }
}

fn print_steps(steps: &[Step], spell: NameSpelling<'_>) -> Vec<Item> {
    let mut items = Vec::with_capacity(steps.len());
    for step in steps {
        print_step(&step.kind, spell, &mut items);
    }
    items
}

fn print_step(step: &StepKind, spell: NameSpelling<'_>, items: &mut Vec<Item>) {
    let register = |id| spell.register(id);
    let item = match step {
        StepKind::Push(command) => Item::line(print_command(*command, spell)),
        StepKind::PushUnchecked(command) => Item::line(format!("push! {}", print_command(*command, spell))),
        StepKind::Set(id, value) => {
            Item::line(format!("set {} = {}", register(*id), print_value(*value, spell)))
        }
        StepKind::Read { register: id, address, dtype } => {
            Item::line(format!("read {} = {} as {dtype}", register(*id), print_address(*address)))
        }
        StepKind::For { register: id, from, to, body } => {
            let (from, to) = (print_value(*from, spell), print_value(*to, spell));
            Item::lines(format!("for {} = {from} to {to}", register(*id)), print_steps(body, spell))
        }
        StepKind::If { condition, then, otherwise } => {
            let text = format!("if {}", print_condition(*condition, spell));
            items.push(Item::lines(text, print_steps(then, spell)));
            if otherwise.is_empty() {
                return;
            }
            Item::lines("else", print_steps(otherwise, spell)).joined()
        }
        StepKind::While { condition, body } => {
            Item::lines(format!("while {}", print_condition(*condition, spell)), print_steps(body, spell))
        }
        StepKind::Sync => Item::line("sync"),
        StepKind::Await { transfer, id } => {
            Item::line(format!("{} {id}", if *transfer { "await_d" } else { "await_e" }))
        }
        StepKind::Post { chip, pe, value } => {
            Item::line(format!("post {} {}", print_pe(*chip, *pe), print_value(*value, spell)))
        }
        StepKind::Receive { chip, pe, register: taken } => {
            let into = taken.map_or_else(String::new, |id| format!(" -> {}", register(id)));
            Item::line(format!("receive {}{into}", print_pe(*chip, *pe)))
        }
    };
    items.push(item);
}

fn read_for(
    args: &mut Args<'_>,
    names: &ProgramNames<'_>,
) -> Read<(crate::program::RegisterId, ControlExpr, ControlExpr)> {
    let register = names.register(args)?;
    args.sign(Sign::Equals)?;
    let from = read_value(args, names)?;
    args.keyword("to")?;
    Ok((register, from, read_value(args, names)?))
}

/// A term, or two with an operation between.
fn read_value(args: &mut Args<'_>, names: &ProgramNames<'_>) -> Read<ControlExpr> {
    let left = read_term(args, names)?;
    let operation = match args.kind() {
        Some(Kind::Sign(sign)) => SIGNS.iter().find(|(known, _)| *known == sign).map(|(_, op)| *op),
        _ => None,
    };
    let operation = match operation {
        Some(operation) => {
            args.any_sign();
            operation
        }
        None if args.eat_word("min") => ControlOp::Min,
        None if args.eat_word("max") => ControlOp::Max,
        None => return Ok(ControlExpr::Operand(left)),
    };
    Ok(ControlExpr::Binary(left, operation, read_term(args, names)?))
}

fn print_value(value: ControlExpr, spell: NameSpelling<'_>) -> String {
    match value {
        ControlExpr::Operand(term) => print_term(term, spell),
        ControlExpr::Binary(left, operation, right) => {
            let sign = match operation {
                ControlOp::Min => "min",
                ControlOp::Max => "max",
                sign => SIGNS.iter().find(|(_, known)| *known == sign).map_or("", |(sign, _)| sign.text()),
            };
            format!("{} {sign} {}", print_term(left, spell), print_term(right, spell))
        }
    }
}

fn read_term(args: &mut Args<'_>, names: &ProgramNames<'_>) -> Read<ControlOperand> {
    match args.kind() {
        Some(Kind::Word | Kind::Text) => names.register(args).map(ControlOperand::Register),
        _ => args.signed("a number or a register").map(ControlOperand::Number),
    }
}

fn print_term(term: ControlOperand, spell: NameSpelling<'_>) -> String {
    match term {
        ControlOperand::Number(number) => number.to_string(),
        ControlOperand::Register(id) => spell.register(id),
    }
}

fn read_condition(args: &mut Args<'_>, names: &ProgramNames<'_>) -> Read<Condition> {
    let left = read_term(args, names)?;
    let relation = read_relation(args)?;
    Ok(Condition { left, relation, right: read_term(args, names)? })
}

fn print_condition(condition: Condition, spell: NameSpelling<'_>) -> String {
    let (left, right) = (print_term(condition.left, spell), print_term(condition.right, spell));
    format!("{left} {} {right}", print_relation(condition.relation))
}
