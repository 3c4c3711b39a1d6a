"""Models of the Hugging Face hub, through its own client: its cache, progress bar, tokens and revisions.

One request asks which commit a revision is, and which files it has with which checksums. Then the files that are
needed are fetched and checked, one after the other, the weights last. Files that the cache has are not fetched again,
and without a network a model is loaded from the cache alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, MinidecodeWarning
from .checkpoint import read_index

_WORD = r"\w([\w.-]*\w)?"
HUB_ID = re.compile(rf"({_WORD}/)?{_WORD}", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")

SETTINGS = (
    "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja",
)  # fmt: skip
OF_VECTORS = (  # of sentence-transformers
    "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json"
)  # fmt: skip
OF_FAIRSEQ = re.compile(r"vocab-(src|tgt)\.json|dict\.[\w-]+\.txt|bpecodes|codes?|codes\.txt|bpe\.codes")  # and FSMT's
# The first that a repository has is taken. Other formats, precisions and frameworks are never fetched.
VOCABULARIES = (  # of single families: Marian's, mBART's and ProphetNet's
    "source.spm", "target.spm", "target_vocab.json", "sentencepiece.bpe.model", "prophetnet.tokenizer",
)  # fmt: skip
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
ADAPTER = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")  # PEFT's files

SECONDS_TO_ANSWER = 4  # for the first request; HF_HUB_ETAG_TIMEOUT, where it is set, goes before it
# A full disk or quota, no right to write, or a file where the cache's folder should be.
CANNOT_STORE = {getattr(errno, e, None) for e in ("ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "EEXIST", "ENOTDIR")}


class NotOnHubError(CheckpointError):
    """The hub has no such model, or did not say: the message is half a sentence, for `find_folder` to complete."""


@dataclass(frozen=True)
class Listing:
    """What a revision is: its commit, and a checksum for each file (None where the server gives none)."""

    commit: str
    checksums: dict[str, str | None]


def looks_like_id(name: str) -> bool:
    """Whether this can be the name of a model on the hub: `name` or `owner/name`. `./name` and `~/name` are paths."""
    return len(name) <= 96 and HUB_ID.fullmatch(name) is not None and not re.search(r"--|\.\.|\.git$", name)


def fetch_model_folder(repo_id: str, revision: str | None, check: Callable[[Path], Any], weights: bool = True) -> Path:
    """The folder in the hub's cache with the files of a model, fetched as far as they are missing there.

    revision: a branch, a tag or a commit; None is main. check: called with the folder when its config.json is there,
    raises if the rest is not worth fetching. weights: whether the weights are needed too.

    Raises NotOnHubError if the hub knows no such model or cannot be asked, CheckpointError on everything else.
    """
    from huggingface_hub.errors import RevisionNotFoundError

    revision = revision or "main"
    cached = _cached_folder(repo_id, revision, weights)
    if cached and COMMIT.fullmatch(revision) and not _perhaps_unfetched(cached):  # a commit never changes, a branch may
        return cached
    with _no_warnings():
        try:
            listing = _request_once(repo_id, revision)
        except Exception as error:  # the client's own, or those of the HTTP library that it uses today
            if cached and not isinstance(error, RevisionNotFoundError):
                if missing := _perhaps_unfetched(cached):
                    lacks = " and no ".join(missing)
                    warnings.warn(
                        f"the hub cannot be asked, and its cache has no {lacks} of {repo_id}: if the model has one, "
                        "answers differ from those with it",
                        MinidecodeWarning,
                        stacklevel=3,
                    )
                return cached
            raise _listing_error(error, repo_id, revision) from error
        return _download(repo_id, revision, listing, check, weights)


def adapter_message(place: str) -> str:
    """What to say of a folder or a repository that has the files of an adapter, and no weights of a model."""
    return (
        f"{place} holds a PEFT adapter, not a whole model: merge it into its base model first (in Python with peft: "
        "model.merge_and_unload()), and save that"
    )


def warn_of_adapter(folder: Path) -> None:
    """Warns of the files of an adapter beside the weights of a whole model: the model is loaded without it."""
    if adapter := [file for file in ADAPTER if (folder / file).exists()]:
        warnings.warn(
            f"{folder} also holds a PEFT adapter ({', '.join(adapter)}), which is not applied: to use it, merge it into"
            " the model first (in Python with peft: model.merge_and_unload()), and save that",
            MinidecodeWarning,
            stacklevel=2,
        )


def is_complete(folder: Path, weights: bool = True) -> bool:
    """Whether a folder of the cache has a config.json and, if they are asked for, all its weights."""
    present = {f.name for f in folder.iterdir() if f.exists()}  # a link into nothing does not exist
    if "config.json" not in present or not weights:
        return "config.json" in present
    first = _preferred_weights(present)
    return first is not None and (
        not first.endswith(".index.json") or present.issuperset(shards_of_index(folder / first))
    )


def _perhaps_unfetched(folder: Path) -> list[str]:
    """Settings that a folder of the cache has not, although the model may have them: another tool fetched the rest."""
    absent = _absent_files_folder(folder)

    def unknown(file: str) -> bool:
        return not (folder / file).exists() and not (absent / file).exists()

    tokenizers = ("tokenizer.json", "merges.txt", "vocab.txt")
    others = ("source.spm", "sentencepiece.bpe.model", "vocab-src.json", *(f.name for f in folder.glob("dict.*.txt")))
    has_tokenizer = any((folder / file).exists() for file in (*tokenizers, *others))
    return [
        *(["tokenizer"] if not has_tokenizer and any(map(unknown, tokenizers)) else []),
        *(file for file in SETTINGS[:1] if unknown(file)),
    ]


def _absent_files_folder(folder: Path) -> Path:
    """The folder whose empty files name what a commit lacks: .no_exist/COMMIT beside snapshots/COMMIT."""
    return folder.parents[1] / ".no_exist" / folder.name


def shards_of_index(index: Path) -> list[str]:
    """The files that an index of weights lists. Raises CheckpointError on one outside of the index's folder."""
    return sorted(set(read_index(index).values()))


def _preferred_weights(files: Collection[str]) -> str | None:
    """The first of WEIGHTS that is among these files."""
    return next((file for file in WEIGHTS if file in files), None)


def _cached_folder(repo_id: str, revision: str, weights: bool) -> Path | None:
    """The folder of a revision as the cache knows it, if nothing is missing there."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repo_id, "config.json", revision=revision)
    if not isinstance(config, str):
        return None
    with contextlib.suppress(CheckpointError):  # an unreadable index: as if nothing was there
        if is_complete(Path(config).parent, weights):
            return Path(config).parent
    return None


# --- asking ---


def _request_once(repo_id: str, revision: str) -> Listing:
    """One request, without the client's retries: without a network, the error should come at once."""
    from huggingface_hub import HfApi

    seconds = _seconds_to_answer()
    info = _with_time_limit(seconds, lambda: HfApi().model_info(repo_id, revision=revision, files_metadata=True,
                                                       timeout=seconds))  # fmt: skip
    if not COMMIT.fullmatch(info.sha or ""):
        raise ValueError("it names no commit")
    # Large files are known by the SHA-256 of their content, small ones by git's name for it.
    return Listing(info.sha, {s.rfilename: s.lfs.sha256 if s.lfs else s.blob_id for s in info.siblings or ()})


def _seconds_to_answer() -> float:
    from huggingface_hub import constants

    return constants.HF_HUB_ETAG_TIMEOUT if os.environ.get("HF_HUB_ETAG_TIMEOUT") else SECONDS_TO_ANSWER


def _with_time_limit(seconds: float, ask: Callable[[], Any]) -> Any:
    """What `ask` returns or raises, or TimeoutError.

    The client's own timeout is not enough: the name server has another, and a host's many addresses have one each.
    """
    answer: Future = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer.result(timeout=seconds)


# --- downloading ---


def _download(repo_id: str, revision: str, listing: Listing, check: Callable[[Path], Any], weights: bool) -> Path:
    """Fetches what is missing. The weights come last: where they are complete, so is the rest."""
    files = listing.checksums
    if not set(WEIGHTS) & set(files) and set(ADAPTER) & set(files):
        raise CheckpointError(adapter_message(f"{repo_id} on the hub"))
    if "config.json" not in files:
        raise CheckpointError(f"{repo_id} on the hub has no config.json: it is no model that minidecode could read")
    folder = _fetch_file(repo_id, "config.json", listing).parent
    check(folder)
    tokenizer = ("tokenizer.json",) if "tokenizer.json" in files else ("vocab.json", "merges.txt", "vocab.txt")
    if "source.spm" in files:  # a Marian's pieces have their ids in vocab.json, whatever else there is
        tokenizer = ("vocab.json",)
    for file in (*OF_VECTORS, *sorted(filter(OF_FAIRSEQ.fullmatch, files))):
        if file in files:
            _fetch_file(repo_id, file, listing)
    for file in (*SETTINGS, *tokenizer, *VOCABULARIES):
        if file in files:
            _fetch_file(repo_id, file, listing)
        elif file not in VOCABULARIES:
            with contextlib.suppress(OSError):  # then the next call asks again
                _absent_files_folder(folder).mkdir(parents=True, exist_ok=True)
                (_absent_files_folder(folder) / file).touch()
    if weights:
        _fetch_weights(repo_id, listing)
    _note_commit(repo_id, revision, listing)
    return folder


def _fetch_weights(repo_id: str, listing: Listing) -> None:
    first = _preferred_weights(listing.checksums)
    if first is None:
        others = [f for f in listing.checksums if re.search(r"\.(safetensors|bin|h5|msgpack|onnx|ot|gguf|pt)$", f)]
        has = f"; it has {', '.join(others[:4])}" if others else ""
        raise CheckpointError(f"{repo_id} on the hub has neither model.safetensors nor pytorch_model.bin{has}")
    path = _fetch_file(repo_id, first, listing)
    for shard in shards_of_index(path) if first.endswith(".index.json") else ():
        if shard not in listing.checksums:
            raise CheckpointError(f"{repo_id} on the hub: {first} lists {shard}, which is not there")
        _fetch_file(repo_id, shard, listing)


def _fetch_file(repo_id: str, file: str, listing: Listing) -> Path:
    """A file's path in the cache. What comes from the network is checked; what does not pass is not kept."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    cached = try_to_load_from_cache(repo_id, file, revision=listing.commit)
    if isinstance(cached, str):
        return Path(cached)
    try:
        path = Path(hf_hub_download(repo_id, file, revision=listing.commit))
    except Exception as error:  # as above, and of the library that the client downloads large files with
        raise _download_error(error, repo_id, file) from error
    try:
        _verify(path, listing.checksums[file], f"{file} from {repo_id}")
    except BaseException:  # an interrupt too: it would leave a file in the cache that no code has checked
        _delete_from_cache(path)
        raise
    return path


def _verify(path: Path, checksum: str | None, what: str) -> None:
    """Raises CheckpointError if a file's content is not what the hub says. The client looks at its length alone."""
    if checksum is None:
        return
    digest = hashlib.sha256()
    if len(checksum) == 40:  # git's name for a file: a SHA-1 that counts the length in
        digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest() != checksum:
        raise CheckpointError(f"the download of {what} was corrupted on its way (its checksum is wrong): try again")


def _delete_from_cache(path: Path) -> None:
    """Deletes a file of the cache, and the links that lead to it."""
    while path.is_symlink():
        target = path.parent / os.readlink(path)
        path.unlink()
        path = target
    path.unlink(missing_ok=True)


def _note_commit(repo_id: str, revision: str, listing: Listing) -> None:
    """Lets the client note which commit a branch or tag is, so that the cache can be asked without a network."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    known, wanted = (try_to_load_from_cache(repo_id, "config.json", revision=r) for r in (revision, listing.commit))
    if known != wanted:
        with contextlib.suppress(Exception):  # the model is there, and can be used: no error of this call
            hf_hub_download(repo_id, "config.json", revision=revision)


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Keeps the client's notes on its retries off the screen, unless its log level has been set by the user."""
    from huggingface_hub.utils import logging

    before = logging.get_verbosity()
    if before == logging.WARNING:
        logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


# --- what went wrong, in words ---


def _listing_error(error: Exception, repo_id: str, revision: str) -> CheckpointError:
    from huggingface_hub import constants, get_token
    from huggingface_hub.errors import OfflineModeIsEnabled, RevisionNotFoundError

    hub, status = constants.ENDPOINT, _http_status(error)
    if isinstance(error, RevisionNotFoundError):
        return CheckpointError(
            f"{repo_id} on the hub has no branch, tag or commit {revision!r}: see {hub}/{repo_id}/tree/main"
        )
    if _is_gated(error):
        return _gated_error(repo_id)
    if isinstance(error, OfflineModeIsEnabled):
        return NotOnHubError("HF_HUB_OFFLINE forbids asking the hub (unset it)")
    if status in (401, 403, 404):
        token = "your HF_TOKEN or login may not see it" if get_token() else "if it is private, set HF_TOKEN"
        return NotOnHubError(f"{hub} has no model of that name for you (HTTP {status}; {token})")
    if status is not None:
        return NotOnHubError(f"{hub} answered with an error (HTTP {status}; try again later)")
    if "Timeout" in type(error).__name__:
        wait = f"{_seconds_to_answer():g} s"
        return NotOnHubError(
            f"{hub} did not answer within {wait} (no network? To wait longer, set HF_HUB_ETAG_TIMEOUT)"
        )
    if isinstance(error, ValueError | LookupError | TypeError | AttributeError):
        return NotOnHubError(
            f"what {hub} answered is not from a hub ({_error_in_one_line(error)}; a network that asks to log in?)"
        )
    return NotOnHubError(f"there is no network: {hub} cannot be reached ({_error_in_one_line(error)})")


def _download_error(error: Exception, repo_id: str, file: str) -> CheckpointError:
    from huggingface_hub import constants
    from huggingface_hub.errors import LocalEntryNotFoundError

    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if _is_gated(error):
        return _gated_error(repo_id)
    if isinstance(error, OSError) and error.errno is not None and error.errno in CANNOT_STORE:
        return CheckpointError(
            f"{file} from {repo_id} cannot be stored in {constants.HF_HUB_CACHE} ({error.strerror}): make room there, "
            "or set HF_HOME to another folder"
        )
    status = _http_status(error)
    reason = _error_in_one_line(error) if status is None else f"HTTP {status}"
    return CheckpointError(f"the download of {file} from {repo_id} broke off ({reason}): try again")


def _is_gated(error: Exception) -> bool:
    """The list of a gated model's files is public, its files are not."""
    from huggingface_hub.errors import GatedRepoError

    return isinstance(error, GatedRepoError) or ("/resolve/" in str(error) and _http_status(error) in (401, 403))


def _gated_error(repo_id: str) -> CheckpointError:
    from huggingface_hub import constants, get_token

    token = "the one in use has no access" if get_token() else "none is set"
    return CheckpointError(
        f"{repo_id} on the hub is gated: ask for access on {constants.ENDPOINT}/{repo_id}, and set HF_TOKEN to a token "
        f"of yours that may read it ({token})"
    )


def _http_status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _error_in_one_line(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0][:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
