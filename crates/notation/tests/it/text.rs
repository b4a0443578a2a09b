//! Properties of reading and printing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use tilewright_base::{Name, SourceId};
use tilewright_notation::problem::Problem;
use tilewright_notation::syntax::ast::{Dim, LoweredShape, Operand, Place, Program, Tactic, Term};
use tilewright_notation::syntax::expr::{Expr, Operator};
use tilewright_notation::syntax::parser;
use tilewright_notation::{radix, walk};

fn name() -> impl Strategy<Value = Name> {
    "[a-zA-Z]{1,3}"
        .prop_filter_map("ceil is a word of the language", |text| Name::new(&text).filter(|_| text != "ceil"))
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![any::<u32>().prop_map(|n| Expr::Int(u64::from(n))), name().prop_map(Expr::Symbol)];
    leaf.prop_recursive(3, 12, 2, |inner| {
        let operator = prop_oneof![
            Just(Operator::Add),
            Just(Operator::Subtract),
            Just(Operator::Multiply),
            Just(Operator::Divide),
            Just(Operator::CeilDivide)
        ];
        (operator, inner.clone(), inner)
            .prop_map(|(operator, left, right)| Expr::binary(operator, left, right))
    })
}

fn term() -> impl Strategy<Value = Term> {
    (prop::option::of(name()), expr(), expr(), prop::option::of(expr())).prop_map(
        |(axis, stride, size, slots)| {
            let stride = if axis.is_some() { stride } else { Expr::Int(1) };
            Term { axis, stride, size, slots, span: Default::default() }
        },
    )
}

fn terms() -> impl Strategy<Value = Vec<Term>> {
    prop::collection::vec(term(), 0..5)
}

fn lowered() -> impl Strategy<Value = LoweredShape> {
    let place = prop_oneof![
        Just(None),
        Just(Some(Place::Dm)),
        Just(Some(Place::Trf)),
        Just(Some(Place::TrfHalf)),
        Just(Some(Place::Vrf))
    ];
    (place, terms(), terms()).prop_map(|(place, inter, intra)| LoweredShape {
        place,
        inter: inter.into_iter().collect(),
        intra: intra.into_iter().collect(),
        ..LoweredShape::default()
    })
}

fn tactic() -> impl Strategy<Value = Tactic> {
    (terms(), terms(), prop::option::of((terms(), terms()))).prop_map(|(parallel, slice, roles)| Tactic {
        parallel: parallel.into_iter().collect(),
        slice: slice.into_iter().collect(),
        roles: roles.map(|(lanes, packet)| (lanes.into_iter().collect(), packet.into_iter().collect())),
        ..Tactic::default()
    })
}

fn program() -> impl Strategy<Value = Program> {
    let dim = (name(), expr(), prop::option::of(expr())).prop_map(|(name, least, most)| Dim {
        name,
        dynamic: most.is_some(),
        most: most.unwrap_or(least.clone()),
        least,
        span: Default::default(),
    });
    let shapes = (prop::option::of(lowered()), prop::option::of(lowered()), prop::option::of(lowered()));
    let stationary = prop::option::of(prop_oneof![Just(Operand::In0), Just(Operand::In1)]);
    (prop::collection::vec(dim, 0..4), shapes, prop::option::of(tactic()), stationary).prop_map(
        |(dims, (in0, in1, out), tactic, stationary)| Program {
            einsum: parser::einsum("ble, ef -> blf where b=l", SourceId(0)).unwrap(),
            dims,
            in0,
            in1,
            out,
            tactic,
            dtype: Some(("f8e4m3".to_string(), Default::default())),
            stationary: stationary.map(|operand| (operand, Default::default())),
        },
    )
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(program in program()) {
        let text = program.to_string();
        let again = parser::program(&text, SourceId(0));
        prop_assert!(again.is_ok(), "{}\n{:?}", text, again.err());
        prop_assert_eq!(again.unwrap(), program, "{}", text);
    }

    #[test]
    fn any_text_gets_an_answer(text in "\\PC{0,80}") {
        let _ = parser::program(&text, SourceId(0));
        let _ = parser::lowered_shape(&text, SourceId(0));
        let _ = parser::tactic(&text, SourceId(0));
        let _ = parser::dims(&text, SourceId(0));
    }

    #[test]
    fn near_programs_get_an_answer(text in "[a-e^{}\\[\\]|#_/0-9 ,;=>\\-@²₈→]{0,60}") {
        if let Ok(program) = parser::program(&text, SourceId(0)) {
            prop_assert_eq!(&parser::program(&program.to_string(), SourceId(0)).unwrap(), &program);
            let _ = Problem::new(&program);
        }
    }
}

#[test]
fn three_spellings_are_one() {
    let ascii = "b^2[2] e^{E/2}[2] | b^1[2] l^1[4] e^1[E/2]";
    let spellings = [
        "b²[2] e^{E/2}[2] | b[2] l[4] e[E/2]",
        r"$b^{2}[2]\, e^{E/2}[2] \mid b^{1}[2]l^{1}[4]e^{1}[E/2]$",
        "b^2[2]e^{E/2}[2]∣b¹[2]l¹[4]e¹[E/2]",
        r"b^2[2] e^{\frac{E}{2}}[2] \vert b[2] l[4] e[\frac{E}{2}]",
        "b^2[2] eᴱ⁄²[2] | b[2] l[4] e[E/2]",
        "b^2[2] e^E/2[2] | b[2] l[4] e[E/2]",
    ];
    for spelling in spellings {
        let shape =
            parser::lowered_shape(spelling, SourceId(0)).unwrap_or_else(|d| panic!("{spelling}: {d:?}"));
        assert_eq!(shape.to_string(), ascii, "{spelling}");
    }
}

#[test]
fn a_tactic_visits_every_step_once() {
    let text = "le, ef -> lf; dims l=5, e=6, f=7; tactic = l^2[3#4] | f^1[4] e^1[6] f^4[2#] l^1[2]";
    let program = parser::program(text, SourceId(0)).unwrap();
    let problem = Problem::new(&program).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut steps = 0;
    walk::for_each_step(&problem, problem.tactic.as_ref().unwrap(), |at| {
        steps += 1;
        seen.insert(at.to_vec());
    });
    assert_eq!((steps, seen.len()), (5 * 6 * 7, 5 * 6 * 7));
}

#[test]
fn a_window_is_stored_once_and_moved_by_its_loops() {
    let text = "b(y=2x+r-1)c, rcf -> bxf;\ndims b=2, x=3, r=4, c=5, f=6;\nin0 = | b^1[2] y^1[7] c^1[5];\n\
                tactic = | b^1[2] x^1[3] r^1[4] c^1[5] f^1[6];\n";
    let program = parser::program(text, SourceId(0)).unwrap();
    assert_eq!(program.to_string(), text);
    let problem = Problem::new(&program).unwrap();
    assert!(radix::check(&problem).is_empty());
    // 2*2 + 3 - 1 is the last position.
    let y = problem.windows[0].axis;
    assert_eq!(problem.axis(y).extent, 7);
    let mut steps = 0;
    walk::for_each_step(&problem, problem.tactic.as_ref().unwrap(), |at| {
        let at = |name: char| {
            i64::from(at[usize::from(problem.find(Name::letter(name as u8).unwrap()).unwrap().0)])
        };
        assert_eq!(at('y'), 2 * at('x') + at('r') - 1);
        steps += 1;
    });
    // Of 12 pairs x, r only x = r = 0 lies before the start.
    assert_eq!(steps, 2 * 11 * 5 * 6);
}

#[test]
fn windows_that_mean_nothing_are_refused() {
    let refused = [
        ("x(y=x+r), r -> x", "a loop of the same tensor"),
        ("(y=x+r), ry -> x", "a stored axis elsewhere"),
        ("(y=x+x), x -> x", "one loop twice"),
        ("(y=0x+r), r -> x", "a factor of nothing"),
        ("(y=x+r)_2, r -> x", "a split"),
        ("xr, r -> (y=x+r)", "an output"),
        ("(y=x_2+r), r -> x", "no sum"),
    ];
    for (einsum, why) in refused {
        let text = format!("{einsum}; dims x=4, r=2, y=5");
        let problem =
            parser::program(&text, SourceId(0)).map_err(|c| vec![*c]).and_then(|p| Problem::new(&p));
        assert!(problem.is_err(), "{einsum}: {why}");
    }
    let looped = "(y=x+r), r -> x; dims x=4, r=2; tactic = | y[5]";
    assert!(Problem::new(&parser::program(looped, SourceId(0)).unwrap()).is_err());
}
