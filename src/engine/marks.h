/*
 * marks: what a process finds out about who writes, and what it does with that: it looks for jobs
 * that were committed behind the marks (engine/safe.h), stores the marks behind which none can come
 * any more for processes that start later, and raises the low mark from which sweeps read the ledger
 * of claims. A look at everything, also behind what is safe, is a backstop on a small budget: for
 * clocks that were set back, and rows that somebody changed by hand. Coordinator's thread.
 */
#ifndef ENGINE_MARKS_H
#define ENGINE_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#define MARKS_POLL_MS     250  /* how long a late committer waits: two polls and a look */
#define MARKS_WRITERS_MAX 1024 /* that are told apart; more are one crowd */
#define MARKS_WRITER_LEN  24

struct marks_writer {
    char who[MARKS_WRITER_LEN]; /* virtual transaction */
    uint64_t since;             /* the poll that saw it first */
    bool open;                  /* the last poll saw it */
};

struct marks_writers {
    struct marks_writer *list; /* owned */
    size_t n;
    uint64_t crowd_since; /* more than can be told apart, since this poll; 0: not so */
};

/* Notes who is there. Returns the first poll that saw any of those that have gone; 0: none has. */
uint64_t writers_seen(struct marks_writers *writers, const char *names, uint64_t poll);
/* The first poll that saw any of those that are there; 0: nobody is. */
uint64_t writers_oldest(const struct marks_writers *writers);
void writers_forget(struct marks_writers *writers);

struct marks {
    uv_timer_t timer;
    uint64_t n_polls; /* that were answered */
    uint64_t born;    /* scans so far */
    bool polling;
    bool looking;      /* for strays, on the upkeep connection */
    bool below;        /* for what is behind the floor, on the connection for what takes long */
    size_t looking_at; /* which scan */
    size_t below_at;
    bool below_all;  /* from the beginning */
    size_t next;     /* whose turn it is */
    size_t n_open;   /* breakers; fewer than before: kinds come back */
    uint64_t oldest; /* the first poll that saw a writer that is still open; 0: none */
    struct marks_writers jobs;

    /* The ledger. */
    int64_t low;        /* no claim has a lower seq */
    int64_t stored_low; /* as it is in the database */
    int64_t last_seq;   /* as the last poll said */
    int64_t
        low_end; /* up to here no claim can be committed when those that write now have ended; 0: not asked */
    uint64_t low_poll;           /* when that was said */
    struct marks_writers claims; /* who wrote then */
    bool low_asked;              /* the question what is left there is on the wire */
    int64_t low_us;              /* steady clock when it was read last */
    int64_t stored_us;           /* when marks were stored last */
};

#endif
