//! Whether registers can hold every image of a program and its queues make sense: before anything runs, one
//! file for each engine.
//!
//! Sizes in control registers are taken at their largest; what flows from engine to engine is counted at
//! their smallest as well.
//!
//! | file | engine |
//! |---|---|
//! | `sequencer` | loops of any unit |
//! | `fetch`, `adapter` | fetch unit; lookup, cast and zero point on the way |
//! | `switch` | fetch network |
//! | `contract` | contraction engine and its register file |
//! | `vector`, `cast`, `transpose` | what follows it |
//! | `commit` | commit unit, fills, short loads |
//! | `flow` | packets and flits from engine to engine |
//! | `transfer` | DMA |
//! | `queue`, `queue_state`, `queue_occupancy` | control steps; ids of commands; room in the queue |
//! | `program` | registers, tensors, chips |
//! | `idle_load` | images that are loaded and never run |
//! | `grant` | address translation |
//! | `context`, `types` | the image under examination; the types that leave each engine |

mod adapter;
mod cast;
mod commit;
mod context;
mod contract;
mod fetch;
mod flow;
mod grant;
mod idle_load;
mod program;
mod queue;
mod queue_occupancy;
mod queue_state;
mod sequencer;
mod switch;
mod transfer;
mod transpose;
mod types;
mod vector;

pub use queue_occupancy::MAX_NESTING;

use tilewright_base::Diagnostic;
use tilewright_base::diagnostic::any_error;
use tilewright_machine::tcp::Tcp;

use self::context::{VerifyContext, refusal};
use crate::program::exec::{ExecBody, Stream};
use crate::program::{Exec, Program};

/// Codes of refusals and warnings, with what each asks.
pub const CODES: &[(&str, &str)] = &[
    ("tcp/sequencer-size", "a loop has a size that an entry counts"),
    ("tcp/sequencer-entries", "loops fit the entries of their sequencer"),
    ("tcp/fetch-type", "the fetch unit reads a type that memory holds"),
    ("tcp/fetch-packet", "packets divide what is fetched"),
    ("tcp/fetch-granule", "a packet is a whole number of granules on its way to the network"),
    ("tcp/fetch-contiguous", "what the sub context reads lies side by side"),
    ("tcp/fetch-interleave", "an interleaved fetch alternates by a loop of size 2, in the main context"),
    ("tcp/fetch-indirect", "a table of addresses belongs to a loop and is aligned"),
    ("tcp/fetch-limits", "limits are few and weigh every loop"),
    ("tcp/fetch-pad", "padding of a packet can be counted"),
    ("tcp/fetch-bounds", "fetches stay in data memory"),
    ("tcp/adapter-lookup", "a table lookup has types and a size that exist"),
    ("tcp/adapter-cast", "a cast while fetching has types that exist"),
    ("tcp/adapter-width", "what one access becomes fits a flit"),
    ("tcp/adapter-zero-point", "a zero point has a type and a range"),
    ("tcp/adapter-stages", "the sub context has one stage of the adapter"),
    ("tcp/adapter-target", "i5 and i9 go to the contraction engine"),
    ("tcp/switch-topology", "a topology cuts the slices and the packets"),
    ("tcp/switch-sources", "a custom topology names sources of its ring"),
    ("tcp/contract-context", "the sub context has no contraction engine"),
    ("tcp/contract-flits", "a packet joins one or two flits"),
    ("tcp/contract-lanes", "lanes are 1, 2, 4 or 8"),
    ("tcp/contract-repeats", "a packet is held for at least one step"),
    ("tcp/contract-types", "both operands have types that multiply"),
    ("tcp/contract-tree", "the tree sums a power of two of a packet"),
    ("tcp/contract-columns", "columns past what a lane keeps are lost (warning)"),
    ("tcp/contract-slots", "open sums fit the accumulators"),
    ("tcp/contract-walk", "register file addresses match steps and packets"),
    ("tcp/contract-bounds", "register file addresses stay in a lane's part"),
    ("tcp/contract-gather", "a step reads one run of the register file"),
    ("tcp/contract-align", "wide reads of the register file are aligned"),
    ("tcp/contract-shift", "a shift lies in the range of its type"),
    ("tcp/contract-transpose", "an in-flit transpose exists for the type"),
    ("tcp/vector-chain", "the vector engine's stages and units hold the chain"),
    ("tcp/vector-input", "the vector engine gets 32-bit words of its type"),
    ("tcp/vector-bounds", "operands stay in the vector register file"),
    ("tcp/cast-types", "the cast engine has the pair of types"),
    ("tcp/transpose-tile", "the transpose engine has such tiles"),
    ("tcp/transpose-kept", "no more columns leave than enter"),
    ("tcp/commit-width", "a write has a width of its context"),
    ("tcp/commit-bytes", "what is kept of a flit is whole granules of it"),
    ("tcp/commit-stride", "write strides are whole granules and move"),
    ("tcp/commit-bf16", "only f32 becomes bf16 while committing"),
    ("tcp/commit-relu", "ReLU comes with the conversion to bf16"),
    ("tcp/commit-slices", "the write mask names slices of the group"),
    ("tcp/commit-lanes", "a register file is cut into 1, 2, 4 or 8 lanes"),
    ("tcp/commit-bounds", "writes stay in their memory"),
    ("tcp/commit-flits", "as many flits arrive as addresses are made"),
    ("tcp/fill-context", "fills run in the sub context"),
    ("tcp/short-load", "a short load goes from data memory to a register file, in granules"),
    ("tcp/flow-contract", "flits and steps of the contraction match what arrives"),
    ("tcp/flow-vector", "flits that leave the vector engine can be counted"),
    ("tcp/flow-transpose", "whole tiles arrive at the transpose engine"),
    ("tcp/exec-pes", "so many PEs can be fused"),
    ("tcp/transfer-loops", "a transfer has few enough loops"),
    ("tcp/transfer-packet", "a packet of a transfer has a size that exists"),
    ("tcp/transfer-align", "HBM and data memory are joined by aligned addresses"),
    ("tcp/transfer-bounds", "every address of a transfer is in a memory"),
    ("tcp/transfer-index", "a table of rows has a type, a loop and a memory"),
    ("tcp/program-chips", "there is at least one chip, and few enough to address"),
    ("tcp/register-range", "a register has a range and starts in it"),
    ("tcp/tensor-place", "a tensor lies in a memory"),
    ("tcp/tensor-overlap", "two tensors that hold data at the start do not share bytes"),
    ("tcp/queue-pe", "a queue belongs to a PE, each PE has one"),
    ("tcp/queue-image", "commands name images that exist"),
    ("tcp/queue-group", "fused PEs are neighbours of one cluster, starting at the queue's"),
    ("tcp/queue-load", "an image is loaded before its context runs"),
    ("tcp/queue-idle-load", "an image that is loaded runs (warning)"),
    ("tcp/queue-wait", "waits name ids that were issued"),
    ("tcp/queue-id", "an id is not used again before its command is done"),
    ("tcp/queue-room", "pushes without a look find room"),
    ("tcp/queue-register", "steps and images name registers that exist"),
    ("tcp/queue-read", "the core reads integers in memories that exist"),
    ("tcp/queue-peer", "messages go to other PEs that have a queue"),
    ("tcp/queue-nesting", "loops and branches nest so deep at most"),
    ("tcp/grant", "PEs touch only what they are granted"),
];

/// Everything that is wrong with a program, image by image, then queues.
pub fn verify(machine: &Tcp, program: &Program) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    program::check(machine, program, &mut found);
    for exec in &program.execs {
        found.extend(verify_exec(machine, program, exec));
    }
    for held in &program.transfers {
        transfer::check(machine, program, held, &mut found);
    }
    queue::check(machine, program, &mut found);
    idle_load::check(program, &mut found);
    if !program.grants.is_empty() && !any_error(&found) {
        grant::check(machine, program, &mut found);
    }
    found
}

/// Everything that is wrong with one image.
pub fn verify_exec(machine: &Tcp, program: &Program, exec: &Exec) -> Vec<Diagnostic> {
    let mut counts = Vec::new();
    exec.clone().each_count(&mut |count| counts.push(*count));
    if let Some(id) = program.missing_register(counts.into_iter()) {
        let message = format!("`{}`: register {} does not exist", exec.name, id.0);
        let allowed = format!("{} registers", program.registers.len());
        return vec![refusal("tcp/queue-register", exec.span, message, allowed, "one that is declared")];
    }
    let most: Vec<i64> = program.registers.iter().map(|register| register.most).collect();
    let mut found = Vec::new();
    let resolved = exec.resolved(&most);
    let mut cx = VerifyContext { machine, program, exec: &resolved, written: exec, found: &mut found };
    check_exec(&mut cx);
    if !any_error(&found) {
        let least: Vec<i64> = program.registers.iter().map(|register| register.least.max(1)).collect();
        let resolved = exec.resolved(&least);
        let mut cx = VerifyContext { machine, program, exec: &resolved, written: exec, found: &mut found };
        if least != most {
            check_flow(&mut cx);
        }
    }
    found
}

fn check_exec(cx: &mut VerifyContext<'_>) {
    let (exec, written) = (cx.exec, cx.written);
    let allowed = &cx.machine.chip.fused_pes;
    if !allowed.contains(&exec.pes) {
        let allowed: Vec<String> = allowed.iter().map(u64::to_string).collect();
        cx.refuse(
            "tcp/exec-pes",
            format!("{} PEs are fused", exec.pes),
            format!("{} PEs", allowed.join(", ")),
            "a group that can be fused, and one command for each group".into(),
        );
        return;
    }
    match (&exec.body, &written.body) {
        (ExecBody::Stream(stream), ExecBody::Stream(written)) => check_stream(cx, stream, written),
        (ExecBody::Fill(fill), ExecBody::Fill(written)) => commit::check_fill(cx, fill, written),
        (ExecBody::Short(short), _) => commit::check_short(cx, short),
        _ => {}
    }
}

fn check_stream(cx: &mut VerifyContext<'_>, stream: &Stream, written: &Stream) {
    fetch::check(cx, &stream.fetch, &written.fetch);
    adapter::check(cx, stream);
    let delivers = switch::check(cx, stream);
    if let (Some(contract), Some(written)) = (&stream.contract, &written.contract) {
        contract::check(cx, stream, contract, written);
    }
    if let Some(vector) = &stream.vector {
        vector::check(cx, stream, vector);
    }
    cast::check(cx, stream);
    transpose::check(cx, stream);
    commit::check(cx, &stream.commit, &written.commit, types::leaves_transpose(stream));
    if delivers && !any_error(cx.found) {
        flow::check(cx, stream);
    }
}

fn check_flow(cx: &mut VerifyContext<'_>) {
    if let ExecBody::Stream(stream) = &cx.exec.body {
        flow::check(cx, stream);
    }
}
