"""UniLM: two rows a beam in every cache, one sentence alone and in a batch, scores, texts, limits."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tolerance import FLOAT32, FLOAT64, logit_bound
from unilm_oracle import logits

import minidecode as md
from minidecode.cache.prompt import PromptCache
from minidecode.loading import load_shapes
from minidecode.models import unilm
from minidecode.models.unilm import UnilmConfig

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "the", "sea", "##s", "##e", "a", "b", "##b", "un", "##a",
         "war", "peace", ",", ".", "!", "5", "##5", "i", "##t", "'", "s", "e", "cat", "dog", "sat", "mat"]  # fmt: skip
FIELDS = {
    "model_type": "unilm", "vocab_size": len(WORDS), "hidden_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 40, "type_vocab_size": 2,
    "mask_token_id": 3,
}  # fmt: skip
SOURCES = [[1, 5, 6, 7, 9, 2], [1, 14, 2], [1, *range(5, 20), 2]]
CACHES = ("replicated", "none", "preallocated", "split", "indirect", "el")
SEP = 2


def write(folder: Path, **changes) -> Path:
    """A random UniLM with a vocabulary."""
    folder.mkdir(exist_ok=True)
    fields, rng = FIELDS | changes, np.random.default_rng(7)
    shapes = unilm.tensor_shapes(UnilmConfig.from_json(fields))
    tensors = {
        f"bert.{name}".replace("bert.cls.", "cls."): (
            rng.normal(0, 0.35, shape) + name.endswith("LayerNorm.weight")
        ).astype(np.float32)
        for name, shape in shapes.items()
    }
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(fields))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=[False, True], ids=["mask", "pos_shift"])
def folder(request, tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("unilm") / "model", pos_shift=request.param)


def stored(folder: Path) -> tuple[dict, dict]:
    model = md.load(folder, dtype="float64")
    return json.loads((folder / "config.json").read_text()), model.tensors


def read(fields: dict, source: list[int]) -> list[int]:
    return source[:-1] if fields["pos_shift"] else source


def test_logits_are_those_of_the_oracle(folder):
    """Sources of mixed lengths in one call."""
    fields, tensors = stored(folder)
    targets = [[SEP, 5, 6, 7], [SEP], [SEP, 9, 9, 14, 15, 4]]
    right = [logits(fields, tensors, read(fields, s), t) for s, t in zip(SOURCES, targets, strict=True)]
    largest = max(np.abs(x).max() for x in right)
    for dtype, unit in (("float64", 2 * FLOAT64), ("float32", FLOAT32)):
        model = md.load(folder, dtype=dtype)
        found = model.logits(SOURCES, decoder_input_ids=targets)
        error = max(np.abs(a - b).max() for a, b in zip(found, right, strict=True))
        assert error <= logit_bound(model.config, largest, unit)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"num_beams": 3, "dialect": "unilm", "length_penalty": 0.6}])
def test_every_cache_takes_the_steps_of_the_oracle(folder, cache, options):
    """Each token is the oracle's first choice behind those before it, or one of a beam whose score is the oracle's."""
    fields, tensors = stored(folder)
    model = md.load(folder, dtype="float64", plan=f"cache={cache}")
    out = model.generate(input_ids=SOURCES, max_new_tokens=9, no_repeat_ngram_size=2, **options)
    bound = 1e-9
    for source, ids, score in zip(SOURCES, out.token_ids, out.scores, strict=True):
        target = [SEP, *ids.tolist()]
        x = logits(fields, tensors, read(fields, source), target[:-1])
        x -= x.max(axis=1, keepdims=True)
        x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
        total = x[np.arange(len(ids)), ids].sum()
        norm = ((5 + len(ids)) / 6) ** 0.6 if "dialect" in options else len(ids) if "num_beams" in options else 1
        if "num_beams" not in options:
            norm = len(ids)
        assert abs(score - total / norm) <= bound * max(1, abs(score))


@pytest.mark.parametrize("plan", [*(f"cache={cache}" for cache in CACHES), "cache=split,drop_finished=on"])
def test_a_sentence_alone_is_that_of_its_batch(folder, plan):
    model = md.load(folder, plan=plan)
    options = {"num_beams": 3, "num_return_sequences": 3, "max_new_tokens": 8}
    together = model.generate(input_ids=SOURCES, **options)
    for b, source in enumerate(SOURCES):
        alone = model.generate(input_ids=[source], **options)
        for a, c in zip(alone.token_ids, together.token_ids[3 * b : 3 * b + 3], strict=True):
            assert a.tolist() == c.tolist()
        np.testing.assert_allclose(alone.scores, together.scores[3 * b : 3 * b + 3], rtol=1e-5)


def test_all_caches_give_the_same_texts(folder):
    found = {}
    for plan in (*(f"cache={cache}" for cache in CACHES), "naive", "cache=split,arena=planned", "fast",
                 "cache=replicated,arena=planned", "cache=split,hars=reference"):  # fmt: skip
        out = md.load(folder, plan=plan).generate(input_ids=SOURCES, num_beams=4, max_new_tokens=10)
        found[plan] = [ids.tolist() for ids in out.token_ids]
    assert len({json.dumps(ids) for ids in found.values()}) == 1, found


def test_on_a_device(tmp_path):
    """The same kernels as a GPU's, captured steps included."""
    for shift in (False, True):
        folder = write(tmp_path / str(shift), pos_shift=shift, num_hidden_layers=1)
        options = {"input_ids": [[1, 5, 2], [1, 6, 7, 9, 2]], "num_beams": 2, "max_new_tokens": 4}
        right = md.load(folder, plan="numpy").generate(**options)
        for plan in ("cuda", "cuda,cache=el,graphs=off"):
            found = md.load(folder, device="emulator", plan=plan).generate(**options)
            assert [a.tolist() for a in found.token_ids] == [b.tolist() for b in right.token_ids]


def test_a_step_has_two_rows_a_beam_or_one(folder):
    model = md.load(folder)
    out = model.generate(input_ids=SOURCES[:1], num_beams=2, max_new_tokens=5, eos_token_id=None)
    each = 1 if model.config.pos_shift else 2
    assert out.receipt.rows == each * 2 * 4  # the prefill gives the first of five tokens


def test_the_mask_row_is_not_kept(folder):
    """A split cache holds what an ordinary model's would."""
    model = md.load(folder, plan="cache=split")
    out = model.generate(input_ids=SOURCES, num_beams=2, max_new_tokens=5, eos_token_id=None)
    N = max(map(len, SOURCES))
    position = 2 * 12 * 4 * 2  # keys and values of two layers, in float32
    assert out.receipt.cache_peak_bytes == position * (3 * N + 6 * 5)


def test_el_keeps_half_of_the_source(folder):
    peaks = {}
    for cache in ("split", "el"):
        out = md.load(folder, plan=f"cache={cache}").generate(input_ids=SOURCES[2:], max_new_tokens=2)
        peaks[cache] = out.receipt.cache_peak_bytes
    N = len(SOURCES[2])
    assert peaks["split"] - peaks["el"] == N * 12 * 4 * 2


def test_scores_are_those_of_the_logits(folder):
    model = md.load(folder, dtype="float64")
    targets = [[5, 6, 2], [9, 2], [14, 15, 16, 2]]
    found = model.score(input_ids=SOURCES, target_ids=targets)
    right = model.logits(SOURCES, decoder_input_ids=[[SEP, *t[:-1]] for t in targets])
    for scores, x, target in zip(found.token_log_probs, right, targets, strict=True):
        x = x - x.max(axis=1, keepdims=True)
        x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(scores, x[np.arange(len(target)), target], rtol=1e-9)
    with pytest.raises(md.InputError, match="scores targets given their sources: give targets"):
        model.score(input_ids=SOURCES)


def test_noted_log_probabilities_are_the_scores(folder):
    model = md.load(folder, dtype="float64")
    out = model.generate(input_ids=SOURCES, max_new_tokens=5, logprobs=2)
    for probs, score, ids in zip(out.log_probs, out.scores, out.token_ids, strict=True):
        np.testing.assert_allclose(probs.token_R.sum() / len(ids), score, rtol=1e-9)


def test_texts_begin_with_cls_and_end_with_sep(folder):
    model = md.load(folder)
    asked = {"max_new_tokens": 6, "num_beams": 2}
    by_text = model.generate(["The seas, a war.", "a cat"], **asked)
    ids = [[1, 5, 6, 7, 16, 9, 14, 17, 2], [1, 9, 26, 2]]
    by_ids = model.generate(input_ids=ids, **asked)
    assert [a.tolist() for a in by_text.token_ids] == [b.tolist() for b in by_ids.token_ids]
    assert model.options().eos_token_id == (SEP,)
    by_target = model.score(["a cat"], targets=["the dog"])
    assert by_target.token_ids[0].tolist() == [5, 27, 2]  # [SEP] ends a target; no [CLS] begins it


def test_a_line_s_prefix_has_no_cls(folder):
    """Its tokens are those of a target, which begins with [SEP]."""
    model = md.load(folder)
    line = next(iter(md.generate_lines(model, [{"prompt": "a cat", "prefix": "the dog"}], max_new_tokens=6)))
    right = model.generate(input_ids=[[1, 9, 26, 2]], prefix_tokens=[[5, 27]], max_new_tokens=6)
    assert line.token_ids[0].tolist() == right.token_ids[0].tolist() and line.token_ids[0][:2].tolist() == [5, 27]


def test_a_step_is_planned_without_weights(folder):
    """s2s-ft's config.json does not say which token [SEP] is: the vocabulary does."""
    plan = load_shapes(folder).plan_step(batch_size=2, input_length=8, num_beams=2, max_new_tokens=3)
    assert plan.bytes == md.load(folder).plan_step(batch_size=2, input_length=8, num_beams=2, max_new_tokens=3).bytes


def test_a_tokenizer_must_frame_texts(folder, tmp_path):
    """Else sources would be read without [CLS] and [SEP], and each target would lose its first word."""
    write(tmp_path / "model")
    tokenizer = md.load(folder).tokenizer
    (tmp_path / "model" / "vocab.txt").unlink()
    fields = json.loads(tokenizer.as_json())
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps(fields), encoding="utf-8")
    assert md.load(tmp_path / "model").tokenizer.encode("a cat").tolist() == [1, 9, 26, 2]
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps(fields | {"post_processor": None}), encoding="utf-8")
    assert md.load(tmp_path / "model").tokenizer.encode("a cat").tolist() == [1, 9, 26, 2], "BERT's class frames texts"
    settings = tmp_path / "model" / "tokenizer_config.json"
    settings.write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}', encoding="utf-8")
    with pytest.raises(md.CheckpointError, match=r"puts 0 tokens around a text, and UniLM reads \[CLS\] text \[SEP\]"):
        md.load(tmp_path / "model")


@pytest.mark.parametrize("shift", [False, True])
def test_a_source_and_its_target_share_the_context(shift, tmp_path):
    model = md.load(write(tmp_path / "model", pos_shift=shift, max_position_embeddings=12))
    source = [1, *range(5, 12 + shift), 2]  # nine rows
    assert len(model.generate(input_ids=[source], max_new_tokens=3, eos_token_id=None).token_ids[0]) == 3
    with pytest.raises(
        md.InputError,
        match=r"source 1 of 1 has 9 tokens, and with 4 of its target they go beyond the "
        r"context of 12: shorten one of them, or cut the source with --truncate",
    ):
        model.generate(input_ids=[source], max_new_tokens=4)
    cut = model.generate(input_ids=[source], max_new_tokens=4, truncate=True, eos_token_id=None)
    whole = model.generate(input_ids=[[*source[:7], 2]], max_new_tokens=4, eos_token_id=None)
    assert len(cut.token_ids[0]) == 4
    if shift:  # no [SEP] ends a source: what stays is its beginning
        whole = model.generate(input_ids=[source[:8]], max_new_tokens=4, eos_token_id=None)
    assert cut.token_ids[0].tolist() == whole.token_ids[0].tolist()
    assert cut.scores == whole.scores
    free = model.generate(input_ids=[source], eos_token_id=None)
    assert len(free.token_ids[0]) == 3  # as many as there is room for
    with pytest.raises(md.InputError, match="ask for a shorter target"):
        model.generate(input_ids=[source], max_new_tokens=12)


def test_errors_of_lengths_name_the_target(tmp_path):
    model = md.load(write(tmp_path / "model", max_position_embeddings=24))
    sources = [[1, 5, 2], [1, *range(5, 16), 2], [1, 6, 2]]  # which leave 21, 11 and 21 positions
    for options, says in (
        ({"min_length": 16}, "min_length 16 is above what target 2 of 3 may come to: 1 token and 11 new ones"),
        ({"min_new_tokens": 12}, "min_new_tokens 12 is above what target 2 of 3 may come to: 1 token and 11 new ones"),
        ({"max_length": 1}, "target 1 of 3 begins with 1 token, and max_length 1 counts them: raise it"),
        ({"max_length": 13}, "source 2 of 3 has 13 tokens, and with 12 of its target they go beyond the context of 24"),
    ):
        with pytest.raises(md.MinidecodeError, match=re.escape(says)):
            model.generate(input_ids=sources, **options)


def test_no_window_slides_over_a_source(folder):
    with pytest.raises(md.OptionError, match="cache=rolling: this model reads a source both ways"):
        md.load(folder).generate(input_ids=SOURCES, plan="cache=rolling")


def test_another_mask_in_the_vocabulary_is_refused(tmp_path):
    folder = write(tmp_path / "model", mask_token_id=9)
    with pytest.raises(md.CheckpointError, match=r"mask_token_id is 9, and the tokenizer's \[MASK\] is 3: set"):
        md.load(folder)


@pytest.mark.parametrize("plan", ["cache=split", "cache=el", "cache=none", "cache=replicated"])
def test_a_footprint_is_an_upper_bound(folder, plan):
    model = md.load(folder, plan=plan)
    options = {"input_ids": SOURCES, "num_beams": 2, "max_new_tokens": 6}
    assert model.footprint(**options).cache >= model.generate(**options).receipt.cache_peak_bytes


def test_a_mask_row_that_is_kept_changes_the_texts(tmp_path, monkeypatch):
    """The mistake, planted: what a query row writes counts as a position of the text."""
    folder = write(tmp_path / "model")
    asked = {"input_ids": SOURCES, "max_new_tokens": 6, "plan": "cache=split", "eos_token_id": None}
    right = md.load(folder).generate(**asked)

    def kept(self, ops, qkv_RX):
        return self.attend_step(ops, self.append_step(ops, qkv_RX))

    expand = PromptCache.expand
    monkeypatch.setattr(PromptCache, "attend_next", kept)
    monkeypatch.setattr(PromptCache, "expand", lambda self, ops, beams, steps: expand(self, ops, beams, 2 * steps))
    wrong = md.load(folder).generate(**asked)
    assert np.abs(wrong.scores - right.scores).max() > 1e-3
