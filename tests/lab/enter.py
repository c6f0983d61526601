"""Runs one command inside a virtual host as if it ran here: same terminal, signals and exit code.

A script of its own: `enter.py PID FOLDER USER COMMAND...`, PID being the host's first process. Unlike
nsenter(1) it passes on the signals sent to it, and the command dies when it is killed.
"""

import ctypes
import os
import pwd
import resource
import signal
import sys

# The mount namespace last: after it, /proc is the host's.
NAMESPACES = ("ipc", "uts", "net", "pid", "mnt")
PR_SET_PDEATHSIG = 1
PASSED_ON = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
WAITED_FOR = PASSED_ON | {signal.SIGCHLD}

libc = ctypes.CDLL(None, use_errno=True)


def enter_namespaces(pid: int) -> None:
    """Join the namespaces of `pid`; for the process table this holds from the next fork on."""
    descriptors = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in NAMESPACES]
    for descriptor in descriptors:
        if libc.setns(descriptor, 0) != 0:
            raise OSError(ctypes.get_errno(), "setns failed")


def become(user: str) -> None:
    """Give up root for `user`."""
    entry = pwd.getpwnam(user)
    if entry.pw_uid != os.getuid():
        os.initgroups(user, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)


def execute(folder: str, user: str, command: list[str]) -> None:
    """Become the command; a child that cannot says why and ends as a shell would."""
    try:
        become(user)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.chdir(folder)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAITED_FOR)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"cannot run {command[0]} in {folder} on {os.uname().nodename}: {error}", file=sys.stderr)
    finally:
        os._exit(127)


def wait_passing_signals(child: int) -> int:
    """Wait for the child and return its wait status; signals that a process sent to us go to it."""
    while True:
        received = signal.sigwaitinfo(WAITED_FOR)
        if received.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status
        # A positive code means the kernel: a key on the terminal, which has reached the child as well.
        elif received.si_code <= 0:
            os.kill(child, received.si_signo)


def end_like(status: int) -> None:
    """Exit with the child's code, or die of the signal that it died of."""
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAITED_FOR)
        os.kill(os.getpid(), number)
    sys.exit(os.waitstatus_to_exitcode(status))


def main() -> None:
    """Enter, run, end alike."""
    pid, folder, user, *command = sys.argv[1:]
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)
    enter_namespaces(int(pid))
    child = os.fork()
    if child == 0:
        execute(folder, user, command)
    end_like(wait_passing_signals(child))


if __name__ == "__main__":
    main()
