//! Programs as binaries: what was assembled runs as the text does, prints as the text, and is refused once a
//! byte is changed.

#![expect(clippy::disallowed_methods, reason = "the tests read the repository")]

use tilewright_cli::{BAD_INPUT, GOOD, Outcome};
use tilewright_filetest::host::{TestHost, run};
use tilewright_filetest::repository;

fn host() -> TestHost {
    TestHost { root: repository(), ..TestHost::default() }
}

fn tilewright(words: &str, host: &mut TestHost) -> Outcome {
    let words: Vec<String> = words.split(' ').map(String::from).collect();
    run(&words, host)
}

fn kernels() -> Vec<String> {
    let folder = std::fs::read_dir(repository().join("kernels")).expect("the repository has kernels");
    let names = folder.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".tcp")).collect();
    names.sort();
    names
}

#[test]
fn kernels_print_and_run_as_before() {
    for name in kernels() {
        let mut host = host();
        let made = tilewright(&format!("assemble kernels/{name} -o k.twb"), &mut host);
        assert_eq!(made.code, GOOD, "{}", made.stderr);
        let text = std::fs::read_to_string(repository().join("kernels").join(&name)).expect("a kernel");
        assert_eq!(tilewright("disasm k.twb", &mut host).stdout, text, "{name}");
        let (text, binary) = (format!("sim kernels/{name} --json"), "sim k.twb --json");
        assert_eq!(tilewright(&text, &mut host), tilewright(binary, &mut host), "{name}");
    }
}

/// An i8 array of 64 elements as NumPy writes it.
fn npy() -> Vec<u8> {
    let head = "{'descr': '|i1', 'fortran_order': False, 'shape': (64,), }";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(118_u16.to_le_bytes());
    bytes.extend(format!("{head:<117}\n").into_bytes());
    bytes.extend(0..64_u8);
    bytes
}

const COPY: &str = "program tcp 1
machine tcp
tensor x: i8[a=64] input at dm[0]+0x0 = \"| a^1[64]\" file \"x.npy\"
tensor y: i8[a=64] output at dm[0]+0x40 = \"| a^1[64]\"
exec copy main {
  fetch i8 at 0x0 { loops (64:1); packet 32 }
  commit dm at 0x40 { loops (2:32); bytes 32; width 32 }
}
queue pe0 { load copy; exec main 0; wait_e 0 }
";

#[test]
fn arrays_go_into_the_binary() {
    let mut host = host();
    host.given.insert("copy.tcp".into(), COPY.into());
    host.given.insert("x.npy".into(), npy());
    let made = tilewright("assemble copy.tcp -o copy.twb", &mut host);
    assert_eq!(made.code, GOOD, "{}", made.stderr);
    let from_text = tilewright("sim copy.tcp --values", &mut host);
    assert_eq!(from_text.code, GOOD, "{}", from_text.stderr);
    host.given.clear();
    assert_eq!(tilewright("sim copy.twb --values", &mut host), from_text, "without the array file");
}

#[test]
fn a_changed_byte_is_refused() {
    let mut host = host();
    tilewright("assemble kernels/silu.tcp -o k.twb", &mut host);
    let good = host.written["k.twb"].clone();
    for at in [8, 20, 50, 4096, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        host.given.insert("bad.twb".into(), bad);
        for verb in ["sim", "disasm"] {
            let refused = tilewright(&format!("{verb} bad.twb"), &mut host);
            assert_eq!(refused.code, BAD_INPUT, "{verb}, byte {at}");
            assert!(refused.stderr.starts_with("error: `bad.twb`: "), "{}", refused.stderr);
        }
    }
}
