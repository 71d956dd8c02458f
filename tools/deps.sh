#!/bin/sh
# Installs the Debian packages that memtrace needs; names them and stops when it may not install.
#
#     tools/deps.sh [build] [draw] [test]     what it is built, drawn and tested with; all when none is named
set -eu
[ $# -gt 0 ] || set -- build draw test
packages=""
for group; do
    case $group in
    build) packages="$packages gcc g++ make libc6-dev libopenblas-openmp-dev libjansson-dev libpcre2-dev
        zlib1g-dev libzstd-dev libsqlite3-dev libjemalloc-dev" ;;
    draw) packages="$packages gnuplot-nox fonts-dejavu-core" ;;
    test) packages="$packages libcmocka-dev zstd valgrind libc6-dbg python3 clang-format" ;;
    *) echo "usage: tools/deps.sh [build] [draw] [test]" >&2; exit 2 ;;
    esac
done

missing() { # the packages that are not installed
    for p in $packages; do
        state=$(dpkg-query -W -f '${Status}' "$p" 2>/dev/null || true)
        [ "$state" = "install ok installed" ] || printf ' %s' "$p"
    done
}
[ -n "$(missing)" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "memtrace needs packages that are not installed; as root:" >&2
    echo "  apt-get install -y --no-install-recommends$(missing)" >&2
    exit 1
fi
# One at a time: what another has installed meanwhile is not missing any more.
exec 9<"$0"
flock 9
missing=$(missing)
[ -n "$missing" ] || exit 0
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
