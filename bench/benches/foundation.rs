//! Speed of the foundation: reading and verifying notation, mapping coordinates, converting numbers, starting
//! the binary.
//!
//! `cargo build --release && cargo bench -p tilewright-bench --bench foundation`

use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tilewright_base::{SourceId, Sources};
use tilewright_bench::{Bench, measure, measure_start};
use tilewright_machine::{Tcp, builtin, load};
use tilewright_notation::algebra::{PlaceMap, RadixMap};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::Operand;
use tilewright_notation::syntax::parser;
use tilewright_num::{Dtype, RuleSet};
use tilewright_tcp_cost::Setup;

const FFN: &str = "ble, ef -> blf; dims b=4, l=4, e=64, f=32, s=4; \
    in0 = e^{E/s}[s] | b^1[B] l^1[L] e^1[E/s]; in1 = e^{E/s}[s] | f^1[F] e^1[E/s]; \
    out = f^{F/s}[s] | b^1[B] l^1[L] f^1[F/s]; tactic = e^{E/s}[s] | b^1[B] l^1[L] f^1[F] e^1[E/s]";

const QK: &str = include_str!("../../kernels/qk-fig10.tw");

fn main() {
    verify();
    map();
    convert();
    start();
}

fn tcp() -> Tcp {
    let mut sources = Sources::default();
    let id = sources.add("tcp", builtin("tcp").expect("tcp comes with the project"));
    load(&mut sources, id, &|_| None).expect("tcp loads").machine.tcp().expect("a tcp").clone()
}

fn verify() {
    let machine = tcp();
    let setup = Setup::new(&machine, 1, Dtype::I8).expect("a legal setup");
    for (name, text) in [("section II-B", FFN), ("Fig. 10", QK)] {
        let bench = Bench { name: &format!("parse + verify, {name}"), goal_per_s: 200e3, items: 1000 };
        measure(&bench, || {
            for _ in 0..1000 {
                let program = parser::program(black_box(text), SourceId(0)).expect("readable");
                let problem = Problem::new(&program).expect("resolved");
                assert!(black_box(tilewright_tcp_cost::check(&setup, &problem)).legal());
            }
        });
    }
}

fn map() {
    for (name, shape) in [
        ("powers of two", "e^{16}[4] | b^1[8] l^1[512] e^1[16]"),
        ("odd sizes", "e^{15}[4] | b^1[7] l^1[511] e^1[15]"),
    ] {
        let dims = if name == "odd sizes" { "b=7, l=511, e=60" } else { "b=8, l=512, e=64" };
        let program =
            parser::program(&format!("ble; dims {dims}; in0 = {shape}"), SourceId(0)).expect("readable");
        let problem = Problem::new(&program).expect("resolved");
        let radix = RadixMap::of_shape(&problem, problem.shape(Operand::In0).expect("given")).expect("small");
        let map = PlaceMap::new(&radix).expect("small");
        let [b, l, e] =
            [radix.from[0], radix.from[1], radix.from[2]].map(|x| u32::try_from(x).expect("small"));
        let bench = Bench {
            name: &format!("coordinate to (slice, offset) and back, {name}"),
            goal_per_s: 50e6,
            items: u64::from(b * l * e),
        };
        measure(&bench, || {
            let mut sum = 0_u32;
            for at in (0..b).flat_map(|x| (0..l).flat_map(move |y| (0..e).map(move |z| [x, y, z]))) {
                let mut back = [0; 3];
                assert!(map.coordinate(black_box(map.place(&at)), &mut back));
                sum = sum.wrapping_add(back[0] ^ back[1] ^ back[2]);
            }
            black_box(sum);
        });
    }
}

fn convert() {
    let values: Vec<f32> = (0..=u16::MAX).map(|x| f32::from(x) * 0.37 - 9000.0).collect();
    let rules = RuleSet::by_name("tcp").expect("tcp has rules");
    for dtype in [Dtype::Bf16, Dtype::F8E4M3Fn, Dtype::F8E5M2] {
        let mut bytes = vec![0; dtype.size_bytes(values.len())];
        let mut back = vec![0.0; values.len()];
        let name = dtype.name();
        let bench = |what: &str| format!("f32 {what} {name}");
        let items = values.len() as u64;
        measure(&Bench { name: &bench("to"), goal_per_s: 200e6, items }, || {
            tilewright_num::encode_slice(rules, dtype, black_box(&values), &mut bytes).expect("a float type");
        });
        measure(&Bench { name: &bench("from"), goal_per_s: 500e6, items }, || {
            tilewright_num::decode_slice(rules, dtype, black_box(&bytes), &mut back);
        });
    }
}

fn start() {
    let binary = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/release/tilewright");
    measure_start("start and print help", Duration::from_millis(30), Command::new(binary).arg("--help"));
}
