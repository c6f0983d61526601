"""What a user without any token finds on a host: ports that listen and what they answer, files within reach."""

import json
import sys
from dataclasses import dataclass

from .host import Host

_PROBE = r"""
import json, socket, sys
import grpc

METHODS = {
    "gcs_server": "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
    "raylet": "/ray.rpc.NodeManagerService/GetNodeStats",
    "worker": "/ray.rpc.CoreWorkerService/GetCoreWorkerStats",
    "object manager": "/ray.rpc.ObjectManagerService/Pull",
    "client": "/ray.rpc.RayletDriver/Init",
}

def http(address):
    try:
        with socket.create_connection(address, timeout=3) as end:
            end.sendall(b"GET /api/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return end.recv(4096)
    except OSError as error:
        return str(error).encode()

def rpc(address, method):
    with grpc.insecure_channel(f"{address[0]}:{address[1]}") as channel:
        try:
            channel.unary_unary(method)(b"", timeout=3)
            return "OK"
        except grpc.RpcError as error:
            return error.code().name

for host, port in json.loads(sys.argv[1]):
    first = http((host, port))
    said = first.split(b"\r\n")[0].decode(errors="replace")[:60] if first.startswith(b"HTTP") else ""
    calls = {} if said else {name: rpc((host, port), method) for name, method in METHODS.items()}
    print(json.dumps({"port": port, "http": said, "rpc": calls}))
"""


@dataclass(frozen=True)
class Port:
    """A port that listens on a host, and what it answers to a stranger."""

    address: str
    port: int
    program: str
    http: str
    """The first line of the answer, if it speaks HTTP."""
    rpc: dict[str, str]
    """What Ray's services answer to a call without a token, by the service that was tried."""

    @property
    def lets_in(self) -> bool:
        """Whether a call was answered."""
        is_refused = self.http.startswith(("HTTP/1.1 401", "HTTP/1.1 403")) or not self.http
        return not is_refused or "OK" in self.rpc.values()

    @property
    def answer(self) -> str:
        """The answer in words."""
        if self.http:
            return self.http
        codes = set(self.rpc.values())
        return "Unauthenticated" if "UNAUTHENTICATED" in codes else ", ".join(sorted(codes))


def listening(host: Host, user: str) -> list[tuple[str, int, str]]:
    """Return address, port and program of what a user's processes listen to."""
    found = []
    for line in host.run(["ss", "-ltnpH"]).stdout.splitlines():
        address, _, port = line.split()[3].rpartition(":")
        program = line.partition('(("')[2].partition('"')[0]
        pid = line.partition("pid=")[2].partition(",")[0]
        if pid and host.run(["stat", "-c", "%U", f"/proc/{pid}"], check=False).stdout.strip() == user:
            found.append((address.strip("[]").removeprefix("::ffff:"), int(port), program))
    return sorted(found)


def ask_ports(host: Host, owner: str, stranger: str) -> list[Port]:
    """Ask everything that a user's processes listen to, as a stranger without a token."""
    ports = listening(host, owner)
    places = [
        (address if address[0].isdigit() and address != "0.0.0.0" else "127.0.0.1", port)
        for address, port, _ in ports
    ]
    env = {"HOME": "/tmp", "RAY_AUTH_MODE": "disabled"}
    told = host.run([sys.executable, "-c", _PROBE, json.dumps(places)], env=env, user=stranger, limit_s=240).stdout
    answers = {answer["port"]: answer for answer in map(json.loads, told.splitlines())}
    return [
        Port(address, port, program, answers[port]["http"], answers[port]["rpc"])
        for address, port, program in ports
    ]


def reachable_files(host: Host, owner: str, stranger: str) -> list[str]:
    """Return the owner's files that a stranger can write to, and the sockets and tokens that they can read."""
    looks = [
        ["-writable", "-not", "-type", "l", "-not", "-perm", "-1000"],
        ["-readable", "(", "-type", "s", "-o", "-name", "*token*", "-o", "-name", "secret", ")"],
    ]
    found: set[str] = set()
    for look in looks:
        command = ["find", "/tmp", "/dev/shm", "/run", "/var/tmp", "-xdev", "-user", owner, *look]
        found |= set(host.run(command, user=stranger, check=False, limit_s=60).stdout.splitlines())
    return sorted(found)
