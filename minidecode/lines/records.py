"""One line of an input: parsed from text or JSON, and filled in by each stage that it passes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import numbers
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InputError, LineError, MinidecodeWarning, OptionError
from ..options.options import MAXIMA, Options
from ..search.constraints import Constraint

if TYPE_CHECKING:
    import numpy as np

    from ..model import Model
    from ..runtime.output import LogProbs
    from ..runtime.receipt import DraftCounts

# What a line cannot set for itself, and might mean to: its other fields are its own business.
OPTIONS_OF_ALL_LINES = {"max_tokens"} | {f.name for f in dataclasses.fields(Options)} - {"max_new_tokens", "seed"}


@dataclass
class Line:
    """One line on its way: each stage fills in what it makes. `texts`, `token_ids` and `scores` are best first."""

    number: int  # in the input, from 1
    given: Any
    record: dict[str, Any] | None = None  # the line as an object: {"prompt": text} and what else was in it
    ids: np.ndarray | None = None  # the tokens of the prompt, or of the source
    options: dict[str, Any] = field(
        default_factory=dict
    )  # of `generate`, for this line alone; see `check_line_options`
    prefix: np.ndarray | None = None  # the tokens that its new text must begin with
    target: np.ndarray | None = None  # where scores are asked for: the tokens of what is scored given the prompt
    batch: int = 0  # from 1
    copy: int = 0  # when sampling: how many lines before had the same prompt, which tells their samples apart
    texts: list[str] = field(default_factory=list)
    token_ids: list[np.ndarray] = field(default_factory=list)
    scores: Any = field(default_factory=list)  # a number for each of the texts; or the `Scores` of this one
    finish_reasons: list[str | None] = field(default_factory=list)
    log_probs: list[LogProbs] | None = None  # if they were asked for
    drafts: list[DraftCounts] | None = None  # of each text, where tokens were drafted
    rendered: Any = None  # what `render` made of it
    error: LineError | None = None  # and then nothing else counts

    @property
    def kind(self) -> tuple:
        """Lines of one kind can be generated together."""
        return self.prefix is not None, *sorted(self.options.items())


def read_record(
    given: str | bytes | dict[str, Any], jsonl: bool, where: str, what: str = "prompt", may_skip: bool = False
) -> dict[str, Any]:
    """A line as an object with a "prompt". Raises InputError that begins with `where`.

    what: another word for it. may_skip: whether the command has --on-error skip, which an error then names.
    """
    if isinstance(given, dict):
        return checked_record(given, where)
    is_of_a_file = isinstance(given, bytes)
    if isinstance(given, bytes):
        given = decode_line(given, where)
    if not isinstance(given, str):
        raise InputError(f"{where} is no text, but {given!r:.80}")
    if not given.strip():
        of_line = f"each line is a {what}; delete it{', or say --on-error skip' if may_skip else ''}"
        remedy = of_line if is_of_a_file else "give it some text, or leave it out"
        raise InputError(f"{where} is blank: {remedy}")
    if not jsonl:
        return {"prompt": given}
    try:
        record = json.loads(given, parse_constant=_no_constant)
        json.dumps(record, ensure_ascii=False).encode()  # its fields go out again: half a surrogate pair could not
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not JSON: {error.msg}, at column {error.colno}") from None
    except UnicodeEncodeError:
        raise InputError(f"{where} holds half a surrogate pair (\\ud800 to \\udfff): that is no text") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}") from None
    return checked_record(record, where)


def decode_line(line: bytes, where: str) -> str:
    """The text of a line. Raises InputError that begins with `where` on one that is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise InputError(f"{where} is not UTF-8: byte 0x{byte:02x}; convert it to UTF-8 first") from None


def checked_record(record: Any, where: str) -> dict[str, Any]:
    """Returns the record, if it is an object with a text under "prompt"."""
    if not isinstance(record, dict) or not isinstance(record.get("prompt"), str):
        raise InputError(f'{where} should be an object with a text under "prompt", as in {{"prompt": "Once"}}')
    return record


class Copies:
    """Numbers lines of one prompt and one seed: 0, 1, 2 and so on, which tells their samples apart."""

    def __init__(self, seed: int):
        self.seed, self.seen = seed, Counter[bytes]()

    def count_earlier_and_add(self, record: dict[str, Any]) -> int:
        """How many records before this one had its prompt, and the same seed, of the line's own or of the call."""
        seed = self.seed if record.get("seed") is None else record["seed"]
        drawn_from = f"{seed} {record['prompt']}"
        key = hashlib.blake2b(drawn_from.encode("utf-8", "surrogatepass"), digest_size=16).digest()  # less than a text
        self.seen[key] += 1
        return self.seen[key] - 1


def check_line_options(record: dict[str, Any], where: str, context: int) -> dict[str, Any]:
    """The options of `generate` that a line sets for itself alone; null leaves an option to the call.

    context: how many tokens the model holds. The values can be hashed: lines of equal ones are generated together.
    Raises InputError, which names the key and its range.
    """
    options: dict[str, Any] = {}
    for key, least, most in (("max_new_tokens", 1, context), ("seed", 0, 2**64 - 1)):
        if (value := record.get(key)) is None:
            continue
        is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not is_whole or not least <= value <= most:
            raise InputError(f'{where}: "{key}" is {value!r:.80}: give an integer from {least} to {most}')
        options[key] = int(value)
    if (stops := record.get("stop")) is not None:
        stops = [stops] if isinstance(stops, str) else stops
        if not isinstance(stops, list) or not all(isinstance(s, str) and s for s in stops):
            raise InputError(f'{where}: "stop" is {stops!r:.80}: give a text, or a list of texts, none of them empty')
        options["stop_strings"] = tuple(stops)
    return options


def merge_options(model: Model, options: dict[str, Any], of_line: dict[str, Any]) -> dict[str, Any]:
    """The options of a call as a line's own ones change them: its limit replaces every spelling of the call's.

    keep_stop_strings is for the lines that have stop strings, and left out of those that have none.
    """
    replaced = {*MAXIMA, "max_len_a"} if "max_new_tokens" in of_line else set()
    merged = {name: value for name, value in options.items() if name not in replaced} | of_line
    if not merged.get("stop_strings", model.defaults.get("stop_strings")):
        merged.pop("keep_stop_strings", None)
    return merged


def tokenize_line(
    model: Model, line: Line, where: str, options: dict[str, Any], resolved: Options, truncate: bool, chat: bool = False
) -> Options:
    """Fills in the tokens, the own options and the prefix of a line that is read -> the options that it runs under.

    options, resolved: those of the call, as given and as the model reads them. chat: the prompt is what a user says in
    a conversation. Raises what `generate` would.
    """
    record = line.record
    assert record is not None  # it has been read
    line.options = check_line_options(record, where, model.config.context)
    for name in sorted(OPTIONS_OF_ALL_LINES & record.keys()):
        warnings.warn(
            f'"{name}" in a line changes nothing: give it for all lines '
            '(a line may set "max_new_tokens", "seed", "stop" and "prefix")',
            MinidecodeWarning,
            stacklevel=2,
        )
    if line.options:
        try:
            resolved = model.options(**merge_options(model, options, line.options))
        except OptionError as error:
            raise InputError(f"{where}: {error}") from None
    line.ids = model.tokenize(record["prompt"], resolved, truncate=truncate, chat=chat)
    line.prefix = _tokenize_prefix(model, record, line.ids, where, resolved)
    return resolved


def _tokenize_prefix(
    model: Model, record: dict[str, Any], prompt_ids: np.ndarray, where: str, options: Options
) -> np.ndarray | None:
    """The tokens of a line's "prefix"; None if it has none. Raises InputError if no text can begin with it."""
    text = record.get("prefix")
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        raise InputError(f'{where}: "prefix" is {text!r:.80}: give the text that the new text begins with')
    assert model.tokenizer is not None  # it has read the prompt
    encode = model.tokenizer.encode_target if model.is_encoder_decoder else model.tokenizer.encode
    ids, around = encode(text), encode("")  # what a tokenizer puts around each text
    if len(around) and ids[-1] == around[-1]:
        ids = ids[:-1]  # BART's end of text
    if len(around) and ids[0] == around[0] and not model.has_encoder:
        ids = ids[1:]  # the prompt begins with it, or UniLM's source
    if any(i in options.eos_token_id for i in ids):
        raise InputError(f'{where}: "prefix" holds the end of text: leave it out there')
    *_, (limit,) = model.inputs.fit_call(None, [prompt_ids], None, options, None)
    if len(ids) >= limit:  # the last place is that of the end of text
        remedy = f"give one of at most {limit - 1}, or a larger max_new_tokens"
        raise InputError(f'{where}: "prefix" has {len(ids)} tokens, and {limit} new ones are allowed: {remedy}')
    constraint = Constraint.make(options, model.tokenizer, model.config.generated_vocab_size)
    if constraint is not None and not constraint.allows_prefix(ids, limit):
        allowed = f"{constraint.name} allows within {limit} tokens"
        raise InputError(f'{where}: "prefix" begins no text that {allowed}: give another, or a larger max_new_tokens')
    return ids


def make_line_renderer(as_json: bool, tokenizer: Any = None) -> Callable[[Line], str]:
    """What a line becomes in the output: one JSON object, or a line for each of its texts, line breaks written as \\n.

    The object has the fields of the input, then "line" (its number), then "hypotheses" or "error". These three replace
    fields of their names: a record of another run can be an input, and comes without what was said of it then.
    tokenizer: for the text of each token, beside log-probabilities.
    """

    def text_of(token_id: int) -> str:
        return tokenizer.decode([token_id], keep_special=True)

    def as_object(line: Line) -> str:
        ours = ("line", "hypotheses", "error")
        record = {name: value for name, value in (line.record or {}).items() if name not in ours}
        record["line"] = line.number
        if line.error:
            record["error"] = str(line.error)
        else:
            parts = zip(line.texts, line.token_ids, line.scores, line.finish_reasons, strict=True)
            record["hypotheses"] = [
                {"text": text, "token_ids": ids.tolist(), "score": number_or_null(score), "finish_reason": reason}
                for text, ids, score, reason in parts
            ]
            for hypothesis, log_probs in zip(record["hypotheses"], line.log_probs or (), strict=False):
                hypothesis["token_texts"] = [text_of(i) for i in hypothesis["token_ids"]]
                hypothesis["token_logprobs"] = [number_or_null(p) for p in log_probs.token_R]
                if log_probs.best:
                    hypothesis["top_logprobs"] = [
                        [[i, number_or_null(p), text_of(i)] for i, p in step.items()] for step in log_probs.top_by_step
                    ]
            for hypothesis, drafts in zip(record["hypotheses"], line.drafts or (), strict=False):
                hypothesis["drafts"] = dataclasses.asdict(drafts)
        return json.dumps(record, ensure_ascii=False) + "\n"

    def as_texts(line: Line) -> str:
        return "".join(text.replace("\n", "\\n") + "\n" for text in line.texts)

    return as_object if as_json else as_texts


def number_or_null(score: float) -> float | None:
    """The score as JSON can hold it: null for a place that no text fills."""
    return float(score) if math.isfinite(score) else None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number there")
