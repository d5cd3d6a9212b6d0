/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One key, one answer: injected reading, else profile, else NOT_SUPPORTED; and the settings clients make.
 */
#define _GNU_SOURCE
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

u64 sim_parse(const char *text)
{
    return *text == '-' ? (u64)strtoll(text, NULL, 0) : strtoull(text, NULL, 0);
}

static int raw(gpu_t gpu, const char *key, char *out, size_t size)
{
    char file[160];
    if (gpu && sim_file_get(ROOT_RUN, sim_gpu_file(gpu, "readings", file, sizeof file), key, out, size))
        return 1;
    if (!gpu && sim_file_get(ROOT_RUN, "readings", key, out, size))
        return 1;
    const char *value = gpu ? sim_profile_gpu(gpu->slot, key) : sim_profile(key);
    if (!value)
        return 0;
    sim_copy(out, size, value);
    return 1;
}

int sim_has(gpu_t gpu, const char *key)
{
    char value[MAX_VALUE];
    return raw(gpu, key, value, sizeof value);
}

ret_t sim_text(gpu_t gpu, const char *key, char *out, size_t size)
{
    if (!raw(gpu, key, out, size))
        return E_NOT_SUPPORTED;
    return *out == '!' ? (ret_t)strtoul(out + 1, NULL, 10) : OK;
}

ret_t sim_u64(gpu_t gpu, const char *key, u64 *out)
{
    char value[MAX_VALUE];
    TRY(sim_text(gpu, key, value, sizeof value));
    *out = sim_parse(value);
    return OK;
}

ret_t sim_uint(gpu_t gpu, const char *key, u32 *out)
{
    u64 value;
    NONNULL(out);
    TRY(sim_u64(gpu, key, &value));
    *out = (u32)value;
    return OK;
}

ret_t sim_s64(gpu_t gpu, const char *key, s64 *out)
{
    return sim_u64(gpu, key, (u64 *)out);
}

ret_t sim_uint_or(gpu_t gpu, const char *key, u32 other, u32 *out)
{
    NONNULL(out);
    *out = other;
    return sim_has(gpu, key) ? sim_uint(gpu, key, out) : OK;
}

ret_t sim_string(gpu_t gpu, const char *key, char *out, u32 length)
{
    char value[MAX_VALUE];
    NONNULL(out);
    TRY(sim_text(gpu, key, value, sizeof value));
    if (strlen(value) >= length)
        return E_INSUFFICIENT_SIZE;
    sim_copy(out, length, value);
    return OK;
}

ret_t sim_list(gpu_t gpu, const char *key, u64 *out, u32 max, u32 *count)
{
    char value[MAX_VALUE], *rest = value, *item;
    *count = 0;
    TRY(sim_text(gpu, key, value, sizeof value));
    while ((item = strsep(&rest, ",")) && *item) {
        if (*count < max)
            out[*count] = sim_parse(item);
        ++*count;
    }
    return OK;
}

static int stored(enum root root, const char *name, gpu_t gpu, const char *key, u64 *out)
{
    char file[160], value[64];
    if (!sim_file_get(root, sim_gpu_file(gpu, name, file, sizeof file), key, value, sizeof value))
        return 0;
    *out = sim_parse(value);
    return 1;
}

static ret_t store(enum root root, const char *name, gpu_t gpu, const char *key, const u64 *value)
{
    char file[160], text[32];
    TRY(sim_may_set(gpu));
    if (value)
        snprintf(text, sizeof text, "%llu", *value);
    return sim_file_set(root, sim_gpu_file(gpu, name, file, sizeof file), key, value ? text : NULL) ? E_UNKNOWN : OK;
}

int sim_setting(gpu_t gpu, const char *key, u64 *out)
{
    return stored(ROOT_RUN, "settings", gpu, key, out);
}

int sim_persistent(gpu_t gpu, const char *key, u64 *out)
{
    return stored(ROOT_LIB, "persistent", gpu, key, out);
}

ret_t sim_set_setting(gpu_t gpu, const char *key, const u64 *value)
{
    return store(ROOT_RUN, "settings", gpu, key, value);
}

ret_t sim_set_persistent(gpu_t gpu, const char *key, const u64 *value)
{
    return store(ROOT_LIB, "persistent", gpu, key, value);
}

/* Setters need root, and a device that takes orders. */
ret_t sim_may_set(gpu_t gpu)
{
    if (!sim_privileged() || sim_fault(gpu, "no_permission", NULL, 0) || sim_fault(NULL, "no_permission", NULL, 0))
        return E_NO_PERMISSION;
    if (sim_fault(gpu, "not_supported", NULL, 0))
        return E_NOT_SUPPORTED;
    return OK;
}
