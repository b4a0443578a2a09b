//! The text form of programs: what is printed reads back, and no text makes the reader panic.

use crate::any_program;

use any_program::any_program;
use proptest::prelude::*;
use tilewright_base::{SourceId, Sources, render};
use tilewright_tcp_isa::program::Program;
use tilewright_tcp_isa::program::text::{erase_spans, print, read};

fn read_back(text: &str) -> Program {
    let mut program = read(text, SourceId(0))
        .unwrap_or_else(|complaints| panic!("{}\n{text}", rendered(text, &complaints)));
    erase_spans(&mut program);
    program
}

fn rendered(text: &str, complaints: &[tilewright_base::Diagnostic]) -> String {
    let mut sources = Sources::default();
    sources.add("text", text);
    render::plain(&sources, complaints)
}

/// Reads anything: a program that reads back, or complaints that can be rendered.
fn survives(text: &str) -> Result<(), TestCaseError> {
    match read(text, SourceId(0)) {
        Ok(mut program) => {
            let printed = print(&program);
            erase_spans(&mut program);
            prop_assert_eq!(read_back(&printed), program);
        }
        Err(complaints) => {
            prop_assert!(!complaints.is_empty());
            prop_assert!(rendered(text, &complaints).starts_with("error["));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_reads_back(program in any_program()) {
        let text = print(&program);
        let again = read_back(&text);
        prop_assert_eq!(&again, &program, "{}", text);
        prop_assert_eq!(print(&again), text);
    }

    #[test]
    fn layout_and_comments_do_not_matter(program in any_program()) {
        let text = print(&program);
        // A line may end with a comment wherever it ends, and blanks may go.
        let busy: String = text.lines().map(|line| format!("\t{}  // a }} remark ; \
                                                            {{\r\n\n", line.trim())).collect();
        prop_assert_eq!(read_back(&busy), program, "{}", busy);
    }

    #[test]
    fn edits_of_a_program_do_not_panic(
        program in any_program(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0..3_u8, "[ -~\n]{0,3}"), 1..4),
    ) {
        let mut text: Vec<char> = print(&program).chars().collect();
        for (place, kind, new) in edits {
            let at = place.index(text.len().max(1)).min(text.len());
            let end = match kind {
                0 => at,
                1 => (at + 1).min(text.len()),
                _ => (at + 30).min(text.len()),
            };
            text.splice(at..end, new.chars());
        }
        survives(&text.into_iter().collect::<String>())?;
    }

    #[test]
    fn rubbish_does_not_panic(text in "(program tcp 1\n)?(machine tcp\n)?[ \
                                       -~\n\t\r{}()\\[\\];é\u{0}]{0,200}") {
        survives(&text)?;
    }

    #[test]
    fn rubbish_of_the_right_words_does_not_panic(
        words in proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 0..60),
    ) {
        survives(&format!("program tcp 1\nmachine tcp\n{}", words.join(" ")))?;
    }
}

const WORDS: &[&str] = &[
    "exec",
    "a",
    "main",
    "{",
    "}",
    "\n",
    ";",
    "fetch",
    "i8",
    "at",
    "0x10",
    "loops",
    "(",
    ")",
    "4",
    ":",
    "packet",
    "commit",
    "dm",
    "bytes",
    "width",
    "vector",
    "f32",
    "reduce",
    "max",
    "tree",
    "steps",
    "sum",
    "[",
    "]",
    ",",
    "-1",
    "0.5",
    "queue",
    "pe0",
    "for",
    "=",
    "to",
    "register",
    "tensor",
    "\"H^1[4] |\"",
    "if",
    "else",
    "<",
    "transfer",
    "from",
    "hbm",
    "+",
    "->",
    "dma",
    "push!",
];
