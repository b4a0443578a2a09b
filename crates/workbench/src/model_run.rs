//! Runs of a compiled language model as the page shows them. Its programs share commands between layers, so
//! that the step that issued a command says which kernel the command is of.

use std::collections::BTreeMap;

use tilewright_base::Sources;
use tilewright_compile::Compiled;
use tilewright_compile::compiled::ProgramOutline;
use tilewright_compile::kernel::{Kernel, Kernels, ValueId};
use tilewright_graph::Graph;
use tilewright_machine::Tcp;
use tilewright_record::{Interval, KeepAll, Record};
use tilewright_runtime::model::Phase;
use tilewright_runtime::{Prepared, Reading, ReadingError, ReadingOptions};
use tilewright_schedule::timing::longest;
use tilewright_tcp_isa::program::event::Ticket;
use tilewright_tcp_isa::program::{Program, text};
use tilewright_view::RunView;
use tilewright_view::graph_view::{KernelView, ModelGraphView};

use crate::graph_run::{nodes, nodes_by_result};
use crate::simulate::{SimulatedRun, TcpRun};
use crate::view::{view, view_by_kernel};

/// What a run is called that takes so many tokens behind others.
pub fn title(model: &str, before: u64, tokens: u64) -> String {
    match (before, tokens) {
        (0, 1) => format!("{model}: a prompt of 1 token"),
        (0, tokens) => format!("{model}: a prompt of {tokens} tokens"),
        (before, _) => format!("{model}: a token behind {before}"),
    }
}

/// Programs of a model as texts, by phase.
#[derive(Debug)]
pub struct ModelTexts {
    prefill: ProgramSource,
    decode: ProgramSource,
}

/// A program as text.
#[derive(Debug)]
struct ProgramSource {
    sources: Sources,
    printed: String,
}

/// A run of one of the programs, with everything that a trace has.
#[derive(Debug)]
pub struct ModelRun {
    title: String,
    phase: Phase,
    run: SimulatedRun,
}

impl ModelTexts {
    /// Writes the programs of a model, and lets their steps and images know their lines.
    pub fn of(compiled: &mut Compiled) -> ModelTexts {
        ModelTexts { prefill: spelled(&mut compiled.prefill), decode: spelled(&mut compiled.decode) }
    }

    fn source(&self, phase: Phase) -> &ProgramSource {
        match phase {
            Phase::Prefill => &self.prefill,
            Phase::Decode => &self.decode,
        }
    }

    /// A run of the model that these programs are of.
    pub fn run(
        &self,
        machine: &Tcp,
        compiled: &Compiled,
        title: String,
        (phase, reading): (Phase, Reading),
    ) -> ModelRun {
        let program = match phase {
            Phase::Prefill => compiled.prefill.clone(),
            Phase::Decode => compiled.decode.clone(),
        };
        let sources = self.source(phase).sources.clone();
        let run = TcpRun { sources, program, machine: machine.clone(), reading };
        ModelRun { title, phase, run: SimulatedRun::Tcp(Box::new(run)) }
    }

    /// What the page shows of a run.
    pub fn view(&self, graph: &Graph, compiled: &Compiled, run: &ModelRun) -> RunView {
        let ModelRun { title, phase, run } = run;
        let printed = Some(self.source(*phase).printed.as_str());
        let SimulatedRun::Tcp(of_tcp) = run else { return view(title, printed, run) };
        let name = match phase {
            Phase::Prefill => "prefill",
            Phase::Decode => "decode",
        };
        let outline = compiled.outlines.iter().find(|outline| outline.name == name);
        let owners = outline.map(|outline| StepKernels::of(compiled, &of_tcp.program, outline));
        let steps = &of_tcp.reading.steps;
        let kernel = |command: &Interval| {
            // A command raises one signal: its ticket.
            let step = steps.get(&Ticket(command.signals.first()?.0))?;
            owners.as_ref()?.kernel(&command.name, step.start)
        };
        let (mut shown, kernels) = view_by_kernel(title, printed, run, &kernel);
        shown.graph = Some(graph_view(graph, compiled, kernels));
        shown
    }
}

impl ModelRun {
    /// What happened.
    pub fn record(&self) -> &Record {
        self.run.record()
    }
}

/// What the page shows of a model without its weights: the run of the longest prompt that goes at once, and
/// of a token behind the longest context.
///
/// # Errors
/// Programs that are refused, or whose runs do not come to their end.
pub fn timed_views(
    machine: &Tcp,
    graph: &Graph,
    mut compiled: Compiled,
) -> Result<Vec<RunView>, ReadingError> {
    let texts = ModelTexts::of(&mut compiled);
    let most = compiled.plan.options.context.min(compiled.kernels.positions);
    let mut views = Vec::new();
    for (phase, name) in [(Phase::Prefill, "prefill"), (Phase::Decode, "decode")] {
        let Some(outline) = compiled.outlines.iter().find(|outline| outline.name == name) else { continue };
        let program = match phase {
            Phase::Prefill => compiled.prefill.clone(),
            // An encoder takes its text at once.
            Phase::Decode if compiled.kernels.pools() => continue,
            Phase::Decode => compiled.decode.clone(),
        };
        let wanted = ReadingOptions { trace: true, ..ReadingOptions::default() };
        let registers = longest(&compiled, outline);
        let reading = Prepared::new(machine, program)?.time(&registers, &wanted, KeepAll::default())?;
        let (before, tokens) = match phase {
            Phase::Prefill => (0, compiled.most_tokens().min(most)),
            Phase::Decode => (most.saturating_sub(1), 1),
        };
        let title = title(&compiled.kernels.name, before, tokens);
        let run = texts.run(machine, &compiled, title, (phase, reading));
        views.push(texts.view(graph, &compiled, &run));
    }
    Ok(views)
}

/// A program as text, and as it is read from that.
fn spelled(program: &mut Program) -> ProgramSource {
    let printed = text::print(program);
    let mut sources = Sources::default();
    let id = sources.add("program", printed.as_str());
    if let Ok(read) = text::read(&printed, id) {
        *program = read;
    }
    ProgramSource { sources, printed }
}

/// Which kernel the commands of a step are of.
#[derive(Debug)]
struct StepKernels<'p> {
    /// Kernels by the first byte of the step that they begin with; none before the first of a queue.
    by_start: BTreeMap<u32, Option<u32>>,
    /// What is fetched ahead is of the kernel that it is for, and of none if several have it in common.
    ahead: BTreeMap<&'p str, Option<u32>>,
}

impl<'p> StepKernels<'p> {
    fn of(compiled: &Compiled, program: &'p Program, outline: &ProgramOutline) -> StepKernels<'p> {
        let mut by_start = BTreeMap::new();
        for (queue, begins) in program.queues.iter().zip(&outline.begins) {
            by_start.extend(queue.steps.first().map(|step| (step.span.start, None)));
            // A kernel without steps begins where the next one does, which comes last.
            let firsts = (0_u32..).zip(begins);
            by_start.extend(
                firsts.filter_map(|(kernel, at)| Some((queue.steps.get(*at)?.span.start, Some(kernel)))),
            );
        }
        let ahead = compiled.intent(program, outline).ahead;
        let ahead = ahead.into_iter().filter_map(|(id, kernel)| {
            let transfer = program.transfers.get(id.0 as usize)?;
            let own = u32::try_from(kernel).ok().filter(|_| kernel < compiled.kernels.kernels.len());
            Some((transfer.name.as_str(), own))
        });
        StepKernels { by_start, ahead: ahead.collect() }
    }

    fn kernel(&self, name: &str, step_start: u32) -> Option<u32> {
        let own = || self.by_start.range(..=step_start).next_back().and_then(|(_, kernel)| *kernel);
        self.ahead.get(name).copied().unwrap_or_else(own)
    }
}

/// Operators and kernels.
fn graph_view(graph: &Graph, compiled: &Compiled, kernel_of_command: String) -> ModelGraphView {
    let all = &compiled.kernels;
    let (owners, shared) = kernel_nodes(graph, all);
    let printed = all.print();
    // Kernels follow the lines of the model, and scales follow the kernels.
    let lines = printed.lines().skip_while(|line| !line.starts_with("vocabulary ")).skip(1);
    let kernels = lines.zip(&owners).map(|(line, node)| KernelView { text: line.to_string(), node: *node });
    ModelGraphView { nodes: nodes(graph, &owners, &shared), kernels: kernels.collect(), kernel_of_command }
}

/// The operator of each kernel: the one whose result it gives, the first projection of several, or the one
/// that its result goes into; and operators that share the kernel of another.
fn kernel_nodes(graph: &Graph, all: &Kernels) -> (Vec<Option<u32>>, BTreeMap<u32, u32>) {
    let givers = nodes_by_result(graph);
    let gives = |value: ValueId| givers.get(all.value(value)?.name.as_str()).copied();
    let readers = nodes_by_operand(graph);
    let reads = |weight: &str| readers.get(weight).copied();
    let output = || {
        let value = graph.values.get(graph.outputs.first()?.value.0 as usize)?;
        givers.get(value.name.as_str()).copied()
    };
    let mut shared = BTreeMap::new();
    let mut found: Vec<Option<u32>> = Vec::new();
    for kernel in &all.kernels {
        found.push(match kernel {
            Kernel::Embed { out, .. }
            | Kernel::Norm { out, .. }
            | Kernel::Rotate { out, .. }
            | Kernel::Attend { out, .. }
            | Kernel::Activate { out, .. }
            | Kernel::Combine { out, .. } => gives(*out),
            Kernel::Project { parts, .. } => {
                let mut nodes = parts.iter().filter_map(|part| reads(&part.name));
                let first = nodes.next();
                if let Some(first) = first {
                    shared.extend(nodes.map(|node| (node, first)));
                }
                first
            }
            Kernel::Head { weight, .. } => reads(&weight.name).or_else(output),
            Kernel::Pool { .. } => output(),
        });
    }
    // Rotated queries have no name in the graph: they are of the attention that takes them.
    for at in (0..found.len().saturating_sub(1)).rev() {
        if found[at].is_none() {
            found[at] = found[at + 1];
        }
    }
    (found, shared)
}

/// The first operator that reads each value, by the value's name.
fn nodes_by_operand(graph: &Graph) -> BTreeMap<&str, u32> {
    let mut found: BTreeMap<&str, u32> = BTreeMap::new();
    for (number, node) in (0_u32..).zip(&graph.nodes) {
        let read = node.inputs.iter().flatten().filter_map(|id| graph.values.get(id.0 as usize));
        read.for_each(|value| {
            found.entry(value.name.as_str()).or_insert(number);
        });
    }
    found
}
