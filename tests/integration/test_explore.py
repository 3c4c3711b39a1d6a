"""`explore`: what its page says is what the run did, it holds whatever the prompt says, and it works in a browser."""

import base64
import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode.course.explore import page as pages
from minidecode.reference import prefill, shared, split

NODE = shutil.which("node")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
CACHES = ("none", "replicated", "preallocated", "split", "indirect", "el")
PLANS = [f"cache={name}" for name in CACHES]
BEAM = {"num_beams": 3, "max_new_tokens": 6, "min_new_tokens": 6}
HOSTILE = 'The sea </script><img src=x onerror="document.title=1"><!-- &lt; \u2028 ${x} `'


@pytest.fixture
def toy(tiny_folder):
    return md.load(tiny_folder())


@pytest.fixture
def toy_bart(tmp_path):
    from toy_folder import write_bart_folder

    return md.load(write_bart_folder(tmp_path / "toy-bart"))


def path(data, run, step, row):
    """The entries of a row's text before a step, followed back from its last one."""
    N, R = len(data["start"]), data["rows"]
    entry, found = N - 1 if step == 0 else N + (step - 1) * R + row, []
    while entry >= N:
        found.insert(0, entry)
        entry = run["tokens"][entry - N]["parent"]
    return [*range(entry + 1), *found]


# The run


@pytest.mark.parametrize("options", [BEAM, BEAM | {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0},
                                     {"max_new_tokens": 4}, {"do_sample": True, "num_return_sequences": 3, "seed": 5}],
                         ids=["beams", "groups", "greedy", "sampling"])  # fmt: skip
def test_its_tokens_scores_and_parents_are_the_runs(toy, options):
    data = md.explore(toy, "a story", plans=PLANS[1:3], **options).data
    out = toy.generate("a story", plan=PLANS[1], trace=True, **options)
    assert len(data["runs"]) == 1 and [plan["run"] for plan in data["plans"]] == [0, 0]
    (run,) = data["runs"]
    assert [text["token_ids"] for text in run["texts"]] == [ids.tolist() for ids in out.token_ids]
    assert [text["text"] for text in run["texts"]] == out.texts
    assert np.allclose([text["score"] for text in run["texts"]], out.scores)
    groups = max(s.group for s in out.trace.steps) + 1
    W = data["rows"] // groups
    for step in out.trace.steps:
        first, found = step.group * W, run["steps"][step.step]["candidates"]
        expected = [(c.token, first + c.parent, c.fate, None if c.beam is None else first + c.beam)
                    for c in step.candidates]  # fmt: skip
        mine = [c for c in found if first <= c["parent"] < first + W]
        told = [(c["token"], c["parent"], c["fate"], c["row"]) for c in mine]
        assert (told == expected) if "num_beams" in options else set(expected) <= set(told)
        for w, running in enumerate(step.running):
            entries = path(data, run, step.step, first + w)[len(data["start"]) :]
            assert [run["tokens"][e - len(data["start"])]["token"] for e in entries] == running


def test_without_beams_the_models_likeliest_tokens_are_candidates(toy):
    (run,) = md.explore(toy, "a story", max_new_tokens=4).data["runs"]
    out = toy.generate("a story", max_new_tokens=4, logprobs=5)
    for step, top in zip(run["steps"], out.top_logprobs[0], strict=True):
        assert [c["token"] for c in step["candidates"]] == list(top)
        assert np.allclose([c["score"] for c in step["candidates"]], list(top.values()))
    drawn = md.explore(toy, "a story", do_sample=True, temperature=50.0, seed=2, max_new_tokens=8).data["runs"][0]
    assert any(len(step["candidates"]) == 6 for step in drawn["steps"]), "a token beyond the five likeliest is shown"


def test_a_plan_whose_arena_needs_a_dry_run_shows_the_run_alone(toy):
    planned, plain = md.explore(toy, "a story", plans=["cache=split,arena=planned", "cache=split"], **BEAM).data[
        "plans"
    ]
    assert planned["run"] == plain["run"]
    assert [(s["held"], s["strips"]) for s in planned["steps"]] == [(s["held"], s["strips"]) for s in plain["steps"]]


def test_plans_that_choose_other_tokens_are_runs_of_their_own(toy, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def ban(scores_RV, *_, **__):\n    return scores_RV\n", encoding="utf-8")
    plans = ["numpy", f"ngram={mine}:ban", "cache=split"]
    data = md.explore(toy, "aaaa", plans=plans, no_repeat_ngram_size=1, **BEAM).data
    assert [plan["run"] for plan in data["plans"]] == [0, 1, 0] and len(data["runs"]) == 2


# Memory and arithmetic


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", ["toy", "toy_bart"])
def test_bytes_and_operations_are_those_of_the_receipt(plan, kind, request):
    model = request.getfixturevalue(kind)
    data = md.explore(model, "a story", plans=plan, **BEAM).data
    out = model.generate("a story", plan=plan, costs=True, trace=True, **BEAM)
    (seen,) = data["plans"]
    assert seen["cache_peak_bytes"] == out.receipt.cache_peak_bytes
    assert max(step["held"] for step in seen["steps"]) <= out.receipt.cache_peak_bytes
    if kind == "toy" or plan not in ("cache=none", "cache=el"):  # while it reads, more of the source may be held
        assert max(step["held"] for step in seen["steps"]) == out.receipt.cache_peak_bytes
    sums = {name: [0, 0, 0] for name in out.receipt.ops}
    for ops in [seen["prefill"]["ops"], *(step["ops"] for step in seen["steps"])]:
        for op, *numbers in ops:
            sums[seen["ops"][op]] = [a + b for a, b in zip(sums[seen["ops"][op]], numbers, strict=True)]
    for name, count in out.receipt.ops.items():
        moved, computed = sum(c.bytes for c in count.costs), sum(c.operations for c in count.costs)
        assert sums[name] == [count.calls, moved, computed], name
    assert all(any(seen["ops"][op[0]] == "linear" for op in step["ops"]) for step in seen["steps"][1:])


def test_the_boxes_of_a_step_are_the_calls_of_a_forward_pass():
    """Counted by hand: 6 layers of 4 products, one product for the logits. A prefill's last layer stands alone: there
    the newest row goes on without the others."""
    (seen,) = md.explore(md.load("tiny-gpt2"), "The war of", plans="numpy,cache=split", num_beams=3, max_new_tokens=3,
                         no_repeat_ngram_size=0).data["plans"]  # fmt: skip
    layer = ["queries, keys, values", "heads together", "up", "down"]

    def products(part):
        return [box for box in part["boxes"] if seen["ops"][box[0]] == "linear"]

    step = [part for part in seen["steps"][1]["parts"] if products(part)]
    assert [part["times"] for part in step] == [6, 0]
    assert [box[1] for part in step for box in products(part)] == [*layer, "logits"]
    (attention,) = [box for box in step[0]["boxes"] if seen["ops"][box[0]] == "attend_split"]
    assert attention[2:4] == ["q_RHK [3, 8, 32], prompt_k_BGNK [1, 8, 3, 32], k_RGTK [3, 8, 3, 32]", 6]
    up = products(step[0])[2]
    R, D, F = 3, 256, 1024
    assert up[2:] == ["x_RX [3, 256] @ [256, 1024]", 6, 6 * 4 * (R * D + R * F + D * F), 6 * 2 * R * D * F]
    prefill = [part for part in seen["prefill"]["parts"] if products(part)]
    assert [(part["times"], [box[1] for box in products(part)]) for part in prefill] == [
        (5, layer),
        (0, [*layer, "logits"]),
    ]
    assert [box[2].split(" @")[0] for box in products(prefill[1])][:2] == ["x_RX [3, 256]", "x_RX [1, 256]"]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", ["toy", "toy_bart"])
def test_boxes_add_up_to_the_ops(plan, kind, request):
    (seen,) = md.explore(request.getfixturevalue(kind), "a story", plans=plan, **BEAM).data["plans"]
    for step in [seen["prefill"], *seen["steps"]]:
        sums = {}
        for part in step["parts"]:
            for op, name, shape, *numbers in part["boxes"]:
                assert shape and (name or seen["ops"][op] not in ("linear", "project_cross_kv"))
                sums[op] = [a + b for a, b in zip(sums.get(op, [0, 0, 0]), numbers, strict=True)]
        assert sums == {op: numbers for op, *numbers in step["ops"]}


@pytest.mark.parametrize("kind", ["toy", "toy_bart"])
@pytest.mark.parametrize("plan", PLANS[1:])
def test_bricks_add_up_to_the_bytes_held(plan, kind, request):
    model = request.getfixturevalue(kind)
    (seen,) = md.explore(model, "a story", plans=plan, **BEAM).data["plans"]
    table = 2 * 3 * 6 * 8 if plan == "cache=indirect" else 0  # layers, rows, steps, bytes of an index
    for step in seen["steps"]:
        bricks = sum((len(strip["cells"]) + strip["room"]) * strip["brick"] for strip in step["strips"])
        assert bricks + table == step["held"]
        assert step["used"] == table + sum(len(strip["cells"]) * strip["brick"] for strip in step["strips"])


@pytest.mark.parametrize("plan", PLANS)
def test_a_brick_says_whose_token_it_holds_and_what_became_of_it(toy, plan):
    """What a brick holds follows from the parents; whether it was copied, from the bytes. The two must agree."""
    data = md.explore(toy, "a story", plans=plan, **BEAM).data
    (seen,), (run,), N, R = data["plans"], data["runs"], len(data["start"]), data["rows"]
    assert sum(c["row"] not in (None, c["parent"]) for s in run["steps"][1:-1] for c in s["candidates"]), "beams move"
    before = {}
    for s, step in enumerate(seen["steps"]):
        newest, now = set(range(N + (s - 1) * R, N + s * R)) if s else set(range(N)), {}
        for strip in step["strips"]:
            row = path(data, run, s, strip["row"])
            expected = {"": row, "k_RGMK": row, "prompt_k_BGNK": row[:N], "prompt_h_BND": row[:N], "k_RGTK": row[N:]}
            if plan == "cache=indirect" and strip["array"] == "k_RGTK":  # what the row wrote itself
                expected["k_RGTK"] = [N + t * R + strip["row"] for t in range(s)]
            assert strip["cells"] == expected[strip["array"]]
            for m, (entry, mark) in enumerate(zip(strip["cells"], strip["states"], strict=True)):
                place = strip["array"], strip["row"], m
                now[place] = entry
                grows = plan == "cache=replicated"  # all of it is copied at each step
                stays = before.get(place) == entry and not grows
                kept = "a" if plan == "cache=none" else "+" if entry in newest else "k" if stays else "c"
                assert mark == kept, (s, place)
        assert step["dropped"] == sorted(set(before.values()) - set(now.values()))
        before = now
    marks = "".join(strip["states"] for step in seen["steps"][1:] for strip in step["strips"])
    assert set(marks) == {"none": set("a"), "replicated": set("c+"), "indirect": set("k+")}.get(
        plan.removeprefix("cache="), set("ck+")
    )


def test_readers_of_a_brick_are_the_beams_whose_text_it_is_part_of(toy):
    for plan in PLANS[3:5]:
        data = md.explore(toy, "a story", plans=plan, **BEAM).data
        (seen,), (run,), R = data["plans"], data["runs"], data["rows"]
        for s, step in enumerate(seen["steps"]):
            paths = [path(data, run, s, r) for r in range(R)]
            for strip in step["strips"]:
                of_row = plan == "cache=split" and strip["array"] == "k_RGTK"
                assert strip["readers"] == [1 if of_row else sum(e in p for p in paths) for e in strip["cells"]]


def test_a_rolling_cache_keeps_the_last_positions_in_their_slots(tiny_folder):
    model = md.load(tiny_folder(attention_window=5))
    data = md.explore(model, "a story", plans=["cache=rolling"], **BEAM).data
    (seen,), (run,) = data["plans"], data["runs"]
    for s, step in enumerate(seen["steps"]):
        for strip in step["strips"]:
            row = path(data, run, s, strip["row"])
            assert strip["cells"] == [
                next(e for p, e in reversed(list(enumerate(row))) if p % 5 == m) for m in range(5)
            ]
        assert not s or step["dropped"], "a step overwrites what has left the window"


# Attention


@pytest.mark.parametrize("kind", ["toy", "toy_bart"])
def test_attention_is_the_softmax_of_a_pass_over_the_whole_text(kind, request, monkeypatch):
    """Each row's text goes through the model without a cache, and the softmax of each layer is caught on its way."""
    model = request.getfixturevalue(kind)
    data = md.explore(model, "a story", **BEAM).data
    (run,), has_source = data["runs"], bool(data["source"])
    caught, softmax = [], prefill.softmax
    monkeypatch.setattr(prefill, "softmax", lambda scores: caught.append(softmax(scores).copy()) or caught[-1].copy())
    N = len(data["start"])
    ids = model.tokenizer.encode("a story")
    start = [model.defaults["decoder_start_token_id"]] if has_source else ids.tolist()
    found = run["attention"]
    assert found["layers"] == [0, 1] and found["heads"] == 2
    for s in range(6):
        for r in range(1 if s == 0 else 3):
            text = [*start, *(run["tokens"][e - N]["token"] for e in path(data, run, s, r)[N:])]
            caught.clear()
            model.logits(ids[None], decoder_input_ids=np.array([text])) if has_source else model.logits([text])
            looks = caught[-4:][1::2] if has_source else caught  # of a decoder layer: itself, then the source
            expected = np.stack([weights_HNM[:, -1] for weights_HNM in looks])
            packed = np.frombuffer(base64.b64decode(found["weights"][s][r]), np.uint8)
            assert np.abs(packed.reshape(expected.shape) / 255 - expected).max() < 0.51 / 255


def signed(text, *shape):
    return np.frombuffer(base64.b64decode(text), np.int8).reshape(shape).astype(float)


@pytest.mark.parametrize("kind", ["toy", "toy_bart"])
def test_queries_keys_and_values_are_those_of_the_first_layers_product(kind, request):
    """Of GPT-2's first layer, each number is compared with norm and product by hand; of a source, they are counted."""
    model = request.getfixturevalue(kind)
    data = md.explore(model, "a story", **BEAM).data
    (run,), has_source = data["runs"], bool(data["source"])
    found, N, R = run["attention"], len(data["start"]), data["rows"]
    L, H, G, K = len(found["layers"]), found["heads"], found["groups"], 4
    assert len(found["keys"]) == len(found["values"]) == (len(data["source"]) if has_source else N + 5 * R)
    if has_source:
        return
    weights = model.weights
    for s in range(6):
        for r in range(1 if s == 0 else R):
            entries = path(data, run, s, r)
            ids = [*model.tokenizer.encode("a story"), *(run["tokens"][e - N]["token"] for e in entries[N:])]
            x_MD = weights.wte_VD[ids] + weights.wpe_ND[: len(ids)]
            norm = weights.blocks[0].ln_1
            h_MD = (x_MD - x_MD.mean(1, keepdims=True)) / np.sqrt(x_MD.var(1, keepdims=True) + norm.eps)
            qkv = weights.blocks[0].qkv
            rows_MX = (h_MD * norm.gain_D + norm.bias_D) @ qkv.data + qkv.bias
            q_HK, k_MHK, v_MHK = (rows_MX[:, 8 * i : 8 * i + 8].reshape(-1, H, K) for i in range(3))
            shown = [(signed(found["queries"][s][r], L, H, K)[0], q_HK[-1])]
            for m, entry in enumerate(entries):
                shown += [(signed(found["keys"][entry], L, G, K)[0], k_MHK[m]),
                          (signed(found["values"][entry], L, G, K)[0], v_MHK[m])]  # fmt: skip
            for told, true in shown:
                largest = np.abs(true).max(axis=1, keepdims=True)
                assert np.abs(told / 127 - true / largest).max() < 0.51 / 127


def test_layers_are_left_out_where_attention_would_be_too_large(toy, monkeypatch):
    from minidecode.course.explore import exploration

    monkeypatch.setattr(exploration, "INSIDE_BYTES", 300)
    found = md.explore(toy, "a story", **BEAM).data["runs"][0]["attention"]
    assert found["layers"] == [1] and found["of_layers"] == 2 and "keys" not in found
    monkeypatch.setattr(exploration, "INSIDE_BYTES", 1500)
    found = md.explore(toy, "a story", **BEAM).data["runs"][0]["attention"]
    assert found["layers"] == [1] and "keys" in found


def test_each_op_that_looks_returns_its_weights_over_unit_vectors():
    """The trick of attention.py, on numbers: over unit vectors, attention is the softmax that its module computes."""
    from minidecode.course.explore.attention import unit_values

    rng = np.random.default_rng(0)
    q_RHK, k_BGNK = rng.normal(size=(4, 4, 3)), rng.normal(size=(1, 2, 5, 3))
    weights = shared.attend_shared(q_RHK, k_BGNK, unit_values({"q_RHK": q_RHK, "k_BGNK": k_BGNK})["v_BGNU"],
                                   np.array([1]), 0.5).reshape(4, 4, 5)  # fmt: skip
    scores = 0.5 * np.einsum("rhk,hnk->rhn", q_RHK, np.repeat(k_BGNK[0], 2, axis=0))[:, :, 1:]
    expected = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    assert np.allclose(weights[:, :, 1:], expected, atol=1e-14) and not weights[:, :, 0].any()
    k_RGTK, end_R = rng.normal(size=(4, 2, 6, 3)), np.full(4, 2)
    given = {"q_RHK": q_RHK, "prompt_k_BGNK": k_BGNK, "k_RGTK": k_RGTK, "end_R": end_R}
    prompt_v, own_v = unit_values(given).values()
    both = split.attend_split(q_RHK, k_BGNK, prompt_v, np.array([0]), k_RGTK, own_v, 0 * end_R, end_R, 0.5)
    assert np.allclose(both.reshape(4, 4, 7).sum(axis=2), 1)


# The page


def write(seen, folder: Path) -> Path:
    file = folder / "page.html"
    file.write_text(seen.html(), encoding="utf-8")
    return file


def in_node(file: Path) -> list:
    script = Path(__file__).with_name("explore_in_node.js")
    ran = subprocess.run([NODE, script, file], capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.skipif(NODE is None, reason="there is no node")
@pytest.mark.parametrize("options", [BEAM, {"max_new_tokens": 1}, {"do_sample": True, "num_return_sequences": 2},
                                     BEAM | {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0}],
                         ids=["beams", "one step", "sampling", "groups"])  # fmt: skip
@pytest.mark.parametrize("kind", ["toy", "toy_bart"])
def test_the_script_shows_every_step_plan_row_and_layer(kind, options, request, tmp_path):
    seen = md.explore(request.getfixturevalue(kind), "a story", plans=["cache=none", "cache=el", "cache=indirect"],
                      **options)  # fmt: skip
    shown, visible = in_node(write(seen, tmp_path)), str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"})
    assert len(shown) == 3
    for plan, steps in zip(seen.data["plans"], shown, strict=True):
        run = seen.data["runs"][plan["run"]]
        for s, (panels, step) in enumerate(zip(steps, plan["steps"], strict=True)):
            for candidate in run["steps"][s]["candidates"]:
                assert candidate["text"].translate(visible) in panels["candidates"]
            assert len(panels["bricks"]) == sum(len(strip["cells"]) for strip in step["strips"])
            assert sum("new" in kind.split() for kind in panels["bricks"]) == sum(
                mark == "+" and n > 0 for strip in step["strips"]
                for mark, n in zip(strip["states"], strip["readers"], strict=True)
            )  # fmt: skip
            weights = run["attention"]["weights"][s][0]
            packed = np.frombuffer(base64.b64decode(weights), np.uint8)
            last = packed.reshape(len(run["attention"]["layers"]), run["attention"]["heads"], -1)[-1]
            told = [[int(re.search(r"(\d+) %$", cell)[1]) for cell in row] for row in panels["attention"][1:]]
            assert np.abs(np.array(told) - last / 2.55).max() <= 0.501
            computed = [*(plan["prefill"]["ops"] if s == 0 else []), *step["ops"]]
            assert all(plan["ops"][op] in panels["ops"] for op, *_ in computed)
            assert "linear" in panels["ops"], "a forward pass is part of every step"
            boxes = sum(
                len(part["boxes"]) for p in ([plan["prefill"]] if s == 0 else []) + [step] for part in p["parts"]
            )
            assert (
                panels["forward"].count("operations") == boxes and "linear: queries, keys, values" in panels["forward"]
            )
            M = last.shape[1]
            texts = [*seen.data["start"], *(t and t["text"] for t in run["tokens"])]
            words = seen.data["source"] or [texts[entry] for entry in path(seen.data, run, s, 0)]
            assert panels["look"] == "".join(words).translate(visible)
            assert panels["cells"] == [["36", str(4 * (M + 2)), 4 + 8 * M]]


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_a_text_that_has_ended_shows_what_its_row_repeats_as_idle(toy, tmp_path):
    options = {
        "do_sample": True,
        "num_return_sequences": 3,
        "seed": 1,
        "max_new_tokens": 8,
        "eos_token_id": list(range(70)),
    }
    seen = md.explore(toy, "a story", plans=["cache=split"], **options)
    (run,), (steps,) = seen.data["runs"], in_node(write(seen, tmp_path))
    lengths = [len(text["token_ids"]) for text in run["texts"]]
    assert min(lengths) < max(lengths), "some text ends before the others"
    idle = [token is not None and token.get("idle", False) for token in run["tokens"]]
    assert idle == [s >= lengths[r] - 1 and s < max(lengths) - 1
                    for s in range(max(lengths)) for r in range(3)]  # fmt: skip
    assert "has ended" in steps[-1]["rows"] and "has ended" not in steps[0]["rows"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """(data, file) of a prompt that tries to leave its place."""
    seen = md.explore(md.load("tiny-gpt2"), HOSTILE, num_beams=2, max_new_tokens=3)
    return seen.data, write(seen, tmp_path_factory.mktemp("hostile"))


def test_prompt_and_tokens_cannot_leave_the_data(hostile):
    data, file = hostile
    text = file.read_text(encoding="utf-8")
    assert text.count("</script>") == 2 and "<img" not in text and "\u2028" not in text
    (inside,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert "<" not in inside and json.loads(inside) == data and data["prompt"] == HOSTILE
    assert re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?\s*[a-z]+:', text.replace(inside, "")) == []
    assert "default-src 'none'" in text, "the browser asks no network for anything"


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_a_hostile_prompt_is_shown_as_it_stands(hostile):
    _, file = hostile
    assert all(HOSTILE in panels["texts"] for steps in in_node(file) for panels in steps)


def test_a_page_that_is_too_large_is_refused(toy, monkeypatch):
    seen = md.explore(toy, "a story", max_new_tokens=2)
    monkeypatch.setattr(pages, "MOST_BYTES", 30_000)
    with pytest.raises(md.InputError, match=r"the page would have 0\.1 MB, more than 0: use fewer new tokens"):
        seen.html()


def test_64_tokens_4_beams_and_3_plans_fit_into_3_megabytes():
    plans = ["cache=replicated", "cache=split", "cache=indirect"]
    options = {"num_beams": 4, "max_new_tokens": 64, "min_new_tokens": 64}
    prompt = "Fellow citizens of the Senate and of the House of Representatives, " * 3
    seen = md.explore(md.load("tiny-gpt2"), prompt, plans=plans, **options)
    assert len(seen.data["plans"][0]["steps"]) == 64
    assert len(seen.html().encode()) <= 3_000_000 == pages.MOST_BYTES


PROBE = """<script>
const page = document.getElementById("page");
page.onload = () => setTimeout(() => {
  const inside = page.contentDocument, html = inside.documentElement, slider = inside.getElementById("step");
  slider.value = slider.max;
  slider.dispatchEvent(new page.contentWindow.Event("input"));
  const box = (id) => inside.getElementById(id).getBoundingClientRect();
  document.getElementById("told").textContent = JSON.stringify({
    width: html.scrollWidth, at: inside.getElementById("at").textContent, title: inside.title,
    images: inside.images.length, beside: box("cache-panel").left > box("tree-panel").right,
    wide: [...inside.querySelectorAll(".scroll")].map((s) => [s.id || s.firstElementChild.id,
      s.scrollWidth - s.clientWidth, s.classList.contains("wide"),
      s.classList.contains("more") === (s.scrollWidth - s.clientWidth - s.scrollLeft > 1)]),
    heights: [...inside.querySelectorAll("section")].map((s) => s.getBoundingClientRect().height)});
}, 200);
page.srcdoc = PAGE;
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_fits_a_phone_and_a_laptop(hostile, tmp_path, width):
    _, file = hostile
    inside = json.dumps(file.read_text(encoding="utf-8")).replace("</", "<\\/").replace("<!--", "<\\!--")
    frame = tmp_path / "frame.html"
    frame.write_text(f'<!doctype html><meta charset="utf-8"><iframe id="page" width="{width}" height="900"></iframe>'
                     f'<pre id="told"></pre>{PROBE.replace("PAGE", inside)}', encoding="utf-8")  # fmt: skip
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
               f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
               frame.as_uri()]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    told = json.loads(html.unescape(re.search(r'<pre id="told">(.*?)</pre>', ran.stdout, re.DOTALL)[1]))
    assert told["width"] <= width and told["at"] == "step 3 of 3"
    assert told["images"] == 0 and told["title"] == "A generation, step by step", "the prompt's markup is text"
    for name, hidden, is_told, fades in told["wide"]:
        assert is_told == (hidden > 1) and fades and (name != "compare" or hidden <= 1), (name, hidden)
    assert told["beside"] == (width == 1280) and min(told["heights"]) > 100


# What is refused


def test_what_has_no_page_is_refused_in_one_line(toy, monkeypatch):
    for given, message in [
        ({"prompt": ["a", "b"]}, "explore takes one prompt"),
        ({"plans": []}, "explore needs a plan"),
        ({"plans": ["cache=split", "cache=split"]}, "cache=split is given twice"),
        ({"plans": "cache=spilt"}, "spilt"),
        ({"guidance_scale": 1.5}, "leave out guidance_scale"),
    ]:
        with pytest.raises(md.MinidecodeError, match=message):
            md.explore(toy, **({"prompt": "a", "max_new_tokens": 2} | given))
    with pytest.raises(md.OptionError, match="explore does not show gpt2_latent models"):
        md.explore(md.load("tiny-latent"), "the baker")
    monkeypatch.setattr(toy, "tokenizer", None)
    with pytest.raises(md.InputError, match="explore needs a tokenizer"):
        md.explore(toy, "a")
