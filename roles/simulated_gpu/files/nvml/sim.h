/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What all parts of the simulated libnvidia-ml share.
 *
 * Where an answer comes from, first hit wins:
 *   1. a fault (faults.c)
 *   2. a reading someone injected at run time: <run>/gpu/<uuid>/readings
 *   3. a setting a client made: <run>/gpu/<uuid>/settings (held by the driver, lost on unload), <lib>/gpu/<uuid>/persistent (on the board)
 *   4. the profile: gpu.<n>.<key>, then gpu.*.<key>
 *   5. NOT_SUPPORTED
 * A value "!N" stands for the error code N.
 */
#ifndef SIM_H
#define SIM_H

#include <stddef.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
typedef u32 ret_t;

#define API __attribute__((visibility("default")))
#define NONNULL(p) do { if (!(p)) return E_INVALID_ARGUMENT; } while (0)
#define TRY(call) do { ret_t r_ = (call); if (r_) return r_; } while (0)
/* first line of every exported function: session, faults, validity of the handle */
#define ENTER() TRY(sim_enter(__func__))
#define ENTER_GPU(d) TRY(sim_enter_gpu(__func__, (d)))
/* versioned structs carry sizeof | version << 24 in their first word */
#define VERSION_WORD(type, v) ((u32)sizeof(type) | ((u32)(v) << 24))

enum {
    OK = 0, E_UNINITIALIZED = 1, E_INVALID_ARGUMENT = 2, E_NOT_SUPPORTED = 3, E_NO_PERMISSION = 4, E_NOT_FOUND = 6, E_INSUFFICIENT_SIZE = 7,
    E_DRIVER_NOT_LOADED = 9, E_TIMEOUT = 10, E_LIBRARY_NOT_FOUND = 12, E_GPU_IS_LOST = 15, E_MISMATCH = 18, E_IN_USE = 19, E_MEMORY = 20, E_NO_DATA = 21,
    E_INSUFFICIENT_RESOURCES = 23, E_VERSION = 25, E_NOT_READY = 27, E_INVALID_STATE = 29, E_UNKNOWN = 999
};

#define MAX_GPUS 64
#define MAX_VALUE 4096

/* a handle: a GPU, or a MIG device on one */
typedef struct sim_device {
    u32 slot;          /* number in the profile: does not move when another GPU is missing */
    u32 index;         /* NVML index: position among the GPUs that are present */
    u32 mig;           /* 0: whole GPU, else 1 + number of the MIG device */
    u32 gi, ci;
    char uuid[96];
} sim_device;
typedef sim_device *gpu_t;

/* state.c: files of key=value lines below the three roots */
enum root { ROOT_ETC, ROOT_RUN, ROOT_LIB };
void sim_path(enum root root, const char *name, char *out, size_t size);
int sim_file_get(enum root root, const char *name, const char *key, char *out, size_t size);
int sim_file_set(enum root root, const char *name, const char *key, const char *value);   /* value NULL: remove the key; 0 or -1 */
int sim_file_read(enum root root, const char *name, char *out, size_t size);              /* whole file; length or -1 */
int sim_privileged(void);
size_t sim_copy(char *out, size_t size, const char *text);
const char *sim_gpu_file(gpu_t gpu, const char *name, char *buffer, size_t size);          /* "gpu/<uuid>/<name>" */

/* profile.c */
int sim_profile_load(void);
const char *sim_profile(const char *key);
const char *sim_profile_gpu(u32 slot, const char *key);

/* session.c */
ret_t sim_enter(const char *function);
ret_t sim_enter_gpu(const char *function, gpu_t gpu);
u32 sim_count(void);
gpu_t sim_gpu(u32 index);
gpu_t sim_mig_slot(gpu_t parent, u32 n);
const char *sim_library_version(void);
const char *sim_module_version(void);
const char *sim_open_modules(void);

/* value.c: one key, one answer */
ret_t sim_text(gpu_t gpu, const char *key, char *out, size_t size);       /* raw text; gpu NULL: system key */
ret_t sim_uint(gpu_t gpu, const char *key, u32 *out);
ret_t sim_u64(gpu_t gpu, const char *key, u64 *out);
ret_t sim_s64(gpu_t gpu, const char *key, s64 *out);
ret_t sim_string(gpu_t gpu, const char *key, char *out, u32 length);      /* with NVML's INSUFFICIENT_SIZE */
ret_t sim_list(gpu_t gpu, const char *key, u64 *out, u32 max, u32 *count);/* comma separated numbers */
ret_t sim_uint_or(gpu_t gpu, const char *key, u32 other, u32 *out);       /* a missing key gives the other value */
int sim_has(gpu_t gpu, const char *key);
int sim_setting(gpu_t gpu, const char *key, u64 *out);                    /* 1 if a client set it */
int sim_persistent(gpu_t gpu, const char *key, u64 *out);
ret_t sim_set_setting(gpu_t gpu, const char *key, const u64 *value);      /* NULL removes; checks privilege */
ret_t sim_set_persistent(gpu_t gpu, const char *key, const u64 *value);
ret_t sim_may_set(gpu_t gpu);
u64 sim_parse(const char *text);

/* faults.c */
ret_t sim_fault_init(void);
ret_t sim_fault_call(const char *function, gpu_t gpu);
int sim_fault(gpu_t gpu, const char *name, char *value, size_t size);

/* processes.c */
u64 sim_process_memory(gpu_t gpu);
int sim_process_any(gpu_t gpu);

/* mig.c */
ret_t sim_mig_mode(gpu_t gpu, u32 *current, u32 *pending);
void sim_mig_name(gpu_t mig, char *out, size_t size);     /* " MIG 1g.18gb" */

/* memory.c, power.c, ecc.c, nvlink.c: shared with the field values */
ret_t sim_power_limit(gpu_t gpu, u32 *limit);
ret_t sim_ecc_mode(gpu_t gpu, u32 *current, u32 *pending);
ret_t sim_ecc_total(gpu_t gpu, u32 type, u32 counter, u64 *out);
ret_t sim_link_state(gpu_t gpu, u32 link, u32 *active);
ret_t sim_event_reasons(gpu_t gpu, u64 *out);

#endif
