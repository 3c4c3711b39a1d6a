"""The ladder: what each rung switches, what proves it, what is refused, and the arithmetic of its figures."""

import dataclasses
import importlib
import json
import re
import time
import warnings
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import numpy as np
import pytest
from taken_bytes import peak_of
from toy_folder import write_bart_folder, write_folder

import minidecode as md
from minidecode.bench import frontier, ladder, rungs
from minidecode.bench.machines import MACHINES, Machine
from minidecode.bench.pictures import ladder_in_words, ladder_picture, write_svg
from minidecode.catalog import Cost
from minidecode.errors import InputError, NumericalError, OptionError
from minidecode.plan import op_names
from minidecode.reference import el_split
from minidecode.runtime.trace import Candidate, TraceStep

HERE = Machine("this", 10e9, 40e9, "for tests")
SIZES = {"texts": 3, "input_length": 6, "max_new_tokens": 4, "num_beams": 2, "no_repeat_ngram_size": 2, "batch_size": 1,
         "repeats": 2}  # fmt: skip


@pytest.fixture(autouse=True)
def known_machine(monkeypatch):
    monkeypatch.setattr(ladder, "this_machine", lambda **given: HERE)
    monkeypatch.setattr(ladder, "MOST_PLANNING", 1.0)  # toys take less time than planning does


def by_the_model_alone(mine, before, least):
    """Which rungs are carried on does not hang on how busy this machine is."""
    return least > 1.01


@pytest.fixture
def settled(monkeypatch):
    monkeypatch.setattr(ladder, "is_slower", by_the_model_alone)


@pytest.fixture
def toy(tmp_path):
    return md.load(write_folder(tmp_path / "toy", n_positions=64))


def one(found, name):
    (step,) = [s for s in found.steps if s.name == name]
    return step


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A whole ladder with everything, on a toy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder, "this_machine", lambda **given: HERE)
        patch.setattr(ladder, "is_slower", by_the_model_alone)
        patch.setattr(ladder, "MOST_PLANNING", 1.0)
        model = md.load(write_folder(tmp_path_factory.mktemp("ladder") / "toy", n_positions=64))
        return ladder.ladder(model, name="toy", machine=["v100", "h200"], memory_budget="2MB", cell_seconds=1, **SIZES)


def test_every_op_has_a_stage():
    assert set(op_names()) <= set(ladder.STAGES) and set(ladder.STAGES.values()) <= set(ladder.SHARES)


def test_a_rung_is_the_one_before_it_and_one_switch(toy):
    work = rungs.Work.make(toy, 3, 6, 2, 4)
    setting = rungs.Setting({"base": "naive"}, "float32", 1, 0)
    seen = {}
    for rung in rungs.RUNGS:
        if rung.name in ("n-gram", "HARS", "drafted tokens"):  # n-grams are not banned here, and there are beams
            continue
        after = rungs.switch_setting(setting, rung, work)
        changed = {f.name for f in dataclasses.fields(after) if getattr(after, f.name) != getattr(setting, f.name)}
        assert changed == ({"choices"} if rung.choices else set()) | set(rung.change), rung.name
        assert rung.choices.items() <= after.choices.items()
        kept = {k: v for k, v in seen.items() if k not in rung.choices}
        if rung.name not in ("EL", "paged cache"):  # which drop what was chosen for the split cache
            assert kept.items() <= after.choices.items(), rung.name
            setting, seen = after, after.choices
    assert setting.plan == md.Plan.parse("fast,arena=planned,hars=off,cache_dtype=float16") and setting.batch_size == 3


def test_all_rungs_run_and_their_receipts_show_it(found):
    names = [s.name for s in found.steps]
    assert names == ["no cache", "cache", "pipeline", "n-gram", "cache de-duplication", "EL", "fused kernels",
                     "fused kernels, no ban", "HARS", "planned memory", "paged cache", "drafted tokens",
                     "low precision", "larger batch"]  # fmt: skip
    assert [s.name for s in found.steps if s.not_run] == ["drafted tokens"]
    assert "beams are several: give --num-beams 1" in one(found, "drafted tokens").not_run
    for rung in rungs.RUNGS:
        step = one(found, rung.name)
        if step.not_run:
            continue
        assert set(step.ran) == set(rung.ran) and all(words in step.ran[what] for what, words in rung.ran.items())
    assert one(found, "n-gram").ran["ban_ngrams"].startswith("minidecode.cpu.ngram.ban_ngrams")
    assert one(found, "HARS").no_repeat_ngram_size == 0 and one(found, "HARS").builds_on == "fused kernels, no ban"
    assert one(found, "planned memory").no_repeat_ngram_size == 2
    assert one(found, "low precision").other_precision and not one(found, "EL").other_precision
    assert all(s.differing == 0 for s in found.steps if not s.other_precision)


def test_the_figures_of_a_rung(found):
    for s in found.measured:
        median, fastest, slowest = s.seconds
        assert 0 < fastest <= median <= slowest and s.samples_per_second == pytest.approx(3 / median) and s.runs == 2
        assert sum(s.shares.values()) == pytest.approx(1) and s.peak_bytes > 0
        assert s.cost["bytes"] > 0 and s.predicted["h200"] > s.predicted["v100"] > 0
    assert found.steps[0].speedup_total == 1
    assert one(found, "cache de-duplication").memory_bytes < one(found, "cache").memory_bytes
    assert [s.name for s in found.steps if not s.carried] == ["EL", "paged cache"], "by the cost model"
    assert one(found, "low precision").memory_bytes < one(found, "planned memory").memory_bytes


def test_a_ban_that_does_something_else_is_refused_and_nothing_is_timed(toy, monkeypatch, settled):
    from minidecode.cpu import ngram

    def bans_the_best(scores_RV, tokens_RM, length_R, n, out=None):
        scores_RV[np.arange(len(scores_RV)), scores_RV.argmax(axis=1)] = -np.inf
        return scores_RV

    bans_the_best.__module__ = "minidecode.cpu.ngram"
    monkeypatch.setattr(ngram, "ban_ngrams", bans_the_best)
    monkeypatch.setattr(ladder, "time_by_turns", lambda *_: pytest.fail("something was timed"))
    with pytest.raises(NumericalError, match=r"^n-gram gives text 1 of 3 other tokens than pipeline.*nothing is timed"):
        ladder.ladder(toy, **SIZES)


def test_texts_of_a_tokenizer_that_does_not_know_the_sentence():
    """No text is blank, however short; and one that is too long is an error of the length that was asked for."""
    with warnings.catch_warnings(action="ignore"):  # of the translator, without a task
        models = [md.load(name) for name in ("tiny-latent", "tiny-translator", "tiny-gpt2")]
    for model in models:
        given = rungs.make_texts_of_length(model, 3, 4)
        assert len(set(given)) == 3 and all(text.strip() for text in given)
    says = r"^input_length=64 or max_new_tokens=8 is too large, so lower one: .* the model's context holds 31$"
    with pytest.raises(md.OptionError, match=says):
        rungs.Work.make(models[0], 1, 64, 4, 8)


def test_a_switch_that_is_not_on_is_refused(toy, monkeypatch, settled):
    (rung,) = [r for r in rungs.RUNGS if r.name == "n-gram"]
    off = dataclasses.replace(rung, choices={"ngram": "reference"})
    monkeypatch.setattr(ladder, "RUNGS", (off,))
    with pytest.raises(NumericalError, match="n-gram was asked for and did not run: ban_ngrams shows"):
        ladder.ladder(toy, **SIZES)


def trace_of(*pairs):
    """A step whose candidates have these (token, score)."""
    return [TraceStep(0, 0, 0, [[]], [Candidate(token, 0, score, "runs") for token, score in pairs], {})]


@pytest.mark.parametrize(
    ("theirs", "tie"),
    [(trace_of((2, -1.0), (1, -1.0 - 1e-7)), True),  # the other order, as near as rounding
     (trace_of((2, -0.5), (1, -1.0)), False),  # no rounding does that
     (trace_of((1, -1.3), (2, -1.4)), False),  # the same order, other scores
     (trace_of((1, -1.0), (2, -1.0 - 1e-7)), False)],  # the same candidates: something else parted them
)  # fmt: skip
def test_what_counts_as_a_tie(toy, monkeypatch, theirs, tie):
    traces = {"mine": trace_of((1, -1.0), (2, -1.0 - 1e-7)), "theirs": theirs}
    monkeypatch.setattr(rungs, "_trace_one_text", lambda work, number, setting: traces[setting])
    work = rungs.Work.make(toy, 1, 6, 2, 4)
    assert 0 < rungs.score_bound(rungs.logit_error(work, 0)[0], 1) < 1e-3
    assert rungs.is_tie(work, 0, "mine", "theirs") is tie


def test_a_loser_says_why_and_is_not_carried_on(toy, monkeypatch):
    fast = el_split.attend_el_split

    def slow(*args, **more):
        time.sleep(0.02)
        return fast(*args, **more)

    slow.__module__ = fast.__module__
    monkeypatch.setattr(el_split, "attend_el_split", slow)
    picked = [r for r in rungs.RUNGS if r.name in ("cache", "EL", "cache de-duplication", "fused kernels")]
    monkeypatch.setattr(ladder, "RUNGS", tuple(picked))
    judged = []

    def judge(mine, before, least):  # the third is EL; the clock of a busy machine is asked for none
        judged.append(least)
        return len(judged) == 3

    monkeypatch.setattr(ladder, "is_slower", judge)
    found = ladder.ladder(toy, **SIZES)
    el, fused = one(found, "EL"), one(found, "fused kernels")
    assert not el.carried and el.speedup < 0.9
    assert "attention does" in el.why and "operations per byte" in el.why and "does 4.0 in the time of a byte" in el.why
    assert fused.builds_on == "cache de-duplication" and "cache=split" in fused.plan
    assert f"slower, so it is dropped. {el.why[:1].upper()}{el.why[1:40]}" in str(found)


DRAFTED = SIZES | {"num_beams": 1, "no_repeat_ngram_size": 0, "max_new_tokens": 12, "repeats": 1}


@pytest.mark.parametrize("ban", [2, 0])
def test_one_beam_drafts_tokens_and_nothing_is_built_on_them(toy, monkeypatch, settled, ban):
    names = ("cache", "paged cache", "drafted tokens", "larger batch")
    monkeypatch.setattr(ladder, "RUNGS", tuple(r for r in rungs.RUNGS if r.name in names))
    monkeypatch.setattr(ladder, "is_slower", lambda *_: False)
    found = ladder.ladder(toy, **DRAFTED | {"no_repeat_ngram_size": ban})
    drafted, larger = one(found, "drafted tokens"), one(found, "larger batch")
    assert not any(s.not_run or s.differing for s in found.steps)
    assert re.match(r"\d+ of [1-9]\d* drafted tokens accepted", drafted.ran["drafts"])
    assert (drafted.builds_on, drafted.no_repeat_ngram_size) == (f"paged cache{', no ban' if ban else ''}", 0)
    assert (larger.builds_on, larger.no_repeat_ngram_size) == ("paged cache", ban)
    assert "cache=paged" in larger.plan and larger.memory_bytes > 0


def test_drafted_tokens_that_differ_are_refused_unless_they_tie(toy, monkeypatch, settled):
    def wrong(run):
        def other(work, setting, *more, **given):
            done = run(work, setting, *more, **given)
            if setting.drafts:
                done.tokens[1][2] = 1 + done.tokens[1][2] % 5
            return done

        return other

    for name in ("run_texts", "run_ids"):
        monkeypatch.setattr(ladder, name, wrong(getattr(ladder, name)))
    monkeypatch.setattr(ladder, "RUNGS", tuple(r for r in rungs.RUNGS if r.name in ("cache", "drafted tokens")))
    with pytest.raises(NumericalError, match=r"^drafted tokens gives text 2 of 3 other tokens than cache, and no tie"):
        ladder.ladder(toy, **DRAFTED)
    monkeypatch.setattr(rungs, "logit_error", lambda *_: (1e9, 0.0))
    assert one(ladder.ladder(toy, **DRAFTED), "drafted tokens").differing == 1
    (step,) = ladder.ladder(toy, **DRAFTED | {"max_new_tokens": 4}).steps[2:]
    assert step.not_run.startswith("no token was guessed, because no words of a text came back")


def test_a_rung_that_takes_long_is_not_run_again(toy, monkeypatch, settled):
    real = ladder.run_texts

    def run(work, setting):
        done = real(work, setting)
        return dataclasses.replace(done, seconds=ladder.LONG) if setting.choices.get("cache") == "el" else done

    monkeypatch.setattr(ladder, "run_texts", run)
    monkeypatch.setattr(ladder, "RUNGS", tuple(r for r in rungs.RUNGS if r.name in ("cache", "EL")))
    found = ladder.ladder(toy, **SIZES)
    cache, el = one(found, "cache"), one(found, "EL")
    assert (cache.runs, el.runs) == (SIZES["repeats"], 1)
    assert el.builds_on == "cache" and el.speedup < 1 and el.seconds == [ladder.LONG] * 3


def test_sizes_are_made_smaller_until_the_seconds_are_enough(toy, monkeypatch):
    monkeypatch.setattr(ladder, "run_ids", lambda *_: rungs.Run(1e-3 * ladder.tokens_without_cache(PROBE), [], [], {}))
    whole = {"texts": 8, "input_length": 64, "max_new_tokens": 16, "num_beams": 2, "batch_size": 2, "repeats": 3}
    may = ("texts", "input_length", "max_new_tokens", "batch_size")
    assert ladder.fit_sizes(toy, whole, may, 1e9) == whole
    found = ladder.fit_sizes(toy, whole, may, 300.0)
    assert 75 < 1e-3 * ladder.tokens_without_cache(found) * ladder.NO_CACHE_RUNS <= 300
    assert found["batch_size"] < found["texts"] and found["num_beams"] == 2
    assert ladder.fit_sizes(toy, whole, may, 1e-9) == whole | ladder.SMALLEST
    assert ladder.fit_sizes(toy, whole, ("texts",), 1e-9) == whole | {"texts": 2}, "what is given stays"


PROBE = {"texts": 1, "input_length": 4, "num_beams": 2, "max_new_tokens": ladder.FEWEST_NEW}


def test_without_time_left_each_rung_is_timed_once_and_says_so(toy, monkeypatch, settled):
    monkeypatch.setattr(ladder, "RUNGS", tuple(r for r in rungs.RUNGS if r.name in ("cache", "pipeline")))
    monkeypatch.setattr(ladder.Clock, "has_seconds_left", lambda self, seconds: self.seconds_without_compiling == 0)
    monkeypatch.setattr(ladder.Clock, "seconds_without_compiling", property(lambda self: 1.0))
    found = ladder.ladder(toy, **SIZES, seconds=1.0)
    assert [s.not_run for s in found.steps] == ["", *["no time was left (--seconds)"] * 2]
    (step,) = found.measured
    assert step.timed_once and step.runs == 1 < SIZES["repeats"]
    assert str(found).count("timed once: no time was left for more") == 1
    assert found.as_dict()["steps"][0]["timed_once"] is True and found.work["smaller"] == []


def test_progress_goes_on_within_a_rung_and_never_back(toy, monkeypatch, settled):
    monkeypatch.setattr(ladder, "RUNGS", tuple(r for r in rungs.RUNGS if r.name in ("cache", "pipeline")))
    told, said = [], []
    ladder.ladder(toy, **SIZES, progress=lambda done, total: told.append(done / total), announce=said.append)
    assert told == sorted(told) and told[-1] == 1 and len(told) > 3 + 2 * SIZES["repeats"]
    assert said[0].startswith("1/3 no cache: ") and all(re.search(r"; about \d+ s left$", s) for s in said[1:3])


def test_a_little_slower_is_a_loss_only_where_more_is_to_be_done():
    assert not ladder.is_slower([1.03], [1.0], least=1.0) and ladder.is_slower([1.03], [1.0], least=1.2)
    assert not ladder.is_slower([1.2, 1.1, 1.2], [1.0, 1.3, 1.3], least=1.0), "its median is faster"
    assert ladder.is_slower([1.2, 1.1], [1.0], least=0.9) and not ladder.is_slower([0.9], [1.0], least=9.0)


def test_the_outcome_in_words():
    lost = ladder.Step("x", "", carried=False, speedup=1.02, trial=[1.1, 1.0])
    assert lost.outcome_in_words == "slower in its trial (1.100 s; before: 1.000 s), so it is dropped"
    assert dataclasses.replace(lost, speedup=0.9).outcome_in_words == "slower, so it is dropped"
    kept = dataclasses.replace(lost, speedup=0.9, carried=True)
    assert kept.outcome_in_words == "slower, but its trial was too close to tell, so it is kept"


def test_the_tables_are_not_wider_than_a_terminal(found):
    """Also with every machine that can be predicted for, and with long reasons."""
    predicted = dict.fromkeys(MACHINES, 1.0)
    step = dataclasses.replace(found.measured[-1], why="word " * 60, speedup=0.5, predicted=predicted)
    left_out = ladder.Step("EL", "", not_run="word " * 60)
    wide = dataclasses.replace(found, steps=[step, left_out], predicted=list(MACHINES))
    for shown in (found, wide):
        assert max(map(len, str(shown).splitlines())) <= frontier.WIDTH
    first, second = (x for x in str(wide).splitlines() if x.startswith(("percent of the ", "busy seconds ")))
    names = [f"{first[at : at + 10].strip()} {second[at : at + 10].strip()}" for at in range(26, len(second), 10)]
    assert tuple(name.strip() for name in names) == ladder.SHARES


def test_json_comes_back_whole(found, tmp_path):
    path = tmp_path / "ladder.json"
    path.write_text(json.dumps(found.as_dict()), encoding="utf-8")
    again = ladder.read_ladder(path)
    assert again == found and str(again) == str(found)
    for other in ("[1]", "{", '{"steps": [{"speed": 1}], "frontier": null}'):
        path.write_text(other, encoding="utf-8")
        with pytest.raises(InputError, match="holds no ladder"):
            ladder.read_ladder(path)


def test_the_picture_names_each_rung_and_describes_itself(found, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "ladder.svg"
    with path.open("w", encoding="utf-8") as file:
        write_svg(ladder_picture(found), file, "The ladder of <toy>", ladder_in_words(found))
    root = ElementTree.parse(path).getroot()
    svg = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{svg}title").text == "The ladder of <toy>" and root.get("role") == "img"
    description, drawn = root.find(f"{svg}desc").text, [t.text for t in root.iter(f"{svg}text")]
    for s in found.measured:
        assert s.name in description and drawn.count(s.name) == 2
    assert float(root.get("width").removesuffix("pt")) * 96 / 72 < 420, "a telephone shows it nearly at its own size"


# ---- batch sizes under a cap -----------------------------------------------------------------------------------------


def test_batches_double_until_they_do_not_fit(found, tmp_path):
    model = md.load(write_folder(tmp_path / "toy", n_positions=64))
    for method, choices in frontier.METHODS.items():
        cells = [c for c in found.frontier.cells if (c.machine, c.method) == ("this", method)]
        assert [c.batch for c in cells] == [2**i for i in range(len(cells))]
        assert [c.state == "out of memory" for c in cells] == [False] * (len(cells) - 1) + [True]
        assert cells[0].state == "measured" and cells[0].samples_per_second > 0
        assert all(c.why for c in cells if c.state == "fits") and all(c.samples_per_second is None for c in cells
                                                                      if c.state not in ("measured",))  # fmt: skip
        for c in cells:
            longest = max(len(ids) for ids in rungs.Work.make(model, 3, 6, 2, 4).ids)
            plan = md.Plan(base="fast", arena="none", hars="off", **choices)
            needs = model.footprint(input_ids=np.ones((c.batch, longest), int), plan=plan, num_beams=2,
                                    max_new_tokens=4, no_repeat_ngram_size=2, eos_token_id=None).total  # fmt: skip
            assert c.needs == needs and (needs > 2_000_000) == (c.state == "out of memory")
        assert f"OOM (needs {frontier.format_bytes(cells[-1].needs)})" in str(found)


def test_other_machines_have_their_own_caps(found):
    weights = found.frontier.weights
    assert found.frontier.caps == {"this": 2_000_000, "v100": 16 * 10**9 - weights, "h200": 141 * 10**9 - weights}
    for m in ("v100", "h200"):
        cells = [c for c in found.frontier.cells if c.machine == m]
        assert {c.state for c in cells} == {"predicted", "out of memory"}
        most = {method: max(c.batch for c in cells if c.method == method) for method in frontier.METHODS}
        assert most["cache per beam"] <= most["de-duplicated"] and most["no cache"] <= most["de-duplicated"]


def test_a_narrow_memory_needs_less(toy):
    work = rungs.Work.make(toy, 1, 6, 2, 4)
    start = rungs.Setting({"base": "fast", "arena": "none", "hars": "off"}, "float32", 1, 0)
    wide, narrow = (
        frontier.footprint_of_batch(work, dataclasses.replace(start, choices=start.choices | frontier.METHODS[m]), 500)
        for m in ("de-duplicated", "de-dupl., float16")
    )
    assert narrow < wide


def test_what_takes_too_long_is_not_timed(toy):
    work = rungs.Work.make(toy, 2, 6, 2, 4)
    cells = frontier.explore(work, 0, 2_000_000, [], 1, 0.0).cells
    assert {c.batch for c in cells if c.state == "measured"} == {1}
    assert all("more than 0 s" in c.why for c in cells if c.state == "fits")


@pytest.mark.parametrize("method", ["cache per beam", "de-duplicated", "EL"])
def test_costs_of_a_larger_batch_are_continued_as_they_are(toy, method):
    work = rungs.Work.make(toy, 1, 6, 2, 4)  # one text, several times: the same beams move in each
    setting = rungs.Setting(
        {"base": "fast", "arena": "none", "hars": "off"} | frontier.METHODS[method], "float32", 1, 0
    )
    one, two = frontier.record_receipts(work, setting)
    five = rungs.run_ids(
        frontier.work_with_batch(work, 5), dataclasses.replace(setting, batch_size=5), costs=True
    ).receipts
    assert ladder.sum_of_costs(frontier.extrapolate_costs(one, two, 5)) == ladder.sum_of_costs(
        ladder.costs_in_receipt(five[0])
    )


def test_a_prediction_is_no_slower_where_memory_or_arithmetic_is_faster(toy):
    work = rungs.Work.make(toy, 1, 6, 2, 4)
    receipts = rungs.run_ids(work, rungs.Setting({}, "float32", 1, 0), costs=True).receipts
    v100 = MACHINES["v100"]
    seconds = [
        ladder.least_seconds(receipts, dataclasses.replace(v100, bandwidth=v100.bandwidth * f))
        for f in (0.5, 1, 2, 1e6)
    ]
    assert seconds == sorted(seconds, reverse=True) and seconds[0] > seconds[2]
    every = ladder.sum_of_costs(ladder.costs_in_receipt(receipts[0]))
    assert seconds[-1] >= every.operations / v100.operations
    faster = dataclasses.replace(v100, operations=2 * v100.operations)
    assert ladder.least_seconds(receipts, faster) <= seconds[1]


def test_naive_code_is_predicted_operation_by_operation(found, toy):
    fused, before = one(found, "fused kernels"), one(found, "cache de-duplication")
    assert fused.predicted["v100"] > before.predicted["v100"], "what is fused moves less"
    norm = toy.weights.blocks[0].ln_1
    given = {"x_RD": np.ones((3, 8), np.float32), "y_RD": None, "bias_D": None, "norm": norm}
    naive = rungs.cost_as_written("residual_norm", backend_of("norm").residual_norm_naive, given)
    fused = rungs.cost_as_written("residual_norm", backend_of("norm").residual_norm, given)
    assert naive.bytes > 2 * fused.bytes and naive.operations == fused.operations
    assert rungs.cost_as_written("take", np.take, {}) is None, "no row of the catalog"


def backend_of(name):
    return importlib.import_module(f"minidecode.reference.{name}")


def test_a_receipt_with_costs_has_one_for_each_call(toy):
    out = toy.generate(input_ids=[[5, 9, 2]], costs=True, num_beams=2, max_new_tokens=4, no_repeat_ngram_size=2)
    assert all(len(c.costs) == c.calls for c in out.receipt.ops.values())
    first = out.receipt.ops["linear"].costs[0]  # three rows of width 8 to queries, keys and values
    assert first == Cost(4 * (3 * 8 + 3 * 24 + 8 * 24), 2 * 3 * 8 * 24)
    assert not any(c.costs for c in toy.generate(input_ids=[[5, 9, 2]], max_new_tokens=2).receipt.ops.values())


# ---- other models, and what cannot be --------------------------------------------------------------------------------


def test_without_a_tokenizer_there_is_no_pipeline_and_without_a_ban_no_rung_for_it(tmp_path, settled):
    folder = write_folder(tmp_path / "toy", n_positions=64)
    (folder / "tokenizer.json").unlink()
    found = ladder.ladder(md.load(folder, random_weights=True), **SIZES | {"no_repeat_ngram_size": 0})
    assert "no tokenizer" in one(found, "pipeline").not_run and "no n-gram is banned" in one(found, "n-gram").not_run
    assert one(found, "HARS").builds_on == "fused kernels"
    assert "hars=cpu" in one(found, "larger batch").plan, "without a ban it goes on"


def test_an_encoder_decoder_model(tmp_path, settled):
    model = md.load(write_bart_folder(tmp_path / "toy-bart"))
    found = ladder.ladder(model, **SIZES)
    assert [s.name for s in found.steps if s.not_run] == ["drafted tokens"]
    assert "minidecode.cache.el" in one(found, "EL").ran["cache"]


@pytest.mark.parametrize(("bad", "says"), [
    ({"machine": "abacus"}, "there is no machine 'abacus': say v100, t4, h100, h200"),
    ({"texts": 0}, "texts must be an integer from 1 up, not 0"),
    ({"repeats": True}, "repeats must be an integer"),
])  # fmt: skip
def test_what_cannot_be_asked(toy, bad, says):
    with pytest.raises(OptionError, match=says):
        ladder.ladder(toy, **SIZES | bad)


@pytest.mark.parametrize("has_source", [False, True])
@pytest.mark.parametrize("cache", ["replicated", "preallocated", "split", "indirect", "el"])
def test_the_footprint_of_a_narrow_memory_holds(tmp_path, cache, has_source):
    folder = write_bart_folder(tmp_path / "toy") if has_source else write_folder(tmp_path / "toy", n_positions=64)
    model, ids = md.load(folder), np.ones((40, 9), int)
    how = {"input_ids": ids, "plan": f"cache={cache},cache_dtype=float16", "num_beams": 3, "max_new_tokens": 6,
           "eos_token_id": None}  # fmt: skip
    said = model.footprint(**how)
    model.generate(**how)  # what is imported once
    out, peak = peak_of(lambda: model.generate(**how), said.total)
    assert out.receipt.cache_peak_bytes <= said.cache <= 1.5 * out.receipt.cache_peak_bytes
    assert peak <= said.total


def test_compiling_takes_none_of_the_seconds(monkeypatch):
    """Each rung compiles for 50 ms: all of them run, and the clock has not noticed."""
    from numba.core import event

    rung = SimpleNamespace(
        step=SimpleNamespace(carried=False), setting=rungs.Setting({}, "float32", 1, 0), fastest=0.0, planning=0.0
    )

    def compiles(below, *rest):
        with event.trigger_event("numba:compile"):
            time.sleep(0.05)
        return below, rung

    monkeypatch.setattr(ladder, "try_rung", lambda *given: rung)
    monkeypatch.setattr(ladder, "try_rungs_above", compiles)
    monkeypatch.setattr(ladder, "decide_on_switch", lambda *given: None)
    began, clock, said = time.perf_counter(), ladder.Clock(1000.0), []
    work = SimpleNamespace(model=SimpleNamespace(dtype="float32"))
    _, climbed = ladder.climb_rungs(work, 1, 0, None, False, lambda done: None, said.append, clock)
    compiling = [f"compiling for {r.name}: once on this machine, and not counted in --seconds" for r in ladder.RUNGS]
    assert said[2::2] == compiling, "behind what each rung does"
    assert len(climbed) == 1 + len(ladder.RUNGS)
    assert clock.seconds_without_compiling <= time.perf_counter() - began - 0.05 * len(ladder.RUNGS)


@pytest.mark.parametrize("run_seconds", [0.05, 0.2, 0.3, 0.5, 0.7, 1.0, 3.0])
def test_the_seconds_are_kept_by_the_clock(monkeypatch, run_seconds):
    """A run under tracemalloc or with costs takes twice as long, EL six times; the last turns are a fifth slower."""
    now, slower = [0.0], {"EL": 6.0}

    def spends(setting, factor):
        seconds = run_seconds * slower.get(setting, 1.0)
        now[0] += factor * seconds
        return seconds

    def tried(work, rung, setting, before, predicts):
        seconds = spends(rung.name, 4.0)
        step = ladder.Step(rung.name, "", builds_on=before.step.name if before else "")
        named = dataclasses.replace(setting, dtype=rung.name)
        return ladder.Climbed(step, named, rungs.Run(seconds, [], [], {}), [], seconds)

    def run(work, setting):
        return SimpleNamespace(seconds=spends(setting.dtype, 1.2))

    monkeypatch.setattr(ladder, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(ladder, "try_rung", tried)
    monkeypatch.setattr(ladder, "switch_setting", lambda setting, rung, work: setting)
    monkeypatch.setattr(ladder, "run_texts", run)
    monkeypatch.setattr(ladder, "least_ratio", lambda *given: 1.0)
    monkeypatch.setattr(ladder, "seconds_by_stage", lambda done: ladder.Counter())
    clock, work = ladder.Clock(20.0), SimpleNamespace(model=SimpleNamespace(dtype="float32"))
    steps, climbed = ladder.climb_rungs(work, 1, 3, None, False, lambda done: None, lambda what: None, clock)
    ladder.time_by_turns(work, climbed, 3, lambda done: None, clock)
    assert now[0] <= max(1.15 * 20.0, 6 * run_seconds), "about so long, or as long as the first rung alone"
    if run_seconds < 0.1:
        assert not any(s.not_run for s in steps)


def test_planning_that_takes_as_long_as_the_steps_is_left_out_and_says_so(toy, monkeypatch, settled):
    """It would look like a loss; on larger work it saves."""
    monkeypatch.setattr(ladder, "RUNGS", tuple(r for r in rungs.RUNGS if r.name in ("cache", "planned memory")))
    monkeypatch.setattr(ladder, "MOST_PLANNING", 0.1)
    found = ladder.ladder(toy, **SIZES)
    planned = one(found, "planned memory")
    assert re.fullmatch(r"planning, which is done once, took \d+ % of so short a generation: give more "
                        "--max-new-tokens to see what it saves at each step", planned.not_run)  # fmt: skip
    assert "planned memory" not in [s.name for s in found.measured] and "planned memory   " in str(found)


def test_one_batch_has_nothing_to_read_ahead(toy):
    work = rungs.Work.make(toy, 2, 4, 2, 4)
    (pipeline,) = [r for r in rungs.RUNGS if r.name == "pipeline"]
    for batch_size, refused in ((1, False), (2, True)):
        setting = rungs.Setting(dict(rungs.NO_CACHE.choices), "float32", batch_size, 0)
        with (
            pytest.raises(OptionError, match="all texts are in one batch, so") if refused else warnings.catch_warnings()
        ):
            rungs.switch_setting(setting, pipeline, work)


@pytest.mark.parametrize(("load", "cores", "warns"), [("1.6", "2", True), ("0.9", "2", False), ("7.9", "16", False)])
def test_other_work_on_the_machine_is_warned_of_above_the_table(found, load, cores, warns):
    first = str(dataclasses.replace(found, where=found.where | {"load": load, "cores": cores})).splitlines()[0]
    said = f"Warning: other work was running (load average {load} on {cores} cores). The times below are of a busy"
    assert first.startswith(said) if warns else first.startswith("toy: ")


def test_the_load_is_that_before_the_ladder(toy, monkeypatch, settled):
    """Its own work is none of it."""
    monkeypatch.setattr(ladder, "RUNGS", ())
    loads = iter([(0.3, 0, 0), (9.9, 0, 0)])
    monkeypatch.setattr(ladder.os, "getloadavg", lambda: next(loads), raising=False)
    assert ladder.ladder(toy, **SIZES).where["load"] == "0.3"
