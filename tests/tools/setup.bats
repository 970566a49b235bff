# The set-up, on a machine made of stand-ins for dpkg-query, apt-get, id and sudo: nothing is installed here.

bats_require_minimum_version 1.5.0

setup()
{
    ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    DIR=$(mktemp -d)
    mkdir "$DIR/bin"
    for tool in sh sed tr cat env mktemp rm tail dirname touch; do
        ln -s "$(command -v "$tool")" "$DIR/bin/$tool"
    done
    stand_in id 'echo 1000'
    stand_in dpkg-query 'exit 1' # nothing is installed
    stand_in apt-get "printf '%s\n' \"\$*\" >>'$DIR/apt.log'"
    unset PAWL_NO_SETUP
}

teardown()
{
    rm -rf "$DIR"
}

# stand_in NAME SCRIPT
stand_in()
{
    printf '#!/bin/sh\n%s\n' "$2" >"$DIR/bin/$1"
    chmod +x "$DIR/bin/$1"
}

run_setup()
{
    run env PATH="$DIR/bin" "$ROOT/tools/setup" "$@"
}

# "Installs" what apt-get is asked for.
apt_installs()
{
    stand_in apt-get "printf '%s\n' \"\$*\" >>'$DIR/apt.log'; case \"\$*\" in *--simulate*) ;; *install*) touch '$DIR/done' ;; esac"
    stand_in dpkg-query "[ -e '$DIR/done' ] || exit 1; for p; do printf '%s=installed ' \"\$p\"; done"
}

@test "every package has a group and a reason" {
    run_setup --list
    [ "$status" -eq 0 ]
    while read -r group package reason; do
        [[ " build run test sanitizers " == *" $group "* ]]
        [ -n "$package" ]
        [ -n "$reason" ]
    done <<<"$output"
}

@test "nothing missing: silent, and nobody asks for root" {
    stand_in dpkg-query 'for p; do printf "%s=installed " "$p"; done'
    run_setup build test sanitizers
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ ! -e "$DIR/apt.log" ]
}

@test "no root and no sudo: says the command for an administrator" {
    run_setup test
    [ "$status" -eq 1 ]
    [[ $output == *"not root, and there is no sudo"* ]]
    [[ $output == *"apt-get install -y --no-install-recommends libcmocka-dev bats "* ]]
    [ ! -e "$DIR/apt.log" ]
}

@test "a package that was removed but not purged is missing" {
    stand_in dpkg-query 'for p; do printf "%s=config-files " "$p"; done'
    run_setup test
    [ "$status" -eq 1 ]
    [[ $output == *"libcmocka-dev    unit and database tests"* ]]
}

@test "root: installs what is missing, without recommended packages, and says why" {
    stand_in id 'echo 0'
    apt_installs
    run_setup test
    [ "$status" -eq 0 ]
    [[ $output == *"bats             end-to-end tests"* ]]
    grep -q -e '--no-install-recommends install libcmocka-dev bats' "$DIR/apt.log"
    run -1 grep -e ' update$' "$DIR/apt.log"
}

@test "an ordinary user goes through sudo" {
    apt_installs
    stand_in sudo "printf '%s\n' \"\$*\" >>'$DIR/sudo.log'; [ \"\$1\" != -n ] || shift; [ \"\$1\" != true ] || exit 0; exec \"\$@\""
    run_setup test
    [ "$status" -eq 0 ]
    grep -q 'setup --install libcmocka-dev bats' "$DIR/sudo.log"
}

@test "package lists are fetched when apt does not know a package" {
    stand_in id 'echo 0'
    apt_installs
    stand_in apt-get "printf '%s\n' \"\$*\" >>'$DIR/apt.log'; case \"\$*\" in *--simulate*) exit 100 ;; *install*) touch '$DIR/done' ;; esac"
    run_setup test
    [ "$status" -eq 0 ]
    grep -q ' update$' "$DIR/apt.log"
}

@test "apt failing is an error that shows what apt said" {
    stand_in id 'echo 0'
    stand_in apt-get 'echo "E: no space left"; exit 100'
    run_setup test
    [ "$status" -eq 1 ]
    [[ $output == *"E: no space left"* ]]
    [[ $output == *"error: could not install"* ]]
}

@test "a system without apt gets a clear error" {
    rm "$DIR/bin/apt-get"
    run_setup build
    [ "$status" -eq 1 ]
    [[ $output == *"this system has no apt"* ]]
}

@test "an unknown group is refused" {
    run_setup biuld
    [ "$status" -eq 2 ]
    [[ $output == *"unknown group 'biuld'"* ]]
}
