#!/bin/sh
# Check for what feednet needs of the system, and install it by apt when root. Python's own packages
# are none of its business. Usage: setup.sh PYTHON
#
# Required: Python 3.11+ with venv, Java 17+ (Spark). Wanted: what Mininet runs need, without which scenarios
# run in the emulator; a C compiler with Python's headers, without which the forwarder is not compiled; and
# tshark and Chromium, without which tests of the plugin for Wireshark and of the report's pages are skipped.
set -eu

python=$1
required=
wanted=

say() { printf 'feednet: %s\n' "$*" >&2; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    say "$python is not Python 3.11 or newer; install one and name it: make PYTHON=python3.12 ..."
    exit 1
}
"$python" -c 'import ensurepip, venv' 2>/dev/null || required="$required python3-venv"

java_version() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p;q'; }
version=0
if command -v java >/dev/null; then version=$(java_version); fi
[ "${version:-0}" -ge 17 ] || required="$required default-jre-headless"

headers='import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
"$python" -c "$headers" 2>/dev/null || wanted="$wanted python3-dev"
command -v cc >/dev/null || wanted="$wanted gcc libc6-dev"
command -v ip >/dev/null || wanted="$wanted iproute2"
command -v mnexec >/dev/null || wanted="$wanted mininet"
command -v ethtool >/dev/null || wanted="$wanted ethtool"
command -v ifconfig >/dev/null || wanted="$wanted net-tools"
command -v unshare >/dev/null || wanted="$wanted util-linux"
# Only tests need these two.
command -v tshark >/dev/null || wanted="$wanted tshark"
command -v chromium >/dev/null || command -v google-chrome >/dev/null || wanted="$wanted chromium"

[ -n "$required$wanted" ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    say "installing$required$wanted by apt"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # lists of words
    { apt-get update -qq && apt-get install -qq --no-install-recommends $required $wanted; } >/dev/null 2>&1 ||
        say "apt could not install all of:$required$wanted"
    version=0
    if command -v java >/dev/null; then version=$(java_version); fi
    [ "${version:-0}" -ge 17 ] || { say "Java 17 or newer is missing; Spark needs it"; exit 1; }
    exit 0
fi

if [ -n "$required" ]; then
    say "missing. On Debian or Ubuntu: sudo apt install --no-install-recommends$required$wanted"
    exit 1
fi
say "Mininet runs, the compiled forwarder and some tests need more; without it scenarios run in the emulator."
say "On Debian or Ubuntu: sudo apt install --no-install-recommends$wanted"
