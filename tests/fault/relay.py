"""relay: what is common to the bad networks of the soak test: a unix socket that passes on to another, in a thread of its own, and
can hold everything back without closing."""

import asyncio
import random
import threading

CHUNK = 65536


class Relay:
    def __init__(self, path, seed):
        """path: for clients to connect to."""
        self.path = path
        self.dice = random.Random(seed)
        self.counts = {}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.main, daemon=True)
        self.listening = threading.Event()

    # The conductor's thread. Plain attributes are set without a lock: each is one word, read once per chunk.

    def start(self):
        self.thread.start()
        self.listening.wait()

    def hold(self, yes):
        self.loop.call_soon_threadsafe(self.flowing.clear if yes else self.flowing.set)

    def let_flow(self):
        """Whether it does; its thread takes a moment to hear of it."""
        self.hold(False)
        return self.flowing.is_set()

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    # The relay's own thread.

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

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    async def serve(self, reader, writer):
        raise NotImplementedError
