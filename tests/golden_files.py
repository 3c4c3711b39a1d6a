"""Golden folders are kept packed, at half their size, and unpacked beside their archive before the tests.

python tests/golden_files.py        unpacks every tests/golden/NAME.tar.xz whose folder is not there or not of it
python tests/golden_files.py NAME   packs tests/golden/NAME after its make_*.py has written it; the same bytes each time
"""

import contextlib
import hashlib
import os
import sys
import tarfile
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden")
NOTE = ".unpacked"  # in a folder: the digest of the archive that it came from


def unpack() -> None:
    """Each folder appears whole. Of two runs that start at once, either may find what the other has done already."""
    for archive in GOLDEN.glob("*.tar.xz"):
        folder, of_archive = GOLDEN / archive.name.removesuffix(".tar.xz"), digest(archive)
        if is_of(folder, of_archive):
            continue
        with tempfile.TemporaryDirectory(dir=GOLDEN, prefix=".unpacking-") as there:
            with tarfile.open(archive) as packed:
                packed.extractall(there, filter="data")
            (Path(there) / folder.name / NOTE).write_text(of_archive)
            with contextlib.suppress(FileNotFoundError):
                folder.rename(Path(there) / "before")
            try:
                os.replace(Path(there) / folder.name, folder)
            except OSError:
                if not is_of(folder, of_archive):
                    raise


def is_of(folder: Path, archive_digest: str) -> bool:
    """Whether the folder is there, and was unpacked from the archive with this digest."""
    note = folder / NOTE
    return note.is_file() and note.read_text() == archive_digest


def pack(folder: Path) -> None:
    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    archive = folder.with_name(f"{folder.name}.tar.xz")
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in sorted(folder.rglob("*"), key=lambda path: (path.suffix, path)):  # what is alike packs better
            if path.is_file() and path.name != NOTE:
                packed.add(path, f"{folder.name}/{path.relative_to(folder)}", filter=plain)
    (folder / NOTE).write_text(digest(archive))


def digest(archive: Path) -> str:
    return hashlib.sha256(archive.read_bytes()).hexdigest()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        pack(GOLDEN / name)
    if not sys.argv[1:]:
        unpack()
