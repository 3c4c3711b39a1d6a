"""Right answers that nobody expects: each goes another way than the published ones, and does what the text asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from minidecode.course.exercises.exercise import Submission
from minidecode.course.exercises.find import find

SUM = """
@cuda.jit
def total(out, a):
    part = cuda.shared.array(THREADS, float32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    mine = float32(0)
    for k in range(t, a.shape[1], THREADS):
        mine += a[r, k]
"""
TILE = """
PLACES = 33 * WIDTH


@cuda.jit
def product(out, a, w):
    tile = cuda.shared.array({shape}, float32)
    weight = cuda.shared.array(WIDTH, float32)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * 32
    for k in range(t, WIDTH, 32):
        weight[k] = w[k]
        for r in range(32):
            tile[{fill}] = a[first + r, k]
    cuda.syncthreads()
    whole = float32(0)
    for k in range(WIDTH):
        whole += tile[{read}] * weight[k]
    out[first + t] = whole
"""
TOP = """
@cuda.jit
def below_top(out, x):
    lane = cuda.threadIdx.x % 32
    r = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if r < x.shape[0]:
        top = float32(-math.inf)
        for k in range({own}):
            top = max(top, x[r, k])
{join}
        for k in range(lane, x.shape[1], 32):
            out[r, k] = x[r, k] - top
"""
OWN = "lane, x.shape[1], 32"
BAN = """
@cuda.jit
def ban(banned_RV, tokens, stride, length_R):
{loop}
            same = True
            for k in range(N - 1):
                if tokens[r * stride + start + k] != tokens[r * stride + length_R[r] - N + 1 + k]:
                    same = False
                    break
            if same:
                banned_RV[r, tokens[r * stride + start + N - 1]] = 1


def launch_shape(rows, longest):
    return {shape}
"""
TWO_PARTS = """
def attend(score_RN, score_RT, v_BNU, own_v, length_R):
    own_RTU = own_v if LAYOUT == "RTU" else own_v.swapaxes(0, 1)
    T = score_RT.shape[1]
    out = []
    for r, length in enumerate(length_R):
        written = slice(0, length) if PADDING == "right" else slice(T - length, T)
{body}
    return np.array(out, DTYPE)
"""
SOFTMAX = """
@cuda.jit
def softmax(out, x, length_R):
    t = cuda.threadIdx.x % 32
    r = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if r < x.shape[0]:
        n = 0
        if t == 0:
            n = length_R[r]
        n = cuda.shfl_sync(0xFFFFFFFF, n, 0)
        top, whole = float32(-1e30), float32(0)
        for k in {first}:
            score = x[r, k] * float32(SCALE)
            higher = max(top, score)
            whole = whole * math.exp(top - higher) + math.exp(score - higher)
            top = higher
{join}
        for k in range(t, x.shape[1], 32):
            out[r, k] = math.exp(x[r, k] * float32(SCALE) - top) / whole if k < n else float32(0)
"""
SEARCH = """
C = 2 * W


def reach(row):
    groups = row.reshape(-1, C).T if GROUPING == "interleaved" else row.reshape(C, -1)
    return np.flatnonzero(row >= groups.max(axis=1).min())


def search(logits_RV, base_BW, rank):
    V = logits_RV.shape[1]
    found = []
    for b, base_W in enumerate(base_BW):
        pool = []
        for w in {beams}:
            row = logits_RV[b * W + w]
            log_V = row - row.max() - np.log(np.exp(row - row.max()).sum()) + base_W[w]
            pool += [(log_V[t], w * V + t) for t in reach(row)]
        found.append({choose})
    score_BC = np.array([[s for s, _ in row] for row in found], logits_RV.dtype)
    return score_BC, np.array([[i for _, i in row] for row in found])


def ranked(pairs, rank):
    return [pairs[i] for i in rank(np.array([s for s, _ in pairs]))]


def lots(pairs, rank):
    best = []
    while pairs:
        lot, pairs = pairs[: ROOM - C], pairs[ROOM - C :]
        best = ranked(sorted(best + lot, key=lambda p: p[1]), rank)[:C]
    return best


def those_that_beat(pairs, rank):
    best, waiting = ranked(pairs[:C], rank), []
    for pair in pairs[C:]:
        if pair[0] > best[-1][0]:
            waiting.append(pair)
        if len(waiting) == ROOM - C:
            best, waiting = ranked(best + waiting, rank)[:C], []
    return ranked(best + waiting, rank)[:C]
"""
RIGHT = {  # exercise, program
    "4, the layers from the last": (4, """
def append(h_LRTD, length_R, keys, values, project):
    for layer in reversed(range(len(h_LRTD))):
        new_R1D = np.take_along_axis(h_LRTD[layer], length_R[:, None, None], axis=1)
        for memory, new_RK in zip((keys, values), project(h_XD=new_R1D[:, 0], layer=layer)):
            rows = memory[layer] if LAYOUT == "LRMK" else memory[layer].transpose(1, 0, 2)
            np.put_along_axis(rows, length_R[:, None, None], new_RK[:, None], axis=1)
"""),
    "4, texts of one length together": (4, """
def append(h_LRTD, length_R, keys, values, project):
    for n in sorted(set(length_R.tolist())):
        rows = np.flatnonzero(length_R == n)
        for layer in range(len(h_LRTD)):
            k, v = project(layer, h_LRTD[layer, rows, n].copy())
            if LAYOUT == "LRMK":
                keys[layer, rows, n], values[layer, rows, n] = k, v
            else:
                keys[layer, n, rows], values[layer, n, rows] = k, v
"""),
    "8, halves until one warp is left": (8, SUM + """
    part[t] = mine
    cuda.syncthreads()
    if t < 32:
        whole = part[t]
        for other in range(t + 32, THREADS, 32):
            whole += part[other]
        for apart in (16, 8, 4, 2, 1):
            whole += cuda.shfl_xor_sync(0xFFFFFFFF, whole, apart)
        if t == 0:
            out[r] = whole
"""),
    "8, a tree of three": (8, SUM + """
    part[t] = mine
    cuda.syncthreads()
    left = THREADS
    while left > 1:
        third = (left + 2) // 3
        if t < third:
            if t + third < left:
                part[t] += part[t + third]
            if t + 2 * third < left:
                part[t] += part[t + 2 * third]
        cuda.syncthreads()
        left = third
    if t == THREADS - 1:
        out[r] = part[0]
"""),
    "12, a tile of one axis": (12, TILE.format(shape="PLACES", fill="k * 33 + r", read="k * 33 + t")),
    "12, columns exchanged by a bit pattern": (12, TILE.format(shape="(32, WIDTH)", fill="r, k ^ r", read="t, k ^ t")),
    "12, a tile that is filled piece by piece": (12, """
@cuda.jit
def product(out, a, w):
    tile = cuda.shared.array((32, 33), float32)
    weight = cuda.shared.array(32, float32)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * 32
    whole = float32(0)
    for begin in range(0, WIDTH, 32):
        weight[t] = w[begin + t]
        for r in range(32):
            tile[r, t] = a[first + r, begin + t]
        cuda.syncthreads()
        for k in range(32):
            whole += tile[t, k] * weight[k]
        cuda.syncthreads()
    out[first + t] = whole
"""),
    "14, from neighbours outwards": (14, TOP.format(own=OWN, join="""
        apart = 1
        while apart < 32:
            top = max(top, cuda.shfl_xor_sync(0xFFFFFFFF, top, apart))
            apart *= 2""")),
    "14, upwards, and from the last lane to all": (14, TOP.format(own=OWN, join="""
        for apart in (1, 2, 4, 8, 16):
            top = max(top, cuda.shfl_up_sync(0xFFFFFFFF, top, apart))
        top = cuda.shfl_sync(0xFFFFFFFF, top, 31)""")),
    "14, round and round": (14, TOP.format(own=OWN, join="""
        for apart in (16, 8, 4, 2, 1):
            top = max(top, cuda.shfl_sync(0xFFFFFFFF, top, (lane + apart) % 32))""")),
    "14, from a row's end": (14, TOP.format(own="x.shape[1] - 1 - lane, -1, -32", join="""
        for apart in (16, 8, 4, 2, 1):
            top = max(top, cuda.shfl_xor_sync(0xFFFFFFFF, top, apart))""")),
    "16, a warp for each row": (16, BAN.format(loop="""
    r = cuda.blockIdx.x
    if r < length_R.shape[0]:
        for start in range(length_R[r] - N - cuda.threadIdx.x, -1, -32):""", shape="rows, 32")),
    "16, all starts of all rows in one go": (16, BAN.format(loop="""
    for place in range(cuda.grid(1), length_R.shape[0] * stride, cuda.gridsize(1)):
        r, start = place // stride, place % stride
        if start + N <= length_R[r]:""", shape="2 * rows, THREADS")),
    "18, each part by its own exponentials": (18, TWO_PARTS.format(body="""
        one, two = score_RN[r], score_RT[r, written]
        top = max(one.max(), two.max())
        whole = np.exp(one - top).sum() + np.exp(two - top).sum()
        out.append(np.exp(one - top) / whole @ v_BNU[r // W] + np.exp(two - top) / whole @ own_RTU[r, written])""")),
    "18, going by the largest so far": (18, TWO_PARTS.format(body="""
        top, whole, mixed = -np.inf, 0.0, np.zeros(v_BNU.shape[2])
        pieces = [(score_RN[r, a : a + 512], v_BNU[r // W, a : a + 512]) for a in range(0, score_RN.shape[1], 512)]
        for score, value in [(score_RT[r, written], own_RTU[r, written]), *pieces]:
            higher = max(top, score.max())
            p = np.exp(score - higher)
            shrink = np.exp(top - higher)
            top, whole, mixed = higher, whole * shrink + p.sum(), mixed * shrink + p @ value
        out.append(mixed / whole)""")),
    "18, scores side by side": (18, TWO_PARTS.format(body="""
        score = np.concatenate([score_RN[r], score_RT[r, written]])
        p = np.exp(score - score.max())
        p /= p.sum()
        N = score_RN.shape[1]
        out.append(np.dot(p[:N], v_BNU[r // W]) + np.einsum("t,tu->u", p[N:], own_RTU[r, written]))""")),
    "26, sums brought down to lane 0": (26, SOFTMAX.format(first="range(t, n, 32)", join="""
        for apart in (16, 8, 4, 2, 1):
            other, part = cuda.shfl_down_sync(0xFFFFFFFF, top, apart), cuda.shfl_down_sync(0xFFFFFFFF, whole, apart)
            higher = max(top, other)
            whole = whole * math.exp(top - higher) + part * math.exp(other - higher)
            top = higher
        top, whole = cuda.shfl_sync(0xFFFFFFFF, top, 0), cuda.shfl_sync(0xFFFFFFFF, whole, 0)""")),
    "26, from a row's end": (26, SOFTMAX.format(first="range(n - 1 - t, -1, -32)", join="""
        highest = top
        for apart in (1, 2, 4, 8, 16):
            highest = max(highest, cuda.shfl_xor_sync(0xFFFFFFFF, highest, apart))
        whole *= math.exp(top - highest)
        for apart in (1, 2, 4, 8, 16):
            whole += cuda.shfl_xor_sync(0xFFFFFFFF, whole, apart)
        top = highest""")),
    "27, from the last token": (27, SEARCH.format(beams="range(W)", choose="lots(pool[::-1], rank)")),
    "27, the most promising beam first": (27, SEARCH.format(beams="np.argsort(-base_W)", choose="lots(pool, rank)")),
    "27, only those that beat the worst so far": (27, SEARCH.format(
        beams="range(W)", choose="those_that_beat(pool, rank)")),
    "31, weights summed up by `dot`": (31, """
def product(x_RD, w_FD, scale_F, dot):
    R, D = x_RD.shape
    step_R = np.abs(x_RD).max(axis=1) / LARGEST
    u_RD = np.full((R + 1, D), 1, np.uint8)
    u_RD[:R] = np.rint(x_RD / np.where(step_R > 0, step_R, 1)[:, None]) + OFFSET
    sums = sum(dot(u_RD[:, a : a + DEPTH], w_FD[:, a : a + DEPTH]) for a in range(0, D, DEPTH))
    return ((sums[:R] - OFFSET * sums[R]) * step_R[:, None] * scale_F).astype(np.float32)
"""),
    "31, a last piece that is filled up": (31, """
def product(x_RD, w_FD, scale_F, dot):
    R, D = x_RD.shape
    more = -D % DEPTH
    step_R = np.abs(x_RD).max(axis=1) / LARGEST
    u_RD = np.rint(x_RD / np.where(step_R > 0, step_R, 1)[:, None]) + OFFSET
    u_RD = np.pad(u_RD, ((0, 0), (0, more)), constant_values=OFFSET).astype(np.uint8)
    w_FD = np.pad(w_FD, ((0, 0), (0, more)))
    sums = np.zeros((R, len(w_FD)), np.int64)
    for u, w in zip(np.split(u_RD, (D + more) // DEPTH, axis=1), np.split(w_FD, (D + more) // DEPTH, axis=1)):
        sums += dot(np.ascontiguousarray(u), np.ascontiguousarray(w))
    return (sums - OFFSET * w_FD.astype(int).sum(axis=1)) * step_R[:, None] * scale_F
"""),
    "31, without the rows of zeros, output by output": (31, """
def product(x_RD, w_FD, scale_F, dot):
    y_RF = np.zeros((len(x_RD), len(w_FD)), np.float32)
    for r in np.flatnonzero(x_RD.any(axis=1)):
        step = np.abs(x_RD[r]).max() / LARGEST
        u_D = (np.rint(x_RD[r] / step) + OFFSET).astype(np.uint8)
        for f, w_D in enumerate(w_FD):
            pieces = [dot(u_D[None, a : a + 16], w_D[None, a : a + 16])[0, 0] for a in range(0, len(u_D), 16)]
            y_RF[r, f] = (sum(map(int, pieces)) - OFFSET * int(w_D.sum(dtype=int))) * step * scale_F[f]
    return y_RF
"""),
}  # fmt: skip


@pytest.mark.parametrize("way", RIGHT)
def test_an_unusual_right_answer_is_right(way):
    number, program = RIGHT[way]
    exercise = find(str(number))
    solution = exercise.vary_source(exercise.folder() / "solution.py", 1)
    head = solution[: solution.index("# --- end")]  # imports and the variation
    verdict = exercise.task.check(Submission(Path(exercise.file_name), f"{head}# --- end\n{program}"), 1, hidden=7)
    assert verdict.ok, str(verdict)
