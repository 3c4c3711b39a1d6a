"""Kernels that append guard their room: a captured step that is launched too often writes nowhere, and says so.

The emulator refuses to read or write outside of an array: a kernel without its guard raises here.
"""

import numpy as np
import pytest
from test_device import IDS, make

from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG, arguments_of
from minidecode.conformance.rows import row_module
from minidecode.conformance.rows.beam_update import HF
from minidecode.cuda import append, beam_update, extend, finished, flags, paged_append, reorder, sequences
from minidecode.device.arrays import fetch, put
from minidecode.emulator.device_array import recorded_tape
from minidecode.ops import ALL_DONE, FINE, NO_ROOM, TROUBLE, Heads
from minidecode.search.looks import MOST
from minidecode.search.result import raise_trouble

TOO_OFTEN = 8  # launches beyond the room: the host may look at the flags as seldom


def there(array, dtype=None):
    return put(np.asarray(array, dtype), "emulator")


@pytest.mark.parametrize(
    ("kind", "cache", "beams"),
    [
        ("gpt2", "split", 2),
        ("gpt2", "indirect", 2),
        ("gpt2", "el", 1),
        ("gpt2", "preallocated", 1),
        ("bart", "split", 1),
    ],
)  # fmt: skip
def test_a_kept_graph_that_is_launched_too_often_stays_in_its_arrays(kind, cache, beams):
    """The last position that there is room for, and then no more."""
    model = make(kind, "emulator", plan=f"cuda,cache={cache}")
    model.generate(input_ids=IDS[1:], max_new_tokens=3, eos_token_id=None, num_beams=beams)
    (bucket,) = model.buckets.idle
    cache = getattr(bucket.caches[0], "target", bucket.caches[0])
    room = next(array for name, array in vars(cache).items() if name.startswith("k_RG"))
    cache.end_R[...] = room.shape[2] - 1
    (graph,) = bucket.graphs
    graph.launch()
    full = fetch(room)
    assert np.count_nonzero(full[:, :, -1]), "it writes"
    for _ in range(TOO_OFTEN):
        graph.launch()
    assert np.array_equal(fetch(room), full) and fetch(cache.end_R)[0] > room.shape[2]


def kept_step(beams):
    """(what is kept of a generation, its step, what it has found, its cache): all texts are at their limit."""
    model = make("gpt2", "emulator", n_positions=64)
    model.generate(input_ids=IDS[1:], max_new_tokens=3, eos_token_id=None, num_beams=beams)
    (bucket,) = model.buckets.idle
    (step,) = bucket.parts.values()
    found = bucket.state if beams == 1 else bucket.state.groups[0]
    return step, found, bucket.caches[0]


def launched(step, found, cache, times):
    """The flags of so many launches, and copies of the texts and of the cache after them."""
    flags = []
    for _ in range(times):
        step.graph.launch()
        flags.append(int(fetch(step.result.flag)[0]))
    return flags, [fetch(a) for a in found.result_arrays()], [fetch(a) for a in (cache.k_RGTK, cache.v_RGTU)]


@pytest.mark.parametrize("beams", [1, 2])
def test_launches_after_all_texts_are_done_are_no_trouble_and_change_no_text(beams):
    """K - 1 of them are what a host makes that looks every K steps. Those beyond the room write into no cache, too."""
    step, found, cache = kept_step(beams)
    _, texts, _ = launched(step, found, cache, 0)
    within = cache.k_RGTK.shape[2] - int(fetch(cache.end_R)[0])
    assert within < MOST - 1, "so the last ones of K - 1 have no room"
    flags, same, full = launched(step, found, cache, within)
    more, same_again, full_again = launched(step, found, cache, TOO_OFTEN)
    assert all(flag & ALL_DONE and not flag & TROUBLE for flag in flags + more)
    for before, after, later in zip(texts, same, same_again, strict=True):
        assert np.array_equal(before, after) and np.array_equal(before, later)
    assert all(map(np.array_equal, full, full_again))


@pytest.mark.parametrize("beams", [1, 2])
def test_a_launch_beyond_the_room_of_a_text_that_goes_on_is_trouble(beams):
    """From the first one on. It writes into no text and no cache, and leaves no text longer."""
    step, found, cache = kept_step(beams)
    done, length, limit = (found.done_R, found.length_R, found.limits_R) if beams == 1 else (
        found.done_B, found.length_B, found.limit_B)  # fmt: skip
    done[...], limit[...] = False, 99
    length[...] = found.tokens_RM.shape[1] if beams == 1 else len(found.norm_X) - 1 + len(IDS[1])
    cache.end_R[...] = cache.k_RGTK.shape[2]
    _, *before = launched(step, found, cache, 0)
    flags, *after = launched(step, found, cache, 1)
    assert flags[0] & TROUBLE
    if beams == 1:
        flags, *after = launched(step, found, cache, TOO_OFTEN)
        assert all(flag & TROUBLE for flag in flags)
    for these, those in zip(before, after, strict=True):
        assert all(map(np.array_equal, these, those))


def test_texts_without_room_are_in_trouble():
    """Two texts of five positions, with no limit below them; the second begins with one token more."""
    tokens_RM, length_R, trouble_R = there(np.zeros((2, 5), np.int64)), there([2, 3]), there([FINE, FINE])
    token_R, gained_R, certain_R = there([7, 8]), there([-0.5, -0.5], np.float32), there([False, False])
    total_R, done_R, prompt_R, limit_R, eos_X = (there(a) for a in ([0.0, 0.0], [False, False], [1, 1], [99, 99], [0]))
    with recorded_tape() as tape:
        flag = extend.extend_sequences(
            tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X
        )
    seen = [int(fetch(flag)[0])]
    for _ in range(2 + TOO_OFTEN):
        tape.launch()
        seen.append(int(fetch(flag)[0]))
    assert seen == [0, 0, *[TROUBLE] * (1 + TOO_OFTEN)], "the second text is full one step before the first"
    assert fetch(tokens_RM).tolist() == [[0, 0, 7, 7, 7], [0, 0, 0, 8, 8]]
    assert fetch(length_R).tolist() == [5, 5] and fetch(total_R).tolist() == [-1.5, -1.0]
    assert fetch(trouble_R).tolist() == [NO_ROOM, NO_ROOM]
    with pytest.raises(RuntimeError, match="sentence 1 has no room for its token of step 6"):
        raise_trouble(trouble_R, np.arange(2), 5)


def test_beams_without_room_are_in_trouble():
    """Two beams with a prompt of one token, norms for three new tokens, and texts of four positions and a spare one."""
    running_BWM, finished_BWM = there(np.zeros((1, 2, 5), np.int64)), there(np.zeros((1, 2, 5), np.int64))
    score_BC, parent_BC, token_BC = there([[-1, -2, -3, -4]], np.float32), there([[1, 0, 1, 0]]), there([[5, 6, 7, 8]])
    places = there(np.zeros((1, 2)), np.float32), there(np.full((1, 2), -1e9), np.float32), there([[0, 0]])
    done_B, length_B, prompt_B, limit_B = there([False]), there([1]), there([1]), there([99])
    norm_X, eos_X = there([1, 1, 2, 3], np.float32), there([0])
    with recorded_tape() as tape:
        _, parent_BW, token_BW, _, slot_BW, at_B, trouble_B = beam_update.update_beams(
            score_BC, parent_BC, token_BC, *places, done_B, length_B, prompt_B, limit_B, norm_X, eos_X, HF
        )
        finished.store_finished(finished_BWM, running_BWM, slot_BW, parent_BC, token_BC, at_B)
        sequences.update_sequences(running_BWM, parent_BW, token_BW, at_B)
        flag = flags.step_flags(done_B, trouble_B, parent_BW)
    seen = [int(fetch(flag)[0]) & TROUBLE]
    for _ in range(3):
        tape.launch()
        seen.append(int(fetch(flag)[0]) & TROUBLE)
    assert seen == [0, 0, 0, TROUBLE] and fetch(trouble_B).tolist() == [NO_ROOM]
    assert np.count_nonzero(fetch(running_BWM)[:, :, :4]) == 6, "three tokens of each; the last position is spare"
    for _ in range(TOO_OFTEN):
        tape.launch()
    assert fetch(length_B).tolist() == [4] and fetch(done_B).all()


@pytest.mark.parametrize("version", [sequences.update_sequences_v1, sequences.update_sequences])
def test_texts_as_long_as_their_room_get_no_token(version):
    """Nor one that is longer: 33 and 40 are in the second block of positions, and the array has 33."""
    for length in (33, 40):
        text_BWM = there(np.arange(66).reshape(1, 2, 33))
        version(text_BWM, there([[1, 0]]), there([[7, 8]]), there([length]))
        assert fetch(text_BWM).ravel().tolist() == [*range(33, 66), *range(33)]
        table_BWM = there(np.zeros((1, 2, 33), np.int64))
        finished.store_finished(table_BWM, text_BWM, there([[2, 0]]), there([[0, 1]]), there([[7, 8]]), there([length]))
        assert fetch(table_BWM)[0, 0].tolist() == [*range(33, 66)]


@pytest.mark.parametrize("version", [reorder.reorder_cache_v1, reorder.reorder_cache_v2, reorder.reorder_cache])
def test_what_follows_the_beams_ends_with_the_cache(version):
    cache = there(np.arange(2 * 5 * 4).reshape(2, 1, 5, 4), np.float32)
    version(cache, there([1, 0]), there([7, 7]))
    assert fetch(cache).ravel().tolist() == [*range(20, 40), *range(20)]


@pytest.mark.parametrize("version", [paged_append.append_paged_v1, paged_append.append_paged])
def test_a_position_beyond_the_last_page_is_written_nowhere(version):
    """Two pages of two positions a row: row 0 has room, row 1 is at its table's end, row 2 long beyond it."""
    heads, pages = Heads(1, 1, 2, 2, 1.0), [there(np.zeros((6, 1, 2, 2), np.float32)) for _ in range(2)]
    table_RX, at_R = there([[4, 1], [0, 2], [3, 5]]), there([3, 4, 4 + TOO_OFTEN])
    q_RHK = version(there(np.arange(1, 19).reshape(3, 6), np.float32), None, heads, *pages, table_RX, at_R)
    assert fetch(q_RHK).ravel().tolist() == [1, 2, 7, 8, 13, 14]
    for page, row in zip(pages, ([3, 4], [5, 6]), strict=True):
        assert fetch(page)[1, 0, 1].tolist() == row and np.count_nonzero(fetch(page)) == 2


@pytest.mark.parametrize("version", [append.append_kv_v1, append.append_kv_v2, append.append_kv])
def test_a_position_beyond_the_room_is_written_nowhere(version):
    """Row 0 has room; the others are at the end, and beyond it. Queries come back for all of them."""
    heads, caches = Heads(1, 1, 4, 4, 1.0), [there(np.zeros((3, 1, 4, 4), np.float32)) for _ in range(2)]
    qkv_RX = np.arange(1, 37).reshape(3, 12)
    q_RHK = version(there(qkv_RX, np.float32), None, heads, *caches, there([3, 4, 9]))
    assert np.array_equal(fetch(q_RHK)[:, 0], qkv_RX[:, :4])
    for cache, row in zip(caches, (qkv_RX[0, 4:8], qkv_RX[0, 8:]), strict=True):
        assert np.array_equal(fetch(cache)[0, 0, 3], row) and np.count_nonzero(fetch(cache)) == 4


ATTENTION = [
    pytest.param(name, label, id=f"{name}-{label}")
    for name in ("grouped", "split", "indirect", "el_split")
    for label in implementations(CATALOG[name])
    if label.startswith("cuda")
]


@pytest.mark.parametrize(("name", "label"), ATTENTION)
def test_a_row_sees_no_position_beyond_the_room(name, label):
    row, function = CATALOG[name], implementations(CATALOG[name])[label]
    for arguments in sorted(row_module(name).planted_cases(), key=lambda case: case[0].size)[:2]:
        given = arguments_of(row, arguments)
        positions = next(a for n, a in given.items() if n.startswith("k_RG")).shape[2]
        answers = []
        for beyond in (0, 5):
            ends = given | {"end_R": np.full_like(given["end_R"], positions + beyond), "bias": None}
            ends = {n: a for n, a in ends.items() if n in given and a is not None}
            answers.append(function(*ends.values()))
        assert np.array_equal(*answers, equal_nan=True)
