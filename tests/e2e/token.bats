#!/usr/bin/env bats
# pawl token: making, listing and revoking access tokens of the server.

load ../support/e2e

@test "a token is shown once, alone on standard output, and stored as its hash" {
    fresh_db
    run_pawl token create shop --scope enqueue --queue orders --queue 'team-*' --expires 90d
    assert_status 0
    [[ $output =~ ^pawl_[A-Za-z0-9_-]{43}$ ]] || fail "no token"
    assert_stderr_contains "only time"
    secret=$output
    [ "$(db_sql "SELECT count(*) FROM pawl.access WHERE hash = sha256('$secret'::bytea)")" = 1 ]
    run_pawl token list -o json
    assert_status 0
    refute_output_contains "$secret"
    [ "$(json 'it[0]["name"], it[0]["scopes"], it[0]["queues"], it[0]["state"]')" = '["shop", "enqueue", "orders,team-*", "valid"]' ]
    [ "$(json 'it[0]["expires_at"] is not None')" = true ]
}

@test "two tokens are never the same" {
    fresh_db
    run_pawl token create a --scope read
    first=$output
    run_pawl token create b --scope read
    [ "$first" != "$output" ]
}

@test "with -o json the token comes with its id and name" {
    fresh_db
    run_pawl token create a --scope work --scope read -o json
    assert_status 0
    [ "$(json 'it["name"], it["token"][:5]')" = '["a", "pawl_"]' ]
}

@test "a name is used once at a time" {
    fresh_db
    run_pawl token create a --scope read
    run_pawl token create a --scope read
    assert_status 19
    assert_stderr_contains "already"
    run_pawl token revoke a
    assert_status 0
    run_pawl token create a --scope read
    assert_status 0
}

@test "a revoked token is listed with --all, and can be revoked by its id" {
    fresh_db
    run_pawl token create a --scope read
    run_pawl token create b --scope read
    id=$(db_sql "SELECT id FROM pawl.access WHERE name = 'b'")
    run_pawl token revoke a "$id"
    assert_status 0
    run_pawl token list
    assert_output ""
    assert_stderr_contains "no access tokens"
    run_pawl token list --all -o json
    [ "$(json '[t["state"] for t in it]')" = '["revoked", "revoked"]' ]
    run_pawl token revoke a
    assert_status 3
    run_pawl token revoke nobody
    assert_status 3
}

@test "what is wrong is refused before anything is made" {
    fresh_db
    run_pawl token create a
    assert_status 2
    assert_stderr_contains "--scope"
    run_pawl token create a --scope everything
    assert_status 2
    assert_stderr_contains "everything"
    run_pawl token create 'a b' --scope read
    assert_status 2
    run_pawl token create a --scope read --queue 'a b'
    assert_status 2
    run_pawl token create a --scope read --queue '*x'
    assert_status 2
    [ "$(db_sql "SELECT count(*) FROM pawl.access")" = 0 ]
}

@test "every change of the table is told to servers, also one made by hand" {
    fresh_db
    run_pawl token create a --scope read
    heard=$("$PAWL_TEST_PSQL" -X -q -A -t -d "$PAWL_DATABASE_URL" -c 'LISTEN pawl_access' \
        -c "UPDATE pawl.access SET revoked_at = now() WHERE name = 'a'" -c 'SELECT 1')
    [[ $heard == *'"pawl_access"'* ]] || fail "not told: $heard"
}
