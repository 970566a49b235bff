"""libpawl as its users get it: installed into a directory of its own, found by pkg-config, and nothing else. The programs of
examples/ are compiled and run, and docs/guides/c-quickstart.md is followed to the letter.

usage: install.py SOURCE_ROOT BUILD_ROOT
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(sys.argv[1], 'tests', 'style'))
from tap import Tap, read  # noqa: E402  pylint: disable=wrong-import-position

TIMEOUT_S = 300

# What each example prints; lines in any order, but for those of IN_ORDER.
EXAMPLES = {
    'hello': ['hello, {"name": "world"}'],
    'transaction': ['order 1 shipped'],
    'pool': ['connected', 'connected', '50 done'],
    'long_job': ['asked to end: cancelled', 'the job is cancelled'],
    'event_loop': ['job 1', 'stopped'],
    'order': ['order 1: reserve stock', 'order 1: ask for payment', 'order 1: ship', 'order 1 is done',
              'order 2: reserve stock', 'order 2: ask for payment', 'order 2: ship, which fails', 'order 2: refund payment',
              'order 2: release stock', 'order 2 is failed'],
}
IN_ORDER = {'order'}


class Place:
    """An installation, and an environment that knows of nothing else than it."""

    def __init__(self, root, build, scratch):
        self.root, self.scratch = root, scratch
        self.destination = scratch + '/installed'
        subprocess.run(['meson', 'install', '--no-rebuild', '--quiet', '-C', build, '--destdir', self.destination],
                       stdout=subprocess.DEVNULL, check=True)
        pc = glob.glob(self.destination + '/**/libpawl.pc', recursive=True)[0]
        library = os.path.dirname(os.path.dirname(pc))
        prefix = os.path.dirname(glob.glob(self.destination + '/**/bin/pawl', recursive=True)[0])
        # What an installation below /usr/local needs no variables for.
        self.env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(pc), LD_LIBRARY_PATH=library,
                        PATH=prefix + ':' + os.environ['PATH'], PAWL_HOME=scratch + '/home', LC_ALL='C.UTF-8')
        self.databases = []

    def sql(self, sql):
        subprocess.run([os.environ['PAWL_TEST_PSQL'], '-X', '-q', '-d', os.environ['PAWL_TEST_DB'], '-c', sql], check=True,
                       stdout=subprocess.DEVNULL)

    def database(self, name, template=None):
        """A database for one program; the keyword string for it."""
        name = f'lib_install_{os.getpid()}_{name}'
        self.sql(f'CREATE DATABASE {name}' + (f' TEMPLATE {template}' if template else ''))
        self.databases.append(name)
        return re.sub(r'dbname=\S+', '', os.environ['PAWL_TEST_DB']) + f' dbname={name}'

    def close(self):
        for name in self.databases:
            self.sql(f'DROP DATABASE {name} WITH (FORCE)')

    def directory(self, name):
        path = f'{self.scratch}/{name}'
        os.mkdir(path)
        return path

    def run(self, command, cwd, **env):
        """Ends whatever it left running in the background."""
        with subprocess.Popen(command, cwd=cwd, env=dict(self.env, **env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, start_new_session=True) as process:
            watchdog = threading.Timer(TIMEOUT_S, os.killpg, (process.pid, signal.SIGKILL))
            watchdog.start()
            lines = []
            reader = threading.Thread(target=lambda: lines.append(process.stdout.read()))
            reader.start()
            process.wait()
            watchdog.cancel()
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            reader.join()
        return subprocess.CompletedProcess(command, process.returncode, ''.join(lines))


def build(place, cwd, source, name):
    """The line that the file itself says it is built with, and all warnings."""
    cc = re.search(r'\bcc (\S+\.c \$\(pkg-config [^*\n]*)', source).group(1).strip()
    return place.run(['sh', '-ec', f'cc -std=gnu17 -Wall -Wextra -Werror -o {name} {cc}'], cwd)


def example(place, name, expected, static):
    cwd = place.directory(name + ('_static' if static else ''))
    source = read(place.root, f'examples/{name}.c')
    shutil.copy(f'{place.root}/examples/{name}.c', cwd)
    if static:
        # Only libpawl itself: there is no archive of every system library.
        source = source.replace('--libs libpawl libpq)', '--libs-only-L libpawl) -l:libpawl.a $(pkg-config --cflags --libs '
                                'libpq libuv jansson libcrypto libssl libnghttp2 libprotobuf-c zlib)')
    done = build(place, cwd, source, name)
    if done.returncode != 0:
        return [f'it was not compiled:\n{done.stdout}'.replace('\n', '\n# ')]
    as_printed = list if name in IN_ORDER else sorted
    for tries in 'abc':
        done = place.run([f'./{name}'], cwd, PAWL_DATABASE_URL=place.database(f'{os.path.basename(cwd)}_{tries}', 'pawl_template'))
        if done.returncode == 0 and as_printed(done.stdout.splitlines()) == as_printed(expected):
            return []
        if 'unfinished' not in done.stdout:  # else the database stood still for seconds while it stopped, as it may
            break
    return [f'exit status {done.returncode}:\n{done.stdout}'.replace('\n', '\n# ')]


def quickstart(place):
    """The blocks of the guide, in order: files are written, commands are run in one shell. Code without a file's name only shows something."""
    guide = read(place.root, 'docs/guides/c-quickstart.md')
    cwd = place.directory('quickstart')
    commands = []
    for language, info, text in re.findall(r'^```(\w+) ?(\S*)\n(.*?)^```$', guide, re.M | re.S):
        if language == 'c' and not info:
            continue
        if language == 'c':
            with open(f'{cwd}/{info}', 'w', encoding='utf-8') as f:
                f.write(text)
        elif info not in ('install', 'database'):  # done already, and given by the variable
            commands.append(text)
    script = 'set -eu\n' + ''.join(commands)
    done = place.run(['sh', '-c', script], cwd, PAWL_DATABASE_URL=place.database('quickstart'))
    problems = [f'no word of: {line}' for line in ('the job is done: greeted', 'attempt 1: hello, {"name": "world"}',
                                                   'attempt 1: hello, {"name": "C"}') if line not in done.stdout]
    if done.returncode != 0:
        problems.append(f'exit status {done.returncode}')
    return problems + [('said:\n' + done.stdout).replace('\n', '\n# ')] if problems else []


def hello_is_short(root):
    lines = len(read(root, 'examples/hello.c').splitlines())
    return [] if lines <= 40 else [f'{lines} lines']


def main(root, build_root):
    tap = Tap()
    with tempfile.TemporaryDirectory(dir=os.environ['PAWL_TEST_TMP']) as scratch:
        place = Place(root, build_root, scratch)
        try:
            for name, expected in EXAMPLES.items():
                tap.result(f'examples/{name}.c does what it says', example(place, name, expected, False))
            tap.result('the first one is short', hello_is_short(root))
            tap.result('none is forgotten', sorted({os.path.basename(path)[:-2] for path in glob.glob(root + '/examples/*.c')}
                                                   ^ set(EXAMPLES)))
            tap.result('the archive does as well', [problem for name in ('hello', 'order')
                                                    for problem in example(place, name, EXAMPLES[name], True)])
            tap.result('the quick start in C works as it is written', quickstart(place))
        finally:
            place.close()
    tap.end()


main(sys.argv[1], sys.argv[2])
