"""A cache is one file and one line of `CACHES`: by these two alone, plans have it, and its bytes and help are known."""

import numpy as np
import pytest
from test_attention_settings import IDS, make

from minidecode import Scheduler, plan
from minidecode.cache.padding import copy_with_free_positions, replicate_prompts
from minidecode.cache.prompt import PromptCache
from minidecode.commands.help_topics import cache_help
from minidecode.errors import OptionError

BEAMS = {"input_ids": IDS, "max_new_tokens": 9, "num_beams": 3, "eos_token_id": 3}


class SideBySideCache(PromptCache):
    """One layer's keys and values, those of a position side by side, so that beams are followed in one array."""

    about = "keys and values for each beam, side by side in one array"
    ops = frozenset({"append_kv", "attend", "reorder_cache"})

    @staticmethod
    def bytes_between_steps(size):
        """Each row's text."""
        return size.stored * size.R * (size.N + size.T)

    def begin_steps(self, ops, k_RGK, v_RGU, beams, steps):
        """Prompts padded on the left, repeated for each beam, with space for `steps` positions."""
        self.K = k_RGK.shape[2]
        kv_RGX = np.concatenate([k_RGK, v_RGU], axis=2)
        kv_RGNX, _, self.begin_R = replicate_prompts(ops, kv_RGX, kv_RGX[:, :, :1], self.offsets_X, beams, self.N)
        self.kv_RGMX = copy_with_free_positions(kv_RGNX, steps)
        self.end_R = np.full_like(self.begin_R, self.N)

    def append_step(self, ops, qkv_RX):
        """Keys and values of the new position, into their positions; returns the queries."""
        q_RHK = ops.append_kv(qkv_RX, self.bias_X, self.heads, *self.both(), self.end_R)
        self.end_R += 1
        return q_RHK

    def attend_step(self, ops, q_RHK):
        """Attention of each row to what its beam holds, itself included."""
        return ops.attend(q_RHK, *self.both(), self.begin_R, self.end_R, self.heads.scale, **self.heads.biases)

    def both(self):
        """Views of the keys and of the values."""
        return np.split(self.kv_RGMX, [self.K], axis=3)

    def reorder(self, ops, parent_R):
        """Row r goes on from what row parent[r] held."""
        ops.reorder_cache(self.kv_RGMX, parent_R, self.end_R)

    def keep_only(self, ops, stays_B, stays_R):
        """Keeps only these rows."""
        self.kv_RGMX = ops.gather_rows(self.kv_RGMX, stays_R)
        self.begin_R, self.end_R = self.begin_R[stays_R], self.end_R[stays_R]

    def step_arrays(self):
        return (self.kv_RGMX,)


@pytest.fixture
def line(monkeypatch):
    """The line of `CACHES`."""
    monkeypatch.setitem(plan.CACHES, "side_by_side", SideBySideCache)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("more", ["", ",drop_finished=off", ",cache_dtype=float16"])
def test_a_cache_of_one_file_generates(line, kind, more):
    expected, out = (make(kind).generate(plan=f"cache={c}{more}", **BEAMS) for c in ("preallocated", "side_by_side"))
    assert [ids.tolist() for ids in out.token_ids] == [ids.tolist() for ids in expected.token_ids]
    np.testing.assert_allclose(out.scores, expected.scores, rtol=1e-9)
    assert "SideBySideCache" in out.receipt.cache


def test_its_bytes_and_its_help_are_known(line):
    how = BEAMS | {"eos_token_id": None, "plan": "cache=side_by_side"}
    assert make("gpt2").footprint(**how).cache == make("gpt2").generate(**how).receipt.cache_peak_bytes
    assert "side_by_side" in cache_help() and SideBySideCache.about in cache_help()


def test_without_its_line_it_is_not_there():
    with pytest.raises(OptionError, match="cache='side_by_side' is not one of none, "):
        make("gpt2").generate(plan="cache=side_by_side", **BEAMS)


def test_plans_choose_the_code_of_the_ops_that_it_declares(line, monkeypatch):
    ops = make("gpt2").generate(plan="cache=side_by_side,grouped=naive,append=cpu", **BEAMS).receipt.ops
    assert "attend_naive" in ops["attend"].implementation and "cpu.append" in ops["append_kv"].implementation
    monkeypatch.setattr(SideBySideCache, "ops", frozenset({"append_kv", "reorder_cache"}))
    with pytest.raises(OptionError, match="grouped=naive has no effect with cache=side_by_side"):
        make("gpt2").generate(plan="cache=side_by_side,grouped=naive", **BEAMS)


def test_a_running_batch_refuses_what_is_derived_from_its_own_cache(monkeypatch):
    class Derived(plan.CACHES["preallocated"]):
        """It may keep something else, and the running batch would not."""

    monkeypatch.setitem(plan.CACHES, "derived", Derived)
    with pytest.raises(OptionError, match="cache=derived has no effect in a running batch"):
        Scheduler(make("gpt2"), plan="cache=derived")
