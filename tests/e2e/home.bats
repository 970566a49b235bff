# The place of the private PostgreSQL: not allowed, or full.

load ../support/e2e

eval "e2e_$(declare -f teardown)"
teardown()
{
    # What runs inside must end before the small disk goes.
    if [ -e "$PAWL_HOME/data" ]; then
        rm -f "$DIR/small/filler"
        "$PAWL_TEST_BIN" db stop >/dev/null 2>&1 || true
    fi
    if mountpoint -q "$DIR/small"; then
        umount "$DIR/small" || umount -l "$DIR/small"
    fi
    e2e_teardown
}

# pawl as somebody without privileges.
run_pawl_unprivileged()
{
    if [ "$(id -u)" = 0 ]; then
        run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups "$PAWL_TEST_BIN" "$@"
    else
        run_pawl "$@"
    fi
}

@test "no permission to make it: exit status 6, where, and what to do" {
    if [ "$(id -u)" = 0 ] && ! setpriv --reuid=65534 --regid=65534 --clear-groups "$PAWL_TEST_BIN" --version >/dev/null; then
        skip 'others may not run the binary here'
    fi
    mkdir locked
    chmod 555 locked
    export PAWL_HOME=$DIR/locked/home
    local args
    for args in 'enqueue k' 'work --once -e k=true' 'job list' 'db start'; do
        # shellcheck disable=SC2086 # words on purpose
        run_pawl_unprivileged $args
        assert_status 6
        [ -z "$output" ]
        assert_stderr_contains "$DIR/locked"
        assert_stderr_contains 'Permission denied'
        assert_stderr_contains 'hint: '
        assert_stderr_contains PAWL_HOME
    done
    [ -z "$(ls -A locked)" ]
}

@test "a full disk: exit status 9, nothing lost, and it works again after space was freed" {
    mkdir small
    if [ "$(id -u)" != 0 ] || ! mount -t tmpfs -o size=160m,mode=755 pawl-e2e small 2>/dev/null; then
        skip 'a small file system can be mounted by root only'
    fi
    export PAWL_HOME=$DIR/small/home
    local n=0 before

    # A new segment of the log while there is room, so that it is the table that meets the end of the disk.
    before=$("$PAWL_TEST_BIN" enqueue k -q)
    "$PAWL_TEST_BIN" db psql -q -- -X -q -A -t -c 'SELECT pg_switch_wal()' -c 'CHECKPOINT' >/dev/null
    head -c 1000000 /dev/urandom >payload
    "$PAWL_TEST_BIN" enqueue k --bytes - <payload
    dd if=/dev/zero of=small/filler bs=1M count="$(($(df --output=avail -m small | tail -1) - 2))" status=none

    status=0
    while [ "$status" = 0 ] && [ "$n" -lt 10 ]; do
        run --separate-stderr "$PAWL_TEST_BIN" enqueue k --bytes - <payload
        n=$((n + 1))
    done
    assert_status 9
    [ -z "$output" ]
    assert_stderr_contains 'could not extend file'
    assert_stderr_contains 'hint: Free space'
    assert_stderr_contains 'Nothing was enqueued.'

    # What was accepted is there, and nothing of what was refused.
    run_pawl job list -q -o json
    assert_status 0
    [ "$(json len\(it\))" = "$((n + 1))" ]

    rm small/filler
    run_pawl enqueue k
    assert_status 0
    run_pawl work --once -q -e 'k=wc -c'
    assert_status 0
    [ "${#lines[@]}" = "$((n + 2))" ]
    [ "$(job "$before" 'it["state"]')" = done ]
}

@test "no space to make it at all: exit status 9, and nothing half made is left" {
    mkdir small
    if [ "$(id -u)" != 0 ] || ! mount -t tmpfs -o size=10m,mode=755 pawl-e2e small 2>/dev/null; then
        skip 'a small file system can be mounted by root only'
    fi
    export PAWL_HOME=$DIR/small/home
    run_pawl enqueue k
    assert_status 9
    assert_stderr_contains 'No space left on device'
    assert_stderr_contains 'hint: '
    mount -o remount,size=200m small
    run_pawl enqueue k
    assert_status 0
}
