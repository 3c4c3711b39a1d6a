"""The course project: ours passes every stage, known mistakes are named, counts cannot be hidden, files are kept."""

from __future__ import annotations

import json
import re
from collections import OrderedDict, deque
from pathlib import Path

import numpy as np
import pytest

from minidecode.course.exercises import skeleton
from minidecode.course.project import checkpoint, measure
from minidecode.course.project.rules import broken_rules
from minidecode.course.project.run import load_engine, verdict
from minidecode.course.project.skeleton import engine_skeleton
from minidecode.course.project.stages import STAGES, Kit

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
    (10, 'np.argsort(-scores_V[ids], kind="stable")', "np.argsort(-scores_V[ids])", "equal scores by id"),
    (10, "ids = np.flatnonzero(scores_V >= maxima[-count])", "ids = np.arange(len(scores_V))", "hars sorts"),
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
    kit = Kit(load_engine(path), str(folder), _known=known)
    return verdict(STAGES[number], kit, path)


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
@pytest.mark.parametrize(
    ("number", "message"),
    [(3, "no results from"), (4, "no results from"), (5, "of arrays that can be found"), (9, "no results from")],
)
def test_work_and_bytes_that_are_hidden_do_not_pass(number, message, way, published, tmp_path, known):
    """Caches that hold the text alone. Each stage is checked twice: results of the first time are known by then."""
    parts = {name: SOLUTION.index(f"def {name}(") for name in ("generate", "repeat", "beam_search")}
    ours = SOLUTION[parts["generate"] : parts["repeat"]] + SOLUTION[parts["beam_search"] : SOLUTION.index("# Stage 5")]
    source = SOLUTION[: SOLUTION.index("# Stage 3")] + WAYS_TO_HIDE[way] + WITHOUT_A_CACHE + "\n\n" + ours
    path = tmp_path / "engine.py"
    path.write_text(source, encoding="utf-8")
    kit = Kit(load_engine(path), str(published), _known=known)
    assert verdict(STAGES[1], kit, path)["state"] == "passed"
    found = [verdict(STAGES[number], kit, path) for _ in range(2)][-1]
    assert found["state"] == "wrong" and message in found["message"], found


SORTED_ALL = {
    "argsort of an array": "best = (-scores_V).argsort(kind='stable')[:count]",
    "argsort of a plain array": "best = np.argsort(-np.asarray(scores_V), kind='stable')[:count]",
    "lexsort": "best = np.lexsort((np.arange(len(scores_V)), -scores_V))[:count]",
    "sorted": "best = np.array(sorted(range(len(scores_V)), key=lambda i: (-scores_V[i], i))[:count])",
    "a list's sort": "all_of = [(-s, i) for i, s in enumerate(scores_V.tolist())]\n    all_of.sort()\n"
                     "    best = np.array([i for _, i in all_of[:count]])",
}  # fmt: skip


@pytest.mark.parametrize("way", SORTED_ALL)
def test_every_way_to_sort_counts(way, published, tmp_path, known):
    head, rest = SOLUTION.split("    pieces = np.array_split(scores_V, groups)\n")
    tail = rest[rest.index("    return scores_V[best], best") :]
    found = judged(f"{head}    {SORTED_ALL[way]}\n{tail}", 10, published, tmp_path / "engine.py", known)
    assert found["state"] == "wrong" and "hars sorts" in found["message"], found


def test_what_passes_the_threshold_may_be_sorted_in_any_way(published, tmp_path, known):
    said = 'best = ids[np.argsort(-scores_V[ids], kind="stable")[:count]]'
    assert SOLUTION.count(said) == 1
    for own in ("np.array(sorted(ids, key=lambda i: (-scores_V[i], i))[:count])",
                "ids[np.lexsort((ids, -scores_V[ids]))[:count]]",
                "np.array(__import__('heapq').nsmallest(count, ids, key=lambda i: (-scores_V[i], i)))"):  # fmt: skip
        found = judged(SOLUTION.replace(said, f"best = {own}"), 10, published, tmp_path / "engine.py", known)
        assert found["state"] == "passed", found


def test_load_reads_the_folder_that_it_is_given(published, tmp_path, known):
    """Not one that the engine's author knows, nor numbers in the engine."""
    elsewhere = SOLUTION.replace("config = json", f"folder = {str(published)!r}\n    config = json")
    found = judged(elsewhere, 1, published, tmp_path / "engine.py", known)
    assert found["state"] == "wrong" and "the folder that it is given" in found["message"], found


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
    assert found["state"] == "wrong" and "Numba's compiler would refuse this" in found["message"], found


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


@pytest.mark.parametrize(
    "product",
    [lambda x, w: x @ w, lambda x, w: np.dot(x, w), lambda x, w: np.matmul(x, w),
     lambda x, w: np.einsum("ri,io->ro", x, w), lambda x, w: np.einsum("...i,io->...o", x, w),
     lambda x, w: np.tensordot(x, w, 1),
     lambda x, w: (w.T @ x.T).T, lambda x, w: x @ (w * np.float32(2)),
     lambda x, w: x @ w.astype(np.float64), lambda x, w: np.inner(x, w.T),
     lambda x, w: x @ np.concatenate([w[:3], w[3:]]),
     lambda x, w: np.hstack([x @ part for part in np.split(w, 2, axis=1)])],
)  # fmt: skip
def test_every_way_to_multiply_counts(product):
    w = np.ones((6, 4), np.float32).view(measure.Counted)
    measure.count()
    product(np.ones((5, 6), np.float32), w)
    assert measure.count() == 5 * 6 * 4


def test_bytes_are_counted_once_wherever_they_are_kept():
    class Holds:
        def __init__(self, **parts):
            vars(self).update(parts)

    a, weights = np.zeros(10, np.float32), np.zeros(7)
    cache = Holds(a=[a[2:], {"again": a}], b=(Holds(c=np.zeros(3)),), d=weights[1:], e=None, f=a.view(measure.Counted))
    assert measure.held_bytes(cache, {"w": weights}) == 40 + 24

    class Slots:
        __slots__ = ("b", "unset")

    cache = Slots()
    cache.b = deque([np.zeros(3), {np.float32: a}.values(), OrderedDict(c=np.zeros(2))])
    assert measure.held_bytes(cache) == 24 + 40 + 16
    two = np.empty(2, object)
    two[:] = np.zeros(3), np.zeros(5)
    assert measure.held_bytes([two]) == 16 + 24 + 40
    assert type(measure.with_counted_weights(cache).b) is deque and measure.held_bytes("text") == 0


def test_start_check_and_race_as_a_student_types_them(cli, tmp_path, monkeypatch, known):
    monkeypatch.chdir(tmp_path)
    assert "project start writes it" in cli("project", "check").err
    ran = cli("project", "start", "--student", "ada")
    assert ran.code == 0 and "minidecode project check" in ran.out
    assert sorted(p.name for p in Path("my_engine/checkpoint").iterdir()) == [
        "LAYOUT.txt", "config.json", "model.safetensors", "tokenizer.json"]  # fmt: skip
    mine = Path("my_engine/engine.py").read_text("utf-8")
    again = cli("project", "start")
    assert (
        again.code == 1 and "is there already" in again.err and Path("my_engine/engine.py").read_text("utf-8") == mine
    )
    ran = cli("project", "check")
    assert (
        ran.code == 1
        and "stage  1, the forward pass (chapter 01): not begun\n    line " in ran.out
        and "stage  2" not in ran.out
    )
    assert "a race needs stages 1 and 2" in cli("project", "race").err
    assert "there is no stage 13" in cli("project", "check", "13").err
    Path("my_engine/engine.py").write_text("import os\nos._exit(3)\n")
    assert "ended with code 3" in cli("project", "check", "1").err
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
    assert rows[4] == ["dan", "passed", "passed", "0"]
    assert "stage 6, no n-gram twice: 3 of 4 passed" in ran.out
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
                            (("project", "grade", tmp_path / "no"), "is no folder"),
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
        ("x = eval('1')\n", ["line 1 uses eval"]),
        ("x = globals()\n", ["line 1 uses globals"]),
        ("import minidecode as md\nm = md\n", ["line 2 uses md for something else than md.emulate"]),
        ("import minidecode as md\nx = getattr(md, 'load')\n", ["line 2 uses md for something else than md.emulate"]),
        ("import minidecode as md\nx = md.emulate.__globals__\n", ["line 2 uses .__globals__"]),
        ("import json\nx = json.codecs.sys.modules\n", ["line 2 uses .sys"]),
        ("import numpy as np\nx = np.__file__\n", ["line 2 uses .__file__"]),
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
