//! One candidate for each kernel so that kernels and the bridges between them together take least: dynamic
//! programming over the graph (paper section V-C).
//!
//! Exact where bridges form chains or trees. Elsewhere the bridges of a spanning forest are solved exactly
//! and the others are then taken into account by changing one kernel at a time while that helps.

/// A bridge: what it takes for each candidate of the first kernel and each of the second.
#[derive(Clone, Debug)]
pub struct Bridge {
    /// The kernel that gives.
    pub from: usize,
    /// The kernel that takes.
    pub to: usize,
    /// Costs by candidate of the first, then of the second.
    pub costs: Vec<Vec<u64>>,
}

/// What a choice takes.
pub fn total(kernels: &[Vec<u64>], bridges: &[Bridge], choice: &[usize]) -> u64 {
    let own = kernels.iter().zip(choice).map(|(costs, at)| costs[*at]);
    let between = bridges.iter().map(|bridge| bridge.costs[choice[bridge.from]][choice[bridge.to]]);
    own.chain(between).fold(0, u64::saturating_add)
}

/// The number of a candidate for each kernel; every kernel has one at least.
pub fn choose(kernels: &[Vec<u64>], bridges: &[Bridge]) -> Vec<usize> {
    let forest = forest(kernels.len(), bridges);
    let mut best: Vec<Vec<u64>> = kernels.to_vec();
    // Bridges of the forest, each after those below its second kernel.
    for (bridge, above, below) in forest.iter().rev() {
        let cost = |up: usize, down: usize| cost(&bridges[*bridge], *above, up, down);
        for up in 0..kernels[*above].len() {
            let least =
                (0..kernels[*below].len()).map(|down| best[*below][down].saturating_add(cost(up, down)));
            best[*above][up] = best[*above][up].saturating_add(least.min().unwrap_or(0));
        }
    }
    let least = |costs: &[u64]| (0..costs.len()).min_by_key(|at| costs[*at]).unwrap_or(0);
    let mut choice: Vec<usize> = best.iter().map(|costs| least(costs)).collect();
    for (bridge, above, below) in &forest {
        let costs: Vec<u64> = (0..kernels[*below].len())
            .map(|down| {
                best[*below][down].saturating_add(cost(&bridges[*bridge], *above, choice[*above], down))
            })
            .collect();
        choice[*below] = least(&costs);
    }
    if forest.len() < bridges.len() {
        improved(kernels, bridges, &mut choice);
    }
    choice
}

fn cost(bridge: &Bridge, above: usize, up: usize, down: usize) -> u64 {
    if bridge.from == above { bridge.costs[up][down] } else { bridge.costs[down][up] }
}

/// Bridges that join kernels without a ring: number, kernel nearer to the root, kernel farther from it; roots
/// first.
fn forest(kernels: usize, bridges: &[Bridge]) -> Vec<(usize, usize, usize)> {
    let mut seen = vec![false; kernels];
    let mut all = Vec::new();
    let of_kernel = bridges_of_kernels(kernels, bridges);
    for root in 0..kernels {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut open = vec![root];
        while let Some(above) = open.pop() {
            for number in of_kernel[above].iter().copied() {
                let bridge = &bridges[number];
                let below = match (bridge.from == above, bridge.to == above) {
                    (true, false) => bridge.to,
                    (false, true) => bridge.from,
                    _ => continue,
                };
                if !std::mem::replace(&mut seen[below], true) {
                    all.push((number, above, below));
                    open.push(below);
                }
            }
        }
    }
    all
}

/// Numbers of the bridges that each kernel is an end of, in their order.
fn bridges_of_kernels(kernels: usize, bridges: &[Bridge]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); kernels];
    for (number, bridge) in bridges.iter().enumerate() {
        all[bridge.from].push(number);
        if bridge.to != bridge.from {
            all[bridge.to].push(number);
        }
    }
    all
}

/// Changes one kernel at a time as long as the total falls, which is a change of what the kernel and its
/// bridges take.
fn improved(kernels: &[Vec<u64>], bridges: &[Bridge], choice: &mut [usize]) {
    let of_kernel = bridges_of_kernels(kernels.len(), bridges);
    let around = |kernel: usize, choice: &[usize]| {
        let own = u128::from(kernels[kernel][choice[kernel]]);
        let between = of_kernel[kernel].iter().map(|number| {
            let bridge = &bridges[*number];
            u128::from(bridge.costs[choice[bridge.from]][choice[bridge.to]])
        });
        own + between.sum::<u128>()
    };
    let mut is_better = true;
    while std::mem::take(&mut is_better) {
        for kernel in 0..kernels.len() {
            let mut least = around(kernel, choice);
            for candidate in 0..kernels[kernel].len() {
                let old = std::mem::replace(&mut choice[kernel], candidate);
                let found = around(kernel, choice);
                if found < least {
                    (least, is_better) = (found, true);
                } else {
                    choice[kernel] = old;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Kernels with their candidates, and bridges: to the one before (a chain), to any before (a tree), or
    /// more of them.
    fn graphs(rings: bool) -> impl Strategy<Value = (Vec<Vec<u64>>, Vec<Bridge>)> {
        let kernels = proptest::collection::vec(proptest::collection::vec(0..50_u64, 1..4), 1..6);
        (
            kernels,
            proptest::collection::vec((any::<u8>(), any::<u8>(), any::<bool>()), 16),
            proptest::collection::vec(0..50_u64, 400),
        )
            .prop_map(move |(kernels, links, mut costs)| {
                let mut bridges = Vec::new();
                let count = kernels.len();
                let tree = (1..count).map(|to| (usize::from(links[to].0) % to, to, links[to].2));
                let more =
                    links.iter().map(|(a, b, _)| (usize::from(*a) % count, usize::from(*b) % count, false));
                let more = more.filter(|(a, b, _)| a != b).take(if rings { 4 } else { 0 });
                for (from, to, turned) in tree.chain(more) {
                    let (from, to) = if turned { (to, from) } else { (from, to) };
                    let mut row = |length: usize| (0..length).map(|_| costs.pop().unwrap_or(7)).collect();
                    let table = (0..kernels[from].len()).map(|_| row(kernels[to].len())).collect();
                    bridges.push(Bridge { from, to, costs: table });
                }
                (kernels, bridges)
            })
    }

    /// The least total of all choices.
    fn least(kernels: &[Vec<u64>], bridges: &[Bridge]) -> u64 {
        let all: usize = kernels.iter().map(Vec::len).product();
        let choice = |mut number: usize| -> Vec<usize> {
            let digit = |costs: &Vec<u64>| {
                let digit = number % costs.len();
                number /= costs.len();
                digit
            };
            kernels.iter().map(digit).collect()
        };
        (0..all).map(|number| total(kernels, bridges, &choice(number))).min().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn chains_and_trees_are_solved_exactly((kernels, bridges) in graphs(false)) {
            let choice = choose(&kernels, &bridges);
            prop_assert_eq!(total(&kernels, &bridges, &choice), least(&kernels, &bridges));
        }

        #[test]
        fn rings_are_never_worse_than_each_kernel_alone((kernels, bridges) in graphs(true)) {
            let choice = choose(&kernels, &bridges);
            let found = total(&kernels, &bridges, &choice);
            prop_assert!(found >= least(&kernels, &bridges));
            // No change of a single kernel helps.
            for kernel in 0..kernels.len() {
                for candidate in 0..kernels[kernel].len() {
                    let mut other = choice.clone();
                    other[kernel] = candidate;
                    prop_assert!(total(&kernels, &bridges, &other) >= found);
                }
            }
        }
    }
}
