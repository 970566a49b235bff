#!/usr/bin/env python3
"""diagram: compares the states and outcomes of core/job.h with the edges of the diagram in a document, which stand there
as lines "from --outcome--> to" in a block that begins with ```edges.

usage: diagram.py job.h DOCUMENT.md
"""

import re
import sys


def table(source, name):
    body = re.search(rf'#define {name}\(X\)(.*?)\n\n', source, re.S).group(1)
    return set(re.findall(r'X\(\w+, \d+, "([a-z]+)"', body))


def main():
    with open(sys.argv[1], encoding='utf-8') as file:
        source = file.read()
    with open(sys.argv[2], encoding='utf-8') as file:
        document = file.read()
    states, outcomes = table(source, 'JOB_STATES'), table(source, 'JOB_OUTCOMES')
    block = re.search(r'^```edges\n(.*?)^```$', document, re.M | re.S).group(1)
    seen_states, seen_outcomes = set(), set()
    wrong = []
    for line in block.splitlines():
        edge = re.fullmatch(r'(\w+) +--([\w ]+)--> +([\w, ]+?)(?: {2,}.*)?', line)
        if not edge:
            wrong.append(f'not an edge: {line}')
            continue
        origin, label, targets = edge.group(1), edge.group(2), edge.group(3).split(', ')
        seen_states |= {origin, *targets}
        if origin == 'running':
            if label not in outcomes:
                wrong.append(f'no such outcome: {label}')
            seen_outcomes.add(label)
    wrong += [f'no such state: {s}' for s in sorted(seen_states - states)]
    wrong += [f'state without an edge: {s}' for s in sorted(states - seen_states)]
    wrong += [f'outcome without an edge: {o}' for o in sorted(outcomes - seen_outcomes)]
    if wrong:
        sys.exit('\n'.join(wrong))


main()
