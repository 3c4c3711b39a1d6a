"""Loading a model, and what a loaded model does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .checkpoint import find_tensors, load_tensors, read_json
from .errors import CheckpointError, InputError, NumericalError, OptionError
from .models import gpt2
from .models.config import GPT2Config
from .plan import Plan
from .runtime.engine import Engine
from .runtime.receipt import CountedOps, Receipt
from .search.beam import beam_search
from .search.greedy import greedy
from .search.options import DEFAULT_NEW_TOKENS, Options, resolve
from .tokenizer import Tokenizer

DTYPES = ("float32", "float64")


@dataclass
class Output:
    """What `generate` returns: one entry per hypothesis, num_return_sequences of each prompt in turn, best first."""

    token_ids: list[np.ndarray]  # new tokens alone, EOS included where it was reached
    scores: np.ndarray  # sum of log-probabilities / length ** length_penalty
    receipt: Receipt
    tokenizer: Tokenizer | None

    @property
    def texts(self) -> list[str]:
        """The new text of each hypothesis, without the prompt and without special tokens."""
        if self.tokenizer is None:
            raise InputError("this model folder has no tokenizer: read token_ids instead of texts")
        return [self.tokenizer.decode(ids) for ids in self.token_ids]


def bundled_models() -> dict[str, Path]:
    """Name -> folder of the trained models that ship with the package."""
    here = Path(__file__).resolve().parent
    roots = [here / "weights", here.parent / "weights"]  # installed from a wheel; run from a checkout
    folders = [f for root in roots if root.is_dir() for f in sorted(root.iterdir()) if (f / "config.json").exists()]
    return {f.name: f for f in reversed(folders)}


def find_folder(name: str | Path) -> Path:
    """The folder of a bundled name or a path. Raises CheckpointError that names the bundled models."""
    bundled = bundled_models()
    if str(name) in bundled:
        return bundled[str(name)]
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    kind = "is a file, not a folder" if folder.exists() else "is neither a bundled model nor a folder"
    raise CheckpointError(f"{str(name)!r} {kind}: name {' or '.join(bundled)}, or a folder with a config.json")


def load(name: str | Path, *, plan: str | Plan = "auto", dtype: str = "float32") -> Model:
    """A model from a bundled name or a local folder in the Hugging Face layout.

    float32 weights on disk are mapped, not read: loading takes no memory of its own. dtype is what is computed in,
    "float32" or "float64". Raises CheckpointError on a folder that cannot be used, OptionError on a plan or dtype.
    """
    if dtype not in DTYPES:
        raise OptionError(f"dtype must be {' or '.join(DTYPES)}, not {dtype!r}")
    plan = Plan.parse(plan)
    folder = find_folder(name)
    fields = read_json(folder / "config.json")
    if fields.get("model_type") != "gpt2":
        raise CheckpointError(
            f"{folder / 'config.json'}: model_type {fields.get('model_type')!r} is not known; gpt2 can be loaded"
        )
    config = GPT2Config.from_json(fields)
    found = find_tensors(folder)
    if config.n_layer > len(found):  # seen before their shapes are listed: a lying number costs no memory
        raise CheckpointError(
            f"{folder}: config.json says n_layer {config.n_layer}, and the weights are {len(found)} tensors in all: "
            "one of the two is not this model's"
        )
    tensors = load_tensors(
        folder, found, gpt2.tensor_shapes(config), np.dtype(dtype), prefix="transformer.",
        ignored=r"h\.\d+\.attn\.(bias|masked_bias)",
        tied={"lm_head.weight": "wte.weight"} if config.tie_word_embeddings else {},
    )  # fmt: skip
    defaults = {k: fields[k] for k in ("eos_token_id", "pad_token_id") if k in fields}
    if (folder / "generation_config.json").exists():
        defaults |= read_json(folder / "generation_config.json")
    return Model(config, tensors, Tokenizer.from_folder(folder), defaults, plan)


class Model:
    """Weights, tokenizer and defaults. Nothing here changes during a generation, so threads may share one."""

    def __init__(self, config, tensors: dict[str, np.ndarray], tokenizer, defaults: dict[str, Any], plan: Plan):
        self.config, self.tokenizer, self.defaults, self.plan = config, tokenizer, defaults, plan
        self.tensors = tensors
        self.weights = gpt2.bind(config, tensors)

    @property
    def parameters(self) -> int:
        """Numbers in the weights, tied ones once."""
        return sum(t.size for t in self.tensors.values())

    def options(self, **given: Any) -> Options:
        """The options that a call of `generate` with these would run under: generation_config.json fills the gaps.

        Raises OptionError on an unknown name, a value that breaks a rule, or one that this model cannot serve.
        """
        for name, neutral in [("do_sample", False), ("num_beam_groups", 1), ("repetition_penalty", 1.0)]:
            if self.defaults.get(name) not in (None, neutral):
                raise OptionError(
                    f"generation_config.json asks for {name}={self.defaults[name]!r}, which is not supported: "
                    f"set it to {neutral!r} there"
                )
        options = resolve(self.defaults, given)
        options.check_vocabulary(self.config.vocab_size)
        return options

    def check(self, prompts: str | Sequence[str], *, truncate: bool = False, **options: Any) -> None:
        """Raises what `generate` would raise on these prompts and options, without computing anything."""
        self._fit(self._prompt_ids(prompts, None, None), self.options(**options), truncate)

    def generate(
        self,
        prompts: str | Sequence[str] | None = None,
        *,
        input_ids: Any = None,
        attention_mask: Any = None,
        plan: str | Plan | None = None,
        truncate: bool = False,
        streamer: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> Output:
        """Continues each prompt: greedily, or by beam search if num_beams > 1.

        prompts: one text or several. Or input_ids, a list of token id sequences or an array (B, N) whose padding
        attention_mask (B, N) marks with 0. A sentence gives the same tokens alone and in any batch.
        plan: overrides the one given to `load`. truncate: cut prompts that are too long for the context, on the
        left. streamer: called with (sentence, token id) as tokens are chosen; greedy only.
        options: see search/options.py; unset ones come from generation_config.json.

        Raises InputError on prompts that cannot be used, OptionError on options, NumericalError on NaN scores.
        """
        started = time.perf_counter()
        resolved = self.options(**options)
        if streamer and resolved.num_beams > 1:
            raise OptionError("a streamer needs num_beams=1: a beam's text is not settled until the search ends")
        ids = self._prompt_ids(prompts, input_ids, attention_mask)
        ids, limit_B = self._fit(ids, resolved, truncate)
        tokenized = time.perf_counter()

        plan = self.plan if plan is None else Plan.parse(plan)
        functions, make_memory = plan.resolve()
        ops = CountedOps(functions)
        engine = Engine(self.weights, gpt2.forward, ops, make_memory)
        try:
            if resolved.num_beams == 1:
                found = greedy(engine, ids, limit_B, resolved, streamer)
            else:
                found = beam_search(engine, ids, limit_B, resolved)
        except NumericalError as error:
            raise NumericalError(f"{error}{self._nan_tensors()}") from None
        token_ids = [hypothesis for sentence in found.tokens for hypothesis in sentence]
        receipt = Receipt(
            plan=str(plan), ops=ops.counts(), memory=f"{make_memory.__module__}.{make_memory.__qualname__}",
            memory_peak_bytes=engine.memory_peak_bytes, prompt_tokens=sum(map(len, ids)),
            new_tokens=sum(map(len, token_ids)), steps=found.steps,
            seconds={"prompts": tokenized - started, "generation": time.perf_counter() - tokenized},
        )  # fmt: skip
        return Output(token_ids, found.scores_BX.reshape(-1), receipt, self.tokenizer)

    def logits(self, input_ids: Any, attention_mask: Any = None) -> list[np.ndarray]:
        """The scores before softmax of every position, one array (N, V) per sentence, padding left out."""
        ids = self._prompt_ids(None, input_ids, attention_mask)
        self._fit(ids, Options(), truncate=False)
        functions, make_memory = self.plan.resolve()
        engine = Engine(self.weights, gpt2.forward, CountedOps(functions), make_memory)
        logits_RV = engine.prefill(ids, every_row=True)
        return np.split(logits_RV, np.cumsum([len(i) for i in ids])[:-1])

    def _prompt_ids(self, prompts, input_ids, attention_mask) -> list[np.ndarray]:
        """Token ids of each prompt, padding left out."""
        if (prompts is None) == (input_ids is None):
            raise InputError("give either prompts (texts) or input_ids (token ids)")
        if prompts is not None:
            if self.tokenizer is None:
                raise InputError(
                    "this model folder has no tokenizer: add its tokenizer.json, or pass input_ids to generate"
                )
            texts = [prompts] if isinstance(prompts, str) else list(prompts)
            if not all(isinstance(t, str) for t in texts):
                raise InputError("prompts must be texts; pass token ids as input_ids")
            ids = [self.tokenizer.encode(t) for t in texts]
        else:
            ids = _rows(input_ids, attention_mask)
        if not ids:
            raise InputError("there is no prompt: give at least one")
        V = self.config.vocab_size
        for b, row in enumerate(ids, 1):
            if len(row) == 0:
                raise InputError(
                    f"prompt {b} of {len(ids)} is empty: to start from nothing, give the text <|endoftext|>"
                )
            if row.min() < 0 or row.max() >= V:
                bad = row[(row < 0) | (row >= V)][0]
                raise InputError(f"prompt {b} of {len(ids)}: token id {bad} is not in the vocabulary of {V} tokens")
        return ids

    def _fit(self, ids: list[np.ndarray], options: Options, truncate: bool) -> tuple[list[np.ndarray], np.ndarray]:
        """(prompts, most new tokens of each) that fit the context. Raises InputError naming both lengths."""
        # The last new token is never read, so it needs no position: prompt and new tokens may be one longer.
        context, whole = self.config.n_positions, self.config.n_positions + 1
        if options.max_new_tokens is None and options.max_length is not None:
            if options.max_length > whole:
                raise InputError(f"max_length {options.max_length} goes beyond the context: ask for at most {whole}")
            whole = options.max_length
        wanted = options.max_new_tokens or min(DEFAULT_NEW_TOKENS, whole // 2)
        fitting, limits = [], []
        for b, row in enumerate(ids, 1):
            if truncate:
                row = row[-max(1, whole - wanted) :]
            who = f"prompt {b} of {len(ids)} has {len(row)} tokens"
            room = whole - len(row)
            if len(row) > context:
                raise InputError(
                    f"{who} and the model's context holds {context}: "
                    "shorten it, or cut it with --truncate (truncate=True)"
                )
            if room < 1:
                raise InputError(f"{who} and max_length is {options.max_length}: raise it")
            limit = min(DEFAULT_NEW_TOKENS, room)
            if options.max_new_tokens is not None:
                limit = options.max_new_tokens
            elif options.max_length is not None:
                limit = room
            if limit > room:
                cut = "" if truncate else ", or cut the prompt with --truncate (truncate=True)"
                raise InputError(
                    f"{who}, and {limit} new ones go beyond the context of {context}: ask for at most {room}{cut}"
                )
            fitting.append(row)
            limits.append(limit)
        return fitting, np.array(limits)

    def _nan_tensors(self) -> str:
        bad = [name for name, tensor in self.tensors.items() if np.isnan(tensor).any()]
        if not bad:
            return ": the weights hold no NaN, so a value overflowed on the way"
        return f": the weights themselves hold NaN, first in {bad[0]} ({len(bad)} of {len(self.tensors)} tensors)"


def _rows(input_ids, attention_mask) -> list[np.ndarray]:
    """Rows of token ids as int64 arrays, the positions that the mask marks with 0 left out."""
    rows = []
    masks = [None] * len(input_ids) if attention_mask is None else attention_mask
    if len(masks) != len(input_ids):
        raise InputError(f"attention_mask has {len(masks)} rows and input_ids has {len(input_ids)}")
    for b, (row, mask) in enumerate(zip(input_ids, masks, strict=True)):
        array = np.asarray(row)
        if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
            raise InputError(f"input_ids row {b} must be whole numbers: pass an array (B, N) or a list of rows")
        if mask is not None:
            mask = np.asarray(mask)
            if mask.shape != array.shape:
                raise InputError(f"attention_mask row {b} has shape {mask.shape} and input_ids row {b} {array.shape}")
            array = array[mask != 0]
        rows.append(array.astype(np.int64))
    return rows
