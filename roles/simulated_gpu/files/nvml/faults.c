/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Faults: lines name=value in <run>/faults for the whole machine and <run>/gpu/<uuid>/faults for one GPU. Switched by `simulated-gpu fault`.
 */
#include "sim.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *file_of(gpu_t gpu, char *buffer, size_t size)
{
    return gpu ? sim_gpu_file(gpu, "faults", buffer, size) : "faults";
}

int sim_fault(gpu_t gpu, const char *name, char *value, size_t size)
{
    char file[160], scrap[64];
    return sim_file_get(ROOT_RUN, file_of(gpu, file, sizeof file), name, value ? value : scrap, value ? size : sizeof scrap);
}

static int is_set(gpu_t gpu, const char *name, char *value, size_t size)
{
    return sim_fault(gpu, name, value, size);
}

/* Waits that a hung driver brings: a sleep that a signal ends, or a read of a file that someone else blocks (a FUSE file: not even SIGKILL ends it). */
static void wait_as_told(gpu_t gpu)
{
    char value[512];
    if (is_set(gpu, "slow", value, sizeof value))
        usleep((useconds_t)strtoul(value, NULL, 10) * 1000);
    if (is_set(gpu, "hang", value, sizeof value))
        for (long left = strtol(value, NULL, 10); left != 0; left -= left > 0)
            sleep(1);
    if (is_set(gpu, "hang_path", value, sizeof value)) {
        char byte;
        int fd = open(value, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, &byte, 1) < 0)
            byte = 0;
        if (fd >= 0)
            close(fd);
    }
}

static int any(gpu_t gpu)
{
    char file[160], path[512];
    sim_path(ROOT_RUN, file_of(gpu, file, sizeof file), path, sizeof path);
    return access(path, R_OK) == 0;
}

ret_t sim_fault_init(void)
{
    if (!any(NULL))
        return OK;
    wait_as_told(NULL);
    if (is_set(NULL, "no_driver", NULL, 0))
        return E_DRIVER_NOT_LOADED;
    if (is_set(NULL, "mismatch", NULL, 0))
        return E_MISMATCH;
    if (is_set(NULL, "no_access", NULL, 0))
        return E_NO_PERMISSION;
    if (is_set(NULL, "unknown", NULL, 0))
        return E_UNKNOWN;
    return OK;
}

ret_t sim_fault_call(const char *function, gpu_t gpu)
{
    char name[128], value[64];
    if (!any(gpu))
        return OK;
    wait_as_told(gpu);
    snprintf(name, sizeof name, "call.%s", function);
    if (is_set(gpu, name, value, sizeof value))
        return (ret_t)strtoul(value, NULL, 10);
    if (gpu && (is_set(gpu, "lost", NULL, 0) || is_set(gpu, "missing", NULL, 0)))
        return E_GPU_IS_LOST;
    if (is_set(gpu, "unknown", NULL, 0))
        return E_UNKNOWN;
    return OK;
}
