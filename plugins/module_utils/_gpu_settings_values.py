# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of device settings as people write them, and their one canonical form. Pure; private to the collection.

Each parser takes whatever YAML or Jinja made of a value and returns the form that the state file holds
(schemas/state.schema.json), or raises BadValue with what was expected and, if there is one, the nearest thing that works.
"""

from __future__ import annotations

import difflib
import math
import re
import typing as t


class BadValue(ValueError):
    """The value cannot be used."""

    def __init__(self, expected: str, hint: str = "", nearest: t.Optional[str] = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.hint = hint
        self.nearest = nearest


LIMIT_FORMS = "a number of watts (300 or 300W), a percentage of the device's default limit ('70%'), or default"
CLOCK_FORMS = "MIN,MAX in MHz ('210,1980'), one number for both, or reset"
SELECT_FORMS = "all, product:REGEX, a GPU UUID (GPU-…), a PCI address ('0000:1b:00.0') or index:N"
COMPUTE_MODES = ("default", "exclusive_process", "prohibited")
_LIMIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(w|watts?|%|)$", re.IGNORECASE)
_CLOCKS = re.compile(r"([0-9]+)\s*[,-]\s*([0-9]+)$")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
_PCI = re.compile(r"(?:([0-9a-f]{4}|[0-9a-f]{8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$", re.IGNORECASE)
_INDEX = re.compile(r"(?:index:)?([0-9]{1,3})$")
_TRUE, _FALSE = {"yes", "true", "on", "1"}, {"no", "false", "off", "0"}


def number(value: float) -> str:
    """300 for 300.0, 250.5 for 250.5."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def power_limit(value: t.Any) -> str:
    """`300W`, `70%` or `default`."""
    if isinstance(value, bool):
        raise BadValue(LIMIT_FORMS, "YAML reads yes, no, on and off as true and false")
    if isinstance(value, (int, float)):
        return _watts(float(value))
    if not isinstance(value, str):
        raise BadValue(LIMIT_FORMS)
    text = value.strip()
    if text.lower() == "default":
        return "default"
    if text.startswith("%") and not _LIMIT.match(text[1:].strip()):
        raise BadValue(LIMIT_FORMS, "a percentage of nothing", "100%")
    found = _LIMIT.match(text)
    if not found:
        digits = re.search(r"[0-9]+(?:\.[0-9]+)?", text)
        close = difflib.get_close_matches(text.lower(), ["default"])
        guess = (digits.group() + ("%" if "%" in text else "W")) if digits and "-" not in text else (close[0] if close else None)
        raise BadValue(LIMIT_FORMS, nearest=guess)
    amount = float(found.group(1))
    if found.group(2) != "%":
        return _watts(amount)
    if amount <= 0:
        raise BadValue(LIMIT_FORMS, "a percentage of nothing", "100%")
    return number(amount) + "%"


def _watts(amount: float) -> str:
    if not math.isfinite(amount) or amount <= 0:
        raise BadValue(LIMIT_FORMS, "a limit is a positive number")
    if amount <= 1.5:
        raise BadValue(LIMIT_FORMS, "a bare number counts watts, not a share", f"{number(amount * 100)}%")
    return number(amount) + "W"


def boolean(value: t.Any) -> bool:
    """true or false, in any of YAML's and Ansible's spellings."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower() if isinstance(value, (str, int)) else ""
    if text in _TRUE | _FALSE:
        return text in _TRUE
    raise BadValue("true or false")


def compute_mode(value: t.Any) -> str:
    text = re.sub(r"[\s-]+", "_", value.strip().lower()) if isinstance(value, str) else ""
    if text in COMPUTE_MODES:
        return text
    close = difflib.get_close_matches(text, COMPUTE_MODES, cutoff=0.4)
    raise BadValue(", ".join(COMPUTE_MODES[:-1]) + " or " + COMPUTE_MODES[-1], nearest=close[0] if close else None)


def clocks(value: t.Any) -> str:
    """`MIN,MAX` or `reset`."""
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        value = f"{value[0]},{value[1]}"
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    text = value.strip().lower() if isinstance(value, str) else ""
    if text == "reset":
        return text
    if text.isdecimal():
        text = f"{text},{text}"
    found = _CLOCKS.match(text)
    if not found:
        raise BadValue(CLOCK_FORMS, nearest="reset" if text in ("default", "auto", "none") else None)
    low, high = int(found.group(1)), int(found.group(2))
    if low > high:
        raise BadValue(CLOCK_FORMS, "the first number is the lower one", f"{high},{low}")
    if high == 0:
        raise BadValue(CLOCK_FORMS, nearest="reset")
    return f"{low},{high}"


def pci_address(text: str) -> t.Optional[str]:
    """`0000:1b:00.0` for any spelling of a PCI address, as sysfs writes it; None for anything else."""
    found = _PCI.match(text.strip())
    if not found:
        return None
    domain = int(found.group(1) or "0", 16)
    return f"{domain:04x}:{found.group(2)}:{found.group(3)}.{found.group(4)}".lower()


def select(value: t.Any) -> str:
    """`all`, `product:REGEX`, `GPU-…` in lower case digits, a PCI address as sysfs writes it, or `index:N`."""
    if isinstance(value, bool) or value is None or isinstance(value, float):
        trap = "quote PCI addresses: YAML reads 17:00.0 as a number" if isinstance(value, float) else ""
        raise BadValue(SELECT_FORMS, trap)
    if not isinstance(value, (str, int)):
        raise BadValue(SELECT_FORMS)
    text = str(value).strip()
    if text.lower() == "all":
        return "all"
    if text.lower().startswith("product:"):
        return "product:" + product(text[len("product:") :])
    if text.upper().startswith("MIG-"):
        raise BadValue(SELECT_FORMS, "settings belong to a physical GPU, not to a MIG device")
    if _UUID.match(text):
        return "GPU-" + text[4:].lower()
    index = _INDEX.match(text)
    if index:
        return f"index:{int(index.group(1))}"
    address = pci_address(text)
    if address is None:
        guess = text if text.upper().startswith("GPU-") or not text else "product:" + text
        raise BadValue(SELECT_FORMS, nearest=None if guess == text else guess)
    return address


def product(value: t.Any) -> str:
    """A product pattern that compiles."""
    text = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    try:
        re.compile(text)
    except re.error as exc:
        raise BadValue("a regular expression of Python", str(exc), re.escape(text)) from None
    if not text:
        raise BadValue("a product name or a regular expression for one")
    return text


def product_matches(pattern: str, name: str) -> bool:
    """Whole words, in any case: `L4` is the L4 and not the L40S, `H100` is every H100."""
    return re.search(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", name, re.IGNORECASE) is not None


PARSERS: dict[str, t.Callable[[t.Any], t.Any]] = {
    "power_limit": power_limit,
    "persistence": boolean,
    "compute_mode": compute_mode,
    "ecc": boolean,
    "gpu_clocks": clocks,
    "memory_clocks": clocks,
}
"""Setting → parser, in the order in which settings are applied and reported."""
