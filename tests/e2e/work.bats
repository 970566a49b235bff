# pawl work: jobs run as commands, and what becomes of them.

load ../support/e2e

@test "the first walk: enqueue, work, show" {
    fresh_db
    local id
    id=$("$PAWL_TEST_BIN" enqueue hello '{"n":1}')
    run_pawl work --queue default --exec 'hello=cat' --once
    assert_status 0
    assert_line "job $id hello done after *"
    run_pawl job show "$id"
    assert_status 0
    assert_line "job $id  hello"
    assert_line 'now       done'
    assert_line 'payload   {"n":1}'
    assert_line 'result    {"n":1}'
    assert_line '*Z  enqueued'
    assert_line '*Z  attempt 1 started on *'
    assert_line '*Z  done after *'
}

@test "what a command prints is the result, without its last newline; errors are not" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue out --count 2
    "$PAWL_TEST_BIN" enqueue nothing
    "$PAWL_TEST_BIN" enqueue binary
    run_pawl work --once -q -o json -e 'out=echo "two words"; echo noise >&2' -e nothing=true -e 'binary=printf "\377\n\n"'
    assert_status 0
    [ "$(json 'sorted([r["kind"], r["state"], str(r["result"])] for r in it)')" = '[["binary", "done", "{'"'base64': '/wo='"'}"], ["nothing", "done", "None"], ["out", "done", "two words"], ["out", "done", "two words"]]' ]
    [ "$(job 1 'it["result"]')" = 'two words' ]
    [ "$(job 3 'it["result"]')" = null ]
}

@test "a command knows its job from the environment, and nothing of another one" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k --queue mail --max-attempts 3
    PAWL_JOB_ID=999 PAWL_JOB_OTHER=1 MINE=kept "$PAWL_TEST_BIN" work -q --once --queue mail \
        -e 'k=env | grep -e ^PAWL_JOB_ -e ^MINE= | sort >seen; pwd >where'
    run cat seen
    [ "${lines[*]:0:6}" = \
        'MINE=kept PAWL_JOB_ATTEMPT=1 PAWL_JOB_ID=1 PAWL_JOB_KIND=k PAWL_JOB_MAX_ATTEMPTS=3 PAWL_JOB_QUEUE=mail' ]
    [[ ${lines[6]} =~ ^PAWL_JOB_TOKEN=[0-9a-f-]{36}$ ]]
    [ "${#lines[@]}" = 7 ]
    [ "$(cat where)" = "$DIR" ]
}

@test "several queues and kinds are served; other kinds and queues are left alone" {
    fresh_db
    local queue kind
    for queue in one two three; do
        for kind in a b c; do
            "$PAWL_TEST_BIN" enqueue $kind --queue $queue
        done
    done
    run_pawl work --once -q -Q one -Q two -e a=true -e b=true
    assert_status 0
    [ "${#lines[@]}" = 4 ]
    run db_sql "SELECT queue, kind FROM pawl.job ORDER BY 1, 2"
    assert_output $'one|c\nthree|a\nthree|b\nthree|c\ntwo|c'
}

@test "nothing to do is said, once" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue other
    run_pawl work --once -e hello=cat --log-level error
    assert_status 0
    assert_output ''
    assert_stderr_contains 'note: nothing was due for these kinds in these queues; see pawl job list'
    run_pawl work --once -q -e hello=cat
    [ -z "$stderr" ]
    run_pawl work --once -q -e hello=cat -o json
    assert_output '[]'
}

@test "jobs run at the same time, as many as were asked for" {
    fresh_db
    # Each waits until all three have begun.
    "$PAWL_TEST_BIN" enqueue meet --count 3
    run_pawl work --once -q -c 3 -e 'meet=touch in.$PAWL_JOB_ID; for i in $(seq 2400); do [ $(ls in.* | wc -l) = 3 ] && exit 0; sleep 0.05; done; exit 65'
    assert_status 0
    [ "$(db_sql "SELECT count(*) FROM pawl.history WHERE state = 'done'")" = 3 ]
}

@test "jobs run one at a time with -c 1" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue alone --count 8
    run_pawl work --once -q -c 1 -e 'alone=mkdir busy || exit 65; sleep 0.01; rmdir busy'
    assert_status 0
    [ "$(db_sql "SELECT count(*) FROM pawl.history WHERE state = 'done'")" = 8 ]
}

@test "a job that fails is tried again after a growing delay, and its errors are kept" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue flaky
    local exec='flaky=echo "no luck" >&2; [ $PAWL_JOB_ATTEMPT -ge 3 ]'
    run_pawl work --once -q -e "$exec"
    assert_status 0
    assert_line 'job 1 flaky retrying after * (attempt 1 of 20): exit status 1: no luck'
    run_pawl job show 1
    assert_line 'now       waits *s for attempt 2 of 20'
    assert_line '  *Z  attempt 1 failed after * on *: exit status 1'
    assert_line '      no luck'
    run db_sql "SELECT extract(epoch FROM due_at - (errors->0->>'at')::timestamptz) BETWEEN 0.7 AND 1.3 FROM pawl.job"
    assert_output t
    hurry 1
    "$PAWL_TEST_BIN" work --once -q -e "$exec"
    run db_sql "SELECT extract(epoch FROM due_at - (errors->1->>'at')::timestamptz) BETWEEN 1.5 AND 2.5 FROM pawl.job"
    assert_output t
    hurry 1
    run_pawl work --once -q -e "$exec"
    assert_line 'job 1 flaky done after * (attempt 3 of 20)'
    [ "$(job 1 '[it["state"], it["attempt"], [e["attempt"] for e in it["errors"]]]')" = '["done", 3, [1, 2]]' ]
}

@test "the delay passes by itself: failed, waiting, done" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue flaky
    start_pawl work -q --poll 50ms -e 'flaky=[ $PAWL_JOB_ATTEMPT = 2 ]'
    eventually 10 job_is 1 done
}

@test "after the last attempt it has failed, with every error listed" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue hopeless --max-attempts 3
    local i
    for i in 1 2 3; do
        "$PAWL_TEST_BIN" work --once -q -e 'hopeless=echo "try $PAWL_JOB_ATTEMPT" >&2; exit 7'
        hurry 1
    done
    [ "$(job 1 '[it["state"], it["attempt"], [e["error"] for e in it["errors"]]]')" \
        = '["failed", 3, ["exit status 7\ntry 1", "exit status 7\ntry 2", "exit status 7\ntry 3"]]' ]
    run_pawl job list --state failed
    assert_output_contains 'exit status 7: try 3'
}

@test "exit status 65 fails at once" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue wrong
    run_pawl work --once -q -e 'wrong=echo "never works" >&2; exit 65'
    assert_line 'job 1 wrong failed after * (attempt 1 of 20): exit status 65: never works'
    [ "$(job 1 '[it["state"], len(it["errors"])]')" = '["failed", 1]' ]
}

@test "a command that is missing, cannot run, or is killed says so" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue missing
    "$PAWL_TEST_BIN" enqueue locked
    "$PAWL_TEST_BIN" enqueue killed
    touch locked.sh
    run_pawl work --once -q -e 'missing=./no-such-command' -e 'locked=./locked.sh' -e 'killed=kill -9 $$'
    assert_line 'job 1 *exit status 127: the command was not found*'
    assert_line 'job 2 *exit status 126: the command cannot be executed*'
    assert_line 'job 3 *killed by signal 9 (Killed)*'
}

@test "an attempt over its timeout is ended" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue slow --timeout 200ms
    run_pawl work --once -q -e 'slow=exec sleep 60'
    assert_line 'job 1 slow retrying after * (attempt 1 of 20): ran longer than its timeout of 200 ms*'
}

@test "a result over the limit fails the job and is not repeated" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue chatty
    run_pawl work --once -q -e 'chatty=head -c 2000000 /dev/zero'
    assert_line '*failed*printed more than the 1048576 bytes a result may have*'
}

@test "a result and an error that a terminal would obey are shown harmlessly" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue evil
    run_pawl work --once -q -e 'evil=printf "\033[2Jboo\r\n\007" >&2; exit 65'
    [[ $output != *$'\033'* ]]
    run_pawl job show 1
    [[ $output != *$'\033'* && $output != *$'\007'* ]]
    run_pawl job list -o jsonl
    [ "$(json 'it["error"].startswith("exit status 65\n")')" = true ]
}

@test "an input that is not read is no failure" {
    fresh_db
    { printf '"'; head -c 1000000 /dev/zero | tr '\0' x; printf '"'; } | "$PAWL_TEST_BIN" enqueue deaf -
    run_pawl work --once -q -e 'deaf=exec 0<&-; echo ok'
    assert_line 'job 1 deaf done after *'
}

@test "what a job enqueues is run, too, before --once ends" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue first
    run_pawl work --once -q -e 'first="$PAWL_TEST_BIN" enqueue second' -e 'second=echo hi'
    assert_line 'job 2 second done after *'
}

@test "every line of jsonl is an object, as it happens" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k --count 5 '{"a":"b"}'
    start_pawl work -q -o jsonl -e k=cat
    eventually 10 job_is 5 done
    eventually 10 bash -c '[ "$(wc -l <background.out)" = 5 ]'
    "$PYTHON" - <<'END'
import json
for line in open('background.out'):
    it = json.loads(line)
    assert list(it) == ['id', 'kind', 'queue', 'attempt', 'state', 'run_us', 'error', 'result'], it
    assert it['result'] == {'a': 'b'} and it['run_us'] > 0, it
END
}

@test "an --exec that cannot be is refused before anything runs" {
    local exec
    for exec in foo '=cat' 'a=' 'a= ' 'a b=cat'; do
        fresh_db
        run_pawl work --once -e "$exec"
        assert_status 2
        drop_db
    done
    run_pawl work --once -e foo
    assert_stderr_contains '--exec foo is not of the form KIND=COMMAND'
    run_pawl work --once
    assert_status 2
    assert_stderr_contains 'nothing to run jobs with: --exec KIND=COMMAND is missing'
    fresh_db
    run_pawl work --once -e a=b -e a=c
    assert_status 2
    assert_stderr_contains 'two commands given for kind a'
}

@test "durations that make no sense are refused" {
    run_pawl work --once -e a=b --lease 0
    assert_status 2
    assert_stderr_contains '--lease must be between 100ms and 1d'
    run_pawl work --once -e a=b --lease 2d
    assert_status 2
    run_pawl work --once -e a=b --poll 0
    assert_status 2
    assert_stderr_contains '--poll must be at least 1ms'
    run_pawl work --once -e a=b -c 0
    assert_status 2
}

# A counter of the worker in the background, as it was when SIGUSR1 was last answered: counter NAME
counter()
{
    sed -n "s/.*worker_stats.*[ \"]$1[\":=]*\([0-9][0-9]*\).*/\1/p" "$DIR/background.err" | tail -n 1
}

# For eventually: asks again, and looks at what was answered so far.
counter_is_at_least()
{
    kill -USR1 "$PID"
    [ "$(counter "$1")" -ge "$2" ]
}

asleep()
{
    [ "$(db_sql 'SELECT count(*) FROM pawl.sleeper WHERE asleep')" = 1 ]
}

@test "--max-poll: a sleeping worker looks by itself that often" {
    fresh_db
    start_pawl work -e k=true --max-poll 10ms
    eventually 10 asleep
    # By default it would look about twenty times in the time that is given here.
    eventually 15 counter_is_at_least poll_wakeups 60
    [ "$(counter notify_wakeups)" = 0 ]
}

@test "--jitter: after a notification a worker waits, and can be stopped meanwhile" {
    fresh_db
    start_pawl work -e k=true --jitter 1d
    eventually 10 asleep
    "$PAWL_TEST_BIN" enqueue k
    eventually 10 counter_is_at_least notify_wakeups 1
    kill -TERM "$PID"
    wait "$PID"
    job_is 1 ready
}

@test "--min-demand: while jobs run, nothing is claimed until there is room for so many" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue slow
    "$PAWL_TEST_BIN" enqueue fast --count 3 >/dev/null
    start_pawl work --once --stats -c 2 --min-demand 2 -e 'slow=until [ -e go ]; do sleep 0.02; done' -e fast=true
    eventually 10 job_is 2 done
    eventually 10 counter_is_at_least settles 1
    job_is 3 ready
    touch go
    wait "$PID"
    job_is 4 done
    # Two by two: the slow one and a fast one, then the rest.
    [ $(($(counter claims) - $(counter empty_claims))) = 2 ]
}

@test "a queue that is named twice is one, and no time to drain is none" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k -Q a
    run_pawl work --once -Q a -Q b -Q a --drain 0 -e k=true
    assert_status 0
    job_is 1 done
}
