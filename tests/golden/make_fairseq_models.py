"""Writes the numbers of fairseq_models anew: what fairseq's own code computes with the weights of the folder.

    git clone https://github.com/facebookresearch/fairseq    (commit 3d262bb25690)
    python tests/golden/make_fairseq_models.py PATH_OF_FAIRSEQ && python tests/golden_files.py fairseq_models

Needs what make_fairseq_imports.py needs. The flags, the inputs, the dictionaries and the forms of the checkpoints are
those that the folder has. Its weights are rounded to the grid of making.py, so a second run leaves them as they are.
Of the logits an eighth is kept: `sample` in making.py. fairseq_lines holds what fairseq's programs print for two of the
checkpoints: its README.md says how.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import sys
import types
from pathlib import Path

import numpy as np
import torch
from fairseq_cases import FOLDER, NAMES, case_of
from make_fairseq_imports import in_float64, prepare
from making import on_grid, sample

STEPS = 12  # of greedy search


def build(case: dict):
    """fairseq's model of a case, with random weights."""
    from fairseq.data import Dictionary
    from fairseq.models.transformer import TransformerModel, base_architecture

    def dictionary(size: int) -> Dictionary:
        listed = Dictionary()
        for i in range(size - len(listed)):
            listed.add_symbol(f"word{i}")
        return listed

    args = argparse.Namespace(**case["flags"])
    base_architecture(args)
    source = dictionary(case["source_vocab_size"])
    target = source if args.share_all_embeddings else dictionary(case["target_vocab_size"])
    task = types.SimpleNamespace(source_dictionary=source, target_dictionary=target)
    return TransformerModel.build_model(args, task).eval()


@torch.no_grad()
def weights_of_checkpoint(name: str) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint. If they are not on the grid yet, it is written with them there, in its own form."""
    path = FOLDER / "checkpoints" / name / "checkpoint_best.pt.xz"
    data = lzma.decompress(path.read_bytes())
    stored = torch.load(io.BytesIO(data), weights_only=False)
    moments = ((stored.get("last_optimizer_state") or {}).get("state") or {}).values()
    tensors = [t for key, t in stored["model"].items() if not key.endswith(("version", "_float_tensor"))]
    tensors += [t for moment in moments for t in moment.values() if t.dim()]
    if any(not torch.equal(t, on_grid(t)) for t in tensors):
        for tensor in tensors:
            tensor.copy_(on_grid(tensor))
        again = io.BytesIO()
        torch.save(stored, again, _use_new_zipfile_serialization=data.startswith(b"PK"))
        path.write_bytes(lzma.compress(again.getvalue(), preset=9))
    return stored["model"]


def load(name: str) -> tuple[torch.nn.Module, dict[str, np.ndarray]]:
    """fairseq's model of a case in float64, and what numbers.npz holds of it beside the logits."""
    case, model = case_of(name), build(case_of(name))
    with np.load(FOLDER / name / "numbers.npz") as file:
        kept = {key: file[key] for key in ("sinusoid_ND", "weights") if key in file}
    if case["checkpoint"] is not None:
        weights = weights_of_checkpoint(case["checkpoint"])
    else:
        new = torch.tensor([3.0])  # a file without a version is read as an old one, which has no last norms
        weights, rest = {"encoder.version": new, "decoder.version": new}, on_grid(torch.tensor(kept["weights"]))
        kept["weights"] = rest.numpy()
        for key, shape in case["tensors"].items():
            size = int(np.prod(shape))
            weights[key], rest = rest[:size].view(shape), rest[size:]
    missing, unexpected = model.load_state_dict(weights, strict=False)
    tied = {"decoder.embed_tokens.weight", "decoder.output_projection.weight"}
    assert not unexpected and set(missing) <= tied, (missing, unexpected)
    return model.double(), kept


@torch.no_grad()
def logits_of(model, source: list[int], target: list[int]) -> np.ndarray:
    return model(torch.tensor([source]), torch.tensor([len(source)]), torch.tensor([target]))[0][0].numpy()


def greedy(model, source: list[int]) -> tuple[list[int], float]:
    """The tokens of greedy search, also past an EOS, and the smallest margin of a choice."""
    ids, margins = [2], []
    for _ in range(STEPS):
        scores_V = logits_of(model, source, ids)[-1].copy()
        scores_V[1] = -np.inf  # padding
        second, best = np.sort(scores_V)[-2:]
        margins.append(float(best - second))
        ids.append(int(scores_V.argmax()))
    return ids[1:], min(margins)


def make(name: str) -> None:
    case, path = case_of(name), FOLDER / name / "case.json"
    model, kept = load(name)
    found = [greedy(model, source) for source in case["src_tokens"]]
    case |= {"greedy_tokens": [ids for ids, _ in found], "greedy_min_margin": min(margin for _, margin in found)}
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in case.items())
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    pairs = zip(case["src_tokens"], case["prev_output_tokens"], strict=True)
    expected = {f"logits_{i}_TV": sample(logits_of(model, *pair)) for i, pair in enumerate(pairs)}
    np.savez(FOLDER / name / "numbers.npz", **expected, **kept)
    print(name, "smallest margin", case["greedy_min_margin"])


if __name__ == "__main__":
    prepare(str(Path(sys.argv[1]).resolve()))
    torch.set_num_threads(1)
    in_float64()
    for name in NAMES:
        make(name)
