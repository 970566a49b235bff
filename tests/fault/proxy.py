"""proxy: a bad network between a process and its PostgreSQL.

It relays, and when told to: cuts connections around a commit, holds everything back without closing, and loses
notifications. It knows just enough of the protocol for that: a client's transaction is sent when its Sync is, the answer
to it ends with ReadyForQuery, and NotificationResponse is a message of type A.
"""

import asyncio

from relay import CHUNK, Relay

SYNC = b'S\0\0\0\4'
READY_LEN = 6
CUT_DELAY_S = 0.004  # up to this long after the Sync, which is about what a commit takes


class Proxy(Relay):
    def __init__(self, directory, server, seed):
        """directory: for clients to connect to; server: the directory of the real socket."""
        super().__init__(directory + '/.s.PGSQL.5432', seed)
        self.server = server + '/.s.PGSQL.5432'
        self.cut_share = 0.0
        self.losing = False  # notifications

    async def serve(self, reader, writer):
        link = Link(self, reader, writer)
        try:
            link.server_reader, link.server_writer = await asyncio.open_unix_connection(self.server)
            await asyncio.wait([asyncio.create_task(link.up()), asyncio.create_task(link.down())],
                               return_when=asyncio.FIRST_COMPLETED)
        except (OSError, asyncio.CancelledError):
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
        self.proxy.count(what)

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
