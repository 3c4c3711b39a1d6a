"""The cache of drafts: a step reads several new tokens of each text, and the last of them may be taken back.

Keys and values lie in pages, and each row of a step finds its text's by a table. Rows of one text have equal tables and
different lengths, so the ops of the paged cache serve as they are (paged.py). A text is cut back by its length alone:
what lies behind it is written again before it is read.
"""

from __future__ import annotations

import numpy as np

from .pages import PAGE, pages_for
from .prompt import PromptCache
from .protocol import CacheSize


class DraftedRows:
    """The rows of a step, and where the pages of their texts lie: one object for all layers.

    Texts neither leave nor change places, so each has pages of its own from the beginning.
    """

    def __init__(self, prompt_R: np.ndarray, steps: int):
        """Rows for texts after prompts of this many tokens, with room for this many steps."""
        self.prompt_R, pages = prompt_R, pages_for(int(prompt_R.max()) + steps)
        self.table_of_RX = np.arange(len(prompt_R) * pages).reshape(-1, pages)
        self.pages = self.table_of_RX.size
        self.begin_step(np.empty(0, np.int64), np.empty(0, np.int64))

    def begin_step(self, text_X: np.ndarray, at_X: np.ndarray) -> None:
        """Row x of the step that begins is the token at position at[x] of the text text[x]."""
        self.table_XX, self.at_X, self.end_X = self.table_of_RX[text_X], at_X, at_X + 1


class DraftedCache(PromptCache):
    """One layer's keys and values, after the prefill: the pages of each text, which several rows of a step share.

    Texts keep their places, so there is neither `reorder` nor `keep_only`.
    """

    in_place = False
    rows: DraftedRows  # the engine gives it, before `expand`

    @staticmethod
    def bytes_between_steps(size: CacheSize) -> int:
        """Pages of each row's own."""
        return size.stored * PAGE * size.R * pages_for(size.N + size.T)

    def begin_steps(self, ops, k_RGK, v_RGU, beams, steps):
        """Each text's prompt into its pages."""
        rows, h = self.rows, self.heads
        self.k_XGMK = np.zeros((rows.pages, h.G, PAGE, h.K), k_RGK.dtype)
        self.v_XGMU = np.zeros((rows.pages, h.G, PAGE, h.U), v_RGU.dtype)
        for text, length in enumerate(rows.prompt_R):
            first, position_N = self.offsets_X[text // beams], np.arange(length)
            places = rows.table_of_RX[text, position_N // PAGE], slice(None), position_N % PAGE
            self.k_XGMK[places], self.v_XGMU[places] = k_RGK[first : first + length], v_RGU[first : first + length]

    def append_step(self, ops, qkv_RX):
        """Keys and values of all new positions, into their pages; returns the queries."""
        rows = self.rows
        return ops.append_paged(
            qkv_RX, self.bias_X, self.heads, self.k_XGMK, self.v_XGMU, rows.table_XX, rows.at_X
        )  # fmt: skip

    def attend_step(self, ops, q_RHK):
        """Attention of each row to its text up to itself: a draft's token sees the draft's earlier tokens."""
        h, rows = self.heads, self.rows
        begin_X = np.maximum(rows.end_X - h.window, 0) if h.window else np.zeros_like(rows.end_X)
        cache = self.k_XGMK, self.v_XGMU, rows.table_XX
        return ops.attend_paged(q_RHK, *cache, begin_X, rows.end_X, h.scale, **h.biases)

    def step_arrays(self):
        return self.k_XGMK, self.v_XGMU
