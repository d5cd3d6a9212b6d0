"""What counts as an answer, and when waiting ends."""

from __future__ import annotations

import socket
import struct
import threading
import time
import typing as t
import zlib

import pytest
from engine_server import WORDS, EngineServer

from ansible_collections.gpufleet.inference.plugins.module_utils._endpoint import Endpoint, NotReady, red_square
from ansible_collections.gpufleet.inference.plugins.module_utils._endpoint_wait import Gone, Wish, check, wait
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import HostError

WISH = Wish("/health", "chat", ("completion", "chat", "stream", "embedding"), "x", 8, "")


def state(url: str, wish: Wish = WISH, key: str = "", timeout: float = 2.0) -> str:
    with pytest.raises(NotReady) as caught:
        check(Endpoint(url, key, timeout), wish)
    return caught.value.state


def test_every_kind_of_answer_is_measured(engine: EngineServer) -> None:
    engine.script = {"delay": 0.01}
    found = check(Endpoint(engine.url), WISH)
    assert found["models"] == ["chat"]
    assert found["checks"]["completion"]["text"] == "".join(WORDS)
    assert found["checks"]["stream"]["tokens"] == len(WORDS)
    assert 8 < found["checks"]["stream"]["ttft_ms"] < found["checks"]["stream"]["seconds"] * 1000
    assert found["checks"]["stream"]["tpot_ms"] >= 9
    assert found["checks"]["embedding"] == {"length": 16}
    assert engine.calls.count("/v1/chat/completions") == 2, "chat and its stream"


def test_an_engine_that_sees_is_shown_a_picture(engine: EngineServer) -> None:
    wish = WISH._replace(checks=["image"])
    assert check(Endpoint(engine.url), wish)["checks"]["image"]["tokens"] == len(WORDS)
    engine.script = {"blind": True}
    assert state(engine.url, wish) == "wrong"
    assert "chat" in check(Endpoint(engine.url), WISH._replace(checks=["chat"]))["checks"], "without a picture it answers"
    picture = red_square()
    (size,) = struct.unpack(">I", picture[33:37])  # of IDAT, after signature (8) and IHDR (25)
    assert len(zlib.decompress(picture[41 : 41 + size])) == 64 * (1 + 64 * 3)


def test_a_listening_port_a_healthy_path_and_a_listed_model_are_not_ready(engine: EngineServer) -> None:
    engine.script = {"status": 503}
    assert state(engine.url) == "starting"
    engine.script = {"health": 503}
    assert state(engine.url) == "starting"
    engine.script = {"no_models": True}
    assert state(engine.url, WISH._replace(model="")) == "starting"
    engine.script = {"text": ""}
    assert state(engine.url, WISH._replace(checks=["stream"])) == "wrong"


@pytest.mark.parametrize("how", [True, "event"])
def test_a_stream_that_breaks_off_is_no_answer(engine: EngineServer, how: t.Any) -> None:
    engine.script = {"break": how}
    assert state(engine.url, WISH._replace(checks=["stream"])) == "wrong"


def test_nothing_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert state(f"http://127.0.0.1:{free.getsockname()[1]}") == "refused"


def test_something_listens_and_says_nothing() -> None:
    with socket.socket() as dumb:
        dumb.bind(("127.0.0.1", 0))
        dumb.listen()
        assert state(f"http://127.0.0.1:{dumb.getsockname()[1]}", timeout=0.2) == "timeout"


def test_keys_models_and_texts_that_are_wrong_are_named(engine: EngineServer) -> None:
    with pytest.raises(NotReady, match="served: chat"):
        check(Endpoint(engine.url), WISH._replace(model="other"))
    with pytest.raises(NotReady, match=r"does not match 'London'"):
        check(Endpoint(engine.url), WISH._replace(expect="London"))
    check(Endpoint(engine.url), WISH._replace(expect="Paris", checks=["chat"]))
    engine.key = "secret"
    with pytest.raises(NotReady, match="key is not accepted"):
        check(Endpoint(engine.url, "wrong"), WISH)
    check(Endpoint(engine.url, "secret"), WISH)


def test_url_that_is_none() -> None:
    with pytest.raises(HostError, match="expected http or https"):
        Endpoint("127.0.0.1:8000")


def test_waiting_ends_when_it_answers(engine: EngineServer) -> None:
    engine.ready = False
    threading.Timer(0.1, lambda: setattr(engine, "ready", True)).start()
    found = wait(Endpoint(engine.url), WISH, 5, sleep=lambda _seconds: time.sleep(0.02))
    assert found["waited"] < 3


def test_waiting_ends_when_the_time_is_over(engine: EngineServer) -> None:
    engine.ready = False
    begun = time.monotonic()
    with pytest.raises(NotReady) as caught:
        wait(Endpoint(engine.url), WISH, 1.2, sleep=lambda _seconds: time.sleep(0.02))
    assert caught.value.state == "starting"
    assert time.monotonic() - begun < 1.3


def test_a_wrong_answer_is_not_waited_for_but_given_a_second_chance(engine: EngineServer) -> None:
    with pytest.raises(NotReady):
        wait(Endpoint(engine.url), WISH._replace(model="other"), 60, sleep=lambda _seconds: None)
    assert engine.calls.count("/v1/models") == 2


@pytest.mark.parametrize(
    ("states", "word"),
    [
        ([{"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "79"}], "failed .exit-code, status 79"),
        ([{"ActiveState": "inactive", "Result": "success"}], "inactive"),
        ([{"ActiveState": "active", "NRestarts": "2"}, {"ActiveState": "activating", "NRestarts": "3"}], "was restarted"),
    ],
)
def test_waiting_ends_when_the_unit_is_gone(engine: EngineServer, states: list[dict[str, str]], word: str) -> None:
    engine.ready = False
    told = iter(states)
    with pytest.raises(Gone, match=word):
        wait(Endpoint(engine.url), WISH, 60, "x.service", lambda _unit: next(told), sleep=lambda _seconds: None)
