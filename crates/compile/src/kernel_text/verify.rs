//! What kernels must fit together by: layouts, widths, heads and caches.

use tilewright_base::Diagnostic;

use crate::kernel::{
    Activation, AxisOrder, Heads, Kernel, Kernels, ValueId, ValueLayout, WeightAxis, WeightMatrix,
};

/// The largest size of anything: far above what any chip holds, far below what sums of products overflow at.
const MOST: u64 = 1 << 28;

type VerifyResult = Result<(), Box<Diagnostic>>;

/// Complaints, each about a kernel by its index or about all of them.
pub(super) fn verify(kernels: &Kernels) -> Vec<(Option<usize>, Diagnostic)> {
    let mut found = Vec::new();
    for (what, size) in [("positions", kernels.positions), ("vocabulary", kernels.vocabulary)] {
        if size == 0 || size > MOST {
            found.push((None, size_of(what, size)));
        }
    }
    let (first, last) = (kernels.kernels.first(), kernels.kernels.last());
    let ends = matches!(
        (first, last),
        (Some(Kernel::Embed { .. }), Some(Kernel::Head { .. } | Kernel::Pool { .. }))
    );
    if !ends {
        let complaint =
            Diagnostic::error("kernels/order", "kernels do not lead from `embed` to `head` or `pool`");
        found.push((None, complaint.allowed("`embed` first, `head` or `pool` last")));
    }
    for cache in kernels.ranges.keys().filter(|cache| **cache >= kernels.caches) {
        let message = format!("a range of cache {cache}, of {}", kernels.caches);
        found.push((None, Diagnostic::error("kernels/size", message).allowed("caches of the kernels")));
    }
    for peak in kernels.amax.values().chain(kernels.ranges.values().flatten()) {
        if !(peak.is_normal() && *peak > 0.0) {
            let message = format!("a absolute maximum of {peak:?}");
            let complaint = Diagnostic::error("kernels/size", message).allowed("positive numbers");
            found.push((None, complaint));
        }
    }
    let mut rotated = vec![false; kernels.kernels.len()];
    for (index, kernel) in kernels.kernels.iter().enumerate() {
        let checks = sizes(kernels, kernel).and_then(|()| fits(kernels, kernel, &mut rotated));
        found.extend(checks.err().map(|complaint| (Some(index), *complaint)));
    }
    found
}

fn size_of(what: &str, found: u64) -> Diagnostic {
    Diagnostic::error("kernels/size", format!("{what} is {found}")).allowed(format!("1 to {MOST}"))
}

fn sizes(kernels: &Kernels, kernel: &Kernel) -> VerifyResult {
    let mut all: Vec<u64> = kernel.out().map(|out| kernels.width(out)).into_iter().collect();
    let of_heads = |heads: &Heads| [heads.kv, heads.group, heads.slots, heads.depth];
    let mut weights: Vec<&WeightMatrix> = Vec::new();
    match kernel {
        Kernel::Project { parts, .. } => weights.extend(parts),
        Kernel::Combine { weight, .. } | Kernel::Head { weight, .. } => weights.push(weight),
        Kernel::Rotate { heads, .. } | Kernel::Attend { heads, .. } => {
            all.extend(of_heads(heads));
            head_sizes(heads)?;
        }
        Kernel::Embed { .. } | Kernel::Norm { .. } | Kernel::Activate { .. } | Kernel::Pool { .. } => {}
    }
    for axis in weights.iter().flat_map(|weight| [&weight.rows, &weight.columns]) {
        all.extend([axis.size, axis.parts, axis.copies]);
        if let AxisOrder::Heads { groups, group, slots, depth, .. } = axis.order {
            let heads = Heads { kv: groups, group, slots, depth };
            all.extend(of_heads(&heads));
            head_sizes(&heads)?;
            equal("an axis by heads", axis.size, groups.saturating_mul(group).saturating_mul(depth))?;
        }
    }
    match all.into_iter().find(|size| *size == 0 || *size > MOST) {
        Some(size) => Err(Box::new(size_of("a size", size))),
        None => Ok(()),
    }
}

fn head_sizes(heads: &Heads) -> VerifyResult {
    let Heads { kv, group, slots, depth } = *heads;
    let width = kv.saturating_mul(slots).saturating_mul(depth);
    if !slots.is_power_of_two() || slots < group || width > MOST {
        let message = format!("{kv} groups of {group} heads in {slots} places");
        let allowed = "a power of two of places, as many as heads of a group at least";
        return Err(Box::new(Diagnostic::error("kernels/heads", message).allowed(allowed)));
    }
    Ok(())
}

fn equal(what: &str, found: u64, wanted: u64) -> VerifyResult {
    if found == wanted {
        return Ok(());
    }
    let complaint = Diagnostic::error("kernels/width", format!("{what} is {found}"));
    Err(Box::new(complaint.allowed(format!("{wanted}")).instead(format!("{wanted}"))))
}

/// Places of an axis that is not sharded.
fn stored(axis: &WeightAxis) -> u64 {
    WeightAxis { parts: 1, copies: 1, ..*axis }.stored()
}

fn fits(kernels: &Kernels, kernel: &Kernel, rotated: &mut [bool]) -> VerifyResult {
    let width = |id: &ValueId| kernels.width(*id);
    let (from, to) = layouts(kernel);
    for (id, wanted) in kernel.inputs().into_iter().zip(from).chain(kernel.out().into_iter().zip(to)) {
        let value = kernels.value(id);
        if value.is_some_and(|value| value.layout != wanted) {
            let name = value.map_or("", |value| value.name.as_str());
            let word = if wanted == ValueLayout::Rows { "rows" } else { "features" };
            let complaint = Diagnostic::error("kernels/layout", format!("`{name}` is not by {word}"));
            return Err(Box::new(complaint.allowed(format!("{word} for `{}` here", kernel.kind()))));
        }
    }
    match kernel {
        Kernel::Embed { .. } | Kernel::Pool { .. } => Ok(()),
        Kernel::Norm { input, out, .. } => equal("the width of a norm", width(out), width(input)),
        Kernel::Project { input, parts, out } => {
            parts
                .iter()
                .try_for_each(|part| equal("columns of a weight", stored(&part.columns), width(input)))?;
            let rows = parts.iter().fold(0_u64, |all, part| all.saturating_add(stored(&part.rows)));
            equal("the width of a projection", width(out), rows)
        }
        Kernel::Rotate { input, heads, cache, out, .. } => {
            if let Some(known) = rotated.get_mut(*cache) {
                *known = true;
            }
            let all = heads.query_width().saturating_add(2 * heads.kv_width());
            equal("what is rotated", width(input), all)?;
            equal("the width of queries", width(out), heads.query_width())
        }
        Kernel::Attend { input, heads, cache, out, .. } => {
            if !rotated.get(*cache).copied().unwrap_or(false) {
                let message = format!("nothing was put into cache{cache}");
                let allowed = "a cache that a `rotate` before it writes";
                return Err(Box::new(Diagnostic::error("kernels/cache", message).allowed(allowed)));
            }
            equal("the width of queries", width(input), heads.query_width())?;
            equal("the width of an attention", width(out), heads.query_width())
        }
        Kernel::Activate { input, activation, out } => {
            let wanted = if *activation == Activation::GatedSilu { 2 * width(out) } else { width(out) };
            equal("what is activated", width(input), wanted)
        }
        Kernel::Combine { input, weight, residual, out } => {
            equal("columns of a weight", stored(&weight.columns), width(input))?;
            equal("rows of a weight", stored(&weight.rows), width(out))?;
            equal("the width of a residual", width(residual), width(out))
        }
        Kernel::Head { input, weight } => {
            equal("columns of a weight", stored(&weight.columns), width(input))?;
            equal("rows of a weight", weight.rows.size, kernels.vocabulary)
        }
    }
}

/// Layouts of what a kernel reads, and of what it gives.
fn layouts(kernel: &Kernel) -> (Vec<ValueLayout>, Vec<ValueLayout>) {
    use ValueLayout::{Features, Rows};
    match kernel {
        Kernel::Embed { .. } => (Vec::new(), vec![Features]),
        Kernel::Norm { .. } => (vec![Features], vec![Features]),
        Kernel::Project { .. } => (vec![Features], vec![Rows]),
        Kernel::Rotate { .. } | Kernel::Attend { .. } | Kernel::Activate { .. } => (vec![Rows], vec![Rows]),
        Kernel::Combine { .. } => (vec![Rows, Features], vec![Features]),
        Kernel::Pool { .. } | Kernel::Head { .. } => (vec![Features], Vec::new()),
    }
}
