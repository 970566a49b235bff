"""Calls with @grpc/grpc-js: fetches the library into the build directory once, then runs node/interop.mjs there."""

import hashlib
import os
import shutil
import subprocess
import sys

build, proto_root = os.path.abspath(sys.argv[1]), sys.argv[2]
here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(build, 'node')
FILES = ('package.json', 'package-lock.json', 'interop.mjs')
FETCH_TIMEOUT_S = 100


def skip(reason):
    print(f'1..0 # SKIP {reason}')
    sys.exit(0)


def main():
    if not shutil.which('node') or not shutil.which('npm'):
        skip('node and npm are not installed')
    os.makedirs(folder, exist_ok=True)
    for name in FILES:
        shutil.copy(os.path.join(here, 'node', name), folder)
    with open(os.path.join(folder, 'package-lock.json'), 'rb') as f:
        wanted = hashlib.sha256(f.read()).hexdigest()
    stamp = os.path.join(folder, 'node_modules', '.pawl-lock')
    if not os.path.exists(stamp) or open(stamp, encoding='ascii').read() != wanted:
        try:
            done = subprocess.run(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--fetch-retries=1',
                                   '--fetch-retry-mintimeout=2000'], cwd=folder, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=FETCH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            skip('npm could not fetch @grpc/grpc-js in time')
        if done.returncode != 0:
            print('\n'.join('# ' + line for line in done.stdout.splitlines()))
            skip('npm could not fetch @grpc/grpc-js')
        with open(stamp, 'w', encoding='ascii') as f:
            f.write(wanted)
    os.execvp('node', ['node', os.path.join(folder, 'interop.mjs'), os.path.join(build, 'echo_server'), proto_root,
                       os.path.join(here, 'echo.proto')])


main()
