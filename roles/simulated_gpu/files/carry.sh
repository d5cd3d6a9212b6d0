#!/bin/sh
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# carry.sh: renew the carried binary after a change of nvml/*. Run it on Debian 12, so that the binary needs an old C library only.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=/dev/null
. /etc/os-release
[ "${ID:-}-${VERSION_ID:-}" = debian-12 ] || { echo "carry.sh: this is ${PRETTY_NAME:-unknown}, not Debian 12" >&2; exit 1; }
"$here/build.sh" "$here/bin/$(uname -m)"
strip "$here/bin/$(uname -m)/libnvidia-ml.so"
(cd "$here/nvml" && find . -type f | LC_ALL=C sort | xargs cat | sha256sum | cut -d' ' -f1) > "$here/bin/$(uname -m)/source.sha256"
