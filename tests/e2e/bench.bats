# pawl bench: that it measures, reports and cleans up; not how fast anything is.

load ../support/e2e

# Databases that a run has left behind.
left_behind()
{
    server_sql "SELECT count(*) FROM pg_database WHERE datname LIKE 'pawl_bench_%'"
}

one_is_open()
{
    [ "$(left_behind)" = 1 ]
}

# What each row of the report says about a member: members NAME
members()
{
    python3 -c 'import json, sys; [print(row[sys.argv[1]]) for row in json.load(sys.stdin)]' "$1" <<<"$output"
}

@test "a small drain gives the rows of the report as JSON and leaves nothing behind" {
    fresh_db
    run_pawl bench drain --quick --jobs 2000 --rounds 1 -o json
    assert_status 0
    [ "$(members case | sort -u)" = drain ]
    [ "$(members unit)" = "$(printf '%s\n' jobs/s jobs/s tx B B µs µs µs)" ]
    [ "$(members target)" = "$(printf '%s\n' 0.8 0.6 0.05 None None None None None)" ]
    python3 -c '
import json, sys
for row in json.load(sys.stdin):
    assert isinstance(row["measured"], (int, float)), row
    assert len(row["measured_rounds"]) == 1, row
    assert (row["met"] is None) == (row["target"] is None), row
' <<<"$output"
    [ "$(left_behind)" = 0 ]
}

@test "several processes run no job twice" {
    fresh_db
    run_pawl bench processes --quick --jobs 2000 --rounds 1 -o json
    assert_status 0
    [ "$(members measured | sed -n 2,3p)" = "$(printf '%s\n' 0 0)" ]
    [ "$(left_behind)" = 0 ]
}

@test "a signal ends it and drops the database" {
    fresh_db
    start_pawl bench idle
    eventually 20 one_is_open
    eventually 20 grep -q 'idle' "$DIR/background.err"
    kill -TERM "$PID"
    status=0
    wait "$PID" || status=$?
    assert_status 130
    [ "$(left_behind)" = 0 ]
}

@test "a case that does not exist is refused before anything is done" {
    run_pawl bench drian
    assert_status 2
    assert_stderr_contains "there is no case drian"
    [ ! -e "$PAWL_HOME" ]
}
