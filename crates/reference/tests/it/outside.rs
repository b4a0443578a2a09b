//! Indices outside of their axes are found without a run of the graph, wherever integers alone lead to them.

use tilewright_base::SourceId;
use tilewright_graph::{Dtype, text};
use tilewright_reference::{OutsideIndex, Tensor, outside_indices};

fn found(lines: &str, x: &[f32], i: &[i64]) -> Vec<OutsideIndex> {
    let text = format!("graph 1\naxis n 1..8\ninput x: f32[n]\ninput i: i64[{}]\n{lines}\n", i.len());
    let graph = text::read(&text, SourceId(0)).unwrap_or_else(|complaints| panic!("{complaints:?}"));
    let x = Tensor::floats(Dtype::F32, &[x.len()], x.to_vec());
    let i = Tensor::ints(Dtype::I64, &[i.len()], i.to_vec());
    outside_indices(&graph, &Default::default(), &[x, i]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn indices_of_a_gather_are_compared_with_the_size_that_a_run_has() {
    let lines = "let y: f32[4] = gather(x, i) axis=0\noutput y = y";
    assert_eq!(found(lines, &[0.0; 5], &[0, 4, -5, -1]), []);
    let wanted = OutsideIndex {
        result: "y".into(),
        op: "gather".to_string(),
        indices: "i".into(),
        element: 1,
        index: 5,
        size: 5,
        count: 2,
    };
    assert_eq!(found(lines, &[0.0; 5], &[0, 5, -5, -6]), [wanted]);
    assert_eq!(found(lines, &[0.0; 8], &[0, 5, -5, -6]), []);
}

#[test]
fn an_index_that_stops_what_follows_is_found_alone() {
    let lines = "let j: i64[3] = gather(i, i) axis=0\nlet y: f32[3] = gather(x, j) axis=0\noutput y = y";
    assert_eq!(found(lines, &[0.0; 5], &[0, 1, 2]), []);
    let one = found(lines, &[0.0; 5], &[0, 3, 2]);
    assert_eq!(one.iter().map(|one| (one.result.as_str(), one.index)).collect::<Vec<_>>(), [("j", 3)]);
    let other = found(lines, &[0.0; 1], &[0, 1, 2]);
    assert_eq!(other.iter().map(|one| (one.result.as_str(), one.index)).collect::<Vec<_>>(), [("y", 1)]);
}

#[test]
fn tuples_of_indices_have_an_axis_for_each_column() {
    let lines = "let m: f32[n, 1] = reshape(x)\nlet t: i64[2, 2] = reshape(i)\n\
                 let y: f32[2] = gather_nd(m, t)\noutput y = y";
    assert_eq!(found(lines, &[0.0; 5], &[4, 0, 0, -1]), []);
    let one = found(lines, &[0.0; 5], &[4, 1, 0, 0]);
    assert_eq!(one.iter().map(|one| (one.element, one.index, one.size)).collect::<Vec<_>>(), [(1, 1, 1)]);
}

#[test]
fn indices_that_follow_from_floats_are_left_to_the_run() {
    let lines = "let f: i64[n] = convert(x)\nlet y: f32[n] = gather(x, f) axis=0\noutput y = y";
    assert_eq!(found(lines, &[9.0; 5], &[0]), []);
}
