//! Lists that are too long for a line.

use tilewright_ir::print::{Item, WIDTH, list, print};

#[test]
fn only_long_lists_are_broken() {
    let long = format!("tensor \"a [1, 2], (3, 4)\" (5, 6) at {}", "x".repeat(WIDTH));
    assert_eq!(print(&[Item::line(long.clone())]), format!("{long}\n"), "no list outside of quotes");
    let items: Vec<u64> = (100..140).collect();
    let text = format!("lookup bf16 {}", list(&items, u64::to_string));
    let printed = print(&[Item::lines("fetch", vec![Item::line(text.as_str())])]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[1], "  lookup bf16 [");
    assert!(lines[2].starts_with("    100, 101, ") && lines[2].ends_with(','));
    assert_eq!(lines[lines.len() - 2], "  ]");
    assert!(lines.iter().all(|line| line.len() <= WIDTH), "{printed}");
    assert_eq!(
        lines[1..lines.len() - 1].iter().map(|line| line.trim()).collect::<Vec<_>>().join(" "),
        text.replace('[', "[ ").replace(']', " ]")
    );
}
