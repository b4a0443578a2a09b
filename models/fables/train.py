"""Trains the embedded model and writes it here in Hugging Face layout.

    pip install jax==0.10.2 numpy tokenizers
    python train.py [--steps 1350] [--resume] [--judge]

A Llama of 886,000 parameters on fables that `fables.py` makes; half a second to a second a step on two cores. Same versions and steps, same weights on the same kind
of host: all randomness comes from seeds. `--resume` goes on from the weights and the vocabulary that are here, `--judge` only says what they are worth.

Every row of a batch is one fable. Most of its words follow from the plot; which animal does what has to be looked up at the beginning, and few tokens
ask for it: they count more in the loss, so that heads that look back form early.
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
VOCABULARY, WIDTH, LAYERS, HEADS, KV_HEADS, HEAD_WIDTH, FEED_FORWARD = 768, 128, 4, 4, 2, 32, 384
THETA, EPSILON, POSITIONS = 10000.0, 1e-5, 512
BATCH, FABLES, HELD_OUT, WRITTEN = 16, 40000, 200, 100
# How much more than others a token counts that names an animal again.
NAME_WEIGHT = 4.0
# Rates of matrices inside of blocks and of the rest; the share of steps at whose end they fall to nothing.
MATRIX_RATE, OTHER_RATE, FALLING = 0.02, 4e-3, 0.45
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


def rows_of(tokenizer, texts):
    """A row of tokens for each text, filled up with the end, and how much each token after the first counts."""
    ids = [[BEGIN, *found.ids, END] for found in tokenizer.encode_batch(texts, add_special_tokens=False)]
    tokens = np.full((len(ids), max(map(len, ids))), END, np.int32)
    for row, found in zip(tokens, ids):
        row[:len(found)] = found
    counts = np.arange(tokens.shape[1]) < np.array([len(found) for found in ids])[:, None]
    counts = counts.astype(np.float32)
    for name in fables.ANIMALS:
        again = tokens == tokenizer.encode(" " + name, add_special_tokens=False).ids[-1]
        counts[again & (np.cumsum(again, 1) > 1)] = NAME_WEIGHT
    return tokens, counts[:, 1:]


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


def loss_of(weights, tokens, counts):
    """Mean negative log-likelihood of each next token."""
    scores = jax.nn.log_softmax(logits_of(weights, tokens[:, :-1]))
    return -jnp.sum(jnp.take_along_axis(scores, tokens[:, 1:, None], -1)[..., 0] * counts) / jnp.sum(counts)


def orthogonal(slope):
    """A matrix of the same rows and columns with singular values near one (five Newton-Schulz steps, as Muon takes)."""
    wide = slope if slope.shape[0] <= slope.shape[1] else slope.T
    wide = wide / (jnp.linalg.norm(wide) + 1e-7)
    for _ in range(5):
        square = wide @ wide.T
        wide = 3.4445 * wide + (-4.7750 * square + 2.0315 * square @ square) @ wide
    wide = wide if slope.shape[0] <= slope.shape[1] else wide.T
    return wide * max(1.0, slope.shape[0] / slope.shape[1]) ** 0.5


def train(tokens, counts, steps, weights, falling, keep):
    """Muon for the matrices inside of blocks, Adam for the rest; rates rise over a fiftieth of the steps, stay, and fall over a last share of them."""
    zeros = jax.tree.map(jnp.zeros_like, weights)
    inside = lambda name: ".layers." in name and weights[name].ndim == 2

    @jax.jit
    def step(state, tokens, counts, index):
        weights, mean, square = state
        loss, slope = jax.value_and_grad(loss_of)(weights, tokens, counts)
        size = jnp.sqrt(sum(jnp.sum(part * part) for part in jax.tree.leaves(slope)))
        slope = jax.tree.map(lambda part: part / jnp.maximum(1.0, size), slope)
        height = jnp.minimum(jnp.minimum(1.0, (index + 1) / (0.02 * steps)), (steps - index) / (falling * steps))
        after, means, squares = {}, {}, {}
        for name, part in slope.items():
            decay = 0.95 if inside(name) else 0.9
            means[name] = decay * mean[name] + (1 - decay) * part
            squares[name] = 0.98 * square[name] + 0.02 * part * part
            if inside(name):
                change = MATRIX_RATE * orthogonal(decay * means[name] + (1 - decay) * part)
            else:
                even = jnp.sqrt(squares[name] / (1 - 0.98 ** (index + 1))) + 1e-8
                change = OTHER_RATE * means[name] / (1 - decay ** (index + 1)) / even
            after[name] = weights[name] - height * (change + (1e-4 * weights[name] if part.ndim == 2 else 0))
        return (after, means, squares), loss

    rng, state, started = np.random.default_rng(steps), (weights, zeros, zeros), time.time()
    for index in range(steps):
        chosen = rng.choice(len(tokens), BATCH, replace=False)
        state, loss = step(state, tokens[chosen], counts[chosen], index)
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
    tokens, counts = rows_of(tokenizer, held)
    right, loss, kept = 0, 0.0, counts > 0
    for part in np.array_split(np.arange(len(tokens)), 8):
        scores = jax.nn.log_softmax(logits_of(rounded, tokens[part, :-1]))
        found = jnp.take_along_axis(scores, tokens[part, 1:, None], -1)[..., 0]
        loss -= float((found * kept[part]).sum())
        right += int(((scores.argmax(-1) == tokens[part, 1:]) * kept[part]).sum())
    count = int(kept.sum())
    print(f"bf16 weights, {len(tokens)} fables that it has not seen: mean negative log-likelihood {loss / count:.4f}, "
          f"{right / count:.1%} of the next tokens are the likeliest", flush=True)
    written = write(rounded, tokenizer, [text.split(".")[0] + "." for text in held[:WRITTEN]])
    two, same, roles = 0, 0, fables.roles()
    for text in written:
        story, _, moral = text.partition("Moral: ")
        two += len(set(fables.cast(story))) == 2
        same += fables.cast(story) in roles.get(moral, ())
    print(f"of {len(written)} fables written from first sentences that it has not seen, {two} name two animals and no other, "
          f"{same} have them do what the plot asks\n{written[0]}", flush=True)


def write(weights, tokenizer, prompts):
    """How the model goes on, the likeliest token every time."""
    ids = [[BEGIN, *found.ids] for found in tokenizer.encode_batch(prompts, add_special_tokens=False)]
    tokens = np.full((len(ids), 176), END, np.int32)
    for row, found in zip(tokens, ids):
        row[:len(found)] = found
    given = np.array([len(found) for found in ids])
    best = jax.jit(lambda tokens, at: logits_of(weights, tokens)[:, at].argmax(-1))
    for at in range(given.min(), tokens.shape[1]):
        # What comes later is not seen: few lengths, few compilations.
        next_ids = np.asarray(best(tokens[:, :-(-at // 44) * 44], at - 1))
        ended = (at > given) & (tokens[:, at - 1] == END)
        tokens[:, at] = np.where(at < given, tokens[:, at], np.where(ended, END, next_ids))
        if ended.all():
            break
    return [tokenizer.decode(list(row)).strip() for row in tokens]


def main():
    """Trains, saves, and says how good it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1350)
    parser.add_argument("--resume", action="store_true", help="go on from the weights that are here")
    parser.add_argument("--judge", action="store_true", help="only say what the weights that are here are worth")
    options = parser.parse_args()
    at_hand = options.resume or options.judge
    texts = [fables.fable(seed) for seed in range(FABLES)]
    held = [fables.fable(seed) for seed in range(FABLES, FABLES + HELD_OUT)]
    tokenizer = tokenizers.Tokenizer.from_file(str(HERE / "tokenizer.json")) if at_hand else train_tokenizer(texts[:4000])
    weights = load() if at_hand else first_weights(jax.random.key(1))
    if not options.judge:
        tokens, counts = rows_of(tokenizer, texts)
        print(f"{len(tokens):,} fables of {(counts > 0).sum() / len(tokens):.0f} tokens, {tokens.shape[1] - 1} at most", flush=True)
        weights = train(tokens, counts, options.steps, weights, 1.0 if options.resume else FALLING, lambda weights: save(weights, tokenizer))
        save(weights, tokenizer)
    judge(weights, tokenizer, held)


if __name__ == "__main__":
    main()
