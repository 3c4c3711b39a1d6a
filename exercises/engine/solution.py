"""The course project, done: one decoder, a stage at the end of each chapter. See docs/PROJECT.md."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from numba import cuda, float32

import minidecode as md

# Letters of shapes: T tokens, R rows, V vocabulary, D width, H heads, G key/value heads, K numbers in a head, W beams.


# Stage 1: forward (chapter 1)


def load(folder):
    """The model in `folder`: config.json, and model.safetensors, which you read yourself.

    The file: 8 bytes (a length, little-endian), so many bytes of JSON, then the numbers of all tensors. The JSON gives
    each tensor's dtype, shape and data_offsets (begin, end), counted from the end of the JSON. LAYOUT.txt says which
    tensor is which. Return what you like, with matrices in NumPy arrays: all other functions get it back as `model`.
    """
    # --- your turn: read config.json and all tensors, as float32
    config = json.loads((Path(folder) / "config.json").read_text("utf-8"))
    stored = (Path(folder) / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(stored[:8], "little")
    tensors = {}
    for name, about in json.loads(stored[8:begin]).items():
        if name != "__metadata__":
            first, last = about["data_offsets"]
            numbers = np.frombuffer(stored[begin + first : begin + last], {"F16": "<f2", "F32": "<f4"}[about["dtype"]])
            tensors[name.removeprefix("transformer.")] = numbers.reshape(about["shape"]).astype(np.float32)

    def linear(name):
        return SimpleNamespace(data=tensors[f"{name}.weight"], scale=np.float32(1), bias=tensors[f"{name}.bias"])

    def norm_of(name):
        return tensors[f"{name}.weight"], tensors[f"{name}.bias"]

    layers = []
    for i in range(config["n_layer"]):
        qkv, part = linear(f"h.{i}.attn.c_attn"), {}
        for name, data, bias in zip("qkv", np.split(qkv.data, 3, axis=1), np.split(qkv.bias, 3), strict=True):
            part[name] = SimpleNamespace(data=data.copy(), scale=np.float32(1), bias=bias)
        part |= {"ln_1": norm_of(f"h.{i}.ln_1"), "out": linear(f"h.{i}.attn.c_proj"), "ln_2": norm_of(f"h.{i}.ln_2")}
        layers.append(SimpleNamespace(**part, up=linear(f"h.{i}.mlp.c_fc"), down=linear(f"h.{i}.mlp.c_proj")))
    heads = config["n_head"]
    embeddings = {"wte": tensors["wte.weight"], "wpe": tensors["wpe.weight"]}
    return SimpleNamespace(
        **embeddings, layers=layers, ln_f=norm_of("ln_f"), H=heads, G=heads, K=config["n_embd"] // heads
    )
    # --- end


# --- your turn: functions of your own, such as a norm, GELU (the tanh form), softmax
#|
def norm(x_RD, scale_and_bias):
    scale, bias = scale_and_bias
    x_RD = x_RD - x_RD.mean(-1, keepdims=True)
    return x_RD / np.sqrt((x_RD * x_RD).mean(-1, keepdims=True) + np.float32(1e-5)) * scale + bias


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + 0.044715 * x**3)))


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(scores):
    scores = scores - scores.max(-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def product(x_RI, w):
    """Int8 weights are cast here, a matrix at a time; in float32 the scale is 1."""
    return x_RI @ w.data.astype(np.float32, copy=False) * w.scale + w.bias


def project(model, layer, h_RD):
    q, k, v = (product(h_RD, w).reshape(len(h_RD), -1, model.K) for w in (layer.q, layer.k, layer.v))
    return q, k, v


def attend(q_RHK, k_MGK, v_MGK, visible_RM=None):
    """Rows over the same M positions; H / G query heads share one key/value head."""
    R, H, K = q_RHK.shape
    G = k_MGK.shape[1]
    scores = np.einsum("rgjk,mgk->rgjm", q_RHK.reshape(R, G, H // G, K), k_MGK) / np.float32(math.sqrt(K))
    if visible_RM is not None:
        scores = np.where(visible_RM[:, None, None], scores, -np.inf)
    return np.einsum("rgjm,mgk->rgjk", softmax(scores), v_MGK).reshape(R, H * K)


def through(model, x_RD, attention):
    """All layers; attention(number, layer, h_RD) is what differs between the stages."""
    for number, layer in enumerate(model.layers):
        x_RD = x_RD + product(attention(number, layer, norm(x_RD, layer.ln_1)), layer.out)
        x_RD = x_RD + product(gelu(product(norm(x_RD, layer.ln_2), layer.up)), layer.down)
    return norm(x_RD, model.ln_f)


def logits_of(model, h_RD):
    return h_RD @ model.wte.T


def causal(T):
    return np.tri(T, dtype=bool)


# --- end


def forward(model, ids):
    """Token ids (T of them) -> logits_TV, float32: row t scores what follows the tokens 0 to t."""
    # --- your turn: embed, all layers, the last norm, the embedding as output matrix
    x_TD = model.wte[list(ids)] + model.wpe[: len(ids)]

    def attention(_, layer, h_TD):
        return attend(*project(model, layer, h_TD), causal(len(ids)))

    return logits_of(model, through(model, x_TD, attention))
    # --- end


# Stage 2: greedy (chapter 1)


def greedy(model, ids, count):
    """The `count` ids that follow, each the likeliest after all before it. Calls `forward` for each."""
    # --- your turn: no cache yet
    ids = list(ids)
    for _ in range(count):
        ids.append(int(forward(model, ids)[-1].argmax()))
    return ids[-count:]
    # --- end


# Stage 3: a cache (chapter 2)


# --- your turn: a class for your cache, if you like
#|
class Cache:
    """Of each layer: keys and values of the prompt, which all rows share, and of each row's own tokens."""

    def __init__(self, layers):
        self.prompt, self.own = [None] * layers, [None] * layers
        self.length = 0

    def keep(self, number, k, v):
        """A new token's key and value for each row (R, G, K)."""
        old = self.own[number]
        parts = (k[:, None], v[:, None])
        if old is not None:
            parts = tuple(np.concatenate([a, b], axis=1) for a, b in zip(old, parts, strict=True))
        self.own[number] = parts

    def attend(self, number, q_RHK):
        own_k, own_v = self.own[number]
        rows = []
        for r in range(len(q_RHK)):
            k, v = own_k[r], own_v[r]
            if self.prompt[number] is not None:
                k, v = (np.concatenate([a, b]) for a, b in zip(self.prompt[number], (k, v), strict=True))
            rows.append(attend(q_RHK[r : r + 1], k, v))
        return np.concatenate(rows)

    def step(self, model, x_RD):
        def attention(number, layer, h_RD):
            q, k, v = project(model, layer, h_RD)
            self.keep(number, k, v)
            return self.attend(number, q)

        return through(model, x_RD, attention)

    def of_rows(self, change):
        """Another cache, with each row's own part changed."""
        other = type(self)(len(self.own))
        other.prompt, other.length = self.prompt, self.length
        other.own = [own if own is None else tuple(change(part) for part in own) for own in self.own]
        return other


# --- end


def prefill(model, ids):
    """(logits_V after the last of `ids`, a cache with one row). Each token goes through the layers once."""
    # --- your turn: as `forward`, and keep keys and values
    cache = Cache(len(model.layers))
    cache.length = len(ids)

    def attention(number, layer, h_TD):
        q, k, v = project(model, layer, h_TD)
        cache.prompt[number] = k, v
        return attend(q, k, v, causal(len(ids)))

    h_TD = through(model, model.wte[list(ids)] + model.wpe[: len(ids)], attention)
    return logits_of(model, h_TD[-1]), cache
    # --- end


def step(model, cache, ids):
    """logits_RV after one more token for each row of the cache, which keeps it. Only R rows go through the layers."""
    # --- your turn: the new token's key and value go into the cache first: it attends to itself, too
    x_RD = model.wte[list(ids)] + model.wpe[cache.length]
    cache.length += 1
    return logits_of(model, cache.step(model, x_RD))
    # --- end


def generate(model, ids, count, begin=prefill):
    """As `greedy`, with the cache that `begin` makes."""
    # --- your turn: begin, then one step for each token
    logits, cache = begin(model, ids)
    said = [int(logits.argmax())]
    while len(said) < count:
        said.append(int(step(model, cache, said[-1:])[0].argmax()))
    return said
    # --- end


# Stage 4: beams (chapter 3)


def repeat(cache, rows):
    """A cache with `rows` copies of the one row: what each beam starts from."""
    # --- your turn: copy keys and values
    other = Cache(len(cache.own))
    other.length = cache.length
    other.own = [tuple(np.stack([part] * rows) for part in prompt) for prompt in cache.prompt]
    return other
    # --- end


def reorder(cache, parents):
    """The cache in which row r goes on from what was row parents[r]."""
    # --- your turn: of all layers
    return cache.of_rows(lambda part: part[list(parents)])
    # --- end


def beam_search(model, ids, count, width, begin=prefill, expand=repeat):
    """[(sum of log-probabilities, `count` ids), ...] of `width` beams, the best first. No text ends early."""
    # --- your turn: of all W * V continuations keep the best W; first of one row, then of W rows
    logits, cache = begin(model, ids)
    total = log_softmax(logits)
    best = np.argsort(-total, kind="stable")[:width]
    scores, said = total[best], [[int(i)] for i in best]
    cache = expand(cache, width)
    for _ in range(count - 1):
        total_WV = scores[:, None] + log_softmax(step(model, cache, [row[-1] for row in said]))
        best = np.argsort(-total_WV, axis=None, kind="stable")[:width]
        parents, tokens = np.divmod(best, total_WV.shape[1])
        scores = total_WV.ravel()[best]
        said = [said[p] + [int(t)] for p, t in zip(parents, tokens, strict=True)]
        cache = reorder(cache, parents)
    return [(float(s), row) for s, row in zip(scores, said, strict=True)]
    # --- end


# Stage 5: the prompt once for all beams (chapter 7)


def split(cache, rows):
    """As `repeat`, but the prompt's keys and values are held once. `step` and `reorder` take it as well."""
    # --- your turn: only what each beam says itself is its own
    return cache.of_rows(lambda part: part)
    # --- end


# Stage 6: no n-gram twice (chapter 6)


def ban_ngrams(scores_RV, rows, n):
    """scores_RV, with -inf for each token that would repeat an n-gram of its row; rows: the ids of each."""
    # --- your turn: which tokens followed the last n - 1 tokens before?
    for r, row in enumerate(rows):
        row = list(row)
        last = row[len(row) - n + 1 :]
        for start in range(len(row) - n + 1):
            if row[start : start + n - 1] == last:
                scores_RV[r, row[start + n - 1]] = -np.inf
    return scores_RV
    # --- end


# Stage 7: sampling (chapter 12)


def top_p(logits_V, p, u):
    """The token that `u` (0 <= u < 1) draws from the fewest likeliest tokens that have at least p of the probability.

    They keep their proportions. Order them from the likeliest down (equal ones by id), and take the first at which the
    sum of their shares is above u.
    """
    # --- your turn: sort, cut, divide by the rest's sum, and count up
    probability = softmax(logits_V.astype(np.float64))
    order = np.argsort(-probability, kind="stable")
    sums = np.cumsum(probability[order])
    kept = order[: int(np.searchsorted(sums, p)) + 1]
    shares = np.cumsum(probability[kept]) / probability[kept].sum()
    return int(kept[min(int(np.searchsorted(shares, u, side="right")), len(kept) - 1)])
    # --- end


# Stage 8: fewer key/value heads (chapter 8)


def group_heads(model, groups):
    """A model with `groups` key/value heads: the mean of each run of neighbouring heads. Queries stay."""

    # --- your turn: all functions above must take it; its caches hold `groups` heads
    def averaged(w):
        H = w.bias.size // model.K
        data = w.data.reshape(len(w.data), groups, H // groups, model.K).mean(2).reshape(len(w.data), -1)
        bias = w.bias.reshape(groups, H // groups, model.K).mean(1).ravel()
        return SimpleNamespace(data=data, scale=w.scale, bias=bias)

    layers = [
        SimpleNamespace(**vars(layer) | {"k": averaged(layer.k), "v": averaged(layer.v)}) for layer in model.layers
    ]
    return SimpleNamespace(**vars(model) | {"layers": layers, "G": groups})
    # --- end


# Stage 9: EL-attention (chapter 9)


# --- your turn: a cache that holds hidden states in place of keys and values
#|
class ELCache(Cache):
    """q . (h Wk + bk) = (q Wk) . h + q . bk, and the second is the same for all positions: softmax drops it."""

    def attend_hidden(self, number, layer, q_RHK, own_RMD):
        R, H, K = q_RHK.shape
        w_k, w_v = (w.data.reshape(-1, H, K) for w in (layer.k, layer.v))
        q_RHK = (q_RHK.reshape(R, -1) * layer.k.scale).reshape(R, H, K)
        moved_RHD = np.einsum("rhk,dhk->rhd", q_RHK, w_k) / np.float32(math.sqrt(K))
        rows = []
        for r in range(R):
            h_MD = own_RMD[r]
            if self.prompt[number] is not None:
                h_MD = np.concatenate([self.prompt[number], h_MD])
            mixed_HD = softmax(moved_RHD[r] @ h_MD.T) @ h_MD
            rows.append(np.einsum("hd,dhk->hk", mixed_HD, w_v).ravel() * layer.v.scale + layer.v.bias)
        return np.stack(rows)

    def step(self, model, x_RD):
        def attention(number, layer, h_RD):
            old = self.own[number]
            own = h_RD[:, None] if old is None else np.concatenate([old[0], h_RD[:, None]], axis=1)
            self.own[number] = (own,)
            q_RHK = product(h_RD, layer.q).reshape(len(h_RD), -1, model.K)
            return self.attend_hidden(number, layer, q_RHK, own)

        return through(model, x_RD, attention)


# --- end


def prefill_el(model, ids):
    """As `prefill`, with a cache of hidden states: the normed row that keys and values are made of, once a position.

    `step`, `reorder` and `split` take it as well. (No grouped heads here: G = H.)
    """
    # --- your turn: attention without keys and values in the cache
    cache = ELCache(len(model.layers))
    cache.length = len(ids)

    def attention(number, layer, h_TD):
        cache.prompt[number] = h_TD
        return attend(*project(model, layer, h_TD), causal(len(ids)))

    h_TD = through(model, model.wte[list(ids)] + model.wpe[: len(ids)], attention)
    return logits_of(model, h_TD[-1]), cache
    # --- end


# Stage 10: HARS (chapter 11)


def hars(scores_V, count, groups, rank):
    """(scores, ids) of the `count` best, best first, without sorting all: what no group's best reaches is left out.

    Cut V into `groups` pieces of neighbours; the count-th best of the groups' maxima is a threshold that at least
    `count` reach. All that reaches it is for `rank` to order: rank(scores) gives their places, the best first, of equal
    ones the lower place first. How many it ranks is counted.
    """
    # --- your turn: equal scores go by id
    pieces = np.array_split(scores_V, groups)
    maxima = np.sort(np.array([piece.max() for piece in pieces]))
    ids = np.flatnonzero(scores_V >= maxima[-count])
    best = ids[rank(scores_V[ids])[:count]]
    return scores_V[best], best
    # --- end


# Stage 11: int8 weights (chapter 13)


def quantize(model):
    """A model with int8 matrices, a scale for each output; embeddings stay.

    `forward`, `prefill`, `prefill_el` and `step` take it.
    """

    # --- your turn: a scale for each column that gives y; 127 is its largest number
    def rounded(w):
        scale = np.maximum(np.abs(w.data).max(0), np.float32(1e-30)) / 127
        return SimpleNamespace(data=np.rint(w.data / scale).astype(np.int8), scale=scale, bias=w.bias)

    names = ("q", "k", "v", "out", "up", "down")
    layers = [SimpleNamespace(**vars(x) | {name: rounded(getattr(x, name)) for name in names}) for x in model.layers]
    return SimpleNamespace(**vars(model) | {"layers": layers})
    # --- end


# Stage 12: a step's attention as a kernel (chapters 4 and 10)


@cuda.jit
def attend_kernel(q_RK, k_MK, v_MK, out_RK):
    """One block of 32 threads for each row: softmax(q . k / sqrt(K)) v, over M positions of one head. K <= 32.

    Nothing but out_RK may be written, and no thread may read what another writes without a barrier between.
    """
    # --- your turn: a running maximum and a running sum; or three passes
    #| pass
    r, lane = cuda.blockIdx.x, cuda.threadIdx.x
    M, K = k_MK.shape
    sums = cuda.shared.array(32, float32)
    highest, total, mixed = float32(-math.inf), float32(0), float32(0)
    for m in range(M):
        sums[lane] = q_RK[r, lane] * k_MK[m, lane] if lane < K else float32(0)
        cuda.syncthreads()
        score = float32(0)
        for i in range(K):
            score += sums[i]
        cuda.syncthreads()
        score = score / float32(math.sqrt(K))
        new = max(highest, score)
        shrink, weight = math.exp(highest - new), math.exp(score - new)
        total = total * shrink + weight
        if lane < K:
            mixed = mixed * shrink + weight * v_MK[m, lane]
        highest = new
    if lane < K:
        out_RK[r, lane] = mixed / total
    # --- end


def attend_step(q_RK, k_MK, v_MK):
    """One head's attention of R rows by the kernel, in minidecode's emulator."""
    out_RK = np.zeros_like(q_RK)
    md.emulate(attend_kernel)[len(q_RK), 32](q_RK, k_MK, v_MK, out_RK)
    return out_RK
