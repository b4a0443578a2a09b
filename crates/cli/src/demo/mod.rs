//! `tilewright demo attention`: attention of one head group on the chip, from the tactic of its first product
//! to values that plain loops check, and a trace to open.

mod plain;

use std::fmt::Write as _;
use std::path::Path;

use tilewright_base::{SourceId, Sources};
use tilewright_machine::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::parser;
use tilewright_num::{Dtype, convert, int_value};
use tilewright_record::perfetto::Stream;
use tilewright_report::columns::{counted, thousands};
use tilewright_runtime::readings::input;
use tilewright_runtime::{Array, ArrayError, Reading, ReadingOptions, read};
use tilewright_tcp_cost::Setup;
use tilewright_tcp_isa::program::{Program, Tensor, text};

use crate::chip::load_chip;
use crate::host::Host;
use crate::notation::summary;
use crate::outcome::{FAILED, OUR_FAULT, Outcome};
use crate::sim;
use plain::HeadGroup;

/// Fig. 10 of the paper: 16 slices for each of four heads, keys in the register files.
const TACTIC: &str = include_str!("../../../../kernels/qk-fig10.tw");
const TACTIC_PATH: &str = "builtin:qk-fig10";

/// E7 to E9 of the paper: that product with its scale, softmax, and the product with the values.
const PROGRAM: &str = include_str!("../../../../kernels/attention.tcp");
const PROGRAM_PATH: &str = "builtin:attention";

/// Where the trace goes, in the folder that the command is run in.
const TRACE_PATH: &str = "attention.pftrace";

pub(crate) fn run(host: &mut dyn Host) -> Outcome {
    demonstrate(host).unwrap_or_else(|outcome| outcome)
}

fn demonstrate(host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut sources = Sources::default();
    let loaded = load_chip(&mut sources, "tcp", &[], host)?;
    let tcp = loaded.machine.tcp().ok_or_else(broken)?;
    let mut stdout = String::from("Attention of four heads on one PE (TCP paper, Fig. 10 and E7-E9)\n\n");
    let setup = Setup::new(tcp, 1, Dtype::I8).map_err(|_| broken())?;
    let einsum = parser::program(TACTIC, SourceId(0)).map_err(|_| broken())?;
    let problem = Problem::new(&einsum).map_err(|_| broken())?;
    let verdict = tilewright_tcp_cost::check(&setup, &problem);
    let _ =
        write!(stdout, "the tactic of Q times K\n{}", summary(&einsum, &setup, &problem, &verdict, &loaded));

    let program = text::read(PROGRAM, SourceId(0)).map_err(|_| broken())?;
    let wanted = ReadingOptions { values: true, findings: true, trace: true, ..ReadingOptions::default() };
    let mut trace = Vec::new();
    let reading =
        read(tcp, &program, &mut no_file, &wanted, Stream::new(&mut trace)).map_err(|_| broken())?;
    let _ =
        write!(stdout, "\nas commands, with softmax and the product with the values\n{}", commands(&program));
    let _ = write!(stdout, "\none run of it\n{}", sim::words(tcp, &program, &reading));
    let group = group(tcp, &program, &reading).filter(HeadGroup::is_whole).ok_or_else(broken)?;
    let agreements = group.agreement();
    for agreement in &agreements {
        let (equal, results) = (thousands(agreement.equal), thousands(agreement.results));
        let _ = writeln!(stdout, "{:<12}{equal} of {results} {}", agreement.what, agreement.with);
    }
    let stderr = keep(&trace, &mut stdout, host);
    stdout.push_str(&next());
    let good = reading.findings.is_empty() && agreements.iter().all(|agreed| agreed.equal == agreed.results);
    Ok(Outcome { code: if good { 0 } else { FAILED }, stdout, stderr, ..Outcome::default() })
}

fn broken() -> Outcome {
    Outcome { code: OUR_FAULT, ..Outcome::usage("the demonstration does not run") }
}

fn no_file(_: &Tensor) -> Result<Array, ArrayError> {
    Err(ArrayError::Format("the demonstration reads no file".to_string()))
}

/// Writes the trace; a folder that cannot be written to is no failure of the demonstration.
fn keep(trace: &[u8], stdout: &mut String, host: &mut dyn Host) -> String {
    match host.write(Path::new(TRACE_PATH), trace) {
        Ok(()) => {
            let _ = writeln!(stdout, "{:<12}{TRACE_PATH} (open at https://ui.perfetto.dev)", "trace");
            String::new()
        }
        Err(error) => format!("tilewright: no trace: cannot write `{TRACE_PATH}`: {error}\n"),
    }
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
    for exec in &program.execs {
        row("exec", &exec.name, &sim::engines(exec));
    }
    let lines = text::print(program).lines().count() as u64;
    row("text", PROGRAM_PATH, &format!("{} of the program's own language", counted(lines, "line")));
    table
}

fn next() -> String {
    format!(
        "\nthe same by hand\n  \
         tilewright sim {PROGRAM_PATH} --trace {TRACE_PATH}\n  \
         tilewright notation lower {TACTIC_PATH} | tilewright sim -     Q times K alone, lowered from its \
         tactic\n\
         next: tilewright notation show {TACTIC_PATH}, tilewright machine show tcp\n"
    )
}

/// The program's arrays as numbers.
fn group(tcp: &Tcp, program: &Program, reading: &Reading) -> Option<HeadGroup> {
    let given = |name: &str| {
        let tensor = program.tensors.iter().find(|tensor| tensor.name == name)?;
        input(tcp, tensor, &mut no_file).ok().flatten()
    };
    let gave = |name: &str| reading.outputs.iter().find(|(output, _)| output == name).map(|(_, array)| array);
    let queries = given("q")?;
    let [heads, length, depth] = queries.extents[..] else { return None };
    let size = |extent: u64| usize::try_from(extent).ok();
    Some(HeadGroup {
        heads: size(heads)?,
        length: size(length)?,
        depth: size(depth)?,
        queries: numbers(tcp, &queries)?,
        keys: numbers(tcp, &given("k")?)?,
        values: numbers(tcp, &given("v")?)?,
        scores: numbers(tcp, gave("scores")?)?,
        weights: numbers(tcp, gave("weights")?)?,
        out: numbers(tcp, gave("out")?)?,
    })
}

#[expect(clippy::cast_precision_loss, reason = "integers of at most 32 bits")]
fn numbers(tcp: &Tcp, array: &Array) -> Option<Vec<f64>> {
    let rules = tilewright_tcp_exec::rules(tcp);
    let number = |pattern: &u32| {
        if array.dtype.is_float() {
            let word = convert(rules, array.dtype, Dtype::F32, *pattern).ok()?;
            return Some(f64::from(f32::from_bits(word)));
        }
        Some(int_value(array.dtype, *pattern) as f64)
    };
    array.patterns.iter().map(number).collect()
}
