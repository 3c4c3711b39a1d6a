"""`minidecode trace`: the steps in print, in JSON and as a picture, and where two searches part."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

import minidecode as md

BEAM = ["trace", "a story", "--beam", 3, "--max-new-tokens", 5]


def test_the_steps_are_those_of_the_search(cli, toy):
    ran = cli(*BEAM, "-m", toy, "--json")
    shown = json.loads(ran.out)
    out = md.load(toy).generate("a story", num_beams=3, max_new_tokens=5, trace=True)
    assert shown["steps"] == json.loads(json.dumps(out.trace.as_list()))
    assert shown["texts"][0]["text"] == out.texts[0] and shown["against"] is shown["against_steps"] is None


def test_print_names_every_step_and_ends_with_the_texts(cli, toy):
    ran = cli(*BEAM, "-m", toy, "--no-repeat-ngram-size", 1)
    assert ran.code == 0
    assert re.findall(r"^step (\d)$", ran.out, re.M) == list("12345")
    assert "becomes beam 0" in ran.out and "not among the best" in ran.out
    assert "no_repeat_ngram_size changed" in ran.out and "texts, best first" in ran.out


def test_greedy_search_and_groups_too(cli, toy):
    greedy = cli("trace", "a story", "-m", toy).out
    assert greedy.count("becomes beam 0") == 7 and greedy.count("finished") == 1
    ran = cli(*BEAM[:3], 4, "--num-beam-groups", 2, "--diversity-penalty", 1.0, "-m", toy)
    assert "step 8, group 2" in ran.out


def test_the_picture_is_an_svg_of_all_candidates(cli, toy, tmp_path):
    path = tmp_path / "tree.svg"
    ran = cli(*BEAM, "-m", toy, "--output", path)
    assert ran.code == 0
    root = ElementTree.parse(path).getroot()[2]  # behind the title and the background, the only group
    steps = json.loads(cli(*BEAM, "-m", toy, "--json").out)["steps"]
    assert len(root.findall("{http://www.w3.org/2000/svg}g")) == sum(len(s["candidates"]) for s in steps)
    bold = [g for g in root.iter() if g.get("font-weight") == "bold"]
    assert len(bold) == 5, "the path of the best text"


def test_the_picture_holds_every_diverse_group(cli, toy, tmp_path):
    groups = ["--num-beam-groups", 2, "--diversity-penalty", 1.0]
    assert cli(*BEAM[:3], 4, *groups, "-m", toy, "--output", tmp_path / "tree.svg").code == 0
    text = (tmp_path / "tree.svg").read_text(encoding="utf-8")
    assert ">group 1<" in text and ">group 2<" in text


def test_other_groups_are_told_apart_by_their_groups(cli, toy):
    groups = ["--num-beam-groups", 2, "--diversity-penalty", 1.0]
    ran = cli(*BEAM[:3], 4, *groups, "-m", toy, "--eos-token-id", 3, "--against", "dialect=fairseq")
    assert "groups" in ran.out.splitlines()[-1] or "are looked at" in ran.out.splitlines()[-1], ran.out


@pytest.mark.parametrize(
    ("against", "says"),
    [("plan=cache=none", "all 5 steps agree, and so do the texts: they never part"),
     ("no_repeat_ngram_size=1", r"step \d: other candidates. no_repeat_ngram_size changed 0 of these in the first"),
     ("num_beams=2", r"step 1: other candidates"),
     ("bad_words_ids=[[3,4],[5]],length_penalty=0.5", r"agree|step \d"),
     ("dialect=hf4,max_new_tokens=3", r"step \d")],
)  # fmt: skip
def test_where_two_searches_part(cli, toy, against, says):
    ran = cli(*BEAM, "-m", toy, "--against", against)
    last = ran.out.splitlines()[-1]
    assert last.startswith(f"against {against}: ") and re.search(says, last), last


def test_bad_input_is_one_line(cli, toy):
    for options in [["--against", "latin"], ["--against", "dialect=latin"], ["--top-p", 0.5]]:
        ran = cli(*BEAM, "-m", toy, *options)
        assert ran.code == 1 and ran.out == "" and ran.err.count("\n") == 1, ran.err


def test_two_dialects_are_named_and_their_rules_told(cli, toy):
    """A dialect alone is short for dialect=..; --json has the step, the kind and the rules beside the words."""
    asked = [*BEAM, "-m", toy, "--dialect", "hf4", "--against", "fairseq", "--eos-token-id", 3]
    last = cli(*asked).out.splitlines()[-1]
    assert last.startswith("against fairseq: step 5: other candidates. end_at_limit changed 0 of these in hf4 and ")
    assert "hf4: at the limit, the 3 running beams count as finished. fairseq: at the limit, EOS is forced." in last
    said = json.loads(
        cli(*BEAM, "-m", toy, "--dialect", "hf4", "--against", "fairseq", "--eos-token-id", 3, "--json").out
    )
    parting = said["parting"]
    assert said["against"] == parting["text"] == last.removeprefix("against fairseq: ")
    assert (parting["step"], parting["kind"], parting["names"]) == (5, "candidates", ["hf4", "fairseq"])
    assert parting["rules"]["limit"][1] == "at the limit, EOS is forced"
