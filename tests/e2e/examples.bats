# examples: what is in examples/ does what it says, the good way and the bad one; and the guides can be followed to the
# letter.

load ../support/e2e

ROOT=$BATS_TEST_DIRNAME/../..

work()
{
    run_pawl work --once -q -e "order=sh $ROOT/examples/order.sh" "$@"
    assert_status 0
}

# An order with this payload, and what the payment provider says, if it does.
order()
{
    ID=$("$PAWL_TEST_BIN" enqueue order "$1")
    work
    if [ -n "${2:-}" ]; then
        "$PAWL_TEST_BIN" signal send -q "$ID" "$2"
        work
    fi
}

did()
{
    [ "$(sed "s/^order-$ID //" order.log | paste -sd, )" = "$1" ] || fail "it did: $(cat order.log)"
}

@test "order.sh: an order that is paid is shipped" {
    fresh_db
    order '{"item":"book"}' paid
    did 'reserve stock,ask for payment,ship'
    [ "$(job "$ID" 'it["state"] + " " + it["result"]')" = 'done shipped' ]
}

@test "order.sh: a refused payment releases the stock" {
    fresh_db
    order '{"item":"book"}' refused
    did 'reserve stock,ask for payment,release stock'
    [ "$(job "$ID" 'it["state"] + " " + it["errors"][-1]["error"]')" = 'failed the order was undone' ]
}

@test "order.sh: when shipping fails the payment is refunded first, then the stock released" {
    fresh_db
    order '{"fail":"shipping"}' paid
    did 'reserve stock,ask for payment,refund payment,release stock'
    [ "$(job "$ID" '[s["step"] for s in it["steps"]]')" = '[null, "charge", "charged", "ship", "undo", "undo", "undo"]' ]
    job_is "$ID" failed
}

@test "order.sh: a payment that never comes is undone too" {
    fresh_db
    order '{"item":"book"}'
    job_is "$ID" waiting
    db_sql "UPDATE pawl.machine SET wait_until = now(); UPDATE pawl.job SET due_at = now()"
    work
    did 'reserve stock,ask for payment,release stock'
}

@test "order.sh: nothing to undo when there is no stock" {
    fresh_db
    order '{"fail":"stock"}'
    [ ! -e order.log ]
    job_is "$ID" failed
}

@test "order.sh: a step whose worker dies after the deed does not do it twice" {
    fresh_db
    ID=$("$PAWL_TEST_BIN" enqueue order '{}' --retry-base 1h)
    # The deed, and then no commit: as if the worker had died in between.
    run_pawl work --once -q -e "order=sh $ROOT/examples/order.sh 3>/dev/null; exit 1"
    job_is "$ID" retrying
    hurry "$ID"
    work
    "$PAWL_TEST_BIN" signal send -q "$ID" paid
    work
    did 'reserve stock,ask for payment,ship'
}

@test "the guide to machines can be followed to the letter" {
    fresh_db
    PATH=$(dirname "$PAWL_TEST_BIN"):$PATH run "$PYTHON" "$ROOT/tests/support/walk.py" "$ROOT/docs/guides/machines.md"
    [ "$status" = 0 ] || fail 'the guide is wrong'
    [[ $output == *' commands as described' ]]
}

@test "the diagram of machines names every state and every outcome there is, and no other" {
    run "$PYTHON" "$ROOT/tests/support/diagram.py" "$ROOT/src/core/job.h" "$ROOT/docs/internals/machines.md"
    [ "$status" = 0 ] || fail 'the diagram is wrong'
}
