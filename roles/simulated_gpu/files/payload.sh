#!/bin/sh
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# payload.sh OUT VERSION [open|proprietary] [LIBDIR]: the files of a driver for the simulated GPU, one folder for each package.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { echo "usage: $0 OUT VERSION [open|proprietary] [LIBDIR]" >&2; exit 2; }
out=$1 version=$2 flavor=${3:-open} libdir=${4:-usr/lib/x86_64-linux-gnu}
case $flavor in
    open) license='Dual MIT/GPL' ;;
    proprietary) license=NVIDIA ;;
    *) echo "$0: flavor must be open or proprietary, not '$flavor'" >&2; exit 2 ;;
esac
libdir=${libdir#/}
lib=$out/libnvidia-compute/$libdir
mkdir -p "$lib" "$out/nvidia-utils/usr/bin" "$out/nvidia-persistenced/usr/bin" "$out/kernel/var/lib/simulated-gpu/modules/nvidia"
# the library is the same for all versions: built once, kept beside the packages
[ -f "$out/.library/libnvidia-ml.so" ] || "$here/build.sh" "$out/.library"
cp "$out/.library/libnvidia-ml.so" "$lib/libnvidia-ml.so.$version"
ln -sf "libnvidia-ml.so.$version" "$lib/libnvidia-ml.so.1"
install -m 755 "$here/bin/nvidia-smi" "$out/nvidia-utils/usr/bin/nvidia-smi"
install -m 755 "$here/bin/nvidia-persistenced" "$out/nvidia-persistenced/usr/bin/nvidia-persistenced"
printf 'version=%s\nlicense=%s\n' "$version" "$license" > "$out/kernel/var/lib/simulated-gpu/modules/nvidia/$version"
