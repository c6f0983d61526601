"""The documentation site: `make docs` builds it from the Markdown files of this repository, without the network."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import muster

ROOT = Path(__file__).parents[1]

project = "muster"
author = "the muster developers"
project_copyright = "the muster developers"
version = release = muster.__version__

root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/**/*.md",
    "examples/*/README.md",
    "benchmarks/LEARNING.md",
    "benchmarks/results/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "tests/lab/README.md",
]
exclude_patterns = [".*", "build", "runs", "src", "**/.venv", "**/runs"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
suppress_warnings = ["sphinx.ext.autodoc.import_object"] if os.environ.get("DOCS_WITHOUT_EXTRAS") else []

html_theme = "furo"
html_title = "muster"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sphinx = False
html_copy_source = False
pygments_style = "tango"
pygments_dark_style = "github-dark"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

LINK = re.compile(r"(!?\[[^\]]*\])\(([^)#:\s]+)(#[^)\s]*)?\)")
"""A Markdown link to a file of this repository."""


def _with_readmes(app: Sphinx, name: str, source: list[str]) -> None:
    """Let links to folders, which a code host shows with their README, lead to the README's page."""
    here = (ROOT / name).parent

    def whole(match: re.Match[str]) -> str:
        text, path, anchor = match[1], match[2], match[3] or ""
        if (here / path).is_dir() and (here / path / "README.md").is_file():
            path = f"{path.rstrip('/')}/README.md"
        return f"{text}({path}{anchor})"

    source[0] = LINK.sub(whole, source[0])


def _with_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Make the navigation of the site of the lists of links on the start page."""
    if name != root_doc:
        return
    trees = []
    for section in re.split(r"^## ", source[0], flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        pages = re.findall(r"^(?:-|\d+\.) \[[^\]]+\]\(([^)#:]+\.md)\)", body, re.MULTILINE)
        relative = [os.path.relpath(ROOT / "docs" / page, ROOT / "docs") for page in pages]
        if relative:
            trees.append("\n".join(["```{toctree}", ":hidden:", f":caption: {heading}", "", *relative, "```"]))
    source[0] += "\n\n" + "\n\n".join(trees)


def _with_start_page(app: Sphinx, problem: Exception | None) -> None:
    """Let the site's root lead to the start page."""
    if problem is None and app.builder.name == "html":
        page = '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><title>muster</title>\n'
        Path(app.outdir, "index.html").write_text(page)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect what this site adds."""
    app.connect("source-read", _with_readmes)
    app.connect("source-read", _with_contents)
    app.connect("build-finished", _with_start_page)
    return {"parallel_read_safe": True}
