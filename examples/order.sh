#!/bin/sh
# order: an order as a machine in plain shell: reserve the stock, take the payment, ship; and when one of them fails, undo
# what was done, in reverse.
#
#     pawl work --exec 'order=sh examples/order.sh'
#     pawl enqueue order '{"item":"book","amount":25}'
#     pawl signal send 1 paid            # or: refused
#
# Its state is a text, the list of what is to be undone, the newest first: "payment stock". Each step does one thing that
# it could do twice without harm, because a worker may die after the deed and before the commit: the services it calls are
# given the id of the job as the key of the order. Here they are three functions that write to the file $ORDER_LOG.
# A payload with "fail":"stock" or "fail":"shipping" shows what happens then.
set -eu

order=$(cat)
key=order-$PAWL_JOB_ID

# One line on descriptor 3 says how the job goes on.
say()
{
    printf '%s\n' "$1" >&3
}

# The state is a JSON text without anything that would need escaping.
done_so_far()
{
    printf '%s' "${PAWL_JOB_STATE:-\"\"}" | tr -d '"'
}

# A service: what it does with the same key and the same deed a second time is nothing.
service()
{
    grep -qsx "$key $1" "${ORDER_LOG:=order.log}" || echo "$key $1" >>"$ORDER_LOG"
}

asked_to_fail()
{
    case $order in *'"fail":"'"$1"'"'*) return 0 ;; *) return 1 ;; esac
}

case ${PAWL_JOB_STEP:-reserve} in
reserve)
    if asked_to_fail stock; then
        say '{"reject":"out of stock"}'
    else
        service 'reserve stock'
        say '{"next":"charge","state":"stock"}'
    fi
    ;;
charge)
    # The provider answers later, with a signal, perhaps days later. After a day we give up.
    service 'ask for payment'
    say '{"await":["paid","refused"],"next":"charged","timeout_ms":86400000}'
    ;;
charged)
    case $PAWL_JOB_TIMED_OUT${PAWL_JOB_SIGNALS:-} in
    0*'"paid"'*) say '{"next":"ship","state":"payment stock"}' ;;
    *) say '{"next":"undo"}' ;;
    esac
    ;;
ship)
    if asked_to_fail shipping; then
        say '{"next":"undo"}'
    else
        service 'ship'
        say '{"done":"shipped"}'
    fi
    ;;
undo)
    # One deed at a time, each in a step of its own: what was undone is committed before the next begins.
    list=$(done_so_far)
    case $list in
    '')
        say '{"reject":"the order was undone"}'
        exit
        ;;
    payment*) service 'refund payment' ;;
    stock*) service 'release stock' ;;
    esac
    rest=${list#* }
    [ "$rest" != "$list" ] || rest=
    say "{\"next\":\"undo\",\"state\":\"$rest\"}"
    ;;
*)
    say '{"stop":"unknown step"}'
    ;;
esac
