/*
 * conn_internal: what the files of the asynchronous connection share. conn.c owns the object and
 * the loop turn, connect.c the way to a server and back from it, identity.c the question who it is,
 * batch.c a batch's life, pipeline.c the protocol, deadline.c time, scout.c looks at other hosts.
 *
 * Two rules keep callbacks harmless. Only the loop turn (conn.c) frees a PGconn, ends a connection
 * or calls a batch back; everything else marks (`broken`, CONN_CLOSING, the `done` list) and asks
 * for a turn. And every callback of the caller is followed by nothing that assumes the state it
 * found before.
 */
#ifndef PG_CONN_INTERNAL_H
#define PG_CONN_INTERNAL_H

#include "base/arena.h"
#include "base/list.h"
#include "pg/conn.h"
#include "pg/hosts.h"

#define CONN_QUEUE_DEFAULT      64
#define CONN_CONNECT_DEFAULT_MS 5000
#define CONN_BACKOFF_MIN_MS     100
#define CONN_BACKOFF_MAX_MS     5000
#define CONN_WINDOW             16 /* batches in flight; what a lost connection can leave unknown at most */
#define CONN_CANCEL_GRACE_MS \
    2000 /* for the server to answer a cancel, then the connection is dropped */
#define CONN_CANCEL_AGAIN_MS \
    250 /* then it is asked once more: one that finds the server between two transactions is lost */
#define BATCH_ARENA_MAX (64UL * 1024 * 1024) /* parameters of one batch */
#define BATCH_COMMANDS_MAX \
    (1 + 2 * BATCH_CALLS_MAX) /* the settings; each call may need a Parse in front of it */
#define PREPARED_NAME_MAX 64

/* What this connection's server knows of a statement. A Parse that succeeded survives the rollback
 * of its batch; one that was skipped because something before it failed never happened. Until its
 * answer is there (SENT) no other batch may count on it, so such a batch waits, and every batch
 * that is sent stands on its own. */
enum prepared_state { PREPARED_NONE, PREPARED_SENT, PREPARED_READY };

struct prepared {
    enum prepared_state state;
    unsigned generation; /* part of the name: a forgotten or outdated statement is prepared under a
                            new one */
};

enum batch_state { BATCH_OPEN, BATCH_WAITING, BATCH_SENT, BATCH_DONE };

/* One message that the server answers: one of the caller's calls, or something in front of them that it does not see. */
enum command_kind { COMMAND_CALL, COMMAND_PREPARE, COMMAND_SETTINGS };

struct batch_command {
    enum command_kind kind;
    size_t call; /* which of them; COMMAND_SETTINGS: none */
};

struct batch_call {
    const struct stmt *stmt; /* borrowed; statements are static */
    struct params params;    /* values in the batch's arena */
};

struct batch {
    struct list link;  /* on the connection's list that belongs to the state; BATCH_OPEN: none */
    struct conn *conn; /* borrowed */
    enum batch_state state;
    struct arena arena;
    struct batch_call calls[BATCH_CALLS_MAX];
    size_t n_calls;
    batch_fn fn;
    void *data;
    uint64_t seq;        /* order of submission, kept when it is sent again */
    int64_t deadline_us; /* by the connection's clock */
    bool internal;       /* settings, LISTEN, probe: dies with its connection, not counted */
    bool probe;          /* the question who the server is */
    bool here_only;      /* does not wait for another connection */

    /* From here on: one sending of it. */
    struct batch_command commands[BATCH_COMMANDS_MAX];
    size_t n_commands;
    size_t next_command; /* whose answer is expected */
    bool answered;       /* that command has had a result; its NULL is still to come */
    bool flushed;     /* its sync has left the process; before that it cannot have been committed */
    bool stray;       /* in flight during a cancel that was meant for another */
    bool warned;      /* a WARNING came while it was the oldest in flight */
    bool unconfirmed; /* its commit gave up waiting for a synchronous standby */
    int64_t sent_us;
    PGresult *results[BATCH_CALLS_MAX]; /* owned */

    /* How it ended, or what is known so far. */
    bool failed;      /* an error came for it */
    bool rolled_back; /* and that alone proves it, even if the sync never comes */
    bool expired;
    bool sent_anew;       /* once, for a statement to be prepared anew */
    bool sent_anew_stray; /* once, for a cancel that hit the wrong batch */
    enum pg_verdict verdict;
    int64_t took_us;
    struct pawl_err err;
};

/* A watched socket. On the heap because libuv may keep it after the connection has moved to another
 * socket. */
struct poller {
    uv_poll_t handle;
    int fd; /* owned: a duplicate of libpq's socket, which libpq may close at any time */
    struct conn *conn;
    int events;
};

struct conn {
    uv_loop_t *loop; /* borrowed */
    struct conn_options options;
    enum conn_state state;
    const struct stmt *listen; /* borrowed; may be NULL */

    PGconn *pg;            /* owned; NULL when down */
    struct poller *poller; /* owned until uv_close; NULL when nothing is watched */
    uv_idle_t turn;        /* active when a turn is wanted: it runs before the loop sleeps again */
    uv_timer_t life_timer; /* the connect deadline, or the back-off */
    uv_timer_t deadline_timer;
    int64_t timer_due_us; /* what deadline_timer is set to; INT64_MAX when it is not */
    unsigned n_held;      /* handles and work items that libuv still holds; 0: may be freed */

    bool broken;            /* to be dropped in the next turn, because of err */
    bool flush_pending;     /* libpq has bytes for the socket; at most the last batch in flight is
                               affected */
    struct pawl_err err;    /* why it is broken or was lost last; code 0 while it is well */
    struct pawl_err notice; /* a FATAL that came while nothing was in flight; code 0 when none */
    struct host_errors round_errs; /* the reasons so far in this round of hosts */
    size_t host;                   /* of the target's hosts, the one that is being tried or used */
    size_t n_tried;                /* hosts in this round */
    unsigned failures;             /* connections in a row that did not last */
    int64_t ready_us;
    int64_t began_us; /* when this attempt began */
    int64_t heard_us; /* when a batch was answered last, or it came up */

    struct list kin;     /* on options.primary->conns; scouts: on none */
    int64_t timeline;    /* of its server; 0: not known */
    int32_t backend;     /* its session's process, as the server said last; 0: not known */
    PGresult *answer;    /* owned; to the question who the server is, until its end is read */
    bool awaits_mode;    /* of the pooler: asks again when the scout is back */
    bool hurried;        /* the primary is known: no pause before the next attempt */
    struct conn *scout;  /* owned, and held until it is closed; NULL: none */
    struct conn *parent; /* of a scout; NULL: it is none */

    struct list waiting;  /* BATCH_WAITING, by seq */
    struct list inflight; /* BATCH_SENT, by order of sending */
    struct list done;     /* BATCH_DONE, to be called back */
    size_t n_live;        /* not ended, open ones included; bounded by options.queue_max */
    size_t n_submitted;
    size_t n_inflight;
    uint64_t last_seq;

    struct prepared prepared[STMT_MAX];
    uint32_t prepared_tag; /* random per connection: a pooler may hand us a session that others have
                              used */

    struct cancel *cancel;         /* running in the thread pool; frees itself. NULL when none */
    const struct batch *cancelled; /* the batch it is meant for, while that is in flight */
    int64_t cancel_due_us;         /* when the server must have answered */
    int64_t cancel_again_us;       /* when it is asked again */

    bool torn_down;
    void (*closed)(void *data); /* may be NULL */
    void *closed_data;
};

/* conn.c */
int64_t conn_now_us(const struct conn *conn);
void conn_turn_soon(struct conn *conn);
/* The connection is of no use any more. The first reason stays. */
void conn_break(struct conn *conn, const struct pawl_err *err);
/* One thing less that libuv holds; frees a closed connection after the last one. */
void conn_release(struct conn *conn);

/* connect.c */
/* A round of hosts, from the one that was the primary last. */
void connect_round(struct conn *conn);
void connect_begin(struct conn *conn); /* conn->host */
/* The server may be used. */
void connect_ready(struct conn *conn);
/* Gives up what it has or tries, because of err, and goes where the primary is at once. */
void connect_hurry(struct conn *conn, const struct pawl_err *err);
/* Gives up the server connection, if there is one: for the turn only. */
void connect_drop(struct conn *conn);
/* After a drop: the next host, or a pause and then the first one again. */
void connect_again(struct conn *conn);
void connect_watch(struct conn *conn, int events, uv_poll_cb cb);
void connect_unwatch(struct conn *conn);

/* batch.c */
struct batch *batch_make(struct conn *conn) MUST_CHECK;
void batch_destroy(struct batch *batch);
/* To the waiting ones, at its place by seq. */
void batch_wait(struct batch *batch);
/* To the done ones, off whatever list it is on. err may be the batch's own, or NULL with
 * PG_VERDICT_OK. */
void batch_done(struct batch *batch, enum pg_verdict verdict, const struct pawl_err *err);
/* Forgets one sending of it, results included. */
void batch_reset(struct batch *batch);
/* Calls back all that are done by now. For the turn only. */
void batch_deliver(struct conn *conn);
/* Settings and LISTEN of a new connection. */
int batch_session(struct conn *conn) MUST_CHECK;
/* Asks the server of an idle connection who it is. Without memory nothing is asked. */
void batch_probe(struct conn *conn);

/* pipeline.c */
void pipeline_reset(struct conn *conn);
/* Sends what may be sent, and reads what came in by the way. */
void pipeline_send(struct conn *conn);
void pipeline_io_cb(uv_poll_t *handle, int status, int events);

/* ending.c */
/* An error came for the batch: is it rolled back for certain, is the connection still good? */
void ending_error(struct batch *batch, const PGresult *r);
/* The server said something besides the answers. */
void ending_notice(struct conn *conn, const PGresult *notice);
/* Its sync came. */
void ending_sync(struct batch *batch);
/* The connection is gone: decides about every batch in flight. */
void ending_lost(struct conn *conn);

/* identity.c */
struct identity {
    bool standby;     /* or read-only */
    int64_t system;   /* identifier */
    int64_t timeline; /* 0: a standby */
    int32_t backend;  /* process of the session */
};

/* Connected: asks the server who it is, then connect_ready, scout_end or conn_break. */
void identity_begin(struct conn *conn);
void identity_ask(struct conn *conn);
/* The answer to batch_probe. */
void identity_probed(struct conn *conn, const struct batch *batch);

/* primary.c */
void primary_join(struct conn *conn);
size_t primary_first_host(const struct conn *conn);
/* One of the process's connections, which finds out for the others that a standby was promoted. */
bool primary_is_pilot(const struct conn *conn);
/* Whether this server may be used; what is newer than all before becomes the rule. */
int primary_judge(struct conn *conn, const struct identity *id, struct pawl_err *err) MUST_CHECK;

/* scout.c */
void scout_start(struct conn *parent, size_t host);
void scout_end(struct conn *scout);

/* pooler.c */
/* The session of a new connection. False: it is asked again, when the scout is back. */
bool pooler_seen(struct conn *conn, int32_t backend) MUST_CHECK;
void pooler_seen_again(struct conn *conn, int32_t backend);
void pooler_scouted(struct primary *primary);
/* A prepared statement is not there. */
void pooler_forgot(struct conn *conn);

/* prepared.c */
void prepared_reset(struct conn *conn);
bool prepared_can_send(const struct conn *conn, const struct batch *batch);
void prepared_name(const struct conn *conn, const struct stmt *stmt, char name[PREPARED_NAME_MAX]);
void prepared_forget(struct conn *conn, const struct stmt *stmt);
void prepared_forget_all(struct conn *conn);

/* deadline.c */
void deadline_note(struct conn *conn, int64_t due_us);
void deadline_timer_cb(uv_timer_t *timer);
/* When the oldest batch in flight is past its deadline: asks the server to cancel it. */
void deadline_cancel(struct conn *conn);
void deadline_batch_ended(struct conn *conn, const struct batch *batch);
void deadline_close(struct conn *conn);

#endif
