"""The public surface on a toy BART of random weights: receipts tell the truth, sources stay apart, errors say why."""

import json
import threading

import numpy as np
import pytest
from safetensors.numpy import save_file

import minidecode as md
from minidecode.methods.plans import engine_of
from minidecode.models.bart import BartConfig, tensor_shapes
from minidecode.reference import cross_kv, embedding, linear

V, D, ENCODER, DECODER, CONTEXT = 40, 12, 2, 3, 16
CONFIG = {
    "model_type": "bart", "vocab_size": V, "d_model": D, "max_position_embeddings": CONTEXT,
    "encoder_layers": ENCODER, "encoder_ffn_dim": 20, "encoder_attention_heads": 3,
    "decoder_layers": DECODER, "decoder_ffn_dim": 9, "decoder_attention_heads": 2, "decoder_start_token_id": 2,
}  # fmt: skip
SOURCES = [[5, 9, 27, 11, 30, 7, 3], [8], [21, 22, 23, 21]]
NAIVE, NO_CACHE = "cache=replicated", "cache=none"


def write_folder(folder, **changes):
    """config.json and random weights; a change of None leaves a field out."""
    fields = {name: value for name, value in (CONFIG | changes).items() if value is not None}
    rng = np.random.default_rng(0)
    shapes = tensor_shapes(BartConfig.from_json(fields))
    tensors = {name: rng.normal(0, 0.35, shape).astype(np.float32) for name, shape in shapes.items()}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """It knows no EOS, so that every text is as long as it may be."""
    return write_folder(tmp_path_factory.mktemp("toy-bart"))


@pytest.fixture(scope="module")
def model(folder):
    return md.load(folder)


def lists(output):
    return [ids.tolist() for ids in output.token_ids]


# ---- what runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beams", [1, 3])
def test_the_receipt_counts_the_products(model, beams):
    """Encoder layers: qkv, out, up, down, once. Decoder layers: these, cross_q and cross_out for each new token; the
    keys and values of the source for all layers have an op of their own: once if they are kept, else each time."""
    steps = 5
    for plan, sources_read in [(NAIVE, 1), (NO_CACHE, steps)]:
        ops = model.generate(input_ids=SOURCES, num_beams=beams, max_new_tokens=steps, plan=plan).receipt.ops
        assert ops["linear"].calls == 4 * ENCODER + steps * (6 * DECODER + 1)
        assert ops["project_cross_kv"].calls == sources_read
        passes_within = DECODER * 2 * (1 if plan == NAIVE else steps)
        assert ops["attend_prefill"].calls == ENCODER + passes_within
        assert ("attend" in ops) == (plan == NAIVE)
    out = model.generate(input_ids=SOURCES, num_beams=beams, max_new_tokens=steps, plan=NAIVE)
    assert out.receipt.ops["attend"].calls == 2 * DECODER * (steps - 1), "own keys and the source's, for each layer"


@pytest.mark.parametrize("beams", [1, 3])
def test_the_memory_is_that_of_the_formula(model, beams):
    """Keys and values, float32, of each beam: its own tokens, and the source padded to the longest."""
    steps = 6
    receipt = model.generate(input_ids=SOURCES, num_beams=beams, max_new_tokens=steps, plan=NAIVE).receipt
    rows, longest = len(SOURCES) * beams, max(map(len, SOURCES))
    assert receipt.cache_peak_bytes == 2 * 4 * DECODER * rows * D * (steps + longest)
    assert receipt.prompt_tokens == sum(map(len, SOURCES))
    none = model.generate(input_ids=SOURCES, num_beams=beams, max_new_tokens=steps, plan=NO_CACHE).receipt
    encoded = 4 * beams * sum(map(len, SOURCES)) * D
    assert none.cache_peak_bytes == encoded, "without a cache, what the encoder said of each beam's source is kept"


@pytest.fixture
def rows_seen(monkeypatch):
    """op -> rows of each call, as they come."""
    seen = {}

    def spy(module, name):
        right = getattr(module, name)

        def spying(x_RX, *others, **more):
            seen.setdefault(name, []).append(len(x_RX))
            return right(x_RX, *others, **more)

        monkeypatch.setattr(module, name, spying)

    for module, name in [(embedding, "embed_norm"), (linear, "linear"), (cross_kv, "project_cross_kv")]:
        spy(module, name)
    return seen


def test_the_encoder_computes_no_padding(model, rows_seen):
    """A batch that is padded when it comes: the rows are the tokens, in every product, and then one per beam."""
    ids_BN, mask_BN = np.zeros((3, 9), int), np.zeros((3, 9), int)
    for b, source in enumerate(SOURCES):
        ids_BN[b, : len(source)], mask_BN[b, : len(source)] = source, 1
    model.generate(input_ids=ids_BN, attention_mask=mask_BN, num_beams=2, max_new_tokens=3, plan=NAIVE)
    tokens, B = sum(map(len, SOURCES)), len(SOURCES)
    assert rows_seen["embed_norm"] == [tokens, B, 2 * B, 2 * B]
    assert rows_seen["linear"][: 4 * ENCODER] == [tokens] * (4 * ENCODER)
    assert tokens not in rows_seen["linear"][4 * ENCODER :]
    assert rows_seen["project_cross_kv"] == [tokens], "once for all layers"
    assert max(rows_seen["linear"]) == tokens


@pytest.mark.parametrize("plan", [NAIVE, NO_CACHE])
@pytest.mark.parametrize("options", [
    {}, {"num_beams": 3, "num_return_sequences": 2}, {"num_beams": 2, "no_repeat_ngram_size": 2},
    {"forced_bos_token_id": 4, "forced_eos_token_id": 6, "num_beams": 4, "eos_token_id": 6, "min_length": 4},
], ids=str)  # fmt: skip
def test_a_source_alone_gives_what_it_gives_in_a_batch(model, plan, options):
    together = model.generate(input_ids=SOURCES, max_new_tokens=8, plan=plan, **options)
    alone = [model.generate(input_ids=[source], max_new_tokens=8, plan=plan, **options) for source in SOURCES]
    assert lists(together) == [ids for out in alone for ids in lists(out)]
    np.testing.assert_allclose(together.scores, np.concatenate([out.scores for out in alone]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"num_beams": 3, "num_return_sequences": 3}], ids=str)
def test_plans_give_the_same_tokens(model, options):
    outs = [model.generate(input_ids=SOURCES, max_new_tokens=10, plan=plan, **options) for plan in (NAIVE, NO_CACHE)]
    assert lists(outs[0]) == lists(outs[1])
    np.testing.assert_allclose(outs[0].scores, outs[1].scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("targets", [[[2], [2, 8, 14], [2, 9]], [[2, 8, 14], [2], [2]], [[2], [2], [2]]], ids=str)
@pytest.mark.parametrize("plan", ["cache=el", "cache=split", "cache=indirect", "cache=none"])
def test_logits_of_targets_of_several_lengths(folder, plan, targets):
    """In each cache's prefill, a target's tokens see what they see of its source where it is alone."""
    plain = md.load(folder, plan=NAIVE)
    engine = engine_of(plain, md.Plan.parse(plan))
    engine.encode([np.array(source) for source in SOURCES])
    logits_RV = engine.prefill([np.array(target) for target in targets], every_row=True)
    together = np.split(logits_RV, np.cumsum([len(target) for target in targets])[:-1])
    for source, target, found in zip(SOURCES, targets, together, strict=True):
        (alone,) = plain.logits([source], None, [target])
        assert np.abs(found - alone).max() < 1e-4 * np.abs(alone).max()


def test_logits_agree_with_greedy(model):
    """Teacher forcing on what greedy search chose gives these choices again."""
    tokens = lists(model.generate(input_ids=SOURCES, max_new_tokens=7))
    targets = [[2, *row[:-1]] for row in tokens]
    logits = model.logits(SOURCES, decoder_input_ids=targets)
    assert [logits_NV.argmax(axis=1).tolist() for logits_NV in logits] == tokens


def test_threads_share_a_model(model):
    jobs = [{"num_beams": w, "max_new_tokens": 5 + w, "plan": p} for w in (1, 3) for p in (NAIVE, NO_CACHE)]
    expected = [lists(model.generate(input_ids=SOURCES, **job)) for job in jobs]
    results = [None] * len(jobs)

    def work(i):
        results[i] = lists(model.generate(input_ids=SOURCES, **jobs[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == expected


# ---- lengths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("plan", [NAIVE, NO_CACHE])
def test_the_context_can_be_filled_to_the_last_position(model, plan, beams):
    """Source and target have a context each; the last token is never read, so it needs no position."""
    full = [[5] * CONTEXT, [7]]
    for options in ({"max_new_tokens": CONTEXT}, {"max_length": CONTEXT + 1}):
        out = model.generate(input_ids=full, num_beams=beams, plan=plan, **options)
        assert [len(ids) for ids in lists(out)] == [CONTEXT, CONTEXT]
    with pytest.raises(md.InputError, match=f"ask for at most {CONTEXT}"):
        model.generate(input_ids=full, max_new_tokens=CONTEXT + 1)
    with pytest.raises(md.InputError, match=f"at most {CONTEXT + 1}"):
        model.generate(input_ids=full, max_length=CONTEXT + 2)


def test_a_source_that_is_too_long_is_refused_or_cut(model):
    """The error names both lengths; truncate keeps the last token, which ends the text."""
    long = [*range(3, 3 + CONTEXT + 2), 2]
    for refused in (
        lambda: model.generate(input_ids=[SOURCES[0], long], max_new_tokens=3),
        lambda: model.logits([SOURCES[0], long], decoder_input_ids=[[2], [2]]),
    ):
        with pytest.raises(md.InputError, match=f"source 2 of 2 has {CONTEXT + 3} tokens .* holds {CONTEXT}"):
            refused()
    cut = model.generate(input_ids=[SOURCES[0], long], max_new_tokens=3, truncate=True)
    expected = model.generate(input_ids=[SOURCES[0], [*long[: CONTEXT - 1], 2]], max_new_tokens=3)
    assert lists(cut) == lists(expected)


def test_a_target_that_is_too_long_is_refused(model):
    with pytest.raises(md.InputError, match=f"{CONTEXT + 1} tokens .* {CONTEXT}"):
        model.logits([[5]], decoder_input_ids=[[2] * (CONTEXT + 1)])


# ---- what is missing or forbidden ------------------------------------------------------------------------------------


def test_a_model_without_a_first_token_says_so(tmp_path):
    """decoder_start_token_id, else bos_token_id, as transformers takes it; from the call, or from either file."""
    model = md.load(write_folder(tmp_path / "none", decoder_start_token_id=None))
    with pytest.raises(md.OptionError, match="decoder_start_token_id is set nowhere"):
        model.generate(input_ids=SOURCES, max_new_tokens=4)
    given = lists(model.generate(input_ids=SOURCES, max_new_tokens=4, decoder_start_token_id=9))
    bos = md.load(write_folder(tmp_path / "bos", decoder_start_token_id=None, bos_token_id=9))
    start = md.load(write_folder(tmp_path / "start", decoder_start_token_id=9, bos_token_id=3))
    overruled = write_folder(tmp_path / "file", decoder_start_token_id=3)
    (overruled / "generation_config.json").write_text('{"decoder_start_token_id": 9}', encoding="utf-8")
    for other in (bos, start, md.load(overruled)):
        assert lists(other.generate(input_ids=SOURCES, max_new_tokens=4)) == given
    with pytest.raises(md.OptionError, match=f"decoder_start_token_id {V} is not in the vocabulary"):
        model.generate(input_ids=SOURCES, decoder_start_token_id=V)


def test_logits_need_targets_here_and_take_none_elsewhere(model):
    with pytest.raises(md.InputError, match="needs decoder_input_ids"):
        model.logits(SOURCES)
    with pytest.raises(md.InputError, match="takes no decoder_input_ids"):
        md.load("tiny-gpt2").logits([[1, 2]], decoder_input_ids=[[1]])
    for bad, words in [([[2], [V], [2]], "vocabulary"), ([[2], [], [2]], "empty"), ([[2.5]] * 3, "integers")]:
        with pytest.raises(md.InputError, match=words):
            model.logits(SOURCES, decoder_input_ids=bad)


def test_there_must_be_a_target_for_each_source(model):
    """Both numbers are named."""
    for targets in ([[2], [2, 3]], [[2]] * 4):
        with pytest.raises(md.InputError, match=f"{len(SOURCES)} .*{len(targets)} "):
            model.logits(SOURCES, decoder_input_ids=targets)
