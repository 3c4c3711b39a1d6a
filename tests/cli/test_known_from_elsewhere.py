"""Options as other programs call them, and typos: each is taken, or answered by the name to type, at once."""

from __future__ import annotations

import pytest
import typer

import minidecode as md
from minidecode.commands.cli import app
from minidecode.commands.elsewhere import ANSWERS
from minidecode.files import hub
from minidecode.options.options import resolve


def commands():
    """(name, command) of all, those of groups too."""
    root = typer.main.get_command(app)
    for name, command in root.commands.items():
        yield name, command
        yield from ((f"{name} {below}", c) for below, c in getattr(command, "commands", {}).items())


def test_what_a_command_writes_has_one_name():
    spelled = {name: {o for p in command.params for o in p.opts if p.name == "output"} for name, command in commands()}
    writers = [
        "generate",
        "trace",
        "explore",
        "plan",
        "compare",
        "ladder",
        "evaluate",
        "embed",
        "convert",
        "import",
        "tutorial",
    ]
    assert {name for name, flags in spelled.items() if flags == {"--output", "-o"}} == {*writers, "project race"}
    every = {o for _, command in commands() for p in command.params for o in p.opts}
    assert not every & {"--out", "--svg", "--html", "--plot", "--output-texts"}


@pytest.mark.parametrize(("arguments", "says"), [
    (["generate", "x", "--stream"], "a single text is shown as it grows"),
    (["generate", "x", "--use-cache"], "--plan cache=none"), (["generate", "x", "--use_cache"], "--plan cache=none"),
    (["generate", "x", "--n-predict", 3], "say --max-new-tokens"), (["ladder", "--gpu"], "No such option: --gpu"),
    (["trace", "-p", "x"], "a prompt stands without an option"), (["generate", "--file", "x"], "say --input"),
])  # fmt: skip
def test_options_of_other_programs_are_answered_by_name(fails, arguments, says):
    assert says in fails(*arguments, code=2)


def test_answers_name_options_that_there_are():
    known = {name for _, command in commands() for p in command.params for name in p.opts}
    for option, (needed, words) in ANSWERS.items():
        assert option not in known - {"-f"}, "an answer that nobody gets"
        assert {needed, *(w.strip(",:") for w in words.split() if w.startswith("--"))} <= known | {""}, option


def test_options_may_have_underscores(cli, toy):
    how = ["generate", "the", "-m", toy, "-q"]
    dashes = cli(*how, "--max-new-tokens", 3, "--no-repeat-ngram-size", 2)
    assert cli(*how, "--max_new_tokens", 3, "--no_repeat_ngram_size=2") == dashes and dashes.code == 0
    assert cli(*how, "--max-tokens", 3, "--no-repeat-ngram-size", 2) == dashes


@pytest.mark.parametrize("flags", [
    ["--dialect", "hg"], ["--num-beams", 0], ["--top-k", "-1", "--do-sample"], ["--length-normalization", "log"],
    ["--json-schema", "no-file.json"],
])  # fmt: skip
def test_a_wrong_value_is_answered_before_a_model_is_loaded(fails, monkeypatch, flags):
    monkeypatch.setattr(md, "load", lambda *_, **__: pytest.fail("it takes its time"))
    assert flags[0] in fails("generate", "x", *flags)


@pytest.mark.parametrize(("arguments", "says"), [
    (["generate", "x", "--memory-budget", "2XB"], "available (what is left) or none (no limit), not '2XB'"),
    (["generate", "x", "--on-error", "skp"], "--on-error must be"), (["score", "x", "--on-error", "skp"], "--on-error"),
    (["evaluate", "x", "--on-error", "record"], "--on-error must be stop or skip"),
    (["evaluate", "x", "--dtype", "float32", "--dtype", "in8"], "did you mean int8"),
    (["trace", "x", "--plan", "fst"], "did you mean fast"), (["explore", "x", "--plan", "fst"], "did you mean fast"),
    (["trace", "x", "--against", "plan=fst"], "did you mean fast"),
    (["trace", "x", "--against", "num_beam=2"], "did you mean"),
    (["trace", "x", "--against", "fairsq"], "such as 'num_beams=2', not 'fairsq'; did you mean fairseq?"),
    (["ladder", "--machine", "v10"], "there is no machine 'v10'"),
    (["ladder", "--memory-budget", "much"], "must be bytes"),
])  # fmt: skip
def test_so_it_is_in_other_commands(fails, monkeypatch, arguments, says):
    monkeypatch.setattr(md, "load", lambda *_, **__: pytest.fail("it takes its time"))
    assert says in fails(*arguments)


@pytest.mark.parametrize(("name", "meant"), [("tiny-gpt3", "tiny-gpt2"), ("tiny_gpt2", "tiny-gpt2"),
                                             ("smollm", "smollm2")])  # fmt: skip
def test_a_name_that_is_almost_one_of_ours_asks_no_network(monkeypatch, name, meant):
    monkeypatch.setattr(hub, "fetch_model_folder", lambda *_, **__: pytest.fail("it takes its time"))
    with pytest.raises(md.CheckpointError, match=f"did you mean {meant}"):
        md.load(name)


def test_a_misspelt_option_of_generate_names_what_is_meant():
    model = md.load("tiny-gpt2")
    ids = model.generate("Peace", max_new_tokens=3).token_ids[0]
    assert model.generate("Peace", max_new_tokens=3, use_cache=True).token_ids[0].tolist() == ids.tolist()
    for given, says in [
        ({"use_cache": False}, 'plan="cache=none"'), ({"stream": True}, "model.stream"),
        ({"beam_size": 2}, "num_beams"), ({"output_attentions": True}, "minidecode explore"),
    ]:  # fmt: skip
        with pytest.raises(md.OptionError, match=says):
            model.generate("Peace", **given)
    with pytest.raises(md.OptionError, match="texts leave them out"):
        resolve({}, {"skip_special_tokens": True})


def test_one_text_of_one_call():
    model = md.load("tiny-gpt2")
    out = model.generate("Peace", max_new_tokens=3)
    assert out.text == out.texts[0]
    with pytest.raises(md.OptionError, match=r"there are 2 texts: read texts, such as out\.texts\[0\]"):
        model.generate(["Peace", "War"], max_new_tokens=3).text  # noqa: B018


def test_logits_of_a_text_says_how():
    model = md.load("tiny-gpt2")
    for given in ("Peace", ["Peace", "War"]):
        with pytest.raises(md.InputError, match=r"pass \[model\.tokenizer\.encode\(text\)\], or call score\(text\)"):
            model.logits(given)
    assert len(model.logits([model.tokenizer.encode("Peace")])) == 1


def test_a_prompt_of_nothing_is_told_what_there_is():
    model = md.load("tiny-gpt2")
    says = r'to start from nothing, give "<\|endoftext\|>"$'
    with pytest.raises(md.InputError, match=says):
        model.generate("")
    by_id = model.generate(input_ids=[[0]], max_new_tokens=2)
    assert model.generate("<|endoftext|>", max_new_tokens=2).text == by_id.text
