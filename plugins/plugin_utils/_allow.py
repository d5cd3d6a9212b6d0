# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_stack_allow: findings that a site accepts for a time, each with a reason and an expiry date. Pure.

Private to the collection. An entry is {id, reason, expires[, subject]}. An allowed finding stays in the report as info with its former
severity; an expired entry is a finding of its own and the finding that it covered keeps its severity.
"""

from __future__ import annotations

import datetime
import difflib
import re
import typing as t
from dataclasses import replace

from ._contracts import Context, Finding

LONGEST = datetime.timedelta(days=366)
SOURCE = "gpu_stack_allow of this site"
KEYS = ("id", "subject", "reason", "expires")
_ID = re.compile(r"[a-z0-9_]+(\.[a-z0-9_-]+)+")


def apply(findings: t.Iterable[Finding], policy: Context) -> list[Finding]:
    """Findings after the allow-list, with findings about the list itself; sorted. To be called once over all findings of a gate."""
    wrong: list[Finding] = []
    valid: list[tuple[dict[str, t.Any], datetime.date]] = []
    for number, entry in enumerate(policy.allow, start=1):
        text, expires = _check(entry, policy.today)
        if text or expires is None:
            wrong.append(_invalid(number, entry, text))
        else:
            valid.append((entry, expires))
    out = list(wrong)
    matched: set[int] = set()
    for finding in findings:
        kept = finding
        for index, (entry, expires) in enumerate(valid):
            if _covers(entry, finding):
                matched.add(index)
                if expires >= policy.today and kept.severity != "info":
                    kept = _allowed(kept, entry, expires)
        out.append(kept)
    out.extend(
        _expired(entry, expires, policy, used=index in matched) for index, (entry, expires) in enumerate(valid) if expires < policy.today
    )
    return sorted(out, key=Finding.sort_key)


def _covers(entry: t.Mapping[str, t.Any], finding: Finding) -> bool:
    return bool(entry["id"] == finding.id and entry.get("subject", finding.subject) == finding.subject)


def _allowed(finding: Finding, entry: t.Mapping[str, t.Any], expires: datetime.date) -> Finding:
    note: dict[str, str] = {"reason": str(entry["reason"]), "expires": expires.isoformat(), "severity": finding.severity}
    return replace(finding, severity="info", allowed=note)


def _check(entry: t.Any, today: datetime.date) -> tuple[str, datetime.date | None]:
    """What is wrong with an entry (empty: nothing), and its date."""
    if not isinstance(entry, t.Mapping):
        return f"is {type(entry).__name__}, expected a mapping with id, reason and expires", None
    for name in entry:
        if name not in KEYS:
            near = difflib.get_close_matches(str(name), KEYS, n=1)
            return f"has the unknown key {name!r}{f'; did you mean {near[0]}?' if near else ''} (known: {', '.join(KEYS)})", None
    for name in ("id", "reason", "expires"):
        if not str(entry.get(name) or "").strip():
            return f"lacks {name}", None
    if not _ID.fullmatch(str(entry["id"])):
        return f"has the id {entry['id']!r}, which is no finding id such as driver.branch_ended", None
    expires = _date(entry["expires"])
    if expires is None:
        return f"has expires {entry['expires']!r}, expected a date such as {(today + datetime.timedelta(days=90)).isoformat()}", None
    if expires > today + LONGEST:
        return f"expires on {expires.isoformat()}; at most a year from today is accepted: {(today + LONGEST).isoformat()}", None
    return "", expires


def _date(value: t.Any) -> datetime.date | None:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError:
        return None


def _invalid(number: int, entry: t.Any, text: str) -> Finding:
    name = entry.get("id") if isinstance(entry, t.Mapping) else None
    return Finding(
        id="policy.allow_invalid",
        severity="block",
        component="policy",
        subject=f"gpu_stack_allow[{number - 1}]",
        found=str(dict(entry) if isinstance(entry, t.Mapping) else entry),
        needed="{id: finding id, reason: text, expires: YYYY-MM-DD, subject: optional}",
        message=f"Entry {number} of gpu_stack_allow{f' ({name})' if name else ''} {text}.",
        fix="Correct or remove the entry of gpu_stack_allow.",
        source=SOURCE,
    )


def _expired(entry: t.Mapping[str, t.Any], expires: datetime.date, policy: Context, used: bool) -> Finding:
    what = f"{entry['id']}{' of ' + str(entry['subject']) if entry.get('subject') else ''}"
    return Finding(
        id="policy.allow_expired",
        severity="warn" if used else "info",
        component="policy",
        subject=what,
        found=f"expired {expires.isoformat()}",
        needed=f"a date from {policy.today.isoformat()} on",
        message=f"The allowance for {what} expired on {expires.isoformat()}"
        + ("; the finding counts again." if used else "; it covers nothing on this host.")
        + f" Its reason was: {entry['reason']}",
        fix="Cure the finding and remove the entry of gpu_stack_allow, or give it a new date and reason.",
        source=SOURCE,
    )
