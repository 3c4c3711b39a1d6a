"""Attention of one row over a cache of its own, whose key/value heads may serve several query heads each (MQA).

The kernels take X caches, each of which serves R/X rows. Here X = R; shared.py has a cache for each sentence.

1. Scores, softmax and weighted sums are three kernels. All scores go to global memory and come back, twice.
2. A warp per row and query head goes over the positions once: of the scores only a tile is there at a time, and
   nothing is written but the result. Neighbouring lanes read keys a row apart, and each query head reads them again.
3. A block per memory and key/value head: a tile of keys, then of values, is staged in shared memory, by loads that lie
   side by side, and serves the query heads of the group in all rows of the cache: QUERIES of them at most, further
   ones read it again.
4. Where that makes few blocks and there are many positions, each block takes a range of them and writes what it has
   found there; a second kernel merges. Otherwise version 3; heads that do not fit take version 2.
5. Version 5 of split.py, for rows whose prompt is empty. Heads whose width is no power of two of 128-bit loads take
   version 4.

Floor of version 5: the bytes of keys and values at 2.4 TB/s. Llama 8B, 2,048 positions in float16: 8.4 MB, 3.5 us, for
one row; 134 MB, 55 us, for 16. Multi-query, 128 rows of 128 positions: 8.4 MB, 3.5 us. Predicted by the rules of
__init__.py: 9 us, for 64 blocks are half a GPU and a second launch merges; 74 us, 75 %; 6 us. Measured (H100,
2026-11-26, before that day's last changes): 17.1 us, 20 %; 61.1 us, 91 %; 13.4 us, 26 %. Version 4 took 46, 462 and
62 us.
"""

from __future__ import annotations

from .common.attention import launch_three_kernels, make_result_array
from .common.cache_attention import launch_block_per_cache, launch_block_per_range, launch_warp_per_head
from .common.split_attention import launch_split_with_bias
from .common.warp_attention import can_load_wide, launch_warps


def attend_v1(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None):
    """Attention of R rows over a cache each, by three kernels: scores, softmax, weighted sums.

    A thread for each score, each row and head, and each number of the answer, in blocks of 128. Reads (4 + s)RHM(K + U)
    bytes for the products and 12RHM for the softmax; writes 12RHM of scores and 4RHU. s: bytes of a number of the
    cache.
    """
    return launch_three_kernels(q_RHK, [(k_RGMK, v_RGMU, begin_R, end_R)], scale, out, bias, end_R)


def attend_v2(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    """Attention of R rows over a cache each, a warp per row and query head.

    Launches `block_per_head` in RH blocks of 32. Reads sRHM(K + U) bytes and writes 4RHU.
    """
    return launch_warp_per_head(q_RHK, (k_RGMK, v_RGMU, begin_R, end_R), scale, out)


def attend_v3(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    """Attention of R rows over a cache each, a block per cache and key/value head.

    Launches `block_per_cache` as (RG, ceil(H / (16G))) blocks of 128. Reads sRGM(K + U) bytes and writes 4RHU. Heads
    that do not fit take version 2.
    """
    return launch_block_per_cache(q_RHK, (k_RGMK, v_RGMU, begin_R, end_R), scale, out)


def attend_v4(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None, *, workspace=None):
    """Attention of R rows over a cache each, with blocks for ranges where blocks are few and positions many.

    Launches `block_per_range` as (RG, ceil(H / (16G)), ranges) blocks and `merge_ranges`, of 128. Reads sRGM(K + U)
    bytes.
    """
    return launch_block_per_range(q_RHK, (k_RGMK, v_RGMU, begin_R, end_R), scale, out, workspace)


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None, *, workspace=None):
    """Attention of R rows over a cache each, by warps that read keys and values with 128-bit loads.

    Version 5 (`launch_warps`): reads sRGM(K + U) bytes and writes 4RHU. Version 4 for heads of other widths; with a
    position bias, `launch_split_with_bias`.
    """
    cache = k_RGMK, v_RGMU, begin_R, end_R
    no_prompt = k_RGMK[:, :, :0], v_RGMU[:, :, :0], begin_R  # each row is a sentence whose prompt is empty
    if bias is not None:
        return launch_split_with_bias(q_RHK, *no_prompt, *cache, scale, bias, out)
    a_RX = make_result_array(q_RHK, (k_RGMK, v_RGMU), out)
    if not can_load_wide(q_RHK, k_RGMK, v_RGMU):
        return attend_v4(q_RHK, *cache, scale, a_RX, workspace=workspace)
    return launch_warps(q_RHK, no_prompt, cache, scale, a_RX, workspace)
