//! The corpus of every fuzz target, replayed.

use std::path::Path;

use tilewright_filetest::fuzz::Check;
use tilewright_filetest::fuzz_driver::{Campaign, run};
use tilewright_filetest::{fuzz, repository};

fn replay(target: &str, check: Check) {
    let folder = repository().join("fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).expect("the corpus is part of the repository");
    let mut count = 0;
    for file in files {
        let path = file.expect("a readable folder").path();
        check(&read(&path));
        count += 1;
    }
    assert!(count > 0, "no corpus for {target}");
}

#[expect(clippy::disallowed_methods, reason = "the harness reads the corpus")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a readable file")
}

/// Every target, as the driver of campaigns knows them.
#[test]
fn every_corpus_is_read() {
    for (target, check) in fuzz::CHECKS {
        replay(target, *check);
    }
}

/// A target of `cargo fuzz` for each check, and a check for each.
#[test]
fn targets_and_checks_are_the_same() {
    let folder = std::fs::read_dir(repository().join("fuzz/fuzz_targets")).expect("targets");
    let mut targets: Vec<String> = folder
        .map(|file| file.expect("a readable folder").path())
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    targets.sort();
    let mut checks: Vec<&str> = fuzz::CHECKS.iter().map(|(name, _)| *name).collect();
    checks.sort_unstable();
    assert_eq!(targets, checks);
}

/// One turn of every target: none panics, and many show something new.
#[test]
fn a_short_campaign_finds_nothing() {
    let folder = std::env::temp_dir().join(format!("tilewright-fuzz-{}", std::process::id()));
    let inputs = tilewright_testkit::draws(31_000, 3_100_000);
    let campaign = Campaign { inputs, seed: 1, only: Vec::new(), folder: folder.clone(), line_seconds: 600 };
    let counts = run(&campaign, &mut |_| ());
    let _ = std::fs::remove_dir_all(&folder);
    for count in &counts {
        assert!(count.faults.is_empty(), "{}: {:?}", count.name, count.faults);
        assert!(count.inputs >= inputs / 1000 && count.kept > 0, "{count:?}");
    }
    let kept: usize = counts.iter().map(|count| count.kept).sum();
    assert!(kept > 300, "only {kept} inputs show something");
}

/// Goldens of programs are inputs too.
#[test]
fn neuron_program() {
    let goldens = std::fs::read_dir(repository().join("tests/neuron")).expect("goldens of programs");
    for file in goldens {
        fuzz::neuron_program(&read(&file.expect("a readable folder").path()));
    }
}

/// Texts of stages with lines and bytes changed, each time the same: nothing panics.
#[test]
fn changed_texts_of_stages() {
    let targets: [(&str, Check); 3] = [
        ("kernel_text", fuzz::kernel_text),
        ("lowered_text", fuzz::lowered_text),
        ("schedule_text", fuzz::schedule_text),
    ];
    let mut state = 1_u64;
    let mut below = |most: usize| {
        usize::try_from(tilewright_base::random::below(&mut state, most as u64)).expect("below a size")
    };
    for (target, check) in targets {
        let text = read(&repository().join("fuzz/corpus").join(target).join("canonical"));
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        for _ in 0..400 {
            let mut changed = lines.clone();
            match below(3) {
                0 => drop(changed.remove(below(lines.len()))),
                1 => changed.swap(below(lines.len()), below(lines.len())),
                _ => changed.insert(below(lines.len()), lines[below(lines.len())]),
            }
            let mut bytes = changed.concat();
            let at = below(bytes.len());
            bytes[at] = b"0123456789 .,x=\n-[]|"[below(20)];
            check(&bytes);
        }
    }
}
