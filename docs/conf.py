"""The site: chapters with their outputs, API, catalog, results. One command, from the root of the repository:

    sphinx-build -W --keep-going -c docs . build/site

The outputs of cells are kept in build/cells until the package or its libraries change. The sources' root is the
repository, so that a link from a chapter to a file leads there on a code host and here alike.
"""

import hashlib
import os
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])  # for kernels

import pages  # noqa: E402
import write_anatomy  # noqa: E402


def code_that_runs() -> str:
    """A name for all that outputs of cells depend on, but for the cells themselves."""
    digest = hashlib.sha256(f"{metadata.version('numpy')} {metadata.version('numba')} {sys.version}".encode())
    for path in sorted((ROOT / "minidecode").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


project, author, project_copyright = "minidecode", "the authors of minidecode", "text: CC BY 4.0, code: MIT"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/guide/*.md",
    "docs/ops/*.md",
    "tutorials/[0-9]*.md",
    "benchmarks/README.md",
    "weights/*/README.md",
]
source_suffix = {".md": "myst-nb"}

html_theme = "furo"
html_title = "minidecode"
html_favicon = "static/favicon.svg"
html_static_path = ["static", "../build/anatomy"]
html_css_files = ["site.css", "live/live.css", "anatomy/picture.css", "anatomy/anatomy.css"]
html_js_files = [
    (f"{name}.js", {"defer": "defer"})
    for name in ("live/costs", "live/bars", "live/bricks", "live/race", "anatomy/picture", "anatomy/page")
]
html_extra_path = ["extra"]  # index.html, which leads to docs/index.html
html_theme_options = {"footer_icons": []}
html_copy_source = False

myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "cells" / code_that_runs())
nb_execution_timeout = 600  # seconds of a cell on a busy machine
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # they stand in the docstrings, as shapes and dtypes
autodoc_preserve_defaults = True


def setup(app):
    write_anatomy.write(ROOT / "build" / "anatomy" / "anatomy")
    app.connect("source-read", pages.complete)
    app.connect("html-page-context", pages.fit)
    app.connect("env-get-outdated", lambda *_: pages.GENERATED)
    app.connect("autodoc-process-docstring", pages.plain_docstring)
    return {"parallel_read_safe": True}
