/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * ECC mode and counters, row remapping, page retirement, repair.
 *
 * Counter keys: ecc.<corrected|uncorrected>.<volatile|aggregate>.<sram|dram>. A volatile counter counts since the driver was loaded.
 */
#include "sim.h"
#include <stdio.h>
#include <string.h>

static const char *const type_name[] = {"corrected", "uncorrected"}, *const counter_name[] = {"volatile", "aggregate"};

/* The mode in force changes at boot; simulated-gpu boot (or reset) copies pending to current. */
ret_t sim_ecc_mode(gpu_t gpu, u32 *current, u32 *pending)
{
    u64 value;
    TRY(sim_uint(gpu, "ecc.mode", current));
    if (sim_persistent(gpu, "ecc.current", &value))
        *current = (u32)value;
    *pending = sim_persistent(gpu, "ecc.pending", &value) ? (u32)value : *current;
    return OK;
}

API ret_t nvmlDeviceGetEccMode(gpu_t gpu, u32 *current, u32 *pending)
{
    ENTER_GPU(gpu);
    NONNULL(current);
    NONNULL(pending);
    return sim_ecc_mode(gpu, current, pending);
}

API ret_t nvmlDeviceGetDefaultEccMode(gpu_t gpu, u32 *mode)
{
    ENTER_GPU(gpu);
    return sim_has(gpu, "ecc.default") ? sim_uint(gpu, "ecc.default", mode) : sim_uint(gpu, "ecc.mode", mode);
}

API ret_t nvmlDeviceSetEccMode(gpu_t gpu, u32 mode)
{
    u32 current, pending;
    u64 value = mode;
    ENTER_GPU(gpu);
    TRY(sim_may_set(gpu));
    TRY(sim_ecc_mode(gpu, &current, &pending));
    if (mode > 1)
        return E_INVALID_ARGUMENT;
    if (sim_has(gpu, "ecc.fixed"))
        return E_NOT_SUPPORTED;
    return sim_set_persistent(gpu, "ecc.pending", &value);
}

static ret_t enabled(gpu_t gpu)
{
    u32 current, pending;
    TRY(sim_ecc_mode(gpu, &current, &pending));
    return current ? OK : E_NOT_SUPPORTED;
}

static ret_t counter(gpu_t gpu, u32 type, u32 period, const char *where, u64 *out)
{
    char key[64];
    snprintf(key, sizeof key, "ecc.%s.%s.%s", type_name[type], counter_name[period], where);
    *out = 0;
    return sim_has(gpu, key) ? sim_u64(gpu, key, out) : OK;
}

ret_t sim_ecc_total(gpu_t gpu, u32 type, u32 period, u64 *out)
{
    u64 sram, dram;
    if (type > 1 || period > 1)
        return E_INVALID_ARGUMENT;
    TRY(enabled(gpu));
    TRY(counter(gpu, type, period, "sram", &sram));
    TRY(counter(gpu, type, period, "dram", &dram));
    *out = sram + dram;
    return OK;
}

API ret_t nvmlDeviceGetTotalEccErrors(gpu_t gpu, u32 type, u32 period, u64 *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    return sim_ecc_total(gpu, type, period, out);
}

/* locations: 2 device memory (DRAM), 7 SRAM; the finer ones ended with Volta */
API ret_t nvmlDeviceGetMemoryErrorCounter(gpu_t gpu, u32 type, u32 period, u32 location, u64 *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    if (type > 1 || period > 1 || location > 7)
        return E_INVALID_ARGUMENT;
    TRY(enabled(gpu));
    if (location != 2 && location != 7)
        return E_NOT_SUPPORTED;
    return counter(gpu, type, period, location == 2 ? "dram" : "sram", out);
}

API ret_t nvmlDeviceGetDetailedEccErrors(gpu_t gpu, u32 type, u32 period, u64 *out)     /* {l1, l2, device memory, registers} */
{
    ENTER_GPU(gpu);
    NONNULL(out);
    if (type > 1 || period > 1)
        return E_INVALID_ARGUMENT;
    TRY(enabled(gpu));
    memset(out, 0, 4 * sizeof *out);
    return counter(gpu, type, period, "dram", &out[2]);
}

API ret_t nvmlDeviceClearEccErrorCounts(gpu_t gpu, u32 period)
{
    ENTER_GPU(gpu);
    TRY(sim_may_set(gpu));
    TRY(enabled(gpu));
    if (period > 1)
        return E_INVALID_ARGUMENT;
    for (u32 type = 0; type < 2; type++)
        for (int dram = 0; dram < 2; dram++) {
            char key[64], file[160];
            snprintf(key, sizeof key, "ecc.%s.%s.%s", type_name[type], counter_name[period], dram ? "dram" : "sram");
            sim_file_set(ROOT_RUN, sim_gpu_file(gpu, "readings", file, sizeof file), key, NULL);
        }
    return OK;
}

typedef struct {
    u32 version;
    u64 aggregate_parity, aggregate_secded, aggregate_corrected, volatile_parity, volatile_secded, volatile_corrected, l2, sm, pcie, mcu, other;
    u32 threshold_exceeded;
} sram_t;

API ret_t nvmlDeviceGetSramEccErrorStatus(gpu_t gpu, sram_t *out)
{
    ENTER_GPU(gpu);
    NONNULL(out);
    if (out->version != VERSION_WORD(sram_t, 1))
        return E_VERSION;
    if (!sim_has(gpu, "remap.histogram"))     /* from Ampere on */
        return E_NOT_SUPPORTED;
    TRY(enabled(gpu));
    memset((char *)out + sizeof out->version, 0, sizeof *out - sizeof out->version);
    out->version = VERSION_WORD(sram_t, 1);
    TRY(counter(gpu, 1, 1, "sram", &out->aggregate_secded));
    TRY(counter(gpu, 0, 1, "sram", &out->aggregate_corrected));
    TRY(counter(gpu, 1, 0, "sram", &out->volatile_secded));
    TRY(counter(gpu, 0, 0, "sram", &out->volatile_corrected));
    out->sm = out->aggregate_secded;
    return sim_uint_or(gpu, "ecc.sram_threshold_exceeded", 0, &out->threshold_exceeded);
}

API ret_t nvmlDeviceGetRemappedRows(gpu_t gpu, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed)
{
    ENTER_GPU(gpu);
    if (!sim_has(gpu, "remap.histogram"))
        return E_NOT_SUPPORTED;
    TRY(sim_uint_or(gpu, "remap.corrected", 0, corrected));
    TRY(sim_uint_or(gpu, "remap.uncorrected", 0, uncorrected));
    TRY(sim_uint_or(gpu, "remap.pending", 0, pending));
    return sim_uint_or(gpu, "remap.failure", 0, failed);
}

API ret_t nvmlDeviceGetRowRemapperHistogram(gpu_t gpu, u32 *out)     /* {max, high, partial, low, none} banks */
{
    u64 banks[5];
    u32 n;
    ENTER_GPU(gpu);
    NONNULL(out);
    TRY(sim_list(gpu, "remap.histogram", banks, 5, &n));
    for (u32 i = 0; i < 5; i++)
        out[i] = i < n ? (u32)banks[i] : 0;
    return OK;
}

static ret_t retired(gpu_t gpu, u32 cause, u32 *count)
{
    NONNULL(count);
    if (cause > 1)
        return E_INVALID_ARGUMENT;
    return sim_uint(gpu, cause ? "retired.double_bit" : "retired.single_bit", count);
}

API ret_t nvmlDeviceGetRetiredPages(gpu_t gpu, u32 cause, u32 *count, u64 *addresses)
{
    u32 room = count ? *count : 0;
    ENTER_GPU(gpu);
    TRY(retired(gpu, cause, count));
    for (u32 i = 0; addresses && i < *count && i < room; i++)
        addresses[i] = 0x100000ULL * (i + 1);
    return *count > room ? E_INSUFFICIENT_SIZE : OK;
}

API ret_t nvmlDeviceGetRetiredPages_v2(gpu_t gpu, u32 cause, u32 *count, u64 *addresses, u64 *times)
{
    u32 room = count ? *count : 0;
    TRY(nvmlDeviceGetRetiredPages(gpu, cause, count, addresses));
    for (u32 i = 0; times && i < *count && i < room; i++)
        times[i] = 0;
    return OK;
}

API ret_t nvmlDeviceGetRetiredPagesPendingStatus(gpu_t gpu, u32 *pending) { ENTER_GPU(gpu); return sim_uint(gpu, "retired.pending", pending); }

API ret_t nvmlDeviceGetRepairStatus(gpu_t gpu, u32 *out)     /* {version, channel repair pending, TPC repair pending} */
{
    ENTER_GPU(gpu);
    NONNULL(out);
    if (out[0] != 0x0100000c)
        return E_VERSION;
    TRY(sim_uint(gpu, "repair.channel_pending", &out[1]));
    return sim_uint_or(gpu, "repair.tpc_pending", 0, &out[2]);
}
