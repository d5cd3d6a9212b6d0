#!/bin/sh
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# find-real-gpu.sh [ROOT]: prints what of a real NVIDIA machine is seen here, one line each. What the simulation itself shows does not count.
root=${1:-}
run=$root/run/simulated-gpu
for device in "$root"/sys/bus/pci/devices/*; do
    [ "$(cat "$device/vendor" 2>/dev/null)" = 0x10de ] || continue
    class=$(cat "$device/class" 2>/dev/null)
    case $class in
        0x03*|0x0680*) grep -q "^${device##*/}=" "$run/pci" 2>/dev/null || echo "PCI device ${device##*/} (class $class, device $(cat "$device/device"))" ;;
    esac
done
if [ ! -f "$run/module" ]; then
    for module in nvidia nvidia_uvm nvidia_drm; do
        [ -d "$root/sys/module/$module" ] && echo "kernel module $module $(cat "$root/sys/module/$module/version" 2>/dev/null)"
    done
    [ -e "$root/proc/driver/nvidia/version" ] && echo "/proc/driver/nvidia/version: $(head -n 1 "$root/proc/driver/nvidia/version")"
fi
exit 0
