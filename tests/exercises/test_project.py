"""The course project: ours passes every stage, known mistakes are named, counts cannot be hidden, files are kept."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from minidecode.course.exercises import skeleton
from minidecode.course.project import checkpoint, elsewhere
from minidecode.course.project.check import verdict_on_stage
from minidecode.course.project.engine import Engine
from minidecode.course.project.rules import broken_rules
from minidecode.course.project.skeleton import engine_skeleton
from minidecode.course.project.stages import STAGES, Kit, why_too_many_bytes
from minidecode.course.project.weights import WeightError, Weights
from minidecode.device.blas_threads import few_blas_threads

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = (ROOT / "exercises" / "engine" / "solution.py").read_text("utf-8")
MISTAKES = [  # stage, what the solution says, what a student wrote instead, what the message says
    (1, "causal(len(ids)))\n\n    return", "None)\n\n    return", "causal mask"),
    (1, "+ model.wpe[: len(ids)]\n\n    def", "+ model.wpe[1 : len(ids) + 1]\n\n    def", "compare the layers"),
    (1, "/ np.float32(math.sqrt(K))\n    if", "\n    if", "sqrt(K)"),
    (1, "0.5 * x * (1 + np.tanh", "0.5 * x * (1 - np.tanh", "GELU"),
    (2, "ids = list(ids)\n    for", "for", "changed the list"),
    (2, ".argmax()))\n    return ids", ".argmin()))\n    return ids", "are the likeliest"),
    (3, "model.wpe[cache.length]", "model.wpe[cache.length - 1]", "its position that of the next"),
    (3, "            self.keep(number, k, v)\n            return self.attend(number, q)",
     "            found = self.attend(number, q) if self.own[number] else attend(q, *self.prompt[number])\n"
     "            self.keep(number, k, v)\n            return found", "attend to itself"),
    (3, "    cache.length += 1\n", "", "count positions on"),
    (3, "    x_RD = model.wte[list(ids)] + model.wpe[cache.length]\n",
     "    x_RD = model.wte[list(ids)] + model.wpe[cache.length]\n    forward(model, [0] * cache.length)\n",
     "one is new"),
    (3, "return logits_of(model, h_TD[-1]), cache\n    # --- end\n\n\ndef step",
     "forward(model, ids)\n    return logits_of(model, h_TD[-1]), cache\n    # --- end\n\n\ndef step",
     "the prompt has"),
    (3, "cache.prompt[number] = k, v\n", "cache.prompt[number] = k, v\n        cache.more = getattr(cache, 'more', [])"
     " + [k.copy()]\n", "are enough"),
    (3, "np.float32(math.sqrt(2 / math.pi))", "np.sqrt(2 / math.pi)", "is float64"),
    (3, "cache.prompt[number] = k, v\n", "cache.prompt[number] = [np.stack([a, a])[0] for a in (k, v)]\n",
     "parts of larger ones"),
    (4, "        cache = reorder(cache, parents)\n", "", "is the cache reordered"),
    (3, "    logits, cache = begin(model, ids)\n    said = [int(logits.argmax())]\n",
     "    return greedy(model, ids, count)\n    said = []\n", "generate sends"),
    (4, "scores[:, None] + log_softmax", "log_softmax", ""),
    (4, "return cache.of_rows(lambda part: part[list(parents)])", "return cache", "is the cache reordered"),
    (5, "rows.append(attend(q_RHK[r : r + 1], k, v))", "rows.append(attend(q_RHK[r : r + 1], k[: self.length - 2], v[:"
     " self.length - 2]) if len(q_RHK) > 1 and self.prompt[0] is None else attend(q_RHK[r : r + 1], k, v))",
     "step after repeat"),
    (5, "return cache.of_rows(lambda part: part)", "return repeat(cache, rows)", "to be held once"),
    (5, "return cache.of_rows(lambda part: part[list(parents)])", "return cache", "then reorder was called"),
    (6, "range(len(row) - n + 1):\n            if", "range(len(row) - n):\n            if",
     "in the row [5, 5], with n = 2"),
    (6, "row[start : start + n - 1] == last", "row[start : start + n] == last", "is to be banned"),
    (7, 'side="right"', 'side="left"', "should draw"),
    (7, "np.searchsorted(sums, p)) + 1]", "np.searchsorted(sums, p))]", ""),
    (7, "np.cumsum(probability[kept]) / probability[kept].sum()", "np.cumsum(probability[kept])", "should draw"),
    (8, "groups, H // groups, model.K).mean(2)", "H // groups, groups, model.K).mean(1)", "neighbouring heads"),
    (8, "bias = w.bias.reshape(groups, H // groups, model.K).mean(1).ravel()",
     "bias = w.bias.reshape(groups, H // groups, model.K)[:, 0].ravel()", "of biases"),
    (9, " + layer.v.bias)", ")", "value's bias adds"),
    (9, "moved_RHD = np.einsum(\"rhk,dhk->rhd\", q_RHK, w_k) / np.float32(math.sqrt(K))",
     "moved_RHD = np.einsum(\"rhk,dhk->rhd\", q_RHK, w_k)", "step after prefill_el"),
    (9, "        moved_RHD =",
     "        for h_MD in own_RMD:\n            product(np.tile(h_MD, (9, 1)), layer.up)\n        moved_RHD =",
     "move the query"),
    (9, "cache.prompt[number] = h_TD\n", "cache.prompt[number] = h_TD\n        cache.k = getattr(cache, 'k', [])"
     " + [h_TD.copy()]\n", "are enough"),
    (10, "scores_V >= maxima", "scores_V > maxima", "those equal to the threshold stay"),
    (10, "scores_V >= maxima[-count])", "scores_V >= maxima[-count])[::-1]", "equal scores by id"),
    (10, "ids = np.flatnonzero(scores_V >= maxima[-count])", "ids = np.arange(len(scores_V))", "hars ranks"),
    (11, ".ravel() * layer.v.scale", ".ravel()", "step after prefill_el of quantize"),
    (11, "np.abs(w.data).max(0)", "np.abs(w.data).max()", "a scale for each output"),
    (11, "np.rint(w.data / scale).astype", "np.trunc(w.data / scale).astype", "rounding to the nearest"),
    (11, "np.rint(w.data / scale).astype(np.int8)", "np.rint(w.data / scale)", "are enough"),
    (12, "            score += sums[i]\n        cuda.syncthreads()", "            score += sums[i]",
     "no barrier between"),
    (12, "mixed = mixed * shrink", "mixed = mixed", "should be"),
    (12, "new = max(highest, score)", "new = float32(0)", "take the largest off first"),
    (12, "out_RK[r, lane] = mixed / total", "out_RK[r, lane] = mixed / total\n        q_RK[r, lane] = 0",
     "nothing but out_RK may be written"),
    (12, "    return out_RK\n", "    return 2 * out_RK\n", "attend_step gives something else"),
    (12, "r, lane = cuda.blockIdx.x, cuda.threadIdx.x",
     "r, lane = cuda.blockIdx.x, cuda.threadIdx.x\n    out_RK[0, 0] = 0", "nothing orders blocks"),
]  # fmt: skip


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    checkpoint.write_checkpoint(folder, None)
    return folder


@pytest.fixture(scope="module")
def known():
    """What our model says, for all tests: computed once."""
    return {}


def judged(source, number, folder, path, known):
    path.write_text(source, encoding="utf-8")
    with closing(Engine(path, folder)) as engine, few_blas_threads(True):
        return verdict_on_stage(STAGES[number], Kit(engine, 5, _known=known))


@pytest.mark.parametrize("number", STAGES)
def test_ours_passes_every_stage(number, published, tmp_path, known):
    found = judged(SOLUTION, number, published, tmp_path / "engine.py", known)
    assert found["state"] == "passed", found


@pytest.mark.parametrize(("number", "said", "instead", "message"), MISTAKES, ids=lambda v: v if type(v) is int else "")
def test_a_known_mistake_is_found_and_named(number, said, instead, message, published, tmp_path, known):
    assert SOLUTION.count(said) == 1
    found = judged(SOLUTION.replace(said, instead), number, published, tmp_path / "engine.py", known)
    assert found["state"] == "wrong" and message in found["message"], found
    assert not re.match(r"line \d+, in", found["message"]), "an error in place of a verdict"


def test_a_step_with_hidden_states_may_make_the_new_row_s_key_and_value(published, tmp_path, known):
    """As an engine does that keeps queries, keys and values in one matrix."""
    said = "q_RHK = product(h_RD, layer.q).reshape(len(h_RD), -1, model.K)"
    assert SOLUTION.count(said) == 1
    whole = SOLUTION.replace(said, "q_RHK = project(model, layer, h_RD)[0]")
    found = judged(whole, 9, published, tmp_path / "engine.py", known)
    assert found["state"] == "passed", found


def test_an_error_says_what_the_function_was_given(published, tmp_path, known):
    wrong = SOLUTION.replace("range(len(row) - n + 1):\n            if", "range(len(row) - n + 2):\n            if")
    found = judged(wrong, 6, published, tmp_path / "engine.py", known)
    assert found["state"] == "wrong" and "IndexError" in found["message"] and "(rows = [[" in found["message"], found


WITHOUT_A_CACHE = """
def prefill(model, ids):
    return of_text(model, ids), SimpleNamespace(texts=[list(ids)], some=np.zeros(9))


def step(model, cache, ids):
    for text, token in zip(cache.texts, ids, strict=True):
        text.append(int(token))
    return np.stack([of_text(model, text) for text in cache.texts])


def repeat(cache, rows):
    return reorder(cache, [0] * rows)


def reorder(cache, parents):
    return SimpleNamespace(texts=[list(cache.texts[parent]) for parent in parents], some=cache.some)


split, prefill_el = repeat, prefill
"""
WAYS_TO_HIDE = {  # all of the text goes through the layers again, and nothing of it is counted
    "kept from earlier calls": """
KNOWN = {}


def of_text(model, ids):
    key = tuple(map(int, ids))
    if key not in KNOWN:
        KNOWN[key] = forward(model, ids)[-1]
    return KNOWN[key]
""",
    "by a copy of the weights": """
PLAIN = {}


def copied(part):
    if isinstance(part, np.ndarray):
        return np.array(part)
    if isinstance(part, SimpleNamespace):
        return SimpleNamespace(**{name: copied(inner) for name, inner in vars(part).items()})
    return [copied(inner) for inner in part] if isinstance(part, (list, tuple)) else part


def of_text(model, ids):
    if id(model) not in PLAIN:
        PLAIN[id(model)] = copied(model)
    return forward(PLAIN[id(model)], ids)[-1]
""",
}


@pytest.mark.parametrize("way", WAYS_TO_HIDE)
@pytest.mark.parametrize("number", [3, 4, 5, 9])
def test_work_and_bytes_that_are_hidden_do_not_pass(number, way, published, tmp_path, known):
    """Caches that hold the text alone; the forward pass is right."""
    parts = {name: SOLUTION.index(f"def {name}(") for name in ("generate", "repeat", "beam_search")}
    ours = SOLUTION[parts["generate"] : parts["repeat"]] + SOLUTION[parts["beam_search"] : SOLUTION.index("# Stage 5")]
    source = SOLUTION[: SOLUTION.index("# Stage 3")] + WAYS_TO_HIDE[way] + WITHOUT_A_CACHE + "\n\n" + ours
    path = tmp_path / "engine.py"
    path.write_text(source, encoding="utf-8")
    with closing(Engine(path, published)) as engine, few_blas_threads(True):
        found = verdict_on_stage(STAGES[number], Kit(engine, 5, _known=known))
    assert found["state"] == "wrong", found
    assert re.search("no results from|numbers out of|rows through|as much as|are enough", found["message"]), found


NOT_BY_RANK = {
    "argsort of an array": "best = (-scores_V).argsort(kind='stable')[:count]",
    "argsort of a plain array": "best = np.argsort(-np.asarray(scores_V), kind='stable')[:count]",
    "lexsort": "best = np.lexsort((np.arange(len(scores_V)), -scores_V))[:count]",
    "sorted": "best = np.array(sorted(range(len(scores_V)), key=lambda i: (-scores_V[i], i))[:count])",
    "a partition before": "few = np.sort(np.argsort(-scores_V, kind='stable')[: count + 3])\n"
                          "    best = few[rank(scores_V[few])[:count]]",
    "all ranked for show": "reach = np.sort([p.max() for p in np.array_split(scores_V, groups)])[-count]\n"
                           "    rank(scores_V[scores_V >= reach])\n"
                           "    few = np.argsort(-scores_V, kind='stable')[:count]\n"
                           "    best = few[np.sort(rank(scores_V[few]))]",
}  # fmt: skip


@pytest.mark.parametrize("way", NOT_BY_RANK)
def test_what_is_not_ranked_by_rank_is_seen(way, published, tmp_path, known):
    head, rest = SOLUTION.split("    pieces = np.array_split(scores_V, groups)\n")
    tail = rest[rest.index("    return scores_V[best], best") :]
    found = judged(f"{head}    {NOT_BY_RANK[way]}\n{tail}", 10, published, tmp_path / "engine.py", known)
    assert found["state"] == "wrong" and re.search("ranked by|without `rank`", found["message"]), found


def test_what_passes_the_threshold_may_be_ranked_in_other_ways(published, tmp_path, known):
    said = "best = ids[rank(scores_V[ids])[:count]]"
    assert SOLUTION.count(said) == 1
    whole = SOLUTION.replace(said, "best = np.array([ids[i] for i in list(rank(scores_V[ids].tolist()))[:count]])")
    by_rank = SOLUTION.replace(
        "maxima = np.sort(np.array([piece.max() for piece in pieces]))",
        "maxima = np.array([piece.max() for piece in pieces])\n    maxima = maxima[rank(maxima)[::-1]]",
    )
    lots = SOLUTION.replace(said, "best = ids[:0]\n    for a in range(0, len(ids), 50):\n"
                            "        lot = np.append(best, ids[a : a + 50])\n"
                            "        best = lot[rank(scores_V[lot])[:count]]")  # fmt: skip
    for own in (whole, by_rank, lots):
        assert own != SOLUTION
        found = judged(own, 10, published, tmp_path / "engine.py", known)
        assert found["state"] == "passed", found


def test_load_reads_the_folder_that_it_is_given(published, tmp_path, known):
    """Not one that the engine's author knows, nor numbers in the engine."""
    elsewhere = SOLUTION.replace("config = json", f"folder = {str(published)!r}\n    config = json")
    found = judged(elsewhere, 1, published, tmp_path / "engine.py", known)
    assert found["state"] == "wrong" and "an exercise reads no files" in found["message"], found


def test_a_kernel_that_numba_would_refuse_does_not_pass(published, tmp_path, known):
    begin, end = SOLUTION.index("    r, lane = cuda.blockIdx.x"), SOLUTION.index("def attend_step")
    body = (
        "    r, lane = cuda.blockIdx.x, cuda.threadIdx.x\n    if lane == 0:\n"
        "        k, v = (np.array([[a[m, i] for i in range(k_MK.shape[1])] for m in range(len(k_MK))])"
        " for a in (k_MK, v_MK))\n"
        "        q = np.array([q_RK[r, i] for i in range(k_MK.shape[1])])\n"
        "        out = softmax(k @ q / math.sqrt(len(q))) @ v\n"
        "        for i in range(k_MK.shape[1]):\n            out_RK[r, i] = out[i]\n\n\n"
    )
    found = judged(SOLUTION[:begin] + body + SOLUTION[end:], 12, published, tmp_path / "engine.py", known)
    assert found["state"] == "wrong" and "has no place in a kernel" in found["message"], found


def test_ours_is_short_and_each_stage_has_functions():
    code = [line for line in SOLUTION.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(code) <= 350
    assert all(f"def {name}(" in SOLUTION for stage in STAGES.values() for name in stage.functions)


def test_the_skeleton_has_no_answer_and_begins_nowhere(published, tmp_path, known):
    skeleton = engine_skeleton()
    assert "einsum" not in skeleton and "argsort" not in skeleton and skeleton.count("NotImplementedError") >= 14
    for number in (1, 6, 7, 10):
        found = judged(skeleton, number, published, tmp_path / "engine.py", known)
        assert found["state"] == "not begun" and found["message"].startswith("line "), found


@pytest.mark.parametrize("student", ["ada", "bob", "cleo", "dan"])
def test_a_variation_computes_the_same_function_under_other_names(student, tmp_path):
    """Read back by its own description, it is tiny-gpt2 with another order of channels."""
    from safetensors.numpy import load_file

    checkpoint.write_checkpoint(tmp_path / "v", student)
    checkpoint.write_checkpoint(tmp_path / "again", student)
    tensors, config = (
        load_file(tmp_path / "v" / "model.safetensors"),
        json.loads((tmp_path / "v" / "config.json").read_text()),
    )
    assert all(np.array_equal(t, load_file(tmp_path / "again" / "model.safetensors")[n]) for n, t in tensors.items())
    layout = (tmp_path / "v" / "LAYOUT.txt").read_text()
    names = re.findall(r"^(\S+)\.weight", layout, re.MULTILINE)
    assert {n.format() for n in tensors} == {
        f"{name.replace('I', str(i), 1) if 'I' in name else name}.{part}" for name in names
        for i in (range(config["n_layer"]) if "I" in name else [0])
        for part in (["weight"] if name in names[:2] else ["weight", "bias"])
    }  # fmt: skip
    renamed = engine_for(names, "each head" in layout, "W.T" in layout)
    engine = tmp_path / "engine.py"
    found = judged(renamed, 1, tmp_path / "v", engine, {})
    assert found["state"] == "passed", found
    assert judged(SOLUTION, 1, tmp_path / "v", engine, {})["state"] == "wrong"


def engine_for(names, by_head, turned):
    """Ours, which reads a variation: its tensors are given the published names first."""
    wte, wpe, ln_1, attention, out, ln_2, up, down, ln_f = names
    old = {wte: "wte", wpe: "wpe", ln_f: "ln_f", ln_1: "h.I.ln_1", attention: "h.I.attn.c_attn", out: "h.I.attn.c_proj",
           ln_2: "h.I.ln_2", up: "h.I.mlp.c_fc", down: "h.I.mlp.c_proj"}  # fmt: skip
    return SOLUTION.replace(
        "    def linear(name):\n",
        f"    renamed = {{}}\n    for name, old in {old!r}.items():\n"
        "        for i in range(config['n_layer']):\n"
        "            for part in ('weight', 'bias'):\n"
        "                here = name.replace('I', str(i), 1) + '.' + part\n"
        "                if here in tensors:\n"
        "                    t = tensors[here]\n"
        f"                    if t.ndim == 2 and old not in ('wte', 'wpe') and {turned}:\n"
        "                        t = t.T\n"
        f"                    if old.endswith('c_attn') and {by_head}:\n"
        "                        t = t.reshape(t.shape[:-1] + (config['n_head'], 3, -1)).swapaxes(-3, -2)\n"
        "                        t = t.reshape(t.shape[:-3] + (-1,))\n"
        "                    renamed[old.replace('I', str(i)) + '.' + part] = np.ascontiguousarray(t)\n"
        "    tensors = renamed\n\n    def linear(name):\n",
    )


@pytest.fixture
def far():
    """(the judge's weights, one of them as an engine has it): 6 x 4, 24 ones."""
    weights, before = Weights(), elsewhere.Elsewhere.ask
    weights.add([np.ones(24, np.float32)])
    answers = {"product": weights.product, "numbers": weights.numbers}
    elsewhere.Elsewhere.ask = staticmethod(lambda name, *arguments: answers[name](*arguments))
    yield weights, elsewhere.rebuild_elsewhere(["view", 0, 0, [6, 4], [16, 4], "<f4"], (6, 4), "<f4")
    elsewhere.Elsewhere.ask = before


@pytest.mark.parametrize(
    "product",
    [lambda x, w: x @ w, lambda x, w: np.dot(x, w), lambda x, w: np.matmul(x, w),
     lambda x, w: np.einsum("ri,io->ro", x, w), lambda x, w: np.einsum("...i,io->...o", x, w),
     lambda x, w: np.tensordot(x, w, 1),
     lambda x, w: (w.T @ x.T).T, lambda x, w: x @ (w * np.float32(2)),
     lambda x, w: x @ w.astype(np.float64), lambda x, w: np.inner(x, w.T),
     lambda x, w: x @ np.concatenate([w[:3], w[3:]]), lambda x, w: x @ w.reshape(4, 6).T,
     lambda x, w: x @ w[[5, 4, 3, 2, 1, 0]], lambda x, w: np.einsum("ri,iab->rab", x, w.reshape(6, 2, 2)),
     lambda x, w: np.matmul(x, w, out=np.empty((5, 4), np.float32)), lambda x, w: (x[:, None] @ w)[:, 0],
     lambda x, w: np.stack([row @ w for row in x]), lambda x, w: np.tensordot(x, w, ([1], [0])),
     lambda x, w: np.hstack([x @ part for part in np.split(w, 2, axis=1)])],
)  # fmt: skip
def test_every_way_to_multiply_counts(product, far):
    weights, w = far
    result = product(np.ones((5, 6), np.float32), w)
    assert isinstance(result, np.ndarray) and result.size == 20
    assert weights.take_counts() == (5 * 6 * 4, 0)


def test_numbers_that_are_taken_out_count(far):
    weights, w = far
    assert (np.ones((2, 4), np.float32) + w[[1, 5]]).tolist() == [[2.0] * 4] * 2
    assert weights.take_counts() == (0, 8)
    assert w[2].sum() == 4 and w.shape == np.shape(w) == (6, 4) and len(w) == 6 and w.T.ndim == 2
    assert weights.take_counts() == (0, 4)
    with pytest.raises(TypeError, match="changed after load"):
        w *= 2


@pytest.mark.parametrize(
    "tree",
    [["view", 0, 0, [6, 4], [1 << 40, 4], "<f4"], ["view", 0, 0, [6, 4], [16, 4], "O"], ["call", "save", [], {}],
     ["call", "add", [{"tree": ["view", 0, 0, [24, 1], [4, 4], "<f4"]}, np.ones((1, 10**7))], {}]],
)  # fmt: skip
def test_nothing_but_a_part_of_the_weights_is_made_for_an_engine(tree, far):
    with pytest.raises((WeightError, ValueError)):
        far[0].numbers({"tree": tree})


CACHES = """
from collections import OrderedDict, deque
from types import SimpleNamespace

import numpy as np


class Slots:
    __slots__ = ("b", "unset")


def load(folder):
    return SimpleNamespace()


def once():
    a = np.zeros(1000, np.float32)
    return SimpleNamespace(a=[a[2:], {"again": a}], b=(SimpleNamespace(c=np.zeros(300)),), e=None, f=a.view())


def slots():
    cache = Slots()
    cache.b = deque([np.zeros(300), dict(enumerate([np.zeros(500)])), OrderedDict(c=np.zeros(200))])
    return cache


def objects():
    two = np.empty(2, object)
    two[:] = np.zeros(300), np.zeros(500)
    return [two]


def numbers():
    return {"list": [float(k) for k in range(3000)]}


def parts():
    return [np.zeros((2, 1000))[0]]


def local():
    return lambda: 0
"""


def test_bytes_are_counted_once_wherever_they_are_kept(tmp_path):
    path = tmp_path / "engine.py"
    path.write_text(CACHES)
    with closing(Engine(path, tmp_path)) as engine:
        held = {
            name: engine.dump_cache(engine.call(name, kept=(None,))) for name in ("once", "slots", "objects", "parts")
        }
        assert {name: weighed.nbytes for name, weighed in held.items()} == {
            "once": 4000 + 2400, "slots": 8000, "objects": 6400, "parts": 16000}  # fmt: skip
        assert engine.dump_cache(engine.call("numbers", kept=(None,))).nbytes > 9 * 3000 - 4200, (
            "numbers that are no arrays"
        )
        assert "parts of larger ones" in why_too_many_bytes(held["parts"]) or "float64" in why_too_many_bytes(
            held["parts"]
        )
        again = engine.move_to_new_process(held["once"])
        assert engine.dump_cache(again).nbytes == held["once"].nbytes and again.box is not None
        with pytest.raises(Exception, match=r"pickle|local"):
            engine.dump_cache(engine.call("local", kept=(None,)))


PRODUCT = "return x_RI @ w.data.astype(np.float32, copy=False) * w.scale + w.bias"
OTHERWISE = {  # another way to multiply with weights, or to keep them
    "einsum": (PRODUCT, 'return np.einsum("...i,io->...o", x_RI, w.data.astype(np.float32)) * w.scale + w.bias'),
    "from the other side": (PRODUCT, "return (w.data.T.astype(np.float32) @ x_RI[..., None])[..., 0] * w.scale"
                                     " + w.bias"),
    "in pieces": (PRODUCT, "parts = np.array_split(w.data.astype(np.float32), 5, axis=1)\n"
                           "    y = np.concatenate([x_RI @ p for p in parts], axis=-1)\n"
                           "    return y * w.scale + w.bias"),
    "scaled weights": (PRODUCT, "return x_RI @ (w.data * w.scale) + w.bias"),
    "row by row": (PRODUCT, "return np.stack([np.dot(x, w.data.astype(np.float32)) for x in x_RI]) * w.scale"
                            " + w.bias"),
    "float64": (PRODUCT, "return (x_RI.astype(float) @ w.data.astype(float) * w.scale + w.bias).astype(np.float32)"),
    "a class": ("def norm(x_RD",
                "class Mine(SimpleNamespace):\n    pass\n\n\nSimpleNamespace = Mine\n\n\ndef norm(x_RD"),
    "inner inputs first": ("            part[name] = SimpleNamespace(data=data.copy(),",
                           "            part[name] = SimpleNamespace(data=np.asfortranarray(data),"),
    "a positions' row by np.take": ("x_RD = model.wte[list(ids)] + model.wpe[cache.length]",
                                    "x_RD = np.take(model.wte, ids, axis=0)\n"
                                    "    x_RD = x_RD + np.take(model.wpe, [cache.length], axis=0)"),
}  # fmt: skip


@pytest.mark.parametrize("way", OTHERWISE)
def test_an_engine_may_multiply_and_keep_its_weights_otherwise(way, published, tmp_path, known):
    said, instead = OTHERWISE[way]
    assert SOLUTION.count(said) == 1
    path = tmp_path / "engine.py"
    path.write_text(SOLUTION.replace(said, instead), encoding="utf-8")
    with closing(Engine(path, published)) as engine, few_blas_threads(True):
        kit = Kit(engine, 5, _known=known)
        found = [verdict_on_stage(STAGES[number], kit) for number in (3, 11)]
    assert [f["state"] for f in found] == ["passed", "passed"], found


# What an engine may try

OURS_INSIDE = """
import dataclasses
from types import SimpleNamespace

import numpy as np

md = dataclasses.inspect.importlib.import_module("minidecode")


def load(folder):
    return SimpleNamespace(w=np.zeros((300, 300), np.float32), ours=md.load("tiny-gpt2"))


def forward(model, ids):
    counted = dataclasses.inspect.importlib.import_module("minidecode.course.project.measure").Counted
    counted.multiply_adds += 10**9
    return np.array(model.ours.logits([ids])[0])
"""


def test_an_engine_finds_neither_minidecode_nor_the_counter(published, tmp_path, known):
    found = judged(OURS_INSIDE, 1, published, tmp_path / "engine.py", known)
    assert found["state"] == "wrong" and "line 11, in load: AttributeError" in found["message"], found


def test_products_for_show_do_not_pass(published, tmp_path, known):
    """The right count, and logits from elsewhere: of a model that is kept as numbers, or of products with the unit."""
    show = "\n\nreal = forward\n\n\ndef forward(model, ids):\n    real(model, ids)\n    return KEPT(model, ids)\n\n\n"
    for kept, said in (("def KEPT(model, ids):\n    return np.zeros((len(ids), 4096), np.float32)", "should be"),
                       ("def KEPT(model, ids):\n    w = np.eye(256, dtype=np.float32) @ model.wte.T\n"
                        "    return real(model, ids)", "are enough"),
                       ("def KEPT(model, ids):\n    np.asarray(model.wte)\n    return real(model, ids)",
                        "numbers out of")):  # fmt: skip
        found = judged(SOLUTION + show + kept + "\n", 1, published, tmp_path / "engine.py", known)
        assert found["state"] == "wrong" and said in found["message"], found


def test_a_forged_reply_is_an_output_and_compared_as_one(published, tmp_path, known):
    forged = """
def ban_ngrams(scores_RV, rows, n):
    import sys
    frame = sys._getframe(1)
    while "self" not in frame.f_locals:
        frame = frame.f_back
    me = frame.f_locals["self"]
    for reply in ({"result": "passed", "changed": []}, {"state": "passed"}, {"ask": "numbers", "arguments": [1]}, []):
        me._wire.write_message(me._answers, me._word, reply)
    return scores_RV
"""
    found = judged(f"{SOLUTION}\n\n{forged}", 6, published, tmp_path / "engine.py", known)
    assert found["state"] == "wrong", found


HARMFUL = {  # what a student hands in beside a right stage 6, and whether it still passes
    "ends Python at once": ("import os\nos._exit(3)\n", False),
    "ends Python at its end": ("import atexit\nimport os\natexit.register(os._exit, 3)\n", True),
    "a child that keeps the pipe": ("import os\ntry:\n    if os.fork() == 0:\n        while True:\n            pass\n"
                                    "except OSError:\n    pass\n", True),
    "a daemon": ("import subprocess\ntry:\n    subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
                 "except OSError:\n    pass\n", True),
    "a file": ("try:\n    open('FOLDER/left', 'w').write('here')\nexcept OSError:\n    pass\n", True),
    "a neighbour's engine": ("exec(open('FOLDER/zoe/engine.py').read())\n", False),
    "a thread that goes on": ("import threading\nthreading.Thread(target=threading.Event().wait,"
                              " daemon=True).start()\n", True),
    "text without end": ("print('x' * 10**7)\n", True),
}  # fmt: skip


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the system does not refuse processes")
def test_no_engine_ends_the_class_or_leaves_anything(cli, tmp_path):
    for name, (harm, _) in HARMFUL.items():
        hand_in(tmp_path / "class" / name.replace(" ", "_"), harm.replace("FOLDER", str(tmp_path / "class")) + SOLUTION)
    hand_in(tmp_path / "class" / "zoe", SOLUTION)
    ran = cli("project", "grade", tmp_path / "class", "--stage", 6, "--quiet", "--format", "json")
    states = {g["student"]: g["stages"][0]["state"] for g in json.loads(ran.out)}
    due = {name.replace(" ", "_"): passes for name, (_, passes) in HARMFUL.items()} | {"zoe": True}
    assert {name: state == "passed" for name, state in states.items()} == due, ran.out
    assert not (tmp_path / "class" / "left").exists() and os.getpid()


def test_start_check_and_race_as_a_student_types_them(cli, tmp_path, monkeypatch, known):
    monkeypatch.chdir(tmp_path)
    assert "project start writes it" in cli("project", "check").err
    Path("mine.py").touch()
    for command in ("start", "check"):
        assert "mine.py is a file: --folder takes the folder" in cli("project", command, "--folder", "mine.py").err
    ran = cli("project", "start", "--student", "ada")
    assert ran.code == 0 and "minidecode project check" in ran.out
    assert sorted(p.name for p in Path("my_engine/checkpoint").iterdir()) == [
        "LAYOUT.txt", "config.json", "model.safetensors", "tokenizer.json"]  # fmt: skip
    mine = Path("my_engine/engine.py").read_text("utf-8")
    again = cli("project", "start")
    assert (
        again.code == 1 and "is there already" in again.err and Path("my_engine/engine.py").read_text("utf-8") == mine
    )
    monkeypatch.chdir("my_engine")  # from inside, too, that folder is the one
    assert "is there already" in cli("project", "start").err and not Path("my_engine").exists()
    assert cli("project", "check", "1").out.startswith("stage  1")
    monkeypatch.chdir(tmp_path)
    ran = cli("project", "check")
    assert (
        ran.code == 1
        and "stage  1, the forward pass (chapter 01): not begun\n    line " in ran.out
        and "stage  2" not in ran.out
    )
    assert "a race needs stages 1 and 2" in cli("project", "race").err
    assert "there is no stage 13" in cli("project", "check", "13").err
    Path("my_engine/engine.py").write_text("import os\nos._exit(3)\n")
    assert "the process ended without an answer" in cli("project", "check", "1").out
    Path("my_engine/engine.py").write_text("def load(:\n")
    report = json.loads(cli("project", "check", "1", "--json").out)
    assert report[0]["state"] == "wrong" and "line 1" in report[0]["message"]


def test_a_race_times_the_stages_that_pass(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli("project", "start")
    cut = SOLUTION.index("# Stage 4")
    Path("my_engine/engine.py").write_text(SOLUTION[:cut], encoding="utf-8")
    ran = cli("project", "race", "--json", "--output", "race.svg")
    names = [(r["work"], r["name"]) for r in json.loads(ran.out)]
    assert names == [("greedy", "2, greedy search"), ("greedy", "3, a cache"), ("greedy", "minidecode")]
    assert Path("race.svg").read_text("utf-8").startswith("<svg")


# A class


def hand_in(folder, source, place="engine.py"):
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).write_text(source, encoding="utf-8")


def test_a_class_is_graded(cli, tmp_path):
    """Each in a process of its own: one that ends Python, one that only begins, one that calls minidecode."""
    hand_in(tmp_path / "class" / "ada", SOLUTION)
    hand_in(tmp_path / "class" / "bob", engine_skeleton(), "my_engine/engine.py")
    hand_in(
        tmp_path / "class" / "cleo",
        SOLUTION.replace("    def linear(name):", "    raise SystemExit(3)\n\n    def linear(name):"),
    )
    hand_in(tmp_path / "class" / "dan", SOLUTION + "\nMODEL = md.load\n")
    (tmp_path / "class" / "notes").mkdir()
    ran = cli("project", "grade", tmp_path / "class", "--stage", 6, "--stage", 1, "--quiet")
    assert ran.code == 0 and ran.err == ""
    rows = [line.split() for line in ran.out.splitlines()]
    assert rows[:2] == [["student", "6", "1", "points"], ["ada", "passed", "passed", "2"]]
    assert rows[2] == ["bob", "-", "-", "0"] and rows[3] == ["cleo", "passed", "not", "yet", "1"]
    assert rows[4] == ["dan", "not", "yet", "not", "yet", "0"], "there is no minidecode where it runs"
    assert "stage 6, no n-gram twice: 2 of 4 passed" in ran.out
    assert f"dan, against the rules: line {len(SOLUTION.splitlines()) + 2} uses minidecode.load" in ran.out


def test_functions_of_our_engine_are_known_again(cli, tmp_path):
    """Under other names, in an engine whose `load` reads another checkpoint; the points are the teacher's to decide."""
    own = varied_solution("ada", tmp_path / "checkpoint").replace("scores", "sums").replace("total_WV", "all_WV")
    hand_in(tmp_path / "class" / "ada", own)
    hand_in(tmp_path / "class" / "bob", engine_skeleton())
    ran = cli("project", "grade", tmp_path / "class", "--per-student", "--stage", 6, "--quiet")
    (told,) = [line for line in ran.out.splitlines() if "as in our engine" in line]
    assert told.startswith("ada, as in our engine apart from names and numbers: ")
    assert {"beam_search", "hars", "quantize", "attend_kernel"} <= set(told.partition(": ")[2].split(", "))
    assert ran.out.splitlines()[1].split()[-1] == "1"
    (ada, bob) = json.loads(cli("project", "grade", tmp_path / "class", "--stage", 6, "--format", "json").out)
    assert "beam_search" in ada["published"] and bob["published"] == []


def test_one_engine_as_gradescope_and_as_other_formats(cli, tmp_path):
    hand_in(tmp_path / "ada", SOLUTION)
    asked = ("project", "grade", tmp_path / "ada", "--stage", 6, "--stage", 10, "--quiet", "--format")
    told = json.loads(cli(*asked, "gradescope").out)
    assert [(t["name"], t["score"], t["max_score"]) for t in told["tests"]] == [
        ("stage 6: no n-gram twice", 1, 1), ("stage 10: the best candidates without sorting", 1, 1)]  # fmt: skip
    assert cli(*asked, "csv").out.splitlines()[1] == "ada,6,no n-gram twice,1,passed"
    (only,) = json.loads(cli(*asked, "json").out)
    assert (only["student"], only["points"], only["rules"]) == ("ada", 2, [])
    for arguments, says in [((*asked, "pdf"), "--format is table, csv, json or gradescope"),
                            (("project", "grade", tmp_path / "no"), "is no folder: name a student's"),
                            ((*asked, "csv", "--student", "a", "--per-student"), "not from both"),
                            (("project", "grade", tmp_path, "--stage", 13), "there is no stage 13")]:  # fmt: skip
        ran = cli(*arguments)
        assert ran.code == 1 and says in ran.err and ran.err.count("\n") == 1
    hand_in(tmp_path / "bob", SOLUTION)
    both = cli("project", "grade", tmp_path, "--stage", 6, "--quiet", "--format", "gradescope")
    assert both.code == 1 and "is for one submission, and there are 2" in both.err
    (tmp_path / "empty").mkdir()
    assert "holds no engine.py" in cli("project", "grade", tmp_path / "empty").err


def test_per_student_an_engine_for_another_checkpoint_does_not_pass(cli, tmp_path):
    for student in ("ada", "eve"):
        hand_in(tmp_path / student, varied_solution(student, tmp_path / "checkpoints" / student))
    hand_in(tmp_path / "bob", SOLUTION)
    ran = cli(
        "project",
        "grade",
        tmp_path / "ada",
        tmp_path / "eve",
        tmp_path / "bob",
        "--per-student",
        "--stage",
        1,
        "--quiet",
    )
    points = {line.split()[0]: line.split()[-1] for line in ran.out.splitlines()[1:4]}
    assert points == {"ada": "1", "eve": "1", "bob": "0"}, ran.out
    layouts = {}
    for name in ("bob", "cleo", "dan", "eve"):
        checkpoint.write_checkpoint(tmp_path / "checkpoints" / name, name)
        layouts[name] = (tmp_path / "checkpoints" / name / "LAYOUT.txt").read_text()
    other = next(name for name, layout in layouts.items() if layout != layouts["eve"])
    ran = cli("project", "grade", tmp_path / "eve", "--student", other, "--stage", 1, "--quiet")
    assert ran.out.splitlines()[1].split()[-1] == "0"


def varied_solution(student, folder):
    """Ours, for the checkpoint that `start --student` writes."""
    checkpoint.write_checkpoint(folder, student)
    layout = (folder / "LAYOUT.txt").read_text()
    names = re.findall(r"^(\S+)\.weight", layout, re.MULTILINE)
    return engine_for(names, "each head" in layout, "W.T" in layout)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import numpy as np\nfrom numba import cuda\nimport minidecode as md\nmd.emulate\n", []),
        ("from minidecode import emulate\n", []),
        ("import os\n", ["line 1 imports os"]),
        ("from minidecode import load\n", ["line 1 imports minidecode.load"]),
        ("from minidecode.loading import load\n", ["line 1 imports minidecode.loading"]),
        ("import minidecode.loading\n", ["line 1 imports minidecode.loading"]),
        ("import minidecode\nx = minidecode.load\n", ["line 2 uses minidecode.load"]),
        ("from . import other\n", ["line 1 imports ."]),
        ("import minidecode as md\nm = md\n", ["line 2 uses md for something else than md.emulate"]),
        ("import minidecode as md\nx = getattr(md, 'load')\n", ["line 2 uses md for something else than md.emulate"]),
        ("from pathlib import Path\nx = Path(__file__).parent\nclass A:\n    pass\ny = A().__dict__\n", []),
        ('"""Text.\n\nMore.\n"""\n' + "# a remark\n\nx = 1\n" * 350, []),
        ("x = 1\n" * 351, ["it has 351 lines of code, and 350 are allowed"]),
        ("def (:\n", []),
    ],
)
def test_rules_of_an_engine(source, told):
    assert broken_rules(source) == told


def test_a_student_hears_of_broken_rules(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli("project", "start")
    Path("my_engine/engine.py").write_text("import os\n" + SOLUTION, encoding="utf-8")
    ran = cli("project", "check", 6)
    assert ran.code == 1 and "passed" in ran.out and "Against the rules of the project: line 1 imports os." in ran.out


def test_ours_can_be_printed_where_it_is(cli, tmp_path, monkeypatch):
    assert cli("project", "solution").out == SOLUTION
    monkeypatch.setattr(skeleton, "CHECKOUT", tmp_path)
    monkeypatch.chdir(tmp_path)
    ran = cli("project", "solution")
    assert ran.code == 1 and "is not installed with the package" in ran.err
