# machines_life: what becomes of machines: deaths between steps, children, versions, restarts, and what is told about them.

load ../support/e2e
load ../support/machines

@test "a machine goes on at the step where it was when its worker was killed" {
    fresh_db
    machine <<EOF
first) say '{"next":"two","state":"kept"}' ;;
two) if mkdir once 2>/dev/null; then touch running; while [ -e running ]; do sleep 0.05; done; fi; say "{\"done\":\$PAWL_JOB_STATE}" ;;
EOF
    local id
    id=$(enqueue)
    start_pawl work -q --lease 4s -e "m=sh $DIR/m.sh"
    eventually 10 test -e running
    kill -KILL "$PID"
    start_pawl work -q --lease 8s -e "m=sh $DIR/m.sh"
    eventually 20 job_is "$id" done
    ran 'first two two'
    [ "$(job "$id" 'it["result"]')" = kept ]
}

@test "children: the parent goes on once, when all are finished, and sees what each came to" {
    fresh_db
    machine <<'EOF'
first) say '{"spawn":[{"kind":"part","payload":1},{"kind":"part","payload":2,"max_attempts":1},{"kind":"part","payload":3}],"next":"joined","state":"s"}' ;;
joined) echo "$PAWL_JOB_CHILDREN" >children; say '{"next":"after"}' ;;
after) say "{\"done\":\"${PAWL_JOB_CHILDREN:-none}\"}" ;;
EOF
    local id
    id=$(enqueue)
    work
    job_is "$id" waiting
    run_pawl job show "$id"
    assert_line 'now       waits for 3 children since *'
    work -e 'part=read n; [ $n != 2 ] || exit 65; echo $((n * 10))'
    ran 'first joined after'
    output=$(cat children)
    [ "$(json '[[c["kind"], c["state"], c.get("result"), c.get("error", "")[:14]] for c in it]')" = \
        '[["part", "done", 10, ""], ["part", "failed", null, "exit status 65"], ["part", "done", 30, ""]]' ]
    [ "$(job "$id" 'it["result"]')" = none ]
    [ "$(db_sql 'SELECT count(*) FROM pawl.child')" = 0 ]
}

@test "a spawn of no children goes on at once" {
    fresh_db
    machine <<'EOF'
first) say '{"spawn":[],"next":"joined"}' ;;
joined) say "{\"done\":$PAWL_JOB_CHILDREN}" ;;
EOF
    local id
    id=$(enqueue)
    work
    [ "$(job "$id" 'it["result"]')" = '[]' ]
}

@test "a join with a quorum goes on when so many are finished; fail_fast with the first that fails" {
    fresh_db
    machine <<'EOF'
first) say '{"spawn":[{"kind":"quick"},{"kind":"slow"},{"kind":"slow"}],"next":"joined","join":'"$(cat)"'}' ;;
joined) cat <&4 >told.$PAWL_JOB_ID; say '{"done":1}' ;;
EOF
    enqueue m '{"quorum":1}'
    enqueue m '{"fail_fast":true}'
    work
    work -e 'quick=exit 65'
    run db_sql "SELECT id, state FROM pawl.jobs WHERE kind = 'm' ORDER BY id"
    assert_output $'1|done\n2|done'
    output=$(cat told.1)
    [ "$(json '[it["children_left"], [c["state"] for c in it["children"]]]')" = '[2, ["failed"]]' ]
}

@test "a kind carries a version, and a worker claims only versions it knows" {
    fresh_db
    local one two
    one=$(enqueue order@1)
    two=$(enqueue order@2)
    run_pawl work --once -q -e 'order@1=true'
    assert_status 0
    job_is "$one" done
    job_is "$two" ready
    run_pawl enqueue order@x
    assert_status 2
    assert_stderr_contains 'version'
}

@test "restart: a machine that waits, retries or is parked goes on from another step at once" {
    fresh_db
    machine <<'EOF'
first) say '{"await":["never"],"next":"never","state":{"kept":1}}' ;;
again) echo "$PAWL_JOB_STATE $PAWL_JOB_ATTEMPT" >>seen; say '{"stop":"parked then"}' ;;
last) echo "$PAWL_JOB_STATE $PAWL_JOB_ATTEMPT" >>seen; say '{"done":1}' ;;
EOF
    "$PAWL_TEST_BIN" kind set m --exhausted parked
    local id
    id=$(enqueue)
    work
    run_pawl machine restart "$id" --from again
    assert_status 0
    job_is "$id" ready
    work
    job_is "$id" parked
    run_pawl machine restart "$id" --from last --state '[2.0]' -o json
    assert_status 0
    [ "$(json 'it["id"]')" = "$id" ]
    work
    job_is "$id" done
    [ "$(paste -sd'|' seen)" = '{"kept":1} 1|[2.0] 1' ]
    run_pawl machine restart "$id" --from last
    assert_status 14
    assert_stderr_contains "job $id is finished: done"
    run_pawl machine restart 999 --from last
    assert_status 3
    run_pawl machine restart "$id"
    assert_status 2
    run_pawl machine restart "$id" --from 'two words'
    assert_status 2
}

@test "restart: a machine that failed goes on as a new job with its payload, state and timeline" {
    fresh_db
    machine <<'EOF'
first) say '{"next":"pay","state":{"order":7}}' ;;
pay) [ -e repaired ] || { say '{"stop":"no money"}'; exit; }; say "{\"done\":[$PAWL_JOB_STATE,$(cat)]}" ;;
EOF
    local id
    id=$(enqueue m '{"p":1}')
    work
    job_is "$id" failed
    touch repaired
    run_pawl machine restart "$id" --from pay -o json
    local new
    new=$(json 'it["id"]')
    [ "$new" != "$id" ]
    work
    [ "$(job "$new" 'it["result"]')" = '[{"order": 7}, {"p": 1}]' ]
    [ "$(job "$new" '[[s["step"], s["outcome"]] for s in it["steps"]]')" = \
        '[[null, "next"], ["pay", "fail"], ["pay", "restart"], ["pay", "done"]]' ]
}

@test "restart: not while it runs" {
    fresh_db
    machine <<'EOF'
first) touch running; while [ -e running ]; do sleep 0.05; done ;;
EOF
    local id
    id=$(enqueue)
    start_pawl work -q -e "m=sh $DIR/m.sh"
    eventually 10 test -e running
    run_pawl machine restart "$id" --from two
    assert_status 14
    assert_stderr_contains "job $id is running"
}

@test "job show tells each step and what the machine waits for" {
    fresh_db
    machine <<'EOF'
first) say '{"next":"pay","state":[1,2,3]}' ;;
pay) say '{"await":["paid","refused"],"next":"ship","timeout_ms":86400000}' ;;
ship) say '{"done":1}' ;;
EOF
    local id
    id=$(enqueue)
    work
    run_pawl job show "$id"
    assert_line 'now       waits for signal paid or refused since * ms, times out in *'
    assert_line 'step      ship'
    assert_line 'state     \[1,2,3\]'
    assert_line '  started                   step     attempt  outcome       took  state'
    assert_line '  *Z  (first)        1  next      * ms  7 bytes'
    assert_line '  *Z  pay            1  await     * ms  7 bytes'
    run_pawl job show "$id" -o json
    [ "$(json '[it["state"], it["waits_for"], it["awaits"], it["step"], it["step_state"]]')" = \
        '["waiting", "signal", "paid,refused", "ship", [1, 2, 3]]' ]
    signal "$id" paid
    work
    [ "$(job "$id" '[[s["step"], s["outcome"], s["attempt"]] for s in it["steps"]]')" = \
        '[[null, "next", 1], ["pay", "await", 1], ["ship", "done", 1]]' ]
}

@test "the timeline of a machine with many steps is bounded" {
    fresh_db
    machine <<'EOF'
first) say '{"next":"s1","state":1}' ;;
s*) [ "$PAWL_JOB_STATE" -ge 300 ] && { say '{"done":1}'; exit; }
    say '{"next":"s'$PAWL_JOB_STATE'","state":'$((PAWL_JOB_STATE + 1))'}' ;;
EOF
    local id
    id=$(enqueue)
    work
    [ "$(job "$id" 'it["state"] + " " + it["steps"][-1]["step"]')" = 'done s299' ]
    [ "$(db_sql "SELECT octet_length(timeline) < 8192 AND left(timeline, 16) ~ '^[0-9]{16}' FROM pawl.history")" = t ]
}

@test "demo machines: three orders, one delivered and two undone" {
    fresh_db
    run_pawl demo machines -q -o json
    assert_status 0
    [ "$(json '[[o["state"], o["result"], o["steps"]] for o in it]')" = \
        '[["done", "delivered", 5], ["done", "undone", 5], ["done", "undone", 8]]' ]
    run_pawl demo magic
    assert_status 2
}

@test "a restart forgets the children that were waited for" {
    fresh_db
    machine <<'EOF'
first) say '{"spawn":[{"kind":"part"},{"kind":"part"}],"next":"joined"}' ;;
again) say '{"spawn":[{"kind":"part"}],"next":"joined"}' ;;
joined) say "{\"done\":$(printf %s "$PAWL_JOB_CHILDREN" | grep -o '"id"' | wc -l)}" ;;
EOF
    local id
    id=$(enqueue)
    work
    run_pawl machine restart "$id" --from again
    assert_status 0
    work
    # The first two end, and the join still waits for the third.
    run_pawl work --once -q -e part=true
    work
    [ "$(job "$id" 'it["result"]')" = 1 ]
}
