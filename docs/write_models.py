"""Writes the tables of docs/guide/models.md that say what each kind of model can do, by asking a toy of each kind.

python docs/write_models.py            write the tables
python docs/write_models.py --check    exit with 1 if they are stale
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from safetensors.numpy import save_file

import minidecode as md
from minidecode.files.published import PUBLISHED, published_config, random_tensors
from minidecode.models import FAMILIES, REFUSED

PAGE = Path(__file__).resolve().parent / "guide" / "models.md"
BEGIN, END = "<!-- written by docs/write_models.py -->\n", "<!-- end of what docs/write_models.py writes -->\n"
SIZES = {"vocab": 24, "position": 32, "distance": 16, "buckets": 8, "layers": 1, "n_layer": 1, "head": 2, "d_kv": 16}


def toy_fields(model_type: str) -> dict[str, Any]:
    """A config.json of this kind with small sizes: what a family calls a size is a field of SIZES in its config."""
    names = [name for name, fields in PUBLISHED.items() if fields["model_type"] == model_type]
    fields = (published_config(names[0]) or {}) if names else {"model_type": model_type}
    if model_type == "fsmt":
        fields |= {"src_vocab_size": 24, "tgt_vocab_size": 24}
    config = FAMILIES[model_type].config
    grouped = (config.from_json(fields).num_key_value_heads or 1) > 1
    known = {f.name for f in dataclasses.fields(config)}
    small = {name: next((n for part, n in SIZES.items() if part in name), 32) for name in config.SIZES if name in known}
    fields |= small | {"eos_token_id": 1, "bos_token_id": 0, "pad_token_id": 1, "decoder_start_token_id": 0}
    fields |= {"num_key_value_heads": 2} if grouped else {}
    fields |= {"mask_token_id": 2} if "mask_token_id" in known else {}
    fields |= {"has_classifier": True} if model_type == "bert" else {}
    fields |= {"pad_token_id": 0} if "prophetnet" in model_type else {}  # as all of them have it
    return fields | {"task_specific_params": {"toy": {"prefix": "toy: ", "num_beams": 2}}}


def generates(**how: Any) -> Callable[[Path], None]:
    """A trial: two beams of two tokens, with a plan or a dtype."""

    def trial(folder: Path) -> None:
        model = md.load(folder, random_weights=True, **how)
        if model.is_encoder and "dtype" in how:
            model.encode(input_ids=[[3, 4, 5]])
            return
        ids = [[3]] if "device" in how else [[3, 4, 5]]  # the emulator is slow
        model.generate(input_ids=ids, num_beams=2, max_new_tokens=len(ids[0]) - 1 or 1, no_repeat_ngram_size=0)

    return trial


def takes_a_task(folder: Path) -> None:
    """A trial: a search with the settings of a task."""
    md.load(folder, random_weights=True, task="toy").generate(input_ids=[[3, 4, 5]], max_new_tokens=2)


def chats(folder: Path) -> None:
    """A trial: an answer to a message, by a tokenizer that has a chat template."""
    model = md.load(folder, random_weights=True)
    speaker = SimpleNamespace(encode_chat=lambda messages, most: np.array([3, 4, 5]))
    model.inputs = dataclasses.replace(model.inputs, tokenizer=speaker)
    model.chat([{"role": "user", "content": "a"}], max_new_tokens=2)


def scores(folder: Path) -> None:
    """A trial: the log-probabilities of two tokens."""
    md.load(folder, random_weights=True).score(input_ids=[[3, 4, 5]], target_ids=[[3, 4]])


def reads(method: str) -> Callable[[Path], None]:
    """A trial: what an encoder says of a text."""
    return lambda folder: getattr(md.load(folder, random_weights=True), method)(input_ids=[[3, 4, 5]])


def pools(folder: Path) -> None:
    """A trial: a copy of the model with one key/value head."""
    with tempfile.TemporaryDirectory() as out:
        md.convert(folder, Path(out) / "pooled", num_key_value_heads=1)


# What a reader asks for -> what tries it.
TRIALS: dict[str, Callable[[Path], None]] = {
    **{f"`cache={name}`": generates(plan=f"cache={name}")
       for name in ("split", "indirect", "paged", "preallocated", "replicated", "el", "rolling")},
    "`hars=reference`": generates(plan="hars=reference"),
    "`arena=planned`": generates(plan="cache=split,arena=planned"),
    "`cache_dtype=float16`": generates(plan="cache=split,cache_dtype=float16"),
    "`epilogue=reference`": generates(plan="epilogue=reference"),
    "`--device cuda`": generates(plan="cuda", device="emulator"),
    **{f"`dtype={name}`": generates(dtype=name) for name in ("float16", "int8", "int8_dynamic", "int8_blocks", "int4")},
    "`convert --kv-heads`": pools,
    "`--task` (a name from config.json)": takes_a_task,
    "`chat`, `--chat` (by the template of its files)": chats,
    "`score`": scores,
    "`embed`": reads("encode"),
    "`classify`": reads("classify"),
}  # fmt: skip


def answer(trial: Callable[[Path], None], folder: Path, model_type: str) -> str:
    """Yes, or the error, without the folder and the kind of model that it is about."""
    try:
        trial(folder)
    except md.MinidecodeError as error:
        message = str(error).replace(str(folder), "the model").replace(f"this {model_type} ", "this model ")
        return message.removeprefix("plan: ")
    return "yes"


def answers() -> dict[str, dict[str, str]]:
    """model_type -> what is asked -> yes, or the reason why not."""
    by_type = {}
    for model_type, family in FAMILIES.items():
        with tempfile.TemporaryDirectory() as folder_name:
            folder, fields = Path(folder_name), toy_fields(model_type)
            (folder / "config.json").write_text(json.dumps(fields), encoding="utf-8")
            shapes = family.network.tensor_shapes(family.config.from_json(fields))
            tensors = random_tensors(shapes, np.dtype(np.float32))
            save_file({family.network.PREFIX + n: t for n, t in tensors.items()}, folder / "model.safetensors")
            by_type[model_type] = {asked: answer(trial, folder, model_type) for asked, trial in TRIALS.items()}
    return by_type


def tables() -> str:
    """The tables, in Markdown: kinds with the same answers share a column; reasons have numbers."""
    by_type = answers()
    columns: dict[tuple, list[str]] = {}
    for model_type, said in by_type.items():
        columns.setdefault(tuple(said.values()), []).append(f"`{model_type}`")
    reasons = list(dict.fromkeys(a for said in by_type.values() for a in said.values() if a != "yes"))
    lines = ["| | " + " | ".join(", ".join(kinds) for kinds in columns.values()) + " |",
             "|---|" + "---|" * len(columns)]  # fmt: skip
    for i, asked in enumerate(TRIALS):
        cells = ["yes" if said[i] == "yes" else f"no ({reasons.index(said[i]) + 1})" for said in columns]
        lines.append(f"| {asked} | " + " | ".join(cells) + " |")
    lines += ["", *(f"{n}. {reason}" for n, reason in enumerate(reasons, 1)), "",
              "These kinds of models are errors at load:", "", "| `model_type` | why |", "|---|---|",
              *(f"| `{name}` | {why} |" for name, why in REFUSED.items()), ""]  # fmt: skip
    return "\n".join(lines)


def written(page: str, new: str) -> str:
    """The page with other tables between the two marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + new + END + rest.partition(END)[2]


def main() -> None:
    """Writes the tables into the page, or checks them."""
    page = PAGE.read_text(encoding="utf-8")
    new = written(page, tables())
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(new, encoding="utf-8", newline="\n")
    elif new != page:
        sys.exit("docs/guide/models.md is stale: run python docs/write_models.py")


if __name__ == "__main__":
    main()
