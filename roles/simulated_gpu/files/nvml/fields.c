/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * nvmlDeviceGetFieldValues. A field is "field.<id>.<scope>" or "field.<id>" of the profile, else computed here from the same state that the
 * ordinary functions use, else NOT_SUPPORTED; ids the driver does not know give INVALID_ARGUMENT.
 */
#include "sim.h"
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3, SIGNED_INT = 5 };

typedef struct { u32 id, scope; s64 timestamp, latency; u32 type; ret_t result; union { u64 u; s64 s; u32 ui; int si; } value; } field_t;

ret_t nvmlDeviceGetPowerUsage(gpu_t gpu, u32 *power);

/* value types as a 580 driver gives them */
static u32 type_of(u32 id)
{
    if (id >= 193 && id <= 196)
        return SIGNED_INT;
    if (id <= 6 || (id >= 74 && id <= 81) || id == 83 || (id >= 138 && id <= 145) || (id >= 160 && id <= 163) || id == 191 || (id >= 269 && id <= 271) ||
        id == 301 || id == 302)
        return UNSIGNED_LONG_LONG;
    return UNSIGNED_INT;
}

static ret_t small(ret_t result, u32 value, u64 *out)
{
    *out = value;
    return result;
}

static ret_t by_link(gpu_t gpu, const char *key, u32 link, u64 *out)
{
    u32 active, value;
    TRY(sim_link_state(gpu, link, &active));
    if (!key)
        return small(OK, active, out);
    TRY(sim_uint(gpu, key, &value));
    return small(OK, active ? value : 0, out);
}

static ret_t computed(gpu_t gpu, u32 id, u32 scope, u64 *out)
{
    static const char *const remap[] = {"remap.corrected", "remap.uncorrected", "remap.pending", "remap.failure"};
    u32 value = 0, other = 0;
    ret_t result;
    switch (id) {
    case 1: result = sim_ecc_mode(gpu, &value, &other); return small(result, value, out);
    case 2: result = sim_ecc_mode(gpu, &value, &other); return small(result, other, out);
    case 3: return sim_ecc_total(gpu, 0, 0, out);
    case 4: return sim_ecc_total(gpu, 1, 0, out);
    case 5: return sim_ecc_total(gpu, 0, 1, out);
    case 6: return sim_ecc_total(gpu, 1, 1, out);
    case 31: result = sim_uint(gpu, "retired.pending", &value); return small(result, value, out);
    case 82: result = sim_uint(gpu, "temperature.memory", &value); return small(result, value, out);
    case 83: case 191: return sim_u64(gpu, "energy", out);
    case 91: result = sim_uint(gpu, "nvlink.count", &value); return small(result, value, out);
    case 94: result = sim_uint(gpu, "pcie.replays", &value); return small(result, value, out);
    case 142: case 143: case 144: case 145:
        if (!sim_has(gpu, "remap.histogram"))
            return E_NOT_SUPPORTED;
        result = sim_uint_or(gpu, remap[id - 142], 0, &value);
        return small(result, value, out);
    case 164: return by_link(gpu, "nvlink.speed", scope, out);
    case 165: return by_link(gpu, NULL, scope, out);
    case 166: return by_link(gpu, "nvlink.version", scope, out);
    case 185: result = scope ? E_NOT_SUPPORTED : nvmlDeviceGetPowerUsage(gpu, &value); return small(result, value, out);
    case 186:
        result = scope ? E_NOT_SUPPORTED : sim_has(gpu, "power.instant") ? sim_uint(gpu, "power.instant", &value) : nvmlDeviceGetPowerUsage(gpu, &value);
        return small(result, value, out);
    case 187: result = sim_uint(gpu, "power.min", &value); return small(result, value, out);
    case 188: result = sim_uint(gpu, "power.max", &value); return small(result, value, out);
    case 189: result = sim_uint(gpu, "power.default", &value); return small(result, value, out);
    case 190: case 192: result = sim_power_limit(gpu, &value); return small(result, value, out);
    case 193: case 194: case 195: case 196: {
        static const char *const limit[] = {"temperature.shutdown_tlimit", "temperature.slowdown_tlimit", "temperature.memory_tlimit", "temperature.max_tlimit"};
        return sim_s64(gpu, limit[id - 193], (s64 *)out);
    }
    default: return E_NOT_SUPPORTED;
    }
}

/* Scopes: power limits 0 GPU, 1 module, 2 memory, only the GPU has them; links their number. */
static ret_t scope_fits(gpu_t gpu, u32 id, u32 scope)
{
    u32 links = 0;
    if (id >= 187 && id <= 192 && scope)
        return scope == 1 || id == 191 || !sim_has(gpu, "power.default") ? E_NOT_SUPPORTED : E_INVALID_ARGUMENT;
    if ((id >= 138 && id <= 141) || id == 146 || (id >= 160 && id <= 167)) {     /* the scope is a link */
        sim_uint(gpu, "nvlink.count", &links);
        if (scope >= links)
            return links && id == 167 ? E_INVALID_ARGUMENT : E_NOT_SUPPORTED;
    }
    return OK;
}

static ret_t one(gpu_t gpu, u32 id, u32 scope, u64 *out)
{
    char key[48];
    u32 last = 302;
    TRY(scope_fits(gpu, id, scope));
    snprintf(key, sizeof key, "field.%u.%u", id, scope);
    if (sim_has(gpu, key))
        return sim_u64(gpu, key, out);
    snprintf(key, sizeof key, "field.%u", id);
    if (sim_has(gpu, key))
        return sim_u64(gpu, key, out);
    sim_uint_or(gpu, "field.last", 302, &last);
    return id && id <= last ? computed(gpu, id, scope, out) : E_INVALID_ARGUMENT;
}

/* A 580 driver on a GPU without C2C: one C2C field in a call spoils others of the same call, wherever they stand. They then come back as success,
 * type 0, value 0, supported or not. Clients that ask for everything at once must not take that for a limit of 0 W. */
static int is_c2c(u32 id) { return (id >= 170 && id <= 172) || (id >= 231 && id <= 234); }

static int can_be_spoilt(u32 id)
{
    return (id >= 187 && id <= 196 && id != 191) || (id >= 251 && id <= 268) || (id >= 270 && id <= 273) || (id >= 275 && id <= 288);
}

static int spoils(gpu_t gpu, const field_t *fields, int count)
{
    u32 c2c = 0;
    sim_uint(gpu, "c2c", &c2c);
    for (int i = 0; !c2c && i < count; i++)
        if (is_c2c(fields[i].id))
            return 1;
    return 0;
}

API ret_t nvmlDeviceGetFieldValues(gpu_t gpu, int count, field_t *fields)
{
    struct timeval now;
    ENTER_GPU(gpu);
    NONNULL(fields);
    if (count < 1)
        return E_INVALID_ARGUMENT;
    gettimeofday(&now, NULL);
    int spoilt = spoils(gpu, fields, count);
    for (int i = 0; i < count; i++) {
        field_t *f = &fields[i];
        u64 value = 0;
        f->timestamp = (s64)now.tv_sec * 1000000 + now.tv_usec;
        f->latency = 0;
        f->result = one(gpu, f->id, f->scope, &value);
        f->type = f->result ? 0 : type_of(f->id);
        if (spoilt && can_be_spoilt(f->id)) {
            f->result = OK;
            f->type = 0;
            value = 0;
        }
        f->value.u = f->type == UNSIGNED_LONG_LONG ? value : (u32)value;
    }
    return OK;
}

API ret_t nvmlDeviceClearFieldValues(gpu_t gpu, int count, field_t *fields)
{
    ENTER_GPU(gpu);
    NONNULL(fields);
    for (int i = 0; i < count; i++)
        fields[i].result = E_NOT_SUPPORTED;
    return OK;
}
