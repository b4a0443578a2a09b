//! ONNX's Resize to given sizes: nearest elements against its formulas in fractions, long axes against what a
//! straight line becomes.

#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes are small")]

use prost::Message as _;
use tilewright_graph::{Dtype, primitives};
use tilewright_import::onnx::{self, OnnxOptions, proto};
use tilewright_reference::{Interpreter, Tensor};

const PLACES: [&str; 5] =
    ["asymmetric", "align_corners", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"];
const ROUNDINGS: [&str; 4] = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"];

fn word(name: &str, value: &str) -> proto::AttributeProto {
    proto::AttributeProto { name: name.into(), s: value.as_bytes().to_vec(), ..Default::default() }
}

fn info(name: &str, size: i64) -> proto::ValueInfoProto {
    let dims = vec![proto::DimensionProto { value: Some(size), name: None }];
    let tensor = proto::TensorTypeProto { element: 1, shape: Some(proto::ShapeProto { dims }) };
    proto::ValueInfoProto { name: name.into(), ty: Some(proto::TypeProto { tensor: Some(tensor) }) }
}

/// The elements that a vector 0, 1, 2 ... becomes by its nearest ones.
fn resized(from: i64, to: i64, places: &str, rounding: &str) -> Vec<i64> {
    values("nearest", (from, to), places, rounding).iter().map(|place| *place as i64).collect()
}

/// What a vector 0, 1, 2 ... becomes.
fn values(mode: &str, (from, to): (i64, i64), places: &str, rounding: &str) -> Vec<f64> {
    let sizes = proto::TensorProto {
        dims: vec![1],
        data_type: 7,
        name: "sizes".into(),
        int64_data: vec![to],
        ..Default::default()
    };
    let node = proto::NodeProto {
        op: "Resize".into(),
        inputs: ["x", "", "", "sizes"].map(String::from).to_vec(),
        outputs: vec!["y".into()],
        attributes: vec![
            word("mode", mode),
            word("coordinate_transformation_mode", places),
            word("nearest_mode", rounding),
        ],
        ..Default::default()
    };
    let graph = proto::GraphProto {
        nodes: vec![node],
        initializers: vec![sizes],
        inputs: vec![info("x", from)],
        outputs: vec![info("y", to)],
        ..Default::default()
    };
    let opsets = vec![proto::OperatorSetId { domain: String::new(), version: 19 }];
    let bytes = proto::ModelProto { graph: Some(graph), opsets }.encode_to_vec();
    let model = onnx::read("f", &bytes, &OnnxOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let graph = primitives(&model.graph).unwrap_or_else(|complaint| panic!("{complaint:?}"));
    let interpreter = Interpreter::new(graph, &model.store).unwrap_or_else(|error| panic!("{error}"));
    #[expect(clippy::cast_precision_loss, reason = "short vectors")]
    let x = Tensor::floats(Dtype::F32, &[from as usize], (0..from).map(|at| at as f32).collect());
    let y = interpreter.run(&[x]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((y[0].dtype, &y[0].dims[..]), (Dtype::F32, &[to as usize][..]));
    y[0].as_floats().iter().map(|value| f64::from(*value)).collect()
}

/// A fraction; the part below is more than 0.
#[derive(Clone, Copy)]
struct Fraction(i64, i64);

impl Fraction {
    fn plus(self, other: Fraction) -> Fraction {
        Fraction(self.0 * other.1 + other.0 * self.1, self.1 * other.1)
    }

    fn times(self, other: Fraction) -> Fraction {
        Fraction(self.0 * other.0, self.1 * other.1)
    }

    fn over(self, other: Fraction) -> Fraction {
        let sign = other.0.signum();
        Fraction(self.0 * other.1 * sign, self.1 * other.0 * sign)
    }

    fn minus(self, other: Fraction) -> Fraction {
        self.plus(Fraction(-other.0, other.1))
    }
}

/// What the text of ONNX's Resize says, with `scale = to / from`.
fn expected(from: i64, to: i64, places: &str, rounding: &str) -> Vec<i64> {
    let whole = |number: i64| Fraction(number, 1);
    let (half, scale) = (Fraction(1, 2), Fraction(to, from));
    let width = scale.times(whole(from));
    let is_one = width.0 == width.1;
    let place = |x: i64| {
        let centre = whole(x).plus(half).over(scale).minus(half);
        let origin = match places {
            "align_corners" if is_one => whole(0),
            "align_corners" => whole(x).times(whole(from - 1)).over(width.minus(whole(1))),
            "asymmetric" => whole(x).over(scale),
            "pytorch_half_pixel" if is_one => Fraction(-1, 2),
            "half_pixel_symmetric" => {
                let rest = whole(1).minus(whole(to).over(width));
                whole(from).times(half).times(rest).plus(centre)
            }
            _ => centre,
        };
        let floor = |place: Fraction| place.0.div_euclid(place.1);
        let ceil = |place: Fraction| -(-place.0).div_euclid(place.1);
        let nearest = match rounding {
            "floor" => floor(origin),
            "ceil" => ceil(origin),
            "round_prefer_floor" => ceil(origin.minus(half)),
            _ => floor(origin.plus(half)),
        };
        nearest.clamp(0, from - 1)
    };
    (0..to).map(place).collect()
}

#[test]
fn the_nearest_elements_are_those_of_exact_places() {
    let table: [(i64, i64, &str, &str, &[i64]); 8] = [
        (6, 2, "asymmetric", "floor", &[0, 3]),
        (9, 3, "asymmetric", "floor", &[0, 3, 6]),
        (5, 3, "align_corners", "floor", &[0, 2, 4]),
        (3, 2, "align_corners", "floor", &[0, 2]),
        (5, 3, "half_pixel", "floor", &[0, 2, 3]),
        (10, 3, "half_pixel", "round_prefer_ceil", &[1, 5, 8]),
        (6, 5, "half_pixel", "round_prefer_floor", &[0, 1, 2, 4, 5]),
        (3, 5, "align_corners", "round_prefer_floor", &[0, 0, 1, 1, 2]),
    ];
    for (from, to, places, rounding, wanted) in table {
        assert_eq!(expected(from, to, places, rounding), wanted, "{places} {rounding} {from} to {to}");
        assert_eq!(resized(from, to, places, rounding), wanted, "{places} {rounding} {from} to {to}");
    }
    for (from, to) in (2..20).flat_map(|from| (2..26).map(move |to| (from, to))) {
        for (places, rounding) in PLACES.iter().flat_map(|places| ROUNDINGS.map(|how| (places, how))) {
            let (found, wanted) = (resized(from, to, places, rounding), expected(from, to, places, rounding));
            assert_eq!(found, wanted, "{places} {rounding} {from} to {to}");
        }
    }
}

/// A line stays one; the ends hold still. Both ways to weigh neighbours are asked: the first axis is short
/// enough for a matrix, the others are not, and would take gigabytes.
#[test]
fn long_axes_are_resized_by_neighbours_alone() {
    for size in [500, 5735, 32_768] {
        let found = values("linear", (size, 2 * size), "half_pixel", "floor");
        #[expect(clippy::cast_precision_loss, reason = "short vectors")]
        let place = |at: i64| ((at as f64 + 0.5) / 2.0 - 0.5).clamp(0.0, (size - 1) as f64);
        assert_eq!(found, (0..2 * size).map(place).collect::<Vec<f64>>(), "{size}");
        let cubic = values("cubic", (size, 2 * size), "half_pixel", "floor");
        let inside = 8..2 * size as usize - 8;
        let near = |at: usize| (cubic[at] - found[at]).abs() < 0.1;
        assert!(inside.into_iter().all(near), "{size}");
    }
}
