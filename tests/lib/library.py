"""libpawl as a thing to link with: what it shows is exactly what pawl.h declares, the header suits both languages and both
compilers, and every function has a manual page.

usage: library.py SOURCE_ROOT BUILD_ROOT LIBPAWL.so MAN_DIRECTORY [LIBPAWL.a]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(sys.argv[1], 'tests', 'style'))
from tap import Tap, read, without_comments  # noqa: E402  pylint: disable=wrong-import-position

COMPILERS = [
    ('gcc', 'c17', 'c'), ('clang', 'c17', 'c'),
    ('g++', 'c++17', 'c++'), ('g++', 'c++20', 'c++'), ('clang++', 'c++17', 'c++'), ('clang++', 'c++20', 'c++'),
]
WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow', '-Werror']

PROGRAM = '''#include <pawl.h>
#include <pawl.h>
int main(void)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    struct pawl_worker_options worker = PAWL_WORKER_OPTIONS_INIT;
    struct pawl_pool_options pool = PAWL_POOL_OPTIONS_INIT;
    struct pawl_stats stats = PAWL_STATS_INIT;
    job.kind = "k";
    return job.size == sizeof(job) && worker.size == sizeof(worker) && pool.size == sizeof(pool) &&
           stats.size == sizeof(stats) && job.priority == PAWL_PRIORITY_DEFAULT ? 0 : 1;
}
'''


def declared(header):
    return set(re.findall(r'\bPAWL_API\b[^;]*?\b(pawl_\w+)\s*\(', without_comments(header)))


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def differences(names, expected):
    return [f'missing: {name}' for name in sorted(expected - names)] + \
           [f'should not be there: {name}' for name in sorted(names - expected)]


def compile_header(root, compiler, standard, language):
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([compiler, f'-std={standard}', '-x', language, '-I', root + '/include'] + WARNINGS
                              + ['-c', '-o', scratch + '/x.o', '-'], input=PROGRAM, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
    return done.stdout.splitlines()[:10] if done.returncode != 0 else []


def page_problems(path):
    if not os.path.exists(path):
        return [f'{path} is not there']
    if not shutil.which('man'):
        return []
    done = subprocess.run(['man', '--warnings', '-E', 'UTF-8', '-l', '-Tutf8', '-Z', path], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False, env=dict(os.environ, LC_ALL='C.UTF-8'))
    return done.stderr.splitlines()[:3]


def main(root, shared, man, archive):
    tap = Tap()
    expected = declared(read(root, 'include/pawl.h'))
    tap.result('a declaration is found, a comment and a function of the header alone are not', differences(
        declared('/* PAWL_API int pawl_not(void); */ static inline int pawl_x_init(void) {}\nPAWL_API PAWL_CHECK int\n'
                 'pawl_a(struct b *c);\nPAWL_API void pawl_d(const char *fmt, ...) PAWL_PRINTF(1, 2);'),
        {'pawl_a', 'pawl_d'}))
    exported = {line.split()[-1].split('@')[0] for line in output('nm', '-D', '--defined-only', shared).splitlines()}
    tap.result('the shared library exports the functions of pawl.h and nothing else', differences(exported - {'PAWL_0'}, expected))
    dynamic = output('readelf', '-dW', shared)
    tap.result('its name carries the version of its ABI', [] if 'soname: [libpawl.so.0]' in dynamic else [dynamic])
    tap.result('a program may load it while it runs', ['it is marked NODLOPEN'] if 'NOOPEN' in dynamic else [])
    if archive:
        seen = {line.split()[-1] for line in output('nm', '--defined-only', '--extern-only', archive).splitlines()
                if len(line.split()) == 3}
        tap.result('so does the archive', differences(seen, expected))
    for compiler, standard, language in COMPILERS:
        name = f'pawl.h suits {compiler} -std={standard}'
        if shutil.which(compiler):
            tap.result(name, compile_header(root, compiler, standard, language))
        else:
            tap.skip(name, f'{compiler} is not installed')
    tap.result('every function has a manual page', [
        problem for name in sorted(expected | {'libpawl'}) for problem in page_problems(f'{man}/{name}.3')])
    tap.end()


main(sys.argv[1], sys.argv[3], sys.argv[4], sys.argv[5] if len(sys.argv) > 5 else None)
