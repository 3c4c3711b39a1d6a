"""Slides for a class: the poll of each chapter with its answer on the slide behind it; or a lecture from one chapter.

    python tutorials/slides.py --out polls.html                  the polls of all chapters
    python tutorials/slides.py --deck 02 --out lecture.html      chapter 02: poll, pictures, code, results, tables

One file, for any browser, offline. Arrow keys and space turn the slides, N shows the chapter's text to a slide. Slides
are made from the chapters, so they say what the chapters say.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the checkout's own package, whatever is installed

from deck import Slide, deck

from minidecode.course.chapters import Chapter, chapters, find_chapter
from minidecode.errors import MinidecodeError

STYLE = """
html { scroll-snap-type: y mandatory; } body { margin: 0; font: 3.2vmin/1.45 system-ui, sans-serif; }
section { min-height: 100vh; box-sizing: border-box; padding: 6vmin 8vmin; scroll-snap-align: start; }
section:nth-of-type(even) { background: #eef3f8; } h2 { font-size: 1em; margin: 0 0 .6em; color: #57606a; }
li { margin: .6em 0; } figure { margin: 0; } figcaption { font-style: italic; margin-bottom: .4em; }
section.first h2 { font-size: 1.8em; color: inherit; margin-top: 12vh; }
p.line { margin: 0 0 .8em; font-weight: 600; } p.live { color: #57606a; margin: .4em 0; }
img { width: min(84vw, 110vh); max-height: 58vh; object-fit: contain; object-position: left; background: #fff; }
pre { margin: 0 0 .8em; line-height: 1.4; overflow: hidden; }
pre.text { border-left: .3em solid #4a8ad4; padding-left: 1em; }
.new { background: #d7f0dd; color: #10301a; } .old { background: #f7dcdc; color: #40100f; }
.table { font-size: min(2.6vmin, 1.55vw); } th, td { text-align: left; padding: .2em 1em .2em 0; }
details { font-size: 2.2vmin; margin-top: 1em; max-width: 70em; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } img { background: #0d1117; }
  section:nth-of-type(even) { background: #1b222b; } h2, p.live { color: #9aa4af; } }
@media print { section { page-break-after: always; } details { display: none; } }
"""
SCRIPT = """
document.addEventListener('keydown', function (event) {
  var slides = Array.from(document.querySelectorAll('section'));
  var now = slides.findIndex(function (s) { return s.getBoundingClientRect().bottom > innerHeight / 2; });
  if (event.key === 'n' || event.key === 'N') {
    var notes = slides[now].querySelector('details');
    if (notes) { notes.open = !notes.open; }
    return;
  }
  var step = {ArrowRight: 1, ArrowDown: 1, PageDown: 1, ' ': 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1}[event.key];
  if (!step) { return; }
  event.preventDefault();
  slides[Math.min(Math.max(now + step, 0), slides.length - 1)].scrollIntoView();
});
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


def of_poll(chapter: Chapter) -> list[str]:
    """The question, and the answer behind it."""
    head = f"<h2>{chapter.number} {chapter.title}</h2>"
    return [f"<section>{head}\n{markdown(text)}</section>" for text in poll(chapter)]


def of_lecture(chapter: Chapter) -> list[str]:
    """The chapter's title, its poll, and its sections."""
    first, *others = map(section, deck(chapter))
    return [first.replace("<section>", '<section class="first">'), *of_poll(chapter), *others]


def section(slide: Slide) -> str:
    line = f'<p class="line">{inline(slide.line)}</p>' if slide.line else ""
    notes = f"<details><summary>notes</summary>{markdown(slide.notes)}</details>" if slide.notes else ""
    shown = "\n".join(slide.shown)
    return f"<section><h2>{inline(slide.title)}</h2>\n{line}\n{shown}\n{notes}</section>"


def markdown(text: str) -> str:
    """Text as HTML; links lead nowhere from a slide, and are left out."""
    from markdown_it import MarkdownIt

    return MarkdownIt().enable("table").render(re.sub(r"(?<!!)\[([^\]]+)\]\([^)]*\)", r"\1", text))


def inline(text: str) -> str:
    from markdown_it import MarkdownIt

    return MarkdownIt().renderInline(text)


def page(title: str, sections: list[str]) -> str:
    """All of them as one page of HTML."""
    body = "\n".join(sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>\n'
        f"{body}\n<script>{SCRIPT}</script></body></html>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deck", metavar="CHAPTER", help="a lecture from this chapter; by default the polls of all")
    parser.add_argument("--out", type=Path, required=True, help="an .html file")
    args = parser.parse_args()
    try:
        if args.deck:
            chapter = find_chapter(args.deck)
            text = page(f"{chapter.number} {chapter.title}", of_lecture(chapter))
        else:
            text = page("Polls of the course", [part for chapter in chapters() for part in of_poll(chapter)])
        args.out.write_text(text, encoding="utf-8")
    except MinidecodeError as error:
        raise SystemExit(str(error)) from None
    except OSError as error:
        raise SystemExit(f"{args.out} cannot be written: {error.strerror}") from None


if __name__ == "__main__":
    main()
