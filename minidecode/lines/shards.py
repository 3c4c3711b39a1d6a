"""Lines in shards that many machines generate for: Ray Data calls `ShardGenerator`. Nothing here imports Ray.

A shard is a run of consecutive lines, a whole number of the windows in which `generate_lines` sorts and batches. So
each line is computed in the batch that it has in one run over all lines, and gets the same bytes. A shard knows the
number of its first line and, for sampling, how many lines of the whole input had each prompt before.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError, MinidecodeError, OptionError, pip_install, shown, words_of
from ..files.journal import HASH
from ..files.lines import LineReader
from .depends import hash_parts, records_depend_on
from .pipeline import choose_sort_window, generate_lines
from .records import Copies, make_line_renderer, read_record

if TYPE_CHECKING:
    from ..model import Model


def cut_shards(
    lines: str | Path | Iterable[str | bytes | dict[str, Any]], *, size: int = 1024, jsonl: bool = False,
    seed: int | None = None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Cuts lines into shards, each a row of a data set: {"line", "lines", "jsonl"}, and "sample_ids" with a seed.

        data = ray.data.from_items(list(md.cut_shards("prompts.jsonl")))

    lines: a file of texts, of JSON (NAME.jsonl) or of rows (NAME.parquet, with a column
        "prompt"; its other columns are fields as those of a JSON line are), or texts, UTF-8
        bytes and objects as `generate_lines` takes them.
    size: lines of a shard: a multiple of the window in which they are sorted, which is eight
        times batch_size.
    jsonl: each line is JSON. Files know it by their names.
    seed: of samples, as `generate` is given it. Then equal prompts are numbered, which takes
        about 150 bytes of memory for each prompt that differs. None: no samples are drawn.

    Raises InputError on a file that cannot be read, and on rows that JSON cannot hold.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise OptionError(f"size must be an integer from 1 up, not {size!r}")
    if not isinstance(lines, Path | Iterable):
        raise InputError(f"lines must be a file or several lines, such as a list of texts, not {shown(lines)}")
    if isinstance(lines, str | Path):
        path = Path(lines)
        jsonl, lines = jsonl or path.suffix in (".jsonl", ".parquet"), _read_lines_or_rows(path)
    copies, numbered = Copies(seed or 0), enumerate(lines, 1)
    while part := list(itertools.islice(numbered, size)):
        are_json = jsonl or isinstance(part[0][1], dict)
        if not jsonl and any(isinstance(given, dict) != are_json for _, given in part):
            raise InputError(f"lines {part[0][0]} to {part[-1][0]} are texts and objects: give either")
        encoded = [_encode_line(given, number) for number, given in part]
        shard = {"line": part[0][0], "lines": b"\n".join(encoded), "jsonl": are_json}
        if seed is not None:
            shard["sample_ids"] = [_number_of_copy(line, are_json, copies) for line in encoded]
        yield shard


def _read_lines_or_rows(path: Path) -> Iterator[bytes | dict[str, Any]]:
    """The lines or the rows of a file."""
    if path.suffix == ".parquet":
        yield from _rows_of_parquet(path)
        return
    with contextlib.closing(LineReader(path)) as reader:
        yield from reader


def _rows_of_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file. A null is that of JSON."""
    pyarrow, parquet = _import_parquet(path)
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as Parquet: {words_of(error)}") from None


def _import_parquet(path: Path) -> tuple[Any, Any]:
    """The package pyarrow, and its part for Parquet."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise OptionError(f"{path} needs the package {error.name}: {pip_install('pyarrow')}") from None
    return pyarrow, parquet


def _encode_line(given: str | bytes | dict[str, Any], number: int) -> bytes:
    """A line as the bytes that a file would hold."""
    try:
        data = json.dumps(given, ensure_ascii=False, allow_nan=False) if isinstance(given, dict) else given
    except (TypeError, ValueError) as error:
        raise InputError(f"line {number} holds a value that JSON cannot ({error}): cast it first") from None
    if not isinstance(data, str | bytes):
        raise InputError(f"line {number} must be a text, UTF-8 bytes or an object, not {shown(data)}")
    data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if b"\n" in data:
        raise InputError(f'line {number} holds a line break: give it as an object, {{"prompt": text}}, with all others')
    return data


def _number_of_copy(line: bytes, jsonl: bool, copies: Copies) -> int:
    """How many lines before had this prompt. A line that cannot be read draws nothing."""
    try:
        return copies.count_earlier_and_add(read_record(line, jsonl, "line"))
    except MinidecodeError:
        return 0


class ShardGenerator:
    """Generates for shards of lines, as an actor of Ray Data; the records are those of one machine.

        data.map_batches(md.ShardGenerator, fn_constructor_args=(model, "out"), batch_size=1,
                         compute=ray.data.ActorPoolStrategy(size=8), num_cpus=1)

    model: what `load` returns. It travels by the name of its folder, and each actor loads it.
    folder: one that all machines share. Each shard gets a file there, which appears when it is
        whole, and is not generated again. None: the records come back as rows, {"line", "record"}.
    parquet: the files are Parquet, of the columns "line" and "record"; otherwise JSON lines.
    how: what `generate_lines` takes: generation options, batch_size, plan and the like.

    Raises OptionError on options, and on a folder with records of other lines, options, weights
    or versions. (Functions among the options are not compared; those of the plan are.)
    """

    def __init__(self, model: Model, folder: str | Path | None = None, *, parquet: bool = False, **how: Any):
        self.model, self.how = model, {"batch_size": 8, "sort_window": None, "on_error": "record"} | how
        self.window = choose_sort_window(self.how["batch_size"], self.how["sort_window"])
        depends_on = records_depend_on(model, self.how)
        self.draws = depends_on["do_sample"] or self.how.get("latent_seed") is not None
        self.folder = None if folder is None else ShardFolder(Path(folder), depends_on, parquet)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Rows of `cut_shards` -> records, or a row for each shard: its file, its lines, and how many of them were
        generated now, and failed now."""
        names, rows = list(batch), []
        for values in zip(*batch.values(), strict=True):
            shard = dict(zip(names, values, strict=True))
            rows += (
                self._generate_records(shard)[0]
                if self.folder is None
                else [self._generate_into_file(shard, self.folder)]
            )
        kinds = {name: object if isinstance(value, str) else int for name, value in (rows[0] if rows else {}).items()}
        return {name: np.array([row[name] for row in rows], kind) for name, kind in kinds.items()}

    def _generate_into_file(self, shard: dict[str, Any], folder: ShardFolder) -> dict[str, Any]:
        file = folder.file_of(shard)
        row = {"file": file.name, "lines": file.last - file.first + 1, "generated": 0, "failed": 0}
        if file in folder.there:
            return row
        records, failed = self._generate_records(shard)
        folder.write(file, records)
        return row | {"generated": row["lines"], "failed": failed}

    def _generate_records(self, shard: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
        """The records of a shard, and how many of its lines failed."""
        first, ids = int(shard["line"]), shard.get("sample_ids")
        if (first - 1) % self.window:
            raise OptionError(
                f"a shard begins at line {first}, within a window of {self.window} lines: give cut_shards a size that "
                f"is a multiple of {self.window}"
            )
        if self.draws and ids is None:
            raise OptionError("samples of equal prompts would be equal: give cut_shards the seed of the samples")
        run = generate_lines(
            self.model, shard["lines"].split(b"\n"), jsonl=bool(shard["jsonl"]), first_line=first,
            sample_ids=None if ids is None else [int(i) for i in ids],
            render=make_line_renderer(True, self.model.tokenizer),
            **self.how,
        )  # fmt: skip
        with run:
            records = [{"line": line.number, "record": line.rendered.removesuffix("\n")} for line in run]
        return records, run.receipt.failed


class ShardFile(NamedTuple):
    """A file of records, as its name says it: FIRST-LAST-KEY.jsonl. KEY is a hash of what the records depend on."""

    first: int
    last: int
    name: str


class ShardFolder:
    """Files of records, one a shard. A name appears when its file is whole; until then it is .NAME.ID.part."""

    def __init__(self, path: Path, depends_on: dict[str, Any], parquet: bool):
        path.mkdir(parents=True, exist_ok=True)
        self.path, self.suffix, self.there = path, "parquet" if parquet else "jsonl", shard_files(path)
        self.depends_on = json.dumps(depends_on, sort_keys=True, default=_json_value).encode()

    def file_of(self, shard: dict[str, Any]) -> ShardFile:
        """The file for a shard's records. Raises OptionError if it has other records of these lines."""
        first, lines = int(shard["line"]), shard["lines"]
        ids = [int(i) for i in shard.get("sample_ids", ())]
        key = hash_parts([self.depends_on, lines, b"%d" % bool(shard["jsonl"]), repr(ids).encode()]).removeprefix(HASH)
        last = first + lines.count(b"\n")
        file = ShardFile(first, last, f"{first:012d}-{last:012d}-{key[:12]}.{self.suffix}")
        before = self.there[: bisect.bisect(self.there, last, key=lambda other: other.first)][-1:]
        if before and before[0].last >= first and before[0] != file:
            raise OptionError(
                f"{self.path} holds {before[0].name}, of other lines, options, weights or versions: give another "
                "folder, or repeat what that file was made with"
            )
        return file

    def write(self, file: ShardFile, records: list[dict[str, Any]]) -> None:
        """Writes a file whole. Where two actors write the same, either is right."""
        part = self.path / f".{file.name}.{uuid.uuid4().hex}.part"
        with part.open("xb") as out:
            if self.suffix == "parquet":
                pyarrow, parquet = _import_parquet(self.path)
                schema = pyarrow.schema({"line": pyarrow.int64(), "record": pyarrow.string()})
                parquet.write_table(pyarrow.Table.from_pylist(records, schema), out)
            else:
                out.writelines(record["record"].encode() + b"\n" for record in records)
            out.flush()
            os.fsync(out.fileno())
        part.replace(self.path / file.name)


def _json_value(value: Any) -> Any:
    """NumPy's arrays and numbers as JSON holds them; of a function, which is not compared, its type."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else type(value).__name__


def shard_files(folder: Path) -> list[ShardFile]:
    """The whole files of records in a folder, by their lines."""
    names = (re.fullmatch(r"(\d{12,})-(\d{12,})-[0-9a-f]{12}\.(?:jsonl|parquet)", name) for name in os.listdir(folder))
    return sorted(ShardFile(int(match[1]), int(match[2]), match[0]) for match in names if match)


def join_shards(folder: str | Path) -> Iterator[str]:
    """The records in a folder of `ShardGenerator`, in the order of their lines, each with its line's end.

        with open("records.jsonl", "w", newline="\\n") as file:
            file.writelines(md.join_shards("out"))

    Raises InputError where lines are missing between two files or come twice, before the first
    record. That the last files are there, no file says: count the records.
    """
    if not isinstance(folder, str | Path) or not Path(folder).is_dir():
        raise InputError(f"{shown(folder)} is no folder: name one that a ShardGenerator wrote")
    folder, line = Path(folder), 1
    files = shard_files(folder)
    for file in files:
        if file.first != line:
            missing, twice = f"lines {line} to {file.first - 1} are missing", f"line {file.first} is there twice"
            what = missing if file.first > line else twice
            raise InputError(f"{folder}: {what}, before {file.name}: run again, or delete what does not belong there")
        line = file.last + 1
    return itertools.chain.from_iterable(_read_records(folder / file.name) for file in files)


def _read_records(path: Path) -> Iterator[str]:
    if path.suffix == ".parquet":
        for row in _rows_of_parquet(path):
            yield row["record"] + "\n"
    else:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from file
