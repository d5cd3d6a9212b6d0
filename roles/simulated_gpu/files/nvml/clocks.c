/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Clocks: readings, ranges, locked and application clocks, performance state, reasons for being slow.
 * Types: 0 graphics, 1 SM, 2 memory, 3 video.
 */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define TYPES 4
#define MAX_CLOCKS 512

static const char *key_for(const char *kind, u32 type, char *buffer, size_t size)
{
    snprintf(buffer, size, "clock.%s%u", kind, type);
    return buffer;
}

static ret_t clock_value(gpu_t gpu, const char *kind, u32 type, u32 *out)
{
    char key[64];
    return type < TYPES ? sim_uint(gpu, key_for(kind, type, key, sizeof key), out) : E_INVALID_ARGUMENT;
}

/* locked clocks clamp what the GPU runs at */
static void clamp(gpu_t gpu, u32 type, u32 *mhz)
{
    u64 limit;
    const char *low = type == 2 ? "clock.memory.locked.min" : "clock.graphics.locked.min";
    const char *high = type == 2 ? "clock.memory.locked.max" : "clock.graphics.locked.max";
    if (type == 3)
        return;
    if (sim_setting(gpu, low, &limit) && *mhz < limit)
        *mhz = (u32)limit;
    if (sim_setting(gpu, high, &limit) && *mhz > limit)
        *mhz = (u32)limit;
}

API ret_t nvmlDeviceGetClockInfo(gpu_t gpu, u32 type, u32 *mhz)
{
    ENTER_GPU(gpu);
    TRY(clock_value(gpu, "", type, mhz));
    clamp(gpu, type, mhz);
    return OK;
}

API ret_t nvmlDeviceGetMaxClockInfo(gpu_t gpu, u32 type, u32 *mhz) { ENTER_GPU(gpu); return clock_value(gpu, "max.", type, mhz); }
API ret_t nvmlDeviceGetMaxCustomerBoostClock(gpu_t gpu, u32 type, u32 *mhz) { ENTER_GPU(gpu); return clock_value(gpu, "boost.", type, mhz); }
API ret_t nvmlDeviceGetDefaultApplicationsClock(gpu_t gpu, u32 type, u32 *mhz) { ENTER_GPU(gpu); return clock_value(gpu, "application.", type, mhz); }

API ret_t nvmlDeviceGetApplicationsClock(gpu_t gpu, u32 type, u32 *mhz)
{
    u64 set;
    ENTER_GPU(gpu);
    TRY(clock_value(gpu, "application.", type, mhz));
    if (sim_setting(gpu, type == 2 ? "clock.application.memory" : "clock.application.graphics", &set))
        *mhz = (u32)set;
    return OK;
}

API ret_t nvmlDeviceGetClock(gpu_t gpu, u32 type, u32 id, u32 *mhz)
{
    ENTER_GPU(gpu);
    switch (id) {
    case 0: return nvmlDeviceGetClockInfo(gpu, type, mhz);
    case 1: return nvmlDeviceGetApplicationsClock(gpu, type, mhz);
    case 2: return nvmlDeviceGetDefaultApplicationsClock(gpu, type, mhz);
    case 3: return nvmlDeviceGetMaxCustomerBoostClock(gpu, type, mhz);
    default: return E_INVALID_ARGUMENT;
    }
}

/* "1980:345:15" is a range with a step, "3201,2201" a list */
static ret_t clock_list(gpu_t gpu, const char *key, u32 *out, u32 *n)
{
    char text[MAX_VALUE], *end;
    *n = 0;
    TRY(sim_text(gpu, key, text, sizeof text));
    for (char *at = text; *at; at = *end == ',' ? end + 1 : end) {
        long high = strtol(at, &end, 10), low = high, step = 1;
        if (*end == ':')
            low = strtol(end + 1, &end, 10);
        if (*end == ':')
            step = strtol(end + 1, &end, 10);
        if (end == at || step < 1)
            return E_UNKNOWN;
        for (long mhz = high; mhz >= low && *n < MAX_CLOCKS; mhz -= step)
            out[(*n)++] = (u32)mhz;
    }
    return OK;
}

static ret_t give(const u32 *clocks, u32 n, u32 *count, u32 *out)
{
    u32 room = *count;
    *count = n;
    if (room < n || !out)
        return E_INSUFFICIENT_SIZE;
    memcpy(out, clocks, n * sizeof *out);
    return OK;
}

API ret_t nvmlDeviceGetSupportedMemoryClocks(gpu_t gpu, u32 *count, u32 *out)
{
    u32 clocks[MAX_CLOCKS], n;
    ENTER_GPU(gpu);
    NONNULL(count);
    TRY(clock_list(gpu, "clocks.memory", clocks, &n));
    return give(clocks, n, count, out);
}

static int supported(gpu_t gpu, const char *key, u32 mhz)
{
    u32 clocks[MAX_CLOCKS], n;
    if (clock_list(gpu, key, clocks, &n) != OK)
        return 0;
    while (n--)
        if (clocks[n] == mhz)
            return 1;
    return 0;
}

static ret_t graphics_key(gpu_t gpu, u32 memory, char *key, size_t size)
{
    if (!sim_has(gpu, "clocks.memory"))
        return E_NOT_SUPPORTED;
    if (!supported(gpu, "clocks.memory", memory))
        return E_NOT_FOUND;
    snprintf(key, size, "clocks.graphics.%u", memory);
    if (!sim_has(gpu, key))
        sim_copy(key, size, "clocks.graphics");
    return OK;
}

API ret_t nvmlDeviceGetSupportedGraphicsClocks(gpu_t gpu, u32 memory, u32 *count, u32 *out)
{
    u32 clocks[MAX_CLOCKS], n;
    char key[64];
    ENTER_GPU(gpu);
    NONNULL(count);
    TRY(graphics_key(gpu, memory, key, sizeof key));
    TRY(clock_list(gpu, key, clocks, &n));
    return give(clocks, n, count, out);
}

API ret_t nvmlDeviceSetApplicationsClocks(gpu_t gpu, u32 memory, u32 graphics)
{
    char key[64];
    u64 m = memory, g = graphics;
    ENTER_GPU(gpu);
    TRY(sim_may_set(gpu));
    if (!sim_has(gpu, "clock.application.0"))
        return E_NOT_SUPPORTED;
    if (graphics_key(gpu, memory, key, sizeof key) != OK || !supported(gpu, key, graphics))
        return E_INVALID_ARGUMENT;
    TRY(sim_set_setting(gpu, "clock.application.memory", &m));
    return sim_set_setting(gpu, "clock.application.graphics", &g);
}

API ret_t nvmlDeviceResetApplicationsClocks(gpu_t gpu)
{
    ENTER_GPU(gpu);
    if (!sim_has(gpu, "clock.application.0"))
        return E_NOT_SUPPORTED;
    TRY(sim_set_setting(gpu, "clock.application.memory", NULL));
    return sim_set_setting(gpu, "clock.application.graphics", NULL);
}

/* symbolic limits of nvml.h: TDP and unlimited mean the highest clock */
static u64 resolve(u32 mhz, u32 max) { return mhz > 0xffffff00u ? max : mhz; }

static ret_t lock_clocks(gpu_t gpu, const char *what, u32 type, const char *list, u32 low, u32 high)
{
    u32 clocks[MAX_CLOCKS], n, max;
    char key[64];
    TRY(sim_may_set(gpu));
    TRY(clock_value(gpu, "max.", type, &max));
    TRY(clock_list(gpu, list, clocks, &n));
    u64 a = resolve(low, max), b = resolve(high, max);
    if (a > b || b > max || !n || b < clocks[n - 1])
        return E_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "clock.%s.locked.min", what);
    TRY(sim_set_setting(gpu, key, &a));
    snprintf(key, sizeof key, "clock.%s.locked.max", what);
    return sim_set_setting(gpu, key, &b);
}

static ret_t unlock_clocks(gpu_t gpu, const char *what)
{
    char key[64];
    snprintf(key, sizeof key, "clock.%s.locked.min", what);
    TRY(sim_set_setting(gpu, key, NULL));
    snprintf(key, sizeof key, "clock.%s.locked.max", what);
    return sim_set_setting(gpu, key, NULL);
}

API ret_t nvmlDeviceSetGpuLockedClocks(gpu_t gpu, u32 low, u32 high) { ENTER_GPU(gpu); return lock_clocks(gpu, "graphics", 0, "clocks.graphics", low, high); }
API ret_t nvmlDeviceResetGpuLockedClocks(gpu_t gpu) { ENTER_GPU(gpu); return unlock_clocks(gpu, "graphics"); }
API ret_t nvmlDeviceSetMemoryLockedClocks(gpu_t gpu, u32 low, u32 high) { ENTER_GPU(gpu); return lock_clocks(gpu, "memory", 2, "clocks.memory", low, high); }
API ret_t nvmlDeviceResetMemoryLockedClocks(gpu_t gpu) { ENTER_GPU(gpu); return unlock_clocks(gpu, "memory"); }

API ret_t nvmlDeviceGetMinMaxClockOfPState(gpu_t gpu, u32 type, u32 state, u32 *low, u32 *high)
{
    char key[64], text[64], *end;
    ENTER_GPU(gpu);
    NONNULL(low);
    NONNULL(high);
    if (type >= TYPES || state > 15)
        return E_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "pstate.%u.%u", state, type);
    if (sim_text(gpu, key, text, sizeof text) != OK)
        return E_UNKNOWN;
    *low = (u32)strtoul(text, &end, 10);
    *high = *end ? (u32)strtoul(end + 1, NULL, 10) : *low;
    return OK;
}

API ret_t nvmlDeviceGetPerformanceState(gpu_t gpu, u32 *state) { ENTER_GPU(gpu); return sim_uint(gpu, "pstate", state); }
API ret_t nvmlDeviceGetPowerState(gpu_t gpu, u32 *state) { ENTER_GPU(gpu); return sim_uint(gpu, "pstate", state); }

API ret_t nvmlDeviceGetSupportedPerformanceStates(gpu_t gpu, u32 *states, u32 size)
{
    u64 list[16];
    u32 n;
    ENTER_GPU(gpu);
    NONNULL(states);
    TRY(sim_list(gpu, "pstates", list, 16, &n));
    u32 room = size / sizeof *states;
    if (room < n)
        return E_INSUFFICIENT_SIZE;
    for (u32 i = 0; i < room; i++)
        states[i] = i < n ? (u32)list[i] : 32;
    return OK;
}

/* What the profile or an injected reading says, plus the power cap when the draw sits at the limit. */
ret_t sim_event_reasons(gpu_t gpu, u64 *out)
{
    u32 draw, limit;
    NONNULL(out);
    TRY(sim_u64(gpu, "event_reasons", out));
    if (sim_uint(gpu, "power.draw", &draw) == OK && sim_power_limit(gpu, &limit) == OK && draw > limit)
        *out = (*out & ~1ULL) | 4;
    return OK;
}

API ret_t nvmlDeviceGetCurrentClocksEventReasons(gpu_t gpu, u64 *out) { ENTER_GPU(gpu); return sim_event_reasons(gpu, out); }
API ret_t nvmlDeviceGetCurrentClocksThrottleReasons(gpu_t gpu, u64 *out) { ENTER_GPU(gpu); return sim_event_reasons(gpu, out); }
API ret_t nvmlDeviceGetSupportedClocksEventReasons(gpu_t gpu, u64 *out) { ENTER_GPU(gpu); NONNULL(out); return sim_u64(gpu, "event_reasons.supported", out); }
API ret_t nvmlDeviceGetSupportedClocksThrottleReasons(gpu_t gpu, u64 *out) { ENTER_GPU(gpu); NONNULL(out); return sim_u64(gpu, "event_reasons.supported", out); }

API ret_t nvmlDeviceGetViolationStatus(gpu_t gpu, u32 policy, u64 *out)     /* {reference, violation} */
{
    struct timeval now;
    char key[32];
    ENTER_GPU(gpu);
    NONNULL(out);
    if (policy > 11 || (policy > 5 && policy < 10))
        return E_INVALID_ARGUMENT;
    gettimeofday(&now, NULL);
    snprintf(key, sizeof key, "field.%u", policy < 10 ? 74 + policy : 70 + policy);     /* the same counters as fields 74…81 */
    out[0] = (u64)now.tv_sec * 1000000 + (u64)now.tv_usec;
    out[1] = 0;
    if (!sim_has(gpu, "event_reasons"))
        return E_NOT_SUPPORTED;
    return sim_has(gpu, key) ? sim_u64(gpu, key, &out[1]) : OK;
}
