/* memory: reading control groups and /proc, and a threshold with hysteresis. */
#include "engine/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"

#define FILE_BYTES_MAX (16 * 1024) /* memory.stat is the longest, with some 3 KiB */
#define KIB            1024

const struct memory_roots memory_roots_system = {.proc = "/proc", .group = "/sys/fs/cgroup"};

/* What the files of a version are called. */
struct group_files {
    enum memory_source source;
    int version;
    const char *under; /* where below the root its tree is */
    const char *used;
    const char *limit;
    const char *droppable; /* field of memory.stat */
};

static const struct group_files versions[] = {
    {MEMORY_GROUP2, 2, "", "memory.current", "memory.max", "inactive_file"},
    {MEMORY_GROUP1,
     1,
     "/memory",
     "memory.usage_in_bytes",
     "memory.limit_in_bytes",
     "total_inactive_file"},
};

const char *memory_source_text(enum memory_source source)
{
    static const char *const texts[] = {"cgroup v2", "cgroup v1", "machine"};

    return texts[source];
}

/* A line is hierarchy:controllers:path; version 2 is hierarchy 0 without controllers. */
int memory_parse_group(const char *text, int version, char *ret_path, size_t size)
{
    for (const char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        const char *names = memchr(line, ':', len);
        const char *path =
            names != NULL ? memchr(names + 1, ':', len - (size_t)(names + 1 - line)) : NULL;
        bool found = false;

        if (path != NULL && version == 2)
            found = path == names + 1 && names == line + 1 && *line == '0';
        for (const char *name = names; path != NULL && version == 1 && !found && name < path;) {
            size_t n = strcspn(name + 1, ",:");

            found = n == strlen("memory") && strncmp(name + 1, "memory", n) == 0;
            name += n + 1;
        }
        if (found) {
            size_t n = len - (size_t)(path + 1 - line);

            if (n >= size)
                return PAWL_ELIMIT;
            memcpy(ret_path, path + 1, n);
            ret_path[n] = '\0';
            return 0;
        }
        line += len + (line[len] == '\n');
    }
    return PAWL_ENOTFOUND;
}

static int parse_number(const char *text, char **ret_end, int64_t *ret_value)
{
    errno = 0;
    long long value = strtoll(text, ret_end, 10);

    if (*ret_end == text || errno != 0 || value < 0)
        return PAWL_ENOTFOUND;
    *ret_value = value;
    return 0;
}

int memory_parse_bytes(const char *text, int64_t *ret_bytes)
{
    char *end;

    if (strncmp(text, "max", 3) == 0) {
        *ret_bytes = INT64_MAX;
        return 0;
    }
    return parse_number(text, &end, ret_bytes);
}

int memory_parse_field(const char *text, const char *key, int64_t *ret_value)
{
    size_t key_len = strlen(key);

    for (const char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");

        if (strncmp(line, key, key_len) == 0 && (line[key_len] == ' ' || line[key_len] == ':')) {
            char *end;
            int64_t value;
            int rc = parse_number(line + key_len + 1, &end, &value);

            if (rc < 0)
                return rc;
            *ret_value = strncmp(end, " kB", 3) == 0 ? value * KIB : value;
            return 0;
        }
        line += len + (line[len] == '\n');
    }
    return PAWL_ENOTFOUND;
}

int memory_parse_statm(const char *text, int64_t page_bytes, int64_t *ret_bytes)
{
    char *end;
    int64_t pages;
    int rc = parse_number(text, &end, &pages);

    /* The second number: resident. */
    if (rc == 0)
        rc = parse_number(end, &end, &pages);
    if (rc == 0)
        *ret_bytes = pages * page_bytes;
    return rc;
}

/* The whole file as a text, cut at FILE_BYTES_MAX. */
static int read_text(const char *dir, const char *name, char *ret_text)
{
    char path[2 * MEMORY_PATH_MAX];
    size_t len = 0;
    ssize_t n;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
        return PAWL_ELIMIT;
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return PAWL_ENOTFOUND;
    while ((n = read(fd, ret_text + len, FILE_BYTES_MAX - 1 - len)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return PAWL_EFAILED;
        len += (size_t)n;
        if (len == FILE_BYTES_MAX - 1)
            break;
    }
    ret_text[len] = '\0';
    return 0;
}

/* One group of the tree. */
static int
read_group(const struct group_files *files, const char *dir, struct memory_sample *ret_sample)
{
    char text[FILE_BYTES_MAX];
    int64_t limit = 0;
    int64_t used = 0;
    int64_t droppable = 0;
    int rc = read_text(dir, files->limit, text);

    if (rc == 0)
        rc = memory_parse_bytes(text, &limit);
    if (rc == 0 && limit == 0)
        rc = PAWL_ENOTFOUND;
    if (rc == 0)
        rc = read_text(dir, files->used, text);
    if (rc == 0)
        rc = memory_parse_bytes(text, &used);
    if (rc < 0)
        return rc;
    if (read_text(dir, "memory.stat", text) == 0)
        (void)!memory_parse_field(text, files->droppable, &droppable);
    *ret_sample = (struct memory_sample){
        .source = files->source,
        .used_bytes = used > droppable ? used - droppable : 0,
        .limit_bytes = limit,
    };
    return 0;
}

/* Replaces the sample when a group between ours and the root is fuller. A limit beyond the machine's memory
 * is none: version 1 has a number in place of "max". */
static void read_groups(const struct memory_roots *roots,
                        const struct group_files *files,
                        const char *groups,
                        int64_t machine_bytes,
                        struct memory_sample *best)
{
    char path[MEMORY_PATH_MAX];
    char dir[2 * MEMORY_PATH_MAX];

    if (memory_parse_group(groups, files->version, path, sizeof(path)) < 0)
        return;
    for (;;) {
        struct memory_sample sample;
        bool fits = (size_t)snprintf(dir, sizeof(dir), "%s%s%s", roots->group, files->under, path) <
                    sizeof(dir);

        if (fits && read_group(files, dir, &sample) == 0 && sample.limit_bytes < machine_bytes &&
            (best->source == MEMORY_MACHINE || memory_percent(&sample) > memory_percent(best)))
            *best = sample;
        char *slash = strrchr(path, '/');

        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

int memory_read(const struct memory_roots *roots,
                struct memory_sample *ret_sample,
                struct pawl_err *err)
{
    char text[FILE_BYTES_MAX];
    struct memory_sample sample = {.source = MEMORY_MACHINE};
    int64_t available = 0;
    int64_t rss = 0;

    if (read_text(roots->proc, "meminfo", text) < 0 ||
        memory_parse_field(text, "MemTotal", &sample.limit_bytes) < 0 ||
        memory_parse_field(text, "MemAvailable", &available) < 0 || sample.limit_bytes == 0)
        return err_set(err, PAWL_EFAILED, "could not read the memory in use from %s", roots->proc);
    int64_t total = sample.limit_bytes;

    sample.used_bytes = available < total ? total - available : 0;
    if (read_text(roots->proc, "self/cgroup", text) == 0) {
        for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++)
            read_groups(roots, &versions[i], text, total, &sample);
    }
    if (read_text(roots->proc, "self/statm", text) == 0)
        (void)!memory_parse_statm(text, sysconf(_SC_PAGESIZE), &rss);
    sample.rss_bytes = rss;
    *ret_sample = sample;
    return 0;
}

int memory_percent(const struct memory_sample *sample)
{
    return (int)((sample->used_bytes * 100 + sample->limit_bytes - 1) / sample->limit_bytes);
}

enum memory_change memory_gate_sample(struct memory_gate *gate, const struct memory_sample *sample)
{
    int threshold = sample->source == MEMORY_MACHINE ? gate->machine_percent : gate->group_percent;
    int opens = threshold > 2 * MEMORY_HYSTERESIS ? threshold - MEMORY_HYSTERESIS : threshold / 2;
    int percent = memory_percent(sample);

    if (gate->closed && (threshold == 0 || percent <= opens)) {
        gate->closed = false;
        return MEMORY_OPENED;
    }
    if (!gate->closed && threshold > 0 && percent > threshold) {
        gate->closed = true;
        return MEMORY_CLOSED;
    }
    return MEMORY_UNCHANGED;
}
