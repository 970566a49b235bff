# pawl enqueue --from-file: all of a file's jobs, or none and the line that is wrong.

load ../support/e2e

count_jobs()
{
    db_sql 'SELECT count(*) FROM pawl.jobs'
}

# A file whose third line is the one given is refused for that line, with a message: refused STATUS MESSAGE LINE
refused()
{
    printf '{"kind":"good"}\n\n%s\n{"kind":"good"}\n' "$3" >jobs.jsonl
    run_pawl enqueue -f jobs.jsonl
    assert_status "$1"
    [ -z "$output" ] || fail 'ids were printed'
    assert_stderr_contains "pawl: jobs.jsonl, line 3: $2"
    assert_stderr_contains 'Nothing was enqueued.'
    [ "$(count_jobs)" = 0 ] || fail 'something was enqueued'
}

@test "every member of a line counts, and the command line fills in what is missing" {
    fresh_db
    cat >jobs.jsonl <<'END'
{"kind":"a","queue":"mail","payload":{"x":[1, 2.50]},"priority":9,"delay":"1h","max_attempts":3,"timeout":"5s"}
{"payload" : "text" , "at":"2099-01-01T00:00:00Z"}
{"delay":90,"timeout":1}
{"at":"2098-01-01T00:00:00Z"}
END
    run_pawl enqueue fallback -f jobs.jsonl --queue other -p 7 --delay 2h --max-attempts 4 --timeout 9s
    assert_status 0
    assert_output $'1\n2\n3\n4'
    run db_sql "SELECT queue, kind, priority, max_attempts, timeout_ms, convert_from(payload, 'UTF8'),
                       CASE WHEN due_at > '2090-01-01' THEN extract(year FROM due_at)
                            ELSE round(extract(epoch FROM due_at - created_at)) END
                FROM pawl.job ORDER BY id"
    assert_output 'mail|a|9|3|5000|{"x":[1, 2.50]}|3600
other|fallback|7|4|9000|"text"|2099
other|fallback|7|4|1000|{}|90
other|fallback|7|4|9000|{}|2098'
}

@test "tags, trace, correlation and deadline of a line stand for themselves" {
    fresh_db
    cat >jobs.jsonl <<'END'
{"kind":"a","tags":["x","y"]}
{"kind":"a","trace":"t-2"}
{"kind":"a","correlation":"c-2","deadline":"1h"}
{"kind":"a"}
{"kind":"a","tags":[]}
END
    run_pawl enqueue -f jobs.jsonl --tag z --trace t-1 --correlation c-1 --deadline 2h
    assert_status 0
    run db_sql "SELECT meta->>'tags', meta->>'trace', meta->>'correlation',
                       extract(epoch FROM deadline_at - created_at)::int FROM pawl.job ORDER BY id"
    assert_output '["x", "y"]|t-1|c-1|7200
["z"]|t-2|c-1|7200
["z"]|t-1|c-2|3600
["z"]|t-1|c-1|7200
|t-1|c-1|7200'
}

@test "every kind of mistake names its line and enqueues nothing" {
    fresh_db
    refused 2 'not valid JSON: ' '{"kind":"a"'
    refused 2 'not valid JSON: ' "{'kind':'a'}"
    refused 2 'not valid JSON: a key occurs twice' '{"kind":"a","kind":"b"}'
    refused 2 'it is not a JSON object' '["kind"]'
    refused 2 'it is not a JSON object' '"kind"'
    refused 2 'it has no "kind", and none was given on the command line' '{"payload":1}'
    refused 2 '"kind": it must be a string, in quotes' '{"kind":17}'
    refused 2 '"queue": it must be a string, in quotes' '{"kind":"a","queue":null}'
    refused 2 '"kind": it must be a string without \u0000' '{"kind":"a\u0000b"}'
    refused 2 "a kind's name cannot hold a blank" '{"kind":"a b"}'
    refused 2 "a queue's name cannot be empty" '{"kind":"a","queue":""}'
    refused 2 'priority 10 is not between 0 and 9' '{"kind":"a","priority":10}'
    refused 2 '"priority": it must be a number, without quotes' '{"kind":"a","priority":"5"}'
    refused 2 '"priority": "5.5" is not a whole number' '{"kind":"a","priority":5.5}'
    refused 2 'max_attempts 0 is not between 1 and 1000' '{"kind":"a","max_attempts":0}'
    refused 2 '"delay": "soon" is not a duration' '{"kind":"a","delay":"soon"}'
    refused 2 '"delay": "true" is not a duration' '{"kind":"a","delay":true}'
    refused 2 '"at": it must be a string, in quotes' '{"kind":"a","at":1}'
    refused 2 '"at": "later" is not a time' '{"kind":"a","at":"later"}'
    refused 2 '"delay" and "at" exclude each other' '{"kind":"a","at":"2099-01-01T00:00:00Z","delay":1}'
    refused 2 'timeout must be between 1 ms and 24 days' '{"kind":"a","timeout":0}'
    refused 2 '"correlation": it must be a string, in quotes' '{"kind":"a","correlation":7}'
    refused 2 'correlation is empty' '{"kind":"a","correlation":""}'
    refused 2 '"deadline": "soon" is not a duration' '{"kind":"a","deadline":"soon"}'
    refused 2 'a job has no member "prioritty"' '{"kind":"a","prioritty":1}'
    assert_stderr_contains 'Did you mean "priority"?'
    refused 2 'a job has no member "x"' '{"kind":"a","x":1}'
    assert_stderr_contains 'A job has kind, queue, payload'
}

@test "Windows line ends, blank lines, a byte order mark and a missing last newline are fine" {
    fresh_db
    printf '\357\273\277{"kind":"a"}\r\n\r\n  \t \r\n\n  {"kind":"b"}  \r\n{"kind":"c"}' >jobs.jsonl
    run_pawl enqueue -f jobs.jsonl
    assert_status 0
    run db_sql "SELECT string_agg(kind, ' ' ORDER BY id) FROM pawl.job"
    assert_output 'a b c'
}

@test "a file without jobs is said to be one" {
    fresh_db
    printf '\n \n' >jobs.jsonl
    run_pawl enqueue -f jobs.jsonl
    assert_status 0
    assert_output ''
    assert_stderr_contains 'the file holds no jobs'
}

@test "standard input is a file, too" {
    fresh_db
    run bash -c 'printf "{\"kind\":\"a\"}\n{\"kind\":3}\n" | "$PAWL_TEST_BIN" enqueue -f - 2>&1'
    assert_status 2
    assert_output_contains 'pawl: standard input, line 2: '
    run bash -c 'printf "{\"kind\":\"a\"}\n{\"kind\":\"b\"}\n" | "$PAWL_TEST_BIN" enqueue -f -'
    assert_output $'1\n2' || assert_output $'2\n3'
}

@test "50 000 lines are one transaction, and one bad line among them is found" {
    fresh_db
    seq 50000 | sed 's/.*/{"kind":"a","payload":{"n":&}}/' >jobs.jsonl
    run_pawl enqueue -f jobs.jsonl
    assert_status 0
    [[ $output == '50000 jobs, from '* ]]
    run db_sql "SELECT count(*), count(DISTINCT payload), count(DISTINCT xmin::text) FROM pawl.job"
    assert_output '50000|50000|1'
    sed -i '49999s/"kind"/kind/' jobs.jsonl
    run_pawl enqueue -f jobs.jsonl
    assert_status 2
    assert_stderr_contains 'jobs.jsonl, line 49999: not valid JSON'
    [ "$(count_jobs)" = 50000 ]
}

@test "a line that is too long is refused, even one without an end" {
    fresh_db
    { printf '{"kind":"a"}\n{"kind":"a","payload":"'; head -c 17000000 /dev/zero | tr '\0' x; printf '"}\n'; } >jobs.jsonl
    run_pawl enqueue -f jobs.jsonl
    assert_status 10
    assert_stderr_contains 'jobs.jsonl, line 2: longer than'
    assert_stderr_contains 'Nothing was enqueued.'
    run bash -c 'yes | tr -d "\n" | "$PAWL_TEST_BIN" enqueue -f - 2>&1'
    assert_status 10
    assert_output_contains 'standard input, line 1: longer than'
    [ "$(count_jobs)" = 0 ]
}

@test "a file that cannot be read is named, with the reason" {
    fresh_db
    run_pawl enqueue -f missing.jsonl
    assert_status 3
    assert_stderr_contains 'could not open missing.jsonl'
    assert_stderr_contains 'No such file or directory'
    run_pawl enqueue -f .
    assert_status 1
    assert_stderr_contains 'Is a directory'
    run_pawl enqueue k '{}' -f jobs.jsonl
    assert_status 2
    assert_stderr_contains '--from-file takes neither a payload nor --count'
    run_pawl enqueue --bytes -f jobs.jsonl
    assert_status 2
    assert_stderr_contains '--from-file takes JSON only'
}
