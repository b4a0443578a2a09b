//! What inputs and results of a language model's programs are for, held against what the programs take and
//! give: a file that says it wrongly is refused before anything runs.

use std::collections::BTreeSet;

use thiserror::Error;
use tilewright_compile::general::interface::{GraphInterface, Port};
use tilewright_compile::general::sequence::SequenceInput;
use tilewright_graph::{Dim, InputRole, OpenTensor};

use crate::graph_plan::GraphPlan;
use crate::language_plan::{LanguagePlan, LanguageProgram, NamedRole};

/// Why the programs of a file are not those of a language model with its roles.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RoleError {
    /// No program, or one twice, or other blocks than programs.
    #[error("its plan is not that of the programs which it has: decode, prefill or both, each once")]
    Programs,
    /// An input without a role, with two, or a role without an input.
    #[error("its program `{program}` has no input `{input}` with one role")]
    Input {
        /// The program.
        program: &'static str,
        /// The input.
        input: String,
    },
    /// A result that is not there, or twice.
    #[error("its program `{program}` has no result `{result}`, or several")]
    Result {
        /// The program.
        program: &'static str,
        /// The result.
        result: String,
    },
    /// A role that an input or result cannot have.
    #[error("`{name}` of its program `{program}` cannot be {role}: {why}")]
    Role {
        /// The program.
        program: &'static str,
        /// The input or result.
        name: String,
        /// What it is said to be.
        role: &'static str,
        /// What does not hold.
        why: &'static str,
    },
    /// Programs that are not of one model.
    #[error("its programs are not of one model: their {0} differ")]
    Differ(&'static str),
    /// A count that no model has.
    #[error("its {what} is {found}, which no language model has")]
    Count {
        /// Of what.
        what: &'static str,
        /// The count.
        found: u64,
    },
}

/// What the programs of a file have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SequenceFacts {
    /// Inputs before any token.
    pub(crate) inputs: Vec<SequenceInput>,
    /// The number of the result with logits.
    pub(crate) logits: usize,
    /// Tokens that there are logits of.
    pub(crate) vocabulary: u64,
    /// Tokens that a run for prompts takes, at most.
    pub(crate) prompt_tokens: u64,
}

/// Holds the plan of a language model against those of its programs.
///
/// # Errors
/// The first that does not hold.
pub(crate) fn facts(
    plan: &LanguagePlan,
    programs: &[(LanguageProgram, &GraphPlan)],
) -> Result<SequenceFacts, RoleError> {
    let counts =
        [("context", plan.context), ("number of positions", plan.positions), ("number of PEs", plan.pes)];
    if let Some((what, found)) = counts.into_iter().find(|(_, count)| *count == 0) {
        return Err(RoleError::Count { what, found });
    }
    if plan.context > plan.positions {
        return Err(RoleError::Count { what: "context", found: plan.context });
    }
    let all = programs.iter().map(|(program, graph)| ProgramRoles { plan, program: *program, graph }.facts());
    let all = all.collect::<Result<Vec<_>, _>>()?;
    let last = match (programs, all.as_slice()) {
        ([(_, token), (_, prompt)], [one, several]) => {
            same_target(token, prompt)?;
            let shared = |facts: &SequenceFacts| SequenceFacts { prompt_tokens: 0, ..facts.clone() };
            if shared(one) != shared(several) {
                return Err(RoleError::Differ("inputs, logits or states"));
            }
            if one.prompt_tokens != 1 {
                return Err(RoleError::Count {
                    what: "number of tokens of `decode`",
                    found: one.prompt_tokens,
                });
            }
            several
        }
        (_, [only]) => only,
        _ => return Err(RoleError::Programs),
    };
    Ok(last.clone())
}

/// Refuses programs that were compiled for different machines.
fn same_target(one: &GraphPlan, other: &GraphPlan) -> Result<(), RoleError> {
    let same = [
        ("machines", one.chip == other.chip && one.set == other.set && one.machine == other.machine),
        ("names", one.interface.name == other.interface.name),
    ];
    match same.into_iter().find(|(_, is_same)| !is_same) {
        Some((what, _)) => Err(RoleError::Differ(what)),
        None => Ok(()),
    }
}

/// Roles of one program.
struct ProgramRoles<'r> {
    plan: &'r LanguagePlan,
    program: LanguageProgram,
    graph: &'r GraphPlan,
}

/// Sizes of an axis at the smallest sizes of all axes of its graph, and at the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AxisRange {
    least: u64,
    most: u64,
}

impl AxisRange {
    const ONE: AxisRange = AxisRange { least: 1, most: 1 };

    fn is_open(self) -> bool {
        self.least != self.most
    }

    /// Of two axes one behind the other; `None` beyond all numbers.
    fn plus(self, other: AxisRange) -> Option<AxisRange> {
        let sum = |one: u64, other: u64| one.checked_add(other);
        Some(AxisRange { least: sum(self.least, other.least)?, most: sum(self.most, other.most)? })
    }
}

impl ProgramRoles<'_> {
    fn interface(&self) -> &GraphInterface {
        &self.graph.interface
    }

    fn refused(&self, port: &Port, role: &'static str, why: &'static str) -> RoleError {
        let program = self.program.names().0;
        RoleError::Role { program, name: port.name.clone(), role, why }
    }

    fn facts(&self) -> Result<SequenceFacts, RoleError> {
        let interface = self.interface();
        let mut ports = interface.inputs.iter().chain(&interface.results);
        if let Some(port) = ports.find(|port| port.division.is_some()) {
            return Err(self.refused(port, "divided over chips", "a text goes on on one chip"));
        }
        self.check_names()?;
        let tokens = self.plan.roles.iter().find(|(_, role)| *role == NamedRole::Tokens);
        let tokens = tokens.ok_or(RoleError::Count { what: "number of inputs with tokens", found: 0 })?;
        let tokens = self.last_axis(self.input(&tokens.0)?, "tokens")?;
        if tokens.least != 1 && tokens.is_open() || tokens.most == 0 {
            return Err(RoleError::Count { what: "smallest number of tokens", found: tokens.least });
        }
        let past = self.past()?;
        let inputs =
            self.plan.roles.iter().map(|(name, role)| self.sequence_input(name, role, (tokens, past)));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let (logits, port) = self.result(&self.plan.logits)?;
        let vocabulary = *port.dims.last().ok_or_else(|| self.refused(port, "logits", "it has no axis"))?;
        match () {
            () if !port.dtype.is_float() => Err(self.refused(port, "logits", "its elements are no floats")),
            () if vocabulary == 0 || u32::try_from(vocabulary).is_err() => {
                Err(self.refused(port, "logits", "tokens are numbers of 32 bits"))
            }
            () => Ok(SequenceFacts { inputs, logits, vocabulary, prompt_tokens: tokens.most }),
        }
    }

    /// Every array that the program takes has one role, and every role an array.
    fn check_names(&self) -> Result<(), RoleError> {
        let interface = self.interface();
        let is_size = |port: &&Port| interface.open.sizes.iter().any(|size| size.name == port.name);
        let mut left: BTreeSet<&str> = BTreeSet::new();
        let program = self.program.names().0;
        let wrong = |input: &str| RoleError::Input { program, input: input.to_string() };
        for port in interface.inputs.iter().filter(|port| !is_size(port)) {
            if !left.insert(&port.name) {
                return Err(wrong(&port.name));
            }
        }
        for (name, _) in &self.plan.roles {
            if !left.remove(name.as_str()) {
                return Err(wrong(name));
            }
        }
        match left.first() {
            Some(name) => Err(wrong(name)),
            None => Ok(()),
        }
    }

    fn input(&self, name: &str) -> Result<&Port, RoleError> {
        let found = self.interface().inputs.iter().find(|port| port.name == name);
        let program = self.program.names().0;
        found.ok_or_else(|| RoleError::Input { program, input: name.to_string() })
    }

    /// The only result of a name, and its number.
    fn result(&self, name: &str) -> Result<(usize, &Port), RoleError> {
        let mut found = self.interface().results.iter().enumerate().filter(|(_, port)| port.name == name);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            _ => {
                let program = self.program.names().0;
                Err(RoleError::Result { program, result: name.to_string() })
            }
        }
    }

    /// Sizes of the axes of an input or result, and which of them can change.
    fn ranges(&self, port: &Port, tensors: &[OpenTensor]) -> Vec<AxisRange> {
        let open = &self.interface().open;
        let least: Vec<Option<u64>> = open.axes.iter().map(|axis| Some(axis.least.min(axis.most))).collect();
        let parts = tensors.iter().find(|tensor| tensor.name == port.name).map(|tensor| &tensor.axes);
        let range = |(at, most): (usize, &u64)| {
            let size = |dim: &Dim| dim.value(&least).and_then(|size| u64::try_from(size).ok());
            let smallest = parts.and_then(|parts| parts.get(at)).and_then(|parts| {
                parts.iter().map(size).try_fold(1_u64, |product, size| product.checked_mul(size?))
            });
            AxisRange { least: smallest.map_or(*most, |least| least.min(*most)), most: *most }
        };
        port.dims.iter().enumerate().map(range).collect()
    }

    fn input_ranges(&self, port: &Port) -> Vec<AxisRange> {
        self.ranges(port, &self.interface().open.inputs)
    }

    /// The last axis of an input of whole numbers, of which all others have one element.
    fn last_axis(&self, port: &Port, role: &'static str) -> Result<AxisRange, RoleError> {
        if port.dtype.is_float() {
            return Err(self.refused(port, role, "its elements are no whole numbers"));
        }
        let ranges = self.input_ranges(port);
        let Some((last, front)) = ranges.split_last() else {
            return Err(self.refused(port, role, "it has no axis"));
        };
        if front.iter().any(|range| *range != AxisRange::ONE) {
            return Err(self.refused(port, role, "it is for more texts than one"));
        }
        Ok(*last)
    }

    /// Tokens before those of a run: the axis of state that can change, none if there is none.
    fn past(&self) -> Result<AxisRange, RoleError> {
        let mut past = None;
        for (name, role) in &self.plan.roles {
            let NamedRole::State(_) = role else { continue };
            let port = self.input(name)?;
            for range in self.input_ranges(port).into_iter().filter(|range| range.is_open()) {
                if *past.get_or_insert(range) != range {
                    return Err(self.refused(
                        port,
                        "state",
                        "its axes grow by other sizes than those of other state",
                    ));
                }
            }
        }
        Ok(past.unwrap_or(AxisRange { least: 0, most: 0 }))
    }

    /// An input before any token, if it can be what it is said to be for.
    fn sequence_input(
        &self,
        name: &str,
        role: &NamedRole,
        (tokens, past): (AxisRange, AxisRange),
    ) -> Result<SequenceInput, RoleError> {
        let port = self.input(name)?;
        let by_name = |wanted: InputRole, said: &'static str| {
            if InputRole::of_name(name) == Some(wanted) {
                return Ok(wanted);
            }
            Err(self.refused(port, said, "its name says otherwise"))
        };
        let role = match role {
            NamedRole::Tokens | NamedRole::Positions => {
                let (wanted, said) = match role {
                    NamedRole::Tokens => (InputRole::Tokens, "tokens"),
                    _ => (InputRole::Positions, "positions"),
                };
                if self.last_axis(port, said)? != tokens {
                    return Err(self.refused(port, said, "its last axis is not that of tokens"));
                }
                by_name(wanted, said)?
            }
            NamedRole::Mask => {
                let last = self.last_axis(port, "a mask")?;
                if ![tokens.plus(past), Some(tokens)].contains(&Some(last)) {
                    return Err(self.refused(port, "a mask", "its last axis is not that of all tokens"));
                }
                by_name(InputRole::Mask, "a mask")?
            }
            NamedRole::State(result) => InputRole::State(self.state(port, result, tokens)?),
        };
        // State begins empty along an axis that can be; of open axes that cannot one stands there.
        let size = |range: &AxisRange| match (role, range.is_open()) {
            (InputRole::State(_), true) => Ok(usize::from(range.least > 0)),
            (InputRole::State(_), false) => usize::try_from(range.most)
                .map_err(|_| self.refused(port, "state", "it is too large for this host")),
            _ => Ok(0),
        };
        let dims = self.input_ranges(port).iter().map(size).collect::<Result<Vec<_>, _>>()?;
        let elements = dims.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        if elements.is_none_or(|elements| Vec::<u32>::new().try_reserve_exact(elements).is_err()) {
            return Err(self.refused(port, "state", "it is too large for this host"));
        }
        Ok(SequenceInput { name: name.to_string(), role, dtype: port.dtype, dims })
    }

    /// The number of the result that state is in the next run: of its type and rank, with the same sizes but
    /// for tokens that came to an axis that can change, or that is empty.
    fn state(&self, port: &Port, result: &str, tokens: AxisRange) -> Result<usize, RoleError> {
        let (number, given) = self.result(result)?;
        if given.dtype != port.dtype {
            return Err(self.refused(port, "state", "the result that it is of has another type"));
        }
        let (taken, gives) = (self.input_ranges(port), self.ranges(given, &self.interface().open.outputs));
        let follows = |(taken, gives): (&AxisRange, &AxisRange)| {
            let grown = taken.plus(tokens);
            *gives == *taken || (taken.is_open() || taken.most == 0) && grown == Some(*gives)
        };
        if taken.len() != gives.len() || !taken.iter().zip(&gives).all(follows) {
            return Err(self.refused(port, "state", "the result that it is of has other axes"));
        }
        Ok(number)
    }
}
