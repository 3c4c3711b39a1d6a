"""fairseq's golden models as folders: written from numbers, or converted from fairseq's own checkpoints.

fairseq's main branch (commit 3d262bb25690, torch 2.13) computed the numbers, with random weights. The folder
fairseq_models holds them: `case.json` the flags and the inputs, `numbers.npz` the logits of each sentence alone in
float64 (an eighth of them, see make_fairseq_models.py), the weights where no checkpoint has them, and the first rows of
fairseq's sinusoids. Needs neither fairseq nor torch.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
from pathlib import Path

import numpy as np
from golden_suite import largest, largest_error

import minidecode as md
from minidecode.files.checkpoint import write_safetensors
from minidecode.files.fairseq_folder import convert_fairseq

FOLDER = Path(__file__).parent / "fairseq_models"
CHECKPOINTS = sorted(folder.name for folder in (FOLDER / "checkpoints").iterdir())
NAMES = sorted(folder.name for folder in FOLDER.iterdir() if (folder / "numbers.npz").exists())
# Greedy search as the golden numbers have it: the largest logit of all tokens but pad, 12 steps, also past an EOS.
GREEDY = {"eos_token_id": (), "suppress_tokens": [1], "max_new_tokens": 12, "num_beams": 1, "dialect": "hf"}


def write_checkpoint(name: str, folder: Path) -> Path:
    """A checkpoint with its dictionaries -> the path of the .pt file."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (FOLDER / "checkpoints" / name).iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    path = folder / "checkpoint_best.pt"
    path.write_bytes(lzma.decompress((folder / "checkpoint_best.pt.xz").read_bytes()))
    return path


def case_of(name: str) -> dict:
    return json.loads((FOLDER / name / "case.json").read_text(encoding="utf-8"))


def write_model(name: str, folder: Path) -> Path:
    """The model of a case as a folder."""
    case = case_of(name)
    if case["checkpoint"] is not None:
        path = write_checkpoint(case["checkpoint"], folder / "training")
        convert_fairseq(path, folder / "model")
        return folder / "model"
    out = folder / "model"
    out.mkdir(parents=True)
    with np.load(FOLDER / name / "numbers.npz") as file:
        numbers = file["weights"]
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in case["tensors"].values()])
    tensors = dict(zip(case["tensors"], np.split(numbers, ends[:-1]), strict=True))
    layout = {name: ("F32", tuple(shape)) for name, shape in case["tensors"].items()}
    write_safetensors(out / "model.safetensors", layout, lambda n: tensors[n].reshape(layout[n][1]))
    sizes = {"src_vocab_size": case["source_vocab_size"], "tgt_vocab_size": case["target_vocab_size"]}
    tokens = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    fields = {"model_type": "fairseq"} | sizes | tokens | case["flags"]
    (out / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    return out


class Case:
    """A golden model, written into a folder, and its numbers."""

    def __init__(self, name: str, folder: Path):
        self.name, case = name, case_of(name)
        self.folder = write_model(name, folder)
        self.sources, self.targets, self.greedy = case["src_tokens"], case["prev_output_tokens"], case["greedy_tokens"]
        with np.load(FOLDER / name / "numbers.npz") as file:
            self.logits = [file[f"logits_{i}_TV"] for i in range(len(self.sources))]
            self.sinusoid_ND = file.get("sinusoid_ND")
        self.largest_logit = largest(self.logits)

    def load(self, **options) -> md.Model:
        return md.load(self.folder, **options)

    def load_with_their_sinusoids(self) -> md.Model:
        """In float64, with fairseq's table of positions, which was computed in float32."""
        model = self.load(dtype="float64")
        w = model.weights
        for side in ("encoder", "decoder"):
            if self.has_sinusoids(model.config, side):
                table_ND = self.sinusoid_ND.astype(np.float64)
                w = dataclasses.replace(w, **{side: dataclasses.replace(getattr(w, side), wpe_ND=table_ND)})
        model.weights = w
        return model

    @staticmethod
    def has_sinusoids(config, side: str) -> bool:
        return not config.no_token_positional_embeddings and not config.learns_positions(side)

    def error(self, model: md.Model, pad=None) -> float:
        """The largest difference of a logit from fairseq's, all sentences in one call; pad: rows -> (ids, mask)."""
        if pad is None:
            found = model.logits(self.sources, decoder_input_ids=self.targets)
        else:
            found = model.logits(*pad(self.sources), *pad(self.targets))
        return largest_error(found, self.logits)
