/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Handles and identity: which GPU is it, where does it sit.
 */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct { char bus_id_legacy[16]; u32 domain, bus, device, device_id, subsystem_id; char bus_id[32]; } pci_t;
typedef struct { u32 version, domain, bus, device, device_id, subsystem_id, base_class, sub_class; char bus_id[32]; } pci_ext_t;

API ret_t nvmlDeviceGetCount_v2(u32 *n)
{
    ENTER();
    NONNULL(n);
    *n = sim_count();
    return OK;
}

API ret_t nvmlDeviceGetCount(u32 *n) { return nvmlDeviceGetCount_v2(n); }

/* A lost GPU does not give a handle, as with the real library. */
static ret_t hand_out(gpu_t gpu, gpu_t *out)
{
    TRY(sim_fault_call("nvmlDeviceGetHandle", gpu));
    *out = gpu;
    return OK;
}

API ret_t nvmlDeviceGetHandleByIndex_v2(u32 index, gpu_t *out)
{
    ENTER();
    NONNULL(out);
    gpu_t gpu = sim_gpu(index);
    return gpu ? hand_out(gpu, out) : E_INVALID_ARGUMENT;
}

API ret_t nvmlDeviceGetHandleByIndex(u32 index, gpu_t *out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }

static ret_t by_key(const char *key, const char *value, gpu_t *out)
{
    char text[128];
    for (u32 i = 0; i < sim_count(); i++)
        if (sim_text(sim_gpu(i), key, text, sizeof text) == OK && strcasecmp(text, value) == 0)
            return hand_out(sim_gpu(i), out);
    return E_NOT_FOUND;
}

API ret_t nvmlDeviceGetHandleByUUID(const char *uuid, gpu_t *out)
{
    ENTER();
    NONNULL(uuid);
    NONNULL(out);
    for (u32 i = 0; i < sim_count(); i++)
        for (u32 n = 0; n < 8; n++) {
            gpu_t mig = sim_mig_slot(sim_gpu(i), n);
            if (mig->mig && strcmp(mig->uuid, uuid) == 0)
                return hand_out(mig, out);
        }
    return by_key("uuid", uuid, out);
}

typedef struct { u32 version, type; char value[41]; } uuid_t_;
API ret_t nvmlDeviceGetHandleByUUIDV(const uuid_t_ *uuid, gpu_t *out)
{
    ENTER();
    NONNULL(uuid);
    return nvmlDeviceGetHandleByUUID(uuid->value, out);
}

API ret_t nvmlDeviceGetHandleBySerial(const char *serial, gpu_t *out)
{
    ENTER();
    NONNULL(serial);
    NONNULL(out);
    return by_key("serial", serial, out);
}

/* "domain:bus:device.function"; the domain may be short, long or missing, as people write it */
static int parse_pci(const char *text, u32 *domain, u32 *bus, u32 *device)
{
    char *end;
    u32 part[3] = {0};
    int n = 0;
    for (; n < 3; text = end + 1) {
        part[n++] = (u32)strtoul(text, &end, 16);
        if (*end != ':')
            break;
    }
    if (n < 2 || (*end && *end != '.'))
        return 0;
    *domain = n == 3 ? part[0] : 0;
    *bus = part[n - 2];
    *device = part[n - 1];
    return 1;
}

static ret_t where(gpu_t gpu, u32 *domain, u32 *bus, u32 *device)
{
    char text[64];
    TRY(sim_text(gpu, "pci.address", text, sizeof text));
    return parse_pci(text, domain, bus, device) ? OK : E_UNKNOWN;
}

API ret_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, gpu_t *out)
{
    u32 a, b, c, x, y, z;
    ENTER();
    NONNULL(id);
    NONNULL(out);
    if (!parse_pci(id, &a, &b, &c))
        return E_INVALID_ARGUMENT;
    for (u32 i = 0; i < sim_count(); i++)
        if (where(sim_gpu(i), &x, &y, &z) == OK && a == x && b == y && c == z)
            return hand_out(sim_gpu(i), out);
    return E_NOT_FOUND;
}

API ret_t nvmlDeviceGetHandleByPciBusId(const char *id, gpu_t *out) { return nvmlDeviceGetHandleByPciBusId_v2(id, out); }

API ret_t nvmlDeviceGetPciInfo_v3(gpu_t gpu, pci_t *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    memset(out, 0, sizeof *out);
    TRY(where(gpu, &out->domain, &out->bus, &out->device));
    TRY(sim_uint(gpu, "pci.device_id", &out->device_id));
    TRY(sim_uint(gpu, "pci.subsystem_id", &out->subsystem_id));
    snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%04X:%02X:%02X.0", out->domain & 0xffffu, out->bus & 0xffu, out->device & 0xffu);
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", out->domain, out->bus, out->device);
    return OK;
}

API ret_t nvmlDeviceGetPciInfo_v2(gpu_t gpu, pci_t *out) { return nvmlDeviceGetPciInfo_v3(gpu, out); }

/* The first version of the struct ended before subsystem_id's reserved words; callers of that name pass room for them. */
API ret_t nvmlDeviceGetPciInfo(gpu_t gpu, pci_t *out) { return nvmlDeviceGetPciInfo_v3(gpu, out); }

API ret_t nvmlDeviceGetPciInfoExt(gpu_t gpu, pci_ext_t *out)
{
    pci_t plain;
    ENTER_GPU(gpu);
    NONNULL(out);
    if (out->version != VERSION_WORD(pci_ext_t, 1))
        return E_VERSION;
    TRY(nvmlDeviceGetPciInfo_v3(gpu, &plain));
    out->domain = plain.domain;
    out->bus = plain.bus;
    out->device = plain.device;
    out->device_id = plain.device_id;
    out->subsystem_id = plain.subsystem_id;
    sim_copy(out->bus_id, sizeof out->bus_id, plain.bus_id);
    TRY(sim_uint_or(gpu, "pci.base_class", 3, &out->base_class));
    return sim_uint_or(gpu, "pci.sub_class", 2, &out->sub_class);
}

API ret_t nvmlDeviceGetIndex(gpu_t gpu, u32 *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    *out = gpu->mig ? gpu->mig - 1 : gpu->index;
    return OK;
}

API ret_t nvmlDeviceGetUUID(gpu_t gpu, char *out, u32 length)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    if (strlen(gpu->uuid) >= length)
        return E_INSUFFICIENT_SIZE;
    sim_copy(out, length, gpu->uuid);
    return OK;
}

API ret_t nvmlDeviceGetCudaComputeCapability(gpu_t gpu, int *major, int *minor)
{
    char text[32], *dot;
    ENTER_GPU(gpu);
    NONNULL(major);
    NONNULL(minor);
    TRY(sim_text(gpu, "compute_capability", text, sizeof text));
    *major = (int)strtol(text, &dot, 10);
    *minor = *dot ? (int)strtol(dot + 1, NULL, 10) : 0;
    return OK;
}

API ret_t nvmlDeviceGetGspFirmwareVersion(gpu_t gpu, char *out)
{
    u32 enabled;
    ENTER_GPU(gpu);
    NONNULL(out);
    TRY(sim_uint(gpu, "gsp.enabled", &enabled));
    if (!enabled)
        return E_NOT_SUPPORTED;
    sim_copy(out, 64, sim_module_version());
    return OK;
}

API ret_t nvmlDeviceGetInforomVersion(gpu_t gpu, u32 object, char *out, u32 length)
{
    char key[32];
    ENTER_GPU(gpu);
    if (object > 3)
        return E_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "inforom.%u", object);
    return sim_string(gpu, key, out, length);
}

typedef struct { u32 version; u64 value; } pdi_t;
API ret_t nvmlDeviceGetPdi(gpu_t gpu, pdi_t *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    return sim_u64(gpu, "pdi", &out->value);
}

typedef struct { u32 version; unsigned char guid[16], chassis[16], slot, tray, host, peer, module; } platform_t;
API ret_t nvmlDeviceGetPlatformInfo(gpu_t gpu, platform_t *out)
{
    u32 module = 0, host = 1;
    ENTER_GPU(gpu);
    NONNULL(out);
    if (out->version != 0x0100002c && out->version != 0x0200002c)
        return E_VERSION;
    memset(out->guid, 0, 37);
    TRY(sim_uint(gpu, "module_id", &module));
    TRY(sim_uint_or(gpu, "platform.host_id", 1, &host));
    out->module = (unsigned char)module;
    out->host = (unsigned char)host;
    return OK;
}

API ret_t nvmlDeviceGetHostname_v1(gpu_t gpu, void *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    return E_NOT_SUPPORTED;
}

API ret_t nvmlDeviceOnSameBoard(gpu_t a, gpu_t b, int *same)
{
    ENTER_GPU(a);
    ENTER_GPU(b);
    NONNULL(same);
    *same = a->slot == b->slot;
    return OK;
}
