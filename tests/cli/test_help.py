"""--help: options and commands in groups, summaries of one line, and examples that the command line can read."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex

import pytest
import typer

from minidecode.catalog import CATALOG, find
from minidecode.commands import help_topics
from minidecode.commands.cli import app
from minidecode.commands.help_text import COMMAND_GROUPS, EXAMPLES, GROUP_OF, OPTION_GROUPS
from minidecode.commands.help_topics import TOPICS
from minidecode.course.chapters import find_chapter
from minidecode.plan import BACKENDS, BASES, CACHES, STORED_AS, SWITCHES, Plan

GROUP = typer.main.get_command(app)
COMMANDS = [name for name in GROUP.commands if name != "exercise"]
FITS_NO_GROUP = {
    "help", "debug", "quiet", "on_error", "receipt", "against", "stride", "examples", "functions", "stored", "repeats",
    "machine", "texts", "cell_seconds", "for_class",
}  # fmt: skip


def sections(text: str) -> dict[str, list[str]]:
    """Title -> its lines."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            lines = found.setdefault(line[:-1], [])
        elif found and line:
            lines.append(line)
    return found


def test_commands_stand_in_groups_and_each_summary_fits_its_line(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    found = sections(cli("--help").out)
    assert list(found) == ["Options", *COMMAND_GROUPS]
    lines = [line for group in COMMAND_GROUPS for line in found[group]]
    assert sorted(line.split()[0] for line in lines) == sorted(GROUP.commands)  # a line each: none goes on to a second
    assert all(len(line) <= 80 and not line.endswith("...") for line in lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_options_stand_in_groups(cli, name):
    found = sections(cli(name, "--help").out)
    assert list(found) == [t for t in ("Arguments", *OPTION_GROUPS, "Options", "Examples") if t in found]
    for parameter in GROUP.commands[name].params:
        if parameter.param_type_name == "option":
            assert parameter.name in GROUP_OF or parameter.name in FITS_NO_GROUP
            group = found[GROUP_OF.get(parameter.name, "Options")]
            assert any(max(parameter.opts, key=len) in line for line in group), parameter.name


@pytest.mark.parametrize("name", COMMANDS)
def test_three_examples_can_be_read(cli, name):
    examples = sections(cli(name, "--help").out)["Examples"]
    assert [line.strip() for line in examples] == list(EXAMPLES[name])
    assert len(set(examples)) == 3 and max(map(len, examples)) <= 80
    for line in examples:
        program, command, *arguments = shlex.split(line.partition("|")[0])
        assert (program, command) == ("minidecode", name)
        given = GROUP.commands[name].make_context(name, arguments).params  # raises where the line cannot be read
        plans = given.get("plan")
        for plan in [plans] if isinstance(plans, str) else plans or []:
            Plan.parse(plan)
        if given.get("name"):
            find(given["name"])
        if given.get("chapter"):
            find_chapter(given["chapter"])


# ---- minidecode help -------------------------------------------------------------------------------------------------


def test_help_lists_its_topics(cli):
    ran = cli("help")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in sections(ran.out)["Topics"][:-1]] == list(TOPICS)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_fits_one_screen(cli, topic):
    lines = cli("help", topic).out.splitlines()
    assert 10 < len(lines) <= 50 and max(map(len, lines)) <= 80


def test_the_topic_plan_names_every_key_and_value(cli):
    out = cli("help", "plan").out
    words = set(re.findall(r"\w+", out))
    assert {f.name for f in dataclasses.fields(Plan)} - {"base"} <= words
    values = [*BASES, *CACHES, *STORED_AS, *BACKENDS, *itertools.chain(*SWITCHES.values()), *CATALOG["arena"].spelled]
    assert set(values) <= words
    examples = re.findall(r"^  --plan (\S+)", out, re.MULTILINE)
    assert len(examples) == 5
    for plan in examples:
        Plan.parse(plan)


def test_a_choice_without_a_text_is_an_error_and_not_left_out(monkeypatch):
    """So that the screen cannot go stale: a cache that is added needs a text."""
    monkeypatch.setitem(CACHES, "paged", None)
    with pytest.raises(KeyError, match="paged"):
        help_topics.cache_help()


@pytest.mark.parametrize("words", [["generate"], ["exercise", "start"], ["help"]])
def test_help_on_a_command_is_its_help(cli, words):
    assert cli("help", *words) == cli(*words, "--help")


@pytest.mark.parametrize(("words", "says"), [(["plans"], "did you mean plan?"), (["cache", "split"], "no help on")])
def test_help_on_nothing_names_the_topics(fails, words, says):
    message = fails("help", *words)
    assert says in message and ", ".join(TOPICS) in message
