//! Programs print to a text that reads back as the same program, and no text makes the reader panic.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tilewright_base::{SourceId, Sources, render};
use tilewright_neuron_isa::function::{ActivationFunction, NAMES};
use tilewright_neuron_isa::opcode::OPCODES;
use tilewright_neuron_isa::program::{Allocation, CollectiveInfo, ComputeForm, DmaShape};
use tilewright_neuron_isa::text::{VERSION, is_neuron, print, read};
use tilewright_neuron_isa::{
    EngineKind, Instruction, InstructionCost, MemorySpace, NeuronProgram, TensorRegion,
};

fn any_region() -> impl Strategy<Value = TensorRegion> {
    (any::<u32>(), any::<u32>(), any::<u64>(), any::<(u64, u64)>(), any::<(u64, u64)>(), 0..4_u8).prop_map(
        |(storage, tile, pitch_bytes, rows, bytes, kind)| match kind {
            0 => TensorRegion { storage, tile: 0, pitch_bytes: 0, rows: (0, 1), bytes, sparse: false },
            1 => TensorRegion { storage, tile, pitch_bytes: 0, rows: (0, 1), bytes, sparse: false },
            _ => TensorRegion { storage, tile, pitch_bytes, rows, bytes, sparse: tile % 2 == 1 },
        },
    )
}

fn any_cost() -> impl Strategy<Value = InstructionCost> {
    any::<(u64, u64)>().prop_map(|(busy_ps, latency_ps)| InstructionCost { busy_ps, latency_ps })
}

fn any_form() -> impl Strategy<Value = ComputeForm> {
    select(vec![
        ComputeForm::Other,
        ComputeForm::Map,
        ComputeForm::Sum,
        ComputeForm::Reciprocal,
        ComputeForm::Product,
        ComputeForm::Copy,
        ComputeForm::Scaled,
        ComputeForm::Linear,
    ])
}

fn any_dma() -> impl Strategy<Value = DmaShape> {
    any::<(u32, u64, u64, u64, bool)>().prop_map(|(engines, data_ps, bytes, descriptors, software)| {
        DmaShape { engines, data_ps, bytes, descriptors, software }
    })
}

fn any_exchange() -> impl Strategy<Value = Box<CollectiveInfo>> {
    (vec(any::<u32>(), 0..40), vec(any::<(u32, u64)>(), 0..20), any::<(u32, u64)>()).prop_map(
        |(members, links, (number, start_ps))| Box::new(CollectiveInfo { members, links, number, start_ps }),
    )
}

fn any_instruction() -> impl Strategy<Value = Instruction> {
    let head =
        (select(OPCODES.to_vec()), select(EngineKind::ALL.to_vec()), any_cost(), any::<(u32, u32, u32)>());
    let touched = (vec(any_region(), 0..4), vec(any_region(), 0..3), vec(any_region(), 0..2));
    let work = any::<(u64, u64, u64, u32, u8, u16, u64)>();
    let table =
        option::of(select(NAMES.iter().map(|(_, function)| *function).collect::<Vec<ActivationFunction>>()));
    let parts = (any_form(), option::of(any_dma()), option::of(any_exchange()), table);
    let others = (option::of(any_cost()), option::of(any_cost()), any::<[bool; 7]>());
    (head, touched, work, parts, others).prop_map(|(head, touched, work, parts, others)| {
        let (opcode, engine, cost, (source, program, barrier)) = head;
        let (reads, writes, offsets) = touched;
        let (hbm_read_bytes, hbm_written_bytes, macs, operand_bits, passes, cells, digest) = work;
        let (form, dma, collective, table) = parts;
        let (on_scalar, on_gpsimd, flags) = others;
        let [block_scaled, full_rows, uninitialised, outside_table, other_values, borrows_port, merged] =
            flags;
        Instruction {
            reads: reads.into(),
            writes: writes.into(),
            offsets: (!offsets.is_empty()).then(|| offsets.into()),
            hbm_read_bytes,
            hbm_written_bytes,
            macs,
            operand_bits,
            block_scaled,
            passes,
            full_rows,
            cells,
            dma,
            table,
            uninitialised,
            outside_table,
            other_values,
            form,
            digest,
            on_scalar,
            on_gpsimd,
            borrows_port,
            merged,
            collective,
            source,
            program,
            barrier,
            ..Instruction::untouched(opcode, engine, cost)
        }
    })
}

fn any_allocation() -> impl Strategy<Value = Allocation> {
    let memories =
        select(vec![MemorySpace::Sbuf, MemorySpace::Psum, MemorySpace::Hbm, MemorySpace::SharedHbm]);
    let name = prop_oneof![Just(String::new()), "[a-z_]{1,6}", "[ -~é\n]{0,9}"];
    (any::<(u32, u64, u32, u32, u32)>(), memories, name, vec(any::<(u32, u64)>(), 0..9), 0..9_usize).prop_map(
        |((storage, partition_bytes, tiles, source, partitions), memory, name, places, made_at)| Allocation {
            storage,
            memory,
            partition_bytes,
            tiles,
            name,
            source,
            places,
            partitions,
            made_at,
        },
    )
}

fn any_program() -> impl Strategy<Value = NeuronProgram> {
    let lists = (vec(any_instruction(), 0..8), vec(any_allocation(), 0..5), vec("[ -~é\n]{0,12}", 0..4));
    (lists, any::<u32>(), any::<bool>(), any::<bool>()).prop_map(
        |((instructions, mut allocations, sources), cores, in_order, compiled)| {
            // Tensors stand in the order in which they were made, before an instruction or behind the last.
            allocations.iter_mut().for_each(|one| one.made_at = one.made_at.min(instructions.len()));
            allocations.sort_by_key(|one| one.made_at);
            NeuronProgram { instructions, allocations, sources, cores, in_order, compiled }
        },
    )
}

/// A few tens of characters, most of them words that the grammar knows.
fn any_text() -> impl Strategy<Value = String> {
    let words = [
        "program neuron 1\n",
        "machine toy\n",
        "line 0 \"a\"\n",
        "tensor ",
        "t0 ",
        "sbuf ",
        "bytes=",
        "4 ",
        "to ",
        "places (",
        "): ",
        "nc_matmul ",
        "tensor ",
        "line=0 ",
        "{ ",
        "}\n",
        "; ",
        "read ",
        "write ",
        "rows=",
        "dma ",
        "engines=",
        "[",
        "]",
        "collective ",
        "ranks=",
        "18446744073709551616 ",
        "-1 ",
        "t ",
        "t99999999999 ",
    ];
    vec(prop_oneof![8 => select(words.to_vec()).prop_map(str::to_owned), 1 => "[ -~é]{0,3}"], 0..30)
        .prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_the_same_program(program in any_program(), machine in "[a-z]{1,5}|[ \
        -~]{0,5}") {
        let text = print(&program, &machine);
        prop_assert!(is_neuron(&text));
        let back = read(&text, SourceId(0))
            .map_err(|found| TestCaseError::fail(format!("{found:?}\n{text}")))?;
        prop_assert_eq!(&back.program, &program);
        prop_assert_eq!(&back.machine, &machine);
        prop_assert_eq!(back.instructions.len(), program.instructions.len());
        prop_assert_eq!(print(&back.program, &back.machine), text);
    }

    #[test]
    fn any_text_gives_a_program_or_complaints(text in any_text(), cut in any::<prop::sample::Index>()) {
        for text in [text.as_str(), &format!("program neuron 1\nmachine toy\n{text}")] {
            let mut sources = Sources::default();
            let id = sources.add("hostile", text);
            if let Err(complaints) = read(text, id) {
                prop_assert!(!render::plain(&sources, &complaints).is_empty());
            }
        }
        let cut = cut.index(text.len() + 1);
        let _ = read(text.get(..cut).unwrap_or_default(), SourceId(0));
    }
}

#[test]
fn other_versions_and_families_are_refused() {
    for (text, said) in [
        ("program neuron 2\nmachine toy\n", "neuron 2"),
        ("program tcp 1\nmachine tcp\n", "tcp 1"),
        ("machine toy\n", "does not say"),
        ("", "does not say"),
    ] {
        let complaints = read(text, SourceId(0)).unwrap_err();
        assert_eq!(complaints.len(), 1, "{text}");
        assert_eq!(complaints[0].code, "program/version", "{text}");
        assert!(complaints[0].message.contains(said), "{}", complaints[0].message);
    }
    assert_eq!(VERSION, 1);
    assert!(is_neuron("// a comment\n\nprogram neuron 7 // another\n"));
    assert!(!is_neuron("program tcp 1\n") && !is_neuron("") && !is_neuron("neuron"));
}

#[test]
fn an_unknown_opcode_is_told_with_the_nearest() {
    let complaints =
        read("program neuron 1\nmachine toy\nnc_matmull tensor line=0\n", SourceId(0)).unwrap_err();
    assert_eq!(complaints[0].code, "ir/field");
    assert!(format!("{:?}", complaints[0]).contains("nc_matmul"), "{complaints:?}");
}

#[test]
fn lines_are_numbered_in_order() {
    let complaints = read("program neuron 1\nmachine toy\nline 1 \"a\"\n", SourceId(0)).unwrap_err();
    assert_eq!(complaints[0].code, "neuron/program-number");
}
