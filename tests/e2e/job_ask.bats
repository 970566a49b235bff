# pawl job cancel, retry and wait; unique keys and what else a job can carry; who may enqueue where.

load ../support/e2e

@test "a unique key is held by one job, and its id is printed" {
    fresh_db
    run_pawl enqueue sync --unique-key account-7
    assert_status 0
    [ "$output" = 1 ]
    run_pawl enqueue sync --unique-key account-7 '{"n":2}'
    [ "$output" = 1 ]
    run_pawl enqueue other --unique-key account-7
    [ "$output" != 1 ]
    run_pawl enqueue other --unique-key account-7 --unique-scope queue
    assert_status 0
    run_pawl enqueue sync --unique-key account-7 --on-conflict refuse
    assert_status 19
    run_pawl enqueue sync --unique-key account-7 --on-conflict replace '{"n":3}'
    [ "$(db_sql "SELECT convert_from(payload, 'UTF8') FROM pawl.job WHERE id = 1")" = '{"n":3}' ]
}

@test "a job shows what it carries" {
    fresh_db
    run_pawl enqueue k --tag red --tag blue --trace 00-abc --retry quadratic --retry-base 2s --retry-cap 1m
    assert_status 0
    run_pawl job show 1 -o json
    [ "$(json '" ".join(it["tags"]) + " " + it["trace"]')" = 'red blue 00-abc' ]
    run_pawl job show 1
    assert_output_contains '00-abc'
    [ "$(db_sql 'SELECT retry, retry_base_ms, retry_cap_ms FROM pawl.job_option')" = 'quadratic|2000|60000' ]
}

@test "a job shows what it is about and its deadline" {
    fresh_db
    run_pawl enqueue k --correlation order-7 --deadline 2h
    assert_status 0
    run_pawl job show 1
    assert_output_contains 'about'
    assert_output_contains 'order-7'
    assert_output_contains 'deadline'
    run_pawl job show 1 -o json
    [ "$(json 'it["correlation"] + " " + str(it["deadline_at"] is not None)')" = 'order-7 True' ]
}

@test "a file of jobs carries the same" {
    fresh_db
    cat > jobs.jsonl <<'JOBS'
{"kind":"a","unique_key":"x","unique_for":"1h","tags":["t"],"trace":"00-1","retry":"exponential","retry_base":1,"retry_cap":"5m"}
{"kind":"a","unique_key":"x","on_conflict":"reschedule","delay":"1h"}
JOBS
    run_pawl enqueue --from-file jobs.jsonl
    assert_status 0
    [ "$output" = $'1\n1' ]
    [ "$(db_sql "SELECT meta, retry_cap_ms, due_at > now() FROM pawl.job JOIN pawl.job_option ON job_id = id")" = '{"tags": ["t"], "trace": "00-1"}|300000|t' ]
    echo '{"kind":"a","on_conflict":"explode"}' > bad.jsonl
    run_pawl enqueue --from-file bad.jsonl
    assert_status 2
    echo '{"kind":"a","tags":["a b"]}' > bad.jsonl
    run_pawl enqueue --from-file bad.jsonl
    assert_status 2
}

@test "a job is cancelled, and says by whom" {
    fresh_db
    run_pawl enqueue k --count 2
    run_pawl job cancel 1 2
    assert_status 0
    [ "$(db_sql "SELECT count(*) FROM pawl.history WHERE state = 'cancelled' AND cancel_by IS NOT NULL")" = 2 ]
    run_pawl job cancel 1
    assert_status 14
    run_pawl job cancel 99
    assert_status 3
    run_pawl job cancel x
    assert_status 2
}

@test "a job that runs is told to end" {
    fresh_db
    run_pawl enqueue k
    start_pawl work -q -e 'k=touch begun; sleep 60'
    eventually 10 test -e begun
    run_pawl job cancel 1
    assert_status 0
    run_pawl job wait 1 --timeout 120s
    assert_status 1
    [ "$(db_sql 'SELECT state FROM pawl.jobs')" = cancelled ]
}

@test "a job runs again" {
    fresh_db
    run_pawl enqueue k --delay 1h
    run_pawl job retry 1
    [ "$output" = 1 ]
    [ "$(db_sql 'SELECT state FROM pawl.jobs')" = ready ]
    run_pawl job cancel 1
    run_pawl job retry 1
    [ "$output" = 2 ]
    run_pawl work --once -q -e k=true
    run_pawl job retry 2
    assert_status 14
}

@test "waiting ends with the job, or with its time" {
    fresh_db
    run_pawl enqueue k
    run_pawl job wait 1 --timeout 50ms
    assert_status 13
    start_pawl work -q -e 'k=echo 42'
    run_pawl job wait 1 --timeout 120s -o json
    assert_status 0
    [ "$(json 'it["state"]')" = done ]
    run_pawl job wait 99
    assert_status 3
}

@test "a role is allowed into a queue, and out of it" {
    fresh_db
    role="r_$(db_sql 'SELECT current_database()')"
    db_sql "CREATE ROLE \"$role\"; GRANT pawl_enqueuer TO \"$role\""
    run_pawl queue allow mail "$role"
    assert_status 0
    db_sql "SET ROLE \"$role\"; SELECT pawl.enqueue('k', queue => 'mail')"
    run_pawl queue disallow mail "$role"
    assert_status 0
    run db_sql "SET ROLE \"$role\"; SELECT pawl.enqueue('k', queue => 'mail')"
    [ "$status" -ne 0 ]
    db_sql "DROP ROLE \"$role\""
    run_pawl queue allow mail "$role"
    assert_status 3
}
