"""`minidecode models`: what can be loaded without a download."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from ..errors import MinidecodeError
from .flags import AsJson, Debug


def models(as_json: AsJson = False, debug: Debug = False):
    """List the models that load without a download.

    They are those that ship with minidecode, packaged ones that a load has converted, and supported models in the hub
    cache.
    """
    from ..files.folder import bundled_models, read_settings
    from ..files.gguf_folder import converted_models

    rows = []
    folders = [(name, folder, "bundled") for name, folder in bundled_models().items()]
    folders += [(name, folder, "converted") for name, folder in converted_models().items()]
    folders += [(name, folder, "cached") for name, folder in _cached_models()]
    for name, folder, where in folders:
        family, c, _ = read_settings(folder, None)
        weights = [f for pattern in ("*.safetensors", "*.bin") for f in folder.glob(pattern) if f.exists()]
        rows.append(
            {"name": name, "where": where, "model_type": family.name, "layers": c.layers, "width": c.width,
             "context": c.context, "vocabulary": c.vocab_size,
             "megabytes": round(sum(f.stat().st_size for f in weights) / 1e6, 1), "folder": str(folder)}
        )  # fmt: skip
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(
            f"{row['name']}  ({row['where']}, {row['megabytes']} MB)  {row['model_type']}, {row['layers']} layers, "
            f"width {row['width']}, context {row['context']}, vocabulary {row['vocabulary']}\n    {row['folder']}"
        )


def _cached_models() -> list[tuple[str, Path]]:
    """(hub id, folder) of models in the Hugging Face cache that can be loaded; what is damaged is passed over."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    from ..files.folder import read_settings
    from ..files.hub import is_complete

    try:
        repos = scan_cache_dir().repos
    except (CacheNotFound, ValueError):  # no cache, or a file in its place
        return []
    models = []
    for repo in sorted((r for r in repos if r.repo_type == "model"), key=lambda r: r.repo_id):
        for revision in repo.revisions:
            with contextlib.suppress(MinidecodeError):
                folder = revision.snapshot_path
                read_settings(folder, None)  # raises on another kind of model
                if is_complete(folder):
                    models.append((repo.repo_id, folder))
    return models
