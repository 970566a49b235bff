"""Plain HTTP on the same port, with curl, nghttp and sockets: routes, methods, limits, pipelining, metrics."""

import os
import subprocess
import sys

from harness import DATA, END_HEADERS, END_STREAM, HEADERS, TIMEOUT_S, Raw, Scratch, Server, call_headers, frame, run, until


def curl(*args):
    done = subprocess.run(['curl', '-sS', '--max-time', str(TIMEOUT_S), *args], stdout=subprocess.PIPE, check=True)
    return done.stdout


def status(*args):
    return curl('-o', '/dev/null', '-w', '%{http_code} %{http_version}', *args).decode()


def talk(server, data, shut=True):
    """Everything the server says to these bytes."""
    s = server.connect()
    s.sendall(data)
    if shut:
        s.shutdown(1)
    got = b''
    while True:
        more = s.recv(65536)
        if not more:
            s.close()
            return got
        got += more


def test_routes():
    """health, readiness and metrics answer over HTTP/1.1 and HTTP/2"""
    with Server() as server:
        base = f'http://{server.address}'
        for flag, version in (('--http1.1', '1.1'), ('--http2-prior-knowledge', '2'), ('--http2', '1.1')):
            for path in ('/health', '/ready', '/metrics', '/health?x=1'):
                assert status(flag, base + path) == f'200 {version}', (flag, path)
            assert status(flag, base + '/nothing') == f'404 {version}'
            assert status(flag, '-X', 'DELETE', base + '/health') == f'405 {version}'
            assert status(flag, '-I', base + '/health') == f'200 {version}'
            assert status(flag, '-d', 'x', base + '/pawl.test.v1.Echo/Unary') == f'415 {version}'
        assert server.command('serving  0') == 'ok'
        assert status(base + '/ready').startswith('503')
        assert status(base + '/health').startswith('200')


def test_nghttp():
    """nghttp gets several answers on one connection"""
    with Server() as server:
        base = f'http://{server.address}'
        done = subprocess.run(['nghttp', base + '/health', base + '/ready', base + '/nothing'], stdout=subprocess.PIPE,
                              check=True, timeout=TIMEOUT_S)
        assert sorted(done.stdout.split(b'\n')) == sorted(b'ok\nready\nthere is nothing at /nothing\n'.split(b'\n'))


def test_bodies():
    """bodies come back as they were sent, up to the limit"""
    with Scratch() as scratch, Server(limits={'body_bytes': 500000}) as server:
        path = scratch + '/body'
        url = f'http://{server.address}/body/any'
        for size in (0, 1, 65536, 499999, 500000):
            data = os.urandom(size)
            with open(path, 'wb') as f:
                f.write(data)
            for args in (['--http1.1'], ['--http2-prior-knowledge'], ['--http1.1', '-H', 'transfer-encoding: chunked']):
                assert curl(*args, '--data-binary', '@' + path, url) == data, (size, args)
        with open(path, 'wb') as f:
            f.write(b'x' * 500001)
        for args in (['--http1.1'], ['--http2-prior-knowledge'], ['--http1.1', '-H', 'transfer-encoding: chunked']):
            assert status(*args, '--data-binary', '@' + path, url).startswith('413'), args


def test_pipelining():
    """requests sent without waiting are answered in order on one connection"""
    with Server() as server:
        got = talk(server, b'GET /health HTTP/1.1\r\nhost: x\r\n\r\n' * 50 +
                   b'POST /body HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello' + b'GET /nothing HTTP/1.1\r\n\r\n')
        assert got.count(b'HTTP/1.1 200 OK') == 51 and got.count(b'HTTP/1.1 404') == 1
        assert got.index(b'hello') < got.index(b'404') and server.metric('pawl_connections_accepted_total') == 2


def test_connection_close():
    """connection: close and HTTP/1.0 are heeded"""
    with Server() as server:
        for request in (b'GET /health HTTP/1.1\r\nconnection: close\r\n\r\n', b'GET /health HTTP/1.0\r\n\r\n'):
            got = talk(server, request, shut=False)
            assert got.startswith(b'HTTP/1.1 200') and b'connection: close' in got and got.endswith(b'ok\n')


def test_limits():
    """what is too large or not HTTP is refused with a reason"""
    with Server() as server:
        for request, answer in (
                (b'GET /' + b'x' * 20000 + b' HTTP/1.1\r\n\r\n', b'431'),
                (b'GET / HTTP/1.1\r\nx: ' + b'y' * 20000 + b'\r\n\r\n', b'431'),
                (b'GET / HTTP/1.1\r\n' + b'x: y\r\n' * 70 + b'\r\n', b'431'),
                (b'POST /body HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n', b'413'),
                (b'POST /body HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n', b'400'),
                (b'\0\1\2\3', b'400'),
                (b'PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n', b'400')):
            got = talk(server, request)
            assert got.startswith(b'HTTP/1.1 ' + answer) and b'connection: close' in got, (request[:40], got[:100])


def lines(n):
    return b''.join(b'data: %d\n\n' % i for i in range(1, n + 1))


def test_events():
    """a stream of events arrives whole, over HTTP/1.0, 1.1 and 2, and the connection can be used again"""
    with Server(limits={'queue_bytes': 50000}) as server:
        url = f'http://{server.address}/events'
        for flag in ('--http1.0', '--http1.1', '--http2-prior-knowledge'):
            assert curl('-N', flag, url + '?30000') == lines(30000), flag
        several = [url + '?3', url + '?2', f'http://{server.address}/health']
        for flag in ('--http1.0', '--http1.1'):  # curl 7.88 cannot use an HTTP/2 connection without TLS twice
            assert curl('-N', flag, *several) == lines(3) + lines(2) + b'ok\n'
        done = subprocess.run(['nghttp', *several], stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S)
        assert sorted(done.stdout.split()) == sorted((lines(3) + lines(2) + b'ok\n').split())
        assert server.state()['refused_sends'] > 0 and server.state()['held'] == 0
        got = talk(server, b'GET /events?2 HTTP/1.1\r\n\r\nGET /health HTTP/1.1\r\n\r\n')
        assert got.count(b'HTTP/1.1 200') == 2 and got.index(b'data: 2') < got.index(b'ok\n')
        assert status('-I', url).startswith('405')


def test_events_gone():
    """a client that leaves a stream of events is noticed, and one that does not read holds up only itself"""
    with Server(limits={'queue_bytes': 50000}) as server:
        silent, slow = server.connect(), server.connect()
        silent.sendall(b'GET /events?1+stay HTTP/1.1\r\n\r\n')
        slow.sendall(b'GET /events?999999999 HTTP/1.1\r\n\r\n')
        until(lambda: server.state()['held'] == 2 and server.state()['refused_sends'] > 0, 'they did not get going')
        assert server.metric('pawl_output_bytes') < 200000
        silent.close()
        until(lambda: server.state()['held'] == 1, 'the silent one was not noticed')
        slow.close()
        until(lambda: server.state()['held'] == 0, 'the slow one was not noticed')


def test_events_stop():
    """stopping ends streams of events properly"""
    with Server() as server:
        clients = [subprocess.Popen(['curl', '-sS', '-N', flag, f'http://{server.address}/events?3+stay'],
                                    stdout=subprocess.PIPE) for flag in ('--http1.1', '--http2-prior-knowledge')]
        until(lambda: server.state()['held'] == 2, 'they are not connected')
        assert server.command('stop 10000') == 'stopping'
        for client in clients:
            assert client.communicate(timeout=TIMEOUT_S)[0] == lines(3) and client.returncode == 0
        assert server.process.stdout.readline().strip() == 'stopped'


def test_metrics():
    """metrics are what Prometheus reads, and count calls by method and status"""
    with Server() as server:
        with Raw(server) as raw:
            for stream, path in ((1, '/pawl.test.v1.Echo/Unary'), (3, '/no/such')):
                raw.send(frame(HEADERS, END_HEADERS, stream, call_headers(path)) + frame(DATA, END_STREAM, stream, b'xx'))
                raw.status(stream)
        text = server.get('/metrics')
        seen = set()
        for line in text.splitlines():
            if line.startswith('# '):
                _, what, name, rest = line.split(' ', 3)
                assert what in ('HELP', 'TYPE') and rest
                assert what == 'HELP' or name not in seen, f'{name} twice'
                seen |= {name} if what == 'TYPE' else set()
            else:
                name, value = line.rsplit(' ', 1)
                float(value)
                family = name.split('{')[0]
                for suffix in ('_bucket', '_sum', '_count'):
                    if family.endswith(suffix) and family not in seen:
                        family = family[:-len(suffix)]
                assert family in seen, line
        assert 'pawl_rpc_ended_total{method="pawl.test.v1.Echo/Unary",code="INTERNAL"} 1' in text
        assert 'pawl_rpc_ended_total{method="unknown",code="UNIMPLEMENTED"} 1' in text
        assert 'pawl_rpc_seconds_bucket{method="pawl.test.v1.Echo/Unary",le="+Inf"} 1' in text


def test_public_address():
    """an address that others can reach is refused without TLS"""
    done = subprocess.run([os.path.join(sys.argv[1], 'echo_server'), '--listen', '0.0.0.0:0'], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 1 and b'can be reached by others' in done.stdout, done.stdout


def test_unix_taken():
    """a unix socket in use is not taken over, one left behind is"""
    with Scratch() as scratch:
        address = f'unix:{scratch}/s'
        with Server(listen=[address]) as server:
            done = subprocess.run([os.path.join(sys.argv[1], 'echo_server'), '--listen', address],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  check=False, timeout=TIMEOUT_S)
            assert done.returncode == 1 and b'another process' in done.stdout, done.stdout
            assert curl('--unix-socket', f'{scratch}/s', 'http://x/health') == b'ok\n'
            server.process.kill()
            server.process.wait()
            assert os.path.exists(f'{scratch}/s')
            with Server(listen=[address]):
                assert curl('--unix-socket', f'{scratch}/s', 'http://x/health') == b'ok\n'
            server.process.returncode = 0


def test_stop():
    """stopping closes idle connections and lets a request finish"""
    with Server() as server:
        idle = server.connect()
        idle.sendall(b'GET /health HTTP/1.1\r\n\r\n')
        assert idle.recv(4096).startswith(b'HTTP/1.1 200')
        half = server.connect()
        half.sendall(b'POST /body HTTP/1.1\r\ncontent-length: 4\r\n\r\nab')
        until(lambda: server.metric('pawl_connections_open') >= 3, 'they are not connected')
        assert server.command('stop 5000') == 'stopping'
        assert idle.recv(4096) == b''
        half.sendall(b'cd')
        assert half.recv(4096).endswith(b'abcd')
        assert half.recv(4096) == b''
        assert server.process.stdout.readline().strip() == 'stopped'
        idle.close()
        half.close()


if __name__ == '__main__':
    sys.stdout.reconfigure(line_buffering=True)
    run(globals())
