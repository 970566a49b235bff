"""The wire contract: names, comments on everything, nothing that protobuf-c cannot take, and numbers that never change
their meaning: proto/lock.txt remembers every one of them, also those that are gone."""

import re
import sys

from tap import Tap, files, read

TOKEN = re.compile(r'//[^\n]*|"[^"\n]*"|[A-Za-z_][\w.]*|-?\d+|\S', re.S)
CAMEL = re.compile(r'[A-Z][A-Za-z0-9]*$')
SNAKE = re.compile(r'[a-z][a-z0-9]*(_[a-z0-9]+)*$')
SCREAM = re.compile(r'[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$')
OURS = 'proto/pawl/'
LOCK = 'proto/lock.txt'


class Parser:
    """Enough of proto3 for these files: messages, enums, oneofs, services."""

    def __init__(self, path, text):
        self.path, self.problems, self.entries, self.uses = path, [], {}, {}
        self.tokens, at = [], 0
        for match in TOKEN.finditer(text):
            line = text.count('\n', 0, match.start()) + 1
            self.tokens.append((match.group(0), line))
        self.at = 0
        self.comment = False
        self.package = ''
        self.body('', 'file')

    def problem(self, line, text):
        self.problems.append(f'{self.path}:{line}: {text}')

    def next(self):
        """The next token that is no comment; notes whether one came right before it."""
        self.comment = False
        while self.at < len(self.tokens):
            token, line = self.tokens[self.at]
            self.at += 1
            if token.startswith('//'):
                self.comment = True
                continue
            return token, line
        return None, 0

    def skip_to(self, end):
        words = []
        while True:
            token, _ = self.next()
            if token is None or token == end:
                return words
            words.append(token)

    def documented(self, line, what, commented):
        if not commented:
            self.problem(line, f'{what} has no comment')

    def ours(self):
        return self.path.startswith(OURS)

    def body(self, scope, kind):
        while True:
            token, line = self.next()
            commented = self.comment
            if token is None or token == '}':
                return
            if token in ('message', 'enum', 'service', 'oneof'):
                name = self.next()[0]
                self.documented(line, f'{token} {name}', commented)
                if not (SNAKE if token == 'oneof' else CAMEL).match(name):
                    self.problem(line, f'{token} {name}: not named like one')
                if self.ours() and token == 'service' and not name.endswith('Service'):
                    self.problem(line, f'service {name} does not end in Service')
                self.skip_to('{')
                # Fields of a oneof belong to its message.
                self.body(scope if token == 'oneof' else f'{scope}.{name}' if scope else name,
                          kind if token == 'oneof' else token)
            elif token == 'package':
                self.package = self.skip_to(';')[0]
            elif token in ('syntax', 'import', 'option', 'reserved'):
                self.skip_to(';')
            elif token == 'rpc':
                self.rpc(scope, line, commented)
            elif kind == 'enum':
                self.value(scope, token, line, commented)
            else:
                self.field(scope, token, line, commented)

    def rpc(self, scope, line, commented):
        name = self.next()[0]
        self.documented(line, f'rpc {name}', commented)
        words = self.skip_to(';')
        if self.ours() and (f'{name}Request' not in words or f'{name}Response' not in words):
            self.problem(line, f'rpc {name} does not take {name}Request and return {name}Response')
        self.entries[f'{self.package}.{scope}.{name}'] = 'rpc'

    def value(self, scope, name, line, commented):
        self.documented(line, f'{scope}.{name}', commented)
        number = self.skip_to(';')[-1]
        prefix = re.sub(r'(?<!^)(?=[A-Z])', '_', scope.split('.')[-1]).upper() + '_'
        if not SCREAM.match(name) or (self.ours() and not name.startswith(prefix)):
            self.problem(line, f'{scope}.{name}: enum values are {prefix}SOMETHING')
        self.enter(line, scope, number, name)

    def field(self, scope, first, line, commented):
        words = [first] + self.skip_to(';')
        label = words.pop(0) if words[0] in ('repeated', 'optional', 'required') else ''
        if label == 'optional' or words[0] in ('group', 'map'):
            self.problem(line, f'{label or words[0]}: protobuf-c does not take it')
        if len(words) < 4 or words[2] != '=':
            self.problem(line, f'cannot read: {" ".join(words)}')
            return
        kind, name, number = words[0], words[1], words[3]
        self.documented(line, f'{scope}.{name}', commented)
        if not SNAKE.match(name):
            self.problem(line, f'{scope}.{name}: fields are in snake_case')
        self.uses.setdefault(scope, set()).add(kind)
        self.enter(line, scope, number, f'{name} {label + " " if label else ""}{kind}')

    def enter(self, line, scope, number, what):
        key = f'{self.package}.{scope} {number}'
        if key in self.entries:
            self.problem(line, f'{scope}: number {number} twice')
        self.entries[key] = what


def recursive(uses):
    """Messages that contain themselves."""
    def reach(name, seen):
        for other in uses.get(name, ()):
            if other not in seen:
                seen.add(other)
                reach(other, seen)
        return seen
    return [name for name in uses if name in reach(name, set())]


def check(path, text):
    parser = Parser(path, text)
    parser.problems += [f'{path}: {name} contains itself' for name in recursive(parser.uses)]
    return parser


def compare(lock, entries):
    """What is locked stays as it is; what is new has to be added to the lock; what is gone is marked so."""
    problems, known = [], {}
    for line in lock.splitlines():
        if line and not line.startswith('#'):
            key, what = line.split(': ', 1)
            known[key] = what
    for key, what in known.items():
        gone = what.startswith('gone ')
        if gone and key in entries:
            problems.append(f'{key} was {what[5:]} once and is never used again')
        elif not gone and key not in entries:
            problems.append(f'{key} ({what}) is gone: reserve it, and write "gone {what}" in {LOCK}')
        elif not gone and entries[key] != what:
            problems.append(f'{key} was {what} and is {entries[key]}')
    problems += [f'{key}: {what} is new: add that line to {LOCK}' for key, what in entries.items() if key not in known]
    return problems


def planted(tap, name, found, count):
    tap.result(name, [] if len(found) == count else [f'{len(found)} problems instead of {count}: {found}'])


GOOD = 'package p;\n// M.\nmessage M {\n  // A.\n  string a = 1;\n}\n'


def main(root):
    tap = Tap()
    path = OURS + 'x.proto'
    planted(tap, 'a good file is good', check(path, GOOD).problems, 0)
    planted(tap, 'a field without a comment is caught', check(path, GOOD.replace('  // A.\n', '')).problems, 1)
    planted(tap, 'a name in the wrong style is caught', check(path, GOOD.replace(' a =', ' aB =')).problems, 1)
    planted(tap, 'optional is caught', check(path, GOOD.replace('  string', '  optional string')).problems, 1)
    planted(tap, 'a message that contains itself is caught', check(path, GOOD.replace('string', 'M')).problems, 1)
    planted(tap, 'a number used twice is caught',
            check(path, GOOD.replace('  // A', '  // B.\n  string b = 1;\n  // A')).problems, 1)
    entries = check(path, GOOD).entries
    planted(tap, 'what is locked and there is fine', compare('p.M 1: a string', entries), 0)
    planted(tap, 'a changed type is caught', compare('p.M 1: a bytes', entries), 1)
    planted(tap, 'a number used again is caught', compare('p.M 1: gone a string', entries), 1)
    planted(tap, 'a number that is gone is caught', compare('p.M 1: a string\np.M 2: b string', entries), 1)
    planted(tap, 'a new number is caught', compare('', entries), 1)
    problems, entries = [], {}
    for path in files(root, ['proto'], ('.proto',)) + ['tests/serve/echo.proto']:
        parser = check(path, read(root, path))
        problems += parser.problems
        if path.startswith(OURS):
            entries.update(parser.entries)
    if len(sys.argv) > 2 and sys.argv[2] == '--print':
        print('\n'.join(f'{key}: {what}' for key, what in entries.items()))
        return
    tap.result('every name and comment in proto/ is as it should be', problems)
    tap.result('numbers are those of proto/lock.txt', compare(read(root, LOCK), entries))
    tap.end()


main(sys.argv[1])
