"""balancer: a bad network between the clients of servers and whichever server it chooses for each connection. It knows nothing of
what it carries. When told to it cuts connections in the middle of a write, holds everything back without closing, lets go
of all connections without a word to the other end, or passes on a few bytes at a time."""

import asyncio

from relay import CHUNK, Relay

DRIBBLE = 200         # bytes
DRIBBLE_S = 0.02      # apart
CONNECT_S = 1


class Balancer(Relay):
    def __init__(self, path, servers, seed):
        """servers: returns the paths of their sockets."""
        super().__init__(path, seed)
        self.servers = servers
        self.cut_share = 0.0
        self.dribbling = False
        self.links = set()

    def drop(self):
        """All connections there are. Also the conductor's."""
        self.loop.call_soon_threadsafe(self.drop_all)

    def drop_all(self):
        for link in list(self.links):
            self.count('let go of')
            link.close()

    async def connect(self):
        for path in self.dice.sample(self.servers(), len(self.servers())):
            try:
                return await asyncio.wait_for(asyncio.open_unix_connection(path), CONNECT_S)
            except (OSError, asyncio.TimeoutError):
                continue
        return None

    async def serve(self, reader, writer):
        try:
            server = await self.connect()
        except asyncio.CancelledError:
            server = None
        if server is None:
            writer.transport.abort()
            return
        link = Link(self, (reader, writer), server)
        self.links.add(link)
        try:
            await asyncio.wait([asyncio.create_task(link.carry(reader, server[1], False)),
                                asyncio.create_task(link.carry(server[0], writer, True))],
                               return_when=asyncio.FIRST_COMPLETED)
            await link.last_words()
        except asyncio.CancelledError:
            pass
        finally:
            self.links.discard(link)
            link.close()


class Link:
    def __init__(self, balancer, client, server):
        self.balancer = balancer
        self.writers = (client[1], server[1])

    def close(self):
        for writer in self.writers:
            writer.transport.abort()

    async def last_words(self):
        """What an end said before it closed arrives; what was cut does not."""
        for writer in self.writers:
            try:
                await asyncio.wait_for(writer.drain(), 0.1)
            except (OSError, asyncio.TimeoutError):
                pass

    async def carry(self, reader, writer, down):
        b = self.balancer
        try:
            while chunk := await reader.read(CHUNK):
                await b.flowing.wait()
                if b.cut_share and b.dice.random() < b.cut_share:
                    b.count('cut on the way to a worker' if down else 'cut on the way to a server')
                    writer.write(chunk[:b.dice.randrange(len(chunk))])
                    await asyncio.sleep(0.001)
                    self.close()
                    return
                while b.dribbling and len(chunk) > DRIBBLE:
                    writer.write(chunk[:DRIBBLE])
                    chunk = chunk[DRIBBLE:]
                    await asyncio.sleep(DRIBBLE_S)
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
