"""The kernels of attention beyond their answers in float32: what they read, in which types, and which of them runs."""

import numpy as np
import pytest

import minidecode as md
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.attention import draw_normal_array
from minidecode.conformance.rows import row_module
from minidecode.cuda import grouped, split
from minidecode.cuda.common import attention, warp_attention
from minidecode.cuda.common.warp_attention import launch_warps, make_attention_kernel
from minidecode.device.launch import InEmulator, counted_launches, traced_launches

ROWS = ("grouped", "shared", "split")
VERSIONS = [
    pytest.param(name, InEmulator(function), id=f"{name}-{label.replace(' ', '-')}")
    for name in ROWS
    for label, function in implementations(CATALOG[name]).items()
    if label.startswith("cuda")
]
K = U = 8  # numbers of a head: 32 bytes, a sector


def caches(arguments):
    """The places of keys and values among the arguments: all arrays of four axes."""
    return [i for i, a in enumerate(arguments) if getattr(a, "ndim", 0) == 4]


@pytest.mark.parametrize(("name", "attend"), VERSIONS)
def test_nothing_is_read_that_a_row_does_not_see(name, attend):
    """NaN in the padding and in what is not written changes no bit: 0 times NaN would be NaN."""
    for arguments in (row_module(name).planted_cases()[0], row_module(name).planted_cases()[1]):
        spoilt = list(arguments)
        values = caches(arguments)[1::2]
        for i in values:
            unseen = arguments[i] == np.float32(1e30)
            spoilt[i] = np.where(unseen, np.float32(np.nan), arguments[i])
            keys = arguments[i - 1].copy()
            keys[unseen[..., 0]] = np.nan
            spoilt[i - 1] = keys
        assert any(np.isnan(spoilt[i]).any() for i in values)
        assert np.array_equal(attend(*spoilt), attend(*arguments))


@pytest.mark.parametrize(("name", "attend"), VERSIONS)
def test_keys_and_values_in_half_precision_are_computed_with_in_float32(name, attend):
    """Against the oracle on the numbers that float16 holds, within the same bound."""
    for arguments in (row_module(name).planted_cases()[0], row_module(name).planted_cases()[6]):
        stored = list(arguments)
        with np.errstate(over="ignore"):  # the poison is infinite there
            for i in caches(arguments):
                stored[i] = arguments[i].astype(np.float16)
        wide = [a.astype(np.float32) if i in caches(arguments) else a for i, a in enumerate(stored)]
        a_RX = attend(*stored)
        assert a_RX.dtype == np.float32
        assert (np.abs(a_RX - row_module(name).oracle(*wide)) <= row_module(name).error_bound(*wide)).all()


@pytest.mark.parametrize(("name", "attend"), VERSIONS)
def test_double_precision_is_refused(name, attend):
    arguments = [a.astype(np.float64) if getattr(a, "ndim", 0) > 1 else a for a in row_module(name).planted_cases()[0]]
    with pytest.raises(md.OptionError, match="float32 or float16, not float64"):
        attend(*arguments)


def split_case(B, W, G, H, N, T):
    rng = np.random.default_rng(0)
    R = B * W
    prompt = draw_normal_array(rng, B, G, N, K), draw_normal_array(rng, B, G, N, U), np.zeros(B, np.int64)
    own = draw_normal_array(rng, R, G, T, K), draw_normal_array(rng, R, G, T, U), np.zeros(R, np.int64), np.full(R, T)
    return draw_normal_array(rng, R, H, K), *prompt, *own, np.float32(0.7)


def loads(run, *functions) -> int:
    """Numbers that these functions loaded from global memory."""
    return sum(c.global_loads for place, c in run.lines.items() if place.function in functions)


def test_the_prompt_is_read_once_for_all_beams_and_all_heads_of_a_group():
    """Version 3 loads what the cost model says is the least, in whole sectors; version 2 more for each head."""
    B, W, G, H, N, T = 2, 3, 1, 2, 40, 3
    arguments = split_case(B, W, G, H, N, T)
    a_RX = np.empty((B * W, H * U), np.float32)
    second = md.emulate(split.split_per_head)[B * W * H, 32](*arguments, a_RX)
    third = md.emulate(split.split_per_sentence)[B * G, attention.THREADS](*arguments, a_RX)
    assert loads(third, "stage_rows") == (B * N + B * W * T) * G * (K + U)
    queries_and_results = B * W * H * (K + U)
    assert 4 * (loads(third, "stage_rows") + queries_and_results) == CATALOG["split"].cost(*arguments).bytes
    assert loads(second, "dot") == 2 * B * W * H * (N + T) * K  # of the key one number, of the query another
    staging = [c for place, c in third.lines.items() if place.function == "stage_rows"]
    assert sum(c.sectors for c in staging) == loads(third, "stage_rows") // 8
    assert third.bank_conflicts == 0


def test_more_queries_than_a_block_takes_read_the_prompt_again():
    """Of 5 rows with 4 heads each, 4 fill the first lot."""
    B, W, G, H, N, T = 1, 5, 1, 4, 33, 1
    assert attention.QUERIES == 16
    arguments = split_case(B, W, G, H, N, T)
    run = md.emulate(split.split_per_sentence)[(B, 2), 128](*arguments, np.empty((B * W, H * U), np.float32))
    assert loads(run, "stage_rows") == (2 * N + W * T) * (K + U)


@pytest.mark.parametrize("seed", range(5))
def test_the_kernels_are_clean_in_any_order_of_threads(seed):
    arguments = split_case(1, 2, 1, 2, 33, 2)
    a_RX = np.empty((2, 2 * U), np.float32)
    runs = [
        md.emulate(split.split_per_head, seed=seed)[4, 32](*arguments, a_RX),
        md.emulate(split.split_per_sentence, seed=seed)[1, 128](*arguments, a_RX),
        md.emulate(split.split_per_range, seed=seed)[(1, 1, 2), 128](
            *arguments, 18, np.empty((2, 2, 2, U + 2), np.float32)
        ),
    ]
    assert [run.verdict for run in runs] == ["clean"] * 3


def wide_case(B, W, G, H, N, T, dtype):
    """Inputs of attend_split, with padding, windows and rows of different lengths."""
    rng, R = np.random.default_rng(0), B * W
    caches = [draw_normal_array(rng, *shape, K).astype(dtype) for shape in 2 * [(B, G, N)] + 2 * [(R, G, T)]]
    begin_R, prompt_begin_B = rng.integers(0, max(T // 2, 1), R), rng.integers(0, N // 2 + 1, B)
    end_R = np.minimum(begin_R + rng.integers(1, T + 1, R), T)
    prompt, own = (*caches[:2], prompt_begin_B), (*caches[2:], begin_R, end_R)
    return draw_normal_array(rng, R, H, K), prompt, own, 0.7


@pytest.mark.parametrize(
    ("sizes", "knobs"),
    [((2, 3, 1, 2, 40, 37), {"tile": 3, "ranges": 2, "warps": 2}), ((1, 5, 1, 3, 9, 3), {"tile": 16}),
     ((1, 5, 1, 2, 9, 3), {"tile": 8, "warps": 5}), ((1, 1, 2, 4, 70, 5), {"tile": 2, "warps": 1})],
    ids=str,
)  # fmt: skip
def test_warps_are_right_however_they_share_the_work(sizes, knobs):
    """Queries of a block, ranges of positions, warps: no knob changes the answer; and there are no races."""
    q_RHK, prompt, own, scale = wide_case(*sizes, np.float16 if knobs["tile"] % 2 else np.float32)
    a_RX = np.full((len(q_RHK), q_RHK.shape[1] * K), np.nan, np.float32)
    with traced_launches():
        launch_warps(q_RHK, prompt, own, scale, a_RX, **knobs)
    arguments, row = (q_RHK, *prompt, *own, scale), row_module("split")
    assert (np.abs(a_RX - row.oracle(*arguments)) <= row.error_bound(*arguments)).all()


def test_warps_read_nothing_behind_a_cache():
    """A graph that is launched once too often counts on: the emulator would stop, and a GPU read foreign memory."""
    q_RHK, prompt, (k_RGTK, v_RGTU, begin_R, _), scale = wide_case(1, 2, 1, 1, 5, 3, np.float32)
    answers = [np.empty((2, K), np.float32) for _ in range(2)]
    for end, a_RX in zip((3, 40), answers, strict=True):
        launch_warps(q_RHK, prompt, (k_RGTK, v_RGTU, begin_R, np.full(2, end)), scale, a_RX)
    assert np.array_equal(*answers)


def test_warps_load_each_position_once_for_four_queries():
    """Two beams of two heads: keys and values are loaded once, 16 bytes a lane, in whole chunks."""
    B, W, G, H, N, T = 1, 2, 1, 2, 40, 3
    q_RHK, *prompt, k_RGTK, v_RGTU, begin_R, end_R, scale = split_case(B, W, G, H, N, T)
    run = md.emulate(make_attention_kernel(K, "float32", 4))[(1, 1, 1), 64](
        q_RHK, *prompt, k_RGTK, v_RGTU, np.zeros((W, 1), np.int64), begin_R, end_R, scale,
        *map(np.int32, (W, H, W * H, 1, 0)), np.empty((1, W, H, U), np.float32),
    )  # fmt: skip
    chunk = warp_attention.positions_per_turn(K, 4, 4)
    assert run.verdict == "clean"
    of_queries = 64 * 4 * W * H  # a lane's four numbers of each
    assert loads(run, "_emulate_load_16_bytes") - of_queries == (-(-N // chunk) + W * -(-T // chunk)) * chunk * (K + U)


@pytest.mark.parametrize(
    ("K_and_U", "offset", "wide"),
    [((16, 16), 0, True), ((64, 64), 0, True), ((16, 8), 0, False), ((24, 24), 0, False), ((18, 18), 0, False),
     ((16, 16), 4, False), ((256, 256), 0, False), ((8, 8), 0, False)],
)  # fmt: skip
def test_heads_that_warps_can_read(K_and_U, offset, wide):
    """Whole 128-bit loads, a power of two of them and at most 32, from addresses that they can begin at."""

    def cache(width):
        numbers = np.zeros(4 * width + 8, np.float32)
        first = -numbers.ctypes.data % 16 // 4 + offset // 4
        return numbers[first : first + 4 * width].reshape(1, 1, 4, width)

    q_RHK = cache(K_and_U[0])[0]
    assert warp_attention.can_load_wide(q_RHK, *(cache(width) for width in K_and_U)) == wide


@pytest.mark.parametrize(
    ("M", "width", "kernels"),
    [(2 * attention.SHORTEST, 2, {"block_per_range", "merge_ranges"}), (40, 2, {"block_per_cache"}),
     (2 * attention.SHORTEST, attention.WIDEST + 1, {"block_per_head"}), (40, 16, {"warps_16_float32_1"}),
     (2 * warp_attention.SHORTEST, 16, {"warps_16_float32_1", "merge_ranges_of_warps"})],
)  # fmt: skip
def test_which_kernel_runs(M, width, kernels):
    rng = np.random.default_rng(0)
    cache = draw_normal_array(rng, 1, 1, M, width), draw_normal_array(rng, 1, 1, M, 16 if width == 16 else 2)
    with counted_launches() as launches:
        grouped.attend(draw_normal_array(rng, 1, 1, width), *cache, np.zeros(1, np.int64), np.full(1, M), 0.5)
    assert {name.removesuffix(" (emulator)") for name in launches} == kernels


def test_ranges_are_for_few_blocks_and_many_positions():
    assert attention.number_of_ranges(1, 2 * attention.SHORTEST - 1) == 1
    assert attention.number_of_ranges(1, 3 * attention.SHORTEST) == 3
    assert attention.number_of_ranges(attention.ENOUGH // 2, 10_000) == 2
    assert attention.number_of_ranges(attention.ENOUGH + 1, 10_000) == 1


def test_a_block_takes_all_queries_of_a_cache_but_where_there_are_few_short_ones():
    few, full = warp_attention.SHORTEST, warp_attention.FULL
    assert warp_attention.queries_per_block(48, 4, few) == warp_attention.queries_per_block(1, 1, 4 * few) == 1
    assert warp_attention.queries_per_block(48, 4, 2 * few) == warp_attention.queries_per_block(full, 4, few) == 4
    assert warp_attention.queries_per_block(1, 40, 2 * few) == warp_attention.MOST_QUERIES
