"""LSF, with or without IBM's jsrun."""

from __future__ import annotations

from muster.clusters.allocation.host_lists import count_lines, pair_counts
from muster.clusters.allocation.model import Grant, Sourced
from muster.clusters.allocation.situation import Situation, hosts_with_slots, read_host_file
from muster.clusters.allocation.variables import Environment, number, text


def read(situation: Situation) -> Grant | None:
    """Read an LSF job."""
    environ = situation.environ
    job_id = text(environ, "LSB_JOBID")
    if job_id is None:
        return None
    slots = _slots(situation)
    return Grant(
        Sourced("lsf", job_id.source),
        hosts_with_slots(_without_batch_host(environ, slots)) if slots else situation.this_host_alone(),
        knows_all_hosts=slots is not None,
        job_id=_with_array_index(environ, job_id),
    )


def _slots(situation: Situation) -> Sourced[dict[str, int]] | None:
    environ = situation.environ
    if pairs := text(environ, "LSB_MCPU_HOSTS"):
        return Sourced(pair_counts(pairs.value, pairs.source), pairs.source)
    if lines := read_host_file(situation, "LSB_DJOB_HOSTFILE", count_lines, number(environ, "LSB_DJOB_NUMPROC")):
        return lines
    if names := text(environ, "LSB_HOSTS"):
        words = names.value.split()
        return Sourced({name: words.count(name) for name in dict.fromkeys(words)}, names.source)
    return None


def _without_batch_host(environ: Environment, slots: Sourced[dict[str, int]]) -> Sourced[dict[str, int]]:
    """Leave out the job script's host, which IBM's machines list first, with one slot, but do not compute on."""
    first, *rest = slots.value
    with_jsrun = text(environ, "CSM_ALLOCATION_ID", "JSM_NAMESPACE_RANK") is not None
    if with_jsrun and rest and slots.value[first] == 1 and all(slots.value[name] > 1 for name in rest):
        return Sourced({name: slots.value[name] for name in rest}, slots.source)
    return slots


def _with_array_index(environ: Environment, job_id: Sourced[str]) -> Sourced[str]:
    """Jobs that are no array have the index 0."""
    index = number(environ, "LSB_JOBINDEX")
    return Sourced(f"{job_id.value}[{index.value}]", job_id.source) if index and index.value else job_id
