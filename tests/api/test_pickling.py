"""A model in another process, or copied: it generates the same tokens, and its weights do not travel."""

import copy
import multiprocessing
import os
import pickle
import shutil

import cloudpickle
import joblib
import numpy as np
import pytest

import minidecode as md

PROMPT, HOW = "Fellow citizens,", {"max_new_tokens": 3}


@pytest.fixture(scope="module")
def model():
    return md.load("tiny-gpt2", generation_config={"num_beams": 2})


@pytest.fixture(scope="module")
def expected(model):
    return tokens(model)


def tokens(model):
    return model.generate(PROMPT, **HOW).token_ids[0].tolist()


@pytest.mark.parametrize("module", [pickle, cloudpickle])
def test_a_model_is_pickled_by_reference(model, expected, module):
    pickled = module.dumps(model)
    again = module.loads(pickled)
    assert len(pickled) < 5000 and tokens(again) == expected
    assert again.options().num_beams == 2 and again.plan == model.plan and repr(again) == repr(model)


def test_joblib_writes_and_reads_a_model(model, expected, tmp_path):
    joblib.dump(model, tmp_path / "model.joblib")
    assert tokens(joblib.load(tmp_path / "model.joblib")) == expected


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(md.bundled_models()["tiny-gpt2"], tmp_path / "copy")


def overwrite(path, begin, length):
    with path.open("r+b") as file:
        file.seek(begin, os.SEEK_SET if begin >= 0 else os.SEEK_END)
        file.write(b"abcd" * (length // 4))


CHANGES = {  # of a file of 12 MB
    "the first weights": lambda path: overwrite(path, 20_000, 4),
    "a layer in the middle": lambda path: overwrite(path, path.stat().st_size // 2, 48_000),
    "the last weight": lambda path: overwrite(path, -4, 4),
    "one byte more in the middle": lambda path: path.write_bytes(
        (data := path.read_bytes())[: 5 * 2**20 + 5000] + b"x" + data[5 * 2**20 + 5000 :]
    ),
    "another file": lambda path: overwrite(path.with_name("tokenizer.json"), 50, 4),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_pickle_refuses_files_that_have_changed(folder, change):
    pickled = pickle.dumps(md.load(folder))
    assert (folder / "model.safetensors").stat().st_size > 10**7
    change(folder / "model.safetensors")
    with pytest.raises(md.CheckpointError, match="holds other files than when the model was pickled"):
        pickle.loads(pickled)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_model_whose_files_are_gone_is_pickled_by_value(folder, dtype):
    model = md.load(folder, dtype=dtype)
    expected = tokens(model)
    shutil.rmtree(folder)
    again = pickle.loads(pickle.dumps(model))
    assert tokens(again) == expected and not again.weights.blocks[0].up.data.flags.writeable


def test_random_weights_are_made_again():
    model = md.load("tiny-gpt2", random_weights=True)
    assert tokens(pickle.loads(pickle.dumps(model))) == tokens(model)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_shares_weights_and_nothing_that_changes(model, expected, copied):
    other = copied(model)
    assert tokens(other) == expected and np.shares_memory(
        other.weights.blocks[0].up.data, model.weights.blocks[0].up.data
    )
    other.defaults["num_beams"] = 3
    assert other.options().num_beams == 3 and model.options().num_beams == 2


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_another_process_generates_the_same(model, expected, method):
    """fork: after a generation, whose worker threads the child does not have."""
    with multiprocessing.get_context(method).Pool(1) as pool:
        output = pool.apply_async(model.generate, (PROMPT,), HOW).get(timeout=60)
    assert output.token_ids[0].tolist() == expected and output.texts == model.generate(PROMPT, **HOW).texts
