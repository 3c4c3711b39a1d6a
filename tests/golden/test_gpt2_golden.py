"""GPT-2 against numbers that transformers 5 computed: logits, greedy search and beam search.

Needs neither torch nor transformers. tests/golden/make_gpt2.py remakes the numbers and says what the files hold.
"""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tolerance import FLOAT32, FLOAT64, logit_bound, score_bound

import minidecode as md
from minidecode.reference import attention, norm

FOLDER = Path(__file__).parent / "gpt2"
NAMES = sorted(f.name for f in FOLDER.iterdir() if f.is_dir())
PLANS = ("memory=replicated", "memory=none")


class Golden:
    """One folder of golden files, opened."""

    def __init__(self, name: str):
        self.folder = FOLDER / name
        cases = json.loads((self.folder / "cases.json").read_text(encoding="utf-8"))
        self.logit_prompts, self.generation = cases["logit_prompts"], cases["generation"]
        with np.load(self.folder / "logits.npz") as file:
            self.logits = [file[f"prompt_{b}_NV"] for b in range(len(self.logit_prompts))]
        self.largest_logit = max(np.abs(logits_NV).max() for logits_NV in self.logits)

    def load(self, **options) -> md.Model:
        return md.load(self.folder, **options)

    def error(self, model: md.Model) -> float:
        """The largest difference of a logit from the expected one."""
        found = model.logits(self.logit_prompts)
        return max(np.abs(a - b).max() for a, b in zip(found, self.logits, strict=True))

    def bound(self, unit: float) -> float:
        return logit_bound(self.load().config, self.largest_logit, unit)


@pytest.fixture(scope="module", params=NAMES)
def golden(request) -> Golden:
    return Golden(request.param)


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


# ---- logits ----------------------------------------------------------------------------------------------------------


def test_logits_in_float64(golden):
    """Twice the bound: the expected numbers are rounded in float64 as well."""
    assert golden.error(golden.load(dtype="float64")) <= 2 * golden.bound(FLOAT64)


def test_logits_in_float32(golden):
    assert golden.error(golden.load(dtype="float32")) <= golden.bound(FLOAT32)


@pytest.mark.parametrize("layout", ["left", "right", "strewn"])
def test_padding_does_not_touch_logits(golden, layout):
    ids_BN, mask_BN = pad(golden.logit_prompts, layout)
    found = golden.load(dtype="float64").logits(ids_BN, mask_BN)
    for logits_NV, expected_NV in zip(found, golden.logits, strict=True):
        assert logits_NV.shape == expected_NV.shape
        np.testing.assert_allclose(logits_NV, expected_NV, rtol=0, atol=2 * golden.bound(FLOAT64))


def test_the_bound_says_something():
    """At most 32 times the error that float32 really makes, for most models."""
    tight = []
    for name in NAMES:
        golden = Golden(name)
        tight.append(golden.bound(FLOAT32) <= 32 * golden.error(golden.load()))
    assert sum(tight) > len(NAMES) / 2, dict(zip(NAMES, tight, strict=True))


def scale_off_by_a_thousandth(monkeypatch):
    right = attention.attend_within

    def wrong(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
        return right(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, 1.001 * scale, causal, window, out)

    monkeypatch.setattr(attention, "attend_within", wrong)


def last_position_sees_no_first_key(monkeypatch):
    """A dropped mask position: the last row of each prompt of several tokens does without its first key."""
    right = attention.attend_within

    def wrong(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
        a_RX = right(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, out).copy()
        for first, last in pairwise(q_offsets_X):
            if last - first > 1:
                rows = slice(first + 1, last)
                shorter_X = np.array([0, last - first - 1])
                shorter = (q_RHK[rows], k_XGK[rows], v_XGU[rows], shorter_X, shorter_X)
                a_RX[last - 1] = right(*shorter, scale, causal, window)[-1]
        return a_RX

    monkeypatch.setattr(attention, "attend_within", wrong)


def gain_off_by_a_thousandth(monkeypatch):
    right = norm.layer_norm

    def wrong(x_RD, norm, out=None):
        return 1.001 * right(x_RD, norm, out)

    monkeypatch.setattr(norm, "layer_norm", wrong)


@pytest.mark.parametrize(
    "plant", [scale_off_by_a_thousandth, last_position_sees_no_first_key, gain_off_by_a_thousandth]
)
def test_a_planted_mistake_breaks_the_bound(golden, plant, monkeypatch):
    """The float32 bound, which is the wide one."""
    plant(monkeypatch)
    assert golden.error(golden.load()) > golden.bound(FLOAT32)


# ---- generation ------------------------------------------------------------------------------------------------------


def generate(model, case, **how):
    """(tokens, scores) of a case, tokens as lists."""
    inputs = how if "input_ids" in how else {"input_ids": case["prompts"], **how}
    out = model.generate(**inputs, **case["options"])
    return [ids.tolist() for ids in out.token_ids], out.scores


def check_scores(golden, case, scores, expected, defaults):
    """Scores within their bound. transformers computes log softmax in float32, so this is the finest unit here."""
    penalty = (defaults | case["options"]).get("length_penalty", 1.0)
    for tokens, score, expected_score in zip(case["tokens"], scores, expected, strict=True):
        allowed = score_bound(golden.bound(FLOAT32), len(tokens), penalty, expected_score, FLOAT32)
        assert abs(score - expected_score) <= allowed


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("plan", PLANS)
def test_generation(golden, plan, dtype):
    model = golden.load(plan=plan, dtype=dtype)
    for number, case in enumerate(golden.generation):
        tokens, scores = generate(model, case)
        assert tokens == case["tokens"], f"case {number}: {case['options']}"
        check_scores(golden, case, scores, case["scores"], model.defaults)


@pytest.mark.parametrize("plan", PLANS)
def test_each_sentence_alone(golden, plan):
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
def test_padding_does_not_touch_tokens(golden, layout):
    model = golden.load()
    for case in golden.generation:
        ids_BN, mask_BN = pad(case["prompts"], layout)
        tokens, _ = generate(model, case, input_ids=ids_BN, attention_mask=mask_BN)
        assert tokens == case["tokens"]


# ---- what the files cover --------------------------------------------------------------------------------------------


def test_the_models_cover_what_a_config_can_say():
    fields = [json.loads((FOLDER / n / "config.json").read_text(encoding="utf-8")) for n in NAMES]
    assert len(NAMES) >= 14
    assert {f.get("activation_function", "gelu_new") for f in fields} >= {"gelu", "gelu_new", "relu", "silu", "tanh"}
    assert {f["n_head"] for f in fields} == {1, 2, 3, 4, 5}
    assert {f["n_layer"] for f in fields} == {1, 2, 3, 4}
    assert {f.get("n_inner") is None for f in fields} == {True, False}
    for flag in ("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings"):
        assert {f.get(flag) for f in fields} - {None}, f"{flag} is never set"
    assert len({f.get("layer_norm_epsilon") for f in fields}) >= 4


def test_the_weights_are_stored_in_many_ways():
    dtypes, prefixed, sharded = set(), set(), 0
    for name in NAMES:
        sharded += (FOLDER / name / "model.safetensors.index.json").exists()
        for path in (FOLDER / name).glob("*.safetensors"):
            tensors = md.checkpoint.read_header(path)
            dtypes |= {t.dtype for t in tensors.values()}
            prefixed |= {n.startswith("transformer.") for n in tensors if n != "lm_head.weight"}
    assert dtypes == {"F32", "F16", "BF16"} and prefixed == {True, False} and sharded


def test_the_generation_cases_cover_the_options():
    """Every value of every option, several times, and sentences that end at different steps of one batch."""
    seen, cases, end_apart, mixed_lengths = Counter(), 0, 0, 0
    for name in NAMES:
        for case in Golden(name).generation:
            options = case["options"]
            cases += 1
            seen.update((k, tuple(v) if isinstance(v, list) else v) for k, v in options.items())
            seen.update([("eos ids", len(options.get("eos_token_id") or []))])
            seen.update(k for k in options if k.startswith(("min_", "max_")))
            end_apart += len({len(t) for t in case["tokens"]}) > 1
            mixed_lengths += len({len(p) for p in case["prompts"]}) > 1
    assert cases >= 100 and end_apart >= 50 and mixed_lengths >= 50
    for name, values in {"num_beams": (1, 2, 3, 4, 5), "length_penalty": (1.0, 0.0, 2.0, -1.0, 0.7),
                         "early_stopping": (True, False, "never"), "no_repeat_ngram_size": (0, 2, 3),
                         "num_return_sequences": (1, 2, 3), "eos ids": (0, 1, 2, 3)}.items():  # fmt: skip
        for value in values:
            assert seen[name, value] >= 5, (name, value)
    for name in ("min_length", "min_new_tokens", "max_length", "max_new_tokens"):
        assert seen[name] >= 15, name


def test_few_cases_were_dropped_as_near_ties():
    summary = json.loads((FOLDER / "summary.json").read_text(encoding="utf-8"))
    assert summary["cases"] == sum(len(Golden(n).generation) for n in NAMES)
    assert summary["dropped"] <= 0.05 * (summary["cases"] + summary["dropped"])
