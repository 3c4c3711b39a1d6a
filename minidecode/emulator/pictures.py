"""Pictures of a run as SVG: memory strips for a race or a bad access, lanes over sectors and banks for traffic."""

from __future__ import annotations

import textwrap
from html import escape
from typing import NamedTuple

import numpy as np

from .memory import ATOMIC, LOAD, SHARED_BASE, STORE
from .outcome import Outcome
from .threads import WARP
from .traffic import BANK_BYTES, BANKS, SECTOR

RED, BLUE, GREEN, AMBER, GREY, INK = "#cf222e", "#1f6feb", "#1a7f37", "#bf8700", "#d0d7de", "#24292f"
CELL, ROW = 18, 26  # pixels
STRIP = 24  # cells of a memory strip
MOST_SHOWN = 40  # requests of a warp
MOST_LISTED = 1000
DEEDS = {LOAD: "reads", STORE: "writes", ATOMIC: "changes (atomically)"}
WORDS = {LOAD: "loads", STORE: "stores", ATOMIC: "changes"}


def xml_text(text: str) -> str:
    """Text as XML takes it: no control characters, nothing that would be markup."""
    return escape("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text))


def svg_document(width: int, height: int, title: str, parts: list[str]) -> str:
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">',
        f"<title>{xml_text(title)}</title>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *parts,
        "</svg>", "",
    ])  # fmt: skip


def svg_label(x: float, y: float, text: str, colour: str = INK) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}">{xml_text(text)}</text>'


def svg_box(x: float, y: float, fill: str, title: str, width: int = CELL, stroke: str = "#8c959f") -> str:
    return (
        f'<g><title>{xml_text(title)}</title><rect x="{x}" y="{y}" width="{width}" height="{CELL}" fill="{fill}"'
        f' stroke="{stroke}"/></g>'
    )


def draw_run(run: Outcome) -> str:
    """The picture of the run: the access that ended it, else its first race, else the request that wastes most."""
    if not run.traced:
        return svg_document(420, 40, "nothing was traced", [svg_label(10, 25, "nothing was traced (trace=False)")])
    if run.errors and "at" in run.errors[0].detail:
        return draw_access(run.errors[0])
    races = [f for f in run.findings if f.kind == "race"]
    return draw_race(run, races[0]) if races else draw_worst(run)


# A race


def draw_race(run: Outcome, finding) -> str:
    """The elements around the race, a strip per epoch of the block up to the race; all that race are in red."""
    race = finding.detail["race"]
    first, second = race.first, race.second
    memory = run._launch.journal.array_holding(first.address)
    size = memory.dtype.itemsize
    start = max(memory.start, first.address - STRIP // 2 * size)
    end = min(memory.start + memory.nbytes, start + STRIP * size)
    raced = {c for r in run._launch.analysis.races.by_key.values() if not r.same_value for c in r.cells}
    sides = [first] if first.thread.block is second.thread.block else [first, second]
    parts = [svg_label(10, 20, f"{finding.detail['element']}: a race"), *_draw_legend(10, 38)]
    y = 62
    for side in sides:
        block, last = side.thread.block, side.epoch
        kept = run._launch.analysis.traffic.kept_of_block(block.number)
        for epoch in range(max(0, last - 2), last + 1) if kept else ():
            red = {address for number, at, address in raced if (number, at) == (block.number, epoch)}
            parts += _draw_strip(run, kept, epoch, memory, (start, end), red, y, f"epoch {epoch}{block.suffix}")
            y += ROW + 6
    parts.append(svg_label(160, y + 6, memory.element(start), "#57606a"))
    parts.append(svg_label(160 + CELL * ((end - start) // size - 2), y + 6, memory.element(end - size), "#57606a"))
    y += 14
    for access in sorted((first, second), key=lambda a: a.kind):
        place = run._launch.journal.place_of_site(access.site)
        parts.append(svg_label(10, y + 14, f"{access.thread.name} {DEEDS[access.kind]} it at {place}", RED))
        y += 18
    return svg_document(220 + CELL * STRIP, y + 16, finding.message, parts)


def _draw_legend(x: int, y: int) -> list[str]:
    parts = []
    for text, colour in (("read", BLUE), ("written", AMBER), ("both", GREEN), ("race", RED)):
        parts += [svg_box(x, y, colour, text), svg_label(x + CELL + 4, y + 13, text)]
        x += 100
    return parts


def _draw_strip(
    run: Outcome, kept, epoch: int, memory, span: tuple[int, int], raced: set[int], y: int, who: str
) -> list[str]:
    """One epoch's strip: a cell per element, coloured by what was done to it."""
    kind = run._launch.journal.access_kinds(kept.site)
    parts = [svg_label(10, y + 13, who)]
    for k, address in enumerate(range(*span, memory.dtype.itemsize)):
        mine = (kept.address == address) & (kept.epoch == epoch)
        threads = sorted({int(t) for t in kept.thread[mine]})
        read, written = bool((kind[mine] == LOAD).any()), bool((kind[mine] != LOAD).any())
        colour = {(0, 0): "#ffffff", (1, 0): BLUE, (0, 1): AMBER, (1, 1): GREEN}[read, written]
        colour = RED if address in raced else colour
        did = " and ".join(w for w, yes in (("read", read), ("written", written)) if yes) or "not touched"
        by = f" by threads {', '.join(map(str, threads[:6]))}{' ...' if len(threads) > 6 else ''}" if threads else ""
        parts.append(svg_box(160 + CELL * k, y, colour, f"{memory.element(address)}: {did}{by}"))
    return parts


# An index outside, a read of what nothing wrote


def draw_access(finding) -> str:
    """The elements beside the one that was asked for, along its last axis or the one that it leaves; it is in red."""
    at, shape, written = finding.detail["at"], finding.detail["shape"], finding.detail.get("written")
    outside = [k for k, (place, size) in enumerate(zip(at, shape, strict=True)) if not 0 <= place < size]
    axis = outside[0] if outside else len(shape) - 1
    states = {"in the array": BLUE, "outside": GREY} if outside else {"written": AMBER, "not written": "#ffffff"}
    name, cells = finding.detail["array"], _places_around(at[axis], shape[axis])
    parts, x = [svg_label(10, 20, f"{name}({', '.join(map(str, shape))})")], 10
    for text, colour in {**states, "asked for": RED}.items():
        parts += [svg_box(x, 32, colour, text), svg_label(x + CELL + 4, 45, text)]
        x += 140
    for k, place in enumerate(cells):
        if place is None:
            parts.append(svg_label(12 + CELL * k, 83, ".."))
            continue
        here = (*at[:axis], place, *at[axis + 1 :])
        is_good = 0 <= place < shape[axis] if outside else bool(written[here])
        state = "asked for" if place == at[axis] else list(states)[not is_good]
        colour = RED if state == "asked for" else states[state]
        parts.append(svg_box(10 + CELL * k, 70, colour, f"{name}{list(here)}: {state}"))
        if k == 0 or k == len(cells) - 1 > 5:
            parts.append(svg_label(10 + CELL * k, 106, f"{name}{list(here)}", "#57606a"))
    lines = textwrap.wrap(finding.message, 88)
    parts += [svg_label(10, 134 + 18 * k, line, RED) for k, line in enumerate(lines)]
    return svg_document(220 + CELL * STRIP, 138 + 18 * len(lines), finding.message, parts)


def _places_around(place: int, size: int) -> list[int | None]:
    """Places along an axis around one of them, and around the axis's end that lies towards it; None for a gap."""
    half = STRIP // 2
    if 0 <= place < size:
        start = max(0, min(place - half, size - STRIP))
        return list(range(start, min(size, start + STRIP)))
    if place < 0:
        first = max(place, -half)
        return [*([place, None] if place < first else []), *range(first, min(size, half))]
    last = min(place, size + half - 3)
    return [*range(max(0, size - half), last + 1), *([None, place] if place > last else [])]


# Traffic


class Request(NamedTuple):
    """One warp request, lane by lane."""

    epoch: int
    site: int
    kind: int
    lanes: np.ndarray
    addresses: np.ndarray


def requests_of_warp(run: Outcome, block: int, warp: int) -> list[Request]:
    """What a warp did, in the order in which it began to do it; at most MOST_LISTED requests."""
    kept = run._launch.analysis.traffic.kept_of_block(block)
    mine = np.flatnonzero(kept.thread // WARP == warp) if kept else np.zeros(0, np.int64)
    if not len(mine):
        return []
    kind = run._launch.journal.access_kinds(kept.site)
    mine = mine[np.lexsort((kept.thread[mine], kept.request[mine]))]
    _, start = np.unique(kept.request[mine], return_index=True)
    end, began = np.r_[start[1:], len(mine)], np.minimum.reduceat(mine, start)
    requests = []
    for number in np.argsort(began, kind="stable")[:MOST_LISTED]:
        rows = mine[start[number] : end[number]]
        first = rows[0]
        requests.append(Request(int(kept.epoch[first]), int(kept.site[first]), int(kind[first]),
                             kept.thread[rows] % WARP, kept.address[rows]))  # fmt: skip
    return requests


class Shown:
    """What one warp touched: `print` it, or let a notebook draw it."""

    def __init__(self, run: Outcome, block: int, warp: int):
        self._run, self._block, self._warp = run, block, warp
        self._requests = requests_of_warp(run, block, warp) if run.traced else []

    def __str__(self) -> str:
        head = f"block {self._block}, warp {self._warp}"
        if not self._requests:
            return f"{head}: nothing was recorded (not traced, not run, or beyond the first million accesses)"
        lines = [describe_request(self._run, request) for request in self._requests[:MOST_SHOWN]]
        more = len(self._requests) - MOST_SHOWN
        return "\n".join([f"{head}:", *lines, *([f"... {more:,} more requests"] if more > 0 else [])])

    __repr__ = __str__

    def to_svg(self) -> str:
        parts, y, width = [], 10, 600
        for request in self._requests[:MOST_SHOWN]:
            drawn, height, wide = draw_request(self._run, request, y)
            parts += drawn
            y, width = y + height, max(width, wide)
        return svg_document(
            width, y + 10, f"block {self._block}, warp {self._warp}", parts or [svg_label(10, 25, str(self))]
        )

    def _repr_html_(self) -> str:
        return self.to_svg()


def describe_request(run: Outcome, request: Request) -> str:
    """One request in words: `epoch 0, line 12: loads x[32] to x[63] by lanes 0-31: 128 bytes, 4 sectors`."""
    journal = run._launch.journal
    memory = journal.array_holding(int(request.addresses[0]))
    ends = memory.element(int(request.addresses[0])), memory.element(int(request.addresses[-1]))
    what = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    steps = set(np.diff(request.addresses).tolist())
    if len(steps) == 1 and abs(step := steps.pop()) > memory.dtype.itemsize:
        what += f" in steps of {abs(step) // memory.dtype.itemsize:,}"
    elif len(steps) > 1:
        what += ", scattered"
    if request.addresses[0] >= SHARED_BASE:
        passes = int(max(_words_per_bank(request, memory.dtype.itemsize).values(), default=0))
        cost = f"{passes} pass{'es' * (passes > 1)}"
    else:
        cost = f"{len(_sectors_of_request(request, memory.dtype.itemsize))} sectors"
    size = len(set(request.addresses.tolist())) * memory.dtype.itemsize
    return (
        f"epoch {request.epoch}, {journal.place_of_site(request.site)}: {WORDS[request.kind]} {what} by"
        f" {_lanes_in_words(request.lanes)}: {size:,} bytes, {cost}"
    )


def _lanes_in_words(lanes: np.ndarray) -> str:
    lanes = lanes.tolist()
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    together = lanes == list(range(lanes[0], lanes[-1] + 1))
    return f"lanes {lanes[0]}-{lanes[-1]}" if together else f"{len(lanes)} lanes"


def _sectors_of_request(request: Request, size: int) -> list[int]:
    ends = [(a // SECTOR, (a + size - 1) // SECTOR) for a in request.addresses.tolist()]
    return sorted({s for pair in ends for s in pair})


def _words_per_bank(request: Request, size: int) -> dict[int, int]:
    """Bank -> how many different words of it are wanted."""
    words = {a // BANK_BYTES + k for a in request.addresses.tolist() for k in range(max(1, size // BANK_BYTES))}
    return {bank: sum(w % BANKS == bank for w in words) for bank in {w % BANKS for w in words}}


def draw_worst(run: Outcome) -> str:
    """The request of the whole launch that wastes most, if it is among those recorded; else the first one."""
    ranked = sorted((c.worst for c in run.sites.values() if c.worst), key=lambda w: -w[0])
    for worst in ranked:
        requests = requests_of_warp(run, worst[1], worst[2])
        if requests:
            wasteful = max(requests, key=lambda r: _moved_per_used_byte(run, r))
            parts, height, width = draw_request(run, wasteful, 10)
            return svg_document(width, height + 20, describe_request(run, wasteful), parts)
    return svg_document(420, 40, "no memory was touched", [svg_label(10, 25, "no memory was touched")])


def _moved_per_used_byte(run: Outcome, request: Request) -> float:
    size = run._launch.journal.array_holding(int(request.addresses[0])).dtype.itemsize
    if request.addresses[0] >= SHARED_BASE:
        return max(_words_per_bank(request, size).values(), default=0)
    return SECTOR * len(_sectors_of_request(request, size)) / (size * len(set(request.addresses.tolist())))


def draw_request(run: Outcome, request: Request, y: int) -> tuple[list[str], int, int]:
    """Lanes above, sectors or banks below, a line from each lane to what it wants. Returns parts, height, width."""
    size = run._launch.journal.array_holding(int(request.addresses[0])).dtype.itemsize
    in_banks = request.addresses[0] >= SHARED_BASE
    parts, places = [svg_label(10, y + 12, describe_request(run, request))], {}
    words, wanted = [a // BANK_BYTES for a in request.addresses.tolist()], {}
    for word in words:
        wanted[word] = wanted.get(word, 0) + 1
    if in_banks:
        rows = {bank: sorted(w for w in wanted if w % BANKS == bank) for bank in range(BANKS)}
        for bank, stack in rows.items():
            for k, word in enumerate(stack or [None]):
                colour = "#ffffff" if word is None else GREEN if wanted[word] > 1 else BLUE if len(stack) == 1 else RED
                places[word] = (20 + CELL * bank, y + 70 + CELL * k)
                parts.append(svg_box(*places[word], colour, f"bank {bank}: {wanted.get(word, 0)} lanes want this word"))
        depth = max(map(len, rows.values()))
    else:
        sectors = _sectors_of_request(request, size)
        per_row = 8
        for k, sector in enumerate(sectors):
            x0, y0 = 20 + (k % per_row) * (8 * CELL // 2 + 10), y + 70 + (k // per_row) * (CELL + 4)
            for w in range(SECTOR // BANK_BYTES):
                word = sector * (SECTOR // BANK_BYTES) + w
                places[word] = (x0 + w * CELL // 2, y0)
                colour = GREY if word not in wanted else GREEN if wanted[word] > 1 else BLUE
                parts.append(svg_box(*places[word], colour, f"sector {k}: {wanted.get(word, 0)} lanes", CELL // 2))
        depth = -(-len(sectors) // per_row)
    for lane, word in zip(request.lanes.tolist(), words, strict=True):
        x, (tx, ty) = 20 + CELL * lane, places[word]
        parts.append(svg_box(x, y + 20, "#ddf4ff", f"lane {lane}"))
        parts.append(f'<path d="M{x + CELL / 2} {y + 20 + CELL} L{tx + CELL / 4} {ty}" stroke="#8c959f" fill="none"/>')
    return parts, 80 + depth * (CELL + 4) + 16, 40 + CELL * 36
