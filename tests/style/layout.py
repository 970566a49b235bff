"""The layout of C files is what clang-format makes of them (./dev format does it)."""

import os
import shutil
import subprocess
import sys
import tempfile

from tap import Tap, files


def clang_format(root, paths):
    done = subprocess.run(['clang-format', '--dry-run', '--Werror', '--ferror-limit=1'] + paths, cwd=root,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if ': error:' in line]
    if done.returncode != 0 and not found:
        found = done.stdout.splitlines() or [f'clang-format: exit status {done.returncode}']
    return found


def main(root):
    tap = Tap()
    if not shutil.which('clang-format'):
        tap.skip('C files are laid out by clang-format', 'clang-format is not installed')
        tap.end()
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(os.path.join(root, '.clang-format'), scratch)
        with open(os.path.join(scratch, 'x.c'), 'w', encoding='utf-8') as f:
            f.write('int  main( void ){return 0;}\n')
        found = clang_format(scratch, ['x.c'])
        tap.result('a badly laid out file is caught', [] if found else ['it was not'])
    paths = files(root, ['src', 'include', 'tests', 'bench', 'examples'], ('.c', '.h'))
    tap.result('C files are laid out by clang-format', clang_format(root, paths))
    tap.end()


main(sys.argv[1])
