"""Examples of the documentation do what they say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import muster
from muster import environment_variables, errors
from muster.cli.command_table import SHOWN
from muster.cli.main import app
from muster.environment_variables import GIVEN, INTERNAL, SET
from muster.runs.metrics import FIRST_COLUMNS, TIME_COLUMNS
from tests.commands import MUSTER, ROOT, environment, last_json
from tests.commands import muster as run_muster

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def test_the_loop_over_iterations_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_RUNS_DIR", str(tmp_path))
    section = (DOCS / "python.md").read_text().partition("## One iteration at a time")[2]
    [loop, block, *_] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, object] = {}
    exec(loop, names)
    [run] = tmp_path.iterdir()
    assert '"state": "stopped"' in (run / "status.json").read_text()
    exec(block, names)
    assert len(list(tmp_path.iterdir())) == 2


def test_every_environment_variable_has_a_meaning_and_is_documented() -> None:
    names = {value for name, value in vars(environment_variables).items() if name.endswith("_VARIABLE")}
    assert names == {*GIVEN, *SET, *INTERNAL}
    page = (DOCS / "reference" / "environment-variables.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `MUSTER_")]
    assert rows == [f"| `{name}` | {meaning} |" for name, meaning in {**GIVEN, **SET}.items()]


def test_the_command_line_s_reference_is_that_of_the_code() -> None:
    made = subprocess.run(
        [sys.executable, str(DOCS / "command_reference.py")],
        env=environment(COLUMNS="80"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    page = DOCS / "reference" / "command-line.md"
    assert made == page.read_text(), "`make docs` writes it again"
    for name in SHOWN:
        assert f"### `muster {name}`\n" in made


def test_the_picture_of_an_iteration_is_that_of_its_script() -> None:
    command = [sys.executable, str(DOCS / "pictures" / "iteration.py")]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert made == (DOCS / "pictures" / "iteration.svg").read_text(), "`make docs` draws it again"


def test_every_command_has_a_section_in_the_commands() -> None:
    page = (DOCS / "commands.md").read_text()
    assert [name for name in SHOWN if not re.search(rf"^## `muster {name}\b", page, re.MULTILINE)] == []


def test_every_public_name_is_in_the_python_reference() -> None:
    page = (DOCS / "reference" / "python-api.md").read_text()
    names = [name for name in muster.__all__ if name not in ("__version__", "training")]
    assert [name for name in names if f"muster.{name}" not in page] == []


def test_every_exit_code_of_an_error_is_documented() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text()
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {one.exit_code for one in classes if issubclass(one, errors.MusterError) and hasattr(one, "exit_code")}
    assert codes == {1, 2, 3, 4}
    assert [code for code in (0, *codes, 75, 130, 143) if f"\n| {code} | " not in page] == []


def test_every_column_of_the_metrics_is_documented() -> None:
    from muster.engines.builtin.learning import a2c, ppo, trpo
    from muster.engines.builtin.learning.metrics import column_names

    learned = [name for kind in (ppo.PPOMetrics, trpo.TRPOMetrics, a2c.A2CMetrics) for name in column_names(kind)]
    page = (DOCS / "reference" / "run-folder.md").read_text()
    assert [name for name in (*FIRST_COLUMNS, *learned, *TIME_COLUMNS) if f"`{name}`" not in page] == []


def commands_of(page: Path) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a page that begin with `muster`, and whether each is in a block of commands.

    The page that is made of the commands themselves has none.
    """
    text = page.read_text()
    if page.name == "command-line.md":
        return
    for language, block in FENCE.findall(text):
        if language not in ("console", "bash", "sh", ""):
            continue
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            is_command = language in ("bash", "sh", "") or line.lstrip().startswith("$ ")
            for part in re.split(r"; |&& |\| ", line.lstrip().removeprefix("$ ")) if is_command else ():
                if match := re.search(r"(?:^|\s)(muster [a-z].*)", part.partition(" #")[0]):
                    yield match[1].strip(), True
    for code in re.findall(r"`([^`\n]+)`", FENCE.sub("", text)):
        if code.startswith("muster "):
            yield code, False


ROOT_COMMAND: Any = get_command(app)
ROOT_CONTEXT = ROOT_COMMAND.make_context("muster", [], resilient_parsing=True)


def problem_of(line: str, *, is_complete: bool) -> str:
    """Return what is wrong with a command, or nothing; one in a sentence may lack its arguments."""
    words = shlex.split(line.replace("...", "MORE").replace("…", "MORE"))[1:]
    own, _, nested = " ".join(map(shlex.quote, words)).partition(" -- ")
    if nested.startswith("muster ") and (problem := problem_of(nested, is_complete=is_complete)):
        return problem
    words = [word for word in shlex.split(own) if word != "MORE"]
    if words[0].startswith("--"):
        return "" if words[0] in ("--help", "--version", "--install-completion", "--show-completion") else words[0]
    command, context = ROOT_COMMAND, ROOT_CONTEXT
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        found = command.get_command(context, words[0]) if words[0] in command.commands else None
        if found is None:
            return "" if words[0] == "COMMAND" else f"no command {words[0]!r}"
        name, command = words.pop(0), found
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
    if is_complete:
        return _parsed(command, [word for word in words if word] + (["--", "true"] if nested else []))
    flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in {*flags, "--help"}]
    return f"no option {unknown[0]!r}" if unknown else ""


def _parsed(command: Any, words: list[str]) -> str:
    try:
        command.make_context(command.name, words, parent=ROOT_CONTEXT)
    except Exception as error:
        return str(getattr(error, "message", "") or error)
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_shown_exists_with_its_flags(page: Path) -> None:
    problems = [
        f"{line}: {why}" for line, whole in commands_of(page) if (why := problem_of(line, is_complete=whole))
    ]
    assert problems == []


def test_wrong_commands_are_found() -> None:
    assert "wrong" in problem_of("muster wrong", is_complete=True)
    assert problem_of("muster train exp.toml --no-such-flag 3", is_complete=True)
    assert problem_of("muster train --no-such-flag", is_complete=False)
    assert problem_of("muster launch -- muster train exp.toml --no-such-flag", is_complete=True)
    assert problem_of("muster train", is_complete=True)
    assert not problem_of("muster train exp.toml --seeds 5", is_complete=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere_on_a_code_host_too(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))
    broken = []
    for path in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", path) and not (page.parent / path).exists():
            broken.append(path)
    assert broken == []


def test_what_the_design_names_exists() -> None:
    table = (DOCS / "design.md").read_text().partition("## Where to add what")[2]
    paths = re.findall(r"`((?:[a-z_]+/)*(?:[a-z_]+\.(?:py|md)|[a-z_]+/))`", table)
    assert len(paths) > 30
    package = ROOT / "src" / "muster"
    assert [path for path in paths if not (package / path).exists() and not (ROOT / path).exists()] == []


def test_every_page_is_on_the_start_page() -> None:
    index = (DOCS / "index.md").read_text()
    listed = {os.path.normpath(path) for path in re.findall(r"^(?:-|\d+\.) \[.+\]\((.+\.md)\)", index, re.M)}
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"index.md"}
    assert pages - listed == set()
    measured = (DOCS / "measured.md").read_text()
    results = [*(ROOT / "benchmarks" / "results").glob("*.md"), ROOT / "benchmarks" / "LEARNING.md"]
    assert [page.name for page in results if f"/{page.name})" not in measured] == []
    examples = [str(page.relative_to(ROOT)) for page in (ROOT / "examples").glob("*/README.md")]
    assert [page for page in examples if f"](../{page})" not in index] == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_simulators_in_c_train_and_a_crash_is_a_failure(tmp_path: Path) -> None:
    page = (DOCS / "how-to" / "other-languages.md").read_text()
    for language, block in FENCE.findall(page):
        if language in ("c", "python") and (file := re.search(r"\w+\.(c|py)\b", block.splitlines()[0])):
            (tmp_path / file[0]).write_text(block)
    for command in ("cc -O2 -o tank tank.c -lm", "cc -O2 -shared -fPIC -o plant.so plant.c"):
        assert f"$ {command}\n" in page
        subprocess.run(command.split(), cwd=tmp_path, check=True)
    for name in ("piped_tank.py:PipedTank", "plant_env.py:Plant"):
        arguments = (name, "--stop-steps", "1k", "--workers", "0", "--name", name[:5], "--json")
        done = run_muster("train", *arguments, cwd=tmp_path)
        assert last_json(done)["state"] == "finished", done.stderr
        assert '"failures/simulator"' not in done.stderr

    source = (tmp_path / "tank.c").read_text()
    crashing = source.replace("level += 0.2", "if (level > 0.9) abort(); level += 0.2")
    assert crashing != source
    (tmp_path / "tank.c").write_text(crashing)
    subprocess.run(["cc", "-O2", "-o", "tank", "tank.c", "-lm"], cwd=tmp_path, check=True)
    done = run_muster("train", "piped_tank.py:PipedTank", "--stop-steps", "1k", "--workers", "0", cwd=tmp_path)
    assert "RuntimeError: tank ended with code -6 at 'step" in done.stderr + done.stdout


def test_a_policy_is_deployed_as_shown(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    for name in ("heatpump.py", "heatpump.toml"):
        shutil.copy(ROOT / "examples" / "heatpump" / name, tmp_path)
    assert run_muster("train", "heatpump.toml", "--stop-steps", "1k", cwd=tmp_path).returncode == 0
    blocks = FENCE.findall((DOCS / "how-to" / "deploy-a-policy.md").read_text())
    [export] = [line[2:] for _, block in blocks for line in block.splitlines() if line.startswith("$ muster")]
    assert run_muster(*shlex.split(export)[1:], cwd=tmp_path).returncode == 0
    printed = []
    for language, block in blocks:
        if language == "python":
            command = [str(MUSTER.with_name("python")), "-c", block]
            done = subprocess.run(
                command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            printed.append(done.stdout.strip().strip("[]"))
    assert printed[0] == printed[1]
