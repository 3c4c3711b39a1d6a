"""Windows of n tokens over a row of text, thread by thread, from a run of an n-gram kernel in the emulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..emulator.run import Run
from .accesses import traced_accesses
from .canvas import Canvas
from .figure import Figure, scrub

WIDTH, HEIGHT, LEFT = 56, 30, 12  # pixels, of a word


def draw_windows(
    run: Run, text: Sequence[str], vocabulary: Sequence[str], *, name: str, caption: str, alt: str, row: int = 0,
    block: int = 0, most: int = 6, tokens: str = "tokens_RM", scores: str = "scores_RV",
) -> Figure:  # fmt: skip
    """A frame for each thread of a block that read tokens of a row: what it read and how often, and what it banned.

    text: the words of the row. vocabulary: the word of each score. tokens, scores: what the kernel calls its arrays.
    """
    read = [a for a in traced_accesses(run, tokens, block) if not a.writes and a.index[0] == row]
    threads = sorted({a.thread for a in read})[:most]
    stored = [a for a in _accesses_or_none(run, scores, block) if a.writes and a.index[0] == row]
    frames = []
    for thread in threads:
        times = Counter(a.index[1] for a in read if a.thread == thread)
        banned = {a.index[1] for a in stored if a.thread == thread}
        words = ", ".join(vocabulary[i] for i in sorted(banned)) or "nothing"
        label = f"Thread {thread}: {times.total()} loads of {len(times)} tokens; it bans {words}."
        frames.append((label, _draw_frame(thread, text, vocabulary, times, banned)))
    return scrub(name, frames, caption=caption, alt=alt)


def _accesses_or_none(run: Run, array: str, block: int) -> list:
    """Accesses of an array that a run need not touch."""
    named = any(m.name == array for m in run._launch.journal.memories)
    return traced_accesses(run, array, block) if named and run.total("global_stores") else []


def _draw_frame(thread: int, text, vocabulary, times: Counter, banned: set[int]) -> Canvas:
    canvas = Canvas(2 * LEFT + WIDTH * max(len(text), len(vocabulary)), 196)
    canvas.text(LEFT, 20, f"thread {thread} reads", bold=True)
    for k, word in enumerate(text):
        fill = "mid" if times[k] else "paper"
        canvas.cell(LEFT + WIDTH * k, 30, fill, word, width=WIDTH, height=HEIGHT, tip=f"token {k}: {times[k]} loads")
        count = f"{times[k]}x" if times[k] else ""
        canvas.text(LEFT + WIDTH * (k + 0.5), 76, count, anchor="middle", role="faint")
    canvas.text(LEFT, 106, "and bans", bold=True)
    for k, word in enumerate(vocabulary):
        fill = "strong" if k in banned else "paper"
        canvas.cell(LEFT + WIDTH * k, 116, fill, word, width=WIDTH, height=HEIGHT)
        if k in banned:
            canvas.text(LEFT + WIDTH * (k + 0.5), 162, "-inf", anchor="middle")
    canvas.legend(LEFT, 186, {"mid": "read", "strong": "banned"})
    return canvas


def draw_matches(text: Sequence[str], n: int, *, name: str, caption: str, alt: str) -> Figure:
    """A frame for each start: the last n - 1 words of a text below the words that begin there; where both agree, the
    word behind them is banned."""
    tail = list(text[len(text) - n + 1 :])
    frames = []
    for start in range(len(text) - n + 1):
        same = [a == b for a, b in zip(text[start:], tail, strict=False)]
        behind = text[start + n - 1]
        verdict = f"agree, so {behind} may not come next" if all(same) else "differ, so nothing is banned"
        frames.append((f"Start {start}: the words {verdict}.", _frame_of_match(text, tail, start, same)))
    return scrub(name, frames, caption=caption, alt=alt)


def _frame_of_match(text: Sequence[str], tail: list[str], start: int, same: list[bool]) -> Canvas:
    canvas = Canvas(max(2 * LEFT + WIDTH * len(text), 330), 162)
    canvas.text(LEFT, 20, "the text", bold=True)
    for k, word in enumerate(text):
        banned = all(same) and k == start + len(tail)
        fill = "strong" if banned else "mid" if start <= k < start + len(tail) else "paper"
        canvas.cell(LEFT + WIDTH * k, 30, fill, word, width=WIDTH, height=HEIGHT)
    for k, (word, agrees) in enumerate(zip(tail, same, strict=True)):
        fill = "mark" if agrees else "pale"
        canvas.cell(LEFT + WIDTH * (start + k), 30 + HEIGHT + 6, fill, word, width=WIDTH, height=HEIGHT)
    canvas.text(LEFT, 122, f"its end, {' '.join(tail)}, slides along it", role="faint")
    canvas.legend(LEFT, 150, {"mark": "agrees", "pale": "differs", "strong": "banned"})
    return canvas
