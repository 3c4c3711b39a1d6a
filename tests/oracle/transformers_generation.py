"""Runs transformers' own generation tests with `md.accelerate` in every model, and counts what became of them.

    python tests/oracle/transformers_generation.py CHECKOUT [arguments of pytest ...]

CHECKOUT: a clone of transformers, whose src/ and tests/ are used. Its tests also import parameterized, datasets and
timeout_decorator. Their models are tiny and of drawn weights: nothing is downloaded.

Some arguments keep tests from reaching what they test. They are changed, and such tests are counted apart: attentions
and hidden states are neither asked for nor checked, nor are caches in outputs; a mask that pads on the other side than
minidecode takes, or keeps nothing of a text, keeps all.
"""

import collections
import functools
import os
import sys

import pytest

FAMILIES = ["bart", "gpt2", "gpt_bigcode", "llama", "marian", "mbart", "mistral", "mt5", "prophetnet", "qwen2", "t5"]
FAMILIES += ["umt5"]
OF_TORCH = {
    "test_generate_compilation_all_outputs", "test_generate_compile_model_forward_fullgraph",
    "test_generate_with_static_cache", "test_generate_continue_from_past_key_values",
    "test_static_cache_no_recompile_with_smaller_length",
}  # fmt: skip
KINDS = {
    "passed": "passed as they are",
    "passed in part": "passed without attentions, hidden states and caches in outputs, or with full masks",
    "refused": "ended by a refusal of minidecode's",
    "failed": "failed",
    "of torch": "look for a compiled forward pass, or for a cache in the output",
    "no generate": "did not call generate",
    "skipped": "skipped by transformers itself",
}
INTERNALS = ("output_attentions", "output_hidden_states")
OF_INTERNALS = ("attentions", "encoder_attention", "hidden_states", "encoder_hidden_states", "past_key_values")


class Accelerating:
    """A plugin of pytest: models generate through minidecode, and each test gets one of KINDS."""

    def __init__(self) -> None:
        self.calls, self.is_changed = 0, False  # of this test: calls of ours, and whether arguments were changed
        self.results: dict[str, tuple[str, str]] = {}  # of each test: its kind and why

    def pytest_collection_modifyitems(self, items):
        """Keeps the tests of GenerationTesterMixin, and what a family has in place of one."""
        from tests.generation.test_utils import GenerationTesterMixin

        items[:] = [item for item in items if hasattr(GenerationTesterMixin, item.name)]
        for name in OF_INTERNALS:
            setattr(GenerationTesterMixin, f"_check_{name}_for_generate", lambda *_, **__: None)
        for cls in {item.cls for item in items}:
            cls.all_generative_model_classes = property(functools.partial(whole, cls.all_generative_model_classes))
        self.install()

    def install(self) -> None:
        """A model is accelerated at a call of generate, when its test has made of it what it wants."""
        from transformers import GenerationMixin

        import minidecode as md

        @functools.wraps(GenerationMixin.generate)
        def generate(model, *args, **kwargs):
            kept = {name: value for name, value in kwargs.items() if name not in INTERNALS}
            ids, mask, pad = kept.get("input_ids"), kept.get("attention_mask"), model.generation_config.pad_token_id
            if mask is None and ids is not None and pad is not None:
                mask = (ids != pad).long()  # as transformers finds it
            step = 1 if model.config.is_encoder_decoder else -1
            if mask is not None and (not mask.any(-1).all() or (mask.diff() == step).any()):
                kept["attention_mask"] = mask.new_ones(mask.shape)
            self.is_changed |= len(kept) < len(kwargs) or kept.get("attention_mask") is not kwargs.get("attention_mask")
            try:
                self.calls += 1
                return md.accelerate(model).generate(*args, **kept)
            finally:
                md.restore(model)  # so that the next call comes by here

        GenerationMixin.generate = generate

    def pytest_runtest_setup(self):
        from tests.test_modeling_common import global_rng
        from transformers import set_seed

        global_rng.seed(0)
        set_seed(0)
        self.calls, self.is_changed = 0, False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.when == "call" or report.outcome != "passed":
            self.results[item.nodeid] = self.kind_of(item.name, report, call.excinfo)
        return report

    def kind_of(self, name, report, excinfo) -> tuple[str, str]:
        from minidecode import MinidecodeError

        if report.skipped:
            return "skipped", excinfo.exconly() if excinfo else ""
        if excinfo and isinstance(excinfo.value, MinidecodeError):
            return "refused", str(excinfo.value)
        if name in OF_TORCH and report.failed:
            return "of torch", excinfo.exconly()
        if not self.calls:
            return "no generate", report.outcome
        return report.outcome + " in part" * (self.is_changed and report.passed), excinfo.exconly() if excinfo else ""


def whole(classes, test) -> tuple:
    """Those with their encoder, where there are any: a decoder alone is another model."""
    classes = classes.fget(test) if isinstance(classes, property) else classes
    return tuple(cls for cls in classes if "CausalLM" not in cls.__name__) or classes


def main() -> None:
    checkout, *rest = sys.argv[1:]
    os.chdir(checkout)
    sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "src")]
    os.environ |= {"HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    plugin = Accelerating()
    files = [f"tests/models/{name}/test_modeling_{name}.py" for name in FAMILIES]
    pytest.main(["-q", "-p", "no:cacheprovider", "--tb=no", "-W", "ignore", *files, *rest], [plugin])
    counts = collections.Counter(kind for kind, _ in plugin.results.values())
    for kind, says in KINDS.items():
        print(f"{counts[kind]:5} {says}")
    print(f"{len(plugin.results):5} tests. Those that were refused or failed:")
    reasons = collections.Counter(result for result in plugin.results.values() if result[0] in ("refused", "failed"))
    for (kind, why), count in reasons.most_common():
        print(f"{count:5} {kind}: {why.splitlines()[0]}")


if __name__ == "__main__":
    main()
