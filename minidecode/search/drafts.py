"""Where drafts come from: an earlier place in the text, or a smaller model. A draft is a guess of the next tokens."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..ops import FINE
from ..options.options import Options
from ..runtime.drafted import DraftCheckingEngine
from ..runtime.draws import Draws
from .greedy import Texts, next_tokens
from .processors import make_tables
from .result import Request
from .tables import copies_without_rows

# What tells the random numbers of one token apart: its own draw has the text's key as it is.
OF_DRAFT, OF_VERDICT = 0x6A09E667, 0xBB67AE85


@dataclass
class Draft:
    """A guess of the next tokens of one text."""

    ids: np.ndarray
    probability_V: list[np.ndarray] = field(default_factory=list)  # of each, those that it was drawn from, if it was


class Drafter(Protocol):
    """An object that makes drafts of a text's next tokens."""

    def start(self, request: Request, texts: int, steps: int) -> None:
        """Begins a generation: `texts` texts of each prompt, of at most `steps` new tokens."""

    def drafts(self, texts: Texts, going_X: np.ndarray, most_X: np.ndarray) -> list[Draft]:
        """A draft of at most this many tokens for each text that goes on."""


def lookup_draft(text: np.ndarray, most: int, longest: int) -> np.ndarray:
    """What followed when the last tokens of the text stood in it before; of no token if they never did.

    The longest n-gram of at most `longest` tokens counts, at its last place. A copy may run into itself, as in LZ77:
    "a b a b" goes on with "a b a b a ...".
    """
    for n in range(min(longest, len(text) - 1), 0, -1):
        windows_XN = np.lib.stride_tricks.sliding_window_view(text[:-1], n)
        if len(places := np.flatnonzero((windows_XN == text[-n:]).all(axis=1))):
            begin = int(places[-1]) + n
            return text[begin + np.arange(most) % (len(text) - begin)]
    return text[:0]


class PromptLookup:
    """Drafts by `lookup_draft` (Saxena 2023): free, and good where a text repeats itself or its prompt."""

    def __init__(self, options: Options):
        self.longest = options.max_matching_ngram_size

    def start(self, request: Request, texts: int, steps: int) -> None:
        """There is nothing to prepare."""

    def drafts(self, texts: Texts, going_X: np.ndarray, most_X: np.ndarray) -> list[Draft]:
        """Drafts tokens by what each text holds."""
        each = zip(going_X, most_X, strict=True)
        return [Draft(lookup_draft(texts.tokens_RM[r, : texts.length_R[r]], most, self.longest)) for r, most in each]


class DraftModel:
    """Drafts by a smaller model, token by token, under the options of the search; its caches stay, too."""

    def __init__(self, engine: DraftCheckingEngine, options: Options):
        self.engine, self.options = engine, options

    def start(self, request: Request, texts: int, steps: int) -> None:
        """Reads the prompts."""
        self.request = request
        self.engine.prefill(request.prompts)
        self.engine.expand(texts, steps)

    def drafts(self, texts: Texts, going_X: np.ndarray, most_X: np.ndarray) -> list[Draft]:
        """A draft for each text; it ends before a token that the model's scores rule out.

        It must not end because of a token that was drawn: then what is left would be drawn too seldom.
        """
        engine, o = self.engine, self.options
        engine.take_back(texts.length_R - 1)  # what became of the last draft; the newest token is not read yet
        tokens_RM, drafts = texts.tokens_RM.copy(), [Draft(np.empty(0, np.int64)) for _ in going_X]
        writing = [i for i, most in enumerate(most_X) if most]
        while writing:
            mine_X = going_X[writing]
            length_X = texts.length_R[mine_X] + [len(drafts[i].ids) for i in writing]
            newest_X = np.cumsum(length_X - engine.seen_R[mine_X]) - 1  # among the rows that are read
            logits_XV = engine.read_new_tokens(tokens_RM, mine_X, length_X)[newest_X]
            rows = texts_after_drafts(texts, self.request, o, tokens_RM[mine_X], mine_X, length_X.copy(), OF_DRAFT)
            chosen = next_tokens(engine.ops, logits_XV, rows, self.request, o, None, None)
            tokens_RM[mine_X, length_X] = chosen.token_R
            fine = [x for x, trouble in enumerate(chosen.trouble_R) if trouble == FINE]
            for x in fine:
                draft = drafts[writing[x]]
                draft.ids = np.append(draft.ids, chosen.token_R[x])
                if o.do_sample:
                    draft.probability_V.append(softmax_in_float64(chosen.scores_RV[x]))
            writing = [writing[x] for x in fine if len(drafts[writing[x]].ids) < most_X[writing[x]]]
        return drafts


def texts_after_drafts(
    texts: Texts, request: Request, options: Options, tokens_XM: np.ndarray, text_X: np.ndarray, length_X: np.ndarray,
    key: int = 0,
) -> Texts:  # fmt: skip
    """A text for each row: that of text[x] with the first length[x] of tokens_XM[x], and no score yet.

    So the functions of greedy search choose after each token of a draft as if it were there. key: tells draws apart.
    """
    X, draws = len(text_X), None
    if texts.draws is not None:
        draws = Draws(texts.draws.keys_R2[text_X] ^ np.uint32(key), length_X - texts.begins_R[text_X])
    ahead = dataclasses.replace(
        texts, tokens_RM=tokens_XM, length_R=length_X, total_R=np.zeros(X), done_R=np.zeros(X, bool),
        every_R=np.arange(X), nobody_R=np.zeros(X, bool), begins_R=texts.begins_R[text_X],
        limits_R=texts.limits_R[text_X], draws=draws, tables=copies_without_rows(texts.tables),
        row_R=texts.row_R[text_X],
        sentence_R=texts.sentence_R[text_X],
    )  # fmt: skip
    make_tables(request.rows(tokens_XM, length_X, ahead.sentence_R, None, ahead.tables), options)
    return ahead


def softmax_in_float64(scores_V: np.ndarray) -> np.ndarray:
    """softmax(scores), in float64."""
    weights_V = np.exp(scores_V.astype(np.float64) - scores_V.max())
    return weights_V / weights_V.sum()
