"""A toy language model for testing search alone: the next token's scores depend on the whole text so far."""

import re

import numpy as np

from minidecode.plan import Plan


def told(value) -> str:
    """A parameter as a part of a test's name: the same in every process, so without the addresses of functions."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


class Ops:
    """The functions of a plan."""

    def __init__(self, plan: str = "auto"):
        vars(self).update(Plan.parse(plan).resolve()[0])


class NothingCaptured:
    """What a search asks of runtime.engine.Engine beside the model: here each step runs as it comes.

    Sentences that are done leave, unless a class says otherwise.
    """

    drop_finished, captures_now = True, False

    def capacity(self, positions):
        return positions

    def capacity_for_texts(self, prompt_X, limit_X):
        return int((prompt_X + limit_X).max())

    def captures(self, key):
        return False

    def sentences_that_stay(self, done_B):
        return np.flatnonzero(~done_B)

    def run_step(self, step, state, said, key):
        return state, step(state)


class ToyEngine(NothingCaptured):
    """Stands in for runtime.engine.Engine. `spread` sets how decided the model is; EOS is token 0.

    It also keeps the texts that each row is fed, so that a search that hands over wrong parents is caught.
    """

    def __init__(self, seed: int, vocab: int, spread: float = 2.0):
        self.seed, self.vocab, self.spread, self.ops = seed, vocab, spread, Ops()

    def scores(self, text) -> np.ndarray:
        rng = np.random.default_rng([self.seed, len(text), *text])
        return (self.spread * rng.standard_normal(self.vocab)).astype(np.float32)

    def prefill(self, prompts):
        self.texts = [p.tolist() for p in prompts]
        return np.stack([self.scores(t) for t in self.texts])

    def expand(self, beams, steps):
        self.texts = [list(t) for t in self.texts for _ in range(beams)]

    def keep_only(self, stays_B, beams):
        self.texts = [self.texts[b * beams + w] for b in stays_B for w in range(beams)]

    def step(self, tokens_RM, length_R, parent_R):
        new = [tokens_RM[r, :n].tolist() for r, n in enumerate(length_R)]
        for r, text in enumerate(new):
            grown = self.texts[r if parent_R is None else parent_R[r]]
            # A sentence that is done feeds an old token again, from whatever it had.
            assert text[:-1] in (grown, grown[:-1]), "the row's text does not continue its parent's"
        self.texts = new
        return np.stack([self.scores(t) for t in new])


def log_probability(engine: ToyEngine, prompt, tokens) -> float:
    """The sum of log-probabilities of `tokens` after `prompt`, in float64."""
    total, text = 0.0, list(prompt)
    for token in tokens:
        s = engine.scores(text).astype(np.float64)
        total += s[token] - s.max() - np.log(np.exp(s - s.max()).sum())
        text.append(int(token))
    return total
