"""The first process of a virtual host: makes the host's own view of the machine, then reaps orphans.

A script of its own, run by `unshare` in fresh namespaces; it imports nothing of the lab. Its one argument is
a file with the plan (see `HostPlan` in namespaces.py). It prints its process id, as the machine sees it, when
the host is ready. When it ends, the kernel ends every process of the host with it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path


def mount(*arguments: str | Path) -> None:
    """Change the mounts of this host only; complaints go to the host's console."""
    subprocess.run(["mount", *map(str, arguments)], check=True)


def cover(folder: Path, stage: Path, kept: Sequence[str]) -> None:
    """Move the mount at `stage` over `folder`, with the `kept` folders beneath it still in their places."""
    for path in map(Path, kept):
        if path.is_relative_to(folder):
            target = stage / path.relative_to(folder)
            target.mkdir(parents=True, exist_ok=True)
            mount("--bind", path, target)
    mount("--move", stage, folder)


def own_kernel_views(stage: Path) -> None:
    """The processes, network devices and control groups that this host sees."""
    mount("--rbind", "/sys/fs/cgroup", stage)
    mount("--types", "sysfs", "sysfs", "/sys")
    mount("--move", stage, "/sys/fs/cgroup")
    mount("--types", "proc", "proc", "/proc")


def own_folders(folders: dict[str, str], kept: Sequence[str], stage: Path) -> None:
    """The host's own /run, /dev/shm and /tmp; the home folder is the lab's, shared by all hosts."""
    mount("--types", "tmpfs", "--options", "mode=0755", "run", "/run")
    for name, mode in {"lock": 0o1777, "munge": 0o755, "sshd": 0o755}.items():
        folder = Path("/run") / name
        folder.mkdir()
        folder.chmod(mode)
    mount("--types", "tmpfs", "--options", f"mode=1777,size={folders['shm_size']}", "shm", "/dev/shm")
    mount("--bind", folders["shared_home"], stage)
    cover(Path(folders["home"]), stage, kept)
    mount("--types", "tmpfs", "--options", f"mode=1777,size={folders['tmp_size']}", "tmp", stage)
    cover(Path("/tmp"), stage, kept)


def own_files(files: dict[str, str]) -> None:
    """Files of the machine that read otherwise on this host, such as /etc/hosts."""
    for target, source in files.items():
        if Path(target).exists():
            mount("--bind", source, target)


def end_with_owner() -> None:
    """End when the lab's owner, at the other end of standard input, is gone: however it died."""
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Make the host, say so, and stay."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    # /proc is still the machine's here, so this is the id by which the machine knows us.
    machine_pid = int(str(Path("/proc/self").readlink()))
    socket.sethostname(plan["name"])
    if plan["folders"]:
        stage = Path(plan["folders"]["stage"])
        own_kernel_views(stage)
        own_files(plan["files"])
        own_folders(plan["folders"], plan["kept"], stage)
    os.chdir("/")
    print(machine_pid, flush=True)
    if plan["ends_with_owner"]:
        threading.Thread(target=end_with_owner, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        reap_orphans()
        signal.sigwait([signal.SIGCHLD])


def reap_orphans() -> None:
    """Take note of every process that has ended here and whose parent ended before it."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
