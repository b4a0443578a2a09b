//! Subscripts of Einsum against sums over all labels.

use super::{Node, Operand, assert_near, drawn, floats, word};

fn einsum(equation: &str, operands: &[Operand]) -> Node {
    Node::new("Einsum", operands).with(word("equation", equation))
}

fn numbers(dims: &[usize], seed: u32) -> (Operand, Vec<f32>) {
    let elements = drawn(seed, dims.iter().product());
    (floats(dims, &elements), elements)
}

#[test]
fn an_ellipsis_stands_for_axes_that_stretch() {
    let (x, a) = numbers(&[2, 1, 3, 4], 1);
    let (y, b) = numbers(&[5, 4, 2], 2);
    let mut wanted = vec![0.0; 2 * 5 * 3 * 2];
    for (at, wanted) in wanted.iter_mut().enumerate() {
        let (n, m, i, k) = (at / 30, at / 6 % 5, at / 2 % 3, at % 2);
        *wanted = (0..4).map(|j| a[n * 12 + i * 4 + j] * b[m * 8 + j * 2 + k]).sum();
    }
    for equation in ["...ij,...jk->...ik", "...ij, ...jk", "...ij,...jk->...ik "] {
        let found = einsum(equation, &[x.clone(), y.clone()]).run();
        assert_eq!(found[0].dims, [2, 5, 3, 2]);
        assert_near(found[0].as_floats(), &wanted);
    }
    let found = einsum("i...->...i", &[x]).run();
    assert_eq!(found[0].dims, [1, 3, 4, 2]);
    assert_eq!(found[0].as_floats()[1], a[12]);
}

#[test]
fn a_letter_that_stands_twice_is_a_diagonal() {
    let (x, a) = numbers(&[3, 2, 3], 3);
    let diagonal = |i: usize, j: usize| a[i * 6 + j * 3 + i];
    let wanted: Vec<f32> =
        (0..2).flat_map(|j| (0..3).map(move |i| (i, j))).map(|(i, j)| diagonal(i, j)).collect();
    assert_eq!(einsum("iji->ji", std::slice::from_ref(&x)).floats(), wanted);
    assert_near(&einsum("iji->", std::slice::from_ref(&x)).floats(), &[wanted.iter().sum()]);
    assert_near(
        &einsum("iji", &[x]).floats(),
        &[diagonal(0, 0) + diagonal(1, 0) + diagonal(2, 0), diagonal(0, 1) + diagonal(1, 1) + diagonal(2, 1)],
    );
}

#[test]
fn several_operands_are_contracted_two_at_a_time() {
    let ((x, a), (y, b), (z, c)) = (numbers(&[2, 3], 4), numbers(&[3, 4], 5), numbers(&[4, 2], 6));
    let term = |i: usize, l: usize| -> f32 {
        (0..3)
            .flat_map(|j| (0..4).map(move |k| (j, k)))
            .map(|(j, k)| a[i * 3 + j] * b[j * 4 + k] * c[k * 2 + l])
            .sum()
    };
    let wanted: Vec<f32> = (0..4).map(|at| term(at % 2, at / 2)).collect();
    assert_near(&einsum("ij,jk,kl->li", &[x.clone(), y, z]).floats(), &wanted);
    let outer = einsum("a,b->ba", &[floats(&[2], &[2.0, 3.0]), floats(&[2], &[5.0, 7.0])]).floats();
    assert_eq!(outer, [10.0, 15.0, 14.0, 21.0]);
    assert_near(&einsum("ij->j", &[x]).floats(), &[a[0] + a[3], a[1] + a[4], a[2] + a[5]]);
}

#[test]
fn subscripts_that_do_not_fit_are_refused() {
    let x = || floats(&[2, 3], &[0.0; 6]);
    let refused = |equation: &str, count: usize| einsum(equation, &vec![x(); count]).refused();
    let text = refused("ij,jk->ik", 1);
    assert!(text.contains("subscripts `ij,jk->ik` with 1 operands\n  = allowed: 2 operands"), "{text}");
    let text = refused("ijk->i", 1);
    assert!(text.contains("subscripts `ijk` of 2 axes\n  = allowed: a letter for each axis"), "{text}");
    for equation in ["ij->k", "ij->ii", "i1->i", "i.j->i", "ij->ij->i"] {
        assert!(refused(equation, 1).starts_with("f: node `n` (Einsum): subscripts `"), "{equation}");
    }
    assert!(refused("ii->i", 1).contains("a diagonal of 2 rows and 3 columns\n  = allowed: equal sizes"));
    assert!(refused("ij,ji->", 2).contains("has sizes"), "2 and 3 of one letter");
}
