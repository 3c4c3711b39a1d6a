"""Decoding on one page: GPT-2, its key/value cache, greedy search and beam search, in NumPy.

    python -m minidecode.page "Fellow citizens," --beams 4

Everything else in this package makes these functions faster, and is tested to give the same tokens. Each "Fast:" names
the files of the fast form. Letters at a name's end are its dimensions: W texts (beams), T new tokens, S tokens in the
cache, D features, F features inside the feed-forward block, H heads of K features, V tokens of the vocabulary.
"""

import argparse
from pathlib import Path

import numpy as np

from .files.checkpoint import find_tensors
from .files.folder import bundled_models
from .files.stored import read_json
from .files.tokenizer import Tokenizer


class Cache:
    """The keys and values of all tokens that went through the model, so that none goes through twice. Fast: cache/."""

    def __init__(self) -> None:
        self.kept: dict[int, np.ndarray] = {}  # layer -> [keys, values]

    def append(self, layer: int, new_2WHTK: np.ndarray) -> np.ndarray:
        """All keys and values of a layer, the new ones behind those that are kept."""
        old = [self.kept[layer]] if layer in self.kept else []
        self.kept[layer] = np.concatenate([*old, new_2WHTK], axis=3)
        return self.kept[layer]

    def reorder(self, parent_W: list[int]) -> None:
        """Text w goes on from what text parent_W[w] has written, so it takes that text's keys and values."""
        self.kept = {layer: kept_2WHSK[:, parent_W] for layer, kept_2WHSK in self.kept.items()}


class GPT2:
    """The weights, and the forward pass. Fast: models/gpt2.py, whose ops are in reference/, cpu/ and cuda/."""

    def __init__(self, folder: Path, dtype: type = np.float32):
        stored = find_tensors(folder)
        self.weights = {name.removeprefix("transformer."): t.read(np.dtype(dtype)) for name, t in stored.items()}
        self.config = read_json(folder / "config.json")

    def forward(self, ids_WT: np.ndarray, cache: Cache) -> np.ndarray:
        """T more tokens of each of W texts -> logits_WV: scores of each token of the vocabulary to follow."""
        old = cache.kept[0].shape[3] if cache.kept else 0
        x_WTD = self.weights["wte.weight"][ids_WT] + self.weights["wpe.weight"][old : old + ids_WT.shape[1]]
        for layer in range(self.config["n_layer"]):
            x_WTD = x_WTD + self.attention(layer, self.norm(f"h.{layer}.ln_1", x_WTD), cache)
            x_WTD = x_WTD + self.feed_forward(layer, self.norm(f"h.{layer}.ln_2", x_WTD))
        return self.norm("ln_f", x_WTD[:, -1]) @ self.weights["wte.weight"].T

    def attention(self, layer: int, x_WTD: np.ndarray, cache: Cache) -> np.ndarray:
        """softmax(q k^T / sqrt(K)) v, up to each token itself. Fast: reference/prefill.py, in steps grouped.py."""
        (W, T, _), H = x_WTD.shape, self.config["n_head"]
        qkv_3WHTK = self.linear(f"h.{layer}.attn.c_attn", x_WTD).reshape(W, T, 3, H, -1).transpose(2, 0, 3, 1, 4)
        q_WHTK, (k_WHSK, v_WHSK) = qkv_3WHTK[0], cache.append(layer, qkv_3WHTK[1:])
        S, K = k_WHSK.shape[2:]
        scores_WHTS = q_WHTK @ k_WHSK.swapaxes(2, 3) / float(np.sqrt(K))
        is_future_TS = np.arange(S) > np.arange(S - T, S)[:, None]
        mixed_WHTK = np.exp(log_softmax(np.where(is_future_TS, -np.inf, scores_WHTS))) @ v_WHSK
        return self.linear(f"h.{layer}.attn.c_proj", mixed_WHTK.swapaxes(1, 2).reshape(W, T, -1))

    def feed_forward(self, layer: int, x_WTD: np.ndarray) -> np.ndarray:
        """Two products with GPT-2's GELU between them. Fast: reference/activation.py, reference/epilogue.py."""
        x_WTF = self.linear(f"h.{layer}.mlp.c_fc", x_WTD)
        gelu_WTF = x_WTF * (1 + np.tanh(float(np.sqrt(2 / np.pi)) * (x_WTF + 0.044715 * x_WTF**3))) / 2
        return self.linear(f"h.{layer}.mlp.c_proj", gelu_WTF)

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        """x W + b. Fast: reference/linear.py, and of the product with wte."""
        return x @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """Layer norm. Fast: reference/norm.py."""
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.config["layer_norm_epsilon"])
        return centred / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities. Fast: reference/softmax.py."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def ban_ngrams(scores_WV: np.ndarray, texts: list[list[int]], n: int) -> None:
    """No n tokens occur twice in a text (n = 0: no ban): the last of them scores -inf. Fast: reference/ngram.py."""
    for w, text in enumerate(texts):
        for i in range(len(text) - n + 1 if n else 0):
            if text[i : i + n - 1] == text[len(text) - n + 1 :]:
                scores_WV[w, text[i + n - 1]] = -np.inf


def greedy_search(model: GPT2, prompt: list[int], new_tokens: int, n: int = 0) -> list[int]:
    """The likeliest token at each step. Fast: search/greedy.py, reference/argmax.py, reference/extend.py."""
    text, cache = list(prompt), Cache()
    logits_WV = model.forward(np.array([text]), cache)
    while True:
        ban_ngrams(logits_WV, [text], n)
        text.append(int(logits_WV[0].argmax()))
        if text[-1] == model.config["eos_token_id"] or len(text) == len(prompt) + new_tokens:
            return text[len(prompt) :]
        logits_WV = model.forward(np.array([text[-1:]]), cache)


def beam_search(
    model: GPT2, prompt: list[int], new_tokens: int, W: int, n: int = 0, length_penalty: float = 1.0
) -> list[int]:
    """The text with the highest sum of log-probabilities / length ** length_penalty that W beams find,
    by the rules of transformers 5. Fast: search/beam.py, reference/candidates.py, reference/beam_update.py."""
    texts, score_W, finished = [list(prompt)], np.zeros(1), [(-1e9, list(prompt))] * W  # none yet
    cache = Cache()
    logits_WV = model.forward(np.array(texts), cache)  # one row, until the first step makes W of it
    for new in range(1, new_tokens + 1):
        logprobs_WV = log_softmax(logits_WV)
        ban_ngrams(logprobs_WV, texts, n)
        total_WV, V = score_W[:, None] + logprobs_WV, logits_WV.shape[1]
        running = []  # of the 2 W best, those that end finish if they are among the first W; the W best others go on
        for place, best in enumerate(np.argsort(-total_WV, axis=None, kind="stable")[: 2 * W].tolist()):
            parent, token = divmod(best, V)
            text, score = [*texts[parent], token], total_WV[parent, token]
            if token == model.config["eos_token_id"] or new == new_tokens:
                finished += [(score / new**length_penalty, text)] if place < W else []
            elif len(running) < W:
                running.append((score, parent, text))
        finished = sorted(finished, key=lambda score_and_text: -score_and_text[0])[:W]
        if not running or running[0][0] / new**length_penalty <= finished[-1][0]:
            break  # the best text that runs is no better than the worst of W that have finished
        scores, parents, texts = map(list, zip(*running, strict=True))
        score_W = np.array(scores)
        cache.reorder(parents)
        logits_WV = model.forward(np.array(texts)[:, -1:], cache)
    return finished[0][1][len(prompt) :]


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m minidecode.page", description="Continues a text without 3-grams twice.")
    parser.add_argument("prompt", help="the text's beginning")
    parser.add_argument("--beams", type=int, default=1, help="texts kept at each step; 1, the default: greedy search")
    parser.add_argument("--new-tokens", type=int, default=40, help="the most to add (default: 40)")
    asked, folder = parser.parse_args(), bundled_models()["tiny-gpt2"]
    model, tokenizer = GPT2(folder), Tokenizer.from_folder(folder)
    ids, most = tokenizer.encode(asked.prompt).tolist(), model.config["n_positions"] + 1  # no pass reads the last token
    if min(len(ids), asked.beams, asked.new_tokens) < 1 or len(ids) + asked.new_tokens > most:
        parser.error(f"--beams, --new-tokens, prompt ({len(ids)} tokens): at least 1; prompt + new: at most {most}")
    asks = model, ids, asked.new_tokens
    print(tokenizer.decode(beam_search(*asks, asked.beams, n=3) if asked.beams > 1 else greedy_search(*asks, n=3)))
