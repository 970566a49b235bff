# pawl lane, and lanes as a person meets them.

load ../support/e2e

@test "jobs of one lane run one at a time, whoever runs them" {
    fresh_db
    for n in 1 2 3 4 5 6; do
        "$PAWL_TEST_BIN" enqueue a --lane one >/dev/null
    done
    run_pawl work --once -q -c 4 -e 'a=mkdir inside && sleep 0.02 && rmdir inside'
    assert_status 0
    [ "$(db_sql "SELECT count(*) FROM pawl.history WHERE state = 'done' AND attempt = 1")" = 6 ]
}

@test "lane list shows what runs and waits, and the rules" {
    fresh_db
    run_pawl lane list -o json
    assert_status 0
    [ "$(json 'len(it)')" = 0 ]
    run_pawl lane set default 'customer:*' --max 2 --rate 5/s --burst 3 --strict --hold
    assert_status 0
    db_sql "SELECT pawl.enqueue('a', lane => 'customer:1') FROM generate_series(1, 3);
            INSERT INTO pawl.lane (queue, name, holders) VALUES ('default', 'customer:1', '{}')" >/dev/null
    run_pawl lane list -o json
    assert_status 0
    [ "$(json '" ".join("%s:%s:%d:%d" % (r["lane"], r["rule"], r["waiting"], r["max_running"]) for r in it)')" = \
        'customer:*:True:0:2 customer:1:False:3:1' ]
    run_pawl lane list -o json --queue other
    [ "$(json 'len(it)')" = 0 ]
}

@test "lane set changes lanes that are there, and takes it back" {
    fresh_db
    db_sql "INSERT INTO pawl.lane (queue, name, holders) VALUES ('q', 'a', '{}'), ('q', 'b', '{}')"
    run_pawl lane set q 'a*' --max 7
    assert_status 0
    [ "$(db_sql "SELECT string_agg(name || max_running, ' ' ORDER BY name) FROM pawl.lane")" = 'a7 b1' ]
    run_pawl lane set q 'a*' --remove
    assert_status 0
    [ "$(db_sql "SELECT string_agg(name || max_running, ' ' ORDER BY name) FROM pawl.lane")" = 'a1 b1' ]
    [ "$(db_sql "SELECT count(*) FROM pawl.lane_rule")" = 0 ]
}

@test "lane set refuses what is no limit" {
    fresh_db
    run_pawl lane set q 'a*' --rate fast
    assert_status 2
    run_pawl lane set q 'a*' --rate 0/s
    assert_status 2
    run_pawl lane set q 'a*' --max 0
    assert_status 2
    run_pawl lane set q 'a %' --max 2
    [ "$status" -ne 0 ]
    run_pawl lane set q
    assert_status 2
}
