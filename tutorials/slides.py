"""Slides for a class: the poll of each chapter, and its answer on the slide behind it.

    python tutorials/slides.py --out slides.html        one file, for any browser, offline; arrow keys or scrolling

They are made from the chapters, so they say what the chapters say.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the checkout's own package, whatever is installed

from minidecode.course.chapters import Chapter, chapters

STYLE = """
html { scroll-snap-type: y mandatory; } body { margin: 0; font: 3.2vmin/1.45 system-ui, sans-serif; }
section { min-height: 100vh; box-sizing: border-box; padding: 8vmin 10vmin; scroll-snap-align: start; }
section:nth-child(even) { background: #eef3f8; } h2 { font-size: 1em; color: #57606a; } li { margin: .6em 0; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; }
  section:nth-child(even) { background: #1b222b; } h2 { color: #9aa4af; } }
@media print { section { page-break-after: always; } }
"""


def poll(chapter: Chapter) -> tuple[str, str]:
    """(question with its options, answer), as Markdown without comments."""
    body = re.sub(r"<!--.*?-->", "", chapter.text, flags=re.DOTALL)
    asked = re.search(
        r"^## Before you read\n(.*?)<details>.*?</summary>(.*?)</details>", body, re.DOTALL | re.MULTILINE
    )
    if asked is None:
        raise ValueError(f"{chapter.path.name} does not open with a poll")
    return asked[1].strip(), asked[2].strip()


def slides(found: list[Chapter]) -> str:
    """All polls as one page of HTML."""
    from markdown_it import MarkdownIt

    render = MarkdownIt().enable("table").render
    sections = []
    for chapter in found:
        for text in poll(chapter):
            head = f"<h2>{chapter.number} {chapter.title}</h2>"
            sections.append(f"<section>{head}\n{render(text)}</section>")
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Polls of the course</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>\n'
        f"{body}\n</body></html>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="an .html file")
    args = parser.parse_args()
    try:
        args.out.write_text(slides(chapters()), encoding="utf-8")
    except OSError as error:
        raise SystemExit(f"{args.out} cannot be written: {error.strerror}") from None


if __name__ == "__main__":
    main()
