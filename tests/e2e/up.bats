#!/usr/bin/env bats
# pawl up: the private PostgreSQL and a server in one command.

load ../support/e2e

is_up()
{
    grep -q '^Ctrl-C stops' "$DIR/background.out"
}

# What GET on a path of the server says.
get()
{
    "$PYTHON" -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode().strip())' \
        "http://$ADDRESS$1"
}

is_ready()
{
    [ "$(get /ready)" = ready ]
}

@test "up makes a database and a server, what it prints works, and Ctrl-C stops both" {
    start_pawl up --listen 127.0.0.1:0
    eventually 60 is_up
    ADDRESS=$(sed -n 's/^listening on //p' "$DIR/background.out")
    [ "$(get /health)" = ok ]
    eventually 20 is_ready

    # The lines to be pasted, as they stand there.
    worker=$(grep -o ' work --server .*' "$DIR/background.out")
    job=$(grep -o " enqueue hello .*" "$DIR/background.out")
    eval "$PAWL_TEST_BIN $job" >"$DIR/id"
    eval "exec $PAWL_TEST_BIN $worker" >"$DIR/worker.out" 2>&1 3>&- 4>&- &
    WORKER=$!
    PIDS="$PIDS $WORKER"
    eventually 30 job_done "$(cat "$DIR/id")"
    kill -TERM "$WORKER"
    wait "$WORKER" || true

    kill -INT "$PID"
    wait "$PID"
    run_pawl db status
    assert_output_contains stopped
}

job_done()
{
    "$PAWL_TEST_BIN" job show "$1" -o json | grep -q '"done"'
}

@test "up on a database of one's own leaves the private PostgreSQL alone" {
    fresh_db
    start_pawl up --listen 127.0.0.1:0
    eventually 30 is_up
    ADDRESS=$(sed -n 's/^listening on //p' "$DIR/background.out")
    [ "$(get /health)" = ok ]
    [ ! -e "$PAWL_HOME/data" ]
    kill -INT "$PID"
    wait "$PID"
}

@test "up does not listen where others could connect" {
    fresh_db
    run_pawl up --listen 0.0.0.0:0
    assert_status 6
    assert_stderr_contains TLS
}
