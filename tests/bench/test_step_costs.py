"""Costs of a step from sizes alone are those that receipts of real generations count."""

import numpy as np
import pytest

import minidecode as md
from minidecode.bench import step_costs
from minidecode.bench.machines import MACHINES
from minidecode.bench.step_costs import (
    HELD,
    MODELS,
    ONCE,
    OWN,
    REORDERED,
    make_step_of_config,
    make_step_of_published_model,
)

N, W = 24, 4


@pytest.fixture(scope="module", params=["tiny-gpt2", "tiny-gpt2-mqa"])
def model(request):
    return md.load(request.param)


def receipt(model, cache, new, **options):
    prompts = np.arange(100, 100 + 2 * N).reshape(2, N)
    asked = dict(max_new_tokens=new, min_new_tokens=new, num_beams=W, costs=True, plan=f"numpy,cache={cache}")
    return model.generate(input_ids=prompts, **asked | options).receipt


@pytest.mark.parametrize(("cache", "kind", "op"), [("preallocated", OWN, "attend"), ("split", ONCE, "attend_split")])
def test_a_step_costs_what_its_receipt_says(model, cache, kind, op):
    """The last step of three tokens sees the prompt and two tokens; two generations differ by just that step."""

    def total(found, name):
        return sum(c.bytes for c in found.ops[name].costs), sum(c.operations for c in found.ops[name].costs)

    two, three = (receipt(model, cache, new) for new in (2, 3))
    s = make_step_of_config(model.config, B=2, W=W, N=N, T=2, itemsize=4)
    for name, cost in ((op, step_costs.attention_cost(s, kind)), ("linear", step_costs.products_cost(s))):
        last = np.subtract(total(three, name), total(two, name))
        assert last.tolist() == [cost.bytes, cost.operations], name
    at_the_end = make_step_of_config(model.config, B=2, W=W, N=N, T=3, itemsize=4)
    assert three.cache_peak_bytes == step_costs.held_bytes(at_the_end, kind)


def test_all_matrices_are_counted():
    """Of the published numbers of parameters, what is left are norms, biases and positions."""
    numbers = {name: step_costs.weight_bytes(make_step_of_published_model(name, itemsize=2)) // 2 for name in MODELS}
    assert numbers["SmolLM2-135M"] == 134_515_008 - 30 * 2 * 576 - 576
    assert numbers["Llama-3.2-1B"] == 1_235_814_400 - 16 * 2 * 2048 - 2048
    biases_and_norms = 12 * (2304 + 768 + 3072 + 768 + 4 * 768) + 2 * 768
    assert numbers["gpt2"] == 124_439_808 - 1024 * 768 - biases_and_norms


def test_beams_that_change_places_copy_what_they_hold():
    """Read and written: twice what they hold, of one beam nothing; of a table eight bytes a position and layer."""
    s = make_step_of_published_model("gpt2", B=3, W=4, N=100, T=7)
    assert step_costs.reordered_bytes(s, OWN, 4) == 2 * step_costs.held_bytes(s, OWN)
    assert step_costs.reordered_bytes(s, OWN, 2) == step_costs.held_bytes(s, OWN), "two of four"
    own = make_step_of_published_model("gpt2", B=3, W=4, N=0, T=7)
    assert step_costs.reordered_bytes(s, ONCE, 4) == 2 * step_costs.held_bytes(own, OWN)
    assert step_costs.reordered_bytes(make_step_of_published_model("gpt2", B=3, W=1), OWN, 2) == 0
    assert step_costs.table_bytes(s, 4) == 2 * step_costs.table_bytes(s, 2) == 12 * 2 * (3 * 4 * 7) * 8


def test_the_figures_show_what_the_papers_say():
    v100 = MACHINES["v100"].on_tensor_cores()
    bart = make_step_of_published_model("bart-large", B=32, W=4, N=1024, T=1)
    found = step_costs.el_numbers(bart, v100)
    assert [found[HELD][m] / found[HELD]["el"] for m in ("cache per beam", "cache per sentence")] == [96, 24]
    assert found[step_costs.SECONDS]["el"] < found[step_costs.SECONDS]["cache per beam"]
    heads = step_costs.head_numbers(make_step_of_published_model("gpt2", W=1, N=1000, T=24), v100)
    assert heads[HELD]["multi-head"] == heads[HELD]["grouped"] == 12 * heads[HELD]["multi-query"]
    beams = step_costs.beam_numbers(make_step_of_published_model("gpt2", W=4, N=1000, T=24), v100)
    assert beams[HELD][OWN] / beams[HELD][ONCE] == 4 * 1024 / (1000 + 4 * 24)
    assert beams[REORDERED][OWN] / beams[REORDERED][ONCE] == 1024 / 24
    ways = step_costs.reorder_numbers(make_step_of_published_model("gpt2", B=2, W=4, N=100, T=7), v100)
    assert ways[REORDERED]["new arrays"] == ways[REORDERED]["in place"] == 2 * ways[step_costs.SWAPPED]["in place"]
    assert ways[step_costs.SWAPPED]["new arrays"] == ways[REORDERED]["new arrays"], "whether or not they move"
    cache = step_costs.cache_numbers(make_step_of_published_model("gpt2", B=1, W=1, N=1, T=0), v100)
    assert cache[HELD]["cache"] == 2 * 12 * 768 * 2
