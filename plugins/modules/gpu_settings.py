#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_settings
version_added: 0.1.0
short_description: Device settings of NVIDIA GPUs as desired state
author: gpufleet contributors (@gpufleet)
description:
  - Sets power limit, persistence mode, compute mode, ECC and locked clocks of each GPU, reads back what was set, and makes a boot
    unit apply
    the same again after a reboot.
  - Everything is checked against the constraints that each device reports itself before anything is set. One value out of range on
    one GPU, and
    no GPU is touched.
  - After that GPUs are independent. One that is lost or refuses does not keep the others from their settings; it is reported and
    the module fails.
  - ECC is a persistent setting that takes effect at the next reboot. The module sets it and says so. It never resets a GPU.
  - Persistence mode is set through NVML, which hands it to C(nvidia-persistenced) where the daemon runs.
  - Locked clocks cannot be read through NVML. What was locked since this boot is recorded in C(/run/gpufleet/gpu_clocks.json).
  - While the power governor runs, desired state is its configuration and not the momentary power limit.
requirements:
  - root, except in check mode
  - nvidia-ml-py on the host, which the role P(gpufleet.inference.gpu_preflight#role) puts there
  - systemd on the host for O(persist=true)
options:
  state:
    description:
      - V(present) brings the GPUs and the boot unit to the state described by the other options, which replaces what an earlier run
        asked for.
      - A setting that is no longer asked for stays as it is until the driver is loaded again.
      - V(absent) undoes what the configuration on the host manages. Volatile settings go to the driver's defaults. ECC goes back to
        the value
        recorded at our first change, or is left and reported where none was recorded. Unit, configuration and records are removed.
    type: str
    choices: [present, absent]
    default: present
  power_limit:
    description:
      - Power limit of every GPU that no rule names.
      - A number of watts (V(300) or V(300W)), a percentage of the device's default limit (V(70%)), or V(default).
      - >-
        Or a map of product to one of these, for instance V({H200: 600, L40S: 80%}). Keys are regular expressions which match whole words
        of NVML's product name in any case, so C(L4) is not the L40S. Entries for products that are not in this host are ignored as long
        as one entry names a GPU.
      - Percentages are rounded to whole watts.
    type: raw
  persistence:
    description: Persistence mode of every GPU that no rule names.
    type: bool
  rules:
    description:
      - Settings for some GPUs. Each rule has C(select) and at least one setting.
      - >-
        C(select) is V(all), V(product:REGEX) as in O(power_limit), a GPU UUID, a PCI address, or V(index:N), which becomes the UUID that it
        means now.
      - C(power_limit) as in O(power_limit), without the map.
      - C(persistence) and C(ecc) are booleans.
      - C(compute_mode) is V(default), V(exclusive_process) or V(prohibited).
      - C(gpu_clocks) and C(memory_clocks) are V(MIN,MAX) in MHz, one number for both, or V(reset).
      - Two rules that disagree about one setting of one GPU are an error.
    type: list
    elements: raw
    default: []
  governor:
    description:
      - Configuration of the power governor, a service that lowers the limit of a hot GPU step by step and gives it back when it has
        cooled down.
        Not given, there is no governor, and one that runs is removed.
      - C(high_celsius), default 83. At or above it the limit goes down; by one more step for every 3 degrees.
      - C(low_celsius), default 76. At or below it the limit goes up. In between it stays.
      - C(floor), default V(50%). Lowest limit, in the forms of O(power_limit). Never below the device's own minimum.
      - C(ceiling), default V(limit), the set limit.
      - C(step_watts), default 25, and C(interval_seconds), default 5.
      - C(sensor), V(gpu) or V(memory), default V(gpu). Without a reading the set limit is kept.
    type: dict
  persist:
    description: Whether configuration and boot unit are written. Without them the settings last until the driver is unloaded.
    type: bool
    default: true
  missing_gpus:
    description:
      - What a GPU means that does not answer or was here before and is gone, V(fail) or V(warn). The other GPUs get their settings in any
        case.
    type: str
    choices: [fail, warn]
    default: fail
  forget_missing:
    description:
      - Whether GPUs that were here before and are not on the PCI bus any more are forgotten, because somebody took them out for good.
      - Without it they count as missing, for this module and at boot. A GPU that was replaced in its slot is forgotten in any case.
    type: bool
    default: false
  boot_wait:
    description: Seconds, 0 to 600, that the boot unit waits for GPUs that do not answer yet, after it served those that do.
    type: float
    default: 60.0
  boot_python:
    description: Python, 3.9 or newer, that runs the boot unit.
    type: path
    default: /usr/bin/python3
  variable_prefix:
    description: How options are called in messages; a role sets its own prefix.
    type: str
    default: ''
extends_documentation_fragment:
  - gpufleet.inference._attributes
  - gpufleet.inference._attributes.actiongroup_gpu
  - gpufleet.inference._nvml
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
seealso:
  - module: gpufleet.inference.gpu_info
"""

EXAMPLES = r"""
- name: 70 percent of each device's default limit, also after reboots
  gpufleet.inference.gpu_settings:
    power_limit: 70%
    persistence: true
  become: true

- name: A mixed host
  gpufleet.inference.gpu_settings:
    power_limit:
      H200: 600
      L40S: 80%
    rules:
      - select: product:L40S
        compute_mode: exclusive_process
      - select: "0000:3b:00.0"
        gpu_clocks: 210,1980
  become: true

- name: Lower limits while the GPUs are hot
  gpufleet.inference.gpu_settings:
    power_limit: default
    governor:
      high_celsius: 80
      low_celsius: 72
      floor: 60%
  become: true

- name: Undo all of it
  gpufleet.inference.gpu_settings:
    state: absent
  become: true
"""

RETURN = r"""
gpus:
  description: One entry for each GPU that NVML lists.
  returned: when NVML could be used
  type: list
  elements: dict
  contains:
    index:
      description: NVML index at the time of the run.
      type: int
    uuid:
      description: UUID, null for a GPU that does not answer.
      type: str
    pci_address:
      description: PCI address as in sysfs.
      type: str
    product:
      description: NVML name.
      type: str
    state:
      description: V(ok), V(lost), V(reset_required) or V(unavailable).
      type: str
    reason:
      description: What NVML said about a GPU that does not answer.
      type: str
    reboot_needed:
      description: An ECC mode waits for a reboot.
      type: bool
    settings:
      description:
        - Setting to C(status), C(before), C(wanted), C(after) and C(error). Power limits are in milliwatts.
        - C(status) is V(set), V(unchanged), V(unsupported), V(denied), V(out_of_range), V(governed), V(lost) or V(error).
      type: dict
  sample:
    - index: 0
      uuid: GPU-5f9b1c7e-0d2a-4c57-8a41-0c5d8e3f1a22
      pci_address: "0000:1b:00.0"
      product: NVIDIA H200
      state: ok
      reason:
      reboot_needed: false
      settings:
        power_limit: {status: set, before: 700000, wanted: 490000, after: 490000}
files:
  description: Files and directories that were written or removed.
  returned: success
  type: list
  elements: str
actions:
  description: What was asked of systemd.
  returned: success
  type: list
  elements: str
  sample: [enable gpufleet-gpu-settings.service, start gpufleet-gpu-settings.service]
reboot_needed:
  description: Whether a setting of some GPU waits for a reboot.
  returned: success
  type: bool
problems:
  description: What is wrong with the given options, each with C(id), C(where), C(found), C(needed), C(text) and C(fix).
  returned: when the options were refused; nothing was changed then
  type: list
  elements: dict
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import HostError
from ..module_utils._gpu_settings_absent import absent
from ..module_utils._gpu_settings_install import carried_sources
from ..module_utils._gpu_settings_lock import RUN_LOCK, hold
from ..module_utils._gpu_settings_present import Wish, judge, present
from ..module_utils._gpu_settings_result import Refused, Result
from ..module_utils._gpu_settings_rules import Names
from ..module_utils._gpu_settings_session import Paths
from ..module_utils._gpu_settings_units import UnitOptions
from ..module_utils._nvml_args import NVML_ARGS, nvml_options

SPEC: dict[str, dict[str, t.Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "power_limit": {"type": "raw"},
    "persistence": {"type": "bool"},
    "rules": {"type": "list", "elements": "raw", "default": []},
    "governor": {"type": "dict"},
    "persist": {"type": "bool", "default": True},
    "missing_gpus": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
    "forget_missing": {"type": "bool", "default": False},
    "boot_wait": {"type": "float", "default": 60.0},
    "boot_python": {"type": "path", "default": "/usr/bin/python3"},
    "variable_prefix": {"type": "str", "default": ""},
    **NVML_ARGS,
}


def wish_of(params: t.Mapping[str, t.Any]) -> Wish:
    """The options in the form that the backend takes."""
    if not 0 <= params["boot_wait"] <= 600:
        raise HostError(f"boot_wait is {params['boot_wait']}, expected seconds from 0 to 600; the default is 60")
    prefix = params["variable_prefix"]
    unit = UnitOptions(params["boot_python"], params["boot_wait"], params["nvml_timeout"], params["nvml_library"])
    # The role has one name that is not prefix + option: gpu_power_limit.
    names = Names("gpu_power_limit" if prefix == "gpu_power_" else prefix + "power_limit", prefix + "persistence", prefix + "rules")
    return Wish(
        params["power_limit"],
        params["persistence"],
        params["rules"],
        params["governor"],
        params["persist"],
        params["missing_gpus"],
        params["forget_missing"],
        unit,
        names,
        f"{prefix}governor_" if prefix else "governor",
    )


def run(params: t.Mapping[str, t.Any], check: bool) -> Result:
    """What the module does, after its options were parsed."""
    paths = Paths(sysfs=params["sysfs_root"])
    options = nvml_options(params)
    wish = wish_of(params)
    if params["state"] == "present":
        judge(wish)
    if check:
        return _run(params["state"], wish, paths, options, check)
    if os.geteuid() != 0:
        raise HostError("device settings need root: run this task with become: true")
    with hold(paths.run_dir, RUN_LOCK, "by module gpu_settings"):
        return _run(params["state"], wish, paths, options, check)


def _run(state: str, wish: Wish, paths: Paths, options: t.Any, check: bool) -> Result:
    if state == "absent":
        return absent(paths, options, check)
    return present(wish, carried_sources() if wish.persist else {}, paths, options, check)


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        result = run(module.params, module.check_mode)
    except Refused as exc:
        module.fail_json(msg=str(exc), problems=[problem._asdict() for problem in exc.problems])
    except HostError as exc:
        module.fail_json(msg=str(exc))
    for warning in result.warnings:
        module.warn(warning)
    out: dict[str, t.Any] = {
        "changed": result.changed,
        "gpus": result.gpus,
        "files": result.files,
        "actions": result.actions,
        "reboot_needed": any(gpu["reboot_needed"] for gpu in result.gpus),
    }
    if module._diff:
        out["diff"] = result.diffs
    if result.failed:
        module.fail_json(msg=result.failed, **out)
    module.exit_json(**out)


if __name__ == "__main__":
    main()
