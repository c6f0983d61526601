"""What `muster evaluate` prints of a checkpoint, beside baselines if there are any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from muster.cli.screen import columns, console, figure, print_text
from muster.experiment.quantities import counted
from muster.statistics import mean_difference

if TYPE_CHECKING:
    from muster.stepping.evaluation import Evaluation

FEWEST_EPISODES = 10
"""With fewer, an interval of the mean says little."""


def show_evaluation(title: str, result: Evaluation, rules: Mapping[str, Evaluation]) -> None:
    """Print how a policy did; beside the rules, which acted in the same episodes, as a table."""
    screen = console()
    if not rules:
        print_text(screen, f"{title}: {_summary(result)}, over {counted(result.episodes, 'episode')}")
        return
    print_text(screen, f"{title}, over {counted(result.episodes, 'episode')}:")
    all_of = {"policy": result, **rules}
    rows = [["", *all_of], ["return", *map(_spread, all_of.values())]]
    rows.append(["length", *(figure(one.length_mean) for one in all_of.values())])
    rows += [[name, *(figure(one.metrics[name]) for one in all_of.values())] for name in result.metrics]
    screen.print(columns(rows, foldable=dict.fromkeys(range(len(rows[0])), 12)))
    for name, rule in rules.items():
        print_text(screen, _verdict(result, rule, name))


def compared(result: Evaluation, name: str, rule: Evaluation) -> dict[str, Any]:
    """Return what JSON says of a rule, and of the policy beside it."""
    difference = mean_difference(result.returns, rule.returns)
    found = {"rule": name, **rule.record(), "wins": _wins(result, rule), "ties": _ties(result, rule)}
    return {**found, "difference_mean": difference.value}


def _summary(result: Evaluation) -> str:
    text = f"return {_spread(result)}, length {figure(result.length_mean)}"
    return text + "".join(f", {name} {figure(value)}" for name, value in result.metrics.items())


def _spread(result: Evaluation) -> str:
    return f"{figure(result.return_mean)} ± {figure(result.return_std)}"


def _verdict(result: Evaluation, rule: Evaluation, name: str) -> str:
    """Say in how many episodes the policy was better, and by how much; what differs between episodes cancels."""
    text = f"the policy is better than {name} in {_wins(result, rule)} of {counted(result.episodes, 'episode')}"
    if ties := _ties(result, rule):
        text += f", equal in {ties}"
    found = mean_difference(result.returns, rule.returns)
    text += f"; its return is {'higher' if found.value >= 0 else 'lower'} by {figure(abs(found.value))} on average"
    if result.episodes >= FEWEST_EPISODES:
        ends = sorted((found.low, found.high) if found.value >= 0 else (-found.high, -found.low))
        text += f" (95 % interval {figure(ends[0])} to {figure(ends[1])})"
    return text


def _wins(result: Evaluation, rule: Evaluation) -> int:
    return sum(ours > theirs for ours, theirs in zip(result.returns, rule.returns, strict=True))


def _ties(result: Evaluation, rule: Evaluation) -> int:
    return sum(ours == theirs for ours, theirs in zip(result.returns, rule.returns, strict=True))
