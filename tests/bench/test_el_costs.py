"""EL's Table 1: its ratios, the paper's figures, and what our own ops really move and multiply."""

from pathlib import Path

import numpy as np
import pytest

from minidecode.bench.el_costs import GROUPS, METHODS, Sizes, costs_of_groups, held_input_bytes
from minidecode.bench.machines import MACHINES, Machine
from minidecode.catalog import CATALOG
from minidecode.conformance.rows import row_module
from minidecode.device.user_functions import load_python_file
from minidecode.errors import OptionError
from minidecode.ops import Weight
from minidecode.plan import Plan
from minidecode.reference import el, grouped, linear, shared
from minidecode.runtime.receipt import CountedOps

BUILD, PROJECT, ATTEND = GROUPS
PAPER = Sizes(B=32, W=4, N=1024, H=16, D=1024)  # section 4.1.1, float16
SMALL = Sizes(B=2, W=3, N=5, H=4, D=8, itemsize=4)


# ---- the paper -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("s", [PAPER, SMALL, Sizes(B=3, W=1, N=64, H=12, D=768)])
def test_the_orders_of_table_1_are_ratios(s):
    """O(n d^2), O(d^2), O(x n d) and O(h x n d) of each sentence, and section 3.3's words on them."""
    found = {method: costs_of_groups(s, method) for method in METHODS}
    none, cache, mine = found["no cache"], found["cache per beam"], found["el"]
    assert cache[BUILD].operations == mine[BUILD].operations == mine[BUILD].bytes == 0
    assert none[BUILD].operations == s.N * none[PROJECT].operations, "group 2 is only 1/n of the first group"
    assert cache[PROJECT] == none[PROJECT] and mine[PROJECT].operations == 2 * cache[PROJECT].operations
    assert cache[PROJECT].operations / (s.R * s.D**2) == 4 and cache[ATTEND].operations / (s.R * s.N * s.D) == 4
    assert mine[ATTEND].operations == s.H * cache[ATTEND].operations
    assert found["cache per sentence"][ATTEND].operations == cache[ATTEND].operations


@pytest.mark.parametrize("W", [1, 4, 8])
def test_with_beams_el_moves_a_wth_of_the_input(W):
    """Section 3.3: 1/x of the memory movement, for each position of the input, the scores apart."""

    def of_a_position(method, one_op):
        one, two = (costs_of_groups(Sizes(B=2, W=W, N=N, H=16, D=1024), method, one_op)[ATTEND].bytes for N in (1, 2))
        scores = 0 if one_op else 2 * 2 * W * 16 * 2  # written and read
        return two - one - scores

    assert of_a_position("el", False) * W == of_a_position("cache per beam", False)
    assert of_a_position("el", True) * W * 2 == of_a_position("cache per beam", True), "read once, it serves twice"
    assert of_a_position("cache per sentence", True) * W == of_a_position("cache per beam", True)


def test_the_figures_of_section_4_1():
    """Figure 3: over 500 GFLOP to build; intensity near 1; 0.5 GB against 0.15 GB."""
    none, cache, mine = (costs_of_groups(PAPER, method) for method in ("no cache", "cache per beam", "el"))
    assert 500e9 < none[BUILD].operations < 600e9
    assert 0.9 < cache[ATTEND].operations / cache[ATTEND].bytes < 1.1
    assert round(cache[ATTEND].bytes / 1e9, 1) == 0.5 and round(mine[ATTEND].bytes / 1e9, 2) == 0.15


@pytest.mark.parametrize(
    ("B", "N", "multi_head", "el"),
    [(32, 256, 1.5, 0.02), (32, 1024, 6, 0.06), (64, 256, 3, 0.03), (64, 1024, 12, 0.13), (320, 256, 15, 0.15),
     (320, 1024, 60, 0.63)],
)  # fmt: skip
def test_table_4(B, N, multi_head, el):
    """BART-large: 12 layers, width 1,024, float16, beam 4; the paper's GB are 2**30 bytes. 96x = 2 * 12 layers * 4."""
    s = Sizes(B=B, W=4, N=N, H=16, D=1024)
    keys_and_values, hidden = held_input_bytes(s, "cache per beam", 12), held_input_bytes(s, "el", 12)
    assert keys_and_values / 2**30 == multi_head and abs(hidden / 2**30 - el) < 0.01
    assert keys_and_values == 96 * hidden and held_input_bytes(s, "cache per sentence", 12) == 24 * hidden


def gain(machine, W=4, N=1024):
    """Over a cache per beam; the batch shrinks as beams and positions grow, as in section 4.1.2."""
    s = Sizes(B=32 * 4 * 1024 // (W * N), W=W, N=N, H=16, D=1024)
    cache, el = (sum(map(machine.seconds, costs_of_groups(s, method).values())) for method in ("cache per beam", "el"))
    return cache / el


def test_el_wins_where_it_waits_for_memory():
    """Figure 4, on a V100's tensor cores: 1.4x at 64 positions, 5x at beam 8, more with each beam and position."""
    v100 = MACHINES["v100"].on_tensor_cores()
    over_positions = [gain(v100, N=N) for N in (64, 128, 256, 512, 1024)]
    over_beams = [gain(v100, W=W) for W in (1, 2, 4, 8)]
    assert over_positions == sorted(over_positions) and 1.2 < over_positions[0] < 1.6
    assert over_beams == sorted(over_beams) and 4.5 < over_beams[-1] < 6


def test_el_loses_where_arithmetic_is_dear():
    laptop = Machine("laptop", 20e9, 80e9, "4 operations per byte")
    assert all(gain(laptop, W=W) < 1 for W in (1, 2, 4, 8))
    with pytest.raises(OptionError, match="laptop has no tensor cores"):
        laptop.on_tensor_cores()


# ---- our ops on real arrays ------------------------------------------------------------------------------------------


def arrays_of(s: Sizes, make=lambda *shape: np.ones(shape, np.float32)):
    """(x_RD, h_BND, keys and values of a beam, of a sentence, weight D to D, weight D to 2D, EL's weights)."""
    K = s.D // s.H
    kv_of = lambda rows: (make(rows, s.H, s.N, K), make(rows, s.H, s.N, K))  # noqa: E731
    weights = make(s.H, K, s.D), make(s.H, K), make(s.H, K, s.D), make(s.H, K)
    return make(s.R, s.D), make(s.B, s.N, s.D), kv_of(s.R), kv_of(s.B), make(s.D, s.D), make(s.D, 2 * s.D), weights


def run(s: Sizes, method: str, ops, arrays):
    """One step by our ops, group by group, as the caches call them."""
    x_RD, h_BND, of_beams, of_sentences, square, double, weights = arrays
    q_RHK = ops.linear(x_RD, Weight(square)).reshape(s.R, s.H, -1)
    begin_B, begin_R, end_R = np.zeros(s.B, int), np.zeros(s.R, int), np.full(s.R, s.N)
    if method == "no cache":
        ops.linear(np.repeat(h_BND.reshape(-1, s.D), s.W, axis=0), Weight(double))
    if method == "el":
        a_RX = ops.attend_el(q_RHK, h_BND, begin_B, *weights, 0.5)
    elif method == "cache per sentence":
        a_RX = ops.attend_shared(q_RHK, *of_sentences, begin_B, 0.5)
    else:
        a_RX = ops.attend(q_RHK, *of_beams, begin_R, end_R, 0.5)
    ops.linear(a_RX, Weight(square))


def total(found, what) -> int:
    return sum(getattr(c, what) for c in found.values())


@pytest.mark.parametrize("method", METHODS)
def test_bytes_are_those_that_a_receipt_counts(method):
    """Of our ops, attention being one op; the receipt has the places of rows and EL's biases beside."""
    ops = CountedOps(Plan().resolve()[0])
    run(SMALL, method, ops, arrays_of(SMALL))
    places = 8 * (SMALL.B if method in ("el", "cache per sentence") else 2 * SMALL.R)
    biases = 2 * SMALL.D * 4 if method == "el" else 0
    counted = sum(c.bytes for c in ops.counts().values())
    assert total(costs_of_groups(SMALL, method, one_op=True), "bytes") == counted - places - biases


class Number:
    """A number that counts how often numbers are multiplied."""

    multiplications = 0

    def __init__(self, value):
        self.value = value

    def __mul__(self, other):
        Number.multiplications += 1
        return Number(self.value * getattr(other, "value", other))

    def __add__(self, other):
        return Number(self.value + other.value)

    def __sub__(self, other):
        return Number(self.value - other.value)

    def __truediv__(self, other):
        return Number(self.value / other.value)

    def exp(self):
        return Number(np.exp(self.value))

    def __ge__(self, other):
        return self.value >= other.value

    def __gt__(self, other):
        return self.value > other.value


class Ops:
    linear, attend = staticmethod(linear.linear), staticmethod(grouped.attend)
    attend_shared, attend_el = staticmethod(shared.attend_shared), staticmethod(el.attend_el)


@pytest.mark.parametrize("method", METHODS)
def test_operations_are_those_that_the_reference_does(method):
    """Counted number by number: of a product's operations half are multiplications; the scale takes some more."""
    rng = np.random.default_rng(0)
    numbers = np.vectorize(Number, otypes=[object])
    Number.multiplications = 0
    run(SMALL, method, Ops, arrays_of(SMALL, lambda *shape: numbers(rng.standard_normal(shape))))
    scaled = SMALL.R * SMALL.H * (SMALL.D if method == "el" else SMALL.N)
    assert Number.multiplications - scaled == total(costs_of_groups(SMALL, method), "operations") / 2


def test_the_catalog_says_the_same():
    """The cost model that `compare el` shows, on the paper's arrays: of one sentence, float32."""
    arguments, _ = row_module("el").make_paper_inputs()
    s = Sizes(B=1, W=4, N=1024, H=16, D=1024, itemsize=4)
    found, step = CATALOG["el"].cost(*arguments), costs_of_groups(s, "el", one_op=True)
    outside = 4 * s.R * s.D**2  # W_Q and W_O
    assert found.operations == total(step, "operations") - outside
    weights = 2 * s.D**2 * s.itemsize
    assert found.bytes - arguments[2].nbytes - arguments[6].nbytes == step[ATTEND].bytes + weights


def test_the_benchmark_measures_predicts_and_says_why():
    script = load_python_file(Path(__file__).parents[2] / "benchmarks" / "el_attention.py")
    v100, laptop = MACHINES["v100"].on_tensor_cores(), Machine("a laptop", 20e9, 80e9, "4 operations per byte")
    row = script.time_setting(SMALL, 1, {script.HERE: laptop, "v100": v100})
    assert row["ms_per_sentence"].keys() == row["predicted_us_per_sentence"]["v100"].keys() == set(METHODS)
    sentences = [script.why(PAPER, laptop), script.why(PAPER, v100, row["ms_per_sentence"])]
    assert "waits for arithmetic. It should take 1.97 times as long as a cache per beam" in sentences[0]
    assert "waits for memory. It should take 0.31 (measured: " in sentences[1]
    table = script.markdown(script.figure_3(PAPER, v100), [row], sentences, "v100", "a v100")
    assert "| el | attend | 0.151 | 8.6 | 56.9 | memory |" in table and table.count("| 5 | 3 |") == 1
