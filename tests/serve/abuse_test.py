"""Clients that behave badly: garbage, floods, silence, too much of everything. Each loses its own connection at most."""

import os
import random
import resource
import socket
import struct
import sys
import threading
import time
import zlib

from harness import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING, PREFACE,
                     PRIORITY, RST, SETTINGS, TIMEOUT_S, WINDOW, Raw, Server, call_headers, frame, literal, message,
                     patiently, run, until)


def call(raw, stream, body=b'', **headers):
    """A whole unary call in one write."""
    raw.send(frame(HEADERS, END_HEADERS, stream, call_headers(**headers)) +
             frame(DATA, END_STREAM, stream, message(body)))


class Bystander:
    """A decent client beside the bad one: its calls keep being answered, and not much slower. How slow is measured in what the
    server works meanwhile: on a busy machine a call may take long that no other client held up."""

    def __init__(self, server):
        self.server = server
        self.raw = Raw(server)
        self.worked = []  # by the server during a call, seconds
        self.times = []
        self.stop = threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self.work)

    def work(self):
        stream = 1
        self.raw.send(frame(WINDOW, 0, 0, b'\x7f\0\0\0'))
        try:
            while not self.stop.is_set():
                start, worked = time.monotonic(), cpu_s(self.server)
                call(self.raw, stream, b'\x0a\x02ok')
                while True:
                    got = self.raw.read()
                    assert got is not None, 'the connection ended'
                    if got[0] == HEADERS and got[1] & END_STREAM and got[2] == stream:
                        break
                self.times.append(time.monotonic() - start)
                self.worked.append(cpu_s(self.server) - worked)
                stream += 2
        except Exception as failure:
            self.failure = failure

    def __enter__(self):
        self.thread.start()
        until(lambda: len(self.times) > 20 or self.failure, 'the bystander does not get going')
        return self

    def __exit__(self, *exc):
        seen = len(self.times)
        until(lambda: len(self.times) > seen + 20 or self.failure, 'the bystander stands still')
        self.stop.set()
        self.thread.join()
        self.raw.close()
        if exc[0] is None:
            assert self.failure is None, self.failure
            worked, took = max(self.worked), max(self.times)
            assert worked < 1 or 'ASAN_OPTIONS' in os.environ, f'the server worked {worked:.3f} s for others during a call'
            assert took < TIMEOUT_S / 2, f'a call beside it took {took:.3f} s'


def flood(server, piece, times=50):
    """Sends a piece again and again; true when the other side has had enough."""
    with Raw(server) as raw:
        codes = []
        reader = threading.Thread(target=lambda: codes.append(raw.goaway_code()))
        reader.start()
        for _ in range(times):
            if not raw.try_send(piece):
                break
        reader.join()
        return codes[0] in (ENHANCE_YOUR_CALM, None)  # None: reset before it could be read


def test_ping_flood():
    """a flood of PING ends with ENHANCE_YOUR_CALM, others do not notice"""
    with Server() as server:
        with Bystander(server), Raw(server) as raw:
            raw.try_send(frame(PING, 0, 0, b'12345678') * 5000)
            assert raw.goaway_code() == ENHANCE_YOUR_CALM
            assert raw.ended()
        assert server.metric('pawl_connections_flooded_total') == 1


def test_settings_flood():
    """a flood of SETTINGS ends the connection, others do not notice"""
    with Server() as server:
        with Bystander(server):
            assert flood(server, frame(SETTINGS, 0, 0, struct.pack('>HI', 4, 70000)) * 1000)
        assert server.metric('pawl_connections_flooded_total') == 1


def test_empty_frames():
    """floods of frames without use end the connection"""
    with Server() as server:
        with Bystander(server):
            for piece in (frame(PRIORITY, 0, 3, b'\0\0\0\0\x10'), frame(WINDOW, 0, 0, b'\0\0\0\1')):
                assert flood(server, piece * 1000), piece
            with Raw(server) as raw:
                raw.send(frame(HEADERS, END_HEADERS, 1, call_headers()))
                raw.try_send(frame(DATA, 0, 1) * 5000)
                assert raw.goaway_code() == ENHANCE_YOUR_CALM


def test_reset_flood():
    """a flood of calls that are reset at once ends the connection, others do not notice"""
    with Server() as server, Bystander(server):
        with Raw(server) as raw:
            headers = call_headers()
            stream = 1
            alive = True
            for _ in range(200):
                piece = b''
                for _ in range(50):
                    piece += frame(HEADERS, END_HEADERS, stream, headers) + frame(RST, 0, stream, b'\0\0\0\x08')
                    stream += 2
                alive = raw.try_send(piece)
                if not alive:
                    break
            assert not alive or raw.read_until(GOAWAY) is not None
            assert raw.ended()


def test_continuation_flood():
    """headers without end are cut off"""
    with Server() as server, Bystander(server):
        with Raw(server) as raw:
            raw.send(frame(HEADERS, 0, 1, call_headers()))
            for _ in range(2000):
                if not raw.try_send(frame(CONTINUATION, 0, 1, literal('x', 'y' * 100))):
                    break
            assert raw.ended()


def test_large_headers():
    """headers above the limit: RESOURCE_EXHAUSTED for a call, 431 for plain HTTP; the connection goes on"""
    with Server() as server, Raw(server) as raw:
        big = [(f'x-{i}', 'v' * 4000) for i in range(5)]
        block = call_headers(extra=big)
        raw.send(frame(HEADERS, 0, 1, block[:16000]) + frame(CONTINUATION, END_HEADERS, 1, block[16000:]) +
                 frame(DATA, END_STREAM, 1, message(b'')))
        assert raw.status(1) == '8'
        block = call_headers(path='/health', method='GET', content_type=None, extra=big)
        raw.send(frame(HEADERS, END_STREAM, 3, block[:16000]) + frame(CONTINUATION, END_HEADERS, 3, block[16000:]))
        raw.read_until(HEADERS)
        assert raw.fields[':status'] == '431', raw.fields
        call(raw, 5, b'\x0a\x02ok')
        assert raw.status(5) == '0'


def test_header_bomb():
    """headers that refer to a large one again and again are cut off"""
    with Server() as server, Bystander(server):
        with Raw(server) as raw:
            # One entry of 4000 bytes in the table, then a byte for each time it is used.
            entry = b'\x40' + literal('x', 'v' * 4000)[1:]
            raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, call_headers() + entry))
            raw.try_send(frame(HEADERS, END_HEADERS | END_STREAM, 3, call_headers() + b'\xbe' * 16000))
            while True:
                got = raw.read()
                assert got is not None, 'the whole connection ended'
                if got[2] == 3 and got[0] in (RST, HEADERS):
                    break


def test_garbage():
    """garbage gets an error or a closed connection, never a dead server"""
    chance = random.Random(1)
    with Server() as server, Bystander(server):
        for start in (b'', PREFACE, PREFACE + frame(SETTINGS), PREFACE[:10], b'GET / HTTP/1.1\r\n', b'\x16\x03\x01'):
            for size in (1, 10, 100, 5000):
                with Raw(server, preface=False) as raw:
                    if raw.try_send(start + chance.randbytes(size)):
                        try:
                            raw.socket.shutdown(socket.SHUT_WR)
                        except OSError:
                            pass
                    assert raw.ended()


def test_mutated():
    """a valid conversation with bytes changed never kills the server"""
    chance = random.Random(2)
    valid = (PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, call_headers()) +
             frame(DATA, END_STREAM, 1, message(b'\x0a\x05hello')) + frame(PING, 0, 0, b'12345678') +
             frame(HEADERS, END_HEADERS, 3, call_headers(path='/pawl.test.v1.Echo/Count')) +
             frame(DATA, END_STREAM, 3, message(b'\x08\x05\x10\x05')) +
             frame(HEADERS, END_HEADERS | END_STREAM, 5, call_headers('/metrics', method='GET', content_type=None)))
    with Server() as server, Bystander(server):
        for _ in range(300):
            data = bytearray(valid)
            for _ in range(chance.choice((1, 2, 5, 20))):
                at = chance.randrange(len(PREFACE), len(data))
                what = chance.random()
                if what < 0.6:
                    data[at] = chance.randrange(256)
                elif what < 0.8:
                    del data[at:at + chance.randrange(20)]
                else:
                    data[at:at] = chance.randbytes(chance.randrange(20))
            with Raw(server, preface=False) as raw:
                if raw.try_send(bytes(data)):
                    try:
                        raw.socket.shutdown(socket.SHUT_WR)
                    except OSError:
                        pass
                raw.ended()


def test_framing():
    """broken messages are answered with the right status"""
    gz = zlib.compressobj(wbits=31)
    packed = gz.compress(b'\x0a\x05hello') + gz.flush()
    gzip = [('grpc-encoding', 'gzip')]
    cases = [
        (message(b'\x0a\x05hello'), [], '0'),
        (message(packed, 1), gzip, '0'),
        (message(packed, 1), [], '13'),              # compressed, and nobody said how
        (message(packed[:-3], 1), gzip, '13'),       # cut short
        (message(packed + b'x', 1), gzip, '13'),     # something behind it
        (message(b'not gzip', 1), gzip, '13'),
        (message(b'', 1), gzip, '13'),
        (message(b'x', 2), [], '13'),                # no such flag
        (b'', [], '13'),                             # no message
        (message(b'') + message(b''), [], '13'),     # one too many
        (message(b'\x0a\x05hello')[:-1], [], '13'),  # ends in the middle
        (b'\0\0', [], '13'),
        (b'\0\xff\xff\xff\xff', [], '8'),            # 4 GB
        (message(b'\x0b'), [], '3'),                 # a group
        (message(b'\x00'), [], '3'),                 # field 0
        (message(b''), [('grpc-timeout', '1x')], '3'),
        (message(b''), [('grpc-timeout', '0m')], '4'),
        (message(b''), [('grpc-encoding', 'br')], '12'),
    ]
    with Server() as server:
        for body, extra, status in cases:
            with Raw(server) as raw:
                raw.send(frame(HEADERS, END_HEADERS, 1, call_headers(extra=extra)) + frame(DATA, END_STREAM, 1, body))
                got = raw.status(1)
                assert got == status, f'{body!r}: {got}'


def test_split():
    """a conversation that arrives byte by byte is the same conversation"""
    data = frame(HEADERS, END_HEADERS, 1, call_headers()) + frame(DATA, END_STREAM, 1, message(b'\x0a\x05hello'))
    with Server() as server, Raw(server, preface=False) as raw:
        for byte in PREFACE + frame(SETTINGS) + data:
            raw.send(bytes((byte,)))
        assert b'hello' in raw.read_until(DATA)[3]
        for i in range(0, 12):  # a message in two frames, cut anywhere
            whole = message(b'\x0a\x05hello')
            stream = 3 + 2 * i
            raw.send(frame(HEADERS, END_HEADERS, stream, call_headers()) + frame(DATA, 0, stream, whole[:i]) +
                     frame(DATA, END_STREAM, stream, whole[i:]))
            assert b'hello' in raw.read_until(DATA)[3]


def test_content_type():
    """a wrong content type on a call is 415, on HTTP/2 and HTTP/1.1"""
    with Server() as server, Raw(server) as raw:
        for stream, kind in ((1, 'application/json'), (3, 'application/grpc-web'), (5, None), (7, 'application/grpc+json')):
            call(raw, stream, content_type=kind)
            raw.read_until(HEADERS)
            assert raw.fields[':status'] == '415', raw.fields
        call(raw, 9, b'\x0a\x02ok', content_type='application/grpc+proto')
        assert raw.status(9) == '0'
        s = server.connect()
        s.sendall(b'POST /pawl.test.v1.Echo/Unary HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc\r\n'
                  b'content-length: 0\r\n\r\n')
        assert s.recv(4096).startswith(b'HTTP/1.1 415')
        s.close()


def test_half_open():
    """a client that is gone without a word is found out by a PING and its calls are cancelled"""
    def scene(timeout_ms):
        with Server(limits={'keepalive_ms': 200, 'keepalive_timeout_ms': timeout_ms}) as server:
            with Raw(server) as silent, Raw(server) as alive:
                call(silent, 1, b'\x28\x01')  # never answered
                call(alive, 1, b'\x28\x01')
                until(lambda: server.state()['held'] == 2, 'the calls did not arrive')

                def answer():
                    got = alive.read_until(PING)
                    assert got is not None
                    if not got[1] & ACK:
                        alive.send(frame(PING, ACK, 0, got[3]))
                deadline = time.monotonic() + TIMEOUT_S
                while server.state()['held'] == 2:  # one answers its PINGs, the other does not even read
                    assert time.monotonic() < deadline, 'the silent one is not found out'
                    answer()
                for _ in range(5):  # the one that answers stays
                    answer()
                assert server.state()['held'] == 1
                assert server.metric('pawl_connections_timed_out_total') == 1
    patiently(scene, 300, 3000, 9000)


def test_silence():
    """a connection that says nothing, or only half of a request, is closed"""
    with Server(limits={'handshake_ms': 300}) as server:
        for start in (b'', PREFACE[:7], b'GET /health HTT', b'GET /health HTTP/1.1\r\nhost: x\r\nx'):
            with Raw(server, preface=False) as raw:
                raw.try_send(start)
                assert raw.ended()

    def idle(idle_ms):
        with Server(limits={'idle_ms': idle_ms}) as server:
            with Raw(server) as raw:
                call(raw, 1)
                assert raw.goaway_code() == 0
            with server.connect() as s:
                s.sendall(b'GET /health HTTP/1.1\r\nhost: x\r\n\r\n')
                assert s.recv(4096).startswith(b'HTTP/1.1 200')
                assert s.recv(4096) == b''
    patiently(idle, 300, 3000, 9000)


def test_slow_request():
    """a request that never ends is ended, on a connection that is otherwise alive"""
    def scene(request_ms):
        with Server(limits={'request_ms': request_ms}) as server, Raw(server) as raw:
            raw.socket.settimeout(TIMEOUT_S / 3)
            reflection = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'
            raw.send(frame(HEADERS, END_HEADERS, 1, call_headers()) + frame(DATA, 0, 1, message(b'x' * 100)[:50]) +
                     frame(HEADERS, END_HEADERS, 3, call_headers('/body', content_type=None)) +
                     frame(HEADERS, END_HEADERS, 5, call_headers(reflection)) + frame(DATA, 0, 5, message(b'\x3a\x00')))
            assert raw.read_until(DATA)[2] == 5
            assert raw.status(1) == '4'
            raw.read_until(HEADERS)
            assert raw.fields[':status'] == '408', raw.fields
            raw.send(frame(DATA, 0, 5, message(b'\x3a\x00')))
            while raw.read_until(DATA)[2] != 5:
                pass
            assert server.metric('pawl_rpc_memory_bytes') < 10000
    patiently(scene, 300, 3000, 9000)


def test_output_budget():
    """answers that nobody reads are bounded over all streams"""
    refused = 'pawl_rpc_ended_total{method="pawl.test.v1.Echo/Unary",code="RESOURCE_EXHAUSTED"}'
    with Server(limits={'output_bytes': 5 << 20}) as server, Bystander(server), Raw(server) as raw:
        for i in range(20):  # a megabyte each, behind closed windows
            call(raw, 1 + 2 * i, b'\x38\x80\x80\x40')
        until(lambda: server.metric(refused) >= 14, 'nothing was refused')
        assert server.metric('pawl_output_bytes') <= 5 << 20
        raw.socket.close()
        until(lambda: server.metric('pawl_output_bytes') < 1 << 20, 'the memory was not given back')


def test_blocked_writer():
    """a client that never reads is dropped, with bounded memory"""
    with Server(limits={'grace_ms': 500}) as server:
        with Bystander(server), Raw(server) as raw:
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.send(frame(WINDOW, 0, 0, b'\x7f\0\0\0'))
            stream = 1
            for _ in range(50):  # answers of a megabyte each, with windows wide open
                if not raw.try_send(frame(HEADERS, END_HEADERS, stream, call_headers()) +
                                    frame(WINDOW, 0, stream, b'\x7e\0\0\0') +
                                    frame(DATA, END_STREAM, stream, message(b'\x38\x80\x80\x40'))):
                    break  # it was dropped already
                stream += 2
            until(lambda: server.metric('pawl_connections_timed_out_total') == 1, 'it was never dropped')


def test_streams_max():
    """more calls at once than allowed are refused, the others go on"""
    with Server(limits={'streams_max': 10}) as server, Raw(server) as raw:
        for i in range(20):
            call(raw, 1 + 2 * i, b'\x28\x01')
        refused = 0
        while refused < 10:
            got = raw.read_until(RST)
            assert got and int.from_bytes(got[3], 'big') == 7, got  # REFUSED_STREAM
            refused += 1
        assert server.state()['held'] == 10


def test_connections_max():
    """more connections than allowed are closed at once, and room is made by those that leave"""
    with Server(limits={'connections_max': 5}) as server:
        first = [Raw(server) for _ in range(5)]
        for raw in first:
            assert raw.read_until(SETTINGS)
        with Raw(server, preface=False) as raw:
            assert raw.ended()
        first.pop(0).close()

        def room():
            with Raw(server) as raw:
                return raw.read() is not None
        until(room, 'no room was made')
        for raw in first:
            raw.close()


def test_descriptors():
    """without descriptors new connections are turned away, existing ones go on, and it recovers"""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    with Server(preexec=few) as server:
        with Raw(server) as first:
            assert first.read_until(SETTINGS)
            many = []
            for _ in range(80):
                many.append(Raw(server, preface=False))
            away = set()

            def turned_away():
                for i, raw in enumerate(many):
                    raw.socket.settimeout(0.02)
                    try:
                        if raw.socket.recv(1) == b'':
                            away.add(i)
                    except socket.timeout:
                        pass
                    except ConnectionError:
                        away.add(i)
                return len(away) > 30
            until(turned_away, 'many are turned away')
            call(first, 1, b'\x0a\x02ok')
            assert b'ok' in first.read_until(DATA)[3]
            assert worked_least(server, 0.3, 0.2) < 0.2, 'it spins'
            for raw in many:
                raw.close()

            def recovered():
                with Raw(server) as raw:
                    return raw.read() is not None
            until(recovered, 'it did not recover')
        assert server.metric('pawl_connections_refused_descriptors_total') > 0


def cpu_s(server):
    with open(f'/proc/{server.process.pid}/stat', encoding='ascii') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def worked_least(server, seconds, enough):
    """What the server works in so many seconds, in the quietest of several: what came before may not be over in the first."""
    least = None
    for _ in range(10):
        cpu = cpu_s(server)
        time.sleep(seconds)
        worked = cpu_s(server) - cpu
        least = worked if least is None else min(least, worked)
        if least < enough:
            break
    return least


def test_idle_cost():
    """a thousand idle connections cost little memory and next to no time"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2500 and hard != resource.RLIM_INFINITY:
        return 'not enough descriptors'
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2500), hard))
    with Server() as server:
        with Raw(server) as raw:
            call(raw, 1)
            raw.read_until(DATA)
        before = server.rss_kb()
        many = [Raw(server) for _ in range(1000)]
        for raw in many:
            call(raw, 1, b'\x28\x01')
        until(lambda: server.state()['held'] == 1000, 'the calls did not arrive')
        grown = server.rss_kb() - before
        print(f'# {grown} KB for 1000 connections with a call each')
        assert grown < 50000 or 'ASAN_OPTIONS' in os.environ, f'{grown} KB'
        assert worked_least(server, 0.5, 0.1) < 0.1, 'it does not idle'
        for raw in many:
            raw.close()
        until(lambda: server.state()['held'] == 0, 'the calls were not cancelled')


def test_goaway():
    """stopping: a first GOAWAY, calls that were under way are taken, a second one that names the last, then the end"""
    def scene(delay_ms):
        with Server() as server, Raw(server) as raw:
            call(raw, 1, b'\x18' + bytes((delay_ms % 128 | 128, delay_ms // 128)))  # answered after so long
            arrived = server.state()['held'] == 1
            deadline = time.monotonic() + 2
            while not arrived and time.monotonic() < deadline:
                arrived = server.state()['held'] == 1
            assert arrived, 'the call did not arrive, or is over'
            assert server.command('stop 20000') == 'stopping'
            got = raw.read_until(GOAWAY)
            assert int.from_bytes(got[3][:4], 'big') == 0x7fffffff
            call(raw, 3, b'\x0a\x02ok')  # sent before it could know
            ping = raw.read_until(PING)
            raw.send(frame(PING, ACK, 0, ping[3]))
            seen, ended = [], 0
            while True:
                got = raw.read()
                if got is None:
                    break
                if got[0] == GOAWAY:
                    seen.append(int.from_bytes(got[3][:4], 'big'))
                ended += got[0] == HEADERS and bool(got[1] & END_STREAM) and raw.fields['grpc-status'] == '0'
            assert seen == [3] and ended == 2, (seen, ended)
            assert server.process.stdout.readline().strip() == 'stopped'
    patiently(scene, 200, 1000, 4000, 8000)


def test_early_answer():
    """an answer before the end of the request is complete; who goes on sending is told to stop, at once or in a while"""
    with Server(limits={'message_bytes': 1000}) as server, Raw(server) as raw:
        for stream in (1, 3):
            raw.send(frame(HEADERS, END_HEADERS, stream, call_headers()) +
                     frame(DATA, 0, stream, b'\0\0\x10\0\0' + b'x' * 100))
            assert raw.status(stream) == '8'
            if stream == 1:
                raw.send(frame(DATA, 0, stream, b'x' * 16000) * 5)
            got = raw.read_until(RST)
            assert got[2] == stream and int.from_bytes(got[3], 'big') == 0, got


if __name__ == '__main__':
    sys.stdout.reconfigure(line_buffering=True)
    run(globals())
