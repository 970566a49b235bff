#!/usr/bin/env python3
"""bench_unary: CPU time of the server for one unary call, with h2load as the client.

usage: bench_unary.py ECHO_SERVER [CALLS]
"""
import json
import subprocess
import sys
import tempfile
import urllib.request


def state(base):
    with urllib.request.urlopen(base + '/state', timeout=5) as answer:
        return json.load(answer)


def main():
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 200000
    server = subprocess.Popen([sys.argv[1], '--listen', '127.0.0.1:0'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
    base = 'http://' + server.stdout.readline().split()[1]
    server.stdout.readline()
    with tempfile.NamedTemporaryFile() as body:
        body.write(b'\x00\x00\x00\x00\x07\x0a\x05hello')
        body.flush()
        for connections, streams in ((1, 1), (1, 32), (8, 32)):
            n = calls if streams > 1 else calls // 10
            before = state(base)['cpu_us']
            done = subprocess.run(
                ['h2load', '-n', str(n), '-c', str(connections), '-m', str(streams), '-d', body.name,
                 '-H', 'content-type: application/grpc', '-H', 'te: trailers', base + '/pawl.test.v1.Echo/Unary'],
                stdout=subprocess.PIPE, text=True, check=True)
            cpu = state(base)['cpu_us'] - before
            line = next(x for x in done.stdout.splitlines() if x.startswith('finished'))
            good = next(x for x in done.stdout.splitlines() if x.startswith('status codes'))
            print(f'{connections} connections, {streams} calls at once: {cpu / n:.2f} µs of CPU a call; {line}; {good}')
    server.stdin.close()
    server.wait()


main()
