# e2e: what every bats file loads. A test gets a directory of its own (it starts there, as $PWD and $DIR), a private
# PAWL_HOME inside, and, if it calls fresh_db, a migrated database of its own. All of it is gone afterwards.
#
#     load ../support/e2e
#
#     @test "enqueue prints the id" {
#         fresh_db
#         run_pawl enqueue hello '{"n":1}'
#         assert_status 0
#         assert_output_contains 1
#     }
#
# run_pawl sets $status, $output and $lines (stdout), $stderr and $stderr_lines.

bats_require_minimum_version 1.5.0

: "${PAWL_TEST_DB:?run the tests through ./dev test}" "${PAWL_TEST_BIN:?}" "${PAWL_TEST_TMP:?}" "${PAWL_TEST_PSQL:?}"

PYTHON=/usr/bin/python3 # Debian's own: what is first in the PATH may be a slow wrapper
[ -x "$PYTHON" ] || PYTHON=python3

setup()
{
    DIR=$(mktemp -d "$PAWL_TEST_TMP/e2e.XXXXXX")
    chmod 755 "$DIR" # the private PostgreSQL of a root user runs as somebody else
    cd "$DIR" || return 1
    export PAWL_HOME=$DIR/home NO_COLOR=1 LC_ALL=C.UTF-8
    unset PAWL_DATABASE_URL DATABASE
    PIDS=
}

teardown()
{
    local pid
    for pid in $PIDS; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    if [ -e "$PAWL_HOME/data" ]; then
        env -u PAWL_DATABASE_URL "$PAWL_TEST_BIN" db stop >/dev/null 2>&1 || true
    fi
    drop_db
    cd / || return 1
    rm -rf "$DIR"
}

# On the server of this run, as superuser: server_sql STATEMENT...
server_sql()
{
    local sql args=()
    for sql; do
        args+=(-c "$sql")
    done
    "$PAWL_TEST_PSQL" -X -q -A -t -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate -d "$PAWL_TEST_DB" "${args[@]}"
}

# A migrated, empty database for this test; sets PAWL_DATABASE_URL.
fresh_db()
{
    local out _
    DATABASE=e2e_$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
    for _ in $(seq 1200); do
        if out=$(server_sql "CREATE DATABASE $DATABASE TEMPLATE pawl_template" 2>&1); then
            export PAWL_DATABASE_URL="$PAWL_TEST_DB dbname=$DATABASE"
            return 0
        fi
        [[ $out == *55006* ]] || break # somebody else is cloning it at this very moment
        sleep 0.025
    done
    echo "could not make a database: $out" >&2
    return 1
}

drop_db()
{
    if [ -n "${DATABASE:-}" ]; then
        server_sql "DROP DATABASE IF EXISTS $DATABASE WITH (FORCE)"
        unset DATABASE PAWL_DATABASE_URL
    fi
}

# A query on this test's database; prints unaligned rows.
db_sql()
{
    "$PAWL_TEST_PSQL" -X -q -A -t -v ON_ERROR_STOP=1 -d "$PAWL_DATABASE_URL" -c "$1"
}

run_pawl()
{
    run --separate-stderr "$PAWL_TEST_BIN" "$@"
}

# pawl in the background, stopped at the end whatever happens; sets $PID. Output in $DIR/background.{out,err}.
start_pawl()
{
    "$PAWL_TEST_BIN" "$@" >"$DIR/background.out" 2>"$DIR/background.err" 3>&- 4>&- &
    PID=$!
    PIDS="$PIDS $PID"
}

# What a Python expression over `it` gives, where `it` is the JSON document on stdout of the last command. Strict:
# anything but one whole document fails.
json()
{
    "$PYTHON" -c '
import json, sys
def unique(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        sys.exit("a key occurs twice: %s" % keys)
    return dict(pairs)
it = json.loads(sys.stdin.read(), object_pairs_hook=unique)
value = eval(sys.argv[1])
print(value if isinstance(value, str) else json.dumps(value))' "$1" <<<"$output"
}

# The same about one job: job 17 'it["state"]'
job()
{
    run_pawl job show "$1" -o json
    assert_status 0 && json "$2"
}

# Whether a job is in a state; for eventually.
job_is()
{
    [ "$(db_sql "SELECT state FROM pawl.jobs WHERE id = $1")" = "$2" ]
}

# A job that waits to be tried again is due at once.
hurry()
{
    db_sql "UPDATE pawl.job SET due_at = now() WHERE id = $1"
}

# Waits until a command succeeds: eventually SECONDS COMMAND... A machine that has much else to do is given six times that: only a
# failure takes so long.
eventually()
{
    local deadline=$((SECONDS + 6 * $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            fail "never became true: $*"
            return 1
        fi
        sleep 0.05
    done
}

# Says what was seen, for all of the asserts.
fail()
{
    printf '%s\n--- status: %s\n--- stdout:\n%s\n--- stderr:\n%s\n' \
        "$1" "${status:-}" "${output:-}" "${stderr:-}" >&2
    return 1
}

assert_status()
{
    [ "$status" -eq "$1" ] || fail "expected exit status $1"
}

assert_output()
{
    [ "$output" = "$1" ] || fail "expected stdout to be: $1"
}

assert_output_contains()
{
    [[ $output == *"$1"* ]] || fail "expected stdout to contain: $1"
}

refute_output_contains()
{
    [[ $output != *"$1"* ]] || fail "expected stdout not to contain: $1"
}

assert_stderr_contains()
{
    [[ $stderr == *"$1"* ]] || fail "expected stderr to contain: $1"
}

# Some line of stdout is, or with a pattern matches, exactly this: assert_line 'job * done'
assert_line()
{
    local line
    for line in "${lines[@]}"; do
        # shellcheck disable=SC2053 # a pattern on purpose
        [[ $line == $1 ]] && return 0
    done
    fail "expected a line like: $1"
}
