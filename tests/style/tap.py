"""tap: results in the Test Anything Protocol, and reading C without its comments."""

import os
import re
import sys


class Tap:
    def __init__(self):
        self.cases = 0
        self.failed = 0

    def result(self, name, problems):
        """One test case; it passes when there are no problems."""
        self.cases += 1
        if problems:
            self.failed += 1
        print(f'{"not ok" if problems else "ok"} {self.cases} - {name}')
        for problem in problems:
            print(f'# {problem}')

    def skip(self, name, reason):
        self.cases += 1
        print(f'ok {self.cases} - {name} # SKIP {reason}')

    def end(self):
        print(f'1..{self.cases}')
        sys.exit(1 if self.failed else 0)


def files(root, folders, endings):
    """Paths relative to root, in a stable order."""
    found = []
    for folder in folders:
        for path, _, names in os.walk(os.path.join(root, folder)):
            found += [os.path.relpath(os.path.join(path, name), root) for name in names if name.endswith(endings)]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as f:
        return f.read()


_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def without_comments(text, strings=True):
    """The text with comments blanked out, and string and character literals too unless `strings`. Lines stay."""
    def blank(match):
        token = match.group(0)
        if token[0] == '/':
            return re.sub(r'[^\n]', ' ', token)
        return token if strings else token[0] + ' ' * (len(token) - 2) + token[0]
    return _TOKEN.sub(blank, text)


def line_of(text, offset):
    return text.count('\n', 0, offset) + 1
