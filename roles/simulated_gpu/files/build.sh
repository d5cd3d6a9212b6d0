#!/bin/sh
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# build.sh OUT: make OUT/libnvidia-ml.so from the C source here; without a compiler, copy the carried binary.
# Install it as libnvidia-ml.so.<driver version>: the library takes its version from its file name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { echo "usage: $0 OUT" >&2; exit 2; }
mkdir -p "$1"
compiler=${CC:-$(command -v gcc || command -v cc || true)}
if [ -n "$compiler" ] && echo 'int main(void){return 0;}' | "$compiler" -x c - -o /dev/null 2>/dev/null; then
    "$compiler" -std=gnu11 -O2 -Wall -Wextra -Werror -Wno-format-truncation -shared -fPIC -fvisibility=hidden -Wl,-soname,libnvidia-ml.so.1 -Wl,-z,defs \
        -o "$1/.libnvidia-ml.so.$$" "$here"/nvml/*.c -ldl -lpthread
    mv "$1/.libnvidia-ml.so.$$" "$1/libnvidia-ml.so"
else
    cp "$here/bin/$(uname -m)/libnvidia-ml.so" "$1/libnvidia-ml.so"
fi
