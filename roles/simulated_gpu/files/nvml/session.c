/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Session: which library is this, which module is loaded, which GPUs are there, who else is using them.
 */
#define _GNU_SOURCE
#include "sim.h"
#include <link.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/types.h>
#include <unistd.h>

#define MIGS 8

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int sessions;
static int client_fd = -1;
static pid_t owner;
static u32 count;
static sim_device gpus[MAX_GPUS], migs[MAX_GPUS][MIGS];
static char library[64], module[64], license[64];

struct self { uintptr_t address; char path[4096]; };

/* is this loaded object the one that holds our own code? (dladdr would need glibc 2.34) */
static int is_self(struct dl_phdr_info *object, size_t size, void *data)
{
    struct self *self = data;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        uintptr_t start = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
        if (object->dlpi_phdr[i].p_type == PT_LOAD && self->address >= start && self->address < start + object->dlpi_phdr[i].p_memsz) {
            sim_copy(self->path, sizeof self->path, object->dlpi_name);
            return 1;
        }
    }
    return 0;
}

/* The library's version is the suffix of its real file name, as with the real one; a copy without a suffix fits every module. */
static void find_library_version(void)
{
    const char *env = getenv("SIMULATED_GPU_LIBRARY_VERSION");
    struct self self = {(uintptr_t)&find_library_version, ""};
    char path[4096];
    library[0] = 0;
    if (env && *env) {
        sim_copy(library, sizeof library, env);
        return;
    }
    dl_iterate_phdr(is_self, &self);
    if (!realpath(self.path, path))
        return;
    const char *suffix = strstr(path, "libnvidia-ml.so.");
    if (suffix && strchr(suffix += strlen("libnvidia-ml.so."), '.'))
        sim_copy(library, sizeof library, suffix);
}

const char *sim_library_version(void)
{
    if (!*library)
        find_library_version();
    return *library ? library : module;
}

const char *sim_module_version(void) { return module; }
const char *sim_open_modules(void) { return license; }
u32 sim_count(void) { return count; }
gpu_t sim_gpu(u32 index) { return index < count ? &gpus[index] : NULL; }
gpu_t sim_mig_slot(gpu_t parent, u32 n) { return n < MIGS ? &migs[parent->index][n] : NULL; }

static int gpu_fault_in_file(const char *uuid, const char *name)
{
    sim_device probe = {0};
    sim_copy(probe.uuid, sizeof probe.uuid, uuid);
    return sim_fault(&probe, name, NULL, 0);
}

static void find_gpus(void)
{
    const char *gpu_count = sim_profile("gpus");
    u32 total = gpu_count ? (u32)sim_parse(gpu_count) : 0;
    count = 0;
    for (u32 slot = 0; slot < total && slot < MAX_GPUS; slot++) {
        const char *uuid = sim_profile_gpu(slot, "uuid");
        if (!uuid || gpu_fault_in_file(uuid, "missing") || sim_fault(NULL, "no_device", NULL, 0))
            continue;
        gpu_t gpu = &gpus[count];
        memset(gpu, 0, sizeof *gpu);
        gpu->slot = slot;
        gpu->index = count++;
        sim_copy(gpu->uuid, sizeof gpu->uuid, uuid);
    }
}

/* Settings that the driver holds for a GPU end when its last client leaves, unless persistence mode keeps the driver state alive.
 * Every client holds a shared lock; who can get it alone is the only one. A process table entry counts as a client. */
static void drop_settings_if_alone(void)
{
    if (client_fd < 0 || flock(client_fd, LOCK_EX | LOCK_NB) != 0)
        return;
    for (u32 i = 0; i < count && sim_privileged(); i++) {
        u64 on;
        char file[160], path[512];
        u32 by_profile = 0;
        sim_uint(&gpus[i], "persistence", &by_profile);
        if (sim_setting(&gpus[i], "persistence", &on) ? on : by_profile)
            continue;
        if (sim_process_any(&gpus[i]))
            continue;
        sim_path(ROOT_RUN, sim_gpu_file(&gpus[i], "settings", file, sizeof file), path, sizeof path);
        unlink(path);
    }
    flock(client_fd, LOCK_SH);
}

static void client_enter(void)
{
    char path[512];
    sim_path(ROOT_RUN, "clients", path, sizeof path);
    client_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (client_fd < 0 && sim_privileged())
        client_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    owner = getpid();
    drop_settings_if_alone();
    if (client_fd >= 0)
        flock(client_fd, LOCK_SH);
}

static void client_leave(void)
{
    if (client_fd < 0)
        return;
    drop_settings_if_alone();
    close(client_fd);
    client_fd = -1;
}

static ret_t start(void)
{
    TRY(sim_fault_init());
    if (sim_profile_load() != 0)
        return E_DRIVER_NOT_LOADED;
    module[0] = license[0] = 0;
    if (!sim_file_get(ROOT_RUN, "module", "version", module, sizeof module))
        return E_DRIVER_NOT_LOADED;
    sim_file_get(ROOT_RUN, "module", "license", license, sizeof license);
    if (strcmp(sim_library_version(), module) != 0)
        return E_MISMATCH;
    find_gpus();
    client_enter();
    return OK;
}

API ret_t nvmlInitWithFlags(u32 flags)
{
    (void)flags;
    pthread_mutex_lock(&mutex);
    ret_t result = sessions ? OK : start();
    if (result == OK)
        sessions++;
    pthread_mutex_unlock(&mutex);
    return result;
}

API ret_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API ret_t nvmlInit(void) { return nvmlInitWithFlags(0); }

API ret_t nvmlShutdown(void)
{
    ret_t result = OK;
    pthread_mutex_lock(&mutex);
    if (!sessions)
        result = E_UNINITIALIZED;
    else if (--sessions == 0)
        client_leave();
    pthread_mutex_unlock(&mutex);
    return result;
}

/* A process that ends without nvmlShutdown leaves too; a forked child does not, the session is its parent's. */
__attribute__((destructor)) static void at_exit(void)
{
    if (sessions && owner == getpid())
        client_leave();
}

ret_t sim_enter(const char *function)
{
    if (!sessions)
        return E_UNINITIALIZED;
    return sim_fault_call(function, NULL);
}

static int known(gpu_t gpu)
{
    if (gpu >= gpus && gpu < gpus + count)
        return 1;
    return gpu >= &migs[0][0] && gpu <= &migs[MAX_GPUS - 1][MIGS - 1] && gpu->mig;
}

ret_t sim_enter_gpu(const char *function, gpu_t gpu)
{
    TRY(sim_enter(function));
    if (!known(gpu))
        return E_INVALID_ARGUMENT;
    return sim_fault_call(function, gpu);
}
