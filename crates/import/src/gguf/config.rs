//! Sizes and constants of a Llama from the pairs of a GGUF file. Rotary positions follow llama.cpp: all of a
//! head is rotated, and `rope_freqs.weight` has a divisor for each pair of a head.

use tilewright_graph::Dtype;

use crate::error::{ImportError, ImportResult};
use crate::gguf::file::{Gguf, MetadataValue};
use crate::llama::{Config, Rope, Scaling};

/// Divisors of the frequencies, as Llama 3 files have them.
pub(super) const FREQUENCIES: &str = "rope_freqs.weight";

/// Pairs of the model; those of another type are refused, never passed over.
struct Metadata<'p, 'g>(&'p Gguf<'g>);

impl Metadata<'_, '_> {
    fn found<T>(
        &self,
        key: &str,
        allowed: &str,
        read: impl Fn(&MetadataValue) -> Option<T>,
    ) -> ImportResult<Option<T>> {
        let Some(item) = self.0.pairs.get(key) else { return Ok(None) };
        read(item).map(Some).ok_or_else(|| {
            ImportError::about(self.0.name, key, format!("is {}", item.named())).allowed(allowed)
        })
    }

    fn maybe_whole(&self, key: &str) -> ImportResult<Option<u64>> {
        self.found(&format!("llama.{key}"), "a whole number from 0, the same for all layers", |item| {
            match item {
                MetadataValue::Unsigned(number) => Some(*number),
                MetadataValue::Signed(number) => u64::try_from(*number).ok(),
                _ => None,
            }
        })
    }

    fn whole(&self, key: &str) -> ImportResult<u64> {
        self.maybe_whole(key)?.ok_or_else(|| {
            ImportError::about(self.0.name, format!("llama.{key}"), "is missing").allowed("a whole number")
        })
    }

    /// A number above zero.
    fn positive(&self, key: &str) -> ImportResult<Option<f64>> {
        self.found(&format!("llama.{key}"), "a number above 0", |item| match item {
            MetadataValue::Float(number) => {
                Some(*number).filter(|number| number.is_finite() && *number > 0.0)
            }
            #[expect(clippy::cast_precision_loss, reason = "a small number that was written without a point")]
            MetadataValue::Unsigned(number) => Some(*number as f64).filter(|number| *number > 0.0),
            _ => None,
        })
    }

    fn word(&self, key: &str) -> ImportResult<Option<String>> {
        self.found(key, "a text", |item| {
            if let MetadataValue::Text(text) = item { Some(text.clone()) } else { None }
        })
    }
}

pub(super) fn read(file: &Gguf<'_>) -> ImportResult<Config> {
    let pairs = Metadata(file);
    let kind = pairs.word("general.architecture")?.unwrap_or_default();
    if kind != "llama" {
        let what = format!("architecture `{kind}` is not known");
        return Err(ImportError::about(file.name, "general.architecture", what).allowed("llama"));
    }
    let (width, heads) = (pairs.whole("embedding_length")?, pairs.whole("attention.head_count")?);
    let vocabulary = file.tensors.get("token_embd.weight").and_then(|tensor| tensor.dims.first().copied());
    let head_width = match pairs.maybe_whole("attention.key_length")? {
        Some(width) => width,
        None => width.checked_div(heads).unwrap_or(0),
    };
    for key in ["attention.value_length", "rope.dimension_count"] {
        if let Some(other) = pairs.maybe_whole(key)?.filter(|other| *other != head_width) {
            let what = format!("is {other} where heads have {head_width} elements");
            return Err(ImportError::about(file.name, format!("llama.{key}"), what).allowed(format!(
                "{head_width}: keys and values of one width, all of it rotated by positions"
            )));
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "stored as f32")]
    let norm_eps = pairs.positive("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5) as f32;
    Ok(Config {
        name: pairs.word("general.name")?.unwrap_or_else(|| "llama".to_string()),
        width,
        hidden: pairs.whole("feed_forward_length")?,
        layers: pairs.whole("block_count")?,
        heads,
        kv_heads: pairs.maybe_whole("attention.head_count_kv")?.unwrap_or(heads),
        head_width,
        vocabulary: vocabulary.unwrap_or(0),
        // Within a sliding window every key is seen; longer contexts are not offered. 0 is written for none.
        context: pairs.whole("context_length")?.min(match pairs.maybe_whole("attention.sliding_window")? {
            None | Some(0) => u64::MAX,
            Some(window) => window,
        }),
        norm_eps,
        rope: Rope {
            theta: pairs.positive("rope.freq_base")?.unwrap_or(10000.0),
            interleaved: true,
            scaling: scaling(&pairs, head_width / 2)?,
        },
        tied: !file.tensors.contains_key("output.weight"),
    })
}

fn scaling(pairs: &Metadata<'_, '_>, rotary_pairs: u64) -> ImportResult<Scaling> {
    let file = pairs.0;
    let named = pairs.positive("rope.scaling.factor")?;
    let old = pairs.positive("rope.scale_linear")?;
    let factor = match (pairs.word("llama.rope.scaling.type")?.as_deref(), named.or(old)) {
        (Some("linear"), Some(factor)) => factor,
        (Some("linear"), None) => {
            return Err(ImportError::about(file.name, "llama.rope.scaling.factor", "is missing")
                .allowed("a number above 0 beside the type `linear`"));
        }
        (None, _) => old.unwrap_or(1.0),
        (Some("none"), _) => 1.0,
        (Some(other), _) => {
            let what = format!("`{other}` is not known");
            return Err(
                ImportError::about(file.name, "llama.rope.scaling.type", what).allowed("none, linear")
            );
        }
    };
    Ok(match divisors(file, rotary_pairs)? {
        Some(divisors) => Scaling::Factors(divisors.into_iter().map(|divisor| divisor * factor).collect()),
        None if factor.to_bits() == 1.0_f64.to_bits() => Scaling::None,
        None => Scaling::Linear(factor),
    })
}

/// A divisor for each pair of a head.
fn divisors(file: &Gguf<'_>, rotary_pairs: u64) -> ImportResult<Option<Vec<f64>>> {
    if !file.tensors.contains_key(FREQUENCIES) {
        return Ok(None);
    }
    let wrong = |what: String| ImportError::about(file.name, format!("tensor `{FREQUENCIES}`"), what);
    let stored = file.plain(FREQUENCIES)?.filter(|stored| stored.dtype == Dtype::F32);
    let stored = stored.ok_or_else(|| wrong("is not of F32".to_string()).allowed("F32"))?;
    if stored.dims != [rotary_pairs] {
        let what = format!("has sizes {:?}", stored.dims);
        return Err(wrong(what).allowed(format!("[{rotary_pairs}], a divisor for each pair of a head")));
    }
    let words = stored.bytes().as_chunks::<4>().0.iter();
    let divisors: Vec<f64> = words.map(|word| f64::from(f32::from_le_bytes(*word))).collect();
    let bad = divisors.iter().enumerate().find(|(_, divisor)| !divisor.is_finite() || **divisor <= 0.0);
    match bad {
        Some((at, divisor)) => Err(wrong(format!("element {at} is {divisor}"))
            .allowed("numbers above 0, which frequencies are divided by")),
        None => Ok(Some(divisors)),
    }
}
