/*
 * primary: judges what servers say about themselves, and looks for silence. See primary.h. Loop
 * thread only.
 */
#include "pg/primary.h"

#include "pg/conn_internal.h"

#define OVERDUE_MS   1000  /* an answer, before the other hosts are looked at */
#define QUIET_MS     2000  /* nothing heard on any connection, with several hosts */
#define QUIET_ONE_MS 10000 /* with one: there is nowhere to go, so it may be noticed later */
#define SCOUT_WELL_MS \
    3000 /* between looks at the other hosts while all is well: a promotion beside an
                               old primary that nobody fenced is noticed within 5 s */

void primary_init(struct primary *primary, const struct stmt *identity, struct log *log)
{
    *primary = (struct primary){.identity = identity, .log = log};
    list_init(&primary->conns);
}

void primary_deinit(struct primary *primary)
{
    struct list *link;
    while ((link = list_shift(&primary->conns)) != NULL)
        LIST_ENTRY(link, struct conn, kin)->options.primary = NULL;
}

bool primary_pooled(const struct primary *primary)
{
    return primary->pooler == POOLER_TRANSACTION;
}

size_t primary_first_host(const struct conn *conn)
{
    const struct primary *primary = conn->options.primary;
    return primary != NULL && primary->known ? primary->host : 0;
}

static int refuse_system(const struct conn *conn, const struct identity *id, struct pawl_err *err)
{
    const struct primary *primary = conn->options.primary;
    char at[HOST_LABEL_MAX];
    host_label(conn->options.target, conn->host, at);
    err_set(
        err, PAWL_ESTATE, "the database server at %s is another database system than before", at);
    err_detail(err,
               "Its system identifier is %lld; this process began with %lld.",
               (long long)id->system,
               (long long)primary->system);
    err_hint(err, "If that is meant, restart this process; otherwise correct the address.");
    return PAWL_ESTATE;
}

static int refuse_timeline(const struct conn *conn, const struct identity *id, struct pawl_err *err)
{
    const struct primary *primary = conn->options.primary;
    char at[HOST_LABEL_MAX];
    host_label(conn->options.target, conn->host, at);
    err_set(err, PAWL_ESTATE, "the database server at %s is not the primary any more", at);
    err_detail(err,
               "It is on timeline %lld; timeline %lld was seen.",
               (long long)id->timeline,
               (long long)primary->timeline);
    err_hint(err, "Stop that server, or make it a standby of the new primary (pg_rewind).");
    return PAWL_ESTATE;
}

/* Everybody goes where the primary is: those on an older timeline, and those still on their way. */
static void gather(struct primary *primary, const struct conn *but)
{
    char at[HOST_LABEL_MAX];
    LIST_FOREACH(link, &primary->conns) {
        struct conn *conn = LIST_ENTRY(link, struct conn, kin);
        if (conn == but || (conn->state == CONN_READY && conn->timeline == primary->timeline) ||
            (conn->state == CONN_CONNECTING && conn->host == primary->host))
            continue;
        host_label(conn->options.target, primary->host, at);
        struct pawl_err err;
        err_set(&err, PAWL_ECONN, "the primary is at %s now", at);
        connect_hurry(conn, &err);
    }
}

/* Whether somebody is well where we think the primary is. */
static bool is_well(const struct primary *primary)
{
    LIST_FOREACH(link, &primary->conns) {
        const struct conn *conn = LIST_ENTRY(link, struct conn, kin);
        if (conn->state == CONN_READY && !conn->broken && conn->timeline == primary->timeline)
            return true;
    }
    return false;
}

static void moved(struct primary *primary, struct conn *conn, const struct identity *id)
{
    char at[HOST_LABEL_MAX];
    host_label(conn->options.target, conn->host, at);
    log_warn(primary->log,
             "primary_moved",
             LOG_STR("to", at),
             LOG_INT("timeline", id->timeline),
             LOG_INT("before", primary->timeline));
    primary->timeline = id->timeline;
    primary->host = conn->host;
    gather(primary, conn);
}

int primary_judge(struct conn *conn, const struct identity *id, struct pawl_err *err)
{
    struct primary *primary = conn->options.primary;
    if (id->standby) {
        char at[HOST_LABEL_MAX];
        host_label(conn->options.target, conn->host, at);
        return host_err_standby(at, err);
    }
    if (!primary->known) {
        primary->known = true;
        primary->system = id->system;
        primary->timeline = id->timeline;
        primary->host = conn->host;
    }
    if (id->system != primary->system)
        return refuse_system(conn, id, err);
    if (id->timeline < primary->timeline)
        return refuse_timeline(conn, id, err);
    conn->timeline = id->timeline;
    if (id->timeline > primary->timeline) {
        moved(primary, conn, id);
    } else if (conn->host != primary->host && !is_well(primary)) {
        primary->host = conn->host;
        gather(primary, conn);
    }
    return 0;
}

bool primary_is_pilot(const struct conn *conn)
{
    const struct primary *primary = conn->options.primary;
    return primary != NULL && primary->conns.next == &conn->kin;
}

void primary_join(struct conn *conn)
{
    list_init(&conn->kin);
    if (conn->options.primary != NULL)
        list_push(&conn->options.primary->conns, &conn->kin);
}

/* Since when the server owes this connection an answer; 0: it does not. */
static int64_t owed_since_us(const struct conn *conn)
{
    if (conn->state == CONN_CONNECTING)
        return conn->began_us;
    if (conn->state != CONN_READY || list_empty(&conn->inflight))
        return 0;
    const struct batch *oldest = LIST_ENTRY(conn->inflight.next, struct batch, link);
    return oldest->sent_us > conn->heard_us ? oldest->sent_us : conn->heard_us;
}

/* An answer is overdue, or a connection is down. */
static bool in_trouble(const struct primary *primary, int64_t now_us)
{
    LIST_FOREACH(link, &primary->conns) {
        const struct conn *conn = LIST_ENTRY(link, struct conn, kin);
        int64_t since_us = owed_since_us(conn);
        if (conn->state == CONN_WAITING ||
            (since_us != 0 && now_us - since_us >= OVERDUE_MS * US_PER_MS))
            return true;
    }
    return false;
}

/* One that is up; with `idle` one that has nothing in flight. */
static struct conn *find_conn(const struct primary *primary, bool idle)
{
    LIST_FOREACH(link, &primary->conns) {
        struct conn *conn = LIST_ENTRY(link, struct conn, kin);
        if (conn->state == CONN_IDLE || conn->state == CONN_CLOSING)
            continue;
        /* Not while a cancel is under way: it would hit the question. */
        if (!idle || (conn->state == CONN_READY && !conn->broken && conn->cancel == NULL &&
                      list_empty(&conn->inflight) && list_empty(&conn->waiting)))
            return conn;
    }
    return NULL;
}

static int64_t heard_us(const struct primary *primary)
{
    int64_t last_us = primary->probed_us;
    LIST_FOREACH(link, &primary->conns) {
        const struct conn *conn = LIST_ENTRY(link, struct conn, kin);
        if (conn->state == CONN_READY && conn->heard_us > last_us)
            last_us = conn->heard_us;
    }
    return last_us;
}

/* In turn, but not where the connections are: they hear for themselves. */
static void scout_next(struct primary *primary, struct conn *parent, size_t n_hosts, int64_t now_us)
{
    size_t host = primary->scout_host % n_hosts;
    if (host == primary->host && is_well(primary))
        host = (host + 1) % n_hosts;
    primary->scout_host = host + 1;
    primary->scouted_us = now_us;
    scout_start(parent, host);
}

void primary_tick(struct primary *primary)
{
    struct conn *any = find_conn(primary, false);
    if (any == NULL)
        return;
    int64_t now_us = conn_now_us(any);
    size_t n_hosts = target_hosts(any->options.target);
    bool trouble = in_trouble(primary, now_us);
    int64_t quiet_ms = n_hosts > 1 ? QUIET_MS : QUIET_ONE_MS;
    if (n_hosts > 1 && primary->scout == NULL &&
        (trouble || now_us - primary->scouted_us >= SCOUT_WELL_MS * US_PER_MS))
        scout_next(primary, any, n_hosts, now_us);
    struct conn *idle = find_conn(primary, true);
    if (trouble || primary->mute || idle == NULL ||
        now_us - heard_us(primary) < quiet_ms * US_PER_MS)
        return;
    primary->probed_us = now_us;
    batch_probe(idle);
}
