//! The lowered level says what the commands do: shapes against the bytes that are written, costs against
//! single commands.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use std::collections::BTreeSet;

use support::{compiled, options, small, tcp};
use tilewright_base::Span;
use tilewright_compile::cluster::cluster;
use tilewright_compile::compiled::ProgramOutline;
use tilewright_compile::kernel::Kernel;
use tilewright_compile::lowered::commands::TransferRoute;
use tilewright_compile::lowered::lowered;
use tilewright_compile::lowered::shapes::ShapedTensor;
use tilewright_compile::{Choices, Compiled, compile_chosen};
use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;
use tilewright_tcp_isa::footprint::{MemoryAccess, MemoryKind, of_exec, of_transfer, tensor};
use tilewright_tcp_isa::program::control::{Step, StepKind};
use tilewright_tcp_isa::program::event::PeId;
use tilewright_tcp_isa::program::tensor::{TensorData, TensorPlace, TensorRole};
use tilewright_tcp_isa::program::text::lowered_shape;
use tilewright_tcp_isa::program::{Command, Program, Tensor};

/// What the commands of some steps write.
fn writes(machine: &Tcp, program: &Program, pe: u64, steps: &[Step]) -> Vec<MemoryAccess> {
    let most: Vec<i64> = program.registers.iter().map(|register| register.most).collect();
    let mut all = Vec::new();
    for step in steps {
        match &step.kind {
            StepKind::Push(Command::Load(id)) => {
                let exec = program.execs[id.0 as usize].resolved(&most);
                all.extend(of_exec(machine, &exec, PeId { chip: 0, pe }, &[]).accesses);
            }
            StepKind::Push(Command::Dma { transfer, .. }) => {
                let transfer = program.transfers[transfer.0 as usize].resolved(&most);
                all.extend(of_transfer(machine, &transfer, &[]).accesses);
            }
            StepKind::If { then, .. } => all.extend(writes(machine, program, pe, then)),
            _ => {}
        }
    }
    all.retain(|access| access.write);
    all
}

/// Bytes of a slice from a place on that are written.
fn bytes_of(writes: &[MemoryAccess], slice: u64, from: u64, to: u64) -> BTreeSet<u64> {
    let here = writes.iter().filter(|access| {
        access.memory == MemoryKind::Dm && (access.slices.0..access.slices.1).contains(&slice)
    });
    let runs = here.flat_map(|access| access.bytes.runs().to_vec());
    runs.flat_map(|(start, end)| start.max(from)..end.min(to)).collect()
}

fn holds(machine: &Tcp, compiled: &Compiled, outline: &ProgramOutline, index: usize, shaped: &ShapedTensor) {
    let program = compiled.program(outline.name).unwrap();
    let mut all = Vec::new();
    for (queue, begins) in program.queues.iter().zip(&outline.begins) {
        // Partial sums of several PEs are added up when the next norm wants them.
        let late = program.queues.len() > 1
            && matches!(compiled.kernels.kernels.get(index), Some(Kernel::Combine { .. }));
        let end = begins.get(index + 1 + usize::from(late)).copied().unwrap_or(queue.steps.len());
        all.extend(writes(machine, program, queue.pe, &queue.steps[begins[index]..end]));
    }
    let (shape, map) = lowered_shape(&shaped.axes, &shaped.shape).unwrap();
    let place = TensorPlace::Dm { chip: 0, slice: 0, base: shaped.place.1 };
    let (role, data, span) = (TensorRole::Input, TensorData::Zeros, Span::default());
    let (name, dtype, axes) = (shaped.name.clone(), shaped.dtype, shaped.axes.clone());
    let held = Tensor { name, dtype, axes, role, place, shape, map, data, span };
    let elements = tensor::elements(machine, &held);
    let whole = tensor::whole(machine, &held).unwrap();
    let (from, to) = whole.bytes.bounds().unwrap();
    // Of copies the first is told.
    for access in &elements {
        for slice in access.slices.0..access.slices.1 {
            let wanted: BTreeSet<u64> =
                access.bytes.runs().iter().flat_map(|(start, end)| *start..*end).collect();
            let found = bytes_of(&all, slice, from, to);
            let missing = wanted.difference(&found).next();
            let more = found.difference(&wanted).next();
            assert_eq!(missing, None, "{} {shaped} slice {slice}", outline.name);
            assert_eq!(more, None, "{} {shaped} slice {slice}", outline.name);
        }
    }
}

#[test]
fn shapes_are_where_the_commands_write() {
    let machine = tcp();
    for (width, heads, kv) in [(64, 8, 4), (288, 6, 6)] {
        let graph = small(1, width, heads, kv);
        for (dtype, pes) in [(Dtype::Bf16, 1), (Dtype::I8, 1), (Dtype::Bf16, 2), (Dtype::I8, 4)] {
            let compiled = compiled(&machine, &graph, dtype, pes, 1);
            for outline in &compiled.outlines {
                let lowered = lowered(&machine, &compiled, outline);
                for (index, kernel) in lowered.kernels.iter().enumerate() {
                    kernel.gives.iter().for_each(|gives| holds(&machine, &compiled, outline, index, gives));
                }
            }
        }
    }
}

#[test]
fn shapes_of_bands_are_where_the_commands_write() {
    let machine = tcp();
    for (width, heads, bands) in [(64, 8, 8), (288, 6, 2), (288, 6, 4)] {
        let kernels = cluster(&small(1, width, heads, heads)).unwrap();
        for dtype in [Dtype::Bf16, Dtype::I8] {
            let choices = Choices { bands, ..Choices::default() };
            let made = compile_chosen(&machine, &kernels, options(dtype, (1, 1), 1, 256), &choices);
            let compiled = made.unwrap();
            assert_eq!(compiled.settled().bands, bands);
            for outline in &compiled.outlines {
                for (index, kernel) in lowered(&machine, &compiled, outline).kernels.iter().enumerate() {
                    kernel.gives.iter().for_each(|gives| holds(&machine, &compiled, outline, index, gives));
                }
            }
        }
    }
}

#[test]
fn exchanges_are_named() {
    let machine = tcp();
    let compiled = compiled(&machine, &small(1, 64, 8, 4), Dtype::Bf16, 4, 1);
    let ways = |name: &str| -> Vec<(String, TransferRoute)> {
        let outline = compiled.outlines.iter().find(|outline| outline.name == name).unwrap();
        let lowered = lowered(&machine, &compiled, outline);
        let moves = lowered
            .kernels
            .iter()
            .flat_map(|kernel| kernel.segment.moves.iter().map(|moved| (kernel.name.clone(), moved.way)));
        moves.filter(|(_, way)| !matches!(way, TransferRoute::Fetch | TransferRoute::Store)).collect()
    };
    let prefill = ways("prefill");
    assert!(prefill.contains(&("1 norm".to_string(), TransferRoute::AllGather)), "{prefill:?}");
    assert!(prefill.contains(&("5 combine".to_string(), TransferRoute::ReduceScatter)), "{prefill:?}");
    let decode = ways("decode");
    assert!(decode.contains(&("5 combine".to_string(), TransferRoute::AllReduce)), "{decode:?}");
    assert!(decode.iter().all(|(_, way)| *way != TransferRoute::AllGather), "{decode:?}");
}
