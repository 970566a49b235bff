#!/usr/bin/env python3
"""Turns a compiled set of .proto files into a C table for server reflection, at build time.

For each file: its name, its serialised descriptor, the files it imports, and the full names of what it declares.

usage: embed-proto.py NAME SET.pb OUT.c       NAME is the table's name; SET.pb comes from protoc --descriptor_set_out
"""
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of a message; varints as numbers, the rest as bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
            value, at = data[at:at + length], at + length
        else:
            sys.exit("a descriptor with groups")
        yield key >> 3, value


def first(data, number):
    return next((value.decode() for n, value in fields(data) if n == number), "")


def declared(data, scope):
    """Full names in a DescriptorProto: itself, nested messages (3) and enums (4)."""
    name = scope + first(data, 1)
    yield name
    for number, value in fields(data):
        if number == 3:
            yield from declared(value, name + ".")
        elif number == 4:
            yield name + "." + first(value, 1)


def symbols(file):
    package = first(file, 2)
    scope = package + "." if package else ""
    for number, value in fields(file):
        if number == 4:
            yield from declared(value, scope)
        elif number == 5:
            yield scope + first(value, 1)
        elif number == 6:
            service = scope + first(value, 1)
            yield service
            for n, method in fields(value):
                if n == 2:
                    yield service + "." + first(method, 1)


def c_strings(texts):
    return "".join('"%s", ' % text for text in texts) + "NULL"


def main(name, source, out):
    with open(source, "rb") as f:
        files = [value for number, value in fields(f.read()) if number == 1]
    with open(out, "w", encoding="utf-8") as c:
        c.write('#include "serve/rpc/reflection.h"\n\n#include <stddef.h>\n\n')
        for i, file in enumerate(files):
            imports = [value.decode() for number, value in fields(file) if number == 3]
            c.write("static const unsigned char bytes_%d[] = {%s};\n" % (i, ",".join(map(str, file))))
            c.write("static const char *const imports_%d[] = {%s};\n" % (i, c_strings(imports)))
            c.write("static const char *const symbols_%d[] = {%s};\n" % (i, c_strings(symbols(file))))
        c.write("\nconst struct reflection_file %s[] = {\n" % name)
        for i, file in enumerate(files):
            c.write('    {"%s", bytes_%d, sizeof(bytes_%d), imports_%d, symbols_%d},\n' % (first(file, 1), i, i, i, i))
        c.write("    {NULL, NULL, 0, NULL, NULL},\n};\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
