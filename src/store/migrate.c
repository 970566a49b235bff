/*
 * migrate: each migration is one transaction: lock, look what is there, apply the next one, record
 * it, commit. The look happens under the lock, so of two migrators one applies and the other sees
 * that it is done.
 */
#include "store/migrate.h"

#include <string.h>

#include "base/defer.h"
#include "pg/params.h"
#include "pg/result.h"
#include "pg/sync.h"
#include "store/migrations.h"
#include "store/statements.h"

#define MIGRATE_DEADLINE_MS (10 * 60 * 1000) /* one migration; large tables take their time */
#define CHECKSUM_SHOWN      12               /* digits of it in an error */
#define LOCK_TRIES          12               /* times the lock timeout, usually 5 s: a minute */

/* Compares what was applied with what we would have applied. */
static int applied_check(const PGresult *r, int *ret_version, struct pawl_err *err)
{
    int n = PQntuples(r);
    int version = n > 0 ? result_i32(r, n - 1, 0) : 0;

    /* The baseline is frozen from version 0.9.0 on: another one is older than that. */
    if (n > 0 && strcmp(result_text(r, 0, 2), migrations[0].checksum) != 0) {
        err_set(err, PAWL_ESCHEMA, "the schema of this database was made by a pre-release of pawl");
        err_detail(err,
                   "It began with \"%s\", applied by pawl %s; this pawl " PAWL_VERSION
                   " begins with \"%s\".",
                   result_text(r, 0, 1),
                   result_text(r, 0, 4),
                   migrations[0].name);
        return err_hint(
            err,
            "Its jobs cannot be taken over. Destroy it with \"pawl db destroy\" (a private database), or "
            "with DROP SCHEMA pawl CASCADE (one of your own); then run: pawl db migrate");
    }
    if (version > migrations_n) {
        err_set(err,
                PAWL_ESCHEMA,
                "the schema is at version %d, but this pawl understands only up to version %d",
                version,
                migrations_n);
        err_detail(
            err,
            "Its last migration is %d \"%s\", applied by pawl %s; the last one that this pawl " PAWL_VERSION
            " was built with is %d \"%s\".",
            version,
            result_text(r, n - 1, 1),
            result_text(r, n - 1, 4),
            migrations_n,
            migrations[migrations_n - 1].name);
        return err_hint(
            err,
            "Install a newer pawl, one that has migration %d; the schema is never taken back.",
            version);
    }
    for (int i = 0; i < n; i++) {
        const struct migration *ours = &migrations[i];

        if (result_i32(r, i, 0) == ours->version &&
            strcmp(result_text(r, i, 2), ours->checksum) == 0)
            continue;
        err_set(err,
                PAWL_ESCHEMA,
                "migration %d of this database is not the one this pawl was built with",
                result_i32(r, i, 0));
        err_detail(
            err,
            "It is recorded as \"%s\" with checksum %.*s, applied by pawl %s; this pawl " PAWL_VERSION
            " has \"%s\" with checksum %.*s.",
            result_text(r, i, 1),
            CHECKSUM_SHOWN,
            result_text(r, i, 2),
            result_text(r, i, 4),
            ours->name,
            CHECKSUM_SHOWN,
            ours->checksum);
        return err_hint(err, "Use the pawl that migrated it, or one that was released after it.");
    }
    *ret_version = version;
    return 0;
}

static int applied_version(PGconn *conn, int *ret_version, struct pawl_err *err)
{
    CLEANUP(result_cleanup)
    PGresult *r = NULL;
    int rc = sync_exec(conn, STMT(migration_list), NULL, &r, err);

    return rc < 0 ? rc : applied_check(r, ret_version, err);
}

int schema_status(PGconn *conn, struct schema_status *ret_status, struct pawl_err *err)
{
    struct schema_status status = {.known = migrations_n};
    CLEANUP(result_cleanup)
    PGresult *r = NULL;
    int rc = sync_exec(conn, STMT(migration_present), NULL, &r, err);

    if (rc < 0)
        return rc;
    status.present = result_bool(r, 0, 0);
    if (status.present) {
        rc = applied_version(conn, &status.version, err);
        if (rc < 0)
            return rc;
    }
    *ret_status = status;
    return 0;
}

#define NO_SUCH_TABLE "42P01"
#define GRANT_MISSING "PW006" /* from bootstrap.sql, whose hint says more than ours */

int schema_check(PGconn *conn, struct pawl_err *err)
{
    int version;
    int rc = applied_version(conn, &version, err);

    if (rc == PAWL_ESCHEMA && err != NULL && strcmp(err->sqlstate, NO_SUCH_TABLE) == 0) {
        err_set(err, PAWL_ESCHEMA, "there is no schema pawl in database \"%s\" yet", PQdb(conn));
        return err_hint(err, "Run: pawl db migrate");
    }
    if (rc < 0)
        return rc;
    if (version < migrations_n) {
        err_set(err,
                PAWL_ESCHEMA,
                "the schema is at version %d, and this pawl needs version %d",
                version,
                migrations_n);
        return err_hint(err, "Run: pawl db migrate");
    }
    return 0;
}

/* Inside a transaction: the lock, the roles, the schema, and where things stand. */
static int prepare(PGconn *conn, int *ret_version, struct pawl_err *err)
{
    int rc = sync_exec(conn, STMT(migration_lock), NULL, NULL, err);

    if (rc == 0)
        rc = sync_script(conn, migration_bootstrap, MIGRATE_DEADLINE_MS, err);
    if (rc == PAWL_EDENIED && err != NULL && strcmp(err->sqlstate, GRANT_MISSING) != 0) {
        err_hint(
            err,
            "Migrate as a database user that may create roles and schemas, or have an administrator run "
            "`pawl db migrate` once.");
    }
    return rc < 0 ? rc : applied_version(conn, ret_version, err);
}

static int apply(PGconn *conn, const struct migration *migration, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    struct params params;
    int rc = sync_script(conn, migration->sql, MIGRATE_DEADLINE_MS, err);

    arena_init(&arena, 64 * 1024);
    if (rc < 0)
        return rc;
    params_init(&params, &arena);
    params_i32(&params, migration->version);
    params_text(&params, migration->name);
    params_text(&params, migration->checksum);
    params_text(&params, PAWL_VERSION);
    return sync_exec(conn, STMT(migration_record), &params, NULL, err);
}

/* One transaction: the next missing migration, if any. ret_more: whether there may be another. */
static int
migrate_next(PGconn *conn, migrate_fn told, void *data, bool *ret_more, struct pawl_err *err)
{
    int version = 0;
    int rc = sync_exec(conn, STMT(tx_begin), NULL, NULL, err);

    if (rc < 0)
        return rc;
    rc = prepare(conn, &version, err);
    if (rc == 0 && version < migrations_n) {
        const struct migration *next = &migrations[version];

        told(data, next->version, next->name, next->sql);
        rc = apply(conn, next, err);
    }
    if (rc < 0) {
        struct pawl_err ignored;

        (void)!sync_exec(conn, STMT(tx_rollback), NULL, NULL, &ignored);
        return rc;
    }
    rc = sync_exec(conn, STMT(tx_commit), NULL, NULL, err);
    if (rc == 0)
        *ret_more = version < migrations_n;
    return rc;
}

int schema_migrate(
    PGconn *conn, bool dry_run, migrate_fn told, void *data, int *ret_applied, struct pawl_err *err)
{
    struct schema_status status;
    int applied = 0;
    int tries = 0;
    int rc = schema_status(conn, &status, err);

    if (rc < 0)
        return rc;
    if (dry_run) {
        for (int i = status.version; i < migrations_n; i++)
            told(data, migrations[i].version, migrations[i].name, migrations[i].sql);
        *ret_applied = migrations_n - status.version;
        return 0;
    }
    /* Nothing to do needs no lock and no right to create anything. */
    bool more = status.version < migrations_n;

    while (more) {
        rc = migrate_next(conn, told, data, &more, err);
        if (rc == PAWL_ERETRY && ++tries < LOCK_TRIES)
            continue;
        if (rc == PAWL_ERETRY) {
            err_hint(err,
                     "Another migration is under way, or a long transaction uses Pawl's tables. "
                     "Nothing was changed; try again when it is over.");
        }
        if (rc < 0)
            return rc;
        applied += more;
    }
    *ret_applied = applied;
    return 0;
}
