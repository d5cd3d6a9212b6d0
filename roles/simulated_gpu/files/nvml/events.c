/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Events: a set waits for new lines in <run>/gpu/<uuid>/events ("<type> <data>"), which `simulated-gpu set xid` and faults append.
 */
#define _GNU_SOURCE
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { gpu_t gpu; u64 type, data; u32 gi, ci; } event_t;
typedef struct { u64 types[MAX_GPUS]; size_t seen[MAX_GPUS]; } set_t;

static size_t events(gpu_t gpu, char *text, size_t size)
{
    char file[160];
    int n = sim_file_read(ROOT_RUN, sim_gpu_file(gpu, "events", file, sizeof file), text, size);
    return n > 0 ? (size_t)n : 0;
}

API ret_t nvmlEventSetCreate(set_t **set)
{
    ENTER();
    NONNULL(set);
    *set = calloc(1, sizeof **set);
    return *set ? OK : E_MEMORY;
}

API ret_t nvmlEventSetFree(set_t *set)
{
    ENTER();
    NONNULL(set);
    free(set);
    return OK;
}

API ret_t nvmlDeviceRegisterEvents(gpu_t gpu, u64 types, set_t *set)
{
    char text[16384];
    u64 supported = 0;
    ENTER_GPU(gpu);
    NONNULL(set);
    TRY(sim_u64(gpu, "event_types", &supported));
    if (types & ~supported)
        return E_NOT_SUPPORTED;
    set->types[gpu->index] = types;
    set->seen[gpu->index] = events(gpu, text, sizeof text);
    return OK;
}

static int next_event(set_t *set, event_t *out)
{
    char text[16384];
    for (u32 i = 0; i < sim_count(); i++) {
        gpu_t gpu = sim_gpu(i);
        size_t length;
        if (!set->types[i] || (length = events(gpu, text, sizeof text)) <= set->seen[i])
            continue;
        char *line = text + set->seen[i], *end;
        u64 type = strtoull(line, &end, 0), data = strtoull(end, NULL, 0);
        set->seen[i] += (size_t)(strchrnul(line, '\n') - line) + 1;
        if (!(type & set->types[i]))
            continue;
        *out = (event_t){gpu, type, data, 0xffffffffu, 0xffffffffu};
        return 1;
    }
    return 0;
}

API ret_t nvmlEventSetWait_v2(set_t *set, event_t *out, u32 timeout_ms)
{
    ENTER();
    NONNULL(set);
    NONNULL(out);
    for (u32 waited = 0; ; waited += 20) {
        if (next_event(set, out))
            return OK;
        if (waited >= timeout_ms)
            return E_TIMEOUT;
        usleep(20000);
    }
}

API ret_t nvmlEventSetWait(set_t *set, event_t *out, u32 timeout_ms) { return nvmlEventSetWait_v2(set, out, timeout_ms); }
