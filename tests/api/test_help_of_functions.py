"""help() of the public functions names every argument and every option of a generation, and fits 100 columns."""

import dataclasses
import inspect
import re

import pytest

import minidecode as md
from minidecode.options.options import Options

DOCUMENTED = [md.load, md.generate_lines, md.Model.generate]


def lines_of(thing) -> list[str]:
    return inspect.getdoc(thing).splitlines()


@pytest.mark.parametrize("option", dataclasses.fields(Options), ids=lambda f: f.name)
def test_help_lists_each_option_with_its_type_and_default(option):
    annotation = md.GenerateOptions.__annotations__[option.name].__forward_arg__
    lines = lines_of(md.GenerateOptions)
    named = [i for i, line in enumerate(lines) if line.startswith(f"{option.name}: ")]
    assert [lines[i].replace('"', "'") for i in named] == [f"{option.name}: {annotation} = {option.default!r}"]
    assert re.match(r"    \S.*", lines[named[0] + 1]), "it is explained in the next line"


@pytest.mark.parametrize("function", DOCUMENTED, ids=lambda f: f.__name__)
def test_help_explains_each_argument_at_the_beginning_of_a_line(function):
    items = [re.match(r"[a-z_, ]+(?=:)", line) for line in lines_of(function)]
    explained = {name for item in items if item for name in item[0].split(", ")}
    assert set(inspect.signature(function).parameters) - {"self"} <= explained


@pytest.mark.parametrize("thing", [*DOCUMENTED, md.GenerateOptions], ids=lambda f: f.__name__)
def test_help_fits_100_columns_and_begins_with_an_example(thing):
    summary, blank, example, *_ = lines = lines_of(thing)
    assert summary and not blank and example.startswith("    ")
    indented_by = 8 if thing is md.Model.generate else 4  # in help(md.Model)
    assert max(map(len, lines)) + indented_by <= 100
