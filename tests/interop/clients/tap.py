"""tap: runs every function called test_… of a module, in order; its doc string is the name. What a test returns is
why it was skipped."""

import sys
import time
import traceback


def run(namespace, only=()):
    tests = [f for key, f in namespace.items() if key.startswith('test_') and (not only or key in only)]
    print(f'1..{len(tests)}')
    failed = 0
    for number, test in enumerate(tests, 1):
        start, name = time.monotonic(), ' '.join(test.__doc__.split())
        try:
            reason = test()
            print(f'ok {number} - {name}' + (f' # SKIP {reason}' if reason else ''))
        except Exception:  # a failed test must not keep the others from running
            failed += 1
            print(f'not ok {number} - {name}')
            for line in traceback.format_exc().splitlines():
                print('# ' + line)
        print(f'# {time.monotonic() - start:.2f} s', flush=True)
    sys.exit(1 if failed else 0)


def skip_all(reason):
    print(f'1..0 # SKIP {reason}')
    sys.exit(0)
