"""A kernel's file opens with its floor, a prediction and what was measured; the figures are the recorded ones."""

import ast
import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest

import minidecode.cuda
from minidecode.bench.predict import predict
from minidecode.catalog import CATALOG

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
MODELS = json.loads((RESULTS / "gpu-h100.json").read_text(encoding="utf-8"))
KERNELS = json.loads((RESULTS / "gpu-h100-kernels.json").read_text(encoding="utf-8"))
LIBRARY = "product of the library"
GONE, OF_GONE = "split_each_column", "minidecode.cuda.unravel"  # recorded; HARS divides by itself since then
PARTS = {
    "a floor": r"\bFloor\b",
    "a prediction": r"\b[Pp]redicted\b",
    "a measurement with device and date, or that there is none": rf"easured \(H100, {KERNELS['date']}\b|ot measured\b",
}


def modules():
    """Module of cuda/ and of cuda/common/ -> the names of its kernels."""
    for info in pkgutil.walk_packages(minidecode.cuda.__path__, "minidecode.cuda."):
        module = importlib.import_module(info.name)
        yield info.name, {kernel.py_func.__name__ for kernel in getattr(module, "SIGNATURES", {})}


KERNELS_OF = dict(modules())


def recorded_works():
    return [work for work in MODELS["parts"]["ours"]["figures"].values() if "kernels" in work]


def launched() -> set[str]:
    """Modules whose kernels the receipts of the recorded works list, and those of their ops."""
    names = {name.partition(" (")[0] for work in recorded_works() for name in work["kernels"]} - {GONE}
    found = {name: {m for m, kernels in KERNELS_OF.items() if name in kernels} for name in names - {LIBRARY}}
    assert len(found) > 30
    assert [name for name, where in found.items() if not where] == []
    functions = {op["ran"].partition(" (")[0] for work in recorded_works() for op in work["ops"].values()}
    return set().union(*found.values(), (function.rpartition(".")[0] for function in functions)) - {OF_GONE}


def missing(header: str) -> list[str]:
    return [part for part, pattern in PARTS.items() if not re.search(pattern, header)]


def header_of(module: str) -> str:
    return " ".join(importlib.import_module(module).__doc__.split())


@pytest.mark.parametrize("module", sorted(launched()))
def test_a_kernel_that_the_recorded_steps_launched_has_floor_prediction_and_measurement(module):
    assert missing(header_of(module)) == []


@pytest.mark.parametrize("row", [r.name for r in CATALOG.values() if f"minidecode.cuda.{r.name}" in KERNELS_OF])
def test_so_has_every_op_that_has_kernels(row):
    assert missing(header_of(f"minidecode.cuda.{row}")) == []


def test_what_a_header_lacks_is_named():
    whole = "Floor: 1 us. Predicted 2 us. Measured (H100, {}): 3 us."
    assert missing(whole.format(KERNELS["date"])) == [] == missing("Floor. Predicted 2 us. Not measured by itself.")
    assert missing(whole.format("some day")) == [list(PARTS)[2]] and missing("A kernel.") == list(PARTS)


LIMITS = {"memory": "memory", "L2": "L2", "L1": "L1", "issue": "instructions", "latency": "waits"}


@pytest.mark.parametrize("op", ["norm", "activation", "embedding", "heads", "append", "reorder"])
def test_a_header_has_the_prediction_of_the_tool_with_its_limits(op):
    """And the goal for itself: both say which is which."""
    header, newest = header_of(f"minidecode.cuda.{op}"), predict(op).versions[-1]
    assert "the goal is 85 %" in header
    said = re.search(rf"`minidecode predict {op}` gives (\d+) %: (.*?)\.", header)
    assert said and int(said[1]) == round(100 * newest.share)
    alone = {name: newest.share * newest.seconds / newest.limits[limit] for limit, name in LIMITS.items()}
    found = {n: int(p) for n, p in re.findall(r"(\w+)(?: alone)?(?: allows?)? (\d+) %", said[2])}
    assert found == {name: round(100 * share) for name, share in alone.items()}
    assert 1 / sum(share**-2 for share in alone.values()) ** 0.5 == pytest.approx(newest.share, rel=0.01)


@pytest.mark.parametrize("stored", ["int8", "int8_blocks", "int4"])
def test_versions_4_and_5_of_few_rows_have_the_predictions_of_the_tool(stored):
    """Of 4 rows: what others take needs the toolkit."""
    *_, version_4, version_5 = (round(100 * version.share) for version in predict("linear", stored=stored).versions)
    header = header_of("minidecode.cuda.linear")
    assert re.search(rf"{stored} \d+, {version_5}, \d+ \(\d+, {version_4}, \d+\)", header)
    page = " ".join((ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").split())
    assert re.search(rf"\d+, {version_5} and \d+ % for {stored} \((?:version 4: )?\d+, {version_4}, \d+\)", page)


# The figures


def numbers(text: str) -> set[float]:
    return {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def says(header: str, microseconds: float) -> bool:
    """Whether it has this time, with one place behind the point, or of 20 and more none."""
    is_long = microseconds >= 20
    return any(abs(n - microseconds) < 0.051 or (is_long and n == round(microseconds)) for n in numbers(header))


@pytest.mark.parametrize("op", ["softmax", "argmax", "candidates", "hars", "beam_scores", "temperature", "beam_update"])
def test_a_header_over_a_vocabulary_has_the_newest_times_and_share(op):
    (line,) = [line for line in KERNELS["lines"]["vocab"] if re.match(rf"{op} +cuda +\d", line)]
    *times, share, _ = line.split()[2:]
    header = header_of(f"minidecode.cuda.{op}")
    assert [t for t in times[1:] if not says(header, float(t))] == []  # of one row not all headers say it
    assert share == "0%" or re.search(rf"\b{share[:-1]} %", header)


def test_the_header_of_top_k_says_what_was_measured():
    (line,) = [line for line in KERNELS["lines"]["vocab"] if re.match(r"top_k +cuda +\d", line)]
    assert says(header_of("minidecode.cuda.top_k"), float(line.split()[2]))


def shapes_of_attention() -> dict[str, tuple]:
    script = ast.parse((ROOT / "benchmarks" / "gpu_attention.py").read_text(encoding="utf-8"))
    return next(ast.literal_eval(n.value) for n in script.body if ast.unparse(n).startswith("SHAPES = "))


@pytest.mark.parametrize("op", ["shared", "split", "grouped", "indirect"])
def test_a_header_of_attention_has_the_newest_times(op):
    header, newest = header_of(f"minidecode.cuda.{op}"), {}
    for line in KERNELS["lines"]["attention"]:
        if match := re.match(r"(.+?) {2,}v\d +(\S+) us +(\d+)%", line):
            newest[match[1]] = float(match[2]), match[3]  # a version's line stands behind the one before it
    mine = [name for name, shape in shapes_of_attention().items() if shape[0] == op and shape[-1] == "float16"]
    assert mine
    for name in mine:
        microseconds, share = newest[name]
        assert re.search(rf"\b{share} %", header) if name == "1 GB" else says(header, microseconds), name


def test_the_header_of_the_ban_has_the_times_of_all_versions():
    header = header_of("minidecode.cuda.ngram")
    times = re.findall(r"ban of n-grams, cuda[^:]*: (\S+) ms", "\n".join(KERNELS["lines"]["vocab"]))
    assert len(times) == 3 and all(says(header, 1e3 * float(ms)) for ms in times)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "int8_blocks", "int4"])
def test_the_header_of_few_rows_has_the_best_share_of_each_dtype(dtype):
    best: dict[int, int] = {}
    for line in KERNELS["lines"]["linear"]:
        if match := re.match(rf"dtype {dtype} rows (\d+) .*\b1 GB (\d+)", line):
            rows, share = map(int, match.groups())
            best[rows] = max(best.get(rows, 0), share)
    shares = "{}, {} and {} %".format(*(best[rows] for rows in (1, 4, 8)))
    assert f"{dtype} {shares}" in header_of("minidecode.cuda.linear")
