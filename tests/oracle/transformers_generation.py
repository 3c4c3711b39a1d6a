"""Runs transformers' own generation tests with `md.accelerate` in every model, and counts what became of them.

    python tests/oracle/transformers_generation.py CHECKOUT [--theirs] [--json FILE] [arguments of pytest ...]

CHECKOUT: a clone of transformers, whose src/ and tests/ are used. Its tests also import parameterized, datasets and
timeout_decorator. Their models are tiny and of drawn weights: nothing is downloaded. --theirs: the same tests with
transformers' own generate.

Some inputs keep whole groups of tests from reaching what they test, so these are changed, and such tests are counted
apart: attentions and hidden states are neither asked for nor checked, nor are caches in outputs; masks that pad a
decoder's prompts on the right, or keep nothing of a text, become masks that keep all.
"""

import argparse
import collections
import functools
import json
import os
import sys
from pathlib import Path

import pytest

FAMILIES = (
    "bart",
    "gpt2",
    "gpt_bigcode",
    "llama",
    "marian",
    "mbart",
    "mistral",
    "mt5",
    "prophetnet",
    "qwen2",
    "t5",
    "umt5",
)
KINDS = {
    "passed": "passed as they are",
    "passed in part": "passed without attentions, hidden states and caches in outputs, or with full masks",
    "refused": "ended by a refusal of minidecode's",
    "failed": "failed",
    "no generate": "did not call generate",
    "skipped": "skipped by transformers itself",
}
INTERNALS = ("output_attentions", "output_hidden_states")
OF_INTERNALS = ("attentions", "encoder_attention", "hidden_states", "encoder_hidden_states", "past_key_values")


class Accelerating:
    """A plugin of pytest: models generate through minidecode, and each test gets one of KINDS."""

    def __init__(self, is_theirs: bool):
        self.is_theirs = is_theirs
        self.calls = 0
        self.is_changed = False  # whether a call of this test was changed
        self.results: dict[str, tuple[str, str]] = {}  # of each test: its kind and why

    def pytest_collection_modifyitems(self, items):
        """Keeps the tests of GenerationTesterMixin, and what a family has in place of one."""
        from tests.generation.test_utils import GenerationTesterMixin

        items[:] = [item for item in items if hasattr(GenerationTesterMixin, item.name)]
        if not self.is_theirs:
            for name in OF_INTERNALS:
                setattr(GenerationTesterMixin, f"_check_{name}_for_generate", lambda *_, **__: None)
            for cls in {item.cls for item in items}:
                cls.all_generative_model_classes = property(functools.partial(whole, cls.all_generative_model_classes))
        self.install()

    def install(self) -> None:
        """A model is accelerated at its first call of generate, when its test has made of it what it wants."""
        from transformers import GenerationMixin

        import minidecode as md
        from minidecode.live.accelerate import Accelerated

        theirs, answer = GenerationMixin.generate, Accelerated.__call__

        @functools.wraps(theirs)
        def generate(model, *args, **kwargs):
            self.calls += self.is_theirs
            if self.is_theirs:
                return theirs(model, *args, **kwargs)
            return md.accelerate(model).generate(*args, **kwargs)

        @functools.wraps(answer)
        def counted(side, *args, **kwargs):
            self.calls += 1
            kept = {name: value for name, value in kwargs.items() if name not in INTERNALS}
            mask = kept.get("attention_mask")
            if mask is not None and (
                not mask.any(-1).all() or (not side.live.config.is_encoder_decoder and (mask.diff() < 0).any())
            ):
                kept["attention_mask"] = mask.new_ones(mask.shape)
            self.is_changed |= len(kept) < len(kwargs) or kept.get("attention_mask") is not mask
            return answer(side, *args, **kept)

        GenerationMixin.generate, Accelerated.__call__ = generate, counted

    def pytest_runtest_setup(self):
        self.calls, self.is_changed = 0, False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.when == "call" or report.outcome != "passed":
            self.results[item.nodeid] = self.kind_of(report, call.excinfo)
        return report

    def kind_of(self, report, excinfo) -> tuple[str, str]:
        from minidecode import MinidecodeError

        if report.skipped:
            return "skipped", excinfo.exconly() if excinfo else ""
        if excinfo and isinstance(excinfo.value, MinidecodeError):
            return "refused", str(excinfo.value)
        if not self.calls:
            return "no generate", report.outcome
        return report.outcome + " in part" * (self.is_changed and report.passed), excinfo.exconly() if excinfo else ""


def whole(classes, test) -> tuple:
    """Of a test's classes those with their encoder, where there are any: a decoder alone is another model."""
    classes = classes.fget(test) if isinstance(classes, property) else classes
    return tuple(cls for cls in classes if "CausalLM" not in cls.__name__) or classes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=lambda name: Path(name).resolve())
    parser.add_argument("--theirs", action="store_true")
    parser.add_argument("--json", type=lambda name: Path(name).resolve())
    asked, rest = parser.parse_known_args()
    os.chdir(asked.checkout)
    sys.path[:0] = [str(asked.checkout), str(asked.checkout / "src")]
    os.environ |= {"HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    plugin = Accelerating(asked.theirs)
    files = [f"tests/models/{name}/test_modeling_{name}.py" for name in FAMILIES]
    pytest.main(["-q", "-p", "no:cacheprovider", "--tb=no", "-W", "ignore", *files, *rest], [plugin])
    counts = collections.Counter(kind for kind, _ in plugin.results.values())
    for kind, says in KINDS.items():
        print(f"{counts[kind]:5} {says}")
    print(f"{len(plugin.results):5} tests")
    if asked.json:
        asked.json.write_text(json.dumps(plugin.results, indent=1))


if __name__ == "__main__":
    main()
