"""Attention of the beams of a sentence over the one cache that they share (FastSeq, section 4.1.2).

The kernels are those of grouped.py, for here too a cache serves several rows: it is the sentence's, not the row's.

1. Scores, softmax and weighted sums are three kernels.
2. A block per row and query head goes over the positions once. The cache is kept once, and yet each beam reads it.
3. A block per sentence and key/value head: what is staged in shared memory serves all beams of the sentence, so that
   it is read once too.
4. Few sentences make few blocks: then each takes a range of the positions, and a second kernel merges.
5. Version 5 of split.py, for rows without positions of their own: warps read the cache by 128-bit loads. Heads whose
   width is no power of two of such loads take version 4.

Floor of version 5: the bytes of keys and values at 2.4 TB/s. BART-large, 4 beams, 1,024 positions in float16: 34 MB,
13.9 us, for 8 sentences; 134 MB, 55 us, for 32. Predicted 18 and 70 us. Measured (H100, 2026-11-26, before that day's
last changes): 18.9 us, 73 %, and 57.3 us, 97 %; 107 % on 1 GB. Version 4 took 183 and 703 us.
"""

from __future__ import annotations

from .common.arrays import filled_scratch
from .common.attention import launch_three_kernels, make_result_array
from .common.cache_attention import launch_block_per_cache, launch_block_per_range, launch_warp_per_head
from .common.warp_attention import can_load_wide, launch_warps


def attend_shared_v1(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    """Attention of the beams of B sentences over one cache each, by three kernels.

    A thread for each score, each row and head, and each number of the answer, in blocks of 128. Reads (4 + s)RHN(K + U)
    bytes for the products and 12RHN for the softmax; writes 12RHN of scores and 4RHU.
    """
    end_B = ends_of_caches(k_BGNK, begin_B)
    return launch_three_kernels(q_RHK, [(k_BGNK, v_BGNU, begin_B, end_B)], scale, out, None, end_B)


def attend_shared_v2(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    """Attention of the beams of B sentences over one cache each, a warp per row and query head.

    Launches `block_per_head` in RH blocks of 32. Each beam reads the cache: sRHN(K + U) bytes. Writes 4RHU.
    """
    return launch_warp_per_head(q_RHK, (k_BGNK, v_BGNU, begin_B, ends_of_caches(k_BGNK, begin_B)), scale, out)


def attend_shared_v3(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    """Attention of the beams of B sentences over one cache each, which a block stages for all of them.

    Launches `block_per_cache` as (BG, ceil(RH / (16BG))) blocks of 128. Reads sBGN(K + U) bytes for each 16 queries.
    """
    return launch_block_per_cache(q_RHK, (k_BGNK, v_BGNU, begin_B, ends_of_caches(k_BGNK, begin_B)), scale, out)


def attend_shared_v4(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None, *, workspace=None):
    """Attention of the beams of B sentences over one cache each, with blocks for ranges of positions.

    Launches `block_per_range` as (BG, blocks of queries, ranges) blocks and `merge_ranges`, of 128. Reads what version
    3 does.
    """
    cache = k_BGNK, v_BGNU, begin_B, ends_of_caches(k_BGNK, begin_B, workspace)
    return launch_block_per_range(q_RHK, cache, scale, out, workspace)


def attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None, *, workspace=None):
    """Attention of the beams of B sentences over one cache each, by warps and 128-bit loads.

    Version 5 (`launch_warps`): reads sBGN(K + U) bytes for each block of queries and writes 4RHU. Version 4 for heads
    of other widths.
    """
    a_RX = make_result_array(q_RHK, (k_BGNK, v_BGNU), out)
    if not can_load_wide(q_RHK, k_BGNK, v_BGNU):
        return attend_shared_v4(q_RHK, k_BGNK, v_BGNU, begin_B, scale, a_RX, workspace=workspace)
    nothing = k_BGNK[:, :, :0], v_BGNU[:, :, :0], begin_B, begin_B  # of which no number is read
    return launch_warps(q_RHK, (k_BGNK, v_BGNU, begin_B), nothing, scale, a_RX, workspace)


def ends_of_caches(k_BGNK, begin_B, workspace=None):
    """Every sentence ends where the cache does; an array, on the device where begin_B is."""
    return filled_scratch(workspace, begin_B.shape, begin_B, k_BGNK.shape[2])
