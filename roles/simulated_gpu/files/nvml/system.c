/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The system as a whole: versions, confidential computing, units.
 */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* newest CUDA version a driver branch serves: {first branch, CUDA version as NVML numbers it} */
static const struct { u32 branch, cuda; } cuda_of[] = {
    {620, 13050}, {615, 13040}, {610, 13030}, {595, 13020}, {590, 13010}, {580, 13000}, {575, 12090}, {570, 12080}, {565, 12070}, {560, 12060}, {555, 12050},
    {550, 12040}, {545, 12030}, {535, 12020}, {530, 12010}, {525, 12000}, {520, 11080}, {515, 11070}, {510, 11060}, {495, 11050}, {470, 11040}, {465, 11030},
    {460, 11020}, {455, 11010}, {450, 11000}, {0, 10020},
};

static u32 cuda(void)
{
    u32 branch = (u32)strtoul(sim_library_version(), NULL, 10), i = 0;
    while (cuda_of[i].branch > branch)
        i++;
    return cuda_of[i].cuda;
}

static ret_t text(const char *value, char *out, u32 length)
{
    NONNULL(out);
    if (strlen(value) >= length)
        return E_INSUFFICIENT_SIZE;
    sim_copy(out, length, value);
    return OK;
}

API ret_t nvmlSystemGetDriverVersion(char *out, u32 length) { ENTER(); return text(sim_module_version(), out, length); }

/* works without a session; the first part is the CUDA major version */
API ret_t nvmlSystemGetNVMLVersion(char *out, u32 length)
{
    char value[96];
    snprintf(value, sizeof value, "%u.%s", cuda() / 1000, sim_library_version());
    return text(value, out, length);
}

API ret_t nvmlSystemGetCudaDriverVersion(int *out) { ENTER(); NONNULL(out); *out = (int)cuda(); return OK; }
API ret_t nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }

typedef struct { u32 version; char branch[80]; } branch_t;

API ret_t nvmlSystemGetDriverBranch(branch_t *out, u32 length)
{
    char value[80], recorded_for[64];
    ENTER();
    NONNULL(out);
    if (out->version != VERSION_WORD(branch_t, 1))
        return E_VERSION;
    if (sim_text(NULL, "system.branch_of", recorded_for, sizeof recorded_for) != OK || strcmp(recorded_for, sim_module_version()) != 0 ||
        sim_text(NULL, "system.branch", value, sizeof value) != OK)
        snprintf(value, sizeof value, "r%lu_00", strtoul(sim_module_version(), NULL, 10));
    return text(value, out->branch, length < sizeof out->branch ? length : sizeof out->branch);
}

API ret_t nvmlSystemGetHicVersion(u32 *count, void *entries) { ENTER(); NONNULL(count); (void)entries; *count = 0; return OK; }
API ret_t nvmlUnitGetCount(u32 *count) { ENTER(); NONNULL(count); *count = 0; return OK; }
API ret_t nvmlUnitGetHandleByIndex(u32 index, void **unit) { ENTER(); (void)index; (void)unit; return E_INVALID_ARGUMENT; }
API ret_t nvmlGetExcludedDeviceCount(u32 *count) { ENTER(); NONNULL(count); *count = 0; return OK; }

static ret_t numbers(const char *key, u32 *out, u32 n)
{
    u64 list[8];
    u32 found;
    NONNULL(out);
    TRY(sim_list(NULL, key, list, 8, &found));
    for (u32 i = 0; i < n; i++)
        out[i] = i < found ? (u32)list[i] : 0;
    return OK;
}

API ret_t nvmlSystemGetConfComputeCapabilities(u32 *out) { ENTER(); return numbers("system.conf_compute.capabilities", out, 2); }
API ret_t nvmlSystemGetConfComputeState(u32 *out) { ENTER(); return numbers("system.conf_compute.state", out, 3); }
API ret_t nvmlSystemGetConfComputeGpusReadyState(u32 *out) { ENTER(); return numbers("system.conf_compute.ready", out, 1); }

API ret_t nvmlSystemGetConfComputeSettings(u32 *out)     /* {version, environment, feature, developer tools, multi GPU} */
{
    ENTER();
    NONNULL(out);
    if (out[0] != 0x01000014)
        return E_VERSION;
    return numbers("system.conf_compute.settings", out + 1, 4);
}

typedef struct { u32 version; u64 advantage; } rotation_t;

API ret_t nvmlSystemGetConfComputeKeyRotationThresholdInfo(rotation_t *out)
{
    ENTER();
    NONNULL(out);
    if (out->version != VERSION_WORD(rotation_t, 1))
        return E_VERSION;
    return sim_u64(NULL, "system.conf_compute.key_rotation", &out->advantage);
}

API const char *nvmlErrorString(ret_t code)
{
    switch (code) {
    case 0: return "Success";
    case 1: return "Uninitialized";
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 6: return "Not Found";
    case 7: return "Insufficient Size";
    case 8: return "Insufficient External Power";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 11: return "Interrupt Request Issue";
    case 12: return "NVML Shared Library Not Found";
    case 13: return "Function Not Found";
    case 14: return "Corrupted infoROM";
    case 15: return "GPU is lost";
    case 16: return "GPU requires restart";
    case 17: return "The operating system has blocked the request.";
    case 18: return "RM has detected an NVML/RM version mismatch.";
    case 19: return "In use by another client";
    case 20: return "Insufficient Memory";
    case 21: return "No data";
    case 23: return "Insufficient Resources";
    case 25: return "Argument version mismatch";
    case 26: return "Deprecated";
    case 27: return "System is not in ready state";
    case 28: return "No GPUs were found";
    case 29: return "Invalid state";
    default: return "Unknown Error";
    }
}
