"""How a folder says that texts become vectors: the files of sentence-transformers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, OptionError
from .stored import read_json, read_json_list

POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens"}


@dataclass(frozen=True)
class SentenceSettings:
    """How texts are prepared, a pooling of rows, whether vectors are divided by their length, and the most tokens."""

    pooling: str = "mean"
    normalize: bool = False
    max_tokens: int | None = None  # None: the model's context
    prompt: str = ""  # what stands in front of each text
    lowers: bool = False
    refused: str = ""  # what the files ask for and is not supported

    @classmethod
    def from_folder(cls, folder: Path) -> SentenceSettings:
        """What modules.json and the files that it names say; without it, the mean of all rows."""
        if not (folder / "modules.json").is_file():
            return cls()
        modules, max_tokens, lowers = read_json_list(folder / "modules.json"), None, False
        if (path := folder / "sentence_bert_config.json").is_file():
            fields = read_json(path)
            max_tokens, lowers = fields.get("max_seq_length"), fields.get("do_lower_case") is True
            if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 2):
                raise CheckpointError(f"{path}: max_seq_length must be an integer from 2, not {max_tokens!r:.40}")
        if max_tokens is None and (path := folder / "tokenizer_config.json").is_file():
            most = read_json(path).get("model_max_length")  # transformers writes 1e30 where there is no limit
            max_tokens = most if type(most) is int and 2 <= most < 2**31 else None
        kinds = [str(module.get("type")).rpartition(".")[2] for module in modules if isinstance(module, dict)]
        prompt = _default_prompt(folder)
        if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
            refused = f"modules.json asks for {', '.join(kinds)[:80]}"
            return cls(max_tokens=max_tokens, prompt=prompt, lowers=lowers, refused=refused)
        name = modules[1].get("path")
        if not isinstance(name, str) or Path(name).name != name or not os.path.isdir(folder / name):
            raise CheckpointError(f"{folder / 'modules.json'}: {name!r:.60} is no folder beside it")
        fields = read_json(folder / name / "config.json")
        pooling, refused = _pooling_of_fields(fields)
        if prompt and fields.get("include_prompt") is False:
            refused = refused or "the pooling leaves out the rows of the prompt (include_prompt)"
        return cls(pooling, "Normalize" in kinds, max_tokens, prompt, lowers, refused)

    def prepare_text(self, text: str) -> str:
        """A text as sentence-transformers hands it to the tokenizer."""
        text = self.prompt + text
        return text.lower() if self.lowers else text

    def choose_settings(self, pooling: str | None, normalize: bool | None) -> tuple[str, bool]:
        """(pooling, whether to normalize), by default those of the files. Raises OptionError on other pooling."""
        if pooling is None and self.refused:
            raise OptionError(f"{self.refused}, which is not supported: choose pooling=mean, cls, max or pooler")
        if pooling not in (None, *POOLINGS, "pooler"):
            raise OptionError(f"pooling must be mean, cls, max or pooler, not {pooling!r}")
        return pooling or self.pooling, self.normalize if normalize is None else normalize


def _default_prompt(folder: Path) -> str:
    """The prompt that config_sentence_transformers.json puts in front of texts by default; mostly there is none."""
    path = folder / "config_sentence_transformers.json"
    fields = read_json(path) if path.is_file() else {}
    if (name := fields.get("default_prompt_name")) is None:
        return ""
    prompts = fields.get("prompts")
    prompt = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
    if not isinstance(prompt, str):
        raise CheckpointError(
            f"{path}: prompts has no text called {name!r:.40}, as default_prompt_name says: set it to null there"
        )
    return prompt


def _pooling_of_fields(fields: dict[str, Any]) -> tuple[str, str]:
    """(pooling, what is not supported) of the config of a pooling module.

    sentence-transformers 6 writes the name of a mode, or several; before, a flag for each mode was true or false.
    """
    named = fields.get("pooling_mode")
    if named is None:
        modes = {field: name for name, field in POOLINGS.items()}
        flags = [name for name, on in fields.items() if name.startswith("pooling_mode_") and on is True]
        asked = [modes.get(flag, flag) for flag in flags] or ["mean"]
    else:
        asked = [named] if isinstance(named, str) else [str(mode) for mode in named] if isinstance(named, list) else []
    if len(asked) == 1 and asked[0] in POOLINGS:
        return asked[0], ""
    return "mean", f"the pooling asks for {' and '.join(asked)[:80] or repr(named)[:80]}"
