"""GPT-2 with a latent: against an oracle in float64, in every cache and search, alone and in batches; and its refusals.

latent_oracle.py has the oracle and twelve odd-shaped models.
"""

import dataclasses
import functools
import json

import numpy as np
import pytest
from latent_oracle import FIELDS, MODELS, Oracle, write_model
from tolerance import FLOAT32, FLOAT64, logit_bound, score_bound
from toy_folder import write_folder

import minidecode as md
from minidecode.cache.latent import Latent, LatentCache
from minidecode.cache.split import SplitCache
from minidecode.methods.latents import chosen_latents, interpolate_latents
from minidecode.models.gpt2_latent import GPT2LatentConfig
from minidecode.runtime.engine import Engine

PROMPTS = [[0, 9, 2, 7], [3], [8, 8, 3, 11, 4, 6], [4, 200]]
CACHES = ("none", "replicated", "preallocated", "split", "indirect")
BEAMS = {"num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 5, "length_penalty": 0.0}
SEARCHES = {
    "greedy": {"max_new_tokens": 6},
    "samples": {"do_sample": True, "num_return_sequences": 2, "seed": 3, "max_new_tokens": 5},
    "beams": BEAMS,
    "groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "hf4", "max_new_tokens": 5},
}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """The folder of a toy, written once."""
    root = tmp_path_factory.mktemp("latent")
    return functools.cache(lambda name: write_model(root / name, name))


@pytest.fixture
def folder(folder_of):
    return folder_of("plain")


def latents(model, sentences=4, seed=0):
    """Different ones, which are not small: a mistake in one of them is no rounding."""
    return np.random.default_rng(seed).standard_normal((sentences, model.config.latent_size))


def run(model, plan=None, prompts=PROMPTS, z_BZ=None, **options):
    """(token ids, scores, receipt), with a latent for each prompt."""
    out = model.generate(input_ids=prompts, latent=latents(model) if z_BZ is None else z_BZ, plan=plan, **options)
    return [ids.tolist() for ids in out.token_ids], out.scores, out.receipt


# ---- the model -------------------------------------------------------------------------------------------------------


def error_of_logits(model, folder) -> float:
    """The largest error of a logit, over its bound."""
    oracle, z_BZ = Oracle(folder), latents(model)
    right = [oracle.logits(ids, z_Z) for ids, z_Z in zip(PROMPTS, z_BZ, strict=True)]
    found = model.logits(PROMPTS, latent=z_BZ)
    unit = FLOAT32 if model.dtype == "float32" else 2 * FLOAT64  # the oracle rounds too
    bound = logit_bound(model.config, max(np.abs(logits_NV).max() for logits_NV in right), unit)
    return max(np.abs(a - b).max() for a, b in zip(found, right, strict=True)) / bound


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_the_oracles(folder_of, name, dtype):
    assert error_of_logits(md.load(folder_of(name), dtype=dtype), folder_of(name)) <= 1


def test_the_bound_of_logits_is_of_use(folder_of):
    assert max(error_of_logits(md.load(folder_of(name)), folder_of(name)) for name in MODELS) > 1 / 32


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_texts_are_the_oracles(folder_of, name):
    model, oracle = md.load(folder_of(name), dtype="float64"), Oracle(folder_of(name))
    texts, z_BZ = PROMPTS[:1] + PROMPTS[2:], latents(model, 3)
    scores = model.score(input_ids=texts, latent=z_BZ)
    for ids, z_Z, found in zip(texts, z_BZ, scores.token_log_probs, strict=True):
        assert np.allclose(found, oracle.log_probs(ids[:1], ids[1:], z_Z), rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", MODELS)
def test_the_encoder_is_the_oracles(folder_of, name):
    oracle = Oracle(folder_of(name))
    right = [oracle.posterior(ids) for ids in PROMPTS]
    for dtype, unit in (("float32", FLOAT32), ("float64", 2 * FLOAT64)):
        model = md.load(folder_of(name), dtype=dtype)
        found = model.encode_latent(input_ids=PROMPTS)
        largest = max(np.abs(part).max() for pair in right for part in pair)
        bound = logit_bound(model.config.encoder, largest, unit)
        for b, (mean_Z, log_variance_Z) in enumerate(right):
            assert np.abs(found.mean_BZ[b] - mean_Z).max() <= bound
            assert np.abs(found.log_variance_BZ[b] - log_variance_Z).max() <= bound


def not_added(monkeypatch, model):
    monkeypatch.setattr(LatentCache, "addend", lambda self, ops: 0 * ops.gather_rows(self.addend_BD, self.sentence_R))


def counted_from_zero(monkeypatch, model):
    whole_ND = model.tensors["decoder.transformer.wpe.weight"]
    model.weights = dataclasses.replace(model.weights, wpe_ND=whole_ND)


def bias_added_to_it(monkeypatch, model):
    right = Latent.qkv_row
    monkeypatch.setattr(Latent, "qkv_row", lambda self, block, layer: right(self, block, layer) + block.qkv.bias)


def value_scaled(monkeypatch, model):
    right = Latent.qkv_row

    def row_of(self, block, layer):
        row_BX = right(self, block, layer)
        row_BX[:, -block.heads.G * block.heads.U :] *= 1.001
        return row_BX

    monkeypatch.setattr(Latent, "qkv_row", row_of)


def layers_swapped(monkeypatch, model):
    right = Latent.qkv_row
    monkeypatch.setattr(Latent, "qkv_row", lambda self, block, layer: right(self, block, 1 - layer))


@pytest.mark.parametrize(
    "mistake", [not_added, counted_from_zero, bias_added_to_it, value_scaled, layers_swapped], ids=lambda m: m.__name__
)
def test_a_mistake_breaks_the_bound(folder, monkeypatch, mistake):
    model = md.load(folder)
    assert error_of_logits(model, folder) <= 1
    mistake(monkeypatch, model)
    assert error_of_logits(model, folder) > 10


# ---- search ----------------------------------------------------------------------------------------------------------


def error_of_scores(model, folder, plan, **options) -> float:
    """The largest error of the score of a generated text, over its bound: the oracle reads each text as a whole."""
    oracle, z_BZ = Oracle(folder), latents(model)
    tokens, scores, _ = run(model, plan, **options)
    each = len(tokens) // len(PROMPTS)
    largest = max(np.abs(oracle.logits(ids, z_Z)).max() for ids, z_Z in zip(PROMPTS, z_BZ, strict=True))
    bound = logit_bound(model.config, largest, FLOAT32 if model.dtype == "float32" else 2 * FLOAT64)
    errors = []
    for i, (text, score) in enumerate(zip(tokens, scores, strict=True)):
        right = oracle.log_probs(PROMPTS[i // each], text, z_BZ[i // each]).sum()
        errors.append(abs(score - right) / score_bound(bound, len(text), 0.0, right, FLOAT32))
    return max(errors)


@pytest.mark.parametrize("plan", [*(f"cache={name}" for name in CACHES), "fast", "cache=split,drop_finished=off"])
@pytest.mark.parametrize("name", ["plain", "grouped", "window"])
def test_beams_score_as_the_oracle_reads_them(folder_of, name, plan):
    """Every step, beam and sentence has its own latent, in whichever order beams change and sentences leave."""
    assert error_of_scores(md.load(folder_of(name)), folder_of(name), plan, **BEAMS) <= 1


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", ["plain", "window", "multi-query"])
def test_every_cache_gives_the_same_tokens(folder_of, name, search):
    model, options = md.load(folder_of(name), dtype="float64"), SEARCHES[search]
    right = run(model, "cache=none", **options)[0]
    assert len({tuple(ids) for ids in right}) > 1
    plans = [*(f"cache={cache}" for cache in CACHES[1:]), "cache=split,arena=planned", "cache=indirect,arena=separate",
             "cache=preallocated,drop_finished=off", "naive", *["cache=rolling"] * (name == "window")]  # fmt: skip
    for plan in plans:
        assert run(model, plan, **options)[0] == right, plan


@pytest.mark.parametrize("plan", ["cache=none", "cache=split", "cache=indirect"])
@pytest.mark.parametrize("search", ["greedy", "beams"])
def test_alone_equals_batched(folder, plan, search):
    """Whichever sentences are beside it: their latents, lengths and ends are others."""
    model, options = md.load(folder, dtype="float64"), SEARCHES[search]
    z_BZ, batched = latents(model), run(md.load(folder, dtype="float64"), plan, **options)[0]
    each = len(batched) // len(PROMPTS)
    for b, prompt in enumerate(PROMPTS):
        alone = run(model, plan, [prompt], z_BZ[b], **options)[0]
        assert alone == batched[b * each : (b + 1) * each]


def by_turns(monkeypatch):
    """Rows get the latents of sentence 0, 1, 2 and so on in turn, not of their own."""
    right = LatentCache.expand

    def expand(self, ops, beams, steps):
        sentences = len(self.first_B)
        right(self, ops, beams, steps)
        self.sentence_R = np.tile(np.arange(sentences), beams)

    monkeypatch.setattr(LatentCache, "expand", expand)


def left_behind(monkeypatch):
    """Sentences that leave take no row with them."""
    monkeypatch.setattr(
        LatentCache, "keep_only",
        lambda self, ops, stays_B, stays_R: (
            self.cache.keep_only(ops, stays_B, stays_R),
            setattr(self, "sentence_R", self.sentence_R[: len(stays_R)]),
        ),
    )  # fmt: skip


def follows_beams(monkeypatch):
    """The latent's rows move with the beams, across sentences."""
    right = LatentCache.reorder

    def reorder(self, ops, parent_R):
        right(self, ops, parent_R)
        self.sentence_R = np.roll(self.sentence_R, 1)

    monkeypatch.setattr(LatentCache, "reorder", reorder)


def forgotten_without_a_cache(monkeypatch):
    """Each beam gets the latent of the sentence of its number."""
    right = Latent.pick_sentences
    monkeypatch.setattr(
        Latent, "pick_sentences", lambda self, ops, pick_B: right(self, ops, np.sort(pick_B)[::-1].copy())
    )


@pytest.mark.parametrize(
    ("mistake", "plan"),
    [(by_turns, "cache=split"), (left_behind, "cache=split"), (follows_beams, "cache=indirect"),
     (forgotten_without_a_cache, "cache=none")],
    ids=lambda value: getattr(value, "__name__", value),
)  # fmt: skip
def test_a_mistake_with_rows_is_found(folder, monkeypatch, mistake, plan):
    model = md.load(folder)
    options = {"num_beams": 3, "length_penalty": 0.0, "max_length": 9, "eos_token_id": ()}  # the third leaves first
    assert error_of_scores(model, folder, plan, **options) <= 1
    mistake(monkeypatch)
    assert error_of_scores(model, folder, plan, **options) > 10


def test_the_latent_is_kept_once_per_sentence(folder, monkeypatch):
    """As one position more of the prompt, in each layer; and what is added to embeddings, once for all."""
    found, right = [], Engine.expand

    def expand(self, beams, steps):
        right(self, beams, steps)
        found.extend(self.caches)

    monkeypatch.setattr(Engine, "expand", expand)
    model = md.load(folder)
    *_, receipt = run(model, "cache=split", **BEAMS)
    (B, N), (H, K), D = (len(PROMPTS), 6), (3, 4), 12
    assert len(found) == 2 and all(isinstance(each.cache, SplitCache) for each in found)
    assert all(each.cache.prompt_k_BGNK.shape == (B, H, N + 1, K) for each in found)
    assert all(cache.addend_BD is found[0].addend_BD and len(cache.addend_BD) == B for cache in found)
    kept = 2 * 2 * H * K * (B * (N + 1) + B * 3 * 5) + B * D
    assert receipt.cache_peak_bytes == 4 * kept


def test_caches_in_float16_are_nearly_the_same(folder):
    model = md.load(folder)
    exact, narrow = (run(model, f"cache=split{dtype}", max_new_tokens=4)[1] for dtype in ("", ",cache_dtype=float16"))
    assert 0 < np.abs(exact - narrow).max() < 0.02 * np.abs(exact).max()


@pytest.mark.parametrize("dtype", ["float16", "int8", "int8_dynamic"])
def test_narrow_weights_are_nearly_the_same(folder, dtype):
    """z's own matrices are stored narrow too."""
    found = [md.load(folder, dtype=d).logits(PROMPTS, latent=latents(md.load(folder)))[0] for d in ("float32", dtype)]
    assert 0 < np.abs(found[0] - found[1]).max() < 0.2 * np.abs(found[0]).max()


def test_guidance_compares_texts_of_one_latent(folder):
    """score = s x conditional + (1 - s) x unconditional, both with the sentence's latent."""
    model, oracle, z_BZ = md.load(folder, dtype="float64"), Oracle(folder), latents(md.load(folder))
    for plan in ("cache=none", "cache=split"):
        tokens, *_ = run(model, plan, max_new_tokens=1, guidance_scale=1.5, eos_token_id=())
        for prompt, z_Z, (token,) in zip(PROMPTS, z_BZ, tokens, strict=True):
            both = [oracle.logits(ids, z_Z)[-1] for ids in (prompt, prompt[-1:])]
            one, other = (x - np.log(np.exp(x - x.max()).sum()) - x.max() for x in both)
            assert token == (1.5 * one - 0.5 * other).argmax()


def test_logprobs_are_the_oracles(folder):
    model, oracle, z_BZ = md.load(folder, dtype="float64"), Oracle(folder), latents(md.load(folder))
    out = model.generate(input_ids=PROMPTS, latent=z_BZ, logprobs=0, **BEAMS)
    for i, (ids, found) in enumerate(zip(out.token_ids, out.log_probs, strict=True)):
        assert np.allclose(found.token_R, oracle.log_probs(PROMPTS[i // 2], ids, z_BZ[i // 2]), rtol=0, atol=1e-11)


@pytest.mark.parametrize(("plan", "turns"), [("cuda,cache=split", 1), ("cuda,cache=preallocated,graphs=on", 2)])
def test_kernels_give_the_same_tokens(folder_of, plan, turns):
    """On an emulated device, captured steps among them, and once more in the arrays that they were captured over."""
    folder, options = folder_of("one-head"), {"num_beams": 2, "max_new_tokens": 3}
    z_BZ = latents(md.load(folder), 2)
    model = md.load(folder, device="emulator", plan=plan)
    for turn in (z_BZ, z_BZ[::-1])[:turns]:
        right = run(md.load(folder), "cache=split", PROMPTS[:2], turn, **options)[0]
        found, _, receipt = run(model, plan, PROMPTS[:2], turn, **options)
        assert found == right and receipt.launches


@pytest.mark.parametrize("cache", [*CACHES, "rolling"])
def test_the_footprint_has_what_caches_hold(folder_of, cache):
    """To the last byte, where prompts are alike and texts go to their limit."""
    model = md.load(folder_of("window" if cache == "rolling" else "deep"))
    prompts, options = [[4, 5, 6, 7, 8]] * 4, {"num_beams": 4, "max_new_tokens": 12, "eos_token_id": ()}
    *_, receipt = run(model, f"cache={cache}", prompts, **options)
    assert receipt.cache_peak_bytes == model.footprint(input_ids=prompts, plan=f"cache={cache}", **options).cache


def test_fewer_heads_pool_the_latents_too(folder_of, tmp_path):
    """k'[g] is the mean of the heads' keys, of the latent's as of all others."""
    md.convert(folder_of("plain"), tmp_path / "one", num_key_value_heads=1)
    old, new = md.load(folder_of("plain"), dtype="float64"), md.load(tmp_path / "one", dtype="float64")
    name = "decoder.transformer.linear.weight"
    assert np.allclose(new.tensors[name], old.tensors[name].reshape(2, 3, 4, 5).mean(1).reshape(8, 5), atol=1e-7)
    assert error_of_logits(md.load(tmp_path / "one"), tmp_path / "one") <= 1
    same = [n for n in old.tensors if n.startswith("encoder.")]
    assert same and all(np.array_equal(old.tensors[n], new.tensors[n]) for n in same)


@pytest.mark.parametrize(("name", "heads"), [("three-layers", 1), ("three-layers", 2), ("deep", 1)])
def test_fewer_heads_pool_each_layers_latent_by_itself(folder_of, tmp_path, name, heads):
    """Old layer l's heads are means of layer l's, of no other's: 3 or 5 layers, into which 2 or 4 heads do not go."""
    md.convert(folder_of(name), tmp_path / "fewer", num_key_value_heads=heads)
    old, new = md.load(folder_of(name), dtype="float64"), md.load(tmp_path / "fewer", dtype="float64")
    c, tensor = old.config, "decoder.transformer.linear.weight"
    H, K = c.n_head, c.n_embd // c.n_head
    for layer in range(c.n_layer):
        of_old = old.tensors[tensor][layer * H * K : (layer + 1) * H * K]
        of_new = new.tensors[tensor][layer * heads * K : (layer + 1) * heads * K]
        for g in range(heads):
            group = [of_old[h * K : (h + 1) * K] for h in range(g * H // heads, (g + 1) * H // heads)]
            assert np.allclose(of_new[g * K : (g + 1) * K], sum(group) / len(group), atol=1e-7)
    assert len(new.tensors[tensor]) == c.n_layer * heads * K
    assert error_of_logits(md.load(tmp_path / "fewer"), tmp_path / "fewer") <= 1


# ---- latents of a call -----------------------------------------------------------------------------------------------


def test_a_drawn_latent_is_the_same_in_any_batch(folder):
    model = md.load(folder)
    prompts = [[0], [0, 5], [0]]
    together = [ids.tolist() for ids in model.generate(input_ids=prompts, latent_seed=7, max_new_tokens=6).token_ids]
    alone = [model.generate(input_ids=[p], latent_seed=7, max_new_tokens=6).token_ids[0].tolist() for p in prompts[:2]]
    assert together[:2] == alone and together[2] != together[0]  # a copy of a prompt draws another latent
    assert model.generate(input_ids=prompts[:1], latent_seed=8, max_new_tokens=6).token_ids[0].tolist() != alone[0]
    third = model.generate(input_ids=prompts[:1], latent_seed=7, sample_ids=[1], max_new_tokens=6)
    assert third.token_ids[0].tolist() == together[2]


GOLDEN_LATENTS = [
    [-0.7405475222927879, -0.7899975546313707, -1.8704050951895934],
    [2.2216247951115853, 0.04854605905309156, 0.8612750405887913],
    [-0.4658056152703715, 0.7930959800227799, -0.8930975028462801],
]
# Prompts of which 32 bits of the 64 that their latents are drawn by are equal: the first half, or the second.
HALF_EQUAL = [([2, 56], [47, 16, 21]), ([5, 183], [58, 51, 16]), ([240, 184], [26, 53, 46])]


@pytest.mark.parametrize("prompts", HALF_EQUAL, ids=str)
def test_prompts_whose_keys_share_a_half_draw_other_latents(folder, prompts):
    a_Z, b_Z = chosen_latents(None, 7, [np.array(ids) for ids in prompts], 5, np.float64)
    assert not np.isclose(a_Z, b_Z).any()
    scores = md.load(folder).generate(input_ids=prompts, latent_seed=7, max_new_tokens=4).scores
    for ids, z_Z, score in zip(prompts, (a_Z, b_Z), scores, strict=True):
        alone = md.load(folder).generate(input_ids=[ids], latent=z_Z, max_new_tokens=4)
        assert np.isclose(alone.scores[0], score)


@pytest.mark.parametrize("other", [8, 7 + 2**32, 7 + 2**63, 2**64 - 1])
def test_every_bit_of_a_seed_counts(folder, other):
    prompts = [np.array(ids) for ids in PROMPTS]
    drawn = [chosen_latents(None, seed, prompts, 5, np.float64) for seed in (7, other)]
    assert not np.isclose(*drawn).any()
    posterior = md.load(folder).encode_latent(input_ids=PROMPTS[:2])
    assert not np.isclose(posterior.sample(7), posterior.sample(other)).any()


def test_a_seed_draws_what_it_drew(folder):
    """Philox by (seed, BLAKE2b of the tokens as 64-bit integers, keyed by copy and number): golden numbers."""
    drawn = chosen_latents(None, 7, [np.array([0]), np.array([0, 5]), np.array([0])], 3, np.float64)
    assert np.allclose(drawn, GOLDEN_LATENTS, rtol=0, atol=1e-12)


def test_drawn_latents_are_normal():
    z_BZ = chosen_latents(None, 3, [np.array([i]) for i in range(400)], 25, np.float64)
    assert abs(z_BZ.mean()) < 4 / 100 and abs(z_BZ.var() - 1) < 4 * np.sqrt(2) / 100
    assert np.abs(np.corrcoef(z_BZ.T) - np.eye(25)).max() < 5 / 20


def test_without_a_latent_it_is_zero(folder):
    model = md.load(folder)
    plain = model.generate(input_ids=PROMPTS, max_new_tokens=4)
    zero = model.generate(input_ids=PROMPTS, latent=[0] * 5, max_new_tokens=4)
    assert [ids.tolist() for ids in plain.token_ids] == [ids.tolist() for ids in zero.token_ids]


def test_between_has_both_ends():
    a_Z, b_Z = np.array([1.0, -2.0]), np.array([3.0, 2.0])
    assert interpolate_latents(a_Z, b_Z, 3).tolist() == [[1, -2], [2, 0], [3, 2]]


def test_interpolation_is_generation_from_points_between(folder):
    model = md.load(folder)
    ends = model.encode_latent(["the", "e the"]).mean_BZ
    out = model.interpolate("the", "e the", steps=4, max_new_tokens=5, num_beams=2)
    z_BZ = [(1 - t) * ends[0] + t * ends[1] for t in (0, 1 / 3, 2 / 3, 1)]
    again = model.generate(input_ids=[[0]] * 4, latent=np.array(z_BZ), max_new_tokens=5, num_beams=2)
    assert out.texts == again.texts


def test_a_posterior_can_be_drawn_from(folder):
    posterior = md.load(folder).encode_latent(input_ids=PROMPTS[:2])
    drawn = np.stack([posterior.sample(seed) for seed in range(3000)])
    deviation_BZ = np.exp(posterior.log_variance_BZ / 2)
    assert (np.abs(drawn.mean(0) - posterior.mean_BZ) < 5 * deviation_BZ / np.sqrt(3000)).all()
    assert np.allclose(drawn.std(0), deviation_BZ, rtol=0.1)
    with pytest.raises(md.OptionError, match="seed must be an integer from 0 to 2\\*\\*64 - 1, not -1"):
        posterior.sample(-1)


def test_streams_and_lines_have_latents(folder):
    model = md.load(folder)
    how = {"max_new_tokens": 6, "eos_token_id": ()}
    whole = model.generate(["the", "e", "the"], latent_seed=3, **how).texts
    assert "".join(model.stream("the", latent_seed=3, **how)) == whole[0]
    lines = md.generate_lines(model, ["the", "e", "the"], batch_size=2, latent_seed=3, **how)
    assert [line.texts[0] for line in lines] == whole
    for shared in ([1.0] * 5, [[1.0] * 5]):
        given = md.generate_lines(model, ["the", "e"], latent=shared, **how)
        assert [line.texts[0] for line in given] == model.generate(["the", "e"], latent=[1.0] * 5, **how).texts


def test_lines_share_one_latent(folder):
    """They are sorted by length before they are batched: of several latents, each would go to another line's text."""
    model = md.load(folder)
    with pytest.raises(md.InputError, match=r"latent has shape \(2, 5\): give \(5,\) for all sentences, or \(1, 5\)"):
        md.generate_lines(model, ["e the the", "e"], latent=[[0.0] * 5, [1.0] * 5])
    with pytest.raises(md.OptionError, match="latent_seed must be an integer"):
        md.generate_lines(model, ["e"], latent_seed=-1)


@pytest.mark.parametrize(
    ("how", "say"),
    [({"latent": [1.0]}, r"latent has shape \(1,\): give \(5,\) for all sentences, or \(4, 5\)"),
     ({"latent": np.zeros((3, 5))}, r"latent has shape \(3, 5\)"),
     ({"latent": [np.nan] * 5}, "latent holds NaN or infinity"),
     ({"latent": "old"}, "latent must be 5 numbers"),
     ({"latent": ["1", "2", "3", "4", "5"]}, "latent must be 5 numbers"),
     ({"latent": np.ones(5) * 1j}, "latent must be 5 numbers"),
     ({"latent": [[1.0] * 5, [2.0]]}, "latent must be 5 numbers"),
     ({"latent": [1e300] * 5}, "latent holds NaN or infinity"),
     ({"latent": [0] * 5, "latent_seed": 1}, "latent and latent_seed both say"),
     ({"latent_seed": -1}, "latent_seed must be an integer"),
     ({"latent_seed": True}, "latent_seed must be an integer"),
     ({"plan": "cache=el"}, "no hidden state makes the key and value of this model's latent: use cache=split"),
     ({"plan": "cache=rolling"}, "cache=rolling needs a model with an attention_window"),
     ({"max_new_tokens": 23}, "context of 23")],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(folder, how, say):
    with pytest.raises(md.MinidecodeError, match=say):
        md.load(folder).generate(input_ids=PROMPTS, **how)


def test_another_model_has_no_latent(tmp_path):
    model = md.load(write_folder(tmp_path / "gpt2"))
    for how in ({"latent": [0.0]}, {"latent_seed": 1}):
        with pytest.raises(md.OptionError, match=f"{next(iter(how))}: a gpt2 model has no latent: leave it out"):
            model.generate("the", **how)
    with pytest.raises(md.OptionError, match="encode_latent: a gpt2 model has no latent"):
        model.encode_latent("the")
    with pytest.raises(md.OptionError, match="encode_latent"):
        model.interpolate("the", "e")


def test_interpolation_takes_no_other_latent(folder):
    for other in ({"latent": np.zeros(5)}, {"latent_seed": 3}):
        with pytest.raises(md.OptionError, match=f"{next(iter(other))}: interpolate reads its latents from the two"):
            md.load(folder).interpolate("the", "e", **other)


def test_interpolation_needs_steps_and_a_beginning(folder):
    for steps in (0, 1, 2.0, True, 2**16 + 1):
        with pytest.raises(md.OptionError, match=f"steps must be an integer from 2 to 65,536, .* not {steps}"):
            md.load(folder).interpolate("the", "e", steps=steps)
    model = md.load(folder)
    model.defaults.pop("bos_token_id")
    with pytest.raises(md.OptionError, match="bos_token_id is set nowhere"):
        model.interpolate("the", "e")
    with pytest.raises(md.InputError, match="text 1 of 1 has 30 tokens, and the model reads 24"):
        md.load(folder).encode_latent(input_ids=[[5] * 30])


@pytest.mark.parametrize(
    ("changes", "say"),
    [({"latent_size": 0}, "latent_size must be an integer from 1"),
     ({"encoder_layers": 2.0}, "encoder_layers must be an integer"),
     ({"n_positions": 1}, "n_positions must be at least 2"),
     ({"key_width": 4, "value_width": 5}, "key_width 4 and value_width 5 must be equal"),
     ({"add_cross_attention": True}, "add_cross_attention is not supported")],
)  # fmt: skip
def test_a_config_that_is_none(changes, say):
    with pytest.raises(md.CheckpointError, match=say):
        GPT2LatentConfig.from_json(FIELDS | changes)


def test_a_file_without_an_encoder_is_told(folder, tmp_path):
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if n != "encoder.linear.weight"}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(FIELDS), encoding="utf-8")
    with pytest.raises(md.CheckpointError, match=r"encoder\.linear\.weight"):
        md.load(tmp_path)
