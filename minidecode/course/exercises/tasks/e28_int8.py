"""Exercise 28: int8 weights times an int8 vector, by a kernel that moves few bytes."""

from __future__ import annotations

import numpy as np

from ..exercise import draw_telling_input
from ..kernel_task import KernelTask
from ..results import make_unwritten_array
from ..verdict import Miss

INPUTS = 160  # of the largest


class Task(KernelTask):
    kernel = "gemv"
    ranked = "sectors"
    out = ("y", "wide")
    returns = ("y",)
    known = {
        "one-scale": "each output has its own scale, so that a large weight of one row does not coarsen all others",
        "int8-sum": "int8 ends at 127, where the next number is -128: two products may be too much for it already",
        "scale-of-x-lost": "x has been divided by its scale too, and that has to be undone as well",
        "dequantized-copy": "int8 was to save bytes: a copy in float32 is 4 bytes to write and 4 to read for each that"
                            " was saved",
        "strided-reads": "neighbouring threads read weights that are a whole row apart, so each moves 32 bytes for the"
                         " one that it wants",
    }  # fmt: skip

    def variation(self, rng):
        layout = str(rng.choice(["oi", "io"]))
        if layout == "oi":
            order = "the weights of an output lie side by side"
            way = ("A warp for each output: its 32 lanes read 32 neighbouring weights, and the next 32, and add up what"
                   " they have in the end, by shuffles or in shared memory.")  # fmt: skip
            code = ("`o = cuda.grid(1) // 32`, `for i in range(lane, x.shape[0], 32): total += int32(x[i]) * w[o, i]`,"
                    " then `total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)` for step 16, 8, 4, 2, 1; lane 0"
                    " writes. Blocks: the outputs divided by the warps of a block, rounded up.")  # fmt: skip
        else:
            order = "the weights of an input lie side by side"
            way = "A thread for each output: for one input, 32 neighbouring threads read 32 neighbouring weights."
            code = ("`o = cuda.grid(1)`, a guard, `for i in range(x.shape[0]): total += int32(x[i]) * w[i, o]`. Blocks:"
                    " the outputs divided by THREADS, rounded up.")  # fmt: skip
        return {"layout": layout, "threads": rng.choice([32, 64, 128]), "most": 3,
                "order": order, "way": way, "code": code, "inputs": INPUTS}  # fmt: skip

    def constants(self, v):
        return {"LAYOUT": v.layout, "THREADS": v.threads, "MOST": v.most}

    def cases(self, v, rng):
        def draw_inputs(outputs, inputs):
            shape = (outputs, inputs) if v.layout == "oi" else (inputs, outputs)
            return {"y": make_unwritten_array((outputs,)), "x": rng.integers(-127, 128, inputs).astype(np.int8),
                    "w": rng.integers(-127, 128, shape).astype(np.int8),
                    "scale": (rng.integers(1, 64, outputs) / 4096).astype(np.float32),
                    "x_scale": np.float32(rng.integers(2, 16) / 256), "wide": make_unwritten_array(shape)}  # fmt: skip

        cases = [draw_telling_input(self, v, lambda: draw_inputs(3, 4)), draw_inputs(2, 32 + int(rng.integers(1, 20)))]
        cases.append(draw_inputs(v.threads + int(rng.integers(1, 20)), int(rng.integers(9, 31))))
        some = int(rng.integers(40, 57)), int(rng.integers(96, INPUTS))
        return [*cases, draw_inputs(*((some[0], INPUTS) if v.layout == "oi" else (64, some[1])))]  # whole sectors

    def shape_arguments(self, v, inputs):
        return [len(inputs["y"]), len(inputs["x"])]

    def run(self, submission, v, trials, verdict):
        super().run(submission, v, trials, verdict)
        for trial in trials:
            if trial.got is not None:  # what is left in `wide` is no output, but says that it was used
                trial.got, wide = trial.got[:1], trial.got[1]
                trial.ran.copied = int((~np.isnan(wide)).sum())

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake in ("dequantized-copy", "strided-reads"):
            raise NotImplementedError  # told by bytes
        w = inputs["w"] if v.layout == "oi" else inputs["w"].T
        x, scale, y = inputs["x"].tolist(), inputs["scale"].tolist(), []
        for o, row in enumerate(w.tolist()):
            total = sum(a * b for a, b in zip(x, row, strict=True))
            if mistake == "int8-sum":
                total = (total + 128) % 256 - 128
            factor = scale[0] if mistake == "one-scale" else scale[o]
            y.append(total * factor * (1 if mistake == "scale-of-x-lost" else float(inputs["x_scale"])))
        return np.array(y)

    def error_bound(self, v, inputs):
        """Each of the terms rounded, as they are when scales go into them, and each addition of them."""
        x, w = np.abs(inputs["x"].astype(np.float64)), np.abs(inputs["w"].astype(np.float64))
        sizes = (w @ x if v.layout == "oi" else x @ w) * inputs["scale"] * float(inputs["x_scale"])
        return (len(x) + 4) * np.finfo(np.float32).eps * sizes

    def size_for_multiples(self, v, inputs):
        return len(inputs["x"])

    def describe_difference(self, v, inputs, got, want):
        o = int(np.argwhere(~(np.abs(got[0] - want[0]) <= self.error_bound(v, inputs)))[0, 0])
        mine = "was never written" if np.isnan(got[0][o]) else f"is {got[0][o]:.6g}"
        w = inputs["w"] if v.layout == "oi" else inputs["w"].T
        total = int(inputs["x"].astype(int) @ w[o])
        return (
            f"{self.call(inputs)}: y[{o}] {mine}; right is {want[0][o]:.6g}, the sum {total:,} times"
            f" {inputs['scale'][o]:.6g} times {inputs['x_scale']:.6g}."
        )

    def find_excess_cost(self, v, trial):
        w, ran = trial.inputs["w"], trial.ran
        if (threads := int(np.prod(ran.threads))) > v.threads:
            return Miss(f"launch_shape asks for {threads} threads a block; THREADS = {v.threads} are the most here.")
        moved, limit = ran.counts["bytes_moved"], v.most * w.size
        if w.shape[1] % 32 or moved <= limit:
            return None
        message = f"{self.call(trial.inputs)} moves {moved:,} bytes; w has {w.size:,}, and {limit:,} are the most."
        if ran.copied:
            message += f" {ran.copied:,} numbers of {4 * ran.copied:,} bytes were written to `wide`."
        loads = [a for a in ran.accesses if a["kind"] == "load" and not a["shared"]]
        is_strided = sum(a["sectors"] for a in loads) > 4 * sum(a["least_sectors"] for a in loads)
        mistake = "dequantized-copy" if ran.copied else "strided-reads" if is_strided else None
        numbers = {"bytes": moved, "limit": limit}
        return Miss(" ".join([message, *ran.costs]), mistake, numbers, ran.picture, shows_input=False)

    def praise(self, v, tried):
        moved, size = tried[-1].ran.counts["bytes_moved"], tried[-1].inputs["w"].size
        return f"The last one moved {moved:,} bytes; its weights alone would be {4 * size:,} in float32."
