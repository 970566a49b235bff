"""node: makes a place in the build directory where the client for Node.js is installed as `npm install` would, and
runs something there.

usage: node.py ROOT BUILD pure | live | faults | types
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import time

import tap

FETCH_TIMEOUT_S = 100
FAILED_S = 300  # so long nobody else of the same run tries again


class Unavailable(Exception):
    """There is no Node.js here, or no network to get its packages from."""


def place(root, build):
    """The packages of package-lock.json, fetched once, and the client as it is now."""
    if not shutil.which('node') or not shutil.which('npm'):
        raise Unavailable('node and npm are not installed')
    folder, here = os.path.join(build, 'clients-node'), os.path.join(root, 'tests', 'interop', 'clients', 'node')
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'lock'), 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several tests want the same place
        for name in os.listdir(here):
            shutil.copy(os.path.join(here, name), folder)
        fetch(folder)
        install(root, folder)
    return folder


def fetch(folder):
    with open(os.path.join(folder, 'package-lock.json'), 'rb') as f:
        wanted = hashlib.sha256(f.read()).hexdigest()
    stamp = os.path.join(folder, 'node_modules', '.pawl-lock')
    if os.path.exists(stamp) and open(stamp, encoding='ascii').read() == wanted:
        return
    failed = os.path.join(folder, 'fetch-failed')
    if os.path.exists(failed) and time.time() - os.path.getmtime(failed) < FAILED_S:
        raise Unavailable('npm could not fetch the packages of tests/interop/clients/node/package-lock.json a moment ago')
    with open(failed, 'w', encoding='ascii'):
        pass
    try:
        done = subprocess.run(
            ['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--fetch-retries=1', '--fetch-retry-mintimeout=2000'],
            cwd=folder,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FETCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            'npm could not fetch the packages of tests/interop/clients/node/package-lock.json in time'
        ) from None
    if done.returncode != 0:
        print('\n'.join('# ' + line for line in done.stdout.splitlines()))
        raise Unavailable('npm could not fetch the packages of tests/interop/clients/node/package-lock.json')
    os.unlink(failed)
    with open(stamp, 'w', encoding='ascii') as f:
        f.write(wanted)


def install(root, folder):
    """What npm would publish, and nothing else: a file that is missing in package.json's list is missing here."""
    source, target = os.path.join(root, 'clients', 'node'), os.path.join(folder, 'node_modules', 'pawl-client')
    digest = hashlib.sha256()
    for path, folders, names in os.walk(source):
        folders[:] = sorted(f for f in folders if f != 'node_modules')
        for name in sorted(names):
            with open(os.path.join(path, name), 'rb') as f:
                digest.update(name.encode() + b'\0' + f.read())
    stamp = os.path.join(folder, 'installed')
    if os.path.exists(target) and os.path.exists(stamp) and open(stamp, encoding='ascii').read() == digest.hexdigest():
        return
    subprocess.run(
        ['npm', 'pack', '--silent', '--pack-destination', folder, source],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    shutil.rmtree(target, ignore_errors=True)
    archive = next(name for name in os.listdir(folder) if name.endswith('.tgz'))
    with tarfile.open(os.path.join(folder, archive)) as tar:
        tar.extractall(os.path.join(folder, 'unpacked'))
    os.rename(os.path.join(folder, 'unpacked', 'package'), target)
    os.remove(os.path.join(folder, archive))
    with open(stamp, 'w', encoding='ascii') as f:
        f.write(digest.hexdigest())


def types(folder):
    """the types of the client for Node.js are what they say: a program that uses them compiles, and what must not
    compile does not"""
    done = subprocess.run(
        [
            'node_modules/.bin/tsc',
            '--noEmit',
            '--strict',
            '--noUncheckedIndexedAccess',
            '--module',
            'nodenext',
            '--target',
            'es2022',
            'types_test.ts',
        ],
        cwd=folder,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    name = ' '.join(types.__doc__.split())
    print('1..1')
    print(f'{"ok" if done.returncode == 0 else "not ok"} 1 - {name}')
    print(''.join(f'# {line}\n' for line in done.stdout.splitlines()), end='')
    sys.exit(done.returncode != 0)


def main():
    root, build, what = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    try:
        folder = place(root, build)
    except Unavailable as e:  # said, not failed
        tap.skip_all(str(e))
    if what == 'types':
        types(folder)
    script = {'pure': 'pure_test.js', 'live': 'live_test.mjs', 'faults': 'faults_test.mjs'}[what]
    os.execvp('node', ['node', os.path.join(folder, script), *sys.argv[4:]])


if __name__ == '__main__':
    main()
