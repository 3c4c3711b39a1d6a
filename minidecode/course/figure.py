"""A figure of a chapter: one picture, or frames that a reader scrubs; as HTML for notebooks and the site.

tutorials/refresh.py writes the same frames to tutorials/figures/, for readers on a code host. Without JavaScript all
frames stand beside each other: small multiples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .canvas import Canvas

SCRIPT = """
(function () {
  document.querySelectorAll('figure.md-scrub:not([data-ready])').forEach(function (figure) {
    figure.dataset.ready = 'yes';
    var frames = Array.from(figure.querySelectorAll('.md-frame'));
    var bar = document.createElement('div'), slider = document.createElement('input');
    var says = document.createElement('span');
    bar.className = 'md-bar';
    slider.type = 'range'; slider.min = 0; slider.max = frames.length - 1; slider.value = 0;
    slider.setAttribute('aria-label', 'step of the figure');
    function button(word, name, by) {
      var b = document.createElement('button');
      b.type = 'button'; b.textContent = word; b.setAttribute('aria-label', name);
      b.onclick = function () { slider.value = Number(slider.value) + by; show(); };
      return b;
    }
    function show() {
      var at = Number(slider.value);
      frames.forEach(function (f, k) { f.style.display = k === at ? '' : 'none'; });
      says.textContent = (at + 1) + ' of ' + frames.length;
      slider.setAttribute('aria-valuetext', frames[at].dataset.label);
    }
    slider.oninput = show;
    bar.append(button('\\u25c0', 'previous step', -1), slider, button('\\u25b6', 'next step', 1), says);
    figure.querySelector('.md-frames').before(bar);
    show();
  });
})();
"""
STYLE = """
figure.md-figure { margin: 0 0 1em; }
.md-figure figcaption { font-style: italic; margin-bottom: .4em; }
.md-frames { display: flex; flex-wrap: wrap; gap: 8px; }
.md-frame { max-width: 100%; margin: 0; }
.md-frame svg { max-width: 100%; height: auto; }
.md-frame p { margin: 0 0 .2em; max-width: 30em; min-height: 1.5em; }
.md-bar { display: flex; gap: 8px; align-items: center; max-width: 480px; margin-bottom: .4em; }
.md-bar input { flex: 1; min-width: 0; } .md-bar button { min-width: 2.6em; min-height: 2.2em; }
"""


@dataclass(frozen=True)
class Figure:
    """Frames with a label each; one frame is a plain picture.

    name: its files under tutorials/figures/, so one of its own for each figure, beginning with the chapter's number.
    caption: the question that the figure answers. alt: what is to be seen, for those who do not see it.
    """

    name: str
    caption: str
    alt: str
    labels: tuple[str, ...]
    canvases: tuple[Canvas, ...]

    def __post_init__(self):
        if len(self.alt) < 30 or not self.caption.rstrip().endswith("?"):
            raise ValueError(f"{self.name}: a caption is a question, and alt says in a sentence what is to be seen")
        if len({c.width for c in self.canvases}) != 1:
            raise ValueError(f"{self.name}: frames are of one width, or they jump")

    def alts(self) -> list[str]:
        """The alternative text of each frame."""
        if len(self.canvases) == 1:
            return [self.alt]
        many = len(self.canvases)
        frames = [f"Frame {k + 1} of {many}: {label}" for k, label in enumerate(self.labels)]
        return [f"{self.alt} {frames[0]}", *frames[1:]]

    def files(self) -> dict[str, str]:
        """File name -> SVG. A frame's label stands below it: on a code host nothing else says which it is."""
        many = len(self.canvases) > 1
        names = [f"{self.name}-{k + 1}.svg" if many else f"{self.name}.svg" for k in range(len(self.canvases))]
        drawn = zip(names, self.canvases, self.alts(), self.labels, strict=True)
        return {name: canvas.svg(alt, note=label) for name, canvas, alt, label in drawn}

    def _repr_html_(self) -> str:
        frames = "".join(
            f'<div class="md-frame" data-label="{escape(label)}"><p>{escape(label)}</p>{canvas.svg(alt)}</div>'
            for label, canvas, alt in zip(self.labels, self.canvases, self.alts(), strict=True)
        )
        scrubs = len(self.canvases) > 1
        return (
            f"<style>{STYLE}</style>"
            f'<figure class="md-figure{" md-scrub" * scrubs}"><figcaption>{escape(self.caption)}</figcaption>'
            f'<div class="md-frames">{frames}</div></figure>' + (f"<script>{SCRIPT}</script>" if scrubs else "")
        )


def single(name: str, canvas: Canvas, *, caption: str, alt: str) -> Figure:
    """One picture."""
    return Figure(name, caption, alt, ("",), (canvas,))


def scrub(name: str, frames: Sequence[tuple[str, Canvas]], *, caption: str, alt: str) -> Figure:
    """Pictures to be gone through step by step: a label and a canvas each."""
    return Figure(name, caption, alt, tuple(f[0] for f in frames), tuple(f[1] for f in frames))
