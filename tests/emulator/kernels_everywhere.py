"""Small kernels that cover every feature: the same file runs in the emulator, in Numba's simulator, and on a GPU."""

from __future__ import annotations

import math

import numpy as np
from kernel_cases import Case, collector, floats, zeros
from numba import cuda, float32, float64, int32, int64, uint8, uint32
from numba.types import float16

CASES: list[Case] = []
case = collector(CASES)
FULL = 0xFFFFFFFF
TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.float32)
INTEGERS = np.array([0, 1, 2, 3, 7, 255, 256, 65535, 2**20 + 5, 2**31 - 1], np.int32)


@cuda.jit(device=True)
def squared(x):
    return x * x


@cuda.jit(device=True)
def norm(x, y):
    return math.sqrt(squared(x) + squared(y))


@case(3, 8, arguments=lambda: (zeros(24, 4, dtype=np.int32),),
      expected=lambda y: np.array([[i, i // 8, i % 8, 24] for i in range(24)]))  # fmt: skip
@cuda.jit
def indices_in_one_dimension(y):
    i = cuda.grid(1)
    y[i, 0] = i
    y[i, 1] = cuda.blockIdx.x
    y[i, 2] = cuda.threadIdx.x
    y[i, 3] = cuda.gridsize(1)


@case((2, 3), (4, 2), arguments=lambda: (zeros(8, 6, dtype=np.int32),),
      expected=lambda y: np.array([[100 * i + j + 1000 * (8 + 6) for j in range(6)] for i in range(8)]))  # fmt: skip
@cuda.jit
def indices_in_two_dimensions(y):
    i, j = cuda.grid(2)
    m, n = cuda.gridsize(2)
    y[i, j] = 100 * i + j + 1000 * (m + n)


@case(
    (2, 1, 2),
    (2, 2, 2),
    arguments=lambda: (zeros(4, 2, 4, dtype=np.int32),),
    expected=lambda y: np.array([[[100 * i + 10 * j + k for k in range(4)] for j in range(2)] for i in range(4)]),
)
@cuda.jit
def indices_in_three_dimensions(y):
    i, j, k = cuda.grid(3)
    x = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    z = cuda.blockIdx.z * cuda.blockDim.z + cuda.threadIdx.z
    if x == i and z == k and cuda.gridDim.z == 2:
        y[i, j, k] = 100 * i + 10 * j + k


@case(2, 32, arguments=lambda: (floats(64), zeros(64)), expected=lambda x, y: x.reshape(2, 32)[:, ::-1].ravel())
@cuda.jit
def static_shared_memory(x, y):
    s = cuda.shared.array(32, float32)
    s[cuda.threadIdx.x] = x[cuda.grid(1)]
    cuda.syncthreads()
    y[cuda.grid(1)] = s[31 - cuda.threadIdx.x]


@case(
    2, 8, 0, 64, arguments=lambda: (floats(16), zeros(16)), expected=lambda x, y: x.reshape(2, 8)[:, ::-1].ravel() * 2
)
@cuda.jit
def dynamic_shared_memory(x, y):
    s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    s[8 + t] = x[cuda.grid(1)]
    cuda.syncthreads()
    y[cuda.grid(1)] = s[7 - t] + s[15 - t]


@case(1, (4, 4), arguments=lambda: (floats(4, 4), zeros(4, 4)), expected=lambda x, y: x.T)
@cuda.jit
def shared_memory_in_two_dimensions(x, y):
    s = cuda.shared.array((4, 5), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    s[i, j] = x[i, j]
    cuda.syncthreads()
    y[j, i] = s[i, j]


@case(1, 8, arguments=lambda: (floats(8), zeros(8)), expected=lambda x, y: TABLE * x + TABLE[::-1])
@cuda.jit
def constant_and_local_arrays(x, y):
    table = cuda.const.array_like(TABLE)
    mine = cuda.local.array((2, 2), float32)
    t = cuda.threadIdx.x
    mine[0, 0] = table[t]
    mine[1, 1] = table[7 - t]
    y[t] = mine[0, 0] * x[t] + mine[1, 1]


@case(1, 32, arguments=lambda: (np.arange(32, dtype=np.int32), zeros(3, dtype=np.int32)),
      expected=lambda x, y: np.array([22, 0, 1]))  # fmt: skip
@cuda.jit
def voting_barriers(x, y):
    t = cuda.threadIdx.x
    count = cuda.syncthreads_count(int32(x[t] >= 10))
    both = cuda.syncthreads_and(int32(x[t] >= 1))
    either = cuda.syncthreads_or(int32(x[t] == 31))
    if t == 0:
        y[0] = count
        y[1] = 1 if both else 0
        y[2] = 1 if either else 0


@case(2, 32, arguments=lambda: (np.arange(64, dtype=np.int32), np.array([0, 0, 99, -99, 7, 0, 0xFF, 0], np.int32)),
      expected=lambda x, y: np.array([x.sum(), -x.sum(), 0, 63, 5, 64, 0x0F, 0]))  # fmt: skip
@cuda.jit
def atomics_on_integers(x, y):
    v = x[cuda.grid(1)]
    cuda.atomic.add(y, 0, v)
    cuda.atomic.sub(y, 1, v)
    cuda.atomic.min(y, 2, v)
    cuda.atomic.max(y, 3, v)
    cuda.atomic.exch(y, 4, 5)
    cuda.atomic.add(y, 5, 1)
    cuda.atomic.and_(y, 6, 0x0F)
    cuda.atomic.xor(y, 7, v)


@case(1, 32, arguments=lambda: (zeros(5, dtype=np.uint32),), expected=lambda y: np.array([32 % 11, 31, 7, 1, 3]))
@cuda.jit
def atomics_that_count_and_swap(y):
    t = cuda.threadIdx.x
    cuda.atomic.inc(y, 0, uint32(10))
    cuda.atomic.or_(y, 1, uint32(t))
    if t == 0:
        cuda.atomic.cas(y, 2, uint32(0), uint32(7))
        cuda.atomic.cas(y, 2, uint32(3), uint32(9))
    if t < 31:
        cuda.atomic.dec(y, 3, uint32(31))
    if t == 1:
        cuda.atomic.compare_and_swap(y[4:], uint32(0), uint32(3))


@case(2, 16, arguments=lambda: (floats(32), np.array([[0, 0], [100, -100]], np.float32)),
      expected=lambda x, y: np.array([[x.sum(), -x.sum()], [x.min(), x.max()]]))  # fmt: skip
@cuda.jit
def atomics_on_floats(x, y):
    v = x[cuda.grid(1)]
    cuda.atomic.add(y, (0, 0), v)
    cuda.atomic.sub(y, (0, 1), v)
    cuda.atomic.min(y, (1, 0), v)
    cuda.atomic.max(y, (1, 1), v)


@case(1, 4, arguments=lambda: (np.array([1, np.nan, 5, -3], np.float32), np.array([np.nan, 0], np.float32)),
      expected=lambda x, y: np.array([5, -3]))  # fmt: skip
@cuda.jit
def atomics_that_pass_over_nan(x, y):
    cuda.atomic.nanmax(y, 0, x[cuda.threadIdx.x])
    cuda.atomic.nanmin(y, 1, x[cuda.threadIdx.x])


@case(1, 10, arguments=lambda: (INTEGERS, zeros(10, 4, dtype=np.int64)),
      expected=lambda x, y: np.array([[int(v).bit_count(), int(f"{int(v):032b}"[::-1], 2), 32 - int(v).bit_length(),
                                       (int(v) & -int(v)).bit_length()] for v in x]))  # fmt: skip
@cuda.jit
def bits(x, y):
    i = cuda.threadIdx.x
    v = uint32(x[i])
    y[i, 0] = cuda.popc(v)
    y[i, 1] = cuda.brev(v)
    y[i, 2] = cuda.clz(v)
    y[i, 3] = cuda.ffs(v)


@case(1, 8, arguments=lambda: (floats(8), zeros(8, 3)),
      expected=lambda x, y: np.stack([x * 2 + 1, np.cbrt(abs(x)), np.where(x > -37, x, 0)], 1), rtol=1e-6)  # fmt: skip
@cuda.jit
def fused_and_selected(x, y):
    i = cuda.threadIdx.x
    y[i, 0] = cuda.fma(x[i], float32(2), float32(1))
    y[i, 1] = cuda.cbrt(abs(x[i]))
    y[i, 2] = cuda.selp(x[i] > -37, x[i], float32(0))


@case(1, 16, arguments=lambda: (np.linspace(0.1, 3, 16, dtype=np.float32), zeros(16, 9)),
      expected=lambda x, y: np.stack([np.exp(x), np.log(x), np.sqrt(x), np.sin(x), np.cos(x), np.tanh(x), np.floor(x),
                                      x**2, np.hypot(x, x)], 1), rtol=1e-5)  # fmt: skip
@cuda.jit
def mathematics(x, y):
    i = cuda.threadIdx.x
    y[i, 0] = math.exp(x[i])
    y[i, 1] = math.log(x[i])
    y[i, 2] = math.sqrt(x[i])
    y[i, 3] = math.sin(x[i])
    y[i, 4] = math.cos(x[i])
    y[i, 5] = math.tanh(x[i])
    y[i, 6] = math.floor(x[i])
    y[i, 7] = x[i] ** 2
    y[i, 8] = norm(x[i], x[i])


@case(
    1,
    8,
    arguments=lambda: (floats(8) / 8, zeros(8, 5, dtype=np.float64)),
    expected=lambda x, y: np.stack([np.trunc(x), np.float16(x), x, np.abs(np.trunc(x)), np.trunc(x * 100)], 1),
)
@cuda.jit
def casts(x, y):
    i = cuda.threadIdx.x
    y[i, 0] = int32(x[i])
    y[i, 1] = float16(x[i])
    y[i, 2] = float64(x[i])
    y[i, 3] = uint8(abs(x[i]))
    y[i, 4] = int64(x[i] * float32(100))


@case(1, 8, arguments=lambda: (np.arange(8, dtype=np.float16), zeros(8, dtype=np.float16)),
      expected=lambda x, y: (x * 2 + np.float16(0.5)).astype(np.float16))  # fmt: skip
@cuda.jit
def half_precision_arrays(x, y):
    i = cuda.threadIdx.x
    y[i] = float32(x[i]) * float32(2) + float32(0.5)


@case(1, 8, arguments=lambda: (floats(8), zeros(8, dtype=np.int8)),
      expected=lambda x, y: np.trunc(x).astype(np.int8))  # fmt: skip
@cuda.jit
def stores_round_to_the_type_of_the_array(x, y):
    y[cuda.threadIdx.x] = int32(x[cuda.threadIdx.x])


@case(1, 8, arguments=lambda: (np.arange(8, dtype=np.int32) - 4, zeros(8, 4, dtype=np.int32)),
      expected=lambda x, y: np.stack([x // 3, x % 3, x >> 1, x << 2], 1))  # fmt: skip
@cuda.jit
def arithmetic_of_integers(x, y):
    i = cuda.threadIdx.x
    y[i, 0] = x[i] // 3
    y[i, 1] = x[i] % 3
    y[i, 2] = x[i] >> 1
    y[i, 3] = x[i] << 2


@case(1, 4, arguments=lambda: (floats(4, 6), zeros(4, 6)), expected=lambda x, y: x[:, ::-1])
@cuda.jit
def rows_and_parts_as_views(x, y):
    row, out = x[cuda.threadIdx.x], y[cuda.threadIdx.x, 1:]
    y[cuda.threadIdx.x, 0] = row[row.shape[0] - 1]
    for k in range(out.size):
        out[k] = row[4 - k]


@case(1, 8, arguments=lambda: (np.arange(8) % 2 == 0, zeros(8)), expected=lambda x, y: np.where(x, 2, 1))
@cuda.jit
def booleans(x, y):
    i = cuda.threadIdx.x
    y[i] = 2 if x[i] else 1


@case(1, 8, arguments=lambda: (floats(8), 3, np.float32(0.5), zeros(8)), expected=lambda x, n, f, y: x * n + f)
@cuda.jit
def scalars_as_arguments(x, n, f, y):
    i = cuda.threadIdx.x
    y[i] = x[i] * float32(n) + f


# From here on what Numba's simulator does not have


@case(1, 32, arguments=lambda: (np.arange(32, dtype=np.int32) * 10, zeros(32, 4, dtype=np.int32)), simulator=False,
      expected=lambda x, y: np.stack([np.full(32, 50), np.r_[x[:3], x[:-3]], np.r_[x[3:], x[-3:]],
                                      x[np.arange(32) ^ 5]], 1))  # fmt: skip
@cuda.jit
def shuffles(x, y):
    t = cuda.threadIdx.x
    y[t, 0] = cuda.shfl_sync(FULL, x[t], 5)
    y[t, 1] = cuda.shfl_up_sync(FULL, x[t], 3)
    y[t, 2] = cuda.shfl_down_sync(FULL, x[t], 3)
    y[t, 3] = cuda.shfl_xor_sync(FULL, x[t], 5)


@case(1, 32, arguments=lambda: (np.arange(32, dtype=np.int32), zeros(32, 6, dtype=np.int64)), simulator=False,
      expected=lambda x, y: np.stack([np.full(32, 0xFFFFFC00), np.zeros(32), np.ones(32), np.zeros(32),
                                      (1 << x.astype(np.int64)) - 1, np.full(32, 0xFFFFFFFF)], 1))  # fmt: skip
@cuda.jit
def votes(x, y):
    t = cuda.threadIdx.x
    y[t, 0] = int64(uint32(cuda.ballot_sync(FULL, x[t] >= 10)))
    y[t, 1] = 1 if cuda.all_sync(FULL, x[t] > 0) else 0
    y[t, 2] = 1 if cuda.any_sync(FULL, x[t] == 7) else 0
    y[t, 3] = 1 if cuda.eq_sync(FULL, x[t] == 7) else 0
    y[t, 4] = int64(uint32(cuda.lanemask_lt()))
    y[t, 5] = int64(uint32(cuda.activemask()))


@case(1, 32, arguments=lambda: (np.arange(32, dtype=np.int32) % 2, zeros(32, 3, dtype=np.int64)), simulator=False,
      expected=lambda x, y: np.stack([np.where(x == 0, 0x55555555, 0xAAAAAAAA), np.zeros(32),
                                      np.full(32, 0xFFFFFFFF)], 1))  # fmt: skip
@cuda.jit
def matches(x, y):
    t = cuda.threadIdx.x
    y[t, 0] = int64(uint32(cuda.match_any_sync(FULL, x[t])))
    mask, _ = cuda.match_all_sync(FULL, x[t])
    same, _ = cuda.match_all_sync(FULL, x[t] * 0)
    y[t, 1] = int64(uint32(mask))
    y[t, 2] = int64(uint32(same))


@case(1, 64, arguments=lambda: (floats(64), zeros(64)), simulator=False,
      expected=lambda x, y: x.reshape(2, 32)[:, ::-1].ravel())  # fmt: skip
@cuda.jit
def syncwarp_and_laneid(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    y[t] = s[t - cuda.laneid + cuda.warpsize - 1 - cuda.laneid]


@case(1, 32, arguments=lambda: (floats(32), zeros(32)), simulator=False,
      expected=lambda x, y: np.where(np.arange(32) < 16, x[np.arange(32) ^ 1], x))  # fmt: skip
@cuda.jit
def a_mask_of_half_the_lanes(x, y):
    t = cuda.threadIdx.x
    y[t] = x[t]
    if t < 16:
        y[t] = cuda.shfl_xor_sync(0xFFFF, x[t], 1)


@case(4, 32, arguments=lambda: (zeros(4), zeros(1, dtype=np.int32), zeros(1)), simulator=False,
      expected=lambda p, c, y: np.array([6.0]))  # fmt: skip
@cuda.jit
def fences(partial, count, y):
    if cuda.threadIdx.x == 0:
        partial[cuda.blockIdx.x] = cuda.blockIdx.x
        cuda.threadfence()
        if cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1:
            cuda.threadfence()
            for k in range(cuda.gridDim.x):
                y[0] += partial[k]


@case(
    1,
    8,
    arguments=lambda: (np.full(8, 100, np.int8), zeros(8, dtype=np.int32)),
    simulator=False,  # its integers stay as narrow as NumPy's, and wrap; on a GPU they do not
    expected=lambda x, y: np.full(8, 10_200),
)
@cuda.jit
def narrow_integers_widen(x, y):
    i = cuda.threadIdx.x
    y[i] = x[i] + x[i] + x[i] * x[i]
