"""What a client may ask for: the fields of OpenAI's requests, as options of `generate`.

Unknown fields are ignored, as OpenAI's own server ignores some. A known field with a bad value is refused by its name.
Options of `generate` that OpenAI does not have go by their own names: clients put them into `extra_body`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import MinidecodeError, shown
from ..options.options import MAXIMA
from ..options.typed_dict import GenerateOptions

MOST_TEXTS, MOST_PROMPTS, MOST_STOPS, MOST_BIASES, MOST_LOGPROBS = 128, 256, 16, 1024, 20
DEFAULT_TOKENS = 16  # of a completion, as at OpenAI
# Options that are ignored, as unknown fields are: functions, files, and what no answer has a place for.
NOT_BY_NETWORK = {
    "prefix_allowed_tokens_fn", "logits_processor", "stopping_criteria", "generation_config",
    "use_cache", "return_dict_in_generate", "output_scores", "output_logits", "output_attentions",
    "output_hidden_states",
}  # fmt: skip
NOT_HERE = {  # fields of OpenAI, and options, that would change the answer; and the value that changes nothing
    "presence_penalty": (0, "use repetition_penalty"), "frequency_penalty": (0, "use repetition_penalty"),
    "suffix": ("", "no model here fills in"), "tools": ([], "no model here calls tools"),
    "functions": ([], "no model here calls functions"), "audio": (None, "texts alone are served"),
    "guidance_scale": (1, "rows of a running batch have no guidance"),
    "max_time": (None, "the server's --timeout ends requests"),
    "keep_stop_strings": (False, "a text ends before its stop string"),
    **dict.fromkeys(
        ("prompt_lookup_num_tokens", "num_assistant_tokens"), (None, "a running batch drafts no tokens")),
    "num_return_sequences": (1, "use n"), "stop_strings": (None, "use stop"), "sequence_bias": (None, "use logit_bias"),
}  # fmt: skip
OWN_OPTIONS = set(GenerateOptions.__annotations__) - NOT_BY_NETWORK - set(NOT_HERE)


class FieldError(MinidecodeError, ValueError):
    """A field of a request has a value that cannot be used."""

    def __init__(self, name: str, message: str):
        super().__init__(message)
        self.name = name


@dataclass
class Asked:
    """A request as it was read."""

    prompts: list[Any]  # texts, or lists of token ids; of a conversation its messages alone
    options: dict[str, Any] = field(default_factory=dict)
    n: int = 1
    logprobs: int | None = None
    echo: bool = False
    stream: bool = False
    usage_chunk: bool = False
    sample_id: int = 0  # tells equal prompts of different requests apart
    only_scored: bool = False  # max_tokens=0 with echo


def parse_completion(body: dict[str, Any]) -> Asked:
    """A body of /v1/completions. Raises FieldError."""
    asked = Asked(_read_prompts(body.get("prompt")), echo=_read_flag(body, "echo"))
    _read_common_fields(body, asked)
    asked.logprobs = _read_number(body, "logprobs", 0, MOST_LOGPROBS)
    limit = _read_number(body, "max_tokens", 0, 2**31)
    if limit == 0 and not asked.echo:
        raise FieldError("max_tokens", "max_tokens must be at least 1, or 0 with echo")
    asked.only_scored = limit == 0
    _read_token_limit(asked, limit, DEFAULT_TOKENS)
    if asked.echo and asked.stream:
        raise FieldError("echo", "echo and stream do not go together: leave one of them out")
    best_of = _read_number(body, "best_of", 1, MOST_TEXTS)
    if best_of is not None and best_of != asked.n:
        raise FieldError("best_of", f"best_of must be n ({asked.n}), or left out: use num_beams for a wider search")
    return asked


def parse_chat(body: dict[str, Any]) -> Asked:
    """A body of /v1/chat/completions. Raises FieldError."""
    asked = Asked([_read_messages(body.get("messages"))])
    _read_common_fields(body, asked)
    top = _read_number(body, "top_logprobs", 0, MOST_LOGPROBS)
    if _read_flag(body, "logprobs"):
        asked.logprobs = top or 0
    elif top is not None:
        raise FieldError("top_logprobs", "top_logprobs needs logprobs: true")
    limits = [_read_number(body, name, 1, 2**31) for name in ("max_completion_tokens", "max_tokens")]
    _read_token_limit(asked, next((limit for limit in limits if limit is not None), None), None)
    wanted = body.get("response_format")
    if wanted is not None:
        _read_response_format(wanted, asked)
    return asked


def _read_common_fields(body: dict[str, Any], asked: Asked) -> None:
    """The fields that both kinds of requests have."""
    for name, (harmless, instead) in NOT_HERE.items():
        if body.get(name) not in (None, harmless):
            raise FieldError(name, f"{name} is not served: {instead}, or leave it out")
    asked.n = _read_number(body, "n", 1, MOST_TEXTS) or 1
    asked.stream = _read_flag(body, "stream")
    said = body.get("stream_options")
    if said is not None:
        if not isinstance(said, dict) or not isinstance(said.get("include_usage", False), bool):
            raise FieldError("stream_options", 'stream_options must be an object such as {"include_usage": true}')
        if not asked.stream:
            raise FieldError("stream_options", "stream_options needs stream: true")
        asked.usage_chunk = bool(said.get("include_usage"))
    for name in OWN_OPTIONS & set(body):
        if body[name] is not None:
            asked.options[name] = body[name]
    if (schema := asked.options.get("json_schema")) is not None and not isinstance(schema, dict):
        raise FieldError("json_schema", "json_schema must be an object")  # a text could name a file
    asked.options |= {"num_return_sequences": asked.n} | _read_search_fields(body, asked)
    if stops := _read_stops(body.get("stop")):
        asked.options["stop_strings"] = stops
    if biases := _read_logit_bias(body.get("logit_bias")):
        asked.options["sequence_bias"] = biases


def _read_search_fields(body: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """Sampling at temperature 1, as at OpenAI, unless temperature is 0 or beams are asked for."""
    temperature = _read_decimal(body, "temperature", 0.0, 100.0)
    top_p = _read_decimal(body, "top_p", 0.0, 1.0)
    seed = _read_number(body, "seed", -(2**63), 2**64 - 1)
    beams = _read_number(body, "num_beams", 1, 2**16) or 1
    samples = body.get("do_sample")
    if samples is None:
        samples = beams == 1 and temperature != 0.0
    elif not isinstance(samples, bool):
        raise FieldError("do_sample", f"do_sample must be true or false, not {shown(samples)}")
    given = asked.options
    for name in ("temperature", "top_p", "seed"):
        given.pop(name, None)
    if not samples:
        if beams == 1 and asked.n > 1:
            raise FieldError("n", f"n is {asked.n}, and the likeliest text is one: raise temperature, or num_beams")
        return {"do_sample": False}
    if temperature == 0.0:
        raise FieldError("temperature", "temperature 0 does not sample: leave out do_sample")
    chosen: dict[str, Any] = {"do_sample": True, "top_k": given.get("top_k", 0)}
    if seed is None:  # equal prompts draw apart; requests without a seed have their options in common
        asked.sample_id = secrets.randbits(62)
    else:
        chosen["seed"] = seed % 2**64
    if temperature is not None:
        chosen["temperature"] = temperature
    if top_p is not None:
        chosen["top_p"] = max(top_p, 1e-9)  # 0 is the likeliest token, there and here
    return chosen


def _read_token_limit(asked: Asked, limit: int | None, default: int | None) -> None:
    """Most new tokens: OpenAI's field goes before options of `generate`, and those before the default."""
    limit = default if limit is None and not set(MAXIMA) & set(asked.options) else limit
    if limit:
        for name in MAXIMA:
            asked.options.pop(name, None)
        asked.options["max_new_tokens"] = limit


def _read_prompts(given: Any) -> list[Any]:
    if isinstance(given, str) or _is_ids(given):
        return [given]
    if isinstance(given, list) and given and all(isinstance(p, str) or _is_ids(p) for p in given):
        if len(given) > MOST_PROMPTS:
            raise FieldError("prompt", f"prompt holds {len(given)} prompts: send at most {MOST_PROMPTS} at once")
        return given
    raise FieldError("prompt", f"prompt must be a text, a list of token ids, or a list of either, not {shown(given)}")


def _is_ids(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(_is_whole(i) and 0 <= i < 2**31 for i in given)


def _read_messages(given: Any) -> list[dict[str, Any]]:
    """Messages whose contents are texts: parts of type text are put together."""
    if not isinstance(given, list) or not given:
        raise FieldError("messages", f"messages must be a list of messages, at least one, not {shown(given)}")
    read = []
    for number, message in enumerate(given):
        name = f"messages[{number}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise FieldError(name, f'{name} must be an object such as {{"role": "user", "content": "..."}}')
        content = message.get("content")
        if isinstance(content, list):
            parts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
                     for part in content]  # fmt: skip
            if any(not isinstance(part, str) for part in parts):
                raise FieldError(f"{name}.content", f"{name}.content must be text, or parts of type text")
            content = "".join(parts)
        if not isinstance(content, str):
            raise FieldError(f"{name}.content", f"{name}.content must be text, not {shown(content)}")
        read.append({"role": message["role"], "content": content})
    return read


def _read_response_format(wanted: Any, asked: Asked) -> None:
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "json_object":
        asked.options["json_schema"] = {"type": "object"}
    elif kind == "json_schema" and isinstance(wanted.get("json_schema"), dict):
        schema = wanted["json_schema"].get("schema")
        if not isinstance(schema, dict):
            raise FieldError("response_format", "response_format.json_schema.schema must be an object")
        asked.options["json_schema"] = schema
    elif kind != "text":
        raise FieldError("response_format", "response_format.type must be text, json_object or json_schema")


def _read_stops(given: Any) -> list[str]:
    stops = [given] if isinstance(given, str) else given or []
    if not isinstance(stops, list) or len(stops) > MOST_STOPS or not all(isinstance(s, str) and s for s in stops):
        raise FieldError("stop", f"stop must be a text, or at most {MOST_STOPS} that are not empty, not {shown(given)}")
    return stops


def _read_logit_bias(given: Any) -> dict[tuple[int, ...], float]:
    """{"id": bias} -> {(id,): bias}"""
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > MOST_BIASES:
        raise FieldError("logit_bias", f"logit_bias must be an object of at most {MOST_BIASES} ids and biases")
    biases = {}
    for token, bias in given.items():
        if not token.isdecimal() or len(token) > 9:
            raise FieldError("logit_bias", f"logit_bias: {shown(token)} is no token id")
        if not _is_number(bias) or not -100 <= bias <= 100:
            raise FieldError("logit_bias", f"logit_bias: the bias of {token} must be from -100 to 100")
        biases[(int(token),)] = float(bias)
    return biases


def _read_flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise FieldError(name, f"{name} must be true or false, not {shown(value)}")
    return bool(value)


def _read_number(body: dict[str, Any], name: str, least: int, most: int) -> int | None:
    return _check_within(body, name, least, most, _is_whole, "an integer")


def _read_decimal(body: dict[str, Any], name: str, least: float, most: float) -> float | None:
    value = _check_within(body, name, least, most, _is_number, "a number")
    return None if value is None else float(value)


def _check_within(
    body: dict[str, Any], name: str, least: Any, most: Any, fits: Callable[[Any], bool], what: str
) -> Any:
    value = body.get(name)
    if value is None:
        return None
    if not fits(value) or not least <= value <= most:
        raise FieldError(name, f"{name} must be {what} from {least} to {most}, not {shown(value)}")
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
