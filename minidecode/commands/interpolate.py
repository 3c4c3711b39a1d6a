"""`minidecode interpolate`: texts on the way from one to another, by a model with a latent."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ..errors import OptionError
from .flags import AsJson, Debug, Device, Dtype, ModelName, PlanText, Revision, warn_of_files
from .search_flags import with_search_options


@with_search_options
def interpolate(
    first: Annotated[str, typer.Argument(help="The text to begin with.")],
    last: Annotated[str, typer.Argument(help="The text to end with.")],
    model: ModelName = "tiny-latent",
    revision: Revision = None,
    steps: Annotated[int, typer.Option(help="Texts to write, the two ends included.")] = 5,
    plan: PlanText = "auto", dtype: Dtype = "float32", device: Device = "cpu",
    as_json: AsJson = False, debug: Debug = False,
    *, options: dict[str, Any], defaults: dict[str, Any],
):  # fmt: skip
    """Turn one text into another, step by step (gpt2_latent).

    The encoder reads a latent from each text, and the decoder writes a text from each point between the two.
    """
    import numpy as np

    from .. import load

    if options.pop("truncate"):
        raise OptionError("truncate is for prompts and sources: the two texts of interpolate are read whole")
    warn_of_files(plan)
    with np.errstate(all="ignore"):
        loaded = load(model, plan=plan, dtype=dtype, device=device, revision=revision, **defaults)
        out = loaded.interpolate(first, last, steps=steps, **options)
    each = len(out.texts) // steps  # num_return_sequences
    for number, text in enumerate(out.texts):
        line = {"step": number // each, "text": text}
        print(json.dumps(line, ensure_ascii=False) if as_json else text.replace("\n", "\\n"))
