"""Submissions that go around what is measured, and honest programs near them, which pass.

Each cheat was once graded as right. docs/EXERCISES.md has the threat model.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minidecode.course.exercises import grade, published
from minidecode.course.exercises.exercise import Submission, seed_from_name
from minidecode.course.exercises.find import find

SEED = 3


def skeleton_of(number: int) -> str:
    """The program that is to be made cheaper: right, but wasteful."""
    return find(str(number)).start(SEED)


def answer(number: int, name: str = "solution") -> str:
    exercise = find(str(number))
    return exercise.vary_source(exercise.folder() / f"{name}.py", SEED)


def edited(source: str, *edits: tuple[str, str]) -> str:
    """The source with patterns replaced, each of which is there."""
    for pattern, new in edits:
        source, count = re.subn(pattern, new, source)
        assert count, pattern
    return source


def judged(number: int, source: str, **how):
    exercise = find(str(number))
    return exercise.task.check(Submission(Path(exercise.file_name), source), SEED, **how)


# Loads and stores through atomics

THROUGH_ATOMICS = {  # what is loaded and stored by atomics that change nothing, or that write into NaN
    "11 writes": (11, skeleton_of(11), (r"out\[x, y\] = (a\[y, x\])", r"cuda.atomic.nanmax(out, (x, y), \1)")),
    "11 reads": (11, answer(11, "wrong/strided_reads"), (r"a\[([^]]*)\]", r"cuda.atomic.add(a, (\1), 0)")),
    "12 reads": (12, skeleton_of(12), (r"tile\[t, k\]", "cuda.atomic.add(tile, (t, k), 0)")),
    "12 tile taken out": (12, answer(12, "wrong/tile_taken_out"), (r" a\[([^]]*)\]", r" cuda.atomic.add(a, (\1), 0)")),
    "17": (17, skeleton_of(17), (r"tokens_RM\[([^]]*)\]", r"cuda.atomic.add(tokens_RM, (\1), 0)")),
    "25": (25, skeleton_of(25), (r"x\[r, d\]", "cuda.atomic.add(x, (r, d), 0)")),
    "25 nanmax": (25, skeleton_of(25), (r"x\[r, d\]", "cuda.atomic.nanmax(x, (r, d), float32(-1e30))")),
    "26": (26, answer(26, "wrong/reads_again"), (r" x\[r, k\]", " cuda.atomic.add(x, (r, k), 0)")),
    "26 one lane": (26, answer(26, "wrong/one_lane_works"), (r" x\[r, k\]", " cuda.atomic.add(x, (r, k), 0)")),
}  # fmt: skip


@pytest.mark.parametrize("cheat", THROUGH_ATOMICS)
def test_atomics_are_counted_as_loads_and_stores(cheat):
    number, source, *edits = THROUGH_ATOMICS[cheat]
    verdict = judged(number, edited(source, *edits))
    assert not verdict.ok, "it was graded as right"
    assert "reads and writes: each counts as a load and as a store." in verdict.message, str(verdict)


SUM_BY_ATOMICS = (
    r"(?s)    part\[t\] = mine\n.*?    total = part\[0\]\n",
    "    if t == 0:\n        part[0] = 0\n    cuda.syncthreads()\n    cuda.atomic.add(part, 0, mine)\n"
    "    cuda.syncthreads()\n    total = part[0]\n",
)
HONEST_BESIDE_ATOMICS = {  # atomics where they are of use, and nothing that is measured goes through them
    "11 padded": (11, ("TILE, TILE\\)", "TILE, TILE + 1)"), ("\\n\\n\\n@cuda", "\\nPITCH = TILE + 1\\n\\n\\n@cuda"),
                  ("TILE, TILE \\+ 1", "TILE, PITCH")),
    "11 counts its threads": (11, (r"    tx, ty", "    seen = cuda.shared.array(1, float32)\n    tx, ty"),
                              (r"    if y < a", "    if cuda.threadIdx.x == 0 and cuda.threadIdx.y == 0:\n"
                                                "        seen[0] = 0\n    cuda.syncthreads()\n"
                                                "    cuda.atomic.add(seen, 0, 1)\n    if y < a")),
    "11 another": (11,),
    "12 pad of three": (12, (r"WIDTH \+ 1", "WIDTH + 3")),
    "12 turned": (12, (r"\(ROWS, PITCH\)", "(WIDTH, PITCH)"), (r"PITCH = WIDTH \+ 1", "PITCH = 33"),
                  (r"tile\[r, k\]", "tile[k, r]"), (r"tile\[t, k\]", "tile[k, t]")),
    "12 another": (12,),
    "17 maximum": (17, (r"banned_RV\[r, (.*)\] = 1", r"cuda.atomic.max(banned_RV, (r, \1), 1)")),
    "17 exchange": (17, (r"banned_RV\[r, (.*)\] = 1", r"cuda.atomic.exch(banned_RV, (r, \1), 1)")),
    "17 or": (17, (r"banned_RV\[r, (.*)\] = 1", r"cuda.atomic.or_(banned_RV, (r, \1), 1)")),
    "25 sums": (25, SUM_BY_ATOMICS),
    "25 sums of another": (25, SUM_BY_ATOMICS),
    "25 another": (25,),
    "26 largest": (26, (r"    length = length_R\[r\]\n", "    length = length_R[r]\n    tops = cuda.shared.array(WARPS,"
                        " float32)\n    if lane == 0:\n        tops[cuda.threadIdx.x // 32] = LOWEST\n"
                        "    cuda.syncwarp()\n"),
                   (r"    apart = 16\n", "    cuda.atomic.max(tops, cuda.threadIdx.x // 32, top)\n    apart = 16\n")),
    "26 from the end": (26, (r"for k in range\(lane, length, 32\)", "for k in range(length - 1 - lane, -1, -32)")),
    "26 another": (26,),
}  # fmt: skip


@pytest.mark.parametrize("honest", HONEST_BESIDE_ATOMICS)
def test_honest_atomics_pass(honest):
    number, *edits = HONEST_BESIDE_ATOMICS[honest]
    name = "another" if "another" in honest else "solution"
    verdict = judged(number, edited(answer(number, name), *edits), hidden=7)
    assert verdict.ok, str(verdict)


# Bytes at the peak, set back

SET_BACK = {
    "clear_traces": "__import__('tracemalloc').clear_traces()",
    "reset_peak": "__import__('tracemalloc').reset_peak()",
    "stop and start": "m = __import__('tracemalloc'); m.stop(); m.start()",
    "of modules": "__import__('sys').modules['tracemalloc'].reset_peak()",
    "the compiled one": "__import__('_tracemalloc').reset_peak()",
    "importlib": "__import__('importlib').import_module('tracemalloc').reset_peak()",
}


@pytest.mark.parametrize("way", SET_BACK)
def test_the_bytes_at_the_peak_cannot_be_set_back(way):
    keys = answer(23, "wrong/as_large_as_keys")
    assert judged(23, keys).mistake == "as-large-as-keys"
    verdict = judged(23, edited(keys, (r"    return out_RD", f"    {SET_BACK[way]}\n    return out_RD")))
    assert not verdict.ok and (verdict.mistake == "forbidden" or "KeyError" in verdict.message), str(verdict)
    caught = f"    try:\n        {SET_BACK[way]}\n    except Exception:\n        pass\n    return out_RD"
    assert judged(23, edited(keys, (r"    return out_RD", caught))).mistake == "as-large-as-keys"


AHEAD_OF_THE_CALL = {
    "when the file is read": "ROOM = {t: np.empty((2, 4_000_000), t) for t in ('float32', 'float64')}",
    "in the first call": "ROOM = {}",
    "of bytes": "ROOM = {t: np.frombuffer(bytearray(64_000_000), t).reshape(2, -1) for t in ('float32', 'float64')}",
}


@pytest.mark.parametrize("made", AHEAD_OF_THE_CALL)
def test_room_that_is_made_before_the_call_counts(made):
    """The call on the longest input makes no large array itself."""
    taken = """    kind = h_BND.dtype.name
    if kind not in ROOM:
        ROOM[kind] = np.empty((2, 4_000_000), kind)
    room_k, room_v = (room[: N * K].reshape(N, K) for room in ROOM[kind])
    for b, length"""
    in_room = edited(
        answer(23, "wrong/as_large_as_keys"),
        (r"\ndef attend", f"{AHEAD_OF_THE_CALL[made]}\n\n\ndef attend"),
        (r"    for b, length", taken),
        (r"\((.*w_k_XX\[mine\].T) \+ b_k_D\[mine\]\)", r"np.add(\1, b_k_D[mine], out=room_k)"),
        (r"h_BND\[b\] @ (w_k_XX\[mine\].T)", r"np.matmul(h_BND[b], \1, out=room_k)"),
        (r"\((.*w_v_XX\[mine\].T) \+ b_v_D\[mine\]\)", r"np.add(\1, b_v_D[mine], out=room_v)"),
        (r"h_BND\[b\] @ (w_v_XX\[mine\].T)", r"np.matmul(h_BND[b], \1, out=room_v)"),
    )
    assert judged(23, in_room, hidden=7).mistake == "as-large-as-keys"


NARROW_AND_WIDE = [
    next(seed for seed in range(20) if find("23").task.draw_variation(seed).dtype == dtype)
    for dtype in ("float32", "float64")
]
PIECE_OF = {"keys": r"h_BND\[b, n : n \+ 64\] @ w_k_XX\[mine\]", "values": r"h_BND\[b, n : n \+ 64\] @ w_v_XX\[mine\]"}
USED = {"keys": r"q_RHK\[rows, h\] @ k_XK\.T", "values": r"p_WN\[:, n : n \+ 64\] @ v_XK"}
IN_PIECES = {  # edits of wrong/keys_in_pieces.py and wrong/values_in_pieces.py: {x} is k or v
    "as they are": {},
    "in float64": {"piece": "h_BND[b, n : n + 64].astype(np.float64) @ w_{x}_XX[mine].astype(np.float64)"},
    "in long double": {"piece": "h_BND[b, n : n + 64].astype(np.longdouble) @ w_{x}_XX[mine].astype(np.longdouble)",
                       "step": "16"},
    "scaled": {"piece": "h_BND[b, n : n + 64] @ (w_{x}_XX[mine] / 2**20)", "use": "{used} * 2**20",
               "bias": "b_{x}_D[mine] / 2**20"},
    "scaled in float64": {"piece": "h_BND[b, n : n + 64] @ (w_{x}_XX[mine].astype(np.float64) / 2**600)",
                          "use": "{used} * 2.0**600", "bias": "b_{x}_D[mine] / np.float64(2) ** 600"},
    "reversed": {"piece": "h_BND[b, n : n + 64] @ w_{x}_XX[mine][::-1]", "bias": "b_{x}_D[mine][::-1]",
                 "keys": "q_RHK[rows, h, ::-1] @ k_XK.T", "values": "(p_WN[:, n : n + 64] @ v_XK)[:, ::-1]"},
    "transposed": {"piece": "(w_{x}_XX[mine] @ h_BND[b, n : n + 64].T)"},
    "columns scaled": {"piece": "h_BND[b, n : n + 64] @ (w_{x}_XX[mine] / most(w_{x}_XX[mine])[:, None])",
                       "bias": "b_{x}_D[mine] / most(w_{x}_XX[mine])",
                       "keys": "(q_RHK[rows, h] * most(w_k_XX[mine])) @ k_XK.T",
                       "values": "p_WN[:, n : n + 64] @ v_XK * most(w_v_XX[mine])"},
    "by einsum": {"piece": "np.einsum('nd,kd->kn', h_BND[b, n : n + 64], w_{x}_XX[mine])"},
}  # fmt: skip


@pytest.mark.parametrize("seed", NARROW_AND_WIDE)
@pytest.mark.parametrize("way", IN_PIECES)
@pytest.mark.parametrize("built", ["keys", "values"])
def test_what_is_built_in_pieces_is_seen(built, way, seed):
    """Whatever the type, the scale and the order of the numbers in a piece."""
    exercise, how, x = find("23"), IN_PIECES[way], built[0]
    source = exercise.vary_source(exercise.folder() / f"wrong/{built}_in_pieces.py", seed)
    use = how.get(built) or how.get("use", "{used}").replace("{used}", re.sub(r"\\", "", USED[built]))
    piece = how.get("piece", re.sub(r"\\", "", PIECE_OF[built])).replace("{x}", x)
    source = edited(
        source,
        (USED[built], use),
        (PIECE_OF[built], piece),
        (rf"b_{x}_D\[mine\]\n", how.get("bias", "b_{x}_D[mine]").replace("{x}", x) + "\n"),
        (r"\b64\b", how.get("step", "64")),
        (r"\n\ndef attend", "\n\ndef most(w):\n    return np.abs(w).max(axis=1)\n\n\ndef attend"),
    )
    verdict = exercise.task.check(Submission(Path(exercise.file_name), source), seed, hidden=7)
    assert verdict.mistake == f"{built}-in-pieces", str(verdict)
    assert f"in h W_{x} they do not cancel" in verdict.message, str(verdict)


SCORES = r"q_RHK\[rows, h\] @ w_k_XX\[mine\] @ h_BND\[b\].T"
SUMS = r"p_WN @ h_BND\[b\] @ w_v_XX\[mine\].T"
TOTAL = r" / p_WN.sum(axis=1, keepdims=True)"
UNDIVIDED = (r"            p_WN /= .*\n", "")
TO_BASE_2 = (r"np.exp\(", "np.exp2(")
WITH_THE_OTHER_BRACKETS = {  # sums in other orders, scales at other places: nothing may be lost in any of them
    "divided at the end": [UNDIVIDED, (f"({SUMS})", r"(\1)" + TOTAL)],
    "sums divided": [UNDIVIDED, (SUMS, f"(p_WN @ h_BND[b]{TOTAL}) @ w_v_XX[mine].T")],
    "W_k scaled": [(r"w_k_XX\[mine\]", "(w_k_XX[mine] * np.asarray(1 / np.log(2), h_BND.dtype))"), TO_BASE_2],
    "q scaled": [(r"(q_RHK\[rows, h\])", r"(\1 * np.asarray(1 / np.log(2), h_BND.dtype))"), TO_BASE_2],
    "both scaled": [(r"(q_RHK\[rows, h\])", r"(\1 / np.asarray(K**0.25, h_BND.dtype))"), (r".*np.sqrt\(K\)\n", ""),
                    (r"w_k_XX\[mine\]", "(w_k_XX[mine] / np.asarray(K**0.25, h_BND.dtype))")],
    "einsum": [(SCORES, "np.einsum('wk,kd,nd->wn', q_RHK[rows, h], w_k_XX[mine], h_BND[b], optimize='optimal')"),
               (SUMS, "np.einsum('wn,nd,kd->wk', p_WN, h_BND[b], w_v_XX[mine], optimize='optimal')")],
    "multi_dot": [(SCORES, "np.linalg.multi_dot([q_RHK[rows, h], w_k_XX[mine], h_BND[b].T])"),
                  (SUMS, "np.linalg.multi_dot([p_WN, h_BND[b], w_v_XX[mine].T])")],
    "beam by beam": [(SCORES, "np.stack([h_BND[b] @ (q @ w_k_XX[mine]) for q in q_RHK[rows, h]])"),
                     (SUMS, "np.stack([w_v_XX[mine] @ (p @ h_BND[b]) for p in p_WN])")],
    "number by number": [(SCORES, "sum(q_RHK[rows, h, k : k + 1] * w_k_XX[h * K + k] for k in range(K)) @ h_BND[b].T"),
                         (SUMS, "np.stack([p_WN @ h_BND[b] @ w for w in w_v_XX[mine]], axis=1)")],
    "in blocks": [(SUMS, "sum(p_WN[:, n : n + 64] @ h_BND[b, n : n + 64] for n in range(0, N, 64)) @ w_v_XX[mine].T")],
    "constant kept": [(f"({SCORES})", r"\1 + (q_RHK[rows, h] @ b_k_D[mine])[:, None]")],
}  # fmt: skip


@pytest.mark.parametrize("seed", NARROW_AND_WIDE)
@pytest.mark.parametrize("way", WITH_THE_OTHER_BRACKETS)
def test_the_other_brackets_are_right_however_they_are_written(way, seed):
    exercise = find("23")
    source = edited(exercise.vary_source(exercise.folder() / "solution.py", seed), *WITH_THE_OTHER_BRACKETS[way])
    verdict = exercise.task.check(Submission(Path(exercise.file_name), source), seed, hidden=7)
    assert verdict.ok, str(verdict)


HONEST_BESIDE_THE_PEAK = {  # names that sound alike, memory that is given back, and warnings, which may look for it
    "a function of that name": (r"(    return out_RD)", "    clear_traces = np.zeros(3)\n    clear_traces[:] = 1\n"
                                                        "    tracemalloc = len(clear_traces)\n\\1"),
    "collected": (r"(    return out_RD)", "    __import__('gc').collect()\n\\1"),
    "warned": (r"(    return out_RD)", "    __import__('warnings').warn('mine', ResourceWarning)\n\\1"),
}  # fmt: skip


@pytest.mark.parametrize("honest", HONEST_BESIDE_THE_PEAK)
def test_honest_programs_that_are_measured_pass(honest):
    verdict = judged(23, edited(answer(23), HONEST_BESIDE_THE_PEAK[honest]), hidden=7)
    assert verdict.ok, str(verdict)


# Ranking without `rank`

ARGSORT = "np.argsort(-score_X[lot], kind='stable')"
RANKED_WITHOUT = {
    "once": (r"rank\(score_X\[lot\]\)", f"(rank(score_X[lot]) if b + begin == 0 else {ARGSORT})"),
    "in the first sentence": (r"rank\(score_X\[lot\]\)", f"(rank(score_X[lot]) if b == 0 else {ARGSORT})"),
    "of two numbers": (r"rank\(score_X\[lot\]\)", f"(rank(score_X[:2]), {ARGSORT})[1]"),
    "and not looked at": (r"rank\(score_X\[lot\]\)", f"(rank(score_X[:{5}]), {ARGSORT})[1]"),
    "sorted again": (r"(        score_BC\[b\], index)", "        best = np.argsort(-score_X, kind='stable')[:C]\n\\1"),
    "the best of what is sorted": (r"(        best = np\.arange\(0\))",
                                   "        keep = np.sort(np.argsort(-score_X, kind='stable')[:C])\n"
                                   "        score_X, index_X = score_X[keep], index_X[keep]\n\\1"),
    "the best of what is partitioned": (r"(        best = np\.arange\(0\))",
                                        "        keep = np.sort(np.argpartition(-score_X, C - 1)[:C])\n"
                                        "        score_X, index_X = score_X[keep], index_X[keep]\n\\1"),
}  # fmt: skip


@pytest.mark.parametrize("cheat", RANKED_WITHOUT)
def test_ranking_without_rank_is_seen(cheat):
    verdict = judged(27, edited(answer(27), RANKED_WITHOUT[cheat]))
    assert not verdict.ok and "without `rank`" in verdict.message, str(verdict)
    assert verdict.mistake is None and "none of the mistakes" not in verdict.message


HONEST_BESIDE_RANK = {  # other lots, another order to go through them, and scores on another scale
    "smaller lots": (r"ROOM - C", "ROOM - C - 1"),
    "as probabilities": (r"rank\(score_X\[lot\]\)", "rank(np.exp(score_X[lot] - score_X.max()))"),
    "less the best": (r"rank\(score_X\[lot\]\)", "rank(score_X[lot] - score_X.max())"),
    "a list": (r"rank\(score_X\[lot\]\)", "np.asarray(list(rank(score_X[lot])), int)"),
    "less and less": (r"(            lot = np\.concatenate)",
                      "            if len(best) == C:\n"
                      "                later = np.arange(begin, len(score_X))\n"
                      "                better = later[score_X[later] > score_X[best[-1]]]\n"
                      "                if len(better) <= ROOM - C:\n"
                      "                    lot = np.concatenate([best, better])\n"
                      "                    best = lot[rank(score_X[lot])[:C]]\n"
                      "                    break\n\\1"),
}  # fmt: skip


@pytest.mark.parametrize("honest", HONEST_BESIDE_RANK)
@pytest.mark.parametrize("seed", range(3))
def test_honest_rankings_pass(honest, seed):
    exercise = find("27")
    source = exercise.vary_source(exercise.folder() / "solution.py", seed)
    submission = Submission(Path(exercise.file_name), edited(source, HONEST_BESIDE_RANK[honest]))
    verdict = exercise.task.check(submission, seed, hidden=7)
    assert verdict.ok, str(verdict)


# What is measured, done for show


FOR_SHOW = {  # exercise, program, what is said of it
    "10, a tile that is filled once": (10, """
@cuda.jit
def rotate(out, a):
    tile = cuda.shared.array(TILE, int32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    tile[t] = a[r, t]
    cuda.syncthreads()
    for first in range(0, a.shape[1], TILE):
        out[r, first + t] = a[r, first + (t + SHIFT) % TILE] + 0 * tile[(t + 1) % TILE]
""", "numbers into shared memory."),
    "14, atomics in the place of shared memory": (14, """
@cuda.jit
def below_top(out, x):
    lane = cuda.threadIdx.x % 32
    r = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32
    if r < x.shape[0]:
        top = float32(-math.inf)
        for k in range(lane, x.shape[1], 32):
            top = max(top, x[r, k])
        if lane == 0:
            out[r, 0] = float32(-math.inf)
        cuda.syncwarp()
        cuda.atomic.max(out, (r, 0), top)
        cuda.syncwarp()
        top = out[r, 0]
        cuda.syncwarp()
        for k in range(lane, x.shape[1], 32):
            out[r, k] = x[r, k] - top
""", "32 atomics"),
    "20, the text again in the place of the table": (20, """
def search(E_VD, O_DV, memory_WTD):
    V, steps = len(E_VD), memory_WTD.shape[1]
    tokens_WT, score_W = np.zeros((BEAMS, steps + 1), int), np.full(BEAMS, -(10**9))
    score_W[0] = 0
    for t in range(steps):
        memory_WTD[:, t] = E_VD[tokens_WT[:, t]]
        read_WD = np.einsum("t,wtd->wd", 1 + np.arange(t + 1) % MIX, E_VD[tokens_WT[:, : t + 1]])
        total_WV = score_W[:, None] - read_WD @ O_DV % 97
        best_W = np.argsort(-total_WV, axis=None, kind="stable")[:BEAMS]
        score_W = total_WV.reshape(-1)[best_W]
        tokens_WT = tokens_WT[best_W // V]
        tokens_WT[:, t + 1] = best_W % V
    return tokens_WT, score_W, np.tile(np.arange(BEAMS)[:, None], steps)
""", "the texts are right, but source_WT["),
    "8, one warp of several": (8, """
@cuda.jit
def total(out, a):
    part = cuda.shared.array(32, float32)
    t, r = cuda.threadIdx.x, cuda.blockIdx.x
    if t < 32:
        mine = float32(0)
        for k in range(t, a.shape[1], 32):
            mine += a[r, k]
        part[t] = mine
    cuda.syncthreads()
    half = 16
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[r] = part[0]
""", "one thread loads "),
    "29, sums beyond 64 bits": (29, """
def plan(bytes_X, first_X, end_X):
    offset_X = np.full(len(bytes_X), 2**63 - ALIGNED)
    small_X = bytes_X < ALIGNED
    offset_X[small_X] = ALIGNED * np.arange(small_X.sum())
    return offset_X
""", "offset_X[0] is 9,223,372,036,854,7"),
    "30, a thread for each call": (30, """
def generate(values):
    for value in values:
        if value < 0:
            raise ValueError("this line cannot be done")
        yield value * A % 97


def elsewhere(function, *arguments):
    got = []

    def work():
        try:
            got.append(function(*arguments))
        except ValueError:
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return got


def run(line_X, read, write):
    for k, line in enumerate(line_X.tolist()):
        values = elsewhere(read, line)
        if not values:
            return
        try:
            (result,) = generate(values)
        except ValueError:
            result = -1
        elsewhere(write, k, result)
""", "read is called by"),
    "31, a sum of dot that hardly counts": (31, """
def product(x_RD, w_FD, scale_F, dot):
    step_R = np.abs(x_RD).max(axis=1) / np.float32(LARGEST)
    q_RD = np.rint(x_RD / np.where(step_R > 0, step_R, 1)[:, None])
    one = dot(np.ones((1, 1), np.uint8), np.ones((1, 1), np.int8))
    return q_RD @ w_FD.T.astype(float) * step_R[:, None] * scale_F + 1e-12 * one * step_R[:, None]
""", "never asks `dot` for"),
    "31, one piece of dot": (31, """
def product(x_RD, w_FD, scale_F, dot):
    step_R = np.abs(x_RD).max(axis=1) / np.float32(LARGEST)
    q_RD = np.rint(x_RD / np.where(step_R > 0, step_R, 1)[:, None])
    first = slice(0, min(DEPTH, x_RD.shape[1] - 1))
    u_RD, rest = (q_RD[:, first] + OFFSET).astype(np.uint8), slice(first.stop, None)
    sum_RF = dot(u_RD, w_FD[:, first]) - OFFSET * w_FD[:, first].sum(axis=1, dtype=np.int32)
    return (sum_RF + q_RD[:, rest] @ w_FD[:, rest].T.astype(float)) * step_R[:, None] * scale_F
""", "never asks `dot` for"),
}  # fmt: skip


@pytest.mark.parametrize("cheat", FOR_SHOW)
def test_what_is_done_for_show_is_not_right(cheat):
    number, program, said = FOR_SHOW[cheat]
    seed = 4 if number == 14 else SEED  # with one warp to a block, so that few loads are enough
    exercise = find(str(number))
    source = exercise.vary_source(exercise.folder() / "solution.py", seed)
    head = source[: source.index("# --- end")]  # imports and the variation
    verdict = exercise.task.check(Submission(Path(exercise.file_name), f"{head}# --- end\n{program}"), seed, hidden=7)
    assert not verdict.ok, "it was graded as right"
    assert said in verdict.message, str(verdict)


@pytest.mark.parametrize("seed", range(6))
def test_three_passes_are_too_many_where_the_length_is_loaded_once(seed):
    """What a lane does not load of its row's length is not left over for scores."""
    exercise = find("26")
    source = exercise.vary_source(exercise.folder() / "wrong/reads_again.py", seed)
    once = (
        "    length = 0\n    if lane == 0:\n        length = length_R[r]\n    length = cuda.shfl_sync(ALL, length, 0)\n"
    )
    submission = Submission(Path(exercise.file_name), edited(source, (r"    length = length_R\[r\]\n", once)))
    assert exercise.task.check(submission, seed).mistake == "reads-again"


BY_A_LOGARITHM = """
def attend(score_RN, score_RT, v_BNU, own_v, length_R):
    out = []
    for r, length in enumerate(length_R):
        T = score_RT.shape[1]
        written = slice(0, length) if PADDING == "right" else slice(T - length, T)
        own = own_v[r, written] if LAYOUT == "RTU" else own_v[written, r]
        score = np.concatenate([score_RN[r], score_RT[r, written]])
        p = np.exp(score - np.logaddexp.reduce(score))
        out.append(p[: len(score_RN[r])] @ v_BNU[r // W] + p[len(score_RN[r]) :] @ own)
    return out
"""


@pytest.mark.parametrize("seed", range(8))
def test_a_softmax_may_go_by_the_logarithm_of_its_sum(seed):
    """Which is as large as the scores are, and rounds as they do."""
    exercise = find("18")
    source = exercise.vary_source(exercise.folder() / "solution.py", seed)
    source = f"{source[: source.index('# --- end')]}# --- end\n{BY_A_LOGARITHM}"
    verdict = exercise.task.check(Submission(Path(exercise.file_name), source), seed, hidden=7)
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize(("number", "name"), [(3, "BATCH"), (19, "CACHE_BYTES")])
def test_a_prediction_may_be_a_fraction(number, name):
    """Module `fractions` is among what a file may import."""
    due = find(str(number)).task.expected_outputs(find(str(number)).task.draw_variation(SEED))[name]
    for part, is_right in ((1, True), (3, False)):
        value = f"Fraction({due!r}) / {part}"
        told = edited(skeleton_of(number), (rf"{name} = None", f"from fractions import Fraction\n{name} = {value}"))
        verdict = judged(number, told)
        assert verdict.ok is is_right and "a number is due" not in verdict.message, str(verdict)


TWO_TILES = """
@cuda.jit
def rotate(out, a):
    tiles = cuda.shared.array((2, TILE), int32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(a.shape[1] // TILE):
        tiles[k % 2, t] = a[r, k * TILE + t]
        cuda.syncthreads()
        out[r, k * TILE + t] = tiles[k % 2, (t + SHIFT) % TILE]
"""


def test_two_tiles_by_turns_need_one_barrier_each():
    source = answer(10)
    assert judged(10, f"{source[: source.index('# --- end')]}# --- end\n{TWO_TILES}", hidden=7).ok


@pytest.mark.parametrize(
    ("number", "edit"),
    [
        (4, (r"project\(layer, (.*)\)\n", r"project(h_XD=\1, layer=layer)\n")),
        (27, (r"rank\((score_X\[lot\])\)", r"rank(score_X=\1)")),
        (30, (r"write\(\*result\)", "write(result[0], result=result[1])")),
        (31, (r"dot\((u_RD.*), (w_FD.*)\)\n", r"dot(\1, w=\2)\n")),
        (32, (r"weigh\((score_of.*)\)\n", r"weigh(threshold_R=\1)\n")),
    ],
    ids=lambda v: v if isinstance(v, int) else "",
)
def test_arguments_of_a_function_that_is_given_may_be_named(number, edit):
    verdict = judged(number, edited(answer(number), edit))
    assert verdict.ok, str(verdict)
    other = edited(answer(number), (edit[0], edit[1].replace("h_XD=", "h=").replace("layer=", "l=")
                                    .replace("score_X=", "s=").replace("result=", "r=").replace("w=", "v=")
                                    .replace("threshold_R=", "t=")))  # fmt: skip
    assert "got an unexpected keyword argument" in str(judged(number, other))


@pytest.mark.parametrize(("number", "results"), [(6, r"return (parent_BW, .*)\n"), (7, r"return (tokens_WT, .*)\n")])
def test_several_results_may_come_as_a_list(number, results):
    assert judged(number, edited(answer(number), (results, r"return [\1]\n")), hidden=7).ok


# A published solution in one's own variation


def graded(tmp_path: Path, number: int, source: str) -> grade.Graded:
    """Of a student named ada, whose variation it is."""
    exercise = find(str(number))
    (tmp_path / "ada").mkdir(exist_ok=True)
    (tmp_path / "ada" / exercise.file_name).write_text(source, encoding="utf-8")
    (one,) = grade.grade({"ada": tmp_path / "ada"}, [exercise], hidden=7, per_student=True)
    return one


def of_ada(number: int, name: str = "solution") -> str:
    exercise = find(str(number))
    return exercise.vary_source(exercise.folder() / f"{name}.py", seed_from_name("ada"))


DISGUISED = {  # other names, numbers, comments, texts and types, statements that do nothing, more beside it
    "as it is": (16,), "as it is, NumPy": (15,), "the other one": (6,), "a prediction": (9,),
    "names": (16, (r"\bsame\b", "count"), (r"\bcontext\b", "newest"), (r"\bstart\b", "s"), (r"\blongest\b", "width")),
    "another import": (23, (r"import numpy as np", "import numpy"), (r"\bnp\.", "numpy.")),
    "numbers": (26, (r"-1e30", "-1e31")),
    "comments and texts": (16, (r"        same = 0\n", '        "none"\n\n        same = 0  # mine\n        pass\n')),
    "types": (15, (r"def ban\(tokens_RM, used_R, V\):", "def ban(tokens_RM: np.ndarray, used_R, V: int) -> object:"),
              (r"width = ", "width: int = ")),
    "more beside it": (16, (r"\Z", "\n\ndef unused(a):\n    return a + 1\n")),
}  # fmt: skip


@pytest.mark.parametrize("disguise", DISGUISED)
def test_a_published_solution_is_not_solved(tmp_path, disguise):
    number, *edits = DISGUISED[disguise]
    source = edited(of_ada(number, "another" if disguise == "the other one" else "solution"), *edits)
    one = graded(tmp_path, number, source)
    assert one.result == "published-solution" and one.score == 0, one.message
    assert "apart from names and numbers" in one.message and one.verdict.published in one.message
    assert "1 of 1: published solution" in grade.class_report([one])[0]


OWN = {  # near the published ones, and no student's but this one's
    "leaves early": (16, (r"(?s)        same = 0\n.*?        if same == N - 1:\n", "        is_same = True\n"
                          "        for k in range(N - 1):\n"
                          "            if tokens[r * stride + start + k] != tokens[context + k]:\n"
                          "                is_same = False\n                break\n        if is_same:\n")),
    "while": (16, (r"    for start in range\((.*), (.*), (.*)\):\n", r"    start = \1\n    while start < \2:" "\n"),
              (r"(banned_RV\[.*\] = 1)\n", r"\1" "\n        start += cuda.blockDim.x\n")),
    "a function of its own": (16, (r"(?s)        same = 0\n.*?        if same == N - 1:\n",
                                   "        if alike(tokens, r * stride + start, context):\n"),
                              (r"@cuda.jit\ndef ban", "@cuda.jit(device=True)\ndef alike(tokens, one, two):\n"
                               "    for k in range(N - 1):\n        if tokens[one + k] != tokens[two + k]:\n"
                               "            return False\n    return True\n\n\n@cuda.jit\ndef ban")),
    "windows by hand": (15, (r"(?s)            windows = .*?True\n", "            for start in range(used - N + 1):\n"
                             "                if (text[start : start + N - 1] == text[used - N + 1 :]).all():\n"
                             "                    banned_RV[r, text[start + N - 1]] = True\n")),
}  # fmt: skip


@pytest.mark.parametrize("own", OWN)
def test_an_answer_of_ones_own_is_solved(tmp_path, own):
    number, *edits = OWN[own]
    one = graded(tmp_path, number, edited(of_ada(number), *edits))
    assert one.result == "solved" and one.score == 1 and not one.verdict.published, one.message


@pytest.mark.parametrize("number", [1, 2, 4, 7, 12])
def test_a_short_answer_is_solved_and_told_of(tmp_path, number):
    """There is hardly another one: that it is as published proves nothing."""
    one = graded(tmp_path, number, of_ada(number))
    assert one.result == "solved" and one.score == 1
    assert "/solution.py, apart from names" in one.message and "it is too short to prove" in one.message
    assert "1 of the solved match a published solution, too short" in grade.class_report([one])[0]


def test_a_solution_is_known_again_where_solutions_are_not(tmp_path, monkeypatch):
    """By what the build of the wheel notes of it."""
    exercise = find("16")
    shapes = {Path(exercise.file_name).stem: exercise.published_solutions()}
    (tmp_path / "skeletons").mkdir()
    (tmp_path / "skeletons" / published.NOTED).write_text(published.solutions_as_json(shapes), encoding="utf-8")
    source = of_ada(16)
    monkeypatch.setattr("minidecode.course.exercises.find.HERE", tmp_path)
    monkeypatch.setattr("minidecode.course.exercises.skeleton.CHECKOUT", tmp_path)
    monkeypatch.chdir(tmp_path)
    solutions = exercise.published_solutions()
    assert exercise.folder() is None and published.recognise_solution(source, solutions).file == "solution.py"
    assert published.recognise_solution("this is no Python", solutions) is None


# Thresholds of scores that the submission never has


HALVING = "def threshold(p_R, weigh):\n"
AROUND_WEIGH = {  # what is behind `weigh`, or more than one guess for a row in a call; and what is said of it
    "what it encloses": ("rows = weigh.__closure__[0].cell_contents.function.__self__.scores_RV", "raised"),
    "whose method it is": ("rows = weigh.__self__.scores_RV", "raised AttributeError"),
    "the judge's frame": ("frame = __import__('sys')._getframe()\n    while frame.f_back:\n"
                          "        frame = frame.f_back\n    rows = frame.f_locals['trial'].inputs", "raised KeyError"),
    "objects in memory": ("rows = [o for o in __import__('gc').get_objects() if hasattr(o, 'scores_RV')][0]", "raised"),
    "the reference": ("from minidecode.reference.top_p import weights", "imports minidecode"),
    "many guesses in a call": ("weigh(np.zeros((len(p_R), 1000), DTYPE))", "a threshold for each row, and got"),
    "more rows than there are": ("weigh(np.zeros(1000 * len(p_R), DTYPE))", "a threshold for each row, and got"),
}  # fmt: skip


@pytest.mark.parametrize("way", AROUND_WEIGH)
def test_nothing_but_weigh_tells_of_the_scores(way):
    """Each of these ends with an error; where it did not, the right answer would follow."""
    line, said = AROUND_WEIGH[way]
    verdict = judged(32, edited(answer(32), (re.escape(HALVING), f"{HALVING}    {line}\n")))
    assert not verdict.ok and said in verdict.message, str(verdict)


MORE_CALLS = {  # each is counted where it is answered, in the judge
    "again": "    for _ in range(5):\n        weigh(np.zeros(len(p_R), DTYPE))\n",
    "by another name": "    ask = [weigh][0]\n    for _ in range(5):\n        ask(np.zeros(len(p_R), DTYPE))\n",
    "by a thread": "    for _ in range(5):\n        thread = __import__('threading').Thread(target=weigh, args=(\n"
                   "            np.zeros(len(p_R), DTYPE),))\n        thread.start()\n        thread.join()\n",
}  # fmt: skip


@pytest.mark.parametrize("way", MORE_CALLS)
def test_every_call_of_weigh_is_counted(way):
    source = edited(answer(32), (re.escape(HALVING), HALVING + MORE_CALLS[way]))
    verdict = judged(32, source)
    assert not verdict.ok and verdict.numbers["calls"] == find("32").task.draw_variation(SEED).most + 5, str(verdict)


def test_thresholds_written_down_are_right_for_public_inputs_alone():
    """p is seen, so a file may hold the answer for each p of `check`; the teacher's inputs have others."""
    exercise = find("32")
    v = exercise.task.draw_variation(SEED)
    known = {
        case["p_R"].tobytes(): exercise.task.expected_outputs(v, case).tobytes()
        for case in exercise.task.cases(v, exercise.task.make_rng(SEED))
    }
    source = skeleton_of(32)
    body = f"KNOWN = {known!r}\n\n\n{HALVING}    return np.frombuffer(KNOWN[p_R.tobytes()], DTYPE)\n"
    source = source[: source.index(HALVING)] + body
    assert judged(32, source).ok
    verdict = judged(32, source, hidden=7)
    assert not verdict.ok, "it was graded as right"
    guessed = judged(32, edited(source, (r"KNOWN\[p_R\.tobytes\(\)\]", "KNOWN.get(p_R.tobytes(), bytes(8 * len(p_R)))"),
                                (r", DTYPE\)\n", ", DTYPE)[: len(p_R)]\n")), hidden=7)  # fmt: skip
    assert not guessed.ok and guessed.mistake == "only-public-inputs", str(guessed)
