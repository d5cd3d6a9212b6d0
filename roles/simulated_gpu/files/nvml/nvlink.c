/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * NVLink, fabric, and how the GPUs of a machine are placed to each other.
 */
#include "sim.h"
#include <stdio.h>
#include <string.h>

typedef struct { char bus_id_legacy[16]; u32 domain, bus, device, device_id, subsystem_id; char bus_id[32]; } pci_t;

static ret_t link_exists(gpu_t gpu, u32 link)
{
    u32 links = 0;
    if (sim_uint(gpu, "nvlink.count", &links) != OK || !links)
        return E_NOT_SUPPORTED;
    return link < links ? OK : E_INVALID_ARGUMENT;
}

/* fault nvlink_down: a list of links, or "all" */
ret_t sim_link_state(gpu_t gpu, u32 link, u32 *active)
{
    char down[256], text[16];
    TRY(link_exists(gpu, link));
    *active = 1;
    if (!sim_fault(gpu, "nvlink_down", down, sizeof down))
        return OK;
    snprintf(text, sizeof text, ",%u,", link);
    size_t n = strlen(down);
    memmove(down + 1, down, n + 1 < sizeof down - 2 ? n + 1 : sizeof down - 2);
    down[0] = ',';
    strncat(down, ",", 2);
    *active = strcmp(down, ",all,") != 0 && !strstr(down, text);
    return OK;
}

API ret_t nvmlDeviceGetNvLinkState(gpu_t gpu, u32 link, u32 *active)
{
    ENTER_GPU(gpu);
    NONNULL(active);
    return sim_link_state(gpu, link, active);
}

API ret_t nvmlDeviceGetNvLinkVersion(gpu_t gpu, u32 link, u32 *version)
{
    ENTER_GPU(gpu);
    TRY(link_exists(gpu, link));
    return sim_uint(gpu, "nvlink.version", version);
}

API ret_t nvmlDeviceGetNvLinkCapability(gpu_t gpu, u32 link, u32 capability, u32 *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    TRY(link_exists(gpu, link));
    if (capability > 5)
        return E_INVALID_ARGUMENT;
    *out = 1;
    return OK;
}

/* counters: 0 replay, 1 recovery, 2 CRC flit, 3 and 4 CRC data, 5 ECC data; an absent link gives other codes for different counters, as on hardware */
API ret_t nvmlDeviceGetNvLinkErrorCounter(gpu_t gpu, u32 link, u32 which, u64 *out)
{
    char key[48];
    ENTER_GPU(gpu);
    NONNULL(out);
    ret_t exists = link_exists(gpu, link);
    if (which > 4)
        return E_NOT_SUPPORTED;
    if (exists)
        return which == 3 || which == 4 ? exists : E_NOT_SUPPORTED;
    snprintf(key, sizeof key, "nvlink.%u.error.%u", link, which);
    *out = 0;
    return sim_has(gpu, key) ? sim_u64(gpu, key, out) : OK;
}

API ret_t nvmlDeviceResetNvLinkErrorCounters(gpu_t gpu, u32 link) { ENTER_GPU(gpu); TRY(sim_may_set(gpu)); return link_exists(gpu, link); }

API ret_t nvmlDeviceGetNvLinkRemoteDeviceType(gpu_t gpu, u32 link, u32 *type)
{
    ENTER_GPU(gpu);
    TRY(link_exists(gpu, link));
    return sim_uint(gpu, "nvlink.remote_type", type);
}

/* With a switch behind it and no view of it (a guest), the address is all ones. */
API ret_t nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu_t gpu, u32 link, pci_t *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    TRY(link_exists(gpu, link));
    memset(out, 0, sizeof *out);
    out->domain = out->device_id = 0xffffffffu;
    out->bus = out->device = 0xff;
    sim_copy(out->bus_id_legacy, sizeof out->bus_id_legacy, "FFFFFFF:FF:FF.0");
    sim_copy(out->bus_id, sizeof out->bus_id, "FFFFFFFF:FF:FF.0");
    return OK;
}

API ret_t nvmlDeviceGetNvLinkRemotePciInfo(gpu_t gpu, u32 link, pci_t *out) { return nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu, link, out); }

/* fabric */
typedef struct { unsigned char uuid[16]; u32 status, clique, state; } fabric_t;
typedef struct { u32 version; fabric_t f; u32 health; } fabric_v2_t;
typedef struct { u32 version; fabric_t f; u32 health; unsigned char summary; } fabric_v3_t;

/* the NVLink domain that a GPU belongs to, written as a UUID; none outside of racks */
static void cluster(gpu_t gpu, unsigned char uuid[16])
{
    char text[64];
    int digits = 0;
    if (sim_text(gpu, "fabric.cluster", text, sizeof text) != OK)
        return;
    for (const char *at = text; *at && digits < 32; at++) {
        unsigned nibble;
        if (*at != '-' && sscanf(at, "%1x", &nibble) == 1) {
            uuid[digits / 2] |= (unsigned char)(digits % 2 ? nibble : nibble << 4);
            digits++;
        }
    }
}

static ret_t fabric(gpu_t gpu, fabric_t *out, u32 *health)
{
    memset(out, 0, sizeof *out);
    cluster(gpu, out->uuid);
    TRY(sim_uint(gpu, "fabric.state", &out->state));
    TRY(sim_uint_or(gpu, "fabric.status", 0, &out->status));
    TRY(sim_uint_or(gpu, "fabric.clique", 0, &out->clique));
    return sim_uint_or(gpu, "fabric.health", 0, health);
}

API ret_t nvmlDeviceGetGpuFabricInfo(gpu_t gpu, fabric_t *out)
{
    u32 health;
    ENTER_GPU(gpu);
    NONNULL(out);
    return fabric(gpu, out, &health);
}

API ret_t nvmlDeviceGetGpuFabricInfoV(gpu_t gpu, fabric_v3_t *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    if (out->version == VERSION_WORD(fabric_v2_t, 2))
        return fabric(gpu, &out->f, &out->health);
    if (out->version != VERSION_WORD(fabric_v3_t, 3))
        return E_VERSION;
    u32 summary;
    TRY(fabric(gpu, &out->f, &out->health));
    TRY(sim_uint_or(gpu, "fabric.summary", 0, &summary));
    out->summary = (unsigned char)summary;
    return OK;
}

API ret_t nvmlSystemGetNvlinkBwMode(u32 *mode)
{
    ENTER();
    NONNULL(mode);
    *mode = 0;
    return OK;
}

/* placement */
static u32 numa(gpu_t gpu)
{
    u32 node = (u32)-1;
    sim_uint(gpu, "pci.numa_node", &node);
    return node;
}

API ret_t nvmlDeviceGetTopologyCommonAncestor(gpu_t a, gpu_t b, u32 *level)
{
    ENTER_GPU(a);
    ENTER_GPU(b);
    NONNULL(level);
    if (a == b)
        return E_NOT_SUPPORTED;
    if (sim_has(a, "topology"))
        return sim_uint(a, "topology", level);
    *level = numa(a) == numa(b) ? 40 : 50;     /* same node, or across sockets */
    return OK;
}

API ret_t nvmlDeviceGetP2PStatus(gpu_t a, gpu_t b, u32 index, u32 *status)
{
    char key[32];
    ENTER_GPU(a);
    ENTER_GPU(b);
    if (index > 6)
        return E_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "p2p.%u", index);
    return sim_uint_or(a, key, 5, status);     /* 5: not supported */
}

static ret_t cpu_set(gpu_t gpu, const char *key, u32 size, unsigned long *set)
{
    u64 words[64];
    u32 n;
    NONNULL(set);
    memset(set, 0, size * sizeof *set);
    TRY(sim_list(gpu, key, words, 64, &n));
    for (u32 i = 0; i < n && i < size; i++)
        set[i] = words[i];
    return OK;
}

API ret_t nvmlDeviceGetCpuAffinity(gpu_t gpu, u32 size, unsigned long *set) { ENTER_GPU(gpu); return cpu_set(gpu, "cpu_affinity", size, set); }

API ret_t nvmlDeviceGetCpuAffinityWithinScope(gpu_t gpu, u32 size, unsigned long *set, u32 scope)
{
    ENTER_GPU(gpu);
    return scope > 1 ? E_INVALID_ARGUMENT : cpu_set(gpu, "cpu_affinity", size, set);
}

API ret_t nvmlDeviceGetMemoryAffinity(gpu_t gpu, u32 size, unsigned long *set, u32 scope)
{
    ENTER_GPU(gpu);
    NONNULL(set);
    if (scope > 1)
        return E_INVALID_ARGUMENT;
    memset(set, 0, size * sizeof *set);
    u32 node = numa(gpu);
    if (size)
        set[0] = node < 64 ? 1UL << node : 1;
    return OK;
}

API ret_t nvmlDeviceGetTopologyNearestGpus(gpu_t gpu, u32 level, u32 *count, gpu_t *out)
{
    u32 room, found = 0, other;
    ENTER_GPU(gpu);
    NONNULL(count);
    room = *count;
    for (u32 i = 0; i < sim_count(); i++) {
        gpu_t peer = sim_gpu(i);
        if (peer == gpu || nvmlDeviceGetTopologyCommonAncestor(gpu, peer, &other) != OK || other > level)
            continue;
        if (out && found < room)
            out[found] = peer;
        found++;
    }
    *count = found;
    return OK;
}
