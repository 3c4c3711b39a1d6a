"""Runs the anatomy of a step in a headless Chromium: its tokens against Python's, its speed, its keys, its widths.

    python docs/check_anatomy.py build/site                          ends with 1 if anything is wrong
    python docs/check_anatomy.py build/site --pictures build/looks   and keeps a picture for each width

The site is served on this machine's loopback while the check runs. CASES are what `cases` draws: tests/tutorials runs
some of them in node, too.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import functools
import http.server
import json
import sys
import threading
from pathlib import Path
from typing import Any

import check_site
import numpy as np

import minidecode as md

PLANS = {"none": "cache=none", "cache": "cache=preallocated", "split": "cache=split", "el": "cache=el",
         "mqa": "cache=preallocated"}  # fmt: skip
TEXTS = [
    "Fellow citizens,", "The war of", "It's 1865; we shall", "The Treasury has received $1,234.56 and",
    "  Peace —  naïve café", "I<|endoftext|>The", "Gentlemen of the Senate\n\nand House of Representatives:",
]  # fmt: skip
WIDTHS = (360, 480, 800, 1280, 1600)
TOKENS_A_SECOND = 30


def cases(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Texts with options, as the page's worker takes them: each plan with each search."""
    draw, made = np.random.default_rng(seed), []
    for i in range(count):
        plan, search = list(PLANS)[i % 5], i % 3
        options = {"plan": plan, "newTokens": int(draw.integers(3, 10)), "ngram": int(draw.integers(0, 4)), "W": 1}
        if search == 1:
            options["W"] = int(draw.integers(2, 6))
        if search == 2:
            options["sampling"] = {
                "temperature": float(draw.choice([0.5, 1.0, 1.5])),
                "topK": int(draw.choice([0, 5, 50])),
                "topP": float(draw.choice([1.0, 0.9, 0.5])),
                "seed": int(draw.integers(1000)),
            }
        name = "tiny-gpt2-mqa" if plan == "mqa" else "tiny-gpt2"
        made.append({"name": name, "text": TEXTS[i % len(TEXTS)], "options": options})
    return made


@functools.cache
def model(name: str) -> md.Model:
    return md.load(name, dtype="int8", plan="numpy")


def tokens_of(case: dict[str, Any]) -> list[int]:
    """What the package generates for a case."""
    options, sampling = case["options"], case["options"].get("sampling")
    given = {"max_new_tokens": options["newTokens"], "no_repeat_ngram_size": options["ngram"]}
    if sampling:
        given |= {"do_sample": True, "temperature": sampling["temperature"], "top_k": sampling["topK"],
                  "top_p": sampling["topP"], "seed": sampling["seed"]}  # fmt: skip
    else:
        given["num_beams"] = options["W"]
    out = model(case["name"]).generate(case["text"], plan=PLANS[options["plan"]], **given)
    return out.token_ids[0].tolist()


# Runs cases in the page's own worker, one after the other; the answers are in window.answers.
IN_WORKER = """(async cases => {
  const source = document.querySelector('script[src*="anatomy/page.js"]').src.replace(/page\\.js.*/, 'worker.js');
  const worker = new Worker(source), answers = [];
  const answer = message => new Promise(done => {
    worker.onmessage = ({ data }) => done(data);
    worker.postMessage(message);
  });
  for (const start of cases) {
    let step = await answer({ start });
    while (!step.error && !step.result) step = await answer({});
    answers.push(step.error || step.result);
  }
  worker.terminate();
  window.answers = answers;
})(%s)"""
STATE = "document.querySelector('[data-anatomy]').dataset"


async def until(tab: check_site.Browser, expression: str, seconds: float = 300) -> Any:
    """The value of an expression as soon as there is one."""
    for _ in range(int(seconds / 0.05)):
        if value := await tab.value(expression):
            return value
        await asyncio.sleep(0.05)
    raise SystemExit(f"nothing came of {expression} within {seconds:g} seconds")


async def check_tokens(tab: check_site.Browser, count: int) -> list[str]:
    asked = cases(count)
    await tab.value(IN_WORKER % json.dumps(asked) + "; 0")
    answers = await until(tab, "window.answers")
    wrong = []
    for case, answer in zip(asked, answers, strict=True):
        if answer != (expected := tokens_of(case)):
            wrong.append(f"other tokens than Python's: {case}: {answer}, not {expected}")
    return wrong


async def check_speed(tab: check_site.Browser) -> list[str]:
    """48 tokens, one text, with a cache, drawn step by step."""
    for name, value in [("plan", "cache"), ("search", "greedy"), ("newTokens", "48"), ("pace", "0")]:
        await tab.value(f"document.querySelector('#anatomy-{name}').value = '{value}'")
    start = "performance.mark('begin'); document.querySelector('#anatomy-play').click()"
    await tab.value("document.querySelector('#anatomy-again').click()")
    await until(tab, f"{STATE}.step === '1'")
    await tab.value(start)
    count = len((await until(tab, f"{STATE}.result")).split())
    milliseconds = await tab.value("performance.measure('all', 'begin').duration")
    print(f"{1000 * count / milliseconds:.0f} tokens a second, drawn; on two idle cores at least {TOKENS_A_SECOND}")
    return [] if count == 48 else [f"{count} tokens where 48 were asked for"]


async def check_keys(tab: check_site.Browser) -> list[str]:
    """Each control can be reached by Tab; the arrow keys go forth and back from anywhere; Back ends a play."""
    await tab.value("document.querySelector('#anatomy-again').click()")
    await until(tab, f"{STATE}.step === '1'")
    await tab.value("document.querySelector('#anatomy-text').focus()")
    reached = set()
    for _ in range(20):
        reached.add(await tab.value("document.activeElement.id"))
        await press(tab, "Tab", 9)
    names = ("text", "plan", "search", "newTokens", "pace", "step", "play", "again")
    wrong = [f"Tab does not reach {name}" for name in names if f"anatomy-{name}" not in reached]
    await tab.value("document.activeElement.blur()")
    await press(tab, "ArrowRight", 39)
    await until(tab, f"{STATE}.step === '2'")
    await press(tab, "ArrowLeft", 37)
    await until(tab, f"{STATE}.step === '1'")
    await tab.value("document.querySelector('#anatomy-pace').value = '150'")
    await tab.value("document.querySelector('#anatomy-play').click()")
    await until(tab, f"{STATE}.step === '3'")
    await tab.value("document.querySelector('#anatomy-back').click()")
    await asyncio.sleep(0.5)  # longer than the pace
    if (step := await tab.value(f"{STATE}.step")) not in ("2", "3"):  # it may have gone on before the click
        wrong.append(f"after Back the play goes on, to step {step}")
    return wrong


async def press(tab: check_site.Browser, key: str, code: int) -> None:
    for kind in ("keyDown", "keyUp"):
        await tab.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)


async def check_widths(tab: check_site.Browser, pictures: Path | None) -> list[str]:
    wrong = []
    for width in WIDTHS:
        await tab.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        for what in (check_site.WIDE, check_site.CUT):
            if broken := await tab.value(what):
                wrong.append(f"{width} pixels wide: {broken}")
        if pictures:
            pictures.mkdir(parents=True, exist_ok=True)
            clip = await check_site.whole_page(tab)
            shot = await tab.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
            (pictures / f"anatomy-{width}.png").write_bytes(base64.b64decode(shot["data"]))
    return wrong


async def check(address: str, count: int, pictures: Path | None) -> list[str]:
    async with check_site.browser_tab() as tab:
        await tab.open(f"{address}/docs/anatomy.html")
        await until(tab, f"{STATE}.step === '1'")
        wrong = await check_tokens(tab, count) + await check_speed(tab)
        wrong += await check_widths(tab, pictures) + await check_keys(tab)
        return wrong + tab.complaints()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--pictures", type=Path, help="a folder for pictures of the page")
    args = parser.parse_args()
    handler = functools.partial(Quiet, directory=args.site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        wrong = asyncio.run(check(f"http://127.0.0.1:{server.server_port}", args.cases, args.pictures))
        server.shutdown()
    print("\n".join([*wrong, f"the anatomy of a step: {args.cases} cases, {len(wrong)} things wrong"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
