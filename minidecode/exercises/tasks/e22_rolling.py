"""Exercise 22: local attention over a window that rolls, to be mended."""

from __future__ import annotations

import numpy as np

from ..exercise import NumPyTask, told_apart


class Task(NumPyTask):
    function = "generate"
    returns = ("tokens_T",)
    known = {
        "slot-for-position": "position p lies in slot p % SLOTS; that is p itself only until the window is full",
        "off-by-one": "the newest token, just written, is given the place of the oldest one, which it has overwritten",
        "oldest-forgotten": "a window of SLOTS positions holds the newest one and SLOTS - 1 before it; here one fewer"
                            " is seen",
        "forgets-at-once": "the window starts anew whenever it is full: then a token sees hardly anything before it",
    }  # fmt: skip

    def variation(self, rng):
        return {"slots": rng.integers(3, 7), "first": rng.integers(1, 4)}

    def cases(self, v, rng):
        def one(prompt, vocabulary, steps):
            return {
                "prompt_N": rng.integers(0, vocabulary, prompt), "E_VD": rng.integers(1, 10, (vocabulary, 3)),
                "P_XD": rng.integers(1, 10, (v.first + prompt + steps, 3)),
                "O_DV": rng.integers(0, 50, (3, vocabulary)), "steps": steps,
            }  # fmt: skip

        cases = [one(1, 4, 2), one(v.slots, 5, 2), one(v.slots + 1, 6, 3)]
        prompt, steps = v.slots + int(rng.integers(2, 5)), v.slots + int(rng.integers(2, 6))
        return [*cases, told_apart(self, v, lambda: one(prompt, 9, steps))]

    def expected(self, v, inputs, mistake=None, ran=None):
        E_VD, P_XD, O_DV = (inputs[k].tolist() for k in ("E_VD", "P_XD", "O_DV"))
        text, said = inputs["prompt_N"].tolist(), []
        for _ in range(inputs["steps"]):
            newest = len(text) - 1
            oldest = max(0, newest - v.slots + 1)
            if mistake == "oldest-forgotten":
                oldest = max(0, newest - v.slots + 2)
            if mistake == "forgets-at-once":
                oldest = newest // v.slots * v.slots
            read = [0, 0, 0]
            for p in range(oldest, newest + 1):
                place = p
                if mistake == "slot-for-position":
                    place = p % v.slots
                elif mistake == "off-by-one" and p == newest:
                    place = newest - v.slots
                if place >= 0:
                    read = [r + e * w for r, e, w in zip(read, E_VD[text[p]], P_XD[v.first + place], strict=True)]
            score = [sum(r * weights[t] for r, weights in zip(read, O_DV, strict=True)) % 97 for t in range(len(E_VD))]
            said.append(score.index(max(score)))
            text.append(said[-1])
        return np.array(said)

    def tell(self, v, inputs, got, want):
        step = int(np.argmax(got[0] != want[0]))
        held = len(inputs["prompt_N"]) + step
        seen = f"positions {max(0, held - v.slots)} to {held - 1} are to be seen"
        return (
            f"{self.call(inputs)}, SLOTS = {v.slots}: step {step} says {got[0][step]}, right is {want[0][step]}. The"
            f" text had {held} token(s) then: {seen}, the newest of them in slot {(held - 1) % v.slots}."
        )
