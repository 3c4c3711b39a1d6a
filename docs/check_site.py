"""Looks at the built site: links and anchors, and in a headless Chromium each page's console and width.

    python docs/check_site.py build/site                          ends with 1 if anything is wrong
    python docs/check_site.py build/site --pictures build/looks   and keeps pictures of all pages

Pages are opened as files, at the width of a desktop and of a phone, with JavaScript and without. CHROMIUM names the
browser where it has another name. Nothing outside the folder is asked for; links that lead outside are counted only.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

WIDTHS = {"desktop": 1280, "phone": 360}


class Page(HTMLParser):
    """What a page links to or loads, what can be linked to in it, and what of it speaks to nobody."""

    def __init__(self, path: Path):
        super().__init__()
        self.links, self.loads, self.anchors, self.silent = [], [], {"", "top"}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[k] for k in ("id", "name") if attributes.get(k)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in ("script", "img", "iframe") and attributes.get("src"):
            self.loads.append(attributes["src"])
        if tag == "link" and attributes.get("href") and attributes.get("rel") != "canonical":
            self.loads.append(attributes["href"])
        if tag == "img" and not attributes.get("alt"):
            self.silent.append(attributes.get("src"))


def check_links(site: Path) -> tuple[list[str], int]:
    """(what is wrong, how many links lead outside)."""
    pages = {p.resolve(): Page(p) for p in site.rglob("*.html")}
    wrong, outside = [], 0
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        wrong += [f"{here}: an image without alternative text: {src}" for src in page.silent]
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme in ("data", "mailto", "javascript"):
                continue
            if parts.scheme or parts.netloc:
                outside += 1
                if link in page.loads:
                    wrong.append(f"{here}: loads from outside: {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                wrong.append(f"{here}: leads nowhere: {link}")
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{here}: no such place: {link}")
    return wrong, outside


# The browser, spoken to in its own protocol over tornado, which the notebooks' kernel brings


class Browser:
    """One tab."""

    def __init__(self, socket):
        self.socket, self.number, self.events = socket, 0, []

    async def ask(self, method: str, **parameters) -> dict:
        self.number += 1
        await self.socket.write_message(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            answer = await self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    async def read(self) -> dict:
        message = json.loads(await asyncio.wait_for(self.socket.read_message(), 30))
        if "method" in message:
            self.events.append(message)
        return message

    async def open(self, url: str) -> None:
        """Waits until the page and what it loads are there."""
        self.events.clear()
        await self.ask("Page.navigate", url=url)
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            await self.read()
        await asyncio.sleep(0.05)  # what scripts do after that
        await self.value("1")  # and what the console has said of it

    async def value(self, expression: str):
        reply = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in reply:
            raise RuntimeError(reply["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return reply["result"].get("value")

    def complaints(self) -> list[str]:
        """Console errors, exceptions, failed loads since the page was opened."""
        problems = []
        for e in self.events:
            p = e["params"]
            if e["method"] == "Runtime.exceptionThrown":
                problems.append(p["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            elif e["method"] == "Runtime.consoleAPICalled" and p["type"] in ("error", "assert"):
                problems.append(" ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
            elif e["method"] == "Log.entryAdded" and p["entry"]["level"] == "error":
                problems.append(p["entry"]["text"])
        return problems


# What sticks out of the page to the right, and is in nothing that scrolls or is hidden by design (the theme's drawers).
WIDE = """(() => {
  const width = document.documentElement.clientWidth;
  return document.documentElement.scrollWidth > width + 1
    ? `${document.documentElement.scrollWidth} pixels on a screen of ${width}` : '';
})()"""
SCRUB = """(() => {
  for (const f of document.querySelectorAll('figure.md-scrub')) {
    const frames = [...f.querySelectorAll('.md-frame')], slider = f.querySelector('input[type=range]');
    const shown = () => frames.filter(x => x.getBoundingClientRect().height > 0).map(x => frames.indexOf(x)).join();
    if (!slider) return shown() === frames.map((_, k) => k).join() ? '' : 'without JavaScript not all frames are there';
    if (shown() !== '0') return `a figure begins with frames ${shown()}`;
    f.querySelectorAll('button')[1].click();
    if (shown() !== '1') return `after a step frames ${shown()} are shown`;
    slider.value = frames.length - 1; slider.dispatchEvent(new Event('input'));
    if (shown() !== String(frames.length - 1)) return `at its end frames ${shown()} are shown`;
  }
  return '';
})()"""

# Text that is cut, or that has to be pushed aside to be read: boxes of code and outputs, tables, words in hidden boxes.
CUT = """(() => {
  const wide = e => e.scrollWidth > e.clientWidth + 1, found = [];
  for (const e of document.querySelectorAll('article *')) {
    const x = getComputedStyle(e).overflowX;
    const cuts = ['hidden', 'clip'].includes(x) ||
      (['auto', 'scroll'].includes(x) && e.matches('pre, table, p, td, .table-wrapper'));
    if (cuts && wide(e) && !e.matches('.live-says') && !e.closest('.recorded'))
      found.push(`${e.tagName} "${e.textContent.trim().slice(0, 40)}" is ${e.scrollWidth} wide in ${e.clientWidth}`);
  }
  return found.slice(0, 5).join('; ');
})()"""

# Words of tables that are cut in two: runs of letters whose pieces stand in different lines.
BROKEN = """(() => {
  const found = [], range = document.createRange();
  for (const cell of document.querySelectorAll('article :is(td, th)')) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text; text = texts.nextNode();) for (const word of text.data.matchAll(/[A-Za-z]+/g)) {
      range.setStart(text, word.index); range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) found.push(word[0]);
    }
  }
  return found.length ? `tables break the words ${found.slice(0, 5).join(', ')}` : '';
})()"""

# Figures that compute: a picture or a table without JavaScript; with it, each control has a name and changes something.
LIVE = """(() => {
  const seen = e => e && e.getBoundingClientRect().height > 0;
  for (const f of document.querySelectorAll('[data-live], [data-live-bricks], [data-live-race]')) {
    const still = f.querySelector('.md-frame svg, .live-without, .live-table');
    const fills = new Set([...f.querySelectorAll('.live-bricks rect')].map(r => getComputedStyle(r).fill));
    if (f.matches('[data-live-bricks]') && fills.size !== 3 && fills.size) return 'bricks of three kinds look alike';
    const inputs = [...f.querySelectorAll('input, select')], buttons = [...f.querySelectorAll('tr button')];
    if (!inputs.length && !buttons.length) { if (!seen(still)) return 'a figure shows nothing'; continue; }
    if (f.matches('[data-live]') && seen(still)) return 'a figure that computes stands below its picture';
    for (const i of inputs) {
      const shown = () => f.querySelector('.live-bars, .live-bricks').innerHTML, before = shown(), was = i.value;
      if (!i.labels.length) return `no label says what ${i.id} is`;
      i.value = i.tagName === 'SELECT' ? [...i.options].find(o => !o.selected).value : was === i.max ? i.min : i.max;
      i.dispatchEvent(new Event('input')); i.dispatchEvent(new Event('change'));
      if (shown() === before) return `${i.id} changes nothing`;
      i.value = was; i.dispatchEvent(new Event('input')); i.dispatchEvent(new Event('change'));
      if (shown() !== before) return `${i.id} does not come back`;
    }
    if (buttons.length) {
      const says = f.querySelector('.live-verdict'), of = new Set();
      for (const a of buttons) for (const b of buttons) if (a !== b) {
        a.click(); b.click(); of.add(says.textContent.split(':')[0]);
      }
      if ([...of].sort().join() !== 'A race,No race') return `the verdicts are ${[...of]}`;
    }
  }
  return '';
})()"""

# Recorded pictures are given the width at which their smallest letters can be read; a narrower page scrolls them.
SHRUNK = """[...document.querySelectorAll('.recorded img')]
  .filter(i => i.getBoundingClientRect().width < parseFloat(i.style.width) - 1)
  .map(i => `${i.alt} is ${Math.round(i.getBoundingClientRect().width)} pixels wide, legible at ${i.style.width}`)
  .join('; ')"""


@contextlib.asynccontextmanager
async def browser_tab() -> AsyncIterator[Browser]:
    """A tab of a headless Chromium, which ends with the block."""
    from tornado.websocket import websocket_connect

    browser = os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
    )
    if browser is None:
        raise SystemExit("no Chromium is installed, or CHROMIUM does not name it: the pages were not looked at")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-component-update", "--no-first-run", "--hide-scrollbars", f"--user-data-dir={profile}",
            "--remote-debugging-port=0", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            tab = Browser(await websocket_connect(await address_of(Path(profile)), max_message_size=1 << 28))
            for domain in ("Page", "Runtime", "Log"):
                await tab.ask(f"{domain}.enable")
            yield tab
        finally:
            process.terminate()
            await process.wait()


async def look(site: Path, pictures: Path | None) -> list[str]:
    """What is wrong with any page, in a browser."""
    wrong = []
    async with browser_tab() as tab:
        for path in sorted(site.rglob("*.html")):
            if 'http-equiv="refresh"' in path.read_text(encoding="utf-8"):  # only leads on to another
                continue
            for name, width in WIDTHS.items():
                wrong += await look_at(tab, site, path, name, width, pictures)
    return wrong


async def address_of(profile: Path) -> str:
    """Where the browser's first tab listens; it writes the port into its folder when it is ready."""
    from tornado.httpclient import AsyncHTTPClient

    for _ in range(300):
        if (file := profile / "DevToolsActivePort").exists() and (lines := file.read_text().split()):
            tabs = json.loads((await AsyncHTTPClient().fetch(f"http://127.0.0.1:{lines[0]}/json")).body)
            return next(t["webSocketDebuggerUrl"] for t in tabs if t["type"] == "page")
        await asyncio.sleep(0.1)
    raise SystemExit("the browser did not start within 30 seconds")


async def look_at(tab: Browser, site: Path, path: Path, name: str, width: int, pictures: Path | None) -> list[str]:
    wrong, page = [], path.relative_to(site)
    await tab.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    for scripts in (False, True):
        await tab.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        await tab.open(path.resolve().as_uri())
        how = f"{page} ({name}{'' if scripts else ', without JavaScript'})"
        wrong += [f"{how}: {message}" for message in tab.complaints()]
        if wide := await tab.value(WIDE):
            wrong.append(f"{how}: {wide}")
        for what in (SCRUB, SHRUNK, CUT, BROKEN, LIVE):
            if broken := await tab.value(what):
                wrong.append(f"{how}: {broken}")
    if pictures:
        shot = await tab.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=await whole_page(tab))
        pictures.mkdir(parents=True, exist_ok=True)
        file = pictures / f"{str(page.with_suffix('')).replace('/', '-')}-{name}.png"
        file.write_bytes(base64.b64decode(shot["data"]))
    return wrong


async def whole_page(tab: Browser) -> dict:
    size = (await tab.ask("Page.getLayoutMetrics"))["cssContentSize"]
    return {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12_000), "scale": 1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path, help="a folder for pictures of all pages")
    parser.add_argument("--no-browser", action="store_true", help="links and anchors alone")
    args = parser.parse_args()
    wrong, outside = check_links(args.site)
    if not args.no_browser:
        wrong += asyncio.run(look(args.site, args.pictures))
    print("\n".join(wrong))
    pages = len(list(args.site.rglob("*.html")))
    print(f"{pages} pages, {len(wrong)} things wrong; {outside} links lead outside and were not followed")
    return int(bool(wrong) or not pages)


if __name__ == "__main__":
    sys.exit(main())
