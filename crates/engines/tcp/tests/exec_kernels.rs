//! Two judges of one sum: the loop table followed step by step, and the bulk kernels, must agree to the bit.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use tilewright_base::{SourceId, Sources};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_notation::algebra::RadixMap;
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::syntax::parser;
use tilewright_num::{Dtype, RuleSet, decode_slice};
use tilewright_tcp::exec::lower::{Maps, lower};
use tilewright_tcp::exec::values::{Floats, Memory, run};
use tilewright_tcp::values::{Reduce, Rows, Shape, Sums, contract};
use tilewright_tcp::{Placed, Setup};

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").unwrap());
    load(&mut sources, id, &|_| None).unwrap().machine.tcp().unwrap().clone()
}

fn memory(bytes: &[u8]) -> Memory<f32> {
    let mut cells = vec![0.0; bytes.len() / 2];
    decode_slice(&RuleSet::TCP, Dtype::Bf16, bytes, &mut cells);
    Memory { elements_per_slice: cells.len() as u64, cells }
}

proptest! {
    #[test]
    fn stepped_and_bulk_sums_are_equal_bit_for_bit(
        (m, n, k) in (1_usize..6, 1_usize..12, 1_usize..100),
        patterns in prop::collection::vec(any::<u16>(), 1800),
    ) {
        let text = format!("mk, nk -> mn; dims m={m}, n={n}, k={k}; in0 = | m[M] k[K]; in1 = | n[N] k[K]; \
            out = | m[M] n[N]; tactic = | m[M] n[N] k[K]");
        let problem = Problem::new(&parser::program(&text, SourceId(0)).unwrap()).unwrap();
        let machine = tcp();
        let setup = Setup::new(&machine, 1, Dtype::Bf16).unwrap();
        let placed = Placed::new(&setup, &problem, problem.tactic.as_ref().unwrap());
        let map = |operand| RadixMap::of_shape(&problem, problem.shape(operand).unwrap()).unwrap();
        let (stream, trf, out) = (map(Operand::In0), map(Operand::In1), map(Operand::Out));
        let table = lower(&problem, &placed, &Maps { stream: &stream, trf: &trf, out: &out }).unwrap();

        let bytes: Vec<u8> = patterns.iter().flat_map(|pattern| pattern.to_le_bytes()).collect();
        let (a, b) = (&bytes[..2 * m * k], &bytes[2 * m * k..2 * (m + n) * k]);
        let mut stepped = Memory::new(1, (m * n) as u64).unwrap();
        run(&Floats(&RuleSet::TCP), &table, &memory(a), &memory(b), &mut stepped);

        let tree_elements = usize::try_from(placed.tree_elements.next_power_of_two()).unwrap();
        let shape = Shape { rows_a: m, rows_b: n, k, tree_elements, reduce: Reduce::Add };
        let mut bulk = vec![0.0_f32; m * n];
        let rows = |bytes| Rows { dtype: Dtype::Bf16, bytes };
        contract(&shape, rows(a), rows(b), Sums::F32(&mut bulk)).unwrap();
        let bits = |sums: &[f32]| sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&stepped.cells), bits(&bulk), "{}", text);
    }
}
