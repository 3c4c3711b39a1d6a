"""Where two searches part, over scores that are planted: by each reason, its step, and the rules that are told."""

import numpy as np
import pytest
from toy import Ops

from minidecode.options.options import Options
from minidecode.runtime.parting import find_parting
from minidecode.runtime.trace import Candidate, Trace, TraceStep
from minidecode.search.beam import beam_search
from minidecode.search.result import Request

EOS, V = 0, 8
NEVER = -30.0  # a logit that is never chosen


class Planted:
    """In the place of an engine: the logits behind a text, by its new tokens; of others, EOS is unlikely."""

    drop_finished = captures_now = False

    def __init__(self, logits: dict[tuple[int, ...], dict[int, float]]):
        self.logits, self.ops, self.tokens_RM = logits, Ops("auto"), None

    def _row(self, text) -> np.ndarray:
        row_V = np.linspace(-1.0, -1.7, V, dtype=np.float32)
        row_V[EOS] = NEVER
        for token, value in self.logits.get(tuple(int(t) for t in text), {}).items():
            row_V[token] = value
        return row_V

    def prefill(self, prompts):
        return np.stack([self._row(()) for _ in prompts])

    def expand(self, beams, steps):
        pass

    def capacity(self, positions):
        return positions

    def capacity_for_texts(self, prompt_X, limit_X):
        return int(prompt_X.max() + limit_X.max())

    def step(self, tokens_RM, length_R, parent_R):
        return np.stack([self._row(tokens[1:length]) for tokens, length in zip(tokens_RM, length_R, strict=True)])

    def captures(self, key):
        return False

    def run_step(self, step, state, said, key):
        return state, step(state)


def parting(logits, one: dict, other: dict, limit: int = 5):
    """The parting of two searches from a prompt of one token; and which texts each found."""
    traces, found, options = [], [], []
    for given in (one, other):
        o = Options(**{"num_beams": 2, "eos_token_id": EOS} | given)
        trace, request = Trace(), Request.make([np.array([5])], [limit], o)
        found.append([t.tolist() for t in beam_search(Planted(logits), request, o, trace).tokens[0]])
        traces.append(trace.of(0))
        options.append(o)
    names = options[0].dialect, options[1].dialect
    return find_parting(tuple(traces), tuple(options), names, found[0] == found[1])


# Both beams end at step 2 with a poor score; one goes on well.
BOTH_END = {(1,): {EOS: -1.1}, (2,): {EOS: -1.1}}
FIRST_ENDS = {(1,): {EOS: 3.0}}
BAN = {"bad_words_ids": [[2, 3]]}
LIKELY_BAN = {(): {1: 2.0, 2: 1.95}, (2,): {3: 4.0}}
UNIGRAMS = {"no_repeat_ngram_size": 1}


@pytest.mark.parametrize(("logits", "one", "other", "kind", "step", "rules"), [
    # The same rules.
    (BOTH_END, {}, {}, "nothing", None, ()),
    # fairseq forces EOS at the limit.
    ({}, {}, {"dialect": "fairseq"}, "candidates", 5, ("limit",)),
    # transformers 4 takes the running beams at the limit, and they are not the best candidates if one of those ends.
    ({(1, 1, 1, 1): {EOS: -1.2}}, {}, {"dialect": "hf4"}, "fates", 5, ("limit",)),
    # The best beam ends at step 2: with length_penalty 0, CTranslate2 is done.
    (FIRST_ENDS, {"length_penalty": 0.0}, {"length_penalty": 0.0, "dialect": "ctranslate2"}, "end", 2, ("stop",)),
    # s2s-ft looks at two candidates, of which one ends.
    (FIRST_ENDS, {}, {"dialect": "unilm"}, "candidates", 2, ("candidates",)),
    # In LightSeq, a text that ends keeps its place, and another has none.
    (FIRST_ENDS, {}, {"dialect": "lightseq"}, "fates", 2, ("candidates",)),
    # A token of the prompt is banned in transformers, and not in CTranslate2.
    ({(): {5: 2.0}}, UNIGRAMS, UNIGRAMS | {"dialect": "ctranslate2"}, "candidates", 1, ("bans", "scores")),
    # Both ban token 3 behind 2; in CTranslate2, the other tokens of that beam become likelier.
    (LIKELY_BAN, BAN, BAN | {"dialect": "ctranslate2"}, "candidates", 2, ("scores",)),
])  # fmt: skip
def test_each_reason_is_found_at_its_step_and_told(logits, one, other, kind, step, rules):
    found = parting(logits, one, other)
    assert (found.kind, found.step, tuple(found.rules)) == (kind, step, rules), found
    words = found.in_words(("A", "B"))
    assert all(f"A: {mine}. B: {theirs}." in words for mine, theirs in found.rules.values())


@pytest.mark.parametrize(("logits", "one", "other"), [
    (LIKELY_BAN, BAN, BAN | {"dialect": "ctranslate2"}),
    (FIRST_ENDS, {}, {"dialect": "unilm"}), (FIRST_ENDS, {}, {"dialect": "lightseq"}),
])  # fmt: skip
def test_groups_draws_and_prefixes_are_named_only_where_they_are_used(logits, one, other):
    words = parting(logits, one, other).in_words(("A", "B"))
    assert not any(word in words for word in ("group", "draw", "prefix")), words


def test_a_tie_is_called_one():
    """Tokens 2 and 3 are equally likely; one search has seen a score that is off by its last bit."""
    up = np.nextafter(np.float32(1.0), np.float32(2.0))
    o, traces = Options(num_beams=2, eos_token_id=EOS), []
    for second, third in ((1.0, 1.0), (1.0, up)):
        trace, engine = Trace(), Planted({(): {1: 2.0, 2: second, 3: float(third)}})
        beam_search(engine, Request.make([np.array([5])], [3], o), o, trace)
        traces.append(trace.of(0))
    found = find_parting((traces[0], traces[1]), (o, o), ("A", "B"), False)
    assert (found.kind, found.step, found.rules) == ("order", 1, {}) and "a tie" in found.what


@pytest.mark.parametrize("out_of_play", [-1e9, -np.inf])
def test_scores_out_of_play_make_no_tie(out_of_play):
    """Of the same candidates, in another order, one scores 2.5 less: what is out of play lends it no rounding."""
    o, traces = Options(num_beams=2, eos_token_id=EOS), []
    for scores in ({1: -1.0, 2: -1.5}, {2: -1.5, 1: -3.5}):
        candidates = [Candidate(token, 0, score, "runs") for token, score in scores.items()]
        candidates[1].fate = "dropped"
        candidates.append(Candidate(3, 1, out_of_play, "runs"))
        traces.append([TraceStep(0, 0, 0, [[], []], candidates, {})])
    assert find_parting((traces[0], traces[1]), (o, o), ("A", "B"), False).kind == "candidates"


def test_steps_that_agree_may_end_in_other_texts():
    """EOS at once scores -0.9, and a text of two tokens -2.2: the norm says which is better."""
    logits = {(): {EOS: 0.2}, (1,): {EOS: 3.0}}
    power = {"length_penalty": 2.0, "early_stopping": True}
    found = parting(logits, power, power | {"length_normalization": "gnmt"})
    assert (found.kind, found.step, tuple(found.rules)) == ("texts", None, ("norm",))
