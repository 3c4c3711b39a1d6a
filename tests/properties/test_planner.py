"""Random lifetimes: places that never collide, between what is alive at once and a buffer for each."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minidecode.conformance.rows.arena import find_broken_promise
from minidecode.reference import arena
from minidecode.reference.arena import ORDERS, assign_offsets, assign_offsets_naive
from minidecode.runtime.planner import Layout, Lifetime, fault_of_layout, find_collision, lay_out

ONE = st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 12)).map(
    lambda drawn: Lifetime("a", 64 * drawn[0], min(drawn[1:]), max(drawn[1:]))
)
LIFETIMES = st.lists(ONE, max_size=14)


def placed_by(order, bytes_X, first_X, last_X):
    """By one order alone."""
    return arena._place_in_gaps(ORDERS[order](bytes_X, first_X, last_X), bytes_X, first_X, last_X)


def in_one_order(lifetimes, order) -> Layout:
    return lay_out(lifetimes, lambda *columns: placed_by(order, *columns))


def bytes_in_use(layout: Layout, call: int) -> list[int]:
    """Every 64th byte that somebody alive at that call owns, byte by byte: the slow truth."""
    return [
        place
        for a, offset in zip(layout.lifetimes, layout.offsets, strict=True)
        if a.first <= call <= a.last
        for place in range(offset, offset + a.bytes, 64)
    ]


@given(LIFETIMES)
@example([])
@example([Lifetime("a", 0, 0, 5), Lifetime("b", 64, 0, 5)])
def test_no_two_that_live_together_share_a_byte(lifetimes):
    for layout in (lay_out(lifetimes, assign_offsets), lay_out(lifetimes, assign_offsets_naive)):
        assert find_collision(layout) is None
        for call in range(13):
            places = bytes_in_use(layout, call)
            assert len(places) == len(set(places))


@given(LIFETIMES)
def test_between_the_lower_bound_and_separate_buffers(lifetimes):
    shared, separate = lay_out(lifetimes, assign_offsets), lay_out(lifetimes, assign_offsets_naive)
    alive = [sum(a.bytes for a in lifetimes if a.first <= call <= a.last) for call in range(13)]
    assert shared.lower_bound == separate.lower_bound == max(alive)
    assert separate.bytes == separate.separate_bytes == shared.separate_bytes == sum(a.bytes for a in lifetimes)
    assert shared.lower_bound <= shared.bytes <= separate.bytes


@given(LIFETIMES.filter(len))
def test_the_best_of_the_orders_is_taken(lifetimes):
    columns = np.array([(a.bytes, a.first, a.last) for a in lifetimes]).T
    assert lay_out(lifetimes, assign_offsets).bytes == min(in_one_order(lifetimes, name).bytes for name in ORDERS)
    for name, order in ORDERS.items():
        assert sorted(order(*columns)) == list(range(len(lifetimes))), f"{name} leaves somebody out"


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12),
       st.randoms(use_true_random=False), st.booleans())  # fmt: skip
def test_every_greedy_planner_keeps_the_promises(drawn, chance, lowest):
    """Whatever its order, and whether it likes the tightest gap or the lowest: as the row's file proves."""
    bytes_X = np.array([size for size, *_ in drawn])
    first_X, last_X = (np.array([f(calls) for _, *calls in drawn]) for f in (min, max))
    order = np.array(chance.sample(range(len(drawn)), len(drawn)))
    offset_X = arena._place_in_gaps(order, bytes_X, first_X, last_X)
    if lowest:
        offset_X = np.zeros_like(bytes_X)
        for n, i in enumerate(order):
            met = [j for j in order[:n] if first_X[j] <= last_X[i] and first_X[i] <= last_X[j]]
            for j in sorted(met, key=lambda j: offset_X[j]):
                if offset_X[j] < offset_X[i] + bytes_X[i]:
                    offset_X[i] = max(offset_X[i], offset_X[j] + arena.rounded_to_alignment(bytes_X[j]))
    assert find_broken_promise(offset_X, bytes_X, first_X, last_X) is None


def test_each_order_is_the_best_somewhere():
    """An order that never won would be there for nothing. The same few lifetimes, in steps of one."""
    drawn = itertools.product([64, 128, 192], [0, 1, 2], [0, 1, 2, 3])
    spans = [(size, first, first + more) for size, first, more in drawn if first + more < 4]
    won = set()
    for seed in range(3000):
        columns = np.array(random.Random(seed).choices(spans, k=7)).T
        alone = {name: (placed_by(name, *columns) + columns[0]).max() for name in ORDERS}
        best = min(alone.values())
        winners = [name for name, size in alone.items() if size == best]
        won.update(winners if len(winners) == 1 else ())
        if won == set(ORDERS):
            return
    raise AssertionError(f"only {won} are ever the best alone")


def test_what_lives_one_after_the_other_shares():
    chain = [Lifetime(str(i), 64, i, i + 1) for i in range(10)]  # each is read by the call that makes the next
    shared = lay_out(chain, assign_offsets)
    assert shared.bytes == 128 and lay_out(chain, assign_offsets_naive).bytes == 640
    assert shared.offsets[::2] == (0,) * 5


def test_largest_first_beats_first_come():
    """Pisarchyk and Lee's point: small ones that come first must not stand in the way of a large one."""
    lifetimes = [Lifetime("short", 128, 0, 0), Lifetime("small", 64, 0, 2), Lifetime("large", 256, 1, 1)]
    assert lay_out(lifetimes, arena.assign_offsets_by_size).bytes == 320
    assert lay_out(lifetimes, arena.assign_offsets_first_come).bytes == 128 + 64 + 256  # small lies on top of short


@pytest.mark.parametrize(
    ("offsets", "says"),
    [((0, 0), "puts a and b on top of each other"), ((0, -64), "puts b at -64"), ((32, 128), "puts a at 32"),
     ((0, 128), "takes 192 bytes, where a buffer for each takes 128"), ((0, 64), None), ((64, 0), None)],
)  # fmt: skip
def test_what_no_step_could_use_is_told(offsets, says):
    layout = Layout((Lifetime("a", 64, 0, 1), Lifetime("b", 64, 1, 2)), offsets, "nobody")
    found = fault_of_layout(layout)
    assert found is None if says is None else says in found


def test_a_planner_of_ours_that_is_wrong_says_so(monkeypatch):
    monkeypatch.setattr(arena, "_tightest_gap", lambda *_: 0)
    with pytest.raises(RuntimeError, match=r"assign_offsets .* puts a and b on top of each other"):
        lay_out([Lifetime("a", 64, 0, 1), Lifetime("b", 64, 1, 2)], assign_offsets)
