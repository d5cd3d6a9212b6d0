#!/bin/sh
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# pack.sh [FOLDER]: one archive with all that a host needs, the same bytes for the same content; prints its path.
# Copying sixty small files one by one over ssh takes a minute, this takes a second.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${TMPDIR:-/tmp}}
list() { cd "$here" && find lib/simulated_gpu profiles nvml bin systemd build.sh -type f ! -name '*.pyc' | LC_ALL=C sort; }
sum=$(cd "$here" && { list; echo pack.sh; } | while read -r file; do sha256sum "$file"; done | sha256sum | cut -c1-16)
archive=$folder/simulated-gpu-$(id -u)-$sum.tar
if [ ! -f "$archive" ]; then
    work=$(mktemp -d "$folder/simulated-gpu.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    home=$work/tree/usr/local/lib/simulated-gpu
    mkdir -p "$home" "$work/tree/usr/local/sbin" "$work/tree/etc/systemd/system"
    (cd "$here" && list | tar -cf - -T -) | tar -xf - -C "$home"
    mv "$home/lib/simulated_gpu" "$home/" && rmdir "$home/lib"
    mv "$home"/systemd/* "$work/tree/etc/systemd/system/" && rmdir "$home"/systemd
    cp "$home/bin/simulated-gpu" "$work/tree/usr/local/sbin/"
    for tool in modprobe rmmod lsmod modinfo; do cp "$home/bin/module-tool" "$work/tree/usr/local/sbin/$tool"; done
    printf %s "$sum" > "$home/.edition"
    chmod -R u=rwX,go=rX "$work/tree"
    chmod 755 "$work"/tree/usr/local/sbin/* "$home/build.sh"      # an installed collection may have lost these bits
    # files by name: a folder such as /usr/local/sbin is not ours to set modes on
    (cd "$work/tree" && tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$work/archive" \
        usr/local/lib/simulated-gpu usr/local/sbin/* etc/systemd/system/simulated-gpu.service)
    mv "$work/archive" "$archive"
fi
echo "$archive"
