"""`Model.stream`: pieces of text as they are generated."""

import asyncio
import gc
import threading
import time

import numpy as np
import pytest
from toy_folder import write_json, write_safetensors

import minidecode as md
from minidecode.models.llama import LlamaConfig, tensor_shapes
from minidecode.runtime.engine import Engine

SPACE = "\u2581"  # what SentencePiece writes for a space
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


@pytest.mark.parametrize("options", [{}, {"num_beams": 2}, {"stop_strings": [","]}])
def test_a_stream_of_full_texts_begins_with_the_prompt(model, options):
    options = {"max_new_tokens": 6, "return_full_text": True, **options}
    stream = model.stream(PROMPTS[0], **options)
    pieces = list(stream)
    assert "".join(pieces) == model.generate(PROMPTS[0], **options).texts[0] == stream.output.texts[0]
    assert pieces[0].startswith(PROMPTS[0])


@pytest.mark.parametrize("options", [{}, {"num_beams": 2}, {"do_sample": True, "num_return_sequences": 2, "seed": 3}])
def test_full_texts_of_several_prompts_come_with_their_own(model, options):
    options = {"max_new_tokens": 4, "return_full_text": True, **options}
    stream, texts = model.stream(PROMPTS, **options), {}
    for index, piece in stream:
        texts[index] = texts.get(index, "") + piece
    each = len(texts) // len(PROMPTS)
    assert [texts[i] for i in sorted(texts)] == stream.output.texts == model.generate(PROMPTS, **options).texts
    assert all(text.startswith(PROMPTS[i // each]) for i, text in texts.items())


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


# ---- tokenizers that put a space in front of a text, and take it away from what they decode --------------------------


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A Llama of the fewest sizes, whose tokenizer is made as Llama 2's."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

    folder = tmp_path_factory.mktemp("llama")
    pieces = ["<unk>", "<s>", "</s>", SPACE, *"abcdefghijklmnopqrstuvwxyz", f"{SPACE}o", f"{SPACE}of"]
    pieces += [f"<0x{byte:02X}>" for byte in chr(0x1F600).encode()]
    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
    fields = {
        "model_type": "llama",
        "vocab_size": len(pieces),
        "max_position_embeddings": 64,
        "eos_token_id": 2,
    } | sizes
    shapes, rng = tensor_shapes(LlamaConfig.from_json(fields)), np.random.default_rng(0)
    tensors = {name: rng.normal(0, 0.3, shape).astype("f4") for name, shape in shapes.items()}
    write_json(folder / "config.json", fields)
    write_safetensors(folder / "model.safetensors", tensors)
    merges = [(SPACE, "o"), (f"{SPACE}o", "f")]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    joins = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence(joins)
    backend.add_special_tokens([AddedToken(piece, special=True) for piece in pieces[:3]])
    backend.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 1)])
    backend.save(str(folder / "tokenizer.json"))
    return md.load(folder)


def saying(llama, prompt_ids, *pieces: str, **options) -> dict:
    """Options under which a model says these pieces behind a prompt, and nothing else."""
    new, behind = [llama.tokenizer.token_to_id(piece) for piece in pieces], len(prompt_ids)
    said = {"prefix_allowed_tokens_fn": lambda _, ids: [new[len(ids) - behind]]}
    return said | {"max_new_tokens": len(new), "eos_token_id": None, **options}


@pytest.mark.parametrize(
    ("pieces", "new"),
    [([f"{SPACE}of", SPACE, "a"], " of a"), (["i", "t"], "it"), ([SPACE, SPACE, "a"], "  a"),
     (["</s>", f"{SPACE}of"], " of")],
)  # fmt: skip
@pytest.mark.parametrize("prompt", ["the cap", "a", "z" * 20 + " cap"])
def test_a_text_goes_on_as_its_tokens_say(llama, prompt, pieces, new):
    """The first space is lost where new tokens are decoded by themselves."""
    how = saying(llama, llama.tokenizer.encode(prompt), *pieces)
    assert llama.generate(prompt, **how).texts == [new]
    assert llama.generate(prompt, return_full_text=True, **how).texts == [prompt + new]
    assert "".join(llama.stream(prompt, return_full_text=True, **how)) == prompt + new
    assert "".join(llama.stream(prompt, **how)) == new


def test_a_stop_string_may_begin_at_the_first_token(llama):
    ids = llama.tokenizer.encode("the cap")
    how = saying(llama, ids, f"{SPACE}of", SPACE, "a", stop_strings=[" of"])
    for full, text in ((False, ""), (True, "the cap")):
        out = llama.generate("the cap", return_full_text=full, **how)
        assert (out.finish_reasons, out.texts) == (["stop"], [text]) and len(out.token_ids[0]) == 1
        assert "".join(llama.stream("the cap", return_full_text=full, **how)) == text


def test_lines_of_a_file_go_on_as_texts_do(llama):
    (line,) = md.generate_lines(llama, ["the cap"], max_new_tokens=2, prefix_allowed_tokens_fn=lambda *_: [31])
    assert line.texts == [" of of"]


def test_a_character_that_new_tokens_complete_is_new(llama):
    smile, ids = chr(0x1F600), llama.tokenizer.encode("a").tolist()
    first, *rest = (f"<0x{byte:02X}>" for byte in smile.encode())
    begun = [*ids, llama.tokenizer.token_to_id(first)]
    how = saying(llama, begun, *rest)
    assert llama.generate(input_ids=[begun], **how).texts == [smile]
    assert llama.generate(input_ids=[begun], return_full_text=True, **how).texts == ["a" + smile]
