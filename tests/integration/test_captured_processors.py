"""Score processors in a captured step: what was taped at one step is right at a later one, on new texts and scores.

While a step is captured the emulated device refuses a look at numbers, and an array that is brought over.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from minidecode.device.arrays import fetch, put
from minidecode.emulator.device_array import counted_looks, recorded_tape
from minidecode.options.options import Options
from minidecode.plan import Plan
from minidecode.search import processors
from minidecode.search.processors import apply_processors, due_processors, key_of_step, make_tables
from minidecode.search.result import Request
from minidecode.search.tables import arrays_of_tables, copies_without_rows

V, EOS, OFF = 12, 1, -np.inf
PROMPTS = [[3, 4], [5], [3, 4]]
SENTENCE_R = np.array([0, 0, 1, 2])
LIMITS = [6, 9, 6]
BY_NUMPY, BY_KERNELS = (
    SimpleNamespace(**Plan.parse(plan).resolve(device=device)[0])
    for plan, device in (("numpy", "cpu"), ("cuda", "emulator"))
)
SAMPLED = {"do_sample": True, "top_k": 0}
CASES = [  # (names of what is due, options, the step that is captured, the step at which it is launched again)
    ("sequence_bias", {"sequence_bias": {(5,): 2.0, (3, 5): 0.1, (4, 3, 6): -1.0, (0, 5): 0.7}}, 1, 3),
    ("repetition_penalty encoder_repetition_penalty",
     {"repetition_penalty": 1.3, "encoder_repetition_penalty": 1.7}, 1, 4),
    ("no_repeat_ngram_size", {"no_repeat_ngram_size": 2, "no_repeat_ngram_exempt_ids": [3]}, 1, 4),
    ("encoder_no_repeat_ngram_size", {"encoder_no_repeat_ngram_size": 2}, 1, 4),
    ("bad_words_ids", {"bad_words_ids": [[EOS], [7], [3, 4], [4, 3, 4], [0, EOS]], "eos_token_id": EOS}, 1, 4),
    ("min_new_tokens", {"min_new_tokens": 3, "eos_token_id": [EOS, 2]}, 1, 2),
    ("min_new_tokens", {"min_length": 4, "eos_token_id": EOS}, 1, 2),
    ("prefix_tokens", {}, 0, 1),
    ("forced_bos_token_id", {"forced_bos_token_id": [6, 7]}, 0, 0),
    ("forced_eos_token_id", {"forced_eos_token_id": EOS}, 5, 5),
    ("remove_invalid_values", {"remove_invalid_values": True}, 1, 2),
    ("exponential_decay_length_penalty",
     {"exponential_decay_length_penalty": (1, 1.7), "eos_token_id": [EOS, 2]}, 2, 4),
    ("suppress_tokens", {"suppress_tokens": [4, 9]}, 1, 2),
    ("begin_suppress_tokens", {"begin_suppress_tokens": [4, 9]}, 0, 0),
    ("top_h", SAMPLED | {"top_h": 0.6}, 1, 2),
    ("temperature top_k top_p", SAMPLED | {"temperature": 0.7, "top_k": 6, "top_p": 0.8}, 1, 2),
    ("min_p", SAMPLED | {"min_p": 0.2, "num_beams": 2}, 1, 2),
    ("typical_p", SAMPLED | {"typical_p": 0.6}, 1, 2),
    ("typical_p", SAMPLED | {"typical_p": 0.2, "num_beams": 2}, 1, 2),
    ("epsilon_cutoff", SAMPLED | {"epsilon_cutoff": 0.09}, 1, 2),
    ("eta_cutoff", SAMPLED | {"eta_cutoff": 0.2, "num_beams": 2}, 1, 2),
    ("suppress_tokens renormalize_logits", {"suppress_tokens": list(range(6)), "renormalize_logits": True}, 1, 2),
    ("never_pad unk_penalty", {"dialect": "fairseq", "pad_token_id": 4, "unk_token_id": 3, "unk_penalty": 1.1}, 1, 2),
    ("end_at_limit min_new_tokens", {"dialect": "fairseq", "eos_token_id": EOS, "min_new_tokens": 8}, 5, 5),
    ("begin_with_bos", {"dialect": "fairseq", "forced_bos_token_id": 6, "min_new_tokens": 0}, 0, 0),
    ("prefix_tokens min_new_tokens", {"dialect": "fairseq", "eos_token_id": EOS, "min_new_tokens": 4}, 0, 1),
    ("repetition_penalty no_repeat_ngram_size bad_words_ids",
     {"dialect": "ctranslate2", "repetition_penalty": 1.3, "no_repeat_ngram_size": 1,
      "bad_words_ids": [[EOS], [3, 4]], "eos_token_id": EOS}, 1, 4),
    ("prefix_tokens", {"dialect": "ctranslate2"}, 0, 1),
]  # fmt: skip


def request_of(names: str, options: Options, sources=None) -> Request:
    prefixes = [[5, 4, -1], [], [6]] if "prefix" in names else None
    sources = sources or [[3, 4, 5, 3, 4, 7], [9, 3], [14, 15, 3]]
    prompts = [np.array(p) for p in PROMPTS]
    return Request.make(prompts, LIMITS, options, [np.array(s) for s in sources], prefixes)


def texts_of(step: int, seed: int):
    """(tokens_RM, length_R, scores_RV) at a step: few tokens, so that texts repeat themselves."""
    rng = np.random.default_rng([seed, step])
    tokens_RM = rng.integers(3, 6, (len(SENTENCE_R), 12))
    for r, b in enumerate(SENTENCE_R):
        tokens_RM[r, : len(PROMPTS[b])] = PROMPTS[b]
    scores_RV = (3 * rng.standard_normal((len(SENTENCE_R), V))).astype(np.float32)
    scores_RV[1, 8:] = OFF
    return tokens_RM, np.array([len(PROMPTS[b]) for b in SENTENCE_R]) + step, scores_RV


def by_numpy(request, options, step, seed):
    tokens_RM, length_R, scores_RV = texts_of(step, seed)
    rows = request.rows(tokens_RM, length_R, SENTENCE_R, step)
    return apply_processors(BY_NUMPY, scores_RV, rows, options), rows.certain_R


class OnDevice:
    """A step's texts and scores there, which are the same arrays at each step."""

    def __init__(self, request, options, step, seed):
        self.request, self.options, self.step = request, options, step
        self.arrays = tuple(put(array, "emulator") for array in texts_of(step, seed))

    def write(self, step, seed):
        for array, new in zip(self.arrays, texts_of(step, seed), strict=True):
            array[...] = put(new, "emulator")

    def rows(self):
        return self.request.rows(*self.arrays[:2], SENTENCE_R, self.step)

    def run(self):
        rows = self.rows()
        return apply_processors(BY_KERNELS, self.arrays[2].copy(), rows, self.options), rows.certain_R


def same(found, expected):
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(fetch(mine), right, rtol=1e-5, atol=16 * np.spacing(np.float32(1)))


@pytest.mark.parametrize(("names", "options", "first", "later"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_captured_at_one_step_is_right_at_another(names, options, first, later):
    options = Options(**{"eos_token_id": ()} | options)
    request = request_of(names, options)
    device = OnDevice(request_of(names, options), options, first, 0)
    assert set(names.split()) == set(key_of_step(device.rows(), options))
    tables = len(make_tables(device.rows(), options))
    with counted_looks() as looks, recorded_tape() as tape:
        found = device.run()
    assert not looks and len(device.request.tables) == tables
    same(found, by_numpy(request, options, first, 0))
    device.write(later, 1)
    tape.launch()
    expected = by_numpy(request, options, later, 1)
    same(found, expected)
    assert not np.array_equal(expected[0], texts_of(later, 1)[2]), "something is done"


def test_every_processor_that_is_no_host_code_is_captured():
    """What guides a text takes the logits of a second model, of which its own tests speak."""
    captured = {name for names, *_ in CASES for name in names.split()}
    every = {name for names in processors.ORDER.values() for name in names}
    by_host = {name for name in every if getattr(processors, name).by_host}
    assert by_host == {"prefix_allowed_tokens_fn", "logits_processor", "regex", "json_schema"}
    assert every == captured | by_host | {"guidance_scale"}


def test_what_works_on_the_host_ends_a_captured_step():
    options = Options(
        logits_processor=lambda s, rows: s, suppress_tokens=[3], prefix_allowed_tokens_fn=lambda b, ids: [3]
    )
    rows = OnDevice(request_of("", options), options, 1, 0).rows()
    assert due_processors(rows, options) == ("prefix_allowed_tokens_fn", "suppress_tokens", "logits_processor")
    said = key_of_step(rows, options)
    assert said.startswith("prefix_allowed_tokens_fn (test_captured_processors.") and said.endswith("on the host")
    assert ", logits_processor (test_captured_processors." in said and "suppress_tokens" not in said
    options = Options(suppress_tokens=[3])
    assert key_of_step(rows, options) == ("suppress_tokens",)


def test_a_kept_step_takes_the_tables_of_another_request():
    """Other sources of about the same length, in the arrays that the first generation's step was captured with."""
    options = Options(encoder_no_repeat_ngram_size=2, encoder_repetition_penalty=1.5)
    device = OnDevice(request_of("", options), options, 2, 0)
    device.run()
    with recorded_tape() as tape:
        found = device.run()
    other = request_of("", options, [[4, 3, 5], [3, 5, 4, 4, 3], [5, 5, 5, 3]])
    kept, new = (list(arrays_of_tables(request.tables)) for request in (device.request, other))
    assert not new and len(kept) >= 5
    device.request = other
    make_tables(device.rows(), options)
    new = {(name, array.shape): array for name, array in arrays_of_tables(other.tables)}
    for name, array in kept:
        array[...] = new[name, array.shape]
    tape.launch()
    same(found, by_numpy(other, options, 2, 0))


def test_rows_that_leave_need_tables_of_their_own():
    options = Options(repetition_penalty=1.2)
    device = OnDevice(request_of("", options), options, 2, 0)
    tables = make_tables(device.rows(), options)
    assert {name for name, _ in arrays_of_tables(tables)} == {
        "every_R",
        "first_list_R",
        "prompt_R",
        "limit_R",
        "sentence_R",
    }
    assert copies_without_rows(tables) == {}
