//! Operands of the vector engine: words, register file reads, the stash, the other group, and choices by tag.

use std::fmt::Write as _;

use tilewright_base::Diagnostic;
use tilewright_ir::{Args, Bracket, Kind, Read, Sign, print};

use super::loops::{number_next, print_loops, read_at, read_loops};
use super::names::{NameSpelling, ProgramNames};
use crate::program::vector::{GuardedSource, OpKind, OperandChoice, OperandSource, Relation, Word};

const RELATIONS: [(Sign, Relation); 6] = [
    (Sign::EqualTo, Relation::Eq),
    (Sign::NotEqualTo, Relation::Ne),
    (Sign::Less, Relation::Lt),
    (Sign::AtMost, Relation::Le),
    (Sign::Greater, Relation::Gt),
    (Sign::AtLeast, Relation::Ge),
];

pub(super) fn read_relation(args: &mut Args<'_>) -> Read<Relation> {
    let before = args.clone();
    let found = args.any_sign().and_then(|sign| RELATIONS.iter().find(|(known, _)| *known == sign));
    found.map(|(_, relation)| *relation).ok_or_else(|| before.expected("one of == != < <= > >="))
}

pub(super) fn print_relation(relation: Relation) -> &'static str {
    RELATIONS.iter().find(|(_, known)| *known == relation).map_or("", |(sign, _)| sign.text())
}

/// The type of a unit's immediates, if words of type `current` reach it.
pub(super) fn immediate_type(kind: &OpKind, current: Word) -> Word {
    use OpKind as K;
    match kind {
        K::FAdd | K::FSub | K::FMul | K::Fma | K::FpuDiv | K::Mul0 | K::Mul1 | K::Div | K::ToFixed { .. } => {
            Word::F32
        }
        K::Sqrt | K::Tanh | K::Sigmoid | K::Erf | K::Log | K::Sin | K::Cos | K::Exp | K::ExpNeg => Word::F32,
        K::And | K::Or | K::Xor | K::Shl | K::Shr | K::ToFloat { .. } => Word::I32,
        K::Add | K::AddSat | K::Sub | K::SubSat | K::ShlSat | K::Mul | K::MulQ31 => Word::I32,
        K::ShrLogic | K::ShrArith | K::ShrRound => Word::I32,
        K::ClipAdd | K::ClipMax | K::ClipAbsMax | K::ClipMin | K::ClipAbsMin => current,
        K::Reduce(_) | K::Filter { .. } => current,
    }
}

/// The type of words behind a unit.
pub(super) fn type_behind(kind: &OpKind, current: Word) -> Word {
    match kind {
        OpKind::ToFloat { .. } => Word::F32,
        OpKind::ToFixed { .. } => Word::I32,
        _ => current,
    }
}

pub(super) fn read_word(args: &mut Args<'_>, word: Word) -> Read<u32> {
    if word == Word::F32 {
        return args.f32_pattern("an f32");
    }
    let before = args.clone();
    let value: i64 = args.integer("an i32")?;
    let pattern = i32::try_from(value).map(i32::cast_unsigned).or_else(|_| u32::try_from(value));
    pattern.map_err(|_| {
        let complaint = Diagnostic::error("ir/value", format!("the number {value} is out of range"));
        Box::new(complaint.at(before.here(), "").allowed("32 bits").instead("-2147483648 to 2147483647"))
    })
}

pub(super) fn print_word(pattern: u32, word: Word) -> String {
    match word {
        Word::F32 => print::f32_pattern(pattern),
        Word::I32 => pattern.cast_signed().to_string(),
    }
}

/// Operands as far as they go.
pub(super) fn read_operands(
    args: &mut Args<'_>,
    word: Word,
    names: &ProgramNames<'_>,
) -> Read<Vec<OperandChoice>> {
    let mut operands = Vec::new();
    loop {
        if args.kind() == Some(Kind::Open(Bracket::Square)) {
            let sources = args.list("a choice by tag", |item| read_guarded(item, word, names))?;
            operands.push(OperandChoice { sources });
        } else if let Some(source) = read_source(args, word, names)? {
            operands.push(OperandChoice { sources: vec![GuardedSource { mask: 0, value: 0, source }] });
        } else {
            return Ok(operands);
        }
    }
}

pub(super) fn print_operand(choice: &OperandChoice, word: Word, spell: NameSpelling<'_>) -> String {
    match choice.sources.as_slice() {
        [GuardedSource { mask: 0, value: 0, source }] => print_source(source, word, spell),
        sources => print::list(sources, |guarded| {
            let source = print_source(&guarded.source, word, spell);
            match (guarded.mask, guarded.value) {
                (0, 0) => format!("else: {source}"),
                (mask, value) => format!("{mask}={value}: {source}"),
            }
        }),
    }
}

/// `MASK=VALUE: SOURCE` or `else: SOURCE`.
fn read_guarded(args: &mut Args<'_>, word: Word, names: &ProgramNames<'_>) -> Read<GuardedSource> {
    let (mask, value) = if args.eat_word("else") { (0, 0) } else { read_pattern(args)? };
    args.sign(Sign::Colon)?;
    match read_source(args, word, names)? {
        Some(source) => Ok(GuardedSource { mask, value, source }),
        None => Err(args.expected("a number, `vrf`, `stash` or `pair`")),
    }
}

/// `MASK=VALUE`
pub(super) fn read_pattern(args: &mut Args<'_>) -> Read<(u8, u8)> {
    let mask = args.integer("the mask of a tag")?;
    args.sign(Sign::Equals)?;
    Ok((mask, args.integer("the value of a tag")?))
}

fn read_source(args: &mut Args<'_>, word: Word, names: &ProgramNames<'_>) -> Read<Option<OperandSource>> {
    if number_next(args) {
        return read_word(args, word).map(|pattern| Some(OperandSource::Immediate(pattern)));
    }
    if args.eat_word("vrf") {
        return Ok(Some(OperandSource::Vrf { base: read_at(args)?, loops: read_loops(args, names)? }));
    }
    if args.eat_word("stash") {
        return Ok(Some(OperandSource::Stash));
    }
    Ok(args.eat_word("pair").then_some(OperandSource::Pair))
}

fn print_source(source: &OperandSource, word: Word, spell: NameSpelling<'_>) -> String {
    match source {
        OperandSource::Immediate(pattern) => print_word(*pattern, word),
        OperandSource::Vrf { base, loops } => {
            let mut text = format!("vrf at {base:#x}");
            if !loops.is_empty() {
                let _ = write!(text, " {}", print_loops(loops, spell));
            }
            text
        }
        OperandSource::Stash => "stash".to_string(),
        OperandSource::Pair => "pair".to_string(),
    }
}
