"""`Model.stream`: pieces of text as they are generated."""

import asyncio
import gc
import threading
import time

import numpy as np
import pytest

import minidecode as md
from minidecode.runtime.engine import Engine

PROMPTS = ["Fellow citizens,", "L'été"]


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2", plan="numpy")


@pytest.mark.parametrize(
    "options", [{}, {"do_sample": True, "seed": 1}, {"num_beams": 3}, {"stop_strings": ["the ", "e"]}]
)
def test_the_pieces_of_one_prompt_are_its_text(model, options):
    options = {"max_new_tokens": 16, **options}
    with model.stream(PROMPTS[0], **options) as stream:
        pieces = list(stream)
    out = model.generate(PROMPTS[0], **options)
    assert "".join(pieces) == out.texts[0] == stream.output.texts[0]
    assert all(pieces) and (len(pieces) > 3 or len(options) > 1)
    assert stream.output.receipt.new_tokens == out.receipt.new_tokens


@pytest.mark.parametrize("options", [{}, {"num_beams": 2}, {"do_sample": True, "num_return_sequences": 2}])
def test_pieces_of_several_texts_come_with_their_index(model, options):
    out = model.generate(PROMPTS, max_new_tokens=8, **options)
    texts = dict.fromkeys(range(len(out.texts)), "")
    for index, piece in model.stream(PROMPTS, max_new_tokens=8, **options):
        texts[index] += piece
    assert list(texts.values()) == out.texts


def test_no_piece_ends_within_a_character(model):
    """Forced bytes of a character of four bytes, one token each, come as one piece."""
    smile = chr(0x1F600)
    forced = model.tokenizer.encode(f"a{smile}b").tolist()
    assert len(forced) > 3
    pieces = list(model.stream("A", prefix_tokens=[forced], max_new_tokens=len(forced) + 1))
    assert pieces[:3] == ["a", smile, "b"]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("how", ["close", "with", "drop"])
def test_a_stream_that_nobody_reads_ends_within_a_step(model, how, beams, monkeypatch):
    steps, step = [], Engine.step
    monkeypatch.setattr(Engine, "step", lambda self, *a: (time.sleep(0.01), steps.append(1), step(self, *a))[-1])
    stream = model.stream("A", max_new_tokens=200, num_beams=beams, eos_token_id=None)
    while not steps:
        time.sleep(0.001)
    thread = stream._thread
    if how == "close":
        stream.close()
    elif how == "with":
        with stream:
            pass
    else:
        del stream
        gc.collect()
        thread.join(5)
    assert not thread.is_alive() and len(steps) < 100
    if how == "close":
        assert list(stream) == []
        with pytest.raises(md.InputError, match="no output before its last piece"):
            _ = stream.output


def test_a_read_that_waits_ends_when_the_stream_is_closed(model, monkeypatch):
    """By another thread, for all who read; and by a time limit around asynchronous code."""
    step = Engine.step
    monkeypatch.setattr(Engine, "step", lambda self, *a: (time.sleep(0.05), step(self, *a))[-1])
    options = {"max_new_tokens": 60, "num_beams": 2, "eos_token_id": None}  # a beam's pieces come at its end
    stream, got = model.stream("A", **options), []
    readers = [threading.Thread(target=lambda: got.append(list(stream)), daemon=True) for _ in range(2)]
    for reader in readers:
        reader.start()
    time.sleep(0.1)
    stream.close()
    for reader in readers:
        reader.join(5)
    assert got == [[], []]

    async def limited():
        async with model.stream("A", **options) as stream:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.__anext__(), 0.1)

    asyncio.run(limited())


def test_async_for(model):
    async def read():
        return [piece async for piece in model.stream("The people", max_new_tokens=5)]

    assert "".join(asyncio.run(read())) == model.generate("The people", max_new_tokens=5).texts[0]


def test_a_loop_goes_on_while_a_stream_waits(model, monkeypatch):
    """The event loop is free between pieces, and leaving `async with` ends the generation."""
    step = Engine.step
    monkeypatch.setattr(Engine, "step", lambda self, *a: (time.sleep(0.02), step(self, *a))[-1])
    ticks = []

    async def ticking():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.002)

    async def read():
        task = asyncio.create_task(ticking())
        async with model.stream("A", max_new_tokens=100, eos_token_id=None) as stream:
            for _ in range(3):
                await stream.__anext__()
        task.cancel()

    asyncio.run(read())
    assert len(ticks) > 5 and not [t for t in threading.enumerate() if t.name == "stream"]


def test_what_goes_wrong_is_raised_where_it_is_read(model):
    for prompts, options, error in ((["A", ""], {}, md.InputError), ("A", {"num_beans": 2}, md.OptionError),
                                    ("A", {"streamer": print}, md.OptionError)):  # fmt: skip
        with pytest.raises(error):
            model.stream(prompts, **options)

    def breaks(scores, rows):
        raise RuntimeError("from a function of the user's")

    with pytest.raises(md.OptionError, match="from a function"):
        list(model.stream("A", logits_processor=breaks, max_new_tokens=3))


def test_a_streamer_as_those_of_transformers(model):
    """An object with put and end gets the prompt, each token, and the end."""
    got = []

    class Streamer:
        def put(self, value):
            got.append(np.asarray(value).tolist())

        def end(self):
            got.append("end")

    out = model.generate("The people", max_new_tokens=4, streamer=Streamer())
    prompt = model.tokenizer.encode("The people").tolist()
    assert got == [[prompt], *[[i] for i in out.token_ids[0].tolist()], "end"]
    with pytest.raises(md.OptionError, match="serves one text"):
        model.generate(["A", "B"], streamer=Streamer())
