"""A plan puts the implementation that it names into the running model, and the receipt proves it."""

import os
import subprocess
import sys

import numpy as np
import pytest
from test_attention_settings import IDS, SIZES, make, random_tensors

import minidecode as md
from minidecode.catalog import CATALOG
from minidecode.device.arrays import device_kind
from minidecode.models import FAMILIES
from minidecode.plan import CACHES, is_called, ops_of_caches

PROMPTS = ["The Congress of the United States", "Our army and our navy have"]
OPTIONS = dict(max_new_tokens=24, num_beams=2, no_repeat_ngram_size=2)
HERE = "minidecode.reference.ngram.ban_ngrams"


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


@pytest.fixture(scope="module")
def expected(model):
    return [t.tolist() for t in model.generate(PROMPTS, **OPTIONS).token_ids]


@pytest.mark.parametrize(
    ("choice", "implementation"),
    [("reference", HERE), ("naive", f"{HERE}_naive"), ("cpu", "minidecode.cpu.ngram.ban_ngrams")],
)
def test_the_receipt_names_what_the_plan_names(model, expected, choice, implementation):
    out = model.generate(PROMPTS, plan=f"ngram={choice}", **OPTIONS)
    assert [t.tolist() for t in out.token_ids] == expected
    ban = out.receipt.ops["ban_ngrams"]
    assert ban.implementation.startswith(f"{implementation} (ngram.py:")
    assert ban.calls == out.receipt.steps and out.receipt.launches == {}


def test_a_kernel_runs_in_the_emulator_and_its_launches_are_counted(model, expected):
    out = model.generate(PROMPTS, plan="ngram=emulator", **OPTIONS)
    assert [t.tolist() for t in out.token_ids] == expected
    ban = out.receipt.ops["ban_ngrams"]
    assert ban.implementation.startswith("minidecode.cuda.ngram.ban_ngrams")
    assert out.receipt.launches == {"block_per_row_staged (emulator)": ban.calls}
    assert f"block_per_row_staged (emulator): {ban.calls} launches" in str(out.receipt)


@pytest.mark.skipif(device_kind() == "gpu", reason="there is a GPU here")
def test_a_plan_never_falls_back_in_silence(model):
    with pytest.raises(md.OptionError, match=r"ngram=cuda needs a GPU.*ngram=emulator needs none"):
        model.generate(PROMPTS, plan="ngram=cuda", **OPTIONS)
    with pytest.raises(
        md.OptionError, match=r"^plan: cuda needs a GPU, and Numba finds none: say fast, .* or emulator"
    ):
        model.generate(PROMPTS, plan="cuda", **OPTIONS)


@pytest.mark.gpu
def test_a_kernel_runs_on_the_gpu(model, expected):
    out = model.generate(PROMPTS, plan="ngram=cuda", **OPTIONS)
    assert [t.tolist() for t in out.token_ids] == expected
    assert out.receipt.launches == {"block_per_row_staged (gpu)": out.receipt.ops["ban_ngrams"].calls}


@pytest.fixture
def mine(tmp_path):
    def write(source: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(f"import numpy as np\n{source}", encoding="utf-8")
        return f"ngram={path}:ban"

    return write


def test_a_function_of_the_users_own_runs_inside_the_model(model, expected, mine):
    """With a ban of everything but token 7, no other token comes out: what runs is the user's function."""
    others = "np.arange(scores_RV.shape[1]) != 7"
    plan = mine(f"def ban(scores_RV, *rest):\n    scores_RV[:, {others}] = -np.inf\n    return scores_RV\n")
    out = model.generate(PROMPTS, plan=plan, max_new_tokens=3, no_repeat_ngram_size=2)
    assert {t for ids in out.token_ids for t in ids.tolist()} == {7}
    assert "mine.ban (mine.py:2)" in out.receipt.ops["ban_ngrams"].implementation
    right = mine("from minidecode.reference.ngram import ban_ngrams_naive as ban\n")
    assert [t.tolist() for t in model.generate(PROMPTS, plan=right, **OPTIONS).token_ids] == expected


@pytest.mark.parametrize(
    ("source", "says"),
    [("def ban(scores_RV, tokens_RM, length_R, n):\n    return 1 / 0\n", "raised ZeroDivisionError: division by zero"),
     ("def ban(scores_RV, tokens_RM, length_R):\n    return scores_RV\n", "give it the parameters of ban_ngrams"),
     ("def ban(scores_RV, tokens_RM, length_R, n):\n    pass\n", "must return scores_RV, not None"),
     ("def ban(scores_RV, *rest):\n    return scores_RV[:1]\n", "returned a wrong shape: scores_RV: R"),
     ("def bann(scores_RV, *rest):\n    return scores_RV\n", "has no function 'ban': it has bann")],
)  # fmt: skip
def test_the_mistakes_of_such_a_function_are_told_as_its_own(model, mine, source, says):
    with pytest.raises(md.MinidecodeError, match=says) as raised:
        model.generate(PROMPTS, plan=mine(source), **OPTIONS)
    assert "mine.py" in str(raised.value) and "\n" not in str(raised.value)


MEMORY_PLANS = [
    (plan, op, choice)
    for plan, op, choices in [
        ("cache=preallocated,reorder", "reorder_cache", "naive cpu emulator"),
        ("cache=split,reorder", "reorder_cache", "naive cpu emulator"),
        ("cache=rolling,reorder", "reorder_cache", "naive cpu emulator"),
        ("cache=indirect,indirect", "attend_indirect", "naive cpu emulator"),
        ("cache=paged,paged", "attend_paged", "naive cpu emulator"),
        ("cache=paged,paged_append", "append_paged", "naive cpu emulator"),
        ("cache=paged,pages", "copy_pages", "naive emulator"),  # a copy of memory is NumPy's already
        ("cache=rolling,rolling", "attend_rolling", "naive emulator"),  # NumPy is faster than Numba here
    ]
    for choice in choices.split()
]


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize(("plan", "op", "choice"), MEMORY_PLANS)
def test_implementations_of_the_memories_ops_give_the_same_texts(kind, plan, op, choice):
    """In a toy model with a window; the kernels compute in float32, and so does it."""
    family = FAMILIES[kind]
    tensors = random_tensors(family, family.config.from_json(SIZES[kind]))
    model = make(kind, {name: t.astype(np.float32) for name, t in tensors.items()}, attention_window=4)
    options = {"input_ids": IDS, "num_beams": 2, "max_new_tokens": 5, "eos_token_id": 3}
    expected = model.generate(plan="cache=none", **options)
    out = model.generate(plan=f"{plan}={choice}", **options)
    assert [t.tolist() for t in out.token_ids] == [t.tolist() for t in expected.token_ids]
    ran, place = out.receipt.ops[op], {"naive": "reference", "emulator": "cuda"}.get(choice, choice)
    assert ran.implementation.startswith(f"minidecode.{place}.{plan.rpartition(',')[2]}.{op}")
    assert (sum(out.receipt.launches.values()) == ran.calls > 0) == (choice == "emulator")


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("choice", ["naive", "cpu", "emulator"])
@pytest.mark.parametrize("options", [
    {"num_beams": 3}, {"num_beams": 2, "dialect": "fairseq"},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "hf4"},
], ids=str)  # fmt: skip
def test_the_texts_of_a_search_are_refreshed_by_what_the_plan_says(kind, choice, options):
    """Once for each group of beams and each round of the search, whatever the dialect; the texts are the same."""
    options = {"input_ids": IDS, "max_new_tokens": 5, "eos_token_id": 3, **options}
    expected = make(kind).generate(**options)
    out = make(kind).generate(plan=f"sequences={choice}", **options)
    assert [t.tolist() for t in out.token_ids] == [t.tolist() for t in expected.token_ids]
    ran, place = out.receipt.ops["update_sequences"], {"naive": "reference", "emulator": "cuda"}.get(choice, choice)
    assert ran.implementation.startswith(f"minidecode.{place}.sequences.update_sequences")
    assert ran.calls == out.receipt.steps * options.get("num_beam_groups", 1)
    assert sum(out.receipt.launches.values()) == (ran.calls if choice == "emulator" else 0)


@pytest.mark.parametrize("choice", ["naive", "cpu", "emulator"])
@pytest.mark.parametrize("options", [
    {"num_beams": 3}, {"num_beams": 2, "dialect": "fairseq"},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "hf4"},
], ids=str)  # fmt: skip
def test_the_bookkeeping_of_a_search_is_done_by_what_the_plan_says(choice, options):
    """Once for each group of beams and each round of the search; texts and scores are the same to the last bit."""
    options = {"input_ids": IDS, "max_new_tokens": 5, "eos_token_id": 3, **options}
    expected = make("gpt2").generate(**options)
    out = make("gpt2").generate(plan=f"beam_update={choice},finished={choice}", **options)
    assert [t.tolist() for t in out.token_ids] == [t.tolist() for t in expected.token_ids]
    assert np.array_equal(out.scores, expected.scores)
    place = {"naive": "reference", "emulator": "cuda"}.get(choice, choice)
    for op, file in [("update_beams", "beam_update"), ("store_finished", "finished")]:
        ran = out.receipt.ops[op]
        assert ran.implementation.startswith(f"minidecode.{place}.{file}.{op}")
        assert ran.calls == out.receipt.steps * options.get("num_beam_groups", 1)
    assert sum(out.receipt.launches.values()) == (2 * ran.calls if choice == "emulator" else 0)


@pytest.mark.parametrize("choice", ["naive", "cpu", "emulator"])
def test_tokens_are_chosen_by_what_the_plan_says(model, choice):
    """Once in each step of a greedy search; without processors no log-probabilities are written."""
    expected, out = (model.generate(PROMPTS, plan=p, max_new_tokens=4) for p in ("auto", f"argmax={choice}"))
    assert [t.tolist() for t in out.token_ids] == [t.tolist() for t in expected.token_ids]
    ran, place = out.receipt.ops["argmax_tokens"], {"naive": "reference", "emulator": "cuda"}.get(choice, choice)
    assert ran.implementation.startswith(f"minidecode.{place}.argmax.argmax_tokens")
    assert ran.calls == out.receipt.steps and "log_softmax" not in out.receipt.ops
    assert set(out.receipt.launches.values()) == ({ran.calls} if choice == "emulator" else set())


def test_a_function_of_the_users_is_named_where_nan_may_be_its_own(model, mine):
    plan = mine("def ban(scores_RV, *rest):\n    scores_RV[:] = np.nan\n    return scores_RV\n")
    with pytest.raises(md.NumericalError, match=r"the weights are all finite.*, or ngram=.*mine.py:ban made it$"):
        model.generate(PROMPTS, plan=plan, **OPTIONS)


@pytest.mark.parametrize(
    ("plan", "says"),
    [("fst", "'fst' is not understood; did you mean fast?"), ("fast,ngrm=naive", "; did you mean ngram=...?"),
     ("ngram", "; did you mean ngram=...?"), ("xyz", "; say auto, .*, or KEY=VALUE, .*: minidecode help plan")],
)  # fmt: skip
def test_a_typing_error_in_a_plan_is_told_by_what_was_meant(plan, says):
    with pytest.raises(md.OptionError, match=says.replace("?", "[?]") + "$" * says.endswith("?")):
        md.Plan.parse(plan)


def test_a_function_of_the_users_may_return_whole_numbers_first(tmp_path, model):
    path = tmp_path / "mine.py"
    path.write_text(
        "from minidecode.reference import argmax, sequences\n"
        "def pick(*args, **kwargs):\n    return argmax.argmax_tokens_naive(*args, **kwargs)\n"
        "def texts(*args, **kwargs):\n    return sequences.update_sequences_naive(*args, **kwargs)\n",
        encoding="utf-8",
    )
    for row, function, beams in (("argmax", "pick", 1), ("sequences", "texts", 2)):
        expected = model.generate(PROMPTS, max_new_tokens=4, num_beams=beams)
        out = model.generate(PROMPTS, plan=f"{row}={path}:{function}", max_new_tokens=4, num_beams=beams)
        assert [t.tolist() for t in out.token_ids] == [t.tolist() for t in expected.token_ids]


def test_a_function_of_the_users_may_make_noise(tmp_path, model):
    """Floats come out of it, and none goes in."""
    path = tmp_path / "mine.py"
    path.write_text("from minidecode.reference.random import gumbel_naive as noise\n", encoding="utf-8")
    options = {"max_new_tokens": 4, "num_beams": 2, "do_sample": True, "seed": 3}
    expected, out = (model.generate(PROMPTS, plan=plan, **options) for plan in ("auto", f"random={path}:noise"))
    assert [t.tolist() for t in out.token_ids] == [t.tolist() for t in expected.token_ids]


def test_an_implementation_that_there_is_not_is_told(model):
    with pytest.raises(md.OptionError, match="rolling has no version for cpu"):
        model.generate(PROMPTS, plan="cache=rolling,rolling=cpu", **OPTIONS)


ATTENTION = [  # (model, plan, op, what runs)
    ("gpt2", "cache=split,split=naive", "attend_split", "reference.split.attend_split_naive"),
    ("gpt2", "cache=split,split=cpu", "attend_split", "cpu.split.attend_split"),
    ("gpt2", "cache=split,split=emulator", "attend_split", "cuda.split.attend_split"),
    ("gpt2", "cache=preallocated,grouped=naive", "attend", "reference.grouped.attend_naive"),
    ("gpt2", "cache=replicated,grouped=cpu", "attend", "cpu.grouped.attend"),
    ("gpt2", "cache=replicated,grouped=emulator", "attend", "cuda.grouped.attend"),
    ("bart", "cache=split,shared=naive", "attend_shared", "reference.shared.attend_shared_naive"),
    ("bart", "cache=split,split=cpu,shared=cpu", "attend_shared", "cpu.shared.attend_shared"),
    ("bart", "cache=split,split=emulator,shared=emulator", "attend_shared", "cuda.shared.attend_shared"),
]

ELEMENTWISE = [
    ("gpt2", "embedding=naive", "embed_norm", "reference.embedding.embed_norm_naive"),
    ("bart", "embedding=cpu", "embed_norm", "cpu.embedding.embed_norm"),
    ("gpt2", "embedding=emulator", "embed_norm", "cuda.embedding.embed_norm"),
    ("bart", "activation=naive", "bias_activation", "reference.activation.bias_activation_naive"),
    ("gpt2", "activation=cpu", "bias_activation", "cpu.activation.bias_activation"),
    ("bart", "activation=emulator", "bias_activation", "cuda.activation.bias_activation"),
]


@pytest.fixture(scope="module")
def toys():
    """In float32, as the kernels compute; with two query heads to a key/value head, and a window."""
    found = {}
    for kind in ("gpt2", "bart"):
        settings = {"num_key_value_heads": 2, "value_width": 2, "attention_window": 5}
        tensors = {name: t.astype(np.float32) for name, t in make(kind, **settings).tensors.items()}
        found[kind] = make(kind, tensors, **settings)
    return found


@pytest.mark.parametrize(("kind", "plan", "op", "implementation"), [*ATTENTION, *ELEMENTWISE])
def test_what_runs_is_what_the_plan_names(toys, kind, plan, op, implementation):
    options = dict(input_ids=IDS, num_beams=3, max_new_tokens=7, eos_token_id=None)
    expected, out = (toys[kind].generate(plan=p, **options) for p in ("cache=none", plan))
    assert [t.tolist() for t in out.token_ids] == [t.tolist() for t in expected.token_ids]
    assert out.receipt.ops[op].implementation.startswith(f"minidecode.{implementation} (")
    assert bool(out.receipt.launches) == ("emulator" in plan)


@pytest.mark.parametrize("cache", CACHES)
def test_a_row_names_the_memories_that_call_it(toys, cache):
    """So that a plan is refused where its choice would never run, and nowhere else."""
    called = {
        kind: set(toys[kind].generate(input_ids=IDS, plan=f"cache={cache}", num_beams=3, max_new_tokens=7).receipt.ops)
        for kind in toys
    }
    for row in CATALOG.values():
        if row.op in ops_of_caches():
            for kind in called:
                assert is_called(row, cache, kind == "bart") == (row.op in called[kind]), (row.name, kind)


@pytest.mark.parametrize(
    ("kind", "plan", "says"),
    [("gpt2", "cache=split,grouped=naive", "no effect with cache=split: say cache=replicated or cache=pre"),
     ("gpt2", "split=naive", "no effect with cache=replicated: say cache=split"),
     ("gpt2", "cache=split,shared=naive", "no effect with cache=split in a model without an encoder"),
     ("bart", "cache=el,el_split=naive", "el_split=naive has no effect with cache=el in a model with an encoder"),
     ("bart", "cache=rolling,rolling=cpu", "rolling has no version for cpu")],
)  # fmt: skip
def test_attention_that_would_not_run_is_refused(toys, kind, plan, says, monkeypatch):
    with pytest.raises(md.OptionError, match=says):
        toys[kind].generate(input_ids=IDS, plan=plan, max_new_tokens=2)
    with pytest.raises(md.OptionError, match=says):  # as a plan that a model was loaded with
        monkeypatch.setattr(toys[kind], "plan", md.Plan.parse(plan))
        toys[kind].score(input_ids=IDS, **({"target_ids": IDS} if kind == "bart" else {}))


def test_compiling_is_told_apart_from_generating(model, tmp_path):
    """In a process whose compiled code lies nowhere yet; the second time nothing is compiled."""
    code = (
        "import minidecode as md\nm = md.load('tiny-gpt2')\n"
        "r = [m.generate(['Fellow'], plan=p, max_new_tokens=2).receipt for p in ('auto', 'norm=cpu', 'norm=cpu')]\n"
        "print(*(x.compile_seconds for x in r)); print('compiled code' in str(r[1]), 'compiled code' in str(r[2]))"
    )
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    numbers, told = done.stdout.splitlines()
    none, first, again = map(float, numbers.split())
    assert none == again == 0 < first and told == "True False"


def test_what_is_rebound_before_the_first_plan_runs_too():
    """In a process of its own: files of ops are looked through once."""
    program = (
        "import minidecode.cpu.activation as file, minidecode as md\n"
        "def mine(x_RX, bias_X, out=None): raise SystemExit('mine ran')\n"
        "file.add_bias = mine\n"
        "md.load('tiny-bart', plan='fast').generate('The Congress', max_new_tokens=2)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "mine ran" in ran.stderr
