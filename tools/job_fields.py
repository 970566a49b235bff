"""job_fields: reads src/core/job_fields.h, the one description of a new job, for what is made from it or compared with it
outside C: clients/update-contract and tests/style/fields.py."""

import re
from dataclasses import dataclass

COLUMNS = ['how', 'name', 'type', 'home', 'member', 'wire', 'least', 'most', 'range', 'words', 'letter', 'option', 'value', 'help']
UNITS = re.compile(r'_(ms|us)$')


@dataclass
class Field:
    """A row of JOB_FIELDS, as text. wire is None where a server does not know the field; words is a list, or empty."""

    how: str
    name: str
    type: str
    home: str
    member: str
    wire: str
    least: str
    most: str
    range: str
    words: list
    letter: str
    option: str
    value: str
    help: str

    @property
    def sql(self):
        """Its name in SQL and in Python: that of the wire without its unit."""
        return UNITS.sub('', self.wire or self.name)


def split(row):
    """The arguments of a macro: commas within quotes and parentheses do not count."""
    parts, depth, quoted, part = [], 0, False, ''
    for i, c in enumerate(row):
        if c == '"' and row[i - 1] != '\\':
            quoted = not quoted
        if not quoted:
            depth += (c == '(') - (c == ')')
        if c == ',' and depth == 0 and not quoted:
            parts.append(part.strip())
            part = ''
        else:
            part += c
    return [*parts, part.strip()]


def rows(header):
    """The text between the parentheses of each X(...) of the table."""
    table = header[header.index('#define JOB_FIELDS(X)'):]
    lines = []
    for line in table.splitlines():
        lines.append(line.rstrip('\\').strip())
        if not line.endswith('\\'):
            break
    return re.findall(r'(?:^|\s)X\(((?:[^()"]|"(?:\\.|[^"\\])*"|\([^()]*\))*)\)', ' '.join(lines[1:]))


def read(header, source):
    """The fields in their order, of the text of job_fields.h and job_fields.c."""
    lists = {name: re.findall(r'"([^"]*)"', body)
             for name, body in re.findall(r'const char \*const (\w+)\[\] = \{([^}]*)\};', source)}
    fields = []
    for row in rows(header):
        values = dict(zip(COLUMNS, split(row)))
        wire = re.match(r'WIRE\((\w+)\)$', values['wire'])
        values['wire'] = wire.group(1) if wire else None
        values['words'] = lists.get(values['words'], [])
        fields.append(Field(**values))
    return fields
