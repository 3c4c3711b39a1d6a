"""`minidecode convert`: a folder with fewer key/value heads, or one made of a fairseq checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import OptionError
from .completion import complete_model
from .flags import AsJson, Debug, Revision, output_flag
from .progress_bar import bar


def convert(
    model: Annotated[str, typer.Argument(autocompletion=complete_model,
        metavar="FOLDER", help="A model folder, a bundled model or a hub id; or a fairseq checkpoint, FILE.pt.")],
    output: Annotated[Path, output_flag("The new folder: it appears whole, or not at all.")],
    kv_heads: Annotated[int | None, typer.Option(help="Key/value heads of the new model; 1 makes it multi-query.")]
    = None,
    source_lang: Annotated[str | None, typer.Option(help="SRC of a checkpoint's dict.SRC.txt, if it does not say.")]
    = None,
    target_lang: Annotated[str | None, typer.Option(help="TGT of a checkpoint's dict.TGT.txt, if it does not say.")]
    = None,
    revision: Revision = None, as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """Pool key/value heads, or read a fairseq checkpoint.

    With --kv-heads, each new head is the mean of several: a different model, which needs training.

    Of a checkpoint, FILE.pt, it makes a model folder. The dictionaries and BPE codes must lie beside FILE.pt.
    """
    import numpy as np

    with np.errstate(all="ignore"), bar("converting", quiet=False) as report:
        run = _fairseq if model.endswith(".pt") else _fewer_heads
        result = run(model, output, kv_heads, revision, source_lang, target_lang, report)
    print(json.dumps(result.as_dict()) if as_json else result)


def _fairseq(model, out, kv_heads, revision, source_lang, target_lang, report):
    from ..files.fairseq_folder import convert_fairseq

    if kv_heads is not None or revision is not None:
        what = "--kv-heads is for folders: convert the checkpoint first, and then its folder"
        raise OptionError(what if kv_heads is not None else "--revision is for models on the hub: leave it out")
    return convert_fairseq(model, out, source_lang=source_lang, target_lang=target_lang, progress=report)


def _fewer_heads(model, out, kv_heads, revision, source_lang, target_lang, report):
    from ..files.head_pooling import convert as run

    if kv_heads is None:
        raise OptionError("--kv-heads is missing: say how many key/value heads the new model has, such as 1")
    if source_lang is not None or target_lang is not None:
        raise OptionError("--source-lang and --target-lang are for fairseq checkpoints: leave them out")
    return run(model, out, num_key_value_heads=kv_heads, revision=revision, progress=report)
