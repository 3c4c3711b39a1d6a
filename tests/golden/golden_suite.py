"""What the golden tests of GPT-2, BART and T5 share: a folder of golden files, and the tests that hold for all.

Needs neither torch nor transformers.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tolerance import FLOAT32, FLOAT64, logit_bound, score_bound

import minidecode as md
from minidecode.files.checkpoint import read_header
from minidecode.files.stored import Stored
from minidecode.reference import embedding, prefill

PLANS = tuple(f"cache={m}" for m in ("replicated", "none", "preallocated", "split", "indirect", "el"))


def largest(arrays: list[np.ndarray]) -> float:
    """The largest magnitude of the numbers that were kept: the others are NaN, see making.py."""
    return max(np.nanmax(np.abs(rows)) for rows in arrays)


def largest_error(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest difference from an expected number that was kept."""
    assert [a.shape for a in found] == [b.shape for b in expected] and all(np.isfinite(a).all() for a in found)
    assert all(np.isfinite(b).sum() >= b.size // 16 for b in expected), "an eighth is kept"
    return largest([a - b for a, b in zip(found, expected, strict=True)])


class Golden:
    """One folder of golden files, opened."""

    def __init__(self, folder: Path):
        self.folder = folder
        cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
        self.logit_prompts, self.generation = cases["logit_prompts"], cases["generation"]
        self.logit_targets = cases.get("logit_targets")  # of an encoder-decoder model
        with np.load(folder / "logits.npz") as file:
            self.logits = [file[f"prompt_{b}_NV"] for b in range(len(self.logit_prompts))]
        self.largest_logit = largest(self.logits)

    @property
    def name(self) -> str:
        return self.folder.name

    def fields(self) -> dict:
        """The content of config.json."""
        return json.loads((self.folder / "config.json").read_text(encoding="utf-8"))

    def load(self, **options) -> md.Model:
        return md.load(self.folder, **options)

    @cached_property
    def config(self):
        return self.load().config

    def found_logits(self, model: md.Model, layout: str | None = None) -> list[np.ndarray]:
        """The model's logits of the golden inputs, all in one call: as rows, or padded as `layout` says."""
        if layout is None:
            return model.logits(self.logit_prompts, None, self.logit_targets)
        targets = (None, None) if self.logit_targets is None else pad(self.logit_targets, layout)
        return model.logits(*pad(self.logit_prompts, layout), *targets)

    def error(self, model: md.Model, layout: str | None = None) -> float:
        """The largest difference of a logit from the expected one."""
        return largest_error(self.found_logits(model, layout), self.logits)

    def bound(self, unit: float) -> float:
        return logit_bound(self.config, self.largest_logit, unit)


def open_all(folder: Path) -> list[Golden]:
    return [Golden(f) for f in sorted(folder.iterdir()) if f.is_dir()]


def pad(prompts, layout: str):
    """(ids_BN, mask_BN): padding in front, behind, or strewn between the tokens."""
    N = max(map(len, prompts)) + 2
    ids_BN, mask_BN = np.zeros((len(prompts), N), int), np.zeros((len(prompts), N), int)
    for b, prompt in enumerate(prompts):
        places = np.arange(len(prompt))
        if layout == "left":
            places += N - len(prompt)
        if layout == "strewn":
            places = np.sort(np.random.default_rng(b).permutation(N)[: len(prompt)])
        ids_BN[b, places], mask_BN[b, places] = prompt, 1
    return ids_BN, mask_BN


def generate(model, case, **how):
    """(tokens, scores) of a case, tokens as lists."""
    inputs = how if "input_ids" in how else {"input_ids": case["prompts"], **how}
    out = model.generate(**inputs, **case["options"])
    return [ids.tolist() for ids in out.token_ids], out.scores


def check_scores(golden, case, scores, expected, defaults):
    """Scores within their bound. transformers computes log softmax in float32, so this is the finest unit here."""
    options = defaults | case["options"]
    penalty = options.get("length_penalty", 1.0)
    if options.get("dialect") == "unilm":  # GNMT's norm is at least 1
        penalty = 0.0
    for tokens, score, expected_score in zip(case["tokens"], scores, expected, strict=True):
        allowed = score_bound(golden.bound(FLOAT32), len(tokens), penalty, expected_score, FLOAT32)
        assert abs(score - expected_score) <= allowed


# ---- mistakes that the bound has to see ------------------------------------------------------------------------------


def scale_off_by_a_thousandth(monkeypatch):
    right = prefill.attend_prefill

    def wrong(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
        return right(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, 1.001 * scale, causal, window, bias, out)

    monkeypatch.setattr(prefill, "attend_prefill", wrong)


def last_position_sees_no_first_key(monkeypatch):
    """A dropped mask position: the last row of each prompt of several tokens does without its first key."""
    right = prefill.attend_prefill

    def wrong(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
        a_RX = right(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, bias, out).copy()
        for first, last in pairwise(q_offsets_X):
            if causal and last - first > 1:
                rows = slice(first + 1, last)
                shorter_X = np.array([0, last - first - 1])
                shorter = (q_RHK[rows], k_XGK[rows], v_XGU[rows], shorter_X, shorter_X)
                a_RX[last - 1] = right(*shorter, scale, causal, window, bias)[-1]
        return a_RX

    monkeypatch.setattr(prefill, "attend_prefill", wrong)


def gain_off_by_a_thousandth(monkeypatch):
    right = embedding.embed_norm

    def wrong(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
        x_RD, h_RD = right(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out)
        return x_RD, 1.001 * h_RD

    monkeypatch.setattr(embedding, "embed_norm", wrong)


# ---- tests -----------------------------------------------------------------------------------------------------------


class GoldenSuite:
    """The tests; a subclass says where the files lie and may plant more mistakes. It needs a fixture `golden`."""

    FOLDER: Path

    def test_logits_in_float64(self, golden):
        """Twice the bound: the expected numbers are rounded in float64 as well."""
        assert golden.error(golden.load(dtype="float64")) <= 2 * golden.bound(FLOAT64)

    def test_logits_in_float32(self, golden):
        assert golden.error(golden.load(dtype="float32")) <= golden.bound(FLOAT32)

    @pytest.mark.parametrize("layout", ["left", "right", "strewn"])
    def test_padding_does_not_touch_logits(self, golden, layout):
        assert golden.error(golden.load(dtype="float64"), layout) <= 2 * golden.bound(FLOAT64)

    def test_the_bound_says_something(self):
        """At most 32 times the error that float32 really makes, for most models."""
        tight = {g.name: g.bound(FLOAT32) <= 32 * g.error(g.load()) for g in open_all(self.FOLDER)}
        assert sum(tight.values()) > len(tight) / 2, tight

    @pytest.mark.parametrize(
        "plant", [scale_off_by_a_thousandth, last_position_sees_no_first_key, gain_off_by_a_thousandth]
    )
    def test_a_planted_mistake_breaks_the_bound(self, golden, plant, monkeypatch):
        """The float32 bound, which is the wide one."""
        plant(monkeypatch)
        assert golden.error(golden.load()) > golden.bound(FLOAT32)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("plan", PLANS)
    def test_generation(self, golden, plan, dtype):
        model = golden.load(plan=plan, dtype=dtype)
        for number, case in enumerate(golden.generation):
            tokens, scores = generate(model, case)
            assert tokens == case["tokens"], f"case {number}: {case['options']}"
            check_scores(golden, case, scores, case["scores"], model.defaults)

    @pytest.mark.parametrize("plan", PLANS)
    def test_each_sentence_alone(self, golden, plan):
        """A sentence gives alone what it gives in its batch."""
        model = golden.load(plan=plan)
        for number, case in enumerate(golden.generation):
            each = len(case["tokens"]) // len(case["prompts"])  # hypotheses per sentence
            for b, prompt in enumerate(case["prompts"]):
                alone = case | {"prompts": [prompt], "tokens": case["tokens"][b * each : (b + 1) * each]}
                tokens, scores = generate(model, alone)
                assert tokens == alone["tokens"], f"case {number}, sentence {b}: {case['options']}"
                check_scores(golden, alone, scores, case["scores"][b * each : (b + 1) * each], model.defaults)

    @pytest.mark.parametrize("layout", ["left", "right", "strewn"])
    def test_padding_does_not_touch_tokens(self, golden, layout):
        model = golden.load()
        for case in golden.generation:
            ids_BN, mask_BN = pad(case["prompts"], layout)
            tokens, _ = generate(model, case, input_ids=ids_BN, attention_mask=mask_BN)
            assert tokens == case["tokens"]

    def test_few_cases_were_dropped_as_near_ties(self):
        summary = json.loads((self.FOLDER / "summary.json").read_text(encoding="utf-8"))
        assert summary["cases"] == sum(len(g.generation) for g in open_all(self.FOLDER))
        assert summary["dropped"] <= 0.05 * (summary["cases"] + summary["dropped"])


# ---- what the files cover --------------------------------------------------------------------------------------------


def stored_tensors(folder: Path) -> dict[str, Stored]:
    """All tensors of a model's files, by their names there."""
    return {n: t for path in folder.glob("*.safetensors") for n, t in read_header(path).items()}


def eos_ids(options: dict) -> list[int]:
    return np.atleast_1d(options.get("eos_token_id") or []).tolist()


def check_options_covered(folder: Path, values: dict[str, tuple], lengths: dict[str, int]) -> None:
    """At least 100 cases: each value of each option 5 times, each of `lengths` as often as it says.

    And batches in which sentences are of mixed lengths, or end at different steps.
    """
    seen, cases, end_apart, mixed_lengths = Counter(), 0, 0, 0
    for golden in open_all(folder):
        for case in golden.generation:
            options = case["options"]
            cases += 1
            seen.update((k, tuple(v) if isinstance(v, list) else v) for k, v in options.items())
            seen.update([("eos ids", len(eos_ids(options)))])
            seen.update(options.keys())
            end_apart += len({len(t) for t in case["tokens"]}) > 1
            mixed_lengths += len({len(p) for p in case["prompts"]}) > 1
    assert cases >= 100 and end_apart >= 50 and mixed_lengths >= 50
    for name, expected in values.items():
        for value in expected:
            assert seen[name, value] >= 5, (name, value)
    for name, least in lengths.items():
        assert seen[name] >= least, name
