//! Where the descriptors of a transfer come from, and what making them takes (NKI reference of descriptor
//! generation; docs/hardware-rules.md#dma and #descriptors).
//!
//! Documented: `none` finds them in HBM and is the quickest; `swdge` takes time of GpSimd and is the only one
//! for rows that a tile picks; `hwdge` takes about 600 ns for each transfer on the sequencer that triggers
//! it, Sync or Scalar, and what Scalar triggers is hidden behind the instructions before it. Assumed, since
//! no page says it: descriptors are made as soon as their addresses are known and their engine is free,
//! before the data is there; a trigger of Scalar keeps that engine as long as it takes to issue an
//! instruction. Left to the compiler, descriptors are stored if addresses are known before the run; an
//! address that one element of a tile gives is left to hardware where there is any.

use tilewright_base::invariant::Exact;
use tilewright_neuron_isa::chip::{cycles_ps, ns_ps};
use tilewright_neuron_isa::cost::dma::transfer_side;
use tilewright_neuron_isa::program::{EngineKind, Instruction, InstructionCost};
use tilewright_neuron_isa::refusal::{Refusal, rule};
use tilewright_neuron_isa::{Chip, Generation, TensorRegion};

use crate::Tile;

/// Names of the modes.
pub const MODES: [&str; 4] = ["unknown", "none", "swdge", "hwdge"];

/// What a kernel says of the descriptors of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DgeMode {
    /// The compiler chooses.
    #[default]
    Unknown,
    /// Stored in HBM before the run.
    None,
    /// GpSimd makes them.
    Software,
    /// A hardware block makes them, triggered by that engine.
    Hardware(EngineKind),
}

impl DgeMode {
    /// The mode of that name, triggered by an engine if the kernel names one.
    ///
    /// # Errors
    /// If no mode is called so, or the engine triggers no hardware block.
    pub fn named(name: &str, engine: Option<EngineKind>) -> Result<DgeMode, Refusal> {
        match name {
            "unknown" => Ok(DgeMode::Unknown),
            "none" => Ok(DgeMode::None),
            "swdge" => Ok(DgeMode::Software),
            "hwdge" => {
                let engine = engine.unwrap_or(EngineKind::Sync);
                rule(matches!(engine, EngineKind::Sync | EngineKind::Scalar), || {
                    Refusal::new(
                        "neuron/engine",
                        format!("descriptors by hardware for the {} engine", engine.name()),
                        "sync and scalar",
                        "name one of them, or leave the engine out",
                    )
                })?;
                Ok(DgeMode::Hardware(engine))
            }
            _ => Err(Refusal::new(
                "neuron/operator",
                format!("a dge_mode called {name}"),
                MODES.join(", "),
                "use one of them",
            )),
        }
    }

    /// Who makes the descriptors of a transfer; what is left to the compiler is chosen.
    ///
    /// # Errors
    /// If a tile picks rows and the mode does not gather.
    pub fn settled(self, chip: &Chip, name: &str, tiles: &[&Tile]) -> Result<DgeMode, Refusal> {
        let mut picked = tiles.iter().filter(|tile| tile.view.picked_by.is_some()).peekable();
        let moves = picked.peek().is_some();
        let gathers = picked.any(|tile| tile.view.gather.is_some());
        rule(!gathers || matches!(self, DgeMode::Unknown | DgeMode::Software), || {
            Refusal::new(
                "neuron/operator",
                format!("{name} with dge_mode {} of rows that a tile picks", self.name()),
                "swdge, or unknown",
                "leave dge_mode out: only GpSimd makes descriptors for rows known at run time",
            )
        })?;
        Ok(match self {
            DgeMode::Unknown if gathers => DgeMode::Software,
            DgeMode::Unknown if moves && chip.generation() < Generation::V3 => DgeMode::Software,
            DgeMode::Unknown if moves => DgeMode::Hardware(EngineKind::Sync),
            DgeMode::Unknown => DgeMode::None,
            mode => mode,
        })
    }

    fn name(self) -> &'static str {
        match self {
            DgeMode::Unknown => "unknown",
            DgeMode::None => "none",
            DgeMode::Software => "swdge",
            DgeMode::Hardware(_) => "hwdge",
        }
    }
}

/// The instruction that makes the descriptors of a transfer between these tiles at run time; none if they are
/// stored before.
pub fn make_descriptors(chip: &Chip, mode: DgeMode, ring: &Tile, tiles: &[&Tile]) -> Option<Instruction> {
    let neuron = &chip.neuron;
    let (engine, busy_ps) = match mode {
        DgeMode::Unknown | DgeMode::None => return None,
        DgeMode::Software => {
            let each = tiles.iter().map(|tile| transfer_side(*tile).descriptors).max().unwrap_or(0);
            let gpsimd = &neuron.gpsimd;
            let cycles = gpsimd.startup_cycles.exact_add(each.exact_mul(gpsimd.descriptor_cycles));
            (EngineKind::Gpsimd, cycles_ps(cycles, gpsimd.clock_hz))
        }
        DgeMode::Hardware(EngineKind::Scalar) => {
            (EngineKind::Scalar, cycles_ps(neuron.sync.dispatch_cycles, neuron.scalar.clock_hz))
        }
        DgeMode::Hardware(_) => (EngineKind::Sync, ns_ps(neuron.dma.hardware_descriptor_ns)),
    };
    let cost = InstructionCost { busy_ps, latency_ps: 0 };
    let mut instruction = Instruction::new("dma_descriptors", engine, cost, &[ring], &[]);
    let picked = tiles.iter().filter_map(|tile| tile.view.picked_by.as_deref()).flatten();
    instruction.reads = picked.copied().collect::<Vec<TensorRegion>>().into();
    Some(instruction)
}
