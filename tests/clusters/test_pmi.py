"""The question to a PMI launcher, answered as MPICH's mpiexec answers."""

from __future__ import annotations

import socket
import threading

import pytest

from muster.clusters.allocation.pmi import ask_launch_name
from muster.errors import AllocationError

ANSWERS = {
    "cmd=init": "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2",
    "cmd=get_my_kvsname": "cmd=my_kvsname rc=0 kvsname=kvs_8851_0_1222800308_vm",
    "cmd=finalize": "cmd=finalize_ack rc=0",
}


def ask(answers: dict[str, str]) -> tuple[str | None, list[str]]:
    ours, theirs = socket.socketpair()
    heard: list[str] = []

    def answer() -> None:
        with theirs, theirs.makefile("rw", newline="\n") as stream:
            for line in stream:
                heard.append(line.split()[0])
                stream.write(answers.get(heard[-1], "cmd=unknown") + "\n")
                stream.flush()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        found = ask_launch_name({"PMI_FD": str(ours.fileno())})
    finally:
        ours.close()
        thread.join()
    return found.value if found else None, heard


def test_the_launcher_names_the_launch_and_is_left_in_order() -> None:
    assert ask(ANSWERS) == ("kvs_8851_0_1222800308_vm", ["cmd=init", "cmd=get_my_kvsname", "cmd=finalize"])


def test_an_answer_without_a_name_is_refused() -> None:
    with pytest.raises(AllocationError, match="named no launch: 'cmd=unknown'"):
        ask({})


def test_without_a_launcher_there_is_no_name() -> None:
    assert ask_launch_name({}) is None


def test_a_descriptor_that_is_not_open_is_an_error_of_ours() -> None:
    with pytest.raises(AllocationError, match="did not answer"):
        ask_launch_name({"PMI_FD": "987"})
