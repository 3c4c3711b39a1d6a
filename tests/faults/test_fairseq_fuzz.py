"""Checkpoints of fairseq: nothing that they say is imported or run, and damaged ones are refused or read right.

`damaged_file` and `outcome` are also what benchmarks/fuzz_torch_file.py --kind fairseq runs 100,000 times.
"""

from __future__ import annotations

import argparse
import collections
import io
import os
import pickle
import random
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from taken_bytes import peak_of
from test_torch_fuzz import LARGE, PIECES, PythonsUnpickler, numbers_of, split
from torch_writer import ODICT, SIZES, STORAGES, TWO, Opcodes, called, emit, named, pickled, stream, tensor, zip_file

from minidecode import CheckpointError
from minidecode.files.fairseq_folder import as_json_value, read_fairseq, training_settings
from minidecode.files.stored import STORED_DTYPES
from minidecode.files.torch_file import named_tensors
from minidecode.files.torch_pickle import GLOBALS, Described

# --- checkpoints in the forms that fairseq writes, opcode by opcode ---


def made(name: str, state: object = None) -> Opcodes:
    """An object of a class, and its attributes, as protocol 2 writes it: NEWOBJ, BUILD."""
    return Opcodes(named(name) + b")\x81" + (b"" if state is None else emit(state) + b"b"))


SETTINGS = {
    "arch": "transformer", "encoder_layers": 1, "dropout": Opcodes(b"G" + struct.pack(">d", 0.5)), "source_lang": "de",
    "lr": [1], "x": None, "encoder_layers_to_keep": made("fairseq.utils.Layers"), "share_all_embeddings": True,
}  # fmt: skip
TENSORS = {
    "encoder.embed_tokens.weight": tensor("0", "Float", 12, 0, (3, 4), (4, 1)),
    "decoder.layers.0.layer_norms.1.weight": TWO,
    "decoder.layers.0.encoder_attn.in_proj_bias": tensor("0", "Float", 12, 0, (12,), (1,)),
    "decoder.embed_out": tensor("1", "Half", 6, 0, (2, 3), (3, 1)),
    "decoder.version": tensor("3", "Double", 3, 1, (1,), (1,)),
}
METERS = made("fairseq.meters.StopwatchMeter", {"sum": 1, "start": None})
SCALAR = called(
    "numpy.core.multiarray.scalar", called("numpy.dtype", "f8", 0, 1), called("_codecs.encode", "x", "latin1")
)
EXTRA = {"metrics": Opcodes(ODICT + emit("loss") + METERS + b"s"), "best": SCALAR, "epoch": 3}
OLD = {"args": made("argparse.Namespace", SETTINGS), "model": TENSORS, "extra_state": EXTRA}
CFG = {"_name": None, "model": made("argparse.Namespace", SETTINGS), "task": {"source_lang": "de"}}
NEW = {"args": None, "cfg": CFG, "model": TENSORS, "last_optimizer_state": {"state": {0: {"exp_avg": TWO}}}}
NESTED = {"args": None, "cfg": {"model": {"_name": "transformer", "encoder": {"layers": 1}, "dropout": None}},
          "model": TENSORS, "extra_state": EXTRA}  # fmt: skip
KEPT = {key: STORAGES[key] for key in ("0", "1", "3")}  # the numbers that these tensors show
PROGRAMS = [split(pickled(value)) for value in (OLD, NEW, NESTED)]
CONTAINERS = {"zip": zip_file, "stream": lambda *args: stream(*args, SIZES)}
MORE = [
    *PIECES, named("argparse.Namespace"), made("argparse.Namespace", {"arch": "x"}), METERS, SCALAR, b")\x81",
    named("os.system"), called("os.system", "echo"), emit({"model": ODICT}), emit(["a"]), b"C\x02ab", b"B\x01\0\0\0x",
    *map(emit, ["args", "cfg", "model", "arch", "encoder.version", "source_lang"]),
]  # fmt: skip


def contents_of(rng: random.Random, program: bytes) -> bytes:
    return CONTAINERS[rng.choice(list(CONTAINERS))](program, KEPT)


def opcodes_changed(rng: random.Random) -> tuple[bytes, bytes]:
    """Opcodes removed, doubled, exchanged or replaced by others, in a container that is right."""
    program = list(rng.choice(PROGRAMS))
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        i, j = rng.randrange(len(program)), rng.randrange(len(program))
        match rng.randrange(5):
            case 0:
                program[i] = rng.choice(MORE)
            case 1:
                program.insert(i, rng.choice(MORE))
            case 2:
                del program[i]
            case 3:
                program[i], program[j] = program[j], program[i]
            case _:
                program[i] = program[j]
        program = program or [b"."]
    damaged = b"".join(program)
    return contents_of(rng, damaged), damaged


def numbers_changed(rng: random.Random) -> tuple[bytes, bytes]:
    """Other sizes, strides, offsets and counts: the opcodes stay right, so that the checks behind them are reached."""
    program = list(rng.choice(PROGRAMS))
    places = [i for i, piece in enumerate(program) if piece[:1] in (b"K", b"M", b"J", b"\x8a")]
    for i in rng.sample(places, rng.choice([1, 1, 2, 4])):
        program[i] = emit(rng.choice(LARGE) if rng.random() < 0.3 else rng.randrange(-2, 14))
    damaged = b"".join(program)
    return contents_of(rng, damaged), damaged


def bytes_changed(rng: random.Random) -> tuple[bytes, None]:
    """Bits flipped, words replaced, pieces moved or taken out, the end cut off."""
    contents = bytearray(contents_of(rng, b"".join(rng.choice(PROGRAMS))))
    at, size = rng.randrange(len(contents)), rng.choice([1, 2, 4, 8, 40])
    match rng.randrange(5):
        case 0:
            contents[at] ^= 1 << rng.randrange(8)
        case 1:
            contents[at : at + size] = (rng.choice(LARGE) % 256**size).to_bytes(size, "little")
        case 2:
            start = rng.randrange(len(contents))
            contents[at : at + size] = contents[start : start + size]
        case 3:
            del contents[at : at + size]
        case _:
            del contents[at:]
    return bytes(contents), None


KINDS = [opcodes_changed, opcodes_changed, numbers_changed, bytes_changed]


def damaged_file(rng: random.Random) -> tuple[str, bytes, bytes | None]:
    """(kind of damage, contents, the pickle if only that is damaged)."""
    kind = rng.choice(KINDS)
    return kind.__name__, *kind(rng)


# --- what must come of it ---


class Unknown:
    """What Python's unpickler gets for a class that is not to be looked for; `describe` says what our reader makes."""

    def __init__(self, name: str):
        self.name, self.made = name, None

    def __call__(self, *arguments: Any) -> Described:
        return Described(self.name)


class PythonsDescriber(PythonsUnpickler):
    """Python's own reader, in its slow and plain version, given descriptions for every name that is not allowed."""

    def find_class(self, module, name):
        return super().find_class(module, name) if f"{module}.{name}" in GLOBALS else Unknown(f"{module}.{name}")

    def load_newobj(self):
        arguments, function = self.stack.pop(), self.stack.pop()
        self.stack.append(function(*arguments))

    def load_build(self):
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, Described):
            target.state = state

    def load_setitems(self):
        items = self.pop_mark()
        if not isinstance(self.stack[-1], Described):
            pairs = zip(items[::2], items[1::2], strict=True)
            self.stack[-1].update({k: v for k, v in pairs if type(k) in (str, int)})

    def load_setitem(self):
        value, key = self.stack.pop(), self.stack.pop()
        if type(key) in (str, int) and not isinstance(self.stack[-1], Described):
            self.stack[-1][key] = value

    def load_appends(self):
        items = self.pop_mark()
        if not isinstance(self.stack[-1], Described):
            self.stack[-1].extend(items)

    def load_append(self):
        item = self.stack.pop()
        if not isinstance(self.stack[-1], Described):
            self.stack[-1].append(item)

    dispatch = PythonsUnpickler.dispatch | {
        pickle.NEWOBJ[0]: load_newobj, pickle.BUILD[0]: load_build, pickle.SETITEMS[0]: load_setitems,
        pickle.SETITEM[0]: load_setitem, pickle.APPENDS[0]: load_appends, pickle.APPEND[0]: load_append,
    }  # fmt: skip


def outcome(path: Path, contents: bytes, damaged_pickle: bytes | None) -> str:
    """ "refused" or "read"; AssertionError if what is read is not right or takes too much, or any other exception."""
    path.unlink(missing_ok=True)  # a new file: arrays of the last example may still be mapped from the old one
    path.write_bytes(contents)
    modules = set(sys.modules)
    most = 250_000 + 100 * len(contents)
    read, peak = peak_of(lambda: read_or_refused(path), most)
    assert peak < most
    imported = {name for name in set(sys.modules) - modules if not name.startswith("encodings.")}  # zipfile's own
    assert not imported
    assert list(path.parent.iterdir()) == [path]
    if read is not None:
        settings, arrays = read
        assert all(isinstance(v, bool | int | float | str) for v in settings.values())
        assert sum(array.size for array in arrays.values()) <= 4 * len(contents)
        if damaged_pickle is not None:
            compare(path, settings, arrays, damaged_pickle)
    return "refused" if read is None else "read"


def read_or_refused(path: Path) -> tuple[dict, dict[str, np.ndarray]] | None:
    """(settings, arrays); None if the file is refused, in one line."""
    try:
        settings, found = read_fairseq(path)
        found = {name: s for name, s in found.items() if s.dtype in STORED_DTYPES and 0 not in s.shape}
        return settings, {name: s.read(np.dtype("float32")) for name, s in found.items()}
    except CheckpointError as error:
        assert path.name in str(error) and str(error).isprintable() and len(str(error)) < len(str(path)) + 400
        return None


def compare(path: Path, settings: dict, arrays: dict[str, np.ndarray], damaged_pickle: bytes) -> None:
    """What was read is what Python's unpickler finds."""
    value = PythonsDescriber(io.BytesIO(damaged_pickle), encoding="utf-8").load()
    for name, setting in training_settings(path, value).items():
        if name in settings and not name.endswith("_final_norm"):
            assert settings[name] == as_json_value(setting), name
    for name, shown in named_tensors(value["model"]).items():
        if name in arrays and shown.dtype.name in STORED_DTYPES and shown.count:
            np.testing.assert_array_equal(arrays[name], numbers_of(shown))


# --- the tests ---


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "checkpoint_best.pt"


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("form", [OLD, NEW, NESTED], ids=["old", "new", "nested"])
def test_undamaged_checkpoints_are_read(path, container, form):
    program = pickled(form)
    assert outcome(path, CONTAINERS[container](program, KEPT), program) == "read"
    settings, found = read_fairseq(path)
    assert settings["arch"] == "transformer" and settings["encoder_layers"] == 1
    assert "dropout" not in settings and "lr" not in settings, "they change nothing that is computed"
    assert set(found) == {
        "encoder.embed_tokens.weight", "decoder.layers.0.encoder_attn_layer_norm.weight", "decoder.version",
        "decoder.output_projection.weight", *(f"decoder.layers.0.encoder_attn.{p}_proj.bias" for p in "qkv"),
    }  # fmt: skip
    k = found["decoder.layers.0.encoder_attn.k_proj.bias"].read(np.dtype("float32"))
    assert np.array_equal(k, np.frombuffer(STORAGES["0"], "<f4")[4:8])
    assert settings["no_decoder_final_norm"] is True, "its version is 2"
    if form is not NESTED:
        assert settings["encoder_layers_to_keep"] == "an object of fairseq.utils.Layers", "a description, so refused"


@settings(max_examples=500, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_a_damaged_checkpoint_is_refused_or_read_right(path, rng):
    _, contents, damaged_pickle = damaged_file(rng)
    outcome(path, contents, damaged_pickle)


class Evil:
    """Pickled, it asks for a function to be called when it is read."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("where", ["args", "model", "extra_state"])
def test_a_command_in_a_checkpoint_is_a_description(path, where):
    """It is not run wherever it stands; where settings or tensors should be, the file is refused."""
    trace = path.parent / "trace"
    evil = Evil(os.system, f"echo run > {trace}")
    command = pickle.dumps(evil, 2)[2:-1]
    value = {"args": made("argparse.Namespace", {"arch": "transformer"}), "model": TENSORS, "extra_state": EXTRA}
    contents = zip_file(pickled(value | {where: Opcodes(command)}), KEPT)
    assert outcome(path, contents, None) == ("read" if where == "extra_state" else "refused")
    assert not trace.exists()
    pickle.loads(b"\x80\x02" + command + b".")  # the same bytes, read the usual way, do what they say
    assert trace.exists()
    trace.unlink()


def test_a_class_that_is_here_is_not_made_either(path):
    """argparse and collections are imported already, and still nothing of them is called."""
    value = {"args": made("argparse.Namespace", {"arch": "a"}), "model": TENSORS, "x": made("collections.Counter")}
    path.write_bytes(zip_file(pickled(value), KEPT))
    from minidecode.files.torch_file import read_torch_value

    read, _ = read_torch_value(path, lambda value: named_tensors(value["model"]), describes=True)
    assert type(read["args"]) is Described and type(read["x"]) is Described
    assert not isinstance(read["args"], argparse.Namespace) and not isinstance(read["x"], collections.Counter)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "value", [{1, 2}, frozenset("ab"), {"a": {(1, 2), 3}}, 10**60, -(2**127), 1 << 2000, bytearray(b"abc"), b"x" * 300,
              collections.defaultdict(list, {"a": [1]}), 1j, range(3), [collections.deque([1])]],
)  # fmt: skip
def test_what_training_may_keep_beside_its_tensors_is_passed_over(path, value, protocol):
    """Sets, numbers of many bytes and bytearrays, in every protocol of pickle that torch.save can be told to use."""
    body = Opcodes(pickle.dumps(value, protocol)[2:-1])
    path.unlink(missing_ok=True)
    path.write_bytes(zip_file(pickled(OLD | {"extra_state": {"kept": body, "more": 1}}), KEPT))
    settings, found = read_fairseq(path)
    assert settings["arch"] == "transformer" and "encoder.embed_tokens.weight" in found


NOT_CHECKPOINTS = {
    "tensors alone": (TENSORS, "is no checkpoint of fairseq, which holds its tensors under 'model'"),
    "a description for a model": ({"model": made("torch.nn.Linear")}, "is no checkpoint of fairseq"),
    "no settings": ({"model": TENSORS, "args": None}, "holds neither args nor cfg.model"),
    "a text for settings": ({"model": TENSORS, "args": "transformer"}, "holds neither args nor cfg.model"),
    "attributes twice": (
        {"model": TENSORS, "args": Opcodes(made("argparse.Namespace", {"a": 1}) + emit({"a": 2}) + b"b")},
        "gives an object its attributes twice",
    ),
    "a call of a text": ({"model": TENSORS, "x": Opcodes(emit("os.system") + b")R")}, "its pickle calls a str"),
    "attributes of a list": ({"model": TENSORS, "x": Opcodes(b"]}b")}, "needs a dict and has list"),
}


@pytest.mark.parametrize("what", NOT_CHECKPOINTS)
def test_what_is_no_checkpoint(path, what):
    value, message = NOT_CHECKPOINTS[what]
    path.unlink(missing_ok=True)
    path.write_bytes(zip_file(pickled(value), KEPT))
    with pytest.raises(CheckpointError, match=message) as caught:
        read_fairseq(path)
    assert str(caught.value).isprintable()
