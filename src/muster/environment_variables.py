"""Every environment variable that muster sets or reads, with its meaning; docs/commands.md has the same table."""

from __future__ import annotations

PREFIX = "MUSTER_"

RUNS_DIR_VARIABLE = "MUSTER_RUNS_DIR"
RUN_DIR_VARIABLE = "MUSTER_RUN_DIR"
END_TIME_VARIABLE = "MUSTER_END_TIME"
GRACE_VARIABLE = "MUSTER_GRACE"
HOSTS_VARIABLE = "MUSTER_HOSTS"
RANK_VARIABLE = "MUSTER_RANK"
NUM_RANKS_VARIABLE = "MUSTER_NUM_RANKS"
HEAD_ADDRESS_VARIABLE = "MUSTER_HEAD_ADDRESS"
LAUNCH_ID_VARIABLE = "MUSTER_LAUNCH_ID"
LAUNCH_TOKEN_VARIABLE = "MUSTER_LAUNCH_TOKEN"
LAUNCH_CPUS_VARIABLE = "MUSTER_LAUNCH_CPUS"
LINK_VARIABLE = "MUSTER_LINK"
LOCAL_JOB_VARIABLE = "MUSTER_LOCAL_JOB"
SHIPPED_CODE_VARIABLE = "MUSTER_SHIPPED_CODE"
CODE_COPY_VARIABLE = "MUSTER_CODE_COPY"
CODE_SEARCH_PATH_VARIABLE = "MUSTER_CODE_SEARCH_PATH"
STEP_VARIABLE = "MUSTER_STEP"
PARENT_VARIABLE = "MUSTER_PARENT"
IN_CONTAINER_VARIABLE = "MUSTER_IN_CONTAINER"
ORDERS_ON_STDIN_VARIABLE = "MUSTER_ORDERS_ON_STDIN"

GIVEN = {
    RUNS_DIR_VARIABLE: "folder of all runs; default: `runs`",
    END_TIME_VARIABLE: (
        "when the wall time ends, in seconds since 1970: the run saves in time and ends with 75; a job "
        "script sets it"
    ),
    HOSTS_VARIABLE: (
        "hosts that a launch runs on without a scheduler, separated by commas, the head first: reached over ssh, "
        "or with `MUSTER_LAUNCH_ID` started by hand on each of them"
    ),
    RANK_VARIABLE: "the number of this rank, from 0, under a launcher of your own",
    NUM_RANKS_VARIABLE: "how many ranks such a launcher starts",
    HEAD_ADDRESS_VARIABLE: "where the ranks meet, as `--head-address`",
    LAUNCH_ID_VARIABLE: (
        "what tells a launch from others, the same on all its ranks; needed only where the launcher has no such "
        "name"
    ),
    LAUNCH_TOKEN_VARIABLE: (
        "a secret, the same on all ranks, by which they know each other at a `--head-address`; over ssh muster "
        "makes one"
    ),
    RUN_DIR_VARIABLE: "a run's folder to meet in, instead of the runs folder; set in a job",
}
"""What a user or a launcher may set."""

SET = {
    GRACE_VARIABLE: (
        "set for the command of a launch: how many seconds it may take to end after a signal; `muster train` "
        "saves in that time"
    ),
    LAUNCH_CPUS_VARIABLE: (
        'set for the command of a launch: CPUs of all hosts; `workers = "auto"` takes all but the learner\'s'
    ),
    LINK_VARIABLE: "set in a job: its number in the chain of the run",
    LOCAL_JOB_VARIABLE: "set in a job of `--on local`: its id",
    SHIPPED_CODE_VARIABLE: (
        "set in a job on a Ray that exists: the folder of the code that its workers get a copy of"
    ),
}
"""What muster sets, and a user's own program may read."""

INTERNAL = {
    CODE_COPY_VARIABLE: "where a worker's copy of the shipped code is",
    CODE_SEARCH_PATH_VARIABLE: "folders of the shipped code that are on the search path for modules",
    PARENT_VARIABLE: "the process that started this run, without which it saves and ends",
    STEP_VARIABLE: "this rank was started by `muster launch` itself, which must not start ranks again",
    IN_CONTAINER_VARIABLE: "this rank is inside its container already",
    ORDERS_ON_STDIN_VARIABLE: (
        "signals and lost hosts come to this rank as lines of JSON on its standard input; their end means TERM"
    ),
}
"""What one process of muster's tells another."""
