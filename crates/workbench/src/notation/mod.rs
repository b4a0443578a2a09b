//! A low-level einsum from its texts: read, checked, drawn and lowered to a program.

mod drawing;
mod lowering;
pub mod verdict;

pub use drawing::{Drawing, draw};
pub use lowering::{CheckedEinsum, check, lower_einsum};

use tilewright_base::nearest::near;
use tilewright_base::{Diagnostic, SourceId, Sources};
use tilewright_machine::Tcp;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::{Dim, Operand, Program, SyntaxSpan};
use tilewright_notation::syntax::parser::{self, Parsed};
use tilewright_num::RuleSet;
use tilewright_tcp_cost::Setup;
use tilewright_tcp_cost::setup::SetupError;
use tilewright_tcp_isa::contraction::CONTRACTED;

use crate::Refusal;

/// Where an einsum is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotationText<'a> {
    /// By itself: `HQD,HKD->HQK`.
    Einsum(&'a str),
    /// In a file that may hold everything else too.
    File {
        /// What it is called in complaints.
        name: &'a str,
        /// What is in it.
        text: &'a str,
    },
}

/// An einsum and what was said about it, as texts. What is said here adds to the file or replaces what it
/// says.
#[derive(Clone, Copy, Debug)]
pub struct NotationRequest<'a> {
    /// The einsum.
    pub text: NotationText<'a>,
    /// Sizes of axes.
    pub dims: Option<&'a str>,
    /// Lowered shapes of in0, in1 and out.
    pub shapes: [Option<&'a str>; 3],
    /// The tactic.
    pub tactic: Option<&'a str>,
    /// The input that the register files hold.
    pub stationary: Option<Operand>,
    /// Element type of the inputs.
    pub dtype: Option<&'a str>,
}

impl<'a> NotationRequest<'a> {
    /// An einsum of which nothing else is said.
    pub fn einsum(text: &'a str) -> NotationRequest<'a> {
        NotationRequest {
            text: NotationText::Einsum(text),
            dims: None,
            shapes: [None; 3],
            tactic: None,
            stationary: None,
            dtype: None,
        }
    }
}

/// An einsum as a tree, and the texts that it came from.
#[derive(Clone, Debug)]
pub struct NotationInput {
    /// Texts.
    pub sources: Sources,
    /// The tree.
    pub program: Program,
}

/// Reads an einsum. `named` says what the texts of `dims`, `in0`, `tactic` and so on are called in
/// complaints.
///
/// # Errors
/// What does not parse.
pub fn read(
    request: &NotationRequest<'_>,
    named: &dyn Fn(&str) -> String,
) -> Result<NotationInput, Box<Refusal>> {
    let mut texts = NotationTexts { sources: Sources::default(), complaints: Vec::new(), named };
    let mut program = match request.text {
        NotationText::File { name, text } => texts.take(name, text, parser::program).unwrap_or_default(),
        NotationText::Einsum(text) => {
            let einsum = texts.take("einsum", text, parser::einsum);
            Program { einsum: einsum.unwrap_or_default(), ..Program::default() }
        }
    };
    if let Some(text) = request.dims {
        let dims = texts.option("dims", text, parser::dims).unwrap_or_default();
        program.dims.retain(|old| !dims.iter().any(|new| new.name.same_letters(&old.name)));
        program.dims.extend(dims);
    }
    for (operand, text) in Operand::ALL.into_iter().zip(request.shapes) {
        let Some(text) = text else { continue };
        let shape = texts.option(operand.name(), text, parser::lowered_shape);
        match operand {
            Operand::In0 => program.in0 = shape,
            Operand::In1 => program.in1 = shape,
            Operand::Out => program.out = shape,
        }
    }
    if let Some(text) = request.tactic {
        program.tactic = texts.option("tactic", text, parser::tactic);
    }
    if let Some(operand) = request.stationary {
        program.stationary = Some((operand, SyntaxSpan::default()));
    }
    if let Some(dtype) = request.dtype {
        let id = texts.sources.add(named("dtype"), dtype);
        program.dtype = Some((dtype.to_string(), SyntaxSpan(texts.sources.span(id, 0..dtype.len()))));
    }
    let NotationTexts { sources, mut complaints, .. } = texts;
    if complaints.is_empty() {
        complaints = unused_sizes(&program);
    }
    if complaints.is_empty() {
        Ok(NotationInput { sources, program })
    } else {
        Err(Box::new(Refusal { sources, diagnostics: complaints }))
    }
}

/// Sizes that are given and that nothing uses: of an axis that the einsum does not have.
fn unused_sizes(program: &Program) -> Vec<Diagnostic> {
    let axes: Vec<String> = program.einsum.axis_names().iter().map(ToString::to_string).collect();
    let unused = program.dims.iter().filter(|dim| !program.uses(dim.name));
    let complaint = |dim: &Dim| {
        let name = dim.name.to_string();
        let instead = match near(&name, axes.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("leave `{name}` out"),
        };
        Diagnostic::error("notation/unused", format!("`{name}` has a size, and the einsum has no such axis"))
            .at(dim.span, "nothing uses it")
            .allowed(format!("its axes {}, and symbols that shapes and sizes use", axes.join(", ")))
            .instead(instead)
    };
    unused.map(complaint).collect()
}

/// Texts as they are read, with what is wrong with them.
struct NotationTexts<'a> {
    sources: Sources,
    complaints: Vec<Diagnostic>,
    named: &'a dyn Fn(&str) -> String,
}

impl NotationTexts<'_> {
    fn option<T>(
        &mut self,
        name: &str,
        text: &str,
        parse: impl Fn(&str, SourceId) -> Parsed<T>,
    ) -> Option<T> {
        let name = (self.named)(name);
        self.take(&name, text, parse)
    }

    fn take<T>(&mut self, name: &str, text: &str, parse: impl Fn(&str, SourceId) -> Parsed<T>) -> Option<T> {
        let id = self.sources.add(name, text);
        parse(text, id).map_err(|complaint| self.complaints.push(*complaint)).ok()
    }
}

impl NotationInput {
    /// Numbers for names.
    ///
    /// # Errors
    /// Sizes that are missing or do not fit.
    pub fn problem(&self) -> Result<Problem, Box<Refusal>> {
        Problem::new(&self.program).map_err(|complaints| self.refused(complaints))
    }

    /// Complaints about these texts.
    pub fn refused(&self, diagnostics: Vec<Diagnostic>) -> Box<Refusal> {
        Box::new(Refusal { sources: self.sources.clone(), diagnostics })
    }

    /// The machine with its PEs and the element type: as said, or int8.
    ///
    /// # Errors
    /// A type that is not multiplied, PEs that cannot be fused.
    pub fn setup<'m>(&self, tcp: &'m Tcp, pes: u64) -> Result<Setup<'m>, Box<Refusal>> {
        let asked = self.program.dtype.as_ref().map_or("int8", |(name, _)| name.as_str());
        let Some(dtype) = RuleSet::by_name("tcp").and_then(|rules| rules.dtype(asked)) else {
            return Err(self.refused(vec![self.not_multiplied(asked)]));
        };
        Setup::new(tcp, pes, dtype).map_err(|error| match error {
            SetupError::Dtype(dtype) => self.refused(vec![self.not_multiplied(dtype.name())]),
            SetupError::FusedPes { asked, allowed } => {
                let allowed: Vec<String> = allowed.iter().map(u64::to_string).collect();
                let complaint = format!("{asked} PEs cannot be fused into one");
                let complaint = Diagnostic::error("tcp/fused-pes", complaint)
                    .instead(format!(
                        "{} PEs, and a subscript such as E_2 to split an axis over groups of PEs",
                        allowed.last().map_or("1", String::as_str)
                    ))
                    .allowed(allowed.join(", "));
                Box::new(Refusal::plain(complaint))
            }
        })
    }

    fn not_multiplied(&self, asked: &str) -> Diagnostic {
        let allowed: Vec<&str> = CONTRACTED.iter().map(|dtype| dtype.name()).collect();
        let complaint = format!("the contraction engine does not multiply `{asked}`");
        let complaint = Diagnostic::error("tcp/dtype", complaint).allowed(allowed.join(", ")).instead("int8");
        match &self.program.dtype {
            Some((_, span)) => complaint.at(span.0, ""),
            None => complaint,
        }
    }
}

/// The figures of a machine that must have slices.
///
/// # Errors
/// A machine of another family.
pub fn tcp_of(loaded: &tilewright_machine::LoadedMachine) -> Result<&Tcp, Box<Refusal>> {
    loaded.machine.tcp().ok_or_else(|| {
        let what = format!("lowered shapes speak of slices, and `{}` has none", loaded.name);
        let complaint = Diagnostic::error("notation/machine", what)
            .allowed("machines of architecture tcp")
            .instead("tcp");
        Box::new(Refusal::plain(complaint))
    })
}
