#!/usr/bin/env python3
"""man3: the manual pages of section 3, made from include/pawl.h, so that they cannot say anything else than it does.

usage: tools/man3.py HEADER OUTPUT_DIRECTORY [NAME...]

Writes libpawl.3 from the comment that opens the header, and a page for each function: its prototype, the structs and enums
it takes, the comment above it and that of its section. NAMEs are the functions a page is expected of; a difference is an
error, and so is a function nobody has described.
"""

import datetime
import os
import re
import sys
import textwrap


class Function:
    def __init__(self, name, prototype, text, section):
        self.name, self.prototype, self.text, self.section = name, prototype, text, section


class Section:
    def __init__(self, title, text):
        self.title, self.text, self.functions = title, text, []


def comment_text(raw):
    """A comment without its stars; paragraphs as they were."""
    raw = re.sub(r'^/\*+', '', raw.strip())
    raw = re.sub(r'\*/$', '', raw)
    lines = [re.sub(r'^ \* ?', '', line) for line in raw.split('\n')]
    lines[0] = lines[0].strip()
    return '\n'.join(line.rstrip() for line in lines).strip('\n')


TOKEN = re.compile(r'''(?P<comment>/\*.*?\*/)
                     | (?P<pre>^[ ]*\#(?:[^\n\\]|\\.|\\\n)*$)
                     | (?P<body>\{)
                     | (?P<end>;)
                     | (?P<space>\s+)
                     | (?P<other>[^\s;{/#]+|/)''', re.X | re.S | re.M)


def statements(text):
    """Yields ('comment', text, begins a line) and ('code', text) in order; a body in braces belongs to its code."""
    at, code, start = 0, '', 0
    while at < len(text):
        match = TOKEN.match(text, at)
        kind = match.lastgroup
        if kind == 'comment' and not code.strip():
            yield 'comment', match.group(), '\n' in text[max(0, at - 2):at] or at == 0
        elif kind == 'pre':
            yield 'pre', match.group(), True
        elif kind == 'body':
            depth, end = 0, at
            while True:
                found = re.compile(r'/\*.*?\*/|[{}]', re.S).search(text, end)
                end = found.end()
                depth += {'{': 1, '}': -1}.get(found.group(), 0)
                if depth == 0:
                    break
            code += text[at:end]
            at = end
            if re.match(r'\s*(static inline|extern)', code):
                yield 'code', code.strip(), True
                code = ''
            continue
        elif kind == 'end':
            yield 'code', code.strip() + ';', True
            code = ''
        elif kind == 'comment':
            pass  # inside a declaration
        else:
            code += match.group()
        at = match.end()


def parse(header):
    """(opening text, sections, types by tag, codes)."""
    header = re.sub(r'#ifdef __cplusplus.*?#endif', '', header, flags=re.S)
    opening, sections, types = None, [Section('The library', '')], {}
    text, fresh = '', False
    for kind, code, begins in statements(header):
        if kind == 'comment':
            words = comment_text(code)
            ruled = re.match(r'-{20,} (\w[\w ]*)\n?(.*)', words, re.S)
            if opening is None:
                opening = words
            elif ruled:
                sections.append(Section(ruled.group(1).strip().capitalize(), ruled.group(2).strip('\n')))
                text = ''
            elif not begins and sections[-1].functions and not fresh:
                sections[-1].functions[-1].text = words  # behind a declaration: about that one
            else:
                text, fresh = words, True
            continue
        if kind == 'pre':
            continue
        tag = re.match(r'(?:typedef )?(struct|enum) (\w+)\s*\{', code)
        function = re.search(r'\bPAWL_API\b(.*?)\b(pawl_\w+)\s*\((.*)\)', code, re.S)
        callback = re.match(r'typedef [^;]*\(\*(\w+)\)', code)
        if tag:
            types[tag.group(2)] = (text if fresh else '', code)
        elif callback:
            types[callback.group(1)] = (text if fresh else '', code)
        elif function:
            prototype = re.sub(r'\b(PAWL_API|PAWL_CHECK)\b|PAWL_PRINTF\(\d, \d\)', '', code)
            prototype = re.sub(r'\s+', ' ', prototype).strip().replace(' ;', ';').replace('( ', '(')
            sections[-1].functions.append(Function(function.group(2), prototype, text, sections[-1]))
        fresh = False
    codes = re.findall(r'X\((PAWL_\w+),\s*(-?\d+),\s*(?:\\\n)?\s*\d+,\s*(?:\\\n)?\s*"([^"]*)"\)',
                       re.sub(r'\s*\\\n\s*', ' ', header))
    return opening, sections, types, codes


def roff(text):
    return re.sub(r"^(['.])", r'\\&\1', text.replace('\\', '\\e').replace('-', '\\-'), flags=re.M)


def paragraphs(text):
    """Text as roff: what is indented is kept as it is."""
    out = []
    for block in re.split(r'\n\s*\n', text):
        if not block.strip():
            continue
        if re.match(r'\s{3,}', block):
            out.append('.PP\n.RS 4\n.nf\n' + roff(textwrap.dedent(block)) + '\n.fi\n.RE')
            continue
        heading = re.match(r'([A-Z]{4,}(?: [A-Z]+)*)\. (.*)', block, re.S)
        if heading:
            out.append(f'.SS {heading.group(1).capitalize()}')
            block = heading.group(2)
        else:
            out.append('.PP')
        out.append(roff(' '.join(line.strip() for line in block.split('\n'))))
    return '\n'.join(out)


def code(text):
    return '.nf\n' + roff(text) + '\n.fi'


def first_sentence(text, most=70):
    words = ' '.join(text.split())
    words = re.split(r'(?<=[^.])[.;:](?:\s|$)', words)[0]
    return words if len(words) <= most else words[:most].rsplit(' ', 1)[0] + ' …'


def wanted_types(function, types):
    """Those that its arguments name, and those these name."""
    names, todo = [], [function.prototype]
    while todo:
        text = todo.pop()
        for name in re.findall(r'\b(pawl_\w+)\b', text):
            if name in types and name not in names and name != 'pawl_err':
                names.append(name)
                todo.append(types[name][1])
    return names


def page(title, version, parts):
    date = datetime.date.fromtimestamp(int(os.environ.get('SOURCE_DATE_EPOCH', '0'))).isoformat()
    head = f'.\\" Made by tools/man3.py from pawl.h.\n.TH "{title}" "3" "{date if date > "1970-01-01" else ""}" "pawl {version}" "libpawl"'
    return '\n'.join([head] + [f'.SH {name}\n{text}' for name, text in parts if text]) + '\n'


def function_page(function, types, version):
    names = wanted_types(function, types)
    synopsis = '.B #include <pawl.h>\n.PP\n' + code(textwrap.fill(function.prototype, 76, subsequent_indent='    ',
                                                                  break_long_words=False, break_on_hyphens=False))
    structs = '\n'.join((paragraphs(types[name][0]) + '\n' if types[name][0] else '.PP\n') + code(types[name][1])
                        for name in names)
    family = '_'.join(function.name.split('_')[:2])
    others = [f.name for f in function.section.functions if f is not function and f.name.startswith(family)]
    returns = ''
    if re.match(r'int pawl_\w+\(', function.prototype) and 'struct pawl_err' in function.prototype:
        returns = ('0, or a negative code of libpawl(3); then \\fIerr\\fP, unless it is NULL, says what went wrong, and '
                   'outputs are untouched.')
        if function.name == 'pawl_worker_turn':
            returns = '1 while there is more to come, 0 when the worker has stopped, or a negative code of libpawl(3).'
    return page(function.name, version, [
        ('NAME', f'{function.name} \\- {roff(first_sentence(function.text))}'),
        ('SYNOPSIS', synopsis),
        ('DESCRIPTION', paragraphs(function.text) + ('\n' + paragraphs(function.section.text) if function.section.text else '')),
        ('RETURN VALUE', returns),
        ('TYPES', structs),
        ('SEE ALSO', '.BR libpawl (3)' + ''.join(f',\n.BR {name} (3)' for name in others)),
    ])


def library_page(opening, sections, codes, version):
    text = opening.split('\n\n', 1)
    functions = '\n'.join(
        f'.SS {section.title}\n' + '\n'.join(f'.TP\n.BR {f.name} (3)\n{roff(first_sentence(f.text))}' for f in section.functions)
        for section in sections if section.functions)
    errors = '\n'.join(f'.TP\n.B {name}\n{roff(meaning)} ({roff(value)})' for name, value, meaning in codes)
    return page('libpawl', version, [
        ('NAME', 'libpawl \\- durable jobs and workflows on PostgreSQL'),
        ('SYNOPSIS', '.B #include <pawl.h>\n.PP\ncc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs libpawl)'),
        ('DESCRIPTION', paragraphs(text[0].replace('pawl.h: ', '', 1)) + '\n' + paragraphs(text[1])),
        ('FUNCTIONS', functions),
        ('ERRORS', errors),
        ('SEE ALSO', '.BR pawl (1)'),
    ])


def main(header_path, directory, expected):
    with open(header_path, encoding='utf-8') as f:
        header = f.read()
    version = re.search(r'PAWL_VERSION "([^"]+)"', header).group(1)
    opening, sections, types, codes = parse(header)
    functions = [f for section in sections for f in section.functions]
    if expected and {f.name for f in functions} != set(expected):
        sys.exit(f'man3: pawl.h and the export list differ: {sorted({f.name for f in functions} ^ set(expected))}')
    bare = [f.name for f in functions if not f.text]
    if bare or not codes:
        sys.exit(f'man3: nobody says what these are for: {bare}' if bare else 'man3: found no codes')
    pages = {'libpawl.3': library_page(opening, sections, codes, version)}
    pages.update({f'{f.name}.3': function_page(f, types, version) for f in functions})
    for name, text in pages.items():
        with open(os.path.join(directory, name), 'w', encoding='utf-8') as f:
            f.write(text)


if len(sys.argv) < 3:
    sys.exit(__doc__)
main(sys.argv[1], sys.argv[2], sys.argv[3:])
