# What the other end-to-end tests stand on: a directory and a database of their own, and asserts that can fail.

load ../support/e2e

@test "a test starts in an empty directory of its own" {
    [ "$PWD" = "$DIR" ]
    [ -z "$(ls -A)" ]
    [[ $PAWL_HOME == "$DIR"/* ]]
}

@test "a fresh database is migrated alike and shared with nobody" {
    fresh_db
    db_sql 'CREATE TABLE mine ()'
    local first=$DATABASE
    drop_db
    [ -z "${PAWL_DATABASE_URL:-}" ]
    fresh_db
    [ "$DATABASE" != "$first" ]
    run db_sql "SELECT count(*) FROM pg_class WHERE relname = 'mine'"
    assert_output 0
    run server_sql "SELECT count(*) FROM pg_database WHERE datname = '$first'"
    assert_output 0
}

@test "run_pawl keeps stdout and stderr apart" {
    run_pawl --version
    assert_status 0
    assert_output_contains pawl
    [ -z "$stderr" ]
}

@test "each assert fails when it should" {
    run --separate-stderr bash -c 'echo one; echo two >&2; exit 3'
    assert_status 3
    assert_output one
    assert_line 'o*'
    assert_output_contains ne
    assert_stderr_contains two
    refute_output_contains two
    ! assert_status 0 2>/dev/null || return 1
    ! assert_output two 2>/dev/null || return 1
    ! assert_line two 2>/dev/null || return 1
    ! assert_output_contains two 2>/dev/null || return 1
    ! assert_stderr_contains one 2>/dev/null || return 1
    ! refute_output_contains one 2>/dev/null || return 1
    ! eventually 0 false 2>/dev/null || return 1
}

@test "what runs in the background is stopped at the end" {
    PAWL_TEST_BIN=$(command -v sleep) start_pawl 600
    kill -0 "$PID"
}
