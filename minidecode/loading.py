"""Loading: from a bundled name, a folder, a hub id or published shapes to a `Model`."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .device.arrays import chosen_device
from .device.low_precision import COMPUTED_IN
from .errors import CheckpointError, MemoryBudgetError, MinidecodeWarning, OptionError, did_you_mean
from .files.fairseq_tokenizer import CODES
from .files.folder import (
    bundled_models,
    chosen_defaults,
    defaults_within_vocabulary,
    find_folder,
    read_settings,
    stored_tensors,
    task_settings,
)
from .files.hub import VOCABULARIES
from .files.published import published_config, random_tensors
from .files.sentence_settings import SentenceSettings
from .files.stored import read_json
from .files.tokenizer import Tokenizer
from .files.tokenizer_kinds import TOKENIZER_KINDS
from .model import Model
from .plan import Plan


def load(
    name: str | Path, *, plan: str | Plan = "auto", dtype: str = "float32", device: str = "cpu",
    random_weights: bool = False, revision: str | None = None,
    generation_config: dict[str, Any] | str | Path | bool | None = None, task: str | None = None,
    source_lang: str | None = None, target_lang: str | None = None,
) -> Model:  # fmt: skip
    """A model, by a bundled name, a folder in the Hugging Face layout, or a hub id like "gpt2".

        model = md.load("tiny-gpt2")
        model = md.load("gpt2", plan="fast", dtype="int8")

    name: a name of `bundled_models()`, a folder, or a hub id.
    plan: how each optimization is done, such as "fast" or "cache=split"; see `Plan`.
    dtype: "float32" or "float64" is what is computed in. "float16", "int8", "int8_blocks" or
        "int4" is what products store their matrices as; their sums and all between products
        stay float32. Each weight is then off by its rounding: nearly the same model, but equal
        tokens are not promised. "int8_dynamic" rounds the rows of products too.
    device: "cpu". "cuda" computes on a GPU and needs CuPy; "auto" does so where there is a GPU.
        "emulator" runs the same kernels without one, thread by thread: for toy shapes.
    random_weights: take only the shapes of a published model, such as gpt2, bart-base or t5-base,
        to time them without a download; pass input_ids to `generate`.
    revision: the branch, tag or commit of a hub id; main by default.
    generation_config: the defaults of `generate`. None: those of the model's
        generation_config.json. A dict, or the path of a JSON file, replaces them, and False
        leaves them out. The ids of the model's special tokens (the end of text, the first token
        of a target) stay in both cases.
    task: a task of the model's config.json, such as "summarization" for T5: its settings become
        defaults of `generate`, and its prefix is put in front of each text.
    source_lang, target_lang: the languages of a translation model, such as "de" and "en". mBART
        needs both, a Marian model of several target languages the target's. It is an error if the
        model has others.

    Raises CheckpointError on a folder that cannot be used, OptionError on a plan, a dtype or a
    device.

    float32 weights are mapped, not read: GPT-2 takes no memory of its own. BART's q, k and v
    matrices are copied into one. plan="fast" copies all matrices of layers, in the order that
    compiled products read: 340 MB for GPT-2, beside a mapped file of 498 MB. Other plans with
    linear=cpu copy GPT-2's. Low-precision weights are made a matrix at a time, and are all that
    stays: at int8_dynamic 124 MB for GPT-2. A file of float16 or bfloat16 is cast to float32 as a
    whole first. Leave the files as they are while the model is in use: rewriting them changes the
    model, and cutting them short ends the program. Deleting them is safe.
    """
    check_dtype(dtype)
    plan, device = Plan.parse(plan), chosen_device(device)
    if device != "cpu" and dtype == "float64":
        raise OptionError(f"device={device} computes in float32: dtype=float64 needs device=cpu")
    fields = published_config(str(name)) if random_weights else None
    if fields is not None and revision is not None:
        raise OptionError(f"revision={revision!r} is for models on the hub: {name} has random weights")
    folder = find_folder(name, revision, weights=not random_weights) if fields is None else None
    family, config, defaults = read_settings(folder, fields)
    kind = TOKENIZER_KINDS[family.tokenizer]
    with _memory_for_loading(name, dtype):
        tokenizer = kind.make(folder, config) if folder else None
    of_languages = kind.set_languages(tokenizer, fields or folder, source_lang, target_lang)
    defaults = defaults_within_vocabulary(folder, defaults, config.vocab_size)
    defaults, source = chosen_defaults(folder, defaults, generation_config)
    defaults, source, prefix = _with_task(defaults | of_languages, source, folder, fields, task)
    if family.sep_ends_texts:
        defaults = _with_sep(defaults, config, tokenizer)
    compute = np.dtype(COMPUTED_IN[dtype])
    with _memory_for_loading(name, dtype):
        if random_weights:
            tensors = random_tensors(family.network.tensor_shapes(config), compute)
        else:
            assert folder is not None  # only random weights have none
            stored, config = stored_tensors(folder, family, config)
            shapes = family.network.tensor_shapes(config)
            tensors = {
                name: stored[name].read(compute) if name in stored else np.zeros(shape, compute)
                for name, shape in shapes.items()
            }
        model = Model(family, config, tensors, tokenizer, defaults, plan, dtype, device, source, prefix)
        if folder is not None and model.is_encoder:
            model.sentences = SentenceSettings.from_folder(folder)
        del tensors
        _return_free_memory()
    arguments = {"dtype": dtype, "device": device, "random_weights": random_weights, "task": task,
                 "source_lang": source_lang, "target_lang": target_lang}  # fmt: skip
    model.loaded_from = LoadedFrom.from_arguments(name, revision, folder, arguments)
    return model


def _with_sep(defaults: dict[str, Any], config: Any, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """The defaults of a UniLM, whose files do not say that [SEP] ends a text, and begins a target.

    Raises CheckpointError where the tokenizer has another [MASK] than config.json, or does not frame texts.
    """
    mask, frame = (None, []) if tokenizer is None else (tokenizer.token_to_id("[MASK]"), tokenizer.encode("").tolist())
    if mask not in (None, config.mask_token_id):
        raise CheckpointError(
            f"config.json: mask_token_id is {config.mask_token_id}, and the tokenizer's [MASK] is {mask}: "
            "set mask_token_id to the one that the model was trained with"
        )
    if tokenizer is not None and len(frame) != 2:
        raise CheckpointError(
            f"the tokenizer puts {len(frame)} tokens around a text, and UniLM reads [CLS] text [SEP]: add the "
            "post-processor to tokenizer.json, or put vocab.txt in its place"
        )
    sep = frame[1] if frame else (102 if config.vocab_size > 102 else None)  # as in BERT's vocabularies
    eos = defaults.get("eos_token_id")
    start = eos if isinstance(eos, int) else sep
    separators = {"eos_token_id": sep, "decoder_start_token_id": start}
    return defaults | {
        name: value for name, value in separators.items() if defaults.get(name) is None and value is not None
    }


def _return_free_memory() -> None:
    """Gives freed memory back to the system where the C library can: else it keeps what weights were made from."""
    with suppress(AttributeError, OSError, TypeError):  # no such function; on Windows no such library
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(frozen=True)
class LoadedFrom:
    """What a loaded model is pickled as: what `load` was given, and what its files held.

    Weights may take gigabytes, which another process maps from the same files.
    """

    name: str
    revision: str | None
    folder: Path | None  # None: random weights of published shapes
    arguments: dict[str, Any]
    files: dict[str, str]  # file -> its size, and SHA-256 of parts of it

    @classmethod
    def from_arguments(
        cls, name: str | Path, revision: str | None, folder: Path | None, arguments: dict[str, Any]
    ) -> LoadedFrom:
        folder = folder and folder.absolute()
        return cls(str(name), revision, folder, arguments, _fingerprints(folder))

    def is_unchanged(self) -> bool:
        """Whether the files are there and still the same."""
        return _fingerprints(self.folder) == self.files

    def load_again(self, plan: Plan, defaults: dict[str, Any], source: str) -> Model:
        """Loads a model again from its folder, or where that is not (another machine) from the hub or the package.

        Raises CheckpointError where the files are others.
        """
        name, revision, folder = self.name, self.revision, self.folder
        if folder is not None:
            if folder.is_dir():
                name, revision = str(folder), None
            else:
                folder = find_folder(name, revision, weights=not self.arguments["random_weights"])
            if _fingerprints(folder) != self.files:
                raise CheckpointError(
                    f"{folder} holds other files than when the model was pickled: load it by its name instead"
                )
        model = load(name, plan=plan, revision=revision, **self.arguments)
        model.defaults.clear()
        model.defaults.update(defaults)
        model.defaults_from = source
        return model


def _fingerprints(folder: Path | None) -> dict[str, str]:
    """What tells one model's files from another's, for little reading: of the files that a model is made of."""
    if folder is None or not folder.is_dir():
        return {}
    made_of = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
               "vocab.json", "vocab-src.json", "vocab-tgt.json", "vocab.txt", "modules.json", *CODES,
               *VOCABULARIES)  # fmt: skip
    paths = [folder / file for file in made_of if (folder / file).exists()]
    paths += sorted(folder.glob("dict.*.txt"))
    weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    return {path.name: _fingerprint(path) for path in [*paths, *weights]}


def _fingerprint(path: Path) -> str:
    """The size, and the SHA-256 of the first and the last megabyte and of 256 pieces between.

    So a change is seen that is a 256th of the file or longer, as of one layer of a large model, or that is at an end.
    """
    size, digest = path.stat().st_size, hashlib.sha256()
    places = [(0, 2**20), *((size * k // 256, 2**12) for k in range(256)), (max(0, size - 2**20), 2**20)]
    with path.open("rb") as file:
        for begin, length in places if size > 2**21 else [(0, size)]:
            file.seek(begin)
            digest.update(file.read(length))
    return f"{size} {digest.hexdigest()}"


def load_shapes(
    name: str | Path, *, plan: str | Plan = "auto", dtype: str = "float32", vocab_size: int | None = None,
    generation_config: dict[str, Any] | str | Path | bool | None = None, task: str | None = None,
    source_lang: str | None = None, target_lang: str | None = None,
) -> Model:  # fmt: skip
    """A model of that shape, whose weights are zeros: for `plan_step`, which asks for no more.

    Memory that is only read as zeros is not taken on Linux and macOS; BART's q, k and v matrices are, for they are
    copied into one, and so are low-precision ones. vocab_size: another vocabulary than the model's.
    generation_config, task, source_lang, target_lang, and what is raised: as in `load`.
    """
    check_dtype(dtype)
    fields = published_config(str(name))
    folder = None
    if fields is None:
        folder = find_folder(name, weights=False)
        fields = read_json(folder / "config.json")
    family, config, defaults = read_settings(folder, fields)
    defaults = defaults_within_vocabulary(folder, defaults, config.vocab_size)
    if source_lang is not None or target_lang is not None:
        kind = TOKENIZER_KINDS[family.tokenizer]
        kind.set_languages(kind.make(folder, config) if folder else None, fields, source_lang, target_lang)
    if vocab_size is not None:
        sizes = ("vocab_size", "decoder_vocab_size", "src_vocab_size", "tgt_vocab_size")
        kind_of_config: Any = family.config
        config = kind_of_config.from_json(fields | dict.fromkeys(sizes, vocab_size) | {"mask_token_id": 0})  # of UniLM
    defaults, source = chosen_defaults(folder, defaults, generation_config)
    defaults, source, _ = _with_task(defaults, source, folder, fields, task)
    if family.sep_ends_texts:
        tokenizer = None
        if folder is not None and vocab_size is None:
            tokenizer = TOKENIZER_KINDS[family.tokenizer].make(folder, config)
        defaults = _with_sep(defaults, config, tokenizer)
    if vocab_size is not None:  # special tokens of the true vocabulary may lie beyond it
        defaults = {k: 0 if k.endswith("token_id") and value else value for k, value in defaults.items()}
    shapes = family.network.tensor_shapes(config)
    with _memory_for_loading(name, dtype):
        tensors = {k: np.zeros(shape, COMPUTED_IN[dtype]) for k, shape in shapes.items()}
        return Model(family, config, tensors, None, defaults, Plan.parse(plan), dtype, defaults_from=source)


def _with_task(
    defaults: dict[str, Any], source: str, folder: Path | None, fields: dict[str, Any] | None, task: str | None
) -> tuple[dict[str, Any], str, str]:
    """(defaults, where they come from, what stands in front of each text) with those of a task, if one is asked for."""
    if task is None:
        if folder is not None and folder in bundled_models().values():
            _warn_of_tasks(read_json(folder / "config.json"))
        return defaults, source, ""
    if fields is None:
        assert folder is not None
        fields = read_json(folder / "config.json")
    settings, prefix = task_settings(fields, task)
    return defaults | settings, f"{source} with the task {task}", prefix


def _warn_of_tasks(fields: dict[str, Any]) -> None:
    """Warns of a bundled model that was trained on nothing but its tasks: other texts get answers that mean nothing."""
    if tasks := fields.get("task_specific_params"):
        warnings.warn(
            f"this model only knows its tasks: give --task {' or '.join(tasks)}, or put a task's words before each "
            f"text, such as {next(iter(tasks.values()))['prefix']!r}", MinidecodeWarning, stacklevel=4,
        )  # fmt: skip


@contextmanager
def _memory_for_loading(name: str | Path, dtype: str) -> Iterator[None]:
    """Raises MemoryBudgetError where the memory ends while a model is loaded: no batch is to blame."""
    try:
        yield
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:  # a file that cannot be mapped
            raise
        raise MemoryBudgetError(
            f"not enough memory to load {name} with dtype={dtype} ({error}): free some, or load a smaller model"
        ) from error


def check_dtype(dtype: str) -> None:
    if not isinstance(dtype, str) or dtype not in COMPUTED_IN:
        near = did_you_mean(str(dtype), COMPUTED_IN)
        raise OptionError(f"dtype must be one of {', '.join(COMPUTED_IN)}, not {dtype!r}{near}")
