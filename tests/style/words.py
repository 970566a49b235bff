"""Documents and comments that can be read: Markdown within 120 columns, comments within 100, an index of decisions that is
in step, and no name of a file that is not there."""

import os
import re
import sys

from tap import Tap, files, read

MARKDOWN_MAX = 120
COMMENT_MAX = 100
# Comments beyond COMMENT_MAX are counted and do not fail yet.
COMMENTS_FAIL = False
# Documents that are being rewritten: too wide, with a dead link. Empty this list afterwards.
# Files that a document tells the reader to write.
EXAMPLES = ['greeter.c', 'producer.c', 'sql/migrations/NNNN_name.sql']
TOP = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md']
WORDS_MAX = {'ARCHITECTURE.md': 1000}

# A comment, or a literal, so that a comment inside a literal is none. sh and Python: from # to the end of the line.
C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
SQL_TOKEN = re.compile(r'--[^\n]*|/\*.*?\*/|\'[^\']*\'', re.S)
HASH_TOKEN = re.compile(r'#[^\n]*|"""(?:.*?)"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
TOKENS = {'.c': C_TOKEN, '.h': C_TOKEN, '.js': C_TOKEN, '.mjs': C_TOKEN, '.sql': SQL_TOKEN,
          '.py': HASH_TOKEN, '.bats': HASH_TOKEN, '.build': HASH_TOKEN}
STARTS = ('/*', '//', '--', '#', '"""')

NAMED = re.compile(r'`([\w./-]+\.(?:c|h|sql|py|bats|proto|map))`')
LINK = re.compile(r'\]\(([^)#\s]*)(#[^)\s]*)?\)')


def wide_markdown(path, text):
    return [f'{path}:{n}: {len(line)} columns; at most {MARKDOWN_MAX}'
            for n, line in enumerate(text.splitlines(), 1) if len(line) > MARKDOWN_MAX]


def wide_comments(path, text):
    """Lines with a comment that ends beyond COMMENT_MAX."""
    token = TOKENS[os.path.splitext(path)[1]]
    lines, wide = text.split('\n'), set()
    for match in token.finditer(text):
        if not match.group(0).startswith(STARTS):
            continue
        first = text.count('\n', 0, match.start())
        for n in range(first, first + match.group(0).count('\n') + 1):
            if len(lines[n]) > COMMENT_MAX:
                wide.add(n)
    return [f'{path}:{n + 1}: {len(lines[n])} columns; at most {COMMENT_MAX}' for n in sorted(wide)]


def too_many_words(path, text):
    words = len(text.split())
    return [f'{path}: {words} words; at most {WORDS_MAX[path]}'] if words > WORDS_MAX[path] else []


def index_problems(index, records):
    """records: name of a file in docs/adr -> its text. Every record is in the index once, in order, under its title."""
    problems, expected = [], []
    for name in sorted(records):
        title = re.match(r'# (\d{4}): (\S.*)\n', records[name])
        if not title or title.group(1) != name[:4]:
            problems.append(f'docs/adr/{name}: the first line is not "# {name[:4]}: TITLE"')
            continue
        expected.append(f'| [{name[:4]}]({name}) | {title.group(2)} |')
    found = [line for line in index.splitlines() if line.startswith('| [')]
    problems += [f'docs/adr/README.md lacks: {line}' for line in expected if line not in found]
    problems += [f'docs/adr/README.md has: {line}' for line in found if line not in expected]
    if not problems and found != expected:
        problems.append('docs/adr/README.md is not in the order of the numbers')
    return problems


def without_code(text):
    return re.sub(r'^```.*?^```', '', text, flags=re.S | re.M)


def anchors(text):
    """What a link may name behind #: headings in small letters, without punctuation, with hyphens for spaces."""
    return {'#' + re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
            for heading in re.findall(r'^#+ (.*)$', without_code(text), re.M)}


def dead_links(root, path, text):
    problems = []
    for target, anchor in LINK.findall(without_code(text)):
        if '://' in target or target.startswith('mailto:'):
            continue
        full = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if target and not os.path.exists(os.path.join(root, full)):
            problems.append(f'{path}: there is no {target}')
        elif anchor and full.endswith('.md') and anchor not in anchors(read(root, full) if target else text):
            problems.append(f'{path}: {target} has no heading for {anchor}')
    return problems


def missing_names(path, text, paths):
    """`name.c` and `folder/name.c` are the ends of paths in the tree."""
    names = set(NAMED.findall(without_code(text))) - set(EXAMPLES)
    return [f'{path}: there is no {name}' for name in sorted(names)
            if not any(('/' + other).endswith('/' + name.lstrip('./')) for other in paths)]


def planted(tap, name, found, count):
    tap.result(name, [] if len(found) == count else [f'{len(found)} problems instead of {count}: {found}'])


def main(root):
    tap = Tap()
    planted(tap, 'a wide line of Markdown is caught', wide_markdown('x.md', 'é' * MARKDOWN_MAX + '\n' + 'x' * 121 + '\n'), 1)
    planted(tap, 'a wide row of a table is caught', wide_markdown('x.md', '| a |\n|---|\n| ' + 'x' * 120 + ' |\n'), 1)
    long = 'x' * COMMENT_MAX
    planted(tap, 'a wide comment is caught', wide_comments('x.c', f'/* a\n * {long}\n */\nint a; // {long}\n'), 2)
    planted(tap, 'a wide comment in SQL and Python is caught',
            wide_comments('x.sql', f'-- {long}\nSELECT 1;\n') + wide_comments('x.py', f'x = 1  # {long}\n'), 2)
    planted(tap, 'wide code and literals are no comments',
            wide_comments('x.c', f'f("/* {long} */");\nint {long};\n') + wide_comments('x.sql', f"SELECT '-- {long}';\n"), 0)
    planted(tap, 'a record that the index lacks is caught', index_problems('', {'0001-a.md': '# 0001: A\n'}), 1)
    planted(tap, 'another title in the index is caught',
            index_problems('| [0001](0001-a.md) | B |\n', {'0001-a.md': '# 0001: A\n'}), 2)
    planted(tap, 'a record with the number of another is caught', index_problems('', {'0001-a.md': '# 0002: A\n'}), 1)
    planted(tap, 'an index in step is accepted',
            index_problems('| [0001](0001-a.md) | A |\n', {'0001-a.md': '# 0001: A\n'}), 0)
    planted(tap, 'a file that is not there is caught',
            missing_names('x.md', 'See `a/b.c`, `b.c` and `c.c`.', ['src/a/b.c']), 1)
    planted(tap, 'a dead link and a dead anchor are caught',
            dead_links(root, 'x.md', '# A b\n[a](README.md) [b](nowhere.md) [c](https://x.y) [d](#a-b) [e](#no)'), 2)

    markdown = [path for path in TOP if os.path.exists(os.path.join(root, path))]
    markdown += files(root, ['docs'], ('.md',))
    markdown += [path for path in files(root, ['clients'], ('.md',)) if 'node_modules' not in path]
    texts = {path: read(root, path) for path in markdown}
    tap.result(f'Markdown keeps within {MARKDOWN_MAX} columns',
               [p for path in markdown for p in wide_markdown(path, texts[path])])
    tap.result('links lead somewhere',
               [p for path in markdown for p in dead_links(root, path, texts[path])])
    tap.result('long documents stay short', [p for path in WORDS_MAX for p in too_many_words(path, texts[path])])
    records = {os.path.basename(path): text for path, text in texts.items() if re.match(r'docs/adr/\d', path)}
    tap.result('the index of decisions is in step', index_problems(texts['docs/adr/README.md'], records))
    tree = files(root, ['src', 'include', 'sql', 'tests', 'tools', 'bench', 'examples', 'proto', 'clients'],
                 ('.c', '.h', '.sql', '.py', '.bats', '.proto', '.map'))
    living = [path for path in markdown if not path.startswith('docs/adr/') and path != 'CHANGELOG.md']
    tap.result('documents name files that are there', [p for path in living for p in missing_names(path, texts[path], tree)])
    commented = files(root, ['src', 'include', 'sql', 'tests'], tuple(TOKENS))
    wide = [p for path in commented if path != 'sql/schema.sql' and 'node_modules' not in path
            for p in wide_comments(path, read(root, path))]
    if COMMENTS_FAIL or not wide:
        tap.result(f'comments keep within {COMMENT_MAX} columns', wide)
    else:
        tap.skip(f'comments keep within {COMMENT_MAX} columns', f'{len(wide)} do not yet')
        if '--all' in sys.argv:
            print('\n'.join(f'# {p}' for p in wide))
    tap.end()


main(sys.argv[1])
