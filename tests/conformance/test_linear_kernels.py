"""The kernels of products beyond their answers: which of them runs, what they read, and by which loads."""

import dataclasses
import re

import numpy as np
import pytest

import minidecode as md
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import epilogue as epilogue_row
from minidecode.conformance.rows.linear import (
    ANY_WIDTH,
    LAYOUTS,
    STORED,
    error_bound,
    make_arguments,
    oracle,
    round_arguments_to_float16,
)
from minidecode.cuda import linear
from minidecode.cuda.common import tensor_core
from minidecode.device.launch import InEmulator, counted_launches
from minidecode.device.low_precision import dequantize_weight
from minidecode.device.matmul import PRODUCT
from minidecode.device.weight_blocks import BLOCKS
from minidecode.emulator import tensor_core as emulated_core
from minidecode.emulator.binding import BODIES
from minidecode.ops import Weight
from minidecode.reference.activation import GELU, PLAIN
from minidecode.reference.linear import linear_rounded

VERSIONS = {label: InEmulator(f) for label, f in implementations(CATALOG["linear"]).items() if label.startswith("cuda")}


def case(R, inputs, outputs, stored, layout):
    rng = np.random.default_rng(R)
    return make_arguments(rng.standard_normal((R, inputs)), rng.standard_normal((inputs, outputs)), stored, layout)


def is_right(y_RX, x_RX, weight, times=2):
    """Whether the answer is that of the rule of devices: narrow weights meet rows that are rounded to float16."""
    arguments = round_arguments_to_float16(x_RX, weight) or (x_RX, weight)
    return (np.abs(y_RX - oracle(*arguments)) <= times * error_bound(*arguments)).all()


@pytest.mark.parametrize("stored", STORED)
def test_wide_loads_are_for_rows_that_begin_at_16_bytes(stored):
    cases = [(case(2, 128, 3, stored, "oi"), linear.choose_kernel(stored, 2, 3).kernel)]
    if stored in ANY_WIDTH:
        cases += [(case(2, 33, 3, stored, "oi"), linear.warp_per_output),
                  (case(2, 32, 3, stored, "io"), linear.block_per_lot_of_outputs)]  # fmt: skip
    for arguments, kernel in cases:
        with counted_launches() as launches:
            y_RX = InEmulator(linear.linear)(*arguments)
        assert f"{kernel.py_func.__name__} (emulator)" in launches
        assert is_right(y_RX, *arguments)


@pytest.fixture
def many_rows_are_17(monkeypatch):
    """However weights are stored: kernels take more rows of some, which the emulator takes long for."""
    monkeypatch.setattr(linear, "LIBRARY_FROM", dict.fromkeys(linear.LIBRARY_FROM, 17))


@pytest.mark.parametrize("stored", STORED)
def test_the_number_of_rows_changes_no_row(stored, many_rows_are_17):
    """Up to 16 rows are those of the kernels, and more the library's; each row is rounded by the same rule."""
    x_RX, weight = case(20, 128, 11, stored, "oi")
    x_RX[3] *= 1e6  # beyond float16's range
    x_RX[4, 5] = 65519  # the largest that rounds to one of its numbers
    x_RX[5] *= 1e-6
    for R in (1, 6, 8, 9, 16, 17, 20):
        with counted_launches() as launches:
            y_RX = InEmulator(linear.linear)(x_RX[-R:], weight)
        assert any(name.startswith(PRODUCT) for name in launches) == (R >= 17)
        assert is_right(y_RX, x_RX[-R:], weight)
    y_RX = InEmulator(linear.linear)(x_RX[3:6], weight)
    assert is_right(y_RX, x_RX[3:6], weight) and is_right(linear_rounded(x_RX, weight), x_RX, weight)


@pytest.mark.parametrize("stored", ["float16", "int4"])
@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_an_infinity_spoils_its_row_alone(stored, number):
    x_RX, weight = case(3, 128, 5, stored, "oi")
    x_RX[1, 7] = number
    for function in (InEmulator(linear.linear), InEmulator(linear.linear_v3), linear_rounded):
        y_RX = function(x_RX, weight)
        assert not np.isfinite(y_RX[1]).any() and is_right(y_RX[::2], x_RX[::2], weight)


@pytest.mark.parametrize("R", [3, 11])
@pytest.mark.parametrize("stored", STORED)
def test_kernels_of_few_rows_at_their_edges(stored, R):
    """Widths that no step, no turn of all warps and no tile divides; several warps for an output."""
    x_RX, weight = case(R, 1088 if stored in ANY_WIDTH else 1152, 19, stored, "oi")
    assert is_right(InEmulator(linear.linear)(x_RX, weight), x_RX, weight)


@pytest.mark.parametrize("stored", linear.FEW_BITS)
def test_kernels_of_many_outputs_at_their_edges(stored):
    """Inputs that no turn divides, a row and outputs that are not there, a second block; an odd row, for one dtype."""
    for made, R, outputs in zip(linear.FEW_BITS[stored], (1, 3, 8), (33, 17, 9), strict=True):
        x_RX, weight = case(R, made.inputs + max(made.multiple, 16), outputs, stored, "oi")
        x_RX[-1] *= 1e6 if (stored, R) == ("int8", 3) else 1  # beyond float16's range
        weight = dataclasses.replace(weight, bias=np.arange(weight.outputs, dtype=np.float32))
        arguments = x_RX, weight, "relu", np.ones((R, weight.outputs), np.float32)
        launched = InEmulator(lambda *of_launch, made=made: linear.launch_few_rows(made, *of_launch))
        y_RX = launched(x_RX, weight, arguments[3].copy(), None, weight.bias, "relu")
        arguments = epilogue_row.round_arguments_to_float16(*arguments)
        assert (np.abs(y_RX - epilogue_row.oracle(*arguments)) <= epilogue_row.error_bound(*arguments)).all()


@pytest.mark.parametrize("stored", linear.FEW_BITS)
def test_kernels_of_many_outputs_take_several_turns(stored):
    """More inputs than all warps take at once, and a rest; of blocks, a row beyond float16's range."""
    made = linear.FEW_BITS[stored][1]
    x_RX, weight = case(3, {"int8": 1296, "int8_blocks": 1280, "int4": 2432}[stored], 3, stored, "oi")
    x_RX[-1] *= 1e6 if stored != "int8" else 1
    launched = InEmulator(lambda x_RX, weight: linear.launch_few_rows(made, x_RX, weight))
    assert is_right(launched(x_RX, weight), x_RX, weight)


def test_many_outputs_of_few_bits_are_version_5s():
    names = [linear.choose_kernel("int4", rows, outputs).kernel.py_func.__name__ for rows, outputs in (
        (1, 50257), (2, 8192), (9, 50257), (1, 8191))]  # fmt: skip
    assert names == ["few_bits_int4_1_2_2", "few_bits_int4_4_2_2", "few_rows_int4_16_2_4", "few_rows_int4_8_1_4"]
    assert linear.choose_kernel("int4", 1, 50257, newest=4).kernel.py_func.__name__ == "few_rows_int4_8_4_4"


@pytest.mark.parametrize("function", ["multiply_tiles", "small_halves_of_nibbles"])
def test_a_known_mistake_in_what_version_5_computes_would_be_found(function, monkeypatch):
    made = linear.FEW_BITS["int4"][0]
    x_RX, weight = case(1, 128, 17, "int4", "oi")
    launched, body = getattr(tensor_core, function), BODIES[id(getattr(tensor_core, function))][1]
    monkeypatch.setitem(BODIES, id(launched), (launched, lambda *values: body(*values)[::-1]))
    y_RX = InEmulator(lambda x_RX, weight: linear.launch_few_rows(made, x_RX, weight))(x_RX, weight)
    assert not is_right(y_RX, x_RX, weight)


def test_a_known_mistake_of_the_tensor_core_would_be_found(monkeypatch):
    x_RX, weight = case(3, 64, 5, "float16", "oi")
    swapped = lambda x_low, x_high, w, a, b, c, d: (b, a, d, c)  # noqa: E731
    monkeypatch.setitem(BODIES, id(tensor_core.multiply_tiles), (tensor_core.multiply_tiles, swapped))
    assert not is_right(InEmulator(linear.linear)(x_RX, weight), x_RX, weight)


@pytest.mark.parametrize("stored", ANY_WIDTH)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_rows_are_the_librarys(layout, stored, many_rows_are_17):
    """Which gets int8 as float16, and behind it a kernel for scales of rows and outputs."""
    arguments = case(17, 32, 3, stored, layout)
    with counted_launches() as launches:
        y_RX = InEmulator(linear.linear)(*arguments)
    kernels = {"float32": [], "float16": ["round_rows", "scale_rows"], "int8": ["round_rows", "end_sums"]}[stored]
    kernels += ["cast_int8_to_float16"] if (stored, layout) == ("int8", "oi") else []
    assert launches == {f"{PRODUCT} (numpy)": 1, **{f"{kernel} (emulator)": 1 for kernel in kernels}}
    assert is_right(y_RX, *arguments)


def many_rows(x_RX, weight, add_to=None, **ends_in):
    """The library's product, however few they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "LIBRARY_FROM", dict.fromkeys(linear.LIBRARY_FROM, 1))
        return InEmulator(linear.linear)(x_RX, weight, add_to, **ends_in)


@pytest.mark.parametrize("inputs", [96, 40])
@pytest.mark.parametrize(("stored", "layout"), [("int8", "oi"), ("int8", "io"), ("int8_blocks", "oi"), ("int4", "oi")])
def test_weights_are_cast_some_outputs_at_a_time(stored, layout, inputs, monkeypatch):
    """Tiles of four outputs, and a last one of three: each is the same as alone, and no room is larger than a tile."""
    halves = 2 if stored in BLOCKS else 1  # of a number
    x_RX, weight = case(18, inputs, 11, stored, layout)
    monkeypatch.setattr(linear, "LEAST_OUTPUTS", 4)
    monkeypatch.setattr(linear, "TILE", 4 * halves * x_RX.shape[1] + 1)
    x_RX[2] *= 1e6
    rooms = []

    def workspace(shape, dtype):
        rooms.append((np.dtype(dtype), int(np.prod(shape))))
        return np.full(shape, np.nan, dtype)

    with counted_launches() as launches:
        y_RX = many_rows(x_RX, weight, workspace=workspace)
    assert launches[f"{PRODUCT} (numpy)"] == 3 * halves
    assert is_right(y_RX, x_RX, weight)
    x16, tile = x_RX.size, [size for dtype, size in rooms if dtype == np.float16][1:]
    assert rooms[0] == (np.dtype(np.float16), x16) and len(tile) == 1 and tile[0] <= linear.TILE
    assert all(dtype == np.float32 and size <= 18 for dtype, size in rooms if dtype != np.float16)
    alone = many_rows(x_RX, weight.of_outputs(slice(8, 11)) if layout == "oi" else dataclasses.replace(
        weight, data=weight.data[:, 8:], scale=weight.scale[8:]))  # fmt: skip
    np.testing.assert_array_equal(y_RX[:, 8:], alone)
    start_RX, bias_X = np.full((18, 11), 3, np.float32), np.arange(11, dtype=np.float32)
    added_RX = many_rows(x_RX, weight, add_to=start_RX.copy(), bias_X=bias_X, activation="relu")
    np.testing.assert_allclose(added_RX, start_RX + np.maximum(y_RX + bias_X, 0), rtol=1e-6)


def test_tiles_are_of_one_size_and_bounded():
    assert linear.outputs_cast_together(4096, 1024) == 4096
    assert linear.outputs_cast_together(50257, 768) == 5120 and linear.TILE >= 5120 * 768
    assert linear.outputs_cast_together(5, 4096) == 5 and linear.outputs_cast_together(1000, 66_000) == 128
    assert linear.outputs_cast_together(0, 8) == 0


@pytest.mark.parametrize("stored", BLOCKS)
def test_two_float16_are_a_number_of_a_block(stored):
    """Exactly, for scales of any size: the smallest that float16 holds, and such that its numbers do not."""
    rng = np.random.default_rng(0)
    _, weight = case(1, 192, 9, stored, "oi")
    scale = np.abs(rng.standard_normal(weight.scale.shape)).astype(np.float16)
    scale[0], scale[1], scale[2] = 2.0**-24, 3 * 2.0**-20, np.nextafter(np.float16(2.0**-14), np.float16(0))
    scale[3], scale[4], scale[5], scale[6] = 65504, -65504, 255.875, -257
    weight = dataclasses.replace(weight, scale=scale)
    if stored == "int8_blocks":
        weight.data[:, :3] = -128, 127, -127
    exact = dequantize_weight(weight, np.dtype(np.float64))
    high_XX, low_XX = np.full((2, *exact.shape), np.nan, np.float16)
    power_X = np.full(9, np.nan, np.float32)
    run = md.emulate(linear.split_blocks)[3, 128](weight.data, weight.scale, high_XX, low_XX, power_X)
    assert run.ok
    assert power_X.tolist() == [1, 1, 1, 256, 256, 1, 2, 1, 1]
    found = (high_XX.astype(np.float64) + low_XX) * power_X[:, None]
    np.testing.assert_array_equal(found, exact)
    assert (low_XX != 0).any() and np.isfinite(high_XX).all()


def test_an_infinite_scale_ends_and_spoils_its_output_alone():
    x_RX, weight = case(17, 64, 5, "int4", "oi")
    weight.scale[1, 0], weight.scale[2, 1] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        y_RX = many_rows(x_RX, weight)
    assert not np.isfinite(y_RX[:, 1:3]).any() and np.isfinite(y_RX[:, [0, 3, 4]]).all()


@pytest.mark.parametrize("stored", ["float16", "int8", "int4"])
def test_sums_that_are_cut_off_too_early_would_be_found(stored, monkeypatch):
    """Of many rows and of few: tensor cores keep 24 bits of a partial sum, and here 16 are left."""
    x_RX, weight = case(17, 256, 5, stored, "oi")

    def of_sixteen_bits(numbers):
        kept = np.asarray(numbers, np.float32)
        return (kept.view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32)

    for rows, multiply in ((17, many_rows), (3, InEmulator(linear.linear))):
        assert is_right(multiply(x_RX[:rows], weight), x_RX[:rows], weight)
    monkeypatch.setattr(emulated_core, "cut_off", of_sixteen_bits)
    monkeypatch.setattr(tensor_core, "cut_off", of_sixteen_bits)
    for rows, multiply in ((17, many_rows), (3, InEmulator(linear.linear))):
        assert not is_right(multiply(x_RX[:rows], weight), x_RX[:rows], weight)


@pytest.mark.parametrize("stored", ANY_WIDTH)
def test_rows_that_end_within_16_bytes_take_no_wide_loads(stored):
    """Columns of a wider array: each row begins where a wide load could, and the last one would read on behind it."""
    x_RX, weight = case(2, 21, 3, stored, "oi")
    inside_x, inside_w = np.full((2, 32), 9, np.float32), np.full((3, 32), 9).astype(weight.data.dtype)
    inside_x[:, :21], inside_w[:, :21] = x_RX, weight.data
    y_RX = InEmulator(linear.linear)(inside_x[:, :21], dataclasses.replace(weight, data=inside_w[:, :21]))
    assert is_right(y_RX, x_RX, weight)


def test_an_array_that_begins_elsewhere_takes_no_wide_loads():
    x_RX, weight = case(2, 32, 3, "float32", "oi")
    moved = np.empty(32 * 3 + 1, np.float32)[1:].reshape(3, 32)
    moved[...] = weight.data
    with counted_launches() as launches:
        InEmulator(linear.linear)(x_RX, Weight(moved, layout="oi"))
    assert list(launches) == ["warp_per_output (emulator)"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_weight_is_read_once_for_eight_rows(layout):
    """Sectors of 32 bytes: version 1 reads the weights for each row, version 2 for ROWS together."""
    x_RX, weight = case(8, 64, 32, "float32", layout)
    weights, rows = weight.data.nbytes // 32, x_RX.nbytes // 32
    kernel, grid = (linear.warp_per_output, 8) if layout == "oi" else (linear.block_per_lot_of_outputs, 1)
    y_RX, scale_X = np.empty((8, 32), np.float32), np.ones(32, np.float32)
    plain = scale_X, False, PLAIN, False  # no bias, no activation, nothing to add to
    run = md.emulate(kernel)[(grid, 1), 128](x_RX, weight.data, scale_X, *plain, y_RX)
    assert run.ok
    reads_of_x = rows * 32 if layout == "oi" else 64 * 8  # each output's warp; or each input of each row, for the block
    assert run.sectors <= weights + reads_of_x + 2 * 8 * 32


@pytest.mark.parametrize("label", VERSIONS)
def test_a_product_can_be_added_to_an_array(label):
    x_RX, weight = case(9, 16, 5, "int8", "oi")
    start_RX = np.random.default_rng(1).standard_normal((9, 5)).astype(np.float32)
    target_RX = start_RX.copy()
    assert VERSIONS[label](x_RX, weight, target_RX) is target_RX
    x_RX, _ = round_arguments_to_float16(x_RX, weight)
    off_RX = np.abs(target_RX - (start_RX + oracle(x_RX, weight)))
    assert (off_RX <= 2 * error_bound(x_RX, weight) + 2.0**-24 * np.abs(target_RX)).all()


@pytest.mark.parametrize("stored", ANY_WIDTH)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bias_activation_and_residual_take_no_launch_of_their_own(stored, layout):
    """One kernel, where a product, `bias_activation` and a sum are three."""
    x_RX, weight = case(9, 64, 5, stored, layout)
    weight = dataclasses.replace(weight, bias=np.ones(5, np.float32))
    add_to = np.zeros((9, 5), np.float32)
    for label, function in implementations(CATALOG["epilogue"]).items():
        if label.startswith("cuda"):
            with counted_launches() as launches:
                assert InEmulator(function)(x_RX, weight, "gelu", add_to) is add_to
            rounds = label != "cuda" or layout == "io"  # there and back, by kernels that the last version does without
            assert sum(launches.values()) == 1 + 2 * (rounds and stored != "float32")
    last = linear.choose_kernel(stored, 9, 5).kernel if layout == "oi" else linear.block_per_lot_of_outputs
    assert f"{last.py_func.__name__} (emulator)" in launches, "the last is the op's own"


def test_rows_of_a_warp_are_ended_by_lanes_of_their_own():
    """Eight rows of an output are one step of eight lanes, not eight of one, each with an activation."""
    x_RX, weight = case(8, 32, 4, "float32", "oi")
    y_RX, ones_X = np.zeros((8, 4), np.float32), np.ones(4, np.float32)
    run = md.emulate(linear.warp_per_output)[1, 128](x_RX, weight.data, ones_X, ones_X, True, GELU, True, y_RX)
    assert run.ok and sum(c.global_stores for c in run.lines.values()) == 8 * 4
    arguments = x_RX, dataclasses.replace(weight, bias=ones_X), "gelu", np.zeros((8, 4), np.float32)
    assert (np.abs(y_RX - epilogue_row.oracle(*arguments)) <= epilogue_row.error_bound(*arguments)).all()


@pytest.mark.parametrize("label", VERSIONS)
def test_double_precision_is_refused(label):
    with pytest.raises(md.OptionError, match="float32 by float32, float16 or int8, not float64 by float64"):
        VERSIONS[label](np.ones((1, 2)), Weight(np.ones((2, 2))))


def test_the_assembler_sees_128_bit_loads_and_no_memory_of_a_thread():
    pytest.importorskip("numba_cuda", reason="needs the toolkit: pip install '.[ptx]'")
    pytest.importorskip("cuda.core", reason="needs the toolkit: pip install '.[ptx]'")
    from minidecode.conformance.kernel_build import compile_and_link

    made = {stored: linear.choose_kernel(stored, 4, 5).kernel for stored in ("float32", "float16", "int4")}
    expected = [(linear.warp_per_output, 0, 0), (linear.warp_per_output_wide, 9, 0), (made["float32"], 8, 0),
                (made["float16"], 12, 16), (made["int4"], 8, 16)]  # fmt: skip
    for kernel, loads, products in expected:
        built = compile_and_link(kernel, linear.SIGNATURES[kernel][0], (9, 0))
        wide_loads = re.findall(r"ld\.global\.v4|ld\.global\.v2\.[ub]64", built.ptx)
        assert len(wide_loads) == loads and built.ptx.count("mma.sync") == products and ".local" not in built.ptx
