/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The profile: /etc/simulated-gpu/profile.conf, read once a session into a hash table.
 */
#define _GNU_SOURCE
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 16384     /* power of two, several times the longest profile */

#define MAX_PROFILE (1 << 20)

static char *text;
static struct { const char *key, *value; } table[SLOTS];

static u32 hash(const char *key)
{
    u32 h = 2166136261u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 16777619u;
    return h & (SLOTS - 1);
}

static u32 find(const char *key)
{
    u32 at = hash(key);
    while (table[at].key && strcmp(table[at].key, key) != 0)
        at = (at + 1) & (SLOTS - 1);
    return at;
}

int sim_profile_load(void)
{
    memset(table, 0, sizeof table);
    free(text);
    text = malloc(MAX_PROFILE);
    if (!text || sim_file_read(ROOT_ETC, "profile.conf", text, MAX_PROFILE) < 0)
        return -1;
    int used = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) && used < SLOTS / 2) {
        char *value = strchr(line, '=');
        if (*line == '#' || !value)
            continue;
        *value++ = 0;
        u32 at = find(line);
        used += !table[at].key;
        table[at].key = line;
        table[at].value = value;
    }
    return 0;
}

const char *sim_profile(const char *key)
{
    return table[find(key)].value;
}

const char *sim_profile_gpu(u32 slot, const char *key)
{
    char full[160];
    snprintf(full, sizeof full, "gpu.%u.%s", slot, key);
    const char *value = sim_profile(full);
    if (value)
        return value;
    snprintf(full, sizeof full, "gpu.*.%s", key);
    return sim_profile(full);
}
