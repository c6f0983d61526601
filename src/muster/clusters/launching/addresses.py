"""The address of this host that the other hosts can reach."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable

from muster.errors import ClusterError

_SIOCGIFADDR = 0x8915
_DISCARD_PORT = 9


def own_address(others: Iterable[str], interface: str | None = None) -> str:
    """Return the address to advertise: of the interface or subnet given, else the one that leads to the others.

    Raises:
        ClusterError: if the interface has no address, or only a loopback one leads anywhere.
    """
    if interface is not None:
        return _address_on(interface)
    candidates = [_address_towards(other) for other in others]
    candidates += [_resolve(socket.gethostname()), _address_towards("192.0.2.1")]
    for address in candidates:
        if address is not None and not ipaddress.ip_address(address).is_loopback:
            return address
    if interfaces := interface_addresses():
        return next(iter(interfaces.values()))
    raise ClusterError(
        f"{socket.gethostname()} has no address that another host can reach\n"
        "    name the network with --interface, for example --interface ib0"
    )


def interface_addresses() -> dict[str, str]:
    """Return the IPv4 address of each interface but loopback."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            address = socket.inet_ntoa(answer[20:24])
            if not ipaddress.ip_address(address).is_loopback:
                found[name] = address
    return found


def _address_on(interface: str) -> str:
    addresses = interface_addresses()
    if interface in addresses:
        return addresses[interface]
    try:
        subnet = ipaddress.ip_network(interface, strict=False)
    except ValueError:
        subnet = None
    for address in addresses.values():
        if subnet is not None and ipaddress.ip_address(address) in subnet:
            return address
    there = ", ".join(f"{name} ({address})" for name, address in addresses.items()) or "none"
    raise ClusterError(
        f"--interface {interface}: no such interface or subnet on {socket.gethostname()}; it has: {there}"
    )


def _address_towards(host: str) -> str | None:
    """Return the address from which packets to a host would leave; none are sent."""
    address = _resolve(host)
    if address is None:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, _DISCARD_PORT))
        except OSError:
            return None
        own: str = probe.getsockname()[0]
        return own


def _resolve(host: str) -> str | None:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return None
