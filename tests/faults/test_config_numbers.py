"""Each number of each family's config.json, far too large: one line, before time or memory is spent on it."""

from __future__ import annotations

import json
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
from taken_bytes import peak_of
from toy_folder import write_bart_folder, write_folder

import minidecode as md
from minidecode.loading import load_shapes
from minidecode.models import FAMILIES
from minidecode.options.checks import Whole
from minidecode.options.options import TOKEN_IDS
from minidecode.options.table import ROWS

GOLDEN = Path(__file__).parents[1] / "golden"
FOLDERS = {
    "gpt2": "gpt2/gelu", "gpt_bigcode": "gpt_bigcode/multi-query", "bart": "bart/gelu", "mbart": "mbart/gelu",
    "marian": "marian/gelu", "t5": "t5/gated-untied", "umt5": "t5/umt5", "prophetnet": "prophetnet/relu",
    "bert": "bert/labels", "unilm": "unilm/plain", "llama": "llama/llama3", "mistral": "llama/mistral",
    "qwen2": "llama/qwen2",
}  # fmt: skip
LARGE = (10**7, 2**31 - 1, 2**63)
OURS = ("num_key_value_heads", "key_width", "value_width", "attention_window")


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """Name -> a folder of such a model, whose config.json may be spoilt."""
    sys.path.append(str(GOLDEN))
    from fairseq_cases import write_model

    made = {}

    def of(name: str) -> Path:
        if name not in made:
            out = tmp_path_factory.mktemp("right") / name
            if name == "fairseq":
                out = write_model("01-post-sin-separate", out)
            else:
                source = md.bundled_models()["tiny-latent"] if name == "gpt2_latent" else GOLDEN / FOLDERS[name]
                shutil.copytree(source, out, ignore=shutil.ignore_patterns("cases.json", "*.npz"))
            made[name] = out
        return made[name]

    return of


def spoilt(fields: dict, sizes: tuple[str, ...]) -> Iterator[tuple[str, dict]]:
    """(name, the fields with a large number under it): of each number that there is or may be, and in each object."""
    names = {name for name, value in fields.items() if isinstance(value, int) and not isinstance(value, bool)}
    for value in LARGE:
        for name in sorted(names | set(sizes) | set(OURS)):
            yield name, fields | {name: value}
        for outer, inner in fields.items():
            if isinstance(inner, dict):
                for name in (name for name, old in inner.items() if isinstance(old, int | float)):
                    yield f"{outer}.{name}", fields | {outer: inner | {name: value}}


@pytest.mark.parametrize("name", [*FOLDERS, "gpt2_latent", "fairseq"])
def test_a_number_far_too_large_is_one_line_or_harmless(right, name):
    """What sizes an array is refused; a token's id, say, may be that large, and then the model still answers."""

    def use(folder):
        model = md.load(folder)
        if not model.is_encoder:
            model.generate(input_ids=[[3, 4]], max_new_tokens=2)

    refused = set(refusals(right(name), use))
    assert refused >= set(sizes_of(right(name)))


@pytest.mark.parametrize("name", [*FOLDERS, "gpt2_latent", "fairseq"])
def test_shapes_alone_of_a_number_far_too_large(right, name):
    """As `plan` takes a folder. Arrays of zeros are no memory before they are read, so only layers are counted."""
    names = [n for n in sizes_of(right(name)) if "layer" in n]
    assert set(refusals(right(name), load_shapes, names)) == set(names)


@pytest.mark.parametrize("make", [write_bart_folder, write_folder])
@pytest.mark.parametrize("more", [{}, {"do_sample": True}, {"num_beams": 3}])
def test_a_default_of_generation_far_too_large(tmp_path, more, make):
    """One line, or texts as without it."""
    folder = make(tmp_path / "toy")
    md.load(folder).generate("a", max_new_tokens=2)
    for name in [name for name, row in ROWS.items() if isinstance(row.check, Whole)] + [
        "max_time",
        "max_len_a",
        *TOKEN_IDS,
    ]:
        for value in (*LARGE, 10**400):
            (folder / "generation_config.json").write_text(json.dumps(more | {name: value}), encoding="utf-8")
            limit = {} if name.startswith("max") else {"max_new_tokens": 2}
            measured(lambda: md.load(folder).generate("a", **limit), name)  # noqa: B023


def sizes_of(folder: Path) -> tuple[str, ...]:
    fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    sizes = FAMILIES[fields["model_type"]].config.SIZES
    return tuple("decoder_vocab_size" if name == "encoder_vocab_size" else name for name in sizes)  # Marian's own names


def refusals(folder: Path, use: Callable[[Path], object], names: Collection[str] | None = None) -> Iterator[str]:
    """The numbers of config.json with which the folder cannot be used."""
    path = folder / "config.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    use(folder)  # what is imported and made once is not counted
    try:
        for name, lying in spoilt(fields, sizes_of(folder)):
            if names is not None and name not in names:
                continue
            path.write_text(json.dumps(lying), encoding="utf-8")
            if measured(lambda: use(folder), name):
                yield name
    finally:
        path.write_text(json.dumps(fields), encoding="utf-8")


def measured(use: Callable[[], object], name: str) -> bool:
    """Whether that is refused, in one line. Either way it takes less than two seconds and 300 MB."""

    def timed() -> tuple[bool, float]:
        refused, began = False, time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                use()
        except md.MinidecodeError as error:
            refused = True
            assert "\n" not in str(error) and len(str(error)) < 600, name
        return refused, time.process_time() - began

    (refused, seconds), peak = peak_of(timed, 300e6)
    assert seconds < 2 and peak < 300e6, (name, seconds, peak)
    return refused
