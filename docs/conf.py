"""The documentation site, which `make docs` builds from this repository's Markdown files, without the network."""

from __future__ import annotations

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
    "examples/README.md",
    "examples/*/README.md",
    "benchmarks/LEARNING.md",
    "benchmarks/results/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "tests/lab/README.md",
]
exclude_patterns = [".*", "build", "runs", "src", "**/.venv", "**/runs"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
default_role = "code"

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

LISTS = (root_doc, "docs/measured")
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
    """Make the navigation of the site of the lists of links on two pages."""
    if name not in LISTS:
        return
    trees = []
    for section in re.split(r"^## ", source[0], flags=re.MULTILINE)[name == root_doc :]:
        heading, _, body = section.partition("\n")
        pages = re.findall(r"^(?:-|\d+\.) \[([^\]]+)\]\(([^)#:]+\.md)\)", body, re.MULTILINE)
        entries = [f"{title.replace('`', '')} <{path}>" for title, path in pages]
        if entries:
            options = [":hidden:", f":caption: {heading}"] if name == root_doc else [":hidden:"]
            trees.append("\n".join(["```{toctree}", *options, "", *entries, "```"]))
    source[0] += "\n\n" + "\n\n".join(trees)


def _with_fields(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Make fields of the errors below `Raises:`."""
    if "Raises:" not in lines:
        return
    start = lines.index("Raises:")
    for number in range(start + 1, len(lines)):
        lines[number] = re.sub(r"^ {4}(\w+): ", r":raises \1: ", lines[number])
    lines[start] = ""


def _with_start_page(app: Sphinx, problem: Exception | None) -> None:
    """Let the site's root lead to the start page."""
    if problem is None and app.builder.name == "html":
        page = '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><title>muster</title>\n'
        Path(app.outdir, "index.html").write_text(page)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect what this site adds."""
    app.connect("source-read", _with_readmes)
    app.connect("source-read", _with_contents)
    app.connect("autodoc-process-docstring", _with_fields)
    app.connect("build-finished", _with_start_page)
    return {"parallel_read_safe": True}
