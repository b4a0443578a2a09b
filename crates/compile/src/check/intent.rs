//! Which kernel a command belongs to, and what that kernel reads: the kernel level as a checker of the
//! commands below it.

use std::collections::{BTreeMap, BTreeSet};

use tilewright_tcp_isa::footprint::{MemoryAccess, MemoryKind};
use tilewright_tcp_isa::program::{ExecId, TransferId};

use crate::kernel::{Kernel, Kernels, ValueId};

/// What is meant. An empty one says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intent {
    /// Names of kernels.
    pub names: Vec<String>,
    /// For each queue, the first step of each kernel.
    pub begins: Vec<Vec<usize>>,
    /// For each kernel, those whose results it reads.
    pub reads: Vec<Vec<usize>>,
    /// Transfers that belong to a kernel wherever they are issued: what is fetched ahead.
    pub ahead: BTreeMap<TransferId, usize>,
    /// The kernel of each image; without them, steps say it.
    pub image_kernels: Vec<usize>,
    /// Kernels hand values on in HBM alone: memories of PEs have what a kernel wrote itself, and `reads` says
    /// whose bytes of HBM it reads.
    pub passes_in_hbm: bool,
    /// Kernels that find what others left in data memory: who reads, and who wrote.
    pub resident: BTreeSet<(usize, usize)>,
    /// What the host reads behind the run.
    pub results: Vec<HostRead>,
    /// What memories hold before the run, besides the tensors of the program.
    pub held: Vec<MemoryAccess>,
    /// Values whose rows are found by a table, besides the tensors of the program: no row lies outside.
    pub indexed: Vec<MemoryAccess>,
    /// Bytes of data memory that a run may read as earlier runs left them; without them, all that they hold.
    pub kept_bytes: Option<u64>,
    /// Further bytes of data memory that are read without having been written, and come to nothing.
    pub spare: Option<(u64, u64)>,
    /// Slices of each PE that have rows of somebody; others compute with whatever they find, for nobody.
    pub busy_slices: Option<u64>,
    /// Everything that is written is for later runs.
    pub keeps_all: bool,
    /// Whatever a command writes is read; only what PEs send one another may be for nobody.
    pub reads_all: bool,
    /// Blocks that repeat are followed each, also where one can vouch for the others: slower, and finds the
    /// same.
    pub follows_each_block: bool,
}

/// Bytes of HBM that the host reads behind a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRead {
    /// What they are.
    pub name: String,
    /// Where they lie.
    pub bytes: MemoryAccess,
    /// Kernels that may have written them; what was there before the run may be read too.
    pub makers: Vec<usize>,
}

impl Intent {
    /// Intended data flow of kernels, without steps of commands.
    pub fn of(kernels: &Kernels) -> Intent {
        let mut makers: BTreeMap<usize, usize> = BTreeMap::new();
        let (mut names, mut reads) = (Vec::new(), Vec::new());
        for (index, kernel) in kernels.kernels.iter().enumerate() {
            let inputs = kernel.inputs().into_iter();
            reads.push(inputs.filter_map(|ValueId(input)| makers.get(&input).copied()).collect());
            names.push(format!("{} {index}", kernel.kind()));
            if let Some(ValueId(out)) = kernel.out() {
                makers.insert(out, index);
            }
        }
        let reads = with_sums(kernels, &reads);
        Intent { names, reads, ..Intent::default() }
    }

    /// The kernel of a step.
    pub(super) fn kernel(
        &self,
        queue: usize,
        step: usize,
        (transfer, image): (Option<TransferId>, Option<ExecId>),
    ) -> Option<usize> {
        let of_image = || image.and_then(|id| self.image_kernels.get(id.0 as usize));
        if let Some(kernel) = transfer.and_then(|id| self.ahead.get(&id)).or_else(of_image) {
            return Some(*kernel);
        }
        let begins = self.begins.get(queue)?;
        begins.partition_point(|first| *first <= step).checked_sub(1)
    }

    /// Whether a kernel may read what another wrote in a memory; what belongs to none may be read by all.
    pub(super) fn may_read(&self, memory: MemoryKind, reader: Option<usize>, writer: Option<usize>) -> bool {
        if memory == MemoryKind::Hbm && !self.passes_in_hbm {
            return true;
        }
        match (reader, writer) {
            (Some(reader), Some(writer)) if self.passes_in_hbm && memory != MemoryKind::Hbm => {
                let is_left = memory == MemoryKind::Dm && self.resident.contains(&(reader, writer));
                reader == writer || is_left
            }
            (Some(reader), Some(writer)) => {
                reader == writer || self.reads.get(reader).is_some_and(|reads| reads.contains(&writer))
            }
            _ => true,
        }
    }

    /// Whether a run may read a byte of data memory that it has not written.
    pub(super) fn may_be_old(&self, byte: u64) -> bool {
        let spare = self.spare.is_some_and(|(start, end)| (start..end).contains(&byte));
        spare || self.kept_bytes.is_none_or(|kept| byte < kept)
    }

    pub(super) fn idle(&self, slice: u64) -> bool {
        self.busy_slices.is_some_and(|busy| slice >= busy)
    }

    pub(super) fn name(&self, kernel: Option<usize>) -> &str {
        kernel.and_then(|kernel| self.names.get(kernel)).map_or("no kernel", String::as_str)
    }
}

/// Sums of several processing elements are added to a residual when the next norm wants them: what a norm
/// reads and writes is also what the combination before it does.
fn with_sums(kernels: &Kernels, reads: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let combines = |index: &usize| matches!(kernels.kernels.get(*index), Some(Kernel::Combine { .. }));
    let mut adders: BTreeMap<usize, usize> = BTreeMap::new();
    let mut all = reads.to_vec();
    for (index, kernel) in kernels.kernels.iter().enumerate() {
        let Some(own) = all.get_mut(index) else { continue };
        if matches!(kernel, Kernel::Norm { .. }) {
            for combined in own.clone().into_iter().filter(combines) {
                own.extend(reads.get(combined).into_iter().flatten());
                adders.insert(combined, index);
            }
        }
        let added: Vec<usize> = own.iter().filter_map(|from| adders.get(from).copied()).collect();
        own.extend(added);
    }
    all
}

impl Kernel {
    /// What it reads.
    pub fn inputs(&self) -> Vec<ValueId> {
        match self {
            Kernel::Embed { .. } => Vec::new(),
            Kernel::Norm { input, .. }
            | Kernel::Project { input, .. }
            | Kernel::Rotate { input, .. }
            | Kernel::Attend { input, .. }
            | Kernel::Activate { input, .. }
            | Kernel::Pool { input }
            | Kernel::Head { input, .. } => vec![*input],
            Kernel::Combine { input, residual, .. } => vec![*input, *residual],
        }
    }

    /// What it gives.
    pub fn out(&self) -> Option<ValueId> {
        match self {
            Kernel::Embed { out, .. }
            | Kernel::Norm { out, .. }
            | Kernel::Project { out, .. }
            | Kernel::Rotate { out, .. }
            | Kernel::Attend { out, .. }
            | Kernel::Activate { out, .. }
            | Kernel::Combine { out, .. } => Some(*out),
            Kernel::Pool { .. } | Kernel::Head { .. } => None,
        }
    }

    /// Its word in texts.
    pub fn kind(&self) -> &'static str {
        match self {
            Kernel::Embed { .. } => "embed",
            Kernel::Norm { .. } => "norm",
            Kernel::Project { .. } => "project",
            Kernel::Rotate { .. } => "rotate",
            Kernel::Attend { .. } => "attend",
            Kernel::Activate { .. } => "activate",
            Kernel::Combine { .. } => "combine",
            Kernel::Pool { .. } => "pool",
            Kernel::Head { .. } => "head",
        }
    }
}
