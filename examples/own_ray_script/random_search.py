"""A script that uses Ray itself: the best of many random linear policies for CartPole, tried in parallel.

It knows nothing of clusters: under `muster launch` the environment names the Ray, elsewhere `ray.init` starts one.
"""

from __future__ import annotations

import argparse
import time

import gymnasium
import numpy as np
import ray

STEPS = 500


@ray.remote  # type: ignore[untyped-decorator]
def tried(seeds: list[int]) -> tuple[float, int, str]:
    """Return the best of some policies: its return, its seed, and where it was tried."""
    env = gymnasium.make("CartPole-v1")
    best = max((episode_return(env, seed), seed) for seed in seeds)
    return *best, ray.util.get_node_ip_address()


def episode_return(env: gymnasium.Env[np.ndarray, int], seed: int) -> float:
    """Return what a policy gets in one episode."""
    weights = np.random.default_rng(seed).normal(size=4)
    observation, _ = env.reset(seed=seed)
    total = 0.0
    for _ in range(STEPS):
        observation, reward, terminated, truncated, _ = env.step(int(weights @ observation > 0))
        total += float(reward)
        if terminated or truncated:
            break
    return total


def main() -> None:
    """Share the policies out, and print the best one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--policies", type=int, default=2000)
    count = parser.parse_args().policies
    ray.init(log_to_driver=False)
    cpus = int(ray.cluster_resources()["CPU"])
    began = time.monotonic()
    found = ray.get([tried.remote(list(range(start, count, 4 * cpus))) for start in range(min(4 * cpus, count))])
    hosts = {host for _, _, host in found}
    best, seed, _ = max(found)
    seconds = time.monotonic() - began
    where = f"{cpus} CPUs of {len(hosts)} host(s)"
    print(f"{count} policies on {where} in {seconds:.1f} s: return {best:.0f}, seed {seed}")


if __name__ == "__main__":
    main()
