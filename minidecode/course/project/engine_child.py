"""The process in which a student's engine runs: that of the exercises (child.py there), which also keeps what it makes.

Numba and minidecode are not there. What stands for them lets a kernel be written, and be launched by the judge.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
EXERCISES = os.path.join(os.path.dirname(HERE), "exercises")
sys.path[:0] = [HERE, EXERCISES]
import child  # noqa: E402

sys.path.remove(EXERCISES)


def engine():
    """The class that answers, made while NumPy and its like can be imported."""
    import elsewhere
    import numpy as np

    sys.path.remove(HERE)
    _stand_in(np, elsewhere)

    class Engine(child.Student):
        """Calls functions of an engine, and keeps models and caches under numbers."""

        def __init__(self, *given):
            super().__init__(*given)
            self._objects = []
            elsewhere.Elsewhere.ask = staticmethod(self._asked)

        def _asked(self, name, *arguments):
            reply = self._ask_and_read_reply(name, *arguments)
            if "error" in reply:
                raise ValueError(reply["error"]["message"])
            return reply["result"]

        def do_names(self) -> dict:
            return {"names": [name for name, value in self._names.items() if callable(value)]}

        def do_use(self, function: str, arguments: list, named: dict, kept: list) -> dict:
            """Calls it. kept: which results (None: the only one) stay here; their numbers are returned instead."""
            given = [self._given(a) for a in arguments]
            before = [list(a) if isinstance(a, list) else None for a in given]
            result = self._names[function](*given, **{k: self._given(v) for k, v in named.items()})
            changed = [k for k, b in enumerate(before) if b is not None and b != given[k]]
            if kept == [None]:
                return {"result": self._keep(result), "changed": changed}
            if kept:
                result = list(result)
                return {"result": [self._keep(r) if k in kept else _plain(r) for k, r in enumerate(result)],
                        "changed": changed}  # fmt: skip
            return {"result": _plain(result), "changed": changed}

        def do_dump(self, number: int, small: int) -> dict:
            """An object as bytes, and its arrays of `small` numbers and more beside them, each memory once."""
            stream, arrays, views = io.BytesIO(), [], []
            places = {}

            class Pickler(pickle.Pickler):
                def persistent_id(self, value):
                    if not isinstance(value, np.ndarray) or value.size < small or value.dtype == object:
                        return None
                    owner = value
                    while isinstance(owner.base, np.ndarray):
                        owner = owner.base
                    if not owner.flags.c_contiguous and not owner.flags.f_contiguous:
                        owner = value = np.ascontiguousarray(value)
                    if id(owner) not in places:
                        places[id(owner)] = len(arrays)
                        arrays.append(owner)
                    first = value.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
                    views.append(value.nbytes)
                    return (places[id(owner)], first, value.shape, value.strides, value.dtype.str)

            Pickler(stream, 5).dump(self._objects[number])
            flat = [np.ascontiguousarray(a.T if a.flags.f_contiguous else a).reshape(-1) for a in arrays]
            return {"stream": np.frombuffer(stream.getvalue(), np.uint8), "arrays": flat, "seen": sum(views)}

        def do_take(self, stream, arrays: list, first: int) -> dict:
            """The number of an object dumped elsewhere. Its arrays are these, or with the judge from `first` on."""

            class Unpickler(pickle.Unpickler):
                def persistent_load(self, name):
                    k, offset, shape, strides, dtype = name
                    if arrays:
                        return np.ndarray(shape, dtype, arrays[k], offset, strides)
                    tree = ["view", first + k, offset, list(shape), list(strides), dtype]
                    return elsewhere.rebuild_elsewhere(tree, shape, dtype)

            return {"number": self._keep(Unpickler(io.BytesIO(stream.tobytes())).load())["kept"]}

        def _keep(self, value) -> dict:
            self._objects.append(value)
            return {"kept": len(self._objects) - 1}

        def _given(self, argument):
            if isinstance(argument, dict) and "kept" in argument:
                return self._objects[argument["kept"]]
            if isinstance(argument, dict) and "function" in argument:
                return self._names[argument["function"]]
            if isinstance(argument, dict) and "ask" in argument:
                return lambda *given: self._asked(argument["ask"], *map(_plain, given))
            return argument

    def _plain(value):
        if isinstance(value, np.ndarray | elsewhere.Elsewhere):
            return np.asarray(value)
        if value is None or isinstance(value, str | bytes | int | float | bool | np.generic | dict):
            return value
        try:
            return [_plain(part) for part in value]
        except TypeError:
            return repr(value)[:80]

    return Engine


def _stand_in(np, elsewhere) -> None:
    """Modules `numba` and `minidecode` as far as an engine needs them where it is judged."""

    class Anything:
        """Whatever a kernel names: it is never run here."""

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Anything()

        def __call__(self, *given, **how):
            return given[0] if given and callable(given[0]) else Anything()

        def __getitem__(self, key):
            raise TypeError("there is no GPU here: launch the kernel by minidecode.emulate")

    class Numba(types.ModuleType):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            if name == "prange":
                return range
            if name in ("vectorize", "guvectorize"):
                return lambda *given, **how: (
                    np.vectorize if not (given and callable(given[0])) else np.vectorize(given[0])
                )
            return getattr(np, name) if isinstance(getattr(np, name, None), type) else Anything()

    class Launch:
        def __init__(self, kernel, shape):
            self._kernel, self._shape = kernel, shape

        def __call__(self, *arguments):
            name = getattr(self._kernel, "__name__", "")
            results = elsewhere.Elsewhere.ask(
                "launch", name, list(self._shape[:2]), [_contiguous(np, a) for a in arguments]
            )
            for array, result in zip((a for a in arguments if isinstance(a, np.ndarray)), results, strict=True):
                array[...] = result
            return types.SimpleNamespace(ok=True, errors=[], findings=[])

    class Emulated:
        def __init__(self, kernel):
            self._kernel = kernel

        def __getitem__(self, shape):
            return Launch(self._kernel, shape)

    numba, ours = Numba("numba"), types.ModuleType("minidecode")
    numba.cuda = Anything()
    ours.emulate = lambda kernel, **how: Emulated(kernel)
    sys.modules.update({"numba": numba, "numba.cuda": numba.cuda, "minidecode": ours})


def _contiguous(np, argument):
    return np.ascontiguousarray(argument) if isinstance(argument, np.ndarray) else argument


if __name__ == "__main__":
    child.main(engine)
