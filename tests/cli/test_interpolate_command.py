"""`minidecode interpolate`, and latents of `minidecode generate`: thin over Model.interpolate and Model.generate."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import minidecode as md

sys.path.append(str(Path(__file__).parents[1] / "integration"))

from latent_oracle import write_model

LIMIT = ("--max-new-tokens", "6", "--ignore-eos")
HOW = {"max_new_tokens": 6, "eos_token_id": None}


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path / "toy", "plain")


def lines(texts):
    return "".join(text.replace("\n", "\\n") + "\n" for text in texts)


def test_texts_come_line_by_line(cli, folder):
    ran = cli("interpolate", "the", "e the", "-m", folder, "--steps", "4", *LIMIT, "--beam", "2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == lines(md.load(folder).interpolate("the", "e the", steps=4, num_beams=2, **HOW).texts)


def test_json_has_an_object_for_each(cli, folder):
    ran = cli("interpolate", "the", "e the", "-m", folder, "--json", *LIMIT)
    found = [json.loads(line) for line in ran.out.splitlines()]
    texts = md.load(folder).interpolate("the", "e the", **HOW).texts
    assert found == [{"step": number, "text": text} for number, text in enumerate(texts)] and len(texts) == 5


def test_several_texts_of_a_step_have_its_number(cli, folder):
    ran = cli(
        "interpolate", "the", "e the", "-m", folder, "--json", *LIMIT, "--steps", "3", "--beam", "2", "--nbest", "2"
    )
    found = [json.loads(line) for line in ran.out.splitlines()]
    texts = md.load(folder).interpolate("the", "e the", steps=3, num_beams=2, num_return_sequences=2, **HOW).texts
    assert [line["text"] for line in found] == texts
    assert [line["step"] for line in found] == [0, 0, 1, 1, 2, 2]


def test_generate_takes_a_latent(cli, folder, tmp_path):
    z_Z = [0.5, -1.0, 2.0, 0.25, -0.75]
    np.save(tmp_path / "z.npy", np.array(z_Z))
    right = md.load(folder).generate(["the", "e"], latent=z_Z, **HOW).texts
    for given in ("0.5,-1,2,0.25,-0.75", tmp_path / "z.npy"):
        ran = cli("generate", "the", "e", "-m", folder, f"--latent={given}", *LIMIT, "--quiet")
        assert (ran.code, ran.out) == (0, lines(right))
    alone = cli("generate", "the", "-m", folder, f"--latent={given}", *LIMIT, "--quiet")
    assert alone.out == lines(right[:1])


def test_generate_draws_latents(cli, folder):
    texts = ["the", "e", "the"]
    right = md.load(folder).generate(texts, latent_seed=7, **HOW)
    ran = cli("generate", *texts, "-m", folder, "--latent-seed", "7", "--batch-size", "2", *LIMIT, "--json", "--quiet")
    found = [json.loads(line)["hypotheses"][0] for line in ran.out.splitlines()]
    assert [text["token_ids"] for text in found] == [ids.tolist() for ids in right.token_ids]
    assert np.allclose([text["score"] for text in found], right.scores, rtol=1e-5)
    assert abs(right.scores[0] - right.scores[2]) > 0.1  # two latents, although the prompts are equal


def test_trace_shows_the_search_from_a_latent(cli):
    """Its tokens have their spaces among other tokens alone."""
    how = {"latent_seed": 7, "num_beams": 2, "max_new_tokens": 4}
    out = md.load("tiny-latent").generate("the", trace=True, **how)
    ran = cli("trace", "the", "-m", "tiny-latent", "--latent-seed", "7", "--beam", "2", "--max-new-tokens", "4")
    written = [out.tokenizer.decode(beam) for step in out.trace.of(0) for beam in step.running]
    assert re.findall(r"^  beam \d: '(.*)'$", ran.out, re.M) == written
    assert written[-2].count(" ") == 2


@pytest.mark.parametrize(
    ("arguments", "say"),
    [(["interpolate", "a", "b", "-m", "TOY", "--steps", "1"], "steps must be an integer from 2 to 65,536"),
     (["interpolate", "a", "b", "-m", "TOY", "--truncate"], "truncate is for prompts and sources: the two texts"),
     (["interpolate", "a", "b", "-m", "tiny-gpt2"], "encode_latent: a gpt2 model has no latent: use one of type"),
     (["generate", "a", "-m", "TOY", "--latent", "1,x"], "--latent takes numbers with commas between them, or a .npy"),
     (["generate", "a", "-m", "TOY", "--latent", "none.npy"], "--latent: none.npy cannot be read"),
     (["generate", "a", "-m", "TOY", "--latent", "1,2"], "latent has shape (2,): give (5,) for all sentences"),
     (["generate", "a", "-m", "TOY", "--latent-seed", "-1"], "--latent-seed must be an integer from 0"),
     (["trace", "a", "-m", "TOY", "--latent", "1,2"], "latent has shape (2,): give (5,) for all sentences"),
     (["generate", "a", "-m", "tiny-gpt2", "--latent-seed", "1"], "--latent-seed: a gpt2 model has no latent")],
)  # fmt: skip
def test_errors_are_one_line(fails, folder, arguments, say):
    message = fails(*(folder if a == "TOY" else a for a in arguments))
    assert say in message


def test_a_damaged_file_of_a_latent_is_one_line(fails, folder, tmp_path):
    np.save(tmp_path / "whole.npy", np.ones(5))
    np.savez(tmp_path / "several.npz", np.ones(5))
    whole = (tmp_path / "whole.npy").read_bytes()
    files = {"empty": b"", "cut": whole[:-1], "several": (tmp_path / "several.npz").read_bytes(),
             "lie": whole.replace(b"(5,), }         ", b"(500000000000,)}")}  # fmt: skip
    assert files["lie"] != whole
    for name, data in files.items():
        (tmp_path / f"{name}.npy").write_bytes(data)
        message = fails("generate", "a", "-m", folder, "--latent", str(tmp_path / f"{name}.npy"))
        assert f"{name}.npy cannot be read (" in message and "write it with numpy.save" in message
