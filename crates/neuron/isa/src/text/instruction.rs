//! Executed instructions: `nc_matmul tensor line=4 { busy_ps 53333; read t0 bytes=0 to 512; ... }`.

use std::fmt::Write as _;

use tilewright_ir::{Args, Fields, Item, Log, Node, Read, Sign, print as ir};

use super::region::{print_region, read_region};
use crate::engine_kind::EngineKind;
use crate::function::ActivationFunction;
use crate::instruction::{CollectiveInfo, ComputeForm, DmaShape, Instruction, InstructionCost};

const ENGINES: [(&str, EngineKind); 6] = {
    let [tensor, vector, scalar, gpsimd, dma, sync] = EngineKind::ALL;
    [
        (tensor.name(), tensor),
        (vector.name(), vector),
        (scalar.name(), scalar),
        (gpsimd.name(), gpsimd),
        (dma.name(), dma),
        (sync.name(), sync),
    ]
};

const FORMS: [(&str, ComputeForm); 8] = [
    ("other", ComputeForm::Other),
    ("map", ComputeForm::Map),
    ("sum", ComputeForm::Sum),
    ("reciprocal", ComputeForm::Reciprocal),
    ("product", ComputeForm::Product),
    ("copy", ComputeForm::Copy),
    ("scaled", ComputeForm::Scaled),
    ("linear", ComputeForm::Linear),
];

const FIELDS: &[&str] = &[
    "busy_ps",
    "latency_ps",
    "write",
    "read",
    "offset",
    "hbm_read_bytes",
    "hbm_written_bytes",
    "dma",
    "macs",
    "operand_bits",
    "passes",
    "cells",
    "full_rows",
    "block_scaled",
    "table",
    "form",
    "digest",
    "on_scalar",
    "on_gpsimd",
    "borrows_port",
    "uninitialised",
    "outside_table",
    "other_values",
    "merged",
    "collective",
];

/// What stands on the line of an instruction, before its block.
struct InstructionHead {
    engine: EngineKind,
    source: u32,
    program: u32,
    barrier: u32,
}

pub(super) fn read_instruction(node: Node<'_>, opcode: &'static str, log: &mut Log) -> Option<Instruction> {
    let head = log.keep(node.line(read_head));
    let fields = Fields::new(node, FIELDS, log);
    let mut one = Instruction::untouched(opcode, EngineKind::Sync, InstructionCost::default());
    let done = read_times(&fields, &mut one, log);
    let done = read_regions(&fields, &mut one, log).and(done);
    let done = read_work(&fields, &mut one, log).and(done);
    let done = read_flags(&fields, &mut one, log).and(done);
    let done = read_alternatives(&fields, &mut one, log).and(done);
    let head = head?;
    (one.engine, one.source, one.program, one.barrier) =
        (head.engine, head.source, head.program, head.barrier);
    done.map(|()| one)
}

fn read_head(args: &mut Args<'_>) -> Read<InstructionHead> {
    let engine = args.one_of("engine", &ENGINES)?;
    args.named("line")?;
    let source = args.integer("the number of a line")?;
    let program = if args.eat_named("program") { args.integer("a program of the launch")? } else { 0 };
    let barrier = if args.eat_named("barrier") { args.integer("a number of barriers")? } else { 0 };
    Ok(InstructionHead { engine, source, program, barrier })
}

fn number(fields: &Fields<'_>, name: &'static str, log: &mut Log) -> Option<u64> {
    fields.maybe(name, 0, log, |args| args.unsigned("a number"))
}

fn read_times(fields: &Fields<'_>, one: &mut Instruction, log: &mut Log) -> Option<()> {
    let (busy, latency) = (number(fields, "busy_ps", log), number(fields, "latency_ps", log));
    let (read, written) = (number(fields, "hbm_read_bytes", log), number(fields, "hbm_written_bytes", log));
    let dma = fields.maybe("dma", None, log, |args| read_dma(args).map(Some));
    one.cost = InstructionCost { busy_ps: busy?, latency_ps: latency? };
    (one.hbm_read_bytes, one.hbm_written_bytes, one.dma) = (read?, written?, dma?);
    Some(())
}

fn read_dma(args: &mut Args<'_>) -> Read<DmaShape> {
    args.named("engines")?;
    let engines = args.integer("a number of DMA engines")?;
    args.named("data_ps")?;
    let data_ps = args.unsigned("picoseconds")?;
    args.named("bytes")?;
    let bytes = args.unsigned("bytes")?;
    args.named("descriptors")?;
    let descriptors = args.unsigned("a number of runs")?;
    Ok(DmaShape { engines, data_ps, bytes, descriptors, software: args.eat_word("software") })
}

fn read_regions(fields: &Fields<'_>, one: &mut Instruction, log: &mut Log) -> Option<()> {
    let writes = fields.many("write", log, read_region);
    let reads = fields.many("read", log, read_region);
    let offsets = fields.many("offset", log, read_region)?;
    (one.writes, one.reads) = (writes?.into(), reads?.into());
    one.offsets = (!offsets.is_empty()).then(|| offsets.into());
    Some(())
}

fn read_work(fields: &Fields<'_>, one: &mut Instruction, log: &mut Log) -> Option<()> {
    let macs = number(fields, "macs", log);
    let operand_bits = fields.maybe("operand_bits", 0, log, |args| args.integer("bits of an operand"));
    let passes = fields.maybe("passes", 1, log, |args| args.integer("a number of passes"));
    let cells = fields.maybe("cells", 0, log, |args| args.integer("cells as bits"));
    let full_rows = fields.flag("full_rows", log);
    let block_scaled = fields.flag("block_scaled", log);
    (one.macs, one.operand_bits, one.passes, one.cells) = (macs?, operand_bits?, passes?, cells?);
    (one.full_rows, one.block_scaled) = (full_rows?, block_scaled?);
    Some(())
}

fn read_flags(fields: &Fields<'_>, one: &mut Instruction, log: &mut Log) -> Option<()> {
    let borrows_port = fields.flag("borrows_port", log);
    let uninitialised = fields.flag("uninitialised", log);
    let outside_table = fields.flag("outside_table", log);
    let merged = fields.flag("merged", log);
    (one.borrows_port, one.uninitialised) = (borrows_port?, uninitialised?);
    one.other_values = fields.flag("other_values", log)?;
    (one.outside_table, one.merged) = (outside_table?, merged?);
    Some(())
}

fn read_alternatives(fields: &Fields<'_>, one: &mut Instruction, log: &mut Log) -> Option<()> {
    let table = fields.maybe("table", None, log, |args| read_function(args).map(Some));
    let form = fields.maybe("form", ComputeForm::Other, log, |args| args.one_of("form", &FORMS));
    let digest = number(fields, "digest", log);
    let on_scalar = fields.maybe("on_scalar", None, log, |args| read_cost(args).map(Some));
    let on_gpsimd = fields.maybe("on_gpsimd", None, log, |args| read_cost(args).map(Some));
    let collective = fields.maybe("collective", None, log, |args| read_exchange(args).map(Some))?;
    (one.table, one.form, one.digest) = (table?, form?, digest?);
    (one.on_scalar, one.on_gpsimd) = (on_scalar?, on_gpsimd?);
    one.collective = collective.map(Box::new);
    Some(())
}

fn read_function(args: &mut Args<'_>) -> Read<ActivationFunction> {
    args.one_of("function", crate::function::NAMES)
}

fn read_cost(args: &mut Args<'_>) -> Read<InstructionCost> {
    args.named("busy_ps")?;
    let busy_ps = args.unsigned("picoseconds")?;
    args.named("latency_ps")?;
    Ok(InstructionCost { busy_ps, latency_ps: args.unsigned("picoseconds")? })
}

fn read_exchange(args: &mut Args<'_>) -> Read<CollectiveInfo> {
    args.named("ranks")?;
    let members = args.list("ranks as [0, 1]", |item| item.integer("a rank"))?;
    args.named("number")?;
    let number = args.integer("how often they met before")?;
    args.named("start_ps")?;
    let start_ps = args.unsigned("picoseconds")?;
    args.named("links")?;
    let links = args.list("links as [LINK: PS]", |item| {
        let link = item.integer("the number of a link")?;
        item.sign(Sign::Colon)?;
        Ok((link, item.unsigned("picoseconds")?))
    })?;
    Ok(CollectiveInfo { members, links, number, start_ps })
}

pub(super) fn print_instruction(one: &Instruction) -> Item {
    let mut head = format!("{} {} line={}", one.opcode, one.engine.name(), one.source);
    if one.program != 0 {
        let _ = write!(head, " program={}", one.program);
    }
    if one.barrier != 0 {
        let _ = write!(head, " barrier={}", one.barrier);
    }
    let mut lines = InstructionBlock::default();
    lines.number("busy_ps", one.cost.busy_ps, 0);
    lines.number("latency_ps", one.cost.latency_ps, 0);
    for (name, regions) in
        [("write", &one.writes[..]), ("read", &one.reads), ("offset", one.offsets.as_deref().unwrap_or(&[]))]
    {
        regions.iter().for_each(|region| lines.text(name, &print_region(region)));
    }
    lines.number("hbm_read_bytes", one.hbm_read_bytes, 0);
    lines.number("hbm_written_bytes", one.hbm_written_bytes, 0);
    one.dma.iter().for_each(|dma| lines.text("dma", &print_dma(dma)));
    print_work(one, &mut lines);
    one.collective.iter().for_each(|collective| lines.text("collective", &print_exchange(collective)));
    Item::fit_unless_empty(head, lines.items)
}

fn print_work(one: &Instruction, lines: &mut InstructionBlock) {
    lines.number("macs", one.macs, 0);
    lines.number("operand_bits", one.operand_bits.into(), 0);
    lines.number("passes", one.passes.into(), 1);
    lines.bits("cells", one.cells.into());
    lines.flag("full_rows", one.full_rows);
    lines.flag("block_scaled", one.block_scaled);
    one.table.iter().for_each(|table| lines.text("table", table.name()));
    let form =
        FORMS.iter().find(|(_, form)| *form == one.form).filter(|(_, form)| *form != ComputeForm::Other);
    form.iter().for_each(|(name, _)| lines.text("form", name));
    lines.bits("digest", one.digest);
    one.on_scalar.iter().for_each(|cost| lines.text("on_scalar", &print_cost(*cost)));
    one.on_gpsimd.iter().for_each(|cost| lines.text("on_gpsimd", &print_cost(*cost)));
    lines.flag("borrows_port", one.borrows_port);
    lines.flag("uninitialised", one.uninitialised);
    lines.flag("outside_table", one.outside_table);
    lines.flag("other_values", one.other_values);
    lines.flag("merged", one.merged);
}

fn print_dma(dma: &DmaShape) -> String {
    let DmaShape { engines, data_ps, bytes, descriptors, software } = dma;
    let software = if *software { " software" } else { "" };
    format!("engines={engines} data_ps={data_ps} bytes={bytes} descriptors={descriptors}{software}")
}

fn print_cost(cost: InstructionCost) -> String {
    format!("busy_ps={} latency_ps={}", cost.busy_ps, cost.latency_ps)
}

fn print_exchange(collective: &CollectiveInfo) -> String {
    let CollectiveInfo { members, links, number, start_ps } = collective;
    let ranks = ir::list(members, u32::to_string);
    let links = ir::list(links, |(link, kept_ps)| format!("{link}: {kept_ps}"));
    format!("ranks={ranks} number={number} start_ps={start_ps} links={links}")
}

/// The block of an instruction: what is as it would be without a statement is left out.
#[derive(Default)]
struct InstructionBlock {
    items: Vec<Item>,
}

impl InstructionBlock {
    fn text(&mut self, name: &str, value: &str) {
        self.items.push(Item::line(format!("{name} {value}")));
    }

    fn number(&mut self, name: &str, value: u64, default: u64) {
        if value != default {
            self.items.push(Item::line(format!("{name} {value}")));
        }
    }

    fn bits(&mut self, name: &str, value: u64) {
        if value != 0 {
            self.items.push(Item::line(format!("{name} {value:#x}")));
        }
    }

    fn flag(&mut self, name: &str, holds: bool) {
        if holds {
            self.items.push(Item::line(name));
        }
    }
}
