"""Calls with python grpcio, a client written in C++: answers, statuses, deadlines, cancellation, streams, limits."""

import os
import socket
import sys
import threading
import time

from harness import TIMEOUT_S, Raw, Scratch, Server, patiently, run, skip_all, until

try:
    import grpc
except ImportError:
    skip_all('python3-grpcio is not installed')

import echo_pb2
import health_pb2
import reflection_pb2

STUBS = {
    'Unary': (echo_pb2.UnaryRequest, echo_pb2.UnaryResponse),
    'Count': (echo_pb2.CountRequest, echo_pb2.CountResponse),
}
UNLIMITED = [('grpc.max_receive_message_length', -1), ('grpc.max_send_message_length', -1)]


def channel(server, options=UNLIMITED, target=None):
    return grpc.insecure_channel(target or server.address, options=list(options))


def unary(chan):
    return chan.unary_unary('/pawl.test.v1.Echo/Unary', echo_pb2.UnaryRequest.SerializeToString,
                            echo_pb2.UnaryResponse.FromString)


def count(chan):
    return chan.unary_stream('/pawl.test.v1.Echo/Count', echo_pb2.CountRequest.SerializeToString,
                             echo_pb2.CountResponse.FromString)


def fails(call, code, *words):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, f'{error.code()}: {error.details()}'
        for word in words:
            assert word in error.details(), error.details()
        return error
    raise AssertionError(f'no {code}')


def test_unary():
    """a unary call is answered"""
    with Server() as server, channel(server) as chan:
        answer = unary(chan)(echo_pb2.UnaryRequest(text='grüße', data=b'\0\xff'), timeout=TIMEOUT_S,
                             metadata=[('authorization', 'Bearer x')])
        assert (answer.text, answer.data, answer.authorization) == ('grüße', b'\0\xff', 'Bearer x'), answer
        assert answer.address.startswith('127.0.0.1:')


def test_addresses():
    """IPv6 and unix sockets are served too"""
    with Scratch() as scratch:
        path = scratch + '/s'
        listen = ['unix:' + path]
        if socket.has_ipv6 and os.path.exists('/proc/net/if_inet6'):
            listen.append('[::1]:0')
        with Server(listen=listen) as server:
            assert os.stat(path).st_mode & 0o777 == 0o600
            for address in server.addresses:
                with channel(server, target=address) as chan:
                    assert unary(chan)(echo_pb2.UnaryRequest(text='x'), timeout=TIMEOUT_S).text == 'x'
        assert not os.path.exists(path), 'the socket was left behind'


def test_later():
    """a call may be answered later, and others overtake it"""
    def scene(delay_ms):
        with Server() as server, channel(server) as chan:
            slow = unary(chan).future(echo_pb2.UnaryRequest(text='slow', delay_ms=delay_ms), timeout=TIMEOUT_S)
            assert unary(chan)(echo_pb2.UnaryRequest(text='fast'), timeout=TIMEOUT_S).text == 'fast'
            assert not slow.done()
            assert slow.result().text == 'slow'
    patiently(scene, 300, 2000, 8000)


def test_status():
    """every status reaches the client, its message intact"""
    text = 'no: 100 % "ÿ"\n\tagain €'
    with Server() as server, channel(server) as chan:
        for code in grpc.StatusCode:
            if code is grpc.StatusCode.OK:
                continue
            request = echo_pb2.UnaryRequest(status=code.value[0], text=text)
            error = fails(lambda r=request: unary(chan)(r, timeout=TIMEOUT_S), code)
            assert error.details() == text, error.details()


def test_unknown_method():
    """an unknown method is UNIMPLEMENTED and says which"""
    with Server() as server, channel(server) as chan:
        fails(lambda: chan.unary_unary('/no.Such/Method')(b'', timeout=TIMEOUT_S), grpc.StatusCode.UNIMPLEMENTED,
              '/no.Such/Method')


def test_deadline():
    """a deadline ends a call on the server, which is told"""
    with Server() as server, channel(server) as chan:
        fails(lambda: unary(chan)(echo_pb2.UnaryRequest(never=True), timeout=0.2), grpc.StatusCode.DEADLINE_EXCEEDED)
        until(lambda: server.state()['held'] == 0, 'the handler was not told')
        assert server.state()['gone'] == 1


def test_cancel():
    """cancelling a call tells its handler"""
    with Server() as server, channel(server) as chan:
        call = unary(chan).future(echo_pb2.UnaryRequest(never=True))
        until(lambda: server.state()['held'] == 1, 'the call did not arrive')
        call.cancel()
        until(lambda: server.state()['gone'] == 1, 'the handler was not told')


def test_connection_lost():
    """a lost connection cancels its calls"""
    with Server() as server:
        chan = channel(server)
        calls = [unary(chan).future(echo_pb2.UnaryRequest(never=True)) for _ in range(10)]
        until(lambda: server.state()['held'] == 10, 'the calls did not arrive')
        chan.close()
        until(lambda: server.state()['held'] == 0, 'the handlers were not told')
        assert all(call.done() for call in calls)


def test_stream():
    """ten thousand messages of a stream arrive in order"""
    with Server() as server, channel(server) as chan:
        numbers = [m.number for m in count(chan)(echo_pb2.CountRequest(messages=10000, size=10), timeout=TIMEOUT_S)]
        assert numbers == list(range(1, 10001))


def test_slow_reader():
    """a reader that stops holds up only itself, in bounded memory"""
    with Server() as server, channel(server) as other:
        unary(other)(echo_pb2.UnaryRequest(text='warm'), timeout=TIMEOUT_S)
        before = server.rss_kb()
        with channel(server) as chan:
            # 400 MB, if anybody buffered them.
            stream = count(chan)(echo_pb2.CountRequest(messages=100000, size=4096), timeout=TIMEOUT_S)
            assert next(stream).number == 1
            until(lambda: server.state()['refused_sends'] > 0, 'the stream was never full')
            for i in range(200):
                assert unary(other)(echo_pb2.UnaryRequest(text=str(i)), timeout=TIMEOUT_S).text == str(i)
            grown = server.rss_kb() - before
            assert grown < 20000 or 'ASAN_OPTIONS' in os.environ, f'{grown} KB more'
            taken = 1
            for m in stream:
                taken += 1
                assert m.number == taken
                if taken == 10000:
                    break
            stream.cancel()
        until(lambda: server.state()['held'] == 0, 'the stream was not cancelled')


def test_sizes():
    """a message at the limit is taken, one above it is RESOURCE_EXHAUSTED"""
    limit = 1 << 20
    with Server(limits={'message_bytes': limit}) as server, channel(server) as chan:
        overhead = len(echo_pb2.UnaryRequest(data=b'x' * limit).SerializeToString()) - limit
        exact = b'x' * (limit - overhead)
        assert unary(chan)(echo_pb2.UnaryRequest(data=exact), timeout=TIMEOUT_S).data == exact
        fails(lambda: unary(chan)(echo_pb2.UnaryRequest(data=exact + b'x'), timeout=TIMEOUT_S),
              grpc.StatusCode.RESOURCE_EXHAUSTED, 'larger than the limit')
        assert len(unary(chan)(echo_pb2.UnaryRequest(answer_bytes=20 << 20), timeout=TIMEOUT_S).data) == 20 << 20


def test_gzip():
    """compressed requests are inflated, up to the limit"""
    with Server(limits={'message_bytes': 1 << 20}) as server, channel(server) as chan:
        data = b'abc' * 100000
        answer = unary(chan)(echo_pb2.UnaryRequest(data=data), timeout=TIMEOUT_S, compression=grpc.Compression.Gzip)
        assert answer.data == data
        before = server.rss_kb()
        bomb = echo_pb2.UnaryRequest(data=b'\0' * (200 << 20))
        fails(lambda: unary(chan)(bomb, timeout=TIMEOUT_S, compression=grpc.Compression.Gzip),
              grpc.StatusCode.RESOURCE_EXHAUSTED, 'inflated')
        assert server.rss_kb() - before < 30000 or 'ASAN_OPTIONS' in os.environ
        fails(lambda: unary(chan)(echo_pb2.UnaryRequest(data=data), timeout=TIMEOUT_S, compression=grpc.Compression.Deflate),
              grpc.StatusCode.UNIMPLEMENTED, 'gzip')


def test_many_parts():
    """a message of very many empty parts is refused before it fills the memory"""
    with Server() as server, channel(server) as chan:
        raw = chan.unary_unary('/pawl.test.v1.Echo/Unary')
        before = server.rss_kb()
        fails(lambda: raw(b'\x32\x00' * (2 << 20), timeout=TIMEOUT_S), grpc.StatusCode.RESOURCE_EXHAUSTED, 'small parts')
        assert server.rss_kb() - before < 80000 or 'ASAN_OPTIONS' in os.environ
        ordinary = echo_pb2.UnaryRequest(parts=[echo_pb2.Part(name='n') for _ in range(5000)])
        assert unary(chan)(ordinary, timeout=TIMEOUT_S).n_parts == 5000


def test_bad_text():
    """text that is not UTF-8, or holds a NUL, is INVALID_ARGUMENT and names the field"""
    with Server() as server, channel(server) as chan:
        raw = chan.unary_unary('/pawl.test.v1.Echo/Unary')
        for text in (b'\xff', b'a\0b', b'\xc0\x80', b'\xed\xa0\x80', b'\xf4\x90\x80\x80'):
            fails(lambda t=text: raw(b'\x0a' + bytes((len(t),)) + t, timeout=TIMEOUT_S), grpc.StatusCode.INVALID_ARGUMENT,
                  'UnaryRequest.text')
            part = b'\x0a' + bytes((len(text),)) + text
            fails(lambda p=part: raw(b'\x32' + bytes((len(p),)) + p, timeout=TIMEOUT_S), grpc.StatusCode.INVALID_ARGUMENT,
                  'Part.name')
        fails(lambda: raw(b'\x0a\x7f', timeout=TIMEOUT_S), grpc.StatusCode.INVALID_ARGUMENT, 'UnaryRequest')


def test_memory_budget():
    """requests that together hold too much memory are refused, and others go on"""
    with Server(limits={'memory_bytes': 4 << 20}) as server, channel(server) as chan:
        held = [unary(chan).future(echo_pb2.UnaryRequest(never=True, data=b'x' * (1 << 20))) for _ in range(8)]
        until(lambda: sum(call.done() for call in held) >= 4, 'nothing was refused')
        codes = {call.code() for call in held if call.done()}
        assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}, codes
        for call in held:
            call.cancel()
        until(lambda: server.metric('pawl_rpc_memory_bytes') < 1 << 20, 'the memory was not given back')
        assert unary(chan)(echo_pb2.UnaryRequest(data=b'x' * (1 << 20)), timeout=TIMEOUT_S).data


def test_concurrent():
    """many calls from many connections get their own answers"""
    with Server() as server:
        wrong = []

        def client(number):
            with grpc.insecure_channel(server.address, options=[('grpc.use_local_subchannel_pool', 1)]) as chan:
                call = unary(chan)
                futures = [(i, call.future(echo_pb2.UnaryRequest(text=f'{number}.{i}'), timeout=TIMEOUT_S))
                           for i in range(500)]
                wrong.extend(i for i, f in futures if f.result().text != f'{number}.{i}')

        threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        ended = 'pawl_rpc_ended_total{method="pawl.test.v1.Echo/Unary",code="OK"}'
        assert server.metric(ended) == 4000


def health(chan):
    check = chan.unary_unary('/grpc.health.v1.Health/Check', health_pb2.HealthCheckRequest.SerializeToString,
                             health_pb2.HealthCheckResponse.FromString)
    watch = chan.unary_stream('/grpc.health.v1.Health/Watch', health_pb2.HealthCheckRequest.SerializeToString,
                              health_pb2.HealthCheckResponse.FromString)
    return check, watch


def test_health():
    """health: Check answers, Watch follows"""
    serving, not_serving, unknown = 1, 2, 3
    with Server() as server, channel(server) as chan:
        check, watch = health(chan)
        assert check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S).status == serving
        fails(lambda: check(health_pb2.HealthCheckRequest(service='x'), timeout=TIMEOUT_S), grpc.StatusCode.NOT_FOUND, 'x')
        seen = watch(health_pb2.HealthCheckRequest(service='jobs'), timeout=TIMEOUT_S)
        assert next(seen).status == unknown
        assert server.command('serving jobs 1') == 'ok'
        assert next(seen).status == serving
        assert server.command('serving jobs 1') == 'ok'
        assert server.command('serving jobs 0') == 'ok'
        assert next(seen).status == not_serving
        seen.cancel()


def ask(chan, version, **question):
    call = chan.stream_stream(f'/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo',
                              reflection_pb2.ServerReflectionRequest.SerializeToString,
                              reflection_pb2.ServerReflectionResponse.FromString)
    return next(call(iter([reflection_pb2.ServerReflectionRequest(host='h', **question)]), timeout=TIMEOUT_S))


def test_reflection():
    """reflection: a client that knows nothing learns everything, in v1 and v1alpha"""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    with Server() as server, channel(server) as chan:
        for version in ('v1', 'v1alpha'):
            services = {s.name for s in ask(chan, version, list_services='').list_services_response.service}
            assert {'pawl.test.v1.Echo', 'grpc.health.v1.Health', f'grpc.reflection.{version}.ServerReflection'} <= services
            assert ask(chan, version, file_by_filename='no.proto').error_response.error_code == 5
            for symbol in ('pawl.test.v1.Echo', 'pawl.test.v1.Echo.Unary', 'pawl.test.v1.Part', 'pawl.v1.JobService',
                           'pawl.v1.JobState', f'grpc.reflection.{version}.ErrorResponse',
                           'grpc.health.v1.HealthCheckResponse.ServingStatus'):
                answer = ask(chan, version, file_containing_symbol=symbol)
                pool = descriptor_pool.DescriptorPool()
                for data in answer.file_descriptor_response.file_descriptor_proto:
                    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(data))
            pool = descriptor_pool.DescriptorPool()
            answer = ask(chan, version, file_containing_symbol='pawl.test.v1.Echo')
            pool.Add(descriptor_pb2.FileDescriptorProto.FromString(answer.file_descriptor_response.file_descriptor_proto[0]))
            method = pool.FindServiceByName('pawl.test.v1.Echo').FindMethodByName('Unary')
            factory = message_factory.MessageFactory(pool)
            request, response = factory.GetPrototype(method.input_type), factory.GetPrototype(method.output_type)
            call = chan.unary_unary('/pawl.test.v1.Echo/Unary', request.SerializeToString, response.FromString)
            assert call(request(text='by reflection'), timeout=TIMEOUT_S).text == 'by reflection'


def test_reflection_many():
    """many questions on one reflection stream are answered in order"""
    with Server() as server, channel(server) as chan:
        call = chan.stream_stream('/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
                                  reflection_pb2.ServerReflectionRequest.SerializeToString,
                                  reflection_pb2.ServerReflectionResponse.FromString)
        questions = [reflection_pb2.ServerReflectionRequest(file_by_filename=f'{i}') for i in range(200)]
        answers = [a.original_request.file_by_filename for a in call(iter(questions), timeout=TIMEOUT_S)]
        assert answers == [str(i) for i in range(200)]


def arrived(server, n):
    """So many calls are held, now or soon; a call that was over before it was looked at will not come again."""
    deadline = time.monotonic() + 2
    while server.state()['held'] != n:
        if time.monotonic() > deadline:
            return False
    return True


def test_graceful():
    """stopping: open calls end well, the stream that stays is told UNAVAILABLE, new calls go nowhere"""
    def scene(delay_ms):
        with Server() as server, channel(server) as chan:
            _, watch = health(chan)
            seen = watch(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
            assert next(seen).status == 1
            slow = unary(chan).future(echo_pb2.UnaryRequest(text='slow', delay_ms=delay_ms), timeout=TIMEOUT_S)
            stays = count(chan)(echo_pb2.CountRequest(messages=3, stay_open=True), timeout=TIMEOUT_S)
            assert [next(stays).number for _ in range(3)] == [1, 2, 3]
            assert arrived(server, 2), 'the calls did not arrive, or one is over'
            assert server.command(f'stop {2 * delay_ms}') == 'stopping'
            assert next(seen).status == 2
            fails(lambda: next(seen), grpc.StatusCode.UNAVAILABLE, 'stops')
            assert slow.result().text == 'slow'
            fails(lambda: next(stays), grpc.StatusCode.UNAVAILABLE, 'stops')
            assert server.process.stdout.readline().strip() == 'stopped'
            fails(lambda: unary(chan)(echo_pb2.UnaryRequest(), timeout=TIMEOUT_S), grpc.StatusCode.UNAVAILABLE)
    patiently(scene, 700, 3000, 9000)


def test_stop_at_once():
    """stopping without grace ends what is open, and nothing is left"""
    with Server() as server, channel(server) as chan:
        call = unary(chan).future(echo_pb2.UnaryRequest(never=True))
        idle = Raw(server)
        until(lambda: server.state()['held'] == 1, 'the call did not arrive')
        assert server.command('stop 0') == 'stopping'
        assert call.code() == grpc.StatusCode.UNAVAILABLE, call.code()
        assert server.process.stdout.readline().strip() == 'stopped'
        assert idle.ended()
        idle.close()


def test_age():
    """a connection that is too old is asked to come again, and no call is lost by it"""
    with Server(limits={'age_ms': 300, 'grace_ms': 30000}) as server, channel(server) as chan:
        for i in range(60):
            assert unary(chan)(echo_pb2.UnaryRequest(text=str(i), delay_ms=20), timeout=TIMEOUT_S).text == str(i)
        assert server.metric('pawl_connections_accepted_total') > 3


if __name__ == '__main__':
    sys.stdout.reconfigure(line_buffering=True)
    run(globals())
