#!/bin/sh
# Compile the modules that setup.py names into a directory of their own (base/compiled.py). Usage:
# compile.sh PYTHON [DIRECTORY]; without a directory it only says, by its exit status, whether it could.
#
# By way of the wheel, as a user gets it, and of that wheel only what is compiled. Without a C compiler there is
# one line and no directory, and that is no failure.
set -eu

python=$1
directory=${2:-}
say() { printf 'feednet: %s\n' "$*" >&2; }

missing=
command -v "${CC:-cc}" >/dev/null || missing="gcc libc6-dev"
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$include/Python.h" ] || missing="$missing python3-dev"
if [ -z "$directory" ]; then
    test -z "$missing"
    exit
fi

rm -rf "$directory"
if [ -n "$missing" ]; then
    say "plain Python only: no C compiler or no Python headers here (on Debian and Ubuntu: apt install $missing)"
    exit 0
fi

say "compiling the forwarder, the emulator, its protocols and the simulation (some minutes; again when they have changed)"
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
FEEDNET_COMPILE=1 "$python" -m pip --quiet --disable-pip-version-check wheel --no-deps --wheel-dir "$wheels" .
FEEDNET_PLAIN=1 "$python" -m base.compiled "$wheels"/*.whl "$directory"
