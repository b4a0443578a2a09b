//! Samples at places, against a loop over the neighbours of each.

use tilewright_graph::Dtype;

use super::{Node, assert_near, drawn, floats, int, ints, list, word};

const SIZES: [usize; 2] = [3, 5];

fn reflected(x: f32, least: f32, most: f32) -> f32 {
    let range = most - least;
    let there = (x - least).rem_euclid(2.0 * range);
    least + if there <= range { there } else { 2.0 * range - there }
}

struct Sampler {
    mode: &'static str,
    outside: &'static str,
    is_aligned: bool,
}

impl Sampler {
    #[expect(clippy::cast_precision_loss, reason = "small sizes")]
    fn edges(&self, size: usize) -> (f32, f32) {
        if self.is_aligned { (0.0, size as f32 - 1.0) } else { (-0.5, size as f32 - 0.5) }
    }

    #[expect(clippy::cast_precision_loss, reason = "small sizes")]
    fn inside(&self, x: f32, size: usize) -> f32 {
        let (least, most) = self.edges(size);
        match self.outside {
            "border" => x.clamp(0.0, size as f32 - 1.0),
            "reflection" => reflected(x, least, most),
            _ => x,
        }
    }

    /// Numbers of the elements beside a place, with what each counts.
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "small sizes")]
    fn neighbours(&self, place: f32, size: usize) -> Vec<(i64, f32)> {
        let (least, most) = self.edges(size);
        let mut x = (place + 1.0) / 2.0 * (most - least) + least;
        if self.mode == "nearest" {
            x = x.round_ties_even();
        }
        // Cubic samples clamp each neighbour, not the place between them.
        let is_between = self.mode == "cubic" && self.outside == "border";
        let x = if is_between { x } else { self.inside(x, size) };
        let (first, t) = (x.floor(), x - x.floor());
        let near = |d: f32| (1.25 * d - 2.25) * d * d + 1.0;
        let far = |d: f32| ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0;
        let all = match self.mode {
            "nearest" => vec![(x, 1.0)],
            "linear" => vec![(first, 1.0 - t), (first + 1.0, t)],
            _ => vec![
                (first - 1.0, far(1.0 + t)),
                (first, near(t)),
                (first + 1.0, near(1.0 - t)),
                (first + 2.0, far(2.0 - t)),
            ],
        };
        let all = all.into_iter().map(|(at, weight)| (self.inside(at, size).floor() as i64, weight));
        all.filter(|(at, _)| (0..size as i64).contains(at)).collect()
    }

    fn check(&self) {
        let (x, grid): (Vec<f32>, Vec<f32>) =
            (drawn(1, 2 * 15), drawn(2, 2 * 20).iter().map(|x| x * 1.7).collect());
        let mut wanted = vec![0.0; 2 * 20];
        for channel in 0..2 {
            for place in 0..20 {
                let rows = self.neighbours(grid[2 * place + 1], SIZES[0]);
                let columns = self.neighbours(grid[2 * place], SIZES[1]);
                for (i, a) in &rows {
                    for (j, b) in &columns {
                        let at = usize::try_from(i * 5 + j).expect("inside");
                        wanted[channel * 20 + place] += a * b * x[channel * 15 + at];
                    }
                }
            }
        }
        let operands = [floats(&[1, 2, 3, 5], &x), floats(&[1, 4, 5, 2], &grid)];
        let node = Node::new("GridSample", &operands).with(word("mode", self.mode));
        let node = node.with(word("padding_mode", self.outside));
        let found = node.with(int("align_corners", i64::from(self.is_aligned))).run();
        assert_eq!(found[0].dims, [1, 2, 4, 5]);
        assert_near(found[0].as_floats(), &wanted);
    }
}

#[test]
fn samples_are_those_of_all_modes_and_borders() {
    for mode in ["nearest", "linear", "cubic"] {
        for outside in ["zeros", "border", "reflection"] {
            for is_aligned in [false, true] {
                Sampler { mode, outside, is_aligned }.check();
            }
        }
    }
}

/// Two groups of channels, each with places of its own, two groups of weights.
#[test]
fn windows_see_what_lies_at_places_of_their_own() {
    let (x, w) = (drawn(3, 4 * 15), drawn(4, 2 * 2 * 6));
    let (offset, mask) = (drawn(5, 2 * 6 * 2 * 4), drawn(6, 2 * 6 * 4));
    let sampler = Sampler { mode: "linear", outside: "zeros", is_aligned: true };
    let mut wanted = vec![0.5, 0.5, 0.5, 0.5, -1.0, -1.0, -1.0, -1.0];
    for (at, wanted) in wanted.iter_mut().enumerate() {
        let (m, row, column) = (at / 4, at / 2 % 2, at % 2);
        for c in 0..2 {
            let channel = m * 2 + c;
            for k in 0..6 {
                let place = (channel / 2 * 6 + k) * 4 + row * 2 + column;
                let moved = |axis: usize| offset[((channel / 2 * 6 + k) * 2 + axis) * 4 + row * 2 + column];
                // Windows of 3 by 2 with a row in front, columns two apart.
                #[expect(clippy::cast_precision_loss, reason = "small sizes")]
                let (i, j) =
                    ((k / 2 + row * 2) as f32 - 1.0 + moved(0), (k % 2 + column * 2) as f32 + moved(1));
                let normal = |x: f32, size: f32| x / (size - 1.0) * 2.0 - 1.0;
                for (i, a) in sampler.neighbours(normal(i, 3.0), 3) {
                    for (j, b) in sampler.neighbours(normal(j, 5.0), 5) {
                        let pixel = x[channel * 15 + usize::try_from(i * 5 + j).expect("inside")];
                        *wanted += a * b * pixel * mask[place] * w[(m * 2 + c) * 6 + k];
                    }
                }
            }
        }
    }
    let operands = [
        floats(&[1, 4, 3, 5], &x),
        floats(&[2, 2, 3, 2], &w),
        floats(&[1, 24, 2, 2], &offset),
        floats(&[2], &[0.5, -1.0]),
        floats(&[1, 12, 2, 2], &mask),
    ];
    let node = Node::new("DeformConv", &operands).with(int("group", 2)).with(int("offset_group", 2));
    let node = node.with(list("pads", &[1, 0, 1, 0])).with(list("strides", &[2, 2]));
    let found = node.run();
    assert_eq!(found[0].dims, [1, 2, 2, 2]);
    assert_near(found[0].as_floats(), &wanted);
    let text = Node::new("DeformConv", &operands).with(int("offset_group", 0)).refused();
    assert!(text.contains("1 groups, 0 of offsets\n  = allowed: divisors of the channels"), "{text}");
}

#[test]
fn grids_of_other_axes_are_refused() {
    let operands = [floats(&[1, 1, 2, 2], &[0.0; 4]), floats(&[1, 2, 2, 3], &[0.0; 12])];
    let text = Node::new("GridSample", &operands).refused();
    assert!(text.contains("an image of 4 axes and places of 4\n  = allowed: [batch, channels"), "{text}");
    let text = Node::new("GridSample", &operands).with(word("mode", "area")).refused();
    assert!(text.contains("`mode` is `area`\n  = allowed: linear, nearest, cubic"), "{text}");
}

#[test]
fn places_are_turned_by_a_matrix() {
    let theta = floats(&[1, 2, 3], &[1.0, 0.0, 0.5, 0.0, 2.0, 0.0]);
    let size = || ints(Dtype::I64, &[4], &[1, 1, 1, 2]).constant();
    let found = Node::new("AffineGrid", &[theta.clone(), size()]).floats();
    assert_eq!(found, [0.0, 0.0, 1.0, 0.0]);
    let aligned = Node::new("AffineGrid", &[theta.clone(), size()]).with(int("align_corners", 1)).floats();
    assert_eq!(aligned, [-0.5, -2.0, 1.5, -2.0]);
    let text = Node::new("AffineGrid", &[theta, ints(Dtype::I64, &[3], &[1, 1, 2]).constant()]).refused();
    assert!(text.contains("sizes [1, 1, 2] with matrices of other sizes"), "{text}");
}
