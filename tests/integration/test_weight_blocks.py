"""int4 and int8_blocks: GGUF's blocks bit for bit, tiles of every kind of processor, and models that use them."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode.conformance.rows import linear as linear_row
from minidecode.cpu import linear as compiled
from minidecode.cpu.common import block_gemm, panel_gemm, tile
from minidecode.cpu.common.block_gemm import KIND, KINDS
from minidecode.device.low_precision import arrays_in_weights, dequantize_weight, stored_weight, unpack_panels
from minidecode.device.weight_blocks import BLOCKS, pack_in_panels, unpack_block_panels
from minidecode.ops import Weight
from minidecode.reference import linear as reference
from minidecode.search.compiled import PRODUCTS

PROMPT = "Fellow citizens of the Senate and of the House"
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "gguf_blocks.json").read_text())
SIZE = {"int4": 18, "int8_blocks": 34}  # bytes of a block in a file


def weight_of(rng, inputs, outputs, dtype):
    return stored_weight(dtype, Weight(rng.standard_normal((inputs, outputs)).astype(np.float32)))


def bytes_of(weight):
    """(outputs, blocks, bytes), as a GGUF file has them."""
    outputs, blocks = weight.scale.shape
    scale = weight.scale.view(np.uint8).reshape(outputs, blocks, 2)
    return np.concatenate([scale, weight.data.view(np.uint8).reshape(outputs, blocks, -1)], axis=2)


@pytest.mark.parametrize("dtype", BLOCKS)
def test_blocks_are_those_that_gguf_writes(dtype):
    """Recorded from its own package: random numbers, ties, a block of zeros, the largest number first and last."""
    w_XX = np.frombuffer(bytes.fromhex(GOLDEN["weights"]), np.float32).reshape(GOLDEN["shape"])
    right = np.frombuffer(bytes.fromhex(GOLDEN[dtype]), np.uint8).reshape(len(w_XX), -1, SIZE[dtype])
    weight = stored_weight(dtype, Weight(w_XX, layout="oi"))
    assert (bytes_of(weight) == right).all()


@pytest.mark.parametrize("dtype", BLOCKS)
def test_nothing_is_lost_by_way_of_floats_or_panels(dtype):
    for outputs in (1, 31, 32, 33, 70):
        weight = weight_of(np.random.default_rng(outputs), 96, outputs, dtype)
        again = stored_weight(dtype, Weight(dequantize_weight(weight, np.dtype(np.float32)), layout="oi"))
        packed = pack_in_panels(weight)
        assert packed.outputs == outputs and packed.data.ctypes.data % 64 == 0
        for other in (again, unpack_block_panels(packed), unpack_panels(packed)):
            assert (bytes_of(other) == bytes_of(weight)).all()
        for wide in (np.float32, np.float64):
            assert (dequantize_weight(packed, np.dtype(wide)) == dequantize_weight(weight, np.dtype(wide))).all()


@pytest.mark.parametrize("dtype", ["float32", "int8", *BLOCKS])
def test_some_outputs_of_panels_are_those_of_rows(dtype):
    """With their bias and scale, in place; what does not begin or end with a panel is refused."""
    if {"float32": tile.FLOAT, "int8": tile.DOT}.get(dtype, KINDS) is None:
        pytest.skip("this processor has no instructions for such panels")
    rng, bias_X = np.random.default_rng(1), np.arange(70, dtype=np.float32)
    rows = unpack_panels(dataclasses.replace(weight_of(rng, 96, 70, dtype), bias=bias_X))
    rows = rows if rows.layout == "oi" else dataclasses.replace(rows, data=rows.data.T.copy(), layout="oi")
    pack = {"float32": panel_gemm.pack_floats, "int8": panel_gemm.pack_int8}.get(dtype, pack_in_panels)
    packed = pack(rows)
    width = packed.data.shape[2]
    for outputs in (slice(0, width), slice(width, None), slice(0, 70), slice(width, 2 * width)):
        some, right = packed.of_outputs(outputs), rows.of_outputs(outputs)
        assert np.shares_memory(some.data, packed.data) and some.outputs == right.outputs
        assert (some.bias == right.bias).all()
        float32 = np.dtype(np.float32)
        assert (dequantize_weight(some, float32) == dequantize_weight(right, float32)).all()
    for outputs in (slice(1, None), slice(0, width - 1), slice(width, width + 1)):
        with pytest.raises(ValueError, match="whole panels"):
            packed.of_outputs(outputs)


@pytest.mark.parametrize("dtype", BLOCKS)
def test_each_weight_is_off_by_half_a_step_at_most(dtype):
    rng = np.random.default_rng(0)
    matrix = (rng.standard_normal((64, 40)) * 10.0 ** rng.integers(-2, 3, (1, 40))).astype(np.float32)
    weight = stored_weight(dtype, Weight(matrix))
    step = np.repeat(np.abs(weight.scale.astype(float)), 32, axis=1)
    largest = np.abs(matrix.T.reshape(40, 2, 32)).max(2).repeat(32, axis=1)
    off = np.abs(dequantize_weight(weight, np.dtype(float)) - matrix.T)
    # The far end of four bits is cut off at 7 of 8 steps; a scale is off by a part in 2,048, and the largest with it.
    assert (off <= (1 if dtype == "int4" else 0.5) * step + largest / 2047).all()


def test_what_blocks_cannot_hold_is_named():
    with pytest.raises(md.CheckpointError, match="up has 40 inputs, and int4 needs a multiple of 32: load it as float"):
        stored_weight("int4", Weight(np.ones((40, 2), np.float32)), "up")
    with pytest.raises(md.CheckpointError, match=r"up holds 9e\+06, more than int8_blocks can: load it as float32"):
        stored_weight("int8_blocks", Weight(np.full((32, 2), 9e6, np.float32)), "up")


@pytest.mark.parametrize("dtype", BLOCKS)
@pytest.mark.parametrize("inputs", [32, 96, 800])
def test_tiles_stay_within_the_bound_and_rows_stay_apart(dtype, inputs):
    """At every number of rows that a tile has, and outputs that fill a panel, miss one, or begin another."""
    rng = np.random.default_rng(inputs)
    for rows in (1, 2, 3, 4, 5, 6, 7, 13):
        for outputs in (1, 31, 32, 33, 101):
            x_RX, weight = (
                rng.standard_normal((rows, inputs)).astype(np.float32),
                weight_of(rng, inputs, outputs, dtype),
            )
            y_RX, off = compiled.linear(x_RX, weight), linear_row.error_bound(x_RX, weight)
            exact_RX = x_RX.astype(float) @ dequantize_weight(weight, np.dtype(float)).T
            assert (np.abs(y_RX - exact_RX) <= off).all()
            for function in (compiled.linear, reference.linear):
                assert (np.abs(function(x_RX, pack_in_panels(weight)) - exact_RX) <= off).all()
            assert compiled.linear(x_RX[-1:], pack_in_panels(weight)).tobytes() == y_RX[-1:].tobytes()


@pytest.mark.parametrize("dtype", BLOCKS)
def test_many_tasks_make_what_one_makes(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    x_RX, weight = rng.standard_normal((100, 512)).astype(np.float32), pack_in_panels(weight_of(rng, 512, 700, dtype))
    right = compiled.linear(x_RX, weight)
    monkeypatch.setattr(block_gemm, "ROWS_BYTES", 20 * 2048)
    monkeypatch.setattr(panel_gemm, "PANELS_BYTES", 1)
    assert compiled.linear(x_RX, weight).tobytes() == right.tobytes()
    monkeypatch.setattr(panel_gemm, "WORTH_TWO_TASKS", 2**60)
    assert compiled.linear(x_RX, weight).tobytes() == right.tobytes()


def test_results_go_where_they_are_asked_for():
    rng = np.random.default_rng(1)
    x_RX, weight = rng.standard_normal((7, 64)).astype(np.float32), pack_in_panels(weight_of(rng, 64, 70, "int4"))
    right, before = reference.linear(x_RX, weight), rng.standard_normal((7, 70))
    plain, wide = np.empty(7 * 70 + 1, np.float32)[1:].reshape(7, 70), np.empty((7, 140), np.float32)
    for out in (plain, wide[:, ::2], np.empty((70, 7), np.float32).T):  # 4 bytes off a cache line; with gaps; columns
        assert compiled.linear(x_RX, weight, None, out) is out
        np.testing.assert_allclose(out, right, rtol=1e-5, atol=1e-5)
        out[...] = before
        assert compiled.linear(x_RX, weight, out) is out
        np.testing.assert_allclose(out, right + before.astype(np.float32), rtol=1e-5, atol=1e-5)
    assert compiled.linear(x_RX[:0], weight).shape == reference.linear(x_RX[:0], weight).shape == (0, 70)


@pytest.mark.parametrize("dtype", [None, *BLOCKS])  # None: float32 in panels, where the processor has its tiles
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_results_may_go_where_the_rows_lie(dtype, rows):
    """Tiles read a row again for each panel: a result that lies there must not come before the last one has."""
    rng = np.random.default_rng(rows)
    x_RX, matrix = rng.standard_normal((rows, 256)).astype(np.float32), rng.standard_normal((256, 256), np.float32)
    plain = stored_weight(dtype or "float32", Weight(matrix))
    packed = pack_in_panels(plain) if dtype else panel_gemm.pack_floats(plain) if tile.FLOAT else plain
    off = linear_row.error_bound(x_RX, plain)
    exact_RX = x_RX.astype(float) @ dequantize_weight(plain, np.dtype(float)).T
    for function, weight, add_to in (
        (compiled.linear, packed, False), (compiled.linear, packed, True), (compiled.linear_few_rows, plain, False)
    ):  # fmt: skip
        there_RX = x_RX.copy()
        y_RX = function(there_RX, weight, there_RX if add_to else None, None if add_to else there_RX)
        assert y_RX is there_RX
        assert (np.abs(y_RX - (exact_RX + add_to * x_RX)) <= off + 1e-6 * np.abs(x_RX)).all()


@pytest.mark.parametrize("dtype", BLOCKS)
def test_a_row_that_became_a_matrix_is_multiplied(dtype):
    """x[None] has a first stride of 0."""
    rng = np.random.default_rng(3)
    x_X, weight = rng.standard_normal(1024).astype(np.float32), weight_of(rng, 1024, 1024, dtype)
    assert compiled.linear(x_X[None], weight).tobytes() == compiled.linear(x_X[None].copy(), weight).tobytes()


OFF_A_LINE = """
import dataclasses, sys
import numpy as np
from minidecode.cpu.common import panel_gemm, tile
from minidecode.cpu.linear import linear
from minidecode.cpu.linear_int8 import linear_int8
from minidecode.ops import Weight
from minidecode.device.low_precision import stored_weight
from minidecode.device.weight_blocks import pack_in_panels

def shifted(array):
    raw = np.empty(array.nbytes + 128, np.uint8)
    first = -raw.ctypes.data % 64 + array.itemsize
    moved = raw[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved

rng = np.random.default_rng(0)
x_RX, plain = rng.standard_normal((3, 64), np.float32), Weight(rng.standard_normal((64, 70), np.float32))
pairs = [(linear, pack_in_panels(stored_weight(dtype, plain))) for dtype in ("int4", "int8_blocks")]
if tile.FLOAT is not None:
    pairs.append((linear, panel_gemm.pack_floats(plain)))
if tile.DOT is not None:
    dtype = "int8_dynamic" if tile.DOT.x_bits == 8 else "int8_dynamic7"
    pairs.append((linear_int8, panel_gemm.pack_int8(stored_weight(dtype, plain))))
for function, weight in pairs:
    scale = None if weight.scale is None or weight.scale.ndim == 1 else shifted(weight.scale)
    moved = dataclasses.replace(weight, data=shifted(weight.data), scale=weight.scale if scale is None else scale)
    assert function(x_RX, moved).tobytes() == function(x_RX, weight).tobytes()
print(len(pairs))
"""


def test_panels_that_were_copied_may_begin_anywhere():
    """In a process of its own: an aligned load of such an address ends it."""
    done = subprocess.run([sys.executable, "-c", OFF_A_LINE], capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout) >= 2, (done.returncode, done.stderr)


def test_double_precision_stays_double():
    rng = np.random.default_rng(2)
    x_RX, weight = rng.standard_normal((3, 64)), weight_of(rng, 64, 33, "int4")
    exact = x_RX @ dequantize_weight(weight, np.dtype(float)).T
    for function in (compiled.linear, reference.linear, reference.linear_naive):
        for given in (weight, pack_in_panels(weight)):
            assert np.abs(function(x_RX, given) - exact).max() < 1e-12


KIND_HERE = """
import numpy as np
from minidecode.conformance.rows.linear import error_bound
from minidecode.cpu.common.block_gemm import KIND
from minidecode.cpu.common.low_precision import cast_all
from minidecode.cpu.linear import linear
from minidecode.ops import Weight
from minidecode.device.low_precision import stored_weight, dequantize_weight
rng = np.random.default_rng(0)
for dtype in ("int4", "int8_blocks"):
    for rows in range(1, 8):
        x_RX = rng.standard_normal((rows, 96)).astype(np.float32)
        weight = stored_weight(dtype, Weight(rng.standard_normal((96, 70)).astype(np.float32)))
        off = np.abs(linear(x_RX, weight) - x_RX.astype(float) @ dequantize_weight(weight, np.dtype(float)).T)
        assert (off <= error_bound(x_RX, weight)).all(), (dtype, rows)
bits = np.arange(2**16, dtype=np.uint16)
all_floats = np.empty((2**8, 2**8), np.float32)
with np.errstate(invalid="ignore"):
    right = bits.view(np.float16).astype(np.float32)
cast_all(all_floats, bits.view(np.float16).reshape(2**8, 2**8))
assert (all_floats.ravel().view(np.uint32) == right.view(np.uint32))[~np.isnan(right)].all()
assert (np.isnan(all_floats.ravel()) == np.isnan(right)).all()
print(KIND.name)
"""
LOWER = {"haswell": "+avx2,+fma,+f16c", "ivybridge": "+avx,+f16c", "nehalem": "+sse4.2"}  # the last casts no float16


@pytest.mark.parametrize("cpu", LOWER)
def test_processors_with_less_have_tiles_too(cpu, tmp_path):
    """As on an older processor, in a process of its own; the instructions must be there to run them.

    And every float16 number is cast, by an instruction or without.
    """
    name, features = "block tiles (avx2)" if cpu == "haswell" else "block tiles", LOWER[cpu]
    if not tile.features().issuperset(f[1:] for f in features.split(",")):
        pytest.skip(f"this processor has no {features}")
    told = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", KIND_HERE], capture_output=True, text=True, env=os.environ | told)
    assert done.stdout == f"{name}\n", done.stderr
    assert name in [kind.name for kind in KINDS]


@pytest.mark.parametrize("dtype", BLOCKS)
@pytest.mark.parametrize("name", ["tiny-gpt2", "tiny-bart"])
def test_every_plan_generates_the_same(name, dtype):
    model = md.load(name, dtype=dtype)
    right = model.generate(PROMPT, plan="naive", max_new_tokens=8, num_beams=2)
    for plan in ("numpy", "fast", "fast,epilogue=cpu", "fast,linear=naive", "fast,arena=planned", "cache=el"):
        out = model.generate(PROMPT, plan=plan, max_new_tokens=8, num_beams=2)
        assert out.texts == right.texts, plan
    fast = model.generate(PROMPT, plan="fast", max_new_tokens=4).receipt.ops["linear"]
    assert fast.code_paths == {KIND.name: fast.calls}


@pytest.mark.parametrize(("dtype", "part"), [("int4", 4.5 / 32), ("int8_blocks", 8.5 / 32)])
def test_bytes_of_a_weight_and_nothing_else_is_kept(dtype, part):
    model, wide = md.load("tiny-gpt2", dtype=dtype), md.load("tiny-gpt2")
    for narrow_, wide_ in zip(model.weights.blocks, wide.weights.blocks, strict=True):
        for name in ("qkv", "out", "up", "down"):
            mine = getattr(narrow_, name)
            assert mine.layout == "panels"
            assert mine.data.nbytes + mine.scale.nbytes == part * getattr(wide_, name).data.nbytes
    assert model.weights.lm_head.layout == "panels" and model.tensors == {}
    assert model.weights.wte_VD.dtype == np.float32, "the embedding is looked up in float32"
    whole = sum(a.nbytes for a in arrays_in_weights(dataclasses.replace(model.weights, wte_VD=None)))
    assert whole < 1.2 * part * 4 * model.parameters


@pytest.mark.parametrize("dtype", BLOCKS)
def test_it_is_pickled_planned_and_budgeted(dtype):
    model = md.load("tiny-gpt2", dtype=dtype)
    again = pickle.loads(pickle.dumps(model))
    assert again.dtype == dtype and again.weights.blocks[0].up.layout == "panels"
    out = model.generate(PROMPT, plan="fast,arena=planned", max_new_tokens=5, num_beams=2)
    assert again.generate(PROMPT, max_new_tokens=5, num_beams=2).texts == out.texts
    needed = model.footprint(PROMPT, plan="fast", max_new_tokens=5, num_beams=2)
    assert needed.cache >= out.receipt.cache_peak_bytes > 0
    assert dtype in PRODUCTS, "auto knows what to look for on disk"


def test_a_function_of_the_users_gets_rows(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from minidecode.reference.linear import linear as reference\n"
        "def mine(x_RX, weight, add_to=None, out=None):\n"
        "    assert weight.layout == 'oi' and weight.scale.ndim == 2\n"
        "    return reference(x_RX, weight, add_to, out)\n"
    )
    model = md.load("tiny-gpt2", dtype="int4")
    out = model.generate(PROMPT, plan=f"linear={path}:mine", max_new_tokens=5)
    assert out.texts == model.generate(PROMPT, max_new_tokens=5).texts


def test_scores_stay_near_those_of_floats():
    text = "We hold these truths to be self-evident, that all men are created equal"
    bits = {dtype: md.load("tiny-gpt2", dtype=dtype).score([text]).bits_per_byte for dtype in ("float32", *BLOCKS)}
    assert abs(bits["int8_blocks"] - bits["float32"]) < 0.005 and abs(bits["int4"] - bits["float32"]) < 0.05, bits
    assert len(set(bits.values())) == len(bits)  # each rounds differently
