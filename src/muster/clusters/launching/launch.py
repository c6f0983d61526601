"""`muster launch` on one rank: take the orders, meet the others, lead or follow."""

from __future__ import annotations

from muster.clusters.allocation.model import Allocation
from muster.clusters.launching.head import Head
from muster.clusters.launching.member import Member
from muster.clusters.launching.options import LaunchOptions
from muster.clusters.launching.orders import Orders
from muster.clusters.launching.rank import Rank


def launch(allocation: Allocation, options: LaunchOptions) -> int:
    """Do this rank's part in a launch; return the exit code of its command.

    Raises:
        ClusterError: on the head's rank, if the cluster does not come up.
    """
    orders = Orders()
    with orders.taken():
        rank = Rank(allocation, options)
        rank.join()
        return Head(rank, orders).lead() if rank.is_head else Member(rank).follow()
