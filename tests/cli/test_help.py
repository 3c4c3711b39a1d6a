"""--help, `minidecode help`, what a shell completes, and --version."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shlex
from pathlib import Path

import pytest
import typer

import minidecode as md
from minidecode.cache.prompt import PromptCache
from minidecode.catalog import CATALOG, find
from minidecode.commands import completion, help_topics, version
from minidecode.commands.cli import app
from minidecode.commands.help_text import COMMAND_GROUPS, EXAMPLES, GROUP_OF, OPTION_GROUPS
from minidecode.commands.help_topics import TOPICS
from minidecode.course.chapters import find_chapter
from minidecode.errors import OptionError
from minidecode.plan import BACKENDS, BASES, CACHES, STORED_AS, SWITCHES, Plan

GROUP = typer.main.get_command(app)
GROUPS = ("exercise", "project")  # of commands
COMMANDS = [name for name in GROUP.commands if name not in GROUPS]
FITS_NO_GROUP = {
    "help", "debug", "quiet", "on_error", "receipt", "against", "stride", "examples", "functions", "stored", "repeats",
    "machine", "texts", "tokenizer", "cell_seconds", "seconds", "for_class", "traced", "blocks", "steps", "student",
    "calls", "league", "jobs", "megabytes",
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
    assert list(found) == [t for t in ("Arguments", *OPTION_GROUPS, "Options", "Examples", "Needs") if t in found]
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


@pytest.mark.parametrize(("name", "extra"), [("compare", "plots"), ("ladder", "plots"), ("evaluate", "evaluate")])
def test_help_names_the_extra_that_examples_need(cli, name, extra):
    (line,) = sections(cli(name, "--help").out)["Needs"]
    assert f"the extra {extra}" in line


@pytest.mark.parametrize(("name", "commands"), [("exercise", 8), ("project", 5)])
def test_groups_of_commands_have_examples_and_whole_summaries(cli, monkeypatch, name, commands):
    monkeypatch.setenv("COLUMNS", "80")
    out = cli(name, "--help").out
    lines = sections(out)["Commands"]
    assert len(lines) == commands and not any(line.endswith("...") for line in lines)
    group = GROUP.commands[name]
    examples = [line.strip() for line in sections(out)["Examples"]]
    assert examples == list(EXAMPLES[name]) and len(examples) == 3
    for line in examples:
        program, command, part, *arguments = shlex.split(line)
        assert (program, command) == ("minidecode", name)
        group.commands[part].make_context(part, arguments)


@pytest.mark.parametrize(
    ("words", "instead"),
    [(["generate", "extra"], "say minidecode help generate"), (["exercise", "nosuch"], "list, start, check"),
     (["exercise", "start", "15"], "say minidecode help exercise")],
)  # fmt: skip
def test_words_behind_a_command_are_no_topic(fails, words, instead):
    message = fails("help", *words)
    assert f"there is no help on {' '.join(words)!r}: " in message and instead in message


def test_help_shows_a_part_of_a_group(cli):
    assert "Write the skeleton of an exercise" in cli("help", "exercise", "start").out


def test_help_says_that_an_output_is_replaced(cli):
    assert "an existing file is replaced" in " ".join(cli("generate", "--help").out.split())


def test_dialects_dtypes_and_topics_are_completed():
    assert completion.complete_dialect("h") == ["hf", "hf4"]
    assert completion.complete_dtype("int8_") == ["int8_dynamic", "int8_dynamic7", "int8_blocks"]
    context = typer.Context(GROUP.commands["help"], parent=typer.Context(GROUP))
    assert help_topics.complete_topic(context, "") == [*TOPICS, *GROUP.commands]
    assert help_topics.complete_topic(context, "dt") == ["dtype"]
    completed = {"help": "topic", "generate": "dtype", "score": "dtype", "evaluate": "dtype"}
    for command, name in completed.items():
        (parameter,) = [p for p in GROUP.commands[command].params if p.name == name]
        assert parameter._custom_shell_complete is not None, command


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
    monkeypatch.setitem(CACHES, "tree", type("TreeCache", (PromptCache,), {}))
    with pytest.raises(AttributeError, match=r"TreeCache.*about"):
        help_topics.cache_help()
    monkeypatch.delitem(CACHES, "tree")
    monkeypatch.setitem(help_topics.STORED_AS, "int8", None)
    with pytest.raises(KeyError, match="int8"):
        help_topics.cache_help()


@pytest.mark.parametrize("words", [["generate"], ["exercise", "start"], ["help"]])
def test_help_on_a_command_is_its_help(cli, words):
    assert cli("help", *words) == cli(*words, "--help")


@pytest.mark.parametrize(("words", "says"), [(["plans"], "did you mean plan?"), (["cache", "split"], "no help on")])
def test_help_on_nothing_names_the_topics(fails, words, says):
    message = fails("help", *words)
    assert says in message and ", ".join(TOPICS) in message


# ---- what a shell completes ------------------------------------------------------------------------------------------


@pytest.fixture
def completed(cli, monkeypatch):
    """Completes the last of these words -> the words that the shell gets."""

    def run(shell: str, *words: str) -> list[str]:
        monkeypatch.setenv("_MINIDECODE_COMPLETE", f"complete_{shell}")
        if shell == "bash":
            monkeypatch.setenv("COMP_WORDS", "\n".join(["minidecode", *words]))
            monkeypatch.setenv("COMP_CWORD", str(len(words)))
        else:
            monkeypatch.setenv("_TYPER_COMPLETE_ARGS", " ".join(["minidecode", *words]))
        ran = cli()
        assert (ran.code, ran.err) == (0, "")
        return re.findall(r'(?:\(\(|^)"([^"]*)"', ran.out, re.MULTILINE) if shell == "zsh" else ran.out.split()

    return run


@pytest.mark.parametrize(
    ("words", "found"),
    [(["gen"], ["generate"]), (["compare", "ngr"], ["ngram"]), (["check", "hars"], ["hars"]),
     (["generate", "-m", "tiny-b"], ["tiny-bart"]), (["plan", "bart-l"], ["bart-large"]),
     (["ladder", "-m", "distil"], ["distilbart-12-6"]), (["evaluate", "--plan", "fas"], ["fast"]),
     (["generate", "--plan", "na"], ["naive"]), (["generate", "--plan", "fast,na"], []),
     (["generate", "--plan", "cache"], ["cache=", "cache_dtype="]),
     (["generate", "--plan", "cache=split,cache"], [f"cache=split,cache_dtype={t}" for t in STORED_AS]),
     (["trace", "--plan", "fast,drop"], ["fast,drop_finished=off", "fast,drop_finished=on"])],
)  # fmt: skip
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_word_is_completed(completed, shell, words, found):
    in_bash = shell == "bash" and "=" in words[-1]
    if in_bash:
        *before, (start, equals, end) = *words[:-1], words[-1].partition("=")
        words, found = [*before, start, equals, end], [word.removeprefix(start + equals) for word in found]
    assert completed(shell, *words) == found


@pytest.mark.parametrize(
    ("words", "found"),
    [(["--plan", "cache", "=", "s"], ["split"]), (["--plan", "cache", "="], list(CACHES)),
     (["--plan", "=", "fast,ngram", "=", "cp"], ["cpu"]), (["--plan", "=", "fas"], ["fast"]),
     (["--plan", "temperature", "="], ["reference", "naive", "cuda", "emulator"])],
)  # fmt: skip
def test_bash_gets_what_stands_behind_the_equals_sign(completed, words, found):
    """bash takes = as a word of its own, and puts a completion behind it."""
    assert completed("bash", "generate", *words) == found


def test_all_values_that_are_completed_are_understood():
    rows = [name for name in CATALOG if "naive" in completion.values_of_plan_key(name)]
    assert len(rows) > 30
    for key in ("cache", "cache_dtype", *SWITCHES, *CATALOG):
        assert completion.values_of_plan_key(key)
        for value in completion.values_of_plan_key(key):
            error = error_of(f"{key}={value}")
            assert not error or "has no effect" in error  # with the default cache


def error_of(plan: str) -> str:
    try:
        Plan.parse(plan)
    except OptionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_is_shown_and_installed(cli, monkeypatch, tmp_path, shell):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("typer._completion_shared._get_shell_name", lambda: shell)
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)
    ran = cli("--show-completion")
    assert ran.code == 0 and "_MINIDECODE_COMPLETE" in ran.out
    assert cli("--install-completion").code == 0
    written = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*minidecode*") if path.is_file()]
    assert written and "_MINIDECODE_COMPLETE" in written[0]


# ---- --version -------------------------------------------------------------------------------------------------------

COMMIT, OTHER = "5cb7cb8f" * 5, "0123abcd" * 5


def repository(folder: Path, head: str = "ref: refs/heads/main\n") -> Path:
    (folder / ".git" / "refs" / "heads").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(head)
    (folder / "pyproject.toml").write_text("")
    return folder


def test_the_commit_of_a_checkout(tmp_path):
    folder = repository(tmp_path)
    assert version.commit_of_checkout(folder) is None  # no commit yet
    (folder / ".git" / "packed-refs").write_text(f"# pack-refs\n{OTHER} refs/heads/other\n{COMMIT} refs/heads/main\n")
    assert version.commit_of_checkout(folder) == COMMIT
    (folder / ".git" / "refs" / "heads" / "main").write_text(f"{OTHER}\n")
    assert version.commit_of_checkout(folder) == OTHER
    (folder / ".git" / "HEAD").write_text(f"{COMMIT}\n")
    assert version.commit_of_checkout(folder) == COMMIT
    (folder / "pyproject.toml").unlink()  # an environment that lies in some other repository
    assert version.commit_of_checkout(folder) is None


def test_the_commit_of_a_worktree(tmp_path):
    main = repository(tmp_path / "main")
    (main / ".git" / "refs" / "heads" / "mine").write_text(COMMIT)
    own = main / ".git" / "worktrees" / "mine"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/mine\n")
    (own / "commondir").write_text("../..\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "pyproject.toml").write_text("")
    (tmp_path / "tree" / ".git").write_text(f"gitdir: {own}\n")
    assert version.commit_of_checkout(tmp_path / "tree") == COMMIT


@pytest.mark.parametrize(
    ("direct_url", "commit"),
    [({"url": "https://example.org/m", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, COMMIT),
     ({"url": "file:///m", "dir_info": {}}, None), (None, None), ([], None)],
)  # fmt: skip
def test_the_commit_of_an_install_from_git(tmp_path, monkeypatch, direct_url, commit):
    info = tmp_path / "minidecode-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: minidecode\nVersion: 0.1.0\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))
    assert version.commit_of_install(tmp_path / "minidecode") == commit
    monkeypatch.setattr(version, "PACKAGE", tmp_path / "minidecode")
    assert version.version_line() == f"minidecode {md.__version__}" + (f" (commit {commit[:12]})" if commit else "")


# ---- cache and memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_cache_where_the_cache_is_meant(cli, name):
    """Memory is what a machine has: --memory-budget, planned memory."""
    text = " ".join(cli(name, "--help").out.split())
    assert not re.search(r"split memory|memory (dtype|type|per beam)", text)


def test_a_receipt_says_cache(cli, toy):
    lines = cli("generate", "the", "-m", toy, "--max-new-tokens", 2, "--receipt").err.splitlines()
    (plan,) = [line for line in lines if line.startswith("plan ")]
    assert "; cache minidecode.cache" in plan and "memory" not in plan
