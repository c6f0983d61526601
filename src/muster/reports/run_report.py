"""The report of one run: what it learned, how, where the time went, what happened, and how to repeat it."""

from __future__ import annotations

import math
import shlex
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from muster.experiment.quantities import counted, format_duration
from muster.files.shown import short_name
from muster.jobs.folder import Link
from muster.jobs.states import cpu_efficiency, node_hours
from muster.reports.experiments import flat, from_defaults
from muster.reports.history import Launch, RunHistory, with_metrics
from muster.reports.page import Page
from muster.reports.run_charts import (
    bring_up,
    details,
    learning_curve,
    other_metrics,
    throughput,
    time_shares,
    timeline,
)
from muster.runs.numbers import finite

MOST_LAUNCHES = 3
MOST_TRACEBACKS = 20
MOST_EVALUATIONS = 30
_PLACES = ("call", "episode", "seed", "step")


def run_page(history: RunHistory, film: str | None = None) -> str:
    """Return the page of a run; a film of its policy is given as the address of its data."""
    page = Page(history.folder.name, f"{_lead(history)} Written {moment(time.time())}.")
    fill(page, history, film)
    return page.html()


def fill(page: Page, history: RunHistory, film: str | None = None) -> None:
    """Add all that there is to say of a run."""
    page.tiles(_tiles(history))
    if history.problems:
        page.heading("Missing or damaged")
        page.list(history.problems, "problems")
    page.heading("Learning")
    _learning(page, history)
    if film is not None:
        page.heading("The policy")
        page.film(film)
    page.heading("Speed")
    _speed(page, history)
    page.heading("What happened")
    _events(page, history)
    page.heading("Experiment")
    _experiment(page, history)
    page.heading("Repeat it")
    _repeat(page, history)
    if further := other_metrics(history):
        page.heading("All other metrics")
        page.small_charts(further)


def _lead(history: RunHistory) -> str:
    status = history.record.status
    reason = f": {status.reason}" if status.reason else ""
    return f"{what_it_is(history)} {status.shown_state.capitalize()}{reason}.".lstrip()


def what_it_is(history: RunHistory) -> str:
    """Say in a line what a run trains; nothing if its experiment cannot be read."""
    experiment = history.record.experiment
    if experiment is None:
        return ""
    engine = " (RLlib)" if experiment.algorithm.engine == "rllib" else ""
    return f"{experiment.algorithm.name}{engine} on {short_name(experiment.env.id)}, seed {experiment.seed}."


def _tiles(history: RunHistory) -> list[tuple[str, str]]:
    status, last = history.record.status, history.record.last_row
    seconds = finite(last.get("time/total"))
    tiles = [
        ("mean return, last 100 episodes", figure(status.return_mean)),
        (f"steps in {counted(status.iteration, 'iteration')}", f"{status.steps:,}"),
    ]
    if seconds:
        tiles += [
            ("training time", format_duration(seconds)),
            ("steps per second", f"{status.steps / seconds:,.0f}"),
        ]
    evaluations = [line for line in history.evaluations if isinstance(line.get("return_mean"), int | float)]
    if evaluations:
        best = max(evaluations, key=lambda line: float(line["return_mean"]))
        tiles.append((f"best evaluation, iteration {best.get('iteration')}", figure(float(best["return_mean"]))))
    failures = last.get("failures/simulator") or str(history.failure_count)
    tiles.append(("failures of the simulator, workers lost", f"{failures}, {last.get('failures/worker') or 0}"))
    if history.order is not None and history.links:
        tiles.append(("node-hours", f"{node_hours(history.links, history.order, status):.2f}"))
    return tiles


def _learning(page: Page, history: RunHistory) -> None:
    curve = learning_curve(history)
    page.chart(curve)
    if curve is None:
        page.text("No iteration is recorded.", "note")
    saved = history.record.checkpoints
    best = f"; the best is {history.record.best}" if history.record.best else ""
    page.text(f"Checkpoints: {', '.join(saved) or 'none'}{best}.", "note")
    if history.evaluations:
        lines = [with_metrics(line) for line in history.evaluations]
        keys = list(dict.fromkeys(key for line in lines for key in line))
        rows = [[_cell(line.get(key)) for key in keys] for line in lines[-MOST_EVALUATIONS:]]
        page.table([key.replace("_", " ") for key in keys], rows, range(len(keys)))


def _speed(page: Page, history: RunHistory) -> None:
    page.chart(throughput(history))
    page.chart(time_shares(history))
    workers = [event["workers"] for event in history.events if isinstance(event.get("workers"), int)]
    if workers:
        counts = ", then ".join(dict.fromkeys(counted(number, "worker") for number in workers if number))
        where = counts or "All in one process"
        page.text(f"{where}. A run folder records no times of single workers.", "note")
    if history.links:
        _links(page, history)


def _links(page: Page, history: RunHistory) -> None:
    order, status = history.order, history.record.status
    rows = [
        (
            link.number,
            link.job_id,
            link.host or "-",
            moment(link.started),
            format_duration(link.ended - link.started) if link.ended else "-",
            "-" if link.exit_code is None else link.exit_code,
            "-" if link.progress is None else link.progress,
            _share(cpu_efficiency([link], order)) if order else "-",
        )
        for link in history.links
    ]
    headings = ("link", "job", "host", "started (UTC)", "took", "exit code", "began at iteration", "CPUs busy")
    page.table(headings, rows, (0, 4, 5, 6, 7))
    if order is not None:
        efficiency = cpu_efficiency(history.links, order)
        busy = f", CPUs {_share(efficiency)} busy" if efficiency is not None else ""
        total = node_hours(history.links, order, status)
        links = counted(len(history.links), "link")
        page.text(f"{links} of at most {order.max_jobs} on {order.cluster}: {total:.2f} node-hours{busy}.", "note")
    _hosts(page, history)


def _hosts(page: Page, history: RunHistory) -> None:
    links = {str(link.number): link for link in history.links}
    cpus = history.order.cpus if history.order else None
    rows = []
    for name, used in history.usage.items():
        number, _, rest = name.partition("-")
        seconds, memory = used.get("cpu_seconds"), used.get("memory")
        busy = _busy(links.get(number), seconds)
        share = f"{100 * busy / cpus:.0f} %" if busy is not None and cpus else "-"
        rows.append(
            (
                number,
                rest.rpartition("-")[0] or rest,
                "-" if not isinstance(seconds, int | float) else format_duration(float(seconds)),
                "-" if busy is None else f"{busy:.1f}",
                share,
                "-" if not isinstance(memory, int | float) else f"{memory / 1024**3:.2f} GiB",
            )
        )
    if rows:
        page.table(
            ("link", "host", "CPU time", "CPUs busy on average", "of those asked for", "most memory"),
            rows,
            range(2, 6),
        )


def _busy(link: Link | None, seconds: object) -> float | None:
    """Return how many CPUs of a host a link kept busy on average."""
    if link is None or link.ended is None or link.ended <= link.started or not isinstance(seconds, int | float):
        return None
    return float(seconds) / (link.ended - link.started)


def _events(page: Page, history: RunHistory) -> None:
    page.chart(timeline(history))
    if not history.events:
        page.text("No events are recorded.", "note")
    for launch in history.launches[-MOST_LAUNCHES:]:
        page.chart(bring_up(launch))
        page.folded(f"All {len(launch.events)} events of the bring-up", "\n".join(_bring_up_lines(launch)))
    _failures(page, history)


def _bring_up_lines(launch: Launch) -> list[str]:
    began = float(launch.events[0]["time"])
    return [
        f"{float(event['time']) - began:8.2f} s  {event.get('host', '?')}  {details(event)}"
        for event in launch.events
    ]


def _failures(page: Page, history: RunHistory) -> None:
    if not history.failures:
        return
    kinds = Counter(str(failure.get("error", "unknown")) for failure in history.failures.values())
    read = len(history.failures)
    first = f" (among the first {read})" if read < history.failure_count else ""
    count = counted(history.failure_count, "failure")
    page.text(f"{count} of the simulator, of {counted(len(kinds), 'kind')}{first}:")
    page.table(("times", "error"), [(times, error) for error, times in kinds.most_common(MOST_TRACEBACKS)], (0,))
    told: set[str] = set()
    for name, failure in history.failures.items():
        error = str(failure.get("error", "unknown"))
        if error in told or len(told) == MOST_TRACEBACKS:
            continue
        told.add(error)
        places = (f"{key} {failure[key]}" for key in _PLACES if failure.get(key) is not None)
        page.folded(f"{name}: {error} ({', '.join(places)})", str(failure.get("traceback") or "no traceback"))


def _experiment(page: Page, history: RunHistory) -> None:
    experiment = history.record.experiment
    if experiment is None:
        page.text("The experiment cannot be read.", "note")
        return
    changed = from_defaults(experiment)
    rows = [
        (key, value, default, history.sources.get(key, "-"))
        for key, (value, default) in changed.items()
        if key not in ("name", "env.id", "env.paths")
    ]
    if rows:
        page.text("What differs from the defaults:")
        page.table(("key", "value", "default", "from"), rows)
    else:
        page.text("Nothing differs from the defaults.")
    lines = [f"{key} = {value}    # {history.sources.get(key, '-')}" for key, value in flat(experiment).items()]
    page.folded("All values, each with its source", "\n".join(lines))


def _repeat(page: Page, history: RunHistory) -> None:
    lines = []
    versions = history.versions
    if versions.get("git"):
        lines.append(f"git checkout {str(versions['git']).removesuffix('-dirty')}")
    lines.append(command(history))
    page.code("\n".join(lines), is_command=True)
    if str(versions.get("git")).endswith("-dirty"):
        page.text("The working copy had changes that are not in this commit.", "note")
    if versions:
        page.table(
            ("version of", ""), [(name, "-" if value is None else value) for name, value in versions.items()]
        )


def command(history: RunHistory) -> str:
    """Return the command that trains the same experiment again, under another name."""
    folder = history.folder
    return shlex.join(["muster", "train", str(folder.experiment.absolute()), "--name", f"{folder.name}-again"])


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return "-" if value is None else str(value)
    return (
        figure(float(value))
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def figure(value: float | None) -> str:
    """Write a number to the precision that a person reads."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:,.1f}" if 10 <= abs(value) < 1e6 else f"{value:.3g}"


def moment(seconds: float) -> str:
    """Write a time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "-"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
