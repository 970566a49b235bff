# Whatever can be wrong with a database: one clear message, the documented exit status, and nothing lost.

load ../support/e2e

# A role that gets in by password, a member of the roles given; sets $ROLE, and ROLE_URL to connect as it.
fresh_role()
{
    local member
    ROLE=e2e_$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
    server_sql "CREATE ROLE $ROLE LOGIN PASSWORD 'secret'"
    for member; do
        server_sql "GRANT $member TO $ROLE"
    done
    ROLE_URL="${PAWL_DATABASE_URL/user=pawl_test/user=$ROLE} password=secret"
}

drop_role()
{
    drop_db
    server_sql "DROP ROLE $ROLE"
}

count_jobs()
{
    db_sql 'SELECT count(*) FROM pawl.jobs'
}

# Each of the verbs that need a database fails alike: all_refused STATUS TEXT...
all_refused()
{
    local expected=$1 args text
    shift
    for args in 'enqueue k' 'work --once -e k=true' 'job list' 'job show 1' 'queue list' 'queue pause q'; do
        # shellcheck disable=SC2086 # words on purpose
        run_pawl $args
        assert_status "$expected"
        [ -z "$output" ] || fail 'something on stdout'
        [[ $stderr == 'pawl: '* ]] || fail 'not one message'
        [ "$(grep -c '^pawl: ' <<<"$stderr")" = 1 ] || fail 'not one message'
        for text; do
            assert_stderr_contains "$text"
        done
    done
}

@test "unreachable: exit status 4, and where it was looked for" {
    export PAWL_DATABASE_URL="host=$DIR port=5432 dbname=x user=y"
    all_refused 4 "could not reach the database server at $DIR/.s.PGSQL.5432" 'hint: Is PostgreSQL running there'
    PAWL_DATABASE_URL=postgresql://user:hush@127.0.0.1:1/x run_pawl enqueue k
    assert_status 4
    assert_stderr_contains 'could not reach the database server at 127.0.0.1:1'
    [[ $stderr != *hush* ]]
    PAWL_DATABASE_URL=postgresql://nowhere.invalid/x run_pawl enqueue k
    assert_status 4
    assert_stderr_contains nowhere.invalid
}

@test "a server that never answers is given up" {
    "$PYTHON" -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
time.sleep(600)' "$DIR/.s.PGSQL.5432" 3>&- 4>&- &
    PIDS="$PIDS $!"
    eventually 10 test -S .s.PGSQL.5432
    run_pawl --db "host=$DIR user=x connect_timeout=1" enqueue k
    assert_status 4
    assert_stderr_contains 'could not reach the database server in time'
}

@test "a connection string that makes no sense is refused without repeating the password" {
    run_pawl --db 'postgresql://user:hush@/x?nonsense=1' enqueue k
    assert_status 2
    [[ $stderr != *hush* ]]
    run_pawl --db '' enqueue k
    assert_status 2
    run_pawl --db "host=$DIR sslmode=maybe" enqueue k
    [ "$status" != 0 ]
    assert_stderr_contains 'invalid sslmode value: "maybe"'
}

@test "no such database: exit status 3" {
    export PAWL_DATABASE_URL="$PAWL_TEST_DB dbname=no_such_database"
    all_refused 3 'there is no database "no_such_database" on the server' 'hint: Create it'
}

@test "wrong password: exit status 5, no password in sight" {
    fresh_db
    fresh_role pawl_server
    PAWL_DATABASE_URL=$ROLE_URL run_pawl enqueue k
    assert_status 0
    PAWL_DATABASE_URL="$ROLE_URL password=wrong-one" all_refused 5 "refused user \"$ROLE\"" \
        'hint: Check the user and the password: in the connection string, in PGPASSWORD or in ~/.pgpass.'
    [[ $stderr != *wrong-one* ]]
    PAWL_DATABASE_URL="${ROLE_URL% password=*}" HOME=$DIR all_refused 5 "wants a password for user \"$ROLE\""
    PAWL_DATABASE_URL="${ROLE_URL% password=*}" PGPASSWORD=secret run_pawl job list
    assert_status 0
    [ "$(count_jobs)" = 1 ]
    drop_role
}

@test "too old: exit status 14, and the version that is needed" {
    "$PYTHON" -c '
import socket, struct, sys
def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
while True:
    c, _ = s.accept()
    c.recv(10000)
    c.sendall(message(b"R", struct.pack("!i", 0)) + message(b"S", b"server_version\x0014.9\x00")
              + message(b"S", b"client_encoding\x00UTF8\x00") + message(b"Z", b"I"))
    c.recv(10000)
    c.close()' "$DIR/.s.PGSQL.5432" 3>&- 4>&- &
    PIDS="$PIDS $!"
    eventually 10 test -S .s.PGSQL.5432
    export PAWL_DATABASE_URL="host=$DIR user=x dbname=x"
    all_refused 14 'the database server is PostgreSQL 14.9; pawl needs 15 or newer' 'hint: Upgrade that server'
}

@test "read-only: exit status 8 for what writes, and looking goes on" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k
    server_sql "ALTER DATABASE $DATABASE SET default_transaction_read_only = on"
    local args
    for args in 'enqueue k' 'enqueue k --count 5000' 'work --once -e k=true' 'queue pause q'; do
        # shellcheck disable=SC2086 # words on purpose
        run_pawl $args
        assert_status 8
        [ -z "$output" ]
        assert_stderr_contains 'read-only transaction'
        assert_stderr_contains 'sqlstate: 25006'
        assert_stderr_contains 'hint: This is a standby, or a database set to read-only.'
    done
    run_pawl job show 1
    assert_status 0
    server_sql "ALTER DATABASE $DATABASE RESET default_transaction_read_only"
    [ "$(count_jobs)" = 1 ]
    run_pawl work --once -q -e k=true
    assert_line 'job 1 k done *'
}

@test "no schema: exit status 7, and the command that makes it" {
    DATABASE=e2e_$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
    server_sql "CREATE DATABASE $DATABASE"
    export PAWL_DATABASE_URL="$PAWL_TEST_DB dbname=$DATABASE"
    all_refused 7 "there is no schema pawl in database \"$DATABASE\" yet" 'hint: Run: pawl db migrate'
}

@test "a newer schema: exit status 7, and nothing is touched" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k
    db_sql "INSERT INTO pawl.migration (version, name, checksum, applied_by) VALUES (9999, 'future', 'x', '9.9.9')"
    all_refused 7 'the schema is at version 9999, but this pawl understands only up to version' \
        'Its last migration is 9999 "future", applied by pawl 9.9.9; the last one that this pawl' \
        'hint: Install a newer pawl, one that has migration 9999'
    run_pawl db migrate
    assert_status 7
    [ "$(count_jobs)" = 1 ]
}

@test "no space: exit status 9, nothing half enqueued, and it works again afterwards" {
    fresh_db
    db_sql "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN
                 IF NEW.id > 1500 THEN
                     RAISE disk_full USING MESSAGE = ''could not extend file \"base/1/2\": No space left on device'';
                 END IF;
                 RETURN NEW;
             END';
            CREATE TRIGGER full_disk BEFORE INSERT ON pawl.job FOR EACH ROW EXECUTE FUNCTION full_disk()"
    run_pawl enqueue k --count 3000
    assert_status 9
    [ -z "$output" ]
    assert_stderr_contains 'No space left on device'
    assert_stderr_contains "hint: Free space on the database server's disk."
    assert_stderr_contains 'Nothing was enqueued.'
    [ "$(count_jobs)" = 0 ]
    db_sql 'DROP TRIGGER full_disk ON pawl.job'
    run_pawl enqueue k
    assert_status 0
}

@test "a role that may not: exit status 6, and the GRANT that helps" {
    fresh_db
    fresh_role
    PAWL_DATABASE_URL=$ROLE_URL all_refused 6 'permission denied for schema pawl' 'sqlstate: 42501' "TO \"$ROLE\""
    server_sql "GRANT pawl_reader TO $ROLE"
    PAWL_DATABASE_URL=$ROLE_URL run_pawl job list
    assert_status 0
    PAWL_DATABASE_URL=$ROLE_URL run_pawl enqueue k
    assert_status 6
    assert_stderr_contains "GRANT pawl_producer TO \"$ROLE\""
    assert_stderr_contains 'Nothing was enqueued.'
    PAWL_DATABASE_URL=$ROLE_URL run_pawl work --once -e k=true
    assert_status 6
    assert_stderr_contains "GRANT pawl_worker TO \"$ROLE\""
    PAWL_DATABASE_URL=$ROLE_URL run_pawl queue pause q
    assert_status 6
    assert_stderr_contains "GRANT pawl_server TO \"$ROLE\""
    PAWL_DATABASE_URL=$ROLE_URL run_pawl db migrate
    assert_status 0 # there is nothing to do, which needs no right
    [ "$(count_jobs)" = 0 ]
    drop_role
}

@test "each role can do its own work" {
    fresh_db
    fresh_role pawl_producer
    PAWL_DATABASE_URL=$ROLE_URL run_pawl enqueue k
    assert_status 0
    server_sql "REVOKE pawl_producer FROM $ROLE" "GRANT pawl_worker TO $ROLE"
    PAWL_DATABASE_URL=$ROLE_URL run_pawl work --once -q -e k=true
    assert_status 0
    assert_line 'job 1 k done *'
    drop_role
}

in_transaction()
{
    [ "$(db_sql "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND state = 'idle in transaction'")" = 1 ]
}

@test "a connection lost in the middle: exit status 4, nothing was enqueued, and it is said" {
    fresh_db
    mkfifo slow
    start_pawl enqueue k -f slow
    exec 7>slow
    seq 1500 | sed 's/.*/{"payload":&}/' >&7
    eventually 10 in_transaction
    db_sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()" >/dev/null
    seq 1500 | sed 's/.*/{"payload":&}/' >&7 || true
    exec 7>&-
    status=0
    wait "$PID" || status=$?
    stderr=$(cat background.err)
    assert_status 4
    assert_stderr_contains 'Nothing was enqueued.'
    [ ! -s background.out ]
    [ "$(count_jobs)" = 0 ]
}
