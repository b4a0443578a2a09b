//! What runs without arguments: an einsum with its tactic becomes a command program, the program is run, and its results are
//! compared with plain einsum.
//!
//! [`KERNEL`] is the one place that says what is demonstrated.

use std::fmt::Write as _;

use tilewright_base::{SourceId, Sources};
use tilewright_machine::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::{Dtype, int_value};
use tilewright_record::KeepLast;
use tilewright_report::columns::{counted, thousands};
use tilewright_runtime::readings::input;
use tilewright_runtime::{Array, ArrayError, Reading, Wanted, read};
use tilewright_tcp::Setup;
use tilewright_tcp::lower::{Options, lower};
use tilewright_tcp::program::{Program, Tensor, text};

use crate::chip::load_chip;
use crate::host::Host;
use crate::notation::summary;
use crate::outcome::{FAILED, OUR_FAULT, Outcome};
use crate::sim;

/// A kernel to demonstrate.
struct Kernel {
    /// What it is, in one line.
    title: &'static str,
    /// Its file, for commands to repeat.
    path: &'static str,
    /// The text of that file.
    text: &'static str,
    /// Type of its inputs.
    dtype: Dtype,
    /// The results by plain loops over the inputs.
    plain: fn(&[Array]) -> Option<Vec<i64>>,
}

/// Fig. 10 of the paper: 16 slices for each of four heads, keys in the register files.
const KERNEL: Kernel = Kernel {
    title: "QK^T of four attention heads on one PE (TCP paper, Fig. 10)",
    path: "kernels/qk-fig10.tw",
    text: include_str!("../../../kernels/qk-fig10.tw"),
    dtype: Dtype::I8,
    plain: scores,
};

pub(crate) fn run(host: &mut dyn Host) -> Outcome {
    demonstrate(&KERNEL, host).unwrap_or_else(|outcome| outcome)
}

fn demonstrate(kernel: &Kernel, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut sources = Sources::default();
    let loaded = load_chip(&mut sources, "tcp", &[], host)?;
    let tcp = loaded.machine.tcp().ok_or_else(broken)?;
    let setup = Setup::new(tcp, 1, kernel.dtype).map_err(|_| broken())?;
    let einsum = parser::program(kernel.text, SourceId(0)).map_err(|_| broken())?;
    let problem = Problem::new(&einsum).map_err(|_| broken())?;
    let verdict = tilewright_tcp::check(&setup, &problem);
    let program = lower(&setup, &problem, &verdict, &Options::default()).map_err(|_| broken())?;
    let wanted = Wanted { values: true, findings: true, trace: false };
    let reading = read(tcp, &program, &mut no_file, wanted, KeepLast::new(0)).map_err(|_| broken())?;
    let compared = compare(kernel, tcp, &program, &reading).ok_or_else(broken)?;

    let mut stdout = format!("{}\n\n", kernel.title);
    stdout.push_str(&summary(&einsum, &setup, &problem, &verdict, &loaded));
    let _ = write!(stdout, "\nas a command program\n{}", commands(&program));
    let _ = write!(stdout, "\none run of it\n{}", sim::words(tcp, &program, &reading));
    let _ = writeln!(
        stdout,
        "{:<12}{} of {} results equal plain einsum",
        "values",
        thousands(compared.equal),
        thousands(compared.results)
    );
    stdout.push_str(&next(kernel));
    let good = reading.findings.is_empty() && compared.equal == compared.results;
    Ok(Outcome { code: if good { 0 } else { FAILED }, stdout, stderr: String::new() })
}

fn broken() -> Outcome {
    Outcome { code: OUR_FAULT, ..Outcome::usage("the demonstration does not run") }
}

fn no_file(_: &Tensor) -> Result<Array, ArrayError> {
    Err(ArrayError::Format("the demonstration reads no file".to_string()))
}

/// What the program is made of.
fn commands(program: &Program) -> String {
    let mut table = String::new();
    let mut row = |what: &str, name: &str, words: &str| {
        let _ = writeln!(table, "  {what:<8}{name:<16}{words}");
    };
    for tensor in &program.tensors {
        let axes: Vec<String> = tensor.axes.iter().map(|(axis, extent)| format!("{axis}={extent}")).collect();
        row("tensor", &tensor.name, &format!("{}[{}]  {}", tensor.dtype, axes.join(", "), tensor.shape));
    }
    for transfer in &program.transfers {
        row("dma", &transfer.name, &counted(transfer.loops.len() as u64, "loop"));
    }
    for exec in &program.execs {
        row("exec", &exec.name, &sim::engines(exec));
    }
    let lines = text::print(program).lines().count() as u64;
    row("text", "", &format!("{} of the program's own language", counted(lines, "line")));
    table
}

fn next(kernel: &Kernel) -> String {
    let path = kernel.path;
    format!(
        "\nthe same by hand, with a trace to look at\n  \
         tilewright notation lower {path} -o qk.tcp\n  \
         tilewright sim qk.tcp --trace qk.pftrace    open it at https://ui.perfetto.dev\n\
         next: docs/README.md, tilewright notation show {path}, tilewright machine show tcp\n"
    )
}

struct Compared {
    results: u64,
    equal: u64,
}

/// The only output beside what plain loops give.
fn compare(kernel: &Kernel, tcp: &Tcp, program: &Program, reading: &Reading) -> Option<Compared> {
    let named = |name: &str| program.tensors.iter().find(|tensor| tensor.name == name);
    let inputs: Option<Vec<Array>> =
        ["in0", "in1"].iter().map(|name| input(tcp, named(name)?, &mut no_file).ok().flatten()).collect();
    let plain = (kernel.plain)(&inputs?)?;
    let (_, output) = reading.outputs.first()?;
    let seen = output.patterns.iter().map(|pattern| int_value(output.dtype, *pattern));
    let equal = seen.zip(&plain).filter(|(seen, plain)| seen == *plain).count() as u64;
    Some(Compared { results: plain.len().max(output.patterns.len()) as u64, equal })
}

/// `HQD, HKD -> HQK` as three loops around a sum.
fn scores(inputs: &[Array]) -> Option<Vec<i64>> {
    let [queries, keys] = inputs else { return None };
    let [heads, rows, width] = queries.extents[..] else { return None };
    let columns = *keys.extents.get(1)?;
    let number = |array: &Array, at: u64| -> Option<i64> {
        Some(int_value(array.dtype, *array.patterns.get(usize::try_from(at).ok()?)?))
    };
    let mut results = Vec::new();
    for (head, row) in (0..heads).flat_map(|head| (0..rows).map(move |row| (head, row))) {
        for column in 0..columns {
            let mut sum = 0;
            for at in 0..width {
                let query = number(queries, (head * rows + row) * width + at)?;
                sum += query * number(keys, (head * columns + column) * width + at)?;
            }
            results.push(sum);
        }
    }
    Some(results)
}
