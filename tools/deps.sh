#!/bin/sh
# Installs the Debian packages that memtrace is built, tested and drawn with. Says what is missing and
# stops when it may not install.
set -eu
packages="gcc g++ make libc6-dev libopenblas-openmp-dev libjansson-dev libpcre2-dev zlib1g-dev libzstd-dev
libjemalloc-dev libcmocka-dev gnuplot-nox fonts-dejavu-core"
[ "${1:-}" = valgrind ] && packages="$packages valgrind libc6-dbg"
missing=""
for p in $packages; do
    state=$(dpkg-query -W -f '${Status}' "$p" 2>/dev/null || true)
    [ "$state" = "install ok installed" ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "memtrace needs packages that are not installed; as root:" >&2
    echo "  apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends $missing >/dev/null
