//! What nobody reads is not computed: kernels without a reader, and results of chains beside others.

use std::collections::BTreeSet;

use super::kernel::{Kernel, Kernels, Work};
use super::words::{Line, Other, Step};

/// The same kernels without results that neither a kernel nor the graph has a use for.
#[must_use]
pub(super) fn without_unread(mut all: Kernels) -> Kernels {
    loop {
        let mut read: BTreeSet<usize> = all.results.iter().map(|result| result.value).collect();
        read.extend(all.kernels.iter().flat_map(Kernel::reads));
        let before = all.kernels.len();
        all.kernels.retain(|kernel| kernel.results.iter().any(|result| read.contains(result)));
        all.kernels.iter_mut().for_each(|kernel| shorten(kernel, &read));
        if all.kernels.len() == before {
            return all;
        }
    }
}

/// A chain without results that nobody reads, and without the last steps that only they needed.
fn shorten(kernel: &mut Kernel, read: &BTreeSet<usize>) {
    let Work::Chain { inputs, lines, streams } = &mut kernel.work else { return };
    let mut kept = kernel.results.iter().map(|result| read.contains(result));
    streams.retain(|_| kept.next() == Some(true));
    kernel.results.retain(|result| read.contains(result));
    while let Some(last) = lines.len().checked_sub(1).map(|last| inputs.len() + last)
        && !streams.contains(&last)
        && !lines.iter().any(|line| takes(line, last))
    {
        lines.pop();
    }
}

fn takes(line: &Line, stream: usize) -> bool {
    let other = match &line.step {
        Step::With { other: Other::Stream(other), .. } => Some(*other),
        _ => None,
    };
    line.input == stream || other == Some(stream)
}

#[cfg(test)]
mod tests {
    use tilewright_graph::Dtype;

    use super::super::kernel::{Origin, Packing, Result, Value};
    use super::super::view::View;
    use super::super::words::Arith;
    use super::*;

    fn value(name: &str) -> Value {
        let (dims, packing, origin) = (vec![8], Packing::Words, Origin::Kernel);
        Value { name: name.to_string(), dims, dtype: Dtype::F32, packing, origin, host: None }
    }

    fn doubled(input: usize) -> Line {
        let step = Step::With { arith: Arith::FAdd, other: Other::Stream(input), reversed: false };
        Line { input, step }
    }

    /// Two results of a chain, of which the graph has the first, and a kernel that reads nothing but the
    /// second.
    #[test]
    fn what_only_unread_kernels_read_goes_too() {
        let chain = |from: usize, lines: Vec<Line>, streams: Vec<usize>, results: Vec<usize>| Kernel {
            work: Work::Chain { inputs: vec![View::whole(from, &[8])], lines, streams },
            results,
        };
        let all = Kernels {
            values: ["x", "y", "z", "unread"].map(value).to_vec(),
            kernels: vec![
                chain(0, vec![doubled(0), doubled(1)], vec![1, 2], vec![1, 2]),
                chain(2, vec![doubled(0)], vec![1], vec![3]),
            ],
            inputs: vec![0],
            results: vec![Result { name: "y".to_string(), value: 1, dims: vec![8], dtype: Dtype::F32 }],
            ..Kernels::default()
        };
        let left = without_unread(all);
        assert_eq!(left.kernels, [chain(0, vec![doubled(0)], vec![1], vec![1])]);
    }
}
