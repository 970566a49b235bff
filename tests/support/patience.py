"""patience: waiting for what happens by itself. A busy machine makes a test slow, never red."""

import os
import time

SLOWNESS = float(os.environ.get('PAWL_TEST_SLOWNESS', '1'))
TIMEOUT_S = 60 * SLOWNESS  # only a failure takes so long: a machine that is ten times slower than usual must not look like one


def until(condition, what, timeout_s=TIMEOUT_S):
    """Waits for something that happens by itself, and only so long; returns what it came to."""
    deadline = time.monotonic() + timeout_s
    while True:
        got = condition()
        if got:
            return got
        assert time.monotonic() < deadline, f'never: {what}'
        time.sleep(0.005)


def patiently(scene, *tries):
    """Plays a scene about time with the first of the values, and with the next one if that failed. A process that stood still
    for a moment spoils the quick ones; what is wrong spoils them all, and the last one's failure is the test's."""
    for value in tries[:-1]:
        try:
            return scene(value)
        except Exception as failure:  # whatever an unlucky moment led to
            print(f'# with {value}: {type(failure).__name__} {" ".join(str(failure).split())[:300]}')
    return scene(tries[-1])
