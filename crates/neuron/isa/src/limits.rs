//! Rules that all compute engines share: memories, partitions and where they start, free sizes (NKI
//! architecture guide, tensor access; docs/hardware-rules.md#tensor-access).

use crate::alu::AluOp;
use crate::pattern::{as_u64, signed};
use crate::refusal::{Refusal, rule};
use crate::{Chip, EngineKind, MemorySpace, TensorAccess, TensorView};

/// Checks one operand of a compute engine.
///
/// # Errors
/// If the engine cannot reach it so.
pub fn operand(
    chip: &Chip,
    engine: EngineKind,
    instruction: &str,
    role: &str,
    tile: &impl TensorAccess,
) -> Result<(), Refusal> {
    tile.check_bounds()?;
    words(instruction, role, tile)?;
    index(engine, instruction, role, tile)?;
    memory(engine, instruction, role, tile)?;
    partitions(chip, instruction, role, tile)?;
    free_size(chip, engine, instruction, role, tile)
}

/// Offsets from a tile: as many as the engine reads, and no scatter of the Scalar engine into PSUM.
fn index(engine: EngineKind, instruction: &str, role: &str, tile: &impl TensorAccess) -> Result<(), Refusal> {
    let Some(index) = &tile.view().index else { return Ok(()) };
    if engine != EngineKind::Tensor && index.lanes.is_none() {
        return Err(index.too_few(engine));
    }
    let scatters =
        engine == EngineKind::Scalar && role == "the result" && tile.tensor().memory == MemorySpace::Psum;
    rule(!scatters, || {
        Refusal::new(
            "neuron/memory",
            format!("{instruction} on the scalar engine with results scattered in PSUM"),
            "results scattered in SBUF",
            "write to SBUF, or use the vector engine",
        )
    })
}

/// Which memories an engine reaches.
fn memory(
    engine: EngineKind,
    instruction: &str,
    role: &str,
    tile: &impl TensorAccess,
) -> Result<(), Refusal> {
    let memory = tile.tensor().memory;
    let reaches = match engine {
        EngineKind::Gpsimd => memory == MemorySpace::Sbuf,
        EngineKind::Dma | EngineKind::Sync => true,
        EngineKind::Tensor | EngineKind::Vector | EngineKind::Scalar => memory.on_chip(),
    };
    rule(reaches, || {
        Refusal::new(
            "neuron/memory",
            format!("{instruction} on the {} engine with {role} in {}", engine.name(), memory.name()),
            if engine == EngineKind::Gpsimd { "tiles in SBUF" } else { "tiles in SBUF or PSUM" },
            "load the tensor to SBUF first",
        )
    })
}

/// How many partitions, and that they are neighbours. Where they start is a finding: compilers may move a
/// tile that starts elsewhere.
fn partitions(chip: &Chip, instruction: &str, role: &str, tile: &impl TensorAccess) -> Result<(), Refusal> {
    let count = tile.view().partitions();
    let most = chip.partitions();
    rule(count <= most, || {
        Refusal::new(
            "neuron/partitions",
            format!("{instruction} with {role} of {count} partitions"),
            format!("at most {most} partitions"),
            "split the tile along its first dimension",
        )
    })?;
    let (step, own) = (tile.partition_step(), tile.partition_elements());
    // One row for all partitions is what compilers broadcast.
    rule(step.is_none_or(|step| step == signed(own) || step == 0), || {
        Refusal::new(
            "neuron/partitions",
            format!(
                "{instruction} with {role} that steps {} elements of {own} to its next partition",
                step.unwrap_or(0)
            ),
            "neighbouring partitions, one after the other",
            "move the rows with a DMA, a transpose or nc_stream_shuffle first",
        )
    })
}

/// The multiple that the first partition of so many must be.
pub fn start_grain(chip: &Chip, partitions: u64) -> u64 {
    let quadrant = chip.neuron.access.quadrant_partitions;
    match partitions {
        count if count <= quadrant => quadrant,
        count if count <= 2 * quadrant => 2 * quadrant,
        _ => chip.neuron.sbuf.partitions,
    }
}

/// How many elements of a partition, those that are read again and again counted once.
fn free_size(
    chip: &Chip,
    engine: EngineKind,
    instruction: &str,
    role: &str,
    tile: &impl TensorAccess,
) -> Result<(), Refusal> {
    if !matches!(engine, EngineKind::Vector | EngineKind::Scalar) {
        return Ok(());
    }
    let access = &chip.neuron.access;
    let most =
        if tile.tensor().memory == MemorySpace::Psum { access.psum_free_max } else { access.sbuf_free_max };
    let count = as_u64(tile.view().distinct_free_elements());
    rule(count <= most, || {
        Refusal::new(
            "neuron/free-size",
            format!("{instruction} with {role} of {count} elements for each partition"),
            format!("at most {most} in {}", tile.tensor().memory.name()),
            "split the tile along its free dimensions",
        )
    })
}

/// Refuses more columns than the tensor engine takes at once.
///
/// # Errors
/// If there are more than `most`.
pub fn columns(instruction: &str, role: &str, count: u64, most: u64) -> Result<(), Refusal> {
    rule(count <= most, || {
        Refusal::new(
            "neuron/free-size",
            format!("{instruction} with a {role} tile of {count} columns"),
            format!("at most {most}"),
            "tile that dimension",
        )
    })
}

/// Instructions that look into block-scaled words, or move them whole.
const MOVES_WORDS: [&str; 6] =
    ["quantize_mx", "nc_matmul_mx", "tensor_copy", "memset", "nc_stream_shuffle", "nc_n_gather"];

/// Refuses arithmetic on block-scaled words.
fn words(instruction: &str, role: &str, tile: &impl TensorAccess) -> Result<(), Refusal> {
    let Some(format) = tile.view().mx else { return Ok(()) };
    rule(MOVES_WORDS.contains(&instruction), || {
        Refusal::new(
            "neuron/dtype",
            format!("{instruction} with {role} of {}", format.name()),
            "nc_matmul_mx, or an instruction that moves words",
            "quantize after the arithmetic, or view the words as an integer type",
        )
    })
}

/// Refuses a copy between block-scaled words and anything else.
///
/// # Errors
/// If one side has block-scaled words and the other does not have the same.
pub fn same_words(
    instruction: &str,
    dst: &impl TensorAccess,
    src: &impl TensorAccess,
) -> Result<(), Refusal> {
    rule(dst.view().mx == src.view().mx, || {
        Refusal::new(
            "neuron/dtype",
            format!("{instruction} of {} to {}", src.view().type_name(), dst.view().type_name()),
            "the same type on both sides",
            "view the bytes of one side as the type of the other",
        )
    })
}

/// Refuses two operands that are both in PSUM.
///
/// # Errors
/// If both are.
pub fn not_both_psum(instruction: &str, a: &impl TensorAccess, b: &impl TensorAccess) -> Result<(), Refusal> {
    let both = a.tensor().memory == MemorySpace::Psum && b.tensor().memory == MemorySpace::Psum;
    rule(!both, || {
        Refusal::new(
            "neuron/memory",
            format!("{instruction} with both inputs in PSUM"),
            "at most one input in PSUM",
            "copy one of them to SBUF",
        )
    })
}

/// Refuses an engine that does not have an instruction.
///
/// # Errors
/// If `engine` is none of `allowed`.
pub fn engine_of(instruction: &str, engine: EngineKind, allowed: &[EngineKind]) -> Result<(), Refusal> {
    rule(allowed.contains(&engine), || {
        let names: Vec<&str> = allowed.iter().map(|engine| engine.name()).collect();
        Refusal::new(
            "neuron/engine",
            format!("{instruction} on the {} engine", engine.name()),
            format!("the engines {}", names.join(", ")),
            "leave the engine to be chosen, or name one of these",
        )
    })
}

/// Bit operators belong to `tensor_tensor`, `tensor_scalar` and reductions; other instructions compute in
/// FP32 (instruction pages).
///
/// # Errors
/// If one of the operators works on bits.
pub fn arithmetic(instruction: &str, ops: &[AluOp]) -> Result<(), Refusal> {
    let Some(bitwise) = ops.iter().find(|op| op.is_bitwise()) else { return Ok(()) };
    let asked = format!("{instruction} with {}", bitwise.name());
    let instead = "use tensor_scalar or tensor_tensor for the bits, and another instruction for the rest";
    Err(Refusal::new("neuron/operator", asked, "arithmetic operators", instead))
}

/// Refuses operands of different shapes.
///
/// # Errors
/// If `b` has not the shape of `a`, dimensions of size 1 aside.
pub fn same_shape(instruction: &str, a: &impl TensorAccess, b: &impl TensorAccess) -> Result<(), Refusal> {
    let [squeezed_a, squeezed_b] =
        [a.view(), b.view()].map(|view| view.dims.iter().map(|dim| dim.size).filter(|&size| size != 1));
    rule(
        a.view().partitions() == b.view().partitions() && (a.view().elements() == b.view().elements()),
        || shape_refusal(instruction, a, b),
    )?;
    let folded = |view: &TensorView| (view.partitions(), view.free_elements());
    rule(folded(a.view()) == folded(b.view()) || squeezed_a.eq(squeezed_b), || {
        shape_refusal(instruction, a, b)
    })
}

fn shape_refusal(instruction: &str, a: &impl TensorAccess, b: &impl TensorAccess) -> Refusal {
    Refusal::new(
        "neuron/shape",
        format!("{instruction} of shapes {:?} and {:?}", a.view().shape(), b.view().shape()),
        "operands and result with as many partitions and elements",
        "slice or broadcast one of them",
    )
}
