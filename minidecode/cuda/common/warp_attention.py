"""Attention of few rows by 128-bit loads: the newest kernel of split.py, shared.py, grouped.py and indirect.py.

A lane loads 16 bytes of a key and 16 bytes of a value, so that width / (16 / itemsize) lanes share a position. All
loads of a chunk are issued before the first product. Keys and values go to registers, never to shared memory, and serve
QUERIES queries, which are in registers too. Each group of lanes keeps an online softmax of its own (common/attention.py
explains it); what groups, then warps, then ranges of positions have found is merged at the end.

Floor: the bytes of keys and values at the bandwidth of a copy, 2.5 TB/s on an H100. BART-large's cross attention with 4
beams and 1,024 positions in float16: 8 sentences are 34 MB, 13.5 us; 32 are 134 MB, 54 us. GPT-2's split cache, 4
sentences of 4 beams, 256 + 32 positions: 4.7 MB, 1.9 us. Predicted 18, 70 and 4 us; one greedy row of GPT-2 at 300
positions 3 us, which is latency. A multiprocessor has 16 warps with 2 KB under way each, and for 20 KB at 600 ns memory
is busy; a warp takes 400 instructions for 2 KB, at which rate instructions would allow 4.7 TB/s. Measured (H100,
2026-11-26, before that day's last changes): 18.9 us, 73 % of a copy's bandwidth; 57.3 us, 97 %; 13.9 us, 14 %; and
6.8 us for the greedy row at 288 positions. Short caches miss: a launch, two loads, and the merges of 16 warps are most
of their time (reasoned). With 8 warps a block GPT-2's beams took 8.0 us.

Ranges are merged by a second launch. The last block to arrive could do it in the first, but would need a counter that
is 0 before: to set it takes a launch too, and a counter that is kept would be shared by generations side by side.

Scores are in powers of two: exp(s) is exp2(s log2 e), and the queries are multiplied by scale log2 e when they are
read. A maximum begins at LOWEST and not at -inf, for -inf - -inf is no number.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import cuda, float32, int32, int64, types

from ...device.arrays import address_of
from ...device.launch import launch
from ...reference import scratch
from .cache_load import float_of_bits, floats_of_halves, load_16_bytes, power_of_two
from .reduction import LANES, THREADS

MOST_WARPS = 16  # of a block
QUERIES = 4  # of a warp: their numbers and sums stay in registers
MOST_QUERIES = 16  # of a block; more go to further blocks, and each of those reads the cache again
WORDS = 4  # of 32 bits, which a lane loads together
LOWEST = float32(-3e38)  # the maximum before the first position
MINUS_INF = float32(-np.inf)  # the score of a position that a query does not see
LOG2_E = np.log2(np.e)
FULL = 128  # blocks that keep a large GPU busy: about one for each of its multiprocessors
SHORTEST = 256  # positions worth a block of their own


@cuda.jit(device=True)
def divide_by_subtraction(number, by):
    """(quotient, rest) of a number that is a few times the other: sooner done than a GPU's routine for divisions."""
    quotient = int32(0)
    while number >= by:
        number, quotient = int32(number - by), int32(quotient + 1)
    return quotient, number


@cache
def make_attention_kernel(width: int, dtype: str, queries: int, has_table: bool = False):
    """The kernel for heads of `width` numbers, and that many queries of a warp: constants to the compiler.

    A block serves one key/value head of one of X prompts: queries n of the W = R/X rows and H/G heads that read it,
    n = row * H/G + head. Its warps share the positions of the prompt and the W rows' own ones. If there are more than
    `queries`, neighbouring warps take the same positions for other queries, and find them in the L1 cache.
    """
    per_word, numbers_of = (2, floats_of_halves) if dtype == "float16" else (1, float_of_bits)
    together = WORDS * per_word  # numbers of a load
    sharing = width // together  # lanes that share a position
    steps = sharing.bit_length() - 1  # shuffles that add up over them
    further_steps = 5 - steps  # and over what the groups of a warp have found
    at_once = 4 if queries == 1 else 2  # positions of which a lane has loads under way; with 4 queries more would spill
    groups = 32 // sharing  # positions that a warp loads at once
    chunk = groups * at_once  # positions of a warp's turn
    chunk_bits = chunk.bit_length() - 1
    state = width + 2  # numbers that a query's result takes: the sums, the maximum, the sum of weights
    sums_size, q_size, words_size, scores_size = (
        MOST_WARPS * queries * state, queries * together, at_once * WORDS, at_once * queries
    )  # fmt: skip

    @cuda.jit(device=True)
    def take_in_chunk(q, k, v, score, first, last, own_row, row_of, running_max, running_sum, a):
        """A chunk of positions, of one row (or of the prompt: -1), into the running softmax of each query."""
        for j in range(at_once):
            for i in range(queries):
                s = float32(0)
                for w in range(WORDS):
                    numbers = numbers_of(k[j * WORDS + w])
                    for e in range(per_word):
                        s += q[i * together + w * per_word + e] * numbers[e]
                for step in range(steps):
                    s += cuda.shfl_xor_sync(LANES, s, 1 << step)
                is_seen = int32(first + j * groups) <= last and (own_row < 0 or own_row == row_of[i])
                score[j * queries + i] = s if is_seen else MINUS_INF

        for i in range(queries):
            larger = running_max[i]
            for j in range(at_once):
                larger = max(larger, score[j * queries + i])
            keep = power_of_two(running_max[i] - larger)
            running_max[i] = larger
            running_sum[i] *= keep
            for e in range(together):
                a[i * together + e] *= keep
            for j in range(at_once):
                weight = power_of_two(score[j * queries + i] - larger)
                running_sum[i] += weight
                for w in range(WORDS):
                    numbers = numbers_of(v[j * WORDS + w])
                    for e in range(per_word):
                        a[i * together + w * per_word + e] += weight * numbers[e]

    @cuda.jit(device=True)
    def merge_groups(running_max, running_sum, a, warp, lane, sums):
        """What the groups of a warp have found becomes one, and is left for the other warps."""
        for i in range(queries):
            larger = running_max[i]
            for step in range(further_steps):
                larger = max(larger, cuda.shfl_xor_sync(LANES, larger, sharing << step))
            keep = power_of_two(running_max[i] - larger)
            total = running_sum[i] * keep
            for step in range(further_steps):
                total += cuda.shfl_xor_sync(LANES, total, sharing << step)
            for e in range(together):
                a[i * together + e] *= keep
                for step in range(further_steps):
                    a[i * together + e] += cuda.shfl_xor_sync(LANES, a[i * together + e], sharing << step)
            mine = int32((warp * queries + i) * state)
            if lane < sharing:
                for e in range(together):
                    sums[mine + lane * together + e] = a[i * together + e]
            if lane == 0:
                sums[mine + width], sums[mine + width + 1] = larger, total

    @cuda.jit(device=True)
    def merge_warps(
        sums, x, g, first_query, count, beams, per_group, turns, lot_bits, nth_range, ranges, partials_XRHX
    ):
        """What all warps have found; a thread for each number of each query."""
        for number in range(int32(cuda.threadIdx.x), int32(count * width), int32(cuda.blockDim.x)):
            n, u = int32(number // width), int32(number % width)
            lot, i = int32(n // queries), int32(n % queries)
            row, head = divide_by_subtraction(int32(first_query + n), per_group)
            larger = LOWEST
            for turn in range(turns):
                place = int32((((turn << lot_bits) + lot) * queries + i) * state)
                larger = max(larger, sums[place + width])
            part, total = float32(0), float32(0)
            for turn in range(turns):
                place = int32((((turn << lot_bits) + lot) * queries + i) * state)
                keep = power_of_two(sums[place + width] - larger)
                total += keep * sums[place + width + 1]
                part += keep * sums[place + u]
            row, head = int32(x * beams + row), int32(g * per_group + head)
            if ranges == 1:
                partials_XRHX[0, row, head, u] = part / total
            else:
                partials_XRHX[nth_range, row, head, u] = part
                if u == 0:
                    partials_XRHX[nth_range, row, head, width] = larger
                    partials_XRHX[nth_range, row, head, width + 1] = total

    def attend(
        q_RHK, k_XGNK, v_XGNK, begin_X, k_RGTK, v_RGTK, table_RT, begin_R, end_R, scale, beams, per_group, tile, ranges,
        lot_bits, partials_XRHX,
    ):  # fmt: skip
        sums = cuda.shared.array(sums_size, float32)
        q = cuda.local.array(q_size, float32)
        a = cuda.local.array(q_size, float32)
        running_max = cuda.local.array(queries, float32)
        running_sum = cuda.local.array(queries, float32)
        row_of = cuda.local.array(queries, int32)
        k = cuda.local.array(words_size, int32)
        v = cuda.local.array(words_size, int32)
        score = cuda.local.array(scores_size, float32)

        G, N, T = int32(k_XGNK.shape[1]), int32(k_XGNK.shape[2]), int32(k_RGTK.shape[2])
        x, g = int32(cuda.blockIdx.x), int32(cuda.blockIdx.y)
        nth_tile, nth_range = divide_by_subtraction(int32(cuda.blockIdx.z), ranges)
        warp, lane = int32(cuda.threadIdx.x >> 5), int32(cuda.threadIdx.x & 31)
        group, first_number = int32(lane // sharing), int32(lane % sharing * together)

        # Which queries this warp serves, and its turn among the warps that serve them.
        first_query = int32(nth_tile * tile)
        count = min(tile, int32(beams * per_group - first_query))
        turn, turns = int32(warp >> lot_bits), int32(cuda.blockDim.x >> 5 >> lot_bits)
        my_first = int32((warp & ((1 << lot_bits) - 1)) * queries)
        row, head = divide_by_subtraction(int32(first_query + min(my_first, int32(count - 1))), per_group)
        row = int32(x * beams + row)
        first_row, longest = row, int32(0)
        for i in range(queries):
            row_of[i] = row
            for step in range(together // 4):
                words = load_16_bytes(q_RHK[row, g * per_group + head], first_number + 4 * step)
                for w in range(4):
                    q[i * together + 4 * step + w] = float_of_bits(words[w])[0] * scale
            for e in range(together):
                a[i * together + e] = float32(0)
            running_max[i], running_sum[i] = LOWEST, float32(0)
            counted = min(row, int32(end_R.size - 1))  # without own positions, there may be fewer numbers
            longest = max(longest, int32(min(int32(end_R[counted]), T) - int32(begin_R[counted])))
            if my_first + i + 1 < count:
                head = int32(head + 1)
                if head == per_group:
                    row, head = int32(row + 1), int32(0)

        # Chunks of positions: first those of the prompt, then those of each row, as many as the longest row has. An end
        # beyond the cache, as after one step too many of a kept graph, is the cache's own.
        begin = int32(begin_X[x]) if N > 0 else int32(0)
        prompt_chunks = int32(int32(N - begin + chunk - 1) >> chunk_bits)
        row_chunks = int32(int32(longest + chunk - 1) >> chunk_bits) if T > 0 else int32(0)
        chunks = int32(prompt_chunks + row_chunks * (row - first_row + 1))
        if my_first >= count or turn >= turns:
            chunks = int32(0)  # a warp too many

        c = int32(nth_range * turns + turn)
        while c < chunks:
            keys, values, own_row = k_XGNK, v_XGNK, int32(-1)
            first, last, base = int32(begin + c * chunk + group), int32(N - 1), int64(int32(x * G + g)) * N
            if c >= prompt_chunks:
                keys, values = k_RGTK, v_RGTK
                nth_row, nth_chunk = divide_by_subtraction(int32(c - prompt_chunks), row_chunks)
                own_row = int32(first_row + nth_row)
                first = int32(begin_R[own_row] + nth_chunk * chunk + group)
                last, base = int32(min(int32(end_R[own_row]), T) - 1), int64(int32(own_row * G + g)) * T

            # Lanes beyond the last position load that one again, and give it no weight.
            for j in range(at_once):
                m = min(int32(first + j * groups), last)
                if own_row >= 0 and has_table:
                    base = int64(int32(int32(table_RT[own_row, m]) * G + g)) * T
                place = base * width + first_number + int32(m * width)
                words_of_k, words_of_v = load_16_bytes(keys, place), load_16_bytes(values, place)
                for w in range(WORDS):
                    k[j * WORDS + w], v[j * WORDS + w] = words_of_k[w], words_of_v[w]
            take_in_chunk(q, k, v, score, first, last, own_row, row_of, running_max, running_sum, a)
            c = int32(c + turns * ranges)

        merge_groups(running_max, running_sum, a, warp, lane, sums)
        cuda.syncthreads()
        merge_warps(sums, x, g, first_query, count, beams, per_group, turns, lot_bits, nth_range, ranges, partials_XRHX)

    attend.__name__ = attend.__qualname__ = f"warps_{width}_{dtype}_{queries}{'_by_table' if has_table else ''}"
    return cuda.jit(launch_bounds=(32 * MOST_WARPS, 1))(attend)


@cuda.jit
def merge_ranges_of_warps(partials_XRHX, a_RX):
    """Joins the ranges' partial results, a thread for each number; a range of which a row sees nothing weighs 0.

    Grid ceil(RHU / 128), block 128. A thread reads 16 bytes a range and writes 4.
    """
    P, R, H, _ = partials_XRHX.shape
    U = a_RX.shape[1] // H
    n = cuda.grid(1)
    if n >= R * H * U:
        return
    r, h, u = n // (H * U), n // U % H, n % U
    larger = LOWEST
    for p in range(P):
        larger = max(larger, partials_XRHX[p, r, h, U])
    a, total = float32(0), float32(0)
    for p in range(P):
        keep = power_of_two(partials_XRHX[p, r, h, U] - larger)
        a += keep * partials_XRHX[p, r, h, u]
        total += keep * partials_XRHX[p, r, h, U + 1]
    a_RX[r, h * U + u] = a / total


def can_load_wide(q_RHK, *caches) -> bool:
    """Whether warps read these well by 16 bytes a lane: keys as wide as values, 4, 8, 16 or 32 loads.

    The heads of small models, of one or two loads, would leave most of a warp to merge what its other lanes found.
    """
    width, itemsize = q_RHK.shape[2], caches[0].itemsize
    loads, rest = divmod(width * itemsize, 16)
    return (
        rest == 0
        and loads in (4, 8, 16, 32)
        and q_RHK.strides[2] == q_RHK.itemsize
        and not any(place % 16 for place in (*q_RHK.strides[:2], address_of(q_RHK)))
        and all(a.shape[3] == width and address_of(a) % 16 == 0 for a in caches)
    )


def launch_warps(
    q_RHK, prompt, generated, scale, a_RX, workspace=None, table_RT=None, *, tile=None, ranges=None, warps=None
):
    """One launch, or two if there are few blocks and many positions.

    prompt: keys, values and begin_X; own: keys, values, begin_R and end_R. tile: queries of a block; ranges: into how
    many ranges the positions are cut; warps of a block: each in place of what is thought best.
    """
    (R, H, K), (X, G, N, _), T = q_RHK.shape, prompt[0].shape, generated[0].shape[2]
    beams, per_group = R // X, H // G
    tile = tile or queries_per_block(X * G, beams * per_group, N + T)
    tiles, queries = -(-beams * per_group // tile), QUERIES if tile > 1 else 1
    partials_XRHX = None if ranges == 1 else scratch_for_ranges(workspace, q_RHK, X, K, X * G * tiles, N + T, ranges)
    found_XRHX = a_RX.reshape(1, R, H, K) if partials_XRHX is None else partials_XRHX
    ranges, lot_bits = len(found_XRHX), (-(-tile // queries) - 1).bit_length()
    chunk = positions_per_turn(K, generated[0].itemsize, queries)
    chunks = -(-N // chunk) + min(beams, queries) * -(-T // chunk)
    most_warps = MOST_WARPS if X * G * tiles * ranges <= FULL else MOST_WARPS // 2  # of whose blocks two fit
    warps = warps or max(1, min(-(-chunks // ranges), most_warps >> lot_bits)) << lot_bits
    kernel = make_attention_kernel(K, generated[0].dtype.name, queries, table_RT is not None)
    table_RT = generated[2].reshape(-1, 1) if table_RT is None else table_RT  # without one, the kernel does not read it
    numbers = map(np.int32, (beams, per_group, tile, ranges, lot_bits))
    launch(
        kernel, (X, G, tiles * ranges), 32 * warps, q_RHK, *prompt, *generated[:2], table_RT, *generated[2:],
        np.float32(scale * LOG2_E), *numbers, found_XRHX,
    )  # fmt: skip
    if partials_XRHX is not None:
        launch(merge_ranges_of_warps, -(-a_RX.size // THREADS), THREADS, partials_XRHX, a_RX)
    return a_RX


def queries_per_block(caches: int, queries: int, positions: int) -> int:
    """How many of a cache's queries a block takes.

    All, so that the cache is read once; one, where there are so few and short caches that most of a GPU would be idle:
    the others then find the cache in L2. Where caches are shorter still, it makes no difference.
    """
    is_short = SHORTEST // 2 <= positions < 2 * SHORTEST and caches * queries <= 2 * FULL
    return 1 if is_short else min(queries, MOST_QUERIES)


def positions_per_turn(width: int, itemsize: int, queries: int) -> int:
    """Positions of a warp's turn."""
    return 32 * 16 // (width * itemsize) * (4 if queries == 1 else 2)


def number_of_ranges(blocks: int, positions: int) -> int:
    """How many ranges to cut the positions into where there are so few blocks otherwise; 1 where there are enough."""
    return max(1, min(FULL // blocks, positions // SHORTEST))


def scratch_for_ranges(workspace, q_RHK, X, width, blocks, positions, ranges=None):
    """partials_XRHX: workspace for the partial results of all ranges; None where the positions are not cut.

    Fewer caches are cut into more ranges each. The workspace is for as many ranges as all caches may have together, so
    that a batch's workspace is enough for the sentences that are left of it.
    """
    (R, H, _), most = q_RHK.shape, number_of_ranges(1, positions)
    if ranges is None:
        ranges = number_of_ranges(blocks, positions)
        if most == 1:
            return None
        together = max(X, min(X * FULL // blocks, X * most))
    else:
        together = X * ranges
    scratch_XXHX = scratch(workspace, (together, R // X, H, width + 2), q_RHK)
    return None if ranges == 1 else scratch_XXHX[: X * ranges].reshape(ranges, R, H, -1)


# Kernels that are compiled and type-checked without a GPU; other widths are made when they are needed.
warps_64_float16_4 = make_attention_kernel(
    64, "float16", 4, False
)  # as a launch asks: the cache goes by arguments as written
warps_64_float16_4_by_table = make_attention_kernel(64, "float16", 4, True)
warps_64_float16_1 = make_attention_kernel(64, "float16", 1, False)
warps_64_float32_4 = make_attention_kernel(64, "float32", 4, False)
warps_128_float16_4 = make_attention_kernel(128, "float16", 4, False)
_NUMBERS, _FOUR_AXES = int64[::1], float32[:, :, :, ::1]


def _signature(cache) -> tuple:
    generated = cache, cache, int64[:, ::1], _NUMBERS, _NUMBERS
    return float32[:, :, :], cache, cache, _NUMBERS, *generated, float32, *5 * (int32,), _FOUR_AXES


_OF_HALVES = (warps_64_float16_4, warps_64_float16_4_by_table, warps_64_float16_1, warps_128_float16_4)
SIGNATURES = {
    **{kernel: [_signature(types.float16[:, :, :, ::1])] for kernel in _OF_HALVES},
    warps_64_float32_4: [_signature(_FOUR_AXES)],
    merge_ranges_of_warps: [(_FOUR_AXES, float32[:, ::1])],
}
REGISTERS = dict.fromkeys(SIGNATURES, 128) | {warps_64_float16_1: 96, merge_ranges_of_warps: 64}
LARGEST_BLOCK = dict.fromkeys(SIGNATURES, 32 * MOST_WARPS) | {merge_ranges_of_warps: THREADS}
