# pawl enqueue: what is accepted, exactly as it was given, and what is refused.

load ../support/e2e

# The payload of a job as `job show -o json` prints it, byte for byte.
payload_of()
{
    local text
    text=$("$PAWL_TEST_BIN" job show "$1" -o json)
    text=${text#*,\"payload\":}
    printf '%s' "${text%%,\"result\":null,\"errors\":null,*}"
}

count_jobs()
{
    db_sql 'SELECT count(*) FROM pawl.jobs'
}

@test "one job: its bare id on stdout, nothing on stderr" {
    fresh_db
    run_pawl enqueue hello '{"n":1}'
    assert_status 0
    [[ $output =~ ^[0-9]+$ ]]
    [ -z "$stderr" ]
    [ "$(job "$output" '[it[k] for k in ("state","queue","kind","priority","attempt","max_attempts","payload")]')" \
        = '["ready", "default", "hello", 4, 0, 20, {"n": 1}]' ]
}

@test "without a payload it is an empty object" {
    fresh_db
    run_pawl enqueue hello
    [ "$(payload_of "$output")" = '{}' ]
}

@test "a payload comes back byte for byte: huge numbers, NUL, unicode, key order and blanks" {
    fresh_db
    local payload id
    for payload in '9007199254740993' '1234567890123456789012345678901234567890' '1e400' '-0.10' \
        '{"z":1,"a":2, "m" : [ 1 ,2 ] }' '"a\u0000b"' '"żółw 🐢 \ud83d\udc22"' 'null' '""' '[]' '"a\/b"'; do
        id=$("$PAWL_TEST_BIN" enqueue hello -- "$payload")
        [ "$(payload_of "$id")" = "$payload" ] || fail "$payload became $(payload_of "$id")"
        id=$(printf '%s' "$payload" | "$PAWL_TEST_BIN" enqueue hello -)
        [ "$(payload_of "$id")" = "$payload" ] || fail "$payload from stdin became $(payload_of "$id")"
        printf '%s\n' "$payload" "$payload" >>sent
    done
    "$PAWL_TEST_BIN" work --once -q -c 1 -o jsonl -e hello=cat | sed 's/.*,"result":\(.*\)}$/\1/' | diff sent -
}

@test "a payload of several lines is one line in jsonl and itself in the command" {
    fresh_db
    printf '{\n  "a": 1\n}\n' | "$PAWL_TEST_BIN" enqueue hello -
    run_pawl job show 1 -o jsonl
    [ "${#lines[@]}" = 1 ]
    [ "$(json 'it["payload"]')" = '{"a": 1}' ]
    "$PAWL_TEST_BIN" work --once -q -e 'hello=cat >seen'
    [ "$(cat seen)" = "$(printf '{\n  "a": 1\n}\n')" ]
}

@test "--bytes takes anything, NUL bytes included" {
    fresh_db
    head -c 3000 /dev/urandom >binary
    printf '\0\377\0' >>binary
    "$PAWL_TEST_BIN" enqueue raw --bytes - <binary
    "$PAWL_TEST_BIN" enqueue raw --bytes 'not { json'
    printf '' | "$PAWL_TEST_BIN" enqueue raw --bytes -
    job 1 'it["payload"]["base64"]' | base64 -d | cmp - binary
    [ "$(payload_of 2)" = '"not { json"' ]
    [ "$(payload_of 3)" = '""' ]
    run_pawl work --once -q -e 'raw=cat >seen.$PAWL_JOB_ID'
    cmp binary seen.1
    [ "$(cat seen.2)" = 'not { json' ]
    [ ! -s seen.3 ]
}

@test "bad JSON is refused with the place of the mistake, and a way out" {
    fresh_db
    local payload
    for payload in '{n:1}' '{"n":1' '' '{"a":1} x' "{'a':1}" '{"a":1,"a":2}' '01' 'NaN' '[1,]'; do
        run_pawl enqueue hello "$payload"
        assert_status 2
        [ -z "$output" ]
        assert_stderr_contains 'pawl: not valid JSON: '
        assert_stderr_contains "hint: The payload is one JSON value, quoted for the shell: '{\"n\":1}'"
    done
    run_pawl enqueue hello '{n:1}'
    assert_stderr_contains 'at column 2'
    run bash -c 'printf "a\0b" | "$PAWL_TEST_BIN" enqueue hello - 2>&1'
    assert_status 2
    assert_output_contains 'it holds a NUL byte'
    run bash -c 'printf "\"\\377\"" | "$PAWL_TEST_BIN" enqueue hello - 2>&1'
    assert_status 2
    assert_output_contains 'not UTF-8'
    run bash -c 'printf "%0100000d" 0 | tr 0 "[" | "$PAWL_TEST_BIN" enqueue hello - 2>&1'
    assert_status 2
    assert_output_contains 'nested deeper'
    [ "$(count_jobs)" = 0 ]
}

@test "a payload over the limit is refused before it is read whole" {
    # No database is asked, and an endless input is not read to its end.
    run bash -c 'yes | PAWL_DATABASE_URL="host=/nonexistent" "$PAWL_TEST_BIN" enqueue hello - 2>&1'
    assert_status 10
    assert_output_contains 'pawl: standard input has more than the limit of 16777216 bytes'
    assert_output_contains 'hint: Store it elsewhere and pass a reference to it.'
}

@test "the largest payload there may be makes the round trip" {
    fresh_db
    { printf '"'; head -c 16777214 /dev/zero | tr '\0' x; printf '"'; } >large
    "$PAWL_TEST_BIN" enqueue hello - <large
    "$PAWL_TEST_BIN" work --once -q -e 'hello=cat >seen'
    cmp large seen
}

@test "--priority, --delay and --at decide the order" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k -p 0
    "$PAWL_TEST_BIN" enqueue k
    "$PAWL_TEST_BIN" enqueue k -p 9
    "$PAWL_TEST_BIN" enqueue k --delay 1h
    "$PAWL_TEST_BIN" enqueue k --at 2099-01-31T09:00:00+01:00 -p 9
    "$PAWL_TEST_BIN" enqueue k --at 2001-01-01T00:00:00Z
    run_pawl work --once -q -c 1 -e 'k=echo $PAWL_JOB_ID >>order'
    assert_status 0
    [ "$(paste -sd' ' order)" = '3 6 2 1' ]
    [ "$(job 4 'it["state"]')" = scheduled ]
    [ "$(job 5 'it["due_at"]')" = 2099-01-31T08:00:00.000Z ]
    run db_sql "SELECT round(extract(epoch FROM due_at - created_at)) FROM pawl.job WHERE id = 4"
    assert_output 3600
}

@test "a delayed job runs when it is due, and not before" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k --delay 700ms
    run_pawl work --once -q -e k=true
    assert_output ''
    start_pawl work -q -e 'k=true' --poll 20ms
    eventually 10 job_is 1 done
    run db_sql "SELECT started_at >= due_at FROM pawl.history"
    assert_output t
}

@test "--deadline: a job that nobody ran in time fails without being run" {
    fresh_db
    "$PAWL_TEST_BIN" enqueue k --deadline 1ms
    "$PAWL_TEST_BIN" enqueue k --deadline 1h
    run_pawl work --once -q -e 'k=echo $PAWL_JOB_ID >>ran'
    assert_status 0
    [ "$(cat ran)" = 2 ]
    [ "$(job 1 'it["state"] + ": " + it["errors"][-1]["error"]')" = 'failed: the deadline of the job has passed' ]
    job_is 2 done
}

@test "--count enqueues the same job many times" {
    fresh_db
    run_pawl enqueue k --count 3 '{"same":true}'
    assert_status 0
    [ "${#lines[@]}" = 3 ]
    run_pawl enqueue k -n 2500
    assert_output '2500 jobs, from 4 to 2503'
    run_pawl enqueue k -n 2 -o json
    [ "$(json it)" = '[{"id": 2504}, {"id": 2505}]' ]
    [ "$(count_jobs)" = 2505 ]
}

@test "options out of range are refused with what is allowed" {
    run_pawl enqueue k -p 10
    assert_status 2
    assert_stderr_contains 'invalid value "10" for --priority'
    assert_stderr_contains 'It must be a whole number from 0 to 9.'
    run_pawl enqueue k -p -1
    assert_status 2
    run_pawl enqueue k -p high
    assert_status 2
    run_pawl enqueue k --max-attempts 0
    assert_status 2
    run_pawl enqueue k --delay soon
    assert_status 2
    assert_stderr_contains 'a duration such as'
    run_pawl enqueue k --delay -1s
    assert_status 2
    run_pawl enqueue k --delay 99999d
    assert_status 2
    run_pawl enqueue k --at tomorrow
    assert_status 2
    assert_stderr_contains 'a time with its zone'
    run_pawl enqueue k --at 2027-01-01T00:00:00
    assert_status 2
    run_pawl enqueue k --delay 1s --at 2027-01-01T00:00:00Z
    assert_status 2
    assert_stderr_contains '--delay and --at exclude each other'
    run_pawl enqueue k --count 0
    assert_status 2
    run_pawl enqueue k --timeout 0s
    assert_status 2
    assert_stderr_contains 'timeout must be between 1 ms and 24 days'
    run_pawl enqueue k '{}' more
    assert_status 2
    assert_stderr_contains 'unexpected argument "more"'
    run_pawl enqueue
    assert_status 2
    assert_stderr_contains 'A KIND is missing'
}

@test "a name that cannot be is refused with what can" {
    local name
    for name in 'a b' '-x' '' $'a\nb' 'ż' 'a;b' '.hidden'; do
        run_pawl enqueue -- "$name"
        assert_status 2
        assert_stderr_contains "a kind's name cannot"
        run_pawl enqueue "--queue=$name" k
        assert_status 2
        assert_stderr_contains "a queue's name cannot"
    done
    run_pawl enqueue "$(printf '%0129d' 0)"
    assert_status 10
    assert_stderr_contains 'cannot be longer than 128 bytes; this one has 129'
}

@test "ids that cannot be shown are no lost jobs, and the message says so" {
    fresh_db
    run bash -c '"$PAWL_TEST_BIN" enqueue k 2>&1 >/dev/full'
    assert_status 9
    assert_output_contains 'could not write the output'
    assert_output_contains 'The jobs were enqueued'
    [ "$(count_jobs)" = 1 ]
}
