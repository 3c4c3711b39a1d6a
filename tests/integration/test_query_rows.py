"""Query rows: rows that attend and are not kept. A GPT-2 that predicts from them is compared with one that does not.

The model here is GPT-2 with a query row that stands for one token, QUERY. What that row says behind a text is what
GPT-2 itself says behind the text and QUERY: so the plain model, which has one row a token, is the oracle.
"""

import dataclasses

import numpy as np
import pytest
from taken_bytes import peak_of
from toy_folder import CONFIG, toy_tensors, write_folder

import minidecode as md
from minidecode.cache import prompt, queries, replicated
from minidecode.cache.queries import QueryRows, reverse_position_bias
from minidecode.methods.plans import engine_of
from minidecode.models import gpt2
from minidecode.models.products import activated_product, product, residual_norm
from minidecode.ops import PositionBias
from minidecode.plan import CACHES

QUERY = 184  # the token that a query row stands for
TEXTS = [[3, 14, 15, 9], [2], [6, 5, 35, 8, 97, 93, 2]]
SEARCHES = {
    "greedy": {}, "beam": {"num_beams": 3}, 
    "samples": {"do_sample": True, "num_return_sequences": 3, "top_k": 6, "seed": 5},
    "rules": {"num_beams": 2, "no_repeat_ngram_size": 2, "num_return_sequences": 2},
}  # fmt: skip


class TwoRows:
    """The forward pass of GPT-2 with two rows for each token."""

    lm_head = staticmethod(gpt2.lm_head)

    @staticmethod
    def forward(w, ids_R, pos_R, caches, ops, pick_R=None):
        query_pos_R = pos_R if pick_R is None else pos_R[pick_R]
        kept_RD, _ = ops.embed_norm(ids_R, pos_R, w.wte_VD, w.wpe_ND, 1.0, w.blocks[0].ln_1)
        query_RD, _ = ops.embed_norm(query_pos_R, query_pos_R, w.query_ND, None, 1.0, w.blocks[0].ln_1)
        x_RD = caches[0].join_rows(ops, kept_RD, query_RD)
        x_RD, h_RD = ops.residual_norm(x_RD, None, None, w.blocks[0].ln_1)
        for block, cache in zip(w.blocks, caches, strict=True):
            is_last = block is w.blocks[-1]
            q_RHK = cache.append(ops, product(ops, h_RD, block.qkv), h_RD)
            a_RX = cache.attend(ops, q_RHK, queries_alone=is_last)
            x_RD = cache.pick_query_rows(ops, x_RD) if is_last else x_RD
            x_RD, h_RD = residual_norm(ops, x_RD, a_RX, block.out, block.ln_2)
            f_RF = activated_product(ops, h_RD, block.up, w.activation)
            x_RD, h_RD = residual_norm(ops, x_RD, f_RF, block.down, block.next_ln)
        return h_RD


def two_rows(model: md.Model) -> md.Model:
    """The same weights, in a model that predicts from query rows."""
    w = model.weights
    query_ND = w.wpe_ND[1:] + w.wte_VD[QUERY]
    if isinstance(query_ND, np.ndarray):
        query_ND.flags.writeable = False
    model.weights = dataclasses.replace(w, query_ND=query_ND)
    model.network = TwoRows
    return model


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """By attention_window; None sees all."""
    folder, made = tmp_path_factory.mktemp("models"), {}
    for window in (None, 1, 3):
        fields = {"n_positions": 48} | ({} if window is None else {"attention_window": window})
        tensors = toy_tensors(CONFIG | fields)
        for name in tensors:  # what is attended to outweighs the query token, which is the same everywhere
            if ".attn." in name and name.endswith("weight"):
                tensors[name] *= 12
        made[window] = write_folder(folder / str(window), tensors, **fields)
    return made


def load(folders, window=None, **how) -> md.Model:
    return two_rows(md.load(folders[window], **how))


def generate(model, search, texts=TEXTS, new=9, **how):
    options = {"eos_token_id": [92, 238], "max_new_tokens": new} | SEARCHES[search] | how
    out = model.generate(input_ids=texts, **options)
    return [ids.tolist() for ids in out.token_ids], out


# ---- logits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("cache", ["none", "replicated", "split", "el"])
def test_logits_are_those_of_a_text_that_goes_on_with_the_query_token(folders, window, cache):
    plain = md.load(folders[window], dtype="float64")
    engine = engine_of(load(folders, window, dtype="float64"), md.Plan.parse(f"cache={cache}"))
    logits_RV = engine.prefill([np.array(text) for text in TEXTS], every_row=True)
    for text, logits_NV in zip(TEXTS, np.split(logits_RV, np.cumsum([len(text) for text in TEXTS])[:-1]), strict=True):
        assert len(logits_NV) == len(text)
        for n in range(len(text)):
            expected_V = plain.logits([[*text[: n + 1], QUERY]])[0][-1]
            np.testing.assert_allclose(logits_NV[n], expected_V, rtol=0, atol=1e-12)


def test_keys_are_copied_in_groups(folders, monkeypatch):
    whole = load(folders).logits(TEXTS)
    monkeypatch.setattr(queries, "MOST_KEYS", 9)
    for a, b in zip(load(folders).logits(TEXTS), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("cache", CACHES)
def test_steps_say_what_whole_texts_do(folders, cache):
    """Each step's logits, of every cache, against the plain model's; beams have changed places in between."""
    window = 3 if cache == "rolling" else None
    plain, model = md.load(folders[window], dtype="float64"), load(folders, window, dtype="float64")
    engine = engine_of(model, md.Plan.parse(f"cache={cache}"))
    rng, texts = np.random.default_rng(0), [np.array(text) for text in TEXTS for _ in range(2)]
    engine.prefill([np.array(text) for text in TEXTS])
    engine.expand(2, 8)
    parent_R = None
    for _ in range(7):
        texts = [np.append(text, rng.integers(260)) for text in texts]
        tokens_RM = np.zeros((len(texts), 20), np.int64)
        for r, text in enumerate(texts):
            tokens_RM[r, : len(text)] = text
        logits_RV = engine.step(tokens_RM, np.array([len(text) for text in texts]), parent_R)
        for text, logits_V in zip(texts, logits_RV, strict=True):
            expected_V = plain.logits([[*text.tolist(), QUERY]])[0][-1]
            np.testing.assert_allclose(logits_V, expected_V, rtol=0, atol=1e-12)
        parent_R = np.arange(6) // 2 * 2 + rng.integers(2, size=6)
        texts = [texts[parent] for parent in parent_R]


# ---- mistakes --------------------------------------------------------------------------------------------------------


def kept(monkeypatch):
    """A query row's key stays in the cache."""

    def wrong(self, ops, qkv_RX):
        return self.attend_step(ops, self.append_step(ops, qkv_RX))

    monkeypatch.setattr(prompt.PromptCache, "attend_next", wrong)
    monkeypatch.setattr(replicated.ReplicatedCache, "attend_next", wrong)


def blind_to_itself(monkeypatch):
    """A query row sees the tokens alone."""

    def wrong(self, ops, qkv_RX):
        q_RHK = ops.split_heads(qkv_RX, self.bias_X, self.heads)[0]
        return self.attend_step(ops, q_RHK)

    monkeypatch.setattr(prompt.PromptCache, "attend_next", wrong)
    monkeypatch.setattr(replicated.ReplicatedCache, "attend_next", wrong)


def in_another_order(monkeypatch):
    """All tokens first, and then all query rows: beams get each other's."""
    right = queries.QueryCache.expand

    def wrong(self, ops, beams, steps):
        right(self, ops, beams, steps)
        R = len(self.kept_X)
        self.kept_X, self.query_X = np.arange(R), np.arange(R, 2 * R)

    monkeypatch.setattr(queries.QueryCache, "expand", wrong)


@pytest.mark.parametrize("cache", [name for name in CACHES if name != "none"])
@pytest.mark.parametrize("plant", [kept, blind_to_itself, in_another_order])
def test_a_planted_mistake_is_found(folders, cache, plant, monkeypatch):
    plant(monkeypatch)
    with pytest.raises((AssertionError, IndexError)):  # what stays in a cache comes to its end, too
        test_steps_say_what_whole_texts_do(folders, cache)


# ---- searches, plans, devices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("cache", [name for name in CACHES if name not in ("none", "rolling")])
def test_every_cache_gives_the_same_tokens(folders, cache, search):
    expected, _ = generate(load(folders), search, plan="cache=none")
    tokens, out = generate(load(folders), search, plan=f"cache={cache}")
    assert tokens == expected and len({len(ids) for ids in tokens}) > 1, "texts end at different steps"
    assert out.receipt.rows % 2 == 0


def test_greedy_search_is_the_plain_models_argmax(folders):
    plain = md.load(folders[None])
    for text, tokens in zip(TEXTS, generate(load(folders), "greedy")[0], strict=True):
        for n, token in enumerate(tokens):
            assert plain.logits([[*text, *tokens[:n], QUERY]])[0][-1].argmax() == token


@pytest.mark.parametrize("cache", ["split", "indirect", "replicated", "rolling"])
@pytest.mark.parametrize("window", [1, 3])
def test_windows(folders, window, cache):
    expected, _ = generate(load(folders, window), "beam", plan="cache=none")
    assert generate(load(folders, window), "beam", plan=f"cache={cache}")[0] == expected


@pytest.mark.parametrize("plan", [
    "fast", "fast,cache=indirect", "fast,cache=preallocated", "cache=split,hars=reference", "cache=split,arena=planned",
    "fast,arena=planned", "cache=el,arena=separate", "cache=split,drop_finished=off", "cache=split,epilogue=reference",
    "naive",
])  # fmt: skip
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_plans_give_the_same_tokens(folders, plan, search):
    tokens, out = generate(load(folders, plan=plan), search)
    assert tokens == generate(load(folders), search)[0]
    assert ("hars_candidates" in out.receipt.ops) == ("hars" in plan and search == "beam") or plan.startswith("fast")


@pytest.mark.parametrize("cache", ["split", "el"])
def test_kernels_and_captured_steps_give_the_same_tokens(folders, cache):
    """On the emulated device; the second call goes on with the steps that the first one captured."""
    short = {"texts": [[3, 14], [5]], "new": 3}  # the emulator is slow
    expected, _ = generate(load(folders), "beam", **short)
    model = load(folders, plan=f"emulator,cache={cache},graphs=on", device="emulator")
    for reused in (False, True):
        tokens, out = generate(model, "beam", **short)
        assert tokens == expected and out.receipt.graphs.launches > 0
        assert (out.receipt.graphs.reused > 0) == reused


@pytest.mark.parametrize("cache", ["split", "indirect", "replicated", "el"])
def test_stored_caches(folders, cache):
    """Each number is rounded once, in the prefill as in the steps; so tokens are those of no other cache."""
    plan = f"cache={cache},cache_dtype=float16"
    tokens, out = generate(load(folders, plan=plan), "beam")
    assert generate(load(folders, plan=plan), "beam", texts=TEXTS[::-1])[0] == tokens[::-1]
    _, exact = generate(load(folders, plan=f"cache={cache}"), "beam")
    assert out.receipt.cache_peak_bytes < exact.receipt.cache_peak_bytes
    assert np.abs(out.scores - exact.scores).max() < 0.05


@pytest.mark.parametrize("search", SEARCHES)
def test_each_text_alone(folders, search):
    model = load(folders, plan="cache=split")
    together, _ = generate(model, search)
    each = len(together) // len(TEXTS)
    for b, text in enumerate(TEXTS):
        assert generate(model, search, texts=[text])[0] == together[b * each : (b + 1) * each]


def test_log_probabilities_of_what_was_generated(folders):
    """`logprobs` and `score` read whole texts, a query row behind each token: they say what the steps said."""
    model = load(folders, dtype="float64", plan="cache=split")
    tokens, out = generate(model, "greedy", logprobs=2)
    scores = model.score(input_ids=TEXTS, target_ids=tokens)
    for noted, scored in zip(out.log_probs, scores.token_log_probs, strict=True):
        np.testing.assert_allclose(noted.token_R, scored, rtol=0, atol=1e-12)
    plain = md.load(folders[None], dtype="float64")
    for text, new, scored in zip(TEXTS, tokens, scores.token_log_probs, strict=True):
        for n, token in enumerate(new):
            logits_V = plain.logits([[*text, *new[:n], QUERY]])[0][-1]
            assert abs(scored[n] - (logits_V[token] - np.log(np.exp(logits_V).sum()))) < 1e-12


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", CACHES)
def test_no_cache_holds_more_for_query_rows(folders, cache):
    window, options = 3 if cache == "rolling" else None, {"new": 6, "eos_token_id": None, "plan": f"cache={cache}"}
    plain, two = md.load(folders[window]), load(folders, window)
    held = [generate(model, "beam", **options)[1].receipt for model in (plain, two)]
    assert held[0].cache_peak_bytes == held[1].cache_peak_bytes
    assert held[1].rows == 2 * held[0].rows and held[1].steps == held[0].steps


@pytest.mark.parametrize("cache", CACHES)
def test_the_estimate_holds(folders, cache):
    model, rng = load(folders, 3 if cache == "rolling" else None), np.random.default_rng(0)
    for N, T, logprobs in ((30, 5, None), (8, 20, None), (20, 8, 1)):
        ids = [rng.integers(5, 250, N).tolist() for _ in range(3)]
        options = {"eos_token_id": None, "plan": f"cache={cache}", "new": T, "texts": ids, "logprobs": logprobs}
        needed = model.footprint(input_ids=ids, num_beams=3, max_new_tokens=T, eos_token_id=None,
                                 plan=f"cache={cache}", logprobs=logprobs)  # fmt: skip
        generate(model, "beam", **options)  # what is imported and compiled once
        (_, out), peak = peak_of(lambda options=options: generate(model, "beam", **options), needed.total)
        assert out.receipt.cache_peak_bytes == needed.cache and peak <= needed.total


def test_an_arena_is_counted(folders):
    model = load(folders, plan="cache=split,arena=planned")
    for search in SEARCHES:
        _, out = generate(model, search)
        options = {"max_new_tokens": 9, "eos_token_id": [92, 238]} | SEARCHES[search]
        assert 0 < out.receipt.arena_bytes <= model.footprint(input_ids=TEXTS, **options).arena


# ---- which rows are which --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every_row", [True, False])
@pytest.mark.parametrize("window", [None, 1, 2, 4])
def test_rows_of_a_prefill(every_row, window):
    """Against a loop over tokens."""
    lengths = [3, 1, 5, 2]
    rows = QueryRows.for_sentences(lengths, [0 if every_row else n - 1 for n in lengths], window, "cpu")
    place, token, total, kept, query, offsets, query_offsets, seen = 0, 0, sum(lengths), [], [], [0], [0], []
    for length in lengths:
        first = token
        for n in range(length):
            kept.append(place)
            place += 1
            if every_row or n == length - 1:
                tokens = [*range(first, token + 1)][::-1]
                seen.append([total + len(query), *(tokens if window is None else tokens[: window - 1])])
                query.append(place)
                place += 1
            token += 1
        offsets.append(place)
        query_offsets.append(len(query))
    assert rows.kept_X.tolist() == kept and rows.query_X.tolist() == query
    assert rows.offsets_X.tolist() == offsets and rows.query_offsets_X.tolist() == query_offsets
    assert [rows.seen_X[a:b].tolist() for a, b in zip(rows.ends, rows.ends[1:], strict=False)] == seen


def test_a_bias_for_keys_newest_first():
    bias = PositionBias(np.zeros((1, 1, 9)), np.array([4, 0, 1, 2, 3]), 1)
    other = reverse_position_bias(bias)
    for distance in range(-3, 9):
        right = bias.bucket_L[np.clip(distance + bias.zero, 0, 4)]
        assert other.bucket_L[np.clip(0 - distance + other.zero, 0, 4)] == right


# ---- what it costs ---------------------------------------------------------------------------------------------------


def test_receipts_and_cost_models_count_two_rows(folders):
    """Twice the products of a step, but for those behind the last layer's attention."""
    model = load(folders, plan="cache=split")
    options = {"texts": [[3]], "new": 5, "eos_token_id": None, "costs": True, "num_beams": 1}
    _, out = generate(model, "greedy", **options)
    D, F, V = 8, 32, 260

    def layer(rows, behind):
        return rows * D * 3 * D + behind * (D * D + 2 * D * F)

    each_step = layer(2, 2) + layer(2, 1) + V * D  # two layers, and the head
    linear = out.receipt.ops["linear"]
    assert sum(cost.operations for cost in linear.costs) == out.receipt.steps * 2 * each_step
    assert out.receipt.rows == 2 * (out.receipt.steps - 1)
    appended = out.receipt.ops["append_kv"]
    assert appended.calls == 2 * 2 * (out.receipt.steps - 1) and out.receipt.ops["attend_split"].calls == 3 * 4
