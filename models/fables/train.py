"""Trains the embedded model and writes it here in Hugging Face layout.

    pip install jax==0.10.2 numpy tokenizers
    python train.py [--steps 2000] [--resume]

A Llama of 853,000 parameters on fables that `fables.py` makes; about an hour on two quiet cores. Same versions and steps, same weights on the same kind
of host: all randomness comes from seeds. `--resume` goes on from the weights and the vocabulary that are here. Every row of a batch begins where a fable
begins: whoever comes into a story in the middle cannot know which animals it is about.
"""

import argparse
import json
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import tokenizers

import fables

HERE = pathlib.Path(__file__).parent
VOCABULARY, WIDTH, LAYERS, HEADS, KV_HEADS, HEAD_WIDTH, FEED_FORWARD = 512, 128, 4, 4, 2, 32, 384
THETA, EPSILON, POSITIONS = 10000.0, 1e-5, 512
BATCH, LENGTH, FABLES, HELD_OUT = 8, 160, 30000, 200
BEGIN, END = 0, 1


def train_tokenizer(texts):
    """Byte-level pairs, merged by how often they stand side by side."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BEGIN)])
    return tokenizer


def first_weights(key):
    """Weights before training, named as in a checkpoint."""
    shapes = {"model.embed_tokens.weight": (VOCABULARY, WIDTH), "model.norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        shapes |= {
            name + "input_layernorm.weight": (WIDTH,),
            name + "self_attn.q_proj.weight": (HEADS * HEAD_WIDTH, WIDTH),
            name + "self_attn.k_proj.weight": (KV_HEADS * HEAD_WIDTH, WIDTH),
            name + "self_attn.v_proj.weight": (KV_HEADS * HEAD_WIDTH, WIDTH),
            name + "self_attn.o_proj.weight": (WIDTH, HEADS * HEAD_WIDTH),
            name + "post_attention_layernorm.weight": (WIDTH,),
            name + "mlp.gate_proj.weight": (FEED_FORWARD, WIDTH),
            name + "mlp.up_proj.weight": (FEED_FORWARD, WIDTH),
            name + "mlp.down_proj.weight": (WIDTH, FEED_FORWARD),
        }
    keys = jax.random.split(key, len(shapes))
    make = lambda key, shape: jnp.ones(shape) if len(shape) == 1 else jax.random.normal(key, shape) * 0.02
    return {name: make(key, shape) for key, (name, shape) in zip(keys, shapes.items())}


def norm(x, weight):
    """Root mean square norm."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPSILON) * weight


def rotate(x):
    """Rotary positions, halves side by side."""
    half = HEAD_WIDTH // 2
    angle = jnp.arange(x.shape[1])[:, None] * THETA ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def logits_of(weights, tokens):
    """Logits at every position."""
    batch, length = tokens.shape
    x = weights["model.embed_tokens.weight"][tokens]
    mask = jnp.tril(jnp.ones((length, length), bool))
    for layer in range(LAYERS):
        at = lambda name: weights[f"model.layers.{layer}.{name}.weight"]
        y = norm(x, at("input_layernorm"))
        q = rotate((y @ at("self_attn.q_proj").T).reshape(batch, length, HEADS, HEAD_WIDTH))
        k = rotate((y @ at("self_attn.k_proj").T).reshape(batch, length, KV_HEADS, HEAD_WIDTH))
        v = (y @ at("self_attn.v_proj").T).reshape(batch, length, KV_HEADS, HEAD_WIDTH)
        k, v = (jnp.repeat(part, HEADS // KV_HEADS, 2) for part in (k, v))
        scores = jnp.einsum("blhd,bmhd->bhlm", q, k) / HEAD_WIDTH**0.5
        scores = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
        y = jnp.einsum("bhlm,bmhd->blhd", scores, v).reshape(batch, length, HEADS * HEAD_WIDTH)
        x = x + y @ at("self_attn.o_proj").T
        y = norm(x, at("post_attention_layernorm"))
        x = x + (jax.nn.silu(y @ at("mlp.gate_proj").T) * (y @ at("mlp.up_proj").T)) @ at("mlp.down_proj").T
    return norm(x, weights["model.norm.weight"]) @ weights["model.embed_tokens.weight"].T


def loss_of(weights, tokens):
    """Mean negative log-likelihood of each next token."""
    scores = jax.nn.log_softmax(logits_of(weights, tokens[:, :-1]))
    return -jnp.mean(jnp.take_along_axis(scores, tokens[:, 1:, None], -1))


def train(stream, begins, steps, weights, most_rate, keep):
    """Adam with a warm-up and a cosine."""
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = (weights, zeros, zeros)

    @jax.jit
    def step(state, tokens, index):
        weights, mean, square = state
        loss, slope = jax.value_and_grad(loss_of)(weights, tokens)
        size = jnp.sqrt(sum(jnp.sum(part * part) for part in jax.tree.leaves(slope)))
        slope = jax.tree.map(lambda part: part / jnp.maximum(1.0, size), slope)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
        square = jax.tree.map(lambda s, g: 0.98 * s + 0.02 * g * g, square, slope)
        rate = most_rate * jnp.minimum(1.0, (index + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + jnp.cos(jnp.pi * index / steps)))
        fix = lambda m, s: m / (1 - 0.9 ** (index + 1)) / (jnp.sqrt(s / (1 - 0.98 ** (index + 1))) + 1e-8)
        weights = jax.tree.map(lambda w, m, s: w - rate * (fix(m, s) + (0.02 * w if w.ndim == 2 else 0)), weights, mean, square)
        return (weights, mean, square), loss

    rng = np.random.default_rng(steps)
    started = time.time()
    for index in range(steps):
        starts = rng.choice(begins, BATCH)
        state, loss = step(state, np.stack([stream[at:at + LENGTH + 1] for at in starts]), index)
        if index % 100 == 0 or index + 1 == steps:
            print(f"step {index:5} loss {float(loss):.4f} {time.time() - started:6.0f} s", flush=True)
        if index % 250 == 249:
            keep(state[0])
    return state[0]


def bf16(array):
    """The nearest bfloat16, as its 16 bits."""
    bits = np.asarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def as_float(bits):
    """The number that 16 bits stand for."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def save(weights, tokenizer):
    """config.json, model.safetensors (bf16), tokenizer.json."""
    tokenizer.save(str(HERE / "tokenizer.json"))
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": VOCABULARY,
        "hidden_size": WIDTH, "intermediate_size": FEED_FORWARD, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_WIDTH, "max_position_embeddings": POSITIONS, "rms_norm_eps": EPSILON,
        "rope_theta": THETA, "tie_word_embeddings": True, "bos_token_id": BEGIN, "eos_token_id": END, "torch_dtype": "bfloat16",
    }
    (HERE / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    header, blob = {}, b""
    for name in sorted(weights):
        data = bf16(weights[name]).tobytes()
        header[name] = {"dtype": "BF16", "shape": list(weights[name].shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    (HERE / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text.encode() + blob)


def load():
    """The weights of model.safetensors."""
    data = (HERE / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    array = lambda entry: np.frombuffer(data[8 + size:][slice(*entry["data_offsets"])], np.uint16).reshape(entry["shape"])
    return {name: jnp.asarray(as_float(array(entry))) for name, entry in json.loads(data[8:8 + size]).items()}


def judge(weights, tokenizer, held):
    """Prints what weights of bf16 are worth on fables that were not trained on."""
    rounded = {name: jnp.asarray(as_float(bf16(array))) for name, array in weights.items()}
    rows = [[BEGIN, *tokenizer.encode(text, add_special_tokens=False).ids, END] for text in held]
    tokens = np.full((len(rows), max(map(len, rows))), END, np.int32)
    for row, ids in zip(tokens, rows):
        row[:len(ids)] = ids
    kept = np.arange(tokens.shape[1] - 1) < np.array([len(ids) - 1 for ids in rows])[:, None]
    right, loss = 0, 0.0
    for part in np.array_split(np.arange(len(rows)), 8):
        scores = jax.nn.log_softmax(logits_of(rounded, tokens[part, :-1]))
        found = jnp.take_along_axis(scores, tokens[part, 1:, None], -1)[..., 0]
        loss -= float((found * kept[part]).sum())
        right += int(((scores.argmax(-1) == tokens[part, 1:]) * kept[part]).sum())
    count = int(kept.sum())
    print(f"bf16 weights, {len(rows)} fables that it has not seen: mean negative log-likelihood {loss / count:.4f}, "
          f"{right / count:.1%} of the next tokens are the likeliest", flush=True)


def main():
    """Trains, saves, and says how good it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--resume", action="store_true", help="go on from the weights that are here")
    steps, resume = (options := parser.parse_args()).steps, options.resume
    texts = [fables.fable(seed) for seed in range(FABLES)]
    tokenizer = tokenizers.Tokenizer.from_file(str(HERE / "tokenizer.json")) if resume else train_tokenizer(texts[:4000])
    weights, most_rate = (load(), 1.5e-3) if resume else (first_weights(jax.random.key(1)), 4e-3)
    held = [fables.fable(seed) for seed in range(FABLES, FABLES + HELD_OUT)]
    judge(weights, tokenizer, held)
    rows = [[BEGIN, *tokenizer.encode(text, add_special_tokens=False).ids, END] for text in texts]
    stream = np.array([token for row in rows for token in row], np.int32)
    print(f"{len(stream):,} tokens, {len(stream) / len(rows):.0f} a fable")
    begins = np.flatnonzero(stream == BEGIN)
    begins = begins[begins < len(stream) - LENGTH - 1]
    weights = train(stream, begins, steps, weights, most_rate, lambda weights: save(weights, tokenizer))
    save(weights, tokenizer)
    judge(weights, tokenizer, held)


if __name__ == "__main__":
    main()
