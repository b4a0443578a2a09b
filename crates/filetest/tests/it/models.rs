//! A small model through the whole path: compiled, run, written to a file and executed, and refused where
//! something is wrong.

use std::path::Path;

use tilewright_cli::{BAD_INPUT, FAILED, Host};
use tilewright_filetest::host::{TestHost, good, tilewright};
use tilewright_filetest::repository;
use tilewright_ir::binary;

const LAYERS: u32 = 2;
const WIDTH: u32 = 96;
const HIDDEN: u32 = 128;
const HEADS: u32 = 6;
const KV_HEADS: u32 = 2;
const WORDS: u32 = 264;
const POSITIONS: u32 = 64;

/// Numbers that look random, each time the same.
fn drawn(count: u32, scale: f32, state: &mut u64) -> Vec<u8> {
    let mut next = || {
        let high = u16::try_from(tilewright_base::random::next(state) >> 48).expect("sixteen bits");
        (f32::from(high) / 32768.0 - 1.0) * scale
    };
    (0..count).flat_map(|_| next().to_le_bytes()).collect()
}

/// A llama2.c checkpoint with three heads of queries to each of keys.
fn model() -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS, WORDS, POSITIONS] {
        bytes.extend(number.to_le_bytes());
    }
    let kv = WIDTH / HEADS * KV_HEADS;
    let ones = |count: u32| (0..count).flat_map(|_| 1_f32.to_le_bytes()).collect::<Vec<u8>>();
    let state = &mut 1;
    bytes.extend(drawn(WORDS * WIDTH, 0.5, state));
    bytes.extend(ones(LAYERS * WIDTH));
    for count in [WIDTH * WIDTH, WIDTH * kv, WIDTH * kv, WIDTH * WIDTH] {
        bytes.extend(drawn(LAYERS * count, 0.2, state));
    }
    bytes.extend(ones(LAYERS * WIDTH));
    (0..3).for_each(|_| bytes.extend(drawn(LAYERS * WIDTH * HIDDEN, 0.2, state)));
    bytes.extend(ones(WIDTH));
    bytes.extend(ones(POSITIONS * WIDTH / HEADS));
    bytes
}

/// A token for each byte, and one for a space.
fn tokenizer() -> Vec<u8> {
    let mut bytes = 8_u32.to_le_bytes().to_vec();
    for id in 0..WORDS {
        let piece = match id {
            0 => "<unk>".to_string(),
            1 => "\n<s>\n".to_string(),
            2 => "\n</s>\n".to_string(),
            3..=258 => format!("<0x{:02X}>", id - 3),
            259 => " ".to_string(),
            _ => format!("w{id}"),
        };
        bytes.extend(0_f32.to_le_bytes());
        bytes.extend(u32::try_from(piece.len()).expect("short").to_le_bytes());
        bytes.extend(piece.as_bytes());
    }
    bytes
}

fn given() -> TestHost {
    let mut host = TestHost { root: repository(), ..TestHost::default() };
    host.given.insert("m/model.bin".into(), model());
    host.given.insert("m/tokenizer.bin".into(), tokenizer());
    host
}

/// Prompts of one token, of some, and of many; each goes on as it does alone.
#[test]
fn texts_go_on_together_as_they_do_alone() {
    let mut host = given();
    let long = "xyz".repeat(14);
    let run =
        format!("run m/model.bin --prompt abc --prompt  --prompt {long} --max-tokens 8 --dtype bf16 --json");
    let data: serde_json::Value = serde_json::from_str(&good(&run, &mut host)).expect("JSON");
    let texts =
        [(&data, "abc"), (&data["other_sequences"][0], ""), (&data["other_sequences"][1], long.as_str())];
    for (text, prompt) in texts {
        let alone = good(&format!("run m/model.bin --prompt {prompt} --max-tokens 8 --json"), &mut host);
        let alone: serde_json::Value = serde_json::from_str(&alone).expect("JSON");
        for key in ["prompt_tokens", "tokens", "text", "stop"] {
            assert_eq!(text[key], alone[key], "{key} of {prompt}");
        }
    }
    assert_eq!(data["decode"]["tokens"], 21, "seven of each are fed back");
    assert_eq!(data["decode"]["runs"], 7);
    let words = good("run m/model.bin --prompt abc --prompt q --max-tokens 2", &mut host);
    assert!(words.contains("2 in one batch") && words.contains("generated   4 tokens"), "{words}");
    let halves = |line: &str| line.contains(" embed ") && line.contains(" 0.5 ");
    assert!(words.lines().any(halves), "one command for both: {words}");
    let too_long = format!("--prompt {long}{long}");
    for refused in ["--prompt q --interp", "--prompt q --trace t", "--with q", &too_long] {
        let outcome = tilewright(&format!("run m/model.bin --prompt abc {refused}"), &mut host);
        assert_eq!(outcome.code, BAD_INPUT, "{refused}: {}", outcome.stderr);
    }
}

#[test]
fn a_run_says_what_it_took() {
    let mut host = given();
    let run = "run m/model.bin --prompt abc --max-tokens 5 --json --trace t.pftrace";
    let data: serde_json::Value = serde_json::from_str(&good(run, &mut host)).expect("JSON");
    assert_eq!(data["tokens"].as_array().map(Vec::len), Some(5));
    let interp = good("run m/model.bin --prompt abc --max-tokens 5 --json --interp", &mut host);
    let interp: serde_json::Value = serde_json::from_str(&interp).expect("JSON");
    assert_eq!(data["tokens"], interp["tokens"], "the interpreter's");
    assert_eq!(data["prompt_tokens"].as_array().map(Vec::len), Some(5), "begin, space, three letters");
    for key in ["prefill_ms", "ms_per_token", "energy_mj_per_token"] {
        assert!(data[key].as_f64().is_some_and(|value| value > 0.0), "{key}");
    }
    for key in ["main", "sub", "dma", "mac", "hbm"] {
        let part = data["utilisation"][key].as_f64();
        assert!(part.is_some_and(|part| part > 0.0 && part <= 1.0), "{key}");
    }
    let kinds = data["breakdown"].as_array().expect("a list");
    assert!(kinds.iter().any(|kind| kind["kind"] == "project" && kind["cycles"].as_u64() > Some(0)));
    assert!(host.written["t.pftrace"].len() > 1000, "the trace");
    let words = good("run m/model.bin --prompt abc --max-tokens 5", &mut host);
    assert!(words.contains("tokens/s of the simulated chip") && words.contains("MAC"), "{words}");
}

#[test]
fn a_file_runs_as_the_model_and_prints_its_programs() {
    let mut host = given();
    // By the rule, as `run` compiles.
    good("compile m/model.bin --context 16 --effort 0 -o m.twb", &mut host);
    let asked = "--prompt abc --max-tokens 6 --json";
    let run = good(&format!("run m/model.bin --context 16 {asked}"), &mut host);
    let file = host.written["m.twb"].clone();
    for program in ["decode", "prefill", "clear"] {
        let text = good(
            &format!("compile m/model.bin --context 16 --effort 0 --emit commands --program {program}"),
            &mut host,
        );
        assert_eq!(good(&format!("disasm m.twb --program {program}"), &mut host), text, "{program}");
    }
    host.given.clear();
    assert_eq!(good(&format!("exec m.twb {asked}"), &mut host), run, "without the model");
    for at in [4096, file.len() / 2, file.len() - 1] {
        let mut bad = file.clone();
        bad[at] ^= 1;
        host.given.insert("bad.twb".into(), bad);
        assert_eq!(tilewright(&format!("exec bad.twb {asked}"), &mut host).code, BAD_INPUT, "byte {at}");
    }
    let unknown = tilewright("disasm m.twb --program nothing", &mut host);
    assert!(unknown.stderr.contains("decode, prefill, clear"), "{}", unknown.stderr);
}

fn json(words: &str, host: &mut TestHost) -> serde_json::Value {
    serde_json::from_str(&good(words, host)).expect("JSON")
}

/// Texts up to the batch of a file go on as they do from the model, each as it does alone; more are refused.
#[test]
fn a_file_serves_as_many_texts_as_its_batch() {
    let mut host = given();
    let compile = "compile m/model.bin --batch 3 --context 64 --effort 0";
    good(&format!("{compile} -o m.twb"), &mut host);
    good("compile m/model.bin --context 64 --effort 0 -o one.twb", &mut host);
    let long = "xyz".repeat(14);
    let asked = [
        "--prompt abc --max-tokens 6 --json".to_string(),
        "--prompt abc --prompt q --max-tokens 6 --json".to_string(),
        format!("--prompt abc --prompt  --prompt {long} --max-tokens 6 --json"),
    ];
    let own = asked.each_ref().map(|asked| json(&format!("run m/model.bin {asked}"), &mut host));
    let batch = good(&format!("{compile} --emit commands --program batch"), &mut host);
    host.given.clear();
    for (asked, own) in asked.iter().zip(&own) {
        for verb in ["exec", "run"] {
            let file = json(&format!("{verb} m.twb {asked}"), &mut host);
            for key in ["prompt_tokens", "tokens", "text", "stop", "other_sequences"] {
                assert_eq!(file[key], own[key], "{key} of {verb} {asked}");
            }
        }
    }
    assert_eq!(good("disasm m.twb --program batch", &mut host), batch);
    for (file, texts, most) in [("m.twb", 4, 3), ("one.twb", 2, 1)] {
        let with = " --prompt q".repeat(texts - 1);
        let more = tilewright(&format!("exec {file} --prompt abc{with}"), &mut host);
        let said = format!(
            "error: {texts} sequences at the same time\n  = allowed: 1 to {most}, the batch that the file \
             was compiled for\n  \
             = instead: fewer --prompt, or tilewright compile MODEL --batch {texts} -o FILE\n"
        );
        assert_eq!((more.code, more.stderr), (BAD_INPUT, said));
    }
    let decided = tilewright("run m.twb --prompt abc --pes 2", &mut host);
    assert!(decided.stderr.starts_with("error: --pes with `m.twb`, which is compiled"), "{}", decided.stderr);
}

/// A plan that says another batch than the programs are for, or one that no chip has, is refused.
#[test]
fn a_file_with_another_batch_is_refused() {
    let mut host = given();
    good("compile m/model.bin --batch 2 --context 64 --effort 0 -o m.twb", &mut host);
    let file = host.written["m.twb"].clone();
    let sections = binary::read(&file).expect("a file of sections");
    for batch in ["batch 0", "batch 1", "batch 3", "batch 65", "batch 18446744073709551615", "batch x"] {
        let edited: Vec<(binary::SectionKind, &str, Vec<u8>)> = sections
            .iter()
            .map(|section| {
                let text = String::from_utf8_lossy(section.bytes);
                let bytes = match section.name {
                    "plan" => text.replace("batch 2", batch).into_bytes(),
                    _ => section.bytes.to_vec(),
                };
                (section.kind, section.name, bytes)
            })
            .collect();
        let edited: Vec<binary::Section<'_>> =
            edited.iter().map(|(kind, name, bytes)| binary::Section { kind: *kind, name, bytes }).collect();
        host.given.insert("bad.twb".into(), binary::write(&edited));
        let refused = tilewright("exec bad.twb --prompt abc --max-tokens 2", &mut host);
        assert!([BAD_INPUT, FAILED].contains(&refused.code), "{batch}: {} {}", refused.code, refused.stdout);
    }
    for batch in ["0", "513", "18446744073709551615"] {
        let refused = tilewright(&format!("compile m/model.bin --batch {batch}"), &mut host);
        let said = format!(
            "error: the batch is {batch}\n  = allowed: 1 to 512, a row of a slice of a PE for each: 64 \
             slices of 8 rows\n"
        );
        assert_eq!((refused.code, refused.stderr), (BAD_INPUT, said));
    }
    let none = tilewright("compile m/model.bin --emit commands --program batch", &mut host);
    assert!(
        none.stderr.contains("allowed: decode, prefill, clear\n  = instead: --batch N"),
        "{}",
        none.stderr
    );
}

/// A tokenizer of fewer tokens than the model has: what cannot be written is told of. One of more: what the
/// model lacks is refused.
#[test]
fn tokenizers_of_other_sizes_are_told_of() {
    let mut host = given();
    // Three tokens and forty bytes.
    let mut few = tokenizer();
    let each: usize = 4 + 4 + "<0x00>".len();
    let first = few.windows(6).position(|part| part == b"<0x00>").expect("a byte") - 8;
    few.truncate(first + 40 * each);
    host.given.insert("few.bin".into(), few);
    let asked = "--prompt ! --max-tokens 8 --tokenizer few.bin --json";
    for verb in ["run m/model.bin", "run m/model.bin --interp"] {
        let outcome = tilewright(&format!("{verb} {asked}"), &mut host);
        let data: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        let tokens = data["tokens"].as_array().expect("a list");
        let lost = tokens.iter().filter(|token| token.as_u64() >= Some(43)).count();
        assert!(lost > 0, "{tokens:?}");
        let said = format!("warning: {lost} of {} tokens have no text, ", tokens.len());
        assert!(outcome.stderr.starts_with(&said), "{verb}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(": the tokenizer has 43 of the model's 264\n"), "{}", outcome.stderr);
    }
    assert_eq!(tilewright("run m/model.bin --prompt abc --max-tokens 8", &mut host).stderr, "", "its own");
    let mut more = tokenizer();
    more.extend([&0_f32.to_le_bytes()[..], &2_u32.to_le_bytes(), b"ab"].concat());
    host.given.insert("more.bin".into(), more);
    for verb in ["run m/model.bin", "run m/model.bin --interp"] {
        let refused = tilewright(&format!("{verb} --prompt xab --tokenizer more.bin"), &mut host);
        let said = "error: the tokenizer gives token 264 for the prompt\n  = allowed: below 264, the \
                    vocabulary of the model\n  \
                    = instead: the model's own tokenizer, --tokenizer FILE\n";
        assert_eq!((refused.code, refused.stderr.as_str()), (BAD_INPUT, said), "{verb}");
    }
}

/// What `generation_config.json` says ends a text, before the names of tokens; a compiled file keeps it.
#[test]
fn a_folder_says_what_ends_a_text() {
    let mut host = TestHost { root: repository(), ..TestHost::default() };
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        let bytes = host.read(&Path::new("models/fables").join(name)).expect("a file of the repository");
        host.given.insert(format!("f/{name}"), bytes);
    }
    let asked = "--prompt The --max-tokens 6 --json";
    let all = json(&format!("run f {asked}"), &mut host)["tokens"].as_array().expect("tokens").clone();
    let end = &all[3];
    let before: Vec<_> = all.iter().take_while(|token| *token != end).cloned().collect();
    let said = format!("{{\"eos_token_id\": [0, {end}]}}");
    host.given.insert("f/generation_config.json".into(), said.into_bytes());
    good("compile f --context 64 --effort 0 -o f.twb", &mut host);
    for verb in ["run f", "run f --interp", "exec f.twb"] {
        let ended = json(&format!("{verb} {asked}"), &mut host);
        assert_eq!(ended["tokens"].as_array(), Some(&before), "{verb}");
        assert!(verb.contains("--interp") || ended["stop"] == "end", "{verb}");
    }
    host.given.insert("f/generation_config.json".into(), b"{\"eos_token_id\": \"end\"}".to_vec());
    for verb in ["run f --prompt The", "compile f --context 64 --effort 0 -o bad.twb"] {
        let refused = tilewright(verb, &mut host);
        assert_eq!(refused.code, BAD_INPUT, "{verb}");
        assert!(
            refused.stderr.starts_with("error: f/generation_config.json: eos_token_id: is `\"end\"`"),
            "{}",
            refused.stderr
        );
    }
    assert!(!host.written.contains_key("bad.twb"));
}

/// Scales that a text gives are in the kernels, in the file and in what it says.
#[test]
fn scales_of_a_text_stay_with_the_model() {
    let mut host = given();
    host.given.insert("text".into(), b"abc cab\n\nbca\n".to_vec());
    let with = "--dtype w8a8 --calibrate text --context 64";
    let kernels = good(&format!("compile m/model.bin {with} --emit kernels"), &mut host);
    // A norm and a combination, twice in each block; the last norm.
    assert_eq!(kernels.lines().filter(|line| line.starts_with("amax ")).count(), 4 * 2 + 1);
    good(&format!("compile m/model.bin {with} --effort 0 -o m.twb"), &mut host);
    let file = host.written["m.twb"].clone();
    host.given.insert("m.twb".into(), file);
    let run = good(&format!("run m/model.bin --prompt abc --max-tokens 5 --json {with}"), &mut host);
    let exec = good("exec m.twb --prompt abc --max-tokens 5 --json", &mut host);
    assert_eq!(run, exec);
    // Ranges of a cache of eight bits, with or without other integers; an effort finds the same programs for
    // both verbs.
    let with = "--dtype bf16 --cache int8 --calibrate text --context 64 --effort 1";
    let kernels = good(&format!("compile m/model.bin {with} --emit kernels"), &mut host);
    let starts = |word: &str| kernels.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((starts("range "), starts("amax ")), (2, 0), "{kernels}");
    good(&format!("compile m/model.bin {with} -o cache.twb"), &mut host);
    let run = good(&format!("run m/model.bin --prompt abc --max-tokens 5 --json {with}"), &mut host);
    assert_eq!(run, good("exec cache.twb --prompt abc --max-tokens 5 --json", &mut host));
    let empty = tilewright("run m/model.bin --prompt abc --dtype int8 --calibrate m/none", &mut host);
    assert!(empty.code == BAD_INPUT && empty.stderr.contains("cannot read `m/none`"), "{}", empty.stderr);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut host = given();
    let prompt = "a".repeat(63);
    let long = tilewright(&format!("run m/model.bin --prompt {prompt}"), &mut host);
    assert_eq!(long.code, BAD_INPUT);
    let said = "error: the prompt has 65 tokens\n  = allowed: 1 to 64, the positions of the model\n  = \
                instead: a shorter prompt\n";
    assert_eq!(long.stderr, said);
    let interp = tilewright(&format!("run m/model.bin --interp --prompt {prompt}"), &mut host);
    assert_eq!((interp.code, interp.stderr.as_str()), (BAD_INPUT, said));
    let full = format!("run m/model.bin --prompt {} --max-tokens 9 --json", &prompt[4..]);
    let interp: serde_json::Value =
        serde_json::from_str(&good(&format!("{full} --interp"), &mut host)).expect("JSON");
    let full: serde_json::Value = serde_json::from_str(&good(&full, &mut host)).expect("JSON");
    assert_eq!((full["tokens"].as_array().map(Vec::len), full["stop"].as_str()), (Some(4), Some("context")));
    assert_eq!(interp["tokens"].as_array().map(Vec::len), Some(4), "the interpreter stops there too");
    for verb in ["run m/model.bin --prompt abc", "compile m/model.bin"] {
        let wide = tilewright(&format!("{verb} --context 99999999"), &mut host);
        let said = "error: --context 99999999\n  = allowed: 1 to 64, the positions of the model\n  = \
                    instead: --context 64\n";
        assert_eq!((wide.code, wide.stderr.as_str()), (BAD_INPUT, said), "{verb}");
    }
    let mut short = model();
    short.truncate(5000);
    host.given.insert("m/short.bin".into(), short);
    for verb in ["run m/short.bin --prompt abc", "compile m/short.bin -o short.twb"] {
        let refused = tilewright(verb, &mut host);
        assert_eq!(refused.code, BAD_INPUT, "{verb}");
        assert!(refused.stderr.contains("m/short.bin"), "{}", refused.stderr);
    }
    let small =
        tilewright("compile m/model.bin --set dm.capacity_bytes=32768 --context 16 -o small.twb", &mut host);
    assert_eq!(small.code, FAILED, "{}", small.stderr);
    assert!(small.stderr.contains("data memory"), "{}", small.stderr);
    assert!(host.written.is_empty(), "no file is left: {:?}", host.written.keys());
}

/// A model of fewer positions than a chip has slices: contexts are rounded up, positions are not.
#[test]
fn generation_ends_with_the_positions() {
    let mut host = given();
    let mut few = model();
    few[24..28].copy_from_slice(&20_u32.to_le_bytes());
    few.truncate(few.len() - 4 * ((POSITIONS - 20) * WIDTH / HEADS) as usize);
    host.given.insert("m/few.bin".into(), few);
    let data = good("run m/few.bin --prompt abcdefghijklm --max-tokens 30 --json", &mut host);
    let data: serde_json::Value = serde_json::from_str(&data).expect("JSON");
    assert_eq!((data["tokens"].as_array().map(Vec::len), data["stop"].as_str()), (Some(6), Some("context")));
    let long = tilewright("run m/few.bin --prompt abcdefghijklmnopqrst", &mut host);
    assert_eq!(long.code, BAD_INPUT);
    assert!(long.stderr.contains("22 tokens\n  = allowed: 1 to 20, the positions"), "{}", long.stderr);
}

/// What the interpreter would pass over, and graphs that a prompt means nothing to.
#[test]
fn the_interpreter_refuses_what_it_does_not_do() {
    let mut host = given();
    let options = [
        "--dtype int8",
        "--pes 2",
        "--trace t",
        "--context 16",
        "--effort 1",
        "--chip tcp",
        "--set hbm.efficiency=0.9",
    ];
    for option in options {
        let refused = tilewright(&format!("run m/model.bin --prompt abc --interp {option}"), &mut host);
        assert_eq!(refused.code, BAD_INPUT, "{option}");
        let name = option.split(' ').next().unwrap_or_default();
        assert!(refused.stderr.contains("--interp") && refused.stderr.contains(name), "{}", refused.stderr);
    }
    let graph = "graph 1\nname plain\ninput x: f32[2, 4]\nlet y: f32[2, 4] = neg(x)\noutput y = y\n";
    host.given.insert("plain.graph".into(), graph.as_bytes().to_vec());
    let plain = tilewright("run plain.graph --prompt abc --interp", &mut host);
    assert_eq!(plain.code, BAD_INPUT);
    let said = "error: `plain.graph` takes no text: its inputs are x, its outputs y\n  = allowed: an input \
                tokens or input_ids";
    assert!(plain.stderr.starts_with(said), "{}", plain.stderr);
}
