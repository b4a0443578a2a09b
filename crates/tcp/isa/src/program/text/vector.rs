//! The vector engine: its chain of units and the reducer between slices.

use std::fmt::Write as _;

use tilewright_ir::{Args, Bracket, Fields, Item, Log, Node, Read};

use super::loops::{print_reduce_limit, print_steps, read_reduce_limit, read_steps};
use super::names::{NameSpelling, ProgramNames};
use super::operand::{
    immediate_type, print_operand, print_relation, print_word, read_operands, read_pattern, read_relation,
    read_word, type_behind,
};
use crate::program::vector::{
    Comparison, InterSliceReduce, Op, OpKind, Reduce, ReduceOp, ReduceOutput, Vector, Word,
};

const WORDS: [(&str, Word); 2] = [("i32", Word::I32), ("f32", Word::F32)];

/// Units without numbers of their own.
const UNITS: [(&str, OpKind); 37] = [
    ("and", OpKind::And),
    ("or", OpKind::Or),
    ("xor", OpKind::Xor),
    ("shl", OpKind::Shl),
    ("shr", OpKind::Shr),
    ("add", OpKind::Add),
    ("add_sat", OpKind::AddSat),
    ("sub", OpKind::Sub),
    ("sub_sat", OpKind::SubSat),
    ("shl_sat", OpKind::ShlSat),
    ("mul", OpKind::Mul),
    ("mul_q31", OpKind::MulQ31),
    ("shr_logic", OpKind::ShrLogic),
    ("shr_arith", OpKind::ShrArith),
    ("shr_round", OpKind::ShrRound),
    ("fadd", OpKind::FAdd),
    ("fsub", OpKind::FSub),
    ("fmul", OpKind::FMul),
    ("fma", OpKind::Fma),
    ("sqrt", OpKind::Sqrt),
    ("tanh", OpKind::Tanh),
    ("sigmoid", OpKind::Sigmoid),
    ("erf", OpKind::Erf),
    ("log", OpKind::Log),
    ("sin", OpKind::Sin),
    ("cos", OpKind::Cos),
    ("fpu_div", OpKind::FpuDiv),
    ("exp", OpKind::Exp),
    ("exp_neg", OpKind::ExpNeg),
    ("mul0", OpKind::Mul0),
    ("mul1", OpKind::Mul1),
    ("div", OpKind::Div),
    ("clip_add", OpKind::ClipAdd),
    ("clip_max", OpKind::ClipMax),
    ("clip_abs_max", OpKind::ClipAbsMax),
    ("clip_min", OpKind::ClipMin),
    ("clip_abs_min", OpKind::ClipAbsMin),
];

/// Statements that are no plain units.
const OTHERS: [&str; 8] = ["trim", "pair", "tag", "to_float", "to_fixed", "filter", "reduce", "between"];

const REDUCE_OPS: [(&str, ReduceOp); 5] = [
    ("add", ReduceOp::Add),
    ("add_wrap", ReduceOp::AddWrap),
    ("max", ReduceOp::Max),
    ("min", ReduceOp::Min),
    ("mul", ReduceOp::Mul),
];

pub(super) fn read_vector(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<Vector> {
    let input = log.keep(node.line(|args| args.one_of("word type", &WORDS)))?;
    log.keep(node.needs_block())?;
    let fields = Fields::trusted(node);
    let trim = fields.flag("trim", log);
    let pair = fields.flag("pair", log);
    let tags = fields.many("tag", log, |args| {
        Ok(Comparison { relation: read_relation(args)?, word: read_word(args, input)? })
    });
    let between = fields.maybe("between", (None, false), log, read_between);
    let ops = read_ops(node, input, names, log);
    let (between, between_first) = between?;
    Some(Vector { input, trim: trim?, pair: pair?, tags: tags?, ops: ops?, between, between_first })
}

pub(super) fn print_vector(vector: &Vector, spell: NameSpelling<'_>) -> Item {
    let mut statements = Vec::new();
    if vector.trim {
        statements.push(Item::line("trim"));
    }
    if vector.pair {
        statements.push(Item::line("pair"));
    }
    for tag in &vector.tags {
        let word = print_word(tag.word, vector.input);
        statements.push(Item::line(format!("tag {} {word}", print_relation(tag.relation))));
    }
    let mut word = vector.input;
    for op in &vector.ops {
        statements.push(print_op(op, immediate_type(&op.kind, word), spell));
        word = type_behind(&op.kind, word);
    }
    if vector.between.is_some() || vector.between_first {
        statements.push(Item::line(print_between(vector.between, vector.between_first)));
    }
    let input = if vector.input == Word::I32 { "i32" } else { "f32" };
    Item::fit(format!("vector {input}"), statements)
}

/// The units among the statements of the block, in order.
fn read_ops(node: Node<'_>, input: Word, names: &ProgramNames<'_>, log: &mut Log) -> Option<Vec<Op>> {
    let (mut ops, mut word) = (Some(Vec::new()), input);
    for statement in node.children() {
        if log.is_full() {
            return None;
        }
        if matches!(statement.head().text, "trim" | "pair" | "tag" | "between") {
            continue;
        }
        match (read_op(statement, word, names, log), &mut ops) {
            (Some(op), Some(ops)) => {
                word = type_behind(&op.kind, word);
                ops.push(op);
            }
            _ => ops = None,
        }
    }
    ops
}

fn read_op(node: Node<'_>, current: Word, names: &ProgramNames<'_>, log: &mut Log) -> Option<Op> {
    let mut args = node.args();
    let mut kind = log.keep(read_kind(node, &mut args))?;
    if let OpKind::Reduce(reduce) = &mut kind {
        read_reduce_block(node, reduce, names, log)?;
    } else {
        log.keep(node.no_block())?;
    }
    let operands = log.keep(read_operands(&mut args, immediate_type(&kind, current), names))?;
    let reversed = args.eat_word("reversed");
    let stash = args.eat_word("keep");
    log.keep(args.done())?;
    Some(Op { kind, operands, reversed, stash })
}

fn read_kind(node: Node<'_>, args: &mut Args<'_>) -> Read<OpKind> {
    let head = node.head().text;
    if let Some((_, kind)) = UNITS.iter().find(|(name, _)| *name == head) {
        return Ok(kind.clone());
    }
    match head {
        "to_float" => Ok(OpKind::ToFloat { int_width: args.integer("a number of bits")? }),
        "to_fixed" => Ok(OpKind::ToFixed { int_width: args.integer("a number of bits")? }),
        "filter" => read_pattern(args).map(|(mask, value)| OpKind::Filter { mask, value }),
        "reduce" => {
            let op = args.one_of("reduction", &REDUCE_OPS)?;
            let tree = args.eat_word("tree");
            Ok(OpKind::Reduce(Reduce { op, tree, steps: Vec::new(), limits: Vec::new() }))
        }
        _ => {
            let known: Vec<&str> =
                UNITS.iter().map(|(name, _)| *name).chain(OTHERS.iter().copied()).collect();
            Err(node.unknown(&known))
        }
    }
}

fn read_reduce_block(
    node: Node<'_>,
    reduce: &mut Reduce,
    names: &ProgramNames<'_>,
    log: &mut Log,
) -> Option<()> {
    let fields = Fields::new(node, &["steps", "limit"], log);
    let steps = fields.maybe("steps", Vec::new(), log, |args| read_steps(args, names));
    let limits = fields.many("limit", log, |args| read_reduce_limit(args, names));
    (reduce.steps, reduce.limits) = (steps?, limits?);
    Some(())
}

fn print_op(op: &Op, word: Word, spell: NameSpelling<'_>) -> Item {
    let mut block = Vec::new();
    let mut text = match &op.kind {
        OpKind::ToFloat { int_width } => format!("to_float {int_width}"),
        OpKind::ToFixed { int_width } => format!("to_fixed {int_width}"),
        OpKind::Filter { mask, value } => format!("filter {mask}={value}"),
        OpKind::Reduce(reduce) => {
            if !reduce.steps.is_empty() {
                block.push(Item::line(format!("steps {}", print_steps(&reduce.steps, spell))));
            }
            for limit in &reduce.limits {
                block.push(Item::line(format!("limit {}", print_reduce_limit(limit, spell))));
            }
            format!("reduce {}{}", print_reduce_op(reduce.op), if reduce.tree { " tree" } else { "" })
        }
        kind => UNITS.iter().find(|(_, known)| known == kind).map_or("", |(name, _)| name).to_string(),
    };
    for operand in &op.operands {
        let _ = write!(text, " {}", print_operand(operand, word, spell));
    }
    if op.reversed {
        text.push_str(" reversed");
    }
    if op.stash {
        text.push_str(" keep");
    }
    Item::fit_unless_empty(text, block)
}

fn print_reduce_op(op: ReduceOp) -> &'static str {
    REDUCE_OPS.iter().find(|(_, known)| *known == op).map_or("", |(name, _)| name)
}

/// `OP SLICES GIVES first`, or `none first` where only the place is set.
fn read_between(args: &mut Args<'_>) -> Read<(Option<InterSliceReduce>, bool)> {
    if args.eat_word("none") {
        return Ok((None, args.eat_word("first")));
    }
    let op = args.one_of("reduction", &REDUCE_OPS)?;
    let slices = args.unsigned("slices of a group")?;
    const GIVES: [(&str, ReduceOutput); 3] = [
        ("first_slice", ReduceOutput::First),
        ("broadcast", ReduceOutput::Broadcast),
        ("scatter", ReduceOutput::Scatter { inner: 0 }),
    ];
    let gives = match args.one_of("way to give results", &GIVES)? {
        ReduceOutput::Scatter { .. } => {
            let mut inner = args.bracketed(Bracket::Round, "(INNER)")?;
            let flits = inner.unsigned("flits inside the promoted digit")?;
            inner.done()?;
            ReduceOutput::Scatter { inner: flits }
        }
        other => other,
    };
    Ok((Some(InterSliceReduce { op, slices, gives }), args.eat_word("first")))
}

fn print_between(between: Option<InterSliceReduce>, first: bool) -> String {
    let place = if first { " first" } else { "" };
    let Some(InterSliceReduce { op, slices, gives }) = between else { return format!("between none{place}") };
    let gives = match gives {
        ReduceOutput::First => "first_slice".to_string(),
        ReduceOutput::Broadcast => "broadcast".to_string(),
        ReduceOutput::Scatter { inner } => format!("scatter({inner})"),
    };
    format!("between {} {slices} {gives}{place}", print_reduce_op(op))
}
