/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * MIG: mode, GPU instances, compute instances, MIG devices.
 *
 * Mode: Ampere keeps it on the board (a reset makes it current), Hopper and later change it at once and forget it at reboot. Instances are
 * volatile everywhere: <run>/gpu/<uuid>/mig, lines "gi.<id>=<profile> <start> <size>" and "ci.<gi>.<ci>=<profile>".
 * Profile key mig.gi.<n>=<id>;<slices>;<instances>;<SMs>;<CE>;<dec>;<enc>;<jpeg>;<ofa>;<MiB>;<size>;<start>/<start>…;<name>
 */
#include "sim.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROFILES 16
#define INSTANCES 15
#define NAME 96

enum { P_ID, P_SLICES, P_INSTANCES, P_SM, P_CE, P_DEC, P_ENC, P_JPEG, P_OFA, P_MEMORY, P_SIZE, P_NUMBERS };

typedef struct { u32 n[P_NUMBERS]; u32 starts[8], start_count; char name[NAME]; } profile_t;
typedef struct { u32 start, size; } placement_t;
typedef struct { gpu_t gpu; u32 id, profile; placement_t placement; } gi_info_t;
typedef struct { gpu_t gpu; void *gi; u32 id, profile; placement_t placement; } ci_info_t;
typedef struct { u32 id, p2p, slices, instances, sm, ce, dec, enc, jpeg, ofa; u64 memory; } gi_profile_t;
typedef struct { u32 version, id, p2p, slices, instances, sm, ce, dec, enc, jpeg, ofa; u64 memory; char name[NAME]; } gi_profile_v2_t;
typedef struct { u32 version, id, slices, instances, sm, ce, dec, enc, jpeg, ofa; u64 memory; char name[NAME]; u32 capabilities; } gi_profile_v3_t;
typedef struct { u32 id, slices, instances, sm, ce, dec, enc, jpeg, ofa; } ci_profile_t;
typedef struct { u32 version; ci_profile_t p; char name[NAME]; } ci_profile_v2_t;
typedef struct { u32 version; ci_profile_t p; char name[NAME]; u32 capabilities; } ci_profile_v3_t;
typedef struct { u32 sm, ce, dec, enc, jpeg, ofa, gi_slices, ci_slices; u64 memory; } attributes_t;

static int volatile_mode(gpu_t gpu)
{
    u32 architecture = 0;
    sim_uint(gpu, "architecture", &architecture);
    return architecture >= 9;     /* Hopper */
}

ret_t sim_mig_mode(gpu_t gpu, u32 *current, u32 *pending)
{
    u64 value;
    TRY(sim_uint(gpu, "mig.mode", current));
    if (volatile_mode(gpu) ? sim_setting(gpu, "mig.mode", &value) : sim_persistent(gpu, "mig.current", &value))
        *current = (u32)value;
    *pending = !volatile_mode(gpu) && sim_persistent(gpu, "mig.pending", &value) ? (u32)value : *current;
    return OK;
}

API ret_t nvmlDeviceGetMigMode(gpu_t gpu, u32 *current, u32 *pending)
{
    ENTER_GPU(gpu);
    NONNULL(current);
    NONNULL(pending);
    return gpu->mig ? E_NOT_SUPPORTED : sim_mig_mode(gpu, current, pending);
}

API ret_t nvmlDeviceSetMigMode(gpu_t gpu, u32 mode, ret_t *activation)
{
    u32 current, pending;
    u64 value = mode;
    ENTER_GPU(gpu);
    NONNULL(activation);
    TRY(sim_may_set(gpu));
    TRY(sim_mig_mode(gpu, &current, &pending));
    if (mode > 1)
        return E_INVALID_ARGUMENT;
    *activation = OK;
    if (mode != current && sim_process_any(gpu))
        *activation = E_IN_USE;
    if (volatile_mode(gpu))
        return *activation ? OK : sim_set_setting(gpu, "mig.mode", &value);
    TRY(sim_set_persistent(gpu, "mig.pending", &value));
    return *activation ? OK : sim_set_persistent(gpu, "mig.current", &value);     /* the driver resets an idle GPU by itself */
}

static ret_t mig_on(gpu_t gpu)
{
    u32 current, pending;
    if (gpu->mig)
        return E_INVALID_ARGUMENT;
    TRY(sim_mig_mode(gpu, &current, &pending));
    return current ? OK : E_NOT_SUPPORTED;
}

API ret_t nvmlDeviceGetMaxMigDeviceCount(gpu_t gpu, u32 *count)
{
    ENTER_GPU(gpu);
    NONNULL(count);
    *count = mig_on(gpu) == OK ? 7 : 0;
    return OK;
}

static ret_t profile_at(gpu_t gpu, u32 index, profile_t *out)
{
    char key[32], text[256], *at = text;
    if (!sim_has(gpu, "mig.gi.0"))
        return E_NOT_SUPPORTED;
    if (index >= PROFILES)
        return E_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "mig.gi.%u", index);
    TRY(sim_text(gpu, key, text, sizeof text));
    memset(out, 0, sizeof *out);
    for (int i = 0; i < P_NUMBERS; i++, at += *at == ';')
        out->n[i] = (u32)strtoul(at, &at, 10);
    while (*at && *at != ';') {
        if (out->start_count < 8)
            out->starts[out->start_count++] = (u32)strtoul(at, &at, 10);
        at += *at == '/';
    }
    sim_copy(out->name, sizeof out->name, *at ? at + 1 : at);
    return OK;
}

static ret_t profile_by_id(gpu_t gpu, u32 id, profile_t *out)
{
    if (!sim_has(gpu, "mig.gi.0"))
        return E_NOT_SUPPORTED;
    for (u32 i = 0; i < PROFILES; i++)
        if (profile_at(gpu, i, out) == OK && out->n[P_ID] == id)
            return OK;
    return E_INVALID_ARGUMENT;
}

/* state */
static int gi_get(gpu_t gpu, u32 gi, u32 *profile, placement_t *where)
{
    char file[160], key[16], text[64], *at;
    snprintf(key, sizeof key, "gi.%u", gi);
    if (!sim_file_get(ROOT_RUN, sim_gpu_file(gpu, "mig", file, sizeof file), key, text, sizeof text))
        return 0;
    *profile = (u32)strtoul(text, &at, 10);
    where->start = (u32)strtoul(at, &at, 10);
    where->size = (u32)strtoul(at, &at, 10);
    return 1;
}

static int ci_get(gpu_t gpu, u32 gi, u32 ci, u32 *profile)
{
    char file[160], key[24], text[64];
    snprintf(key, sizeof key, "ci.%u.%u", gi, ci);
    if (!sim_file_get(ROOT_RUN, sim_gpu_file(gpu, "mig", file, sizeof file), key, text, sizeof text))
        return 0;
    *profile = (u32)strtoul(text, NULL, 10);
    return 1;
}

static ret_t put(gpu_t gpu, const char *key, const char *value)
{
    char file[160];
    TRY(sim_may_set(gpu));
    return sim_file_set(ROOT_RUN, sim_gpu_file(gpu, "mig", file, sizeof file), key, value) ? E_UNKNOWN : OK;
}

static int is_free(gpu_t gpu, u32 start, u32 size)
{
    u32 profile;
    placement_t used;
    for (u32 gi = 0; gi < INSTANCES; gi++)
        if (gi_get(gpu, gi, &profile, &used) && start < used.start + used.size && used.start < start + size)
            return 0;
    return 1;
}

static u32 capacity(gpu_t gpu, const profile_t *p)
{
    u32 n = 0, next = 0;
    for (u32 i = 0; i < p->start_count && n < p->n[P_INSTANCES]; i++)
        if (p->starts[i] >= next && is_free(gpu, p->starts[i], p->n[P_SIZE])) {
            n++;
            next = p->starts[i] + p->n[P_SIZE];
        }
    return n;
}

/* handles of instances are numbers: tag, GPU, GI, CI */
#define TAG 0x51ULL
static void *make_handle(gpu_t gpu, u32 gi, u32 ci) { return (void *)(uintptr_t)(TAG << 32 | (u64)gpu->index << 16 | gi << 8 | ci); }

static ret_t open_handle(const char *function, void *handle, gpu_t *gpu, u32 *gi, u32 *ci)
{
    u64 h = (u64)(uintptr_t)handle;
    u32 profile;
    placement_t where;
    TRY(sim_enter(function));
    if (h >> 32 != TAG || !(*gpu = sim_gpu(h >> 16 & 0xffff)))
        return E_INVALID_ARGUMENT;
    *gi = h >> 8 & 0xff;
    *ci = h & 0xff;
    TRY(sim_enter_gpu(function, *gpu));
    return gi_get(*gpu, *gi, &profile, &where) ? OK : E_NOT_FOUND;
}

/* GPU instances */
API ret_t nvmlDeviceGetGpuInstanceProfileInfo(gpu_t gpu, u32 index, gi_profile_t *out)
{
    profile_t p;
    ENTER_GPU(gpu);
    NONNULL(out);
    TRY(profile_at(gpu, index, &p));
    *out = (gi_profile_t){p.n[P_ID], 0, p.n[P_SLICES], p.n[P_INSTANCES], p.n[P_SM], p.n[P_CE], p.n[P_DEC], p.n[P_ENC], p.n[P_JPEG], p.n[P_OFA], p.n[P_MEMORY]};
    return OK;
}

API ret_t nvmlDeviceGetGpuInstanceProfileInfoV(gpu_t gpu, u32 index, void *out)
{
    profile_t p;
    u32 version;
    ENTER_GPU(gpu);
    NONNULL(out);
    memcpy(&version, out, sizeof version);
    if (version != VERSION_WORD(gi_profile_v2_t, 2) && version != VERSION_WORD(gi_profile_v3_t, 3))
        return E_VERSION;
    TRY(profile_at(gpu, index, &p));
    if (version >> 24 == 2) {     /* the real library answers with a version word of 0 */
        gi_profile_v2_t v2 = {0, p.n[P_ID], 0, p.n[P_SLICES], p.n[P_INSTANCES], p.n[P_SM], p.n[P_CE], p.n[P_DEC], p.n[P_ENC], p.n[P_JPEG], p.n[P_OFA], p.n[P_MEMORY], ""};
        sim_copy(v2.name, sizeof v2.name, p.name);
        memcpy(out, &v2, sizeof v2);
    } else {
        gi_profile_v3_t v3 = {0, p.n[P_ID], p.n[P_SLICES], p.n[P_INSTANCES], p.n[P_SM], p.n[P_CE], p.n[P_DEC], p.n[P_ENC], p.n[P_JPEG], p.n[P_OFA], p.n[P_MEMORY], "", 0};
        sim_copy(v3.name, sizeof v3.name, p.name);
        memcpy(out, &v3, sizeof v3);
    }
    return OK;
}

API ret_t nvmlDeviceGetGpuInstanceRemainingCapacity(gpu_t gpu, u32 id, u32 *count)
{
    profile_t p;
    ENTER_GPU(gpu);
    NONNULL(count);
    TRY(profile_by_id(gpu, id, &p));
    *count = capacity(gpu, &p);
    return OK;
}

API ret_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu_t gpu, u32 id, placement_t *out, u32 *count)
{
    profile_t p;
    ENTER_GPU(gpu);
    NONNULL(count);
    TRY(mig_on(gpu));
    TRY(profile_by_id(gpu, id, &p));
    for (u32 i = 0; out && i < p.start_count && i < *count; i++)
        out[i] = (placement_t){p.starts[i], p.n[P_SIZE]};
    ret_t result = out && *count < p.start_count ? E_INSUFFICIENT_SIZE : OK;
    *count = p.start_count;
    return result;
}

static ret_t create(gpu_t gpu, u32 id, const placement_t *wish, void **out)
{
    profile_t p;
    u32 gi = 0, unused;
    placement_t where;
    char key[16], value[48];
    NONNULL(out);
    TRY(sim_may_set(gpu));
    TRY(mig_on(gpu));
    TRY(profile_by_id(gpu, id, &p));
    if (!capacity(gpu, &p))
        return E_INSUFFICIENT_RESOURCES;
    u32 i = 0;
    while (i < p.start_count && !((!wish || wish->start == p.starts[i]) && is_free(gpu, p.starts[i], p.n[P_SIZE])))
        i++;
    if (i == p.start_count)
        return wish ? E_INSUFFICIENT_RESOURCES : E_INVALID_ARGUMENT;
    while (gi_get(gpu, ++gi, &unused, &where))
        ;
    if (id == 0)
        gi = 0;
    snprintf(key, sizeof key, "gi.%u", gi);
    snprintf(value, sizeof value, "%u %u %u", id, p.starts[i], p.n[P_SIZE]);
    TRY(put(gpu, key, value));
    *out = make_handle(gpu, gi, 0);
    return OK;
}

API ret_t nvmlDeviceCreateGpuInstance(gpu_t gpu, u32 id, void **out) { ENTER_GPU(gpu); return create(gpu, id, NULL, out); }
API ret_t nvmlDeviceCreateGpuInstanceWithPlacement(gpu_t gpu, u32 id, const placement_t *where, void **out) { ENTER_GPU(gpu); NONNULL(where); return create(gpu, id, where, out); }

API ret_t nvmlDeviceGetGpuInstances(gpu_t gpu, u32 id, void **out, u32 *count)
{
    u32 profile, n = 0;
    placement_t where;
    ENTER_GPU(gpu);
    NONNULL(count);
    NONNULL(out);
    TRY(mig_on(gpu));
    for (u32 gi = 0; gi < INSTANCES; gi++)
        if (gi_get(gpu, gi, &profile, &where) && profile == id)
            out[n++] = make_handle(gpu, gi, 0);
    *count = n;
    return OK;
}

API ret_t nvmlDeviceGetGpuInstanceById(gpu_t gpu, u32 gi, void **out)
{
    u32 profile;
    placement_t where;
    ENTER_GPU(gpu);
    NONNULL(out);
    TRY(mig_on(gpu));
    if (gi >= INSTANCES || !gi_get(gpu, gi, &profile, &where))
        return E_NOT_FOUND;
    *out = make_handle(gpu, gi, 0);
    return OK;
}

API ret_t nvmlGpuInstanceGetInfo(void *handle, gi_info_t *out)
{
    gpu_t gpu;
    u32 gi, ci;
    TRY(open_handle(__func__, handle, &gpu, &gi, &ci));
    NONNULL(out);
    out->gpu = gpu;
    out->id = gi;
    gi_get(gpu, gi, &out->profile, &out->placement);
    return OK;
}

API ret_t nvmlGpuInstanceDestroy(void *handle)
{
    gpu_t gpu;
    u32 gi, ci, unused;
    char key[16];
    TRY(open_handle(__func__, handle, &gpu, &gi, &ci));
    TRY(sim_may_set(gpu));
    for (u32 i = 0; i < 8; i++)
        if (ci_get(gpu, gi, i, &unused))
            return E_IN_USE;
    snprintf(key, sizeof key, "gi.%u", gi);
    return put(gpu, key, NULL);
}

/* Compute instances. Compute profiles 0…4, 7 stand for 1, 2, 3, 4, 7, 8 slices; one that spans the whole GPU instance has no second name. */
static u32 slices_of(u32 profile)
{
    static const u32 slices[] = {1, 2, 3, 4, 7, 8, 6, 1};
    return profile < 8 ? slices[profile] : 0;
}

static ret_t ci_profile(gpu_t gpu, u32 gi, u32 profile, ci_profile_t *out, char *name)
{
    u32 id;
    placement_t where;
    profile_t p;
    gi_get(gpu, gi, &id, &where);
    TRY(profile_by_id(gpu, id, &p));
    u32 slices = slices_of(profile);
    if (!slices)
        return E_INVALID_ARGUMENT;
    if (slices > p.n[P_SLICES] || profile == 7)
        return E_NOT_SUPPORTED;
    *out = (ci_profile_t){profile, slices, p.n[P_SLICES] / slices, p.n[P_SM] * slices / p.n[P_SLICES], p.n[P_CE], p.n[P_DEC], p.n[P_ENC], p.n[P_JPEG], p.n[P_OFA]};
    if (slices == p.n[P_SLICES])
        snprintf(name, NAME, "%s", p.name);
    else
        snprintf(name, NAME, "MIG %uc.%.80s", slices, strncmp(p.name, "MIG ", 4) ? p.name : p.name + 4);
    return OK;
}

API ret_t nvmlGpuInstanceGetComputeInstanceProfileInfo(void *handle, u32 profile, u32 engine, ci_profile_t *out)
{
    gpu_t gpu;
    u32 gi, ci;
    char name[NAME];
    TRY(open_handle(__func__, handle, &gpu, &gi, &ci));
    NONNULL(out);
    return engine ? E_INVALID_ARGUMENT : ci_profile(gpu, gi, profile, out, name);
}

API ret_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(void *handle, u32 profile, u32 engine, ci_profile_v3_t *out)
{
    gpu_t gpu;
    u32 gi, ci;
    TRY(open_handle(__func__, handle, &gpu, &gi, &ci));
    NONNULL(out);
    if (out->version != VERSION_WORD(ci_profile_v2_t, 2) && out->version != VERSION_WORD(ci_profile_v3_t, 3))
        return E_VERSION;
    if (out->version >> 24 == 3)
        out->capabilities = 0;
    return engine ? E_INVALID_ARGUMENT : ci_profile(gpu, gi, profile, &out->p, out->name);
}

API ret_t nvmlGpuInstanceCreateComputeInstance(void *handle, u32 profile, void **out)
{
    gpu_t gpu;
    u32 gi, ci, used = 0, other, next = 8;
    char name[NAME], key[24], value[16];
    ci_profile_t p, whole;
    TRY(open_handle(__func__, handle, &gpu, &gi, &ci));
    NONNULL(out);
    TRY(ci_profile(gpu, gi, profile, &p, name));
    for (u32 i = 8; i-- > 0; )
        if (!ci_get(gpu, gi, i, &other))
            next = i;
        else
            used += slices_of(other);
    TRY(ci_profile(gpu, gi, 0, &whole, name));
    if (next == 8 || used + p.slices > whole.instances)
        return E_INSUFFICIENT_RESOURCES;
    snprintf(key, sizeof key, "ci.%u.%u", gi, next);
    snprintf(value, sizeof value, "%u", profile);
    TRY(put(gpu, key, value));
    *out = make_handle(gpu, gi, next);
    return OK;
}

API ret_t nvmlGpuInstanceGetComputeInstances(void *handle, u32 profile, void **out, u32 *count)
{
    gpu_t gpu;
    u32 gi, ci, other, n = 0;
    TRY(open_handle(__func__, handle, &gpu, &gi, &ci));
    NONNULL(out);
    NONNULL(count);
    for (u32 i = 0; i < 8; i++)
        if (ci_get(gpu, gi, i, &other) && other == profile)
            out[n++] = make_handle(gpu, gi, i);
    *count = n;
    return OK;
}

API ret_t nvmlComputeInstanceGetInfo_v2(void *handle, ci_info_t *out)
{
    gpu_t gpu;
    u32 gi, ci;
    TRY(open_handle(__func__, handle, &gpu, &gi, &ci));
    NONNULL(out);
    out->gpu = gpu;
    out->gi = make_handle(gpu, gi, 0);
    out->id = ci;
    if (!ci_get(gpu, gi, ci, &out->profile))
        return E_NOT_FOUND;
    out->placement = (placement_t){ci, slices_of(out->profile)};
    return OK;
}

API ret_t nvmlComputeInstanceGetInfo(void *handle, ci_info_t *out) { return nvmlComputeInstanceGetInfo_v2(handle, out); }

API ret_t nvmlComputeInstanceDestroy(void *handle)
{
    gpu_t gpu;
    u32 gi, ci;
    char key[24];
    TRY(open_handle(__func__, handle, &gpu, &gi, &ci));
    snprintf(key, sizeof key, "ci.%u.%u", gi, ci);
    return put(gpu, key, NULL);
}

/* MIG devices: one for each compute instance */
static void name_device(gpu_t gpu, u32 gi, u32 ci, char *out, size_t size)
{
    u64 h = 1469598103934665603ULL;
    char seed[160];
    snprintf(seed, sizeof seed, "%s/%u/%u", sim_gpu(gpu->index)->uuid, gi, ci);
    for (const char *c = seed; *c; c++)
        h = (h ^ (unsigned char)*c) * 1099511628211ULL;
    u64 g = h * 6364136223846793005ULL + 1442695040888963407ULL;
    snprintf(out, size, "MIG-%08x-%04x-5%03x-%04x-%012llx", (u32)(h >> 32), (u32)(h >> 16) & 0xffffu, (u32)h & 0xfffu, 0x8000u | ((u32)(g >> 48) & 0x3fffu), g & 0xffffffffffffULL);
}

API ret_t nvmlDeviceGetMigDeviceHandleByIndex(gpu_t gpu, u32 index, gpu_t *out)
{
    u32 n = 0, profile;
    placement_t where;
    ENTER_GPU(gpu);
    NONNULL(out);
    if (gpu->mig)
        return E_INVALID_ARGUMENT;
    if (!sim_has(gpu, "mig.mode"))
        return E_NOT_SUPPORTED;
    for (u32 gi = 0; gi < INSTANCES && mig_on(gpu) == OK; gi++)
        for (u32 ci = 0; ci < 8; ci++) {
            if (!gi_get(gpu, gi, &profile, &where) || !ci_get(gpu, gi, ci, &profile) || n++ != index)
                continue;
            gpu_t mig = sim_mig_slot(gpu, index);
            if (!mig)
                return E_NOT_FOUND;
            *mig = (sim_device){gpu->slot, gpu->index, index + 1, gi, ci, ""};
            name_device(gpu, gi, ci, mig->uuid, sizeof mig->uuid);
            *out = mig;
            return OK;
        }
    return E_NOT_FOUND;
}

void sim_mig_name(gpu_t mig, char *out, size_t size)
{
    u32 profile;
    ci_profile_t p;
    char name[NAME] = "";
    if (ci_get(mig, mig->gi, mig->ci, &profile))
        ci_profile(mig, mig->gi, profile, &p, name);
    snprintf(out, size, " %s", name);
}

API ret_t nvmlDeviceIsMigDeviceHandle(gpu_t gpu, u32 *is_mig)
{
    ENTER_GPU(gpu);
    NONNULL(is_mig);
    *is_mig = gpu->mig != 0;
    return OK;
}

API ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(gpu_t mig, gpu_t *out)
{
    ENTER_GPU(mig);
    NONNULL(out);
    if (!mig->mig)
        return E_INVALID_ARGUMENT;
    *out = sim_gpu(mig->index);
    return OK;
}

API ret_t nvmlDeviceGetGpuInstanceId(gpu_t gpu, u32 *id) { ENTER_GPU(gpu); NONNULL(id); *id = gpu->gi; return gpu->mig ? OK : E_INVALID_ARGUMENT; }
API ret_t nvmlDeviceGetComputeInstanceId(gpu_t gpu, u32 *id) { ENTER_GPU(gpu); NONNULL(id); *id = gpu->ci; return gpu->mig ? OK : E_INVALID_ARGUMENT; }

API ret_t nvmlDeviceGetAttributes_v2(gpu_t gpu, attributes_t *out)
{
    u32 id, ci;
    placement_t where;
    profile_t p;
    ENTER_GPU(gpu);
    NONNULL(out);
    if (!gpu->mig)
        return E_NOT_SUPPORTED;
    if (!gi_get(gpu, gpu->gi, &id, &where) || !ci_get(gpu, gpu->gi, gpu->ci, &ci))
        return E_NOT_FOUND;
    TRY(profile_by_id(gpu, id, &p));
    u32 slices = slices_of(ci);
    *out = (attributes_t){p.n[P_SM] * slices / p.n[P_SLICES], p.n[P_CE], p.n[P_DEC], p.n[P_ENC], p.n[P_JPEG], p.n[P_OFA], p.n[P_SLICES], slices, p.n[P_MEMORY]};
    return OK;
}

API ret_t nvmlDeviceGetAttributes(gpu_t gpu, attributes_t *out) { return nvmlDeviceGetAttributes_v2(gpu, out); }
