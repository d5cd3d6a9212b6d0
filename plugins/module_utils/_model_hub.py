# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hub of models over HTTP: what a revision consists of, and its files. Private to the collection.

Speaks the part of the Hugging Face Hub's interface that mirrors serve as well: /api/models/REPO/revision/REV?blobs=true and
/REPO/resolve/REV/FILE with Range. The token goes to the hub alone: large files are redirected to stores that sign their own addresses.
"""

from __future__ import annotations

import json
import re
import socket
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from ._errors import WorkError

_SMALL = 64 << 20
"""Bytes that a manifest may have."""
_REASONS = {
    "GatedRepo": ("gated", "the repository is gated: accept its terms with the account of the token"),
    "RepoNotFound": ("not_found", "there is no such repository, or the token may not see it"),
    "RevisionNotFound": ("not_found", "the repository has no such revision"),
    "EntryNotFound": ("not_found", "the revision has no such file"),
}


class ModelError(WorkError):
    """Why a model is not there."""


class File(t.NamedTuple):
    """One file of a revision. Of the two digests one is known: SHA-256 of large files, git's blob id of others."""

    path: str
    size: int
    sha256: str
    blob: str


class Manifest(t.NamedTuple):
    revision: str
    """Commit, 40 hexadecimal digits."""
    files: list[File]


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Keeps the token to the host that it was given for."""

    def redirect_request(self, req: t.Any, fp: t.Any, code: int, msg: str, headers: t.Any, newurl: str) -> t.Any:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and _origin(new.full_url) != _origin(req.full_url):
            new.headers.pop("Authorization", None)
        return new


class Hub:
    """`endpoint`: base address without a path of its own or with one; `timeout`: seconds without a byte."""

    def __init__(self, endpoint: str, token: str = "", timeout: float = 60.0) -> None:
        if not re.match(r"https?://[^/]+", endpoint):
            raise ModelError("failed", f"endpoint is {endpoint!r}; expected an http or https address, such as https://huggingface.co")
        self.endpoint = endpoint.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_Redirects)

    def manifest(self, repo: str, revision: str) -> Manifest:
        """What `revision` (commit, branch or tag) has, by commit."""
        url = f"{self.endpoint}/api/models/{_quoted(repo)}/revision/{_quoted(revision, safe='')}?blobs=true"
        with self._open(url, {}, f"{repo} at {revision}") as answer:
            content = answer.read(_SMALL)
        try:
            data = json.loads(content)
            files = [_file(entry) for entry in data["siblings"]]
            commit = str(data["sha"])
        except (ValueError, KeyError, TypeError) as exc:
            raise ModelError("bad_answer", f"{url} does not answer as a model hub: {type(exc).__name__} {exc}") from exc
        if not files:
            raise ModelError("empty", f"{repo} at {revision} has no files")
        return Manifest(commit, sorted(files))

    def open(self, repo: str, revision: str, file: File, offset: int) -> t.Any:
        """The file's bytes from `offset` on; an answer that ignores the range is an error of reason `no_range`."""
        url = f"{self.endpoint}/{_quoted(repo)}/resolve/{_quoted(revision, safe='')}/{_quoted(file.path)}"
        answer = self._open(url, {"Range": f"bytes={offset}-"} if offset else {}, file.path)
        if offset and answer.status != 206:
            answer.close()
            raise ModelError("no_range", f"{self.endpoint} cannot resume {file.path}")
        return answer

    def _open(self, url: str, headers: dict[str, str], what: str) -> t.Any:
        # identity: a packed answer has another length, and cannot be resumed
        fields = {"Accept-Encoding": "identity", "User-Agent": "gpufleet.inference", **headers}
        request = urllib.request.Request(url, headers=fields)  # noqa: S310 - endpoints other than http and https are refused above
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        try:
            return self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as exc:
            raise self._refused(exc, what) from exc
        except (OSError, ValueError) as exc:
            cause = getattr(exc, "reason", exc)
            late = isinstance(cause, (socket.timeout, TimeoutError))
            raise ModelError(
                "unreachable", f"{what}: {self.endpoint} {'does not answer in time' if late else f'is not reachable: {cause}'}"
            ) from exc

    def _refused(self, exc: urllib.error.HTTPError, what: str) -> ModelError:
        reason, text = _REASONS.get(str(exc.headers.get("X-Error-Code")), ("", ""))
        if not reason and exc.code in (401, 403):
            given = "the token is not accepted" if self._token else "a token is needed"
            reason, text = "denied", f"{given} (HTTP {exc.code})"
        if not reason:
            reason, text = ("not_found", "it is not there (HTTP 404)") if exc.code == 404 else ("unreachable", f"HTTP {exc.code}")
        return ModelError(reason, f"{what} at {self.endpoint}: {text}")


def _file(entry: t.Mapping[str, t.Any]) -> File:
    path = str(entry["rfilename"])
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError(f"file name {path!r} leads out of the folder")
    large = entry.get("lfs") or {}
    return File(path, int(large.get("size", entry.get("size", -1))), str(large.get("sha256") or ""), str(entry.get("blobId") or ""))


def _quoted(text: str, safe: str = "/") -> str:
    return urllib.parse.quote(text, safe=safe)


def _origin(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc
