#!/usr/bin/python
# Copyright (c) 2026, gpufleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is a virtual module: it is implemented by the action plugin of the same name, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_plan
version_added: 0.1.0
short_description: Plan an inference engine on GPUs, or say what would fit
author: gpufleet contributors (@gpufleet)
description:
  - Reads a model's configuration and the size of its weights on the host, takes the GPUs' memory from the facts of this run (or reads
    them), and computes parallelism, context length, sequences and memory share for vLLM, SGLang or TensorRT-LLM, each with its
    reason, and the cache that the engine will report. See C(docs/planner.md).
  - A model that does not fit is a failure that names what would fit (more GPUs, FP8 cache, shorter context, other weights), each computed.
  - With O(metrics) or O(cache) it compares a running engine with its plan.
options:
  model:
    description: Folder of the model's snapshot on the host.
    type: path
  config:
    description: The model's C(config.json) as a mapping, instead of O(model), to plan before anything is downloaded.
    type: dict
  weights_bytes:
    description: Bytes of the weights where they are known, with O(config).
    type: int
  engine:
    description: The engine.
    type: str
    choices: [vllm, sglang, tensorrt_llm]
    required: true
  version:
    description: Its version. Memory rules differ by release.
    type: str
    required: true
  gpus:
    description: GPUs of the instance, by index or UUID. Empty means all of the host.
    type: list
    elements: str
    default: []
  count_used:
    description: Whether memory that others use now counts. Turn it off to plan an instance that is running on these GPUs.
    type: bool
    default: true
  max_model_len:
    description: Longest request. Without it the model's own length, or what fits.
    type: int
  concurrency:
    description: Requests at once that must find room in the cache.
    type: int
  tokens_per_request:
    description: Prompt and answer of a usual request, for O(concurrency). Without it O(max_model_len).
    type: int
  max_num_seqs:
    description: Requests in one batch. Without it by O(concurrency), or the engine's default on this GPU.
    type: int
  max_num_batched_tokens:
    description: Tokens in one batch. Without it the engine's default on this GPU.
    type: int
  memory_fraction:
    description:
      - Share of the GPU, as the engine understands it (vLLM C(--gpu-memory-utilization), SGLang C(--mem-fraction-static), TensorRT-LLM
        C(--free_gpu_memory_fraction)). Without it the planner takes the largest that leaves room for what the engine takes beyond it.
    type: float
  kv_cache_dtype:
    description: Type of the cache; V(auto), V(fp8), or a name that the engine knows.
    type: str
    default: auto
  kv_cache_bytes:
    description: Size of the cache (vLLM C(--kv-cache-memory-bytes)), instead of a share.
    type: int
  block_size:
    description: Tokens of a cache block.
    type: int
  tensor_parallel:
    description: GPUs that split each layer. Without it the planner chooses, as for the next two.
    type: int
  pipeline_parallel:
    description: Stages that layers are spread over.
    type: int
  data_parallel:
    description: Copies of the model.
    type: int
  expert_parallel:
    description: Whole experts on each GPU instead of a slice of every one.
    type: bool
    default: false
  prefix_caching:
    description: Whether finished prompts are kept. Without it as the engine's version does for this kind of model.
    type: bool
  hybrid_kv_cache:
    description: False where C(--disable-hybrid-kv-cache-manager) is set.
    type: bool
    default: true
  cuda_graphs:
    description: False where C(--enforce-eager) is set.
    type: bool
    default: true
  speculative_tokens:
    description: Tokens drafted ahead.
    type: int
    default: 0
  nodes:
    description: Hosts that share the instance, each with GPUs like these.
    type: int
    default: 1
  measured:
    description:
      - Figures that this host measured, over those of the matrix (keys of the row C(memory.vllm.parts), in MiB, and
        C(non_torch_correction)).
    type: dict
    default: {}
  metrics:
    description:
      - Text of the running engine's metrics, to compare with the plan. vLLM's C(/metrics), SGLang's with C(--enable-metrics),
        TensorRT-LLM's C(/prometheus/metrics) with C(return_perf_metrics).
    type: str
  cache:
    description: Instead of O(metrics), what M(gpufleet.inference.endpoint_check) returned as C(cache).
    type: dict
  workload:
    description: What the instance is for. Adds RV(advice), which engine to take and why.
    type: str
    choices: [proof_of_concept, long_context, multimodal, throughput, workflow]
  model_id:
    description: The model's Hugging Face id, so that the advice leaves out engines that do not serve it.
    type: str
    default: ""
  unknown:
    description: What to do with an architecture that the planner does not know. V(warn) plans it as a plain dense model.
    type: str
    choices: [warn, block]
    default: block
  matrix_overlay:
    description: YAML files on the controller with rows over the matrix.
    type: list
    elements: path
    default: []
extends_documentation_fragment:
  - gpufleet.inference._nvml
  - gpufleet.inference._attributes
  - gpufleet.inference._attributes.info_module
  - gpufleet.inference._attributes.actiongroup_gpu
attributes:
  async:
    description: It runs in seconds.
    support: none
"""

EXAMPLES = r"""
- name: Plan a model that is on the host, for 200 chats of 4,000 tokens
  gpufleet.inference.engine_plan:
    model: /srv/models/llama-3.1-70b
    engine: vllm
    version: 0.33.0
    concurrency: 200
    tokens_per_request: 4000
  register: planned

- name: Does it fit on one GPU? (nothing is downloaded yet)
  gpufleet.inference.engine_plan:
    config: "{{ lookup('file', 'config.json') | from_json }}"
    engine: vllm
    version: 0.33.0
    gpus: [0]
    workload: long_context

- name: The engine answers, and says what cache it has
  gpufleet.inference.endpoint_check:
    url: http://127.0.0.1:8000
    metrics: /metrics
  register: running

- name: Compare the running engine with the plan
  gpufleet.inference.engine_plan:
    model: /srv/models/llama-3.1-70b
    engine: vllm
    version: 0.33.0
    count_used: false
    cache: "{{ running.cache }}"
"""

RETURN = r"""
ansible_facts:
  description: The host's fact C(gpufleet), where it was read by this task.
  returned: when this run had no facts of the host yet
  type: dict
  contains:
    gpufleet:
      description: See M(gpufleet.inference.stack_check).
      type: dict
plan:
  description: The plan, see C(schemas/engine_plan.schema.json).
  returned: unless files or facts could not be read
  type: dict
  contains:
    fits:
      description: Whether the wish can be served.
      type: bool
    parallel:
      description: C(tensor), C(pipeline), C(data), C(experts).
      type: dict
    args:
      description: Arguments by engine-neutral names.
      type: dict
    reasons:
      description: A sentence for each argument.
      type: dict
    predicted:
      description: Memory of the fullest GPU in bytes, tokens of cache and requests of full length that fit.
      type: dict
    alternatives:
      description: What would fit, where the wish does not.
      type: list
      elements: dict
    findings:
      description: What is wrong or worth knowing.
      type: list
      elements: dict
advice:
  description: C(workload), C(engines) in order of preference, C(reason), C(left_out), C(source), C(confidence).
  returned: with O(workload)
  type: dict
"""
