# pawl job and pawl queue: looking, and holding a queue.

load ../support/e2e

# The ids on stdout, in order.
ids()
{
    json '" ".join(str(r["id"]) for r in it)'
}

# A job in every state: 1 ready, 2 scheduled, 3 retrying, 4 running, 5 parked, 6 done, 7 failed, 8 cancelled.
one_of_each()
{
    fresh_db
    "$PAWL_TEST_BIN" enqueue a --count 8 '{"n":1}' >/dev/null
    db_sql "UPDATE pawl.job SET kind = 'b', queue = 'other' WHERE id IN (6, 7);
            UPDATE pawl.job SET due_at = now() + interval '1 h' WHERE id IN (1, 2, 3, 5, 8)"
    "$PAWL_TEST_BIN" work --once -q -Q other -e 'b=[ $PAWL_JOB_ID = 6 ] && echo 42 || exit 65' >/dev/null
    start_pawl work -q -e 'a=touch begun; while [ -e begun ]; do sleep 0.05; done'
    eventually 10 test -e begun
    db_sql "UPDATE pawl.job SET attempt = 1,
                   errors = '[{\"attempt\": 1, \"at\": \"2026-01-02T03:04:05Z\", \"error\": \"oops\", \"run_us\": 1500}]'
            WHERE id = 3;
            UPDATE pawl.job SET waits_for = 'operator', due_at = 'infinity' WHERE id = 5;
            WITH j AS (DELETE FROM pawl.job WHERE id = 8 RETURNING *)
            INSERT INTO pawl.history SELECT id, created_at, due_at, now(), now(), current_date + 7, 'cancelled', attempt,
                   max_attempts, priority, queue, kind, NULL, payload, NULL, NULL FROM j;
            INSERT INTO pawl.queue (name, paused_at, paused_by) VALUES ('default', now(), 'somebody')"
    hurry 1
}

@test "job list shows the newest first, in every state, and filters" {
    one_of_each
    run_pawl job list -o json
    assert_status 0
    [ "$(json '" ".join(r["state"] for r in it)')" = 'cancelled failed done parked running retrying scheduled ready' ]
    run_pawl job list -o json --state failed -s done
    [ "$(ids)" = '7 6' ]
    run_pawl job list -o json --queue other
    [ "$(ids)" = '7 6' ]
    run_pawl job list -o json --kind a --state ready
    [ "$(ids)" = 1 ]
    run_pawl job list -o json --kind b --queue default
    assert_output '[]'
    run_pawl job list -o jsonl -n 2
    [ "${#lines[@]}" = 2 ]
    run_pawl job list
    [ "${#lines[@]}" = 9 ]
    assert_line 'JOB  STATE * QUEUE * KIND *'
    assert_line '  7  failed * other *exit status 65'
}

@test "job list goes on where the last page ended" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k --count 5 >/dev/null
    run_pawl job list -n 2 -o json
    [ "$(ids)" = '5 4' ]
    assert_stderr_contains 'note: there may be more: --before 4 shows the next ones'
    run_pawl job list -n 2 --before 4 -o json
    [ "$(ids)" = '3 2' ]
    run_pawl job list -n 2 --before 2 -o json -q
    [ "$(ids)" = 1 ]
    [ -z "$stderr" ]
}

@test "job list says when there is nothing, and why" {
    fresh_db
    run_pawl job list
    assert_status 0
    assert_output ''
    assert_stderr_contains 'no jobs'
    run_pawl job list --kind x
    assert_stderr_contains 'no such jobs'
    run_pawl job list -q
    [ -z "$stderr" ]
    run_pawl job list -o jsonl
    assert_output ''
}

@test "job list refuses what cannot match" {
    run_pawl job list --state runing
    assert_status 2
    assert_stderr_contains 'a job is never "runing"'
    assert_stderr_contains 'Did you mean running?'
    run_pawl job list --queue $'a\377'
    assert_status 2
    assert_stderr_contains "a queue's name cannot hold the byte 0xff"
    run_pawl job list --kind "$(printf '%0200d' 0)"
    assert_status 10
    run_pawl job list -n 0
    assert_status 2
    run_pawl job list -n 10001
    assert_status 2
    run_pawl job list --before 0
    assert_status 2
}

@test "job show tells every state" {
    one_of_each
    local n now=(x 'waits because queue default is paused (pawl queue resume default)'
        'waits until it is due in *; queue default is paused' 'waits * for attempt 2 of 20; queue default is paused'
        'runs on *:* for *; queue default is paused' 'waits for an operator; queue default is paused' done failed cancelled)
    for n in 1 2 3 4 5 6 7 8; do
        run_pawl job show $n
        assert_status 0
        assert_line "now       ${now[n]}"
        assert_line 'payload   {"n":1}'
        assert_line '  *Z  enqueued'
    done
    run_pawl job show 3
    assert_line '  2026-01-02T03:04:05.000Z  attempt 1 failed after 1 ms on a worker that is gone: oops'
    run_pawl job show 5
    assert_line 'due       never'
    run_pawl job show 6
    assert_line 'result    42'
    [ "$(job 5 'it["due_at"]')" = null ]
    [ "$(job 6 '[it["state"], it["result"], it["finished_at"] is None]')" = '["done", 42, false]' ]
    run_pawl queue list -o json
    [ "$(json '[[r["queue"], r["ready"], r["running"], r["scheduled"], r["retrying"], r["parked"], r["paused"], r["paused_by"]] for r in it if r["queue"] == "default"]')" \
        = '[["default", 1, 1, 1, 1, 1, true, "somebody"]]' ]
}

@test "a job that is not there, or no id, is said so" {
    fresh_db
    run_pawl job show 17
    assert_status 3
    assert_stderr_contains 'pawl: there is no job 17'
    local id
    for id in abc 0 -1 1.5 '' 99999999999999999999; do
        run_pawl job show -- "$id"
        assert_status 2
        assert_stderr_contains 'is not the id of a job'
    done
    run_pawl job show
    assert_status 2
    assert_stderr_contains 'missing argument: ID'
}

@test "a long payload is cut for people and whole for programs" {
    fresh_db
    { printf '"'; head -c 10000 /dev/zero | tr '\0' x; printf '"'; } | "$PAWL_TEST_BIN" enqueue k -
    run_pawl job show 1
    assert_line '*… (10002 bytes in all; -o json shows them)'
    [ "$(job 1 'len(it["payload"])')" = 10000 ]
}

@test "queues: listed, paused by name, resumed" {
    fresh_db
    run_pawl queue list
    assert_status 0
    assert_output ''
    assert_stderr_contains 'no queues yet: a queue appears with its first job'
    run_pawl queue list -q
    [ -z "$stderr" ]
    "$PAWL_TEST_BIN" enqueue k --queue mail --count 3 >/dev/null
    run_pawl queue pause mail empty
    assert_status 0
    [ -z "$output" ]
    assert_stderr_contains 'queue mail is paused'
    assert_stderr_contains 'queue empty is paused'
    run_pawl queue list
    assert_line "mail * 3 * yes * $(id -un) *"
    run_pawl queue resume mail empty
    run_pawl queue list -o json
    [ "$(json '[r["paused"] for r in it if r["queue"] == "mail"]')" = '[false]' ]
    run_pawl queue pause --all
    run_pawl queue list
    assert_line "mail * 3 * yes * $(id -un) *"
    assert_line "\* * yes * $(id -un) *"
}

@test "one bad name among several changes nothing" {
    fresh_db
    run_pawl queue pause good 'b d'
    assert_status 2
    assert_stderr_contains "a queue's name cannot hold a blank"
    [ "$(db_sql 'SELECT count(*) FROM pawl.queue')" = 0 ]
}

@test "queue list counts no further than it was told" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k --count 30 >/dev/null
    run_pawl queue list --count 10 -o json
    [ "$(json 'it[0]["capped"]')" = true ]
    assert_stderr_contains 'counting stopped at 10 (see --count)'
}

@test "kind set --retry table needs delays, unless there are some already" {
    fresh_db
    run_pawl kind set bill --retry table
    assert_status 2
    assert_stderr_contains '--retry table needs --table with the delays'
    [ "$(db_sql 'SELECT count(*) FROM pawl.kind')" = 0 ]
    run_pawl kind set bill --table 1s,1m
    run_pawl kind set bill --retry quadratic
    run_pawl kind set bill --retry table
    assert_status 0
    [ "$(db_sql 'SELECT name, retry, retry_table_ms FROM pawl.kind')" = 'bill|table|{1000,60000}' ]
    run_pawl kind set mail --base 2s
    run_pawl kind set mail --retry table # a row, but no table
    assert_status 2
    [ "$(db_sql "SELECT retry FROM pawl.kind WHERE name = 'mail'")" = exponential ]
}
