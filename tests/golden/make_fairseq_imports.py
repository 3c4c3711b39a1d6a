"""Writes fairseq_imports: small random BARTs and language models that fairseq's own code builds, runs and stores.

    git clone https://github.com/facebookresearch/fairseq    (commit 3d262bb25690)
    python tests/golden/make_fairseq_imports.py PATH_OF_FAIRSEQ && python tests/golden_files.py fairseq_imports

Needs torch, transformers (for making.py), omegaconf, hydra-core, bitarray, regex and sacrebleu; fairseq's sources need
no build. A model is a folder:

    checkpoint_best.pt.xz   a checkpoint in a form that fairseq writes, with its dictionary beside it
    case.json               inputs, greedy tokens, and what GPT-2's BPE of fairseq makes of texts
    numbers.npz             logits in float64 of each sentence alone: an eighth, see `sample` in making.py

fairseq computes softmax and gelu in float32, in a double model too: here both stay in float64.
"""

from __future__ import annotations

import argparse
import builtins
import dataclasses
import importlib.abc
import importlib.machinery
import json
import lzma
import sys
import types
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import torch
from making import on_grid, sample

FOLDER = Path(__file__).parent / "fairseq_imports"
TEXTS = ["the cat", " the theme, in  1789: ", "Caf\u00e9 \u2014 \U0001f600!"]
MERGES = ["t h", "th e", "\u0120 the", "i n", "a t", "\u0120 c", "\u0120c at"]
WORDS = ["is", "to", "the", "ing@@", "of", "a", "and", "over", "un@@", "do", ".", ",", "b", "c", "d", "e", "f", "g"]
SPREADS = {"embed_tokens": 0.3, "output_projection": 0.3, "embed_positions": 0.6}  # of others: 0.4
STEPS = 10  # of greedy search

BART = {
    "encoder_embed_dim": 20, "encoder_ffn_embed_dim": 28, "encoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_ffn_embed_dim": 24, "decoder_layers": 1, "decoder_attention_heads": 5, "max_source_positions": 24,
    "max_target_positions": 24,
}  # fmt: skip
LANGUAGE_MODEL = {
    "decoder_embed_dim": 20, "decoder_ffn_embed_dim": 28, "decoder_layers": 2, "decoder_attention_heads": 4,
    "tokens_per_sample": 24,
}  # fmt: skip
CASES = {  # name -> (arch, what is set, whether texts are in GPT-2's BPE, the form of the checkpoint)
    "bart-denoising": ("bart_base", {"task": "denoising"} | BART, True, "args"),
    "bart-translation": ("bart_large", {"task": "translation"} | BART, False, "cfg"),
    "bart-relu-scaled": (
        "bart_base", {"task": "translation", "activation_fn": "relu", "no_scale_embedding": False} | BART, False, "args"
    ),
    "lm-gpt": ("transformer_lm_gpt", LANGUAGE_MODEL, True, "args"),
    "lm-learned-tied": (
        "transformer_lm_gpt",
        {"decoder_learned_pos": True, "share_decoder_input_output_embed": True, "no_scale_embedding": True}
        | LANGUAGE_MODEL, False, "cfg",
    ),
    "lm-sinusoids-tied-relu": (
        "transformer_lm_gpt2_small",
        {"share_decoder_input_output_embed": True, "add_bos_token": True, "activation_fn": "relu"} | LANGUAGE_MODEL,
        False, "args",
    ),
    "lm-no-positions": (
        "transformer_lm_gpt3_small", {"no_token_positional_embeddings": True} | LANGUAGE_MODEL, False, "args",
    ),
}  # fmt: skip


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages that fairseq imports for other tasks, and its compiled modules: everything in them is a mock."""

    NAMES = ("sklearn", "soundfile", "torchaudio", "pandas", "scipy", "editdistance", "apex", "fairscale")
    COMPILED = ("fairseq.data.data_utils_fast", "fairseq.data.token_block_utils_fast")

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.NAMES or name in self.COMPILED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = lambda name: None if name.startswith("__") else MagicMock()
        return module

    def exec_module(self, module):
        pass


def prepare(source: str) -> None:
    """Makes fairseq importable under a Python that it was not written for."""
    sys.path.insert(0, source)
    sys.meta_path.append(Absent())
    right = dataclasses._process_class

    def hashable(cls, init, repr, eq, order, unsafe_hash, frozen, *rest):
        ours = cls.__module__.startswith("fairseq") and eq and not frozen
        return right(cls, init, repr, eq, order, ours or unsafe_hash, frozen, *rest)

    dataclasses._process_class = hashable
    for name in ("float", "int", "bool", "object"):
        np.__dict__.setdefault(name, getattr(builtins, name))


def in_float64() -> None:
    from fairseq import utils

    right = utils.get_activation_fn
    utils.softmax = lambda x, dim, onnx_trace=False: torch.softmax(x, dim=dim)
    utils.get_activation_fn = lambda activation: torch.nn.functional.gelu if activation == "gelu" else right(activation)


def write_bpe(folder: Path) -> list[str]:
    """GPT-2's two files with a few merges -> the words of the dictionary: ids of pieces, in an order of its own."""
    from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode

    pieces = [*bytes_to_unicode().values(), *(merge.replace(" ", "") for merge in MERGES), "<|endoftext|>"]
    (folder / "encoder.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
    (folder / "vocab.bpe").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n", encoding="utf-8")
    order = np.random.default_rng(7).permutation(len(pieces) - 1)
    return [str(i) for i in order if i != 0x7F - 0x21] + ["madeupword0000"]  # a byte that the dictionary does not have


def make(name: str, seed: int) -> None:
    from fairseq.data import Dictionary
    from fairseq.models import ARCH_CONFIG_REGISTRY
    from fairseq.models.bart import BARTModel
    from fairseq.models.transformer_lm import TransformerLanguageModel

    arch, given, in_bpe, form = CASES[name]
    is_bart, folder = arch.startswith("bart"), FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    words = write_bpe(folder) if in_bpe else WORDS
    listed = Dictionary()
    for i, word in enumerate(words):
        listed.add_symbol(word, n=1000 - i)
    is_translation = given.get("task") == "translation"
    for file in ["dict.de.txt", "dict.en.txt"] if is_translation else ["dict.txt"]:
        listed.save(str(folder / file))
    dictionary = Dictionary.load(str(folder / ("dict.de.txt" if is_translation else "dict.txt")))
    if given.get("task") == "denoising":
        dictionary.add_symbol("<mask>")

    args = argparse.Namespace(arch=arch, data="/a/path", save_dir="/another", dropout=0.1, **given)
    if is_translation:
        args.source_lang, args.target_lang = "de", "en"
    ARCH_CONFIG_REGISTRY[arch](args)
    args.task = given.get("task", "language_modeling")
    args.add_bos_token = given.get("add_bos_token", False)
    task = types.SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    torch.manual_seed(seed)
    model = (BARTModel if is_bart else TransformerLanguageModel).build_model(args, task).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            spread = next((s for part, s in SPREADS.items() if part in key), 0.4 if p.dim() > 1 else 0.15)
            mean = 1.0 if "norm" in key and key.endswith("weight") else 0.0
            p.copy_(on_grid(mean + spread * torch.randn(p.shape, generator=generator)))

    settings = {"args": args, "cfg": None}
    if form == "cfg":
        cfg = argparse.Namespace(**vars(args), _name=arch)
        settings = {"args": None, "cfg": {"model": cfg, "task": {"_name": args.task, "data": "/a/path"}}}
        if is_translation:
            settings["cfg"]["task"] |= {"source_lang": "de", "target_lang": "en"}
    stored = settings | {"model": model.state_dict(), "extra_state": {"epoch": 3}, "last_optimizer_state": None}
    torch.save(stored, folder / "checkpoint_best.pt")
    path = folder / "checkpoint_best.pt"
    (folder / "checkpoint_best.pt.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))
    path.unlink()

    model = model.double()
    rng, V = np.random.default_rng(seed), len(dictionary)
    draw = lambda n: rng.integers(3, V, n).tolist()  # noqa: E731
    sources = [[*draw(7), 2], [*draw(4), 2], [5, 2]]
    first = 0 if args.add_bos_token else 2
    targets = [[first, *draw(5)], [first, *draw(9)], [first, 6]]

    def logits(source, target):
        ids = torch.tensor([target])
        with torch.no_grad():
            if is_bart:
                return model(torch.tensor([source]), torch.tensor([len(source)]), ids)[0][0].numpy()
            return model(ids)[0][0].numpy()

    greedy, margins = [], []
    for source, target in zip(sources, targets, strict=True):
        ids = target[:1] if is_bart else list(target)
        begins = len(ids)
        for _ in range(STEPS):
            scores = logits(source, ids)[-1].copy()
            scores[1] = -np.inf  # padding
            best = np.sort(scores)[-2:]
            margins.append(best[1] - best[0])
            ids.append(int(scores.argmax()))
        greedy.append(ids[begins:])
    case = {"arch": arch, "sources": sources if is_bart else None, "targets": targets, "greedy": greedy}
    case |= {
        "smallest_margin": min(margins),
        "words": dictionary.symbols,
        "texts": texts_of(folder, dictionary, in_bpe),
    }
    (folder / "case.json").write_text(json.dumps(case, indent=1), encoding="utf-8")
    expected = {f"logits_{i}_TV": sample(logits(s, t)) for i, (s, t) in enumerate(zip(sources, targets, strict=True))}
    np.savez(folder / "numbers.npz", **expected)
    print(name, V, "tokens, smallest margin", min(margins))


def texts_of(folder: Path, dictionary, in_bpe: bool) -> list[dict]:
    """Texts and their ids: of BPE, without special tokens; of words, with the end that fairseq puts behind a line."""
    if not in_bpe:
        lines = ["is to the ing@@ of", "  over nowhere  b ."]
        return [{"text": t, "ids": dictionary.encode_line(t, append_eos=False, add_if_not_exist=False).tolist()}
                for t in lines]  # fmt: skip
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    bpe, found = get_encoder(str(folder / "encoder.json"), str(folder / "vocab.bpe")), []
    for text in TEXTS:
        pieces = " ".join(map(str, bpe.encode(text)))
        ids = dictionary.encode_line(pieces, append_eos=False, add_if_not_exist=False).tolist()
        found.append({"text": text, "ids": ids})
    return found


if __name__ == "__main__":
    prepare(sys.argv[1])
    torch.set_num_threads(1)
    in_float64()
    for seed, name in enumerate(CASES, 41):
        make(name, seed)
