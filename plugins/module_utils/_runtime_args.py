# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of engine_runtime: what a person gives, and what the action hands on. Private to the collection."""

from __future__ import annotations

import os
import re
import typing as t
import urllib.parse

from ._errors import WorkError
from ._runtime_layout import ROOT

PUBLIC: dict[str, dict[str, t.Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "engine": {"type": "str", "required": True, "choices": ["vllm", "sglang", "tensorrt_llm"]},
    "version": {"type": "str", "required": True},
    "runtime": {"type": "str", "choices": ["venv", "docker", "podman"], "default": "venv"},
    "root": {"type": "path", "default": ROOT},
    "requirements": {"type": "str"},
    "requirements_file": {"type": "path"},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "distribution": {"type": "str"},
    "verify": {"type": "list", "elements": "str"},
    "python": {"type": "str", "default": ""},
    "installer": {"type": "str", "choices": ["auto", "uv", "pip"], "default": "auto"},
    "uv_wheel": {"type": "path"},
    "index_url": {"type": "str", "default": "https://pypi.org/simple"},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "index_username": {"type": "str", "default": "__token__"},
    "index_password": {"type": "str", "no_log": True},
    "cert": {"type": "path"},
    "image": {"type": "str"},
    "image_id": {"type": "str", "default": ""},
    "archive": {"type": "path"},
    "refresh": {"type": "bool", "default": False},
    "auth_file": {"type": "path"},
    "registry_username": {"type": "str", "default": ""},
    "registry_password": {"type": "str", "no_log": True},
    "size": {"type": "int"},
    "reserve": {"type": "int", "default": 5 << 30},
    "keep": {"type": "int", "default": 1},
    "timeout": {"type": "int", "default": 3600},
    "matrix_overlay": {"type": "list", "elements": "path", "default": []},
}
INTERNAL: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "step": {"type": "str", "choices": ["plan", "start", "poll"], "default": "plan"},
    "lock": {"type": "path"},
    "lock_sha256": {"type": "str", "default": ""},
    "python_requires": {"type": "str", "default": ""},
}
DISTRIBUTION = {"vllm": "vllm", "sglang": "sglang", "tensorrt_llm": "tensorrt-llm"}
VERIFY = {
    "vllm": ["vllm", "--version"],
    "sglang": ["python", "-c", "import sglang; print(sglang.__version__)"],
    # Its import starts MPI and asks for a GPU: left to the first start.
    "tensorrt_llm": [],
}
SIZE = {"venv": 12 << 30, "docker": 32 << 30, "podman": 32 << 30}
"""Bytes that are to come at most: a vLLM or SGLang venv has 9 to 11 GB, an image with CUDA 20 to 30 GB (facts of 2026)."""
_JOB = (
    "engine",
    "version",
    "runtime",
    "root",
    "python",
    "installer",
    "index_url",
    "extra_index_urls",
    "find_links",
    "index_username",
    "image_id",
)
_MORE = ("refresh", "registry_username", "reserve", "keep", "lock_sha256", "python_requires")
_BOUND = 6 * 3600
"""Seconds after which an installer that still runs is ended; `timeout` only says how long the task waits."""


def complete(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The job that `plan` and `work` take, without the lock's text."""
    job = {key: options[key] for key in (*_JOB, *_MORE)}
    engine, runtime = options["engine"], options["runtime"]
    job.update({key: options[key] or "" for key in ("image", "archive", "auth_file", "cert")})
    job.update(
        name=name(options),
        distribution=options["distribution"] or DISTRIBUTION[engine],
        verify=VERIFY[engine] if options["verify"] is None else options["verify"],
        size=SIZE[runtime] if options["size"] is None else options["size"],
        build_timeout=float(_BOUND),
    )
    return job


def name(options: t.Mapping[str, t.Any]) -> str:
    """Of the job: one build of a version at a time. systemd takes no '+' in it."""
    version = re.sub(r"[^A-Za-z0-9.]", "_", str(options["version"]))
    return f"{options['engine']}-{version}" + ("" if options["runtime"] == "venv" else f"-{options['runtime']}")


def refuse(options: t.Mapping[str, t.Any]) -> None:
    """Mistakes that can be seen without the host."""
    if not re.fullmatch(r"[0-9][A-Za-z0-9.+!_-]{0,60}", options["version"]):
        raise WorkError("bad_input", f"version is {options['version']!r}; expected an exact release, such as 0.33.0")
    for key, low, high in (("size", 0, 1 << 50), ("reserve", 0, 1 << 50), ("keep", 0, 100), ("timeout", 1, 10**6)):
        if options[key] is not None and not low <= options[key] <= high:
            raise WorkError("bad_input", f"{key} is {options[key]}; expected {low} to {high}")
    if not re.fullmatch(r"/[A-Za-z0-9/._+-]+", options["root"]):
        # A venv's scripts begin with #!PATH: no space, and no character that a unit would have to quote.
        raise WorkError("bad_input", f"root is {options['root']!r}; expected an absolute path of letters, digits and . _ + -")
    if options["runtime"] == "venv":
        _refuse_sources(options)
    else:
        _refuse_image(options)


def _refuse_sources(options: t.Mapping[str, t.Any]) -> None:
    indexes = [("index_url", options["index_url"]), *(("extra_index_urls", url) for url in options["extra_index_urls"])]
    for key, url in [*indexes, *(("find_links", url) for url in options["find_links"])]:
        if "@" in urllib.parse.urlsplit(url).netloc:
            raise WorkError("bad_input", f"{key} has a user or password in it; give them by index_username and index_password")
        local = key == "find_links" and url.startswith("/")
        if url and not local and not re.fullmatch(r"(?:https?://[^/\s]+|file:///)\S*", url):
            raise WorkError(
                "bad_input",
                f"{key} is {url!r}; expected an http, https or file address{' or an absolute path' if key == 'find_links' else ''}",
            )
    if options["extra_index_urls"] and not options["index_url"]:
        raise WorkError("bad_input", "extra_index_urls without index_url; an offline installation has find_links only")
    if options["state"] == "present" and not options["index_url"] and not options["find_links"]:
        raise WorkError("bad_input", "index_url is empty and find_links too: there is nowhere to take packages from")
    if options["index_password"] and not options["index_url"]:
        raise WorkError("bad_input", "index_password is given without index_url, whose host it is for")


def _refuse_image(options: t.Mapping[str, t.Any]) -> None:
    image = options["image"] or ""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9/._:-]*(?:@sha256:[0-9a-f]{64})?", image):
        raise WorkError(
            "bad_input", f"image is {image!r}; expected NAME:TAG or NAME@sha256:DIGEST, such as docker.io/vllm/vllm-openai:v0.33.0"
        )
    if "@" not in image and ":" not in os.path.basename(image):
        raise WorkError("bad_input", f"image is {image!r}, which names no tag; expected NAME:TAG or NAME@sha256:DIGEST")
    if "@" in image and options["archive"]:
        raise WorkError("bad_input", "an archive keeps no registry's digest; name the image by its tag, and its content by image_id")
    if options["image_id"] and not re.fullmatch(r"(?:sha256:)?[0-9a-f]{64}", options["image_id"]):
        raise WorkError("bad_input", f"image_id is {options['image_id']!r}; expected sha256: and 64 hexadecimal digits")
