"""`minidecode convert`: a folder with fewer key/value heads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import OptionError
from .completion import complete_model
from .flags import AsJson, Debug, Revision, output_flag
from .progress_bar import progress_bar


def convert(
    model: Annotated[str, typer.Argument(autocompletion=complete_model,
        metavar="FOLDER", help="A model folder, a bundled model or a hub id.")],
    output: Annotated[Path, output_flag("The new folder: it appears whole, or not at all.")],
    kv_heads: Annotated[int | None, typer.Option(help="Key/value heads of the new model; 1 makes it multi-query.")]
    = None,
    revision: Revision = None, as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """Pool key/value heads.

    Each new head is the mean of several: a different model, which needs training.
    """
    import numpy as np

    from ..files.head_pooling import convert as run

    if model.endswith(".pt"):
        raise OptionError(f"{model} is no folder: say minidecode import {model}, and convert its folder if you need to")
    if kv_heads is None:
        raise OptionError("--kv-heads is missing: say how many key/value heads the new model has, such as 1")
    with np.errstate(all="ignore"), progress_bar("converting", quiet=False) as report:
        result = run(model, output, num_key_value_heads=kv_heads, revision=revision, progress=report)
    print(json.dumps(result.as_dict()) if as_json else result)
