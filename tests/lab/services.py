"""The services on a lab's hosts, and putting the lab back in order after a fault."""

import os
import signal
from contextlib import suppress

from . import gridengine, slurm, sshd
from .cluster import Lab
from .host import Host

DAEMONS = slurm.DAEMONS + sshd.DAEMONS + gridengine.DAEMONS


class Services:
    """Slurm, sshd and Grid Engine on one lab, each started once and only when asked for."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._slurm = slurm.Slurm(lab)
        self._sshd = sshd.Sshd(lab)
        self._gridengine = gridengine.GridEngine(lab)

    def slurm(self) -> slurm.Slurm:
        """The lab's Slurm, started if it was not."""
        if not self._slurm.is_set_up():
            self._slurm.start()
        return self._slurm

    def sshd(self) -> sshd.Sshd:
        """The lab's ssh servers, started if they were not."""
        if not self._sshd.is_set_up():
            self._sshd.start()
        return self._sshd

    def gridengine(self) -> gridengine.GridEngine:
        """The lab's Grid Engine, started if it was not."""
        if not self._gridengine.is_set_up():
            self._gridengine.start()
        return self._gridengine

    def boot(self, host: Host) -> None:
        """Boot a host that was down, with the services that the lab has."""
        host.boot()
        for service in (self._slurm, self._sshd, self._gridengine):
            if service.is_set_up():
                service.rejoin(host)

    def restore(self) -> None:
        """Put all in order: links mended, crashed hosts up, no jobs, no processes but the services'."""
        for host in self.lab.hosts.values():
            if not host.is_up():
                self.boot(host)
            host.mend()
        for scheduler in (self._slurm, self._gridengine):
            if scheduler.is_set_up():
                scheduler.cancel_all()
        for host in self.lab.hosts.values():
            for process in host.processes():
                if process.name not in DAEMONS:
                    with suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL)
