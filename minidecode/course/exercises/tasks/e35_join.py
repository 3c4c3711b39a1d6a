"""Exercise 35: requests that join a running batch. The tokens are judged, and when each has joined."""

from __future__ import annotations

import hashlib
import operator
from typing import Any

import numpy as np

from ..exercise import draw_telling_input, set_to_whole_width
from ..numpy_task import NumPyTask
from ..verdict import Miss
from ..wire import Callback

V = 9  # tokens
WIDTH = 3
LOTS = 4096  # random numbers lie in the middle of this many equal parts
BEHIND_IT = "and what lies behind it."
OF_ORDER = ("waits-for-all", "one-at-a-time", "one-after-the-other", "too-early", "last-token-again")


class Task(NumPyTask):
    function = "serve"
    returns = ("token_QX",)
    known = {
        "draws-by-slot": "a request must draw the same numbers whatever slot happens to be free: the key is the"
                         " request's",
        "draws-by-step": "how many steps the others have made must not change what a request draws: it counts its own"
                         " tokens",
        "draws-go-on": "the slot goes on counting where the request before it ended",
        "memory-missing": "the slot still holds what the request before it has read; what `prefill` returned belongs"
                          " there",
        "into-every-slot": "the other slots' requests lose what they have read",
        "last-token-twice": "the prompt's last token is in the memory already, and read again it stands there at two"
                            " positions",
        "last-token-again": "`prefill` gives the scores behind the prompt, so the first token needs no step",
        "waits-for-all": "a batch that is filled once leaves slots empty until its longest text ends",
        "one-at-a-time": "where two slots are free and two requests wait, both can join before the next step",
        "one-after-the-other": "a step costs about as much for one row as for all slots: that is why rows share it",
        "too-early": "the request has not come yet: a server cannot know it",
    }  # fmt: skip

    def variation(self, rng):
        return {"slots": rng.integers(2, 5)}

    def constants(self, v):
        return {"SLOTS": v.slots, "WIDTH": WIDTH}

    def cases(self, v, rng):
        model = Model(rng, v.slots)
        few = [
            _draw_inputs(model, rng, 1, 0),
            _draw_inputs(model, rng, 2, 1),
            _draw_inputs(model, rng, v.slots + 1, 0),
        ]
        many = (v.slots + 3, 2 * v.slots + 3)
        return few + [
            draw_telling_input(self, v, lambda count=count: self._draw_order_sensitive_requests(v, model, rng, count))
            for count in many
        ]

    def _draw_order_sensitive_requests(self, v, model, rng, count):
        """Requests on which each mistake of the order shows."""
        while True:
            inputs = _draw_inputs(model, rng, count, 3)
            orders = [self._serve_by_slots(v, inputs, mistake)[1:] for mistake in (None, *OF_ORDER)]
            if all(one not in orders[:k] for k, one in enumerate(orders)):
                return inputs

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake in OF_ORDER:
            raise NotImplementedError  # told by the order of the calls
        if mistake is not None:
            return self._serve_by_slots(v, inputs, mistake)[0]
        prefill, draw, limits = inputs["prefill"].function, inputs["draw"].function, inputs["limit_Q"].tolist()
        token_QX = np.full((len(limits), max(limits)), -1)
        for q, limit in enumerate(limits):  # each request alone, and its whole text read again for each token
            text = inputs["prompt_QN"][q, : inputs["length_Q"][q]].tolist()
            for x in range(limit):
                _, score_V = prefill(np.array(text))
                text.append(_draw_token(score_V.tolist(), draw(int(inputs["key_Q"][q]), x)))
                token_QX[q, x] = text[-1]
        return token_QX

    def _serve_by_slots(self, v, inputs, mistake=None):
        """(tokens, after how many steps each request joins, steps), slot by slot; with a mistake, what that gives."""
        prompt_QN, length_Q, arrives_Q, limit_Q, key_Q = (
            inputs[name].tolist() for name in ("prompt_QN", "length_Q", "arrives_Q", "limit_Q", "key_Q")
        )
        prefill, step, draw = (inputs[name].function for name in ("prefill", "step", "draw"))
        texts, joined, steps = [[] for _ in prompt_QN], [], 0
        slots = range(v.slots)
        request, key, drawn, length, token = ([-1] * v.slots, *([0] * v.slots for _ in range(4)))
        memory_CMD = np.zeros((v.slots, len(prompt_QN[0]) + max(limit_Q), WIDTH), np.int64)

        def take(c, score_V):
            texts[request[c]].append(_draw_token(score_V.tolist(), draw(key[c], drawn[c])))
            token[c], drawn[c], length[c] = texts[request[c]][-1], drawn[c] + 1, length[c] + 1
            if len(texts[request[c]]) == limit_Q[request[c]]:
                request[c] = -1

        while len(joined) < len(texts) or max(request) >= 0:
            was_idle, before = max(request) < 0, len(joined)
            while len(joined) < len(texts) and min(request) < 0:
                q, c = len(joined), request.index(-1)
                idle = max(request) < 0
                if arrives_Q[q] > steps and not idle and mistake != "too-early":
                    break
                if mistake == "waits-for-all" and not was_idle:
                    break
                if (mistake == "one-at-a-time" and q > before) or (mistake == "one-after-the-other" and not idle):
                    break
                N = length_Q[q]
                memory_ND, score_V = prefill(np.array(prompt_QN[q][:N]))
                if mistake != "memory-missing":
                    memory_CMD[slice(None) if mistake == "into-every-slot" else c, :N] = memory_ND
                request[c], key[c], length[c] = q, c if mistake == "draws-by-slot" else key_Q[q], N
                if mistake != "draws-go-on":
                    drawn[c] = steps if mistake == "draws-by-step" else 0
                joined.append(steps)
                if mistake in ("last-token-again", "last-token-twice"):
                    token[c], length[c] = prompt_QN[q][N - 1], N + (mistake == "last-token-twice")
                else:
                    take(c, score_V)
            new_CD, score_CV = step(np.array(token), np.array(length), memory_CMD)
            steps += 1
            for c in slots:
                if request[c] >= 0:
                    memory_CMD[c, length[c] - 1] = new_CD[c]
                    take(c, score_CV[c])
        token_QX = np.full((len(texts), max(limit_Q)), -1)
        for q, text in enumerate(texts):
            token_QX[q, : len(text)] = text
        return token_QX, joined, steps

    def call(self, inputs):
        return f"serve({len(inputs['limit_Q'])} request{'s' * (len(inputs['limit_Q']) > 1)})"

    def alter_inputs(self, v, inputs):
        return {"reads-the-tail": set_to_whole_width(inputs, "length_Q", inputs["prompt_QN"].shape[1])}

    def describe_difference(self, v, inputs, got, want):
        q, x = (int(i) for i in np.argwhere(got[0] != want[0])[0])
        limit, alone = int(inputs["limit_Q"][q]), want[0][q][want[0][q] >= 0].tolist()
        message = f"{self.call(inputs)}: token_QX[{q}, {x}] is {got[0][q, x]}; right is {want[0][q, x]}."
        if x >= limit:
            return f"{message} Request {q} has {limit} tokens, and -1 behind them."
        return f"{message} Alone, request {q} says {alone}, whatever runs beside it."

    def find_excess_cost(self, v, trial):
        inputs, (joined, steps, problem) = trial.inputs, _order_of_joins(trial)
        if problem:
            mistake = "reads-the-tail" if problem.endswith(BEHIND_IT) else None
            return Miss(f"{self.call(inputs)}: the tokens are right, but {problem}", mistake, is_explained=True)
        _, due, fewest = self._serve_by_slots(v, inputs)
        if (joined, steps) == (due, fewest):
            return None
        q = next((q for q, (mine, right) in enumerate(zip(joined, due, strict=True)) if mine != right), None)
        message = f"{self.call(inputs)}: the tokens are right, but"
        if q is None:
            message += f" {steps} steps were made, where {fewest} do."
        elif joined[q] < due[q]:
            message += (
                f" request {q} joins after {_steps_in_words(joined[q])}; it comes after {inputs['arrives_Q'][q]}."
            )
        else:
            message += f" request {q} joins after {_steps_in_words(joined[q])}."
            message += f" It has come, and a slot is free, after {due[q]}."
        return Miss(message, numbers={"steps": steps, "limit": fewest}, is_explained=True)

    def recognise_mistake(self, v, tried):
        """Mistakes of the order by when each request joined, on all inputs; the others by the tokens."""
        first = next(t for t in tried if t.miss)
        if first.miss.is_of_value:
            return super().recognise_mistake(v, tried)
        judged = [t for t in tried if t.got is not None]
        fits = [
            m
            for m in OF_ORDER
            if all(_order_of_joins(t) == (*self._serve_by_slots(v, t.inputs, m)[1:], "") for t in judged)
        ]
        return fits[0] if len(fits) == 1 else None

    def praise(self, v, tried):
        last = tried[-1]
        alone = int((last.inputs["limit_Q"] - 1).sum())
        return f"The last one took {_order_of_joins(last)[1]} steps; one request after the other takes {alone}."


class Model:
    """A model of integers: a position's memory is its token's row times a number that depends on the position."""

    def __init__(self, rng: np.random.Generator, slots: int):
        self.E_VD, self.O_DV = rng.integers(1, 10, (V, WIDTH)), rng.integers(0, 50, (WIDTH, V))
        self.slots, self.salt = slots, int(rng.integers(2**32))

    def prefill(self, token_N: Any) -> tuple[np.ndarray, np.ndarray]:
        """(memory_ND, score_V): of a text, and the scores of the token behind it."""
        token_N = np.asarray(token_N)
        if token_N.ndim != 1 or not token_N.size or not _are_tokens(token_N):
            raise ValueError(f"prefill takes the tokens of one prompt, not an array of shape {token_N.shape}")
        memory_ND = self._hidden_rows(token_N, np.arange(len(token_N)))
        return memory_ND, self._score_tokens(memory_ND.sum(axis=0))

    def step(self, token_C: Any, length_C: Any, memory_CMD: Any) -> tuple[np.ndarray, np.ndarray]:
        """(new_CD, score_CV): of each slot's newest token, behind what its memory holds."""
        token_C, length_C, memory_CMD = (np.asarray(x) for x in (token_C, length_C, memory_CMD))
        C, D = self.slots, WIDTH
        if token_C.shape != (C,) or length_C.shape != (C,) or memory_CMD.ndim != 3 or memory_CMD.shape[::2] != (C, D):
            shapes = f"{token_C.shape}, {length_C.shape} and {memory_CMD.shape}"
            raise ValueError(f"step takes all {C} slots: ({C},), ({C},) and ({C}, M, {D}), not {shapes}")
        if not _are_tokens(token_C) or memory_CMD.dtype.kind not in "iu" or length_C.dtype.kind not in "iu":
            raise ValueError(f"step takes integers, and tokens from 0 to {V - 1}")
        new_CD = self._hidden_rows(token_C, length_C - 1)
        read = [memory_MD[: max(n - 1, 0)].sum(axis=0) for memory_MD, n in zip(memory_CMD, length_C, strict=True)]
        return new_CD, self._score_tokens(np.array(read) + new_CD)

    def draw(self, key: Any, n: Any) -> float:
        """The n-th random number of a key."""
        said = f"{self.salt} {operator.index(key)} {operator.index(n)}"
        lot = int.from_bytes(hashlib.sha256(said.encode()).digest()[:4], "big") % LOTS
        return (2 * lot + 1) / (2 * LOTS)

    def _hidden_rows(self, token_X, position_X):
        return self.E_VD[token_X] * (1 + position_X % 4)[:, None]

    def _score_tokens(self, read_XD):
        return 1 + read_XD @ self.O_DV % 97


def _draw_inputs(model: Model, rng: np.random.Generator, count: int, apart: int) -> dict[str, Any]:
    """Draws `count` requests, which arrive at most `apart` steps apart. Tokens after a prompt's end mean nothing."""
    length_Q = rng.integers(1, 6, count)
    N = int(length_Q.max()) + 1
    return {
        "prompt_QN": rng.integers(0, V, (count, N)), "length_Q": length_Q,
        "arrives_Q": np.cumsum(rng.integers(0, apart + 1, count)), "limit_Q": rng.integers(2, 8, count),
        "key_Q": rng.choice(np.arange(10, 100), count, replace=False),
        "prefill": Callback("prefill", model.prefill), "step": Callback("step", model.step),
        "draw": Callback("draw", model.draw),
    }  # fmt: skip


def _are_tokens(token_X: np.ndarray) -> bool:
    return token_X.dtype.kind in "iu" and bool(((token_X >= 0) & (token_X < V)).all())


def _draw_token(score_V: list[int], random: float) -> int:
    """The token whose part of the scores, added up from token 0, the random number falls into."""
    reached, total = 0, sum(score_V)
    for token, score in enumerate(score_V):
        reached += score
        if reached > random * total:
            return token
    raise AssertionError("random numbers are below 1")


def _steps_in_words(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _order_of_joins(trial) -> tuple[list[int], int, str]:
    """(after how many steps each request's prompt is read, steps, what is wrong with the prompts that are read)."""
    prompt_QN, length_Q = trial.inputs["prompt_QN"], trial.inputs["length_Q"]
    joined: list[int] = []
    steps, said = 0, ""
    for name, arguments in trial.calls:
        steps += name == "step"
        if name == "prefill" and not said:
            q = len(joined)
            if q < len(prompt_QN) and not np.array_equal(np.asarray(arguments[0]), prompt_QN[q, : length_Q[q]]):
                said = f"call {q} of `prefill` has other tokens than the prompt of request {q}, which is next."
                if np.array_equal(np.asarray(arguments[0]), prompt_QN[q]):
                    said = f"call {q} of `prefill` has the prompt of request {q} {BEHIND_IT}"
            joined.append(steps)
    if not said and len(joined) != len(prompt_QN):
        said = f"`prefill` is called {len(joined)} times. There are {len(prompt_QN)} prompts, each to be read once."
    return joined, steps, said
