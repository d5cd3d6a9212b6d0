/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Memory and temperature.
 */
#include "sim.h"
#include <stdio.h>
#include <string.h>

typedef struct { u64 total, free, used; } memory_t;
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2_t;
typedef struct { u32 version, sensor; int value; } temperature_t;
typedef struct { u32 version; int value; } margin_t;

typedef struct { u32 units[8]; u64 memory_mib; } attributes_t;
ret_t nvmlDeviceGetAttributes_v2(gpu_t gpu, attributes_t *out);

static ret_t read_mig_memory(gpu_t gpu, memory_v2_t *out)
{
    attributes_t attributes;
    TRY(nvmlDeviceGetAttributes_v2(gpu, &attributes));
    out->total = out->free = attributes.memory_mib << 20;
    out->used = out->reserved = 0;
    return OK;
}

static ret_t read_memory(gpu_t gpu, memory_v2_t *out)
{
    if (gpu->mig)
        return read_mig_memory(gpu, out);
    TRY(sim_u64(gpu, "memory.total", &out->total));
    TRY(sim_u64(gpu, "memory.reserved", &out->reserved));
    out->used = 0;
    if (sim_has(gpu, "memory.used"))
        TRY(sim_u64(gpu, "memory.used", &out->used));
    out->used += sim_process_memory(gpu);
    if (out->used > out->total - out->reserved)
        out->used = out->total - out->reserved;
    out->free = out->total - out->reserved - out->used;
    return OK;
}

API ret_t nvmlDeviceGetMemoryInfo(gpu_t gpu, memory_t *out)
{
    memory_v2_t all;
    ENTER_GPU(gpu);
    NONNULL(out);
    TRY(read_memory(gpu, &all));
    out->total = all.total;
    out->free = all.free;
    out->used = all.used + all.reserved;     /* the first version has no place for reserved and counts it as used */
    return OK;
}

/* a wrong version word gives FUNCTION_NOT_FOUND here, as on the real library, not ARGUMENT_VERSION_MISMATCH */
API ret_t nvmlDeviceGetMemoryInfo_v2(gpu_t gpu, memory_v2_t *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    return out->version == VERSION_WORD(memory_v2_t, 2) ? read_memory(gpu, out) : 13;
}

API ret_t nvmlDeviceGetBAR1MemoryInfo(gpu_t gpu, memory_t *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    TRY(sim_u64(gpu, "bar1.total", &out->total));
    TRY(sim_u64(gpu, "bar1.used", &out->used));
    out->free = out->total - out->used;
    return OK;
}

API ret_t nvmlDeviceGetConfComputeProtectedMemoryUsage(gpu_t gpu, memory_t *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    memset(out, 0, sizeof *out);
    return sim_u64(gpu, "conf_compute.protected", &out->total);
}

API ret_t nvmlDeviceGetConfComputeMemSizeInfo(gpu_t gpu, u64 *out)     /* {protected, unprotected} KiB */
{
    ENTER_GPU(gpu);
    NONNULL(out);
    TRY(sim_u64(gpu, "conf_compute.protected", &out[0]));
    return sim_u64(gpu, "conf_compute.unprotected_kib", &out[1]);
}

API ret_t nvmlDeviceGetConfComputeGpuCertificate(gpu_t gpu, void *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    return sim_has(gpu, "conf_compute.protected") ? E_UNKNOWN : E_NOT_SUPPORTED;
}

API ret_t nvmlDeviceGetTemperature(gpu_t gpu, u32 sensor, u32 *out)
{
    ENTER_GPU(gpu);
    return sensor ? E_INVALID_ARGUMENT : sim_uint(gpu, "temperature.gpu", out);
}

API ret_t nvmlDeviceGetTemperatureV(gpu_t gpu, temperature_t *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    if (out->version != VERSION_WORD(temperature_t, 1))
        return E_VERSION;
    return nvmlDeviceGetTemperature(gpu, out->sensor, (u32 *)&out->value);
}

API ret_t nvmlDeviceGetTemperatureThreshold(gpu_t gpu, u32 type, u32 *out)
{
    char key[48];
    ENTER_GPU(gpu);
    if (type > 7)
        return E_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "temperature.threshold.%u", type);
    return sim_uint(gpu, key, out);
}

/* how far below the throttling point: moves with the temperature */
API ret_t nvmlDeviceGetMarginTemperature(gpu_t gpu, margin_t *out)
{
    u32 limit, now;
    ENTER_GPU(gpu);
    NONNULL(out);
    if (out->version != VERSION_WORD(margin_t, 1))
        return E_VERSION;
    TRY(sim_uint(gpu, "temperature.margin_base", &limit));
    TRY(sim_uint(gpu, "temperature.gpu", &now));
    out->value = (int)limit - (int)now;
    return OK;
}

typedef struct { u32 count; struct { u32 controller; int low, high, now; u32 target; } sensor[3]; } thermal_t;

API ret_t nvmlDeviceGetThermalSettings(gpu_t gpu, u32 index, thermal_t *out)
{
    u32 now;
    ENTER_GPU(gpu);
    (void)index;
    NONNULL(out);
    TRY(sim_uint(gpu, "temperature.gpu", &now));
    memset(out, 0, sizeof *out);
    out->count = 1;
    out->sensor[0].controller = out->sensor[0].target = 1;
    out->sensor[0].high = 127;
    out->sensor[0].now = (int)now;
    return OK;
}
