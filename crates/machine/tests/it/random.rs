//! No text makes the reader panic: neither rubbish nor a valid file with something changed.

use proptest::prelude::*;
use tilewright_base::{Sources, render};
use tilewright_machine::{builtin, builtin_names, load, show};

/// Reads a text and, whatever comes of it, prints it.
fn survive(text: &str) {
    let mut sources = Sources::default();
    let id = sources.add("random.toml", text);
    let bases = |name: &str| builtin(name).map(str::to_owned);
    match load(&mut sources, id, &bases) {
        Ok(loaded) => assert!(!show(&loaded).is_empty()),
        Err(diagnostics) => assert!(!render::plain(&sources, &diagnostics).is_empty()),
    }
}

/// Pieces that are likely to hurt.
const PIECES: &[&str] = &[
    "",
    "=",
    "[",
    "]",
    "[[dm]]",
    "\n[dm]\n",
    "\"",
    "'''",
    "{",
    "0",
    "-1",
    "99999999999999999999999999",
    "1e400",
    "nan",
    "inf",
    "true",
    "[1, 2]",
    "{ value = 1 }",
    "1979-05-27",
    "base = \"tcp\"\n",
    "\ndm.banks = 1\n",
    "é",
    "\0",
    "\r",
    "18446744073709551615",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rubbish_is_survived(text in any::<String>()) {
        survive(&text);
    }

    #[test]
    fn rubbish_of_toml_letters_is_survived(text in "[a-d\\[\\]{}=.\"'#0-9 \n_-]{0,60}") {
        survive(&text);
    }

    #[test]
    fn an_edited_file_is_survived(
        machine in 0usize..7,
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, 0usize..PIECES.len()),
            1..4),
    ) {
        let mut text = builtin(builtin_names()[machine]).unwrap().to_owned();
        for (at, cut, piece) in edits {
            let start = at.index(text.len() + 1);
            let end = (start + cut).min(text.len());
            if text.is_char_boundary(start) && text.is_char_boundary(end) {
                text.replace_range(start..end, PIECES[piece]);
            }
        }
        survive(&text);
    }

    #[test]
    fn an_edited_value_is_survived(
        machine in 0usize..7,
        line in any::<prop::sample::Index>(),
        piece in 0usize..PIECES.len(),
    ) {
        let text = builtin(builtin_names()[machine]).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let line = line.index(lines.len());
        if let Some((key, _)) = lines[line].split_once('=') {
            lines[line] = format!("{key}= {}", PIECES[piece]);
        }
        survive(&lines.join("\n"));
    }

    #[test]
    fn any_setting_is_survived(
        setting in "[a-z_.=0-9\"]{0,30}",
        key in any::<prop::sample::Index>(),
        piece in 0usize..PIECES.len(),
    ) {
        let mut sources = Sources::default();
        let id = sources.add("tcp.toml", builtin("tcp").unwrap());
        let tcp = load(&mut sources, id, &|_: &str| None).unwrap();
        let figures = tcp.key_values();
        let figure = &figures[key.index(figures.len())];
        let known = format!("{}.{}={}", figure.section, figure.key, PIECES[piece]);
        for setting in [setting, known] {
            if let Ok(changed) = tcp.override_with(&mut sources, &[&setting]) {
                assert!(!show(&changed).is_empty());
            }
        }
    }
}

/// Every figure at either end of its range, alone and all together, gives a machine whose
/// derived quantities are numbers.
#[test]
fn the_ends_of_every_range_are_survived() {
    use tilewright_machine::Allowed;
    for name in ["tcp", "inferentia2"] {
        let mut sources = Sources::default();
        let id = sources.add(name, builtin(name).unwrap());
        let machine = load(&mut sources, id, &|_: &str| None).unwrap();
        let mut lowest = Vec::new();
        let mut highest = Vec::new();
        for section in machine.machine.architecture().sections() {
            for key in section.keys {
                let (low, high) = match key.allowed {
                    Allowed::Integer { low, high } => (low.to_string(), high.to_string()),
                    Allowed::Number { low, high } => (low.to_string(), high.to_string()),
                    Allowed::List { low, high } if high == 63 => {
                        (format!("[{low}]"), format!("{:?}", (low..=high).collect::<Vec<u64>>()))
                    }
                    Allowed::List { low, high } => (format!("[{low}]"), format!("[{high}]")),
                    Allowed::Flag | Allowed::Choice(_) => continue,
                };
                lowest.push(format!("{}.{}={low}", section.name, key.name));
                highest.push(format!("{}.{}={high}", section.name, key.name));
            }
        }
        let alone = lowest.iter().chain(&highest).map(|setting| vec![setting.as_str()]);
        let together = [&lowest, &highest].map(|settings| settings.iter().map(String::as_str).collect());
        let mut accepted = 0;
        for settings in alone.chain(together) {
            if let Ok(changed) = machine.override_with(&mut sources, &settings) {
                assert!(changed.machine.derived().iter().all(|row| row.value.is_finite()), "{settings:?}");
                accepted = settings.len();
            }
        }
        // On a TCP the highest ends go together, which proves that no product overflows.
        assert!(name != "tcp" || accepted == highest.len());
    }
}
