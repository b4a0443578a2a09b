//! Plans of compiled graphs: what is printed is read, and what is wrong is refused with its line.

use proptest::collection::vec;
use proptest::prelude::*;
use tilewright_artifact::{GraphPlan, PlanError};
use tilewright_compile::general::interface::{ElementLoops, GraphInterface, Port, PortDivision, PortError};
use tilewright_compile::general::kernel::Packing;
use tilewright_graph::{Axis, AxisId, Dim, Dtype, IndexInput, OpenSizes, OpenTensor, SizeInput};

fn port() -> impl Strategy<Value = Port> {
    let loops = (any::<[u64; 2]>(), vec(any::<(u64, u64, u64)>(), 0..4));
    let loops = loops.prop_map(|([first_element, first_place], loops)| ElementLoops {
        first_element,
        first_place,
        loops,
    });
    let sizes = vec(any::<u64>(), 0..5);
    let loops = vec(loops, 0..3);
    let division = proptest::option::of((any::<usize>(), 2..u64::MAX));
    let division = division.prop_map(|one| one.map(|(axis, chips)| PortDivision { axis, chips }));
    (".*", 0..Dtype::ALL.len(), sizes, 0..Packing::ALL.len(), any::<u64>(), loops, division).prop_map(
        |(name, dtype, dims, packing, base, loops, division)| Port {
            name,
            dtype: Dtype::ALL[dtype],
            dims,
            packing: Packing::ALL[packing],
            base,
            loops,
            division,
        },
    )
}

fn plan() -> impl Strategy<Value = GraphPlan> {
    let ports = || vec(port(), 0..4);
    let texts = (".*", ".*", vec(".*", 0..3));
    let index = (".*", any::<u64>(), ".*", ".*");
    let index = index.prop_map(|(input, size, result, op)| IndexInput { input, size, result, op });
    let lists = (vec(any::<(u64, u64)>(), 0..4), vec(index, 0..3), any::<Option<u64>>());
    (texts, any::<[u64; 5]>(), ports(), ports(), lists).prop_map(
        |(
            (name, chip, set),
            [machine, pes, kernels, hbm_bytes, roofline_cycles],
            inputs,
            results,
            (constants, indices, most_integer),
        )| {
            let inputs = inputs.into_iter().map(|port| Port { loops: Vec::new(), ..port }).collect();
            let open = OpenSizes::default();
            let interface = GraphInterface {
                name,
                pes,
                kernels,
                hbm_bytes,
                roofline_cycles,
                inputs,
                results,
                most_integer,
                open,
            };
            GraphPlan { chip, set, machine, interface, constants, indices }
        },
    )
}

/// Plans of open sizes: three axes, tensors whose axes are sums and products of them.
fn open_sizes() -> impl Strategy<Value = OpenSizes> {
    let dim = || (1..9_i64, 0..3_u32, 0..3_u32, 0..5_i64);
    let dim = move || {
        dim().prop_map(|(number, one, other, more)| {
            let axis = |at: u32| Dim::axis(AxisId(at));
            let product = axis(one).times(&axis(other)).and_then(|product| product.times(&number.into()));
            product.and_then(|product| product.plus(&more.into())).expect("a small size")
        })
    };
    let axes = move || vec(vec(dim(), 0..3), 0..4);
    let tensors = move || {
        let one = (".*", axes()).prop_map(|(name, axes)| OpenTensor { name, axes });
        vec(one, 0..3)
    };
    let sizes = (".*", dim()).prop_map(|(name, size)| SizeInput { name, size });
    (tensors(), vec(sizes, 0..3), tensors(), any::<[u32; 3]>()).prop_map(|(inputs, sizes, outputs, most)| {
        let axis = |(name, most): (&str, u32)| Axis { name: name.into(), least: 1, most: most.into() };
        let axes = ["batch", "seq", "a b"].into_iter().zip(most).map(axis).collect();
        OpenSizes { axes, inputs, sizes, outputs }
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read(plan in plan()) {
        prop_assert_eq!(GraphPlan::read(&plan.to_string()), Ok(plan));
    }

    #[test]
    fn open_sizes_that_are_printed_are_read(plan in plan(), open in open_sizes()) {
        let plan = GraphPlan { interface: GraphInterface { open, ..plan.interface }, ..plan };
        prop_assert_eq!(GraphPlan::read(&plan.to_string()), Ok(plan));
    }

    #[test]
    fn a_port_that_is_accepted_lies_within_memory(port in port(), hbm_bytes in any::<u64>()) {
        if port.check(hbm_bytes).is_ok() {
            let bytes = port.block_elements().expect("a size") * port.element_bytes();
            prop_assert!(port.base + bytes <= hbm_bytes);
        }
    }
}

#[test]
fn what_is_not_known_is_refused_with_its_line() {
    let plan = GraphPlan { chip: "tcp".to_string(), ..GraphPlan::default() }.to_string();
    assert!(GraphPlan::read(&plan).is_ok());
    let other = |from: &str, to: &str| GraphPlan::read(&plan.replacen(from, to, 1)).unwrap_err();
    assert_eq!(other("graph 1", "graph 5"), PlanError::Version { found: "graph 5".to_string() });
    // The form of several chips is for graphs that are divided.
    assert!(matches!(other("graph 1", "graph 3"), PlanError::Line { number: 1, .. }));
    // And that of limits for graphs that have one.
    assert!(matches!(other("graph 1", "graph 4"), PlanError::Line { number: 1, .. }));
    assert!(matches!(other("pes 0\n", "integers 65535\npes 0\n"), PlanError::Line { .. }));
    assert_eq!(other("graph 1", "model 1"), PlanError::Version { found: "model 1".to_string() });
    let line = PlanError::Line { number: 5, line: "pes many".to_string() };
    assert_eq!(other("pes 0", "pes many"), line);
    for (from, to) in [
        ("pes 0\n", ""),
        ("pes 0\n", "pes 0\npes 0\n"),
        ("pes 0\n", "pes 0 { }\n"),
        ("pes 0\n", "pes 0\ncolour 7\n"),
        ("pes 0\n", "input \"x\" f32[4] as words at 0 { turns 0 at 0 }\npes 0\n"),
        ("pes 0\n", "output \"x\" f32[4] as nibbles at 0\npes 0\n"),
        ("pes 0\n", "output \"x\" f32[4] as words at 0 { turns 0 at 0 }\npes 0\n"),
    ] {
        assert!(matches!(other(from, to), PlanError::Line { .. }), "{to}");
    }
}

#[test]
fn loops_go_over_every_element_once_and_stay_within_memory() {
    let port = |loops: Vec<ElementLoops>| Port {
        name: "y".to_string(),
        dtype: Dtype::F32,
        dims: vec![2, 4],
        packing: Packing::Words,
        base: 16,
        loops,
        division: None,
    };
    let loops = |first: [u64; 2], loops: &[(u64, u64, u64)]| ElementLoops {
        first_element: first[0],
        first_place: first[1],
        loops: loops.to_vec(),
    };
    let outside = PortError::Outside { name: "y".to_string(), hbm_bytes: 48 };
    let wrong = PortError::Loops { name: "y".to_string() };
    assert_eq!(port(Vec::new()).check(48), Ok(()));
    assert_eq!(port(Vec::new()).check(47), Err(PortError::Outside { name: "y".to_string(), hbm_bytes: 47 }));
    assert_eq!(port(vec![loops([0, 0], &[(4, 1, 2), (2, 4, 1)])]).check(48), Ok(()));
    assert_eq!(port(vec![loops([0, 0], &[(4, 1, 3), (2, 4, 1)])]).check(48), Err(outside.clone()));
    assert_eq!(port(vec![loops([0, 0], &[(4, 1, 2)])]).check(48), Err(wrong.clone()), "too few");
    assert_eq!(port(vec![loops([0, 0], &[(8, 2, 1)])]).check(48), Err(wrong), "beyond the last");
    assert_eq!(port(vec![loops([0, 0], &[(u64::MAX, 0, 9)])]).check(48), Err(outside));
    let mut seen = Vec::new();
    loops([1, 5], &[(2, 4, 1), (2, 1, 10)]).each(&mut |element, place| seen.push((element, place)));
    assert_eq!(seen, [(1, 5), (2, 15), (5, 6), (6, 16)]);
}

#[test]
fn parts_of_chips_make_up_a_value() {
    let port = |dims: &[u64], axis: usize, chips: u64| Port {
        name: "y".to_string(),
        dtype: Dtype::F32,
        dims: dims.to_vec(),
        packing: Packing::Words,
        base: 0,
        loops: Vec::new(),
        division: Some(PortDivision { axis, chips }),
    };
    let words: Vec<u32> = (0..24).collect();
    for (axis, chips) in [(0, 2), (1, 3), (2, 2), (2, 4)] {
        let port = port(&[2, 3, 4], axis, chips);
        let parts: Vec<Vec<u32>> = (0..chips).map(|chip| port.part(&words, chip)).collect();
        assert!(parts.iter().all(|part| part.len() as u64 * chips == 24), "{parts:?}");
        assert_eq!(port.joined(&parts), words);
    }
    assert_eq!(port(&[2, 3, 4], 1, 3).part(&words, 1), [4, 5, 6, 7, 16, 17, 18, 19]);
    // A chip has half of the 96 bytes.
    assert_eq!(port(&[2, 3, 4], 0, 2).check(48), Ok(()));
    let wrong = Err(PortError::Division { name: "y".to_string() });
    assert_eq!(port(&[2, 3, 4], 1, 2).check(1 << 20), wrong);
    assert_eq!(port(&[2, 3, 4], 3, 2).check(1 << 20), wrong);
    let interface = |results: Vec<Port>| GraphInterface { results, ..GraphInterface::default() };
    assert_eq!(interface(vec![port(&[8], 0, 2), port(&[8], 0, 2)]).check_division(), Ok(()));
    assert_eq!(interface(vec![port(&[8], 0, 2), port(&[8], 0, 4)]).check_division(), wrong);
    assert_eq!(interface(vec![port(&[1 << 20], 0, 1 << 20)]).check_division(), wrong);
}
