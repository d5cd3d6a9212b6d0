/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The process table of a GPU: <run>/gpu/<uuid>/processes, a line "<pid>=<type> <bytes> <start time> <name>" each, written by `simulated-gpu process`.
 * type C, G or M (MPS client). A process that has ended is not shown; start time 0 marks one that this system can't see (another container).
 */
#define _GNU_SOURCE
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PROCESSES 256

typedef struct { u32 pid; u64 memory; } process_v1_t;
typedef struct { u32 pid; u64 memory; u32 gi, ci; } process_t;
typedef struct { u32 pid; u64 time; u32 sm, memory, encoder, decoder; } sample_t;

static u64 start_time(u32 pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    char *at = strrchr(text, ')');     /* the name may hold spaces */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static u32 table(gpu_t gpu, char type, process_t *out)
{
    char file[160], text[16384], *rest = text, *line;
    u32 n = 0;
    if (sim_file_read(ROOT_RUN, sim_gpu_file(gpu, "processes", file, sizeof file), text, sizeof text) < 0)
        return 0;
    while ((line = strsep(&rest, "\n")) && n < MAX_PROCESSES) {
        char *end;
        u32 pid = (u32)strtoul(line, &end, 10);
        if (*end != '=' || (type && end[1] != type))
            continue;
        u64 memory = strtoull(end + 2, &end, 10), started = strtoull(end, NULL, 10);
        if (started && start_time(pid) != started)
            continue;
        out[n++] = (process_t){pid, memory, 0xffffffffu, 0xffffffffu};
    }
    return n;
}

u64 sim_process_memory(gpu_t gpu)
{
    process_t list[MAX_PROCESSES];
    u64 sum = 0;
    for (u32 n = table(gpu, 0, list); n--; )
        sum += list[n].memory;
    return sum;
}

int sim_process_any(gpu_t gpu)
{
    process_t list[MAX_PROCESSES];
    return table(gpu, 0, list) > 0;
}

static ret_t running(const char *function, gpu_t gpu, char type, u32 *count, void *out, size_t size)
{
    process_t list[MAX_PROCESSES];
    TRY(sim_enter_gpu(function, gpu));
    NONNULL(count);
    u32 room = *count, n = table(gpu, type, list);
    *count = n;
    if (n > room || (n && !out))
        return E_INSUFFICIENT_SIZE;
    for (u32 i = 0; i < n; i++)
        memcpy((char *)out + i * size, &list[i], size);
    return OK;
}

#define RUNNING(name, type) \
    API ret_t name(gpu_t gpu, u32 *count, process_v1_t *out) { return running(__func__, gpu, type, count, out, sizeof *out); } \
    API ret_t name##_v2(gpu_t gpu, u32 *count, process_t *out) { return running(__func__, gpu, type, count, out, sizeof *out); } \
    API ret_t name##_v3(gpu_t gpu, u32 *count, process_t *out) { return running(__func__, gpu, type, count, out, sizeof *out); }

RUNNING(nvmlDeviceGetComputeRunningProcesses, 'C')
RUNNING(nvmlDeviceGetGraphicsRunningProcesses, 'G')
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses, 'M')

API ret_t nvmlDeviceGetProcessUtilization(gpu_t gpu, sample_t *out, u32 *count, u64 since)
{
    process_t list[MAX_PROCESSES];
    ENTER_GPU(gpu);
    NONNULL(count);
    (void)since;
    u32 room = *count, n = table(gpu, 0, list), busy = 0, memory = 0;
    *count = n;
    if (!n)
        return E_NOT_FOUND;
    if (room < n || !out)
        return E_INSUFFICIENT_SIZE;
    sim_uint(gpu, "utilization.gpu", &busy);
    sim_uint(gpu, "utilization.memory", &memory);
    for (u32 i = 0; i < n; i++)
        out[i] = (sample_t){list[i].pid, 0, busy / n, memory / n, 0, 0};
    return OK;
}

API ret_t nvmlSystemGetProcessName(u32 pid, char *name, u32 length)
{
    char path[64];
    ENTER();
    NONNULL(name);
    if (!length)
        return E_INVALID_ARGUMENT;
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return E_NOT_FOUND;
    size_t n = fread(name, 1, length - 1, file);
    fclose(file);
    name[n] = 0;
    return n ? OK : E_NOT_FOUND;
}
