"""The GPU's table of peers: turns, batches and failures by processes that are played; each system on toy shapes."""

import importlib
import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from toy_folder import BART_CONFIG, CONFIG, toy_tensors, write_json, write_safetensors

from minidecode.errors import MemoryBudgetError

HERE = Path(__file__).parents[2]
NEEDED = "needs transformers itself: pip install '.[oracle]'"
GREEDY = {"model": "gpt2", "batch": 2, "length": 3, "new": 4, "beams": 1}
BEAMS = GREEDY | {"model": "bart", "beams": 2}


@pytest.fixture
def script(monkeypatch):
    """Under its own name, so that processes that it starts find it."""
    monkeypatch.syspath_prepend(str(HERE / "benchmarks"))
    module = importlib.import_module("gpu_peers")
    monkeypatch.setattr(module, "prompts_of", lambda setting: [[1, 2, 3], [3, 2, 1]])
    return module


class Plays:
    """A system's process, as it is seen from here: answers with what `of` says of a setting."""

    def __init__(self, of):
        self.of, self.asked, self.loaded = of, [], False

    def send(self, setting):
        self.asked.append(setting)

    def recv(self):
        if not self.asked:
            return {}
        return self.of(self.asked[-1], len(self.asked))


def takes(seconds, token=7):
    """Texts of one token, in as many seconds as it says of (setting, how often it was asked)."""

    def answer(setting, times):
        tokens = [[token] * setting["new"] for _ in range(setting["batch"])]
        return {"tokens": tokens, "seconds": seconds(setting, times)}

    return answer


def test_turns_are_counted_after_the_warm_ups(script):
    pipes = {script.OURS: Plays(takes(lambda setting, times: 10.0 - times)), script.EAGER: Plays(takes(lambda *_: 8.0))}
    rows = script.by_turns(GREEDY, pipes, 3)
    assert rows[script.OURS] == {"tokens": 8, "seconds": [5.0, 6.0, 7.0], "tokens_as_eager": 4}
    assert rows[script.EAGER] == {"tokens": 8, "seconds": [8.0] * 3}
    assert script.rates(rows[script.OURS]) == (8 / 6, 8 / 7, 8 / 5)
    assert script.over(rows[script.OURS], rows[script.EAGER]) == "1.33x (1.14-1.60)"


def test_what_fails_is_told_and_not_asked_again(script):
    def dies(setting, times):
        if times == 2:
            raise EOFError
        return takes(lambda *_: 1.0)(setting, times)

    def few(setting, times):
        return {"tokens": [[1, 2]], "seconds": 1.0}

    played = {"full": Plays(lambda *_: {"failed": script.NO_MEMORY}), "dead": Plays(dies), "few": Plays(few),
              "well": Plays(takes(lambda *_: 1.0))}  # fmt: skip
    rows = script.by_turns(GREEDY, played, 2)
    assert rows["full"] == {"failed": "out of memory"} and rows["few"] == {"failed": "2 tokens, and not 4"}
    assert rows["dead"] == {"failed": "its process ended: see what it printed"} and len(rows["well"]["seconds"]) == 2
    assert [len(pipe.asked) for pipe in played.values()] == [1, 2, 1, 4]
    assert script.over(rows["well"], rows["full"]) == "" and script.cell(rows["full"], True) == "out of memory"


def test_texts_are_alike_up_to_the_first_other_token(script):
    assert script.leading([1, 2, 3, 4], [1, 2, 9, 4]) == 2 and script.leading([1, 2], [1, 2]) == 2
    rows = script.by_turns(GREEDY, {script.OURS: Plays(takes(lambda *_: 1.0, token=3)),
                                    script.EAGER: Plays(takes(lambda *_: 1.0))}, 1)  # fmt: skip
    assert rows[script.OURS]["tokens_as_eager"] == 0


@pytest.mark.parametrize(
    ("seconds", "full_at", "batches", "best"),
    [(lambda batch: 1.0, 32, [4, 8, 16, 32], 16),  # until it is out of memory
     (lambda batch: max(batch, 8), 999, [4, 8, 16, 32], 8),  # twice nothing is gained
     (lambda batch: 9.0 if batch == 8 else 1.0, 999, [4, 8, 16, 32, 64], 64),  # slower once, and then faster
     (lambda batch: 1.0, 4, [4], 4)],
)  # fmt: skip
def test_batches_are_doubled_until_that_gains_nothing(script, seconds, full_at, batches, best):
    def answer(setting, times):
        if setting["batch"] >= full_at:
            return {"failed": script.NO_MEMORY}
        return takes(lambda setting, times: seconds(setting["batch"]))(setting, times)

    setting = {k: v for k, v in BEAMS.items() if k != "batch"}
    rows = script.doubled(setting, script.OURS, Plays(answer), 1, 4, 64)
    assert [row["batch"] for row in rows] == batches and script.best(rows)["batch"] == best


def plays_all(seconds):
    """In the place of `running`: systems whose processes are played."""

    @contextmanager
    def running(systems, folder, device):
        yield {name: Plays(takes(seconds(name))) for name in systems}

    return running


def test_a_whole_run_writes_a_table_and_all_figures(script, tmp_path, monkeypatch, capsys):
    """Eager takes a second a batch, whatever its size, and has room for 16; ours half of it, and for all."""
    out, page = tmp_path / "peers.json", tmp_path / "page.md"
    page.write_text("<!-- gpu-peers: here -->\n<!-- end of gpu-peers -->\n", encoding="utf-8")
    taken = {script.OURS: 0.128, script.EAGER: 0.512, script.STATIC: 0.256, f"{script.STATIC} kept": 0.192}
    monkeypatch.setattr(script, "running", plays_all(lambda name: lambda *_: taken.get(name, 1.0)))
    monkeypatch.setattr(script, "made", lambda *_: None)
    monkeypatch.setattr(script, "device_kind", lambda: "gpu")
    monkeypatch.setattr(script, "chosen_device", lambda name: name)
    given = ["--runs", "2", "--largest-batch", "16", "--note", "played", "--out", str(out), "--readme", str(page)]
    monkeypatch.setattr("sys.argv", ["gpu_peers.py", *given])
    script.main()
    found = json.loads(out.read_text(encoding="utf-8"))
    lines = script.table(found).splitlines()
    assert script.table(found) in page.read_text(encoding="utf-8") and script.table(found) in capsys.readouterr().out
    assert lines[2] == (
        "| gpt2, greedy, 1 x 32, 256 new | 0.500 ms (0.500-0.500) | 2.000 ms (2.000-2.000) | 0.750 ms (0.750-0.750)"
        " | 4.00x (4.00-4.00) | 1.50x (1.50-1.50) | 0.35 ms; 5.0x over eager; 1.0x over static |"
    )
    assert lines[3] == (
        "| bart-large, beam 4, source 1024, 64 new | 8,000 tokens/s at batch 16 | 2,000 tokens/s at batch 16 | "
        " | 4.00x (4.00-4.00) |  | 3.0x over eager |"
    )
    assert "| minidecode | 4,000 | 8,000 |" in lines and "| transformers, eager | 1,000 | 2,000 |" in lines
    assert lines[-1] == "played" and "Medians of 2 turns" in lines[-3]
    assert set(found["work"]) == set(script.WORKS)


def test_what_cannot_be_loaded_is_a_cell(script, tmp_path):
    """In a process of its own, as in a run."""
    systems = {script.OURS: ("ours", {}), script.EAGER: ("no such system", {})}
    at_once = script.all_at_once(GREEDY, systems, tmp_path / "nowhere", "emulator", 1)
    (mine,), (theirs,) = at_once.values()
    assert "CheckpointError" in mine["failed"] and "KeyError" in theirs["failed"] and mine["batch"] == 2


def test_one_after_another_has_the_card_to_itself(script, monkeypatch):
    loaded = []

    @contextmanager
    def running(systems, folder, device):
        loaded.append(list(systems))
        yield {name: Plays(takes(lambda *_: 1.0)) for name in systems}

    monkeypatch.setattr(script, "running", running)
    setting = {k: v for k, v in BEAMS.items() if k != "batch"}
    found = script.one_after_another(setting, script.SYSTEMS, Path("."), "cuda", 1, 1, 2)
    assert loaded == [[name] for name in script.SYSTEMS]
    assert [[row["batch"] for row in rows] for rows in found.values()] == [[1, 2]] * len(loaded)


class Told(list):
    """The other end of a pipe: what is asked, and what was answered."""

    def __init__(self, *asked):
        self.asked, self.send = iter([*asked, None]), self.append

    def recv(self):
        return next(self.asked)


def test_a_process_answers_and_goes_on_after_a_failure(script, monkeypatch):
    prepared = []

    def prepare(setting):
        prepared.append(setting["batch"])

        def run():
            if setting["batch"] == 9:
                raise MemoryError
            return [[1] * 4]

        return run

    monkeypatch.setattr(script, "played", lambda folder, device: prepare, raising=False)
    asked = [GREEDY, GREEDY, GREEDY | {"batch": 9}, GREEDY]
    script.serve(pipe := Told(*asked), "played", Path("."), "cpu", {})
    ready, first, second, failed, again = pipe
    assert ready == {} and failed == {"failed": "out of memory"} and prepared == [2, 9, 2]
    assert all(answer["tokens"] == [[1] * 4] and answer["seconds"] >= 0 for answer in (first, second, again))


@pytest.mark.parametrize(
    "error",
    [MemoryError(), MemoryBudgetError("needs more"), RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
     RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
     RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")],
)  # fmt: skip
def test_being_out_of_memory_has_many_names(script, error):
    assert script.why(error) == script.NO_MEMORY


def test_other_failures_are_told_in_a_line_that_a_table_can_hold(script):
    assert script.why(ValueError("a | b\nmore")) == "ValueError: a / b"


def test_beams_have_the_default_cache_alone_and_ours_has_its_plan(script):
    greedy = script.of_work(GREEDY, script.SYSTEMS, "cuda")
    assert list(greedy) == list(script.SYSTEMS) and greedy[script.OURS] == ("ours", {"plan": "cuda"})
    assert list(script.of_work(BEAMS, script.SYSTEMS, "cuda")) == [script.OURS, script.EAGER]


def test_without_a_gpu_it_ends_in_a_line(script, monkeypatch):
    monkeypatch.setattr("sys.argv", ["gpu_peers.py"])
    monkeypatch.setattr(script, "device_kind", lambda: "none")
    with pytest.raises(SystemExit, match=r"^Numba finds no GPU here: on a machine without one, run peers\.py$"):
        script.main()


@pytest.mark.parametrize(("config", "setting"), [(CONFIG, GREEDY), (BART_CONFIG, BEAMS)], ids=["greedy", "beams"])
def test_ours_makes_as_many_tokens_in_the_emulator(script, tmp_path, config, setting):
    """Under the plan of a GPU, from a folder without a tokenizer, as the script makes it."""
    fields = config | {"vocab_size": 16, "n_layer": 1, "decoder_layers": 1}
    write_json(tmp_path / "config.json", fields)
    write_safetensors(tmp_path / "model.safetensors", toy_tensors(fields))
    run = script.ours(tmp_path, "emulator")(setting)
    assert [len(text) for text in run()] == [4, 4]


def small(script, name, folder):
    script.make_checkpoint_for_torch(name, folder, shrink=True)
    return folder


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "setting", "given", "mode"),
    [("gpt2", GREEDY, {"static": "new"}, ["reduce-overhead"]),
     ("gpt2", GREEDY, {"static": "kept", "mode": "max-autotune"}, ["max-autotune"]),
     ("bart-base", BEAMS, {"static": "new"}, [])],
)  # fmt: skip
def test_a_static_cache_says_the_same(script, tmp_path, monkeypatch, name, setting, given, mode):
    """Greedy steps are compiled, in the mode that was asked for; beams, as the script says, are not."""
    torch = pytest.importorskip("torch", reason=NEEDED)
    transformers = pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda f, **how: compiled.append(how["mode"]) or f)
    monkeypatch.setattr(transformers.CompileConfig, "_compile_all_devices", True)  # this is no GPU
    folder = small(script, name, tmp_path / name)
    eager = script.transformers(folder, "cpu")(setting)()
    assert [len(text) for text in eager] == [4, 4] and compiled == []
    run = script.transformers(folder, "cpu", **given)(setting)
    assert run() == eager and run() == eager, "a cache that is kept is as new"
    assert compiled == mode


@pytest.mark.oracle
def test_both_sides_have_the_same_weights(script, tmp_path):
    """Of random weights the first token of the first prompt is clear enough to survive float16."""
    pytest.importorskip("torch", reason=NEEDED)
    pytest.importorskip("transformers", minversion="5.0", reason=NEEDED)
    for name, setting in (("gpt2", GREEDY), ("bart-base", BEAMS)):
        folder = small(script, name, tmp_path / name)
        theirs = script.transformers(folder, "cpu")(setting)()
        mine = script.ours(folder, "cpu", plan="numpy,cache_dtype=float16")(setting)()
        assert np.array_equal(mine[0][:1], theirs[0][:1])
