//! The filter: elements whose tag matches, packed to the front of their flit; zeros behind them.

use super::stream::WordStream;

pub(super) fn apply(mask: u8, value: u8, stream: &mut WordStream) {
    if stream.tags.is_empty() {
        stream.tags = vec![0; stream.words.len()];
    }
    for (flit, tags) in stream.words.chunks_mut(stream.width).zip(stream.tags.chunks(stream.width)) {
        let mut kept = 0;
        for index in 0..flit.len() {
            if tags.get(index).is_some_and(|tag| tag & mask == value) {
                flit.swap(kept, index);
                kept += 1;
            }
        }
        flit.iter_mut().skip(kept).for_each(|word| *word = 0);
    }
}
