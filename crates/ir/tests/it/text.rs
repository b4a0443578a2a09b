//! Statements print and read back; no text makes the parser panic or forget what it should not.

use proptest::collection::vec;
use proptest::prelude::*;
use tilewright_base::{SourceId, Sources, render};
use tilewright_ir::{Args, Fields, Item, Kind, Log, Node, Sign, Tree, parser, print};

/// One value, spelled so that it cannot be mistaken for another.
fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[a-z_][a-z0-9_]{0,5}(\\.[a-z][0-9]?)?",
        any::<u64>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| format!("{number:#x}")),
        any::<f32>().prop_filter("a number", |x| x.is_finite()).prop_map(|x| format!("{x:?}")),
        "[ -~é\n]{0,9}".prop_map(|text| print::quoted(&text)),
        proptest::sample::select(Sign::ALL.to_vec()).prop_map(|sign| sign.text().to_string()),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| print::list(&items, Clone::clone)),
            vec(inner, 0..4).prop_map(|items| format!("({})", items.join(" "))),
        ]
    })
}

fn any_item() -> impl Strategy<Value = Item> {
    let text = ("[a-z_][a-z0-9_]{0,5}!?", vec(any_value(), 0..12))
        .prop_map(|(head, values)| format!("{head} {}", values.join(" ")).trim_end().to_string());
    text.prop_map(Item::line).prop_recursive(4, 24, 4, |inner| {
        (inner.clone(), vec(inner, 0..4), any::<bool>()).prop_map(|(head, block, fit)| {
            if fit { Item::fit(head.text, block) } else { Item::lines(head.text, block) }
        })
    })
}

fn parse(text: &str) -> (Tree<'_>, Vec<tilewright_base::Diagnostic>) {
    let mut log = Log::default();
    let tree = parser::parse(text, SourceId(0), &mut log);
    (tree, log.into_complaints())
}

/// Every value of a statement with single blanks between.
fn spelled(mut args: Args<'_>, out: &mut Vec<String>) {
    while let Some(kind) = args.kind() {
        match kind {
            Kind::Open(bracket) => {
                let inner = args.group(bracket).expect("the kind was looked at");
                out.push(bracket.open().to_string());
                spelled(inner, out);
                out.push(bracket.close().to_string());
            }
            Kind::Word => out.push(args.word("").expect("the kind was looked at").text.to_string()),
            Kind::Integer { .. } => {
                out.push(args.integer::<i128>("").expect("the kind was looked at").to_string());
            }
            Kind::Float => {
                out.push(print::f32_pattern(args.f32_pattern("").expect("the kind was looked at")));
            }
            Kind::Text => out.push(print::quoted(&args.text("").expect("the kind was looked at").text)),
            Kind::Sign(_) => out.push(args.any_sign().expect("the kind was looked at").text().to_string()),
            Kind::Close(_) => panic!("a closing bracket without an opening one"),
        }
    }
}

/// The structure that was printed: depth and words of each statement.
fn structure(node: Node<'_>, depth: usize, out: &mut Vec<(usize, bool, String)>) {
    let mut words = vec![node.head().text.to_string()];
    spelled(node.args(), &mut words);
    out.push((depth, node.has_block(), words.join(" ")));
    node.children().for_each(|inner| structure(inner, depth + 1, out));
}

/// The same from what was to be printed; each statement is read on its own.
fn wanted(item: &Item, depth: usize, out: &mut Vec<(usize, bool, String)>) {
    let (tree, complaints) = parse(&item.text);
    assert!(complaints.is_empty(), "{}", item.text);
    let node = tree.statements().next().expect("one statement");
    let mut words = vec![node.head().text.to_string()];
    spelled(node.args(), &mut words);
    out.push((depth, item.block.is_some(), words.join(" ")));
    for inner in item.block.iter().flat_map(|(_, block)| block) {
        wanted(inner, depth + 1, out);
    }
}

proptest! {
    #[test]
    fn statements_read_back(items in vec(any_item(), 0..5)) {
        let text = print::print(&items);
        let (tree, complaints) = parse(&text);
        prop_assert!(complaints.is_empty(), "{}\n{:?}", text, complaints);
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        tree.statements().for_each(|node| structure(node, 0, &mut seen));
        items.iter().for_each(|item| wanted(item, 0, &mut expected));
        prop_assert_eq!(seen, expected, "{}", text);
    }

    #[test]
    fn names_read_back(name in any::<String>()) {
        let text = format!("name {} end", print::name(&name));
        let (tree, _) = parse(&text);
        let mut args = tree.statements().next().unwrap().args();
        prop_assert_eq!(&args.name("").unwrap().text, &name);
        prop_assert!(args.eat_word("end") && args.is_empty());
    }

    #[test]
    fn float_patterns_read_back(pattern in any::<u32>()) {
        let text = format!("f {}", print::f32_pattern(pattern));
        let (tree, _) = parse(&text);
        prop_assert_eq!(tree.statements().next().unwrap().args().f32_pattern("").unwrap(), pattern);
    }

    #[test]
    fn any_text_gives_a_tree_or_complaints(text in "[ -~é\n{}()\\[\\]\";]{0,120}") {
        let (tree, complaints) = parse(&text);
        let mut sources = Sources::default();
        sources.add("text", text.as_str());
        prop_assert_eq!(render::plain(&sources, &complaints).is_empty(), complaints.is_empty());
        tree.statements().for_each(structure_only);
    }
}

fn structure_only(node: Node<'_>) {
    assert!(!node.head().text.is_empty());
    node.children().for_each(structure_only);
}

#[test]
fn depth_is_bounded() {
    for (text, code) in
        [("a {".repeat(100_000), "ir/limit"), ("a [".to_string() + &"[".repeat(100_000), "ir/limit")]
    {
        let (_, complaints) = parse(&text);
        assert_eq!(complaints[0].code, code);
    }
    let allowed = "a {".repeat(parser::MAX_BLOCKS) + &"}".repeat(parser::MAX_BLOCKS);
    assert!(parse(&allowed).1.is_empty());
}

#[test]
fn a_minus_is_a_sign_behind_an_operand() {
    let kinds = |text: &str| {
        let (tree, complaints) = parse(text);
        assert!(complaints.is_empty());
        let mut words = Vec::new();
        spelled(tree.statements().next().unwrap().args(), &mut words);
        words
    };
    assert_eq!(kinds("s a-1"), ["a", "-", "1"]);
    assert_eq!(kinds("s a -1"), ["a", "-1"]);
    assert_eq!(kinds("s a - 1"), ["a", "-", "1"]);
    assert_eq!(kinds("s -5..-1"), ["-5", "..", "-1"]);
    assert_eq!(kinds("s (4:-1)(2: 1->-3)"), ["(", "4", ":", "-1", ")", "(", "2", ":", "1", "->", "-3", ")"]);
}

#[test]
fn long_lists_are_broken_between_their_items() {
    let numbers: Vec<u64> = (0..60).collect();
    let text = print::print(&[Item::line(format!("list {}", print::list(&numbers, u64::to_string)))]);
    assert!(text.lines().count() == 5 && text.lines().all(|line| line.len() <= print::WIDTH), "{text}");
    let (tree, _) = parse(&text);
    let mut args = tree.statements().next().unwrap().args();
    assert_eq!(args.list("", |item| item.unsigned("")).unwrap(), numbers);
}

#[test]
fn fields_are_found_by_name() {
    let text = "fetch { loop (4:1); packet 64; packet 32; cast { } }";
    let mut log = Log::default();
    let tree = parser::parse(text, SourceId(0), &mut log);
    let fields = Fields::new(tree.statements().next().unwrap(), &["loops", "packet", "cast"], &mut log);
    assert_eq!(fields.one("packet", &mut log, |args| args.unsigned("elements")), Some(64));
    assert_eq!(fields.one("loops", &mut log, |args| args.unsigned("a loop")), None);
    assert_eq!(fields.flag("cast", &mut log), None);
    let complaints = log.into_complaints();
    let told: Vec<(&str, Option<&str>)> = complaints
        .iter()
        .map(|complaint| (complaint.message.as_str(), complaint.instead.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("`loop` is no statement of this block", Some("loops")),
            ("`packet` is given twice", Some("delete one of them")),
            ("fetch lacks `loops`", Some("add `loops`")),
            ("`cast` has a block", Some("leave the block out")),
        ]
    );
}
