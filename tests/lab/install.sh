#!/bin/sh
# Installs the Debian packages that the tests need and that are missing; does nothing when none is.
#
#   tests/lab/install.sh                 namespaces, Slurm, sshd, Open MPI, MPICH; GNU Go for an example, Chromium for pages
#   tests/lab/install.sh gridengine      Grid Engine as well
#   tests/lab/install.sh charliecloud    Charliecloud as well
set -eu

packages="iproute2 util-linux mount procps munge slurmctld slurmd slurm-client
    openssh-client openssh-server rsync openmpi-bin mpich gnugo chromium"
for extra in "$@"; do
    case $extra in
        gridengine) packages="$packages gridengine-master gridengine-exec gridengine-client" ;;
        charliecloud) packages="$packages charliecloud" ;;
        *) echo "install.sh: unknown part '$extra'; expected 'gridengine' or 'charliecloud'" >&2; exit 2 ;;
    esac
done

missing=""
for package in $packages; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "install.sh: only root can install:$missing" >&2
    exit 1
fi

# The lab starts its own daemons: the packages must not start theirs on this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
echo "install.sh: installing$missing" >&2
# shellcheck disable=SC2086  # a list of words
apt-get install --quiet --quiet --yes --no-install-recommends $missing >&2 || {
    apt-get update --quiet --quiet >&2
    apt-get install --quiet --quiet --yes --no-install-recommends $missing >&2
}
