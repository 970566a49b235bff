# pawl db migrate: a database of one's own.

load ../support/e2e

# An empty database; sets PAWL_DATABASE_URL.
empty_db()
{
    DATABASE=e2e_$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
    server_sql "CREATE DATABASE $DATABASE"
    export PAWL_DATABASE_URL="$PAWL_TEST_DB dbname=$DATABASE"
}

schemas()
{
    db_sql "SELECT count(*) FROM pg_namespace WHERE nspname = 'pawl'"
}

@test "--dry-run prints the SQL and changes nothing" {
    empty_db
    run_pawl db migrate --dry-run
    assert_status 0
    assert_line '-- migration 0001_baseline'
    assert_output_contains 'CREATE TABLE pawl.job ('
    assert_stderr_contains 'would be applied'
    [ "$(schemas)" = 0 ]
}

@test "it is applied once, and then there is nothing to do" {
    empty_db
    run_pawl db migrate
    assert_status 0
    assert_line 'applying 0001_baseline'
    assert_stderr_contains "applied to database \"$DATABASE\""
    run_pawl db migrate
    assert_status 0
    assert_output ''
    assert_stderr_contains 'is up to date'
    run_pawl db migrate -q
    [ -z "$stderr" ]
    run_pawl enqueue k
    assert_status 0
}

@test "of several at once one applies it and all succeed" {
    empty_db
    local i pids=
    for i in 1 2 3 4; do
        "$PAWL_TEST_BIN" db migrate >out.$i 2>&1 3>&- 4>&- &
        pids="$pids $!"
    done
    for i in $pids; do
        wait "$i"
    done
    [ "$(cat out.? | grep -c '^applying 0001_baseline')" = 1 ]
    [ "$(db_sql 'SELECT count(*) FROM pawl.migration WHERE version = 1')" = 1 ]
}

@test "without the right to it: exit status 6, and who should do it" {
    empty_db
    local role=e2e_$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
    server_sql "CREATE ROLE $role LOGIN PASSWORD 'secret'"
    PAWL_DATABASE_URL="${PAWL_DATABASE_URL/user=pawl_test/user=$role} password=secret" run_pawl db migrate
    assert_status 6
    assert_stderr_contains "a superuser run: GRANT pawl_owner TO $role"
    [ "$(schemas)" = 0 ]
    drop_db
    server_sql "DROP ROLE $role"
}

@test "another baseline is not built upon" {
    fresh_db
    db_sql "UPDATE pawl.migration SET checksum = 'other' WHERE version = 1"
    run_pawl db migrate
    assert_status 7
    assert_stderr_contains 'the schema of this database was made by a pre-release of pawl'
    run_pawl enqueue k
    assert_status 7
}

@test "a read-only database cannot be migrated, and says why" {
    empty_db
    server_sql "ALTER DATABASE $DATABASE SET default_transaction_read_only = on"
    run_pawl db migrate
    assert_status 8
    [ "$(schemas)" = 0 ]
}
