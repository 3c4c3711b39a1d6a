"""What must make no difference to attention makes none: for every row of the catalog and every implementation.

The places of positions, if their masks go with them; more padding and more room; a beam beside its equal. What each
op calls its positions stands in `parts` and `roomier`; what is asked is the same for all.
"""

import dataclasses
import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minidecode import ops
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import row_module
from minidecode.device.launch import InEmulator

PROMPTS = {"shared": 3, "split": 3, "indirect": 3, "el": 2, "el_split": 2}  # where begin_B stands
OWN = {"grouped": (1, 3), "split": (4, 6), "rolling": (1, 3), "el_split": (7, 9)}  # where keys and begin_R stand
BIASED_ROWS = ("grouped", "split", "indirect", "rolling")  # ops that take a position bias
SMALL = 400  # numbers in all arguments: kernels run in the emulator


EVERY = [
    pytest.param(name, InEmulator(f) if label.startswith("cuda") else f, id=f"{name}-{label.replace(' ', '-')}")
    for name in sorted({*PROMPTS, *OWN})
    for label, f in implementations(CATALOG[name]).items()
]


def test_no_row_of_attention_over_a_memory_is_left_out():
    over_a_memory = {row.name for row in CATALOG.values() if row.op.startswith("attend") and row.op != "attend_prefill"}
    assert over_a_memory == {*PROMPTS, *OWN, "paged"}


@pytest.mark.parametrize(("name", "attend_it"), [
    pytest.param("paged", InEmulator(f) if label.startswith("cuda") else f, id=label)
    for label, f in implementations(CATALOG["paged"]).items()
])  # fmt: skip
@settings(max_examples=5)
@given(data=st.data(), seed=st.integers(0, 99))
def test_pages_may_lie_anywhere_if_the_tables_go_with_them(name, attend_it, data, seed):
    arguments = copied(data.draw(st.sampled_from(list(row_module(name).planted_cases()[:8]))))
    moved = copied(arguments)
    order = np.random.default_rng(seed).permutation(len(arguments[1]))
    moved[1], moved[2] = arguments[1][order], arguments[2][order]
    moved[3] = np.argsort(order)[arguments[3]]
    assert within(name, attend_it(*moved), attend_it(*arguments), arguments, moved)


def cases(name, biased=False):
    """The planted inputs that are small enough, none of them the same array twice; biased: those with a position bias.

    A bias tells positions apart, so what is asked of the others does not hold for it.
    """
    planted = [a for a in row_module(name).planted_cases() if isinstance(a[-1], ops.PositionBias) == biased]
    small = [a for a in planted if biased or sum(np.size(x) for x in a) < SMALL]
    if biased:
        return st.sampled_from(small[1:3]).map(list)  # those of few positions
    assert len(small) >= 4
    return st.sampled_from(small).map(lambda a: [x.copy() if isinstance(x, np.ndarray) else x for x in a])


def prompt_arrays(name):
    """Which arguments hold the positions of prompts: keys and values, or hidden states."""
    return range(1, PROMPTS[name]) if name in PROMPTS else ()


def parts(name, arguments):
    """(the arguments that hold positions, the slots that are seen in each of their blocks), part by part."""
    found = []
    if name in PROMPTS:
        held = list(prompt_arrays(name))
        N = arguments[held[0]].shape[-2]
        found.append((held, [list(range(begin, N)) for begin in arguments[PROMPTS[name]]]))
    if name in OWN:
        keys, begin = OWN[name]
        M = arguments[keys].shape[-2]
        spans = zip(arguments[begin], arguments[begin + 1], strict=True)
        found.append(([keys, keys + 1], [sorted(p % M for p in range(max(b, e - M), e)) for b, e in spans]))
    return found


def within(name, result, expected, *inputs):
    """Both answers may be off by their bound."""
    bound = sum(row_module(name).error_bound(*arguments) for arguments in inputs)
    return (np.abs(result - expected) <= bound).all()


def copied(arguments):
    return [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]


@pytest.mark.parametrize(("name", "attend_it"), EVERY)
@settings(max_examples=5)
@given(data=st.data(), seed=st.integers(0, 99))
def test_positions_may_lie_in_any_order(name, attend_it, data, seed):
    """The softmax is over a set. Keys and values change places together, those that are masked stay where they are."""
    arguments = data.draw(cases(name))
    moved, rng = copied(arguments), np.random.default_rng(seed)
    for held, slots_of_blocks in parts(name, arguments):
        for block, slots in enumerate(slots_of_blocks):
            order = rng.permutation(np.array(slots, np.int64))
            for i in held:
                moved[i][block][..., slots, :] = arguments[i][block][..., order, :]
    assert within(name, attend_it(*moved), attend_it(*arguments), arguments, moved)


@pytest.mark.parametrize("attend_it", [p.values[1] for p in EVERY if p.values[0] == "indirect"])
@settings(max_examples=5)
@given(data=st.data(), seed=st.integers(0, 99))
def test_steps_may_lie_in_any_order_if_the_table_goes_with_them(attend_it, data, seed):
    """`indirect` reaches what was generated through a table, whose columns are the steps of all beams."""
    arguments = data.draw(cases("indirect"))
    *_, k, v, source, begin, end, _ = moved = copied(arguments)
    steps = np.arange(begin.max(), end.min())
    order = np.random.default_rng(seed).permutation(steps)
    k[:, :, steps], v[:, :, steps], source[:, steps] = k[:, :, order], v[:, :, order], source[:, order]
    assert within("indirect", attend_it(*moved), attend_it(*arguments), arguments, moved)


def roomier(name, arguments, more, junk):
    """More padding in front of the prompts, and what is generated has more room behind it; not so slots."""
    roomy = copied(arguments)

    def widen(i, before, after):
        a = roomy[i]
        width = [(0, 0)] * (a.ndim - 2) + [(before, after), (0, 0)]
        roomy[i] = np.pad(a, width, constant_values=junk)

    for i in prompt_arrays(name):
        widen(i, more, 0)
    if name in PROMPTS:
        roomy[PROMPTS[name]] = roomy[PROMPTS[name]] + more
    for i in {"grouped": (1, 2), "split": (4, 5), "indirect": (4, 5), "el_split": (7, 8)}.get(name, ()):
        widen(i, 0, more)
    if name == "indirect":
        rows = np.arange(len(roomy[0]))[:, None]
        roomy[6] = np.hstack([roomy[6], np.repeat(rows, more, axis=1)])
    return roomy


@pytest.mark.parametrize(("name", "attend_it"), [p for p in EVERY if p.values[0] != "rolling"])
@settings(max_examples=5)
@given(data=st.data(), more=st.integers(1, 40), junk=st.sampled_from([0.0, 1e4, -1e4]))
def test_more_padding_and_more_room_change_nothing(name, attend_it, data, more, junk):
    arguments = data.draw(cases(name))
    roomy = roomier(name, arguments, more, junk)
    assert within(name, attend_it(*roomy), attend_it(*arguments), arguments, roomy)


BIASED = [p for p in EVERY if p.values[0] in BIASED_ROWS and "bias" in inspect.signature(p.values[1]).parameters]


@pytest.mark.parametrize(("name", "attend_it"), [p for p in BIASED if p.values[0] != "rolling"])
@settings(max_examples=3)
@given(data=st.data(), more=st.integers(1, 40), junk=st.sampled_from([0.0, 1e4, -1e4]))
def test_a_position_bias_takes_no_notice_of_padding(name, attend_it, data, more, junk):
    """It goes by distance, so where padding ends does not matter."""
    arguments = data.draw(cases(name, biased=True))
    roomy = roomier(name, arguments, more, junk)
    assert within(name, attend_it(*roomy), attend_it(*arguments), arguments, roomy)


@pytest.mark.parametrize(("name", "attend_it"), BIASED)
@settings(max_examples=3)
@given(data=st.data())
def test_a_bias_of_each_row_may_be_the_same_for_all(name, attend_it, data):
    """One bias for all rows, and as many copies of it as there are rows."""
    *arguments, bias = data.draw(cases(name, biased=True).filter(lambda a: len(a[-1].bias_XHP) == 1))
    copies = dataclasses.replace(bias, bias_XHP=np.repeat(bias.bias_XHP, len(arguments[0]), axis=0))
    result, right = attend_it(*arguments, copies), attend_it(*arguments, bias)
    assert within(name, result, right, (*arguments, bias))


def twice(name, arguments):
    """Every row a second time, right after itself: twice the beams, of the same sentences."""
    doubled = copied(arguments)
    for i, parameter in enumerate(inspect.signature(getattr(ops, CATALOG[name].op)).parameters):
        if "_R" in parameter:
            doubled[i] = np.repeat(doubled[i], 2, axis=0)
    if name == "indirect":
        doubled[6] = 2 * doubled[6]  # the row that is meant has moved; its copy holds the same
    return doubled


@pytest.mark.parametrize(("name", "attend_it"), EVERY)
@settings(max_examples=5)
@given(data=st.data())
def test_a_beam_and_its_equal_get_the_same_answer(name, attend_it, data):
    arguments = data.draw(cases(name))
    doubled = twice(name, arguments)
    result, once = attend_it(*doubled), attend_it(*arguments)
    for copy in (result[::2], result[1::2]):
        assert within(name, copy, once, arguments, arguments)


def by_place(attend_it):
    """Looks at where a position lies: its values are larger the later they come."""

    def wrong(*arguments):
        changed = copied(arguments)
        changed[2] = changed[2] * np.linspace(1, 1.001, changed[2].shape[-2], dtype=np.float32)[:, None]
        return attend_it(*changed)

    return wrong


def without_mask(attend_it):
    def wrong(*arguments):
        changed = copied(arguments)
        changed[3] = np.zeros_like(changed[3])
        return attend_it(*changed)

    return wrong


def by_row(attend_it):
    """The second beam sees the first one's answer times 1.001."""

    def wrong(*arguments):
        return attend_it(*arguments) * np.where(np.arange(len(arguments[0])) % 2, 1.001, 1)[:, None].astype(np.float32)

    return wrong


@pytest.mark.parametrize(
    ("test", "mistake", "names"),
    [
        (test_positions_may_lie_in_any_order, by_place, ("grouped", "shared", "split")),
        (test_more_padding_and_more_room_change_nothing, without_mask, ("shared", "split")),
        (test_a_beam_and_its_equal_get_the_same_answer, by_row, ("grouped", "shared", "split")),
    ],
)
def test_each_relation_finds_its_mistake(test, mistake, names):
    for name in names:
        (reference,) = [p.values[1] for p in EVERY if p.id == f"{name}-reference"]
        with pytest.raises(AssertionError):
            test(name=name, attend_it=mistake(reference))
