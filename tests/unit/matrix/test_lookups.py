"""Lookups that planners and roles use."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _matrix_cuda as cuda
from ansible_collections.gpufleet.inference.plugins.plugin_utils import _matrix_engines as engines
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_driver import fits
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._products import complete
from ansible_collections.gpufleet.inference.plugins.plugin_utils._versions import (
    branch_of,
    is_version,
    key,
    matches,
    minor_of,
    nearest,
    newest,
)

from .conftest import PRODUCTS, SYSTEMS, TODAY, info


def os_facts(name: str) -> dict[str, t.Any]:
    ident, version, family, like = SYSTEMS[name]
    return {"id": ident, "version_id": version, "family": family, "id_like": like, "pretty_name": f"{ident} {version}"}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("580.95.05", "580.126.09"),
        ("1.3.0rc4", "1.3.0rc12"),
        ("1.3.0rc29", "1.3.0"),
        ("0.6.6", "0.6.6.post1"),
        ("0.5.12.post1", "0.5.13"),
        ("9.9", "12.0"),
        ("garbage", "0.0.1"),
        ("580.95.05-1ubuntu1", "1:580.126.09-1"),
        ("0.9.0.dev3", "0.9.0a1"),
    ],
)
def test_versions_compare_as_versions(older: str, newer: str) -> None:
    assert key(older) < key(newer)


def test_versions_that_are_equal() -> None:
    assert key("13.0") == key("13.0.0") == key("v13")
    assert key("1:580.178.04-1") == key("580.178.04")
    assert not is_version("main")
    assert branch_of("580.178.04") == 580
    assert branch_of("") is None
    assert minor_of("13") is None
    assert newest(["0.9.2", "0.10.0"]) == "0.10.0"


@pytest.mark.parametrize(
    ("version", "spec", "fits"),
    [
        ("3.12", ">=3.11,<3.15", True),
        ("3.15", ">=3.11,<3.15", False),
        ("3.9", ">=3.10", False),
        ("565.77", ">=565,<566", True),
        ("1.0", "!=1.0", False),
    ],
)
def test_specifications(version: str, spec: str, fits: bool) -> None:
    assert matches(version, spec) is fits


@pytest.mark.parametrize(
    ("version", "near"),
    [("13.9.1", "13.5.0"), ("12.4.2", "12.4.1"), ("12.7.0", "12.6.3"), ("8.9.7.23", "8.9.7.29"), ("1.0", "8.9.7.29")],
)
def test_the_nearest_known_version(version: str, near: str) -> None:
    assert nearest(version, ["8.9.7.29", "12.4.0", "12.4.1", "12.6.3", "13.0.3", "13.5.0"]) == near


def test_a_bad_specification_is_an_error() -> None:
    with pytest.raises(ValueError, match="no comparison"):
        matches("1", "~=1")


@pytest.mark.parametrize("product", [name for name in PRODUCTS if name != "NVIDIA Z9000"])
def test_gpu_by_name_and_by_pci_id_is_the_same_row(matrix: Matrix, product: str) -> None:
    pci, arch, capability, _ = PRODUCTS[product]
    row = matrix.gpu(product)
    assert row
    assert matrix.gpu(pci_device_id=pci) is row
    assert matrix.gpu(pci_device_id="0x" + pci.upper()) is row
    assert (row["architecture"], row["compute_capability"]) == (arch, capability)


def test_a_product_decides_over_its_pci_id(matrix: Matrix) -> None:
    row = matrix.gpu("NVIDIA A100-PG509-200", "20B0")
    assert row
    assert row["id"] == "a100_pg509"
    assert matrix.gpu("Nobody's GPU", "ffff") is None
    assert matrix.gpu() is None
    assert matrix.gpu("NVIDIA H100 80GB HBM3 MIG 1g.10gb") is None


def test_products_are_filled_in_where_no_driver_answers(matrix: Matrix) -> None:
    bare = info(("NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB", "NVIDIA Z9000"), driver=None)
    before = [dict(gpu) for gpu in bare["gpus"]]
    done = complete(bare, matrix)
    assert [gpu["product"] for gpu in done["gpus"]] == ["NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB", None]
    assert [gpu["architecture"] for gpu in done["gpus"]] == ["hopper", "volta", None]
    assert done["gpus"][0]["compute_capability"] == "9.0"
    assert bare["gpus"] == before, "the argument is not changed"
    alive = info()
    assert complete(alive, matrix) is alive


def test_what_nvml_said_is_kept(matrix: Matrix) -> None:
    document = info(("NVIDIA H200",))
    document["gpus"][0]["architecture"] = None
    document["gpus"][0]["product"] = "NVIDIA H200 special"
    gpu = complete(document, matrix)["gpus"][0]
    assert gpu["product"] == "NVIDIA H200 special"
    assert gpu["architecture"] == "hopper"
    document["gpus"][0].update(product="NVIDIA H200", architecture="hopper", compute_capability=None)
    assert complete(document, matrix)["gpus"][0]["compute_capability"] == "9.0"


@pytest.mark.parametrize(
    ("name", "arch", "path", "manager", "modular"),
    [
        ("debian12", "x86_64", "debian12/x86_64", "apt", False),
        ("ubuntu2404", "aarch64", "ubuntu2404/sbsa", "apt", False),
        ("rocky9", "x86_64", "rhel9/x86_64", "dnf", True),
    ],
)
def test_supported_systems(matrix: Matrix, name: str, arch: str, path: str, manager: str, modular: bool) -> None:
    answer = matrix.os(os_facts(name), arch)
    assert answer.supported
    assert answer.reason == ""
    assert (answer.repository_path, answer.package_manager, answer.modularity) == (path, manager, modular)


def test_refused_and_unknown_systems_say_why(matrix: Matrix) -> None:
    old = matrix.os(os_facts("rocky8"), "x86_64")
    assert not old.supported
    assert old.known
    assert "3.6" in old.reason
    assert old.nearest == matrix.rows["os.rhel9"]["name"]
    assert "rhel7" in matrix.os(os_facts("centos7"), "x86_64").reason
    derived = matrix.os(os_facts("mint"), "x86_64")
    assert not derived.known, "a derivative is not its parent"
    arm = matrix.os(os_facts("debian12"), "aarch64")
    assert not arm.supported
    assert arm.known
    assert "aarch64" in arm.reason
    assert not matrix.os({}, "").supported


def test_debian_10_is_not_debian_1(matrix: Matrix) -> None:
    assert not matrix.os({"id": "debian", "version_id": "120"}, "x86_64").known
    assert matrix.os({"id": "rhel", "version_id": "9.6"}, "x86_64").known


@pytest.mark.parametrize(
    ("name", "branch", "modules", "needs", "source", "install", "pinning"),
    [
        ("debian12", 620, "open", (), "nvidia", ("nvidia-open",), "nvidia-driver-pinning-620"),
        ("debian12", 595, "proprietary", (), "nvidia", ("cuda-drivers",), "nvidia-driver-pinning-595"),
        ("debian12", 580, "open", (), "nvidia", ("nvidia-open",), None),
        ("ubuntu2404", 580, "open", (), "nvidia", ("nvidia-open-580",), "nvidia-driver-pinning-580"),
        (
            "ubuntu2404",
            570,
            "proprietary",
            ("fabric_manager",),
            "nvidia",
            ("cuda-drivers-570", "nvidia-fabricmanager-570", "libnvidia-nscq-570"),
            None,
        ),
        ("debian12", 535, "proprietary", (), "distribution", ("nvidia-driver",), None),
        ("debian12", 595, "open", ("imex",), "nvidia", ("nvidia-open", "nvidia-imex", "nvidia-modprobe"), "nvidia-driver-pinning-595"),
        (
            "debian12",
            595,
            "open",
            ("nvlink5",),
            "nvidia",
            ("nvidia-open", "nvidia-fabricmanager", "libnvidia-nscq", "nvlsm", "infiniband-diags", "libnvsdm"),
            "nvidia-driver-pinning-595",
        ),
        ("rocky9", 595, "open", ("compute_only",), "nvidia", ("nvidia-driver-cuda", "kmod-nvidia-open-dkms"), None),
    ],
)
def test_driver_packages(
    matrix: Matrix, name: str, branch: int, modules: str, needs: tuple[str, ...], source: str, install: tuple[str, ...], pinning: str | None
) -> None:
    answer = matrix.driver_packages(matrix.os(os_facts(name), "x86_64"), branch, modules, needs, source)
    assert answer.install == install
    assert answer.pinning == pinning
    assert answer.rule in matrix.rows
    assert not {"infiniband-diags", "nvlsm"} & set(answer.same_version)


def test_members_do_not_take_the_container_toolkit_along(matrix: Matrix) -> None:
    answer = matrix.driver_packages(matrix.os(os_facts("debian12"), "x86_64"), 595, "open")
    assert answer.is_member("libnvidia-compute")
    assert answer.is_member("nvidia-open")
    assert not answer.is_member("libnvidia-container1")
    assert not answer.is_member("libnvidia-egl-wayland1")
    assert not answer.is_member("nvidia-container-toolkit")


def test_streams_only_where_there_is_modularity(matrix: Matrix) -> None:
    nine = matrix.os(os_facts("rocky9"), "x86_64")
    assert matrix.driver_packages(nine, 595, "open").module_stream == "nvidia-driver:595-open"
    assert matrix.driver_packages(nine, 580, "proprietary").module_stream == "nvidia-driver:580-dkms"
    ten = matrix.os({"id": "rhel", "version_id": "10.1"}, "x86_64")
    assert matrix.driver_packages(ten, 595, "open").module_stream is None


def test_libnvsdm_is_left_out_on_arm(matrix: Matrix) -> None:
    arm = matrix.os(os_facts("ubuntu2404"), "aarch64")
    assert "libnvsdm" not in matrix.driver_packages(arm, 595, "open", ("nvlink5",)).install


def test_no_packages_is_an_answer_with_a_reason(matrix: Matrix) -> None:
    answer = matrix.driver_packages(matrix.os(os_facts("debian12"), "x86_64"), 580, "open", (), "distribution")
    assert answer.rule is None
    assert "it has branch 535" in answer.reason
    assert matrix.driver_packages(matrix.os(os_facts("centos7"), "x86_64"), 580, "open").reason


@pytest.mark.parametrize(
    ("gpus", "channel", "branch", "modules"),
    [
        (["h100_sxm"], "lts", 620, "open"),
        (["l40s", "rtx4090"], "lts", 620, "open"),
        (["v100"], "newest", 580, "proprietary"),
        (["v100", "h100_sxm"], "lts", 580, "proprietary"),
        (["b200", "t4"], "production", 620, "open"),
    ],
)
def test_driver_for_all_gpus_of_a_host(matrix: Matrix, gpus: list[str], channel: str, branch: int, modules: str) -> None:
    choice = matrix.driver_for(gpus, TODAY, channel)
    assert choice
    assert (choice.branch, choice.kernel_modules) == (branch, modules)
    assert choice.version == matrix.driver_safe[branch]["version"]
    assert set(gpus) <= set(choice.rows)


def test_no_driver_for_gpus_that_exclude_each_other(matrix: Matrix) -> None:
    assert matrix.driver_for(["v100", "b200"], TODAY) is None


def test_a_wider_channel_helps_out(tmp_path: t.Any) -> None:
    from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import load_matrix

    path = tmp_path / "odd.yml"
    path.write_text(
        "gpus: [{id: odd, names: ['^Odd$'], architecture: ada, compute_capability: '8.9', class: datacenter,"
        " branch_min: 590, branch_last: 600, open_modules: supported, memory_gib: [8], fabric: none, source: test, confidence: verified}]"
    )
    choice = load_matrix([str(path)]).driver_for(["odd"], TODAY, "lts")
    assert choice
    assert (choice.branch, choice.type) == (595, "production")


def test_whether_a_driver_fits_a_gpu(matrix: Matrix) -> None:
    assert fits(matrix.rows["rtx4090"], 525, "525.60.13"), "below its listing it is known to run"
    assert not fits(matrix.rows["h200_sxm"], 550, "550.54.14")
    assert fits(matrix.rows["h200_sxm"], 550, "550.90.07")
    assert not fits(matrix.rows["b200"], 570, "570.86.15")
    assert not fits(matrix.rows["v100"], 595, "595.91.07")


def test_a_branch_stops_being_offered_when_it_ends(matrix: Matrix) -> None:
    import datetime

    assert matrix.driver_for(["v100"], datetime.date(2028, 6, 30))
    assert matrix.driver_for(["v100"], datetime.date(2028, 7, 1)) is None


def test_cuda_toolkit_by_version_and_by_minor(matrix: Matrix) -> None:
    exact, minor = matrix.cuda_toolkit("12.4.1"), matrix.cuda_toolkit("13.0")
    assert exact
    assert exact["runfile"]["x86_64"] == "cuda_12.4.1_550.54.15_linux.run"
    assert minor
    assert minor["version"] == "13.0.3"
    assert matrix.cuda_toolkit("12.7") is None
    assert matrix.cuda_toolkit("12") is None


@pytest.mark.parametrize(
    ("driver", "version", "mode"),
    [
        ("524.99", "12.4.1", "none"),
        ("525.60.13", "12.4.1", "minor"),
        ("550.54.15", "12.4.1", "native"),
        ("579.0", "12.9.1", "native"),
        ("580.65.06", "12.4.1", "backward"),
        ("525.60.13", "11.8.0", "backward"),
        ("580.178.04", "13.0.3", "native"),
        ("580.178.04", "13.5.0", "minor"),
        ("570.211.01", "13.0.0", "none"),
        ("615.71.09", "13.4.3", "native"),
        ("580.178.04", "14.0.0", "unknown"),
    ],
)
def test_how_a_driver_runs_a_cuda_version(matrix: Matrix, driver: str, version: str, mode: str) -> None:
    assert cuda.mode(matrix, driver, version) == mode


def test_architectures_of_cuda_versions(matrix: Matrix) -> None:
    def has(version: str) -> frozenset[str]:
        known = cuda.architectures(matrix, version)
        assert known
        return known[0]

    assert "3.5" in has("11.8.0")
    assert "3.5" not in has("12.0.0")
    assert "7.0" in has("12.9.2")
    assert not {"7.0", "6.2", "6.1"} & has("13.0.2")
    assert {"10.0", "12.0"} <= has("12.8.0")
    assert "10.0" not in has("12.6.3")
    assert "10.7" in has("13.4.1")
    assert cuda.architectures(matrix, "13") is None


def test_named_stacks(matrix: Matrix) -> None:
    assert matrix.named_stack("guides-2024") is matrix.named_stack("stack.guides-2024") is matrix.named_stack("550.54.14+12.4.1")
    assert matrix.named_stack("none") is None


@pytest.mark.parametrize(
    ("reference", "engine", "version", "cuda_version", "moving"),
    [
        ("vllm/vllm-openai:v0.33.0", "vllm", "0.33.0", None, False),
        ("docker.io/vllm/vllm-openai:v0.33.0-x86_64", "vllm", "0.33.0", None, False),
        ("mirror.local:5000/x/vllm/vllm-openai:latest", "vllm", None, None, True),
        ("vllm/vllm-openai", "vllm", None, None, True),
        ("lmsysorg/sglang:v0.5.19-cu129", "sglang", "0.5.19", "12.9", False),
        ("lmsysorg/sglang:v0.5.12.post1", "sglang", "0.5.12.post1", None, False),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc17", "tensorrt_llm", "1.3.0rc17", None, False),
        ("registry.local/nvidia/tensorrt-llm/release:1.2.1", "tensorrt_llm", "1.2.1", None, False),
        ("registry.local/team/release:1.2.1", None, None, None, False),
        ("vllm/vllm-openai:cu130-nightly", "vllm", None, None, True),
        ("team/myvllm/vllm-openai:v0.33.0", None, None, None, False),
        ("registry.local:5000/team/own", None, None, None, True),
        ("registry.local/team/own:7", None, None, None, False),
        ("registry.local/team/own@sha256:" + 64 * "0", None, None, None, False),
    ],
)
def test_image_references(
    matrix: Matrix, reference: str, engine: str | None, version: str | None, cuda_version: str | None, moving: bool
) -> None:
    image = engines.image(matrix, reference)
    assert (image.engine, image.version, image.cuda, image.moving) == (engine, version, cuda_version, moving)


def test_a_release_without_a_row_is_judged_by_its_neighbours(matrix: Matrix) -> None:
    between = engines.release(matrix, "vllm", "0.22.0")
    assert between
    assert (between.exact, between.certain, between.row["version"]) == (False, True, "0.21.0")
    edge = engines.release(matrix, "vllm", "0.34.0")
    assert edge
    assert not edge.certain
    assert engines.release(matrix, "vllm", "0.1.0") is None
    assert engines.release(matrix, "vllm", "nightly") is None
