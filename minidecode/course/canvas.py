"""A small canvas for figures: SVG that is legible on a phone, in greyscale, in light and in dark.

Colours are roles, not colours: each fill has its own lightness in both themes, so a print in grey still tells them
apart, and each knows the colour of the text that is written on it.
"""

from __future__ import annotations

import textwrap
from html import escape

# role: (fill, text on it) in light, then in dark. `paper` is the ground; tests hold the lightness apart.
FILLS = {
    "paper": (("#ffffff", "#1f2328"), ("#0d1117", "#e6edf3")),
    "pale": (("#dbe7f3", "#1f2328"), ("#3b434d", "#ffffff")),  # there, but not what this is about
    "mark": (("#f0b429", "#1f2328"), ("#c07d14", "#0d1117")),  # written, found, chosen
    "mid": (("#4a8ad4", "#0b1015"), ("#2766b0", "#ffffff")),  # read
    "strong": (("#174a84", "#ffffff"), ("#8ec0f7", "#0d1117")),  # read and written; what this is about
    "bad": (("#4a0d1a", "#ffffff"), ("#ffe3e6", "#4a0d1a")),  # a mistake: also drawn with a cross
}
INK, FAINT = ("#1f2328", "#e6edf3"), ("#57606a", "#9aa4af")
FONT = 13  # pixels; see MOST_WIDE
LETTER = 7.9  # pixels, how wide a letter of it is at most
MOST_WIDE = 480  # at 360 pixels' width a font of 13 is then still 9.75 high


def _theme_variables(theme: int) -> str:
    fills = "".join(f"--{role}:{c[theme][0]};--on-{role}:{c[theme][1]};" for role, c in FILLS.items())
    return f"{fills}--ink:{INK[theme]};--faint:{FAINT[theme]}"


def _style_sheet() -> str:
    """One style sheet, the same in every figure: the reader's theme, or the one chosen on the site or in JupyterLab."""
    light, dark = _theme_variables(0), _theme_variables(1)
    rules = [
        f'.mdf,[data-theme="light"] .mdf,[data-jp-theme-light="true"] .mdf{{{light}}}',
        f"@media (prefers-color-scheme:dark){{.mdf{{{dark}}}}}",
        f'[data-theme="dark"] .mdf,[data-jp-theme-light="false"] .mdf{{{dark}}}',
        ".mdf text{fill:var(--ink)}.mdf .faint{fill:var(--faint)}.mdf .line{stroke:var(--ink);fill:none}",
        ".mdf .edge{stroke:var(--faint)}",
        *(f".mdf .{role}{{fill:var(--{role})}}.mdf text.on-{role}{{fill:var(--on-{role})}}" for role in FILLS),
        *(f".mdf .cross-{role}{{stroke:var(--on-{role})}}" for role in ("bad",)),
    ]
    return "\n".join(rules)


STYLE = _style_sheet()


def xml_text(text: str) -> str:
    """Text as XML takes it."""
    return escape("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(text)))


class Canvas:
    """Cells, lines and words at places in pixels; `svg()` is the picture. Nothing depends on time or chance."""

    def __init__(self, width: int, height: int):
        if width > MOST_WIDE:
            raise ValueError(f"a figure is at most {MOST_WIDE} pixels wide, to be legible on a phone, not {width}")
        self.width, self.height, self.parts = width, height, []

    def text(self, x: float, y: float, words, *, anchor: str = "start", size: int = FONT, role: str = "", bold=False):
        """Words whose baseline is at y. anchor: start, middle or end. role: faint, or on-ROLE for text on a fill."""
        style = (f' class="{role}"' if role else "") + (f' text-anchor="{anchor}"' if anchor != "start" else "")
        style += (f' font-size="{size}"' if size != FONT else "") + (' font-weight="600"' if bold else "")
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{style} xml:space="preserve">{xml_text(words)}</text>')

    def cell(self, x: float, y: float, fill: str = "paper", words="", *, width: float = 26, height: float = 26, tip=""):
        """A box with a word in its middle. tip: what a mouse over it shows."""
        title = f"<title>{xml_text(tip)}</title>" if tip else ""
        self.parts.append(
            f'<g>{title}<rect class="{fill} edge" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/></g>'
        )
        if fill == "bad":  # told by shape too, not by colour alone
            d = f"M{x:g} {y:g}l{width:g} {height:g}M{x + width:g} {y:g}l{-width:g} {height:g}"
            self.parts.append(f'<path class="cross-bad" d="{d}" opacity=".45"/>')
        if words != "":
            self.text(x + width / 2, y + height / 2 + 4.5, words, anchor="middle", role=f"on-{fill}")

    def row(self, x: float, y: float, words, fills, *, width: float = 26, height: float = 26, tips=()):
        """Cells side by side; fills: a role for each word, or one for all."""
        fills = [fills] * len(words) if isinstance(fills, str) else fills
        tips = tips or [""] * len(words)
        for k, (word, fill, tip) in enumerate(zip(words, fills, tips, strict=True)):
            self.cell(x + k * width, y, fill, word, width=width, height=height, tip=tip)

    def line(self, x1: float, y1: float, x2: float, y2: float, *, thick: float = 1, dashed=False, arrow=False):
        """A straight line; arrow: with a head at its end."""
        style = f'class="line" stroke-width="{thick:g}"' + ' stroke-dasharray="4 3"' * dashed
        self.parts.append(f'<path {style} d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>')
        if arrow:
            length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
            ux, uy = (x2 - x1) / length * 7, (y2 - y1) / length * 7
            left, right = (x2 - ux - uy / 2, y2 - uy + ux / 2), (x2 - ux + uy / 2, y2 - uy - ux / 2)
            head = f"M{left[0]:.1f} {left[1]:.1f}L{x2:g} {y2:g}L{right[0]:.1f} {right[1]:.1f}"
            self.parts.append(f'<path class="line" stroke-width="{thick:g}" d="{head}"/>')

    def legend(self, x: float, y: float, entries: dict[str, str]):
        """What the fills mean, side by side: role -> word."""
        for role, word in entries.items():
            self.cell(x, y - 11, role, width=14, height=14)
            self.text(x + 19, y, word)
            x += 19 + LETTER * len(word) + 14

    def svg(self, alt: str = "", note: str = "") -> str:
        """The picture as the text of a file; alt: what it shows, for those who do not see it; note: a text below it."""
        lines = textwrap.wrap(note, int(self.width / LETTER) - 2)
        below = [
            f'<text x="8" y="{self.height + 14 + 18 * k}" class="faint">{xml_text(line)}</text>'
            for k, line in enumerate(lines)
        ]
        height = self.height + (18 * len(lines) + 8 if lines else 0)
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" class="mdf" viewBox="0 0 {self.width} {height}"'
            f' width="{self.width}" height="{height}" role="img" aria-label="{xml_text(alt)}"'
            f' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{FONT}">',
            f"<style>\n{STYLE}\n</style>", f'<rect class="paper" width="{self.width}" height="{height}"/>',
            *self.parts, *below, "</svg>", "",
        ])  # fmt: skip
