# pawl enqueue while the database's synchronous standby stalls (support/standby.py).

load ../support/e2e

# Dropping a database is a commit, too.
eval "$(declare -f teardown | sed '1s/teardown/e2e_teardown/')"
teardown()
{
    kill -CONT "$PAWL_TEST_STANDBY"
    e2e_teardown
}

WAITING="FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"

# Ends the wait of the commit that waits for the standby: meddle pg_cancel_backend|pg_terminate_backend STATEMENT
meddle()
{
    local until=$((SECONDS + 60))
    while [ $SECONDS -lt $until ]; do
        [ "$(db_sql "SELECT count($1(pid)) $WAITING AND query LIKE '%$2%'")" = 0 ] || return 0
        sleep 0.05
    done
    return 1
}

@test "a job that no standby has confirmed: exit status 11, what happened and what to do" {
    fresh_db
    kill -STOP "$PAWL_TEST_STANDBY"
    { meddle pg_cancel_backend COMMIT && meddle pg_terminate_backend emit_message; } &
    run_pawl enqueue hello '{"n":1}'
    wait $!
    kill -CONT "$PAWL_TEST_STANDBY"
    assert_status 11
    [ -z "$output" ]
    [[ $stderr == *"no synchronous standby has confirmed the commit"* ]]
    [[ $stderr == *"Do not enqueue again yet"*"pawl job show 1"* ]]
    [ "$(db_sql 'SELECT count(*) FROM pawl.job')" = 1 ]
}

@test "a standby that comes back in time: the id, as ever" {
    fresh_db
    kill -STOP "$PAWL_TEST_STANDBY"
    { meddle pg_cancel_backend COMMIT; kill -CONT "$PAWL_TEST_STANDBY"; } &
    run_pawl enqueue hello '{"n":1}'
    wait $!
    assert_status 0
    [ "$output" = 1 ]
}
