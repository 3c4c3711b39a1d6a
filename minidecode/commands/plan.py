"""`minidecode plan`: the arena of a decode step, planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..files.lines import check_picture
from .completion import complete_model
from .flags import AsJson, Debug, Dtype, PlanText, output_flag, refuse_given_options, warn_of_files
from .search_flags import with_search_options
from .whole_file import whole_file


@with_search_options
def plan(
    context: typer.Context,
    model: Annotated[str, typer.Argument(autocompletion=complete_model,
        help="A bundled model, a model folder, a hub id, or the name of a published"
                                         " shape (gpt2, bart-base, t5-base and others). No"
                                         " weights are needed.")] = "tiny-gpt2",
    batch_size: Annotated[int, typer.Option(help="Prompts, or sources, generated together.")] = 1,
    input_length: Annotated[int, typer.Option(help="The most tokens of each.")] = 1,
    vocab_size: Annotated[int | None, typer.Option(min=1, help="Another vocabulary than the model's.")] = None,
    plan: PlanText = "auto",
    dtype: Dtype = "float32",
    output: Annotated[Path | None, output_flag("Draw the plan into this file: calls against offsets.")] = None,
    as_json: AsJson = False, debug: Debug = False,
    *, options: dict[str, Any], defaults: dict[str, Any],
):  # fmt: skip
    """Plan the memory of a decode step, an offset per array.

    A dry run of one step at the largest shapes that the options allow (--beam, --max-new-tokens, ...) finds when each
    is alive. The largest are printed; --json has all of them.
    """
    from ..loading import load_shapes

    options.pop("truncate")
    refuse_given_options(context, ("truncate",), "on a plan, which is made for --input-length tokens")
    if output is not None:
        check_picture(output)
    warn_of_files(plan)
    loaded = load_shapes(model, plan=plan, dtype=dtype, vocab_size=vocab_size, **defaults)
    step = loaded.plan_step(batch_size=batch_size, input_length=input_length, **options)
    if output is not None:
        from ..runtime.plan_picture import draw_plan

        with whole_file(output) as file:
            file.write(draw_plan(step, f"{model}: a step of {step.extent}"))
    print(json.dumps(step.as_dict()) if as_json else step)
