"""A user's program for type checkers; no test runs it. CI asks mypy --strict and pyright in strict mode.

Each wrong use is an error that is expected: where a type is lost, there is none, and then the unused "ignore" is one.
"""

from collections.abc import Sequence
from typing import assert_type

import numpy as np

import minidecode as md
from minidecode.cache.protocol import LayerCache, StepCache
from minidecode.lines.records import Line
from minidecode.search.streaming import Stream

model = md.load("tiny-gpt2", plan=md.Plan.parse("cache=split"), dtype="float32", generation_config={"num_beams": 2})
md.load("tiny-gpt2", plam="fast")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
md.load(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

out = model.generate(
    ["Fellow citizens,"], max_new_tokens=3, num_beams=2, num_return_sequences=2, length_penalty=0.8,
    early_stopping="never", no_repeat_ngram_size=3, bad_words_ids=[[3, 4]], sequence_bias={(5,): -1.0},
    stop_strings="x", eos_token_id=[0, 1], max_time=2.0, logprobs=2, memory_budget="2GB", generation_config=False,
)  # fmt: skip
model.generate("a", max_new_tokenz=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
model.generate("a", num_beams="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
model.generate("a", early_stopping="often")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
model.generate("a", stop_strings=[3])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
model.generate(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
model.generate(
    "a", guidance_scale=None, stop_strings=None, bad_words_ids=None, sequence_bias=None, logits_processor=None,
    stopping_criteria=None, suppress_tokens=3, exponential_decay_length_penalty=[5, 1.1],
    prefix_tokens=np.array([[1, -1]]), prefix_allowed_tokens_fn=lambda sentence, ids: ids[:1],
)  # fmt: skip
model.generate("a", sequence_bias={3: 1.0})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
model.generate("a", generation_config=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
model.generate("a", negative_prompt=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
options: md.GenerateOptions = {"num_beams": 2, "do_sample": False}
model.check("a", **options)

assert_type(out, md.Output)
assert_type(out.texts, list[str])
assert_type(out[0].text, str)
assert_type([h.finish_reason for h in out[1:]], list[str | None])
assert_type(out[0].score, float)
assert_type(out[0].top_logprobs, list[dict[int, float]])
rows: list[np.ndarray] = out.token_ids
steps: int = out.receipt.steps
out["first"]  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
model.generates("a")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
length: int = out[0].finish_reason  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

for piece in model.stream("a", max_new_tokens=3, plan="fast", truncate=True):
    assert_type(piece, str | tuple[int, str])
model.stream("a", streamer=print)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def pieces(stream: Stream) -> list[str]:
    async with stream:
        return [piece async for piece in stream]  # type: ignore[misc]  # pyright: ignore[reportReturnType]


scores = model.score(["One.", "Two."], stride=8)
assert_type(scores.perplexity, float)
assert_type(scores[0].bytes, list[int] | None)
scores["One."]  # type: ignore[index]  # pyright: ignore[reportArgumentType]

assert_type(model.encode(["One.", "Two."], pooling="mean", truncate=True), np.ndarray)
assert_type(model.classify("One.", text_pairs="Two.")[0].scores, dict[str, float])
assert_type(model.classify_tokens("One.")[0][0].label, str)
model.encode(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

for line in md.generate_lines(model, ["One.", b"Two.", {"prompt": "Three."}], batch_size=2, num_beams=2):
    assert_type(line, Line)
    assert_type(line.texts, list[str])
md.generate_lines(model, ["One."], num_beam=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
md.Plan(linaer="cpu")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def held_bytes(caches: Sequence[StepCache]) -> int:
    return sum(array.nbytes for cache in caches for array in cache.arrays())


def kinds() -> dict[str, type[LayerCache]]:
    from minidecode.plan import CACHES

    assert_type(CACHES["el"].in_place, bool)
    return {"none": dict}  # type: ignore[dict-item]  # pyright: ignore[reportReturnType]
