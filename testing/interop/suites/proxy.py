"""The part of toxiproxy's HTTP interface that sarama's functional tests use, in front of one broker.

Five TCP proxies named kafka1 to kafka5 lead to the same broker. One can be closed and opened again (`enabled`), and be given two
kinds of trouble: `latency`, which delays what comes from the broker, and `reset_peer`, which resets every connection.
"""
import asyncio
import contextlib
import json
import socket
import struct
import threading

CHUNK = 65536
RESET = struct.pack('ii', 1, 0)


class Proxy:
    """One listening port that leads to the broker."""

    def __init__(self, name, port, upstream):
        self.name, self.port, self.upstream = name, port, upstream
        self.server, self.toxics, self.writers = None, [], set()

    def shown(self):
        """The proxy as toxiproxy writes it."""
        return {'name': self.name, 'listen': '127.0.0.1:%d' % self.port, 'upstream': '%s:%d' % self.upstream,
                'enabled': self.server is not None, 'toxics': self.toxics}

    async def enable(self):
        """Listens, where it does not already."""
        if self.server is None:
            self.server = await asyncio.start_server(self.accept, '127.0.0.1', self.port)

    async def disable(self):
        """Stops listening and closes what is connected."""
        if self.server is not None:
            self.server.close()
            self.server = None
        for writer in list(self.writers):
            writer.close()

    def reset_connections(self):
        """Ends every connection with a reset instead of an orderly close."""
        for writer in list(self.writers):
            with contextlib.suppress(OSError):
                writer.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()

    def delay(self):
        """Seconds that an answer is held back."""
        return sum(t['attributes'].get('latency', 0) for t in self.toxics if t['type'] == 'latency') / 1000

    async def accept(self, reader, writer):
        """Carries bytes both ways until one side ends."""
        try:
            up_reader, up_writer = await asyncio.open_connection(*self.upstream)
        except OSError:
            writer.close()
            return
        self.writers |= {writer, up_writer}
        if any(t['type'] == 'reset_peer' for t in self.toxics):
            self.reset_connections()
        try:
            await asyncio.gather(self.carry(reader, up_writer, lambda: 0), self.carry(up_reader, writer, self.delay))
        except asyncio.CancelledError:
            # The whole proxy ends.
            pass
        finally:
            self.writers -= {writer, up_writer}

    async def carry(self, reader, writer, delay):
        """One direction; a chunk leaves `delay` after it came, whatever is on its way before it."""
        clock = asyncio.get_running_loop().time
        chunks = asyncio.Queue(maxsize=64)

        async def send():
            while True:
                due, chunk = await chunks.get()
                await asyncio.sleep(max(0, due - clock()))
                if not chunk:
                    return
                writer.write(chunk)
                await writer.drain()
        sender = asyncio.ensure_future(send())
        try:
            while not sender.done():
                chunk = await reader.read(CHUNK)
                await chunks.put((clock() + delay(), chunk))
                if not chunk:
                    break
            await sender
        except OSError:
            sender.cancel()
        finally:
            writer.close()


class Toxiproxy:
    """The HTTP interface, on a thread of its own."""

    def __init__(self, port, first, upstream):
        self.port, self.loop, self.over = port, None, None
        self.proxies = {'kafka%d' % n: Proxy('kafka%d' % n, first + n - 1, upstream) for n in range(1, 6)}
        ready = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True)
        self.thread.start()
        if not ready.wait(10):
            raise OSError('the proxy cannot listen on %d, or on %d to %d' % (port, first, first + 4))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join(10)

    async def serve(self, ready):
        """Opens every port and answers until it is over."""
        self.loop, self.over = asyncio.get_running_loop(), asyncio.Event()
        for proxy in self.proxies.values():
            await proxy.enable()
        server = await asyncio.start_server(self.answer, '127.0.0.1', self.port)
        ready.set()
        await self.over.wait()
        server.close()
        for proxy in self.proxies.values():
            await proxy.disable()

    async def answer(self, reader, writer):
        """One request on one connection."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            method, path, _ = (await reader.readline()).decode().split(' ')
            length = 0
            while (line := (await reader.readline()).strip()):
                if line.lower().startswith(b'content-length:'):
                    length = int(line.split(b':')[1])
            body = json.loads(await reader.readexactly(length) or b'{}')
            status, told = await self.act(method, path, body)
            told = b'' if told is None else json.dumps(told).encode()
            head = 'HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n'
            writer.write((head % (status, len(told))).encode() + told)
            await writer.drain()
        writer.close()

    async def act(self, method, path, body):
        """What a request asks for; returns a status and what to tell."""
        parts = path.strip('/').split('/')
        if (method, parts) == ('POST', ['reset']):
            for proxy in self.proxies.values():
                proxy.toxics.clear()
                await proxy.enable()
            return 204, None
        proxy = self.proxies.get(parts[1]) if len(parts) > 1 and parts[0] == 'proxies' else None
        if proxy is None:
            return 404, {'error': 'no such proxy'}
        if method == 'POST' and parts[2:] == ['toxics']:
            proxy.toxics.append(body)
            if body['type'] == 'reset_peer':
                proxy.reset_connections()
            return 200, body
        if method == 'POST':
            await (proxy.enable() if body.get('enabled', True) else proxy.disable())
        return 200, proxy.shown()
