//! Readings of safetensors against the crate of its authors alone: what that one writes is read as it was,
//! and of files that were changed exactly those that it takes are taken, mean the same, and the others are
//! refused with the name of the file, of the tensor where one is at fault, and without a panic where the
//! crate has one.

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

/// A file with one tensor of two floats.
fn single(name: &str, value: f32) -> Vec<u8> {
    let bytes = [value.to_le_bytes(), value.to_le_bytes()].concat();
    let view = TensorView::new(Dtype::F32, vec![2], &bytes).expect("two floats");
    serialize([(name, view)], None).expect("a file")
}

/// A tensor that stands in two files is the one of the file that the index says; without its word it is
/// refused.
#[test]
fn a_tensor_of_two_files_is_the_one_that_the_index_names() {
    let open = |map: &str| {
        let index = format!("{{\"weight_map\": {map}}}");
        let read = |name: &str| match name {
            "model.safetensors.index.json" => Some(Arc::new(index.clone().into_bytes())),
            "1.safetensors" => Some(Arc::new(single("w", 1.0))),
            "2.safetensors" => Some(Arc::new(single("w", 2.0))),
            "3.safetensors" => Some(Arc::new(single("other", 3.0))),
            _ => None,
        };
        Tensors::open(&read).map_err(|error| error.to_string())
    };
    for (file, value) in [("1.safetensors", 1_f32), ("2.safetensors", 2.0)] {
        let map = format!(r#"{{"w": "{file}", "a": "1.safetensors", "b": "2.safetensors"}}"#);
        let tensor = open(&map).and_then(|found| found.get("w", &[2]).map_err(|error| error.to_string()));
        assert_eq!(tensor.expect("one of them").bytes()[..4], value.to_le_bytes(), "{file}");
    }
    for map in [
        r#"{"a": "1.safetensors", "b": "2.safetensors"}"#,
        r#"{"w": "3.safetensors", "a": "1.safetensors", "b": "2.safetensors"}"#,
    ] {
        let refused = open(map).err().expect("two of them");
        assert!(refused.starts_with("2.safetensors: tensor `w`: is in `1.safetensors` too"), "{refused}");
        assert!(refused.contains("= instead: its file in `weight_map`"), "{refused}");
    }
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
            match SafeTensors::deserialize(file) {
                Ok(theirs) => {
                    let own = own.map_err(TestCaseError::fail)?;
                    prop_assert!(agree(&theirs, &own).is_ok(), "{:?}", agree(&theirs, &own));
                }
                Err(refusal) => {
                    let own = own.err().unwrap_or_default();
                    prop_assert!(own.starts_with("model.safetensors: "), "{refusal}: {own}");
                }
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

/// A file of a table and bytes behind it.
fn with_table(table: &str, data: usize) -> Vec<u8> {
    [&(table.len() as u64).to_le_bytes()[..], table.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn refusals_name_the_tensor() {
    let refused = |table: &str| ours(&with_table(table, 8)).err().unwrap_or_default();
    let whole = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    assert_eq!(refused(whole), "");
    for (from, to, wanted) in [
        ("[4,8]", "[5,9]", "tensor `b`: begins at byte 5, where byte 4 is due"),
        ("[4,8]", "[8,4]", "tensor `b`: sizes [1] of F32 do not fit bytes 8 to 4"),
        (
            "[1],\"data_offsets\":[0",
            "[3],\"data_offsets\":[0",
            "tensor `a`: sizes [3] of F32 do not fit bytes 0 to 4",
        ),
        (
            "\"shape\":[1],\"data_offsets\":[4",
            "\"data_offsets\":[4",
            "tensor `b`: its entry: missing field `shape`",
        ),
        (
            "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4",
            "\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[4",
            "tensor `b`: is of type F33",
        ),
        ("[4,8]", "[4,-8]", "tensor `b`: its entry: invalid value: integer `-8`"),
        ("}}", "", "its table is no JSON: EOF"),
    ] {
        assert!(whole.contains(from), "{from}");
        let why = refused(&whole.replacen(from, to, 1));
        assert!(why.starts_with(&format!("model.safetensors: {wanted}")), "{why}");
    }
    let cut = ours(&with_table(whole, 7)).err().unwrap_or_default();
    assert!(cut.starts_with("model.safetensors: has 7 bytes of tensors, and its table names 8"), "{cut}");
}

/// Places at the end of what an address holds: the crate's own reader adds the length of the table to them.
#[test]
fn places_beyond_every_file_are_refused() {
    let (ninth, end) = (u64::MAX / 9, u64::MAX / 9 * 9);
    let entry = |at: u64| {
        format!(
            r#""{at}":{{"dtype":"U8","shape":[{ninth}],"data_offsets":[{},{}]}}"#,
            at * ninth,
            (at + 1) * ninth
        )
    };
    let table: Vec<String> = (0..9).map(entry).collect();
    let why = ours(&with_table(&format!("{{{}}}", table.join(",")), 8)).err().unwrap_or_default();
    assert!(
        why.starts_with(&format!("model.safetensors: has 8 bytes of tensors, and its table names {end}")),
        "{why}"
    );
}
