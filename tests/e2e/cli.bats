# The command line itself: what is the same for every verb.

load ../support/e2e

# Completes the words given, the last one being under the cursor; sets $COMPREPLY.
complete_words()
{
    # shellcheck disable=SC1090 # made by the binary under test
    source <("$PAWL_TEST_BIN" completion bash)
    COMP_WORDS=("$@")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _pawl
}

@test "pawl alone shows the overview and says that nothing was done" {
    run_pawl
    assert_status 2
    assert_output_contains "Usage: pawl [OPTIONS] COMMAND"
    assert_output_contains "First steps:"
    [ -z "$stderr" ]
}

@test "every command of the overview has help" {
    run_pawl help
    assert_status 0
    local verb verbs
    verbs=$(awk '/^[A-Z].*:$/ { inside = $0 !~ /^(Options|First steps|Usage):/ } inside && /^  [a-z]/ { print $1 }' <<<"$output")
    [ -n "$verbs" ]
    for verb in $verbs; do
        run_pawl "$verb" --help
        assert_status 0
        assert_output_contains "Usage: pawl $verb"
        run_pawl help "$verb"
        assert_status 0
    done
}

@test "a wrong verb, sub-verb or option proposes the right one" {
    run_pawl versoin
    assert_status 2
    [ -z "$output" ]
    assert_stderr_contains 'pawl: unknown command "versoin"'
    assert_stderr_contains 'hint: Did you mean pawl version?'
    run_pawl completion bahs
    assert_status 2
    assert_stderr_contains 'Did you mean pawl completion bash?'
    run_pawl version --ouput json
    assert_status 2
    assert_stderr_contains 'Did you mean --output?'
}

@test "a value that is not allowed is named, with what is" {
    run_pawl version -o yaml
    assert_status 2
    assert_stderr_contains 'invalid value "yaml" for --output'
    assert_stderr_contains 'It must be table, json or jsonl.'
    assert_stderr_contains 'See pawl version --help.'
}

@test "global options stand before or after the verb and the last one counts" {
    run_pawl -o table version -o json
    assert_status 0
    [[ $output == '{"pawl":'* ]]
    run_pawl -o json version
    [[ $output == '{"pawl":'* ]]
}

@test "--version is one line" {
    run_pawl --version
    assert_status 0
    [[ $output =~ ^pawl\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}

@test "a full disk under stdout is an error" {
    run bash -c '"$PAWL_TEST_BIN" help 2>&1 >/dev/full'
    assert_status 9
    assert_output_contains "could not write the output"
}

@test "a reader that goes away is no error" {
    # A pipe whose only reader has closed it before anything is written.
    run bash -c 'mkfifo gone && exec 4<>gone 5>gone 4<&- && "$PAWL_TEST_BIN" help >&5'
    assert_status 0
    assert_output ""
}

@test "no colour outside a terminal, nor in one with NO_COLOR" {
    unset NO_COLOR
    run_pawl help
    [[ $output != *$'\033'* ]]
    run env TERM=xterm script -qec "$PAWL_TEST_BIN help" /dev/null
    [[ $output == *$'\033[1m'* ]]
    run env TERM=xterm NO_COLOR=1 script -qec "$PAWL_TEST_BIN help" /dev/null
    [[ $output != *$'\033'* ]]
}

@test "bash completes verbs, options and values" {
    complete_words pawl vers
    [ "${COMPREPLY[*]}" = version ]
    complete_words pawl -o json completion ''
    [ "${COMPREPLY[*]}" = bash ]
    complete_words pawl help comp
    [ "${COMPREPLY[*]}" = completion ]
    complete_words pawl version --log-l
    [ "${COMPREPLY[*]}" = --log-level ]
    complete_words pawl version --output = j
    [ "${COMPREPLY[*]}" = "json jsonl" ]
    complete_words pawl --db version ver # the first one is a value
    [ "${COMPREPLY[*]}" = version ]
}

@test "the man page is made from a table without mistakes" {
    run_pawl help --man
    assert_status 0
    assert_output_contains "# EXIT STATUS"
}
