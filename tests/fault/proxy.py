"""proxy: a bad network between a process and its PostgreSQL, on a Unix socket, in a thread of its own.

It relays, and when told to: cuts connections around a commit, holds everything back without closing, and loses
notifications. It knows just enough of the protocol for that: a client's transaction is sent when its Sync is, the answer
to it ends with ReadyForQuery, and NotificationResponse is a message of type A.
"""

import asyncio
import random
import threading

SYNC = b'S\0\0\0\4'
READY_LEN = 6
CHUNK = 65536
CUT_DELAY_S = 0.004  # up to this long after the Sync, which is about what a commit takes


class Proxy:
    def __init__(self, directory, server, seed):
        """directory: for clients to connect to; server: the directory of the real socket."""
        self.path = directory + '/.s.PGSQL.5432'
        self.server = server + '/.s.PGSQL.5432'
        self.dice = random.Random(seed)
        self.cut_share = 0.0
        self.losing = False  # notifications
        self.counts = {'cut before the commit': 0, 'cut during the commit': 0, 'cut before the answer': 0,
                       'notifications lost': 0}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.main, daemon=True)
        self.listening = threading.Event()

    # The conductor's thread. Plain attributes are set without a lock: each is one word, read once per chunk.

    def start(self):
        self.thread.start()
        self.listening.wait()

    def hold(self, yes):
        self.loop.call_soon_threadsafe(self.flowing.clear if yes else self.flowing.set)

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    # The proxy's own thread.

    def main(self):
        asyncio.set_event_loop(self.loop)
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.loop.run_until_complete(asyncio.start_unix_server(self.serve, self.path))
        self.listening.set()
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0.01))

    async def serve(self, reader, writer):
        link = Link(self, reader, writer)
        try:
            link.server_reader, link.server_writer = await asyncio.open_unix_connection(self.server)
            await asyncio.wait([asyncio.create_task(link.up()), asyncio.create_task(link.down())],
                               return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass
        finally:
            link.close()


class Link:
    def __init__(self, proxy, reader, writer):
        self.proxy = proxy
        self.reader, self.writer = reader, writer
        self.server_reader = self.server_writer = None
        self.cut_at_answer = False

    def close(self):
        for writer in (self.writer, self.server_writer):
            if writer:
                writer.transport.abort()

    def count(self, what):
        self.proxy.counts[what] += 1

    async def up(self):
        """From the client to the server."""
        try:
            while chunk := await self.reader.read(CHUNK):
                await self.proxy.flowing.wait()
                if chunk.endswith(SYNC) and self.proxy.dice.random() < self.proxy.cut_share:
                    how = self.proxy.dice.randrange(3)
                    if how == 0:
                        self.count('cut before the commit')
                        self.server_writer.write(chunk[:self.proxy.dice.randrange(len(chunk))])
                        return
                    if how == 1:
                        self.count('cut during the commit')
                        self.server_writer.write(chunk)
                        await asyncio.sleep(self.proxy.dice.uniform(0, CUT_DELAY_S))
                        return
                    self.cut_at_answer = True
                self.server_writer.write(chunk)
                await self.server_writer.drain()
        except OSError:
            pass

    async def down(self):
        """From the server to the client, message by message."""
        buffer = b''
        try:
            while chunk := await self.server_reader.read(CHUNK):
                await self.proxy.flowing.wait()
                buffer += chunk
                passed, buffer = self.filter(buffer)
                if self.cut_at_answer and passed:
                    self.count('cut before the answer')
                    self.writer.write(passed[:-READY_LEN])
                    await asyncio.sleep(0.001)
                    return
                self.writer.write(passed)
                await self.writer.drain()
        except OSError:
            pass

    def filter(self, buffer):
        """What goes on to the client, and what is not yet a whole message."""
        passed, at = [], 0
        while len(buffer) - at >= 5:
            end = at + 1 + int.from_bytes(buffer[at + 1:at + 5], 'big')
            if end > len(buffer):
                break
            if self.proxy.losing and buffer[at:at + 1] == b'A':
                self.count('notifications lost')
            else:
                passed.append(buffer[at:end])
            at = end
        return b''.join(passed), buffer[at:]
