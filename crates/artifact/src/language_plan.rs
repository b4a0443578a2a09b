//! The section `plan` of a language model's file that was compiled as any graph: what it generates with,
//! beside the plans of its programs, a statement each.
//!
//! ```text
//! language 1
//! dtype "bf16"
//! peak bf16
//! pes 2
//! context 16
//! positions 64
//! ends [2, 5]
//! input "tokens" tokens
//! input "past_x" state of "present_x"
//! logits "logits"
//! blocks decode [0, 4096]
//! blocks prefill [0, 4096, 8192]
//! ```
//!
//! `dtype` is what its contractions were asked to be in, `peak` the type whose rate they are compared with,
//! `pes` how many it was compiled for. `context` is the number of tokens that go into one text, `positions`
//! how many the model could have. `ends`, the tokens that end a text, is there if the model's configuration
//! says them. Every input of the graph is `tokens`, `positions`, a `mask`, or `state of` a result: what that
//! was in the run before. `blocks` has a place for each constant in the plan of that program (`plan.decode`,
//! `plan.prefill`): where its bytes begin in the section `constants`. A block begins where those before it
//! end, or is one of them. A release that does not know a statement refuses the file.

use std::fmt;

use tilewright_base::SourceId;
use tilewright_base::invariant::OrBroken;
use tilewright_ir::print::{list, quoted};
use tilewright_ir::{Args, Fields, Log, Read, Tree, parser};
use tilewright_num::Dtype;

use crate::graph_plan::unknown;
use crate::plan::PlanError;

/// The first line: the form of the statements behind it.
pub(crate) const VERSION: &str = "language 1";

/// Programs of a language model that was compiled as any graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanguageProgram {
    /// Takes one token.
    Token,
    /// Takes several tokens.
    Prompt,
}

impl LanguageProgram {
    /// All, in the order of a file.
    pub const ALL: [LanguageProgram; 2] = [LanguageProgram::Token, LanguageProgram::Prompt];

    /// The name of its section, and that of its plan.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            LanguageProgram::Token => ("decode", "plan.decode"),
            LanguageProgram::Prompt => ("prefill", "plan.prefill"),
        }
    }
}

/// What an input is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedRole {
    /// Numbers of tokens.
    Tokens,
    /// Their positions.
    Positions,
    /// Which tokens are to be looked at.
    Mask,
    /// What the result of this name was in the run before.
    State(String),
}

/// What a language model generates with, beside the plans of its programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanguagePlan {
    /// Types of contractions, as they were asked for.
    pub dtype: String,
    /// The type whose peak rate multipliers are compared with.
    pub peak: Dtype,
    /// PEs that it was compiled for.
    pub pes: u64,
    /// Tokens of a text, at most.
    pub context: u64,
    /// Positions that the model has.
    pub positions: u64,
    /// Tokens that end a text, unless the tokenizer says them.
    pub ends: Option<Vec<u32>>,
    /// Inputs by name with what they are for, in the order of the model.
    pub roles: Vec<(String, NamedRole)>,
    /// The result with logits.
    pub logits: String,
    /// Of each program, where the constants of its plan begin in their section.
    pub blocks: Vec<(LanguageProgram, Vec<u64>)>,
}

impl Default for LanguagePlan {
    fn default() -> LanguagePlan {
        LanguagePlan {
            dtype: "bf16".to_string(),
            peak: Dtype::Bf16,
            pes: 1,
            context: 1,
            positions: 1,
            ends: None,
            roles: Vec::new(),
            logits: "logits".to_string(),
            blocks: Vec::new(),
        }
    }
}

/// Statements of a plan.
const KNOWN: [&str; 10] =
    ["language", "dtype", "peak", "pes", "context", "positions", "ends", "input", "logits", "blocks"];

/// Types that rates of multipliers are compared with, by their names in plans.
const PEAKS: [(&str, Dtype); 2] = [("bf16", Dtype::Bf16), ("i8", Dtype::I8)];

impl LanguagePlan {
    /// Reads a plan.
    ///
    /// # Errors
    /// Another version; statements that this one does not know.
    pub fn read(text: &str) -> Result<LanguagePlan, PlanError> {
        let first = text.lines().next().unwrap_or_default();
        if first != VERSION {
            return Err(PlanError::version(first));
        }
        let mut log = Log::default();
        let tree = parser::parse(text, SourceId(0), &mut log);
        for node in tree.statements().filter(|node| !KNOWN.contains(&node.head().text)) {
            log.push(*node.unknown(&KNOWN));
        }
        match statements(&tree, &mut log) {
            Some(plan) if log.is_empty() => Ok(plan),
            _ => Err(unknown(text, log)),
        }
    }

    /// Where the constants of a program begin in their section.
    pub fn blocks_of(&self, program: LanguageProgram) -> Option<&[u64]> {
        let found = self.blocks.iter().find(|(known, _)| *known == program);
        found.map(|(_, blocks)| blocks.as_slice())
    }
}

fn statements(tree: &Tree<'_>, log: &mut Log) -> Option<LanguagePlan> {
    let fields = Fields::top(tree);
    let number = |args: &mut Args<'_>| args.unsigned("a number");
    let name = |args: &mut Args<'_>| Ok(args.text("a name in quotes")?.text.into_owned());
    // All are read before any is missed, so that every complaint is in the log.
    let texts = (fields.one("dtype", log, name), fields.one("logits", log, name));
    let peak = fields.one("peak", log, |args| args.one_of("a type", &PEAKS));
    let counts = ["pes", "context", "positions"].map(|word| fields.one(word, log, number));
    let ends = fields.maybe("ends", None, log, |args| {
        Ok(Some(args.list("tokens", |args| args.integer::<u32>("a token"))?))
    });
    let roles = fields.many("input", log, role);
    let blocks = fields.many("blocks", log, |args| {
        let programs = LanguageProgram::ALL.map(|program| (program.names().0, program));
        let program = args.one_of("a program", &programs)?;
        Ok((program, args.list("first bytes", |args| args.unsigned("a first byte"))?))
    });
    let [pes, context, positions] = counts;
    Some(LanguagePlan {
        dtype: texts.0?,
        peak: peak?,
        pes: pes?,
        context: context?,
        positions: positions?,
        ends: ends?,
        roles: roles?,
        logits: texts.1?,
        blocks: blocks?,
    })
}

/// `"past_x" state of "present_x"`
fn role(args: &mut Args<'_>) -> Read<(String, NamedRole)> {
    let input = args.text("a name in quotes")?.text.into_owned();
    let known = [("tokens", 0), ("positions", 1), ("mask", 2), ("state", 3)];
    let role = match args.one_of("what it is for", &known)? {
        0 => NamedRole::Tokens,
        1 => NamedRole::Positions,
        2 => NamedRole::Mask,
        _ => {
            args.keyword("of")?;
            NamedRole::State(args.text("a result in quotes")?.text.into_owned())
        }
    };
    Ok((input, role))
}

impl fmt::Display for NamedRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamedRole::Tokens => f.write_str("tokens"),
            NamedRole::Positions => f.write_str("positions"),
            NamedRole::Mask => f.write_str("mask"),
            NamedRole::State(result) => write!(f, "state of {}", quoted(result)),
        }
    }
}

impl fmt::Display for LanguagePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LanguagePlan { dtype, peak, pes, context, positions, ends, roles, logits, blocks } = self;
        let peak = PEAKS.iter().find(|(_, known)| known == peak).map(|(name, _)| name);
        let peak = peak.or_broken("rates are compared with those of bf16 or of integers");
        writeln!(f, "{VERSION}\ndtype {}\npeak {peak}\npes {pes}", quoted(dtype))?;
        writeln!(f, "context {context}\npositions {positions}")?;
        if let Some(ends) = ends {
            writeln!(f, "ends {}", list(ends, u32::to_string))?;
        }
        for (input, role) in roles {
            writeln!(f, "input {} {role}", quoted(input))?;
        }
        writeln!(f, "logits {}", quoted(logits))?;
        for (program, places) in blocks {
            writeln!(f, "blocks {} {}", program.names().0, list(places, u64::to_string))?;
        }
        Ok(())
    }
}
