"""How tools/run-tests counts: a test that did not really run must never pass for one that did."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys

root = sys.argv[1]
sys.path.insert(0, os.path.join(root, 'tests', 'style'))
from tap import Tap  # noqa: E402

loader = importlib.machinery.SourceFileLoader('run_tests', os.path.join(root, 'tools', 'run-tests'))
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader('run_tests', loader))
loader.exec_module(run_tests)

tap = Tap()


def case(name, stdout, expected, result='OK', code=0):
    """expected: passed, failed, skipped."""
    tally = run_tests.Tally()
    with contextlib.redirect_stdout(io.StringIO()):
        tally.add({'name': 'pawl:unit / x', 'stdout': stdout, 'result': result, 'returncode': code, 'duration': 1.0})
    seen = (tally.passed, len(tally.failed), len(tally.skipped))
    tap.result(name, [] if seen == expected else [f'{seen} instead of {expected}: {tally.failed}'])


case('every test case counts', '1..2\nok 1 - a\nok 2 - b\n', (2, 0, 0))
case('a plan at the end is as good', 'ok 1 - a\nok 2 - b\n1..2\n', (2, 0, 0))
case('a failed case counts once', '1..2\nok 1 - a\nnot ok 2 - b\n', (1, 1, 0), 'ERROR', 1)
case('a crash after good cases is a failure', '1..3\nok 1 - a\n', (1, 1, 0), 'ERROR', -11)
case('a crash after the last case is a failure', '1..1\nok 1 - a\n', (1, 1, 0), 'ERROR', -6)
case('fewer cases than planned is a failure', '1..3\nok 1 - a\n', (1, 1, 0), 'ERROR', 0)
case('a timeout is a failure', '1..1\n', (0, 1, 0), 'TIMEOUT', -15)
case('no output is a failure', '', (0, 1, 0), 'SKIP', 0)
case('no case at all is a failure', '1..0\n', (0, 1, 0), 'SKIP', 0)
case('a program that says why it cannot run is skipped', '1..0 # SKIP no network\n', (0, 0, 1), 'SKIP', 0)
case('a bad exit status is a failure', '1..1\nok 1 - a\n', (1, 1, 0), 'ERROR', 3)
case('a skipped case is neither passed nor failed', '1..2\nok 1 - a # SKIP not here\nok 2 - b\n', (1, 0, 1))
case('cmocka skips in its own way', '1..2\nnot ok 1 # SKIP a\nok 2 - b\n', (1, 0, 1), 'FAIL', 0)
case('words that look like results are not', '1..1\nokay 1\n# ok 1 - x\nok 1 - a\n', (1, 0, 0))



def choice(name, wanted, expected):
    tests = [{'name': 'unit-a', 'suite': ['pawl:unit']}, {'name': 'unit-b', 'suite': ['pawl:unit']},
             {'name': 'db-a', 'suite': ['pawl:db']}]
    try:
        seen = run_tests.chosen(wanted, tests)
    except run_tests.Failure:
        seen = None
    tap.result(name, [] if seen == expected else [f'{seen} instead of {expected}'])


choice('no name means all', [], [])
choice('suites are left to Meson', ['unit', 'db'], ['--suite', 'unit', '--suite', 'db'])
choice('a test is run by its name', ['db-a'], ['db-a'])
choice('a suite and a test are both run', ['db-a', 'unit'], ['db-a', 'unit-a', 'unit-b'])
choice('a test of a suite that is run too is run once', ['unit', 'unit-b'], ['unit-a', 'unit-b'])
choice('a name that is neither is refused', ['unit', 'nonsense'], None)

tally = run_tests.Tally()
with contextlib.redirect_stdout(io.StringIO()) as out:
    status = tally.report()
tap.result('nothing run is a failure', [] if status == 1 else [f'status {status}'])
tap.result('the last line is the total',
           [] if out.getvalue().splitlines()[-1] == '0 passed, 0 failed' else [out.getvalue()])
tap.end()
