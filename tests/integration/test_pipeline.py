"""Many lines through the pipeline: the naive way and the overlapped one give the same bytes, and lose no line."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_folder import write_bart_folder, write_folder

import minidecode as md
from minidecode.lines import pipeline
from minidecode.lines.pipeline import Span, generate_lines, order_by_line_number
from minidecode.lines.records import Line
from minidecode.lines.score_lines import score_lines
from minidecode.lines.timeline import chrome_trace, draw_timeline
from minidecode.lines.worker_threads import Worker, apply_in_threads

OVERLAPPED = ("both", "prefetch", "post-process")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return md.load(write_folder(tmp_path_factory.mktemp("models") / "toy"))


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [t for t in threading.enumerate() if isinstance(t, Worker)]


def outcome(run):
    """All that a run says of its lines, to the last bit; and how it ended."""
    visible_lines, ended = [], None
    try:
        for line in run:
            ids = [t.tolist() for t in line.token_ids]
            visible_lines.append((line.number, line.texts, ids, line.scores, line.rendered, str(line.error)))
    except md.LineError as error:
        ended = error.number, str(error)
    r = run.receipt
    return visible_lines, ended, (r.lines, r.failed, r.new_tokens, [str(f) for f in r.failures])


# "" and " " are blank; 17 letters are more than the context holds; a byte 0xff is no UTF-8
LINES = st.lists(
    st.sampled_from(["the", "a", "sea the sea", "x" * 13, "", " ", "x" * 17, b"the\xff", "the", "caf\xe9".encode()]),
    max_size=24,
)


@settings(max_examples=60)
@given(
    lines=LINES, batch_size=st.integers(1, 5), window=st.integers(1, 12), threads=st.integers(1, 3),
    on_error=st.sampled_from(pipeline.ON_ERROR), overlap=st.sampled_from(OVERLAPPED),
    options=st.sampled_from([{}, {"num_beams": 2, "num_return_sequences": 2}, {"do_sample": True, "seed": 3}]),
)  # fmt: skip
def test_overlapped_or_not_the_results_are_the_same_bytes(
    model, lines, batch_size, window, threads, on_error, overlap, options
):
    def run(overlap):
        return generate_lines(
            model, iter(lines), batch_size=batch_size, sort_window=window, threads=threads, on_error=on_error,
            overlap=overlap, render=lambda line: f"{line.number}:{line.texts}:{line.error}", max_new_tokens=3,
            **options,
        )  # fmt: skip

    naive = outcome(run("none"))
    assert outcome(run(overlap)) == naive
    visible_lines, ended, _ = naive
    numbers = [line[0] for line in visible_lines]
    bad = [n for n, line in enumerate(lines, 1) if line in ("", " ", "x" * 17, b"the\xff")]
    good = [n for n in range(1, len(lines) + 1) if n not in bad]
    expected = {
        "stop": [n for n in good if not bad or n < bad[0]], "skip": good, "record": list(range(1, len(lines) + 1)),
    }[on_error]  # fmt: skip
    assert numbers == expected
    assert (ended and ended[0]) == (bad[0] if bad and on_error == "stop" else None)


@pytest.mark.parametrize("options", [{}, {"do_sample": True, "num_return_sequences": 2, "seed": 5}, {"num_beams": 3}])
def test_batches_change_no_text(model, options):
    """Nor a sample: each line draws its own numbers, and equal lines are told apart by their order in the input."""
    lines = ["the", "a", "sea the sea", "the", "xxxxxxxxxx", "the", "of", "a"]
    expected = [t.tolist() for t in model.generate(lines, max_new_tokens=4, **options).token_ids]
    each = len(expected) // len(lines)
    for batch_size, window in itertools.product((1, 3, 8), (1, 5, 100)):
        run = generate_lines(model, lines, batch_size=batch_size, sort_window=window, max_new_tokens=4, **options)
        found = [t.tolist() for line in run for t in line.token_ids]
        assert found == expected
        assert len(found) == each * len(lines)
    if "do_sample" in options:
        assert expected[0] != expected[3 * each], "equal prompts draw different samples, or the test shows nothing"


OWN = st.fixed_dictionaries({}, optional={
    "max_new_tokens": st.integers(3, 5), "prefix": st.sampled_from(["x", "ab"]),
    "stop": st.sampled_from(["a", ["e", "xa"], []]),
})  # fmt: skip


@settings(max_examples=20)
@given(
    lines=st.lists(st.tuples(st.sampled_from(["the", "a", "sea the", "xxxxxxx"]), OWN, st.integers(0, 2)), min_size=1,
                   max_size=12),
    batch_size=st.integers(1, 5), window=st.integers(1, 12), overlap=st.sampled_from(["both", "none"]),
    options=st.sampled_from([{}, {"num_beams": 2}, {"do_sample": True, "num_return_sequences": 2, "seed": 1}]),
)  # fmt: skip
def test_a_line_with_options_gives_what_it_gives_alone(model, lines, batch_size, window, overlap, options):
    """Whatever the batches. Lines of one prompt and one seed are told apart by their order."""
    records, expected, seen = [], [], Counter()
    for prompt, own, seed in lines:
        how = options | ({"seed": seed} if "do_sample" in options and seed else {})
        records.append({"prompt": prompt} | own | ({"seed": seed} if how != options else {}))
        how |= {"max_new_tokens": own.get("max_new_tokens", 4)}
        prefix = [model.tokenizer.encode(own["prefix"])] if "prefix" in own else None
        copy = seen[prompt, how.get("seed")]
        seen[prompt, how.get("seed")] += 1
        stops = {"stop_strings": own["stop"]} if "stop" in own else {}
        out = model.generate([prompt], prefix_tokens=prefix, sample_ids=[copy], **how, **stops)
        expected.append((out.texts, [t.tolist() for t in out.token_ids]))
        assert stops or all(text.startswith(own.get("prefix", "")) for text in out.texts)
    run = generate_lines(model, records, batch_size=batch_size, sort_window=window, overlap=overlap, max_new_tokens=4,
                         **options)  # fmt: skip
    assert [(line.texts, [t.tolist() for t in line.token_ids]) for line in run] == expected


def test_lines_of_equal_options_go_together(model):
    own = [{}, {"max_new_tokens": 3}, {"prefix": "x"}] * 3
    run = generate_lines(model, [{"prompt": "the"} | o for o in own], batch_size=3, sort_window=9, max_new_tokens=4)
    assert [line.batch for line in run] == [1, 2, 3] * 3
    assert run.receipt.batches == 3


@pytest.mark.parametrize("overlap", ["both", "none"])
@pytest.mark.parametrize("options", [{"num_beams": 2}, {"do_sample": True, "seed": 1}])
def test_lines_that_were_done_before_do_not_come_and_change_no_bit_of_the_others(model, overlap, options):
    """Scores too: a line's last bits depend on the batch that it is computed in. And equal lines are told apart."""
    lines = ["the", "", "sea the", {"prompt": "a", "max_new_tokens": 2}, "the", "xxxxx", "the", "of", "the"]
    how = options | {"batch_size": 2, "sort_window": 4, "overlap": overlap, "on_error": "record", "max_new_tokens": 4}
    whole = outcome(generate_lines(model, lines, **how))[0]
    for done in range(len(lines) + 1):
        run = generate_lines(model, lines, done=done, **how)
        assert outcome(run)[0] == whole[done:]
        assert run.receipt.reached == len(lines) and run.receipt.batches <= len(lines) - done
    odd = {1, 3, 5, 7, 9}
    run = generate_lines(model, lines, done=odd, **how)
    assert outcome(run)[0] == whole[1::2] and run.receipt.reached == len(lines)
    with pytest.raises(md.InputError, match="10 lines done before, and there are 9: give them all"):
        list(generate_lines(model, lines, done=10, **how))


def test_lines_may_come_by_their_index(model):
    """As those of torch's data sets do, which cannot be iterated otherwise."""

    class ByIndex:
        def __getitem__(self, i):
            return ["the war", "the army"][i]

    lines = [[line.texts for line in generate_lines(model, given, max_new_tokens=2)]
             for given in (ByIndex(), ["the war", "the army"])]  # fmt: skip
    assert lines[0] == lines[1] and len(lines[0]) == 2


@pytest.mark.parametrize("overlap", ["both", "none"])
def test_lines_as_they_end(model, overlap):
    """The longest are done first. An error that stops the run comes behind what was done before it."""
    lines = ["a", "xx", "xxx", "xxxx", "xxxxx"]
    how = {"batch_size": 1, "overlap": overlap, "threads": 1, "keeps_order": False, "max_new_tokens": 1}
    assert [line.number for line in generate_lines(model, lines, **how)] == [5, 4, 3, 2, 1]
    run, numbers = generate_lines(model, ["a", "xx", " ", "xxxx"], **how), []
    with pytest.raises(md.LineError, match="line 3 is blank"):
        numbers.extend(line.number for line in run)  # all that came
    assert run.receipt.reached == 2


def test_of_a_window_those_of_one_length_go_together(model):
    lengths = [1, 9, 2, 8, 1, 9, 2, 8]
    run = generate_lines(model, ["x" * n for n in lengths], batch_size=2, sort_window=8, max_new_tokens=2, trace=True)
    assert [line.number for line in run] == list(range(1, 9))
    assert _batches(model, lengths, 8) == [[9, 9], [8, 8], [2, 2], [1, 1]]
    assert _batches(model, lengths, 1) == [[9, 1], [8, 2], [9, 1], [8, 2]]


def _batches(model, lengths, window):
    """The lengths of the prompts in each batch, as the model gets them."""
    seen, generate = [], model.generate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "generate", lambda **a: seen.append([len(i) for i in a["input_ids"]]) or generate(**a))
        list(generate_lines(model, ["x" * n for n in lengths], batch_size=2, sort_window=window, max_new_tokens=2))
    return seen


def test_encoder_decoder_models_go_through_it_too(tmp_path):
    bart = md.load(write_bart_folder(tmp_path / "bart"))
    lines = ["the sea", "a", "xxxxxxxx"]
    expected = bart.generate(lines, max_new_tokens=4, num_beams=2).texts
    for overlap in pipeline.OVERLAPS:
        run = generate_lines(bart, lines, overlap=overlap, batch_size=2, max_new_tokens=4, num_beams=2)
        assert [line.texts[0] for line in run] == expected


def test_records_bytes_and_json(model):
    lines = [{"prompt": "the", "id": 7}, "the", b"the"]
    found = list(generate_lines(model, lines, max_new_tokens=2))
    assert len({line.texts[0] for line in found}) == 1
    assert [line.record for line in found] == [lines[0], {"prompt": "the"}, {"prompt": "the"}]
    (line,) = generate_lines(model, ['{"prompt": "the", "id": [1]}'], jsonl=True, max_new_tokens=2)
    assert line.record == {"prompt": "the", "id": [1]}


@pytest.mark.parametrize("how", [dict(mode="r", encoding="utf-8"), dict(mode="rb")], ids=["text", "bytes"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_the_lines_of_an_open_file_are_its_texts(model, tmp_path, how, end):
    """As the command reads them: the end of a line belongs to no prompt."""
    path, texts = tmp_path / "prompts.txt", ["the otter", "the cat "]
    path.write_bytes(end.join(texts).encode())
    with path.open(**how) as file:
        from_file = [(line.record["prompt"], line.texts) for line in generate_lines(model, file, max_new_tokens=2)]
    assert from_file == [(text, model.generate(text, max_new_tokens=2).texts) for text in texts]
    with path.open(**how) as file:
        assert [line.record["prompt"] for line in score_lines(model, file)] == texts


def test_truncate_cuts_lines_as_generate_does(model):
    text = "x" * 30 + "the end"
    (line,) = generate_lines(model, [text], truncate=True, max_new_tokens=3)
    assert line.token_ids[0].tolist() == model.generate(text, truncate=True, max_new_tokens=3).token_ids[0].tolist()


# --- that the stages overlap ---


def test_a_batch_is_finished_while_the_next_is_generated(model, monkeypatch):
    """The first batch's text is not made before the model has begun with the second: one after the other it would hang.

    As it would in the naive run, whose stages each wait for the one before.
    """
    begun = {n: threading.Event() for n in (1, 3)}
    generate, finish = model.generate, pipeline.Stages.finish

    def noted(**arguments):
        if len(arguments["input_ids"][0]) == 3:
            begun[3].set()
        return generate(**arguments)

    def waits(self, batch):
        if batch[0].number == 1:
            assert begun[3].wait(timeout=30), "no other batch is generated meanwhile"
        return finish(self, batch)

    monkeypatch.setattr(model, "generate", noted)
    monkeypatch.setattr(pipeline.Stages, "finish", waits)
    run = generate_lines(model, ["xx", "xx", "xxx"], batch_size=2, sort_window=1, overlap="post-process",
                         max_new_tokens=2)  # fmt: skip
    assert [line.number for line in run] == [1, 2, 3]


def test_lines_are_read_while_a_batch_is_generated(model, monkeypatch):
    read, generate = threading.Event(), model.generate

    def lines():
        yield from ("a", "b")
        read.set()
        yield "c"

    def waits(**arguments):
        assert read.wait(timeout=30), "nothing is read meanwhile"
        return generate(**arguments)

    monkeypatch.setattr(model, "generate", waits)
    run = generate_lines(model, lines(), batch_size=2, sort_window=1, overlap="prefetch", max_new_tokens=2)
    assert [line.number for line in run] == [1, 2, 3]


@pytest.mark.parametrize("overlap", ["both", "prefetch", "none"])
def test_what_is_done_comes_before_more_is_read(model, overlap):
    """A slow source, as somebody who types: four lines, and the next one only after their results are seen."""
    seen = threading.Event()

    def lines():
        yield from ("the", "a", "sea", "of")
        assert seen.wait(timeout=30), "results wait for lines that wait for results"
        yield "on"

    for line in generate_lines(model, lines(), batch_size=2, sort_window=2, overlap=overlap, max_new_tokens=2):
        if line.number == 4:
            seen.set()
    assert line.number == 5


@pytest.mark.parametrize("overlap", pipeline.OVERLAPS)
def test_lines_without_end_are_not_read_without_end(model, overlap):
    """Queues are bounded: however slow the caller, so many lines are under way and no more."""
    read, batch_size, window, threads = Counter(), 2, 4, 2

    def lines():
        for n in itertools.count(1):
            read["lines"] += 1
            yield f"line {n}"

    with generate_lines(model, lines(), batch_size=batch_size, sort_window=window, threads=threads, overlap=overlap,
                        max_new_tokens=2) as run:  # fmt: skip
        for done, line in enumerate(itertools.islice(run, 20), 1):
            assert line.number == done
            ahead = window * (pipeline.AHEAD // (window // batch_size) + 2)  # in the box, in hand, and being read
            behind = batch_size * 2 * (threads + 1)  # one batch may be late: so many that came after it are held
            assert read["lines"] <= done + ahead + behind + window
    assert run.receipt.lines in (19, 20)


def test_what_ends_late_is_waited_for():
    """A thread that an item keeps does not let the others run ahead without end: what is put in order is held."""
    released, most = threading.Event(), 2 * (2 + 1)

    def slow_at_first(item):
        if item == 0:
            assert released.wait(timeout=30)
        return item

    timer = threading.Timer(0.3, released.set)
    timer.start()
    ends = list(apply_in_threads(slow_at_first, range(50), threads=2))
    timer.join()
    assert sorted(ends) == list(range(50)) and ends.index(0) < most


def test_in_order():
    def batch(*numbers):
        return [Line(n, "") for n in numbers]

    groups = list(order_by_line_number([batch(2, 4), batch(3), batch(1), batch(5)]))
    assert [[line.number for line in group] for group in groups] == [[1, 2, 3, 4], [5]]
    for bad, says in [
        ([batch(1), batch(1)], "line 1 .*twice"), ([batch(2), batch(2)], "line 2 .*twice"),
        ([batch(1, 3)], "line 2 was lost"),
    ]:  # fmt: skip
        with pytest.raises(md.PipelineError, match=says):
            list(order_by_line_number(bad))


# --- what is known of it afterwards ---


@pytest.mark.parametrize("overlap", pipeline.OVERLAPS)
def test_the_receipt_and_the_trace(model, overlap):
    run = generate_lines(model, ["the", "a", "", "sea"] * 3, batch_size=2, overlap=overlap, on_error="record",
                         max_new_tokens=3, trace=True)  # fmt: skip
    lines, r = list(run), run.receipt
    assert (r.lines, r.failed, r.batches) == (12, 3, 5)
    assert r.new_tokens == sum(len(t) for line in lines for t in line.token_ids)
    assert set(r.busy) == {"read", "tokenize", "generate", "post-process", "write"}
    for stage, seconds in r.busy.items():
        # Only empty reads at the end are counted without a span.
        assert sum(s.end - s.begin for s in r.spans if s.stage == stage) <= seconds * (1 + 1e-9)
    assert sum(s.lines for s in r.spans if s.stage == "generate") == 9
    assert sum(s.lines for s in r.spans if s.stage == "write") == 12
    threads = {s.stage: {t.thread for t in r.spans if t.stage == s.stage} for s in r.spans}
    assert threads["generate"] == threads["write"] == {"caller"}
    assert threads["tokenize"] == ({"prefetch"} if overlap in ("both", "prefetch") else {"caller"})
    posts = {"post-process 1", "post-process 2"} if overlap in ("both", "post-process") else {"caller"}
    assert threads["post-process"] <= posts
    for thread in {s.thread for s in r.spans}:  # a thread does one thing at a time
        mine = sorted((s.begin, s.end) for s in r.spans if s.thread == thread)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(mine))
    assert 0 < r.overlapped <= 4 and f"overlap {overlap}" in str(r)

    trace = json.loads(json.dumps(chrome_trace(r)))
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert len(events) == len(r.spans) and {names[e["tid"]] for e in events} == {s.thread for s in r.spans}
    assert all(e["ts"] >= 0 and e["dur"] >= 0 and {"batch", "lines", "first_line"} <= set(e["args"]) for e in events)
    generated = sorted((e for e in events if e["name"] == "generate"), key=lambda e: e["ts"])
    assert generated[0]["ts"] == pytest.approx(1e6 * min(s.begin for s in r.spans if s.stage == "generate"), abs=0.01)
    assert [e["args"]["batch"] for e in generated] == [1, 2, 3, 4, 5]


def test_the_picture(model):
    receipt = pipeline.RunReceipt("both", lines=4, seconds=1.0)
    receipt.busy.update({"generate": 0.9, "tokenize": 0.1})
    receipt.spans = [Span("caller", "generate", 1, 1, 4, 0.1, 0.9), Span("prefetch", "tokenize", 0, 1, 4, 0.0, 0.1)]
    svg = ElementTree.fromstring(draw_timeline(receipt))
    name = "{http://www.w3.org/2000/svg}"
    width = float(svg.get("viewBox").split()[2])
    assert float(svg.get("font-size")) * 360 / width >= 11, "letters on a screen of 360 pixels"
    assert svg.get("role") == "img" and svg.find(f"{name}title").text and "0.900 s" in svg.find(f"{name}desc").text
    bars = [r for r in svg.iter(f"{name}rect") if r.find(f"{name}title") is not None]
    generate, tokenize = bars[::-1]
    assert float(generate.get("width")) == pytest.approx(8 * float(tokenize.get("width")), rel=1e-3)
    assert float(generate.get("y")) > float(tokenize.get("y")), "what is read ahead stands above"
    assert all(float(b.get("x")) + float(b.get("width")) <= width for b in bars)


def test_stages_differ_in_greyscale():
    from minidecode.lines.timeline import FILLS

    def lightness(colour):
        return np.dot([int(colour[i : i + 2], 16) for i in (1, 3, 5)], [0.299, 0.587, 0.114])

    plain = {stage: lightness(colour) for stage, (colour, strokes) in FILLS.items() if strokes is None}
    assert all(abs(plain[a] - plain[b]) > 50 for a, b in itertools.combinations(plain, 2))


@pytest.mark.parametrize("overlap", ["both", "none"])
def test_one_arena_serves_all_batches_and_those_that_do_not_fit_are_cut(model, overlap):
    lines, options = ["x" * n for n in (9, 2, 8, 3, 7, 4)], {"num_beams": 2, "max_new_tokens": 4}
    expected = [line.texts for line in generate_lines(model, lines, **options)]
    arena = md.Arena(model.plan_step(batch_size=2, input_length=9, **options))
    receipts = []
    how = {"arena": arena, "costs": True, "on_batch": receipts.append, "overlap": overlap}
    run = generate_lines(model, lines, batch_size=4, **how, **options)
    assert [line.texts for line in run] == expected
    assert {(r.arena_bytes, r.plan) for r in receipts} == {(arena.bytes, "cache=replicated,arena=planned")}
    assert all(r.ops["linear"].costs for r in receipts)
    assert (run.receipt.splits, run.receipt.batches) == (1, 3)  # of four lines and two; two fit
    too_small = md.Arena(model.plan_step(input_length=2, max_new_tokens=2))
    for line in generate_lines(model, lines, arena=too_small, on_error="record", **options):
        assert "and the arena has" in str(line.error)


# --- under load ---


def test_options_are_refused_at_once(model):
    for bad, words in [
        ({"batch_size": 0}, "batch_size"), ({"sort_window": 0}, "sort_window"), ({"threads": True}, "threads"),
        ({"done": -1}, "from 0 up"), ({"overlap": "all"}, "both, prefetch"), ({"on_error": "ignore"}, "stop, skip"),
        ({"num_beam": 2}, "num_beams"), ({"memory_budget": "much"}, "memory_budget"),
        ({"plan": "cache=rolling"}, "attention_window"),
    ]:  # fmt: skip
        with pytest.raises(md.OptionError, match=words):
            list(generate_lines(model, ["a"], **bad))
    with pytest.raises(md.InputError, match="several"):
        generate_lines(model, "a text")


JOBS = [
    {"max_new_tokens": 9},
    {"num_beams": 3, "no_repeat_ngram_size": 2, "max_new_tokens": 7, "plan": "cache=split,ngram=cpu,norm=cpu"},
    {"do_sample": True, "num_return_sequences": 3, "seed": 11, "max_new_tokens": 8, "plan": "cache=preallocated"},
    {"num_beams": 4, "max_new_tokens": 6, "no_repeat_ngram_size": 0, "plan": "cache=indirect,arena=planned,hars=cpu"},
]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_one_model_in_four_threads_of_different_options(dtype):
    """Each gets what it would alone, to the last bit, and the receipt of its own work."""
    model = md.load("tiny-gpt2", dtype=dtype)
    jobs = [job | ({"plan": job.get("plan", "cache=el") + ",linear=cpu"} if dtype == "int8" else {}) for job in JOBS]
    prompts = [["Fellow citizens,", "The"], ["Our army"], ["I", "The Congress of the"], ["Peace", "Our navy has", "A"]]

    def work(i):
        out = model.generate(prompts[i], **jobs[i])
        r = out.receipt
        counts = {name: (c.implementation, c.calls, c.bytes) for name, c in r.ops.items()}
        return (
            [t.tolist() for t in out.token_ids], out.scores.tolist(), counts, r.plan, r.cache, r.steps,
            r.cache_peak_bytes, r.arena_bytes, r.prompt_tokens, r.new_tokens, r.launches,
        )  # fmt: skip

    alone = [work(i) for i in range(4)]
    assert len({str(a[2]) for a in alone}) == 4, "the jobs do different work, or mixing them up would not show"
    together, start = [[] for _ in JOBS], threading.Barrier(4)

    def many(i):
        start.wait()
        for _ in range(3):
            together[i].append(work(i))

    threads = [threading.Thread(target=many, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert together == [[a] * 3 for a in alone]


def test_runs_share_a_model_too(model):
    """Two pipelines at once, each with threads of its own."""
    lines = ["the", "a", "sea the sea", "xxxxx"] * 4
    options = [{"num_beams": 2, "batch_size": 3}, {"do_sample": True, "batch_size": 2}]
    alone = [outcome(generate_lines(model, lines, max_new_tokens=4, **o)) for o in options]
    together = [None, None]

    def work(i):
        together[i] = outcome(generate_lines(model, lines, max_new_tokens=4, **options[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert together == alone
