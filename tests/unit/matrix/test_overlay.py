"""Overlays and site policies: files of a site over the collection's rows."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.inference.plugins.plugin_utils import _matrix_load, _policy
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix import evaluate, judge
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_load import MatrixError, load_matrix
from ansible_collections.gpufleet.inference.plugins.plugin_utils._matrix_model import Matrix

from .conftest import context, ids, info, only

Load = t.Callable[..., Matrix]

NEW_GPU = """
gpus:
  - id: z9000
    names: ['^NVIDIA Z9000$']
    pci: {FFFF: NVIDIA Z9000}
    architecture: ada
    compute_capability: '8.9'
    class: datacenter
    branch_min: 580
    open_modules: supported
    memory_gib: [24]
    fabric: none
    source: our test bench, 2026-11
    confidence: verified
"""


@pytest.fixture
def overlay(tmp_path: Path) -> Load:
    """overlay(text, …) → matrix with each text as an overlay file of its own."""

    def load(*texts: str) -> Matrix:
        paths = []
        for index, text in enumerate(texts):
            path = tmp_path / f"site{index}.yml"
            path.write_text(text)
            paths.append(str(path))
        return load_matrix(paths)

    return load


def broken(overlay: Load, text: str) -> str:
    with pytest.raises(MatrixError) as error:
        overlay(text)
    return str(error.value)


def test_a_row_is_added(overlay: Load, matrix: Matrix) -> None:
    ours = overlay(NEW_GPU)
    assert "gpu.unknown" in ids(evaluate(matrix, info(("NVIDIA Z9000",)), {}, context()))
    assert "gpu.unknown" not in ids(evaluate(ours, info(("NVIDIA Z9000",)), {}, context()))
    assert matrix.gpu("NVIDIA Z9000") is None, "the collection's own rows stay as they are"
    assert ours.sha256 != matrix.sha256
    assert ours.overlays == (ours.overlays[0],)


def test_a_row_is_replaced_and_the_later_file_wins(overlay: Load) -> None:
    ours = overlay(NEW_GPU, NEW_GPU.replace("branch_min: 580", "branch_min: 595"))
    assert ours.rows["z9000"]["branch_min"] == 595


def test_a_row_is_removed(overlay: Load) -> None:
    ours = overlay("remove: [deny.cudnn_8_9_7_23]")
    assert "matrix.denied" not in ids(evaluate(ours, info(), {"cudnn": "8.9.7.23"}, context()))


def test_a_site_denies(overlay: Load) -> None:
    ours = overlay(
        """
deny:
  - id: deny.site_l40s
    gpus: [l40s]
    driver: '>=620,<621'
    gate: block
    reason: Our L40S hang on 620.
    source: ticket 4711
    confidence: verified
"""
    )
    stack = {"driver": {"version": "620.70.06"}}
    found = only(evaluate(ours, info(("NVIDIA L40S",)), stack, context()), "matrix.denied")
    assert (found.severity, found.rule, found.message) == ("block", "deny.site_l40s", "Our L40S hang on 620.")
    assert "matrix.denied" not in ids(evaluate(ours, info(("NVIDIA L4",)), stack, context()))


def test_deny_by_image_model_and_system(overlay: Load) -> None:
    ours = overlay(
        """
deny:
  - {id: deny.image, image: 'docker.io/', gate: block, reason: Only our mirror., source: us, confidence: verified}
  - {id: deny.model, model: 'meta-llama/.*', gate: block, reason: Licence., source: us, confidence: verified}
  - {id: deny.system, systems: [os.debian12], driver: '>=0', gate: block, reason: No Debian 12., source: us, confidence: verified}
"""
    )

    def rules(**engine: t.Any) -> set[str | None]:
        stack = {"engines": [{"name": "a", "engine": "vllm", "version": "0.33.0", "runtime": "venv", "python": "3.12", **engine}]}
        return {item.rule for item in evaluate(ours, info(), stack, context()) if item.id == "matrix.denied" and item.severity == "block"}

    assert rules() == set()
    assert rules(image="docker.io/vllm/vllm-openai:v0.33.0") == {"deny.image"}
    assert rules(model="meta-llama/Llama-3.1-8B-Instruct") == {"deny.model"}
    asked = {"driver": {"version": "620.70.06"}}
    assert [item.rule for item in evaluate(ours, info(), asked, context()) if item.id == "matrix.denied"] == ["deny.system"]
    assert "matrix.denied" not in ids(evaluate(ours, info(system="rocky9"), asked, context()))


@pytest.mark.parametrize(
    ("change", "row", "text"),
    [
        (("branch_min: 580", "branch_min: '580'"), "z9000", "branch_min '580' is not a whole number"),
        (("branch_min: 580", "branch_mim: 580"), "z9000", "branch_mim is no known key; did you mean branch_min?"),
        (("branch_min: 580", "branch_last: 580"), "z9000", "branch_min is missing"),
        (("'8.9'", "8.9"), "z9000", "compute_capability 8.9 is not text; quote it"),
        (("class: datacenter", "class: datacentre"), "z9000", "did you mean datacenter?"),
        (("['^NVIDIA Z9000$']", "['^NVIDIA (Z9000$']"), "z9000", "names[0] '^NVIDIA (Z9000$' is no regular expression"),
        (("memory_gib: [24]", "memory_gib: []"), "z9000", "memory_gib must not be empty"),
        (("FFFF:", "0xFFFF:"), "z9000", "does not have the form"),
        (("confidence: verified", "confidence: sure"), "z9000", "'sure' is none of verified, likely, unverified"),
        (("    source: our test bench, 2026-11\n", ""), "z9000", "source is missing"),
        (("id: z9000", "name: z9000"), "number 1 (no id)", "id is missing"),
        (("id: z9000", "id: branch.580"), "branch.580", "id is already a row of driver_branches"),
    ],
)
def test_a_broken_row_is_named_with_file_row_and_key(overlay: Load, change: tuple[str, str], row: str, text: str) -> None:
    assert change[0] in NEW_GPU
    message = broken(overlay, NEW_GPU.replace(*change))
    assert "site0.yml: gpus, row " + row in message
    assert text in message


def test_all_problems_are_named_at_once(overlay: Load) -> None:
    message = broken(
        overlay, NEW_GPU.replace("branch_min: 580", "branch_min: x").replace("fabric: none", "fabric: nvlink9") + "remove: [nothing]\n"
    )
    assert len(message.splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("gpu: []", "gpu is no section of the matrix; did you mean gpus?"),
        ("gpus: {a: 1}", "gpus: expected a list of rows, found dict"),
        ("- 1", "expected lists of rows under section names"),
        ("gpus: [", "not valid YAML in line"),
        ("remove: [branch.58]", "no row has the id 'branch.58'; did you mean branch.580?"),
        ("gpus: [text]", "'text' is not a mapping"),
    ],
)
def test_a_file_that_is_no_overlay(overlay: Load, text: str, part: str) -> None:
    message = broken(overlay, text)
    assert "site0.yml" in message
    assert part in message


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(MatrixError, match=r"/nowhere/site\.yml: the matrix overlay cannot be read: No such file"):
        load_matrix(["/nowhere/site.yml"])


def test_overlays_must_be_a_list() -> None:
    with pytest.raises(MatrixError, match="must be a list of file paths"):
        load_matrix("site.yml")


def test_an_empty_overlay_changes_nothing(overlay: Load, matrix: Matrix) -> None:
    assert overlay("---\n").rows == matrix.rows


def test_a_changed_overlay_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "site.yml"
    path.write_text(NEW_GPU)
    assert load_matrix([str(path)]) is load_matrix([str(path)])
    path.write_text(NEW_GPU.replace("580", "5950"))
    assert load_matrix([str(path)]).rows["z9000"]["branch_min"] == 5950


POLICY = """
policies:
  - id: policy.rack_power
    when: "length(gpus[?product=='NVIDIA H100 80GB HBM3']) > `4` && !contains(host.hostname, 'dgx')"
    found: length(gpus)
    severity: block
    message: More than four H100 go into DGX racks only.
    needed: at most 4
    fix: Move the host.
    source: site rules, power
"""


def test_a_policy_makes_an_ordinary_finding(overlay: Load) -> None:
    found = only(judge(overlay(POLICY), info(), {}, context()), "policy.rack_power")
    assert (found.severity, found.component, found.found, found.needed) == ("block", "policy", "8", "at most 4")
    assert found.message == "More than four H100 go into DGX racks only."
    small = info(("NVIDIA H100 80GB HBM3",) * 4)
    assert "policy.rack_power" not in ids(judge(overlay(POLICY), small, {}, context()))


def test_a_policy_can_be_allowed(overlay: Load) -> None:
    entry = {"id": "policy.rack_power", "reason": "built before the rule", "expires": "2027-01-01"}
    assert only(judge(overlay(POLICY), info(), {}, context(allow=(entry,))), "policy.rack_power").severity == "info"


def test_a_policy_sees_the_target_stack(overlay: Load) -> None:
    ours = overlay(
        POLICY.replace(
            "length(gpus[?product=='NVIDIA H100 80GB HBM3']) > `4` && !contains(host.hostname, 'dgx')", "stack.driver.branch < `600`"
        )
    )
    assert "policy.rack_power" in ids(judge(ours, info(), {"driver": {"branch": 580}}, context()))
    assert "policy.rack_power" not in ids(judge(ours, info(), {"driver": {"branch": 620}}, context()))


def test_text_of_ansible_is_text_for_jmespath(overlay: Load) -> None:
    class Tagged(str):
        pass

    facts = info()
    facts["host"]["hostname"] = Tagged("gpu1")
    assert "policy.rack_power" in ids(judge(overlay(POLICY), facts, {}, context()))
    facts["host"]["hostname"] = Tagged("dgx1")
    assert "policy.rack_power" not in ids(judge(overlay(POLICY), facts, {}, context()))


def test_a_policy_that_cannot_be_decided_follows_unknown(overlay: Load) -> None:
    ours = overlay(POLICY.replace("host.hostname", "host.no_such_fact"))
    found = only(judge(ours, info(), {}, context(unknown="warn")), "policy.rack_power")
    assert found.severity == "warn"
    assert "could not be decided" in found.message
    assert only(judge(ours, info(), {}, context(unknown="block")), "policy.rack_power").severity == "block"


def test_a_broken_expression_is_named(overlay: Load) -> None:
    message = broken(overlay, POLICY.replace("> `4`", "> `4"))
    assert "policies, row policy.rack_power: when is no JMESPath expression" in message


def test_a_policy_id_must_start_with_policy(overlay: Load) -> None:
    assert "'driver.mine' does not have the form" in broken(overlay, POLICY.replace("policy.rack_power", "driver.mine"))


def test_jmespath_is_asked_for_only_where_it_is_needed(overlay: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_policy, "jmespath", None)
    monkeypatch.setattr(_matrix_load, "_cache", {})
    overlay(NEW_GPU)
    message = broken(overlay, POLICY)
    assert "policy.rack_power" in message
    assert "jmespath is missing on the controller" in message
    assert "pip install jmespath" in message


def test_warming_never_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "matrix").mkdir()
    (tmp_path / "matrix" / "broken.yml").write_text("gpus: [")
    monkeypatch.setattr(_matrix_load, "ROOT", tmp_path)
    monkeypatch.setattr(_matrix_load, "_cache", {})
    _matrix_load.warm()
    with pytest.raises(MatrixError, match=r"broken\.yml: not valid YAML"):
        load_matrix()
