/* streams_internal: what streams.c (runs) and streams_open.c (streams and their sources) share. */
#ifndef HANDS_STREAMS_INTERNAL_H
#define HANDS_STREAMS_INTERNAL_H

#include "base/map.h"
#include "hands/streams.h"

#define LEVELS 16 /* of load: 0 holds nothing, 15 has hardly any credit left */

/* A queue and kinds that some streams want. */
struct source {
    const char *queue;  /* a name of streams.names */
    const char **kinds; /* owned; names, sorted, none twice */
    size_t n_kinds;
    size_t n_streams;
    size_t room;                /* free credits of its streams */
    struct list levels[LEVELS]; /* seat.link: those with free credits, by load */
};

/* A stream in one of its sources. */
struct seat {
    struct list link;
    struct stream *stream;
    size_t source;
};

struct stream {
    struct streams *streams;
    struct list link;
    struct stream_options options; /* texts owned: names of streams.names, and what follows */
    char *worker;
    char *name;
    const char **queues; /* owned array of names */
    const char **kinds;
    struct seat *seats; /* owned; one for each queue */
    struct list runs;   /* SENT and AWAY */
    struct list outbox; /* FRESH ones on their way, during a flush or while it does not read */
    struct list touched;
    uint32_t credits;
    uint32_t held;
    uint32_t free;      /* as counted into its sources */
    int64_t per_1000_s; /* jobs it is given in 1000 seconds; 0: no limit */
    double allowed;     /* with a limit: jobs that it may be given now */
    int64_t allowed_us; /* steady clock when that was so */
    uint64_t ended;
    size_t n_reported; /* until_empty: runs that it reported and that are not settled */
    bool begun;
    bool draining;
    bool stuffed; /* it does not read; what is in the outbox waits */
    int64_t stuffed_us;
};

struct streams {
    struct hands hands; /* first, so that a pointer to it is a pointer to this */
    struct streams_options options;
    struct list all;
    size_t n;
    size_t n_paced; /* with a limit of jobs in a second */
    struct source *sources[STREAMS_SOURCES_MAX];
    size_t n_sources;
    struct map names; /* owned texts that live as long as this */
    struct map runs;  /* by job id */
    struct list fresh;
    struct list leaving;
    bool stopped;
};

/* streams_open.c */
/* Whatever changed: counts what is free into its sources, and puts it where it belongs. */
void stream_update(struct stream *stream);
/* It is given a job: counts for its rate. */
void stream_count_given(struct stream *stream);
/* until_empty: what is known of its sources is out of date. */
void stream_look(const struct stream *stream);
/* The least loaded of a source; NULL: none has room. */
struct stream *streams_pick(struct streams *streams, size_t source);
/* Ends what a stream's end leaves behind: streams.c. */
void stream_drop_runs(struct stream *stream);

#endif
