"""Host lists, counts and node files as schedulers write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from muster.clusters.allocation.host_lists import (
    count_lines,
    expand_counts,
    expand_host_list,
    pair_counts,
    sum_slots,
)
from muster.errors import AllocationError


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("login", "login"),
        ("a,b", "a b"),
        ("n[1-3]", "n1 n2 n3"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("n[1,3-4,07]", "n1 n3 n4 n07"),
        ("n[5]", "n5"),
        ("p[01-03,7]s[1-2]", "p01s1 p01s2 p02s1 p02s2 p03s1 p03s2 p7s1 p7s2"),
        ("rack[1-2]-node[01-02]-ib0", "rack1-node01-ib0 rack1-node02-ib0 rack2-node01-ib0 rack2-node02-ib0"),
        ("gpu[1-2].cluster.example,cpu-7", "gpu1.cluster.example gpu2.cluster.example cpu-7"),
        ("b2,a[1,2],b2,a1", "b2 a1 a2"),
        ("a, b  c\nd[1, 2]", "a b c d1 d2"),
        ("192.0.2.1,fd00::2", "192.0.2.1 fd00::2"),
    ],
)
def test_a_host_list_is_expanded_in_order(written: str, names: str) -> None:
    assert expand_host_list(written, "LIST") == tuple(names.split())


@pytest.mark.parametrize(
    "written",
    [
        "",
        " , ",
        "n[1-",
        "n1-3]",
        "n[]",
        "n[a-b]",
        "n[3-1]",
        "n[1-2",
        "n[[1-2]]",
        "n[1--2]",
        "n[0-99999999]",
        "n[1-9999]s[1-9999]",
        "-x",
        "a|b",
    ],
)
def test_a_list_that_cannot_be_read_is_refused_by_name(written: str) -> None:
    with pytest.raises(AllocationError, match="LIST"):
        expand_host_list(written, "LIST")


def test_counts_are_repeated() -> None:
    assert expand_counts("72(x2),36", "COUNTS") == (72, 72, 36)


@pytest.mark.parametrize("written", ["", "72(x2", "72x2", "a", "1,,2", "1(x99999999999)"])
def test_counts_that_cannot_be_read_are_refused_by_name(written: str) -> None:
    with pytest.raises(AllocationError, match="COUNTS"):
        expand_counts(written, "COUNTS")


def test_lines_of_a_node_file_are_counted_in_order(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("b\na\n\nb\n  b  \n")
    counts = count_lines(tmp_path / "nodes", "NODEFILE")
    assert list(counts.items()) == [("b", 3), ("a", 1)]


def test_slots_of_a_host_in_several_queues_are_summed(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("b 2 q1 <NULL>\na 1 q1\nb 3 q2\n")
    assert list(sum_slots(tmp_path / "nodes", "HOSTFILE").items()) == [("b", 5), ("a", 1)]


@pytest.mark.parametrize(
    ("read", "content", "problem"),
    [
        (count_lines, "", "names no host"),
        (count_lines, "\n \n", "names no host"),
        (count_lines, "a\nb 4\n", "line 2 .*one host name a line"),
        (count_lines, "a\n\x00\x00\n", "line 2 .*is not a host name"),
        (sum_slots, "a 4 q\nb\n", "line 2 .*host and its slots, found 'b'"),
        (sum_slots, "a four\n", "line 1 .*host and its slots"),
    ],
)
def test_a_damaged_node_file_is_refused_with_its_line(
    read: Callable[[Path, str], dict[str, int]], content: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "nodes").write_text(content)
    with pytest.raises(AllocationError, match=problem) as error:
        read(tmp_path / "nodes", "NODEFILE")
    assert "NODEFILE" in str(error.value)


def test_hosts_and_numbers_in_turn() -> None:
    assert pair_counts("h1 4 h2 8", "HOSTS") == {"h1": 4, "h2": 8}
    with pytest.raises(AllocationError, match=r"HOSTS: .*found 'h2'"):
        pair_counts("h1 4 h2", "HOSTS")
