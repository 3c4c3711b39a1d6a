"""`minidecode explore`: one generation under several plans, as a page to look at."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..files.lines import path_to_write
from ..plan import Plan
from .completion import complete_plan
from .flags import AsJson, Debug, Dtype, ModelName, Revision, output_flag, warn_of_files
from .search_flags import with_search_options
from .whole_file import whole_file

PAGE = Path("out.html")
NEW_TOKENS, BEAMS = 16, 4  # of a call that does not say


@with_search_options
def explore(
    prompt: Annotated[str, typer.Argument(help="The text to continue, or the source.")],
    model: ModelName = "tiny-gpt2",
    revision: Revision = None,
    plan: Annotated[list[str] | None, typer.Option(autocompletion=complete_plan,
        help="A plan to run under; may repeat.  [default: cache=replicated and cache=split]")] = None,
    dtype: Dtype = "float32",
    output: Annotated[Path | None, output_flag("Write the page into this file; an existing one is replaced."
                                              "  [default: out.html; with --json none]")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
    *, options: dict[str, Any], defaults: dict[str, Any],
):  # fmt: skip
    """Write a page that shows a generation step by step.

    It shows each op of the forward pass, candidates, the beam tree, what the caches hold under each plan, and queries,
    keys, values and attention by head. The page needs no network. Without a limit, 16 new tokens; without a search,
    4 beams.
    """
    import numpy as np

    from .. import load
    from ..course.explore.exploration import PLANS
    from ..course.explore.exploration import explore as explored

    path = output or (None if as_json else PAGE)
    if path is not None:
        path_to_write(path)
    limits = ("max_new_tokens", "max_length", "max_len_b", "match_source_len")
    if all(options.get(name) is None for name in limits):
        options["max_new_tokens"] = NEW_TOKENS
    if not options.get("do_sample"):
        options.setdefault("num_beams", BEAMS)
    plans = plan or list(PLANS)
    for each in plans:
        warn_of_files(each)
        Plan.parse(each)
    with np.errstate(all="ignore"):
        loaded = load(model, dtype=dtype, revision=revision, **defaults)
        seen = explored(loaded, prompt, plans=plans, **options)
    if path is not None:
        page = seen.html()
        with whole_file(path) as file:
            file.write(page)
    if as_json:
        print(json.dumps(seen.data, ensure_ascii=False))
    elif path is not None:
        print(seen.data["runs"][0]["texts"][0]["text"].replace("\n", "\\n"))
    if path is not None:
        print(f"minidecode: {path} ({len(page.encode()) / 1e6:.1f} MB): open it in a browser", file=sys.stderr)
