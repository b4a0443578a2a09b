//! Names of registers, transfers, execs and tensors, and what they stand for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use tilewright_base::invariant::OrBroken;

use tilewright_base::nearest::nearest;
use tilewright_base::{Diagnostic, Span};
use tilewright_ir::args::shortened;
use tilewright_ir::{Args, Kind, Log, Quoted, Read, Tree, print};
use tilewright_num::Dtype;

use crate::program::{Count, ExecId, Program, RegisterId, TransferId};

/// Names that are looked through for one that is meant.
const MOST_CANDIDATES: usize = 1000;

/// The names of one kind, numbered in the order of the text.
#[derive(Default)]
struct NameTable<'t> {
    known: BTreeMap<Cow<'t, str>, (u32, Span)>,
    count: u32,
}

/// Everything that a text declares.
#[derive(Default)]
pub(super) struct ProgramNames<'t> {
    registers: NameTable<'t>,
    transfers: NameTable<'t>,
    execs: NameTable<'t>,
    tensors: NameTable<'t>,
}

impl<'t> ProgramNames<'t> {
    /// Collects all names; a name that cannot be read is complained about when its statement is.
    pub(super) fn of(tree: &'t Tree<'t>, log: &mut Log) -> ProgramNames<'t> {
        let mut names = ProgramNames::default();
        for statement in tree.statements() {
            let table = match statement.head().text {
                "register" => &mut names.registers,
                "transfer" => &mut names.transfers,
                "exec" => &mut names.execs,
                "tensor" => &mut names.tensors,
                _ => continue,
            };
            if let Ok(name) = statement.args().name("a name") {
                table.declare(statement.head().text, name, log);
            }
        }
        names
    }

    pub(super) fn register(&self, args: &mut Args<'_>) -> Read<RegisterId> {
        self.registers.find(args, "register").map(RegisterId)
    }

    pub(super) fn transfer(&self, args: &mut Args<'_>) -> Read<TransferId> {
        self.transfers.find(args, "transfer").map(TransferId)
    }

    pub(super) fn exec(&self, args: &mut Args<'_>) -> Read<ExecId> {
        self.execs.find(args, "exec").map(ExecId)
    }

    /// A number or the name of a register.
    pub(super) fn count(&self, args: &mut Args<'_>) -> Read<Count> {
        match args.kind() {
            Some(Kind::Word | Kind::Text) => self.register(args).map(Count::Register),
            _ => args.unsigned("a size: a number or a register").map(Count::Fixed),
        }
    }
}

impl<'t> NameTable<'t> {
    fn declare(&mut self, kind: &str, name: Quoted<'t>, log: &mut Log) {
        let id = self.count;
        self.count = self.count.checked_add(1).or_broken("a text has fewer names than 32 bits count");
        if let Some((_, before)) = self.known.get(name.text.as_ref()) {
            let what = format!("two statements declare the {kind} `{}`", shortened(&name.text));
            log.push(
                Diagnostic::error("program/name", what)
                    .at(name.span, "second time")
                    .also(*before, "first time")
                    .allowed(format!("one {kind} of a name"))
                    .instead(print::name(&format!("{}_2", shortened(&name.text)))),
            );
            return;
        }
        self.known.insert(name.text, (id, name.span));
    }

    fn find(&self, args: &mut Args<'_>, kind: &str) -> Read<u32> {
        let name = args.name(&format!("the name of a {kind}"))?;
        if let Some((id, _)) = self.known.get(name.text.as_ref()) {
            return Ok(*id);
        }
        let what = format!("no {kind} is called `{}`", shortened(&name.text));
        let complaint = Diagnostic::error("program/name", what).at(name.span, "");
        let candidates = self.known.keys().take(MOST_CANDIDATES).map(AsRef::as_ref);
        let complaint = complaint.allowed(format!("the name of a declared {kind}"));
        Err(Box::new(match nearest(&name.text, candidates) {
            "" => complaint.instead(format!("declare it: {kind} {} ..", print::name(&shortened(&name.text)))),
            near => complaint.instead(print::name(near)),
        }))
    }
}

/// An element type.
pub(super) fn read_dtype(args: &mut Args<'_>) -> Read<Dtype> {
    let word = args.word("an element type")?;
    Dtype::from_name(word.text).ok_or_else(|| {
        let what = format!("`{}` is no element type", shortened(word.text));
        let near = nearest(word.text, Dtype::ALL.iter().map(|dtype| dtype.name()));
        let all: Vec<&str> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
        Box::new(Diagnostic::error("ir/value", what).at(word.span, "").allowed(all.join(", ")).instead(near))
    })
}

/// What is looked up while printing. An id without a declaration prints as a name that none has.
#[derive(Clone, Copy)]
pub(super) struct NameSpelling<'p> {
    pub(super) program: &'p Program,
}

impl NameSpelling<'_> {
    pub(super) fn register(self, id: RegisterId) -> String {
        self.name(self.program.registers.get(id.0 as usize).map(|register| &register.name), id.0)
    }

    pub(super) fn transfer(self, id: TransferId) -> String {
        self.name(self.program.transfers.get(id.0 as usize).map(|transfer| &transfer.name), id.0)
    }

    pub(super) fn exec(self, id: ExecId) -> String {
        self.name(self.program.execs.get(id.0 as usize).map(|exec| &exec.name), id.0)
    }

    fn name(self, name: Option<&String>, id: u32) -> String {
        name.map_or_else(|| print::quoted(&format!("#{id}")), |name| print::name(name))
    }

    pub(super) fn count(self, count: Count) -> String {
        match count {
            Count::Fixed(value) => value.to_string(),
            Count::Register(id) => self.register(id),
        }
    }
}
