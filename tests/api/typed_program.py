"""A user's program, for `mypy --strict --follow-imports=silent tests/api/typed_program.py`; no test runs it."""

import minidecode as md

model = md.load("tiny-gpt2", plan="numpy")
out = model.generate(["Fellow citizens,"], max_new_tokens=3, num_beams=2, stop_strings="x")
texts: list[str] = out.texts
for hypothesis in out:
    reason: str | None = hypothesis.finish_reason
    text: str = hypothesis.text
assert model.tokenizer is not None
ids = model.tokenizer.encode(out[0].text)
model.generate("a", max_new_tokenz=3)  # type: ignore[call-arg]  # with --strict, an error if it is none
