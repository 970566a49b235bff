# pawl db: the private PostgreSQL, driven as a person would.

load ../support/e2e

# A member of what `pawl db status -o json` says.
status_of()
{
    "$PAWL_TEST_BIN" db status -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

@test "status of a database that is not there yet makes none" {
    run_pawl db status
    assert_status 0
    assert_line 'state:*absent'
    assert_line "home:*$PAWL_HOME"
    [ ! -e "$PAWL_HOME" ]
}

@test "start, use, stop and destroy" {
    run_pawl db start
    assert_status 0
    assert_stderr_contains "making a private PostgreSQL in $PAWL_HOME"
    [ -z "$output" ]
    [ "$(status_of state)" = running ]
    [ "$("$PAWL_TEST_PSQL" -X -A -t -d "$(status_of conninfo)" -c 'SELECT current_user')" = pawl ]

    run_pawl db start
    assert_status 0
    assert_stderr_contains "runs already (pid $(status_of pid))"

    run_pawl queue list
    assert_status 0
    [ "$(status_of schema)" = "up to date" ]

    run_pawl db stop
    assert_status 0
    [ "$(status_of state)" = stopped ]
    [ "$(status_of pid)" = None ]
    run_pawl db stop
    assert_status 0
    assert_stderr_contains "was not running"

    run_pawl db destroy --yes
    assert_status 0
    [ ! -e "$PAWL_HOME" ]
    run_pawl db destroy --yes
    assert_status 0
    assert_stderr_contains "there is no private PostgreSQL"
}

@test "a command that needs a database makes and starts the private one" {
    run_pawl queue list
    assert_status 0
    assert_stderr_contains "$PAWL_HOME"
    [ "$(status_of state)" = running ]

    # Deleting it wants a word from somebody.
    run_pawl db destroy </dev/null
    assert_status 2
    assert_stderr_contains "--yes"
    run script -qec "$PAWL_TEST_BIN db destroy" /dev/null <<<"yes"
    assert_status 130
    assert_output_contains "nothing was deleted"
    [ "$(status_of state)" = running ]
    run script -qec "$PAWL_TEST_BIN db destroy" /dev/null <<<"destroy"
    assert_status 0
    [ ! -e "$PAWL_HOME" ]
}

@test "psql gets its arguments and its exit status, and shows no password to others" {
    fresh_db
    run_pawl db psql -- -X -A -t -c 'SELECT 6 * 7'
    assert_status 0
    assert_output 42
    run_pawl db psql -- -X -v ON_ERROR_STOP=1 -f /dev/stdin <<<'SELECT 1 / 0;'
    assert_status 3

    # shellcheck disable=SC2016 # for psql's shell, whose parent is psql
    run_pawl db psql --db "$PAWL_DATABASE_URL password=s3cret" -- -X -c '\! tr "\0" " " </proc/$PPID/cmdline'
    assert_status 0
    assert_output_contains "--dbname"
    refute_output_contains "s3cret"
    run_pawl db psql --db "$PAWL_DATABASE_URL password=s3cret" -- -X -c '\! printenv PGPASSWORD'
    assert_output "s3cret"
}

@test "status of a database that was named tells of that one" {
    fresh_db
    run_pawl db status -o json
    assert_status 0
    assert_output_contains '"private":false'
    assert_output_contains '"schema":"up to date"'
    assert_output_contains '"conninfo":null'
    run_pawl db status --db 'host=/nowhere/at/all'
    assert_status 4
}

@test "what is about the private database refuses --db" {
    local verb
    for verb in start stop destroy; do
        run_pawl db "$verb" --db postgres://elsewhere/x
        assert_status 2
        assert_stderr_contains "private"
    done
}

@test "without PostgreSQL it says what is missing and makes nothing" {
    PAWL_PG_BINDIR=$DIR run_pawl queue list
    assert_status 16
    assert_stderr_contains "PostgreSQL is not installed"
    [ ! -e "$PAWL_HOME" ]
}

@test "a home that is not fit for it is refused with what to do" {
    mkdir -m 755 "$PAWL_HOME"
    run_pawl db start
    assert_status 6
    assert_stderr_contains "chmod 700 $PAWL_HOME"

    touch "$DIR/file"
    PAWL_HOME=$DIR/file run_pawl db start
    assert_status 2
    assert_stderr_contains "not a directory"

    mkdir -m 700 "$DIR/mine" && touch "$DIR/mine/diary"
    PAWL_HOME=$DIR/mine run_pawl db start
    assert_status 14
    assert_stderr_contains "not Pawl's"
    PAWL_HOME=$DIR/mine run_pawl db destroy --yes
    assert_status 3
    [ "$(ls "$DIR/mine")" = diary ]
}
