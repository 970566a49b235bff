# pawl work when it is stopped, killed, cut off, or not alone.

load ../support/e2e

# A job of kind hold runs until $DIR/go exists, or the test is over and all its files are gone.
HOLD='hold=mine=begun.$PAWL_JOB_ID.$PAWL_JOB_ATTEMPT; touch $mine; while [ -e $mine ] && [ ! -e go ]; do sleep 0.05; done'

# The exit status of what start_pawl started, once it has ended.
ended()
{
    status=0
    wait "$PID" || status=$?
}

@test "SIGTERM: nothing more is claimed, what runs is finished and settled" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue hold --count 2
    start_pawl work -c 1 --poll 20ms -e "$HOLD"
    eventually 10 test -e begun.1.1
    kill -TERM "$PID"
    eventually 10 grep -q '"event":"worker_drain"' background.err
    job_is 1 running
    touch go
    ended
    assert_status 0
    job_is 1 done
    job_is 2 ready
    [ "$(job 2 'it["attempt"]')" = 0 ]
    [ "$(db_sql 'SELECT count(*) FROM pawl.worker')" = 0 ]
    [ "$(db_sql 'SELECT count(*) FROM pawl.claim')" = 0 ]
    grep -q '^job 1 hold done' background.out
    grep -q '^note: waiting for jobs; Ctrl-C finishes what runs and ends' background.err
}

@test "--drain: what does not end in time is stopped and goes back without delay" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue stuck
    start_pawl work -e 'stuck=touch begun; exec sleep 60' --drain 100ms
    eventually 10 test -e begun
    kill -TERM "$PID"
    ended
    assert_status 0
    job_is 1 ready
    [ "$(job 1 'it["errors"][0]["error"].split(";")[0]')" = 'stopped by the shutdown of its worker' ]
}

@test "a second SIGTERM ends at once, and another worker takes over when the lease has run out" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue hold
    start_pawl work --lease 4s -o json -e "$HOLD"
    eventually 10 test -e begun.1.1
    kill -TERM "$PID"
    eventually 10 grep -q '"event":"worker_drain"' background.err
    kill -TERM "$PID"
    ended
    assert_status 130
    grep -q '"event":"worker_stop","left":1,"running":1,"unsettled":0' background.err
    grep -q 'pawl: stopped with 1 job unfinished' background.err
    grep -q 'hint: Another worker gets it when its lease has run out.' background.err
    output=$(cat background.out) json it # whole all the same
    job_is 1 running
    touch go
    start_pawl work -q --lease 8s --poll 20ms -e "$HOLD"
    eventually 10 job_is 1 done
    [ "$(job 1 '[it["attempt"], it["errors"][0]["error"]]')" = '[2, "the worker died or lost its lease"]' ]
}

@test "kill -9 of a worker: the job comes back as attempt 2" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue hold
    start_pawl work --lease 4s -e "$HOLD"
    eventually 10 test -e begun.1.1
    kill -KILL "$PID"
    ended
    start_pawl work -q --lease 8s --poll 20ms -e "$HOLD"
    eventually 10 test -e begun.1.2
    touch go # ends the orphan of the first worker as well
    eventually 10 job_is 1 done
    [ "$(job 1 '[it["attempt"], len(it["errors"])]')" = '[2, 1]' ]
}

@test "a job that kills its worker is given up after its last attempt" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue poison --max-attempts 1
    start_pawl work --lease 3s -e 'poison=kill -9 $PPID'
    ended
    start_pawl work -q --lease 300ms --poll 20ms -e poison=true
    eventually 10 job_is 1 failed
    [ "$(job 1 'it["errors"][-1]["error"]')" = 'the worker died or lost its lease' ]
}

# A job that runs for several leases stays with its worker: kept LEASE SECONDS
kept()
{
    local first other kept=1
    drop_db
    rm -f begun stolen
    fresh_db
    "$PAWL_TEST_BIN" enqueue long >/dev/null
    start_pawl work --lease "$1" -e "long=touch begun; sleep $2"
    first=$PID
    eventually 10 test -e begun || return 1
    start_pawl work -q --lease "$1" --poll 20ms -e 'long=touch stolen'
    other=$PID
    eventually 10 job_is 1 done || return 1
    [ ! -e stolen ] && [ "$(job 1 'it["attempt"]')" = 1 ] && kill -0 "$first" && kept=0
    kill -TERM "$first" "$other"
    wait "$first" "$other" || true
    drop_db
    return $kept
}

@test "a lease is renewed as long as the job runs" {
    # A worker that stands still for a moment loses a short one.
    kept 300ms 1.2 || kept 3s 9 || kept 9s 20
}

@test "two workers share the jobs, and none is run twice" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k --count 150
    local exec='k=echo $PAWL_JOB_ID $PPID >>ran'
    "$PAWL_TEST_BIN" work --once -q -e "$exec" >one &
    "$PAWL_TEST_BIN" work --once -q -e "$exec" >two
    wait $!
    [ "$(cut -d' ' -f1 ran | sort -n | paste -sd' ')" = "$(seq 150 | paste -sd' ')" ]
    [ "$(cat one two | wc -l)" = 150 ]
    [ "$(db_sql "SELECT count(*) FROM pawl.history WHERE state = 'done' AND attempt = 1")" = 150 ]
}

@test "a worker survives the loss of its connections, and so does the job it runs" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue hold --count 2
    start_pawl work -c 1 --poll 20ms -e "$HOLD"
    eventually 10 test -e begun.1.1
    [ "$(db_sql "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid()")" -ge 2 ]
    touch go
    eventually 20 job_is 2 done
    [ "$(db_sql "SELECT count(*) FROM pawl.history WHERE state = 'done' AND attempt = 1")" = 2 ]
}

@test "no space for what a job left behind: it is kept and stored later, and the job is not run again" {
    fresh_db
    db_sql "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RAISE disk_full USING MESSAGE = ''could not extend file: No space left on device''; END';
            CREATE TRIGGER full_disk BEFORE INSERT ON pawl.history FOR EACH ROW EXECUTE FUNCTION full_disk()"
    "$PAWL_TEST_BIN" enqueue k
    start_pawl work -e 'k=echo ran >>ran'
    eventually 10 grep -q '"sqlstate":"53100"' background.err
    db_sql 'DROP TRIGGER full_disk ON pawl.history'
    eventually 10 job_is 1 done
    [ "$(cat ran)" = ran ]
}

@test "a paused queue is left alone until it is resumed" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k
    run_pawl queue pause default
    assert_status 0
    assert_stderr_contains 'queue default is paused; jobs that run go on'
    run_pawl work --once -q -e k=true
    assert_output ''
    [ -z "$stderr" ]
    run_pawl work --once -e k=true --log-level error
    assert_status 0
    [ "$stderr" = 'note: nothing was run: queue default is paused (pawl queue resume default)' ]
    run_pawl work --once -e k=true -Q default -Q mail --log-level error
    assert_stderr_contains 'queue default is paused (pawl queue resume default)'
    assert_stderr_contains 'nothing was due for these kinds in the other queues; see pawl job list'
    run_pawl queue pause --all
    run_pawl work --once -e k=true -Q mail --log-level error
    [ "$stderr" = 'note: nothing was run: all queues are paused (pawl queue resume --all)' ]
    run_pawl queue resume --all
    run_pawl job show 1
    assert_line 'now       waits because queue default is paused (pawl queue resume default)'
    start_pawl work -q --poll 20ms -e k=true
    run_pawl queue resume default
    assert_stderr_contains 'queue default goes on'
    eventually 10 job_is 1 done
    run_pawl queue resume default
    assert_status 0
    assert_stderr_contains 'queue default was not paused'
}

@test "when nobody reads its output any more, a worker finishes what runs and ends" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue quick -p 9
    "$PAWL_TEST_BIN" enqueue quick -p 9
    "$PAWL_TEST_BIN" enqueue hold --count 2
    mkfifo gone
    exec 5<>gone 6>gone 5<&-
    # Two lines cannot be written while two jobs run: these must not be killed for it.
    "$PAWL_TEST_BIN" work -q -c 4 --poll 20ms -e "$HOLD" -e 'quick=for i in $(seq 2400); do [ -e begun.3.1 ] && [ -e begun.4.1 ] && exit 0; sleep 0.05; done' >&6 3>&- 4>&- &
    PID=$!
    PIDS="$PIDS $PID"
    exec 6>&-
    eventually 10 job_is 1 done
    eventually 10 job_is 2 done
    touch go
    ended
    assert_status 0
    job_is 3 done
    job_is 4 done
    [ "$(job 3 'it["attempt"]')" = 1 ]
}

@test "a worker that was started with nohup outlives the terminal" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k --delay 1h
    (trap '' HUP && exec "$PAWL_TEST_BIN" work --poll 20ms -e k=true >background.out 2>background.err 3>&- 4>&-) &
    PID=$!
    PIDS="$PIDS $PID"
    eventually 10 grep -q conn_ready background.err
    kill -HUP "$PID"
    hurry 1
    eventually 10 job_is 1 done
}

# Takes all free descriptors of a process away: it may have none above those it has.
starve()
{
    prlimit --pid "$1" --nofile="$(($(ls "/proc/$1/fd" | sort -n | tail -1) + 1)):"
}

@test "a worker that has no descriptors left gives jobs back with their attempts, rests, says so once, and goes on later" {
    fresh_db
    start_pawl work -c 2 --poll 20ms -e 'k=echo fine'
    "$PAWL_TEST_BIN" enqueue k
    eventually 10 job_is 1 done
    starve "$PID"
    "$PAWL_TEST_BIN" enqueue k --count 3 --max-attempts 1
    eventually 10 grep -q '"event":"job_run"' background.err
    sleep 1 # long enough for a worker that does not rest to try hundreds of times
    [ "$(grep -c '"event":"job_run"' background.err)" = 1 ]
    grep '"event":"job_run"' background.err | grep -q 'ulimit -n'
    kill -USR1 "$PID"
    eventually 10 grep -q '"event":"worker_stats"' background.err
    [ "$(grep '"event":"worker_stats"' background.err | head -1 | sed 's/.*"released":\([0-9]*\).*/\1/')" -lt 40 ]
    prlimit --pid "$PID" --nofile=1024:
    for i in 2 3 4; do
        eventually 20 job_is $i done
        [ "$(job $i 'it["attempt"]')" = 1 ]
        [ "$(job $i 'len(it["errors"] or [])')" = 0 ]
    done
    kill -TERM "$PID"
    ended
    assert_status 0
}

@test "a limit on descriptors that cannot work is refused at the start; one that may be raised is" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k --max-attempts 1
    run bash -c "ulimit -n 16; exec '$PAWL_TEST_BIN' work --once -c 4 -e 'k=true'"
    assert_status 9
    [[ $output == *'16 open files'* && $output == *'4 jobs at a time'* && $output == *'ulimit -n'* ]]
    job_is 1 ready
    run bash -c "ulimit -S -n 16; exec '$PAWL_TEST_BIN' work --once -c 4 -e 'k=true'"
    assert_status 0
    job_is 1 done
}
