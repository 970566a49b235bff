/*
 * memory: how much of the memory that this process may use is in use, and the gate that keeps a worker from
 * taking on more when it gets tight.
 *
 * The limit is that of the control group (version 2 or 1; of all the groups above it too, the tightest
 * counts), or where none is set, the machine's. Used is what cannot simply be dropped: file pages that
 * nobody touched lately are left out, or a worker that reads many files would look full for ever.
 *
 * Any thread; nothing is kept between calls but what the caller holds.
 */
#ifndef ENGINE_MEMORY_H
#define ENGINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MEMORY_GROUP_PERCENT   80 /* of a control group's limit: beyond it the kernel kills soon */
#define MEMORY_MACHINE_PERCENT 95 /* of a machine that may be full for reasons of its own */
#define MEMORY_HYSTERESIS      5  /* points below the threshold at which the gate opens again */
#define MEMORY_PATH_MAX        512

enum memory_source {
    MEMORY_GROUP2,  /* control group, version 2 */
    MEMORY_GROUP1,  /* version 1 */
    MEMORY_MACHINE, /* /proc/meminfo */
};

const char *memory_source_text(enum memory_source source);

struct memory_sample {
    enum memory_source source;
    int64_t used_bytes;
    int64_t limit_bytes; /* never 0 */
    int64_t rss_bytes;   /* of this process alone; 0: not known */
};

/* Where to look; tests bring their own. */
struct memory_roots {
    const char *proc;  /* "/proc" */
    const char *group; /* "/sys/fs/cgroup" */
};

extern const struct memory_roots memory_roots_system;

/* A few small files: some tens of microseconds. */
int memory_read(const struct memory_roots *roots,
                struct memory_sample *ret_sample,
                struct pawl_err *err) MUST_CHECK;

/* Whole per cent, rounded up, so that anything above a threshold is more than it. */
int memory_percent(const struct memory_sample *sample);

/* The parsers, over the text of a file. Each gives PAWL_ENOTFOUND when the thing is not in it. */
int memory_parse_group(const char *text, int version, char *ret_path, size_t size) MUST_CHECK;
int memory_parse_bytes(const char *text, int64_t *ret_bytes) MUST_CHECK; /* "max": INT64_MAX */
int memory_parse_field(const char *text,
                       const char *key,
                       int64_t *ret_value) MUST_CHECK; /* "key 123" or "key: 123 kB" */
int memory_parse_statm(const char *text, int64_t page_bytes, int64_t *ret_bytes) MUST_CHECK;

struct memory_gate {
    int group_percent;   /* threshold where a control group has a limit; 0: always open */
    int machine_percent; /* threshold where the machine is the limit; 0: likewise */
    bool closed;
};

enum memory_change { MEMORY_UNCHANGED, MEMORY_CLOSED, MEMORY_OPENED };

enum memory_change memory_gate_sample(struct memory_gate *gate, const struct memory_sample *sample);

#endif
