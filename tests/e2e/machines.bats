# machines: jobs of several steps as commands: each outcome of the control line, timers and signals.

load ../support/e2e
load ../support/machines

@test "next: the step and the state of a machine go from run to run, byte for byte" {
    fresh_db
    machine <<'EOF'
first) say '{"next":"two","state":{"n":9007199254740993,"f":1.0, "s":"ü"}}' ;;
two) [ "$PAWL_JOB_STATE" = '{"n":9007199254740993,"f":1.0, "s":"ü"}' ] && say '{"next":"three"}' ;;
three) cat <&4 >told; say "{\"done\":$PAWL_JOB_STATE}" ;;
EOF
    local id
    id=$(enqueue)
    work
    ran 'first two three'
    [ "$(cat told)" = '{"step":"three","state":{"n":9007199254740993,"f":1.0, "s":"ü"},"signals":[],"children":[],"children_left":0,"timed_out":false,"attempt":1}' ]
    [ "$(db_sql "SELECT convert_from(result, 'UTF8') FROM pawl.jobs WHERE id = $id")" = '{"n":9007199254740993,"f":1.0, "s":"ü"}' ]
    [ "$(job "$id" 'it["state"]')" = done ]
}

@test "without a line the exit status decides, as for any job; with a line what is printed is no result" {
    fresh_db
    machine <<'EOF'
first) say '{"next":"last"}'; echo noise ;;
last) echo '"printed"' ;;
EOF
    local id
    id=$(enqueue)
    work
    [ "$(job "$id" 'it["result"]')" = printed ]
}

@test "a line and another exit status than 0: the step has failed and is run again" {
    fresh_db
    machine <<'EOF'
first) say '{"next":"two"}'; [ "$PAWL_JOB_ATTEMPT" -gt 1 ] || exit 1 ;;
two) say '{"done":1}' ;;
EOF
    local id
    id=$(enqueue m --retry-base 1h)
    work
    job_is "$id" retrying
    hurry "$id"
    work
    ran 'first first two'
    job_is "$id" done
}

@test "a line that is wrong is a failure of the step, with what is wrong, and never of the worker" {
    fresh_db
    machine <<'EOF'
first) [ "$PAWL_JOB_ATTEMPT" -gt 4 ] && say '{"done":1}'
       [ "$PAWL_JOB_ATTEMPT" = 1 ] && say 'nonsense'
       [ "$PAWL_JOB_ATTEMPT" = 2 ] && say '{"nextt":"a"}'
       [ "$PAWL_JOB_ATTEMPT" = 3 ] && say '{"next":"a","done":1}'
       [ "$PAWL_JOB_ATTEMPT" = 4 ] && { say '{"next":"a"}'; say '{"next":"b"}'; }
       true ;;
EOF
    local id
    id=$(enqueue)
    for _ in 1 2 3 4 5; do
        work
        hurry "$id"
    done
    [ "$(job "$id" '[e["error"].split("wrong: ")[1] for e in it["errors"]][1:]')" = \
        '["it has the unknown member \"nextt\". Is \"next\" meant?", "it says both \"done\" and \"next\"", "it is more than one line"]' ]
    job_is "$id" done
}

@test "retry, stop, reject, cancel and snooze end a step as they end a job" {
    fresh_db
    machine <<'EOF'
first) say '{"next":"'"$(sed 's/"//g')"'"}' ;;
retry) say '{"retry":"later","delay_ms":3600000}' ;;
stop) say '{"stop":"no use"}' ;;
reject) say '{"reject":"not allowed"}' ;;
cancel) say '{"cancel":true}' ;;
snooze) say '{"snooze_ms":3600000}' ;;
EOF
    local step
    for step in retry stop reject cancel snooze; do
        enqueue m "\"$step\""
    done
    work
    run db_sql "SELECT state, attempt, errors -> 0 ->> 'error' FROM pawl.jobs ORDER BY id"
    assert_output $'retrying|1|later\nfailed|1|no use\nfailed|1|not allowed\ncancelled|1|\nscheduled|0|'
}

@test "attempts count for each step, and a step that fails too often fails the machine" {
    fresh_db
    machine <<'EOF'
first) [ "$PAWL_JOB_ATTEMPT" = 2 ] && say '{"next":"two"}' ;;
two) echo "$PAWL_JOB_ATTEMPT" >>attempts; exit 1 ;;
EOF
    local id
    id=$(enqueue m --max-attempts 2)
    work
    hurry "$id"
    work
    hurry "$id"
    work
    [ "$(paste -sd' ' attempts)" = '1 2' ]
    job_is "$id" failed
}

@test "an unknown step is a clear failure of that job" {
    fresh_db
    machine <<'EOF'
first) say '{"next":"nowhere"}' ;;
EOF
    local id
    id=$(enqueue)
    work
    [ "$(job "$id" 'it["state"] + ": " + it["errors"][0]["error"]')" = 'failed: unknown step' ]
}

@test "a durable sleep: the next step is due later, whoever runs it" {
    fresh_db
    machine <<'EOF'
first) say '{"next":"later","delay_ms":3600000}' ;;
later) say '{"done":1}' ;;
EOF
    local id
    id=$(enqueue)
    work
    job_is "$id" scheduled
    [ "$(db_sql "SELECT due_at - now() BETWEEN '59 minutes' AND '1 hour' FROM pawl.job")" = t ]
    hurry "$id"
    work
    ran 'first later'
    job_is "$id" done
}

@test "an await whose time is over is a wake and not a failure" {
    fresh_db
    machine <<'EOF'
first) say '{"await":["paid"],"next":"paid","timeout_ms":1}' ;;
paid) say "{\"done\":\"$PAWL_JOB_TIMED_OUT ${PAWL_JOB_SIGNALS:-none} $PAWL_JOB_ATTEMPT\"}" ;;
EOF
    local id
    id=$(enqueue)
    work
    eventually 10 work_until_done "$id"
    [ "$(job "$id" 'it["result"]')" = '1 none 1' ]
    [ "$(job "$id" 'it["errors"]')" = null ]
}

await_machine()
{
    machine <<'EOF'
first) say '{"await":["paid","refused"],"next":"paid"}' ;;
paid) say "{\"done\":$PAWL_JOB_SIGNALS}" ;;
EOF
}

@test "a signal wakes the machine that waits for it, and only with a name it waits for" {
    fresh_db
    await_machine
    local id
    id=$(enqueue)
    work
    job_is "$id" waiting
    signal "$id" other '{"n":1}'
    work
    job_is "$id" waiting
    signal "$id" paid '{"n":2}'
    work
    [ "$(job "$id" '[[s["name"], s["payload"]] for s in it["result"]]')" = '[["paid", {"n": 2}]]' ]
    ran 'first paid'
}

@test "a signal that came before the await is not overlooked" {
    fresh_db
    await_machine
    local id
    id=$(enqueue)
    signal "$id" refused
    work
    [ "$(job "$id" 'it["result"][0]["name"]')" = refused ]
}

@test "a signal that comes while the step runs that will await it is not overlooked" {
    fresh_db
    machine <<EOF
first) "$PAWL_TEST_BIN" signal send \$PAWL_JOB_ID paid -q; say '{"await":["paid"],"next":"paid"}' ;;
paid) say '{"done":1}' ;;
EOF
    local id
    id=$(enqueue)
    work
    ran 'first paid'
    job_is "$id" done
}

@test "a signal with a key is taken once" {
    fresh_db
    await_machine
    local id
    id=$(enqueue)
    signal "$id" paid 1 --key tx-1
    signal "$id" paid 2 --key tx-1 -o json
    [ "$(json 'it["sent"]')" = false ]
    signal "$id" paid 3 --key tx-2
    run_pawl signal list "$id" -o json
    [ "$(json '[[s["key"], s["payload"], s["shown"], s["consumed"]] for s in it]')" = '[["tx-1", 1, false, false], ["tx-2", 3, false, false]]' ]
    work
    [ "$(job "$id" '[s["payload"] for s in it["result"]]')" = '[1, 3]' ]
}

@test "a signal to a full inbox is refused, and says what to do" {
    fresh_db
    await_machine
    local id
    id=$(enqueue)
    db_sql "SELECT pawl.signal($id, 'paid', to_jsonb(repeat('x', 1048516))) FROM generate_series(1, 8)"
    run_pawl signal send "$id" paid
    assert_status 9
    assert_stderr_contains "the inbox of job $id is full"
    assert_stderr_contains 'the limits are 10000 signals and 8388608 bytes'
    assert_stderr_contains 'Send again when the job has taken some of them'
}

@test "a job that cannot be claimed is parked, and pawl job show tells why" {
    fresh_db
    db_sql "SELECT pawl.enqueue(k) FROM unnest('{bad,good,good}'::text[]) AS k" >/dev/null
    db_sql "CREATE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
                RAISE EXCEPTION 'the row is damaged' USING ERRCODE = '22000'; END \$\$;
            CREATE TRIGGER poison BEFORE UPDATE ON pawl.job FOR EACH ROW
                WHEN (new.token IS NOT NULL AND new.kind = 'bad') EXECUTE FUNCTION public.poison()"
    run_pawl work -q --once --exec 'good=true' --exec 'bad=true'
    assert_status 0
    [ "$(db_sql "SELECT count(*) FROM pawl.history WHERE state = 'done'")" = 2 ]
    run_pawl job show "$(db_sql "SELECT id FROM pawl.job")"
    assert_status 0
    assert_output_contains 'waits for an operator'
    assert_output_contains 'it cannot be claimed: the row is damaged'
}

@test "a step that is tried again sees the same signals: only progress consumes them" {
    fresh_db
    machine <<'EOF'
first) say '{"await":["paid"],"next":"paid"}' ;;
paid) echo "$PAWL_JOB_SIGNALS" >>seen; [ "$PAWL_JOB_ATTEMPT" -gt 1 ] || exit 1; say '{"next":"last"}' ;;
last) echo "${PAWL_JOB_SIGNALS:-none}" >>seen; say '{"done":1}' ;;
EOF
    local id
    id=$(enqueue m --retry-base 1h)
    work
    signal "$id" paid '{"n":1}'
    work
    job_is "$id" retrying
    hurry "$id"
    work
    ran 'first paid paid last'
    [ "$(sed -n 1p seen)" = "$(sed -n 2p seen)" ]
    [[ $(sed -n 1p seen) == *'"n": 1'* ]]
    [ "$(sed -n 3p seen)" = none ]
    [ "$(db_sql "SELECT count(*) FROM pawl.signal")" = 0 ]
}

@test "to await again consumes nothing, and a signal that was shown does not wake again" {
    fresh_db
    machine <<'EOF'
first) say '{"await":["part"],"next":"collect"}' ;;
collect) set -- $(printf %s "$PAWL_JOB_SIGNALS" | grep -o '"name"')
         [ $# -lt 2 ] && { say '{"await":["part"],"next":"collect"}'; exit; }
         say "{\"done\":$PAWL_JOB_SIGNALS}" ;;
EOF
    local id
    id=$(enqueue)
    work
    signal "$id" part 1
    work
    job_is "$id" waiting
    ran 'first collect'
    work
    ran 'first collect'
    signal "$id" part 2
    work
    ran 'first collect collect'
    [ "$(job "$id" '[s["payload"] for s in it["result"]]')" = '[1, 2]' ]
}

@test "a signal to a finished job is refused, and one to no job too" {
    fresh_db
    machine <<'EOF'
first) say '{"done":1}' ;;
EOF
    local id
    id=$(enqueue)
    work
    run_pawl signal send "$id" paid
    assert_status 14
    assert_stderr_contains "job $id is finished: done"
    run_pawl signal send 999 paid
    assert_status 3
    assert_stderr_contains 'there is no job 999'
    run_pawl signal list 999
    assert_status 3
    run_pawl signal send "$id" 'two words'
    assert_status 2
    run_pawl signal send "$id" paid '{'
    assert_status 2
    run_pawl signal send x paid
    assert_status 2
}

@test "a broadcast reaches every live job with the correlation key" {
    fresh_db
    await_machine
    enqueue m --correlation c-1
    enqueue m --correlation c-1
    enqueue m --correlation c-2
    work
    run_pawl signal broadcast c-1 paid '{}' -o json
    assert_status 0
    [ "$(json 'it["jobs"]')" = 2 ]
    work
    run db_sql "SELECT id, state FROM pawl.jobs ORDER BY id"
    assert_output $'1|done\n2|done\n3|waiting'
}

@test "a machine fails at its deadline, whether it waits for a signal or sleeps" {
    fresh_db
    machine <<'EOF'
first) say "$(cat)" ;;
EOF
    local waits sleeps
    waits=$(enqueue m '{"await":["never"],"next":"never"}')
    sleeps=$(enqueue m '{"next":"never","delay_ms":3600000}')
    db_sql "UPDATE pawl.job SET deadline_at = now() + interval '6 s'"
    work
    eventually 20 work_until_done "$waits" failed
    eventually 20 work_until_done "$sleeps" failed
    [ "$(job "$waits" 'it["errors"][-1]["error"]')" = 'the deadline of the machine has passed' ]
    [ "$(job "$sleeps" 'it["errors"][-1]["error"]')" = 'the deadline of the machine has passed' ]
    ran 'first first'
}
