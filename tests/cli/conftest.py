"""What the tests of the command line share."""

from __future__ import annotations

import pytest
from toy_folder import CONFIG, toy_tensors, toy_vocabulary, write_bart_folder


@pytest.fixture
def toy(tiny_folder):
    return tiny_folder()


@pytest.fixture
def toy_bart(tmp_path):
    return write_bart_folder(tmp_path / "toy-bart")


@pytest.fixture
def fails_on_z(tiny_folder):
    """A model whose scores turn NaN for prompts with the letter z, and for no others."""
    tensors = toy_tensors(CONFIG | {"tie_word_embeddings": False})
    tensors["wte.weight"][toy_vocabulary()["z"]] = float("nan")
    tensors["lm_head.weight"][toy_vocabulary()["z"]] = -1e3 * tensors["ln_f.bias"]  # and z is never generated
    tensors["ln_f.weight"][:] = 0.0
    return tiny_folder(tensors=tensors, tie_word_embeddings=False)


@pytest.fixture
def fails(cli):
    """Runs a command that must fail -> its one line on stderr."""

    def run(*arguments, code: int = 1, **options) -> str:
        ran = cli(*arguments, **options)
        assert ran.code == code, ran
        assert ran.err.startswith("minidecode: ") and ran.err.count("\n") == 1 and ran.err.endswith("\n"), ran.err
        assert "Traceback" not in ran.err
        assert ran.out == ""
        return ran.err

    return run
