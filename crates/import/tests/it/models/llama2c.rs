//! stories260K and stories15M from llama2.c checkpoints.

use tilewright_import::llama2c;
use tilewright_import::tokenizer::vocabulary::Vocabulary;

use crate::models::shared::{bytes, folder, golden, interpreter, reproduces, vectors};

fn all_ids(name: &str, free: usize) {
    let Some(folder) = folder(name) else { return };
    let file = format!("{name}.bin");
    let model = llama2c::read(&file, &bytes(&folder.join(&file))).expect("a checkpoint");
    reproduces(&interpreter(&model), &golden(&folder), free);
}

#[test]
fn stories260k_generates_its_golden_ids() {
    all_ids("stories260K", 4);
}

#[test]
fn stories15m_generates_its_golden_ids() {
    all_ids("stories15M", 1);
}

#[test]
fn prompts_become_their_golden_ids() {
    for (model, tokenizer) in
        [("stories260K", "stories260K/tok512.bin"), ("stories15M", "llama2-tokenizer/tokenizer.bin")]
    {
        let (Some(folder), Some(models)) = (folder(model), folder("")) else { return };
        let pieces = Vocabulary::llama2c(tokenizer, &bytes(&models.join(tokenizer))).expect("a tokenizer");
        for case in golden(&folder).cases {
            let ids: Vec<i64> = pieces.encode(&case.prompt).into_iter().map(i64::from).collect();
            assert_eq!(ids, case.prompt_ids, "{:?}", case.prompt);
            let ids: Vec<u32> = case.ids.iter().map(|id| u32::try_from(*id).expect("an id")).collect();
            assert_eq!(pieces.decode(&ids).trim_end(), case.text.trim_end());
        }
    }
}

#[test]
fn outside_vectors_are_met() {
    let Some(folder) = folder("llama2-tokenizer") else { return };
    let mut pieces =
        Vocabulary::llama2c("tokenizer.bin", &bytes(&folder.join("tokenizer.bin"))).expect("a tokenizer");
    pieces.begin = None;
    for (input, wanted) in vectors(&folder) {
        assert_eq!(pieces.encode(&input), wanted, "{input:?}");
    }
}
