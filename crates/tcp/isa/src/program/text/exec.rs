//! Tensor unit commands: streams, fills and direct loads.

use tilewright_base::Diagnostic;
use tilewright_ir::{Args, Fields, Item, Log, Node, Read, print};

use super::address::{print_memory, read_memory};
use super::commit::{print_commit, read_commit};
use super::contract::{print_contract, read_contract};
use super::fetch::{print_fetch, read_fetch};
use super::loops::read_at;
use super::names::{NameSpelling, ProgramNames, read_dtype};
use super::switch::{print_switch, read_switch};
use super::vector::{print_vector, read_vector};
use crate::program::Exec;
use crate::program::exec::{Context, ExecBody, Fill, ShortLoad, Stream, Switch, Transpose};

const CONTEXTS: [(&str, Context); 2] = [("main", Context::Main), ("sub", Context::Sub)];
const STREAM: &[&str] = &["fetch", "switch", "contract", "vector", "cast", "transpose", "commit"];

pub(super) fn read_context(args: &mut Args<'_>) -> Read<Context> {
    args.one_of("context", &CONTEXTS)
}

pub(super) fn print_context(context: Context) -> &'static str {
    CONTEXTS.iter().find(|(_, known)| *known == context).map_or("", |(name, _)| name)
}

pub(super) fn read_exec(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<Exec> {
    let head = log.keep(node.line(|args| {
        let name = args.name("the name of the exec")?;
        let context = read_context(args)?;
        let pes = if args.eat_named("pes") { args.unsigned("a number of PEs")? } else { 1 };
        Ok((name, context, pes))
    }));
    log.keep(node.needs_block())?;
    let body = read_body(node, names, log);
    let (name, context, pes) = head?;
    Some(Exec { name: name.text.into_owned(), context, pes, body: body?, span: node.span() })
}

pub(super) fn print_exec(exec: &Exec, spell: NameSpelling<'_>) -> Item {
    let mut text = format!("exec {} {}", print::name(&exec.name), print_context(exec.context));
    if exec.pes != 1 {
        text.push_str(&format!(" pes={}", exec.pes));
    }
    Item::lines(
        text,
        match &exec.body {
            ExecBody::Stream(stream) => print_stream(stream, spell),
            ExecBody::Fill(fill) => {
                vec![Item::line(format!("fill {:#x}", fill.word)), print_commit(&fill.commit, spell)]
            }
            ExecBody::Short(short) => vec![Item::line(print_short(*short))],
        },
    )
}

/// The first statement that only one kind of body has decides which it is.
fn read_body(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<ExecBody> {
    let has = |name: &str| node.children().any(|statement| statement.head().text == name);
    if has("short") {
        let fields = Fields::new(node, &["short"], log);
        return fields.one("short", log, read_short).map(ExecBody::Short);
    }
    if has("fill") {
        let fields = Fields::new(node, &["fill", "commit"], log);
        let word = fields.one("fill", log, |args| args.unsigned("a word of 8 bytes"));
        let commit = fields.required("commit", log).and_then(|node| read_commit(node, names, log));
        return Some(ExecBody::Fill(Fill { word: word?, commit: commit? }));
    }
    if node.children().next().is_none() {
        log.push(
            Diagnostic::error("ir/field", "an exec that does nothing")
                .at(node.span(), "")
                .allowed("fetch .. commit, fill and commit, or short")
                .instead("write at least `fetch` and `commit`"),
        );
        return None;
    }
    read_stream(node, names, log).map(|stream| ExecBody::Stream(Box::new(stream)))
}

fn read_stream(node: Node<'_>, names: &ProgramNames<'_>, log: &mut Log) -> Option<Stream> {
    let fields = Fields::new(node, STREAM, log);
    let fetch = fields.required("fetch", log).and_then(|node| read_fetch(node, names, log));
    let switch = fields.maybe("switch", Switch::default(), log, read_switch);
    let contract = fields.node("contract", log).map(|node| read_contract(node, names, log));
    let vector = fields.node("vector", log).map(|node| read_vector(node, names, log));
    let cast = fields.maybe("cast", None, log, |args| read_dtype(args).map(Some));
    let transpose = fields.maybe("transpose", None, log, |args| read_transpose(args).map(Some));
    let commit = fields.required("commit", log).and_then(|node| read_commit(node, names, log));
    let contract = match contract {
        Some(read) => Some(read?),
        None => None,
    };
    let vector = match vector {
        Some(read) => Some(read?),
        None => None,
    };
    let (fetch, switch, commit) = (fetch?, switch?, commit?);
    Some(Stream { fetch, switch, contract, vector, cast: cast?, transpose: transpose?, commit })
}

fn print_stream(stream: &Stream, spell: NameSpelling<'_>) -> Vec<Item> {
    let mut items = vec![print_fetch(&stream.fetch, spell)];
    items.extend(print_switch(&stream.switch));
    items.extend(stream.contract.as_ref().map(|contract| print_contract(contract, spell)));
    items.extend(stream.vector.as_ref().map(|vector| print_vector(vector, spell)));
    items.extend(stream.cast.map(|dtype| Item::line(format!("cast {dtype}"))));
    items.extend(stream.transpose.map(|transpose| Item::line(print_transpose(transpose))));
    items.push(print_commit(&stream.commit, spell));
    items
}

fn read_transpose(args: &mut Args<'_>) -> Read<Transpose> {
    let rows = args.unsigned("a number of rows")?;
    let columns = args.unsigned("a number of columns")?;
    let kept = if args.eat_named("kept") { args.unsigned("a number of columns")? } else { columns };
    Ok(Transpose { rows, columns, kept })
}

fn print_transpose(transpose: Transpose) -> String {
    let Transpose { rows, columns, kept } = transpose;
    let rest = if kept == columns { String::new() } else { format!(" kept={kept}") };
    format!("transpose {rows} {columns}{rest}")
}

fn read_short(args: &mut Args<'_>) -> Read<ShortLoad> {
    let bytes = args.unsigned("a number of bytes")?;
    args.keyword("from")?;
    let from = args.unsigned("a byte offset in data memory")?;
    args.keyword("to")?;
    let memory = read_memory(args)?;
    Ok(ShortLoad { from, bytes, memory, base: read_at(args)? })
}

fn print_short(short: ShortLoad) -> String {
    let ShortLoad { from, bytes, memory, base } = short;
    format!("short {bytes} from {from:#x} to {} at {base:#x}", print_memory(memory))
}
