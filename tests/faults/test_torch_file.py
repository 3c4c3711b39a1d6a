"""pytorch_model.bin: right files are read, written here opcode by opcode or by torch; the others are refused."""

from __future__ import annotations

import io
import os
import pickle
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from taken_bytes import peak_of
from torch_writer import (
    CASES,
    EVERYTHING,
    FLOATS,
    ODICT,
    RIGHT,
    SIZES,
    STORAGES,
    TWO,
    Opcodes,
    aligned_zip,
    called,
    emit,
    named,
    pickled,
    storage,
    stream,
    tensor,
    written,
    zip_file,
)
from toy_folder import toy_tensors, write_folder, write_json

import minidecode as md
from minidecode.files.checkpoint import find_tensors
from minidecode.files.stored import STORED_DTYPES
from minidecode.files.torch_file import LONGEST_PICKLE, MAGIC, read_torch_file


def read(path: Path, contents: bytes) -> dict[str, np.ndarray]:
    path.unlink(missing_ok=True)  # a new file: arrays of the last one may still be mapped
    path.write_bytes(contents)
    found = {name: s for name, s in read_torch_file(path).items() if s.dtype in STORED_DTYPES}
    return {name: s.read(np.dtype("float32")) for name, s in found.items() if 0 not in s.shape}


def refusal(path: Path, contents: bytes) -> str:
    """The message of the CheckpointError that the file must raise: one line."""
    with pytest.raises(md.CheckpointError) as caught:
        read(path, contents)
    message = str(caught.value)
    assert message.isprintable() and path.name in message and len(message) < len(str(path)) + 400
    return message


def refusal_within(most: int, path: Path, contents: bytes) -> str:
    """`refusal`, which takes less than `most` bytes."""
    message, peak = peak_of(lambda: refusal(path, contents), most)
    assert peak < most
    return message


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pytorch_model.bin"


# --- right files ---


@pytest.mark.parametrize("container", RIGHT)
def test_a_right_file_is_read(path, container):
    arrays = read(path, RIGHT[container])
    for name, (expected, _) in CASES.items():
        if expected is None:
            assert name not in arrays
        else:
            assert arrays[name].shape == expected.shape and arrays[name].flags.c_contiguous, name
            np.testing.assert_array_equal(arrays[name], np.float32(expected), err_msg=name)


def test_other_kinds_and_empty_tensors_are_recognised(path):
    path.write_bytes(RIGHT["zip"])
    found = read_torch_file(path)
    assert (found["integers"].dtype, found["integers"].shape) == ("I64", (4,))
    assert found["empty"].shape == (0, 3)
    with pytest.raises(md.CheckpointError, match="holds nothing"):
        found["empty"].read(np.dtype("float32"))


WAYS = {
    "state_dict inside": {"state_dict": {"a": TWO}, "epoch": 3},
    "beside other values": {"a": TWO, "epoch": 3, "loss": None, "shape": called("torch.Size", (2, 3))},
    "OrderedDict with _metadata": Opcodes(ODICT + emit("a") + TWO + b"s" + emit({"_metadata": ODICT}) + b"b"),
    "remembered": Opcodes(b"}" + emit("a") + TWO + b"q\x07s" + emit("b") + b"h\x07s"),
    "parameter with state": {"a": called("torch._utils._rebuild_parameter_with_state", TWO, True, ODICT, {"x": 1})},
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_hold_tensors(path, way):
    arrays = read(path, zip_file(pickled(WAYS[way]), {"0": STORAGES["0"]}))
    assert all(np.array_equal(array, FLOATS[:2]) for array in arrays.values())
    assert list(arrays) == (["a", "b"] if way == "remembered" else ["a"])


def test_any_prefix_and_no_byte_order(path):
    for prefix in ("model/", "a/b c/", "données/"):
        contents = zip_file(EVERYTHING, STORAGES, prefix=prefix)
        assert np.array_equal(read(path, contents)["whole"], CASES["whole"][0])
    old = RIGHT["zip"].replace(b"archive/byteorder", b"archive/bytechaos")  # files from before torch 2.1
    assert np.array_equal(read(path, old)["whole"], CASES["whole"][0])


# --- folders ---


@pytest.fixture
def folder(tmp_path):
    """A toy GPT-2 whose weights are still safetensors, and the same weights to write in another way."""
    return write_folder(tmp_path / "toy-gpt2")


def test_a_folder_with_a_torch_file_is_loaded(folder):
    expected = md.load(folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(written(expected.tensors))
    found = md.load(folder)
    assert all(np.array_equal(found.tensors[name], array) for name, array in expected.tensors.items())


def write_shards(folder: Path) -> dict:
    tensors = md.load(folder).tensors
    names, weight_map = list(tensors), {}
    for i in range(2):
        file = f"pytorch_model-{i + 1:05}-of-00002.bin"
        (folder / file).write_bytes(written({name: tensors[name] for name in names[i::2]}))
        weight_map |= dict.fromkeys(names[i::2], file)
    (folder / "model.safetensors").unlink()
    write_json(folder / "pytorch_model.bin.index.json", {"metadata": {}, "weight_map": weight_map})
    return weight_map


def test_a_folder_with_shards_is_loaded(folder):
    expected = md.load(folder).tensors
    write_shards(folder)
    found = md.load(folder).tensors
    assert all(np.array_equal(found[name], array) for name, array in expected.items())


@pytest.mark.parametrize(
    "file", ["../pytorch_model.bin", "model-1.safetensors", "/etc/passwd", "no-such.bin", "a\0.bin", "\ud800.bin"]
)
def test_an_index_that_points_elsewhere(folder, file):
    weight_map = write_shards(folder)
    weight_map["wte.weight"] = file
    write_json(folder / "pytorch_model.bin.index.json", {"weight_map": weight_map})
    with pytest.raises(md.CheckpointError, match=re.escape(repr(file)[1:-1].rpartition("/")[2])):
        md.load(folder)


def test_an_index_that_names_the_wrong_shard(folder):
    """The shards count, as in transformers."""
    weight_map, expected = write_shards(folder), md.load(folder).tensors["wte.weight"].copy()
    weight_map["wte.weight"] = next(f for f in weight_map.values() if f != weight_map["wte.weight"])
    write_json(folder / "pytorch_model.bin.index.json", {"weight_map": weight_map})
    assert np.array_equal(md.load(folder).tensors["wte.weight"], expected)


def test_safetensors_go_first(folder):
    (folder / "pytorch_model.bin").write_bytes(b"never looked at")
    md.load(folder)
    assert {stored.path.name for stored in find_tensors(folder).values()} == {"model.safetensors"}


def test_a_needed_tensor_of_integers_is_an_error(folder):
    tensors = md.load(folder).tensors
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(written(tensors, kind="Int"))
    with pytest.raises(md.CheckpointError, match="is stored as I32; F64, F32, F16, BF16 can be read"):
        md.load(folder)


# --- files that would run something ---


class Evil:
    """Pickled, it asks for a function to be called when it is read."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def contained(container: str, pickle_bytes: bytes) -> bytes:
    match container:
        case "zip":
            return zip_file(pickle_bytes, {})
        case "stream":
            return stream(pickle_bytes, {}, {})
    return pickle_bytes  # a bare pickle, as pickle.dump writes it


@pytest.mark.parametrize("container", ["zip", "stream", "bare"])
@pytest.mark.parametrize("protocol", range(1, pickle.HIGHEST_PROTOCOL + 1))  # torch cannot write protocol 0
def test_a_command_is_refused_by_name_and_leaves_no_trace(path, container, protocol):
    trace = path.parent / "trace"
    command = pickle.dumps({"wte.weight": Evil(os.system, f"echo run > {trace}")}, protocol)
    message = refusal(path, contained(container, command))
    assert f"asks for {os.system.__module__}.system, which no tensor needs: refused, nothing was run" in message
    assert list(path.parent.iterdir()) == [path]
    pickle.loads(command)  # the same bytes, read the usual way, do what they say
    assert trace.exists()


def test_the_shortest_command_is_refused_by_name(path):
    command = b"cos\nsystem\n(S'echo run > trace'\ntR."
    for container in ("zip", "stream", "bare"):
        assert "asks for os.system, which no tensor needs" in refusal(path, contained(container, command))


HOSTILE = [
    "os.system", "posix.system", "nt.system", "subprocess.Popen", "builtins.eval", "builtins.exec",
    "builtins.__import__", "builtins.getattr", "__builtin__.apply", "importlib.import_module", "runpy._run_code",
    "torch.load", "torch.hub.load", "torch.jit._script.unpackage_script_module", "torch.storage._load_from_bytes",
    "torch._utils._rebuild_tensor_v2.__globals__", "torch._utils.os.system", "collections.OrderedDict.__init__",
    "numpy.load", "numpy.core.multiarray._reconstruct", "minidecode.files.torch_file.GLOBALS", "transformers.GPT2Model",
    "torch.FloatStorage.from_file", "torch.nn.modules.linear.Linear", "_codecs.encode", "argparse.Namespace",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_any_other_name_is_refused(path, name):
    by_lines = pickled({"a": TWO, "b": called(name, "x")})
    by_stack = b"\x80\x04" + emit(name.rpartition(".")[0]) + emit(name.rpartition(".")[2]) + b"\x93)R."
    for contents in (by_lines, by_stack):
        message = refusal(path, zip_file(contents, {"0": STORAGES["0"]}))
        assert f"asks for {name}, which no tensor needs" in message


def test_a_name_made_to_spoil_the_screen(path):
    message = refusal(path, zip_file(pickled({"a": called("os.\x1b[2J" + "x" * 10_000)}), {}))
    assert "asks for os.\\x1b[2Jxxx" in message


UNKNOWN_OPCODES = {
    "INST": b"(ios\nsystem\n.", "OBJ": b"(cos\nsystem\no.", "EXT1": b"\x82\x01.", "PERSID": b"Pos.system\n.",
    "NEWOBJ": named("torch.Size") + b")\x81.", "DUP": b"N2.", "POP": b"N0.", "PUT": b"Np0\n.", "INT": b"I1\n.",
    "BYTEARRAY8": b"\x96" + b"\xff" * 8, "EMPTY_SET": b"\x8f.", "NEXT_BUFFER": b"\x97.",
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN_OPCODES)
def test_opcodes_that_torch_does_not_write_are_refused(path, name):
    message = refusal(path, zip_file(UNKNOWN_OPCODES[name], {}))
    assert "opcode" in message or "os.system" in message


# --- pickles that lie ---

BROKEN_PICKLES = {
    "empty": b"",
    "no end": b"}",
    "nothing at the end": b".",
    "a number": pickled(7),
    "a list of tensors": pickled([TWO]),
    "no tensors": pickled({"a": 1}),
    "a wrapper of another name": pickled({"model": {"a": TWO}}),
    "a number for a name": pickled({7: TWO}),
    "a name on two lines": pickled({"a\nb": TWO}),
    "a name not UTF-8": b"}X\x01\0\0\0\xff" + TWO + b"s.",
    "a name of surrogates": b"}X\x03\0\0\0\xed\xa0\x80" + TWO + b"s.",
    "a name of many with one hash": b"}\x8a\x09" + (7 * (2**61 - 1) + 7).to_bytes(9, "little") + b"Ns.",
    "a negated view": pickled(
        {
            "a": called(
                "torch._utils._rebuild_tensor_v2", storage("0", "Float", 6), 0, (2,), (1,), False, ODICT, {"neg": True}
            )
        }
    ),
    "a tuple for a name": b"})" + TWO + b"s.",
    "a name twice": b"}" + (emit("a") + TWO + b"s") * 2 + b".",
    "a key without a value": b"}(" + emit("a") + b"u.",
    "a text of 4 GB": b"X\xff\xff\xff\xff" + b"x" * 50,
    "a short text cut": b"\x8c\xffx",
    "a frame of 2**64": b"\x95" + b"\xff" * 8,
    "a number of 255 bytes": b"\x8a\xff" + b"\x7f" * 255 + b".",
    "pops too much": b"N\x87.",
    "closes too much": b"t.",
    "pops beyond its mark": b"N(\x85.",
    "recalls nothing": b"h\x05.",
    "remembers nothing": b"q\x05.",
    "adds to a tuple": b")Na.",
    "adds to a type": named("torch.FloatStorage") + b"Na.",
    "sets in a list": b"]NNs.",
    "sets in a function": named("collections.OrderedDict") + emit("x") + b"Ns.",
    "state of a function": named("collections.OrderedDict") + emit({"__code__": None}) + b"b.",
    "state of a tensor": TWO + emit({"shape": None}) + b"b.",
    "calls a text": emit("os.system") + b")R.",
    "calls a type": named("torch.FloatStorage") + b")R.",
    "calls with a list": named("collections.OrderedDict") + b"]R.",
    "OrderedDict of something": pickled(called("collections.OrderedDict", [["a", 1]])),
    "Size of nothing": pickled(called("torch.Size")),
    "tensor of nothing": pickled({"a": called("torch._utils._rebuild_tensor_v2")}),
    "tensor of a text": pickled({"a": called("torch._utils._rebuild_tensor_v2", "0", 0, (2,), (1,), False, ODICT)}),
    "parameter of a text": pickled({"a": called("torch._utils._rebuild_parameter", "0", True, ODICT)}),
    "points at a module": pickled({"a": Opcodes(emit(("module", named("torch.FloatStorage"), "f", "s")) + b"Q")}),
    "points at a number": pickled({"a": Opcodes(emit(7) + b"Q")}),
    "a view of a storage": pickled(
        {"a": Opcodes(emit(("storage", named("torch.FloatStorage"), "0", "cpu", 12, ("1", 0, 4))) + b"Q")}
    ),
    "a storage in two ways": pickled({"a": TWO, "b": tensor("0", "Double", 6, 0, (2,), (1,))}),
    "a storage without numbers": pickled({"a": tensor("9", "Float", 12, 0, (2,), (1,))}),
}


@pytest.mark.parametrize("container", ["zip", "stream"])
@pytest.mark.parametrize("fault", BROKEN_PICKLES)
def test_a_broken_pickle_is_refused(path, container, fault):
    storages = {"0": STORAGES["0"]}
    contents = BROKEN_PICKLES[fault]
    contents = zip_file(contents, storages) if container == "zip" else stream(contents, storages, SIZES)
    refusal_within(200_000, path, contents)


BAD_SHAPES = [  # kind, numbers of the storage, offset, shape, strides
    ("Float", 12, 0, (13,), (1,)), ("Float", 12, 11, (2,), (1,)), ("Float", 12, 12, (), ()),
    ("Float", 12, 0, (3, 4), (4, 2)), ("Float", 12, 0, (2,), (12,)), ("Float", 12, 0, (2,), (2**63 - 1,)),
    ("Float", 12, -1, (2,), (1,)), ("Float", 12, 3, (2,), (-1,)), ("Float", 12, 0, (-2,), (1,)),
    ("Float", 12, 0, (-2, -3), (3, 1)), ("Float", 12, 2**63 - 1, (2,), (1,)), ("Float", 12, 2**64, (2,), (1,)),
    ("Float", 12, 0, (2**62, 2**62), (0, 0)), ("Float", 12, 0, (10**12,), (0,)), ("Float", 12, 0, (2**64,), (0,)),
    ("Float", 12, 0, (2, 3), (1,)), ("Float", 12, 0, (2,), (1, 1)), ("Float", 12, 0, [2], [1]),
    ("Float", 12, 0, (1,) * 65, (1,) * 65), ("Float", 12, 0, (None,), (1,)), ("Float", 12, 0, ("2",), (1,)),
    ("Float", 12, None, (2,), (1,)), ("Float", 12, 0, (True,), (1,)), ("Float", 12, 0, ((2,),), (1,)),
    ("Float", 11, 0, (2,), (1,)), ("Float", 13, 0, (2,), (1,)), ("Float", 2**62, 0, (2**62,), (1,)),
    ("Float", 2**200, 0, (2,), (1,)), ("Float", -12, 0, (2,), (1,)), ("Float", None, 0, (2,), (1,)),
    ("Double", 12, 0, (12,), (1,)), ("Half", 12, 0, (12,), (1,)), ("Long", 12, 0, (12,), (1,)),
]  # fmt: skip


@pytest.mark.parametrize("container", ["zip", "stream"])
@pytest.mark.parametrize("bad", BAD_SHAPES, ids=str)
def test_a_tensor_that_its_storage_cannot_hold_is_refused(path, container, bad):
    contents, storages = pickled({"the tensor": tensor("0", *bad)}), {"0": STORAGES["0"]}
    contents = zip_file(contents, storages) if container == "zip" else stream(contents, storages, SIZES)
    refusal_within(200_000, path, contents)


def test_the_numbers_of_a_storage_too_small_are_told(path):
    contents = zip_file(pickled({"wte.weight": tensor("0", "Float", 12, 1, (3, 4), (4, 1))}), {"0": STORAGES["0"]})
    assert "wte.weight shows numbers 1 to 12 of 4 bytes, and its storage has 48 bytes" in refusal(path, contents)


def test_few_bytes_shown_again_and_again_are_refused(path):
    many = {f"t{i}": tensor("0", "Half", 6000, 0, (6000,), (1,)) for i in range(100)}
    assert "numbers per byte" in refusal(path, zip_file(pickled(many), {"0": bytes(12000)}))


BOMBS = {
    "dicts": b"}" * LONGEST_PICKLE,
    "marks": b"(" * LONGEST_PICKLE,
    "tuples in tuples": b")" + b"\x85" * LONGEST_PICKLE,
    "a tuple of itself twice, 2**1000 parts": b")" + b"q\x00h\x00\x86" * 1000 + b".",
    "that tuple as a name": b"})" + b"q\x00h\x00\x86" * 1000 + b"Ns.",
    "that tuple as a shape": b"}"
    + emit("a")
    + named("torch._utils._rebuild_tensor_v2")
    + b"("
    + storage("0", "Float", 12)
    + b"K\0)"
    + b"q\x00h\x00\x86" * 1000
    + b")tRs.",
    "a list of itself": b"]q\0h\0a.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_does_not_go_off(path, name):
    contents = BOMBS[name][:300_000]  # its full length takes seconds
    refusal_within(200_000 + 100 * len(contents), path, zip_file(contents, {"0": STORAGES["0"]}))


def test_a_pickle_longer_than_any_model_needs(path):
    assert "no model needs more" in refusal(path, zip_file(b"}" * (LONGEST_PICKLE + 1), {}))
    assert "longer than" in refusal(path, b"N\x85" * LONGEST_PICKLE)


# --- containers that lie ---

RIGHT_ZIP = zip_file(pickled({"a": TWO}), {"0": STORAGES["0"]})
RIGHT_STREAM = stream(pickled({"a": TWO}), {"0": STORAGES["0"]}, SIZES)
LISTED = RIGHT_ZIP.rindex(b"PK\1\2")  # the last entry of the directory, which is the storage's


def listed(offset: int, layout: str, value: int) -> bytes:
    """The zip file with another number in the directory's entry of the storage."""
    contents = bytearray(RIGHT_ZIP)
    struct.pack_into(layout, contents, LISTED + offset, value)
    return bytes(contents)


def twice() -> bytes:
    file = io.BytesIO(RIGHT_ZIP)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(file, "a") as archive:
        archive.writestr("archive/data/0", bytes(48))
    return file.getvalue()


BROKEN_CONTAINERS = {
    "empty": (b"", "cut short"),
    "a text": (b"version https://git-lfs.github.com/spec/v1\n", "opcode"),
    "a page": (b"<!DOCTYPE html>", "opcode"),
    "a zip of nothing": (zip_file(b"", {}, prefix=""), "data.pkl"),
    "a safetensors file": (b"\x10\0\0\0\0\0\0\0{}", "torch file"),
    "cut": (RIGHT_ZIP[:-1], "list of entries"),
    "cut in half": (RIGHT_ZIP[: len(RIGHT_ZIP) // 2], "list of entries"),
    "only its mark": (b"PK\3\4", "list of entries"),
    "two pickles": (zip_file(pickled({}), {}, **{"other/data.pkl": pickled({})}), "2 entries"),
    "compressed": (zip_file(pickled({"a": TWO}), {"0": STORAGES["0"]}, compression=zipfile.ZIP_DEFLATED), "compressed"),
    "big-endian": (zip_file(pickled({"a": TWO}), {"0": STORAGES["0"]}, byteorder=b"big"), "big-endian"),
    "of no endian": (zip_file(pickled({"a": TWO}), {"0": STORAGES["0"]}, byteorder=b""), "big-endian"),
    "storage missing": (zip_file(pickled({"a": TWO}), {"1": STORAGES["0"]}), "no entry for the storage '0'"),
    "storage short": (zip_file(pickled({"a": TWO}), {"0": STORAGES["0"][1:]}), "47 bytes and should have 12 numbers"),
    "storage long": (zip_file(pickled({"a": TWO}), {"0": STORAGES["0"] + b"x"}), "49 bytes"),
    "encrypted": (listed(8, "<H", 1), "encrypted"),
    "compressed by the directory": (listed(10, "<H", 8), "compressed"),
    "swells": (listed(24, "<I", 4_000_000_000), "compressed"),
    "shrinks": (listed(20, "<I", 4), "compressed"),
    "elsewhere": (listed(42, "<I", 1), "not where"),
    "beyond the file": (listed(42, "<I", 4_000_000_000), "begins at byte"),
    "another's place": (listed(42, "<I", 0), "not where"),
}


@pytest.mark.parametrize("fault", BROKEN_CONTAINERS)
def test_a_broken_container_is_refused(path, fault):
    contents, expected = BROKEN_CONTAINERS[fault]
    assert expected in refusal_within(200_000 + 20 * len(contents), path, contents)


PAIR = pickled({"a": TWO, "b": tensor("1", "Float", 30, 0, (30,), (1,))})
NUMBERS = {"0": STORAGES["0"], "1": np.arange(30, dtype="<f4").tobytes()}
ALIGNED, HEADER = aligned_zip(PAIR, NUMBERS)
LOCAL_HEADERS = {  # of the storage "1", whose first number is 0: offset, layout, value, what is said
    "4 bytes on": (28, "<H", int.from_bytes(ALIGNED[HEADER + 28 : HEADER + 30], "little") + 4, "does not end where"),
    "4 bytes back": (28, "<H", int.from_bytes(ALIGNED[HEADER + 28 : HEADER + 30], "little") - 4, "says something else"),
    "64 bytes on": (28, "<H", int.from_bytes(ALIGNED[HEADER + 28 : HEADER + 30], "little") + 64, "says something else"),
    "the padding's own length": (46, "<H", 3, "says something else"), "a size": (22, "<I", 119, "says something else"),
    "a compressed size": (18, "<I", 1, "says something else"), "a checksum": (14, "<I", 7, "says something else"),
    "flags": (6, "<H", 0x800, "says something else"), "a method": (8, "<H", 8, "says something else"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LOCAL_HEADERS)
def test_a_header_that_says_something_else_than_the_directory_is_refused(path, lie):
    """Else its numbers would be taken from other bytes, which no checksum of ours sees."""
    offset, layout, value, says = LOCAL_HEADERS[lie]
    contents = bytearray(ALIGNED)
    struct.pack_into(layout, contents, HEADER + offset, value)
    assert says in refusal(path, bytes(contents))


def test_padding_that_is_longer_by_its_own_word_is_refused(path):
    """Both lengths agree: then the checksum behind the numbers is not where it should be."""
    contents = bytearray(ALIGNED)
    name = int.from_bytes(contents[HEADER + 26 : HEADER + 28], "little")
    for at in (HEADER + 28, HEADER + 30 + name + 2):
        struct.pack_into("<H", contents, at, int.from_bytes(contents[at : at + 2], "little") + 4)
    assert "does not end where the next entry begins" in refusal(path, bytes(contents))


def test_an_entry_twice(path):
    assert "same name" in refusal(path, twice())


def test_the_right_containers_are_read(path):
    """The lies above start from these: they must not be refused themselves."""
    path.write_bytes(ALIGNED)
    assert read_torch_file(path)["b"].read(np.dtype("float32")).tolist() == list(range(30))
    assert np.array_equal(read(path, RIGHT_ZIP)["a"], FLOATS[:2])
    assert np.array_equal(read(path, RIGHT_STREAM)["a"], FLOATS[:2])


def broken_stream(**changes) -> bytes:
    return stream(pickled({"a": TWO}), {"0": STORAGES["0"]}, SIZES, **changes)


BROKEN_STREAMS = {
    "another magic number": (broken_stream(magic=MAGIC + 1), "magic number"),
    "another version": (broken_stream(version=1002), "version"),
    "big-endian": (broken_stream(system={"little_endian": False}), "big-endian"),
    "no machine": (broken_stream(system=None), "big-endian"),
    "no keys": (broken_stream(keys=[]), "list of storages"),
    "keys not a list": (broken_stream(keys={"0": "0"}), "list of storages"),
    "other keys": (broken_stream(keys=["1"]), "list of storages"),
    "keys twice": (broken_stream(keys=["0", "0"]), "list of storages"),
    "keys and more": (broken_stream(keys=["0", 7]), "list of storages"),
    "data cut": (RIGHT_STREAM[:-1], "ends at byte"),
    "count cut": (RIGHT_STREAM[:-50], "ends at byte"),
    "no count": (RIGHT_STREAM[:-56], "ends at byte"),
    "data too long": (RIGHT_STREAM + b"x", "1 bytes follow"),
    "another count": (RIGHT_STREAM[:-56] + struct.pack("<q", 11) + STORAGES["0"], "says 11"),
    "count of -1": (RIGHT_STREAM[:-56] + b"\xff" * 8 + STORAGES["0"], "12 numbers"),
}


@pytest.mark.parametrize("fault", BROKEN_STREAMS)
def test_a_broken_stream_is_refused(path, fault):
    contents, expected = BROKEN_STREAMS[fault]
    assert expected in refusal(path, contents)


@pytest.mark.parametrize("container", RIGHT)
def test_a_file_cut_anywhere_is_refused(path, container):
    for end in range(0, len(RIGHT[container]), 7):
        refusal(path, RIGHT[container][:end])


def test_a_folder_in_the_place_of_the_file(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").mkdir()
    with pytest.raises(md.CheckpointError, match=r"pytorch_model\.bin cannot be read"):
        md.load(folder)


# --- files by torch itself ---


def torch_tensors(torch) -> dict:
    """Whatever torch can show a storage as."""
    base = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    found = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        whole = base.to(dtype, copy=True)
        views = {
            "whole": whole, "transposed": whole.t(), "rows": whole[1:3], "columns": whole[:, 2:5],
            "steps": whole[::2, ::3], "row": whole[2], "one": whole[3, 5], "scalar": torch.tensor(1.5, dtype=dtype),
            "expanded": whole[:, :1].expand(4, 6), "from one": torch.ones(1, dtype=dtype).expand(3, 2),
            "permuted": whole.reshape(2, 2, 6).permute(2, 0, 1), "empty": torch.empty(0, 3, dtype=dtype),
            "diagonal": whole.diagonal(), "unfolded": whole.flatten().unfold(0, 4, 2), "new axis": whole[:, None],
            "channels last": whole.reshape(1, 2, 2, 6).contiguous(memory_format=torch.channels_last),
            "parameter": torch.nn.Parameter(whole[1:]), "frozen": torch.nn.Parameter(whole.t(), requires_grad=False),
        }  # fmt: skip
        found |= {f"{dtype} {name}": view for name, view in views.items()}
    found["integers"], found["mask"] = torch.arange(5), torch.tensor([[True, False]])
    found["float8"], found["uint16"] = base.to(torch.float8_e4m3fn), torch.arange(3).to(torch.uint16)
    found["with a mark"] = torch.nn.Parameter(base.clone())
    found["with a mark"].mark = 3  # makes torch write _rebuild_parameter_with_state
    return found


BITS = {"F64": "<u8", "F32": "<u4", "F16": "<u2", "BF16": "<u2"}
AS = {"F64": "float64"}


def assert_same_bits(torch, path: Path, tensors: dict) -> None:
    stored = read_torch_file(path)
    assert set(stored) == set(tensors)
    compared = 0
    for name, expected in tensors.items():
        assert stored[name].shape == tuple(expected.shape), name
        if expected.numel() and stored[name].dtype in BITS:
            wide = AS.get(stored[name].dtype, "float32")  # holds every number of its dtype
            bits = f"u{np.dtype(wide).itemsize}"
            found = stored[name].read(np.dtype(wide))
            np.testing.assert_array_equal(
                found.view(bits), expected.detach().to(getattr(torch, wide)).numpy().view(bits), err_msg=name
            )
            compared += 1
    assert compared


@pytest.mark.oracle
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "stream"])
def test_what_torch_saves_is_read_bit_for_bit(path, is_zip, protocol):
    torch = pytest.importorskip("torch")
    tensors = torch_tensors(torch)
    torch.save(tensors, path, _use_new_zipfile_serialization=is_zip, pickle_protocol=protocol)
    assert_same_bits(torch, path, tensors)


@pytest.mark.oracle
@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "stream"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_a_state_dict_is_read_bit_for_bit(path, is_zip, dtype):
    """With _metadata, tied weights (one storage), running statistics and a counter of integers."""
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 7, bias=False))
    model.append(model[2]).to(getattr(torch, dtype))
    torch.save(model.state_dict(), path, _use_new_zipfile_serialization=is_zip)
    assert_same_bits(torch, path, model.state_dict())
    torch.save({"state_dict": model.state_dict(), "epoch": 1}, path, _use_new_zipfile_serialization=is_zip)
    assert_same_bits(torch, path, model.state_dict())


@pytest.mark.oracle
def test_float32_is_mapped_not_copied(path):
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.arange(10.0)}, path)
    array = read_torch_file(path)["a"].read(np.dtype("float32"))
    assert not array.flags.owndata and not array.flags.writeable and array.flags.aligned


@pytest.mark.oracle
def test_a_pickled_module_is_refused_by_name(path):
    torch = pytest.importorskip("torch")
    for is_zip in (True, False):
        torch.save(torch.nn.Linear(2, 2), path, _use_new_zipfile_serialization=is_zip)
        with pytest.raises(md.CheckpointError, match=r"asks for torch\.nn\.modules\.linear\.Linear"):
            read_torch_file(path)


@pytest.mark.oracle
@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "stream"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_folder_by_torch_is_loaded(folder, is_zip, shards):
    """transformers 5 writes safetensors alone: the files and the index are written as its version 4 did."""
    torch = pytest.importorskip("torch")
    expected = toy_tensors({"model_type": "gpt2", "vocab_size": 260, "n_positions": 16, "n_embd": 8, "n_layer": 2,
                            "n_head": 2})  # fmt: skip
    names, weight_map = list(expected), {}
    for i in range(shards):
        file = "pytorch_model.bin" if shards == 1 else f"pytorch_model-{i + 1:05}-of-{shards:05}.bin"
        mine = {f"transformer.{name}": torch.from_numpy(expected[name]) for name in names[i::shards]}
        torch.save(mine, folder / file, _use_new_zipfile_serialization=is_zip)
        weight_map |= dict.fromkeys(mine, file)
    (folder / "model.safetensors").unlink()
    if shards > 1:
        write_json(folder / "pytorch_model.bin.index.json", {"metadata": {}, "weight_map": weight_map})
    found = md.load(folder).tensors
    assert all(np.array_equal(found[name], array) for name, array in expected.items())
