"""Every two choices of a plan meet in some generation, and it says the same: interactions are where bugs hide.

Plans are drawn until each pair of choices that can stand side by side has stood in one of them. Models are toys with
weights that make clear choices (see `random_tensors`), so no two plans may differ in a token: no tie is excused here.
"""

import itertools
import random

import numpy as np
import pytest
from test_attention_settings import make

from minidecode.catalog import CATALOG, Row
from minidecode.cpu import linear
from minidecode.cpu.common.tile import DOT
from minidecode.device.low_precision import DYNAMIC
from minidecode.errors import OptionError
from minidecode.model import Model
from minidecode.models import FAMILIES
from minidecode.plan import CACHES, SWITCHES, Plan, has_file_of_row, is_called

PROMPTS = [[5, 9, 2, 7, 7], [3], [8, 8, 3, 11, 4, 6, 2]]
SEARCHES = [  # between them they call every op of a search
    {"num_beams": 1, "no_repeat_ngram_size": 2},
    {"num_beams": 3, "num_return_sequences": 2},
    {"num_beams": 4, "no_repeat_ngram_size": 2, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "hf4"},
    {"num_beams": 1, "do_sample": True, "top_k": 9, "top_p": 0.8, "seed": 3, "num_return_sequences": 2},
    {"num_beams": 3, "dialect": "fairseq", "length_penalty": 0.7},
    {"num_beams": 2, "do_sample": True, "seed": 5},
]


def choices_of(name: str, model: Model, is_windowed: bool) -> list[str]:
    """What a field of the plan may say, and where no GPU and no emulator is needed."""
    if name == "cache":  # EL multiplies by the matrices of keys and values without rounding: other numbers
        others = {"rolling": is_windowed, "el": model.dtype not in DYNAMIC}
        return [m for m in CACHES if others.get(m, True)]
    if name == "drop_finished":
        return list(SWITCHES[name])
    if name == "graphs":  # on needs a device
        return ["off", "auto"]
    row = CATALOG[name]
    if row.spelled:
        return list(row.spelled)
    found = ["reference", "naive", *(["cpu"] if has_file_of_row(row, "cpu") else [])]
    return ["off", *found] if row.may_be_off else found


def calls(row: Row, cache: str, model: Model) -> bool:
    """Whether a generation of the model calls the row's op."""
    by_dtype = row.with_dynamic is None or row.with_dynamic == (model.dtype in DYNAMIC)
    return by_dtype and row.of_rotary <= model.is_rotary and is_called(row, cache, model.is_encoder_decoder)


def plan_of(choices: dict[str, str], model: Model) -> Plan | None:
    """The plan, without the choices that nothing calls; None if two of the others exclude each other."""
    rows = {n: c for n, c in choices.items() if n not in CATALOG or calls(CATALOG[n], choices["cache"], model)}
    try:
        return Plan(**rows)
    except OptionError:
        return None


def pairs(plan: Plan, model: Model) -> set[frozenset]:
    """The pairs of choices that meet in it."""
    used = [n for n in ("cache", "drop_finished", "graphs", *CATALOG)
            if n not in CATALOG or calls(CATALOG[n], plan.cache, model)]  # fmt: skip
    return {frozenset(two) for two in itertools.combinations([(n, getattr(plan, n)) for n in used], 2)}


def covering(model: Model, is_windowed: bool, fixed: dict[str, list[str]] | None = None) -> list[Plan]:
    """Plans, few of them, in which all pairs meet: of 30 drawn ones, that with the most new pairs, again and again.

    fixed: the choices of some fields, where not all are meant.
    """
    draw = random.Random(0)
    fields = {name: choices_of(name, model, is_windowed) for name in ("cache", "drop_finished", "graphs", *CATALOG)}
    fields |= fixed or {}

    def drawn() -> Plan:
        while (plan := plan_of({n: draw.choice(c) for n, c in fields.items()}, model)) is None:
            pass
        return plan

    missing = set().union(*(pairs(drawn(), model) for _ in range(3000)))
    plans = []
    while missing:
        best = max((drawn() for _ in range(30)), key=lambda plan: len(pairs(plan, model) & missing))
        if new := pairs(best, model) & missing:
            plans.append(best)
            missing -= new
    return plans


def tokens(model, plan, search, launches: list[int] | None = None) -> list[list[int]]:
    """Those of each text. Of captured steps, the number of launches goes into `launches`."""
    out = model.generate(input_ids=PROMPTS, plan=plan, **{"max_new_tokens": 6, "min_new_tokens": 1} | search)
    if launches is not None:
        launches.append(out.receipt.graphs.launches)
    return [t.tolist() for t in out.token_ids]


def in_dtype(dtype: str, kind: str, plan: str = "auto", **settings) -> Model:
    model = make(kind, **settings)
    tensors = {name: data.astype(np.float32) for name, data in model.tensors.items()}
    return Model(FAMILIES[kind], model.config, tensors, None, model.defaults, Plan(plan), dtype)


@pytest.mark.parametrize(
    ("kind", "settings", "dtype"),
    [
        ("gpt2", {}, "float32"),
        ("gpt2", {"attention_window": 4}, "float32"),
        ("bart", {}, "float32"),
        pytest.param("bart", {}, "int8_dynamic", marks=pytest.mark.skipif(
            DOT is None or DOT.x_bits < DYNAMIC["int8_dynamic"], reason="no dot product of 8 bits here")),
    ],
    ids=["gpt2", "window", "bart", "int8_dynamic"],
)  # fmt: skip
def test_all_pairs_of_choices_say_the_same(kind, settings, dtype):
    model = in_dtype(dtype, kind, **settings)
    plans = covering(model, "attention_window" in settings)
    assert len(plans) > 12
    expected = [tokens(model, "cache=none", search) for search in SEARCHES]
    assert len({str(e) for e in expected}) == len(SEARCHES)  # they are not all one answer
    for i, plan in enumerate(plans):
        for search, right in itertools.islice(zip(SEARCHES * 2, expected * 2, strict=True), i % 6, i % 6 + 3):
            if plan.hars not in ("off", "auto") and (search["num_beams"] == 1 or "do_sample" in search or
                                                     "num_beam_groups" in search or "dialect" in search):  # fmt: skip
                continue  # refused: nothing would go straight
            assert tokens(model, plan, search) == right, f"{plan} {search}"


STEP = ("linear", "linear_int8", "norm", "append", "embedding", "activation", "split", "grouped")


@pytest.mark.parametrize(
    ("settings", "dtype"),
    [
        ({"num_key_value_heads": 2}, "float32"),
        pytest.param({}, "int8_dynamic", marks=pytest.mark.skipif(
            DOT is None or DOT.x_bits < DYNAMIC["int8_dynamic"], reason="no dot product of 8 bits here")),
    ],
    ids=["grouped", "int8_dynamic"],
)  # fmt: skip
def test_all_pairs_of_choices_beside_captured_steps(settings, dtype, monkeypatch):
    """What a step calls is compiled, so that it is captured; all else is drawn."""
    monkeypatch.setattr(linear, "SMALL", 0)  # so that no product is the BLAS's
    model = in_dtype(dtype, "gpt2", "fast", **settings)
    others = {"epilogue": ["off"], "arena": ["none"], "cache": ["split", "preallocated"]}
    searches = [search | {"max_new_tokens": 12} for search in SEARCHES]
    expected, plans_captured = [tokens(model, "cache=none", search) for search in searches], 0
    for plan in covering(model, False, {row: ["cpu"] for row in STEP} | others):
        launches = []
        for search, right in zip(searches, expected, strict=True):
            if plan.hars not in ("off", "auto") and (search["num_beams"] == 1 or "do_sample" in search or
                                                     "num_beam_groups" in search or "dialect" in search):  # fmt: skip
                continue  # refused: nothing would go straight
            assert tokens(model, plan, search, launches) == right, f"{plan} {search}"
        if plan.hars in ("off", "auto"):  # all six searches ran, and three have few enough rows to be captured
            assert any(launches) == (plan.graphs == "auto"), plan
            plans_captured += plan.graphs == "auto"
    assert plans_captured > 0


@pytest.mark.parametrize("base", ["naive", "fast"])
@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_each_base_says_the_same(kind, base):
    model = make(kind)
    model = make(kind, {name: data.astype(np.float32) for name, data in model.tensors.items()})
    for search in SEARCHES:
        assert tokens(model, base, search) == tokens(model, "auto", search)
    receipt = model.generate(input_ids=PROMPTS, plan=base, num_beams=3, max_new_tokens=4).receipt
    ran = {name: op.implementation for name, op in receipt.ops.items()}
    for row in CATALOG.values():
        if row.op in ran:
            here = "cpu." if base == "fast" and has_file_of_row(row, "cpu") else "reference."
            assert f".{here}" in ran[row.op] and ("naive" in ran[row.op]) == (base == "naive"), row.name


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_every_kernel_together_in_the_emulator(kind):
    """The host code of a GPU's engine, on toy shapes: each op that has a kernel runs as one."""
    model = make(kind)
    model = make(kind, {name: data.astype(np.float32) for name, data in model.tensors.items()})
    options = {"num_beams": 2, "max_new_tokens": 2, "no_repeat_ngram_size": 2}
    found = model.generate(input_ids=[[5, 9, 2]], plan="emulator", **options)
    right = model.generate(input_ids=[[5, 9, 2]], plan="cache=none", **options)
    assert [t.tolist() for t in found.token_ids] == [t.tolist() for t in right.token_ids]
    for row in CATALOG.values():
        if row.op in found.receipt.ops:
            assert (
                f".{'cuda' if has_file_of_row(row, 'cuda') else 'reference'}."
                in found.receipt.ops[row.op].implementation
            )
    assert sum(found.receipt.launches.values()) > 50
