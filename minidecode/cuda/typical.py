"""The tokens of typical surprise, without a sort: a threshold of the distance from the mean, found by histograms.

Weights, and their products with x = max - score, are whole numbers, as in top_p.py: the mean and every sum of weights
is the same, whichever thread adds up what.

1. A block per row. Three passes give the largest score, the mean of x, and the least and largest distance from it. Then
   the range of distances is cut into 64 bins, and weights are added up in shared memory by bins. The bin in which the
   mass is reached becomes the next range, from its least to its largest distance, until that is one: each round is two
   passes over the row, and true rows take three or four. Where `least` tokens must stay, they are found one by one.

Floor: 8RV bytes at 2.4 TB/s; a launch in a graph, 1.1 us. Predicted 310 us for one row of 50,257 scores: 128 threads
read it about 11 times, and a pass took them 28 us in version 1 of softmax.py. Not measured.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, float64, int32, int64

from ..device.launch import launch
from ..reference import scores_to_change
from .common.arrays import require_float32
from .common.ranking import first_of_block, goes_first
from .common.reduction import THREADS, WARPS, block_max
from .common.rows import INFINITY, NOWHERE
from .common.whole_weights import add_warp_sum, weight_in_units

BINS = 64
FARTHEST = float64(np.inf)


def typical_filter(scores_RV, mass, least=1, out=None):
    """Rules out the tokens whose surprise is farthest from the mean, so that those left hold the mass.

    Launches `narrow_to_mass` in R blocks of 128. Reads 16RV bytes, 8RV a round of the histogram, and 4RV for each of
    `least` tokens if they are more than one; writes 4 for each score ruled out.
    """
    scores_RV = scores_to_change(require_float32(scores_RV), out)
    mass_1 = np.full_like(scores_RV, mass, shape=1, dtype=np.float64)
    launch(narrow_to_mass, len(scores_RV), THREADS, scores_RV, mass_1, least)
    return scores_RV


@cuda.jit
def narrow_to_mass(scores_RV, mass_1, least):
    """Narrows the range of distances to the bin in which the mass is reached, until it is one distance.

    Grid R, block 128. Reads 16V bytes a row, 8V a round, and 4V for each of `least` tokens if they are more than one;
    writes 4 for each score ruled out.
    """
    part = cuda.shared.array(WARPS, float32)
    parts = cuda.shared.array(WARPS, float64)
    place = cuda.shared.array(WARPS, int64)
    sums = cuda.shared.array(2, int64)  # of weights, and of their products with x
    weights = cuda.shared.array(BINS, int64)
    chosen = cuda.shared.array(1, int64)  # the bin in which the mass is reached
    r, t, V = cuda.blockIdx.x, cuda.threadIdx.x, scores_RV.shape[1]
    if t < 2:
        sums[t] = 0
    largest = -INFINITY
    for v in range(t, V, THREADS):
        largest = max(largest, scores_RV[r, v])
    largest = block_max(largest, part)
    if not -INFINITY < largest < INFINITY:
        return

    weight, surprise = int64(0), int64(0)
    for v in range(t, V, THREADS):
        mine = weight_in_units(scores_RV[r, v], largest)
        if mine > 0:
            weight += mine
            surprise += int64(float64(mine) * (float64(largest) - float64(scores_RV[r, v])))
    add_warp_sum(sums, 0, weight)
    add_warp_sum(sums, 1, surprise)
    cuda.syncthreads()
    mean = float64(sums[1]) / float64(sums[0])
    need = min(max(int64(1), int64(math.ceil(mass_1[0] * float64(sums[0])))), sums[0])

    nearest, farthest = FARTHEST, -FARTHEST
    for v in range(t, V, THREADS):
        d = distance_from_mean(scores_RV[r, v], largest, mean)
        if d < FARTHEST:  # NaN is nowhere
            nearest, farthest = min(nearest, d), max(farthest, d)
    low, high = -block_max(-nearest, parts), block_max(farthest, parts)
    while low < high:
        per_distance = BINS / (high - low)
        for b in range(t, BINS, THREADS):
            weights[b] = 0
        cuda.syncthreads()
        for v in range(t, V, THREADS):
            d = distance_from_mean(scores_RV[r, v], largest, mean)
            if low <= d <= high:
                cuda.atomic.add(weights, bin_of(d, low, per_distance), weight_in_units(scores_RV[r, v], largest))
        cuda.syncthreads()
        if t == 0:
            b, before = 0, int64(0)
            while b < BINS - 1 and before + weights[b] < need:
                before += weights[b]
                b += 1
            chosen[0], sums[1] = b, before
        cuda.syncthreads()
        need -= sums[1]
        nearest, farthest = FARTHEST, -FARTHEST
        for v in range(t, V, THREADS):
            d = distance_from_mean(scores_RV[r, v], largest, mean)
            if low <= d <= high and bin_of(d, low, per_distance) == chosen[0]:
                nearest, farthest = min(nearest, d), max(farthest, d)
        low, high = -block_max(-nearest, parts), block_max(farthest, parts)

    farthest, column = -FARTHEST, int64(-1)  # of the `least` nearest tokens the last
    for _ in range(least if least > 1 else 0):
        mine, where = -FARTHEST, NOWHERE  # distances with their signs turned: the nearest is the largest
        for v in range(t, V, THREADS):
            d = distance_from_mean(scores_RV[r, v], largest, mean)
            if (d > farthest or (d == farthest and v > column)) and goes_first(-d, v, mine, where):
                mine, where = -d, v
        mine, where = first_of_block(mine, where, parts, place)
        if mine > -FARTHEST:
            farthest, column = -mine, where
    for v in range(t, V, THREADS):
        d = distance_from_mean(scores_RV[r, v], largest, mean)
        if not (d <= high or d < farthest or (d == farthest and v <= column)):
            scores_RV[r, v] = -INFINITY


@cuda.jit(device=True)
def distance_from_mean(score, largest, mean):
    """How far a token's surprise is from the mean, in float64."""
    return abs(float64(largest) - float64(score) - mean)


@cuda.jit(device=True)
def bin_of(distance, low, per_distance):
    """The bin of the histogram in which a distance falls."""
    return min(int32((distance - low) * per_distance), int32(BINS - 1))


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {narrow_to_mass: [(float32[:, ::1], float64[::1], int64)]}
REGISTERS = {narrow_to_mass: 96}  # double precision; few rows sample, so a block may be alone on its SM
