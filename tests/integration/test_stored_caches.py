"""Generations whose caches are float16: the texts of the rounded numbers, in half of the bytes, under every plan."""

import numpy as np
import pytest
from test_attention_settings import IDS, make
from test_caches import KV_CACHES, SEARCHES, float32_tensors, tokens

import minidecode as md
from minidecode import plan as plan_file
from minidecode.cache import cross, el, prompt, source
from minidecode.cache.split import SplitCache
from minidecode.reference import append, move, paged_append

NARROW = "cache_dtype=float16"
MORE = [*IDS, [17], [8, 9, 10, 11, 12, 13, 14, 15]]
KEYS_AND_VALUES = [name for name in KV_CACHES if name not in ("el", "rolling")]


def generate(kind, plan, options, window=None):
    asked = {"input_ids": MORE, "max_new_tokens": 11, "eos_token_id": [3, 17]} | options
    return make(kind, attention_window=window).generate(plan=plan, **asked)


def in_float32(kind, cache):
    settings = {"attention_window": 4} if cache == "rolling" else {}
    tensors = {name: t.astype(np.float32) for name, t in make(kind, **settings).tensors.items()}
    return make(kind, tensors, **settings)


def rounded(x_RX):
    """The numbers that float16 holds, in the dtype of x."""
    return x_RX.astype(np.float16).astype(x_RX.dtype)


@pytest.fixture
def wide_but_rounded(monkeypatch):
    """Caches hold wide numbers, each rounded to float16 where it is written: what narrow ones should say."""

    def install():
        for module in (prompt, cross, el, source, move):
            monkeypatch.setattr(module, "cast_for_cache", lambda dtype, x_RX: rounded(x_RX))
        right = append.write_positions
        for module in (append, paged_append):
            monkeypatch.setattr(module, "write_positions", lambda whole, k_RGX, *at: right(whole, rounded(k_RGX), *at))

    return install


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("cache", KV_CACHES)
@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_the_texts_of_the_rounded_numbers(kind, cache, options, wide_but_rounded):
    """In float64 arithmetic, in which two orders of a sum hardly ever part two roundings. And no others."""
    window = 4 if cache == "rolling" else None
    out, exact = (generate(kind, f"cache={cache}{more}", options, window) for more in (f",{NARROW}", ""))
    wide_but_rounded()
    expected = generate(kind, f"cache={cache}", options, window)
    assert tokens(out) == tokens(expected)
    np.testing.assert_allclose(out.scores, expected.scores, rtol=1e-9)
    assert tokens(out) != tokens(exact) or np.abs(out.scores / exact.scores - 1).max() > 1e-8


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_all_memories_of_keys_and_values_say_the_same(kind, window, options):
    caches = [*KEYS_AND_VALUES, "rolling"] if window else KEYS_AND_VALUES
    first, *others = (generate(kind, f"cache={m},{NARROW}", options, window) for m in caches)
    for other in others:
        assert tokens(other) == tokens(first)
        np.testing.assert_allclose(other.scores, first.scores, rtol=1e-9)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("cache", KV_CACHES)
def test_the_receipt_proves_half_the_bytes(kind, cache):
    """Against float32: EL's weights are views, and of an indirect and a paged cache the table stays."""
    model = in_float32(kind, cache)
    options = dict(input_ids=IDS, num_beams=4, max_new_tokens=6, eos_token_id=None)
    wide, narrow = (model.generate(plan=f"cache={cache}{more}", **options).receipt for more in ("", f",{NARROW}"))
    layers = model.config.n_layer if kind == "gpt2" else model.config.decoder_layers
    table = layers * len(IDS) * 4 * 8 * {"indirect": 6, "paged": 1}.get(cache, 0)  # 6 positions, or a page for all
    assert 2 * (narrow.cache_peak_bytes - table) == wide.cache_peak_bytes - table
    assert narrow.cache == f"{wide.cache} in float16" and narrow.plan == f"cache={cache},{NARROW}"
    reading = [op for op in narrow.ops if op.startswith("attend") and op != "attend_prefill"]
    assert reading and all(narrow.ops[op].bytes < wide.ops[op].bytes for op in reading)


def test_a_long_prompt_is_held_narrow_as_soon_as_it_has_attended():
    """Of a prefill, what is held at its end is what is stored: of one new token no step ever reads it."""
    model = make("gpt2", float32_tensors("gpt2"))
    options = dict(input_ids=[[*range(3, 23)]], max_new_tokens=1, eos_token_id=None)
    for cache in ("replicated", "el"):
        wide, narrow = (model.generate(plan=f"cache={cache}{m}", **options).receipt for m in ("", f",{NARROW}"))
        assert 2 * narrow.cache_peak_bytes == wide.cache_peak_bytes


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_a_prompt_attends_to_itself_as_computed(kind):
    """The first token does not see what is stored."""
    plans = "cache=split", f"cache=split,{NARROW}"
    wide, narrow = (make(kind).generate(input_ids=MORE, plan=plan, max_new_tokens=1) for plan in plans)
    assert np.array_equal(wide.scores, narrow.scores)


class StoredTooEarly(SplitCache):
    """The prompt attends to what is stored."""

    def append(self, ops, qkv_RX, h_RD):
        q_RHK = super().append(ops, qkv_RX, h_RD)
        if not self.decoding:
            self.cast_to_stored()
        return q_RHK


class PromptsStayWide(SplitCache):
    """What the steps write is narrow, what the prefill wrote is not."""

    def begin_steps(self, ops, k_RGK, v_RGU, beams, steps):
        super().begin_steps(ops, k_RGK, v_RGU, beams, steps)
        self.prompt_k_BGNK, self.prompt_v_BGNU = (a.astype(float) for a in (self.prompt_k_BGNK, self.prompt_v_BGNU))


class KeysAlone(SplitCache):
    """Values stay as they were computed."""

    def cast_to_stored(self):
        values = self.v_RGU
        super().cast_to_stored()
        self.v_RGU = values


class RoundedTwice(SplitCache):
    """To two digits behind the point first."""

    def cast_to_stored(self):
        self.k_RGK = self.k_RGK if self.k_RGK.dtype == np.float16 else np.round(self.k_RGK, 2)
        super().cast_to_stored()


@pytest.mark.parametrize("mistake", [StoredTooEarly, PromptsStayWide, KeysAlone, RoundedTwice])
def test_a_broken_memory_is_seen(mistake, monkeypatch):
    """By the scores, or by the bytes held."""
    out = generate("gpt2", f"cache=split,{NARROW}", {})
    monkeypatch.setitem(plan_file.CACHES, "split", mistake)
    broken = generate("gpt2", f"cache=split,{NARROW}", {})
    say_the_same = tokens(broken) == tokens(out) and np.allclose(broken.scores, out.scores, rtol=1e-9)
    assert not say_the_same or broken.receipt.cache_peak_bytes != out.receipt.cache_peak_bytes


# ---- trained models, and what runs them ------------------------------------------------------------------------------

PROMPTS = {
    "tiny-gpt2": ["Fellow citizens,", "Our army and our navy", "The Congress of the United States has"],
    "tiny-gpt2-mqa": ["Fellow citizens,", "Our army and our navy", "The Congress of the United States has"],
    "tiny-bart": ["The Congress of the<mask> States has<mask> to provide for the common defense.",
                  "Our<mask> and our navy are in<mask> condition."],
}  # fmt: skip
BACKENDS = {
    "replicated": "grouped=cpu", "preallocated": "grouped=cpu,reorder=cpu", "split": "split=cpu,reorder=cpu",
    "indirect": "indirect=cpu", "el": "arena=planned",
}  # fmt: skip


@pytest.mark.parametrize("name", PROMPTS)
def test_trained_models_say_the_same_with_every_memory(name):
    """In float32, by NumPy and by compiled code, what float64 says of the same storage; EL stores another thing.

    No prompt here comes to a choice that is as close as one rounding of float16.
    """
    options = dict(num_beams=3, max_new_tokens=12)
    exact = md.load(name, dtype="float64").generate(PROMPTS[name], plan=f"cache=split,{NARROW}", **options)
    model = md.load(name)
    for cache, choices in BACKENDS.items():
        if cache == "el":
            exact = md.load(name, dtype="float64").generate(PROMPTS[name], plan=f"cache=el,{NARROW}", **options)
        plans = [f"cache={cache},{NARROW}", f"cache={cache},{NARROW},{choices}"]
        for plan in plans:
            out = model.generate(PROMPTS[name], plan=plan, **options)
            assert tokens(out) == tokens(exact), plan
            assert out.receipt.cache.endswith("in float16")


@pytest.mark.parametrize(
    ("kind", "cache", "choices", "ops"),
    [("gpt2", "split", "split=emulator,append=emulator,reorder=emulator",
      ["attend_split", "append_kv", "reorder_cache"]),
     ("gpt2", "el", "el_split=emulator,append=emulator", ["attend_el_split", "append_kv"]),
     ("gpt2", "preallocated", "grouped=emulator", ["attend"]),
     ("gpt2", "indirect", "indirect=emulator,indirection=emulator", ["attend_indirect"]),
     ("gpt2", "rolling", "rolling=emulator,append=emulator", ["attend_rolling", "append_kv"]),
     ("bart", "split", "split=emulator,shared=emulator", ["attend_shared", "attend_split"]),
     ("bart", "el", "el=emulator,split=emulator", ["attend_el", "attend_split"])],
)  # fmt: skip
def test_kernels_read_and_write_low_precision_caches_in_the_model(kind, cache, choices, ops):
    model = in_float32(kind, cache)
    options = {"input_ids": IDS, "num_beams": 2, "max_new_tokens": 3, "eos_token_id": None}
    expected, out = (model.generate(plan=f"cache={cache},{NARROW}{more}", **options) for more in ("", f",{choices}"))
    assert tokens(out) == tokens(expected)
    np.testing.assert_allclose(out.scores, expected.scores, rtol=1e-5)
    assert out.receipt.cache_peak_bytes == expected.receipt.cache_peak_bytes
    for op in ops:
        assert "minidecode.cuda." in out.receipt.ops[op].implementation and out.receipt.ops[op].calls > 0


def test_a_memory_that_overflows_is_cut_off_and_finite():
    """Keys of a million: in float32 they are what they are, in float16 the largest there is; the scores are numbers."""
    tensors = float32_tensors("gpt2")
    tensors["h.0.attn.c_attn.bias"][12:24] = 1e6
    model = make("gpt2", tensors)
    for cache in ("replicated", "preallocated", "split", "indirect"):
        for more in ("", ",append=emulator" if cache != "replicated" else ""):
            out = model.generate(input_ids=IDS, plan=f"cache={cache},{NARROW}{more}", max_new_tokens=4)
            assert np.isfinite(out.scores).all()


def test_a_plan_without_a_memory_refuses_the_choice():
    with pytest.raises(md.OptionError, match="cache_dtype=float16 has no effect with cache=none"):
        make("gpt2").generate(input_ids=IDS, plan=f"cache=none,{NARROW}")
    with pytest.raises(md.OptionError, match="cache_dtype='bfloat16' is not one of computed, float16"):
        make("gpt2").generate(input_ids=IDS, plan="cache_dtype=bfloat16")
