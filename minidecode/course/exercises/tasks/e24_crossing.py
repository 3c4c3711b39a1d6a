"""Exercise 24: the machine on which EL-attention takes as long as a shared cache."""

from __future__ import annotations

from ....bench.machines import MACHINES
from ..prediction_task import PredictionTask


class Task(PredictionTask):
    answers = {"OPERATIONS_PER_BYTE": "operations per byte", "TERA_OPERATIONS": "x 10^12 operations a second"}
    known = {
        "forgot-heads": "each head looks at hidden states of the whole width D, not of D / H: that is H times the"
                        " operations",
        "forgot-beams": "all beams of a sentence are multiplied with the bytes that were read once: W times the"
                        " operations for no byte more",
        "forgot-values": "a cache holds keys and values, twice the numbers of the hidden states that stand for both",
        "multiply-add-as-one": "half of the operations: a multiplication and an addition are two, as machines are"
                               " measured too, and there are two products",
        "counted-numbers": "these are operations for each number; a number has several bytes",
    }  # fmt: skip

    def variation(self, rng):
        h = int(rng.choice([8, 12, 16]))
        return {
            "positions": rng.choice([256, 512, 1024]), "sentences": rng.choice([8, 16, 32]), "w": rng.integers(3, 7),
            "h": h, "d": 64 * h, "itemsize": rng.choice([2, 4]), "bandwidth": 50 * rng.integers(2, 40),
        }  # fmt: skip

    def expected_outputs(self, v, mistake=None):
        heads, beams = 1 if mistake == "forgot-heads" else v.h, 1 if mistake == "forgot-beams" else v.w
        itemsize = 1 if mistake == "counted-numbers" else v.itemsize
        numbers = v.sentences * v.positions * v.d
        operations = (1 if mistake == "multiply-add-as-one" else 2) * 2 * heads * beams * numbers
        cache_seconds = (1 if mistake == "forgot-values" else 2) * numbers * itemsize / (v.bandwidth * 1e9)
        return {"OPERATIONS_PER_BYTE": operations / (numbers * itemsize),
                "TERA_OPERATIONS": operations / cache_seconds / 1e12}  # fmt: skip

    def explain(self, v):
        balance = 2 * v.w * v.h / v.itemsize
        balances = [f"{m.name} {m.balance:.0f}" for m in MACHINES.values()]
        if v.itemsize == 2:
            balances = [f"{m.name} {m.on_tensor_cores().balance:.0f}" for m in MACHINES.values() if m.tensor_operations]
        return (
            f"The number of positions, of sentences and the width fall out. EL wins where a machine computes more than"
            f" {balance:.0f} operations in the time of one byte. By their data sheets: {', '.join(balances)}"
            f" ({'float16 on tensor cores' if v.itemsize == 2 else 'float32'})."
        )
