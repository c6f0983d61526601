"""Children that a simulator forks: they end on TERM and with their parent, and outlive what is sent to all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time

import psutil
import pytest

from muster.stepping.here import called_here

FORK = multiprocessing.get_context("fork")


def forked() -> multiprocessing.process.BaseProcess:
    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with called_here(None):
            child = FORK.Process(target=time.sleep, args=(60,), daemon=True)
            child.start()
    finally:
        signal.signal(signal.SIGTERM, previous)
    time.sleep(0.2)
    return child


def test_term_ends_a_child_though_its_parent_takes_no_notice() -> None:
    child = forked()
    child.terminate()
    child.join(5)
    assert child.exitcode == -signal.SIGTERM


def test_what_a_terminal_sends_to_all_does_not_end_a_child() -> None:
    child = forked()
    assert child.pid is not None
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        os.kill(child.pid, number)
    time.sleep(0.2)
    assert child.is_alive()
    child.kill()
    child.join()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_child_ends_with_its_parent() -> None:
    reading, writing = os.pipe()
    parent = os.fork()
    if not parent:
        child = forked()
        os.write(writing, str(child.pid).encode())
        os._exit(0)
    os.waitpid(parent, 0)
    pid = int(os.read(reading, 32))
    deadline = time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_fork_of_nobody_s_simulator_is_left_alone() -> None:
    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    child = FORK.Process(target=time.sleep, args=(60,), daemon=True)
    child.start()
    signal.signal(signal.SIGTERM, previous)
    time.sleep(0.2)
    child.terminate()
    time.sleep(0.2)
    assert child.is_alive()
    child.kill()
    child.join()
