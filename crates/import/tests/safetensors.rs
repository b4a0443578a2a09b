//! Our reader of safetensors against the crate of its authors: what that one writes is read as it was, and of files that were changed
//! whatever it takes is taken and means the same.

#![expect(clippy::disallowed_methods, reason = "the tests read the repository")]

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use tilewright_import::hf::safetensors::Tensors;

/// Our reading of a file.
fn ours(bytes: &[u8]) -> Result<Tensors, String> {
    let bytes = Arc::new(bytes.to_vec());
    let file = |name: &str| (name == "model.safetensors").then(|| Arc::clone(&bytes));
    Tensors::open(&file).map_err(|error| error.to_string())
}

/// Types that weights have.
fn is_weight(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16)
}

/// Every weight that the crate sees is there with the same sizes and bytes; the number of them.
fn agree(theirs: &SafeTensors<'_>, ours: &Tensors) -> Result<usize, String> {
    let mut found = 0;
    for (name, view) in theirs.iter().filter(|(_, view)| is_weight(view.dtype())) {
        let dims: Vec<u64> = view.shape().iter().map(|size| *size as u64).collect();
        let tensor = ours.get(name, &dims).map_err(|error| error.to_string())?;
        if tensor.bytes() != view.data() {
            return Err(format!("`{name}` has other bytes"));
        }
        found += 1;
    }
    Ok(found)
}

/// A small file: names, and types and sizes of their tensors.
fn file() -> impl Strategy<Value = Vec<u8>> {
    let dtype =
        prop_oneof![Just(Dtype::F32), Just(Dtype::F16), Just(Dtype::BF16), Just(Dtype::I64), Just(Dtype::U8)];
    let tensor = (dtype, prop::collection::vec(0_usize..5, 0..4));
    prop::collection::btree_map("[a-z.\"\\\\é]{1,6}", tensor, 0..6).prop_map(|tensors| {
        let data: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = tensors
            .into_iter()
            .map(|(name, (dtype, dims))| {
                let bytes = dims.iter().product::<usize>() * dtype.bitsize() / 8;
                (name, dtype, dims, (0..bytes).map(|at| (at * 37 % 256).to_le_bytes()[0]).collect())
            })
            .collect();
        let views = data.iter().map(|(name, dtype, dims, bytes)| {
            (name, TensorView::new(*dtype, dims.clone(), bytes).expect("bytes of these sizes"))
        });
        serialize(views, None).expect("a file")
    })
}

proptest! {
    #[test]
    fn what_their_writer_gives_is_read_as_it_was(file in file()) {
        let theirs = SafeTensors::deserialize(&file).expect("their own file");
        let weights = theirs.iter().filter(|(_, view)| is_weight(view.dtype())).count();
        let ours = ours(&file).map_err(TestCaseError::fail)?;
        prop_assert_eq!(agree(&theirs, &ours), Ok(weights));
    }

    #[test]
    fn what_they_take_of_a_changed_file_means_the_same(
        file in file(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = file;
        for (at, byte) in changes {
            // The table alone: values are whatever they are.
            let at = at.index(file.len().min(200));
            file[at] = byte;
        }
        for file in [&file[..], &file[..cut.index(file.len())]] {
            let own = ours(file);
            if let Ok(theirs) = SafeTensors::deserialize(file) {
                let own = own.map_err(TestCaseError::fail)?;
                prop_assert!(agree(&theirs, &own).is_ok(), "{:?}", agree(&theirs, &own));
            }
        }
    }
}

#[test]
fn the_model_of_this_repository_is_read_as_they_read_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/fables/model.safetensors");
    let bytes = std::fs::read(path).expect("the model is part of the repository");
    let theirs = SafeTensors::deserialize(&bytes).expect("a file of theirs");
    let found = agree(&theirs, &ours(&bytes).expect("a file of ours"));
    assert_eq!(found, Ok(theirs.len()));
    assert!(theirs.len() > 5);
}
