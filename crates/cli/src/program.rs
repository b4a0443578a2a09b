//! `tilewright assemble` and `disasm`, and what every verb that takes a program reads: its text, or a binary
//! with its arrays.

use std::path::Path;

use tilewright_base::{Diagnostic, Severity, Sources};
use tilewright_num::Dtype;
use tilewright_report::columns::thousands;
use tilewright_runtime::{Array, ArrayError, npy, tensors};
use tilewright_tcp_isa::program::binary::{self, Arrays};
use tilewright_tcp_isa::program::tensor::TensorData;
use tilewright_tcp_isa::program::{Program, Tensor, text};

use crate::args::{AssembleArgs, DisasmArgs};
use crate::chip::load_chip;
use crate::host::{Host, map_bytes, read_text_of};
use crate::outcome::{BAD_INPUT, FAILED, Outcome};

/// A program with the arrays that its file holds.
#[derive(Debug)]
pub(crate) struct LoadedProgram {
    pub(crate) program: Program,
    /// Elements by the name that the program's `file` says.
    arrays: Arrays,
}

/// Why there is no program.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The file cannot be read.
    Words(String),
    /// Its text has faults.
    Complaints(Vec<Diagnostic>),
}

impl LoadError {
    pub(crate) fn outcome(self, sources: &Sources, host: &dyn Host) -> Outcome {
        match self {
            LoadError::Words(words) => Outcome::usage(&words),
            LoadError::Complaints(complaints) => {
                Outcome::refused(BAD_INPUT, sources, &complaints, host.colour())
            }
        }
    }
}

/// The text of a program of any chip family, and the arrays that came with it in a binary.
pub(crate) struct ProgramFile {
    pub(crate) text: String,
    /// Whether it is a part of a compiled model or graph, whose inputs come with each run.
    pub(crate) is_compiled: bool,
    arrays: Arrays,
}

/// Reads a program, text or binary; the texts that complaints are about go to the sources.
pub(crate) fn load(
    path: &str,
    sources: &mut Sources,
    host: &mut dyn Host,
) -> Result<LoadedProgram, LoadError> {
    parse(path, written(path, host)?, sources)
}

/// Reads the text of a program from a file, be it a text or a binary.
pub(crate) fn written(path: &str, host: &mut dyn Host) -> Result<ProgramFile, LoadError> {
    let bytes = map_bytes(host, path).map_err(LoadError::Words)?;
    if binary::is_binary(&bytes) {
        let unpacked =
            binary::unpack(&bytes).map_err(|error| LoadError::Words(format!("`{path}`: {error}")))?;
        let is_compiled = tilewright_artifact::is_compiled(&bytes);
        return Ok(ProgramFile { text: unpacked.text, is_compiled, arrays: unpacked.arrays });
    }
    let no_program = |why: &str| {
        LoadError::Words(format!(
            "`{path}` is no program: {why}\n  = allowed: a text that begins with `program`, or a binary of \
             one\n  \
             = instead: builtin:attention, to see one"
        ))
    };
    let bytes = bytes.into_vec();
    if std::str::from_utf8(&bytes).is_err() {
        return Err(no_program("it is neither a text nor a binary of ours"));
    }
    let text = read_text_of(bytes, path).map_err(LoadError::Words)?;
    if !says_program(&text) {
        return Err(no_program("it has no line `program`"));
    }
    Ok(ProgramFile { text, is_compiled: false, arrays: Arrays::new() })
}

/// Whether a text says that it is a program: with its first line, or with one that nothing else begins with.
fn says_program(text: &str) -> bool {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    let head = |line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some("program") && words.nth(1).is_some_and(|version| version.parse::<u64>().is_ok())
    };
    lines().next().is_some_and(|first| first.starts_with("program")) || lines().any(head)
}

/// The TCP program of a text, which goes to the sources.
pub(crate) fn parse(
    path: &str,
    written: ProgramFile,
    sources: &mut Sources,
) -> Result<LoadedProgram, LoadError> {
    let name = if path == "-" { "program" } else { path };
    let id = sources.add(name, written.text.clone());
    let program = text::read(&written.text, id).map_err(LoadError::Complaints)?;
    Ok(LoadedProgram { program, arrays: written.arrays })
}

impl LoadedProgram {
    /// A program without arrays of its own, as its text says it: complaints are about the text, which goes to
    /// the sources.
    pub(crate) fn printed(
        program: &Program,
        name: &str,
        sources: &mut Sources,
    ) -> Result<LoadedProgram, LoadError> {
        let written = text::print(program);
        let id = sources.add(name, written.clone());
        let program = text::read(&written, id).map_err(LoadError::Complaints)?;
        Ok(LoadedProgram { program, arrays: Arrays::new() })
    }

    /// The array of a tensor whose data is a file: one that came with the program, `x.npy`, or
    /// `x.safetensors:NAME`.
    pub(crate) fn array(
        &self,
        tensor: &Tensor,
        rules: &tilewright_num::RuleSet,
        host: &dyn Host,
    ) -> Result<Array, ArrayError> {
        array(&self.arrays, tensor, rules, host)
    }
}

impl ProgramFile {
    /// The array of a tensor whose data is a file, as [`LoadedProgram::array`] gives it.
    pub(crate) fn array(
        &self,
        tensor: &Tensor,
        rules: &tilewright_num::RuleSet,
        host: &dyn Host,
    ) -> Result<Array, ArrayError> {
        array(&self.arrays, tensor, rules, host)
    }
}

fn array(
    arrays: &Arrays,
    tensor: &Tensor,
    rules: &tilewright_num::RuleSet,
    host: &dyn Host,
) -> Result<Array, ArrayError> {
    let TensorData::File(written) = &tensor.data else {
        return Err(ArrayError::Format("no file is named".into()));
    };
    if let Some(bytes) = arrays.get(written) {
        return Array::from_bytes(tensor.dtype, &extents(tensor), bytes);
    }
    file(written, tensor.dtype, rules, host)
}

fn extents(tensor: &Tensor) -> Vec<u64> {
    tensor.axes.iter().map(|(_, extent)| *extent).collect()
}

fn file(
    written: &str,
    dtype: Dtype,
    rules: &tilewright_num::RuleSet,
    host: &dyn Host,
) -> Result<Array, ArrayError> {
    let bytes = |path: &str| {
        host.read(Path::new(path))
            .map_err(|error| ArrayError::Format(format!("cannot read `{path}`: {error}")))
    };
    match written.rsplit_once(".safetensors:") {
        Some((stem, name)) => tensors::read(&bytes(&format!("{stem}.safetensors"))?, name, dtype, rules),
        None if written.ends_with(".npy") => npy::read(&bytes(written)?, dtype, rules),
        None => Err(ArrayError::Format(format!("`{written}` is neither FILE.npy nor FILE.safetensors:NAME"))),
    }
}

/// Writes a binary: the program and every array that it names.
pub(crate) fn assemble(args: &AssembleArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut sources = Sources::default();
    let loaded =
        load(&args.program, &mut sources, host).map_err(|refusal| refusal.outcome(&sources, host))?;
    let machine = load_chip(&mut sources, &loaded.program.machine, &[], host)?;
    let tcp = machine.machine.tcp().ok_or_else(|| {
        Outcome::usage(&format!("`{}` is no machine of architecture tcp", loaded.program.machine))
    })?;
    let complaints = tilewright_tcp_isa::verify::verify(tcp, &loaded.program);
    if complaints.iter().any(|complaint| complaint.severity == Severity::Error) {
        return Err(Outcome::refused(FAILED, &sources, &complaints, host.colour()));
    }
    let rules = tilewright_tcp_exec::rules(tcp);
    let mut arrays = Arrays::new();
    for tensor in &loaded.program.tensors {
        let TensorData::File(name) = &tensor.data else { continue };
        let refused = |why: ArrayError| Outcome {
            code: FAILED,
            ..Outcome::usage(&format!("tensor `{}`: {why}", tensor.name))
        };
        let array = loaded.array(tensor, rules, host).map_err(refused)?;
        let array = array.converted(rules, tensor.dtype).and_then(|array| array.shaped(&extents(tensor)));
        arrays.insert(name.clone(), array.map_err(refused)?.bytes());
    }
    let bytes = binary::pack(&loaded.program, &arrays);
    host.write(Path::new(&args.output), &bytes).map_err(|error| Outcome::unwritten(&args.output, &error))?;
    Ok(Outcome::good(format!("wrote {} ({} bytes)\n", args.output, thousands(bytes.len() as u64))))
}

/// Prints the text of a program.
pub(crate) fn disassemble(args: &DisasmArgs, host: &mut dyn Host) -> Result<Outcome, Outcome> {
    let mut sources = Sources::default();
    let loaded = match &args.program {
        None => load(&args.file, &mut sources, host),
        Some(name) => named(&args.file, name, &mut sources, host),
    };
    let loaded = loaded.map_err(|refusal| refusal.outcome(&sources, host))?;
    Ok(Outcome::good(text::print(&loaded.program)))
}

/// One of several programs of a file.
fn named(
    path: &str,
    name: &str,
    sources: &mut Sources,
    host: &mut dyn Host,
) -> Result<LoadedProgram, LoadError> {
    let bytes = map_bytes(host, path).map_err(LoadError::Words)?;
    let bundle =
        binary::unpack_bundle(&bytes).map_err(|error| LoadError::Words(format!("`{path}`: {error}")))?;
    let Some(written) = bundle.program(name) else {
        let names: Vec<&str> = bundle.programs.iter().map(|(name, _)| *name).collect();
        let allowed = names.join(", ");
        return Err(LoadError::Words(format!("`{path}` has no program `{name}`\n  = allowed: {allowed}")));
    };
    let id = sources.add(path, written.to_string());
    let program = text::read(written, id).map_err(LoadError::Complaints)?;
    Ok(LoadedProgram { program, arrays: Arrays::new() })
}
