"""Every cache gives the same texts, holds the bytes that its formula says, and forgets nothing between two beams."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_attention_settings import IDS, SIZES, logits, make, random_tensors

import minidecode as md
from minidecode import plan
from minidecode.cache import rolling
from minidecode.cache.indirect import IndirectCache
from minidecode.cache.paged import PagedCache
from minidecode.cache.rolling import RollingCache
from minidecode.errors import OptionError
from minidecode.models import FAMILIES
from minidecode.plan import CACHES, Plan

KV_CACHES = [name for name, cache in CACHES.items() if cache.keeps]
WINDOWS = [(name, window) for name in KV_CACHES for window in (None, 4) if window or name != "rolling"]
SEARCHES = [
    {"num_beams": 4, "num_return_sequences": 3},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.7},
    {"num_beams": 3, "do_sample": True, "seed": 5},
    {"num_return_sequences": 3, "do_sample": True, "top_k": 7, "seed": 6},
]


def tokens(out):
    return [ids.tolist() for ids in out.token_ids]


def generate(kind, cache, window, options):
    """Prompts of different lengths, with two tokens that end a text: the texts have from 1 to all 11 tokens."""
    ids = [*IDS, [17], [8, 9, 10, 11, 12, 13, 14, 15]]
    asked = {"input_ids": ids, "max_new_tokens": 11, "eos_token_id": [3, 17]} | options
    return make(kind, attention_window=window).generate(plan=f"cache={cache}", **asked)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize(("cache", "window"), WINDOWS)
@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_the_same_texts_as_without_a_memory(kind, cache, window, options):
    """Under every way to follow the beams."""
    expected, out = (generate(kind, m, window, options) for m in ("none", cache))
    assert tokens(out) == tokens(expected)
    np.testing.assert_allclose(out.scores, expected.scores, rtol=1e-9)


@settings(max_examples=40)
@given(
    st.sampled_from(["gpt2", "bart"]), st.sampled_from(WINDOWS), st.integers(0, 99), st.integers(1, 3),
    st.lists(st.integers(1, 12), min_size=1, max_size=3), st.sampled_from(SEARCHES), st.data(),
)  # fmt: skip
def test_random_models_say_the_same_with_every_memory(kind, case, seed, groups, lengths, options, data):
    """Random weights, prompts and windows; key/value heads that serve several query heads, of any width."""
    cache, window = case
    window = window and data.draw(st.integers(1, 16))
    heads = {"num_key_value_heads": [4, 2, 1][groups - 1] if kind == "gpt2" else min(groups, 2), "key_width": groups}
    family, config = FAMILIES[kind], FAMILIES[kind].config.from_json(SIZES[kind] | heads | {"attention_window": window})
    model = make(kind, random_tensors(family, config, seed), attention_window=window, **heads)
    rng = np.random.default_rng(seed)
    ids = [rng.integers(2, 40, n) for n in lengths]
    asked = {"input_ids": ids, "max_new_tokens": data.draw(st.integers(1, 11))} | options
    expected, out = (model.generate(plan=f"cache={m}", **asked) for m in ("none", cache))
    assert tokens(out) == tokens(expected)
    np.testing.assert_allclose(out.scores, expected.scores, rtol=1e-8)


def across_pages(cache, lengths=(8, 20), new=30, seed=0, search=None, window=None):
    """Texts of more than one page of 16 positions, from a toy with random weights."""
    size = {"n_positions": 64, "attention_window": window}
    family, config = FAMILIES["gpt2"], FAMILIES["gpt2"].config.from_json(SIZES["gpt2"] | size)
    model, rng = make("gpt2", random_tensors(family, config, seed), **size), np.random.default_rng(seed)
    asked = {"max_new_tokens": new, "eos_token_id": 3} | (search or {"num_beams": 3, "do_sample": True, "seed": 5})
    return model.generate(input_ids=[rng.integers(2, 40, n) for n in lengths], plan=f"cache={cache}", **asked)


@settings(max_examples=20)
@given(
    st.lists(st.integers(13, 34), min_size=1, max_size=3), st.integers(1, 20), st.integers(0, 9),
    st.sampled_from([{"do_sample": False}, {"num_beams": 3}, SEARCHES[3]]), st.sampled_from([None, 5, 18]),
    st.sampled_from(["off", "on"]),
)  # fmt: skip
def test_texts_cross_the_edges_of_pages(lengths, new, seed, search, window, drop):
    """Greedy search, beams and samples whose prompts end before, at and behind the end of a page."""
    case = lengths, new, seed, search, window
    expected, out = across_pages("none", *case), across_pages(f"paged,drop_finished={drop}", *case)
    assert tokens(out) == tokens(expected)
    np.testing.assert_allclose(out.scores, expected.scores, rtol=1e-8)


def never_follows(self, ops, parent_R):
    """Instead of reorder: the beams keep what they had."""


TABLES = {}


class TableOfAnotherGeneration(IndirectCache):
    """The second generation goes on with the first one's tables, as where they are kept on the model."""

    def begin_steps(self, *arguments):
        super().begin_steps(*arguments)
        layer = float(self.bias_X[0])
        self.indirection_RT = TABLES.setdefault(layer, self.indirection_RT)


class RowsOfAnotherSentence(IndirectCache):
    """Each row begins with the next sentence's."""

    def begin_steps(self, ops, k_RGK, v_RGU, beams, steps):
        super().begin_steps(ops, k_RGK, v_RGU, beams, steps)
        self.indirection_RT = (self.indirection_RT + beams) % len(self.indirection_RT)


class FollowsWhatIsNotWritten(IndirectCache):
    """The whole table follows the beams: a row then looks for what it writes itself where its parent would."""

    def reorder(self, ops, parent_R):
        ops.update_indirection(self.indirection_RT, parent_R, np.full_like(self.end_R, self.indirection_RT.shape[1]))


class OneSlotLate(RollingCache):
    """The steps write one slot behind the prompt's."""

    def append_step(self, ops, qkv_RX):
        self.end_R = self.end_R + 1
        q_RHK = super().append_step(ops, qkv_RX)
        self.end_R = self.end_R - 1
        return q_RHK


class SharedPageWritten(PagedCache):
    """No page is copied before it is written: a beam overwrites what others hold."""

    def begin_steps(self, *arguments):
        super().begin_steps(*arguments)
        self.tables.pool.make_writable = lambda table, nth: None


class StaleTable(PagedCache):
    """Beams follow in the lists of the pool, and ops read the table as it was."""

    def reorder(self, ops, parent_R):
        before_RX = self.tables.table_RX.copy()
        super().reorder(ops, parent_R)
        self.tables.table_RX[...] = before_RX


class PageBegunTooLate(PagedCache):
    """The position behind a full page goes into its last slot."""

    def append_step(self, ops, qkv_RX):
        end_R = self.end_R
        self.end_R = np.where(end_R % 16 == 0, end_R - 1, end_R)
        q_RHK = super().append_step(ops, qkv_RX)
        self.end_R = end_R + 1
        return q_RHK


BROKEN = {
    "paged, a shared page is written": ("paged", SharedPageWritten),
    **{f"{m} never follows": (m, type("Broken", (CACHES[m],), {"reorder": never_follows})) for m in KV_CACHES},
    "indirect, another generation's table": ("indirect", TableOfAnotherGeneration),
    "indirect, another sentence's rows": ("indirect", RowsOfAnotherSentence),
    "indirect, what is not written follows": ("indirect", FollowsWhatIsNotWritten),
    "rolling, one slot late": ("rolling", OneSlotLate),
}


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_broken_memory_says_something_else(monkeypatch, mistake):
    """What the tests above would see: with the same options, the second generation gives other texts."""
    cache, broken = BROKEN[mistake]
    window = 4 if cache == "rolling" else None
    expected = generate("gpt2", "none", window, SEARCHES[0])
    monkeypatch.setitem(plan.CACHES, cache, broken)
    monkeypatch.setitem(plan.BASES, "numpy", plan.BASES["numpy"] | {"drop_finished": "off"})  # another test's business
    first, second = (tokens(generate("gpt2", cache, window, SEARCHES[0])) for _ in range(2))
    assert second != tokens(expected)
    assert (first == tokens(expected)) == (broken is TableOfAnotherGeneration)


@pytest.mark.parametrize("broken", [SharedPageWritten, StaleTable, PageBegunTooLate])
def test_a_mistake_at_the_edge_of_a_page_is_seen(monkeypatch, broken):
    expected = across_pages("none")
    assert tokens(across_pages("paged")) == tokens(expected)
    monkeypatch.setitem(plan.CACHES, "paged", broken)
    assert tokens(across_pages("paged")) != tokens(expected)


def test_a_prompt_in_the_wrong_slots_is_seen(monkeypatch):
    monkeypatch.setattr(rolling, "slots_of_prompt", lambda k_BGNX, M: k_BGNX[:, :, -M:])  # right where N % M = 0
    out, expected = (generate("gpt2", m, 5, SEARCHES[0]) for m in ("rolling", "none"))
    assert tokens(out) != tokens(expected)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_a_model_without_a_window_refuses_the_rolling_memory(kind):
    with pytest.raises(md.OptionError, match="cache=rolling needs a model with an attention_window"):
        make(kind).generate(input_ids=IDS, plan="cache=rolling")


@pytest.mark.parametrize("cache", ["replicated", "preallocated", "split", "indirect", "paged"])
def test_a_long_prompt_keeps_its_keys_and_values_alone(cache):
    """With few key/value heads the queries are far wider, and nobody reads them again."""
    heads = {"num_key_value_heads": 1}
    family, config = FAMILIES["gpt2"], FAMILIES["gpt2"].config.from_json(SIZES["gpt2"] | heads)
    model = make("gpt2", random_tensors(family, config, 0), **heads)
    out = model.generate(input_ids=[[5, 6, 7] * 6], plan=f"cache={cache}", max_new_tokens=2, eos_token_id=None)
    # In pages: one that the prompt fills, one for the rest of it and one for what may come behind that.
    positions = {"replicated": 18 + 1, "paged": 16 * (1 + 2)}.get(cache, 18 + 2)
    block = model.weights.blocks[0].heads
    table = len(model.weights.blocks) * 2 * 8 if cache in ("indirect", "paged") else 0
    assert out.receipt.cache_peak_bytes == len(model.weights.blocks) * (block.K + block.U) * 8 * positions + table


@pytest.mark.parametrize(("cache", "window"), [*WINDOWS, ("rolling", 20)])
def test_bytes_held_are_those_of_the_formula(cache, window):
    """Keys and values of B sentences, W beams, N and T positions, in float64 (FastSeq, section 4.1)."""
    layers, D, W, T = 2, 12, 4, 6
    lengths, source_lengths = [6, 2], [6, 2]
    B, N = len(lengths), max(lengths)
    gpt2, bart = (
        make(kind, attention_window=window).generate(
            input_ids=IDS, plan=f"cache={cache}", num_beams=W, max_new_tokens=T, eos_token_id=None
        )
        for kind in ("gpt2", "bart")
    )
    position, rows = 2 * layers * D * 8, layers * B * W * 8
    table = {"indirect": rows * T, "paged": rows * 1}.get(cache, 0)  # at most 16 positions lie in one page

    def positions(N):
        return {
            "replicated": B * W * (N + T - 1),  # the last token is never read
            "preallocated": B * W * (N + T),
            "split": B * N + B * W * T,
            "indirect": B * N + B * W * T,
            "paged": 16 * (B * (N // 16) + B * W * 2),
            "el": B * N / 2 + B * W * T,  # of the prompt one array as wide as its keys or its values
            "rolling": B * W * min(window or 0, N + T),
        }[cache]

    assert gpt2.receipt.cache_peak_bytes == position * positions(N) + table
    sources = {"replicated": W, "preallocated": W, "el": 1 / (2 * layers)}
    source = B * max(source_lengths) * sources.get(cache, 1)
    start = B / 2 if cache == "el" else 0  # beside a source, EL leaves the decoder's own cache as the split one
    assert bart.receipt.cache_peak_bytes == position * (positions(1) + start + source) + table


@pytest.mark.parametrize("layers", [1, 3])
def test_el_keeps_a_2l_th_of_the_shared_keys_and_values_of_a_source(layers):
    """EL, section 3.1.1: in the place of keys and values of each of L layers, the hidden states once."""
    B, W, N, T, D = 3, 4, 15, 2, 12
    model, sources = make("bart", decoder_layers=layers), [[*range(3 + b, 3 + b + N)] for b in range(B)]
    split, el = (
        model.generate(input_ids=sources, plan=f"cache={m}", num_beams=W, max_new_tokens=T, eos_token_id=None).receipt
        for m in ("split", "el")
    )
    own = 2 * layers * D * 8 * (B + B * W * T)  # the decoder's own keys and values: one token given, T generated
    source = B * N * D * 8
    assert el.cache_peak_bytes == own + source
    assert split.cache_peak_bytes == own + 2 * layers * source


def test_el_drops_the_keys_and_values_of_a_prompt_in_its_prefill():
    """Of a long prompt and one new token, hidden states are the most that is held at any time."""
    layers, D, N = 2, 12, 20
    out = make("gpt2").generate(input_ids=[[*range(3, 3 + N)]], plan="cache=el", max_new_tokens=1, eos_token_id=None)
    assert out.receipt.cache_peak_bytes == layers * D * 8 * (N + 2 * 1)


def test_el_builds_no_keys_and_values_of_a_source():
    """Nor for the first token: without the product for all layers, the others are those of the split cache."""
    model = make("bart", decoder_layers=3)
    split, el = (
        model.generate(input_ids=IDS, plan=f"cache={m}", num_beams=3, max_new_tokens=5, eos_token_id=None).receipt
        for m in ("split", "el")
    )
    assert el.ops["linear"].calls == split.ops["linear"].calls
    assert split.ops["project_cross_kv"].calls == 1 and "project_cross_kv" not in el.ops
    assert el.ops["attend_el"].calls == 3 * el.steps and "attend_shared" not in el.ops


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_whole_texts_have_the_same_logits_with_el(kind):
    """Rows are many there, of texts of mixed lengths: BART's sources come by keys and values, built and dropped."""
    split, el = make(kind), make(kind)
    split.plan, el.plan = Plan(cache="split"), Plan(cache="el")
    for a, b in zip(logits(el), logits(split), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "name", "op"), [("gpt2", "el_split", "attend_el_split"), ("bart", "el", "attend_el")])
def test_a_kernel_of_el_runs_in_the_model(kind, name, op):
    model = make(kind, float32_tensors(kind))
    options = {"input_ids": IDS, "num_beams": 2, "max_new_tokens": 2}
    expected, out = (model.generate(plan=plan, **options) for plan in ("cache=el", f"cache=el,{name}=emulator"))
    assert tokens(out) == tokens(expected)
    np.testing.assert_allclose(out.scores, expected.scores, rtol=1e-5)
    assert out.receipt.ops[op].implementation.startswith(f"minidecode.cuda.{name}.{op}")
    assert out.receipt.launches["sum_states_by_block (emulator)"] == out.receipt.ops[op].calls > 0
    with pytest.raises(OptionError, match="compute in float32"):
        make(kind).generate(plan=f"cache=el,{name}=emulator", **options)
    with pytest.raises(OptionError, match=f"{name}=emulator has no effect with cache=split: say cache=el"):
        model.generate(plan=f"cache=split,{name}=emulator", **options)


def float32_tensors(kind):
    return {name: tensor.astype(np.float32) for name, tensor in make(kind).tensors.items()}


def test_the_rolling_memory_does_not_grow_with_the_text():
    held = [make("gpt2", attention_window=4).generate(
        input_ids=[IDS[0]], plan="cache=rolling", num_beams=2, max_new_tokens=n, eos_token_id=None
    ).receipt.cache_peak_bytes for n in (1, 5, 15)]  # fmt: skip
    assert len(set(held)) == 1


@pytest.mark.parametrize(("cache", "window"), WINDOWS)
def test_generations_of_different_widths_do_not_disturb_each_other(cache, window):
    """In turn, and in two threads at once: nothing is kept on the model. The published code of FastSeq fails this."""
    model = make("gpt2", attention_window=window)

    def run(W):
        return tokens(model.generate(input_ids=IDS, plan=f"cache={cache}", num_beams=W, max_new_tokens=10))

    expected = {W: run(W) for W in (2, 5)}
    assert {W: run(W) for W in (5, 2)} == expected
    found = {}
    threads = [threading.Thread(target=lambda W=W: found.__setitem__(W, [run(W) for _ in range(5)])) for W in (2, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {W: [expected[W]] * 5 for W in (2, 5)}


def test_the_receipt_names_the_memory_and_the_ops_of_it():
    for kind, cache, op in [("gpt2", "split", "attend_split"), ("bart", "split", "attend_shared"),
                             ("bart", "preallocated", "attend"), ("gpt2", "preallocated", "reorder_cache"),
                             ("gpt2", "indirect", "attend_indirect"), ("bart", "indirect", "update_indirection"),
                             ("gpt2", "paged", "attend_paged"), ("bart", "paged", "copy_pages"),
                             ("bart", "paged", "attend_shared"), ("gpt2", "paged", "append_paged"),
                             ("bart", "rolling", "attend_rolling"), ("gpt2", "rolling", "reorder_cache"),
                             ("gpt2", "el", "attend_el_split"), ("bart", "el", "attend_el")]:  # fmt: skip
        model = make(kind, attention_window=4 if cache == "rolling" else None)
        receipt = model.generate(input_ids=IDS, plan=f"cache={cache}", num_beams=3, max_new_tokens=9).receipt
        assert f"minidecode.cache.{cache}." in receipt.cache and receipt.ops[op].calls > 0
        assert cache not in ("indirect", "paged") or not {"reorder_cache", "attend_split"} & set(receipt.ops), (
            "keys and values are copied"
        )
    assert "cross.SharedCrossCache" in make("bart").generate(
        input_ids=IDS, plan="cache=split", max_new_tokens=2
    ).receipt.cache  # fmt: skip


def test_seconds_by_stage_add_up_to_the_whole():
    started = time.perf_counter()
    receipts = [make(kind).generate(input_ids=IDS, plan=f"cache={m}", num_beams=2, max_new_tokens=6).receipt
                for kind in ("gpt2", "bart") for m in ("none", "split")]  # fmt: skip
    whole = time.perf_counter() - started
    for receipt, kind in zip(receipts, ("gpt2", "gpt2", "bart", "bart"), strict=True):
        encoder = ["encoder"] if kind == "bart" else []
        assert list(receipt.seconds) == ["prompts", *encoder, "prefill", "steps", "search"]
        assert all(s > 0 for s in receipt.seconds.values())
    assert sum(s for r in receipts for s in r.seconds.values()) < whole


@pytest.mark.parametrize(("kind", "cache"), [("gpt2", "split"), ("gpt2", "rolling"), ("bart", "preallocated")])
def test_a_layers_kernels_write_into_memory_and_arena(kind, cache):
    """In the emulator, which looks at every access; the same tokens as by NumPy."""
    settings = {"attention_window": 4} if cache == "rolling" else {}
    narrow = {name: t.astype(np.float32) for name, t in make(kind, **settings).tensors.items()}
    model = make(kind, narrow, **settings)
    options = {"input_ids": IDS, "num_beams": 2, "max_new_tokens": 3, "eos_token_id": None}
    plan = f"cache={cache},arena=planned,heads=emulator,append=emulator,prefill=emulator"
    out = model.generate(plan=plan, **options)
    assert tokens(out) == tokens(model.generate(plan=f"cache={cache}", **options))
    layers = len(model.weights.blocks)
    assert out.receipt.launches["add_and_append (emulator)"] == out.receipt.ops["append_kv"].calls == 2 * layers
    assert out.receipt.launches["warp_per_query (emulator)"] == out.receipt.ops["attend_prefill"].calls > 0
