//! Contractions that read the same rows become one: the rows come once, and there is one kernel instead of
//! several (queries, keys and values of attention, gates beside what they gate).
//!
//! What they are multiplied with are constants or inputs, one behind the other as columns of one. Chains that
//! do the same to each of them become one too. Who read one of the results reads its columns of the new one,
//! so all of them must be chains that read by strides. What all readers narrow is written narrow.

use tilewright_graph::Dtype;

use super::kernel::{Kernel, Kernels, Origin, Packing, Sizes, Value, Work};
use super::plan::readers;
use super::view::{View, signed};
use super::words::Line;

/// Bytes that inputs which lie behind each other have a multiple of.
const GRANULE_BYTES: u64 = 8;

/// A contraction with the chain that reads it.
#[derive(Clone, Debug)]
struct Branch {
    contract: usize,
    chain: usize,
    sizes: Sizes,
    /// Rows that it reads.
    a: usize,
    /// The columns.
    b: usize,
    /// What the chain gives.
    out: usize,
    /// Values of the host with one element for each column, by number of the chain's input; none for the
    /// sums.
    vectors: Vec<Option<usize>>,
    lines: Vec<Line>,
    streams: Vec<usize>,
}

impl Branch {
    /// Whether both can be one.
    fn is_like(&self, other: &Branch, all: &Kernels) -> bool {
        let kinds = |one: &Branch| one.vectors.iter().map(Option::is_some).collect::<Vec<bool>>();
        let of = |value: &usize| {
            let Value { dtype, packing, origin, .. } = &all.values[*value];
            (*dtype, *packing, *origin == Origin::Input)
        };
        let types = |one: &Branch| {
            let vectors = one.vectors.iter().map(|value| value.as_ref().map(of));
            (of(&one.b), vectors.collect::<Vec<_>>())
        };
        let out = |one: &Branch| (all.values[one.out].dtype, all.values[one.out].packing);
        self.a == other.a
            && (self.sizes.rows, self.sizes.summed, self.sizes.operands)
                == (other.sizes.rows, other.sizes.summed, other.sizes.operands)
            && (&self.lines, &self.streams) == (&other.lines, &other.streams)
            && kinds(self) == kinds(other)
            && types(self) == types(other)
            && out(self) == out(other)
    }
}

/// The same kernels with contractions of the same rows joined.
#[must_use]
pub(super) fn shared_rows(mut all: Kernels) -> Kernels {
    while let Some(parts) = alike(&all) {
        join(&mut all, &parts);
        let mut gone = vec![false; all.kernels.len()];
        for part in &parts[1..] {
            gone[part.contract] = true;
            gone[part.chain] = true;
        }
        // The chain comes at once behind its contraction: all that it reads is there.
        let (contract, chain) = (parts[0].contract, parts[0].chain);
        let kernel = all.kernels.remove(chain);
        all.kernels.insert(contract + 1, kernel);
        let mark = gone.remove(chain);
        gone.insert(contract + 1, mark);
        all = compacted(all, &gone);
    }
    all
}

/// The same kernels, in which chains write narrow floats where all who read what they give would narrow it.
#[must_use]
pub(super) fn narrowed_early(mut all: Kernels) -> Kernels {
    let uses = readers(&all);
    let narrows = |reader: &usize| {
        let Some(Kernel { work: Work::Chain { inputs, lines, streams }, results }) = all.kernels.get(*reader)
        else {
            return None;
        };
        let packing = all.values[results[0]].packing;
        let alone = inputs.len() == 1 && lines.is_empty() && streams[..] == [0];
        (alone && matches!(packing, Packing::Half | Packing::Float8)).then_some(packing)
    };
    let is_made = |value: usize| {
        let of =
            |kernel: &Kernel| matches!(kernel.work, Work::Chain { .. }) && kernel.results.contains(&value);
        all.kernels.iter().any(of)
    };
    let narrow: Vec<(usize, Packing)> = (0..all.values.len())
        .filter_map(|value| {
            let (one, read) = (&all.values[value], &uses[value]);
            let packing = narrows(read.first()?)?;
            let alike = read.iter().all(|reader| narrows(reader) == Some(packing));
            let wide = !one.packing.is_narrow() && one.dtype == Dtype::F32;
            (wide && alike && is_made(value)).then_some((value, packing))
        })
        .collect();
    narrow.into_iter().for_each(|(value, packing)| all.values[value].packing = packing);
    all
}

/// The first contractions that can be one.
fn alike(all: &Kernels) -> Option<Vec<Branch>> {
    let uses = readers(all);
    let branches: Vec<Branch> = (0..all.kernels.len()).filter_map(|at| branch(all, &uses, at)).collect();
    branches.iter().enumerate().find_map(|(at, first)| {
        let like: Vec<Branch> =
            branches[at..].iter().filter(|other| first.is_like(other, all)).cloned().collect();
        (like.len() > 1).then_some(like)
    })
}

/// A contraction of one plane with a value of the host, if one chain alone reads it, with values of the host
/// for each column, and only chains read what that gives.
fn branch(all: &Kernels, uses: &[Vec<usize>], contract: usize) -> Option<Branch> {
    let kernel = &all.kernels[contract];
    let Work::Contract { a, b, sizes } = kernel.work else { return None };
    let held = |value: usize| {
        let Value { origin, .. } = &all.values[value];
        let bytes = all.values[value].count() * all.values[value].element_bytes();
        let parts = |other: &Value| matches!(&other.origin, Origin::Parts(parts) if parts.contains(&value));
        let free =
            *origin == Origin::Input && bytes.is_multiple_of(GRANULE_BYTES) && !all.values.iter().any(parts);
        free || matches!(origin, Origin::Constant(_)) && uses[value].len() == 1
    };
    let sums = *kernel.results.first()?;
    let [chain] = uses[sums][..] else { return None };
    if sizes.batch != 1 || sizes.runs.is_some() || !held(b) {
        return None;
    }
    let behind = all.kernels.get(chain)?;
    let Work::Chain { inputs, lines, streams } = &behind.work else { return None };
    let [out] = behind.results[..] else { return None };
    let mut vectors = Vec::new();
    for view in inputs {
        let of_columns = view.reshaped(&[sizes.rows, sizes.columns]);
        let per_column =
            of_columns.is_some_and(|flat| flat.first == 0 && flat.axes[0].1 == 0 && flat.axes[1].1 == 1);
        match view.value {
            value if value == sums && all.is_whole(view) => vectors.push(None),
            value if per_column && held(value) && all.values[value].count() == sizes.columns => {
                vectors.push(Some(value));
            }
            _ => return None,
        }
    }
    let one = vectors.iter().filter(|value| value.is_none()).count() == 1;
    let by_strides = |reader: &usize| match all.kernels.get(*reader).map(|kernel| &kernel.work) {
        Some(Work::Chain { inputs, .. }) => inputs
            .iter()
            .filter(|view| view.value == out)
            .all(|view| columns_of(view, sizes.columns, 0, 1).is_some()),
        _ => false,
    };
    let whole = all.values[out].count() == sizes.rows * sizes.columns;
    (one && whole && uses[out].iter().all(by_strides)).then(|| Branch {
        contract,
        chain,
        sizes,
        a,
        b,
        out,
        vectors,
        lines: lines.clone(),
        streams: streams.clone(),
    })
}

/// A view of rows of so many columns as one of longer rows, from a column on: so many times as long.
fn columns_of(view: &View, columns: u64, first: u64, wide: u64) -> Option<View> {
    let (own, all) = (signed(columns), signed(wide));
    let (row, column) = (view.first.div_euclid(own), view.first.rem_euclid(own));
    let mut reach = column;
    let mut axes = Vec::with_capacity(view.axes.len());
    for (size, stride) in &view.axes {
        if *size == 1 {
            axes.push((1, 0));
        } else if stride % own == 0 {
            axes.push((*size, stride / own * all));
        } else if (0..own).contains(stride) {
            reach += (signed(*size) - 1) * stride;
            axes.push((*size, *stride));
        } else {
            return None;
        }
    }
    (reach < own).then_some(View { value: view.value, first: row * all + column + signed(first), axes })
}

/// Contractions and chains as one of each, in the places of the first; others read columns of what it gives.
fn join(all: &mut Kernels, parts: &[Branch]) {
    let Sizes { batch, rows, summed, counted, operands, .. } = parts[0].sizes;
    let columns = parts.iter().map(|part| part.sizes.columns).sum();
    let sizes = Sizes { counted, ..Sizes::new(batch, rows, columns, summed, operands) };
    let b = behind_each_other(
        all,
        &parts.iter().map(|part| part.b).collect::<Vec<_>>(),
        &[sizes.columns, sizes.summed],
    );
    let first = &parts[0];
    let dims = vec![sizes.rows, sizes.columns];
    let sums = all.kernels[first.contract].results[0];
    all.values[sums].dims.clone_from(&dims);
    all.kernels[first.contract].work = Work::Contract { a: first.a, b, sizes };
    let mut inputs = Vec::new();
    for (number, vector) in first.vectors.iter().enumerate() {
        inputs.push(match vector {
            None => View::whole(sums, &dims),
            Some(_) => {
                let own: Vec<usize> = parts.iter().filter_map(|part| part.vectors[number]).collect();
                let value = behind_each_other(all, &own, &[sizes.columns]);
                View { value, first: 0, axes: vec![(sizes.rows, 0), (sizes.columns, 1)] }
            }
        });
    }
    let (lines, streams) = (first.lines.clone(), first.streams.clone());
    all.kernels[first.chain].work = Work::Chain { inputs, lines, streams };
    all.values[first.out].dims = dims;
    let mut skipped = 0;
    for part in parts {
        for kernel in &mut all.kernels {
            let Work::Chain { inputs, .. } = &mut kernel.work else { continue };
            for view in inputs.iter_mut().filter(|view| view.value == part.out) {
                if let Some(moved) = columns_of(view, part.sizes.columns, skipped, sizes.columns) {
                    *view = View { value: first.out, ..moved };
                }
            }
        }
        skipped += part.sizes.columns;
    }
}

/// Values of the host one behind the other.
fn behind_each_other(all: &mut Kernels, parts: &[usize], dims: &[u64]) -> usize {
    let mut words = Vec::new();
    for part in parts {
        if let Origin::Constant(own) = &all.values[*part].origin {
            words.extend_from_slice(own);
        }
    }
    let inputs = all.values[parts[0]].origin == Origin::Input;
    let origin = if inputs { Origin::Parts(parts.to_vec()) } else { Origin::Constant(words) };
    let names: Vec<&str> = parts.iter().map(|part| all.values[*part].name.as_str()).collect();
    let Value { dtype, packing, .. } = all.values[parts[0]];
    let value = Value { name: names.join("+"), dims: dims.to_vec(), dtype, packing, origin, host: None };
    all.values.push(value);
    all.values.len() - 1
}

/// The same without kernels that are gone, and without values that nobody makes, reads or gives.
pub(super) fn compacted(mut all: Kernels, gone: &[bool]) -> Kernels {
    let mut at = 0;
    all.kernels.retain(|_| {
        at += 1;
        !gone[at - 1]
    });
    let mut used = vec![false; all.values.len()];
    all.kernels.iter().flat_map(Kernel::reads).for_each(|value| used[value] = true);
    all.kernels.iter().flat_map(|kernel| &kernel.results).for_each(|value| used[*value] = true);
    all.inputs.iter().for_each(|value| used[*value] = true);
    all.results.iter().for_each(|result| used[result.value] = true);
    let mut numbers = Vec::with_capacity(used.len());
    let mut next = 0;
    for used in &used {
        numbers.push(next);
        next += usize::from(*used);
    }
    let mut at = 0;
    all.values.retain(|_| {
        at += 1;
        used[at - 1]
    });
    for value in &mut all.values {
        if let Origin::Parts(parts) = &mut value.origin {
            parts.iter_mut().for_each(|part| *part = numbers[*part]);
        }
    }
    all.kernels.iter_mut().for_each(|kernel| renumber(kernel, &numbers));
    all.inputs.iter_mut().for_each(|value| *value = numbers[*value]);
    all.results.iter_mut().for_each(|result| result.value = numbers[result.value]);
    all
}

fn renumber(kernel: &mut Kernel, numbers: &[usize]) {
    let turn = |value: &mut usize| *value = numbers[*value];
    match &mut kernel.work {
        Work::Move(parts) => parts.iter_mut().for_each(|part| turn(&mut part.from)),
        Work::Gather { from, table, .. } => [from, table].into_iter().for_each(turn),
        Work::Scatter { base, table, rows, .. } => [base, table, rows].into_iter().for_each(turn),
        Work::Chain { inputs, .. } => inputs.iter_mut().for_each(|view| turn(&mut view.value)),
        Work::Contract { a, b, .. } => [a, b].into_iter().for_each(turn),
        Work::Reduce { from, .. } => turn(from),
    }
    kernel.results.iter_mut().for_each(turn);
}
