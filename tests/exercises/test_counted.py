"""Answers that were right by a way around what is asked, each with its kin: the counts and the inputs see them now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minidecode.course.exercises import sandbox
from minidecode.course.exercises.exercise import Submission, Trial
from minidecode.course.exercises.find import find

TREE_HEAD = """
@cuda.jit
def total(out, a):
    part = cuda.shared.array(8, float32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    mine = float32(0)
    for k in range(t, a.shape[1], THREADS):
        mine += a[r, k]
"""
TOP_HEAD = """
ALL = 0xFFFFFFFF


@cuda.jit
def below_top(out, x):
    lane = cuda.threadIdx.x % 32
    r = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if r < x.shape[0]:
        mine = float32(-math.inf)
        for k in range(lane, x.shape[1], 32):
            mine = max(mine, x[r, k])
{}
        for k in range(lane, x.shape[1], 32):
            out[r, k] = x[r, k] - top
"""
SOLVED = """
def append(h_LRTD, length_R, keys, values, project):
    if LAYOUT == "LMRK":
        keys, values = keys.swapaxes(1, 2), values.swapaxes(1, 2)
    rows = np.arange(len(length_R))
    for layer, h_RTD in enumerate(h_LRTD):
        {}
        kept = np.arange(h_RTD.shape[1]) < length_R[:, None]
        h_XD = np.concatenate([h[:n] for h, n in zip(h_RTD, length_R)]).astype(float)
        for memory in (keys, values):
            known = np.concatenate([m[:n] for m, n in zip(memory[layer], length_R)]).astype(float)
            weights = np.linalg.lstsq(h_XD, known, rcond=None)[0]
            memory[layer, rows, length_R] = np.rint(4 * h_RTD[rows, length_R] @ weights) / 4
"""
PARTITIONED = """
def search(logits_RV, base_BW, rank):
    B, V = len(base_BW), logits_RV.shape[1]
    C = 2 * W
    score_BC, index_BC = np.empty((B, C), logits_RV.dtype), np.empty((B, C), np.int64)
    for b in range(B):
        rows = logits_RV[b * W : b * W + W]
        largest = rows.max(axis=1, keepdims=True)
        log_sum = largest + np.log(np.exp(rows - largest).sum(axis=1, keepdims=True))
        score_X = (rows - log_sum + base_BW[b][:, None]).ravel()
        {}
        keep = np.sort(np.argpartition(-score_X, {})[: {}])
        best = keep[rank(score_X[keep])[:C]]
        score_BC[b], index_BC[b] = score_X[best], best
    return score_BC, index_BC
"""
ALL_FOR_SHOW = """group = lambda row: row.reshape(-1, C).T if GROUPING == "interleaved" else row.reshape(C, -1)
        reach = np.concatenate([row >= group(row).max(axis=1).min() for row in rows])
        for begin in range(0, reach.sum(), ROOM):
            rank(score_X[reach][begin : begin + ROOM])"""
IN_FLOATS = """
def product(x_RD, w_FD, scale_F, dot):
    step_R = np.abs(x_RD).max(axis=1) / np.float32(LARGEST)
    q_RD = np.rint(x_RD / np.where(step_R > 0, step_R, 1)[:, None])
    factor = {}
    u_RD = (q_RD + OFFSET).astype(np.uint8)
    for a in {}:
        dot(u_RD[:, a : a + DEPTH], w_FD[:, a : a + DEPTH])
    w = w_FD.T.astype(float)
    return (((q_RD + OFFSET) @ w * factor - OFFSET * w.sum(axis=0)) * step_R[:, None] * scale_F)
"""
PROBED = "float(dot(np.ones((1, 1), np.uint8), np.ones((1, 1), np.int8))[0, 0])"
STARTS = """
@cuda.jit
def ban(banned_RV, tokens, stride, length_R):
    r = {row}
    if r < length_R.shape[0]:
        n = length_R[r]
        newest = tokens[r * stride + n - N + 1]
        for s in range({begin}, n - N + 1, {step}):
            same = tokens[r * stride + s] == newest
            for k in range(1, N - 1):
                if same and tokens[r * stride + s + k] != tokens[r * stride + n - N + 1 + k]:
                    same = False
            if same:
                banned_RV[r, tokens[r * stride + s + N - 1]] = 1


def launch_shape(rows, longest):
    return {shape}
"""
REGISTERS = """
ALL = 0xFFFFFFFF
LOWEST = float32(-1e30)


@cuda.jit
def softmax(out, x, length_R):
    t = cuda.threadIdx.x & 31
    r = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if r < x.shape[0]:
        n = length_R[r]
%s
        top = max(%s)
        for s in (16, 8, 4, 2, 1):
            top = max(top, cuda.shfl_xor_sync(ALL, top, s))
        whole = float32(0)
%s
        for s in (16, 8, 4, 2, 1):
            whole += cuda.shfl_xor_sync(ALL, whole, s)
%s
"""


def in_registers(count: int) -> str:
    """A row in so many variables: right up to 32 times as many columns."""
    names = [f"v{i}" for i in range(count)]
    taken = [f"        {v} = x[r, t + {32 * i}] * float32(SCALE) if t + {32 * i} < n else LOWEST"
             for i, v in enumerate(names)]  # fmt: skip
    summed = [f"        {v} = math.exp({v} - top)\n        whole += {v}" for v in names]
    written = [f"        if t + {32 * i} < x.shape[1]:\n            out[r, t + {32 * i}] = {v} / whole"
               for i, v in enumerate(names)]  # fmt: skip
    return REGISTERS % ("\n".join(taken), ", ".join(names), "\n".join(summed), "\n".join(written))


FEW = "one thread loads|threads load numbers"
AROUND = {  # exercise, program, what is said of it
    "4, weights solved from the memory": (4, SOLVED.format("pass"), "should|right is|never asks"),
    "4, solved, and asked for show": (4, SOLVED.format("project(layer, np.zeros_like(h_RTD[:, 0]))"), "right is|asks"),
    "8, shuffles in turn": (8, TREE_HEAD + """
    whole = float32(0)
    for lane in range(min(32, THREADS - t // 32 * 32)):
        whole += cuda.shfl_sync(0xFFFFFFFF, mine, lane)
    if t % 32 == 0:
        part[t // 32] = whole
    cuda.syncthreads()
    if t == 0:
        for w in range(1, (THREADS + 31) // 32):
            whole += part[w]
        out[r] = whole
""", "the warps of each block shuffle"),
    "8, bits counted by ballots": (8, TREE_HEAD + """
    whole = float32(0)
    units = int(mine * 1024)
    for bit in range(30):
        whole += float32(cuda.popc(cuda.ballot_sync(0xFFFFFFFF, (units >> bit) & 1)) * 2.0 ** bit)
    if t % 32 == 0:
        part[t // 32] = whole / float32(1024)
    cuda.syncthreads()
    if t == 0:
        whole = float32(0)
        for w in range((THREADS + 31) // 32):
            whole += part[w]
        out[r] = whole
""", "votes; a tree needs none|right is"),
    "8, bits counted by barriers": (8, TREE_HEAD + """
    whole = float32(0)
    units = int(mine)
    for bit in range(7):
        whole += float32(cuda.syncthreads_count(int((units >> bit) & 1)) * 2 ** bit)
    if t == 0:
        out[r] = whole
""", "votes; a tree needs none|right is"),
    "8, three rounds at the most": (8, re.sub(r"(?s)    for k in range\(t.*", "", TREE_HEAD).replace(
        "cuda.shared.array(8,", "cuda.shared.array(THREADS,") + """
    for k in range(3):
        if t + k * THREADS < a.shape[1]:
            mine += a[r, t + k * THREADS]
    part[t] = mine
    cuda.syncthreads()
    left = THREADS
    while left > 1:
        half = (left + 1) // 2
        if t + half < left:
            part[t] += part[t + half]
        cuda.syncthreads()
        left = half
    if t == 0:
        out[r] = part[0]
""", "right is"),
    "12, shuffles for the tile": (12, """
@cuda.jit
def product(out, a, w):
    weight = cuda.shared.array(WIDTH, float32)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * 32
    for k in range(t, WIDTH, 32):
        weight[k] = w[k]
    cuda.syncthreads()
    mine = float32(0)
    for r in range(32):
        whole = float32(0)
        for k in range(t, WIDTH, 32):
            whole += a[first + r, k] * weight[k]
        for apart in (16, 8, 4, 2, 1):
            whole += cuda.shfl_xor_sync(0xFFFFFFFF, whole, apart)
        if t == r:
            mine = whole
    out[first + t] = mine
""", "the tile is to be kept"),
    "12, a tile for oneself": (12, """
@cuda.jit
def product(out, a, w):
    tile = cuda.shared.array((32, WIDTH), float32)
    weight = cuda.shared.array(WIDTH, float32)
    sums = cuda.shared.array(32, float32)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * 32
    sums[t] = 0
    for k in range(t, WIDTH, 32):
        weight[k] = w[k]
    cuda.syncthreads()
    for r in range(32):
        whole = float32(0)
        for k in range(t, WIDTH, 32):
            tile[r, k] = a[first + r, k]
            whole += tile[r, k] * weight[k]
        cuda.atomic.add(sums, r, whole)
    cuda.syncthreads()
    out[first + t] = sums[t]
""", "many|needed|too many|the tile is to be kept"),
    "14, votes on whole numbers": (14, TOP_HEAD.format("""
        low, high = -100000, 100000
        while low < high:
            middle = (low + high + 1) // 2
            if cuda.any_sync(ALL, mine >= middle):
                low = middle
            else:
                high = middle - 1
        top = float32(low)"""), "right is|votes"),
    "14, votes until nothing is left to halve": (14, TOP_HEAD.format("""
        low, high = float32(-1e6), float32(1e6)
        for _ in range(80):
            middle = (low + high) / float32(2)
            if cuda.any_sync(ALL, mine > middle):
                low = middle
            else:
                high = middle
        top = high"""), "votes for"),
    "14, whoever has a larger one is told by ballots": (14, TOP_HEAD.format("""
        top = mine
        while cuda.any_sync(ALL, mine > top):
            top = cuda.shfl_sync(ALL, mine, cuda.ffs(cuda.ballot_sync(ALL, mine > top)) - 1)
        for other in range(32):
            top = max(top, cuda.shfl_sync(ALL, mine, other))"""), "votes for|shuffles for|deadlock|do not come"),
    "14, shuffles in turn": (14, TOP_HEAD.format("""
        top = mine
        for other in range(32):
            top = max(top, cuda.shfl_sync(ALL, mine, other))"""), "shuffles for"),
    "14, three numbers to a lane": (14, TOP_HEAD.format("""
        top = mine
        for apart in (16, 8, 4, 2, 1):
            top = max(top, cuda.shfl_xor_sync(ALL, top, apart))""").replace(
        "range(lane, x.shape[1], 32)", "range(lane, min(x.shape[1], 96), 32)"), "was never written|right is"),
    "16, one thread": (16, STARTS.format(row="cuda.blockIdx.x", begin=0, step=1, shape="rows, 1"), FEW),
    "16, a thread for each row": (16, STARTS.format(row="cuda.threadIdx.x", begin=0, step=1, shape="1, rows"),
                                  FEW),
    "16, a thread of many": (16, STARTS.format(row="cuda.blockIdx.x", begin="(0 if cuda.threadIdx.x == 0 else n)",
                                               step=1, shape="rows, THREADS"), FEW),
    "16, four threads": (16, STARTS.format(row="cuda.blockIdx.x", begin="cuda.threadIdx.x", step=4, shape="rows, 4"),
                         FEW),
    "18, side by side for each row": (18, """
def attend(score_RN, score_RT, v_BNU, own_v, length_R):
    out = []
    for r, length in enumerate(length_R):
        T = score_RT.shape[1]
        written = slice(0, length) if PADDING == "right" else slice(T - length, T)
        own = own_v[r, written] if LAYOUT == "RTU" else own_v[written, r]
        score = np.concatenate([score_RN[r], score_RT[r, written]])
        p = np.exp(score - score.max())
        out.append(p @ np.concatenate([v_BNU[r // W], own]) / p.sum())
    return np.array(out)
""", "the prompt's values of a sentence are"),
    "18, the prompt for each beam": (18, """
def attend(score_RN, score_RT, v_BNU, own_v, length_R):
    T = score_RT.shape[1]
    place = np.arange(T) if PADDING == "right" else np.arange(T)[::-1]
    score_RT = np.where(place < length_R[:, None], score_RT, -np.inf)
    own = own_v if LAYOUT == "RTU" else own_v.swapaxes(0, 1)
    top = np.maximum(score_RN.max(1), score_RT.max(1))[:, None]
    p, q = np.exp(score_RN - top), np.exp(score_RT - top)
    v_RNU = v_BNU[np.arange(len(p)) // W]
    out = np.einsum("rn,rnu->ru", p, v_RNU) + np.einsum("rt,rtu->ru", q, own)
    return (out / (p.sum(1) + q.sum(1))[:, None]).astype(DTYPE)
""", "the prompt's values of a sentence are"),
    "26, four registers": (26, in_registers(4), "right is|lies outside|never written"),
    "26, forty registers": (26, in_registers(40), "right is|lies outside|never written"),
    "27, partition and then rank": (27, PARTITIONED.format("pass", "C - 1", "C"), "."),
    "27, a few more than that": (27, PARTITIONED.format("pass", "C + 1", "C + 2"), "chosen away before"),
    "27, as many as there is room for": (27, PARTITIONED.format("pass", "min(ROOM, len(score_X)) - 1", "ROOM"),
                                         "chosen away before"),
    "27, all ranked for show": (27, PARTITIONED.format(ALL_FOR_SHOW, "C + 1", "C + 2"), "chooses by itself"),
    "31, probing `dot`": (31, IN_FLOATS.format(PROBED, "()"), "never asks `dot` for"),
    "31, asked for show, and probed": (31, IN_FLOATS.format(PROBED, "range(0, x_RD.shape[1], DEPTH)"),
                                       "does not follow"),
    "31, a table of all products": (31, IN_FLOATS.format(
        "dot(np.arange(256).astype(np.uint8)[:, None], np.arange(-128, 128).astype(np.int8)[:, None])[1, 129]",
        "range(0, x_RD.shape[1], DEPTH)"), "are the most|does not follow"),
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("way", AROUND)
def test_a_way_around_what_is_asked_is_not_right(way, seed):
    number, program, said = AROUND[way]
    exercise = find(str(number))
    solution = exercise.vary_source(exercise.folder() / "solution.py", seed)
    head = solution[: solution.index("# --- end")]  # imports and the variation
    head = (
        head.replace("from numba import cuda", "import math\n\nfrom numba import cuda") if number in (14, 26) else head
    )
    verdict = exercise.task.check(Submission(Path(exercise.file_name), f"{head}# --- end\n{program}"), seed)
    assert not verdict.ok, "it was graded as right"
    assert re.search(said, verdict.message) and verdict.mistake not in ("forbidden", "types", "cannot-run"), str(
        verdict
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_memory_says_too_little_of_the_weights(seed):
    """Of exercise 4: they have more unknowns than positions that are known; and whoever never asks is seen."""
    task = find("4").task
    v = task.draw_variation(seed)
    for inputs in task.cases(v, task.make_rng(seed)):
        assert inputs["length_R"].sum() < inputs["h_LRTD"].shape[3]
        trial = Trial(inputs, got=task.expected_outputs(v, inputs))
        assert "never asks `project`" in task.find_excess_cost(v, trial).message


# Bytes at the peak, forged within the student's process

FORGED = {
    "the caller's frame": "__import__('sys')._getframe({}).f_locals['self']._memory.reset_peak()",
    "a frame of an error": "error.__traceback__.tb_frame.f_back.f_locals['self']._memory.reset_peak()",
    "other numbers": "__import__('sys')._getframe({}).f_locals['self'].__dict__.update(_memory=type('M', (), dict("
                     "get_traced_memory=lambda s: (0, 0), reset_peak=lambda s: None, _get_traces=lambda s: ()))())",
}  # fmt: skip
HOGS = {
    "keys": (23, "wrong/as_large_as_keys", (r"q_RHK\[rows, h\]", "q_RHK[rows, h]")),
    "products of all positions": (23, "solution",
                                  (r"s_WN = (.*) @ h_BND\[b\].T", r"s_WN = ((\1)[:, None] * h_BND[b]).sum(2)")),
    "caches side by side": (18, "wrong/laid_side_by_side", (r"p_M = ", "p_M = ")),
}  # fmt: skip


def sees_memory() -> bool:
    with sandbox.numpy_sandbox(None) as box:
        box.ask("limits")
        return box.read_resident_and_peak_bytes(forget_peak=True) is not None


@pytest.mark.skipif(not sees_memory(), reason="this system does not say from outside what a process holds")
@pytest.mark.parametrize("way", FORGED)
@pytest.mark.parametrize("hog", HOGS)
def test_bytes_are_seen_from_outside(hog, way):
    number, name, edit = HOGS[hog]
    exercise = find(str(number))
    forged = (
        f"try:\n        1 / 0\n    except ZeroDivisionError as error:\n        {FORGED[way].format(1)}\n    return out"
    )
    source, count = re.subn(r"return out", forged, exercise.vary_source(exercise.folder() / f"{name}.py", 3))
    assert count
    source, count = re.subn(*edit, source)
    assert count
    verdict = exercise.task.check(Submission(Path(exercise.file_name), source), 3)
    assert not verdict.ok and re.search("bytes at its peak|they do not cancel", verdict.message), str(verdict)
