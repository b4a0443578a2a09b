//! Language models as graphs: which inputs take tokens, positions and masks, which are state from run to run,
//! and which axes are the texts, the tokens of a run and those before them.

use std::collections::BTreeMap;

use thiserror::Error;
use tilewright_base::invariant::OrBroken;

use crate::dim::AxisId;
use crate::graph::{Graph, Value, ValueId};
use crate::sized::AxisChoice;

/// Names under which models take their tokens and positions, and give logits.
const TOKENS: [&str; 2] = ["tokens", "input_ids"];
const POSITIONS: [&str; 2] = ["positions", "position_ids"];
const MASKS: [&str; 1] = ["attention_mask"];
const LOGITS: &str = "logits";

/// What an input of a language model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputRole {
    /// Numbers of tokens.
    Tokens,
    /// Their positions.
    Positions,
    /// Which tokens, those before a run too, are to be looked at: ones.
    Mask,
    /// What the output of this number was in the run before.
    State(usize),
}

impl InputRole {
    /// What an input is for by its name alone, unless it is state.
    pub fn of_name(name: &str) -> Option<InputRole> {
        let is = |names: &[&str]| names.contains(&name);
        match name {
            _ if is(&TOKENS) => Some(InputRole::Tokens),
            _ if is(&POSITIONS) => Some(InputRole::Positions),
            _ if is(&MASKS) => Some(InputRole::Mask),
            _ => None,
        }
    }
}

/// A graph that takes tokens and gives logits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanguageGraph {
    /// Of each input, in the order of the graph.
    pub roles: Vec<InputRole>,
    /// The number of the output with logits.
    pub logits: usize,
    /// The axis of the tokens of a run, and the most that it may be; fixed if it has no name.
    pub seq: (Option<String>, u64),
    /// The axis of tokens before them, likewise, if there is state that grows.
    pub past: Option<(String, u64)>,
    /// Axes of which a run of one text has one.
    single: Vec<String>,
    /// Axes that are as long as both.
    total: Vec<String>,
}

/// Why a graph is no language model.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NoLanguage {
    /// It lacks an input or output.
    #[error("it has no {0}")]
    Lacks(&'static str),
    /// An input whose purpose is not known.
    #[error("its input `{0}` is neither tokens, positions, a mask nor state")]
    Input(String),
    /// An axis that is none of them.
    #[error("its axis `{0}` is neither that of texts, of tokens nor of tokens before them")]
    Axis(String),
}

impl LanguageGraph {
    /// Finds out what the inputs and axes of a graph are for.
    ///
    /// # Errors
    /// What is missing, or not known.
    pub fn of(graph: &Graph) -> Result<LanguageGraph, NoLanguage> {
        let lacks_tokens = NoLanguage::Lacks("input `tokens` or `input_ids`");
        let tokens = TOKENS.iter().find_map(|name| graph.input(name)).ok_or(lacks_tokens.clone())?;
        let logits = graph.output(LOGITS).ok_or(NoLanguage::Lacks("output `logits`"))?;
        let roles = graph.inputs.iter().map(|id| role(graph, *id)).collect::<Result<Vec<InputRole>, _>>()?;
        let (seq, texts) =
            graph.value(tokens).and_then(|value| value.ty.dims.split_last()).ok_or(lacks_tokens)?;
        let mut axes = AxisRoles { graph, seq: seq.as_axis(), ..AxisRoles::default_of(graph) };
        axes.single.extend(texts.iter().filter_map(|dim| dim.as_axis()));
        axes.look(&roles)?;
        let most = |axis: AxisId| graph.axes.get(axis.0 as usize).map(|axis| (axis.name.clone(), axis.most));
        let fixed = seq.as_fixed().and_then(|size| u64::try_from(size).ok());
        let seq = match (axes.seq.and_then(most), fixed) {
            (Some((name, most)), _) => (Some(name), most),
            (None, Some(size)) => (None, size),
            (None, None) => return Err(NoLanguage::Lacks("axis of its tokens alone")),
        };
        let names =
            |axes: &[AxisId]| axes.iter().filter_map(|axis| most(*axis)).map(|(name, _)| name).collect();
        let (single, total) = (names(&axes.single), names(&axes.total));
        Ok(LanguageGraph { roles, logits, seq, past: axes.past.and_then(most), single, total })
    }

    /// Whether something goes from run to run.
    pub fn has_state(&self) -> bool {
        self.roles.iter().any(|role| matches!(role, InputRole::State(_)))
    }

    /// Sizes of the axes for one text: so many tokens a run, and so many before them.
    pub fn axes(&self, seq: &AxisChoice, past: &AxisChoice) -> BTreeMap<String, AxisChoice> {
        let mut all: BTreeMap<String, AxisChoice> =
            self.single.iter().map(|name| (name.clone(), AxisChoice::Fixed(1))).collect();
        let (seq_name, past_name) = (self.seq.0.clone(), self.past.as_ref().map(|(name, _)| name.clone()));
        let both: Vec<String> = past_name.iter().chain(&seq_name).cloned().collect();
        all.extend(self.total.iter().map(|name| (name.clone(), AxisChoice::SumOf(both.clone()))));
        all.extend(seq_name.map(|name| (name, seq.clone())));
        all.extend(past_name.map(|name| (name, past.clone())));
        all
    }
}

/// What axes were found to be.
struct AxisRoles<'g> {
    graph: &'g Graph,
    seq: Option<AxisId>,
    past: Option<AxisId>,
    single: Vec<AxisId>,
    total: Vec<AxisId>,
}

impl<'g> AxisRoles<'g> {
    fn default_of(graph: &'g Graph) -> AxisRoles<'g> {
        AxisRoles { graph, seq: None, past: None, single: Vec::new(), total: Vec::new() }
    }

    /// Looks at the axes of all inputs: of state the first is that of texts, if it is one, and the other that
    /// of tokens before the run; of masks the last may be one of its own.
    fn look(&mut self, roles: &[InputRole]) -> Result<(), NoLanguage> {
        for (id, role) in self.graph.inputs.iter().zip(roles) {
            let Some(value) = self.graph.value(*id) else { continue };
            if matches!(role, InputRole::State(_)) {
                self.state(value)?;
            }
        }
        for (id, role) in self.graph.inputs.iter().zip(roles) {
            let Some(value) = self.graph.value(*id) else { continue };
            let Some((last, front)) = value.ty.dims.split_last() else { continue };
            if matches!(role, InputRole::State(_)) {
                continue;
            }
            for axis in front.iter().filter_map(|dim| dim.as_axis()) {
                if !self.is_known(axis) {
                    self.single.push(axis);
                }
            }
            match last.as_axis().filter(|axis| !self.is_known(*axis)) {
                Some(axis) if *role == InputRole::Mask => self.total.push(axis),
                Some(axis) => return Err(self.unknown(axis)),
                None => {}
            }
        }
        let count = u32::try_from(self.graph.axes.len()).or_broken("axes of a graph fit 32 bits");
        match (0..count).map(AxisId).find(|axis| !self.is_known(*axis)) {
            Some(axis) => Err(self.unknown(axis)),
            None => Ok(()),
        }
    }

    fn state(&mut self, value: &Value) -> Result<(), NoLanguage> {
        for axis in value.ty.dims.iter().filter_map(|dim| dim.as_axis()) {
            match self.past {
                _ if self.single.contains(&axis) || Some(axis) == self.past => {}
                None if Some(axis) != self.seq => self.past = Some(axis),
                _ => return Err(self.unknown(axis)),
            }
        }
        Ok(())
    }

    fn is_known(&self, axis: AxisId) -> bool {
        let listed = self.single.contains(&axis) || self.total.contains(&axis);
        listed || Some(axis) == self.seq || Some(axis) == self.past
    }

    fn unknown(&self, axis: AxisId) -> NoLanguage {
        let name = self.graph.axes.get(axis.0 as usize).map(|axis| axis.name.clone());
        NoLanguage::Axis(name.unwrap_or_default())
    }
}

fn role(graph: &Graph, id: ValueId) -> Result<InputRole, NoLanguage> {
    let name = graph.value(id).map_or("", |value| &value.name);
    if let Some(state) = graph.states.iter().find(|state| state.input == id) {
        return Ok(InputRole::State(state.output));
    }
    InputRole::of_name(name).ok_or_else(|| NoLanguage::Input(name.to_string()))
}
