//! Which slices of a command reach a commit: all slices of a group run the same image, but what a slice reads
//! matters only if some slice that commits may get it, through the ring of the switch or through the reducer
//! between slices (vISA book, commit unit: slice mask).

use tilewright_base::invariant::Exact;
use tilewright_tcp_isa::footprint::{MemoryAccess, MemoryKind};
use tilewright_tcp_isa::program::Exec;
use tilewright_tcp_isa::program::exec::ExecBody;
use tilewright_tcp_isa::switch::ring_slices;

/// The parts of a read that may reach a commit. `first` is the first slice of the group.
pub(super) fn committed_reads(exec: Option<&Exec>, first: u64, access: &MemoryAccess) -> Vec<MemoryAccess> {
    let Some(ExecBody::Stream(stream)) = exec.map(|exec| &exec.body) else { return vec![access.clone()] };
    if stream.commit.slices.is_empty() {
        return vec![access.clone()];
    }
    let between =
        stream.vector.as_ref().and_then(|vector| vector.between).map_or(1, |between| between.slices);
    // Both are powers of two, so the greater holds whole ones of the lesser.
    let together = match access.memory {
        MemoryKind::Dm => between.max(ring_slices(stream.switch.topology)),
        _ => between,
    };
    let together = together.max(1);
    let mut parts: Vec<MemoryAccess> = Vec::new();
    for (start, end) in &stream.commit.slices {
        let from = first.exact_add(start / together * together).max(access.slices.0);
        let to = first.exact_add(end.div_ceil(together).exact_mul(together)).min(access.slices.1);
        if from < to {
            parts.push(MemoryAccess { slices: (from, to), ..access.clone() });
        }
    }
    parts
}
