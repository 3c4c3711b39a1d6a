"""A model's folder: which one a name stands for, what its settings say, and where its tensors lie."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, MinidecodeWarning, OptionError, did_you_mean, quoted, shown
from ..models import FAMILIES, REFUSED, REFUSED_ENCODERS, Family
from ..options.options import NEVER_SAID, TOKENS, Options
from . import gguf_folder, hub
from .checkpoint import find_tensors, match_tensors, same_numbers
from .packaged_folder import FOLDERS, packaged_model
from .published import PUBLISHED
from .stored import Stored, read_json

ALMOST = 0.85  # of two names: one letter off, so that no hub has to be asked


def bundled_models() -> dict[str, Path]:
    """Name -> folder of the trained models that ship with the package."""
    here = Path(__file__).resolve().parents[1]
    roots = [here / "weights", here.parent / "weights"]  # installed from a wheel; run from a checkout
    folders = [f for root in roots if root.is_dir() for f in sorted(root.iterdir()) if (f / "config.json").exists()]
    models = {f.name: f for f in reversed(folders)}
    return dict(sorted(models.items()))


def find_folder(name: str | Path, revision: str | None = None, weights: bool = True) -> Path:
    """The folder of a bundled name, of a path, or of a hub id, which is downloaded if the hub's cache has it not.

    A GGUF file, and a model that a package brings as one, stands for the folder that it is converted into.

    revision: a branch, tag or commit of a hub id. weights: whether they are needed. Raises CheckpointError, which
    names the bundled models where there is nothing of that name.
    """
    if not isinstance(name, str | Path):
        raise CheckpointError(f"the model is named by a text or a Path, not {name!r}")
    bundled, folder = bundled_models(), Path(name)
    with contextlib.suppress(RuntimeError):  # the ~ of a user who is not there
        folder = folder.expanduser()
    local = bundled.get(str(name), folder if os.path.isdir(folder) else None)
    if str(name) in gguf_folder.PACKAGED or (folder.suffix == ".gguf" and os.path.isfile(folder)):
        if revision is not None:
            raise OptionError(f"revision={revision!r} is for models on the hub, and {str(name)!r} is none")
        is_file = str(name) not in gguf_folder.PACKAGED
        return gguf_folder.converted_folder(folder) if is_file else gguf_folder.folder_of_packaged(str(name))
    if str(name) in FOLDERS:
        if revision is not None:
            raise OptionError(f"revision={revision!r} is for models on the hub, and {str(name)!r} is none")
        return packaged_model(str(name))
    if not str(name):
        raise CheckpointError(f"the model has no name: name {' or '.join(bundled)}, or a folder")
    if local is not None:
        if revision is not None:
            raise OptionError(f"revision={revision!r} is for models on the hub; {str(name)!r} is the folder {local}")
        return local
    packaged = [*gguf_folder.PACKAGED, *FOLDERS]
    remedy = f"name {', '.join([*bundled, *packaged])}, or a folder with a config.json"
    if folder.suffix == ".pt" and os.path.isfile(folder):
        raise CheckpointError(
            f"{str(name)!r} is a file, not a folder: if it is a checkpoint of fairseq, make a folder of it with "
            f"minidecode import {quoted(name)} --output FOLDER"
        )
    if os.path.exists(folder):
        raise CheckpointError(f"{str(name)!r} is a file, not a folder: {remedy}")
    if folder.suffix in (".gguf", ".pt"):  # a path that is wrong, and not a model on the hub
        raise CheckpointError(f"there is no file {name}: name a file that is there")
    remedy += did_you_mean(str(name), [*bundled, *packaged, *([] if weights else PUBLISHED)])
    nowhere = f"{str(name)!r} is neither a bundled model nor a folder"
    is_typo = "/" not in str(name) and difflib.get_close_matches(str(name), [*bundled, *packaged], 1, ALMOST)
    if isinstance(name, Path) or not hub.looks_like_id(name) or is_typo:
        raise CheckpointError(f"{nowhere}: {remedy}")
    try:
        return hub.fetch_model_folder(name, revision, check=lambda folder: read_settings(folder, None), weights=weights)
    except hub.NotOnHubError as error:
        raise CheckpointError(f"{nowhere} nor in the hub's cache, and {error}: {remedy}") from error


def read_settings(folder: Path | None, fields: dict[str, Any] | None) -> tuple[Family, Any, dict[str, Any]]:
    """(family, config, generation defaults) from the folder's JSON files, or from the fields of a config.json."""
    if folder is not None:
        check_not_adapter_alone(folder)
    fields = read_json(folder / "config.json") if fields is None else fields
    model_type = fields.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        kinds = " or ".join(FAMILIES)
        if isinstance(model_type, str) and model_type in REFUSED:
            kinds = "bert, such as minilm" if model_type in REFUSED_ENCODERS else kinds
            raise CheckpointError(
                f"{folder / 'config.json'}: model_type {model_type!r} is not supported ({REFUSED[model_type]}): name a"
                f" model of type {kinds}"
            )
        raise CheckpointError(
            f"{folder / 'config.json'}: model_type {shown(model_type)} is not known: name a model of type {kinds}"
        )
    if folder is not None and (folder / "generation_config.json").exists():
        defaults = read_json(folder / "generation_config.json")
    else:  # old folders keep the settings of generation in config.json
        options = {f.name for f in dataclasses.fields(Options)} | {"bos_token_id"}
        defaults = dict(family.defaults) | {name: value for name, value in fields.items() if name in options}
        if fields.get("force_bos_token_to_be_generated"):  # as the first BART configs say it
            defaults.setdefault("forced_bos_token_id", fields.get("bos_token_id", 0))
    try:
        return family, family.config.from_json(fields), defaults
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}" if folder else str(error)) from None


def task_settings(fields: dict[str, Any], task: str) -> tuple[dict[str, Any], str]:
    """(defaults of generation, what stands in front of each text) of a task, from config.json's fields.

    Raises OptionError on a task that config.json's task_specific_params does not have.
    """
    tasks = fields.get("task_specific_params")
    if not isinstance(tasks, dict) or not all(isinstance(settings, dict) for settings in tasks.values()) or not tasks:
        raise OptionError(f"task={task!r}: this model's config.json has no task_specific_params: leave task out")
    if task not in tasks:
        raise OptionError(f"task={task!r} is not in config.json's task_specific_params: choose {' or '.join(tasks)}")
    settings = {name: value for name, value in tasks[task].items() if name != "prefix"}
    prefix = tasks[task].get("prefix", "")
    if not isinstance(prefix, str):
        raise CheckpointError(f"config.json: the prefix of the task {task} must be a text, not {shown(prefix)}")
    return settings, prefix


def check_not_adapter_alone(folder: Path) -> None:
    """Raises CheckpointError on a folder that holds an adapter alone."""
    files = {file for file in (*hub.WEIGHTS, *hub.ADAPTER) if (folder / file).exists()}
    if files & set(hub.ADAPTER) and not files & set(hub.WEIGHTS):
        raise CheckpointError(hub.adapter_message(str(folder)))


def stored_tensors(folder: Path, family: Family, config) -> tuple[dict[str, Stored], Any]:
    """The tensors of a folder by name, each of the shape that config.json asks for; and the config.

    Where config.json leaves open what the file answers, the config has the answer.
    """
    stored = find_tensors(folder)
    hub.warn_of_adapter(folder)
    if config.layers > len(stored):  # seen before their shapes are listed: a lying number costs no memory
        raise CheckpointError(
            f"{folder}: config.json says {config.layers} layers, and the weights are {len(stored)} tensors in all: "
            "one of the two is not this model's"
        )
    return matched_tensors(folder, family, config, stored)


def matched_tensors(
    where: Path, family: Family, config: Any, stored: dict[str, Stored], same: Callable[..., bool] = same_numbers
) -> tuple[dict[str, Stored], Any]:
    """The tensors that config.json asks for, by the family's names; and the config, as the tensors say.

    same: whether two of them hold the same numbers. Raises CheckpointError as `match_tensors` does.
    """
    f, config = family.network, config.complete_from_weights(stored, same)
    return match_tensors(
        where, stored, f.tensor_shapes(config), prefix=f.PREFIX, ignored=f.ignored_tensors(config), layer=f.LAYER,
        tied=f.tied_tensors(config), optional=f.OPTIONAL, is_whole=family.is_whole,
    ), config  # fmt: skip


def defaults_within_vocabulary(folder: Path | None, defaults: dict[str, Any], size: int) -> dict[str, Any]:
    """The defaults of a model's files without tokens that it cannot say, and so cannot end with or suppress.

    Files of toys and of cut models keep GPT-2's 50256, say. A warning names the file and what was left out.
    """
    kept, file = dict(defaults), defaults_file(folder)
    for name in NEVER_SAID:
        value = defaults.get(name)
        ids = value if isinstance(value, list) else [value]
        if beyond := [i for i in ids if isinstance(i, int) and not 0 <= i < size]:
            warnings.warn(
                f"{file}: {name} {shown(beyond[0], 40)} is not in the vocabulary of {size} tokens, so it is ignored: "
                "set it to the model's own", MinidecodeWarning, stacklevel=3,
            )  # fmt: skip
            left = [i for i in ids if i not in beyond]
            kept[name] = left if isinstance(value, list) and left else None
    return kept


def defaults_file(folder: Path | None) -> Path:
    """The file that a model's defaults of generation come from."""
    path = (folder or Path()) / "generation_config.json"
    return path if folder is None or path.exists() else folder / "config.json"


def chosen_defaults(
    folder: Path | None, defaults: dict[str, Any], given: dict[str, Any] | str | Path | bool | None
) -> tuple[dict[str, Any], str]:
    """(defaults of generation, where they come from): the model's, or what `load` was given in their place."""
    if given is None:
        return defaults, str(defaults_file(folder))
    if given is True or not isinstance(given, dict | str | Path | bool):
        raise OptionError(f"generation_config must be a dict, a path, False or None, not {given!r}")
    tokens = {name: value for name, value in defaults.items() if name in TOKENS}
    if isinstance(given, str | Path):
        if not Path(given).is_file():
            raise OptionError(f"generation_config: there is no file {given}")
        return tokens | read_json(Path(given)), str(given)
    return tokens | (given or {}), "generation_config"
