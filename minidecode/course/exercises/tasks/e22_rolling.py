"""Exercise 22: local attention over a window that rolls, to be mended."""

from __future__ import annotations

import numpy as np

from ..exercise import draw_telling_input
from ..numpy_task import NumPyTask
from ..verdict import Miss

EMPTY = 50  # what stands in a slot that is not written yet
LONG, WIDE = 600, 64  # a text and a width at which it shows whether the memory grows with the text


class Task(NumPyTask):
    function = "generate"
    returns = ("tokens_T",)
    measure = True
    known = {
        "slot-for-position": "position p lies in slot p % SLOTS; that is p itself only until the window is full",
        "off-by-one": "the newest token, just written, is given the place of the oldest one, which it has overwritten",
        "oldest-forgotten": "a window of SLOTS positions holds the newest one and SLOTS - 1 before it; here one fewer"
                            " is seen",
        "forgets-at-once": "the window starts anew whenever it is full: then a token sees hardly anything before it",
        "oldest-first": "slot 0 is taken for the oldest position, the next slot for the one after it; but the oldest"
                        " one lies behind the newest one, wherever that is",
        "wrong-way-round": "the ring is walked in the other direction: in the slot before the newest one lies the token"
                           " before it, not in the slot after it",
        "empty-slots-seen": "a slot that is not written yet holds whatever was there before",
        "first-left-out": "the text's first token has the position FIRST, not 0",
        "memory-grows": "with local attention old tokens are never looked at again: a memory that keeps them grows for"
                        " nothing",
    }  # fmt: skip

    def variation(self, rng):
        return {"slots": rng.integers(3, 7), "first": rng.integers(1, 4), "long": LONG}

    def constants(self, v):
        return {"SLOTS": v.slots, "FIRST": v.first}

    def cases(self, v, rng):
        def draw_inputs(prompt, vocabulary, steps, width=3):
            return {
                "prompt_N": rng.integers(0, vocabulary, prompt), "E_VD": rng.integers(1, 10, (vocabulary, width)),
                "P_XD": rng.integers(1, 10, (v.first + prompt + steps, width)),
                "O_DV": rng.integers(0, 50, (width, vocabulary)), "steps": steps,
            }  # fmt: skip

        cases = [draw_inputs(1, 4, 2), draw_inputs(v.slots, 5, 2), draw_inputs(v.slots + 1, 6, 3)]
        prompt, steps = int(rng.integers(1, v.slots)), 2 * v.slots + int(rng.integers(2, 6))
        cases.append(draw_telling_input(self, v, lambda: draw_inputs(prompt, 9, steps)))
        return [*cases, draw_inputs(LONG + int(rng.integers(1, 9)), 9, 3, WIDE)]

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake == "memory-grows":
            raise NotImplementedError  # told by bytes
        E_VD, P_XD, O_DV = (inputs[k].tolist() for k in ("E_VD", "P_XD", "O_DV"))
        text, lines, width = inputs["prompt_N"].tolist(), [], len(O_DV)
        first = 0 if mistake == "first-left-out" else v.first
        for _ in range(inputs["steps"]):
            newest = len(text) - 1
            read = [0] * width
            for slot in range(v.slots):
                position = self._position(v, newest, slot, mistake)
                if position is None:
                    continue
                held = newest - (newest - slot) % v.slots  # the position that the slot does hold
                entry = E_VD[text[held]] if held >= 0 else [EMPTY] * width
                read = [r + e * p for r, e, p in zip(read, entry, P_XD[first + position], strict=True)]
            score = [sum(r * weights[t] for r, weights in zip(read, O_DV, strict=True)) % 97 for t in range(len(E_VD))]
            lines.append(score.index(max(score)))
            text.append(lines[-1])
        return np.array(lines)

    def _position(self, v, newest, slot, mistake):
        """The position for which a slot's entry is taken, or None where it is not seen."""
        right = newest - (newest - slot) % v.slots
        position = {
            "slot-for-position": slot,
            "off-by-one": newest - 1 - (newest - 1 - slot) % v.slots,
            "forgets-at-once": newest // v.slots * v.slots + slot,
            "oldest-first": max(0, newest - v.slots + 1) + slot,
            "wrong-way-round": newest - (slot - newest) % v.slots,
        }.get(mistake, right)
        oldest = newest - v.slots + 2 if mistake == "oldest-forgotten" else 0
        is_seen = max(0, oldest) <= position <= newest or mistake == "empty-slots-seen"
        return position if is_seen else None

    def find_excess_cost(self, v, trial):
        text, width = len(trial.inputs["prompt_N"]) + trial.inputs["steps"], trial.inputs["E_VD"].shape[1]
        limit = text * width * 8 // 4  # a quarter of a memory that keeps everything
        if width != WIDE or trial.peak <= limit:
            return None
        message = (
            f"{self.call(trial.inputs)} is right, and takes {trial.peak:,} bytes; {limit:,} are allowed: {v.slots}"
        )
        message += f" slots take {v.slots * width * 8:,}, all {text} tokens {text * width * 8:,}."
        return Miss(message, "memory-grows", {"bytes": trial.peak, "limit": limit}, shows_input=False)

    def describe_difference(self, v, inputs, got, want):
        step = int(np.argmax(got[0] != want[0]))
        held = len(inputs["prompt_N"]) + step
        seen = f"positions {max(0, held - v.slots)} to {held - 1} are to be seen"
        return (
            f"{self.call(inputs)}, SLOTS = {v.slots}: step {step} says {got[0][step]}, right is {want[0][step]}. The"
            f" text had {held} token(s) then: {seen}, the newest of them in slot {(held - 1) % v.slots}."
        )
