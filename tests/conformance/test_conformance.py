"""Every implementation of every optimization is right, every known mutant is not, and check says which is which."""

import subprocess
import sys

import numpy as np
import pytest

import minidecode as md
from minidecode import conformance
from minidecode.bench.compare import implementations
from minidecode.catalog import CATALOG
from minidecode.conformance.check import mutant_files, wrong
from minidecode.conformance.inputs import PLANTED
from minidecode.launch import in_emulator
from minidecode.reference import ngram
from minidecode.user_functions import load_file


def implementations_and_places():
    """Every implementation there is; kernels in the emulator, and on the GPU where there is one."""
    for name, row in CATALOG.items():
        for label, function in implementations(row).items():
            test = f"{name}-{label.replace(' ', '-')}"
            if label.startswith("cuda"):
                yield pytest.param(name, in_emulator(function), 25, id=f"{test}-emulator")
                yield pytest.param(name, function, 200, id=f"{test}-gpu", marks=pytest.mark.gpu)
            else:
                yield pytest.param(name, function, 200, id=test)


MUTANTS = [pytest.param(name, path, id=f"{name}-{path.stem}") for name in CATALOG for path in mutant_files(name)]


@pytest.mark.parametrize(("name", "function", "examples"), list(implementations_and_places()))
def test_every_implementation_is_right(name, function, examples):
    verdict = conformance.check(name, function, examples=examples)
    assert verdict.ok, str(verdict)
    assert verdict.inputs > examples


@pytest.mark.parametrize(("name", "path"), MUTANTS)
def test_every_mutant_dies_and_is_named(name, path):
    """On the smallest input found, the answer is the mutant's own and nobody else's, so that it can be named."""
    mutant = load_file(path)
    verdict = conformance.check(name, getattr(mutant, CATALOG[name].op))
    assert not verdict.ok
    if "It raised" not in verdict.failure.what:
        assert verdict.failure.mistake, str(verdict)


@pytest.mark.parametrize("seed", range(20))
def test_the_missing_barrier_is_found_whatever_the_order_of_threads(seed):
    """Not by luck: in each order of the threads, on one row, whether or not the answer comes out right."""
    (path,) = [p for p in mutant_files("ngram") if p.stem == "missing_barrier"]
    kernel = load_file(path).staged_without_a_barrier
    scores, tokens = np.zeros((1, 9), np.float32), np.array([[1, 2, 3, 1, 2] * 20])
    run = md.emulate(kernel, seed=seed)[1, 64](scores, tokens, np.array([100]), 3)
    assert not run.ok and "row" in run.verdict, run.verdict


@pytest.mark.parametrize("name", CATALOG)
def test_there_are_enough_mutants_and_each_says_its_mistake(name):
    files = mutant_files(name)
    assert len(files) >= 8
    assert all(load_file(path).__doc__.strip() for path in files)


@pytest.mark.parametrize("name", CATALOG)
def test_each_planted_case_bans_or_not_what_it_should(name):
    """The oracle is not vacuous: most planted cases change something, and a function that does nothing fails."""
    row = CATALOG[name]
    changing = [c for c in PLANTED[row.inputs]() if wrong(row, lambda scores_RV, *rest: scores_RV, c)]
    assert len(changing) > len(PLANTED[row.inputs]()) / 2


def test_a_failure_is_small_and_runs_as_it_is_printed():
    def nothing(scores_RV, tokens_RM, length_R, n, out=None):
        return scores_RV

    verdict = conformance.check("ngram", nothing)
    assert not verdict.ok and verdict.failure.arguments["scores_RV"].size <= 4
    code = str(verdict).split("The smallest input found:\n")[1]
    ran = subprocess.run([sys.executable, "-c", "f = lambda s, *_: s\n" + code], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr


@pytest.mark.parametrize(
    ("function", "says"),
    [(lambda s, t, length, n: s.copy(), "in place"),
     (lambda s, t, length, n: 1 / 0, "It raised ZeroDivisionError: division by zero"),
     (lambda s, t, length, n: (ngram.ban_ngrams(s, t, length, n), t.fill(7))[0], "It changed its input tokens_RM"),
     (lambda s, t, length, n: None, "in place")],
)  # fmt: skip
def test_broken_contracts_are_told(function, says):
    assert says in str(conformance.check("ngram", function))


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(md.OptionError, match="the names are ngram"):
        conformance.check("ngrams", np.copy)
