//! Arguments or a file to a program, and the target to a setup.

use tilewright_base::{Diagnostic, Sources};
use tilewright_machine::{LoadedMachine, Tcp};
use tilewright_notation::syntax::ast::Operand;
use tilewright_num::Dtype;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_cost::setup::SetupError;
use tilewright_tcp_isa::contraction::CONTRACTED;
use tilewright_workbench::notation::{self, NotationInput, NotationRequest, NotationText};

use crate::args::{NotationArgs, TargetArgs};
use crate::builtin::is_builtin;
use crate::chip::load_chip;
use crate::host::{Host, read_text};
use crate::outcome::{BAD_INPUT, Outcome};

/// Reads the einsum or file, then the options, which add to the file or replace what it says.
pub(crate) fn read(args: &NotationArgs, host: &mut dyn Host) -> Result<NotationInput, Outcome> {
    let file = match is_file(&args.einsum, host) {
        true => Some(read_text(host, &args.einsum).map_err(|why| Outcome::usage(&why))?),
        false => None,
    };
    let text = match &file {
        Some(text) => NotationText::File { name: &args.einsum, text },
        None => NotationText::Einsum(&args.einsum),
    };
    let request = NotationRequest {
        text,
        dims: args.dims.as_deref(),
        shapes: [args.in0.as_deref(), args.in1.as_deref(), args.out.as_deref()],
        tactic: args.tactic.as_deref(),
        stationary: args.stationary.as_deref().map(stationary_operand).transpose()?,
        dtype: args.dtype.as_deref(),
    };
    notation::read(&request, &|name| format!("--{name}"))
        .map_err(|refusal| Outcome::refused(BAD_INPUT, &refusal.sources, &refusal.diagnostics, host.colour()))
}

/// Anything that cannot be an einsum but could be a path is one; so is the name of a file that exists.
fn is_file(text: &str, host: &dyn Host) -> bool {
    let like_path = text == "-"
        || is_builtin(text)
        || text.ends_with(".tw")
        || (text.contains('/') && !text.contains("->"));
    like_path || (!text.contains("->") && text.contains('.') && host.read(std::path::Path::new(text)).is_ok())
}

fn stationary_operand(text: &str) -> Result<Operand, Outcome> {
    match text {
        "in0" => Ok(Operand::In0),
        "in1" => Ok(Operand::In1),
        other => Err(Outcome::usage(&format!(
            "--stationary {other} names no input\n  = allowed: in0, in1\n  = instead: --stationary in1"
        ))),
    }
}

/// The machine behind `--chip`, which must have slices.
pub(crate) fn target(
    sources: &mut Sources,
    args: &TargetArgs,
    host: &mut dyn Host,
) -> Result<(LoadedMachine, Tcp), Outcome> {
    let loaded = load_chip(sources, &args.chip, &args.set, host)?;
    let tcp = tcp(&loaded, args)?;
    Ok((loaded, tcp))
}

/// The figures of a machine that must have slices.
pub(crate) fn tcp(loaded: &LoadedMachine, args: &TargetArgs) -> Result<Tcp, Outcome> {
    match loaded.machine.tcp() {
        Some(tcp) => Ok(tcp.clone()),
        None => Err(Outcome::usage(&format!(
            "--chip {}: lowered shapes speak of slices, and this machine has none\n  \
             = allowed: machines of architecture tcp\n  = instead: --chip tcp",
            args.chip
        ))),
    }
}

/// The element type: as asked, as the file says, or int8.
pub(crate) fn setup<'m>(gathered: &NotationInput, tcp: &'m Tcp, pes: u64) -> Result<Setup<'m>, Outcome> {
    let asked = gathered.program.dtype.as_ref().map_or("int8", |(name, _)| name.as_str());
    let refused = |asked: &str| {
        let allowed: Vec<&str> = CONTRACTED.iter().map(|dtype| dtype.name()).collect();
        let complaint = format!("the contraction engine does not multiply `{asked}`");
        let complaint =
            Diagnostic::error("tcp/dtype", complaint).allowed(allowed.join(", ")).instead("--dtype int8");
        let complaint = match &gathered.program.dtype {
            Some((_, span)) => complaint.at(span.0, ""),
            None => complaint,
        };
        Outcome::refused(BAD_INPUT, &gathered.sources, &[complaint], false)
    };
    let dtype = dtype_of(asked).ok_or_else(|| refused(asked))?;
    Setup::new(tcp, pes, dtype).map_err(|error| match error {
        SetupError::Dtype(dtype) => refused(dtype.name()),
        SetupError::FusedPes { asked, allowed } => {
            let allowed: Vec<String> = allowed.iter().map(u64::to_string).collect();
            let most = allowed.last().cloned().unwrap_or_default();
            Outcome::usage(&format!(
                "--pes {asked}: so many PEs cannot be fused into one\n  = allowed: {}\n  \
                 = instead: --pes {most}, and a subscript such as E_2 to split an axis over groups of PEs",
                allowed.join(", ")
            ))
        }
    })
}

/// On this machine `f8e4m3` means the format without infinities.
fn dtype_of(name: &str) -> Option<Dtype> {
    tilewright_num::RuleSet::by_name("tcp").and_then(|rules| rules.dtype(name))
}
