# pawl work: how it looks after memory, kinds that fail and the number of jobs at a time.

load ../support/e2e

# A number of the last worker_stats in the log on stderr: number NAME
number()
{
    sed -n "s/.*worker_stats.*[ \"]$1[\":=]*\([0-9][0-9]*\).*/\1/p" <<<"$stderr" | tail -n 1
}

@test "--stats tells how it was: percentiles, memory, throughput, errors by class" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue good --count 3
    "$PAWL_TEST_BIN" enqueue bad --retry-base 1h
    "$PAWL_TEST_BIN" enqueue useless
    run_pawl work --once --stats -e good=true -e bad=false -e 'useless=exit 65'
    assert_status 0
    [ "$(number done)" = 3 ]
    [ "$(number errors_transient)" = 1 ]
    [ "$(number errors_permanent)" = 1 ]
    [ "$(number concurrency)" = 4 ]
    [ "$(number run_p50_us)" -gt 0 ]
    [ "$(number run_p99_us)" -ge "$(number run_p50_us)" ]
    [ "$(number memory_limit_bytes)" -gt "$(number memory_bytes)" ]
    [ "$(number memory_rss_bytes)" -gt 100000 ]
}

@test "--breaker: a kind that fails is left alone, and no attempt is burned meanwhile" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue bad --count 40 --retry-base 1h
    "$PAWL_TEST_BIN" enqueue good --count 5
    run_pawl work --once --stats --breaker 50 -c 2 -e good=true -e bad=false
    assert_status 0
    assert_stderr_contains breaker
    [ "$(number done)" = 5 ]
    # Ten decide, and those that ran with the tenth. One who takes longer than some seconds for all this tries again meanwhile.
    local again=$((2 * ($(number breaker_openings) - 1)))
    [ $again -ge 0 ] && [ $again -le 6 ]
    [ "$(db_sql 'SELECT count(*) FROM pawl.job WHERE attempt > 0')" -le $((14 + again)) ]
    [ "$(db_sql 'SELECT count(*) FROM pawl.job WHERE attempt = 0 AND token IS NULL')" -ge $((26 - again)) ]
}

@test "--memory-max: above it nothing is claimed, and 0 never minds" {
    # One per cent is the least that can be said.
    awk '/^MemTotal/ {all = $2} /^MemAvailable/ {free = $2} END {exit (all - free) * 100 < 1.2 * all}' /proc/meminfo ||
        skip 'this machine is all but empty'
    fresh_db
    "$PAWL_TEST_BIN" enqueue k
    start_pawl work --memory-max 1 -e k=true
    eventually 10 grep memory_closed "$DIR/background.err"
    kill -TERM "$PID"
    wait "$PID"
    job_is 1 ready
    run_pawl work --once --memory-max 0 -e k=true
    assert_status 0
    job_is 1 done
}

@test "--rollout: raised when all goes well, and the log says so" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k --count 30
    start_pawl work -c 2 --rollout 3 --rollout-for 1s -e k=true
    eventually 20 grep 'rollout begins' "$DIR/background.err"
    eventually 20 grep 'rollout went well' "$DIR/background.err"
    kill -TERM "$PID"
    wait "$PID"
}

@test "numbers that make no sense are refused" {
    fresh_db
    run_pawl work -e k=true -c 2 --min-concurrency 3
    assert_status 2
    assert_stderr_contains '--min-concurrency must not be above --concurrency'
    run_pawl work -e k=true -c 4 --rollout 4
    assert_status 2
    assert_stderr_contains '--rollout must be above --concurrency'
    run_pawl work -e k=true -c 4 --rollout 8 --min-concurrency 1
    assert_status 2
    run_pawl work -e k=true --memory-max 101
    assert_status 2
    run_pawl work -e k=true --breaker 0
    assert_status 2
}
