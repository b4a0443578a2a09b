//! Pages of off-chip memory that are lent and changed.

use std::sync::Arc;

use tilewright_tcp_exec::inside::{HbmPages, PAGE_BYTES};
use tilewright_tcp_exec::state::SharedBytes;

/// Bytes that differ from page to page.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at / PAGE_BYTES + at % 251).to_le_bytes()[0]).collect()
}

#[test]
fn lent_pages_read_as_copies_do_and_keep_what_is_written() {
    for (offset, count) in
        [(0, 3 * PAGE_BYTES + 5), (7, 2 * PAGE_BYTES), (PAGE_BYTES as u64, PAGE_BYTES), (3, 4)]
    {
        let held = Arc::new(bytes(count + 9));
        let shared = SharedBytes::new(held.clone(), 9..count + 9).expect("a part");
        let (mut lent, mut copied) = (HbmPages::default(), HbmPages::default());
        lent.lend(offset, &shared);
        copied.write(offset, shared.bytes());
        let same = |lent: &HbmPages, copied: &HbmPages| {
            let (mut one, mut other) = (vec![1; count + 64], vec![2; count + 64]);
            lent.read(offset.saturating_sub(3), &mut one);
            copied.read(offset.saturating_sub(3), &mut other);
            one == other
        };
        assert!(same(&lent, &copied));
        for at in [offset, offset + count as u64 / 2, offset + count as u64 - 2] {
            lent.write(at, &[0xA5, 0x5A, 0xFF]);
            copied.write(at, &[0xA5, 0x5A, 0xFF]);
        }
        assert!(same(&lent, &copied));
        assert_eq!(*held, bytes(count + 9), "the holder's bytes stay");
    }
}

#[test]
fn what_is_held_stays_while_pages_change() {
    let mut pages = HbmPages::default();
    pages.write(0, &bytes(PAGE_BYTES));
    let held = pages.held(16, 4096).expect("a part");
    pages.write(20, &[1, 2, 3]);
    assert_eq!(held.bytes(), &bytes(PAGE_BYTES)[16..16 + 4096]);
    let mut read = [0; 3];
    pages.read(20, &mut read);
    assert_eq!(read, [1, 2, 3]);
    assert!(pages.held(16, 4096).is_none(), "bytes that change are copied");
    assert!(pages.held(PAGE_BYTES as u64 / 2, 4096).is_none(), "and so are those behind them");
    assert!(pages.held(0, 8).is_none() && pages.held(PAGE_BYTES as u64 - 8, 4096).is_none());
}

#[test]
fn what_lies_before_bytes_that_change_is_lent_on() {
    let mut pages = HbmPages::default();
    let mut plain = bytes(PAGE_BYTES);
    pages.write(0, &plain);
    let first = pages.held(0, 4096).expect("a part");
    for (at, value) in [(8192, 1), (PAGE_BYTES - 3, 2), (8190, 3), (100, 4), (50, 5)] {
        let held = pages.held(4096, 4096);
        assert_eq!(held.is_some(), at > 8190 || value == 3, "before the write at {at}");
        pages.write(at as u64, &[value; 3]);
        plain[at..at + 3].fill(value);
        let mut read = vec![0; PAGE_BYTES];
        pages.read(0, &mut read);
        assert!(read == plain, "after the write at {at}");
    }
    assert_eq!(first.bytes(), &bytes(PAGE_BYTES)[..4096]);
}

#[test]
fn no_more_is_lent_than_is_held() {
    let held = Arc::new(bytes(16));
    assert!(SharedBytes::new(held.clone(), 0..17).is_none());
    assert!(SharedBytes::new(held.clone(), 9..usize::MAX).is_none());
    let shared = SharedBytes::new(held, 4..16).expect("a part");
    assert_eq!(shared.bytes().len(), 12);
    assert!(
        shared.part(4, 8).is_some() && shared.part(4, 9).is_none() && shared.part(usize::MAX, 2).is_none()
    );
}
