# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that install themselves: fetched, resumed, verified; against a web server that knows ranges."""

from __future__ import annotations

import hashlib
import http.server
import threading
import typing as t
import urllib.request
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils._runfile import RunfileError, fetch, last_words

CONTENT = bytes(range(256)) * 20_000  # 5 MB: several chunks
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves CONTENT; `cut`: closes after so many bytes, as a link that breaks does."""

    cut: int | None = None
    ranges: bool = True
    asked: list[str | None]


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        start = int(asked[6:].rstrip("-")) if asked and self.server.ranges else 0
        if start and start >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.server.cut is None else body[: self.server.cut])

    def log_message(self, format: str, *args: t.Any) -> None:
        pass


@pytest.fixture
def server() -> t.Iterator[Server]:
    found = Server(("127.0.0.1", 0), Handler)
    found.asked = []
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def opener(url: str, timeout: float, headers: dict[str, str] | None = None) -> t.Any:
    """What ansible's open_url comes down to."""
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=timeout)


def get(server: Server, path: Path, sha256: str = SHA256, **more: t.Any) -> None:
    fetch(opener, f"http://127.0.0.1:{server.server_address[1]}/driver.run", str(path), sha256, **more)


def test_a_broken_link_is_gone_on_with_from_where_it_broke(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "work/driver.run"
    server.cut = 3_000_000
    with pytest.raises(RunfileError) as caught:
        get(server, path)
    assert caught.value.reason == "unreachable"
    have = (tmp_path / "work/driver.run.part").stat().st_size
    assert 0 < have <= 3_000_000
    server.cut = None
    get(server, path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, f"bytes={have}-"]


def test_a_server_without_ranges_sends_all_of_it_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "driver.run.part").write_bytes(CONTENT[:1000])
    server.ranges = False
    get(server, tmp_path / "driver.run")
    assert (tmp_path / "driver.run").read_bytes() == CONTENT


def test_half_of_another_file_is_found_by_the_checksum_and_not_kept(server: Server, tmp_path: Path) -> None:
    (tmp_path / "driver.run.part").write_bytes(b"x" * 1000)
    with pytest.raises(RunfileError, match="it was not run") as caught:
        get(server, tmp_path / "driver.run")
    assert caught.value.reason == "checksum"
    assert list(tmp_path.iterdir()) == []
    get(server, tmp_path / "driver.run")


def test_more_than_the_file_is_there_already(server: Server, tmp_path: Path) -> None:
    (tmp_path / "driver.run.part").write_bytes(CONTENT + b"more")
    get(server, tmp_path / "driver.run")
    assert (tmp_path / "driver.run").read_bytes() == CONTENT


def test_what_is_whole_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    get(server, tmp_path / "driver.run", SHA256.upper())
    get(server, tmp_path / "driver.run")
    assert len(server.asked) == 1


def test_without_a_checksum_nothing_is_resumed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "driver.run.part").write_bytes(b"x" * 1000)
    get(server, tmp_path / "driver.run", "")
    assert server.asked == [None]
    assert (tmp_path / "driver.run").read_bytes() == CONTENT


def test_halves_of_files_that_nobody_asks_for_any_more_go(server: Server, tmp_path: Path) -> None:
    (tmp_path / "older.run.part").write_bytes(b"x")
    get(server, tmp_path / "driver.run")
    assert [path.name for path in tmp_path.iterdir()] == ["driver.run"]


def test_progress_is_told_in_steps(server: Server, tmp_path: Path) -> None:
    said: list[str] = []
    get(server, tmp_path / "driver.run", note=said.append)
    assert said[0].endswith("driver.run: 4 MiB")
    assert said[-1] == "fetched 4 of 4 MiB"
    assert 2 < len(said) <= 11


def test_a_full_disk_is_found_before_the_download(server: Server, tmp_path: Path) -> None:
    with pytest.raises(RunfileError, match="MiB are free") as caught:
        get(server, tmp_path / "driver.run", space=1 << 40)
    assert caught.value.reason == "disk_full"


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunfileError, match=r"http://127\.0\.0\.1:1/x\.run") as caught:
        fetch(opener, "http://127.0.0.1:1/x.run", str(tmp_path / "x.run"), SHA256)
    assert caught.value.reason == "unreachable"


def test_last_words_are_the_errors_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("installer version: 1\n    --silent\n-> Building\n-> ERROR: no space\n\n-> ERROR: Installation has failed.\n")
    assert last_words("ERROR: no space\n", str(log)) == "ERROR: no space / ERROR: Installation has failed."
    log.write_text("-> Building\n-> it goes\n")
    assert last_words("", str(log)) == "Building / it goes"
    assert last_words("hello", str(tmp_path / "none")) == "hello"
