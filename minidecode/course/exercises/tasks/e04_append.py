"""Exercise 4: a step's keys and values go into the memory, and nothing is computed twice."""

from __future__ import annotations

import numpy as np

from ..exercise import repeat_first_row
from ..numpy_task import NumPyTask
from ..verdict import Miss
from ..wire import Callback


class Task(NumPyTask):
    function = "append"
    returns = changes = ("keys", "values")
    gives = False
    known = {
        "gap-before-it": "a text of n tokens has its last one at n - 1, so the new one goes to n; attention would read"
                         " a position that was never written",
        "overwrites-newest": "the newest position of the last step is gone, and attention never sees that token again",
        "longest-for-all": "each text is as long as it is: where the longest goes on, the others leave a gap and take"
                           " what lies behind their end",
        "last-of-the-array": "a row's new position is at length_R[r]; the last of the array is behind the end of every"
                             " text but the longest",
        "every-length-in-every-row": "position and row are not taken in pairs: each row is written at the positions of"
                                     " all others as well, over what it held there",
        "exchanged": "`project` gives keys first, then values",
        "values-forgotten": "attention needs both: keys to weigh the positions, values to be summed",
        "projection-of-layer-0": "each layer has weights of its own, and `project` must be told which",
        "layers-share": "all layers write into the memory of one, and the last of them wins",
        "projected-twice": "one call gives keys and values both; to ask again for the other one computes all twice",
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
            # Quarters, whose products float32 adds exactly. D is so large that what is in the memory says too little
            # of the weights: they have more unknowns than it has positions.
            D = rows * longest + 4
            w_LDX = (rng.integers(-4, 5, (layers, D, 2 * v.k)) / 4).astype(np.float32)
            w_LDX[:, 0] = 40 * np.arange(1, layers + 1)[:, None]  # no two layers agree, and no product is 0
            h_LRTD = (rng.integers(1, 10, (layers, rows, longest + 1, D)) / 4).astype(np.float32)
            h_LRTD[..., 0] = 10 + rng.permuted(np.tile(np.arange(longest + 1), (layers, rows, 1)), axis=2)

            room = (layers, rows, longest + 3, v.k)
            keys, values = np.zeros(room, np.float32), np.zeros(room, np.float32)
            for layer, row in np.ndindex(layers, rows):
                written = slice(length_R[row])
                both = h_LRTD[layer, row, written] @ w_LDX[layer]
                keys[layer, row, written], values[layer, row, written] = both[:, : v.k], both[:, v.k :]
            if v.layout == "LMRK":
                keys, values = (np.ascontiguousarray(a.swapaxes(1, 2)) for a in (keys, values))
            project = Callback("project", _make_project(w_LDX, v.k))
            cases.append({"h_LRTD": h_LRTD, "length_R": length_R, "keys": keys, "values": values, "project": project})
        return cases

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        if mistake in ("recomputes", "projected-twice"):
            raise NotImplementedError  # told by the rows
        lengths = inputs["length_R"].tolist()
        keys, values = inputs["keys"].copy(), inputs["values"].copy()
        for layer, h_RTD in enumerate(inputs["h_LRTD"]):
            for row, length in enumerate(lengths):
                newest = {"longest-for-all": max(lengths), "last-of-the-array": h_RTD.shape[1] - 1}.get(mistake, length)
                with_layer = 0 if mistake == "projection-of-layer-0" else layer
                (k,), (value,) = inputs["project"].function(with_layer, h_RTD[row, newest : newest + 1])
                if mistake == "exchanged":
                    k, value = value, k
                at = {"gap-before-it": length + 1, "overwrites-newest": length - 1, "longest-for-all": max(lengths),
                      "every-length-in-every-row": lengths}.get(mistake, length)  # fmt: skip
                into = 0 if mistake == "layers-share" else layer
                place = (into, row, at) if v.layout == "LRMK" else (into, at, row)
                keys[place] = k
                if mistake != "values-forgotten":
                    values[place] = value
        return keys, values

    def alter_inputs(self, v, inputs):
        return {"row-0-for-all": repeat_first_row(inputs, "length_R")}

    def describe_difference(self, v, inputs, got, want):
        for name, mine, right in zip(self.returns, got, want, strict=True):
            places = np.argwhere((mine != right).any(axis=-1))
            if len(places):
                place = tuple(places[0])
                layer, row, at = place if v.layout == "LRMK" else (place[0], place[2], place[1])
                length = int(inputs["length_R"][row])
                old = f"holds {length} position(s) from earlier steps"
                what = "its new one" if at == length else "one of these" if at < length else "behind its new one"
                return (
                    f"{self.call(inputs)}: {name} of layer {layer}, row {row}, position {at} are"
                    f" {mine[place].tolist()}; right is {right[place].tolist()}. This row {old}; position {at} is"
                    f" {what}{', which had to stay as it was' if at != length else ''}."
                )
        return "The memory is wrong."

    def find_excess_cost(self, v, trial):
        rows, fewest = (
            _count_rows_projected(trial.calls),
            trial.inputs["h_LRTD"].shape[0] * trial.inputs["h_LRTD"].shape[1],
        )
        if missing := self._positions_never_projected(trial):
            layer, row = missing[0]
            message = (
                f"{self.call(trial.inputs)} is right, but never asks `project` for the new position of layer {layer},"
            )
            message = f"{message} row {row}: its keys and values come from elsewhere."
            return Miss(message, None, {"rows": rows, "limit": fewest}, shows_input=False, is_explained=True)
        if rows <= fewest:
            return None
        message = f"{self.call(trial.inputs)} projects {rows:,} rows; {fewest:,} would do, one for each layer and text."
        numbers = {"rows": rows, "limit": fewest}
        return Miss(message, self._name_mistake_by_rows(trial), numbers, shows_input=False)

    def _positions_never_projected(self, trial):
        """(layer, row) of each new position that `project` was not asked for."""
        h_LRTD, length_R = trial.inputs["h_LRTD"], trial.inputs["length_R"]
        asked = {
            (int(layer), *row) for layer, h_XD in _rows_projected(trial.calls) for row in np.asarray(h_XD).tolist()
        }
        return [(layer, row) for layer, row in np.ndindex(h_LRTD.shape[:2])
                if (layer, *h_LRTD[layer, row, length_R[row]].tolist()) not in asked]  # fmt: skip

    def _name_mistake_by_rows(self, trial):
        """Names the mistake by what was projected: the new rows alone, once more, or those of earlier steps too."""
        h_LRTD, length_R, asked = trial.inputs["h_LRTD"], trial.inputs["length_R"], set()
        for layer, h_XD in _rows_projected(trial.calls):
            asked |= {(layer, *row) for row in np.asarray(h_XD).tolist()}
        rows = [(layer, row, at) for layer, row, at in np.ndindex(h_LRTD.shape[:3]) if at <= length_R[row]]
        new = {(place[0], *h_LRTD[place].tolist()) for place in rows if place[2] == length_R[place[1]]}
        old = {(place[0], *h_LRTD[place].tolist()) for place in rows} - new
        return "projected-twice" if asked == new else "recomputes" if asked & old else None

    def praise(self, v, tried):
        layers, _, _, _ = tried[-1].inputs["h_LRTD"].shape
        whole = layers * int((tried[-1].inputs["length_R"] + 1).sum())
        rows = _count_rows_projected(tried[-1].calls)
        return f"The last step projected {rows} rows; from the start it would have been {whole}."


def _make_project(w_LDX, k):
    def project(layer, h_XD):
        if np.ndim(h_XD) != 2 or np.shape(h_XD)[1] != w_LDX.shape[1]:
            raise ValueError(f"project takes rows, an array X x {w_LDX.shape[1]}, not the shape {np.shape(h_XD)}")
        if layer not in range(len(w_LDX)):
            raise ValueError(f"project takes the number of a layer, 0 to {len(w_LDX) - 1}, not {layer!r}")
        both = np.asarray(h_XD, np.float32) @ w_LDX[layer]
        return both[:, :k].copy(), both[:, k:].copy()

    return project


def _rows_projected(calls):
    """(layer, rows) of each call that `project` takes."""
    return [arguments for _, arguments in calls if len(arguments) == 2 and np.ndim(arguments[1]) == 2]


def _count_rows_projected(calls):
    return sum(len(h_XD) for _, h_XD in _rows_projected(calls))
