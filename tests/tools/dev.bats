# The front door: what it says, and that it never removes what it did not make.

bats_require_minimum_version 1.5.0

setup()
{
    ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    DIR=$(mktemp -d)
}

teardown()
{
    rm -rf "$DIR"
}

@test "help names every verb" {
    run "$ROOT/dev" help
    [ "$status" -eq 0 ]
    for verb in $(sed -n 's/^verb_\([a-z]*\)()$/\1/p' "$ROOT/dev"); do
        [[ $output == *"  $verb "* ]]
    done
}

@test "no verb shows the help" {
    run "$ROOT/dev"
    [ "$status" -eq 0 ]
    [[ $output == "usage: ./dev VERB"* ]]
}

@test "an unknown verb is refused, with the help" {
    run --separate-stderr "$ROOT/dev" tset
    [ "$status" -eq 1 ]
    [ -z "$output" ]
    [[ $stderr == *"  test "* ]]
    [[ $stderr == *"there is no verb 'tset'" ]]
}

@test "an unknown option of install is refused before anything is built" {
    PAWL_BUILD=$DIR/b run "$ROOT/dev" install --perfix=/x
    [ "$status" -eq 1 ]
    [[ $output == *"unknown option '--perfix=/x'"* ]]
    [ ! -e "$DIR/b-install" ]
}

@test "a revision that there is not is refused before anything is built" {
    PAWL_BUILD=$DIR/b run "$ROOT/dev" against no-such-revision drain
    [ "$status" -eq 1 ]
    [[ $output == *"there is no revision 'no-such-revision'"* ]]
    PAWL_BUILD=$DIR/b run "$ROOT/dev" against
    [ "$status" -eq 1 ]
    [[ $output == *"which revision?"* ]]
    [ -z "$(ls "$DIR")" ]
}

@test "clean removes build directories and nothing else" {
    mkdir -p "$DIR/b/meson-private" "$DIR/b-asan/meson-private" "$DIR/b-notes"
    PAWL_BUILD=$DIR/b run "$ROOT/dev" clean
    [ "$status" -eq 0 ]
    [ "$(ls "$DIR")" = b-notes ]
}

@test "an unknown trial is refused before anything is built" {
    for name in nothing soak ''; do
        PAWL_BUILD=$DIR/b run "$ROOT/dev" trial $name
        [ "$status" -eq 1 ]
        [[ $output == *trial* ]]
        [ ! -e "$DIR/b" ]
    done
}
