"""Every memory gives the same texts, holds the bytes that its formula says, and forgets nothing between two beams."""

import threading
import time

import numpy as np
import pytest
from test_attention_settings import IDS, make

from minidecode.plan import MEMORIES

CACHES = [name for name, memory in MEMORIES.items() if memory.keeps]
SEARCHES = [
    {"num_beams": 4, "num_return_sequences": 3},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.7},
    {"num_beams": 3, "do_sample": True, "seed": 5},
    {"num_return_sequences": 3, "do_sample": True, "top_k": 7, "seed": 6},
]


def tokens(out):
    return [ids.tolist() for ids in out.token_ids]


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("memory", CACHES)
@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_the_same_texts_as_without_a_memory(kind, memory, options):
    """Sentences of different lengths, of which some end early (EOS is 1), under every way to follow the beams."""
    model = make(kind)
    ids = [*IDS, [17], [8, 9, 10, 11, 12, 13, 14, 15]]
    settings = {"input_ids": ids, "max_new_tokens": 11, "length_penalty": 0.4} | options
    expected, out = (model.generate(plan=f"memory={m}", **settings) for m in ("none", memory))
    assert tokens(out) == tokens(expected)
    np.testing.assert_allclose(out.scores, expected.scores, rtol=1e-9)


@pytest.mark.parametrize("memory", CACHES)
def test_bytes_held_are_those_of_the_formula(memory):
    """Keys and values of B sentences, W beams, N and T positions, in float64 (FastSeq, section 4.1)."""
    layers, D, W, T = 2, 12, 4, 6
    lengths, source_lengths = [6, 2], [6, 2]
    B, N = len(lengths), max(lengths)
    gpt2 = make("gpt2").generate(
        input_ids=IDS, plan=f"memory={memory}", num_beams=W, max_new_tokens=T, eos_token_id=None
    )
    position = 2 * layers * D * 8
    positions = {
        "replicated": B * W * (N + T - 1),  # the last token is never read
        "preallocated": B * W * (N + T),
        "split": B * N + B * W * T,
    }
    assert gpt2.receipt.memory_peak_bytes == position * positions[memory]

    bart = make("bart").generate(
        input_ids=IDS, plan=f"memory={memory}", num_beams=W, max_new_tokens=T, eos_token_id=None
    )
    own = {"replicated": B * W * T, "preallocated": B * W * (1 + T), "split": B + B * W * T}
    source = B * max(source_lengths) * (1 if memory == "split" else W)
    assert bart.receipt.memory_peak_bytes == position * (own[memory] + source)


@pytest.mark.parametrize("memory", CACHES)
def test_generations_of_different_widths_do_not_disturb_each_other(memory):
    """In turn, and in two threads at once: nothing is kept on the model. The published code of FastSeq fails this."""
    model = make("gpt2")

    def run(W):
        return tokens(model.generate(input_ids=IDS, plan=f"memory={memory}", num_beams=W, max_new_tokens=10))

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
    for kind, memory, op in [("gpt2", "split", "attend_split"), ("bart", "split", "attend_shared"),
                             ("bart", "preallocated", "attend"), ("gpt2", "preallocated", "follow")]:  # fmt: skip
        receipt = make(kind).generate(input_ids=IDS, plan=f"memory={memory}", num_beams=3, max_new_tokens=9).receipt
        assert f"minidecode.memory.{memory}." in receipt.memory and receipt.ops[op].calls > 0
    assert "cross.SharedCrossMemory" in make("bart").generate(
        input_ids=IDS, plan="memory=split", max_new_tokens=2
    ).receipt.memory  # fmt: skip


def test_seconds_by_stage_add_up_to_the_whole():
    started = time.perf_counter()
    receipts = [make(kind).generate(input_ids=IDS, plan=f"memory={m}", num_beams=2, max_new_tokens=6).receipt
                for kind in ("gpt2", "bart") for m in ("none", "split")]  # fmt: skip
    whole = time.perf_counter() - started
    for receipt, kind in zip(receipts, ("gpt2", "gpt2", "bart", "bart"), strict=True):
        encoder = ["encoder"] if kind == "bart" else []
        assert list(receipt.seconds) == ["prompts", *encoder, "prefill", "steps", "search"]
        assert all(s > 0 for s in receipt.seconds.values())
    assert sum(s for r in receipts for s in r.seconds.values()) < whole
