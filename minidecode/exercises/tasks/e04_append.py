"""Exercise 4: a step's keys and values go into the memory, and nothing is computed twice."""

from __future__ import annotations

import numpy as np

from ..exercise import NumPyTask, rows_alike
from ..verdict import Miss
from ..wire import Callback


class Task(NumPyTask):
    function = "append"
    returns = changes = ("keys", "values")
    gives = False
    known = {
        "gap-before-it": "a text of n tokens has its last one at n - 1, so the new one goes to n; attention would read"
                         " a position that nobody has written",
        "overwrites-newest": "the newest position of the last step is gone, and attention never sees that token again",
        "layers-share": "all layers write into the memory of one, and the last of them wins",
        "recomputes": "what was projected in earlier steps is in the memory already: a step costs one row, not a"
                      " triangle of them",
    }  # fmt: skip

    def variation(self, rng):
        return {"layout": str(rng.choice(["LRMK", "LMRK"])), "k": rng.integers(2, 5)}

    def cases(self, v, rng):
        cases = []
        for layers, rows, longest in ((1, 1, 2), (2, 1, 3), (2, 3, 5), (3, 4, int(rng.integers(6, 12)))):
            length_R = rng.integers(1, longest, rows)
            length_R[rows // 2] = longest
            w_LDX = rng.integers(-4, 5, (layers, 3, 2 * v.k)).astype(np.float32)
            w_LDX[:, 0] = 9 * np.arange(1, layers + 1)[:, None]  # no two layers agree, and no product is 0
            h_LRTD = rng.integers(1, 10, (layers, rows, longest + 1, 3)).astype(np.float32)
            h_LRTD[..., 0] = 10 + rng.permuted(np.tile(np.arange(longest + 1), (layers, rows, 1)), axis=2)

            room = (layers, rows, longest + 3, v.k)
            keys, values = np.zeros(room, np.float32), np.zeros(room, np.float32)
            for layer, row in np.ndindex(layers, rows):
                written = slice(length_R[row])
                both = h_LRTD[layer, row, written] @ w_LDX[layer]
                keys[layer, row, written], values[layer, row, written] = both[:, : v.k], both[:, v.k :]
            if v.layout == "LMRK":
                keys, values = (np.ascontiguousarray(a.swapaxes(1, 2)) for a in (keys, values))
            project = Callback("project", _projection(w_LDX, v.k))
            cases.append({"h_LRTD": h_LRTD, "length_R": length_R, "keys": keys, "values": values, "project": project})
        return cases

    def expected(self, v, inputs, mistake=None, ran=None):
        if mistake == "recomputes":
            raise NotImplementedError  # told by the rows
        keys, values = inputs["keys"].copy(), inputs["values"].copy()
        for layer, h_RTD in enumerate(inputs["h_LRTD"]):
            for row, length in enumerate(inputs["length_R"].tolist()):
                (k,), (value,) = inputs["project"].function(layer, h_RTD[row, length : length + 1])
                at = length + {"gap-before-it": 1, "overwrites-newest": -1}.get(mistake, 0)
                into = 0 if mistake == "layers-share" else layer
                place = (into, row, at) if v.layout == "LRMK" else (into, at, row)
                keys[place], values[place] = k, value
        return keys, values

    def altered(self, v, inputs):
        return {"row-0-for-all": rows_alike(inputs, "length_R")}

    def tell(self, v, inputs, got, want):
        for name, mine, right in zip(self.returns, got, want, strict=True):
            places = np.argwhere((mine != right).any(axis=-1))
            if len(places):
                place = tuple(places[0])
                layer, row, at = place if v.layout == "LRMK" else (place[0], place[2], place[1])
                return (
                    f"{self.call(inputs)}: {name} of layer {layer}, row {row}, position {at} are"
                    f" {mine[place].tolist()}; right is {right[place].tolist()}. This row held"
                    f" {inputs['length_R'][row]} position(s) before the step."
                )
        return "The memory is wrong."

    def miss(self, v, trial):
        rows, fewest = _rows(trial.calls), trial.inputs["h_LRTD"].shape[0] * trial.inputs["h_LRTD"].shape[1]
        if rows <= fewest:
            return None
        told = f"{self.call(trial.inputs)} projects {rows:,} rows; {fewest:,} are new, one for each layer and text."
        return Miss(told, "recomputes", {"rows": rows, "limit": fewest}, shows_input=False)

    def praise(self, v, tried):
        layers, _, _, _ = tried[-1].inputs["h_LRTD"].shape
        whole = layers * int((tried[-1].inputs["length_R"] + 1).sum())
        return f"The last step projected {_rows(tried[-1].calls)} rows; from the start it would have been {whole}."


def _projection(w_LDX, k):
    def project(layer, h_XD):
        if np.ndim(h_XD) != 2 or np.shape(h_XD)[1] != w_LDX.shape[1]:
            raise ValueError(f"project takes rows, an array X x {w_LDX.shape[1]}, not the shape {np.shape(h_XD)}")
        both = h_XD.astype(np.float32) @ w_LDX[layer]
        return both[:, :k].copy(), both[:, k:].copy()

    return project


def _rows(calls):
    return sum(len(arguments[1]) for _, arguments in calls if len(arguments) == 2 and np.ndim(arguments[1]) == 2)
