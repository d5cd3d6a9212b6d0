/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Power and the other settings the driver holds for a GPU: persistence and compute mode.
 */
#include "sim.h"

typedef struct { u32 version, scope, milliwatts; } power_value_t;

ret_t sim_power_limit(gpu_t gpu, u32 *limit)
{
    u64 set;
    NONNULL(limit);
    TRY(sim_uint(gpu, "power.default", limit));
    if (sim_setting(gpu, "power.limit", &set))
        *limit = (u32)set;
    return OK;
}

API ret_t nvmlDeviceGetPowerManagementLimit(gpu_t gpu, u32 *limit)
{
    ENTER_GPU(gpu);
    if (sim_fault(gpu, "not_supported", NULL, 0))
        return E_NOT_SUPPORTED;
    return sim_power_limit(gpu, limit);
}

API ret_t nvmlDeviceGetEnforcedPowerLimit(gpu_t gpu, u32 *limit)
{
    ENTER_GPU(gpu);
    if (sim_has(gpu, "power.enforced"))
        return sim_uint(gpu, "power.enforced", limit);
    return sim_power_limit(gpu, limit);
}

API ret_t nvmlDeviceGetPowerManagementDefaultLimit(gpu_t gpu, u32 *limit)
{
    ENTER_GPU(gpu);
    return sim_uint(gpu, "power.default", limit);
}

API ret_t nvmlDeviceGetPowerManagementLimitConstraints(gpu_t gpu, u32 *min, u32 *max)
{
    ENTER_GPU(gpu);
    NONNULL(max);
    TRY(sim_uint(gpu, "power.min", min));
    return sim_uint(gpu, "power.max", max);
}

API ret_t nvmlDeviceGetPowerManagementMode(gpu_t gpu, u32 *mode)
{
    ENTER_GPU(gpu);
    return sim_uint(gpu, "power.management", mode);
}

/* A GPU never draws more than its limit for long: the reading is cut there. */
API ret_t nvmlDeviceGetPowerUsage(gpu_t gpu, u32 *power)
{
    u32 limit;
    ENTER_GPU(gpu);
    TRY(sim_uint(gpu, "power.draw", power));
    if (sim_power_limit(gpu, &limit) == OK && *power > limit)
        *power = limit;
    return OK;
}

API ret_t nvmlDeviceGetTotalEnergyConsumption(gpu_t gpu, u64 *energy)
{
    ENTER_GPU(gpu);
    NONNULL(energy);
    return sim_u64(gpu, "energy", energy);
}

API ret_t nvmlDeviceSetPowerManagementLimit(gpu_t gpu, u32 limit)
{
    u32 min, max;
    u64 value = limit;
    ENTER_GPU(gpu);
    TRY(sim_may_set(gpu));
    TRY(sim_uint(gpu, "power.min", &min));
    TRY(sim_uint(gpu, "power.max", &max));
    if (limit < min || limit > max)
        return E_INVALID_ARGUMENT;
    return sim_set_setting(gpu, "power.limit", &value);
}

API ret_t nvmlDeviceSetPowerManagementLimit_v2(gpu_t gpu, power_value_t *power)
{
    ENTER_GPU(gpu);
    NONNULL(power);
    if (power->version != VERSION_WORD(power_value_t, 2))
        return E_VERSION;
    if (power->scope > 2)
        return E_INVALID_ARGUMENT;
    return power->scope ? E_NOT_SUPPORTED : nvmlDeviceSetPowerManagementLimit(gpu, power->milliwatts);
}

static ret_t get_mode(gpu_t gpu, const char *key, u32 *mode)
{
    u64 set;
    TRY(sim_uint(gpu, key, mode));
    if (sim_setting(gpu, key, &set))
        *mode = (u32)set;
    return OK;
}

static ret_t set_mode(gpu_t gpu, const char *key, u32 mode, u32 max)
{
    u32 now;
    u64 value = mode;
    TRY(sim_uint(gpu, key, &now));      /* a profile without the key does not support it */
    if (mode > max)
        return E_INVALID_ARGUMENT;
    return sim_set_setting(gpu, key, &value);
}

API ret_t nvmlDeviceGetPersistenceMode(gpu_t gpu, u32 *mode) { ENTER_GPU(gpu); return get_mode(gpu, "persistence", mode); }
API ret_t nvmlDeviceSetPersistenceMode(gpu_t gpu, u32 mode) { ENTER_GPU(gpu); return set_mode(gpu, "persistence", mode, 1); }
API ret_t nvmlDeviceGetComputeMode(gpu_t gpu, u32 *mode) { ENTER_GPU(gpu); return get_mode(gpu, "compute_mode", mode); }

API ret_t nvmlDeviceSetComputeMode(gpu_t gpu, u32 mode)
{
    ENTER_GPU(gpu);
    return mode == 1 ? E_NOT_SUPPORTED : set_mode(gpu, "compute_mode", mode, 3);     /* 1, exclusive thread, is gone since CUDA 8 */
}
