"""Query rows: rows that attend and are not kept, beside the rows of tokens, which are (ProphetNet, UniLM).

Such a model does not predict the next token from the row of the last one, but from a row of its own. This query row
stands where the next token will: it sees all tokens so far and itself, and no other row sees it. So a step computes
two rows a beam. A query row writes its key and value where those of the next token will be, attends, and the next
token overwrites them. No cache holds more for it, and no kernel knows of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..device.arrays import put
from ..ops import PositionBias

MOST_KEYS = 2**13  # that are copied together for the query rows of a prefill: 64 MB of keys and values of 1,024 numbers


def rows_per_token(weights: Any) -> int:
    """Rows that a step computes for each beam: 2 where a query row predicts the next token, else 1."""
    return 1 if weights.query_ND is None else 2


@dataclass(frozen=True)
class QueryRows:
    """Which rows of a prefill are of tokens, and which are query rows. A query row stands directly behind its token."""

    kept_X: np.ndarray  # the places of the tokens' rows among all rows
    query_X: np.ndarray  # those of the query rows
    offsets_X: np.ndarray  # where each sentence begins among all rows
    query_offsets_X: np.ndarray  # and among the query rows alone
    seen_X: np.ndarray  # the keys that each query row sees, newest first, as `for_sentences` numbers them
    ends: tuple[int, ...]  # where the keys of each query row begin in seen_X, and where the last one's end

    @classmethod
    def for_sentences(cls, lengths: list[int], first_B: list[int], window: int | None, device: str) -> QueryRows:
        """Rows for sentences of these lengths, with a query row behind each token from the first_B-th of its sentence
        on.

        Keys are numbered from 0: first those of all tokens, then those of the query rows. window: how many positions
        a row sees, its own included.
        """
        length_B = np.array(lengths, np.int64)
        end_B = length_B.cumsum()
        begin_R = np.repeat(end_B - length_B, length_B)
        has_query_R = np.arange(end_B[-1]) >= begin_R + np.repeat(first_B, length_B)
        end_R = np.cumsum(1 + has_query_R)
        token_Q, kept_R = np.flatnonzero(has_query_R), end_R - 1 - has_query_R
        before_Q = token_Q + 1 - begin_R[token_Q]  # tokens that a query row sees
        before_Q = before_Q if window is None else np.minimum(before_Q, window - 1)
        ends_X = _offsets_of_parts(np.cumsum(before_Q + 1))
        back_X = np.arange(ends_X[-1]) - np.repeat(ends_X[:-1], before_Q + 1)  # how far back; 0: the row itself
        own_X, token_X = (np.repeat(a, before_Q + 1) for a in (len(end_R) + np.arange(len(token_Q)), token_Q))
        seen_X = np.where(back_X == 0, own_X, token_X + 1 - back_X)
        query_end_B = np.cumsum(has_query_R)[end_B - 1]
        return cls(
            put(kept_R, device), put(kept_R[token_Q] + 1, device), put(_offsets_of_parts(end_R[end_B - 1]), device),
            put(_offsets_of_parts(query_end_B), device), put(seen_X, device), tuple(ends_X.tolist()),
        )  # fmt: skip

    def iterate_groups(self):
        """(first, last) of query rows whose keys are copied together."""
        first = 0
        while first < len(self.ends) - 1:
            last = first + 1
            while last < len(self.ends) - 1 and self.ends[last + 1] - self.ends[first] <= MOST_KEYS:
                last += 1
            yield first, last
            first = last


class QueryCache:
    """A layer's cache of tokens, of any kind, and the rows beside them that attend to it and are not kept.

    A call's rows are those of `QueryRows` in a prefill. In a step rows 2r and 2r + 1 belong to beam r: its token's, and
    the query row behind it. So the beams of a sentence have neighbouring rows, as everywhere.
    """

    def __init__(self, cache, rows: QueryRows):
        self.cache, self.heads, self.rows, self.decoding = cache, cache.heads, rows, False
        self.kept_X, self.query_X = rows.kept_X, rows.query_X

    def join_rows(self, ops, kept_RX, query_RX):
        """All rows of the call in their order, from those of tokens and those of query rows."""
        R, X = kept_RX.shape
        if len(query_RX) == R:  # in turn: each pair is one more position of a table
            return ops.concat_step(kept_RX.reshape(R, 1, 1, X), query_RX.reshape(R, 1, X)).reshape(2 * R, X)
        ops.places.note_host_reads((kept_RX, query_RX))
        x_RX = np.empty_like(kept_RX, shape=(R + len(query_RX), X))
        x_RX[self.kept_X], x_RX[self.query_X] = kept_RX, query_RX
        return x_RX

    def pick_query_rows(self, ops, x_RX):
        """The query rows alone, of all rows of the call."""
        return ops.gather_rows(x_RX, self.query_X)

    def append(self, ops, qkv_RX, h_RD):
        """Keeps keys and values of the tokens, and returns their queries; query rows wait for `attend`."""
        self.query_RX = self.pick_query_rows(ops, qkv_RX)
        kept_RD = None if self.decoding else ops.gather_rows(h_RD, self.kept_X)  # EL keeps them, of prompts alone
        return self.cache.append(ops, ops.gather_rows(qkv_RX, self.kept_X), kept_RD)

    def attend(self, ops, q_RHK, bias: PositionBias | None = None, queries_alone: bool = False):
        """Attention of all rows of the call, in their order; or of the query rows alone, as the last layer needs.

        q_RHK: what `append` returned. bias: with a row for each row of the call. A query row's own position is the one
        behind its token's.
        """
        cache, query_RX = self.cache, self.query_RX
        del self.query_RX
        query_heads = self._heads_with_bias(ops, bias, self.query_X)
        if not self.decoding:  # first, for the tokens' attention may round or drop keys and values
            query_RX = self._attend_prefill(ops, query_RX, query_heads)
        kept_RX = None
        if not queries_alone:
            cache.heads = self._heads_with_bias(ops, bias, self.kept_X)
            kept_RX = cache.attend(ops, q_RHK)
        if self.decoding:  # last, for a rolling cache writes over what the token's row has seen
            cache.heads = query_heads
            query_RX = cache.attend_next(ops, query_RX)
        cache.heads = self.heads
        return query_RX if kept_RX is None else self.join_rows(ops, kept_RX, query_RX)

    def _heads_with_bias(self, ops, bias, rows_X):
        """The heads with the bias of some rows of the call."""
        if bias is None:
            return self.heads
        return replace(self.heads, bias=replace(bias, bias_XHP=ops.gather_rows(bias.bias_XHP, rows_X)))

    def _attend_prefill(self, ops, query_RX, heads):
        """Each query row against the tokens up to its own and against itself: a sentence of one query, not causal.

        Keys stand newest first, so that their numbers are their distances. They are copied for each query row.
        """
        q_RHK, *query_parts = self.cache.cut_heads(ops, query_RX, heads)
        ops.places.note_host_reads((self.cache.k_RGK, self.cache.v_RGU, *query_parts))
        k_RGK, v_RGU = (
            np.concatenate(both) for both in zip((self.cache.k_RGK, self.cache.v_RGU), query_parts, strict=True)
        )
        bias, ends, parts = heads.bias and reverse_position_bias(heads.bias), self.rows.ends, []
        for first, last in self.rows.iterate_groups():
            seen_X = self.rows.seen_X[ends[first] : ends[last]]
            q_offsets_X = np.arange(last - first + 1, like=seen_X)
            k_offsets_X = np.asarray(ends[first : last + 1], like=seen_X) - ends[first]
            part = ops.attend_prefill(
                q_RHK[first:last], ops.gather_rows(k_RGK, seen_X), ops.gather_rows(v_RGU, seen_X), q_offsets_X,
                k_offsets_X, heads.scale, False, None, bias and bias.of_rows(slice(first, last)),
            )  # fmt: skip
            parts.append(part)
        ops.places.note_host_reads(parts)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def expand(self, ops, beams: int, steps: int):
        """Ends the prefill. There are fewer than `steps` steps, so the last query row has a place, too."""
        sentences = len(self.rows.offsets_X) - 1
        self.cache.expand(ops, beams, steps)
        self.kept_X = np.arange(0, 2 * sentences * beams, 2, like=self.kept_X)
        self.query_X = self.kept_X + 1
        self.decoding = True
        del self.rows

    def reorder(self, ops, parent_R):
        """The tokens follow the beams."""
        self.cache.reorder(ops, parent_R)

    def keep_only(self, ops, stays_B, stays_R):
        """Keeps only these sentences, and these beams of theirs."""
        self.cache.keep_only(ops, stays_B, stays_R)
        self.kept_X, self.query_X = self.kept_X[: len(stays_R)], self.query_X[: len(stays_R)]

    def arrays(self):
        """The arrays that are held between steps: none of query rows."""
        return self.cache.arrays()


class QueryCross:
    """What a decoder layer keeps of the source, for the rows of tokens and for query rows: both see all of it."""

    def __init__(self, cross, queries: QueryCache):
        self.cross, self.queries = cross, queries

    def attend(self, ops, q_RX):
        """Attention of all rows of the call to their sources, or of the query rows alone."""
        queries = self.queries
        is_whole = len(q_RX) > len(queries.query_X)
        if not queries.decoding:
            self.cross.target_offsets_X = queries.rows.offsets_X if is_whole else queries.rows.query_offsets_X
        elif is_whole and self.cross.is_per_beam:  # each row of a beam reads the beam's copy
            kept_RX, query_RX = (
                self.cross.attend(ops, ops.gather_rows(q_RX, rows_X)) for rows_X in (queries.kept_X, queries.query_X)
            )
            return queries.join_rows(ops, kept_RX, query_RX)
        return self.cross.attend(ops, q_RX)

    def expand(self, ops, beams: int):
        """Ends the prefill."""
        self.cross.expand(ops, beams)

    def keep_only(self, ops, stays_B, stays_R):
        """Keeps only these sentences, and these beams of theirs."""
        self.cross.keep_only(ops, stays_B, stays_R)

    def arrays(self):
        """The arrays that are held between steps."""
        return self.cross.arrays()


def reverse_position_bias(bias: PositionBias) -> PositionBias:
    """The position bias where keys are numbered from the newest on: key m lies m positions back, not at position m."""
    bucket_L = bias.bucket_L[::-1].copy()
    return PositionBias(bias.bias_XHP, bucket_L, len(bucket_L) - 1 - bias.zero)


def _offsets_of_parts(end_X):
    """The starts of parts with these ends, and the last end."""
    return np.concatenate([[0], end_X])
