"""The plan `auto`: compiled code where it is on disk and pays, else NumPy's; and never a wait for the compiler."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minidecode as md
from minidecode.cpu.common.jit import REORDER, njit
from minidecode.cpu.common.tile import features
from minidecode.device.sources import PACKAGE
from minidecode.methods.plans import resolve_plan
from minidecode.plan import Plan, has_file_of_row, is_called
from minidecode.runtime.arena import Extent
from minidecode.search import compiled

PROMPTS = ["Fellow citizens of the Senate", "Our army"]


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2")


def in_a_process(code: str, cache: Path) -> str:
    """What the code prints, in a process whose compiled code lies in that folder."""
    env = os.environ | {"NUMBA_CACHE_DIR": str(cache), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True).stdout


def test_auto_stands_alone():
    assert str(Plan()) == str(Plan.parse("auto")) == "auto" and Plan().base == "auto"
    assert str(Plan.parse("numpy")) == str(Plan.parse("auto,cache=replicated")) == "cache=replicated"
    assert Plan.parse("cache_dtype=float16").base == Plan.parse("auto,ngram=cpu").base == "numpy"
    for text in ("auto", "numpy", "fast", "naive", "cache=split", "numpy,hars=cpu", "fast,cache=indirect"):
        assert Plan.parse(str(Plan.parse(text))) == Plan.parse(text), text


def test_a_short_call_never_asks_for_compiled_code(tmp_path):
    code = (
        "import sys, minidecode as md\n"
        "r = md.load('tiny-gpt2').generate(['Fellow citizens,'], num_beams=4, max_new_tokens=8).receipt\n"
        "print('numba' in sys.modules, r.plan, r.chosen)"
    )
    told = in_a_process(code, tmp_path).strip()
    assert told == "False cache=replicated auto: NumPy (loading compiled code would take longer than it saves)"
    assert not list(tmp_path.iterdir())


TWICE = """
import json, minidecode as md
from numba.core import event
from minidecode.search import compiled
compiled.WORTH_LOADING = 0
model, events = md.load("tiny-gpt2"), []
def auto(**options):
    with event.install_recorder("numba:compile") as recorder:
        out = model.generate(["Fellow citizens of"], max_new_tokens=6, **options)
    r = out.receipt
    names = {op: r.ops[op].implementation.split(".")[1] for op in ("linear", "residual_norm")}
    return [out.token_ids[0].tolist(), r.plan, r.chosen, len(recorder.buffer), r.compile_seconds, names]
told = [auto() for _ in range(2)]
print(json.dumps(told))
"""


def test_auto_takes_what_is_on_disk_and_compiles_nothing(tmp_path):
    """In processes of their own: nothing on disk; all that a greedy search needs; a file missing; one cut short."""
    make = "\n".join(
        [
            "from minidecode.search import compiled as c",
            "options = __import__('minidecode').load('tiny-gpt2').options(max_new_tokens=1)",
            "rows = set(c.rows_of_generation(options, False))",
            "for row in rows:",
            "    for name, each in c._functions_of(row, 'float32'):",
            "        for types in each: c._compiled_function(name).compile(c.parse_types(types))",
            "print(*sorted(c.rows_without_compiled_code(rows, 'float32')), 'done')",
        ]
    )
    (tokens, *cold), again = json.loads(in_a_process(TWICE, tmp_path))
    assert cold[0] == "cache=replicated" and cold[2:] == [0, 0.0, dict.fromkeys(cold[4], "reference")]
    assert "not on disk for" in cold[1] and "linear" in cold[1] and "minidecode precompile" in cold[1]
    assert again == [tokens, *cold]  # nothing was compiled on the way, either

    assert in_a_process(make, tmp_path) == "done\n"
    for same, *warm in json.loads(in_a_process(TWICE, tmp_path)):
        assert same == tokens and warm[0].startswith("fast,")
        assert warm[1:] == ["auto: compiled code, which was on disk", 0, 0.0, dict.fromkeys(cold[4], "cpu")]

    (data,) = tmp_path.rglob("norm._residual_norm*.nbc")
    whole = data.read_bytes()
    for broken in (whole[: len(whole) // 2], None):
        data.unlink() if broken is None else data.write_bytes(broken)
        for found in json.loads(in_a_process(TWICE, tmp_path)):
            assert found == [tokens, "cache=replicated", found[2], 0, 0.0, cold[4]]
            assert "not on disk for norm (" in found[2]
    data.write_bytes(whole)
    (index,) = tmp_path.rglob("norm._residual_norm*.nbi")
    index.write_bytes(index.read_bytes().replace(b"0.", b"9.", 1))  # of another version of Numba
    assert all("not on disk for norm (" in found[2] for found in json.loads(in_a_process(TWICE, tmp_path)))


CALLS = """
import itertools, sys, numba, numpy as np, minidecode as md
from numba.core.dispatcher import Dispatcher
from minidecode.cpu import linear
from minidecode.cpu.common.tile import DOT, FLOAT
DYNAMIC = [dtype for dtype, bits in (("int8_dynamic", 8), ("int8_dynamic7", 7)) if DOT and bits <= DOT.x_bits]
from minidecode.search import compiled
known = {}
for name, types in compiled.all_functions():
    known.setdefault(name, set()).add(compiled.parse_types(types))
    compiled._compiled_function(name)
wrong, seen, original = [], set(), Dispatcher._compile_for_args
def asked(self, *args, **kwargs):  # by Python, for types that the dispatcher has not met
    name = f"{self.py_func.__module__.removeprefix('minidecode.cpu.')}.{self.py_func.__name__}"
    types = tuple(numba.typeof(a) for a in args)
    seen.add((name, types))
    if types not in known.get(name, ()):
        wrong.append(f"{name} {types}")
    return original(self, *args, **kwargs)
Dispatcher._compile_for_args = asked
SEARCHES = [
    {}, {"dialect": "fairseq"}, {"do_sample": True, "top_k": 9, "top_p": 0.8, "num_return_sequences": 2},
    {"num_beams": 4}, {"num_beams": 3, "dialect": "hf4"}, {"num_beams": 2, "dialect": "fairseq", "min_new_tokens": 2},
    {"num_beams": 2, "do_sample": True, "top_k": 9, "top_p": 0.8}, {"num_beams": 2, "sibling_penalty": 0.5},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "hf4"},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5, "dialect": "fairseq"},
    {"num_beams": 3, "repetition_penalty": 1.2, "length_penalty": 0.5}, {"min_p": 0.1, "do_sample": True},
    {"num_beams": 3, "early_stopping": True, "eos_token_id": list(range(0, 4000, 3))},  # sentences leave
    {"eos_token_id": list(range(0, 4000, 2)), "do_sample": True, "num_beams": 1},
]
linear.SMALL = 0  # these models' weights are
lengths = itertools.cycle([[1], [3, 9], [100, 4, 5]])
for name, dtype, plan, beside in [
    ("tiny-gpt2", "float32", "auto", []), ("tiny-gpt2", "float32", "fast", []), ("tiny-gpt2", "float16", "auto", []),
    ("tiny-gpt2-mqa", "int8", "auto", []), ("tiny-bart", "float32", "auto", list(compiled.ASKED_FOR)),
    ("tiny-bart", "int8", "auto", []), ("tiny-gpt2", "float32", "fast", list(compiled.ASKED_FOR)),
    ("tiny-gpt2", "int4", "auto", []), ("tiny-bart", "int8_blocks", "auto", []),
    *(((name, dtype, "auto", []) for name in ("tiny-gpt2", "tiny-bart") for dtype in DYNAMIC)),
]:
    model = md.load(name, dtype=dtype, plan=plan)
    for i, search in enumerate(SEARCHES):  # each model begins elsewhere: each search meets each of the lengths
        ids = [list(range(5, 5 + n)) for n in next(lengths)]
        said = f"fast,{beside[i % len(beside)]}" if beside else "fast"
        model.generate(input_ids=ids, plan=said, max_new_tokens=3, no_repeat_ngram_size=2 * (i % 2), **search)
md.load(sys.argv[1]).generate(input_ids=[[3, 4], [5]], plan="fast", max_new_tokens=5)  # steps are captured
model, draft = md.load("tiny-gpt2", plan="fast"), md.load("tiny-gpt2-mqa", plan="fast")
for drafts in ({"prompt_lookup_num_tokens": 3}, {"draft": draft}):
    for search in ({}, {"do_sample": True, "top_k": 9, "top_p": 0.8}):
        model.generate(input_ids=[[5, 6, 5], [7]], max_new_tokens=6, **drafts, **search)
print(*wrong, sep="\\n")
idle = {(name, types) for name, each in known.items() for types in each} - seen
idle = {(name, types) for name, types in idle if FLOAT or not ("floats" in name or "queries" in name)}
idle = {(name, types) for name, types in idle if not FLOAT or name != "prefill._to_weights"}
idle = {(name, types) for name, types in idle if DOT or not ("int8" in name or "round" in name)}
print(*sorted(map(str, idle)))
"""


def test_what_fast_calls_is_what_the_table_says():
    """Whatever the shapes and the search: so nothing is left to compile where all of the table is on disk."""
    rotary = Path(__file__).parents[1] / "golden" / "llama" / "grouped"
    done = subprocess.run([sys.executable, "-c", CALLS, str(rotary)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *wrong, idle = done.stdout.split("\n")[:-1]
    assert [w for w in wrong if w] == []
    assert idle == ""  # nothing in the table is


def test_each_row_that_fast_compiles_is_in_the_table():
    called = {
        row
        for options in ({}, {"do_sample": True}, {"num_beams": 2}, {"num_beams": 2, "do_sample": True})
        for n in (0, 2)
        for row in compiled.rows_of_generation(
            md.load("tiny-gpt2").options(no_repeat_ngram_size=n, **options), True, True
        )
    }
    assert called == {*compiled.TYPES, "linear"}
    from minidecode.catalog import CATALOG

    fast = Plan("fast")
    compiled_rows = {
        row.name
        for row in CATALOG.values()
        if has_file_of_row(row, "cpu") and (is_called(row, fast.cache, True) or is_called(row, fast.cache, False))
    }
    # The epilogue is off under fast; the code of the two others is listed under linear.
    assert compiled_rows - {"epilogue", "cross_kv", "linear_int8"} == called


def test_when_it_pays(model):
    """Rows and weights count; a float16 product of one row takes NumPy as long as one of many."""
    few, many = Extent(1, 0, 5, 20, 25), Extent(64, 0, 900, 100, 1000)
    options = model.options(max_new_tokens=20)

    def work(of, extent):
        return compiled.work_of_search(of.parameters, of.weights, of.dtype, extent, options)

    assert "longer than it saves" in resolve_plan(model, md.Plan("auto"), options, few)[1]
    narrow = md.load("tiny-gpt2", dtype="float16")
    assert work(narrow, few) > 4 * work(model, few)
    assert work(model, many) > compiled.WORTH_LOADING
    wide = md.load("tiny-gpt2", dtype="float64")
    assert "code is compiled for float32, and this is float64" in resolve_plan(wide, md.Plan("auto"), options, many)[1]


def test_a_row_lacks_its_code_if_one_function_is_not_there(monkeypatch):
    """For any of its types: what is not there would be compiled within a generation."""
    monkeypatch.setattr(compiled, "_compiled_function", lambda name: name)
    for row in compiled.rows_of_generation(md.load("tiny-gpt2").options(num_beams=2), False):
        functions = [
            (name, compiled.parse_types(t)) for name, types in compiled._functions_of(row, "float32") for t in types
        ]
        for absent in (None, functions[0], functions[-1]):
            monkeypatch.setattr(compiled, "_can_load", lambda name, types, absent=absent: (name, types) != absent)
            assert compiled.rows_without_compiled_code([row], "float32") == ([row] if absent else [])


def test_one_weight_in_another_order_is_a_reason_for_numpy(model, monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_LOADING", 0)
    weights = [np.ones((3, 4), np.float32), np.ones((3, 4), np.float32, order="F"), np.ones(3, np.float32)]
    monkeypatch.setattr(compiled, "arrays_in_weights", lambda _: weights)
    receipt = model.generate(PROMPTS, max_new_tokens=2).receipt
    assert receipt.plan == "cache=replicated" and "lie in an order that code is not compiled for" in receipt.chosen


def test_no_folder_for_compiled_code_is_a_reason_and_no_error(model, monkeypatch):
    def nowhere(name):
        raise RuntimeError("cannot cache function '_norm': no locator available")

    monkeypatch.setattr(compiled, "_compiled_function", nowhere)
    monkeypatch.setattr(compiled, "WORTH_LOADING", 0)
    receipt = model.generate(PROMPTS, max_new_tokens=2).receipt
    assert receipt.plan == "cache=replicated" and "no locator available" in receipt.chosen
    assert receipt.chosen in str(receipt)


def test_no_folder_for_compiled_code_is_told_where_it_was_asked_for(tmp_path):
    """A package and a home that nobody may write into, as in many classrooms: no traceback, and doctor says it."""
    code = (
        "import sys, minidecode as md\n"
        "from numba.core.caching import CacheImpl\n"
        "CacheImpl._locator_classes = []\n"
        "from minidecode.commands.cli import main\n"
        "commands = ['generate', 'a', '--plan', 'fast'], ['precompile', '-q'], ['compare', 'ngram', '-q'], ['doctor']\n"
        "for words in commands:\n"
        "    sys.argv, sys.stderr = ['minidecode', *words], sys.stdout\n"
        "    try: main()\n"
        "    except SystemExit as ended: print(words[0], ended.code)\n"
    )
    *told, doctor = re.split(r"(?<=\d)\n(?=minidecode)", in_a_process(code, tmp_path))
    assert [t.splitlines()[-1] for t in told] == ["generate 1", "precompile 1", "compare 1"]
    assert all(t.startswith("minidecode: compiled code has no folder") and "NUMBA_CACHE_DIR" in t for t in told)
    assert re.search("^compiled code +none: .*NUMBA_CACHE_DIR", doctor, re.M) and doctor.endswith("doctor 0\n")


def test_what_is_laid_out_beforehand_is_numpy(model, monkeypatch):
    """An arena is made for a plan: `auto` beside one is NumPy's code, whatever is on disk."""
    monkeypatch.setattr("minidecode.methods.plans.load_or_reason_for_numpy", lambda *_: None)
    arena = md.Arena(model.plan_step(batch_size=2, input_length=20, max_new_tokens=4))
    with_arena = model.generate(PROMPTS, max_new_tokens=4, arena=arena)
    assert with_arena.receipt.chosen == "" and with_arena.receipt.plan == "cache=replicated,arena=planned"
    alone = model.generate(PROMPTS, max_new_tokens=4)
    assert alone.receipt.plan == "fast,cache=split,hars=off"
    assert [t.tolist() for t in alone.token_ids] == [t.tolist() for t in with_arena.token_ids]


CALLER = """
from .common.jit import njit
from .callee import answer
from ..ops import NUMBER
@njit(cache=True)
def ask():
    return answer() + NUMBER
"""
CALLEE = """
from .common.jit import njit
@njit(cache=True)
def answer():
    return {}
"""


def test_a_changed_callee_makes_compiled_code_stale(tmp_path):
    """Code of a function is compiled into its callers, in other files too; so are numbers of other files."""
    package, ours = tmp_path / "pack", Path(compiled.__file__).parents[1]
    for folder in ("cpu", "cpu/common", "reference", "device"):
        (package / folder).mkdir(parents=True)
        (package / folder / "__init__.py").touch()
    for file in ("cpu/common/jit.py", "device/sources.py"):
        shutil.copy(ours / file, package / file)
    (package / "cpu" / "caller.py").write_text(CALLER)
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from pack.cpu.caller import ask\n"
        "hits = lambda: sum(ask.stats.cache_hits.values())\n"
        "print(ask(), 'from disk' if hits() else 'compiled')"
    )
    told = []
    for answer, number in ((1, 10), (1, 10), (2, 10), (2, 20)):
        (package / "cpu" / "callee.py").write_text(CALLEE.format(answer))
        (package / "ops.py").write_text(f"NUMBER = {number}")
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "code"), "PYTHONDONTWRITEBYTECODE": "1"}
        run = [sys.executable, "-c", code]
        told.append(subprocess.run(run, capture_output=True, text=True, env=env, check=True, cwd=tmp_path).stdout)
    assert told == ["11 compiled\n", "11 from disk\n", "12 compiled\n", "22 compiled\n"]


def test_all_that_code_is_compiled_from_is_in_the_hash():
    """Each file of the package that a file in cpu/ imports from; and no file there takes Numba's own decorator."""
    from minidecode.cpu.common import jit

    hashed = {path for pattern in jit.SOURCES for path in PACKAGE.glob(pattern)}
    for path in (PACKAGE / "cpu").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom):
                continue
            names = {alias.name for alias in node.names}
            assert node.module != "numba" or not names & {"jit", "njit", "vectorize", "cfunc"}, path
            if node.level:
                base = path.parent.joinpath(*[".."] * (node.level - 1), *(node.module or "").split(".")).resolve()
                found = [base.with_suffix(".py")] if base.with_suffix(".py").is_file() else [
                    base / f"{name}.py" if (base / f"{name}.py").is_file() else base / "__init__.py" for name in names
                ]  # fmt: skip
                assert hashed.issuperset(found), f"{path.name} imports {node.module}, which is not in the hash"
    cached = [p for p in PACKAGE.rglob("*.py") if "cache=True" in p.read_text(encoding="utf-8")]
    assert {p.relative_to(PACKAGE).parts[0] for p in cached} == {"cpu"}


@pytest.mark.skipif("avx512f" not in features(), reason="this processor has no vectors of 512 bits")
def test_loops_run_on_vectors_of_512_bits():
    """Also where LLVM takes 256 by itself: a plain loop has them, and so has a function that it calls."""

    @njit(fastmath=REORDER)
    def dot(x_X, y_X):
        total = np.float32(0)
        for i in range(len(x_X)):
            total += x_X[i] * y_X[i]
        return total

    @njit()
    def double(x_X, y_X):
        for i in range(len(x_X)):
            x_X[i] *= np.float32(2)
        return dot(x_X, y_X)

    x_X = np.ones(100, np.float32)
    assert double(x_X, x_X) == 400
    for function in (dot, double):
        (code,) = function.inspect_asm().values()
        assert "zmm" in code
