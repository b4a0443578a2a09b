//! Lowered shapes of values and weights, from the sizes that the templates take: `Features` and `Packed` of
//! the plan, rows and groups of the program.

use std::fmt;
use tilewright_base::invariant::OrBroken;

use tilewright_machine::tcp::Tcp;
use tilewright_num::Dtype;

use crate::compiled::{Compiled, ProgramOutline};
use crate::kernel::{Kernel, ValueId, ValueLayout};
use crate::tcp::build::Mode;
use crate::tcp::plan::{Plan, weights_of};
use crate::tcp::sizes::Features;

/// A tensor at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapedTensor {
    /// Its name.
    pub name: String,
    /// The paper's notation for its partition over PEs.
    pub partition: String,
    /// Element type.
    pub dtype: Dtype,
    /// Axes with the extents that one PE has.
    pub axes: Vec<(String, u64)>,
    /// The lowered shape on one PE.
    pub shape: String,
    /// The memory, and the first byte there.
    pub place: (&'static str, u64),
}

impl fmt::Display for ShapedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (memory, at) = self.place;
        write!(f, "{} {} {} @{memory}+{at} {}", self.name, self.partition, self.dtype, self.shape)
    }
}

/// Sizes of one program.
pub struct ProgramShapes<'s> {
    machine: &'s Tcp,
    compiled: &'s Compiled,
    pub(super) outline: &'s ProgramOutline,
    pub(super) plan: &'s Plan,
}

impl<'s> ProgramShapes<'s> {
    /// Sizes of one program of a compiled model.
    pub fn new(machine: &'s Tcp, compiled: &'s Compiled, outline: &'s ProgramOutline) -> ProgramShapes<'s> {
        ProgramShapes { machine, compiled, outline, plan: &compiled.plan }
    }

    fn rows(&self) -> u64 {
        match self.outline.mode {
            Mode::Prefill => self.plan.prefill_rows,
            Mode::Decode => 1,
            Mode::Batch => self.plan.options.batch_rows(self.machine.pe.slices),
        }
    }

    /// Tokens that the program takes at most, padding included.
    pub fn tokens(&self) -> u64 {
        self.rows() * if self.outline.mode == Mode::Decode { 1 } else { self.machine.pe.slices }
    }

    /// Bands of slices with tokens of their own.
    fn bands(&self) -> u64 {
        if self.outline.mode == Mode::Prefill { self.plan.features.bands } else { 1 }
    }

    /// Slices that hold weights: those of each band the same.
    fn holders(&self, stride: u64, slices: u64) -> String {
        match self.bands() {
            1 => format!("e^{}[{slices}]", superscript(stride)),
            bands => {
                format!("_[{bands}] e^{}[{slices}#{}]", superscript(stride), self.plan.features.band_slices)
            }
        }
    }

    fn pes(&self) -> u64 {
        self.plan.options.pes
    }

    fn deals_tokens(&self) -> bool {
        self.pes() > 1 && self.outline.mode != Mode::Decode
    }

    fn between(&self) -> Dtype {
        self.plan.options.between()
    }

    /// Of all chips.
    fn all_pes(&self) -> u64 {
        self.plan.options.all_pes()
    }

    /// `BLF_4`, or `BLF` on one PE.
    fn sharded(&self, axes: &str, last: bool) -> String {
        match (self.all_pes() > 1, last) {
            (true, true) => format!("{axes}_{}", self.all_pes()),
            _ => axes.to_string(),
        }
    }

    /// What a kernel reads.
    pub fn reads(&self, kernel: &Kernel) -> Vec<(&'static str, ShapedTensor)> {
        let roles = ["input", "residual"];
        let values = kernel.inputs().into_iter().zip(roles);
        let mut all: Vec<_> = values.filter_map(|(id, role)| Some((role, self.value(id)?))).collect();
        if let Kernel::Attend { heads, cache, .. } = kernel {
            let keys = (self.plan.options.context.div_ceil(self.machine.pe.slices))
                .next_multiple_of(self.machine.ce.lanes);
            let slices = self.machine.pe.slices;
            let axes = vec![("k".to_string(), keys * slices), ("d".to_string(), 2 * heads.kv_width())];
            let shape =
                format!("k^1[{slices}] | k^{}[{keys}] d^1[{}]", superscript(slices), 2 * heads.kv_width());
            let partition = self.sharded("BKD", true);
            let place = ("dm", self.outline.places.cached);
            let (name, dtype) = (format!("cache{cache}"), self.plan.options.cache);
            all.push(("cache", ShapedTensor { name, partition, dtype, axes, shape, place }));
        }
        all
    }

    /// A value where its kernel leaves it.
    pub fn value(&self, id: ValueId) -> Option<ShapedTensor> {
        let value = self.compiled.kernels.value(id)?;
        let maker = self.compiled.kernels.kernels.iter().find(|kernel| kernel.out() == Some(id))?;
        let (at, dtype) = (&self.outline.places, self.plan.options.dtype);
        let name = value.name.clone();
        if value.layout == ValueLayout::Features {
            let normal = matches!(maker, Kernel::Norm { .. });
            let own = self.deals_tokens() && !normal;
            let tokens = if own { self.tokens() / self.pes() } else { self.tokens() };
            let partition = if own { format!("BL_{}E", self.pes()) } else { self.sharded("BLE", false) };
            let (place, dtype) = if normal { (at.normal, dtype) } else { (at.x, Dtype::F32) };
            let (axes, shape) = self.features(tokens, normal);
            return Some(ShapedTensor { name, partition, dtype, axes, shape, place: ("dm", place) });
        }
        let (width, place, dtype) = self.of_rows(maker, value.width);
        let used = match maker {
            Kernel::Attend { heads, .. } => heads.query_width(),
            _ => width,
        };
        let (axes, shape) = self.by_rows(used, width);
        let partition = self.sharded("BLF", true);
        Some(ShapedTensor { name, partition, dtype, axes, shape, place: ("dm", place) })
    }

    /// Columns over slices. Norms fill idle slices with zeros.
    fn features(&self, tokens: u64, all: bool) -> (Vec<(String, u64)>, String) {
        let Features { share, slices: used, band_slices, .. } = self.plan.features;
        if self.bands() > 1 {
            let axes = vec![("l".to_string(), tokens), ("e".to_string(), used * share)];
            let (bands, band) = (self.bands(), superscript(band_slices));
            let slices = format!("l^{band}[{bands}] e^{}[{used}#{band_slices}]", superscript(share));
            let (row, rows) = (superscript(self.machine.pe.slices), self.rows());
            return (axes, format!("{slices} | l^{row}[{rows}] l^1[{band_slices}] e^1[{share}]"));
        }
        let slices = if all { self.machine.pe.slices } else { used };
        let places = if slices > used { format!("#{slices}") } else { String::new() };
        let axes = vec![("l".to_string(), tokens), ("e".to_string(), used * share)];
        let shape = format!("e^{}[{used}{places}] | l^1[{tokens}] e^1[{share}]", superscript(share));
        (axes, shape)
    }

    /// Columns of a row in memory, where rows begin, and their type.
    fn of_rows(&self, maker: &Kernel, width: u64) -> (u64, u64, Dtype) {
        let (at, options) = (&self.outline.places, &self.plan.options);
        let scaled = options.dtype == Dtype::I8;
        match maker {
            Kernel::Project { .. } => {
                let weights = weights_of(maker).or_broken("a projection has weights");
                (self.plan.parts(self.machine, &weights).width, at.rows, self.between())
            }
            Kernel::Rotate { heads, .. } => (heads.query_width(), at.queries, options.cache),
            Kernel::Attend { heads, .. } => {
                let row = options.whole_rows(self.machine, heads.query_width());
                match scaled {
                    true => (row, at.attended_floats, self.between()),
                    false => (row, at.attended, options.dtype),
                }
            }
            _ => {
                let part = width.div_ceil(self.all_pes());
                let part = if self.all_pes() > 1 { part.next_multiple_of(8) } else { part };
                let row = options.whole_rows(self.machine, part);
                match options.activated() {
                    Dtype::I8 => (row, at.active_floats, self.between()),
                    dtype => (row, at.active, dtype),
                }
            }
        }
    }

    fn by_rows(&self, used: u64, width: u64) -> (Vec<(String, u64)>, String) {
        let slices = self.machine.pe.slices;
        let axes = vec![("l".to_string(), self.tokens()), ("f".to_string(), used)];
        let places = if width > used { format!("{used}#{width}") } else { used.to_string() };
        let shape = match self.outline.mode {
            Mode::Decode => format!("_[{slices}] | f^1[{places}]"),
            _ => format!("l^1[{slices}] | l^{}[{}] f^1[{places}]", superscript(slices), self.rows()),
        };
        (axes, shape)
    }

    /// Weights of a kernel in the register files: the shape of a fill, and fills of that shape.
    pub fn weights(&self, index: usize, kernel: &Kernel) -> Vec<(ShapedTensor, u64)> {
        let (Some(packed), Some(weights)) = (self.plan.packed(index), weights_of(kernel)) else {
            return Vec::new();
        };
        let names: Vec<&str> = weights.iter().map(|weight| weight.name.as_str()).collect();
        let lanes = self.machine.ce.lanes;
        let combines = matches!(kernel, Kernel::Combine { .. });
        let mut all: Vec<(ShapedTensor, u64)> = Vec::new();
        for fill in &packed.fills {
            let (row, groups, slices) = (packed.row, fill.groups, packed.slices);
            let held = groups * lanes;
            let (axes, shape, partition) = if combines {
                let share = self.plan.features.share;
                let e = slices * share.max(held);
                let (holders, lane) = (self.holders(held, slices), superscript(lanes));
                let shape = format!("{holders} | e^1[{lanes}] e^{lane}[{groups}] f^1[{row}]");
                let shape = if held == share { shape } else { shape + " of columns" };
                (vec![("e".to_string(), e), ("f".to_string(), row)], shape, self.first_dealt("F", "E"))
            } else {
                let (holders, lane) = (self.holders(row, slices), superscript(lanes));
                let shape = format!("{holders} | f^1[{lanes}] f^{lane}[{groups}] e^1[{row}]");
                let axes = vec![("e".to_string(), slices * row), ("f".to_string(), held)];
                (axes, shape, self.sharded("EF", true))
            };
            let dtype = packed.dtype;
            let shaped =
                ShapedTensor { name: names.join("+"), partition, dtype, axes, shape, place: ("trf", 0) };
            match all.last_mut() {
                Some((last, count)) if *last == shaped => *count += 1,
                _ => all.push((shaped, 1)),
            }
        }
        all
    }

    fn first_dealt(&self, first: &str, second: &str) -> String {
        let pes = self.all_pes();
        if pes > 1 { format!("{first}_{pes}{second}") } else { format!("{first}{second}") }
    }
}

/// A stride as the notation writes it.
fn superscript(stride: u64) -> String {
    if stride < 10 { stride.to_string() } else { format!("{{{stride}}}") }
}
