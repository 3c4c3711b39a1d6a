"""The bookkeeping of a step of beam search: inputs that find mistakes, and what is right."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from ...ops import BEST_BEAM, BEST_CANDIDATE, FINE, NOBODY, NONE_LEFT, NOT_A_NUMBER, PENALTY_TOO_STRONG, BeamRules
from ..sizes import BOUNDARIES, MANY_ROWS, ROWS

INF, NAN = np.inf, np.nan
MARK = -1.0e9
HF = BeamRules(MARK, hope=BEST_BEAM, candidates_at_limit=True)
HF_EARLY = BeamRules(MARK, full_is_done=True, hope=BEST_BEAM, candidates_at_limit=True)
HF_NEVER = BeamRules(MARK, hope=BEST_BEAM, hope_at_limit=True, candidates_at_limit=True)
HF4 = BeamRules(MARK, hope=BEST_CANDIDATE, beams_at_limit=True)
HF4_EARLY = BeamRules(MARK, full_is_done=True, hope=BEST_CANDIDATE, beams_at_limit=True)
HF4_NEVER = BeamRules(MARK, hope=BEST_CANDIDATE, hope_at_limit=True, beams_at_limit=True)
FAIRSEQ = BeamRules(-INF, first_stay=True, full_is_done=True, hope=NOBODY, in_order=True)
RULES = [HF, HF_EARLY, HF_NEVER, HF4, HF4_EARLY, HF4_NEVER, FAIRSEQ]
LIMIT = 6  # the most new tokens that the tables of norms know


class Sentence(NamedTuple):
    """One sentence's part of the arguments; finished: (score, new tokens), best first, and the rest are free places."""

    scores: list[float]
    tokens: list[int]
    finished: list[tuple[float, int]] = []  # noqa: RUF012 (never changed)
    new: int = 3
    limit: int = 5
    prompt: int = 2
    is_done: bool = False


def make_arguments(
    sentences: list[Sentence], W: int, rules: BeamRules, eos: tuple[int, ...] = (0,), penalty: float = 1.0
) -> tuple:
    """The op's. Candidates continue all beams in turn, the last one first."""
    B, C = len(sentences), len(sentences[0].scores)
    parent_BC = (W - 1 - np.arange(B * C) % W).reshape(B, C)
    places = [[*s.finished, *[(rules.out_of_play, 0)] * (W - len(s.finished))] for s in sentences]
    norms = [1.0, *(float(new) ** penalty for new in range(1, LIMIT + 1))]
    prompt_B = np.array([s.prompt for s in sentences])
    return (
        np.array([s.scores for s in sentences], np.float32), parent_BC, np.array([s.tokens for s in sentences]),
        np.full((B, W), 77, np.float32), np.array([[score for score, _ in p] for p in places], np.float32),
        np.array([[length for _, length in p] for p in places]), np.array([s.is_done for s in sentences]),
        prompt_B + [s.new - 1 for s in sentences], prompt_B, np.array([s.limit for s in sentences]),
        np.array(norms, np.float32), np.array(eos, np.int64), rules,
    )  # fmt: skip


@st.composite
def draw_inputs(draw):
    """Few different scores, so that many are equal; candidates that are ordered, or drawn; any state of a sentence."""
    B, W = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    C, rules, eos = draw(st.integers(W, 3 * W)), draw(st.sampled_from(RULES)), draw(st.sampled_from([(0,), (), (2, 0)]))
    score, sentences = st.sampled_from([-0.5, -1.0, -2.0, -2.0, -6.0, MARK - 64, -INF]), []
    for _ in range(B):
        scores = sorted(draw(st.lists(score, min_size=C, max_size=C)), reverse=True)
        if draw(st.integers(0, 7)) == 0:
            possible = [s for s in scores if s > -INF]
            scores = [*draw(st.permutations(possible)), *scores[len(possible) :]]
        if draw(st.integers(0, 19)) == 0:
            scores = [NAN] * C
        tokens = draw(st.lists(st.integers(0, 4), min_size=C, max_size=C))
        old = st.tuples(st.sampled_from([-0.25, -0.5, -1.0, -2.0, -3.0]), st.integers(1, 4))
        finished = sorted(draw(st.lists(old, max_size=W)), key=lambda pair: -pair[0])
        new = draw(st.integers(1, LIMIT))
        limit = draw(st.integers(new, LIMIT))
        is_done = draw(st.integers(0, 4)) == 0
        sentences.append(Sentence(scores, tokens, finished, new, limit, draw(st.integers(0, 2)), is_done))
    return make_arguments(sentences, W, rules, eos, draw(st.sampled_from([1.0, 0.0, -1.0, 2.0])))


def planted_cases() -> list[tuple]:
    cases = []
    for rules in RULES:
        four = [-0.5, -1.0, -1.5, -2.0]
        cases += [
            make_arguments([Sentence(four, [3, 4, 1, 2])], 2, rules),  # no beam ends
            make_arguments([Sentence(four, [0, 4, 0, 2])], 2, rules),  # one of the first W ends, one behind them
            make_arguments([Sentence(four, [0, 0, 0, 0])], 2, rules),  # all end: who runs on is out of play
            make_arguments([Sentence(four, [3, 0, 1, 2], [(-0.2, 2), (-1 / 3, 2)])], 2, rules),  # as good as the worst
            make_arguments([Sentence(four, [3, 0, 1, 2], [(-0.2, 2), (-0.4, 2)])], 2, rules),  # better than the worst
            make_arguments([Sentence(four, [3, 4, 1, 2], [(-0.1, 2), (-0.5 / 3, 2)])], 2, rules),  # hope ties: done
            make_arguments([Sentence(four, [3, 4, 1, 2], [(-0.1, 2), (-0.12, 2)])], 2, rules),  # hopeful at the limit
            make_arguments([Sentence(four, [3, 4, 1, 2], [(-0.1, 2), (-0.6, 2)])], 2, rules),  # hopeful now
            make_arguments([Sentence(four, [0, 4, 1, 2], [(-0.1, 2), (-0.4, 2)])], 2, rules),  # best ends: two hopes
            make_arguments([Sentence(four, [3, 4, 1, 2], [(-0.1, 2)])], 2, rules),  # a place is free: go on
            make_arguments([Sentence([-0.5, -0.5, -0.5, -0.5], [0, 0, 3, 3], [(-0.5 / 3, 1)])], 2, rules),  # all equal
            make_arguments([Sentence(four, [3, 0, 4, 2], [(-2.0, 1)], new=5)], 2, rules),  # the last step
            make_arguments([Sentence(four, [0, 4, 1, 2], [(-0.01, 1), (-0.02, 1)], new=5)], 2, rules),  # and all lost
            make_arguments([Sentence([-0.5, -1.5], [3, 3], new=1, limit=1)], 1, rules),  # the only step; one beam
            make_arguments([Sentence([-0.5, -1.5], [0, 3]), Sentence([-1, -2], [3, 0])], 1, rules),
            make_arguments([Sentence(four, [5, 0, 1, 2])], 2, rules, (1, 5)),  # several EOS, and 0 is none of them
            make_arguments([Sentence(four, [5, 0, 1, 2])], 2, rules, ()),  # no EOS
            make_arguments([Sentence(four, [0, 3, 1, 2], [(-0.3, 2)], is_done=True),
                          Sentence(four, [0, 3, 1, 2], [(-0.3, 2)])], 2, rules),  # who is done stays as it is
            make_arguments([Sentence([-INF] * 4, [0, 1, 2, 3], [(-0.3, 2)]), Sentence([-INF] * 4, [0, 1, 2, 3]),
                          Sentence([-INF] * 4, [0, 1, 2, 3], is_done=True), Sentence(four, [1, 2, 3, 4])], 2, rules),
            make_arguments([Sentence([NAN] * 4, [0, 1, 2, 3], [(-0.3, 2)]), Sentence(four, [1, 2, 3, 4]),
                          Sentence([NAN] * 4, [0, 1, 2, 3], is_done=True)], 2, rules),
            make_arguments([Sentence([-1, -INF, -INF, -INF], [0, 0, 3, 0])], 2, rules),  # impossible ones end too
            make_arguments([Sentence([-1, MARK - 64, MARK - 64, MARK - 128], [0, 3, 0, 4])], 2, rules),  # out of play
            make_arguments([Sentence([-2.0, -0.5, -3.0, -1.0], [3, 4, 1, 2], [(-0.1, 1)] * 2)], 2, rules),  # as drawn
            make_arguments([Sentence(four, [3, 4, 1, 2], new=4), Sentence(four, [0, 4, 1, 2], prompt=0)], 2, rules,
                           (0,), -40.0),  # a length penalty that sinks what is in play
            make_arguments([Sentence([-0.5, -1.0, -1.5, -2.0, -2.5, -3.0], [0, 1, 0, 2, 0, 3], [(-0.2, 1), (-0.3, 1)])],
                         3, rules),  # one place is free, and two would finish
        ]  # fmt: skip
    rng = np.random.default_rng(0)
    for B, W, C in [(40, 2, 4), (3, 20, 60), (2, 40, 80)]:  # past warps, in sentences, beams and candidates
        for rules in (HF, HF4, FAIRSEQ):
            sentences = [_random_sentence(rng, W, C) for _ in range(B)]
            cases.append(make_arguments(sentences, W, rules, (0, 3)))
    return cases


def _random_sentence(rng: np.random.Generator, W: int, C: int) -> Sentence:
    scores = -np.sort(np.round(4 * rng.random(C), 1))
    finished = -np.sort(np.round(rng.random(rng.integers(W + 1)), 1))
    new = int(rng.integers(1, LIMIT + 1))
    pairs = [(float(score), int(rng.integers(1, LIMIT))) for score in finished]
    return Sentence(scores.tolist(), rng.integers(0, 6, C).tolist(), pairs, new, int(rng.integers(new, LIMIT + 1)))


def large_cases() -> list[tuple]:
    """Tokens and lengths that sixteen bits do not count, some equal to EOS in sixteen; many sentences; many beams."""
    rng, scores = np.random.default_rng(1), [-0.5, -1.0, -1.5, -2.0]
    tokens = [50_256, 2**16 + 3, 3, 250_111]
    ways = [(2, HF, (3,)), (40_000, HF4, (50_256,)), (70_000, FAIRSEQ, (0, 250_111 - 2**16))]
    cases = [make_arguments([Sentence(scores, tokens, prompt=length)], 2, rules, eos) for length, rules, eos in ways]
    for W in BOUNDARIES[:6]:
        cases.append(make_arguments([_random_sentence(rng, W, 2 * W)], W, RULES[W % len(RULES)], (0, 3)))
    for B in (ROWS, MANY_ROWS):
        sentences = [_random_sentence(rng, 1, 2) for _ in range(64)] * (B // 64)
        cases.append(make_arguments([*sentences, _random_sentence(rng, 1, 2)], 1, HF, (0, 3)))
    return cases


class _Text(NamedTuple):
    """A text that has finished, or a free place."""

    score: np.floating
    length: int
    slot: int


def oracle(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules,
):  # fmt: skip
    """Lists of texts, sorted by their scores: Python's sort leaves equals as they stood."""
    (B, C), W = score_BC.shape, running_score_BW.shape[1]
    rows = [_results_of_sentence(
        score_BC[b], token_BC[b].tolist(), finished_score_BW[b], finished_length_BW[b].tolist(), bool(done_B[b]),
        int(length_B[b] + 1 - prompt_B[b]), int(limit_B[b]), norm_X, eos_X.tolist(), rules, W, C,
    ) for b in range(B)]  # fmt: skip
    kept_BW = np.array([row["kept"] for row in rows])
    texts = [row["texts"] for row in rows]
    done = np.array([row["done"] for row in rows])
    running = np.array([row["running"] for row in rows], score_BC.dtype)
    return (
        kept_BW, np.take_along_axis(parent_BC, kept_BW, axis=1), np.take_along_axis(token_BC, kept_BW, axis=1),
        np.array([[c in row["finishing"] for c in range(C)] for row in rows]),
        np.array([[t.slot for t in ts] for ts in texts]), length_B, np.array([row["trouble"] for row in rows]),
        running, np.array([[t.score for t in ts] for ts in texts], score_BC.dtype),
        np.array([[t.length for t in ts] for ts in texts]), done, np.where(done, length_B, length_B + 1),
    )  # fmt: skip


def _results_of_sentence(score_C, tokens, scores_W, lengths, done, new, limit, norm_X, eos, rules, W, C) -> dict:
    """One sentence's results, by name."""
    best_W = lambda texts: sorted(texts, key=lambda t: -t.score)[:W]  # noqa: E731
    texts = [_Text(score, length, w) for w, (score, length) in enumerate(zip(scores_W, lengths, strict=True))]
    mark, last, trouble = score_C.dtype.type(rules.out_of_play), new == limit, FINE
    if not done:
        if np.isnan(score_C).all():
            trouble = NOT_A_NUMBER
        elif (score_C == -INF).all() and not any(lengths):
            trouble = NONE_LEFT
    done = done or np.isnan(score_C).all() or (score_C == -INF).all()

    finishing = []
    if not done:
        finishing = [c for c in range(W) if tokens[c] in eos or (last and rules.candidates_at_limit)]
    if rules.first_stay:
        finishing = [c for c in finishing if score_C[c] > -INF][: lengths.count(0)]
    texts = best_W([*texts, *(_Text(score_C[c] / norm_X[new], new, W + c) for c in finishing)])

    ending = [c for c in range(C) if tokens[c] in eos]
    others = [c for c in range(C) if c not in ending]
    going = {c: score_C[c] for c in others} | {c: score_C[c] + mark for c in ending}
    kept = others + ending if rules.in_order else sorted(range(C), key=lambda c: -going[c])
    kept = kept[:W]

    full = all(t.length for t in texts)
    settled = full and rules.full_is_done
    if rules.hope != NOBODY:
        hope = going[kept[0]] if rules.hope == BEST_BEAM else score_C[0]
        at_best = hope / norm_X[limit if rules.hope_at_limit else new]
        if not done and hope > mark / 2 and at_best <= mark:
            trouble = PENALTY_TOO_STRONG
        if full:
            settled = settled or at_best <= min(t.score for t in texts)
        elif rules.hope == BEST_BEAM:
            settled = settled or at_best <= mark
    done = done or settled
    if last and not done and rules.beams_at_limit:
        texts = best_W([*texts, *(_Text(going[c] / norm_X[new], new, W + c) for c in kept)])
    return {
        "kept": kept, "running": [going[c] for c in kept], "finishing": finishing, "texts": texts, "trouble": trouble,
        "done": bool(done or last),
    }  # fmt: skip


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """The candidates of the texts of row `sequences`: by the rules of transformers, an EOS in twenty tokens. Prompts of
    64 tokens at most; an eighth of the sentences is done, and one has met NaN: never the ones before.
    """
    rng = np.random.default_rng(seed)
    B, W = 32, 4
    sentences = [_random_sentence(rng, W, 2 * W)._replace(new=3, limit=5) for _ in range(B)]
    for b, prompt in enumerate(rng.integers(1, 65, B).tolist()):
        tokens, is_done = rng.integers(0, 20, 2 * W).tolist(), (b + seed) % 8 == 0
        sentences[b] = sentences[b]._replace(tokens=tokens, prompt=prompt, is_done=is_done)
    nan = (seed + 1) % B  # no sentence that is done
    sentences[nan] = sentences[nan]._replace(scores=[NAN] * (2 * W), is_done=False)
    return make_arguments(sentences, W, HF), f"{B} sentences of {W} beams, {2 * W} candidates"
