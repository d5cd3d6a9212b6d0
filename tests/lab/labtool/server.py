"""A small web server on the lab network's gateway: serves `.lab/NAME/www` to the hosts (package repositories, wheels)."""

from __future__ import annotations

import functools
import http.server
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from .settings import LabError, Settings

PORT = 8480
IP_FREEBIND = 15


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # The bridge, and so its address, is there only while a host runs: bind before that too.
        self.socket.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        super().server_bind()


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"


def serve(address: str, root: str) -> None:
    _Server((address, PORT), functools.partial(_Handler, directory=root)).serve_forever()


def _answers(address: str, identity: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}:{PORT}/.lab-id", timeout=3) as reply:
            return bool(reply.read().decode() == identity)
    except (OSError, urllib.error.URLError):
        return False


def ensure(settings: Settings, gateway: str) -> str:
    """Start the server unless it answers with our own id; its URL."""
    root = settings.state / "www"
    root.mkdir(exist_ok=True)
    identity = f"{settings.state}\n"
    (root / ".lab-id").write_text(identity)
    if not _answers(gateway, identity):
        stop(settings)
        with (settings.state / "www.log").open("ab") as log:
            command = [
                sys.executable,
                "-c",
                "import sys; sys.path.insert(0, sys.argv[1]); from labtool.server import serve; serve(*sys.argv[2:])",
            ]
            process = subprocess.Popen(
                [*command, str(Path(__file__).resolve().parent.parent), gateway, str(root)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        (settings.state / "www.pid").write_text(f"{process.pid}\n")
        for _ in range(50):
            if _answers(gateway, identity):
                break
            time.sleep(0.1)
        else:
            raise LabError(f"the repository server on {gateway}:{PORT} does not answer; see {settings.state}/www.log")
    return f"http://{gateway}:{PORT}"


def stop(settings: Settings) -> None:
    """End our server, and only ours: the recorded pid must be a server for this very lab."""
    record = settings.state / "www.pid"
    try:
        pid = int(record.read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except (OSError, ValueError):
        return
    if str(settings.state / "www") in words:
        os.kill(pid, signal.SIGTERM)
    record.unlink(missing_ok=True)
