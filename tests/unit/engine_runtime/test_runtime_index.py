"""An index that wants a password, and the real pip."""

from __future__ import annotations

import base64
import http.server
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _runtime_venv as venv
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import WorkError

from .conftest import MakeJob

WHEEL = "vllm-0.33.0-py3-none-any.whl"


@pytest.fixture
def index(tmp_path: Path) -> t.Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = base64.b64decode(self.headers.get("Authorization", "").partition(" ")[2]).decode()
            pages = {"/simple/vllm/": f'<a href="/files/{WHEEL}">{WHEEL}</a>'.encode()}
            if given == "me:s3cret" and self.path.startswith("/files/"):
                pages[self.path] = (tmp_path / "wheels" / WHEEL).read_bytes()
            self.send_response(401 if given != "me:s3cret" else 200 if self.path in pages else 404)
            body = pages.get(self.path, b"") if given == "me:s3cret" else b""
            self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: t.Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()


def job_for(make_job: MakeJob, index: str) -> dict[str, t.Any]:
    return make_job(index_url=index, index_username="me", find_links=[])


def test_with_the_password(make_job: MakeJob, index: str, tmp_path: Path) -> None:
    answer = venv.work(job_for(make_job, index), {"index_password": "s3cret"}, lambda _counts: None)
    assert Path(answer["link"], "bin/vllm").exists()
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file()]


@pytest.mark.parametrize(("password", "words"), [("other", "answers 401 to me with the password given"), ("", "without index_password")])
def test_without_it_the_index_is_what_refuses(make_job: MakeJob, index: str, password: str, words: str) -> None:
    with pytest.raises(WorkError, match=words) as caught:
        venv.work(job_for(make_job, index), {"index_password": password}, lambda _counts: None)
    assert caught.value.reason == "denied"
