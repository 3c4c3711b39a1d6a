"""Random lifetimes: places that never collide, between what is alive at once and a buffer for each."""

import itertools
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minidecode.runtime import planner
from minidecode.runtime.planner import ORDERS, Layout, Lifetime, collision, separate_layout, shared_layout

ONE = st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 12)).map(
    lambda drawn: Lifetime("a", 64 * drawn[0], min(drawn[1:]), max(drawn[1:]))
)
LIFETIMES = st.lists(ONE, max_size=14)


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
    for layout in (shared_layout(lifetimes), separate_layout(lifetimes)):
        assert collision(layout) is None
        for call in range(13):
            places = bytes_in_use(layout, call)
            assert len(places) == len(set(places))


@given(LIFETIMES)
def test_between_the_lower_bound_and_separate_buffers(lifetimes):
    shared, separate = shared_layout(lifetimes), separate_layout(lifetimes)
    alive = [sum(a.bytes for a in lifetimes if a.first <= call <= a.last) for call in range(13)]
    assert shared.lower_bound == separate.lower_bound == max(alive)
    assert separate.bytes == separate.separate_bytes == shared.separate_bytes == sum(a.bytes for a in lifetimes)
    assert shared.lower_bound <= shared.bytes <= separate.bytes


@given(LIFETIMES)
def test_the_best_of_the_orders_is_taken(lifetimes):
    alone = {name: shared_layout(lifetimes, [name]) for name in ORDERS}
    best = shared_layout(lifetimes)
    assert best.bytes == min(layout.bytes for layout in alone.values())
    assert best == alone[best.order]
    for name, order in ORDERS.items():
        assert sorted(order(lifetimes)) == list(range(len(lifetimes))), f"{name} leaves somebody out"


def test_each_order_is_the_best_somewhere():
    """An order that never won would be there for nothing. The same few lifetimes, in steps of one."""
    drawn = itertools.product([64, 128, 192], [0, 1, 2], [0, 1, 2, 3])
    spans = [Lifetime("a", size, first, first + more) for size, first, more in drawn if first + more < 4]
    won = set()
    for seed in range(3000):
        lifetimes = random.Random(seed).choices(spans, k=7)
        alone = {name: shared_layout(lifetimes, [name]).bytes for name in ORDERS}
        best = min(alone.values())
        winners = [name for name, size in alone.items() if size == best]
        won.update(winners if len(winners) == 1 else ())
    assert won == set(ORDERS)


def test_what_lives_one_after_the_other_shares():
    chain = [Lifetime(str(i), 64, i, i + 1) for i in range(10)]  # each is read by the call that makes the next
    assert shared_layout(chain).bytes == 128 and separate_layout(chain).bytes == 640
    assert shared_layout(chain).offsets[::2] == (0,) * 5


def test_largest_first_beats_first_come():
    """Pisarchyk and Lee's point: small ones that come first must not stand in the way of a large one."""
    lifetimes = [Lifetime("small", 64, 0, 2), Lifetime("short", 128, 0, 0), Lifetime("large", 256, 1, 1)]
    assert shared_layout(lifetimes).bytes == 320
    first_come = planner._place(lifetimes, [1, 0, 2])  # the small one on top of the short one: no gap below holds 256
    assert max(o + a.bytes for o, a in zip(first_come, lifetimes, strict=True)) > 320


def test_a_planner_that_is_wrong_says_so(monkeypatch):
    monkeypatch.setattr(planner, "_tightest_gap", lambda size, taken: 0)
    with pytest.raises(RuntimeError, match="lie on top of each other"):
        shared_layout([Lifetime("a", 64, 0, 1), Lifetime("b", 64, 1, 2)])
