/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Answers that are one value of the profile: one line each.
 */
#include "sim.h"
#include <string.h>

#define UINT(function, key) API ret_t function(gpu_t gpu, u32 *out) { ENTER_GPU(gpu); return sim_uint(gpu, key, out); }
#define U64(function, key) API ret_t function(gpu_t gpu, u64 *out) { ENTER_GPU(gpu); NONNULL(out); return sim_u64(gpu, key, out); }
#define TEXT(function, key) API ret_t function(gpu_t gpu, char *out, u32 length) { ENTER_GPU(gpu); return sim_string(gpu, key, out, length); }
#define PAIR(function, first, second) API ret_t function(gpu_t gpu, u32 *a, u32 *b) { ENTER_GPU(gpu); NONNULL(a); NONNULL(b); TRY(sim_uint(gpu, first, a)); return sim_uint(gpu, second, b); }
#define ABSENT(function) API ret_t function(gpu_t gpu) { ENTER_GPU(gpu); return E_NOT_SUPPORTED; }
#define LIST(function, key) API ret_t function(gpu_t gpu, u32 *count, void *items) { ENTER_GPU(gpu); NONNULL(count); (void)items; return sim_uint(gpu, key, count); }

TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetBoardPartNumber, "board.part_number")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom.image")

UINT(nvmlDeviceGetBoardId, "board.id")
UINT(nvmlDeviceGetBrand, "brand")
UINT(nvmlDeviceGetArchitecture, "architecture")
UINT(nvmlDeviceGetMinorNumber, "minor")
UINT(nvmlDeviceGetModuleId, "module_id")
UINT(nvmlDeviceGetNumaNodeId, "numa_node_id")
UINT(nvmlDeviceGetMultiGpuBoard, "multi_gpu_board")
UINT(nvmlDeviceGetNumGpuCores, "cores")
UINT(nvmlDeviceGetMemoryBusWidth, "memory.bus_width")
UINT(nvmlDeviceGetIrqNum, "irq")
UINT(nvmlDeviceGetBusType, "bus_type")
UINT(nvmlDeviceGetPowerSource, "power.source")
UINT(nvmlDeviceGetInforomConfigurationChecksum, "inforom.checksum")
UINT(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation")
UINT(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
UINT(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.max_generation")
UINT(nvmlDeviceGetMaxPcieLinkWidth, "pcie.max_width")
UINT(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.gpu_max_generation")
UINT(nvmlDeviceGetPcieLinkMaxSpeed, "pcie.max_speed_code")
UINT(nvmlDeviceGetPcieSpeed, "pcie.speed")
UINT(nvmlDeviceGetPcieReplayCounter, "pcie.replays")
UINT(nvmlDeviceGetDisplayMode, "display.mode")
UINT(nvmlDeviceGetDisplayActive, "display.active")
UINT(nvmlDeviceGetAccountingMode, "accounting.mode")
UINT(nvmlDeviceGetAccountingBufferSize, "accounting.buffer_size")
UINT(nvmlDeviceGetAdaptiveClockInfoStatus, "adaptive_clock")
UINT(nvmlDeviceGetVirtualizationMode, "virtualization")
UINT(nvmlDeviceGetHostVgpuMode, "host_vgpu_mode")
UINT(nvmlDeviceGetNumFans, "fans")
UINT(nvmlDeviceGetFanSpeed, "fan.speed")
UINT(nvmlDeviceGetGpcClkVfOffset, "clock.offset.graphics")
UINT(nvmlDeviceGetMemClkVfOffset, "clock.offset.memory")
UINT(nvmlDeviceGetUnrepairableMemoryFlag_v1, "repair.unrepairable")

PAIR(nvmlDeviceGetGspFirmwareMode, "gsp.enabled", "gsp.default")
PAIR(nvmlDeviceGetGpcClkMinMaxVfOffset, "clock.offset.graphics.min", "clock.offset.graphics.max")
PAIR(nvmlDeviceGetMemClkMinMaxVfOffset, "clock.offset.memory.min", "clock.offset.memory.max")
PAIR(nvmlDeviceGetMinMaxFanSpeed, "fan.min", "fan.max")
PAIR(nvmlDeviceGetEncoderUtilization, "utilization.encoder", "utilization.period")
PAIR(nvmlDeviceGetDecoderUtilization, "utilization.decoder", "utilization.period")
PAIR(nvmlDeviceGetJpgUtilization, "utilization.jpeg", "utilization.period")
PAIR(nvmlDeviceGetOfaUtilization, "utilization.ofa", "utilization.period")
PAIR(nvmlDeviceGetDriverModel, "driver_model", "driver_model")
PAIR(nvmlDeviceGetDriverModel_v2, "driver_model", "driver_model")
PAIR(nvmlDeviceGetGpuOperationMode, "operation_mode", "operation_mode")
PAIR(nvmlDeviceGetAutoBoostedClocksEnabled, "auto_boost", "auto_boost")

U64(nvmlDeviceGetSupportedEventTypes, "event_types")

LIST(nvmlDeviceGetAccountingPids, "accounting.pids")
LIST(nvmlDeviceGetEncoderSessions, "encoder.sessions")
LIST(nvmlDeviceGetFBCSessions, "encoder.sessions")
LIST(nvmlDeviceGetActiveVgpus, "vgpu")
LIST(nvmlDeviceGetSupportedVgpus, "vgpu")
LIST(nvmlDeviceGetCreatableVgpus, "vgpu")

ABSENT(nvmlDeviceGetBridgeChipInfo)
ABSENT(nvmlDeviceGetClkMonStatus)
ABSENT(nvmlDeviceGetCoolerInfo)
ABSENT(nvmlDeviceGetDramEncryptionMode)
ABSENT(nvmlDeviceSetDramEncryptionMode)
ABSENT(nvmlDeviceGetPgpuMetadataString)
ABSENT(nvmlDeviceGetVgpuMetadata)
ABSENT(nvmlDeviceGetVgpuHeterogeneousMode)
ABSENT(nvmlDeviceGetVgpuSchedulerCapabilities)
ABSENT(nvmlDeviceGetVgpuSchedulerLog)
ABSENT(nvmlDeviceGetVgpuSchedulerState)
ABSENT(nvmlDeviceSetVirtualizationMode)
ABSENT(nvmlDeviceSetGpuOperationMode)
ABSENT(nvmlDeviceSetDriverModel)
ABSENT(nvmlDeviceSetAutoBoostedClocksEnabled)
ABSENT(nvmlDeviceSetDefaultAutoBoostedClocksEnabled)
ABSENT(nvmlDeviceGetAccountingStats)

/* a MIG device is named after its GPU and its profile */
API ret_t nvmlDeviceGetName(gpu_t gpu, char *out, u32 length)
{
    char name[192];
    ENTER_GPU(gpu);
    NONNULL(out);
    TRY(sim_text(gpu, "name", name, sizeof name - 96));
    if (gpu->mig)
        sim_mig_name(gpu, name + strlen(name), 96);
    if (strlen(name) >= length)
        return E_INSUFFICIENT_SIZE;
    sim_copy(out, length, name);
    return OK;
}

/* structs whose fields are profile values in their order */
static ret_t fill(gpu_t gpu, u32 *out, const char *const *keys, u32 n)
{
    NONNULL(out);
    for (u32 i = 0; i < n; i++)
        TRY(sim_uint_or(gpu, keys[i], 0, &out[i]));
    return OK;
}

API ret_t nvmlDeviceGetUtilizationRates(gpu_t gpu, u32 *out)
{
    static const char *const keys[] = {"utilization.gpu", "utilization.memory"};
    ENTER_GPU(gpu);
    if (!sim_has(gpu, keys[0]))
        return E_NOT_SUPPORTED;
    return fill(gpu, out, keys, 2);
}

API ret_t nvmlDeviceGetFBCStats(gpu_t gpu, u32 *out)
{
    static const char *const keys[] = {"fbc.sessions", "fbc.fps", "fbc.latency"};
    ENTER_GPU(gpu);
    return fill(gpu, out, keys, 3);
}

API ret_t nvmlDeviceGetEncoderStats(gpu_t gpu, u32 *sessions, u32 *fps, u32 *latency)
{
    ENTER_GPU(gpu);
    NONNULL(fps);
    NONNULL(latency);
    *fps = *latency = 0;
    return sim_uint(gpu, "encoder.sessions", sessions);
}

API ret_t nvmlDeviceGetEncoderCapacity(gpu_t gpu, u32 type, u32 *out)
{
    ENTER_GPU(gpu);
    return type > 1 ? E_NOT_SUPPORTED : sim_uint(gpu, "encoder.capacity", out);
}

API ret_t nvmlDeviceGetAddressingMode(gpu_t gpu, u32 *out)     /* {version, value} */
{
    ENTER_GPU(gpu);
    NONNULL(out);
    if (out[0] != 0x01000008)
        return E_VERSION;
    return sim_uint(gpu, "addressing_mode", &out[1]);
}

API ret_t nvmlDeviceGetC2cModeInfoV(gpu_t gpu, u32 *out)
{
    ENTER_GPU(gpu);
    return sim_uint_or(gpu, "c2c", 0, out);
}

API ret_t nvmlDeviceGetLastBBXFlushTime(gpu_t gpu, u64 *timestamp, unsigned long *duration)
{
    ENTER_GPU(gpu);
    NONNULL(timestamp);
    NONNULL(duration);
    *duration = 0;
    return sim_u64(gpu, "bbx_flush", timestamp);
}

API ret_t nvmlDeviceGetFanSpeed_v2(gpu_t gpu, u32 fan, u32 *out)
{
    u32 fans = 0;
    ENTER_GPU(gpu);
    sim_uint(gpu, "fans", &fans);
    return fan < fans ? sim_uint(gpu, "fan.speed", out) : E_INVALID_ARGUMENT;
}

API ret_t nvmlDeviceGetFanSpeedRPM(gpu_t gpu, u32 *out)       /* {version, fan, speed} */
{
    u32 fans = 0;
    ENTER_GPU(gpu);
    NONNULL(out);
    sim_uint(gpu, "fans", &fans);
    return out[1] < fans ? sim_uint(gpu, "fan.rpm", &out[2]) : E_INVALID_ARGUMENT;
}

API ret_t nvmlDeviceGetPcieThroughput(gpu_t gpu, u32 counter, u32 *out)
{
    ENTER_GPU(gpu);
    return counter > 1 ? E_INVALID_ARGUMENT : sim_uint_or(gpu, counter ? "pcie.rx" : "pcie.tx", 0, out);
}

API ret_t nvmlDeviceGetAPIRestriction(gpu_t gpu, u32 api, u32 *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    if (api > 1)
        return E_INVALID_ARGUMENT;
    *out = 0;
    return api ? OK : E_NOT_SUPPORTED;
}

struct modes { u32 version; char text[2048]; };

static ret_t modes(gpu_t gpu, const char *key, struct modes *out)
{
    NONNULL(out);
    return out->version == VERSION_WORD(struct modes, 1) ? sim_string(gpu, key, out->text, sizeof out->text) : E_VERSION;
}

API ret_t nvmlDeviceGetPerformanceModes(gpu_t gpu, struct modes *out) { ENTER_GPU(gpu); return modes(gpu, "performance_modes", out); }
API ret_t nvmlDeviceGetCurrentClockFreqs(gpu_t gpu, struct modes *out) { ENTER_GPU(gpu); return modes(gpu, "clock_frequencies", out); }

typedef struct { u32 flags; struct { u32 present, percentage, up, down; } domain[8]; } pstates_t;

API ret_t nvmlDeviceGetDynamicPstatesInfo(gpu_t gpu, pstates_t *out)
{
    static const char *const keys[] = {"utilization.gpu", "utilization.memory", "utilization.encoder", "pcie.utilization"};
    ENTER_GPU(gpu);
    NONNULL(out);
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 4; i++) {
        out->domain[i].present = 1;
        TRY(sim_uint_or(gpu, keys[i], 0, &out->domain[i].percentage));
    }
    return OK;
}

/* No licence anywhere: all zero. Each version of the struct has three features of another size. */
static ret_t grid(const char *function, gpu_t gpu, void *out, size_t feature)
{
    TRY(sim_enter_gpu(function, gpu));
    NONNULL(out);
    memset(out, 0, 8 + 3 * feature);
    return OK;
}

API ret_t nvmlDeviceGetGridLicensableFeatures(gpu_t gpu, void *out) { return grid(__func__, gpu, out, 136); }
API ret_t nvmlDeviceGetGridLicensableFeatures_v2(gpu_t gpu, void *out) { return grid(__func__, gpu, out, 264); }
API ret_t nvmlDeviceGetGridLicensableFeatures_v3(gpu_t gpu, void *out) { return grid(__func__, gpu, out, 268); }
API ret_t nvmlDeviceGetGridLicensableFeatures_v4(gpu_t gpu, void *out) { return grid(__func__, gpu, out, 284); }
