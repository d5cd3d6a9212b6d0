"""A host with four GPUs and instances on it."""

from __future__ import annotations

import datetime
import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _engine_instance
from ansible_collections.gpufleet.inference.plugins.plugin_utils._contracts import Context, Finding
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_files import make_job
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_host import check_host
from ansible_collections.gpufleet.inference.plugins.plugin_utils._engine_job import Job
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix

MIG = "MIG-11111111-0000-0000-0000-000000000001"
UUID = "GPU-0000000{}-0000-0000-0000-000000000000"
FACTS: dict[str, t.Any] = {
    "gpus": [
        {"index": index, "uuid": UUID.format(index), "mig": {"current": index == 3, "devices": [{"uuid": MIG}] if index == 3 else []}}
        for index in range(4)
    ]
}


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return load_matrix()


def spec(**over: t.Any) -> dict[str, t.Any]:
    return {"name": "chat", "engine": "vllm", "model": "/models/llama", "version": "0.33.0", "gpus": [0], **over}


def context(**over: t.Any) -> Context:
    return Context(**{"today": datetime.date(2026, 11, 30), **over})


class Reader:
    """read(spec) → instance; found(spec) → findings; job(spec) → what units are made of."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix

    def instance(self, **over: t.Any) -> dict[str, t.Any]:
        instance, findings = _engine_instance.read(spec(**over), self.matrix, context())
        assert instance is not None, findings
        assert not [finding for finding in findings if finding.severity == "block"], findings
        return instance

    def found(self, **over: t.Any) -> list[Finding]:
        return _engine_instance.read(spec(**over), self.matrix, context())[1]

    def job(self, planned: dict[str, t.Any] | None = None, rank: int = 0, **over: t.Any) -> Job:
        instance = self.instance(**over)
        used, findings = check_host([instance], FACTS)
        job, more = make_job(instance, self.matrix, used[instance["name"]], planned, rank)
        wrong = " ".join(finding.message for finding in (*findings, *more))
        assert not wrong, wrong
        return job


@pytest.fixture(scope="session")
def read(matrix: Matrix) -> Reader:
    return Reader(matrix)
