"""`minidecode trace`: a search, step by step."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import OptionError, counted, did_you_mean
from ..files.lines import check_picture
from ..lines.records import number_or_null
from ..options.dialects import DIALECTS
from ..options.options import check_names
from ..plan import Plan
from ..runtime.parting import find_parting
from ..runtime.trace import FATES
from .flags import (
    Debug,
    Device,
    Dtype,
    LatentNumbers,
    LatentSeed,
    ModelName,
    PlanText,
    latent_options,
    output_flag,
    warn_of_files,
)
from .search_flags import set_limit, with_search_options
from .whole_file import whole_file


@with_search_options
def trace(
    prompt: Annotated[str, typer.Argument(help="The text to continue, or the source.")],
    model: ModelName = "tiny-gpt2",
    latent: LatentNumbers = None,
    latent_seed: LatentSeed = None,
    plan: PlanText = "auto",
    dtype: Dtype = "float32",
    device: Device = "cpu",
    output: Annotated[Path | None, output_flag("Draw the beam tree into this file.")] = None,
    against: Annotated[str | None, typer.Option(metavar="DIALECT|OPTION=VALUE,..",
        help="Search again in this dialect, or with these changed; show where and why they part.")]
    = None,
    as_json: Annotated[bool, typer.Option("--json", help="All steps as JSON.")] = False,
    debug: Debug = False,
    *, options: dict[str, Any], defaults: dict[str, Any],
):  # fmt: skip
    """Show a search step by step: candidates, scores and beams.

    Also what was ruled out, why, and which beam each candidate becomes. Without a limit, the first 8 new tokens.
    """
    import numpy as np

    from .. import load
    from ..model import OF_A_CALL

    if output is not None:
        check_picture(output)
    set_limit(options, 8)
    warn_of_files(plan)
    changed = _parse_changes(against)
    for each in (plan, changed.get("plan", "auto")):
        Plan.parse(each)
    check_names({name for name in changed if name not in OF_A_CALL})
    warn_of_files(str(changed.get("plan", "")), "--against")
    with np.errstate(all="ignore"):
        loaded = load(model, dtype=dtype, device=device, **defaults)
        options |= latent_options(latent, latent_seed)
        out = loaded.generate(prompt, plan=plan, trace=True, **options)
        other = loaded.generate(prompt, trace=True, **({"plan": plan} | options | changed)) if changed else None
    write = _word_writer(loaded.tokenizer)

    def word_of_token(i: int) -> str:
        return write([i])

    if output is not None:
        from ..search.beam_tree import draw_beam_tree

        with whole_file(output) as file:
            file.write(draw_beam_tree(out.trace.of(0), [ids.tolist() for ids in out.token_ids], word_of_token))
    parting = None
    if other:
        of_search = [{n: v for n, v in o.items() if n not in OF_A_CALL} for o in (options, options | changed)]
        both = [loaded.options(**o) for o in of_search]
        names = ("the first", str(against))
        if both[0].dialect != both[1].dialect:
            names = (both[0].dialect, both[1].dialect)
        parting = _parting_as_json(out, other, both, names, word_of_token)
    if as_json:
        record = {
            "prompt": prompt,
            "steps": out.trace.as_list(),
            "texts": [{"text": t, "score": number_or_null(s)} for t, s in zip(out.texts, out.scores, strict=True)],
            "against": parting and parting["text"],
            "parting": parting,
            "against_steps": other and other.trace.as_list(),
        }
        print(json.dumps(record, ensure_ascii=False))
        return
    for step in out.trace.of(0):
        _print_step(step, write)
    print("texts, best first")
    for text, score in zip(out.texts, out.scores, strict=True):
        print(f"  {score:8.4f}  {text!r}")
    if parting:
        print(f"\nagainst {against}: {parting['text']}")


def _parse_changes(text: str | None) -> dict[str, Any]:
    """Options from "fairseq" or "dialect=fairseq,num_beams=2"; values are JSON where they can be, else words."""
    changes = {}
    if text in DIALECTS:
        return {"dialect": text}
    for part in filter(None, re.split(r",(?=\s*[\w-]+=)", text or "")):
        name, equals, value = part.partition("=")
        if not equals:
            near = did_you_mean(part, DIALECTS)
            raise OptionError(
                f"--against must be a dialect ({', '.join(DIALECTS)}), or OPTION=VALUE such as 'num_beams=2', not"
                f" {part!r:.80}{near}"
            )
        try:
            changes[name.strip().replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            changes[name.strip().replace("-", "_")] = value.strip()
    return changes


def _parting_as_json(out, other, options, names: tuple[str, str], word: Callable[[int], str]) -> dict[str, Any]:
    """The parting of two searches, as JSON."""
    same_texts = [a.tolist() for a in out.token_ids] == [b.tolist() for b in other.token_ids]
    parting = find_parting((out.trace.of(0), other.trace.of(0)), tuple(options), names, same_texts, word)
    outcome = "the same texts" if same_texts else "other texts"
    end = "" if parting.step is None else f" In the end {outcome} come out."
    return {
        "kind": parting.kind, "step": parting.step, "names": names, "same_texts": same_texts, "rules": parting.rules,
        "text": parting.in_words(names) + end,
    }  # fmt: skip


def _word_writer(tokenizer) -> Callable[[list[int]], str]:
    """What to print for token ids, one or those of a beam: tokens of some models have their spaces among others."""
    if tokenizer is None:
        return lambda ids: " ".join(map(str, ids))
    return lambda ids: tokenizer.decode(ids, keep_special=True).replace("\n", "\\n")


def _print_step(step, write: Callable[[list[int]], str]) -> None:
    group = f", group {step.group + 1}" if step.group else ""
    print(f"step {step.step + 1}{group}")
    for w, running in enumerate(step.running):
        print(f"  beam {w}: {write(running)!r}")
    for c in step.candidates:
        fate = f"becomes beam {c.beam}" if c.beam is not None else FATES[c.fate]
        print(f"  {c.score:10.4f}  beam {c.parent} + {write([c.token])!r:<16} {fate}")
    for name, pairs in step.changed.items():
        shown = ", ".join(f"beam {w} {write([v])!r}" for w, v in pairs[:6])
        print(f"  {name} changed {counted(len(pairs), 'score')}: {shown}{', ...' if len(pairs) > 6 else ''}")
