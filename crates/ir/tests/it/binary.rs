//! The binary form: what is written reads back, and no bytes make it panic or take memory without bound.

use proptest::prelude::*;
use tilewright_base::SourceId;
use tilewright_ir::binary::{BinaryError, Section, SectionKind, read, tokens, write};
use tilewright_ir::{Log, parser};

const TEXT: &str = "program tcp 1\nexec load sub \
                    {\n  fetch i8 at 0x800 { loops (8:128)(2:-64); packet 64 }\n  \
                    vector f32 { fmul 6.1e-5; reduce add { steps 256 sum(4) } }\n}\nqueue pe0 \
                    { if a <= -3 { } else { push! \"x y\" } }\n";

fn encoded(text: &str) -> Vec<u8> {
    let mut log = Log::default();
    let tree = parser::parse(text, SourceId(0), &mut log);
    assert!(log.is_empty(), "{text}");
    tokens::encode(&tree)
}

#[test]
fn statements_read_back() {
    let bytes = encoded(TEXT);
    let text = tokens::decode(&bytes).unwrap();
    assert_eq!(encoded(&text), bytes, "{text}");
    assert!(text.contains("fetch i8 at 0x800 {"), "{text}");
    assert!(text.contains("( 2 : -64 )"), "{text}");
}

#[test]
fn a_word_that_is_named_too_often_is_refused() {
    // One word of 64 KiB, named by 2^16 statements: 4 GiB of text in 200 kB.
    let mut bytes = vec![1, 0x80, 0x80, 4];
    bytes.extend(std::iter::repeat_n(b'a', 1 << 16));
    bytes.extend([0x80, 0x80, 4]);
    bytes.extend(std::iter::repeat_n([0, 0, 0], 1 << 16).flatten());
    assert!(matches!(tokens::decode(&bytes), Err(BinaryError::Limit { what: "bytes of text", .. })));
}

#[test]
fn deep_blocks_are_refused() {
    let mut bytes = vec![1, 1, b'a'];
    bytes.extend(std::iter::repeat_n([1, 0, 0, 1], 1 << 12).flatten());
    assert!(matches!(tokens::decode(&bytes), Err(BinaryError::Limit { what: "blocks within blocks", .. })));
}

fn file() -> Vec<u8> {
    let program = encoded(TEXT);
    write(&[
        Section { kind: SectionKind::Program, name: "tcp", bytes: &program },
        Section { kind: SectionKind::Array, name: "weights/a", bytes: &[1, 2, 3] },
        Section { kind: SectionKind::Array, name: "", bytes: &[] },
    ])
}

#[test]
fn sections_read_back_and_begin_at_pages() {
    let file = file();
    let sections = read(&file).unwrap();
    assert_eq!(sections.len(), 3);
    assert_eq!((sections[1].name, sections[1].bytes), ("weights/a", &[1, 2, 3][..]));
    let start = sections[1].bytes.as_ptr() as usize - file.as_ptr() as usize;
    assert_eq!(start % 4096, 0);
}

#[test]
fn every_changed_byte_is_noticed() {
    let file = file();
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 0x10;
        assert!(read(&changed).is_err(), "byte {at}");
    }
    for length in 0..file.len() {
        assert!(read(&file[..length]).is_err(), "cut off at {length}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = tokens::decode(&bytes);
        let _ = read(&bytes);
    }

    #[test]
    fn edited_programs_are_answered(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = encoded(TEXT);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(text) = tokens::decode(&bytes) {
            let mut log = Log::default();
            parser::parse(&text, SourceId(0), &mut log);
        }
    }
}
