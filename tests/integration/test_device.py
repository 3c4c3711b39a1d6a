"""The engine on a device: everything lies there, and kernels do the work. Here the device is emulated.

Toy models of one layer: the emulator runs every thread of every kernel in Python.
"""

import numpy as np
import pytest
from test_attention_settings import SIZES, random_tensors

import minidecode as md
from minidecode import plan as plan_file
from minidecode.cache.split import SplitCache
from minidecode.cuda import linear, linear_int8
from minidecode.device import graphs
from minidecode.device.arrays import put
from minidecode.device.matmul import PRODUCT
from minidecode.emulator.device_array import recorded_tape
from minidecode.errors import OptionError
from minidecode.model import Model
from minidecode.models import FAMILIES
from minidecode.plan import Plan

IDS = [[3, 9, 2, 11, 5], [5, 6]]
TINY = {
    "gpt2": {"vocab_size": 16, "n_positions": 12, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_inner": 12},
    "bart": {
        "vocab_size": 16, "max_position_embeddings": 12, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8,
    },
}  # fmt: skip


def make(kind, device, plan="fast", dtype="float32", **settings):
    family = FAMILIES[kind]
    config = family.config.from_json(SIZES[kind] | TINY[kind] | settings)
    tensors = {name: t.astype(np.float32) for name, t in random_tensors(family, config, seed=4).items()}
    defaults = {"decoder_start_token_id": 2, "eos_token_id": 1}
    return Model(family, config, tensors, None, defaults, Plan.parse(plan), dtype, device)


@pytest.fixture
def prompts_by_the_library(monkeypatch):
    """Products of more than six rows are the library's, as at a prefill of true size: steps are what kernels do."""
    monkeypatch.setattr(linear, "LIBRARY_FROM", dict.fromkeys(linear.LIBRARY_FROM, 7))


def same(here, there):
    """The same tokens, and scores up to float32's roundings in another order: a few ulps of a sum of three."""
    assert [ids.tolist() for ids in there.token_ids] == [ids.tolist() for ids in here.token_ids]
    np.testing.assert_allclose(there.scores, here.scores, rtol=1e-5)


ELSEWHERE_ON_A_GPU = [  # where test_gpu_families.py has the same of these families
    ("gpt2", "", {}),
    ("gpt2", "", {"num_beams": 2, "no_repeat_ngram_size": 2}),
    ("gpt2", "cache=preallocated", {"num_beams": 2}),
    ("gpt2", "cache=replicated", {"num_beams": 2}),
    ("gpt2", "cache=indirect", {"num_beams": 3}),
    ("gpt2", "cache=el", {"num_beams": 2}),
    ("gpt2", "hars=cuda", {"num_beams": 2, "min_new_tokens": 0}),
    ("gpt2", "", {"do_sample": True, "temperature": 0.7, "top_k": 5, "top_p": 0.9, "num_return_sequences": 2}),
    ("gpt2", "", {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5}),
    ("bart", "", {"num_beams": 2}),
    ("bart", "cache=el", {"num_beams": 2}),
    ("bart", "cache=replicated", {}),
]
SEARCHES = [
    ("gpt2", "cache=none", {"num_beams": 2}),
    ("gpt2", "cache_dtype=float16", {}),
    ("gpt2", "drop_finished=on", {"num_beams": 2, "max_new_tokens": 4}),
    ("gpt2", "epilogue=cuda", {}),
    ("gpt2", "", {"num_beams": 2, "do_sample": True}),
    ("gpt2", "", {"num_beams": 2, "sibling_penalty": 0.3}),
    (
        "gpt2",
        "",
        {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "fairseq", "max_new_tokens": 6},
    ),
    ("gpt2", "", {"num_beams": 2, "dialect": "ctranslate2", "prefix_tokens": [[3, 4]] * 2}),
    (
        "gpt2",
        "",
        {
            "min_new_tokens": 2,
            "repetition_penalty": 1.3,
            "bad_words_ids": [[4]],
            "suppress_tokens": 6,
            "begin_suppress_tokens": 7,
            "exponential_decay_length_penalty": (1, 1.5),
        },
    ),
    ("gpt2", "", {"do_sample": True, "top_h": 0.9, "min_p": 0.1, "typical_p": 0.8, "epsilon_cutoff": 1e-3}),
    ("gpt2", "", {"num_beams": 2, "dialect": "fairseq", "unk_penalty": 0.5, "unk_token_id": 3, "pad_token_id": 4}),
    (
        "bart",
        "",
        {
            "num_beams": 2,
            "encoder_no_repeat_ngram_size": 1,
            "forced_bos_token_id": 5,
            "eta_cutoff": 1e-2,
            "encoder_repetition_penalty": 1.2,
            "do_sample": True,
        },
    ),
    ("gpt2", "", {"num_beams": 2, "dialect": "hf4", "forced_eos_token_id": 1, "renormalize_logits": True}),
    ("gpt2", "", {"num_beams": 2, "dialect": "ctranslate2", "patience": 1.5, "repetition_penalty": 1.3}),
    ("gpt2", "", {"num_beams": 2, "dialect": "lightseq"}),
    ("bart", "cache=none", {"num_beams": 2}),
]


@pytest.mark.parametrize(("kind", "plan", "options"), ELSEWHERE_ON_A_GPU + SEARCHES, ids=str)
def test_the_tokens_are_those_of_numpy(kind, plan, options, monkeypatch):
    """Prompts go through the kernels of products too where nothing else is asked for, and without a cache.

    In the other cases only steps do: six rows of them, and with four beams eight, as many as the prompts have.
    """
    if options and "cache=none" not in plan and options.get("num_beams") != 4:
        monkeypatch.setattr(linear, "LIBRARY_FROM", dict.fromkeys(linear.LIBRARY_FROM, 7))
    options = {"max_new_tokens": 3} | options
    there = make(kind, "emulator").generate(input_ids=IDS, plan=f"cuda,{plan}", **options)
    numpys = plan.replace("cuda", "reference")
    same(make(kind, "cpu").generate(input_ids=IDS, plan=f"numpy,cache=split,{numpys}" if "cache=" not in plan
                                    else f"numpy,{numpys}", **options), there)  # fmt: skip
    ops = there.receipt.ops.values()
    assert all(op.implementation.startswith("minidecode.cuda.") for op in ops) and there.receipt.launches


def test_the_memory_of_local_attention():
    there = make("gpt2", "emulator", attention_window=3)
    here = make("gpt2", "cpu", attention_window=3)
    for cache in ("rolling", "split"):
        how = {"input_ids": IDS, "max_new_tokens": 4, "num_beams": 2}
        same(here.generate(**how, plan=f"numpy,cache={cache}"), there.generate(**how, plan=f"cuda,cache={cache}"))


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_narrow_weights(dtype):
    here, there = (make("gpt2", device, dtype=dtype) for device in ("cpu", "emulator"))
    how = {"input_ids": IDS, "max_new_tokens": 3}
    same(here.generate(**how, plan="numpy,linear=rounded"), there.generate(**how))


@pytest.mark.parametrize("dtype", ["int4", "int8_blocks"])
def test_weights_in_blocks(dtype):
    """Blocks are of 32 inputs."""
    sizes = {"n_embd": 32, "n_inner": 64}
    here, there = (make("gpt2", device, dtype=dtype, **sizes) for device in ("cpu", "emulator"))
    how = {"input_ids": IDS[:1], "max_new_tokens": 2}
    same(here.generate(**how, plan="numpy,linear=rounded"), there.generate(**how))


def test_integer_products_of_the_library_in_captured_steps(monkeypatch):
    monkeypatch.setattr(linear_int8, "LIBRARY_FROM", 1)
    here, there = (make("gpt2", device, dtype="int8_dynamic") for device in ("cpu", "emulator"))
    how = {"input_ids": IDS, "max_new_tokens": 4, "eos_token_id": None}
    out = there.generate(**how)
    same(here.generate(**how, plan="numpy,linear=rounded"), out)
    assert out.receipt.graphs.launches > 0
    assert out.receipt.launches["end_sums (emulator)"] == out.receipt.ops["linear_int8"].calls


@pytest.mark.parametrize("asked", ["auto", "fast", "fast,cache=indirect", "cuda"])
def test_what_is_fastest_there_are_its_kernels(asked):
    there = make("gpt2", "emulator", plan=asked).generate(input_ids=IDS[:1], max_new_tokens=1)
    assert there.receipt.plan == ("cuda,cache=indirect" if "indirect" in asked else "cuda,cache=split")
    assert not there.receipt.chosen


@pytest.mark.parametrize(
    ("kind", "cache", "options"),
    [("gpt2", "split", {"num_beams": 2}), ("gpt2", "preallocated", {}), ("bart", "el", {"num_beams": 2})],
    ids=str,
)
def test_steps_are_captured_once_and_launched_again(kind, cache, options):
    """What a graph holds is counted as if Python had called it; the tokens are those of launches one by one.

    So are the bytes, but for ops that are handed a cache or texts: there is more room in them than they look at. A
    captured step always follows the beams; one by one, the host leaves that out where none has moved.
    """
    moving = {"pad_left", "append_kv", "attend", "attend_split", "attend_el", "reorder_cache", "gather_rows",
              "store_finished", "update_sequences", "extend_sequences", "update_beams"}  # fmt: skip
    model, how = make(kind, "emulator"), {"input_ids": IDS, "max_new_tokens": 5, "eos_token_id": None} | options
    apart = model.generate(**how, plan=f"cuda,cache={cache},graphs=off")
    together = model.generate(**how, plan=f"cuda,cache={cache}")
    same(apart, together)
    assert together.receipt.graphs.launches >= 3 and apart.receipt.graphs.launches == 0
    assert together.receipt.steps == 5 and together.receipt.graphs.reused == 0
    follows = {"move_in_place (emulator)", "move_in_registers (emulator)"}
    reorders = {"reorder_cache", "update_indirection"}
    launches = [{n: k for n, k in o.receipt.launches.items() if n not in follows} for o in (apart, together)]
    assert launches[0] == launches[1]
    counted = [
        {n: (c.calls, n in moving or c.bytes) for n, c in o.receipt.ops.items() if n not in reorders}
        for o in (apart, together)
    ]
    assert counted[0] == counted[1]
    assert all(min(out.receipt.seconds.values()) >= 0 for out in (apart, together))  # no second counts twice


def test_a_memory_that_is_made_anew_would_be_found(monkeypatch):
    """A graph goes on with the arrays of the step that was captured: so what moves elsewhere gives other tokens."""

    def append_step(self, ops, qkv_RX):
        q_RHK = ops.append_kv(qkv_RX, self.bias_X, self.heads, self.k_RGTK, self.v_RGTU, self.end_R)
        self.end_R = self.end_R + 1
        return q_RHK

    how = {"input_ids": IDS, "max_new_tokens": 6, "eos_token_id": None}
    model = make("gpt2", "emulator")
    right = model.generate(**how, plan="cuda,graphs=off")
    monkeypatch.setattr(SplitCache, "append_step", append_step)
    same(right, model.generate(**how, plan="cuda,graphs=off"))
    assert abs(model.generate(**how).scores - right.scores).max() > 1e-3


@pytest.mark.parametrize("door", ["numpy", "cupy"])
def test_a_step_with_products_of_the_library_is_captured_if_its_door_allows(monkeypatch, door):
    monkeypatch.setattr(linear, "LIBRARY_FROM", dict.fromkeys(linear.LIBRARY_FROM, 1))
    if door == "cupy":  # it refuses: the emulated device's products stand for CuPy's
        monkeypatch.setattr(graphs, "BY_CUPY", f"{PRODUCT} (numpy)")
    how = dict(input_ids=IDS, max_new_tokens=4, eos_token_id=None)
    out = make("gpt2", "emulator").generate(**how)
    assert (out.receipt.graphs.launches == 0) == (door == "cupy")
    assert any(name.startswith(PRODUCT) for name in out.receipt.launches)
    assert [t.tolist() for t in out.token_ids] == [t.tolist() for t in make("gpt2", "cpu").generate(**how).token_ids]


@pytest.mark.parametrize(
    "look",
    [int, lambda array: array.get(), lambda array: np.asarray([1], like=array)],
    ids=["int", "get", "bring"],
)
def test_what_no_graph_can_hold_is_refused_while_one_is_captured(look):
    array = put(np.zeros(1), "emulator")
    with pytest.raises(TypeError, match="while a step is captured"), recorded_tape():
        look(array)


@pytest.mark.parametrize(
    ("plan", "device", "message"),
    [
        ("fast,graphs=on", "cpu", "plan: graphs=on needs a device"),
        ("numpy,cache=replicated,graphs=on", "emulator", "plan: graphs=on has no effect with cache=replicated"),
        ("cuda,cache=replicated,graphs=on", "emulator", "plan: graphs=on has no effect with cache=replicated"),
        ("cuda,graphs=on,cache=none", "emulator", "plan: graphs=on has no effect with cache=none"),
        ("graphs=maybe", "cpu", "plan: graphs='maybe' is not one of off, auto, on"),
        (
            "fast,launch=numba",
            "cpu",
            "plan: launch=numba has no effect on device=cpu: say device=cuda",
        ),
        ("cuda,launch=fast", "emulator", "plan: launch='fast' is not one of packed, numba"),
    ],
    ids=str,
)
def test_choices_that_do_not_go_with_a_device_are_refused(plan, device, message):
    with pytest.raises(OptionError, match=message):
        make("gpt2", device).generate(input_ids=IDS, max_new_tokens=2, plan=plan)


def test_graphs_that_are_asked_for_are_refused_beside_a_gpu_too(monkeypatch):
    """A plan of kernels runs there with device=cpu, on copies; nothing of that can be captured."""
    monkeypatch.setattr(plan_file, "device_kind", lambda: "gpu")
    model = make("gpt2", "cpu")
    with pytest.raises(OptionError, match="plan: graphs=on needs a device: say device=cuda"):
        model.generate(input_ids=IDS, max_new_tokens=2, plan="cuda,graphs=on")
    assert Plan.parse("cuda").captures("cpu") is False and Plan.parse("cuda,graphs=off").captures("cuda") is False
    assert Plan.parse("cuda").captures("cuda") and not Plan.parse("cuda,cache=none").captures("cuda")


@pytest.mark.parametrize("choice", ["naive", "reference", "cpu", "FILE"])
def test_code_of_the_host_runs_on_copies(choice, tmp_path):
    """FastSeq's starting point: one transfer there, a loop on the CPU, one transfer back."""
    if choice == "FILE":
        mine = tmp_path / "mine.py"
        mine.write_text("from minidecode.reference.ngram import ban_ngrams_naive\n\n"
                        "def ban(scores_RV, tokens_RM, length_R, n):\n"
                        "    return ban_ngrams_naive(scores_RV, tokens_RM, length_R, n)\n")  # fmt: skip
        choice = f"{mine}:ban"
    how = {"input_ids": IDS, "max_new_tokens": 3, "num_beams": 2, "no_repeat_ngram_size": 2}
    there = make("gpt2", "emulator").generate(**how, plan=f"cuda,ngram={choice}")
    same(make("gpt2", "cpu").generate(**how, plan="numpy"), there)
    place = "mine.ban" if "mine" in choice else f"minidecode.{'cpu' if choice == 'cpu' else 'reference'}.ngram."
    assert place in there.receipt.ops["ban_ngrams"].implementation


def test_scores_and_logits_come_back():
    here, there = make("gpt2", "cpu"), make("gpt2", "emulator")
    for mine, theirs in zip(here.logits(IDS), there.logits(IDS), strict=True):
        np.testing.assert_allclose(theirs, mine, rtol=1e-4, atol=1e-5)
    a, b = here.score(input_ids=IDS), there.score(input_ids=IDS)
    for mine, theirs in zip(a.token_log_probs, b.token_log_probs, strict=True):
        np.testing.assert_allclose(theirs, mine, rtol=1e-5)


def test_a_trace_and_a_stream():
    told = []
    there = make("gpt2", "emulator").generate(
        input_ids=IDS, max_new_tokens=3, streamer=lambda row, token: told.append((row, token)), trace=True
    )
    here = make("gpt2", "cpu").generate(input_ids=IDS, max_new_tokens=3, plan="numpy", trace=True)
    assert [[t for r, t in told if r == row] for row in range(2)] == [ids.tolist() for ids in there.token_ids]
    assert [(s.step, s.sentence, s.running) for s in there.trace.steps] == [
        (s.step, s.sentence, s.running) for s in here.trace.steps
    ]
    beams = {"input_ids": IDS, "max_new_tokens": 2, "num_beams": 2, "trace": True}
    mine, theirs = make("gpt2", "cpu").generate(**beams, plan="numpy"), make("gpt2", "emulator").generate(**beams)
    assert [[(c.token, c.parent, c.fate) for c in s.candidates] for s in theirs.trace.steps] == [
        [(c.token, c.parent, c.fate) for c in s.candidates] for s in mine.trace.steps
    ]


def test_weights_that_stand_in_two_places_lie_there_once():
    weights = make("gpt2", "emulator").weights
    assert weights.lm_head.data is weights.wte_VD


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"device": "gpu"}, "device='gpu' is not one of cpu, cuda, emulator, auto; did you mean cuda?"),
        ({"device": "emulator", "dtype": "float64"}, "device=emulator computes in float32"),
    ],
    ids=str,
)
def test_what_is_no_device_is_refused(said, message):
    with pytest.raises(OptionError, match=message):
        md.load("tiny-gpt2", **said)


@pytest.mark.skipif(md.device_kind() == "gpu", reason="there is one")
def test_a_gpu_that_is_not_there_is_refused_and_auto_goes_without():
    with pytest.raises(
        OptionError, match=r"device=cuda: Numba finds no GPU here .minidecode doctor .*; device=emulator runs"
    ):
        md.load("tiny-gpt2", device="cuda")
    assert md.load("tiny-gpt2", device="auto").device == "cpu"


@pytest.mark.gpu
@pytest.mark.parametrize(("kind", "plan", "options"), SEARCHES, ids=str)
def test_the_same_on_a_gpu(kind, plan, options):
    options = {"max_new_tokens": 3} | options
    there = make(kind, "cuda").generate(input_ids=IDS, plan=f"cuda,{plan}", **options)
    same(make(kind, "emulator").generate(input_ids=IDS, plan=f"cuda,{plan}", **options), there)


@pytest.mark.parametrize(
    ("device", "plan"), [("emulator", "numpy"), pytest.param("cuda", "cuda", marks=pytest.mark.gpu)]
)
@pytest.mark.parametrize("options", [
    {"remove_invalid_values": True}, {"guidance_scale": 1.5}, {"guidance_scale": 1.5, "num_beams": 2},
    {"sequence_bias": {(5,): 2.0}}, {"exponential_decay_length_penalty": (1, 1.5)},
    {"do_sample": True, "typical_p": 0.5},
], ids=str)  # fmt: skip
def test_later_options_say_the_same_on_a_device(tiny_folder, options, device, plan):
    """Scores lie there; what is no op of the plan's gets copies."""
    folder, how = tiny_folder(), {"input_ids": [[5, 6], [7]], "max_new_tokens": 3, **options}
    here, there = md.load(folder, plan="numpy"), md.load(folder, plan=plan, device=device)
    expected = [ids.tolist() for ids in here.generate(**how).token_ids]
    assert [ids.tolist() for ids in there.generate(**how).token_ids] == expected
