//! Kernels of a general graph as text: what they do (stage 2), and shapes, tactics, bridges and costs (stage
//! 3).

use std::fmt::Write as _;

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_cost::cycles::image::{exec_cycles, transfer_cost};
use tilewright_tcp_isa::program::vector::Comparison;
use tilewright_tcp_isa::program::{Exec, Transfer};

use super::kernel::{HostBox, Kernel, Kernels, Origin, Runs, Sizes, Value, Work};
use super::plan::Planned;
use super::view::View;
use super::words::{Line, Other, Step};

/// A value with its type: `y: f32[1, 10]`.
fn typed(value: &Value) -> String {
    let dims: Vec<String> = value.dims.iter().map(u64::to_string).collect();
    let dtype = if value.packing.is_narrow() { value.packing.name() } else { value.dtype.name() };
    format!("{}: {dtype}[{}]", value.name, dims.join(", "))
}

/// What a step does, in the words of the units; streams as `$n`, constants as patterns.
fn step(line: &Line) -> String {
    let word = |word: u32| format!("{word:#x}");
    let tests = |when: &[Comparison]| {
        let one = |test: &Comparison| format!("{:?} {}", test.relation, word(test.word)).to_lowercase();
        when.iter().map(one).collect::<Vec<String>>().join(", ")
    };
    let text = match &line.step {
        Step::Apply(function) => format!("{function:?}"),
        Step::With { arith, other, reversed } => {
            let other = match other {
                Other::Word(pattern) => word(*pattern),
                Other::Stream(stream) => format!("${stream}"),
            };
            format!("{arith:?} {other}{}", if *reversed { " reversed" } else { "" })
        }
        Step::ToFloat => "to_float".to_string(),
        Step::ToInt => "to_int".to_string(),
        Step::Pick { when, yes, no, .. } => format!("pick ({}) {} {}", tests(when), word(*yes), word(*no)),
        Step::Order => "order".to_string(),
    };
    format!("${} {}", line.input, text.to_lowercase())
}

/// Strided access: `x+4[8:12, 12:1]`, the first element, then size and stride of each axis.
fn view(all: &Kernels, view: &View) -> String {
    let axes: Vec<String> = view.axes.iter().map(|(size, stride)| format!("{size}:{stride}")).collect();
    let first = if view.first == 0 { String::new() } else { format!("{:+}", view.first) };
    format!("{}{first}[{}]", all.values[view.value].name, axes.join(", "))
}

/// A kernel in one line.
pub fn kernel_line(all: &Kernels, number: usize, kernel: &Kernel) -> String {
    let results: Vec<String> = kernel.results.iter().map(|value| typed(&all.values[*value])).collect();
    let mut reads = kernel.reads();
    reads.dedup();
    let reads: Vec<&str> = reads.iter().map(|value| all.values[*value].name.as_str()).collect();
    let more = match &kernel.work {
        Work::Move(parts) => {
            let elements = |loops: &[(u64, i64, i64)]| loops.iter().map(|row| row.0).product::<u64>();
            let over = match kernel.results.first().map(|value| &all.values[*value].origin) {
                Some(Origin::Filled(word)) => format!(" over {word:#x}"),
                _ => String::new(),
            };
            format!("elements {}{over}", parts.iter().map(|part| elements(&part.loops)).sum::<u64>())
        }
        Work::Gather { around: (outer, size, inner), .. } => format!("rows {outer}x{size}x{inner}"),
        Work::Scatter { inner, .. } => format!("rows of {inner}"),
        Work::Chain { inputs, lines, streams } => {
            let steps: Vec<String> = lines
                .iter()
                .enumerate()
                .map(|(at, line)| format!("${}={}", inputs.len() + at, step(line)))
                .collect();
            let given: Vec<String> = streams.iter().map(|stream| format!("${stream}")).collect();
            let views: Vec<String> =
                inputs.iter().filter(|one| !all.is_whole(one)).map(|one| view(all, one)).collect();
            let seen =
                if views.is_empty() { String::new() } else { format!(" through {}", views.join(", ")) };
            format!("{{{}}} gives {}{seen}", steps.join("; "), given.join(", "))
        }
        Work::Contract { a, b, sizes } => {
            let Sizes { batch, rows, columns, summed, runs, .. } = *sizes;
            let runs = runs.map_or(String::new(), |Runs { size, live }| format!(", {live} of each {size}"));
            let text = format!("bmk, bnk -> bmn; b={batch} m={rows} n={columns} k={summed}{runs}");
            let views = [(*a, 0), (*b, 1)].map(|(value, operand)| view(all, &sizes.view(value, operand)));
            if sizes.is_dense() { text } else { format!("{text} through {}", views.join(", ")) }
        }
        Work::Reduce { fold, columns, .. } => format!("{} of {columns}", fold.name()),
    };
    format!("{number} {} {} = ({}) {more}", kernel.name(), results.join(", "), reads.join(", "))
}

/// What the host gives or takes of a value, if not all.
fn by_host(value: &Value) -> String {
    let Some(HostBox { first, axes }) = &value.host else { return String::new() };
    let axes: Vec<String> = axes.iter().map(|(size, step)| format!("{size}:{step}")).collect();
    let first = if *first == 0 { String::new() } else { format!("{first}+") };
    format!(" of which the host has {first}[{}]", axes.join(", "))
}

/// Kernels as text.
pub fn kernels(all: &Kernels) -> String {
    let mut text = format!("general kernels 1\nname {}\n", all.name);
    for input in &all.inputs {
        let _ = writeln!(text, "input {}{}", typed(&all.values[*input]), by_host(&all.values[*input]));
    }
    for value in all.values.iter().filter(|value| matches!(value.origin, Origin::Constant(_))) {
        let _ = writeln!(text, "const {}", typed(value));
    }
    for (number, one) in all.kernels.iter().enumerate() {
        let _ = writeln!(text, "{}", kernel_line(all, number, one));
    }
    for result in &all.results {
        let value = &all.values[result.value];
        let _ = writeln!(text, "output {} = {}{}", result.name, value.name, by_host(value));
    }
    text
}

/// What belongs to a kernel.
fn of_kernel<'a, T>(all: &'a [T], kernels: &'a [usize], number: usize) -> impl Iterator<Item = &'a T> {
    all.iter().zip(kernels).filter(move |(_, kernel)| **kernel == number).map(|(one, _)| one)
}

/// Kernels with shapes, tactics, bridges and what their commands take, each command alone.
pub fn lowered(machine: &Tcp, planned: &Planned) -> String {
    let all = &planned.kernels;
    let mut text = format!("general lowered 1\nname {}\n", all.name);
    for (number, one) in all.kernels.iter().enumerate() {
        let _ = writeln!(text, "{}", kernel_line(all, number, one));
        if planned.chosen.is_tail(number) {
            let _ = writeln!(text, "  where the contraction leaves its result");
            continue;
        }
        if planned.chosen.is_inside(number) {
            let _ = writeln!(text, "  where the contraction writes it");
        }
        if planned.chosen.unwritten.contains(&number) {
            let _ = writeln!(text, "  where the contraction looks at it");
        }
        if let Some(tactic) = planned.chosen.tactics.get(&number) {
            let (pick, weighed) = planned.chosen.picks.get(&number).copied().unwrap_or((1, 1));
            let _ = writeln!(text, "  tactic   {pick} of {weighed}, {} cycles", tactic.cycles);
            for line in tactic.text.lines() {
                let _ = writeln!(text, "    {line}");
            }
            if let Some(tail) = planned.chosen.tails.get(&number) {
                let _ = writeln!(text, "  tail     kernel {tail}");
            }
            for ((_, operand), from) in planned.chosen.straight.range((number, 0)..(number + 1, 0)) {
                let _ = writeln!(text, "  straight operand {operand} from kernel {from}");
            }
        }
        if let Some(tiled) = planned.chosen.tiled.get(&number) {
            let _ = writeln!(text, "  tiled    {tiled}");
            if let Some(inside) = planned.chosen.padded.get(&number) {
                let target = &all.values[inside.target].name;
                let _ = writeln!(text, "  inside   the padding of {target}, by kernel {}", inside.mover);
            }
            if let Some(looked) = planned.chosen.windows.get(&number) {
                let source = &all.values[looked.source].name;
                let _ = writeln!(text, "  windows  of {source}, by kernel {}", looked.chain);
            }
            if let Some(kernels) = planned.chosen.epilogues.get(&number) {
                let kernels: Vec<String> = kernels.iter().map(ToString::to_string).collect();
                let plural = if kernels.len() == 1 { "" } else { "s" };
                let _ = writeln!(text, "  epilogue kernel{plural} {}", kernels.join(", "));
            }
        }
        for one in planned.residents.iter().filter(|one| one.maker == number) {
            let readers: Vec<String> = one.readers.iter().map(ToString::to_string).collect();
            let (name, readers) = (&all.values[one.value].name, readers.join(", "));
            let besides = if one.is_stored { ", and in HBM" } else { "" };
            let _ = writeln!(text, "  resident {name} for {readers}{besides}");
        }
        let transfers: Vec<&Transfer> =
            of_kernel(&planned.program.transfers, &planned.kernel_of_transfer, number).collect();
        let execs: Vec<&Exec> = of_kernel(&planned.program.execs, &planned.kernel_of_exec, number).collect();
        let dma = transfers
            .iter()
            .filter_map(|one| transfer_cost(machine, one))
            .map(|cost| cost.cycles.total_cycles);
        let tensor_unit = execs.iter().map(|exec| exec_cycles(machine, exec).total_cycles);
        let _ = writeln!(
            text,
            "  cycles   dma {} in {}, tensor unit {} in {}",
            dma.sum::<u64>(),
            transfers.len(),
            tensor_unit.sum::<u64>(),
            execs.len()
        );
    }
    let (chosen, alone) = planned.chosen.cycles;
    if !planned.chosen.tactics.is_empty() {
        let _ = writeln!(
            text,
            "contractions and bridges {chosen} cycles, each by its own fastest tactic {alone}"
        );
    }
    text
}
