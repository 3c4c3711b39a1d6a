"""`minidecode import`: a model folder of a file that another program wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, OptionError
from .flags import AsJson, Debug, output_flag
from .progress_bar import progress_bar


def import_file(
    source: Annotated[Path, typer.Argument(help="A checkpoint of fairseq, FILE.pt.")],
    output: Annotated[Path, output_flag("The new folder: it appears whole, or not at all.")],
    source_lang: Annotated[str | None, typer.Option(help="SRC of a checkpoint's dict.SRC.txt, if it does not say.")]
    = None,
    target_lang: Annotated[str | None, typer.Option(help="TGT of a checkpoint's dict.TGT.txt, if it does not say.")]
    = None,
    as_json: AsJson = False, debug: Debug = False,
):  # fmt: skip
    """Make a model folder of another program's file.

    Of fairseq, FILE.pt: a Transformer, a BART or a language model. Nothing in the file is run. Its folder must hold
    the dictionaries and the BPE codes, too.
    """
    import numpy as np

    if not source.is_file():
        raise InputError(
            f"{source} is {'a folder' if source.is_dir() else 'no file'}: name a checkpoint, such as model.pt"
        )
    if source.suffix != ".pt":
        raise OptionError(f"{source} is of no kind that is read: name a checkpoint of fairseq, such as model.pt")
    from ..files.fairseq_folder import convert_fairseq

    with np.errstate(all="ignore"), progress_bar("importing", quiet=False) as report:
        result = convert_fairseq(source, output, source_lang=source_lang, target_lang=target_lang, progress=report)
    print(json.dumps(result.as_dict()) if as_json else result)
