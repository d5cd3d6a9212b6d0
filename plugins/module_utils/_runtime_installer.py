# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""uv or pip: which of them installs, how it is called, and what its errors mean. Private to the collection.

What the host's own pip.conf, uv.toml or environment say does not count: what is installed, and from where, follows from the settings alone.
Passwords go by a netrc file that only root reads: neither the process list nor an environment shows them.
"""

from __future__ import annotations

import base64
import glob
import os
import re
import shutil
import ssl
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from ._errors import WorkError
from ._files import write_text
from ._subprocess import PATH, Result, run

UV_DIR = "/opt/gpufleet/uv"
_REASONS = (
    ("disk_full", r"No space left on device|Disk quota exceeded"),
    ("checksum", r"Hash mismatch|DO NOT MATCH THE HASHES|do not match the hashes"),
    ("denied", r"\b(?:401|403)\b|Unauthorized|Forbidden"),
    (
        "unreachable",
        r"ailed to (?:establish|connect|fetch)|onnection (?:refused|reset|error)|dns error|timed out|Name or service not known",
    ),
    ("unreachable", r"tcp connect error|error sending request"),
    ("not_found", r"No matching distribution|no versions? of|not found in the package registry|No solution found"),
    ("not_found", r"no wheels? with a matching|has no wheels"),
)


class Sources(t.NamedTuple):
    """Where packages come from. Without `index_url` only `find_links` count."""

    index_url: str
    extra: t.Sequence[str]
    find_links: t.Sequence[str]
    username: str
    cert: str


def uv_program() -> str:
    """uv as this module unpacked it from its wheel, or the host's own; empty if there is none."""
    ours = sorted(glob.glob(f"{UV_DIR}/uv-*.data/scripts/uv"))
    return next((path for path in ours if os.access(path, os.X_OK)), "") or shutil.which("uv", path=PATH) or ""


def environment(uv: bool, sources: Sources, cache: str, private: str, password: str) -> dict[str, str]:
    """Variables of the installer; `private` is a folder that only root reads and that goes when the work ends."""
    netrc = os.path.join(private, "netrc")
    host = urllib.parse.urlsplit(sources.index_url).hostname or ""
    write_text(
        netrc, f"machine {host}\nlogin {sources.username}\npassword {password}\n" if password and host else "", mode=0o600, dir_mode=0o700
    )
    common = {"NETRC": netrc, "HOME": private, **({"SSL_CERT_FILE": sources.cert, "PIP_CERT": sources.cert} if sources.cert else {})}
    if uv:
        index = {"UV_DEFAULT_INDEX": sources.index_url} if sources.index_url else {}
        more = {"UV_INDEX": " ".join(sources.extra)} if sources.extra and sources.index_url else {}
        links = {"UV_FIND_LINKS": ",".join(sources.find_links)} if sources.find_links else {}
        fixed = {"UV_NO_CONFIG": "1", "UV_CACHE_DIR": cache, "UV_PYTHON_DOWNLOADS": "never", "UV_INDEX_STRATEGY": "unsafe-best-match"}
        # Any index may have the file, since the hash says which file it is.
        return {**common, **fixed, **index, **more, **links, "UV_LINK_MODE": "hardlink", "UV_HTTP_TIMEOUT": "60"}
    indexes = {"PIP_INDEX_URL": sources.index_url, "PIP_EXTRA_INDEX_URL": " ".join(sources.extra)}
    index = indexes if sources.index_url else {"PIP_NO_INDEX": "1"}
    fixed = {"PIP_CONFIG_FILE": os.devnull, "PIP_CACHE_DIR": cache, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    # pip ignores plain http unless told; the hashes guard what comes that way.
    plain = [
        url.netloc for url in map(urllib.parse.urlsplit, [sources.index_url, *sources.extra, *sources.find_links]) if url.scheme == "http"
    ]
    links = {"PIP_FIND_LINKS": " ".join(sources.find_links), "PIP_TRUSTED_HOST": " ".join(plain)}
    return {**common, **fixed, **index, **links, "PIP_PROGRESS_BAR": "off"}


def command(uv: str, build: str, lock: str, index: bool) -> list[str]:
    """Wheels only: building a package would fetch what no lock names, and run it."""
    python = os.path.join(build, "bin", "python")
    if uv:
        words = [uv, "pip", "install", "--python", python, "--compile-bytecode", "--no-build"]
    else:
        words = [python, "-m", "pip", "install", "--only-binary", ":all:"]
    return [*words, "--no-deps", "--require-hashes", *([] if index else ["--no-index"]), "-r", lock]


def install(argv: t.Sequence[str], env: t.Mapping[str, str], timeout: float, sources: Sources, password: str) -> None:
    result = run(argv, timeout=timeout, env=env)
    if result.success:
        return
    error = explained(result, timeout, password)
    if error.reason == "not_found" and sources.index_url.startswith("http"):
        refusal = refused(sources, password)
        if refusal:
            raise WorkError("denied", refusal)
    raise error


def refused(sources: Sources, password: str) -> str:
    """Both installers take a refusal for 'no such package': ask the index itself; empty if it does not refuse."""
    request = urllib.request.Request(sources.index_url.rstrip("/") + "/pip/")  # noqa: S310 - http and https only, see _runtime_args
    if password:
        word = base64.b64encode(f"{sources.username}:{password}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {word}")
    try:
        secure = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=sources.cert or None))
        urllib.request.build_opener(secure).open(request, timeout=30).close()
    except urllib.error.HTTPError as exc:
        if exc.code in (401, 403):
            who = f"{sources.username} with the password given" if password else "a request without index_password"
            return f"the index {sources.index_url} answers {exc.code} to {who}"
    except (OSError, ValueError):
        return ""
    return ""


def explained(result: Result, timeout: float, password: str = "") -> WorkError:
    """Why an installer failed, by its own words, without what is secret in them."""
    if result.state == "timeout":
        return WorkError("timeout", f"the installer was ended after {timeout:g} s")
    text = without_secrets(result.err.strip() or result.out.strip() or f"exit status {result.rc}", password)
    reason = next((word for word, pattern in _REASONS if re.search(pattern, text)), "failed")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("Using Python", "WARNING: Retrying"))]
    return WorkError(reason, " | ".join(lines[-6:])[-900:])


def without_secrets(text: str, password: str = "") -> str:
    text = re.sub(r"//[^/@\s]+@", "//…@", text)
    return text.replace(password, "…") if password else text


def make_executable() -> None:
    """A wheel is unpacked without the executable bit of its scripts."""
    for path in glob.glob(f"{UV_DIR}/uv-*.data/scripts/uv*"):
        os.chmod(path, 0o755)  # noqa: S103 - a program for everyone
