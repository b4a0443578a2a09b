//! Every stage is text in, text out: what a text compiles to is what the stage before it compiles to, and an
//! edited text is compiled as edited or refused.

use tilewright_cli::{FAILED, GOOD};
use tilewright_filetest::host::{TestHost, good, tilewright};
use tilewright_filetest::repository;

const SMALL: &str = "tests/kernels/canonical.kernels";

fn given() -> TestHost {
    TestHost { root: repository(), ..TestHost::default() }
}

/// Keeps what a command prints as a file.
fn kept(words: &str, name: &str, host: &mut TestHost) {
    let text = good(words, host);
    host.given.insert(name.to_string(), text.into_bytes());
}

/// Another text of the same kind.
fn edited(name: &str, from: &str, to: &str, host: &mut TestHost) {
    let text = String::from_utf8(host.given[name].clone()).expect("a text");
    assert!(text.contains(from), "no `{from}` in {text}");
    host.given.insert(format!("edited.{name}"), text.replace(from, to).into_bytes());
}

/// Only decisions and kernels of a lowered text: what follows from them is left out.
fn bare(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with(' ')).map(|line| format!("{line}\n")).collect()
}

#[test]
fn graphs_of_either_kind_give_the_kernels_of_their_model() {
    let mut host = given();
    let model = "models/fables";
    let kernels = good(&format!("compile {model} --emit kernels"), &mut host);
    for stage in ["graph", "primitives"] {
        kept(&format!("compile {model} --emit {stage}"), "m.graph", &mut host);
        assert_eq!(good("compile m.graph --emit kernels", &mut host), kernels, "{stage}");
        assert_eq!(good("compile - --emit kernels", &mut piped("m.graph", &host)), kernels, "{stage}");
    }
    let commands = good(&format!("compile {model} --emit commands --effort 0"), &mut host);
    assert_eq!(good("compile m.graph --emit commands --effort 0", &mut host), commands);
    // There are no weights to write.
    let file = tilewright("compile m.graph --effort 0 -o m.twb", &mut host);
    assert_ne!(file.code, GOOD);
    assert!(host.written.is_empty() && file.stderr.contains("weight"), "{}", file.stderr);
}

/// A host with a file as standard input.
fn piped(name: &str, host: &TestHost) -> TestHost {
    let mut piped = given();
    piped.given.insert("-".to_string(), host.given[name].clone());
    piped
}

#[test]
fn a_lowered_text_gives_the_commands_of_its_kernels() {
    for (options, programs) in [
        ("--effort 0", ["decode", "prefill"]),
        ("--pes 2 --dtype int8 --effort 0", ["prefill", "decode"]),
        ("--pes 4 --dtype w4a16 --cache int8 --context 64 --effort 0", ["decode", "prefill"]),
        ("--pes 2 --chips 2 --set hbm.efficiency=0.8 --effort 0", ["prefill", "decode"]),
        ("--batch 3 --dtype int8 --cache int8 --effort 0", ["batch", "decode"]),
        ("--batch 2 --pes 2 --effort 1", ["batch", "prefill"]),
        // With windows and other slots than the rule's.
        ("--pes 2 --effort 1", ["decode", "prefill"]),
    ] {
        let mut host = given();
        for program in programs {
            let asked = format!("compile {SMALL} {options} --program {program} --emit");
            let commands = good(&format!("{asked} commands"), &mut host);
            kept(&format!("{asked} lowered"), "m.lowered", &mut host);
            assert_eq!(good("compile m.lowered --emit commands", &mut host), commands, "{options}");
            let again = good("compile - --emit lowered", &mut piped("m.lowered", &host));
            assert_eq!(again.into_bytes(), host.given["m.lowered"], "{options}");
            let text = String::from_utf8(host.given["m.lowered"].clone()).expect("a text");
            host.given.insert("bare.lowered".to_string(), bare(&text).into_bytes());
            assert_eq!(good("compile bare.lowered --emit commands", &mut host), commands, "{options}");
            assert!(good("compile m.lowered", &mut host).contains("are in order"), "{options}");
        }
    }
}

/// The line of choices with one of them replaced.
fn rechosen(text: &str, name: &str, value: &str) -> String {
    let choice = |part: &str| match part.split_once('=') {
        Some((known, _)) if known == name => format!("{name}={value}"),
        _ => part.to_string(),
    };
    let line = |line: &str| match line.strip_prefix("choices ") {
        Some(choices) => format!("choices {}", choices.split(' ').map(choice).collect::<Vec<_>>().join(" ")),
        None => line.to_string(),
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn edited_decisions_give_other_programs_that_are_in_order() {
    let mut host = given();
    let asked = format!("compile {SMALL} --pes 2 --effort 0 --program prefill --emit");
    let commands = good(&format!("{asked} commands"), &mut host);
    let text = bare(&good(&format!("{asked} lowered"), &mut host));
    for (name, value) in [
        ("rows", "1"),
        ("slots", "2"),
        ("parts", "1"),
        ("parts", "2"),
        ("fills", "8,8,4"),
        ("fills", "1,1,1,1,1"),
    ] {
        host.given.insert("e.lowered".to_string(), rechosen(&text, name, value).into_bytes());
        let other = good("compile e.lowered --emit commands", &mut host);
        assert_ne!(other, commands, "{name}={value}");
        assert!(good("compile e.lowered", &mut host).contains("are in order"), "{name}={value}");
    }
    for (name, value) in [("rows", "8"), ("fills", "8,8,8,8,8,8,8,8")] {
        host.given.insert("e.lowered".to_string(), rechosen(&text, name, value).into_bytes());
        let refused = tilewright("compile e.lowered", &mut host);
        assert_eq!(refused.code, FAILED, "{name}={value}: {}", refused.stderr);
        assert!(refused.stderr.contains("error[lowered/choice]"), "{}", refused.stderr);
    }
}

#[test]
fn schedules_are_checked_from_their_text() {
    let both = ["decode", "prefill"];
    for (options, programs) in [
        ("--effort 0", both),
        ("--pes 4 --effort 0", both),
        ("--pes 2 --chips 2 --effort 0", both),
        ("--pes 2 --dtype int8", both),
        ("--batch 3 --effort 0", ["batch", "prefill"]),
    ] {
        for program in programs {
            let mut host = given();
            let asked = format!("compile {SMALL} {options} --program {program} --emit schedule");
            kept(&asked, "m.schedule", &mut host);
            let told = good("compile m.schedule", &mut host);
            assert!(told.contains("are in order"), "{options} {program}: {told}");
            let again = good("compile m.schedule --emit schedule", &mut host);
            assert_eq!(again.into_bytes(), host.given["m.schedule"], "{options} {program}");
        }
    }
}

/// Whatever command of a schedule is moved before its producer, somebody notices.
#[test]
fn no_command_can_begin_earlier() {
    let mut host = given();
    kept(&format!("compile {SMALL} --pes 2 --effort 0 --emit schedule"), "m.schedule", &mut host);
    let text = String::from_utf8(host.given["m.schedule"].clone()).expect("a text");
    let from = text.lines().position(|line| line.starts_with("commands")).expect("commands") + 1;
    let first = text.lines().nth(from).expect("a command").to_string();
    let begin = first.split_whitespace().nth(1).expect("a time").to_string();
    for at in from + 1..text.lines().count() {
        let moved: String = text
            .lines()
            .enumerate()
            .map(|(index, line)| {
                let mut words: Vec<&str> = line.split_whitespace().collect();
                if index == at && words[1] != begin {
                    (words[1], words[2]) = (&begin, &begin);
                    return format!("  {}\n", words.join(" "));
                }
                format!("{line}\n")
            })
            .collect();
        if moved == text {
            continue;
        }
        host.given.insert("e.schedule".to_string(), moved.into_bytes());
        let refused = tilewright("compile e.schedule", &mut host);
        assert_eq!(refused.code, FAILED, "line {at}");
    }
    edited("m.schedule", "\nbound ", "\nbound 1", &mut host);
    assert!(tilewright("compile edited.m.schedule", &mut host).stderr.contains("error[schedule/sum]"));
}
