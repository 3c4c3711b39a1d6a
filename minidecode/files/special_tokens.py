"""The special tokens of a folder: which role each has, and what else the settings files mark as special.

tokenizer.json marks special tokens, and has no roles. tokenizer_config.json and special_tokens_map.json say the roles
(`eos_token`) and list more tokens; either may name tokens that tokenizer.json holds as ordinary ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, shown
from .stored import read_json

ROLES = tuple(f"{role}_token" for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
LISTS = ("extra_special_tokens", "additional_special_tokens")  # the first is the newer name
Described = dict[str, Any]  # a token as files describe it: its content, and how it takes the space around it


@dataclass(frozen=True)
class SpecialTokens:
    """named: by role, such as eos_token, or a name that the model gave, such as image_token. more: without a role."""

    named: dict[str, Described]
    more: list[Described]

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], older: Mapping[str, Any], defaults: Mapping[str, str]
    ) -> SpecialTokens:
        """Special tokens of tokenizer_config.json and special_tokens_map.json, over those that the tokenizer's class
        has itself.

        As in transformers, the newer files hold all in tokenizer_config.json (`added_tokens_decoder` tells them), and
        special_tokens_map.json counts where that is not so. There it goes first.
        """
        named: dict[str, Any] = dict(defaults)
        more: list[Any] = []
        for fields in (settings, {} if "added_tokens_decoder" in settings else older):
            named |= {name: token for name, token in fields.items() if name.endswith("_token")}
            for listed in (fields.get(name) for name in LISTS):
                if isinstance(listed, dict):
                    named |= listed
                elif isinstance(listed, list) and listed:
                    more += listed
                    break
        described = {name: _describe_token(token) for name, token in named.items()}
        extra = [token for token in map(_describe_token, more) if token is not None]
        return cls({name: token for name, token in described.items() if token is not None}, extra)

    @property
    def texts_by_role(self) -> dict[str, str]:
        """{eos_token: its text, ...}: what a chat template may name."""
        return {name: token["content"] for name, token in self.named.items()}

    @property
    def all_tokens(self) -> list[Described]:
        """All of them, in the order in which new ones get their ids; what is said twice, once."""
        roles = [self.named[role] for role in ROLES if role in self.named]
        tokens = [*roles, *(token for name, token in self.named.items() if name not in ROLES), *self.more]
        return list({json.dumps(token, sort_keys=True): token for token in tokens}.values())


def _describe_token(token: Any) -> Described | None:
    """A token that is named by its text alone, or described; None of what is no token."""
    described = {"content": token} if isinstance(token, str) else token
    if not isinstance(described, dict) or not isinstance(described.get("content"), str) or not described["content"]:
        return None
    return described | {"special": True}


def added_tokens(folder: Path, settings: Mapping[str, Any]) -> tuple[list[tuple[int, Any]], bool]:
    """((id, what the token is) by id, whether the files describe them: else their texts and ids are all they say).

    Newer folders describe them in tokenizer_config.json; older ones have added_tokens.json.
    """
    newer = settings.get("added_tokens_decoder")
    is_described = isinstance(newer, dict)
    older = {} if is_described else token_settings(folder, "added_tokens.json")
    pairs = newer.items() if is_described else [(id, {"content": token}) for token, id in older.items()]
    return sorted(((_id(id, folder), token) for id, token in pairs), key=lambda pair: pair[0]), is_described


def _id(id: Any, folder: Path) -> int:
    if isinstance(id, str) and id.isascii() and id.isdecimal() and len(id) < 10:  # as the names of JSON are
        id = int(id)
    if isinstance(id, bool) or not isinstance(id, int) or not 0 <= id < 2**31:
        raise CheckpointError(f"{folder}: an added token has an id that is no integer from 0 up: {shown(id, 40)}")
    return id


def token_settings(folder: Path, file: str = "tokenizer_config.json") -> dict[str, Any]:
    """The fields of a settings file; none where the folder has no such file."""
    return read_json(folder / file) if (folder / file).exists() else {}
