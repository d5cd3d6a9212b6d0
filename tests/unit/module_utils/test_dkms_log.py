# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a DKMS build failed, out of its log."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.inference.plugins.module_utils._dkms_log import failed_builds

LOG = """# command: make modules
#define NV_DMA_FENCE_SET_ERROR_PRESENT
  CC [M]  nvidia/nv-pci.o
nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'
make[3]: *** [scripts/Makefile.build:203: nvidia/nv-pci.o] Error 1
"""


def test_failed_build_is_named_with_the_compilers_words(tmp_path: Path) -> None:
    log = tmp_path / "nvidia-current-open/550.163.01/build/make.log"
    log.parent.mkdir(parents=True)
    log.write_text("x" * 400000 + "\n" + LOG)
    said = failed_builds(str(tmp_path))
    assert said.startswith("nvidia-current-open/550.163.01: added, not built")
    assert "pci_resize_resource" in said
    assert "#define" not in said


def test_nothing_built_says_nothing(tmp_path: Path) -> None:
    assert failed_builds(str(tmp_path)) == ""
