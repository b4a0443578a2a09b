//! Properties of the mixed-radix algebra on random legal shapes, small enough to walk every coordinate.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use tilewright_base::SourceId;
use tilewright_notation::algebra::access::AccessPattern;
use tilewright_notation::algebra::bridge::{Bridge, Movement};
use tilewright_notation::algebra::{ElementPlace, PlaceMap, RadixMap};
use tilewright_notation::problem::{Digit, Problem};
use tilewright_notation::radix;
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::syntax::parser;

/// A random cut of one axis: digit sizes from the innermost out, and whether the last one is ragged.
fn axis_cut() -> impl Strategy<Value = (Vec<u64>, u64)> {
    (prop::collection::vec(2_u64..=4, 0..=3), 0_u64..3).prop_map(|(sizes, short)| {
        let full: u64 = sizes.iter().product();
        let inner = full / sizes.last().copied().unwrap_or(1);
        // An axis of size 1 needs no digit. The axis may end inside the last step of its outermost digit.
        let extent = full - short.min(inner.saturating_sub(1));
        (sizes, extent)
    })
}

/// A random lowered shape of up to three axes as text, with its size table.
fn shape() -> impl Strategy<Value = (String, String)> {
    let term = (any::<bool>(), any::<u16>(), 0_u64..3);
    (prop::collection::vec(axis_cut(), 1..=3), prop::collection::vec(term, 9), prop::option::of(2_u64..=3))
        .prop_map(|(axes, placing, copies)| {
            let (mut terms, mut dims) = (Vec::new(), Vec::new());
            for (axis, (sizes, extent)) in axes.iter().enumerate() {
                let name = char::from(b'a' + u8::try_from(axis).unwrap());
                dims.push(format!("{name}={extent}"));
                let mut stride = 1;
                for (level, size) in sizes.iter().enumerate() {
                    let (inter, order, more) = placing[axis * 3 + level];
                    let ragged = level + 1 == sizes.len() && stride * size > *extent;
                    let pad = if ragged || more > 0 { format!("#{}", size + more) } else { String::new() };
                    terms.push((inter, order, format!("{name}^{{{stride}}}[{size}{pad}]")));
                    stride *= size;
                }
            }
            if let Some(copies) = copies {
                terms.push((true, placing[0].1, format!("_[{copies}]")));
            }
            terms.sort();
            let side = |inter: bool| {
                terms.iter().filter(|t| t.0 == inter).map(|t| t.2.as_str()).collect::<Vec<_>>().join(" ")
            };
            (format!("{} | {}", side(true), side(false)), dims.join(", "))
        })
}

fn resolve(shape: &str, dims: &str) -> Problem {
    let axes: String = dims.split(", ").filter_map(|dim| dim.chars().next()).collect();
    let text = format!("{axes}; dims {dims}; in0 = {shape}");
    let program = parser::program(&text, SourceId(0)).unwrap();
    let problem = Problem::new(&program).unwrap();
    assert_eq!(radix::check(&problem), vec![], "{text}");
    problem
}

fn map_of(shape: &str, dims: &str) -> RadixMap {
    let problem = resolve(shape, dims);
    RadixMap::of_shape(&problem, problem.shape(Operand::In0).unwrap()).unwrap()
}

/// Every coordinate of the tensor.
fn coordinates(map: &RadixMap) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for extent in &map.from {
        all = all
            .iter()
            .flat_map(|at: &Vec<u64>| (0..*extent).map(|x| [at.as_slice(), &[x]].concat()))
            .collect();
    }
    all
}

proptest! {
    #[test]
    fn places_cover_each_coordinate_exactly_once((shape, dims) in shape()) {
        let map = map_of(&shape, &dims);
        let fast = PlaceMap::new(&map).unwrap();
        let copies: u64 = map.copies.iter().map(|c| c.count).product();
        let mut found = std::collections::BTreeMap::<Vec<u64>, u64>::new();
        for slice in 0..map.to[0] {
            for offset in 0..map.to[1] {
                let plain = map.source_of(&[slice, offset]);
                let [slice, offset] = [slice, offset].map(|at| u32::try_from(at).unwrap());
                let place = ElementPlace { slice, offset };
                let mut at = vec![0; map.from.len()];
                prop_assert_eq!(fast.coordinate(place, &mut at), plain.is_some());
                if let Some(plain) = plain {
                    prop_assert_eq!(at.iter().map(|x| u64::from(*x)).collect::<Vec<_>>(), plain.to_vec());
                    *found.entry(plain.to_vec()).or_default() += 1;
                }
            }
        }
        let all = coordinates(&map);
        prop_assert_eq!(found.len(), all.len());
        prop_assert!(found.values().all(|count| *count == copies));
    }

    #[test]
    fn both_directions_are_inverse((shape, dims) in shape()) {
        let map = map_of(&shape, &dims);
        let fast = PlaceMap::new(&map).unwrap();
        for at in coordinates(&map) {
            let to = map.apply(&at);
            prop_assert_eq!(map.source_of(&to).map(|back| back.to_vec()), Some(at.clone()));
            let narrow: Vec<u32> = at.iter().map(|x| u32::try_from(*x).unwrap()).collect();
            let place = fast.place(&narrow);
            prop_assert_eq!(vec![u64::from(place.slice), u64::from(place.offset)], to.to_vec());
        }
    }

    #[test]
    fn a_bridge_carries_every_element((from, dims) in shape(), seed in any::<u64>()) {
        // The second shape is the first with its terms sharded anew: another shape of the same tensor.
        let dealt = deal(&from, seed);
        let (a, b) = (map_of(&from, &dims), map_of(&dealt, &dims));
        let bridge = Bridge::between(&a, &b);
        let carried = bridge.map.clone().expect("shapes with equal cuts never clash");
        for at in coordinates(&a) {
            prop_assert_eq!(carried.apply(&a.apply(&at)), b.apply(&at), "{} to {}", from, dealt);
        }
        // Dropping copies moves nothing, and the second shape has none.
        prop_assert_eq!(bridge.movement == Movement::Nothing, a.merged().digits == b.merged().digits);
    }

    #[test]
    fn composition_with_the_inverse_is_the_identity((shape, dims) in shape()) {
        let map = map_of(&shape, &dims);
        let round = map.then(&map.inverse()).unwrap();
        for at in coordinates(&map) {
            prop_assert_eq!(round.apply(&at).to_vec(), at);
        }
    }

    #[test]
    fn merging_changes_nothing_but_the_digits((shape, dims) in shape()) {
        let map = map_of(&shape, &dims);
        let merged = map.merged();
        prop_assert!(map.refines(&merged));
        prop_assert!(map.equal_up_to_relabelling(&merged));
        for at in coordinates(&map) {
            prop_assert_eq!(map.apply(&at), merged.apply(&at));
        }
    }

    #[test]
    fn relabelled_axes_compare_equal((shape, dims) in shape()) {
        let rename = |text: &str| text.replace('c', "z").replace('a', "x").replace('b', "y");
        let (one, other) = (map_of(&shape, &dims), map_of(&rename(&shape), &rename(&dims)));
        prop_assert!(one.equal_up_to_relabelling(&other));
    }

    #[test]
    fn access_loops_walk_the_offsets_of_the_map((shape, dims) in shape()) {
        let problem = resolve(&shape, &dims);
        let written = problem.shape(Operand::In0).unwrap();
        let map = RadixMap::of_shape(&problem, written).unwrap();
        // Run the shape's own digits in their own order: offsets come out in memory order.
        let order: Vec<Digit> = written.intra.iter().filter(|digit| digit.axis.is_some()).copied().collect();
        let pattern = AccessPattern::of_loops(&problem, Operand::In0, &map, order.iter()).unwrap();
        let merged = pattern.merged();
        let at_once = AccessPattern::of_loops_merged(&problem, Operand::In0, &map, order.iter()).unwrap();
        prop_assert_eq!(&at_once, &merged);
        prop_assert_eq!(pattern.offsets(), merged.offsets());
        let mut sorted = merged.offsets();
        sorted.sort_unstable();
        prop_assert_eq!(&sorted, &merged.offsets());
        prop_assert!(merged.loops.len() <= pattern.loops.len());
        sorted.dedup();
        prop_assert_eq!(sorted.len() as u64, merged.steps());
    }
}

/// The terms of a shape in another order and on other sides.
fn deal(shape: &str, seed: u64) -> String {
    let mut terms: Vec<(u64, &str)> = shape
        .split_whitespace()
        .filter(|word| *word != "|" && !word.starts_with('_'))
        .enumerate()
        .map(|(index, word)| {
            (seed.rotate_left(u32::try_from(index * 7).unwrap()).wrapping_mul(0x9E37_79B9), word)
        })
        .collect();
    terms.sort_unstable();
    let cut = usize::try_from(seed % (terms.len() as u64 + 1)).unwrap();
    let words = |terms: &[(u64, &str)]| terms.iter().map(|term| term.1).collect::<Vec<_>>().join(" ");
    format!("{} | {}", words(&terms[..cut]), words(&terms[cut..]))
}
