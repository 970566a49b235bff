# machines: what the bats files about machines share. Loaded after e2e.

# The machine of a test: machine <<'EOF' … EOF is the body of a `case` over the step; the first step is called first.
machine()
{
    {
        echo 'say() { printf "%s\n" "$1" >&3; }'
        echo "echo \"\${PAWL_JOB_STEP:-first}\" >>$DIR/ran"
        echo 'case ${PAWL_JOB_STEP:-first} in'
        cat
        echo '*) say "{\"stop\":\"unknown step\"}" ;;'
        echo 'esac'
    } >"$DIR/m.sh"
}

# Runs what is due, until nothing is.
work()
{
    run_pawl work --once -q -e "m=sh $DIR/m.sh" "$@"
    assert_status 0
}

# The steps that ran, on one line.
ran()
{
    [ "$(paste -sd' ' "$DIR/ran")" = "$1" ] || fail "steps that ran: $(paste -sd' ' "$DIR/ran"), not: $1"
}

enqueue()
{
    "$PAWL_TEST_BIN" enqueue "${1:-m}" "${@:2}"
}

signal()
{
    run_pawl signal send "$@"
    assert_status 0
}

work_until_done()
{
    work
    job_is "$1" "${2:-done}"
}
