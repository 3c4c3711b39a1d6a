"""`minidecode convert`: a folder with fewer key/value heads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .completion import complete_model
from .flags import AsJson, Debug, Revision
from .progress_bar import bar


def convert(
    model: Annotated[str, typer.Argument(autocompletion=complete_model,
        metavar="FOLDER", help="A model folder, a bundled model or a hub id.")],
    kv_heads: Annotated[int, typer.Option(help="Key/value heads of the new model; 1 makes it multi-query.")],
    out: Annotated[Path, typer.Option(readable=False, help="The new folder: it appears whole, or not at all.")],
    revision: Revision = None, as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """Make a model with fewer key/value heads.

    Each is the mean of several. It is a different model, which needs training.
    """
    import numpy as np

    from ..files.head_pooling import convert as run

    with np.errstate(all="ignore"), bar("converting", quiet=False) as report:
        result = run(model, out, num_key_value_heads=kv_heads, revision=revision, progress=report)
    print(json.dumps(result.as_dict()) if as_json else result)
