"""Exercise 31: a product of rows that are rounded as they come and int8 weights, by integers alone."""

from __future__ import annotations

import numpy as np

from ..exercise import draw_telling_input, repeat_first_row
from ..numpy_task import NumPyTask
from ..verdict import Miss
from ..wire import Callback

FAR_FROM_A_TIE = 0.4  # of a step: which integer is nearest does not depend on a last bit


class Task(NumPyTask):
    function = "product"
    returns = ("y_RF",)
    known = {
        "no-correction": "u is q + OFFSET, so each sum holds OFFSET times the sum of its weights too many",
        "corrected-by-rows": "what the offset adds is OFFSET times the weights that it meets: it belongs to an output,"
                             " and the row's own numbers have no part in it",
        "one-scale-for-all-rows": "the row with the largest number sets the step of all others, which keep few of"
                                  " their digits",
        "rounds-half-up": "a number half-way between two integers goes to the even one; upwards alone, the sums lean",
        "truncated": "what lies behind the point is cut off, so each number comes nearer to 0, by half a step on"
                     " average",
        "floored": "the cast to uint8 cuts off, so each number goes down to the next integer, by half a step on"
                   " average",
        "sums-in-16-bits": "16 bits end at 32,767, and three products of 127 by 127 are more",
        "last-piece-lost": "the inputs behind the last whole piece are never multiplied",
        "signed-by-signed": "the processor multiplies unsigned by signed bytes: its first operand has no sign, which is"
                            " what the offset is for",
        "multiplies-floats": "rounding was to let integers be multiplied, four in the time of one float",
    }  # fmt: skip

    def variation(self, rng):
        bits = int(rng.choice([8, 7]))
        return {"depth": rng.choice([24, 40, 64]), "largest": 2 ** (bits - 1) - 1, "offset": 2 ** (bits - 1)}

    def cases(self, v, rng):
        def draw_inputs(R, D, F, outlier=False, zeros=False, negative=False):
            q_RD = rng.integers(1 - v.largest, v.largest, (R, D))  # the largest of a row comes last
            off_RD = rng.uniform(-FAR_FROM_A_TIE, FAR_FROM_A_TIE, (R, D))
            step_R = 2.0 ** rng.integers(-6, 3, R)
            if outlier:  # all that is not the outlier lies within a few steps of 0
                q_RD[0] = np.sign(q_RD[0]) * np.minimum(np.abs(q_RD[0]), 3)
            ties = rng.integers(0, D - 1, max(1, D // 8))
            off_RD[:, ties] = 0.5
            q_RD[:, -1], off_RD[:, -1] = rng.choice([-v.largest, v.largest], R), 0
            x_RD = (q_RD + off_RD) * step_R[:, None]
            if negative:
                x_RD = -np.abs(x_RD)
            if zeros:
                x_RD[R // 2] = 0
            w_FD = rng.integers(-127, 128, (F, D)).astype(np.int8)
            w_FD[0, : D // 2] = 127  # its sums are far from 0
            scale_F = (rng.integers(1, 64, F) / 4096).astype(np.float32)
            multiply = Callback("dot", lambda u, w: dot(u, w, v.depth))
            return {"x_RD": x_RD.astype(np.float32), "w_FD": w_FD, "scale_F": scale_F, "dot": multiply}

        some = int(rng.integers(3, 7))
        cases = [draw_telling_input(self, v, lambda: draw_inputs(2, int(rng.integers(5, 9)), 2))]
        cases.append(draw_telling_input(self, v, lambda: draw_inputs(3, v.depth + some, 3, outlier=True)))
        cases.append(draw_inputs(some, 2 * v.depth, some + 1, zeros=True))
        cases.append(draw_inputs(some, 2 * v.depth + some, 5, negative=True))
        return [*cases, draw_inputs(3 * some, 4 * v.depth + 1, 9, outlier=True, zeros=True)]

    def run(self, submission, v, trials, verdict):
        """Once more with a `dot` that is wrong about a few products of the input, and no others: y_RF has to follow."""
        super().run(submission, v, trials, verdict)
        if any(t.got is not None for t in trials):
            self.try_again(submission, v, trials, lambda inputs: inputs | {"dot": self._make_erring_dot(v, inputs)[0]})

    def _make_erring_dot(self, v, inputs):
        """(a `dot` in which three products of two bytes are off by thousands, what that makes of y_RF).

        Which they are is drawn from the input, so numbers that are made up do not find them; and none has a factor that
        fills something up.
        """
        u_RD, w_FD = self._quantize_to_unsigned(v, inputs), inputs["w_FD"]
        rng = np.random.default_rng(np.frombuffer(inputs["x_RD"].tobytes(), np.uint8))
        plain = ~np.isin(u_RD, (0, 1, v.offset))[:, None] & (w_FD != 0)
        products = rng.permutation(np.argwhere(plain))[:3]
        wrong = [(u_RD[r, d], w_FD[f, d], int(rng.choice([-1, 1]) * rng.integers(2000, 5000))) for r, f, d in products]

        def off(u_XD, w_YD):
            error_XY = np.zeros((len(u_XD), len(w_YD)), np.int32)
            for u, w, e in wrong:
                error_XY += e * ((u_XD[:, None] == u) & (w_YD == w)).sum(axis=2, dtype=np.int32)
            return error_XY

        step_R = np.abs(inputs["x_RD"].astype(np.float64)).max(axis=1) / v.largest
        other = Callback("dot", lambda u, w: dot(u, w, v.depth) + off(u, w))
        return other, off(u_RD, w_FD) * step_R[:, None] * inputs["scale_F"]

    def _quantize_to_unsigned(self, v, inputs):
        """u, as the text says it; OFFSET in a row of zeros."""
        x_RD = inputs["x_RD"].astype(np.float64)
        step_R1 = np.abs(x_RD).max(axis=1, keepdims=True) / v.largest
        return (np.rint(x_RD / np.where(step_R1 > 0, step_R1, 1)) + v.offset).astype(np.uint8)

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        return self._product_with_sizes(v, inputs, mistake)[0]

    def _product_with_sizes(self, v, inputs, mistake=None):
        """(y_RF, the sizes of what was added up), scaled; row by row and output by output."""
        if mistake in ("signed-by-signed", "multiplies-floats"):
            raise NotImplementedError  # told by what `dot` was called with, or that it does not matter
        x_RD, w_FD = inputs["x_RD"].astype(np.float64), inputs["w_FD"].astype(np.int64)
        (R, D), F = x_RD.shape, len(w_FD)
        most_R = np.abs(x_RD).max(axis=1)
        if mistake == "one-scale-for-all-rows":
            most_R[:] = most_R.max()
        multiplied = D - D % v.depth if mistake == "last-piece-lost" else D
        y_RF, size_RF = np.zeros((R, F)), np.zeros((R, F))
        for r in range(R):
            step = most_R[r] / v.largest
            q_D = ROUNDINGS.get(mistake, np.rint)(x_RD[r] / step if step else x_RD[r]).astype(np.int64)
            for f in range(F):
                with_offset = int(((q_D + v.offset) * w_FD[f])[:multiplied].sum())
                if mistake == "sums-in-16-bits":
                    with_offset = (with_offset + 2**15) % 2**16 - 2**15
                offset = v.offset * int(w_FD[f].sum())
                if mistake == "corrected-by-rows":
                    offset = v.offset * int((q_D + v.offset).sum())
                scale = step * float(inputs["scale_F"][f])
                y_RF[r, f] = (with_offset - (0 if mistake == "no-correction" else offset)) * scale
                size_RF[r, f] = (abs(with_offset) + abs(offset)) * scale
        return y_RF, size_RF

    def error_bound(self, v, inputs):
        """The sums are exact. Scales and products round, and the correction may be subtracted in float32."""
        return 4 * np.finfo(np.float32).eps * self._product_with_sizes(v, inputs)[1]

    def alter_inputs(self, v, inputs):
        return {"row-0-for-all": repeat_first_row(inputs, "x_RD")}

    def call(self, inputs):
        return super().call({name: inputs[name] for name in ("x_RD", "w_FD")})

    def describe_difference(self, v, inputs, got, want):
        off_RF = ~(np.abs(got[0].astype(np.float64) - want[0]) <= self.error_bound(v, inputs))
        r, f = np.argwhere(off_RF)[0].tolist()
        mine = f"is {got[0][r, f]:.6g}" if np.isfinite(got[0][r, f]) else "is not finite"
        step, scale = float(np.abs(inputs["x_RD"][r]).max()) / v.largest, float(inputs["scale_F"][f])
        total = round(want[0][r, f] / (step * scale)) if step else 0
        return (
            f"{self.call(inputs)}: y_RF[{r}, {f}] {mine}; right is {want[0][r, f]:.6g}, the sum {total:,} of q times w,"
            f" times the row's step {step:.4g}, times scale_F[{f}] = {scale:.4g}."
        )

    def find_excess_cost(self, v, trial):
        if not trial.calls:
            message = f"{self.call(trial.inputs)} never called `dot`: its result comes from other products."
            return Miss(message, "multiplies-floats", shows_input=False, is_explained=True)
        (R, D), F = trial.inputs["x_RD"].shape, len(trial.inputs["w_FD"])
        due_UW, asked_UW = self._count_byte_products(v, trial)
        if missing := int(np.maximum(due_UW - asked_UW, 0).sum()):
            message = (
                f"{self.call(trial.inputs)} is right, but never asks `dot` for {missing:,} of {due_UW.sum():,} products"
            )
            return Miss(f"{message} of a u and a w.", "multiplies-floats", shows_input=False, is_explained=True)
        asked, most = int(asked_UW.sum()), (R + 2) * F * -(-D // v.depth) * v.depth
        if asked > most:
            message = f"{self.call(trial.inputs)} asks `dot` for {asked:,} products of bytes; {most:,} are the most."
            numbers = {"products": asked, "limit": most}
            return Miss(message, None, numbers, shows_input=False, is_explained=True)
        again = trial.again.got if trial.again else None
        if again is None or np.shape(again[0]) != np.shape(trial.got[0]):
            return None
        off_RF = np.abs(again[0].astype(np.float64) - trial.got[0] - self._make_erring_dot(v, trial.inputs)[1])
        off_RF[~trial.inputs["x_RD"].any(axis=1)] = 0  # any step will do for a row of zeros
        bound_RF = 3 * self.error_bound(
            v, trial.inputs
        )  # of this result and of the other, whose sums are a little larger
        if (off_RF <= bound_RF).all():
            return None
        r, f = np.argwhere(~(off_RF <= bound_RF))[0].tolist()
        message = (
            f"{self.call(trial.inputs)} is right; but where `dot` says another sum, y_RF[{r}, {f}] does not follow: it"
        )
        return Miss(f"{message} is not made of it.", "multiplies-floats", shows_input=False, is_explained=True)

    def _count_byte_products(self, v, trial):
        """How often each byte u is multiplied by each byte w: (in the rows that are not 0, by the calls of `dot`)."""

        def pairs(u_XD, w_YD):
            return (u_XD[:, None].astype(np.int64) * 256 + (w_YD.astype(np.int64) + 128)).ravel()

        def counted(pieces):
            return np.bincount(np.concatenate([np.empty(0, np.int64), *pieces]), minlength=2**16)

        is_some = trial.inputs["x_RD"].any(axis=1)
        due = pairs(self._quantize_to_unsigned(v, trial.inputs)[is_some], trial.inputs["w_FD"])
        taken = [arguments for _, arguments in trial.calls if _is_accepted_by_dot(arguments, v.depth)]
        return counted([due]), counted([pairs(*arguments) for arguments in taken])

    def _describe_raised_error(self, inputs, error):
        """What `dot` refuses, in its own words; by name, if the first operand has a sign."""
        miss, problem = super()._describe_raised_error(inputs, error), str(error.get("message"))
        if problem.startswith("dot takes uint8"):
            where = f"line {error.get('line')}: " if error.get("line") else ""
            mistake = "signed-by-signed" if "got int8 by int8" in problem else None
            return Miss(f"{where}{problem}, in {self.call(inputs)}.", mistake, is_explained=True)
        return miss

    def praise(self, v, tried):
        last = tried[-1]
        (R, D), F = last.inputs["x_RD"].shape, len(last.inputs["w_FD"])
        return f"The last one took {len(last.calls)} calls of `dot` for {R * D * F:,} products of bytes."


ROUNDINGS = {"rounds-half-up": lambda x: np.floor(x + 0.5), "truncated": np.trunc, "floored": np.floor}


def dot(u_RD, w_FD, depth):
    """What the processor does: sums of products of unsigned by signed bytes, in 32 bits, some inputs at a time."""
    kinds = [str(getattr(a, "dtype", type(a).__name__)) for a in (u_RD, w_FD)]
    if kinds != ["uint8", "int8"]:
        raise TypeError(f"dot takes uint8 by int8, and got {kinds[0]} by {kinds[1]}")
    if u_RD.ndim != 2 or w_FD.ndim != 2 or u_RD.shape[1] != w_FD.shape[1]:
        raise ValueError(f"dot takes arrays (R, D) and (F, D), and got shapes {u_RD.shape} and {w_FD.shape}")
    if u_RD.shape[1] > depth:
        raise ValueError(f"dot takes {depth} inputs at a time, and got {u_RD.shape[1]}")
    return u_RD.astype(np.int32) @ w_FD.astype(np.int32).T


def _is_accepted_by_dot(arguments, depth):
    try:
        dot(*arguments, depth)
    except (TypeError, ValueError):
        return False
    return True
