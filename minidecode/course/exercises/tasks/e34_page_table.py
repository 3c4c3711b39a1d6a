"""Exercise 34: tables of pages. Any free page will do, so the calls themselves are judged, one after the other."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ..numpy_task import NumPyTask
from ..results import find_fault_of_kind
from ..verdict import Miss
from ..wire import Callback

APPEND, FORK, END = range(3)
Complaint = tuple[str, str | None]  # what is wrong, and the known mistake


class Task(NumPyTask):
    function = "run"
    returns = changes = ("table_RX", "references_P")
    gives = False
    known = {
        "shared-page-written": "other rows hold this page, too, and their next tokens belong into the same slot: copy"
                               " the page first, and count each row that holds it",
        "not-copied": "the new page is empty: attention reads the row's earlier positions there, too",
        "copies-at-fork": "a fork only counts; most pages are never written again, and would be copied for nothing",
        "copies-whole-table": "only the page that is written needs a copy; the full ones before it can be shared for"
                              " good",
        "copies-its-own": "a page that no other row holds is written where it lies",
        "departure-not-counted": "a row that goes on in a copy has left the original: its count says one too many, so"
                                 " the last row that holds it copies it for nothing, and it never becomes free",
        "end-not-counted": "a text that has ended holds nothing: with counts that stay, its pages never become free",
        "freed-while-shared": "a page is free when the last row leaves it; given out earlier, it is written under the"
                              " eyes of a text that still reads it",
        "stale-table": "a row that has ended holds nothing: its old pages are other rows' by now, and a text that"
                       " begins in it begins at position 0",
        "page-too-early": "a page that is full needs no page behind it until there is a token to write; the text may"
                          " end here",
        "page-too-late": "position PAGE is the first of a second page: where the text fills its pages, the next token"
                         " needs a new one",
    }  # fmt: skip

    def variation(self, rng):
        return {"page": rng.integers(3, 7)}

    def cases(self, v, rng):
        M, few = v.page, int(rng.integers(1, v.page - 1))
        texts = Events(v, rng)
        edge = [*texts.append(0, M), *texts.append(1, 1)]
        behind_it = [*texts.append(0, M + 1), *texts.append(1, 2 * M - 1)]
        beams = [*texts.append(0, M + few), *texts.append(2, 1), (FORK, 1, 0), *texts.append(2, 1),
                 *texts.append(1, 1), *texts.append(0, 1)]  # fmt: skip
        # A text ends whose pages another holds, before one that has its own, and then behind it. All pages are needed:
        # so what must not be free is given out, from whichever end of a list.
        again = [*texts.append(0, 2 * M), (FORK, 1, 0), *texts.append(2, 2 * M - 1), (END, 0, -1), (END, 2, -1),
                 *texts.append(3, 2 * M), (FORK, 0, 1), (END, 3, -1), (END, 1, -1), *texts.append(2, 2 * M),
                 (END, 0, -1), *texts.append(1, 1), *texts.append(3, 1)]  # fmt: skip
        alone = [*texts.append(0, few), (FORK, 1, 0), *texts.append(2, 1), (END, 0, -1), *texts.append(1, 1)]
        three = [*texts.append(0, few), (FORK, 1, 0), (FORK, 2, 0), *texts.append(3, 1), *texts.append(2, 1),
                 (END, 0, -1), *texts.append(1, 2)]  # fmt: skip
        cases = [_case_of_events(v, events, 4, spare=3) for events in (edge, behind_it, beams, alone, three)]
        cases.append(_case_of_events(v, again, 4, spare=0))
        rows = int(rng.integers(5, 8))
        return [
            *cases,
            _case_of_events(v, texts.draw_events(rows, 40), rows, spare=4),
            _case_of_events(v, texts.draw_events(rows, 60), rows, spare=0),
        ]

    def expected_outputs(self, v, inputs, mistake=None, ran=None):
        raise NotImplementedError  # right answers are many: see `find_wrong_output`

    def find_wrong_output(self, v, trial):
        if trial.got is None:
            return None
        room = trial.inputs["table_RX"], trial.inputs["references_P"]
        if problem := find_fault_of_kind(self.returns, trial.got, room, len(self.changes)):
            return problem
        replay = Replay(v.page, *map(len, room), trial.calls)
        complaint = replay.first_wrong_event(trial.inputs["event_X3"].tolist()) or replay.first_wrong_result(*trial.got)
        return (
            Miss(f"{self.call(trial.inputs)}: {complaint[0]}", complaint[1], is_explained=True) if complaint else None
        )

    def praise(self, v, tried):
        copies = sum(name == "copy" for name, _ in tried[-1].calls)
        forks = int((tried[-1].inputs["event_X3"][:, 0] == FORK).sum())
        return f"The last one has {forks} forks, and {copies} page{'' if copies == 1 else 's'} had to be copied."


class Events:
    """Draws events that can be done."""

    def __init__(self, v, rng):
        self.v, self.rng = v, rng

    def append(self, row: int, tokens: int) -> list[tuple[int, int, int]]:
        """Events that append `tokens` tokens to a row."""
        return [(APPEND, row, token) for token in self.rng.integers(10, 100, tokens).tolist()]

    def draw_events(self, rows: int, steps: int) -> list[tuple[int, int, int]]:
        """Texts that begin, go on from others and end."""
        events, length_R = [], [0] * rows
        for _ in range(steps):
            kind = self.rng.choice([APPEND, FORK, END], p=[0.65, 0.2, 0.15])
            empty, alive = ([r for r in range(rows) if (length_R[r] > 0) == so] for so in (False, True))
            if kind == FORK and empty and alive:
                row, parent = (int(self.rng.choice(some)) for some in (empty, alive))
                events.append((FORK, row, parent))
                length_R[row] = length_R[parent]
            elif kind == END and len(alive) > 1:
                row = int(self.rng.choice(alive))
                events.append((END, row, -1))
                length_R[row] = 0
            else:
                row, tokens = int(self.rng.integers(rows)), int(self.rng.integers(1, self.v.page + 2))
                events += self.append(row, tokens)
                length_R[row] += tokens
        return events


def _case_of_events(v, events, rows, spare) -> dict[str, Any]:
    """The inputs of these events, with room for what is needed at most, and some spare pages."""
    longest, most = _pages_needed(v, events, rows)
    table_RX = np.full((rows, longest + 3), -1)
    calls = {
        "write": Callback("write", lambda page, slot, token: None),
        "copy": Callback("copy", lambda source, target: None),
    }
    return {
        "event_X3": np.array(events),
        "table_RX": table_RX,
        "references_P": np.zeros(most + spare, np.int64),
    } | calls


def _pages_needed(v, events, rows) -> tuple[int, int]:
    """(pages of the longest text, pages that are held at one moment): both at most.

    A page is named by the event that began it or copied it.
    """
    table, length, longest, most = [[] for _ in range(rows)], [0] * rows, 0, 0
    for x, (kind, row, value) in enumerate(events):
        if kind == FORK:
            table[row], length[row] = list(table[value]), length[value]
        elif kind == END:
            table[row], length[row] = [], 0
        else:
            if length[row] % v.page == 0:
                table[row].append(x)
            elif sum(table[row][-1] in pages for pages in table) > 1:
                table[row][-1] = x
            length[row] += 1
        longest, most = max(longest, len(table[row])), max(most, len(set().union(*table)))
    return longest, most


class Replay:
    """Follows the calls of a run through its events: where each row's positions lie is what `write` said of them."""

    def __init__(self, page: int, rows: int, pages: int, calls: list[tuple]):
        self.page, self.pages, self.calls = page, pages, list(calls)
        self.table: list[list[int]] = [[] for _ in range(rows)]
        self.length = [0] * rows
        self.old: list[set[int]] = [set() for _ in range(rows)]  # pages of the row's texts that have ended
        self.last: list[list[int]] = [[] for _ in range(rows)]  # those of the last of them, and its length
        self.last_length = [0] * rows
        self.left_by_copy: Counter[int] = Counter()  # by page, since it was taken: rows that went on in a copy,
        self.left_by_end: Counter[int] = Counter()  # and rows that ended
        self.ended_shared: dict[int, int] = {}  # by page: the row that ended while others held it
        self.ended_stale: dict[int, int] = {}  # by page: the row that had held it in an earlier text, and ended again
        self.shared_once: set[int] = set()  # pages in ended_shared at any time
        self.forked: set[int] = set()  # pages that have got one more row since the last `write`

    def first_wrong_event(self, events: list[list[int]]) -> Complaint | None:
        """The first event whose calls are wrong."""
        for x, (kind, row, value) in enumerate(events):
            if kind == FORK:
                self.table[row], self.length[row] = list(self.table[value]), self.length[value]
                self.forked |= set(self.table[row])
            elif kind == END:
                self._note_end_of_row(row)
            elif complaint := self._check_append(row, value):
                return f"event {x}, ({kind}, {row}, {value}): {complaint[0]}", complaint[1]
        if self.calls:
            name, arguments = self.calls[0]
            if name == "copy" and (pair := _as_integers(arguments, 2)):
                return self._complaint_about_needless_copy(None, pair)
            return f"behind the last event there is one more call, {_call_in_words(name, arguments)}.", None
        return None

    def _note_end_of_row(self, row: int) -> None:
        for page in self.table[row]:
            self.left_by_end[page] += 1
            if self._rows_with_page(page, row):
                self.ended_shared[page] = row
                self.shared_once.add(page)
        for page in self.old[row] - set(self.table[row]):
            if self._rows_with_page(page, row):
                self.ended_stale[page] = row
        self.old[row] |= set(self.table[row])
        self.last[row], self.last_length[row] = self.table[row], self.length[row]
        self.table[row], self.length[row] = [], 0

    def _check_append(self, row: int, token: int) -> Complaint | None:
        copies = []
        while self.calls and self.calls[0][0] == "copy":
            _, arguments = self.calls.pop(0)
            if (pair := _as_integers(arguments, 2)) is None or not all(0 <= page < self.pages for page in pair):
                return f"{_call_in_words('copy', arguments)}: it takes two pages, 0 to {self.pages - 1}.", None
            copies.append(pair)
        if not self.calls:
            return "no `write` came for this token.", None
        _, arguments = self.calls.pop(0)
        if (numbers := _as_integers(arguments, 3)) is None:
            return f"{_call_in_words('write', arguments)}: it takes a page, a slot and a token.", None
        page, slot, brought = numbers
        said, position = _call_in_words("write", arguments), self.length[row]
        nth, due = divmod(position, self.page)
        if brought != token:
            return f"{said} came here; the token is {token}.", None
        if slot != due:
            goes_on = self.last_length[row] and slot == (self.last_length[row] + position) % self.page
            return (f"{said}: row {row} has {position} positions, so the token belongs into slot {due}.",
                    "stale-table" if goes_on else None)  # fmt: skip
        if not 0 <= page < self.pages:
            too_late = page == -1 and due == 0
            return f"{said}: there are pages 0 to {self.pages - 1}.", "page-too-late" if too_late else None
        complaint = (self._check_first_position if due == 0 else self._check_next_position)(
            row, nth, page, said, copies
        )
        self.length[row] += 1
        self.forked.clear()
        return complaint

    def _check_first_position(
        self, row: int, nth: int, page: int, said: str, copies: list[tuple[int, int]]
    ) -> Complaint | None:
        """The first position of a page."""
        if copies:
            return self._complaint_about_needless_copy(row, copies[0])
        if page in self.table[row]:
            first = self.table[row].index(page) * self.page
            too_late = page == self.table[row][-1] and not any(page in pages for pages in self.old)
            return f"{said} writes over position {first} of its own text.", "page-too-late" if too_late else None
        if others := self._rows_with_page(page, row):
            return self._complaint_page_in_use(row, nth, page, others, said)
        self._replace_page(row, nth, page)
        return None

    def _check_next_position(
        self, row: int, nth: int, page: int, said: str, copies: list[tuple[int, int]]
    ) -> Complaint | None:
        """Another position of a page, which is held, or of a copy of it."""
        held = self.table[row][nth]
        sharers = self._rows_with_page(held, row)
        if page == held:
            if sharers and any(source == held for source, _ in copies):
                return (
                    f"{said}: row {row} writes, so it goes on in the copy; {_rows_in_words(sharers)} keep page {held}.",
                    None,
                )
            if sharers:
                return f"{said}: {_rows_in_words(sharers)} hold{'s' * (len(sharers) == 1)} page {page}, too.", (
                    "shared-page-written")  # fmt: skip
            return self._complaint_about_needless_copy(row, copies[0]) if copies else None
        if others := self._rows_with_page(page, row):
            return self._complaint_page_in_use(row, nth, page, others, said)
        if page in self.table[row]:
            return f"{said}: page {page} holds other positions of this text.", None
        if (held, page) not in copies:
            if (page, held) in copies:
                return f"copy({page}, {held}): the source comes first; page {held} has what is to be copied.", None
            if not sharers:
                return f"{said}: the row's last positions lie in page {held}, which is its own and not full.", None
            return f"{said}: the positions before it lie in page {held}, and were not copied.", "not-copied"
        if not sharers:
            return self._complaint_about_needless_copy(row, (held, page))
        copies.remove((held, page))
        if copies:
            return self._complaint_about_needless_copy(row, copies[0])
        self._replace_page(row, nth, page)
        self.left_by_copy[held] += 1
        return None

    def _replace_page(self, row: int, nth: int, page: int) -> None:
        self.table[row][nth:] = [page]
        for known in (self.left_by_copy, self.left_by_end, self.ended_shared, self.ended_stale):
            known.pop(page, None)

    def _rows_with_page(self, page: int, but: int | None = None) -> list[int]:
        return [r for r, pages in enumerate(self.table) if r != but and page in pages]

    def _complaint_page_in_use(self, row: int, nth: int, page: int, others: list[int], said: str) -> Complaint:
        message = f"{said}: page {page} is in use, by {_rows_in_words(others)}."
        if page in self.ended_shared:
            return f"{message} Row {self.ended_shared[page]} held it, too, when it ended.", "freed-while-shared"
        if page in self.shared_once:
            return message, None
        if self.last[row][nth : nth + 1] == [page]:
            return f"{message} Row {row} held it before its last text ended.", "stale-table"
        if page in self.ended_stale:
            return f"{message} Row {self.ended_stale[page]} held it in an earlier text, and ended again.", "stale-table"
        return message, None

    def _complaint_about_needless_copy(self, row: int | None, pair: tuple[int, int]) -> Complaint:
        """The message about a needless copy."""
        source, target = pair
        message, holders = f"copy({source}, {target}) is not needed", self._rows_with_page(source)
        mine = [] if row is None else self.table[row]
        if source in self.forked and source not in mine:
            return f"{message}: page {source} has one more row since a fork, and is not written now.", "copies-at-fork"
        if not holders:
            return f"{message}: page {source} holds no position of any text.", "page-too-early"
        if source not in mine or source in self.forked:
            return f"{message} for this event.", None
        writes = self.length[row] % self.page and source == mine[-1]
        if not writes:
            return f"{message}: page {source} is full, and is not written.", "copies-whole-table"
        if len(holders) > 1:
            return f"{message} a second time.", None
        by_copy, by_end = self.left_by_copy[source], self.left_by_end[source]
        message += f": row {row} alone holds page {source}."
        if by_copy and by_end:
            return f"{message} {by_copy + by_end} rows have left it, by a copy or by an end.", None
        if by_copy or by_end:
            left = f"{by_copy + by_end} row{'s have' if by_copy + by_end > 1 else ' has'} left it"
            by = "by a copy" if by_copy else "by its end"
            return f"{message} {left}, {by}.", "departure-not-counted" if by_copy else "end-not-counted"
        return message, "copies-its-own"

    def first_wrong_result(self, table_RX: np.ndarray, references_P: np.ndarray) -> Complaint | None:
        """The tables and counts at the end, beside what the calls have said."""
        for row, (got_X, pages) in enumerate(zip(table_RX.tolist(), self.table, strict=True)):
            want_X = pages + [-1] * (len(got_X) - len(pages))
            nth = next((n for n, (got, want) in enumerate(zip(got_X, want_X, strict=True)) if got != want), None)
            if nth is not None:
                return self._complaint_about_entry(row, nth, got_X[nth], want_X[nth])
        due = Counter(page for pages in self.table for page in pages)
        more = {page: int(count) - due[page] for page, count in enumerate(references_P)}
        page = next((page for page, too_many in more.items() if too_many), None)
        if page is None:
            return None
        holders = self._rows_with_page(page)
        rows = f"{_rows_in_words(holders)} hold{'s' * (len(holders) < 2)}"
        message = f"references_P[{page}] is {references_P[page]}; {rows} it."
        if more[page] < 0:
            if page in self.ended_shared:
                return f"{message} Row {self.ended_shared[page]} held it, too, and ended.", "freed-while-shared"
            is_stale = page in self.ended_stale and page not in self.shared_once
            return message, "stale-table" if is_stale else None
        as_left = {
            "departure-not-counted": all(more[p] == self.left_by_copy[p] for p in more),
            "end-not-counted": all(more[p] == self.left_by_end[p] for p in more),
        }
        named = [mistake for mistake, fits in as_left.items() if fits]
        return message, named[0] if len(named) == 1 else None

    def _complaint_about_entry(self, row: int, nth: int, got: int, want: int) -> Complaint:
        message = f"table_RX[{row}, {nth}] is {got}"
        if not self.table[row] and self.old[row]:
            return f"{message}; row {row} has ended, and holds no page.", "stale-table"
        if got == -1 and self.old[row]:
            return f"{message}; row {row} has begun again, so position {nth * self.page} is its first.", "stale-table"
        if want != -1:
            return f"{message}; position {nth * self.page} of row {row} lies in page {want}.", None
        message += f"; the {self.length[row]} positions of row {row} need {len(self.table[row])} of its pages."
        if got in self.old[row]:
            return message, "stale-table"
        too_early = nth == len(self.table[row]) and self.length[row] % self.page == 0
        return message, "page-too-early" if too_early else None


def _as_integers(arguments: tuple, count: int) -> tuple[int, ...] | None:
    """The arguments of a call as integers, if there are that many."""
    arrays = [np.asarray(a) for a in arguments]
    if len(arrays) != count or any(a.ndim or a.dtype.kind not in "iu" for a in arrays):
        return None
    return tuple(int(a) for a in arrays)


def _call_in_words(name: str, arguments: tuple) -> str:
    return f"{name}({', '.join(str(a)[:20] for a in arguments)})"


def _rows_in_words(rows: list[int]) -> str:
    if len(rows) < 2:
        return f"row {rows[0]}" if rows else "no row"
    return f"rows {', '.join(map(str, rows[:-1]))} and {rows[-1]}"
