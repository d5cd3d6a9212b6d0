/* Copyright (c) 2026, gpufleet contributors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * State in files of key=value lines. Readers take one open and one read and see a whole file, because writers replace it by rename;
 * writers exclude each other with a lock. The command simulated-gpu follows the same rules (files/lib/simulated_gpu/state.py).
 */
#define _GNU_SOURCE
#include "sim.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE 65536

static const char *top(void)
{
    const char *root = getenv("SIMULATED_GPU_ROOT");
    return root ? root : "";
}

void sim_path(enum root root, const char *name, char *out, size_t size)
{
    static const char *const dirs[] = {"/etc/simulated-gpu", "/run/simulated-gpu", "/var/lib/simulated-gpu"};
    snprintf(out, size, "%s%s/%s", top(), dirs[root], name);
}

/* Root may set devices. Below a relocated root whoever may write there plays root, so that tests need no privileges. */
int sim_privileged(void)
{
    return geteuid() == 0 || (*top() && access(top(), W_OK) == 0);
}

size_t sim_copy(char *out, size_t size, const char *text)
{
    size_t n = strlen(text);
    if (size) {
        size_t m = n < size ? n : size - 1;
        memcpy(out, text, m);
        out[m] = 0;
    }
    return n;
}

const char *sim_gpu_file(gpu_t gpu, const char *name, char *buffer, size_t size)
{
    /* a MIG device has the files of its GPU */
    snprintf(buffer, size, "gpu/%s/%s", gpu->mig ? sim_gpu(gpu->index)->uuid : gpu->uuid, name);
    return buffer;
}

int sim_file_read(enum root root, const char *name, char *out, size_t size)
{
    char path[512];
    sim_path(root, name, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t used = 0;
    ssize_t n;
    while (used + 1 < size && (n = read(fd, out + used, size - 1 - used)) > 0)
        used += (size_t)n;
    close(fd);
    out[used] = 0;
    return (int)used;
}

/* start of the value of key in text, or NULL; *length is set */
static const char *find(const char *text, const char *key, size_t *length)
{
    size_t k = strlen(key);
    for (const char *line = text; line && *line; ) {
        const char *end = strchrnul(line, '\n');
        if ((size_t)(end - line) > k && line[k] == '=' && memcmp(line, key, k) == 0) {
            *length = (size_t)(end - line) - k - 1;
            return line + k + 1;
        }
        line = *end ? end + 1 : NULL;
    }
    return NULL;
}

int sim_file_get(enum root root, const char *name, const char *key, char *out, size_t size)
{
    char text[MAX_FILE];
    size_t length;
    if (sim_file_read(root, name, text, sizeof text) < 0)
        return 0;
    const char *value = find(text, key, &length);
    if (!value)
        return 0;
    if (length >= size)
        length = size - 1;
    memcpy(out, value, length);
    out[length] = 0;
    return 1;
}

static void make_parents(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0755);
        *p = '/';
    }
}

static int replace(const char *path, const char *text)
{
    char temporary[560];
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    fchmod(fd, 0644);
    size_t n = strlen(text);
    int ok = write(fd, text, n) == (ssize_t)n && fsync(fd) == 0;
    close(fd);
    if (ok && rename(temporary, path) == 0)
        return 0;
    unlink(temporary);
    return -1;
}

int sim_file_set(enum root root, const char *name, const char *key, const char *value)
{
    char path[512], lock_path[512], text[MAX_FILE], changed[MAX_FILE + MAX_VALUE];
    size_t length, used = 0;
    sim_path(root, name, path, sizeof path);
    sim_path(ROOT_RUN, "lock", lock_path, sizeof lock_path);
    make_parents(path);
    make_parents(lock_path);
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0)
        return -1;
    while (flock(lock, LOCK_EX) != 0 && errno == EINTR)
        ;
    if (sim_file_read(root, name, text, sizeof text) < 0)
        text[0] = 0;
    const char *old = find(text, key, &length);
    if (old) {      /* cut the old line out */
        const char *start = old - strlen(key) - 1, *rest = old + length;
        memcpy(changed, text, used = (size_t)(start - text));
        used += sim_copy(changed + used, sizeof changed - used, *rest ? rest + 1 : rest);
    } else {
        used = sim_copy(changed, sizeof changed, text);
    }
    if (used && changed[used - 1] != '\n')
        changed[used++] = '\n';
    changed[used] = 0;
    if (value)
        snprintf(changed + used, sizeof changed - used, "%s=%s\n", key, value);
    int result = replace(path, changed);
    close(lock);
    return result;
}
