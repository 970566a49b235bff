#!/usr/bin/env python3
"""walk: follows a guide to the letter. Every ```sh block is run, every `$ ` line of a ```console block too, all in one
shell in the current directory, and what a console block shows below a command is what it must print. In what is shown
… stands for any text, and a line that is only … for any lines.

usage: walk.py GUIDE.md
"""

import re
import subprocess
import sys

MARK = '\x01walk '


def blocks(text):
    for match in re.finditer(r'^```(sh|console)\n(.*?)^```$', text, re.M | re.S):
        yield match.group(1), match.group(2)


def steps(text):
    """(command, expected or None) in the order of the guide."""
    for kind, body in blocks(text):
        if kind == 'sh':
            yield body, None
            continue
        for part in re.split(r'^\$ ', body, flags=re.M)[1:]:
            command, _, expected = part.partition('\n')
            yield command, expected


def pattern(expected):
    out = []
    for line in expected.splitlines():
        if line.strip() == '…':
            out.append(r'(?:.*\n)*?')
        else:
            out.append('.*'.join(re.escape(piece) for piece in line.split('…')) + r'\n')
    return ''.join(out)


def main():
    with open(sys.argv[1], encoding='utf-8') as file:
        walk = list(steps(file.read()))
    script = ['set -eu']
    for n, (command, _) in enumerate(walk):
        script += [f"printf '%s\\n' '{MARK}{n}'", command]
    script.append(f"printf '%s\\n' '{MARK}end'")
    run = subprocess.run(['bash', '-c', '\n'.join(script)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=400, check=False)
    outputs = dict(part.split('\n', 1) for part in run.stdout.split(MARK)[1:])
    if run.returncode != 0 or 'end' not in outputs:
        sys.exit(f'exit status {run.returncode}; the guide ends in:\n{run.stdout}')
    for n, (command, expected) in enumerate(walk):
        if expected is not None and not re.fullmatch(pattern(expected), outputs[str(n)]):
            sys.exit(f'$ {command}\nsays\n{outputs[str(n)]}\nand not\n{expected}')
    print(f'{len(walk)} commands as described')


main()
