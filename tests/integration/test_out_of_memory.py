"""A device's memory that ends in the middle of a call: kept steps go first, the error is clear, the model stays usable.

The emulated device gets a number of bytes, beyond which it raises what CuPy raises; on a GPU, CuPy's pool gets one.
"""

import contextlib
import gc
import re

import numpy as np
import pytest
from taped_ops import references_on_tape
from test_device import IDS, make

import minidecode as md
from minidecode.device.arrays import put
from minidecode.device.out_of_memory import is_out_of_memory
from minidecode.emulator.device_array import OutOfMemoryError, limited_memory
from minidecode.errors import DeviceError, MemoryBudgetError

__all__ = ["references_on_tape"]  # a fixture
HOW = {"max_new_tokens": 3, "eos_token_id": None, "memory_budget": None}
OTHERS = [[7, 3, 4, 1, 2, 9, 9, 3, 4]]  # of another bucket
SAYS = (
    r"^the memory of device=emulator is too small for 2 x \(prompts of 5 and 3 new tokens\): it needs more than the "
    r"[\d.]+ (bytes|kB) that are free, and an array of [\d.]+ (bytes|kB) did not fit: ask for fewer or shorter texts "
    r"or fewer beams \(--batch-size, --num-beams\), set a memory budget \(--memory-budget, memory_budget=\), or load "
    r"the model with dtype=float16$"
)


@pytest.fixture
def memory(references_on_tape):
    with limited_memory() as memory:
        yield memory


def tokens(out):
    return [ids.tolist() for ids in out.token_ids]


def held_without_kept(model, memory):
    model.buckets.clear()
    gc.collect()
    return memory.held


def test_the_emulated_device_counts_arrays_until_the_last_view_is_gone():
    with limited_memory(100) as memory:
        array = put(np.zeros(10), "emulator")
        view = array.reshape(2, 5)[0]
        assert memory.held == 80 and memory.free == 20
        with pytest.raises(
            OutOfMemoryError, match=r"^Out of memory allocating 40 bytes \(allocated so far: 80 bytes, "
        ):
            np.empty(5, np.float64, like=array)
        del array
        assert memory.held == 80
        del view
        assert memory.held == 0 and memory.peak == 80
        assert put(np.zeros(12), "emulator").nbytes == memory.peak == 96


def test_kept_steps_go_and_the_call_is_tried_once_more(memory):
    there = make("gpt2", "emulator")
    expected = tokens(there.generate(input_ids=OTHERS, **HOW))
    held_without_kept(there, memory)
    memory.most = memory.peak
    there.generate(input_ids=IDS[1:], **HOW)
    assert [len(kept.state) for kept in there.buckets.idle] == [len(IDS[1:])]
    assert tokens(there.generate(input_ids=OTHERS, **HOW)) == expected
    (kept,) = there.buckets.idle
    assert kept.state.begins_R.get().tolist() == [len(OTHERS[0])], "both are too much"


def test_what_does_not_fit_is_one_clear_line_and_the_model_goes_on(memory):
    """Wherever the memory ends: in the prefill, while a step is captured, or in one that is launched."""
    there = make("gpt2", "emulator")
    weights = memory.held
    expected = tokens(there.generate(input_ids=IDS, **HOW))
    assert held_without_kept(there, memory) == weights
    refused = 0
    for most in np.linspace(weights + 300, memory.peak, 5).astype(int).tolist():
        memory.most = most
        try:
            assert tokens(there.generate(input_ids=IDS, **HOW)) == expected
        except MemoryBudgetError as error:
            assert re.match(SAYS, str(error)) and error.__context__ is error.__cause__ is None
            refused += 1
        memory.most = None
        assert held_without_kept(there, memory) == weights, "a failed call keeps nothing"
    assert refused == 4, "what a call has taken suffices"


def test_what_has_been_told_is_not_told_twice(memory):
    there, told = make("gpt2", "emulator"), []
    there.generate(input_ids=IDS, **HOW)
    memory.most = memory.held + 500
    how = HOW | {"input_ids": OTHERS, "streamer": lambda row, token: told.append(token)}
    with pytest.raises(MemoryBudgetError, match=r"did not fit\. Kept steps are given up now: call again, or ask for"):
        there.generate(**how)
    assert not there.buckets.idle
    memory.most = None
    told.clear()
    assert tokens(there.generate(**how)) == [told]


def test_lines_that_are_done_stay_done_and_a_batch_is_halved(memory, tiny_folder):
    """One line at a time fits and two do not; the long line never does, and is told as the error of its own."""
    there = md.load(tiny_folder(n_layer=1, n_embd=8, n_head=2), device="emulator")
    texts, how = ["a b", "a c", "a b c d e f"], {"max_new_tokens": 1, "memory_budget": None, "overlap": "none"}
    most, expected = [], []
    for text in texts[1:]:
        memory.peak = held_without_kept(there, memory)
        expected.append(there.generate(text, max_new_tokens=1).texts)
        most.append(memory.peak)
    held_without_kept(there, memory)
    assert most[0] + 100 < most[1]
    memory.most = most[0]
    with contextlib.closing(md.generate_lines(there, texts, batch_size=3, on_error="record", **how)) as run:
        lines = list(run)
        assert run.receipt.splits >= 2 and run.receipt.failed == 1
    assert lines[0].texts and lines[1].texts == expected[0]
    assert "line 3: the memory of device=emulator is too small for 1 x (prompts of" in str(lines[2].error)


@pytest.mark.parametrize("call", ["score", "logits"])
def test_other_calls_say_the_same(memory, call):
    there = make("gpt2", "emulator")
    run = lambda: getattr(there, call)(input_ids=IDS) if call == "score" else there.logits(IDS)  # noqa: E731
    run()
    memory.most = memory.held + 64
    with pytest.raises(
        MemoryBudgetError, match=f"too small for `{call}` of these texts: .* that are free, .* did not fit: ask for"
    ):
        run()
    memory.most = None
    run()


def test_what_counts_as_the_end_of_a_devices_memory():
    assert is_out_of_memory(OutOfMemoryError(3, 2, 1))
    assert is_out_of_memory(DeviceError("kernel f was not launched: CUDA_ERROR_OUT_OF_MEMORY"))
    assert is_out_of_memory(RuntimeError("cudaErrorMemoryAllocation: out of memory"))
    assert not is_out_of_memory(MemoryError("Unable to allocate 9 GiB")), "the host's"
    assert not is_out_of_memory(MemoryBudgetError("too much"))


@pytest.mark.gpu
def test_the_memory_of_a_gpu_that_ends_leaves_the_model_usable():
    import cupy

    there, pool = make("gpt2", "cuda"), cupy.get_default_memory_pool()
    expected = tokens(there.generate(input_ids=IDS, **HOW))
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + (1 << 20))
    try:
        with pytest.raises(MemoryBudgetError, match="the memory of device=cuda is too small for") as refused:
            for sentences in (1 << n for n in range(6, 17)):
                there.generate(input_ids=IDS * sentences, **HOW)
        assert "\n" not in str(refused.value) and "that are free" in str(refused.value)
        assert tokens(there.generate(input_ids=IDS, **HOW)) == expected, "what fits, fits at the same limit"
    finally:
        pool.set_limit(size=0)
    assert tokens(there.generate(input_ids=IDS, **HOW)) == expected


def test_on_the_command_line_it_is_one_line_and_says_what_is_done(memory, tiny_folder, tmp_path, cli):
    """Three lines, one by one: the second does not fit."""
    folder, lines, out = tiny_folder(n_layer=1), tmp_path / "lines.txt", tmp_path / "out.jsonl"
    how = ["-m", folder, "--device", "emulator", "--max-new-tokens", 1, "--memory-budget", "none", "--quiet"]
    memory.peak = 0
    assert cli("generate", "a b", *how).code == 0
    gc.collect()
    memory.most = memory.peak + 100
    ran = cli("generate", "a b c d e f g", *how)
    assert (ran.code, ran.out) == (1, "") and ran.err.count("\n") == 1
    assert ran.err.startswith("minidecode: the memory of device=emulator is too small for 1 x (prompts of 13 and 1 new")
    lines.write_text("a b\na b c d e f g\na b\n", encoding="utf-8")
    ran = cli("generate", "-i", lines, "-o", out, "--batch-size", 1, "--sort-window", 1, *how)
    assert ran.code == 1 and ran.err.count("\n") == 1
    assert "line 2: the memory of device=emulator is too small" in ran.err
    assert f"; the first line is done, in {out}.part: --resume continues it" in ran.err
    memory.most = None
    assert cli("generate", "-i", lines, "-o", out, "--batch-size", 1, "--sort-window", 1, "--resume", *how).code == 0
    assert len(out.read_text(encoding="utf-8").splitlines()) == 3
